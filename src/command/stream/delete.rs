//! XDELEX and XACKDEL: entries are deleted, and groups told of it or asked.
//!
//! Redis: an entry counts as deleted when it is not in the stream any more, and as kept when a
//! group
//! still has it to get or to acknowledge.

use std::ops::Range;

use super::add::choice_at;
use super::parse_strict_id;
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::collection::stream_of;
use crate::value::stream::{Id, References};

/// The commands that delete with a choice.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xdelex",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Stream,
        since: "8.2.0",
        complexity: "O(log N) for each id and group",
        summary: "Deletes entries of a stream, and on request what groups hold of them.",
        args: &[
            Arg::key("key"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .optional(),
            Arg::block(
                "ids",
                &[
                    Arg::new("numids", ArgKind::Integer),
                    Arg::new("id", ArgKind::String).multiple(),
                ],
            )
            .token("IDS"),
        ],
        subcommands: &[],
        handler: Data(xdelex),
    },
    Row {
        name: "xackdel",
        arity: -6,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::UPDATE | key_flag::DELETE,
        )],
        group: Group::Stream,
        since: "8.2.0",
        complexity: "O(log N) for each id and group",
        summary: "Acknowledges entries in a group and deletes them from the stream.",
        args: &[
            Arg::key("key"),
            Arg::new("group", ArgKind::String),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .optional(),
            Arg::block(
                "ids",
                &[
                    Arg::new("numids", ArgKind::Integer),
                    Arg::new("id", ArgKind::String).multiple(),
                ],
            )
            .token("IDS"),
        ],
        subcommands: &[],
        handler: Data(xackdel),
    },
];

/// What becomes of an entry, as the reply says it.
const MISSING: i64 = -1;
const DELETED: i64 = 1;
const KEPT: i64 = 2;

/// The choice and the ids, which may stand in either order.
fn parse(args: Args<'_>, first: usize) -> Result<(References, Range<usize>), CommandError> {
    let (mut choice, mut ids) = (None, None);
    let mut i = first;
    while i < args.len() {
        if let Some(found) = choice_at(args, i).filter(|_| choice.is_none()) {
            choice = Some(found);
            i += 1;
        } else if ids.is_none() && i + 1 < args.len() && args.is(i, "ids") {
            let number = args.integer(i + 1).ok().filter(|number| *number > 0);
            let number = number.and_then(|number| usize::try_from(number).ok());
            let number = number.ok_or(CommandError::text(
                "ERR Number of IDs must be a positive integer",
            ))?;
            let start = i + 2;
            if number > args.len() - start {
                return Err(CommandError::text(
                    "ERR The `numids` parameter must match the number of arguments",
                ));
            }
            i = start + number;
            ids = Some(start..i);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((choice.unwrap_or_default(), ids.ok_or(CommandError::Syntax)?))
}

/// The ids at these indices, which are looked at only if there is something to delete.
fn ids_at(args: Args<'_>, places: Range<usize>) -> Result<Vec<Id>, CommandError> {
    places.map(|at| parse_strict_id(args.get(at), 0)).collect()
}

fn answer(
    live: &mut Live<'_>,
    key: &[u8],
    outcomes: &[i64],
    changes: usize,
    deleted: usize,
    reply: &mut Reply<'_>,
) {
    if deleted > 0 {
        live.changed_by(Event::XDEL, key, deleted);
    }
    live.changed_silently(key, changes);
    reply.array(outcomes.len());
    outcomes.iter().for_each(|outcome| reply.integer(*outcome));
}

fn xdelex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    live.peek(key).map(stream_of).transpose()?;
    let (choice, ids) = parse(args, 2)?;
    let (mut outcomes, mut deleted, mut changes) = (vec![MISSING; ids.len()], 0, 0);
    if let Some(mut stream) = live.stream_mut(key)? {
        let ids = ids_at(args, ids)?;
        for (outcome, &id) in outcomes.iter_mut().zip(&ids) {
            changes += usize::from(choice == References::Delete);
            *outcome = match stream.remove_as(id, choice) {
                (false, _) => MISSING,
                (true, false) => KEPT,
                (true, true) => {
                    deleted += 1;
                    DELETED
                }
            };
        }
    }
    answer(live, key, &outcomes, changes, deleted, reply);
    Ok(())
}

fn xackdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, name) = (args.get(1), args.get(2));
    live.peek(key).map(stream_of).transpose()?;
    let (choice, ids) = parse(args, 3)?;
    let (mut outcomes, mut deleted, mut acknowledged) = (vec![MISSING; ids.len()], 0, 0);
    let found = live.stream_mut(key)?;
    let has_group = found
        .as_ref()
        .is_some_and(|stream| stream.view().groups().contains_key(name));
    if let Some(mut stream) = found.filter(|_| has_group) {
        let ids = ids_at(args, ids)?;
        for (outcome, &id) in outcomes.iter_mut().zip(&ids) {
            let is_pending = stream.edit_group(name, |group| group.acknowledge(id));
            if is_pending != Some(true) {
                continue;
            }
            acknowledged += 1;
            *outcome = match stream.remove_as(id, choice) {
                (true, false) => KEPT,
                (was_there, _) => {
                    deleted += usize::from(was_there);
                    DELETED
                }
            };
        }
    }
    answer(live, key, &outcomes, acknowledged, deleted, reply);
    Ok(())
}
