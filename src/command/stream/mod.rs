//! Streams: the commands on entries. Those on consumer groups, and what describes a stream, are in
//! the modules below.
//!
//! The ids of entries are those of Redis, `time-number`; how they may be written depends on where
//! they stand.

pub mod add;
pub mod delete;
pub mod group;
pub mod info;
pub mod pending;
pub mod range;
pub mod read;

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::stream::{Entry, Id, Stream, TEXT_MAX, parse_number};

/// The commands on the stream as a whole and on single entries.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xlen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Returns the number of entries of a stream.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(xlen),
    },
    Row {
        name: "xdel",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N) for each entry deleted",
        summary: "Deletes entries of a stream by their ids.",
        args: &[Arg::key("key"), Arg::new("id", ArgKind::String).multiple()],
        subcommands: &[],
        handler: Data(xdel),
    },
    Row {
        name: "xsetid",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Sets the last id of a stream.",
        args: &[
            Arg::key("key"),
            Arg::new("last-id", ArgKind::String),
            Arg::new("entries-added", ArgKind::Integer)
                .token("ENTRIESADDED")
                .optional()
                .since("7.0.0"),
            Arg::new("max-deleted-id", ArgKind::String)
                .token("MAXDELETEDID")
                .optional()
                .since("7.0.0"),
        ],
        subcommands: &[],
        handler: Data(xsetid),
    },
];

/// An id is not looked at if it is longer.
const ID_LEN_MAX: usize = 127;

/// An id that cannot be read.
const INVALID_ID: CommandError =
    CommandError::text("ERR Invalid stream ID specified as stream command argument");

/// Reads an id at which a range may begin or end: `-` and `+` are the least and the greatest, and
/// a missing number is `missing_seq`.
///
/// # Errors
/// If it is none.
pub fn parse_id(text: &[u8], missing_seq: u64) -> Result<Id, CommandError> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => parse_strict_id(text, missing_seq),
    }
}

/// Reads an id of which the time is given at least.
///
/// # Errors
/// If it is none.
pub fn parse_strict_id(text: &[u8], missing_seq: u64) -> Result<Id, CommandError> {
    if text.len() > ID_LEN_MAX {
        return Err(INVALID_ID);
    }
    Id::parse(text, missing_seq).ok_or(INVALID_ID)
}

/// The id of an entry to be added.
#[derive(Clone, Copy, Debug)]
enum NewId {
    /// `*`
    Auto,
    /// `5-*`: the next of this time.
    At(u64),
    /// `5-1`
    Given(Id),
}

impl NewId {
    fn parse(text: &[u8]) -> Result<NewId, CommandError> {
        if text == b"*" {
            return Ok(NewId::Auto);
        }
        if let Some(ms) = text
            .strip_suffix(b"-*")
            .filter(|_| text.len() <= ID_LEN_MAX)
        {
            return parse_number(ms).map(NewId::At).ok_or(INVALID_ID);
        }
        parse_strict_id(text, 0).map(NewId::Given)
    }
}

/// The time that ids and deliveries have, in ms of Unix time.
fn now_unix_ms(live: &Live<'_>) -> i64 {
    live.reading().to_wall(live.reading().now)
}

/// Answers an id.
#[inline]
fn reply_id(reply: &mut Reply<'_>, id: Id) {
    reply.bulk(id.text(&mut [0; TEXT_MAX]));
}

/// Answers an entry.
#[inline]
fn reply_entry(reply: &mut Reply<'_>, entry: Entry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    reply_pairs(reply, entry);
}

/// Answers the fields of an entry with their values.
fn reply_pairs(reply: &mut Reply<'_>, entry: Entry<'_>) {
    reply.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        reply.bulk(field);
        reply.bulk(value);
    }
}

/// Answers up to so many entries, which are walked twice: how many there are is said first.
fn reply_entries<'s>(
    reply: &mut Reply<'_>,
    entries: impl Iterator<Item = Entry<'s>> + Clone,
    count: usize,
) {
    reply.array(entries.clone().take(count).count());
    entries
        .take(count)
        .for_each(|entry| reply_entry(reply, entry));
}

fn xlen(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live.stream(args.get(1))?.map_or(0, Stream::len);
    reply.integer(len as i64);
    Ok(())
}

fn xdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let Some(mut stream) = live.stream_mut(key)? else {
        reply.integer(0);
        return Ok(());
    };
    let ids = args.from(2).map(|id| parse_strict_id(id, 0));
    let ids = ids.collect::<Result<Vec<Id>, CommandError>>()?;
    let removed = ids.iter().filter(|id| stream.remove(**id)).count();
    if removed > 0 {
        live.changed_by(Event::XDEL, key, removed);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn xsetid(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let last_id = parse_strict_id(args.get(2), 0)?;
    let (mut entries_added, mut max_deleted_id) = (None, Id::MIN);
    let mut i = 3;
    while i < args.len() {
        let has_more = i + 1 < args.len();
        if has_more && args.is(i, "entriesadded") {
            let number = u64::try_from(args.integer(i + 1)?);
            let text = "ERR entries_added must be positive";
            entries_added = Some(number.map_err(|_| CommandError::text(text))?);
        } else if has_more && args.is(i, "maxdeletedid") {
            max_deleted_id = parse_strict_id(args.get(i + 1), 0)?;
            if last_id < max_deleted_id {
                return Err(CommandError::text(
                    "ERR The ID specified in XSETID is smaller than the provided \
                     max_deleted_entry_id",
                ));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        i += 2;
    }
    let mut stream = live.stream_mut(key)?.ok_or(CommandError::NoSuchKey)?;
    let view = stream.view();
    if last_id < view.facts().max_deleted_id {
        return Err(CommandError::text(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if let Some(last) = view.last() {
        if last_id < last.id {
            return Err(CommandError::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|added| added < view.len() as u64) {
            return Err(CommandError::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    let facts = stream.facts();
    facts.last_id = last_id;
    facts.entries_added = entries_added.unwrap_or(facts.entries_added);
    if max_deleted_id > Id::MIN {
        facts.max_deleted_id = max_deleted_id;
    }
    live.changed(Event::XSETID, key);
    reply.ok();
    Ok(())
}
