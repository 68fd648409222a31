//! XREAD and XREADGROUP: entries that came after a given one, of several streams.
//!
//! A client that finds none may wait for them. What it is tried again with has ids in the place of
//! `$` and `+`, as they were when it came. One that reads for a group is told when that is gone.

use std::ops::Range;

use super::group::{Delivered, no_key_or_group, note_new_consumer, record_position, seen_consumer};
use super::{now_unix_ms, parse_strict_id, reply_entries, reply_entry, reply_id};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::{wait_with, whole_timeout_ms};
use crate::command::table::row::Handler::Engine as OnEngine;
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::engine::blocking::{Nothing, Wait};
use crate::resp::error::CommandError;
use crate::resp::reply::{Protocol, Reply};
use crate::store::Live;
use crate::value::Kind;
use crate::value::stream::{ConsumerGroup, ConsumerId, Delivery, Id, Stream};

/// The commands that read on.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xread",
        arity: -4,
        flags: flag::READONLY | flag::BLOCKING | flag::MOVABLEKEYS,
        categories: category::READ | category::STREAM | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::behind_word(
            "STREAMS",
            1,
            key_flag::RO | key_flag::ACCESS,
        )],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N + M) for each stream, with M the number of entries returned",
        summary: "Returns entries of streams beyond the given ids, and can wait for them.",
        args: &[
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::new("milliseconds", ArgKind::Integer)
                .token("BLOCK")
                .optional(),
            Arg::block(
                "streams",
                &[
                    Arg::key("key").multiple(),
                    Arg::new("id", ArgKind::String).multiple(),
                ],
            )
            .token("STREAMS"),
        ],
        subcommands: &[],
        handler: OnEngine(xread),
    },
    Row {
        name: "xreadgroup",
        arity: -7,
        flags: flag::WRITE | flag::BLOCKING | flag::MOVABLEKEYS | flag::OWN_EFFECT,
        categories: category::WRITE | category::STREAM | category::SLOW | category::BLOCKING,
        keys: &[KeySpec::behind_word(
            "STREAMS",
            4,
            key_flag::RO | key_flag::ACCESS,
        )],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N + M) for each stream, with M the number of entries returned",
        summary: "Returns entries of streams to a consumer of a group, and can wait for new ones.",
        args: &[
            Arg::block(
                "group-block",
                &[
                    Arg::new("group", ArgKind::String),
                    Arg::new("consumer", ArgKind::String),
                ],
            )
            .token("GROUP"),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::new("milliseconds", ArgKind::Integer)
                .token("BLOCK")
                .optional(),
            Arg::word("noack", "NOACK").optional(),
            Arg::block(
                "streams",
                &[
                    Arg::key("key").multiple(),
                    Arg::new("id", ArgKind::String).multiple(),
                ],
            )
            .token("STREAMS"),
        ],
        subcommands: &[],
        handler: OnEngine(xreadgroup),
    },
];

/// For whom entries are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// XREAD
    Anybody,
    /// XREADGROUP, and where the name of the group is, if it was said yet.
    Consumer(Option<usize>),
}

impl Reader {
    fn refuse(self, option: &str) -> Result<(), CommandError> {
        if self != Reader::Anybody {
            return Ok(());
        }
        Err(CommandError::owned(format!(
            "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        )))
    }
}

/// What XREAD or XREADGROUP was asked for.
struct Request {
    reader: Reader,
    timeout_ms: Option<u64>,
    count: usize,
    /// Nothing that is delivered becomes pending.
    is_acknowledged: bool,
    /// Where the keys are; as many ids follow.
    keys: Range<usize>,
}

impl Request {
    fn parse(engine: &Engine, args: Args<'_>, mut reader: Reader) -> Result<Request, CommandError> {
        let (mut timeout_ms, mut count, mut is_acknowledged) = (None, usize::MAX, false);
        let mut i = 1;
        while i < args.len() {
            let has_more = i + 1 < args.len();
            if has_more && args.is(i, "block") {
                timeout_ms = Some(whole_timeout_ms(engine, args, i + 1)?);
                i += 2;
            } else if has_more && args.is(i, "count") {
                let number = usize::try_from(args.integer(i + 1)?).unwrap_or(0);
                count = if number == 0 { usize::MAX } else { number };
                i += 2;
            } else if has_more && args.is(i, "streams") {
                return Ok(Request {
                    reader,
                    timeout_ms,
                    count,
                    is_acknowledged,
                    keys: keys_from(i + 1, args, reader)?,
                });
            } else if i + 2 < args.len() && args.is(i, "group") {
                reader.refuse("GROUP")?;
                reader = Reader::Consumer(Some(i + 1));
                i += 3;
            } else if args.is(i, "noack") {
                reader.refuse("NOACK")?;
                is_acknowledged = true;
                i += 1;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Err(CommandError::Syntax)
    }

    /// The ids after which entries are asked for.
    fn ids(&self, live: &Live<'_>, args: Args<'_>) -> Result<Vec<Id>, CommandError> {
        let mut ids = Vec::with_capacity(self.keys.len());
        for at in self.keys.clone() {
            let stream = live.stream(args.get(at))?;
            let last_id = stream.map_or(Id::MIN, |stream| stream.facts().last_id);
            ids.push(match args.get(at + self.keys.len()) {
                b"$" => last_id,
                b"+" => match stream.and_then(Stream::last) {
                    Some(last) => last.id.previous().unwrap_or(Id::MIN),
                    None => last_id,
                },
                b">" => {
                    return Err(CommandError::text(
                        "ERR The > ID can be specified only when calling XREADGROUP using the \
                         GROUP <group> <consumer> option.",
                    ));
                }
                text => parse_strict_id(text, 0)?,
            });
        }
        Ok(ids)
    }
}

/// Where the keys are, given where they begin; as many ids follow.
fn keys_from(first: usize, args: Args<'_>, reader: Reader) -> Result<Range<usize>, CommandError> {
    let behind = args.len() - first;
    if !behind.is_multiple_of(2) {
        return Err(CommandError::text(match reader {
            Reader::Anybody => {
                "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' \
                 must be specified."
            }
            Reader::Consumer(_) => {
                "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' \
                 must be specified."
            }
        }));
    }
    if reader == Reader::Consumer(None) {
        return Err(CommandError::text(
            "ERR Missing GROUP option for XREADGROUP",
        ));
    }
    Ok(first..first + behind / 2)
}

/// Begins the reply of so many streams with entries.
pub(super) fn begin_reply(reply: &mut Reply<'_>, streams: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(streams),
        Protocol::Resp3 => reply.map(streams),
    }
}

/// Begins the entries of one of them.
pub(super) fn begin_stream(reply: &mut Reply<'_>, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

fn xread(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let request = Request::parse(engine, args, Reader::Anybody)?;
    let live = caller.live(engine);
    let ids = request.ids(&live, args)?;
    let mut found = Vec::new();
    for (at, id) in request.keys.clone().zip(&ids) {
        let stream = live.stream(args.get(at))?;
        let entries = stream
            .zip(id.next())
            .filter(|(stream, _)| stream.facts().last_id > *id)
            .map(|(stream, start)| stream.range(start, Id::MAX));
        if let Some(entries) = entries
            && entries.clone().next().is_some()
        {
            found.push((at, entries));
        }
    }
    if !found.is_empty() {
        let mut reply = caller.reply();
        begin_reply(&mut reply, found.len());
        for (at, entries) in found {
            begin_stream(&mut reply, args.get(at));
            reply_entries(&mut reply, entries, request.count);
        }
        return Ok(());
    }
    let Some(timeout_ms) = request.timeout_ms else {
        caller.reply().null_array();
        return Ok(());
    };
    let wait = Wait {
        kind: Kind::Stream,
        wants_loss: false,
        timeout_ms,
        nothing: Nothing::NullArray,
    };
    let ids: Vec<String> = ids.iter().map(Id::to_string).collect();
    let first_id = request.keys.end;
    let replacement = |index: usize| Some(ids.get(index.checked_sub(first_id)?)?.as_bytes());
    wait_with(engine, caller, args, request.keys, wait, replacement);
    Ok(())
}

/// What a consumer asks a stream for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// What was delivered to nobody yet.
    New,
    /// What was delivered to it after an id.
    History(Id),
}

/// What XREADGROUP found in one stream.
struct Found {
    /// Where its key is.
    at: usize,
    part: Part,
    ids: Vec<Id>,
}

/// One XREADGROUP at work.
struct Reading<'a> {
    request: &'a Request,
    args: Args<'a>,
    group: &'a [u8],
    consumer: &'a [u8],
    unix_ms: i64,
}

impl Reading<'_> {
    /// What is asked for of each stream.
    fn parts(&self, live: &Live<'_>) -> Result<Vec<Part>, CommandError> {
        let keys = &self.request.keys;
        let mut parts = Vec::with_capacity(keys.len());
        for at in keys.clone() {
            let key = self.args.get(at);
            let stream = live.stream(key)?;
            if !stream.is_some_and(|stream| stream.groups().contains_key(self.group)) {
                let after = " in XREADGROUP with GROUP option";
                return Err(no_key_or_group(key, self.group, after));
            }
            parts.push(match self.args.get(at + keys.len()) {
                b">" => Part::New,
                b"$" => return Err(meaningless("$")),
                b"+" => return Err(meaningless("+")),
                text => match parse_strict_id(text, 0)? {
                    Id::MAX => Part::New,
                    id => Part::History(id),
                },
            });
        }
        Ok(parts)
    }

    /// Delivers what there is of one stream; none if that is nothing worth a reply.
    fn deliver(
        &self,
        live: &mut Live<'_>,
        at: usize,
        part: Part,
    ) -> Result<Option<Found>, CommandError> {
        let key = self.args.get(at);
        let mut stream = live.stream_mut(key)?.ok_or(CommandError::NoSuchKey)?;
        let done = stream.edit_group_beside(self.group, |stream, group| {
            let (consumer, is_new) = seen_consumer(group, self.consumer, self.unix_ms);
            let delivered = match part {
                Part::New => self.deliver_new(stream, group, consumer),
                Part::History(id) => self.deliver_again(stream, group, consumer, id),
            };
            if part == Part::New && !self.request.is_acknowledged && !delivered.is_empty() {
                group.consumer_mut(consumer).active_unix_ms = Some(self.unix_ms);
            }
            (is_new, delivered, group.last_id)
        });
        let (is_new, delivered, last_id) = done.ok_or(CommandError::NoSuchKey)?;
        let names = [key, self.group, self.consumer];
        if is_new {
            note_new_consumer(live, names);
        }
        self.note(live, names, part, &delivered, last_id);
        let ids: Vec<Id> = delivered.into_iter().map(|(id, _)| id).collect();
        let is_found = part != Part::New || !ids.is_empty();
        Ok(is_found.then_some(Found { at, part, ids }))
    }

    /// Delivers new entries; their ids, and how often they were delivered.
    fn deliver_new(
        &self,
        stream: &Stream,
        group: &mut ConsumerGroup,
        consumer: ConsumerId,
    ) -> Vec<(Id, u64)> {
        let mut delivered = Vec::new();
        let Some(start) = group.last_id.next() else {
            return delivered;
        };
        if stream.facts().last_id <= group.last_id {
            return delivered;
        }
        for entry in stream.range(start, Id::MAX).take(self.request.count) {
            let id = entry.id;
            group.entries_read = stream.entries_read_with(group, id);
            group.last_id = id;
            if !self.request.is_acknowledged {
                let delivery = Delivery {
                    consumer,
                    unix_ms: self.unix_ms,
                    count: 1,
                };
                group.deliver(id, delivery);
            }
            delivered.push((id, 1));
        }
        delivered
    }

    /// Delivers again what is pending; the count of an entry that is gone is 0.
    fn deliver_again(
        &self,
        stream: &Stream,
        group: &mut ConsumerGroup,
        consumer: ConsumerId,
        after: Id,
    ) -> Vec<(Id, u64)> {
        let Some(start) = after.next() else {
            return Vec::new();
        };
        let ids = group.consumer(consumer).pending_from(start);
        let ids: Vec<Id> = ids.take(self.request.count).collect();
        let mut delivered = Vec::with_capacity(ids.len());
        for id in ids {
            let mut count = 0;
            if let Some(old) = group.delivery(id).filter(|_| stream.get(id).is_some()) {
                count = old.count.saturating_add(1);
                let delivery = Delivery {
                    consumer,
                    unix_ms: self.unix_ms,
                    count,
                };
                group.deliver(id, delivery);
            }
            delivered.push((id, count));
        }
        delivered
    }

    /// Reports what was delivered.
    fn note(
        &self,
        live: &mut Live<'_>,
        names: [&[u8]; 3],
        part: Part,
        delivered: &[(Id, u64)],
        last_id: Id,
    ) {
        live.changed_silently(names[0], delivered.len());
        if delivered.is_empty() || !live.is_followed() {
            return;
        }
        let as_delivered = |count| Delivered {
            names,
            unix_ms: self.unix_ms,
            count,
            last_id,
        };
        if part == Part::New {
            let ids: Vec<Id> = delivered.iter().map(|(id, _)| *id).collect();
            if !self.request.is_acknowledged {
                as_delivered(1).record(live, &ids);
            }
            return record_position(live, [names[0], names[1]]);
        }
        for (id, count) in delivered.iter().filter(|(_, count)| *count > 0) {
            as_delivered(*count).record(live, &[*id]);
        }
    }
}

fn meaningless(id: &str) -> CommandError {
    CommandError::owned(format!(
        "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history \
         of this consumer by specifying a proper ID, or use the > ID to get new messages. The {id} \
         ID would just return an empty result set."
    ))
}

fn reply_found(
    live: &Live<'_>,
    args: Args<'_>,
    found: &[Found],
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    begin_reply(reply, found.len());
    for Found { at, part, ids } in found {
        let key = args.get(*at);
        begin_stream(reply, key);
        let stream = live.stream(key)?.ok_or(CommandError::NoSuchKey)?;
        reply.array(ids.len());
        if let (Part::New, Some(&first)) = (part, ids.first()) {
            let entries = stream.range(first, Id::MAX).take(ids.len());
            entries.for_each(|entry| reply_entry(reply, entry));
            continue;
        }
        for &id in ids {
            match stream.get(id) {
                Some(entry) => reply_entry(reply, entry),
                None => {
                    reply.array(2);
                    reply_id(reply, id);
                    reply.null_array();
                }
            }
        }
    }
    Ok(())
}

fn xreadgroup(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let request = Request::parse(engine, args, Reader::Consumer(None))?;
    let Reader::Consumer(Some(group_at)) = request.reader else {
        return Err(CommandError::Syntax);
    };
    let mut live = caller.live(engine);
    let reading = Reading {
        request: &request,
        args,
        group: args.get(group_at),
        consumer: args.get(group_at + 1),
        unix_ms: now_unix_ms(&live),
    };
    let parts = reading.parts(&live)?;
    let mut found = Vec::new();
    for (at, part) in request.keys.clone().zip(parts) {
        found.extend(reading.deliver(&mut live, at, part)?);
    }
    if !found.is_empty() {
        return reply_found(&live, args, &found, &mut caller.reply());
    }
    let Some(timeout_ms) = request.timeout_ms else {
        caller.reply().null_array();
        return Ok(());
    };
    let wait = Wait {
        kind: Kind::Stream,
        wants_loss: true,
        timeout_ms,
        nothing: Nothing::NullArray,
    };
    wait_with(engine, caller, args, request.keys, wait, |_| None);
    Ok(())
}
