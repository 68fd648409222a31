//! The call: the handler runs, what it met is settled, its effect recorded, its changes published.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::{Handler, flag};
use crate::command::table::table;
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::store::Keyspace;

/// Runs an admitted command and counts it.
pub fn call(engine: &mut Engine, caller: &mut Caller<'_>, number: u16, args: Args<'_>) {
    run(engine, caller, number, args);
    engine.metrics.command(number).calls += 1;
    engine.metrics.commands_processed += 1;
    engine.sessions[caller.session].commands += 1;
}

/// Runs a command, settles what it met and publishes what it changed.
pub(super) fn run(engine: &mut Engine, caller: &mut Caller<'_>, number: u16, args: Args<'_>) {
    let entry = table().entry(number);
    let changes = engine.keyspace.changes.dirty();
    let result = match entry.row.handler {
        Handler::Data(handler) => {
            let mut live = caller.live(engine);
            handler(&mut live, args, &mut caller.reply())
        }
        Handler::Engine(handler) => handler(engine, caller, args),
        Handler::Container => Err(CommandError::WrongArity(entry.full_name())),
    };
    if let Err(error) = result {
        engine.metrics.command(number).failed += 1;
        let line = error.line();
        engine.metrics.error(&line);
        caller.reply().error(&line);
    }
    if std::mem::take(&mut engine.scripts.has_failed) {
        engine.metrics.command(number).failed += 1;
    }
    let Keyspace {
        changes: stream,
        effects,
        ..
    } = &engine.keyspace;
    let has_effect = effects.are_heard() && stream.dirty() != changes;
    engine.keyspace.settle_noted(&engine.reading);
    if has_effect && entry.is(flag::WRITE) && !entry.is(flag::OWN_EFFECT) {
        engine.keyspace.effects.record(caller.db, args.from(0));
    }
    engine.keyspace.give_defaults(&engine.reading);
    engine.publish_changes();
}
