//! XPENDING, XCLAIM and XAUTOCLAIM: what was delivered and not acknowledged, and whose it is.

use super::group::{
    Delivered, no_key_or_group, note_new_consumer, record_acknowledged, record_position,
    seen_consumer,
};
use super::range::{parse_end, parse_start};
use super::{now_unix_ms, parse_strict_id, reply_entry, reply_id};
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::stream::{ConsumerGroup, ConsumerId, Delivery, Id, Stream};

/// The commands on pending entries.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xpending",
        arity: -3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::STREAM | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N + M) with M the number of pending entries looked at",
        summary: "Returns which entries of a group are pending, or how many.",
        args: &[
            Arg::key("key"),
            Arg::new("group", ArgKind::String),
            Arg::block(
                "filters",
                &[
                    Arg::new("min-idle-time", ArgKind::Integer)
                        .token("IDLE")
                        .optional()
                        .since("6.2.0"),
                    Arg::new("start", ArgKind::String),
                    Arg::new("end", ArgKind::String),
                    Arg::new("count", ArgKind::Integer),
                    Arg::new("consumer", ArgKind::String).optional(),
                ],
            )
            .optional(),
        ],
        subcommands: &[],
        handler: Data(xpending),
    },
    Row {
        name: "xclaim",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N) for each id",
        summary: "Makes pending entries those of another consumer.",
        args: &[
            Arg::key("key"),
            Arg::new("group", ArgKind::String),
            Arg::new("consumer", ArgKind::String),
            Arg::new("min-idle-time", ArgKind::String),
            Arg::new("id", ArgKind::String).multiple(),
            Arg::new("ms", ArgKind::Integer).token("IDLE").optional(),
            Arg::new("unix-time-milliseconds", ArgKind::UnixTime)
                .token("TIME")
                .optional(),
            Arg::new("count", ArgKind::Integer)
                .token("RETRYCOUNT")
                .optional(),
            Arg::word("force", "FORCE").optional(),
            Arg::word("justid", "JUSTID").optional(),
            Arg::new("lastid", ArgKind::String)
                .token("LASTID")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(xclaim),
    },
    Row {
        name: "xautoclaim",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Stream,
        since: "6.2.0",
        complexity: "O(log N + M) with M the number of pending entries looked at",
        summary: "Makes pending entries that have been idle for long those of another consumer.",
        args: &[
            Arg::key("key"),
            Arg::new("group", ArgKind::String),
            Arg::new("consumer", ArgKind::String),
            Arg::new("min-idle-time", ArgKind::String),
            Arg::new("start", ArgKind::String),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::word("justid", "JUSTID").optional(),
        ],
        subcommands: &[],
        handler: Data(xautoclaim),
    },
];

/// So many pending entries XAUTOCLAIM looks at for each it may claim.
pub(super) const LOOKED_AT_PER_CLAIM: i64 = 10;

/// XAUTOCLAIM claims so many entries if it is not told how many.
const CLAIMS: i64 = 100;

/// More than so many cannot be asked for, as in Redis: ids of 16 bytes in 64 bits of memory.
const CLAIMS_MAX: i64 = i64::MAX / 16;

/// A stream and one of its groups, to be read.
fn group_at<'l>(
    live: &'l Live<'_>,
    key: &[u8],
    name: &[u8],
) -> Result<(&'l Stream, &'l ConsumerGroup), CommandError> {
    let stream = live.stream(key)?;
    let found = stream.and_then(|stream| Some((stream, stream.groups().get(name)?)));
    found.ok_or_else(|| no_key_or_group(key, name, ""))
}

/// How long ago an entry was delivered, in ms.
fn idle_ms(delivery: Delivery, now: i64) -> i64 {
    now.saturating_sub(delivery.unix_ms).max(0)
}

fn xpending(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (key, name) = (args.get(1), args.get(2));
    if args.len() == 3 {
        let (_, group) = group_at(live, key, name)?;
        summarize(group, reply);
        return Ok(());
    }
    if !(6..=9).contains(&args.len()) {
        return Err(CommandError::Syntax);
    }
    let (mut at, mut idle_min) = (3, 0);
    if args.is(3, "idle") {
        idle_min = args.integer(4)?;
        at = 5;
        if args.len() < 8 {
            return Err(CommandError::Syntax);
        }
    }
    let count = usize::try_from(args.integer(at + 2)?).unwrap_or(0);
    let (start, end) = (parse_start(args.get(at))?, parse_end(args.get(at + 1))?);
    let now = now_unix_ms(live);
    let (_, group) = group_at(live, key, name)?;
    let fits =
        |(_, delivery): &(Id, Delivery)| idle_min <= 0 || idle_ms(*delivery, now) >= idle_min;
    let Some(consumer) = args.at(at + 3) else {
        let all = group.pending_from(start);
        let found = all.take_while(|(id, _)| *id <= end).filter(fits);
        reply_pending(group, found.take(count), now, reply);
        return Ok(());
    };
    let Some(consumer) = group.find(consumer) else {
        reply.array(0);
        return Ok(());
    };
    let ids = group.consumer(consumer).pending_from(start);
    let found = ids
        .take_while(|id| *id <= end)
        .filter_map(|id| Some((id, group.delivery(id)?)))
        .filter(fits);
    reply_pending(group, found.take(count), now, reply);
    Ok(())
}

fn summarize(group: &ConsumerGroup, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.integer(group.pending_len() as i64);
    let Some((first, last)) = group.pending_ends() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    reply_id(reply, first);
    reply_id(reply, last);
    let consumers = group.consumers().filter(|it| it.pending_len() > 0);
    let consumers: Vec<_> = consumers.collect();
    reply.array(consumers.len());
    for consumer in consumers {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending_len() as i64);
    }
}

fn reply_pending(
    group: &ConsumerGroup,
    found: impl Iterator<Item = (Id, Delivery)>,
    now: i64,
    reply: &mut Reply<'_>,
) {
    let found: Vec<_> = found.collect();
    reply.array(found.len());
    for (id, delivery) in found {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(delivery.consumer).name());
        reply.integer(idle_ms(delivery, now));
        reply.integer(delivery.count as i64);
    }
}

/// The least time for which entries to be claimed must have been idle.
fn idle_min(args: Args<'_>) -> Result<i64, CommandError> {
    let name = args.text(0).to_uppercase();
    let idle_min = args.integer(4).map_err(|_| {
        let text = format!("ERR Invalid min-idle-time argument for {name}");
        CommandError::owned(text)
    });
    idle_min.map(|ms| ms.max(0))
}

/// What XCLAIM was asked for.
struct Claim {
    ids: Vec<Id>,
    idle_min: i64,
    unix_ms: Option<i64>,
    count: Option<u64>,
    is_forced: bool,
    is_silent: bool,
    last_id: Option<Id>,
}

impl Claim {
    /// When the entries count as delivered.
    ///
    /// Redis: a time to come is always now. With LASTID, by which a delivery is repeated elsewhere,
    /// it stands, as the clock there may be behind.
    fn delivered_at(&self, now: i64) -> i64 {
        let latest = if self.last_id.is_some() {
            i64::MAX
        } else {
            now
        };
        let given = self.unix_ms.filter(|ms| (0..=latest).contains(ms));
        given.unwrap_or(now)
    }

    fn parse(args: Args<'_>, now: i64) -> Result<Claim, CommandError> {
        let ids = args.from(5).map_while(|id| parse_strict_id(id, 0).ok());
        let ids: Vec<Id> = ids.collect();
        let mut i = 5 + ids.len();
        let mut claim = Claim {
            ids,
            idle_min: idle_min(args)?,
            unix_ms: None,
            count: None,
            is_forced: false,
            is_silent: false,
            last_id: None,
        };
        while i < args.len() {
            let has_more = i + 1 < args.len();
            let integer = |name: &str| {
                let text = format!("ERR Invalid {name} option argument for XCLAIM");
                let number = args.integer(i + 1);
                number.map_err(|_| CommandError::owned(text))
            };
            if args.is(i, "force") {
                claim.is_forced = true;
                i += 1;
                continue;
            } else if args.is(i, "justid") {
                claim.is_silent = true;
                i += 1;
                continue;
            } else if has_more && args.is(i, "idle") {
                claim.unix_ms = Some(now.saturating_sub(integer("IDLE")?));
            } else if has_more && args.is(i, "time") {
                claim.unix_ms = Some(integer("TIME")?);
            } else if has_more && args.is(i, "retrycount") {
                claim.count = u64::try_from(integer("RETRYCOUNT")?).ok();
            } else if has_more && args.is(i, "lastid") {
                claim.last_id = Some(parse_strict_id(args.get(i + 1), 0)?);
            } else {
                return Err(args.refused("ERR Unrecognized XCLAIM option '", i, "'"));
            }
            i += 2;
        }
        Ok(claim)
    }
}

/// What becomes of a pending entry.
#[derive(Clone, Copy)]
enum Outcome {
    /// It is not in the stream any more, and so not pending.
    Gone(Id),
    /// It is the consumer's now.
    Claimed(Id, u64),
}

/// Gives pending entries to a consumer, and forgets those that are gone.
fn carry_out(
    group: &mut ConsumerGroup,
    consumer: ConsumerId,
    outcomes: &[Outcome],
    (unix_ms, now): (i64, i64),
) {
    for outcome in outcomes {
        match *outcome {
            Outcome::Gone(id) => {
                group.acknowledge(id);
            }
            Outcome::Claimed(id, count) => {
                let delivery = Delivery {
                    consumer,
                    unix_ms,
                    count,
                };
                group.deliver(id, delivery);
                group.consumer_mut(consumer).active_unix_ms = Some(now);
            }
        }
    }
}

/// Reports what [`carry_out`] did.
fn note(
    live: &mut Live<'_>,
    names: [&[u8]; 3],
    outcomes: &[Outcome],
    (unix_ms, last_id): (i64, Id),
) {
    live.changed_silently(names[0], outcomes.len());
    for outcome in outcomes {
        match *outcome {
            Outcome::Gone(id) => record_acknowledged(live, [names[0], names[1]], &[id]),
            Outcome::Claimed(id, count) => {
                let delivered = Delivered {
                    names,
                    unix_ms,
                    count,
                    last_id,
                };
                delivered.record(live, &[id]);
            }
        }
    }
}

/// What becomes of an entry that a group has delivered, or has not.
fn outcome(
    stream: &Stream,
    delivery: Option<Delivery>,
    id: Id,
    claim: &Claim,
    now: i64,
) -> Option<Outcome> {
    if stream.get(id).is_none() {
        return delivery.map(|_| Outcome::Gone(id));
    }
    let old_count = match delivery {
        None if !claim.is_forced => return None,
        None => 1,
        Some(old) if claim.idle_min > 0 && idle_ms(old, now) < claim.idle_min => return None,
        Some(old) => old.count,
    };
    let more = u64::from(!claim.is_silent);
    let count = claim.count.unwrap_or(old_count.saturating_add(more));
    Some(Outcome::Claimed(id, count))
}

fn xclaim(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let [key, name, consumer] = [args.get(1), args.get(2), args.get(3)];
    group_at(live, key, name)?;
    let now = now_unix_ms(live);
    let claim = Claim::parse(args, now)?;
    let unix_ms = claim.delivered_at(now);
    let mut stream = live.stream_mut(key)?.ok_or(CommandError::NoSuchKey)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    let done = stream.edit_group_beside(name, |stream, group| {
        let has_moved = claim.last_id > Some(group.last_id);
        group.last_id = claim.last_id.unwrap_or_default().max(group.last_id);
        let (consumer, is_new) = seen_consumer(group, consumer, now);
        for &id in &claim.ids {
            let outcome = outcome(stream, group.delivery(id), id, &claim, now);
            carry_out(group, consumer, outcome.as_slice(), (unix_ms, now));
            outcomes.extend(outcome);
        }
        (has_moved, is_new, group.last_id)
    });
    let (has_moved, is_new, last_id) = done.ok_or(CommandError::NoSuchKey)?;
    if is_new {
        note_new_consumer(live, [key, name, consumer]);
    }
    note(live, [key, name, consumer], &outcomes, (unix_ms, last_id));
    if !outcomes.is_empty() {
        // They may become idle sooner than others who wait for that expect.
        live.also(Event::REDELIVERED, key);
    }
    if has_moved {
        live.changed_silently(key, 1);
        record_position(live, [key, name]);
    }
    reply_claimed(live, key, &outcomes, claim.is_silent, reply)
}

fn reply_claimed(
    live: &Live<'_>,
    key: &[u8],
    outcomes: &[Outcome],
    is_silent: bool,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let claimed = outcomes.iter().filter_map(|outcome| match *outcome {
        Outcome::Claimed(id, _) => Some(id),
        Outcome::Gone(_) => None,
    });
    reply.array(claimed.clone().count());
    let stream = live.stream(key)?.ok_or(CommandError::NoSuchKey)?;
    for id in claimed {
        match stream.get(id).filter(|_| !is_silent) {
            Some(entry) => reply_entry(reply, entry),
            None => reply_id(reply, id),
        }
    }
    Ok(())
}

fn xautoclaim(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let [key, name, consumer] = [args.get(1), args.get(2), args.get(3)];
    let mut claim = Claim {
        ids: Vec::new(),
        idle_min: idle_min(args)?,
        unix_ms: None,
        count: None,
        is_forced: false,
        is_silent: false,
        last_id: None,
    };
    let start = parse_start(args.get(5))?;
    let (mut count, mut i) = (CLAIMS, 6);
    while i < args.len() {
        if i + 1 < args.len() && args.is(i, "count") {
            let number = args.integer(i + 1).ok();
            let number = number.filter(|number| (1..=CLAIMS_MAX).contains(number));
            count = number.ok_or(CommandError::text("ERR COUNT must be > 0"))?;
            i += 2;
        } else if args.is(i, "justid") {
            claim.is_silent = true;
            i += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let now = now_unix_ms(live);
    let (stream, group) = group_at(live, key, name)?;
    let (mut outcomes, mut next) = (Vec::new(), Id::MIN);
    let mut looked_at_max = count.saturating_mul(LOOKED_AT_PER_CLAIM);
    for (id, delivery) in group.pending_from(start) {
        if looked_at_max == 0 || count == 0 {
            next = id;
            break;
        }
        looked_at_max -= 1;
        let outcome = outcome(stream, Some(delivery), id, &claim, now);
        count -= i64::from(outcome.is_some());
        outcomes.extend(outcome);
    }
    let mut stream = live.stream_mut(key)?.ok_or(CommandError::NoSuchKey)?;
    let done = stream.edit_group(name, |group| {
        let (id, is_new) = seen_consumer(group, consumer, now);
        carry_out(group, id, &outcomes, (now, now));
        (group.last_id, is_new)
    });
    let (last_id, is_new) = done.ok_or(CommandError::NoSuchKey)?;
    if is_new {
        note_new_consumer(live, [key, name, consumer]);
    }
    note(live, [key, name, consumer], &outcomes, (now, last_id));
    reply.array(3);
    reply_id(reply, next);
    reply_claimed(live, key, &outcomes, claim.is_silent, reply)?;
    let gone = outcomes.iter().filter_map(|outcome| match *outcome {
        Outcome::Gone(id) => Some(id),
        Outcome::Claimed(..) => None,
    });
    reply.array(gone.clone().count());
    gone.for_each(|id| reply_id(reply, id));
    Ok(())
}
