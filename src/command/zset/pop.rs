//! Taking members off an end of a sorted set, at once or as soon as there are some.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::{take_or_wait, timeout_ms};
use crate::command::list::MultiPop;
use crate::command::table::row::Handler::{Data, Engine as OnEngine};
use crate::command::table::row::*;
use crate::command::zset::Shape;
use crate::command::zset::combine::Records;
use crate::command::zset::range::cut;
use crate::engine::Engine;
use crate::engine::blocking::{Nothing, Wait};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;
use crate::value::zset::Direction;

/// The commands that take members off an end.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "zpopmin",
        arity: -2,
        flags: flag::WRITE | flag::FAST | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M log N) with N the number of members and M of those taken",
        summary: "Removes and returns the members with the lowest scores.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer).optional(),
        ],
        subcommands: &[],
        handler: Data(zpopmin),
    },
    Row {
        name: "zpopmax",
        arity: -2,
        flags: flag::WRITE | flag::FAST | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M log N) with N the number of members and M of those taken",
        summary: "Removes and returns the members with the highest scores.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer).optional(),
        ],
        subcommands: &[],
        handler: Data(zpopmax),
    },
    Row {
        name: "zmpop",
        arity: -4,
        flags: flag::WRITE | flag::MOVABLEKEYS | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(
            1,
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(K + M log N) with K the keys, N the members and M those taken",
        summary: "Removes members with the lowest or highest scores from the first that exists.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::one_of("where", WHERE),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zmpop),
    },
    Row {
        name: "bzpopmin",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::SORTEDSET | category::FAST | category::BLOCKING,
        keys: &[KeySpec::but_last(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(log N) with N the number of members",
        summary: "Removes the member with the lowest score from a sorted set, or waits for one.",
        args: &[
            Arg::key("key").multiple(),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(bzpopmin),
    },
    Row {
        name: "bzpopmax",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::SORTEDSET | category::FAST | category::BLOCKING,
        keys: &[KeySpec::but_last(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(log N) with N the number of members",
        summary: "Removes the member with the highest score from a sorted set, or waits for one.",
        args: &[
            Arg::key("key").multiple(),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(bzpopmax),
    },
    Row {
        name: "bzmpop",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING | flag::MOVABLEKEYS | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::SORTEDSET | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::counted(
            2,
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(K + M log N) with K the keys, N the members and M those taken",
        summary: "Removes members with the lowest or highest scores, or waits for some.",
        args: &[
            Arg::new("timeout", ArgKind::Double),
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::one_of("where", WHERE),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: OnEngine(bzmpop),
    },
];

/// Off which end ZMPOP takes members.
const WHERE: &[Arg] = &[Arg::word("min", "MIN"), Arg::word("max", "MAX")];

/// The end of a sorted set that members are taken off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

/// Takes up to `count` members off an end. None if there is no such key.
fn take(
    live: &mut Live<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Records>, CommandError> {
    let Some(zset) = live.zset_mut(key)? else {
        return Ok(None);
    };
    let zset = zset.view();
    let (len, taken) = (zset.len(), zset.len().min(count));
    let (event, ranks, first, direction) = match end {
        End::Min => (Event::ZPOPMIN, 0..taken, 0, Direction::Ascending),
        End::Max => (
            Event::ZPOPMAX,
            len - taken..len,
            len - 1,
            Direction::Descending,
        ),
    };
    let mut records = Records::default();
    for (member, score) in zset.iter(first, direction).take(taken) {
        records.push(member, score);
    }
    cut(live, key, event, |_| ranks)?;
    Ok(Some(records))
}

fn pop(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let has_count = args.len() == 3;
    let count = if has_count {
        let count = args.integer(2).ok();
        count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(CommandError::text(
                "ERR value is out of range, must be positive",
            ))?
    } else {
        1
    };
    let records = take(live, args.get(1), end, count)?.unwrap_or_default();
    // A single member that was not counted is no list of pairs.
    let shape = if has_count {
        Shape::with_scores(true, reply)
    } else {
        Shape::Flat
    };
    shape.announce(records.len(), reply);
    records.iter().for_each(|record| shape.reply(record, reply));
    Ok(())
}

fn zpopmin(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Min)
}

fn zpopmax(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Max)
}

/// The end of ZMPOP.
fn end_at(args: Args<'_>, index: usize) -> Result<End, CommandError> {
    if args.is(index, "min") {
        Ok(End::Min)
    } else if args.is(index, "max") {
        Ok(End::Max)
    } else {
        Err(CommandError::Syntax)
    }
}

/// Takes from the first of several keys that has a sorted set: the key and the members.
fn take_first<'a>(
    live: &mut Live<'_>,
    args: Args<'a>,
    pops: &MultiPop<End>,
) -> Result<Option<(&'a [u8], Records)>, CommandError> {
    for index in pops.keys.clone() {
        let key = args.get(index);
        if let Some(records) = take(live, key, pops.end, pops.count)? {
            return Ok(Some((key, records)));
        }
    }
    Ok(None)
}

/// Takes as ZMPOP does; false, and no reply, if there is nothing.
fn pop_first(
    live: &mut Live<'_>,
    args: Args<'_>,
    pops: &MultiPop<End>,
    reply: &mut Reply<'_>,
) -> Result<bool, CommandError> {
    let Some((key, records)) = take_first(live, args, pops)? else {
        return Ok(false);
    };
    reply.array(2);
    reply.bulk(key);
    Shape::Pair.announce(records.len(), reply);
    let records = records.iter();
    records.for_each(|record| Shape::Pair.reply(record, reply));
    Ok(true)
}

fn zmpop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let pops = MultiPop::parse(args, 1, end_at)?;
    if !pop_first(live, args, &pops, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// How a command waits for a sorted set, with its timeout at `timeout_at`.
fn wait(engine: &Engine, args: Args<'_>, timeout_at: usize) -> Result<Wait, CommandError> {
    Ok(Wait {
        kind: Kind::Zset,
        wants_loss: false,
        timeout_ms: timeout_ms(engine, args, timeout_at)?,
        nothing: Nothing::NullArray,
        retry_ms: None,
    })
}

fn blocking_pop(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    end: End,
) -> Result<(), CommandError> {
    let keys = 1..args.len() - 1;
    let wait = wait(engine, args, keys.end)?;
    let (waited, count) = (keys.clone(), 1);
    let pops = MultiPop { keys, end, count };
    take_or_wait(engine, caller, args, waited, wait, |live, reply| {
        let Some((key, records)) = take_first(live, args, &pops)? else {
            return Ok(false);
        };
        let pop = match end {
            End::Min => b"ZPOPMIN".as_slice(),
            End::Max => b"ZPOPMAX",
        };
        live.effect([pop, key]);
        reply.array(3);
        reply.bulk(key);
        let records = records.iter();
        records.for_each(|record| Shape::Flat.reply(record, reply));
        Ok(true)
    })
}

fn bzpopmin(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    blocking_pop(engine, caller, args, End::Min)
}

fn bzpopmax(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    blocking_pop(engine, caller, args, End::Max)
}

fn bzmpop(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let pops = MultiPop::parse(args, 2, end_at)?;
    let wait = wait(engine, args, 1)?;
    let keys = pops.keys.clone();
    take_or_wait(engine, caller, args, keys, wait, |live, reply| {
        let is_taken = pop_first(live, args, &pops, reply)?;
        if is_taken {
            live.effect([b"ZMPOP".as_slice()].into_iter().chain(args.from(2)));
        }
        Ok(is_taken)
    })
}
