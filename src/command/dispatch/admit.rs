//! The one place that refuses: whether a request may run now, and what is said if not.

use std::borrow::Cow;

use crate::command::dispatch::Outside;
use crate::command::dispatch::args::{Args, QUOTED_LEN_MAX};
use crate::command::dispatch::caller::Caller;
use crate::command::server::introspect::unknown_subcommand;
use crate::command::table::row::flag;
use crate::command::table::{Entry, table};
use crate::command::transaction::discard_transaction;
use crate::engine::metrics::UNKNOWN_NAME_BYTES_MAX;
use crate::engine::session::{ROW_UNKNOWN, SessionKey};
use crate::engine::{Engine, PauseKind};
use crate::resp::error::CommandError;

/// Row number kept in [`crate::engine::session::Request`] for a name that is no command.
pub(in crate::command) const ROW_NONE: u16 = ROW_UNKNOWN - 1;

/// The number of the row that a request names: of a container's, the subcommand's.
#[inline]
pub(super) fn resolve(row: u16, args: Args<'_>) -> Result<u16, CommandError> {
    if row == ROW_NONE {
        return Err(unknown_command(args));
    }
    let table = table();
    let entry = table.entry(row);
    if entry.row.subcommands.is_empty() || args.len() == 1 {
        return Ok(row);
    }
    table
        .find_subcommand(row, args.get(1))
        .ok_or_else(|| unknown_subcommand(args))
}

/// The checks before a command, in Redis' order; the number of the row that is to run.
pub(super) fn admit(
    engine: &mut Engine,
    outside: &mut dyn Outside,
    key: SessionKey,
    row: u16,
    args: Args<'_>,
) -> Result<u16, CommandError> {
    let number = resolve(row, args)?;
    let entry = table().entry(number);
    if !entry.row.takes(args.len()) {
        return Err(CommandError::WrongArity(entry.full_name()));
    }
    let session = &engine.sessions[key];
    if !session.is_authenticated && !entry.is(flag::NO_AUTH) {
        return Err(CommandError::text("NOAUTH Authentication required."));
    }
    if session.multi.is_open && entry.is(flag::NO_MULTI) {
        return Err(CommandError::text(
            "ERR Command not allowed inside a transaction",
        ));
    }
    if session.is_subscriber() && !entry.is(flag::FOR_SUBSCRIBERS) {
        return Err(CommandError::owned(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            entry.full_name()
        )));
    }
    if engine.has_memory_limit() && !engine.jobs.is_loading() {
        let needs_memory = |entry: &Entry| entry.is(flag::DENYOOM);
        if would_run(engine, key, entry, needs_memory) {
            engine.make_room(outside)?;
        }
    }
    let needs_keys = |entry: &Entry| !entry.is(flag::LOADING);
    if engine.jobs.is_loading() && would_run(engine, key, entry, needs_keys) {
        return Err(CommandError::Loading);
    }
    // PING too, as in Redis: a client that asks whether all is well must be told that it is not.
    let is_refused = |entry: &Entry| entry.is(flag::WRITE | flag::NEEDS_SAVES);
    let is_failing = engine.check_writes().is_err();
    if is_failing && would_run(engine, key, entry, is_refused) {
        return engine.check_writes().map(|()| number);
    }
    if let Some(running) = &engine.scripts.running
        && !entry.is(flag::ALLOW_BUSY)
    {
        return Err(running.refusal());
    }
    Ok(number)
}

/// Whether CLIENT PAUSE holds this request back. What would be refused is refused at once.
///
/// Redis: CLIENT PAUSE ALL holds CLIENT UNPAUSE back as well, so nobody can take a mistake back.
#[cold]
pub(super) fn is_held_back(
    engine: &mut Engine,
    outside: &mut dyn Outside,
    key: SessionKey,
    row: u16,
    args: Args<'_>,
) -> bool {
    let Ok(number) = admit(engine, outside, key, row, args) else {
        return false;
    };
    let entry = table().entry(number);
    match engine.pause.map(|pause| pause.kind) {
        None => false,
        Some(PauseKind::All) => !entry.is(flag::ENDS_PAUSE),
        Some(PauseKind::Write) => would_run(engine, key, entry, |entry| {
            entry.is(flag::WRITE | flag::MAY_REPLICATE)
        }),
    }
}

/// Whether a command is of a kind or, if it is EXEC, would run one of that kind.
fn would_run(engine: &Engine, key: SessionKey, entry: &Entry, is_it: fn(&Entry) -> bool) -> bool {
    if !entry.is(flag::RUNS_QUEUE) {
        return is_it(entry);
    }
    let mut queue = engine.sessions[key].multi.queue.iter();
    queue.any(|queued| is_it(table().entry(queued.row)))
}

/// Redis' text for a name that is no command: it echoes the first arguments.
fn unknown_command(args: Args<'_>) -> CommandError {
    let mut rest = Vec::new();
    for i in 1..args.len() {
        if rest.len() >= QUOTED_LEN_MAX {
            break;
        }
        let arg = args.quoted(i, QUOTED_LEN_MAX - rest.len());
        rest.extend([b"'", arg, b"' "].concat());
    }
    let name = args.quoted(0, QUOTED_LEN_MAX);
    let after = [b"', with args beginning with: ".as_slice(), &rest].concat();
    CommandError::owned([b"ERR unknown command '", name, &after].concat())
}

/// Answers a request that does not run, and breaks an open transaction; a refused EXEC ends it.
pub(super) fn refuse(engine: &mut Engine, caller: &mut Caller<'_>, row: u16, error: CommandError) {
    let mut line = error.line();
    if row != ROW_UNKNOWN {
        engine.metrics.command(row).rejected += 1;
        if table().entry(row).is(flag::RUNS_QUEUE) {
            discard_transaction(engine, caller.session);
            let why = line.strip_prefix(b"ERR ").unwrap_or(&line);
            let before = b"EXECABORT Transaction discarded because of: ".as_slice();
            line = Cow::Owned([before, why].concat());
        }
    }
    let multi = &mut engine.sessions[caller.session].multi;
    multi.is_broken |= multi.is_open;
    engine.metrics.error(&line);
    caller.reply().error(&line);
}

/// Counts and logs a command that does not exist, unless the client has not authenticated.
#[cold]
pub(in crate::command) fn note_unknown(
    engine: &mut Engine,
    key: SessionKey,
    row: u16,
    args: Args<'_>,
) {
    if !engine.sessions[key].is_authenticated {
        return;
    }
    let mut name = args.quoted(0, UNKNOWN_NAME_BYTES_MAX).to_vec();
    if row != ROW_NONE {
        name.push(b'|');
        name.extend_from_slice(args.quoted(1, UNKNOWN_NAME_BYTES_MAX));
    }
    let unknown = &mut engine.metrics.unknown;
    if let Some(name) = unknown.count(&name) {
        log::warn!("A client asked for the unknown command '{name}' (said once for each name)");
        if unknown.is_log_full() {
            log::warn!("Further names of unknown commands are not logged, see INFO");
        }
    }
}

/// A page can make a browser send HTTP to this port, with commands in it: its first words end the
/// connection, as in Redis.
pub(super) fn is_from_a_browser(args: Args<'_>) -> bool {
    args.is(0, "post") || args.is(0, "host:")
}
