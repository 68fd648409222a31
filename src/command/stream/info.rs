//! XINFO: what a stream, its groups and their consumers are.

use super::group::no_group;
use super::{now_unix_ms, reply_entries, reply_entry, reply_id};
use crate::command::dispatch::args::Args;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::value::stream::{Consumer, ConsumerGroup, Entry, Id, Stream};

/// The command that describes streams.
pub const COMMANDS: &[Row] = &[Row {
    name: "xinfo",
    arity: -2,
    flags: 0,
    categories: category::SLOW,
    keys: &[],
    group: Group::Stream,
    since: "5.0.0",
    complexity: "Depends on the subcommand",
    summary: "A container for commands that describe streams.",
    args: &[],
    subcommands: &[
        Row {
            name: "stream",
            arity: -3,
            flags: flag::READONLY,
            categories: category::READ | category::STREAM | category::SLOW,
            keys: &[KeySpec::at(2, key_flag::RO | key_flag::ACCESS)],
            group: Group::Stream,
            since: "5.0.0",
            complexity: "O(1), and O(N) for the N entries and pending entries of FULL",
            summary: "Describes a stream, and on request its entries and groups.",
            args: &[
                Arg::key("key"),
                Arg::block(
                    "full-block",
                    &[
                        Arg::word("full", "FULL"),
                        Arg::new("count", ArgKind::Integer)
                            .token("COUNT")
                            .optional(),
                    ],
                )
                .optional(),
            ],
            subcommands: &[],
            handler: Data(info_stream),
        },
        Row {
            name: "groups",
            arity: 3,
            flags: flag::READONLY,
            categories: category::READ | category::STREAM | category::SLOW,
            keys: &[KeySpec::at(2, key_flag::RO | key_flag::ACCESS)],
            group: Group::Stream,
            since: "5.0.0",
            complexity: "O(N) with N the number of groups",
            summary: "Describes the consumer groups of a stream.",
            args: &[Arg::key("key")],
            subcommands: &[],
            handler: Data(info_groups),
        },
        Row {
            name: "consumers",
            arity: 4,
            flags: flag::READONLY,
            categories: category::READ | category::STREAM | category::SLOW,
            keys: &[KeySpec::at(2, key_flag::RO | key_flag::ACCESS)],
            group: Group::Stream,
            since: "5.0.0",
            complexity: "O(N) with N the number of consumers",
            summary: "Describes the consumers of a group.",
            args: &[Arg::key("key"), Arg::new("group", ArgKind::String)],
            subcommands: &[],
            handler: Data(info_consumers),
        },
        Row {
            name: "help",
            arity: 2,
            flags: flag::LOADING | flag::STALE,
            categories: category::STREAM | category::SLOW,
            keys: &[],
            group: Group::Stream,
            since: "5.0.0",
            complexity: "O(1)",
            summary: "Returns a text about the subcommands.",
            args: &[],
            subcommands: &[],
            handler: Data(info_help),
        },
    ],
    handler: Handler::Container,
}];

/// So many entries and pending entries FULL shows if it is not told how many.
const FULL_COUNT: usize = 10;

fn reply_name(reply: &mut Reply<'_>, name: &str) {
    reply.bulk(name.as_bytes());
}

fn reply_known(reply: &mut Reply<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// How many entries FULL is to show; none without FULL.
fn full_count(args: Args<'_>) -> Result<Option<usize>, CommandError> {
    if args.len() == 3 {
        return Ok(None);
    }
    let has_count = args.len() == 6 && args.is(4, "count");
    if !args.is(3, "full") || !(args.len() == 4 || has_count) {
        let name: String = args.text(1).chars().take(6).collect();
        return Err(CommandError::owned(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try XINFO HELP."
        )));
    }
    if !has_count {
        return Ok(Some(FULL_COUNT));
    }
    Ok(Some(match usize::try_from(args.integer(5)?) {
        Ok(0) => usize::MAX,
        Ok(count) => count,
        Err(_) => FULL_COUNT,
    }))
}

fn info_stream(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let stream = live.stream(args.get(2))?.ok_or(CommandError::NoSuchKey)?;
    let full = full_count(args)?;
    reply.map(if full.is_some() { 9 } else { 10 });
    let facts = stream.facts();
    for (name, number) in [
        ("length", stream.len()),
        // Redis has a tree of chunks by their first ids, whose root counts too.
        ("radix-tree-keys", stream.chunks()),
        ("radix-tree-nodes", stream.chunks() + 1),
    ] {
        reply_name(reply, name);
        reply.integer(number as i64);
    }
    reply_name(reply, "last-generated-id");
    reply_id(reply, facts.last_id);
    reply_name(reply, "max-deleted-entry-id");
    reply_id(reply, facts.max_deleted_id);
    reply_name(reply, "entries-added");
    reply.integer(facts.entries_added as i64);
    reply_name(reply, "recorded-first-entry-id");
    reply_id(reply, stream.first().map_or(Id::MIN, |entry| entry.id));
    let Some(count) = full else {
        reply_name(reply, "groups");
        reply.integer(stream.groups().len() as i64);
        reply_name(reply, "first-entry");
        reply_optional(reply, stream.first());
        reply_name(reply, "last-entry");
        reply_optional(reply, stream.last());
        return Ok(());
    };
    reply_name(reply, "entries");
    reply_entries(reply, stream.range(Id::MIN, Id::MAX), count);
    reply_name(reply, "groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply_full_group(reply, stream, (name, group), count);
    }
    Ok(())
}

fn reply_optional(reply: &mut Reply<'_>, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => reply_entry(reply, entry),
        None => reply.null(),
    }
}

fn reply_position(reply: &mut Reply<'_>, stream: &Stream, group: &ConsumerGroup) {
    reply_name(reply, "last-delivered-id");
    reply_id(reply, group.last_id);
    reply_name(reply, "entries-read");
    reply_known(reply, group.entries_read.map(|read| read as i64));
    reply_name(reply, "lag");
    reply_known(reply, stream.lag(group));
}

fn reply_full_group(
    reply: &mut Reply<'_>,
    stream: &Stream,
    (name, group): (&[u8], &ConsumerGroup),
    count: usize,
) {
    reply.map(7);
    reply_name(reply, "name");
    reply.bulk(name);
    reply_position(reply, stream, group);
    reply_name(reply, "pel-count");
    reply.integer(group.pending_len() as i64);
    reply_name(reply, "pending");
    reply.array(group.pending_len().min(count));
    for (id, delivery) in group.pending_from(Id::MIN).take(count) {
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(group.consumer(delivery.consumer).name());
        reply.integer(delivery.unix_ms);
        reply.integer(delivery.count as i64);
    }
    reply_name(reply, "consumers");
    reply.array(group.consumers().len());
    for consumer in group.consumers() {
        reply_full_consumer(reply, group, consumer, count);
    }
}

fn reply_full_consumer(
    reply: &mut Reply<'_>,
    group: &ConsumerGroup,
    consumer: &Consumer,
    count: usize,
) {
    reply.map(5);
    reply_name(reply, "name");
    reply.bulk(consumer.name());
    reply_name(reply, "seen-time");
    reply.integer(consumer.seen_unix_ms);
    reply_name(reply, "active-time");
    reply.integer(consumer.active_unix_ms.unwrap_or(-1));
    reply_name(reply, "pel-count");
    reply.integer(consumer.pending_len() as i64);
    reply_name(reply, "pending");
    reply.array(consumer.pending_len().min(count));
    for id in consumer.pending_from(Id::MIN).take(count) {
        let delivery = group.delivery(id).expect("a consumer's ids are pending");
        reply.array(3);
        reply_id(reply, id);
        reply.integer(delivery.unix_ms);
        reply.integer(delivery.count as i64);
    }
}

fn info_groups(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let stream = live.stream(args.get(2))?.ok_or(CommandError::NoSuchKey)?;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply_name(reply, "name");
        reply.bulk(name);
        reply_name(reply, "consumers");
        reply.integer(group.consumers().len() as i64);
        reply_name(reply, "pending");
        reply.integer(group.pending_len() as i64);
        reply_position(reply, stream, group);
    }
    Ok(())
}

fn info_consumers(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (key, name) = (args.get(2), args.get(3));
    let stream = live.stream(key)?.ok_or(CommandError::NoSuchKey)?;
    let group = stream
        .groups()
        .get(name)
        .ok_or_else(|| no_group(key, name))?;
    let now = now_unix_ms(live);
    reply.array(group.consumers().len());
    for consumer in group.consumers() {
        reply.map(4);
        reply_name(reply, "name");
        reply.bulk(consumer.name());
        reply_name(reply, "pending");
        reply.integer(consumer.pending_len() as i64);
        reply_name(reply, "idle");
        reply.integer((now - consumer.seen_unix_ms).max(0));
        reply_name(reply, "inactive");
        let inactive = consumer.active_unix_ms.map(|active| (now - active).max(0));
        reply.integer(inactive.unwrap_or(-1));
    }
    Ok(())
}

fn info_help(
    _live: &mut Live<'_>,
    _args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_help(reply, "xinfo");
    Ok(())
}
