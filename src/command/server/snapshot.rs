//! Saving: SAVE, BGSAVE, LASTSAVE, SHUTDOWN.
//!
//! Redis: SAVE is refused while BGSAVE runs; here it takes the running one's place, as SHUTDOWN
//! does. BGSAVE inside a transaction takes its cut when the transaction has ended.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::Handler::Engine;
use crate::command::table::row::*;
use crate::engine::session::Closing;
use crate::resp::error::CommandError;

/// The engine, under a name that does not collide with the kind of handler.
type Server = crate::engine::Engine;

/// The commands on snapshots and the end.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "save",
        arity: 1,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::NO_ASYNC_LOADING | flag::NO_MULTI | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys in all databases",
        summary: "Saves a snapshot; all clients wait until it is written.",
        args: &[],
        subcommands: &[],
        handler: Engine(save),
    },
    Row {
        name: "bgsave",
        arity: -1,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::NO_ASYNC_LOADING,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Saves a snapshot in the background, while clients are served.",
        args: &[Arg::word("schedule", "SCHEDULE").optional().since("3.2.2")],
        subcommands: &[],
        handler: Engine(bgsave),
    },
    Row {
        name: "lastsave",
        arity: 1,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        categories: category::ADMIN | category::FAST | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns when the last snapshot was saved, as a Unix time in seconds.",
        args: &[],
        subcommands: &[],
        handler: Engine(lastsave),
    },
    Row {
        name: "shutdown",
        arity: -1,
        flags: flag::ADMIN
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::NO_MULTI
            | flag::ALLOW_BUSY
            | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) when saving, with N the number of keys in all databases; otherwise O(1)",
        summary: "Stops the server; saves a snapshot before, if save points are set.",
        args: &[
            Arg::one_of("save-selector", SAVE_SELECTOR).optional(),
            Arg::word("now", "NOW").optional().since("7.0.0"),
            Arg::word("force", "FORCE").optional().since("7.0.0"),
            Arg::word("abort", "ABORT").optional().since("7.0.0"),
        ],
        subcommands: &[],
        handler: Engine(shutdown),
    },
];

/// Whether SHUTDOWN makes a snapshot.
const SAVE_SELECTOR: &[Arg] = &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")];

fn save(engine: &mut Server, caller: &mut Caller<'_>, _args: Args<'_>) -> Result<(), CommandError> {
    engine
        .save_now()
        .map_err(|error| CommandError::owned(format!("ERR saving the snapshot failed: {error}")))?;
    caller.reply().ok();
    Ok(())
}

fn bgsave(
    engine: &mut Server,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let is_scheduling = match args.len() {
        1 => false,
        2 if args.is(1, "schedule") => true,
        _ => return Err(CommandError::Syntax),
    };
    let is_busy = engine.jobs.persistence.is_saving();
    if is_busy && !is_scheduling {
        return Err(CommandError::text(
            "ERR Background save already in progress",
        ));
    }
    // After EXEC, so that the snapshot shows all of it.
    if is_busy || !caller.may_wait {
        engine.jobs.persistence.is_scheduled = true;
        caller.reply().simple("Background saving scheduled");
        return Ok(());
    }
    let is_started = engine.begin_save().map_err(|error| {
        CommandError::owned(format!("ERR background saving could not start: {error}"))
    })?;
    engine.jobs.persistence.is_scheduled |= !is_started;
    caller.reply().simple("Background saving started");
    Ok(())
}

fn lastsave(
    engine: &mut Server,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    let at = engine.jobs.persistence.last_save_unix;
    caller.reply().integer(at);
    Ok(())
}

fn shutdown(
    engine: &mut Server,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let (mut saves, mut skips, mut is_forced, mut aborts) = (false, false, false, false);
    for i in 1..args.len() {
        match args.get(i).to_ascii_lowercase().as_slice() {
            b"save" if !skips => saves = true,
            b"nosave" if !saves => skips = true,
            // There are no replicas to wait for.
            b"now" => {}
            b"force" => is_forced = true,
            b"abort" => aborts = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    if aborts {
        return Err(if args.len() > 2 {
            CommandError::Syntax
        } else {
            CommandError::text("ERR No shutdown in progress.")
        });
    }
    let wants_save = saves || (!skips && !engine.config.save.is_empty());
    if save_for_shutdown(engine, wants_save) {
        exit(engine, 0);
    } else if is_forced {
        log::warn!("Exiting without a new snapshot, as SHUTDOWN FORCE asks.");
        exit(engine, 0);
    } else {
        return Err(CommandError::text(
            "ERR Errors trying to SHUTDOWN. Check logs.",
        ));
    }
    engine.close(caller.session, Closing::AfterReply);
    Ok(())
}

/// Saves before the end if asked to; false if that failed. A snapshot that is still being loaded is
/// on disk already.
fn save_for_shutdown(engine: &mut Server, wants_save: bool) -> bool {
    engine.abort_save();
    if !wants_save || engine.jobs.is_loading() {
        return true;
    }
    log::info!("Saving the final snapshot before exiting.");
    // What has died must not go untold.
    engine.tell_all_deaths();
    engine.save_now().is_ok()
}

fn exit(engine: &mut Server, code: i32) {
    log::info!("Mayfly is now ready to exit, bye bye...");
    engine.exit = Some(code);
}

/// What a signal to stop asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// Of a supervisor, SIGTERM for instance: stops when everything is saved.
    Terminate,
    /// Of somebody at a terminal, SIGINT: the same, and repeated after a refusal it stops without.
    Interrupt,
}

/// Saves if save points are set, and stops with exit code 0. If the save fails the server goes on,
/// and every further signal tries again; a further interrupt then stops it all the same, with
/// exit code 1. Once the server is about to stop, more signals change nothing.
pub fn request_shutdown(engine: &mut Server, signal: StopSignal) {
    if engine.exit.is_some() {
        return;
    }
    if save_for_shutdown(engine, !engine.config.save.is_empty()) {
        return exit(engine, 0);
    }
    let is_interrupt = signal == StopSignal::Interrupt;
    if is_interrupt && engine.jobs.persistence.is_interrupt_refused {
        log::error!("Exiting without a new snapshot: interrupted again after a failed save.");
        return exit(engine, 1);
    }
    engine.jobs.persistence.is_interrupt_refused |= is_interrupt;
    log::error!(
        "Error trying to save the DB, can't exit. A second SIGINT or SHUTDOWN NOSAVE exits \
         without saving."
    );
}

/// DEBUG RELOAD: saves (unless told not to), empties all databases (unless told not to) and loads
/// the snapshot. A key that is also in the file gets the file's value; a library of functions that
/// is also there is an error unless they are merged.
///
/// # Errors
/// If saving or loading fails, or if the snapshot is being loaded at the moment.
pub fn reload(
    engine: &mut Server,
    (saves, flushes, merges): (bool, bool, bool),
) -> Result<(), CommandError> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::owned(format!(
            "ERR Error trying to load the RDB dump, check server logs: {error}"
        ))
    };
    // The part that is loaded so far must not replace the whole.
    if engine.jobs.is_loading() {
        return Err(CommandError::Loading);
    }
    engine.abort_save();
    if saves {
        engine.save_now().map_err(|error| failed(&error))?;
    }
    if flushes {
        for db in 0..engine.keyspace.databases() {
            engine.touch_database(db as u16, None);
            engine.blocking.note_all(db as u16);
            engine.keyspace.flush(db, engine.reading.now);
        }
    }
    if flushes {
        return engine.load_now().map_err(|error| failed(&error));
    }
    let libraries = engine.load_keys_now().map_err(|error| failed(&error))?;
    let loaded = libraries
        .iter()
        .try_for_each(|code| engine.scripts.load_library(code, merges).map(drop));
    engine.restate();
    loaded.map_err(|error| failed(&String::from_utf8_lossy(&error.line())))
}
