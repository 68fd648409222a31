//! XREAD and XREADGROUP: entries that came after a given one, of several streams.
//!
//! A client that finds none may wait for them. What it is tried again with has ids in the place of
//! `$` and `+`, as they were when it came. One that reads for a group is told when that is gone.
//!
//! XREADGROUP with CLAIM first takes over what has been pending for long enough with anybody, the
//! longest first, and then reads on; COUNT counts both, for each stream. Its entries are told with
//! how long they were idle and how often they had been delivered: 0 and 0 of new ones. If it waits,
//! it tries again when the next entry will have been idle for long enough. Pending entries that are
//! not in the stream any more are forgotten, as by XCLAIM.

use std::ops::Range;

use super::group::{
    Delivered, no_key_or_group, note_new_consumer, record_acknowledged, record_position,
    seen_consumer,
};
use super::pending::LOOKED_AT_PER_CLAIM;
use super::{now_unix_ms, parse_strict_id, reply_entries, reply_entry, reply_id, reply_pairs};
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
use crate::value::stream::{ConsumerGroup, ConsumerId, Delivery, Entry, Id, Stream};

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
            Arg::new("min-idle-time", ArgKind::Integer)
                .token("CLAIM")
                .optional()
                .since("8.4.0"),
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
    /// What has been pending for so long is claimed.
    idle_min_ms: Option<i64>,
    /// Nothing that is delivered becomes pending.
    is_acknowledged: bool,
    /// Where the keys are; as many ids follow.
    keys: Range<usize>,
}

impl Request {
    fn parse(engine: &Engine, args: Args<'_>, mut reader: Reader) -> Result<Request, CommandError> {
        let (mut timeout_ms, mut count, mut is_acknowledged) = (None, usize::MAX, false);
        let mut idle_min_ms = None;
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
            } else if has_more && args.is(i, "claim") {
                reader.refuse("CLAIM")?;
                idle_min_ms = Some(idle_min(args, i + 1)?);
                i += 2;
            } else if has_more && args.is(i, "streams") {
                return Ok(Request {
                    reader,
                    timeout_ms,
                    count,
                    idle_min_ms,
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

/// For how long entries that are to be claimed must have been idle.
fn idle_min(args: Args<'_>, index: usize) -> Result<i64, CommandError> {
    let ms = args.integer(index);
    let ms = ms.map_err(|_| CommandError::text("ERR min-idle-time is not an integer"))?;
    if ms < 0 {
        return Err(CommandError::text(
            "ERR min-idle-time must be a positive integer",
        ));
    }
    Ok(ms)
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
        retry_ms: None,
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
    claimed: Vec<Claimed>,
    ids: Vec<Id>,
}

/// A pending entry that was taken over.
#[derive(Clone, Copy)]
struct Claimed {
    id: Id,
    /// For how long it had been idle.
    idle_ms: i64,
    /// How often it had been delivered.
    count: u64,
}

/// Pending entries that had been idle for long enough.
#[derive(Default)]
struct Idle {
    claimed: Vec<Claimed>,
    /// Those that are not in the stream any more.
    gone: Vec<Id>,
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
            let idle_min_ms = self.request.idle_min_ms.filter(|_| part == Part::New);
            let idle = idle_min_ms.map_or_else(Idle::default, |idle_min_ms| {
                self.claim(stream, group, consumer, idle_min_ms)
            });
            let before = group.last_id;
            let left = self.request.count - idle.claimed.len();
            let delivered = match part {
                Part::New => self.deliver_new(stream, group, consumer, left),
                Part::History(id) => self.deliver_again(stream, group, consumer, id),
            };
            let is_pending = !self.request.is_acknowledged && !delivered.is_empty();
            if part == Part::New && (is_pending || !idle.claimed.is_empty()) {
                group.consumer_mut(consumer).active_unix_ms = Some(self.unix_ms);
            }
            (is_new, idle, delivered, [before, group.last_id])
        });
        let (is_new, idle, delivered, [before, last_id]) = done.ok_or(CommandError::NoSuchKey)?;
        let names = [key, self.group, self.consumer];
        if is_new {
            note_new_consumer(live, names);
        }
        self.note_idle(live, names, &idle, before);
        self.note(live, names, part, &delivered, last_id);
        let ids: Vec<Id> = delivered.into_iter().map(|(id, _)| id).collect();
        let claimed = idle.claimed;
        let is_found = part != Part::New || !claimed.is_empty() || !ids.is_empty();
        Ok(is_found.then_some(Found {
            at,
            part,
            claimed,
            ids,
        }))
    }

    /// Takes over what has been idle for long enough, and forgets what of that is gone.
    fn claim(
        &self,
        stream: &Stream,
        group: &mut ConsumerGroup,
        consumer: ConsumerId,
        idle_min_ms: i64,
    ) -> Idle {
        group.sort_by_time();
        // The time of a delivery may be to come, which is no time of being idle.
        let latest = match idle_min_ms {
            0 => i64::MAX,
            _ => self.unix_ms.saturating_sub(idle_min_ms),
        };
        let looked_at_max = self
            .request
            .count
            .saturating_mul(LOOKED_AT_PER_CLAIM as usize);
        let mut idle = Idle::default();
        for (unix_ms, id) in group.by_time().take(looked_at_max) {
            if unix_ms > latest || idle.claimed.len() == self.request.count {
                break;
            }
            match group.delivery(id).filter(|_| stream.get(id).is_some()) {
                Some(delivery) => idle.claimed.push(Claimed {
                    id,
                    idle_ms: self.unix_ms.saturating_sub(unix_ms).max(0),
                    count: delivery.count,
                }),
                None => idle.gone.push(id),
            }
        }
        for &id in &idle.gone {
            group.acknowledge(id);
        }
        for claimed in &idle.claimed {
            let delivery = Delivery {
                consumer,
                unix_ms: self.unix_ms,
                count: claimed.count.saturating_add(1),
            };
            group.deliver(claimed.id, delivery);
        }
        idle
    }

    /// In how many ms the next pending entry of these streams will have been idle for long enough.
    fn next_idle_ms(&self, live: &Live<'_>) -> Option<u64> {
        let idle_min_ms = self.request.idle_min_ms?;
        let keys = self.request.keys.clone();
        let first = |at: usize| {
            let stream = live.stream(self.args.get(at)).ok()??;
            stream.groups().get(self.group)?.by_time().next()
        };
        let (unix_ms, _) = keys.filter_map(first).min()?;
        let at = unix_ms.saturating_add(idle_min_ms);
        Some(at.saturating_sub(self.unix_ms).max(0) as u64)
    }

    /// Delivers so many new entries at most; their ids, and how often they were delivered.
    fn deliver_new(
        &self,
        stream: &Stream,
        group: &mut ConsumerGroup,
        consumer: ConsumerId,
        most: usize,
    ) -> Vec<(Id, u64)> {
        let mut delivered = Vec::new();
        let Some(start) = group.last_id.next() else {
            return delivered;
        };
        if stream.facts().last_id <= group.last_id {
            return delivered;
        }
        for entry in stream.range(start, Id::MAX).take(most) {
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

    /// Reports what was taken over, and what was forgotten.
    fn note_idle(&self, live: &mut Live<'_>, names: [&[u8]; 3], idle: &Idle, last_id: Id) {
        live.changed_silently(names[0], idle.claimed.len() + idle.gone.len());
        record_acknowledged(live, [names[0], names[1]], &idle.gone);
        for claimed in &idle.claimed {
            let delivered = Delivered {
                names,
                unix_ms: self.unix_ms,
                count: claimed.count.saturating_add(1),
                last_id,
            };
            delivered.record(live, &[claimed.id]);
        }
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

/// Answers an entry with how long it had been idle and how often it had been delivered.
fn reply_delivered(reply: &mut Reply<'_>, entry: Entry<'_>, idle_ms: i64, count: u64) {
    reply.array(4);
    reply_id(reply, entry.id);
    reply_pairs(reply, entry);
    reply.integer(idle_ms);
    reply.integer(count as i64);
}

fn reply_found(
    live: &Live<'_>,
    args: Args<'_>,
    (found, claims): (&[Found], bool),
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    begin_reply(reply, found.len());
    for found in found {
        let Found { at, part, ids, .. } = found;
        let key = args.get(*at);
        begin_stream(reply, key);
        let stream = live.stream(key)?.ok_or(CommandError::NoSuchKey)?;
        reply.array(found.claimed.len() + ids.len());
        for claimed in &found.claimed {
            let entry = stream.get(claimed.id).expect("it was there to be claimed");
            reply_delivered(reply, entry, claimed.idle_ms, claimed.count);
        }
        if *part == Part::New {
            let first = ids.first().copied().unwrap_or(Id::MAX);
            let entries = stream.range(first, Id::MAX).take(ids.len());
            entries.for_each(|entry| match claims {
                true => reply_delivered(reply, entry, 0, 0),
                false => reply_entry(reply, entry),
            });
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
        let found = (found.as_slice(), request.idle_min_ms.is_some());
        return reply_found(&live, args, found, &mut caller.reply());
    }
    let Some(timeout_ms) = request.timeout_ms else {
        caller.reply().null_array();
        return Ok(());
    };
    let retry_ms = reading.next_idle_ms(&live);
    let wait = Wait {
        kind: Kind::Stream,
        wants_loss: true,
        timeout_ms,
        nothing: Nothing::NullArray,
        retry_ms,
    };
    wait_with(engine, caller, args, request.keys, wait, |_| None);
    Ok(())
}
