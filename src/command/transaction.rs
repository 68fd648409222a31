//! Transactions: MULTI queues commands, EXEC runs them with nobody in between and time standing
//! still, WATCH makes EXEC answer nil if a key has changed since.
//!
//! The queue belongs to the session; [`crate::command::dispatch`] fills it. What the commands of a
//! transaction change is published after each of them, in order; what that pushes to the client
//! itself follows the reply of EXEC.
//!
//! Redis: CLIENT REPLY OFF and SKIP inside a transaction leave an array that is shorter than it
//! says. Here the reply of EXEC is whole, or suppressed as a whole.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::call::call;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::{Handler, *};
use crate::engine::Engine;
use crate::engine::session::{SessionKey, Transaction};
use crate::resp::error::CommandError;

/// The commands of transactions.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "multi",
        arity: 1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::ALLOW_BUSY
            | flag::NOT_QUEUED,
        categories: category::FAST | category::TRANSACTION,
        keys: &[],
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Starts a transaction: the commands that follow are queued.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(multi),
    },
    Row {
        name: "exec",
        arity: 1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::SKIP_SLOWLOG
            | flag::LONG
            | flag::NOT_QUEUED
            | flag::RUNS_QUEUE,
        categories: category::SLOW | category::TRANSACTION,
        keys: &[],
        group: Group::Transactions,
        since: "1.2.0",
        complexity: "That of the commands in the transaction",
        summary: "Executes the queued commands, unless a watched key has changed.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(exec),
    },
    Row {
        name: "discard",
        arity: 1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::ALLOW_BUSY
            | flag::LONG
            | flag::NOT_QUEUED,
        categories: category::FAST | category::TRANSACTION,
        keys: &[],
        group: Group::Transactions,
        since: "2.0.0",
        complexity: "O(N) with N the number of queued commands",
        summary: "Ends the transaction and discards its queued commands.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(discard),
    },
    Row {
        name: "watch",
        arity: -2,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::ALLOW_BUSY
            | flag::NOT_QUEUED,
        categories: category::FAST | category::TRANSACTION,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO)],
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1) for each key",
        summary: "Watches keys: the next EXEC fails if one of them changes before.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Handler::Engine(watch),
    },
    Row {
        name: "unwatch",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST | flag::ALLOW_BUSY,
        categories: category::FAST | category::TRANSACTION,
        keys: &[],
        group: Group::Transactions,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Stops watching all watched keys.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(unwatch),
    },
];

/// Ends a client's transaction, open or not: drops what is queued, and stops watching.
pub fn discard_transaction(engine: &mut Engine, key: SessionKey) {
    engine.unwatch(key);
    engine.sessions[key].multi = Transaction::default();
}

fn multi(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    let multi = &mut engine.sessions[caller.session].multi;
    if multi.is_open {
        return Err(CommandError::text("ERR MULTI calls can not be nested"));
    }
    multi.is_open = true;
    caller.reply().ok();
    Ok(())
}

fn exec(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    let multi = &engine.sessions[caller.session].multi;
    if !multi.is_open {
        return Err(CommandError::text("ERR EXEC without MULTI"));
    }
    if multi.is_broken {
        discard_transaction(engine, caller.session);
        return Err(CommandError::text(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if multi.is_stale || engine.has_dead_watched(caller.session) {
        discard_transaction(engine, caller.session);
        caller.reply().null_array();
        return Ok(());
    }
    // Its own writes are no reason to fail any more.
    engine.unwatch(caller.session);
    let count = engine.sessions[caller.session].multi.queue.len();
    caller.reply().array(count);
    caller.may_wait = false;
    for at in 0..count {
        // The queue keeps its length, which CLIENT INFO shows.
        let queued = std::mem::take(&mut engine.sessions[caller.session].multi.queue[at]);
        let args = Args::new(queued.source(), &queued.ranges);
        call(engine, caller, queued.row, args);
    }
    caller.may_wait = true;
    discard_transaction(engine, caller.session);
    Ok(())
}

fn discard(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    if !engine.sessions[caller.session].multi.is_open {
        return Err(CommandError::text("ERR DISCARD without MULTI"));
    }
    discard_transaction(engine, caller.session);
    caller.reply().ok();
    Ok(())
}

fn watch(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let multi = &engine.sessions[caller.session].multi;
    if multi.is_open {
        return Err(CommandError::text("ERR WATCH inside MULTI is not allowed"));
    }
    // A transaction that fails in any case needs no more keys.
    if !multi.is_stale {
        args.from(1)
            .for_each(|name| engine.watch(caller.session, caller.db as u16, name));
    }
    caller.reply().ok();
    Ok(())
}

fn unwatch(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    engine.unwatch(caller.session);
    engine.sessions[caller.session].multi.is_stale = false;
    caller.reply().ok();
    Ok(())
}
