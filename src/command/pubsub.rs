//! Publish and subscribe.
//!
//! Each topic subscribed to or left is confirmed on its own, with the number of subscriptions
//! left: channels and patterns together, shard channels apart. Confirmations are given to clients
//! that want no replies, too.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::server::introspect;
use crate::command::table::row::{Handler, *};
use crate::engine::Engine;
use crate::engine::pubsub::Topic;
use crate::engine::session::Replies;
use crate::resp::error::CommandError;
use crate::value::glob::Glob;

/// The commands of publish and subscribe.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "subscribe",
        arity: -2,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N) with N the number of channels",
        summary: "Subscribes to channels.",
        args: &[Arg::new("channel", ArgKind::String).multiple()],
        subcommands: &[],
        handler: Handler::Engine(subscribe),
    },
    Row {
        name: "unsubscribe",
        arity: -1,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N) with N the number of channels",
        summary: "Unsubscribes from the given channels, or from all.",
        args: &[Arg::new("channel", ArgKind::String).optional().multiple()],
        subcommands: &[],
        handler: Handler::Engine(unsubscribe),
    },
    Row {
        name: "psubscribe",
        arity: -2,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N) with N the number of patterns",
        summary: "Subscribes to all channels that match the patterns.",
        args: &[Arg::new("pattern", ArgKind::Pattern).multiple()],
        subcommands: &[],
        handler: Handler::Engine(psubscribe),
    },
    Row {
        name: "punsubscribe",
        arity: -1,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N) with N the number of patterns",
        summary: "Unsubscribes from the given patterns, or from all.",
        args: &[Arg::new("pattern", ArgKind::Pattern).optional().multiple()],
        subcommands: &[],
        handler: Handler::Engine(punsubscribe),
    },
    Row {
        name: "publish",
        arity: 3,
        flags: flag::PUBSUB
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::MAY_REPLICATE
            | flag::LONG,
        categories: category::PUBSUB | category::FAST,
        keys: &[],
        group: Group::PubSub,
        since: "2.0.0",
        complexity: "O(N+M) with N the channel's subscribers and M all subscribed patterns",
        summary: "Publishes a message to the subscribers of a channel.",
        args: &[
            Arg::new("channel", ArgKind::String),
            Arg::new("message", ArgKind::String),
        ],
        subcommands: &[],
        handler: Handler::Engine(publish),
    },
    Row {
        name: "ssubscribe",
        arity: -2,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::NOT_KEY)],
        group: Group::PubSub,
        since: "7.0.0",
        complexity: "O(N) with N the number of shard channels",
        summary: "Subscribes to shard channels.",
        args: &[Arg::new("shardchannel", ArgKind::String).multiple()],
        subcommands: &[],
        handler: Handler::Engine(ssubscribe),
    },
    Row {
        name: "sunsubscribe",
        arity: -1,
        flags: flag::PUBSUB
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::FOR_SUBSCRIBERS,
        categories: category::PUBSUB | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::NOT_KEY)],
        group: Group::PubSub,
        since: "7.0.0",
        complexity: "O(N) with N the number of shard channels",
        summary: "Unsubscribes from the given shard channels, or from all.",
        args: &[Arg::new("shardchannel", ArgKind::String)
            .optional()
            .multiple()],
        subcommands: &[],
        handler: Handler::Engine(sunsubscribe),
    },
    Row {
        name: "spublish",
        arity: 3,
        flags: flag::PUBSUB
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::MAY_REPLICATE
            | flag::LONG,
        categories: category::PUBSUB | category::FAST,
        keys: &[KeySpec::at(1, key_flag::NOT_KEY)],
        group: Group::PubSub,
        since: "7.0.0",
        complexity: "O(N) with N the number of the shard channel's subscribers",
        summary: "Publishes a message to the subscribers of a shard channel.",
        args: &[
            Arg::new("shardchannel", ArgKind::String),
            Arg::new("message", ArgKind::String),
        ],
        subcommands: &[],
        handler: Handler::Engine(spublish),
    },
    Row {
        name: "pubsub",
        arity: -2,
        flags: flag::LONG,
        categories: category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.8.0",
        complexity: "That of the subcommand",
        summary: "Groups the commands that show subscriptions.",
        args: &[],
        subcommands: PUBSUB,
        handler: Handler::Container,
    },
];

/// Subcommands of PUBSUB.
const PUBSUB: &[Row] = &[
    Row {
        name: "channels",
        arity: -2,
        flags: flag::PUBSUB | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.8.0",
        complexity: "O(N) with N the number of channels in use, for a short pattern",
        summary: "Lists the channels that have subscribers.",
        args: &[Arg::new("pattern", ArgKind::Pattern).optional()],
        subcommands: &[],
        handler: Handler::Engine(pubsub_channels),
    },
    Row {
        name: "numpat",
        arity: 2,
        flags: flag::PUBSUB | flag::LOADING | flag::STALE,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.8.0",
        complexity: "O(1)",
        summary: "Returns how many different patterns are subscribed to.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(pubsub_numpat),
    },
    Row {
        name: "numsub",
        arity: -2,
        flags: flag::PUBSUB | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "2.8.0",
        complexity: "O(N) with N the number of channels asked for",
        summary: "Returns how many subscribers each of the given channels has.",
        args: &[Arg::new("channel", ArgKind::String).optional().multiple()],
        subcommands: &[],
        handler: Handler::Engine(pubsub_numsub),
    },
    Row {
        name: "shardchannels",
        arity: -2,
        flags: flag::PUBSUB | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "7.0.0",
        complexity: "O(N) with N the number of shard channels in use, for a short pattern",
        summary: "Lists the shard channels that have subscribers.",
        args: &[Arg::new("pattern", ArgKind::Pattern).optional()],
        subcommands: &[],
        handler: Handler::Engine(pubsub_shardchannels),
    },
    Row {
        name: "shardnumsub",
        arity: -2,
        flags: flag::PUBSUB | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::PUBSUB | category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "7.0.0",
        complexity: "O(N) with N the number of shard channels asked for",
        summary: "Returns how many subscribers each of the given shard channels has.",
        args: &[Arg::new("shardchannel", ArgKind::String)
            .optional()
            .multiple()],
        subcommands: &[],
        handler: Handler::Engine(pubsub_shardnumsub),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::PubSub,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of PUBSUB, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(introspect::help),
    },
];

/// Tells a client that a subscription began or ended; no topic if there was none to end.
fn confirm(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    what: &str,
    topic: Topic,
    name: Option<&[u8]>,
) {
    let session = &engine.sessions[caller.session];
    let count = match topic {
        Topic::Shard => session.shard_channels.len(),
        Topic::Channel | Topic::Pattern => session.channels.len() + session.patterns.len(),
    };
    // They are given to clients that want no replies as well, behind what those do not get.
    let mut reply = match session.replies {
        Replies::On | Replies::SkipNext => caller.reply(),
        Replies::Off | Replies::SkipThis => engine.reply(caller.session),
    };
    reply.push(3);
    reply.bulk(what.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

fn subscribe_to(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    topic: Topic,
    what: &str,
) -> Result<(), CommandError> {
    for name in args.from(1) {
        engine.subscribe(caller.session, topic, name);
        confirm(engine, caller, what, topic, Some(name));
    }
    Ok(())
}

fn unsubscribe_from(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    topic: Topic,
    what: &str,
) -> Result<(), CommandError> {
    if args.len() > 1 {
        for name in args.from(1) {
            engine.unsubscribe(caller.session, topic, name);
            confirm(engine, caller, what, topic, Some(name));
        }
        return Ok(());
    }
    let names = engine.subscribed(caller.session, topic);
    if names.is_empty() {
        confirm(engine, caller, what, topic, None);
    }
    for name in names {
        engine.unsubscribe(caller.session, topic, &name);
        confirm(engine, caller, what, topic, Some(&name));
    }
    Ok(())
}

fn subscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    subscribe_to(engine, caller, args, Topic::Channel, "subscribe")
}

fn unsubscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    unsubscribe_from(engine, caller, args, Topic::Channel, "unsubscribe")
}

fn psubscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    subscribe_to(engine, caller, args, Topic::Pattern, "psubscribe")
}

fn punsubscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    unsubscribe_from(engine, caller, args, Topic::Pattern, "punsubscribe")
}

fn ssubscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if !caller.may_wait {
        return Err(CommandError::text(
            "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client",
        ));
    }
    subscribe_to(engine, caller, args, Topic::Shard, "ssubscribe")
}

fn sunsubscribe(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    unsubscribe_from(engine, caller, args, Topic::Shard, "sunsubscribe")
}

fn publish(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let receivers = engine.publish(args.get(1), args.get(2));
    caller.reply().integer(receivers as i64);
    Ok(())
}

fn spublish(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let receivers = engine.publish_to_shard(args.get(1), args.get(2));
    caller.reply().integer(receivers as i64);
    Ok(())
}

fn reply_topics(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    topic: Topic,
) -> Result<(), CommandError> {
    let pattern = args.at(2).map(|pattern| Glob::new(pattern, false));
    let is_wanted = |name: &[u8]| {
        let pattern = pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(name))
    };
    let topics = engine.pubsub.topics(topic).keys();
    let names: Vec<Box<[u8]>> = topics.filter(|name| is_wanted(name)).cloned().collect();
    let mut reply = caller.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

fn reply_listeners(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    topic: Topic,
) -> Result<(), CommandError> {
    caller.reply().array(2 * (args.len() - 2));
    for name in args.from(2) {
        let count = engine.pubsub.listeners(topic, name);
        let mut reply = caller.reply();
        reply.bulk(name);
        reply.integer(count as i64);
    }
    Ok(())
}

fn pubsub_channels(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    at_most_one_pattern(args)?;
    reply_topics(engine, caller, args, Topic::Channel)
}

fn pubsub_shardchannels(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    at_most_one_pattern(args)?;
    reply_topics(engine, caller, args, Topic::Shard)
}

fn at_most_one_pattern(args: Args<'_>) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(introspect::wrong_subcommand(args));
    }
    Ok(())
}

fn pubsub_numpat(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    let count = engine.pubsub.topics(Topic::Pattern).len();
    caller.reply().integer(count as i64);
    Ok(())
}

fn pubsub_numsub(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    reply_listeners(engine, caller, args, Topic::Channel)
}

fn pubsub_shardnumsub(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    reply_listeners(engine, caller, args, Topic::Shard)
}
