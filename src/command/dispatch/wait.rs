//! What commands that may wait for a key have in common: how long, and how they begin to.
//!
//! Such a command is written as an attempt. If that finds nothing the command waits, and the same
//! attempt is made again whenever a key it waits for has changed; see [`crate::engine::blocking`].

use std::ops::Range;

use super::Outside;
use super::call::run;
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::engine::Engine;
use crate::engine::blocking::{Nothing, Ticket, Wait};
use crate::engine::session::{Queued, SessionKey};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::entry::Slot;
use crate::value::long_double::LongDouble;
use crate::value::number::{is_zero, parse_f64_saturating};

/// A timeout that ends beyond the range of time.
const OUT_OF_RANGE: CommandError = CommandError::text("ERR timeout is out of range");

/// The timeout at `index`, which is in seconds and may have a fraction, in ms rounded up; 0 is for
/// ever.
///
/// # Errors
/// If it is no number, negative, or beyond the range of time.
pub fn timeout_ms(engine: &Engine, args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    let text = args.get(index);
    let seconds = parse_f64_saturating(text)
        .and_then(|seconds| match seconds {
            // Redis reads into 80 bits, in which there is something between this and zero.
            0.0 if !is_zero(text) => {
                LongDouble::parse(text).map(|_| f64::MIN_POSITIVE.copysign(seconds))
            }
            seconds => Some(seconds),
        })
        .ok_or(CommandError::text(
            "ERR timeout is not a float or out of range",
        ))?;
    let exact = seconds * 1000.0;
    let nearest = exact.round();
    // 4.035 times 1000 is a hair more than 4035, which is no reason to wait until 4036.
    let is_whole = (exact - nearest).abs() <= exact.abs() * f64::EPSILON;
    let ms = if is_whole { nearest } else { exact.ceil() };
    if ms > i64::MAX as f64 {
        return Err(OUT_OF_RANGE);
    }
    limited_timeout_ms(engine, ms as i64)
}

/// Makes an attempt, which answers and gives true if there was something to take; if not, waits for
/// any of the keys at these indices.
///
/// # Errors
/// Those of the attempt.
pub fn take_or_wait(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    keys: Range<usize>,
    wait: Wait,
    take: impl FnOnce(&mut Live<'_>, &mut Reply<'_>) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    let mut live = caller.live(engine);
    if take(&mut live, &mut caller.reply())? {
        return Ok(());
    }
    wait_with(engine, caller, args, keys, wait, |_| None);
    Ok(())
}

/// Waits for any of the keys at these indices, because there was nothing to take: the command that
/// is tried again has other arguments in some places.
pub fn wait_with<'r>(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    keys: Range<usize>,
    wait: Wait,
    replacement: impl Fn(usize) -> Option<&'r [u8]>,
) {
    if caller.may_wait {
        // While a client waits it runs no other command, so this one stays its last.
        let row = engine.sessions[caller.session].last_command;
        let request = args.queued_replacing(row, replacement);
        let keys = keys.map(|index| args.get(index));
        return engine.block((caller.session, caller.db), request, keys, wait);
    }
    let mut reply = caller.reply();
    match wait.nothing {
        Nothing::Null => reply.null(),
        Nothing::NullArray => reply.null_array(),
        Nothing::Zero => reply.integer(0),
        Nothing::Zeros => reply.zeros(),
    }
}

/// The timeout at `index`, which is in whole milliseconds; 0 is for ever.
///
/// # Errors
/// If it is no integer, negative, or beyond the range of time.
pub fn whole_timeout_ms(
    engine: &Engine,
    args: Args<'_>,
    index: usize,
) -> Result<u64, CommandError> {
    let ms = args
        .integer(index)
        .map_err(|_| CommandError::text("ERR timeout is not an integer or out of range"))?;
    limited_timeout_ms(engine, ms)
}

fn limited_timeout_ms(engine: &Engine, ms: i64) -> Result<u64, CommandError> {
    if ms < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    if engine.reading.now.0.checked_add(ms).is_none() {
        return Err(OUT_OF_RANGE);
    }
    Ok(ms as u64)
}

/// Lets clients try again whose keys have changed. During CLIENT PAUSE they go on waiting, as what
/// they wait for would be taken from its key: their keys stay in line until the pause ends.
#[inline]
pub fn serve_waiting(engine: &mut Engine, outside: &mut dyn Outside) {
    if engine.blocking.has_ready() && engine.pause.is_none() && engine.busy.is_none() {
        serve_ready_keys(engine, outside);
    }
}

/// Serves in the order of the changes, then of arrival. What one client takes may be put where
/// another waits, so this goes on until nothing moves.
#[cold]
fn serve_ready_keys(engine: &mut Engine, outside: &mut dyn Outside) {
    while let Some((db, name)) = engine.blocking.next_ready() {
        let mut last = Ticket::default();
        while let Some((ticket, key)) = engine.blocking.next_waiting(db, &name, last) {
            last = ticket;
            let live = engine.keyspace.live(db as usize, &engine.reading);
            let kind = live.peek(&name).map(Slot::kind);
            if kind.is_none() && !engine.blocking.wants_loss() {
                break;
            }
            if let Some(request) = engine.take_request(key, kind) {
                try_again(engine, outside, key, &request);
            }
        }
    }
}

/// Runs the command of a waiting client once more.
fn try_again(engine: &mut Engine, outside: &mut dyn Outside, key: SessionKey, request: &Queued) {
    let mut output = engine.sessions[key].lend_output();
    let mark = output.mark();
    let args = Args::new(request.source(), &request.ranges);
    let mut caller = Caller::new(key, &engine.sessions[key], &mut output, outside);
    // It was counted when it came.
    run(engine, &mut caller, request.row, args);
    if !engine.still_waits(key) {
        if engine.unblock(key).is_some_and(|blocked| blocked.is_silent) {
            output.truncate_to(mark);
        }
        engine.make_ready(key);
    }
    engine.return_output(key, output);
}
