//! Lists: both ends, any index, and the commands that wait until there is something to take.
//!
//! The left end of Redis' names is the front here, the right end the back. Whatever moves an
//! element reports the push before the pop, as Redis does.

use std::ops::Range;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::{take_or_wait, timeout_ms};
use crate::command::reply_string;
use crate::command::table::row::Handler::{Data, Engine as OnEngine};
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::engine::blocking::{Nothing, Wait};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::collection::list_of;
use crate::store::edit::list::ListMut;
use crate::value::list::{ListRef, Side};
use crate::value::packed::End;
use crate::value::{Kind, StringRef};

/// The commands on lists.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "lpush",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: INSERTED,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element added",
        summary: "Adds elements to the head of a list, one after another.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(lpush),
    },
    Row {
        name: "rpush",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: INSERTED,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element added",
        summary: "Adds elements to the tail of a list.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(rpush),
    },
    Row {
        name: "lpushx",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: INSERTED,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1) for each element added",
        summary: "Adds elements to the head of a list if the list exists.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(lpushx),
    },
    Row {
        name: "rpushx",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: INSERTED,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1) for each element added",
        summary: "Adds elements to the tail of a list if the list exists.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(rpushx),
    },
    Row {
        name: "lpop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: TAKEN,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element returned",
        summary: "Removes and returns elements from the head of a list.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer)
                .optional()
                .since("6.2.0"),
        ],
        subcommands: &[],
        handler: Data(lpop),
    },
    Row {
        name: "rpop",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::LIST | category::FAST,
        keys: TAKEN,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1) for each element returned",
        summary: "Removes and returns elements from the tail of a list.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer)
                .optional()
                .since("6.2.0"),
        ],
        subcommands: &[],
        handler: Data(rpop),
    },
    Row {
        name: "llen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::LIST | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::List,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns how many elements a list has.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(llen),
    },
    Row {
        name: "lrange",
        arity: 4,
        flags: flag::READONLY,
        categories: category::READ | category::LIST | category::SLOW,
        keys: READ,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(S+N) with S the distance from the nearer end and N the number of elements",
        summary: "Returns the elements of a list between two indices, both included.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("stop", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(lrange),
    },
    Row {
        name: "lindex",
        arity: 3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::LIST | category::SLOW,
        keys: READ,
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) with N the distance of the element from the nearer end",
        summary: "Returns the element at an index of a list.",
        args: &[Arg::key("key"), Arg::new("index", ArgKind::Integer)],
        subcommands: &[],
        handler: Data(lindex),
    },
    Row {
        name: "lset",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) with N the distance of the element from the nearer end",
        summary: "Replaces the element at an index of a list.",
        args: &[
            Arg::key("key"),
            Arg::new("index", ArgKind::Integer),
            Arg::new("element", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(lset),
    },
    Row {
        name: "linsert",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: INSERTED,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(N) with N the number of elements before the pivot",
        summary: "Inserts an element before or after a given element of a list.",
        args: &[
            Arg::key("key"),
            Arg::one_of("where", BEFORE_AFTER),
            Arg::new("pivot", ArgKind::String),
            Arg::new("element", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(linsert),
    },
    Row {
        name: "lrem",
        arity: 4,
        flags: flag::WRITE | flag::LONG,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) with N the length of the list",
        summary: "Removes the elements of a list that equal a given one.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer),
            Arg::new("element", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(lrem),
    },
    Row {
        name: "ltrim",
        arity: 4,
        flags: flag::WRITE | flag::LONG,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::List,
        since: "1.0.0",
        complexity: "O(N) with N the number of elements removed",
        summary: "Trims a list to the elements between two indices.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("stop", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(ltrim),
    },
    Row {
        name: "lpos",
        arity: -3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::LIST | category::SLOW,
        keys: READ,
        group: Group::List,
        since: "6.0.6",
        complexity: "O(N) with N the number of elements compared",
        summary: "Returns the indices of the elements of a list that equal a given one.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String),
            Arg::new("rank", ArgKind::Integer).token("RANK").optional(),
            Arg::new("num-matches", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::new("len", ArgKind::Integer).token("MAXLEN").optional(),
        ],
        subcommands: &[],
        handler: Data(lpos),
    },
    Row {
        name: "lmove",
        arity: 5,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: MOVED,
        group: Group::List,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from one end of a list to an end of another list.",
        args: &[
            Arg::key("source"),
            Arg::key("destination").key_spec(1),
            Arg::one_of("wherefrom", LEFT_RIGHT),
            Arg::one_of("whereto", LEFT_RIGHT),
        ],
        subcommands: &[],
        handler: Data(lmove),
    },
    Row {
        name: "rpoplpush",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: MOVED,
        group: Group::List,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to the head of another list.",
        args: &[Arg::key("source"), Arg::key("destination").key_spec(1)],
        subcommands: &[],
        handler: Data(rpoplpush),
    },
    Row {
        name: "lmpop",
        arity: -4,
        flags: flag::WRITE | flag::MOVABLEKEYS | flag::LONG,
        categories: category::WRITE | category::LIST | category::SLOW,
        keys: &[KeySpec::counted(
            1,
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::List,
        since: "7.0.0",
        complexity: "O(N+M) with N the number of keys and M the number of elements",
        summary: "Removes and returns elements from the first of several lists that exists.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::one_of("where", LEFT_RIGHT),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(lmpop),
    },
    Row {
        name: "blpop",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::LIST | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::but_last(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::List,
        since: "2.0.0",
        complexity: "O(N) with N the number of keys",
        summary: "Removes the first element from the first list that exists, or waits for one.",
        args: &[
            Arg::key("key").multiple(),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(blpop),
    },
    Row {
        name: "brpop",
        arity: -3,
        flags: flag::WRITE | flag::BLOCKING | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::LIST | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::but_last(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::List,
        since: "2.0.0",
        complexity: "O(N) with N the number of keys",
        summary: "Removes the last element from the first list that exists, or waits for one.",
        args: &[
            Arg::key("key").multiple(),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(brpop),
    },
    Row {
        name: "blmove",
        arity: 6,
        flags: flag::WRITE | flag::DENYOOM | flag::BLOCKING | flag::OWN_EFFECT,
        categories: category::WRITE | category::LIST | category::SLOW | category::BLOCKING,
        keys: MOVED,
        group: Group::List,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from one list to another, or waits for one to come.",
        args: &[
            Arg::key("source"),
            Arg::key("destination").key_spec(1),
            Arg::one_of("wherefrom", LEFT_RIGHT),
            Arg::one_of("whereto", LEFT_RIGHT),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(blmove),
    },
    Row {
        name: "brpoplpush",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::BLOCKING | flag::OWN_EFFECT,
        categories: category::WRITE | category::LIST | category::SLOW | category::BLOCKING,
        keys: MOVED,
        group: Group::List,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to another list, or waits for one to come.",
        args: &[
            Arg::key("source"),
            Arg::key("destination").key_spec(1),
            Arg::new("timeout", ArgKind::Double),
        ],
        subcommands: &[],
        handler: OnEngine(brpoplpush),
    },
    Row {
        name: "blmpop",
        arity: -5,
        flags: flag::WRITE | flag::BLOCKING | flag::MOVABLEKEYS | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::LIST | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::counted(
            2,
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::List,
        since: "7.0.0",
        complexity: "O(N+M) with N the number of keys and M the number of elements",
        summary: "Removes elements from the first of several lists that exists, or waits for one.",
        args: &[
            Arg::new("timeout", ArgKind::Double),
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::one_of("where", LEFT_RIGHT),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: OnEngine(blmpop),
    },
];

/// An end of a list.
const LEFT_RIGHT: &[Arg] = &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")];

/// Where LINSERT inserts.
const BEFORE_AFTER: &[Arg] = &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")];

/// A list that is read.
const READ: &[KeySpec] = &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)];

/// A list to which something is added.
const INSERTED: &[KeySpec] = &[KeySpec::at(1, key_flag::RW | key_flag::INSERT)];

/// A list from which something is taken.
const TAKEN: &[KeySpec] = &[KeySpec::at(
    1,
    key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
)];

/// A list from which something is taken, and one to which it is added.
const MOVED: &[KeySpec] = &[
    KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::DELETE),
    KeySpec::at(2, key_flag::RW | key_flag::INSERT),
];

/// A count or rank so small that it has no opposite.
const OUT_OF_SYMMETRIC_RANGE: CommandError = CommandError::text(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

fn pushed(end: End) -> Event {
    match end {
        End::Front => Event::LPUSH,
        End::Back => Event::RPUSH,
    }
}

fn popped(end: End) -> Event {
    match end {
        End::Front => Event::LPOP,
        End::Back => Event::RPOP,
    }
}

/// The end that the word at `index` names.
fn end_at(args: Args<'_>, index: usize) -> Result<End, CommandError> {
    if args.is(index, "left") {
        Ok(End::Front)
    } else if args.is(index, "right") {
        Ok(End::Back)
    } else {
        Err(CommandError::Syntax)
    }
}

/// An integer whose opposite is one too.
fn symmetric(args: Args<'_>, index: usize) -> Result<i64, CommandError> {
    match args.integer(index)? {
        i64::MIN => Err(OUT_OF_SYMMETRIC_RANGE),
        value => Ok(value),
    }
}

/// What an index that may count from the back means; none if it is outside of the list.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index + len as i64 } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// What two indices that may count from the back mean: as much of the list as is between them.
fn span(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |index: i64| if index < 0 { index + len } else { index };
    let start = from_front(start).max(0);
    let stop = from_front(stop).min(len - 1);
    if start > stop {
        return 0..0;
    }
    start as usize..stop as usize + 1
}

/// Whether there is a list at a key.
fn has_list(live: &Live<'_>, key: &[u8]) -> Result<bool, CommandError> {
    let list = live.peek(key).map(list_of).transpose()?;
    Ok(list.is_some())
}

/// Adds the arguments from the third on.
fn push_all(mut list: ListMut<'_>, args: Args<'_>, end: End) -> i64 {
    args.from(2).for_each(|item| list.push(end, item));
    list.view().len() as i64
}

fn push(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let len = push_all(live.list_or_new(key)?, args, end);
    live.changed_by(pushed(end), key, args.len() - 2);
    reply.integer(len);
    Ok(())
}

fn push_to_existing(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut len = 0;
    if let Some(list) = live.list_mut(key)? {
        len = push_all(list, args, end);
        live.changed_by(pushed(end), key, args.len() - 2);
    }
    reply.integer(len);
    Ok(())
}

fn lpush(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    push(live, args, reply, End::Front)
}

fn rpush(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    push(live, args, reply, End::Back)
}

fn lpushx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    push_to_existing(live, args, reply, End::Front)
}

fn rpushx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    push_to_existing(live, args, reply, End::Back)
}

/// Reports that elements were taken from a list, and drops it if they were the last.
fn note_taken(live: &mut Live<'_>, key: &[u8], event: Event, taken: usize, is_emptied: bool) {
    live.changed_by(event, key, taken);
    if is_emptied {
        live.drop_empty(key);
    }
}

/// Takes one element and answers it; false if there is no list.
fn take_one(
    live: &mut Live<'_>,
    key: &[u8],
    end: End,
    reply: &mut Reply<'_>,
) -> Result<bool, CommandError> {
    let Some(mut list) = live.list_mut(key)? else {
        return Ok(false);
    };
    reply_string(reply, list.view().peek(end));
    list.remove_end(end, 1);
    let is_emptied = list.view().is_empty();
    note_taken(live, key, popped(end), 1, is_emptied);
    Ok(true)
}

/// Takes up to `count` elements and answers them as an array; false if there is no list.
fn take_many(
    live: &mut Live<'_>,
    key: &[u8],
    end: End,
    count: usize,
    reply: &mut Reply<'_>,
) -> Result<bool, CommandError> {
    let Some(mut list) = live.list_mut(key)? else {
        return Ok(false);
    };
    let view = list.view();
    let count = count.min(view.len());
    reply.array(count);
    let first = match end {
        End::Front => 0,
        End::Back => view.len() - count,
    };
    let items = view.range(first, count);
    match end {
        End::Front => items.for_each(|item| reply_string(reply, Some(item))),
        End::Back => items.rev().for_each(|item| reply_string(reply, Some(item))),
    }
    if count > 0 {
        list.remove_end(end, count);
        let is_emptied = list.view().is_empty();
        note_taken(live, key, popped(end), count, is_emptied);
    }
    Ok(true)
}

fn pop(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), CommandError> {
    let key = args.get(1);
    match args.len() {
        2 => {
            if !take_one(live, key, end, reply)? {
                reply.null();
            }
        }
        3 => {
            let count = args.integer(2).ok();
            let count = count.and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or(CommandError::text(
                "ERR value is out of range, must be positive",
            ))?;
            if !take_many(live, key, end, count, reply)? {
                reply.null_array();
            }
        }
        _ => {
            let name = args.text(0).to_lowercase();
            return Err(CommandError::WrongArity(name));
        }
    }
    Ok(())
}

fn lpop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Front)
}

fn rpop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Back)
}

fn llen(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live.list(args.get(1))?.map_or(0, ListRef::len);
    reply.integer(len as i64);
    Ok(())
}

fn lrange(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (start, stop) = (args.integer(2)?, args.integer(3)?);
    let Some(list) = live.list(args.get(1))? else {
        reply.array(0);
        return Ok(());
    };
    let span = span(start, stop, list.len());
    reply.array(span.len());
    list.range(span.start, span.len())
        .for_each(|item| reply_string(reply, Some(item)));
    Ok(())
}

fn lindex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let Some(list) = live.list(args.get(1))? else {
        reply.null();
        return Ok(());
    };
    let place = place(args.integer(2)?, list.len());
    reply_string(reply, place.and_then(|index| list.get(index)));
    Ok(())
}

fn lset(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut list = live.list_mut(key)?.ok_or(CommandError::NoSuchKey)?;
    let index = place(args.integer(2)?, list.view().len())
        .ok_or(CommandError::text("ERR index out of range"))?;
    list.set(index, args.get(3));
    live.changed(Event::LSET, key);
    reply.ok();
    Ok(())
}

fn linsert(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let side = if args.is(2, "before") {
        Side::Before
    } else if args.is(2, "after") {
        Side::After
    } else {
        return Err(CommandError::Syntax);
    };
    let Some(mut list) = live.list_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    if !list.insert(side, args.get(3), args.get(4)) {
        reply.integer(-1);
        return Ok(());
    }
    let len = list.view().len();
    live.changed(Event::LINSERT, key);
    reply.integer(len as i64);
    Ok(())
}

fn lrem(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let (end, limit) = match symmetric(args, 2)? {
        0 => (End::Front, usize::MAX),
        count if count > 0 => (End::Front, count as usize),
        count => (End::Back, count.unsigned_abs() as usize),
    };
    let mut removed = 0;
    if let Some(mut list) = live.list_mut(key)? {
        removed = list.remove_equal(args.get(3), limit, end);
        let is_emptied = list.view().is_empty();
        if removed > 0 {
            note_taken(live, key, Event::LREM, removed, is_emptied);
        }
    }
    reply.integer(removed as i64);
    Ok(())
}

fn ltrim(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let (start, stop) = (args.integer(2)?, args.integer(3)?);
    if let Some(mut list) = live.list_mut(key)? {
        let len = list.view().len();
        let kept = span(start, stop, len);
        if kept.len() < len {
            list.trim(kept.start, kept.len());
            note_taken(live, key, Event::LTRIM, len - kept.len(), kept.is_empty());
        } else {
            // The event comes even so, but there is nothing to save.
            live.also(Event::LTRIM, key);
        }
    }
    reply.ok();
    Ok(())
}

/// What LPOS was asked for.
struct Search {
    /// Where it begins.
    end: End,
    /// As many matches are passed over.
    skipped: usize,
    /// As many elements are compared.
    compared_max: usize,
    /// As many matches are answered, as an array; none: the first alone.
    matches_max: Option<usize>,
}

impl Search {
    fn parse(args: Args<'_>) -> Result<Search, CommandError> {
        let mut search = Search {
            end: End::Front,
            skipped: 0,
            compared_max: usize::MAX,
            matches_max: None,
        };
        for i in (3..args.len()).step_by(2) {
            if i + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            if args.is(i, "rank") {
                let rank = symmetric(args, i + 1)?;
                let nth = rank.unsigned_abs() as usize;
                search.skipped = nth.checked_sub(1).ok_or(CommandError::text(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list",
                ))?;
                search.end = if rank > 0 { End::Front } else { End::Back };
            } else if args.is(i, "count") {
                let error = CommandError::text("ERR COUNT can't be negative");
                search.matches_max = Some(Search::limit(args, i + 1, error)?);
            } else if args.is(i, "maxlen") {
                let error = CommandError::text("ERR MAXLEN can't be negative");
                search.compared_max = Search::limit(args, i + 1, error)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }

    /// A limit, of which 0 is none.
    fn limit(args: Args<'_>, index: usize, error: CommandError) -> Result<usize, CommandError> {
        let limit = args.integer(index).ok();
        match limit.and_then(|limit| usize::try_from(limit).ok()) {
            Some(0) => Ok(usize::MAX),
            Some(limit) => Ok(limit),
            None => Err(error),
        }
    }

    /// The indices of the matches, which there are fewer of than elements.
    fn run(&self, list: ListRef<'_>, wanted: &[u8]) -> Vec<i64> {
        let last = list.len() as i64 - 1;
        let limit = self.matches_max.unwrap_or(1);
        let fits = |(step, item): (usize, StringRef<'_>)| (*item == *wanted).then_some(step as i64);
        match self.end {
            End::Front => {
                let items = list.iter().take(self.compared_max).enumerate();
                let found = items.filter_map(fits).skip(self.skipped);
                found.take(limit).collect()
            }
            End::Back => {
                let items = list.iter().rev().take(self.compared_max).enumerate();
                let found = items.filter_map(fits).skip(self.skipped);
                found.take(limit).map(|step| last - step).collect()
            }
        }
    }
}

fn lpos(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let search = Search::parse(args)?;
    let list = live.list(args.get(1))?;
    let found = list.map_or_else(Vec::new, |list| search.run(list, args.get(2)));
    if search.matches_max.is_some() {
        reply.array(found.len());
        found.iter().for_each(|&index| reply.integer(index));
    } else {
        match found.first() {
            Some(&index) => reply.integer(index),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Takes an element from one list, adds it to another, or to the same, and answers it; false if
/// there is none to take.
fn move_one(
    live: &mut Live<'_>,
    (from, take): (&[u8], End),
    (to, put): (&[u8], End),
    reply: &mut Reply<'_>,
) -> Result<bool, CommandError> {
    if !has_list(live, from)? {
        return Ok(false);
    }
    // Of another type it would be too late to find out after the element is taken.
    has_list(live, to)?;
    let Some(mut list) = live.list_mut(from)? else {
        return Ok(false);
    };
    let item = list
        .view()
        .peek(take)
        .map_or(Vec::new(), |item| item.to_vec());
    list.remove_end(take, 1);
    if from == to {
        list.push(put, &item);
    } else {
        live.list_or_new(to)?.push(put, &item);
    }
    live.changed(pushed(put), to);
    live.also(popped(take), from);
    live.drop_empty(from);
    reply.bulk(&item);
    Ok(true)
}

fn lmove(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (take, put) = (end_at(args, 3)?, end_at(args, 4)?);
    if !move_one(live, (args.get(1), take), (args.get(2), put), reply)? {
        reply.null();
    }
    Ok(())
}

fn rpoplpush(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (from, to) = ((args.get(1), End::Back), (args.get(2), End::Front));
    if !move_one(live, from, to, reply)? {
        reply.null();
    }
    Ok(())
}

/// What LMPOP, ZMPOP and their like were asked for.
pub(super) struct MultiPop<E> {
    /// Where the keys are among the arguments.
    pub(super) keys: Range<usize>,
    /// The end to be taken from.
    pub(super) end: E,
    /// How many to take at most.
    pub(super) count: usize,
}

impl<E> MultiPop<E> {
    /// Reads the arguments from the number of keys on; `end_at` reads the end.
    pub(super) fn parse(
        args: Args<'_>,
        number_at: usize,
        end_at: fn(Args<'_>, usize) -> Result<E, CommandError>,
    ) -> Result<MultiPop<E>, CommandError> {
        let positive = |index, error| {
            let number = args.integer(index).ok().filter(|&number| number > 0);
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or(CommandError::text(error))
        };
        let number = positive(number_at, "ERR numkeys should be greater than 0")?;
        let first = number_at + 1;
        let end_index = first.saturating_add(number);
        if end_index >= args.len() {
            return Err(CommandError::Syntax);
        }
        let end = end_at(args, end_index)?;
        let (mut count, mut i) = (1, end_index + 1);
        if i + 1 < args.len() && args.is(i, "count") {
            count = positive(i + 1, "ERR count should be greater than 0")?;
            i += 2;
        }
        if i < args.len() {
            return Err(CommandError::Syntax);
        }
        let keys = first..end_index;
        Ok(MultiPop { keys, end, count })
    }
}

impl MultiPop<End> {
    /// Takes from the first list there is and answers its key and the elements; false if there is
    /// none.
    fn take(
        &self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<bool, CommandError> {
        let Some(key) = first_list(live, args, self.keys.clone())? else {
            return Ok(false);
        };
        reply.array(2);
        reply.bulk(key);
        take_many(live, key, self.end, self.count, reply)
    }
}

/// The first of the keys at these indices that has a list.
fn first_list<'a>(
    live: &Live<'_>,
    args: Args<'a>,
    keys: Range<usize>,
) -> Result<Option<&'a [u8]>, CommandError> {
    for index in keys {
        let key = args.get(index);
        if has_list(live, key)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn lmpop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    if !MultiPop::parse(args, 1, end_at)?.take(live, args, reply)? {
        reply.null_array();
    }
    Ok(())
}

/// How a command on lists waits.
fn wait(timeout_ms: u64, nothing: Nothing) -> Wait {
    Wait {
        kind: Kind::List,
        wants_loss: false,
        timeout_ms,
        nothing,
        retry_ms: None,
    }
}

fn blocking_pop(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    end: End,
) -> Result<(), CommandError> {
    let keys = 1..args.len() - 1;
    let wait = wait(timeout_ms(engine, args, keys.end)?, Nothing::NullArray);
    take_or_wait(engine, caller, args, keys.clone(), wait, |live, reply| {
        let Some(key) = first_list(live, args, keys)? else {
            return Ok(false);
        };
        reply.array(2);
        reply.bulk(key);
        let is_taken = take_one(live, key, end, reply)?;
        let pop = match end {
            End::Front => b"LPOP".as_slice(),
            End::Back => b"RPOP",
        };
        live.effect([pop, key]);
        Ok(is_taken)
    })
}

fn blpop(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    blocking_pop(engine, caller, args, End::Front)
}

fn brpop(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    blocking_pop(engine, caller, args, End::Back)
}

/// The word for an end.
fn word(end: End) -> &'static [u8] {
    match end {
        End::Front => b"LEFT",
        End::Back => b"RIGHT",
    }
}

fn blocking_move(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    take: End,
    put: End,
) -> Result<(), CommandError> {
    let wait = wait(timeout_ms(engine, args, args.len() - 1)?, Nothing::Null);
    take_or_wait(engine, caller, args, 1..2, wait, |live, reply| {
        let (from, to) = (args.get(1), args.get(2));
        let is_moved = move_one(live, (from, take), (to, put), reply)?;
        if is_moved {
            live.effect([b"LMOVE", from, to, word(take), word(put)]);
        }
        Ok(is_moved)
    })
}

fn blmove(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let (take, put) = (end_at(args, 3)?, end_at(args, 4)?);
    blocking_move(engine, caller, args, take, put)
}

fn brpoplpush(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    blocking_move(engine, caller, args, End::Back, End::Front)
}

fn blmpop(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let request = MultiPop::parse(args, 2, end_at)?;
    let wait = wait(timeout_ms(engine, args, 1)?, Nothing::NullArray);
    let keys = request.keys.clone();
    take_or_wait(engine, caller, args, keys, wait, |live, reply| {
        let is_taken = request.take(live, args, reply)?;
        if is_taken {
            live.effect([b"LMPOP".as_slice()].into_iter().chain(args.from(2)));
        }
        Ok(is_taken)
    })
}
