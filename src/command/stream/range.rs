//! XRANGE and XREVRANGE.

use super::{parse_id, parse_strict_id, reply_entries};
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::value::stream::Id;

/// The commands on ranges of ids.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xrange",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::STREAM | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N + M) with M the number of entries returned",
        summary: "Returns the entries of a stream in a range of ids.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::String),
            Arg::new("end", ArgKind::String),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(xrange),
    },
    Row {
        name: "xrevrange",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::STREAM | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N + M) with M the number of entries returned",
        summary: "Returns the entries of a stream in a range of ids, the last first.",
        args: &[
            Arg::key("key"),
            Arg::new("end", ArgKind::String),
            Arg::new("start", ArgKind::String),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(xrevrange),
    },
];

/// Reads the id a range begins with.
///
/// # Errors
/// If it is none, or there is none after one that is excluded.
pub(super) fn parse_start(text: &[u8]) -> Result<Id, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_strict_id(id, 0)?
            .next()
            .ok_or(CommandError::text("ERR invalid start ID for the interval")),
        _ => parse_id(text, 0),
    }
}

/// Reads the id a range ends with.
///
/// # Errors
/// If it is none, or there is none before one that is excluded.
pub(super) fn parse_end(text: &[u8]) -> Result<Id, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => parse_strict_id(id, u64::MAX)?
            .previous()
            .ok_or(CommandError::text("ERR invalid end ID for the interval")),
        _ => parse_id(text, u64::MAX),
    }
}

/// Which end of a range comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

fn range(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    order: Order,
) -> Result<(), CommandError> {
    let (first, last) = match order {
        Order::Ascending => (2, 3),
        Order::Descending => (3, 2),
    };
    let start = parse_start(args.get(first))?;
    let end = parse_end(args.get(last))?;
    let mut count = None;
    for i in (4..args.len()).step_by(2) {
        if i + 1 == args.len() || !args.is(i, "count") {
            return Err(CommandError::Syntax);
        }
        count = Some(usize::try_from(args.integer(i + 1)?).unwrap_or(0));
    }
    let Some(stream) = live.stream(args.get(1))? else {
        reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        reply.null_array();
        return Ok(());
    }
    let count = count.unwrap_or(usize::MAX);
    match order {
        Order::Ascending => reply_entries(reply, stream.range(start, end), count),
        Order::Descending => reply_entries(reply, stream.range_back(start, end), count),
    }
    Ok(())
}

fn xrange(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    range(live, args, reply, Order::Ascending)
}

fn xrevrange(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    range(live, args, reply, Order::Descending)
}
