//! XGROUP and XACK: consumer groups come, go and move on, and entries are acknowledged.
//!
//! What other commands on groups have in common is here too.

use super::{now_unix_ms, parse_id, parse_strict_id};
use crate::command::dispatch::args::Args;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::edit::stream::StreamMut;
use crate::store::effect::ITEMS_PER_EFFECT;
use crate::value::stream::{ConsumerGroup, ConsumerId, Id, Stream};

/// The commands on groups.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xgroup",
        arity: -2,
        flags: 0,
        categories: category::SLOW,
        keys: &[],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "Depends on the subcommand",
        summary: "A container for commands on consumer groups.",
        args: &[],
        subcommands: &[
            Row {
                name: "create",
                arity: -5,
                flags: flag::WRITE | flag::DENYOOM | flag::OWN_EFFECT,
                categories: category::WRITE | category::STREAM | category::SLOW,
                keys: &[KeySpec::at(2, key_flag::RW | key_flag::INSERT)],
                group: Group::Stream,
                since: "5.0.0",
                complexity: "O(log G) with G the number of groups",
                summary: "Creates a consumer group.",
                args: &[
                    Arg::key("key"),
                    Arg::new("group", ArgKind::String),
                    Arg::one_of(
                        "id-selector",
                        &[Arg::new("id", ArgKind::String), Arg::word("new-id", "$")],
                    ),
                    Arg::word("mkstream", "MKSTREAM").optional(),
                    Arg::new("entriesread", ArgKind::Integer)
                        .token("ENTRIESREAD")
                        .optional()
                        .display("entries-read"),
                ],
                subcommands: &[],
                handler: Data(create),
            },
            Row {
                name: "setid",
                arity: -5,
                flags: flag::WRITE | flag::OWN_EFFECT,
                categories: category::WRITE | category::STREAM | category::SLOW,
                keys: &[KeySpec::at(2, key_flag::RW | key_flag::UPDATE)],
                group: Group::Stream,
                since: "5.0.0",
                complexity: "O(log G) with G the number of groups",
                summary: "Sets the id up to which a group counts as delivered.",
                args: &[
                    Arg::key("key"),
                    Arg::new("group", ArgKind::String),
                    Arg::one_of(
                        "id-selector",
                        &[Arg::new("id", ArgKind::String), Arg::word("new-id", "$")],
                    ),
                    Arg::new("entriesread", ArgKind::Integer)
                        .token("ENTRIESREAD")
                        .optional()
                        .display("entries-read"),
                ],
                subcommands: &[],
                handler: Data(set_id),
            },
            Row {
                name: "destroy",
                arity: 4,
                flags: flag::WRITE,
                categories: category::WRITE | category::STREAM | category::SLOW,
                keys: &[KeySpec::at(2, key_flag::RW | key_flag::DELETE)],
                group: Group::Stream,
                since: "5.0.0",
                complexity: "O(log G) with G the number of groups; memory is freed later",
                summary: "Removes a consumer group with its consumers and pending entries.",
                args: &[Arg::key("key"), Arg::new("group", ArgKind::String)],
                subcommands: &[],
                handler: Data(destroy),
            },
            Row {
                name: "createconsumer",
                arity: 5,
                flags: flag::WRITE | flag::DENYOOM,
                categories: category::WRITE | category::STREAM | category::SLOW,
                keys: &[KeySpec::at(2, key_flag::RW | key_flag::INSERT)],
                group: Group::Stream,
                since: "6.2.0",
                complexity: "O(log C) with C the number of consumers",
                summary: "Creates a consumer in a group.",
                args: &[
                    Arg::key("key"),
                    Arg::new("group", ArgKind::String),
                    Arg::new("consumer", ArgKind::String),
                ],
                subcommands: &[],
                handler: Data(create_consumer),
            },
            Row {
                name: "delconsumer",
                arity: 5,
                flags: flag::WRITE | flag::LONG,
                categories: category::WRITE | category::STREAM | category::SLOW,
                keys: &[KeySpec::at(2, key_flag::RW | key_flag::DELETE)],
                group: Group::Stream,
                since: "5.0.0",
                complexity: "O(N log N) with N the number of its pending entries",
                summary: "Removes a consumer with its pending entries.",
                args: &[
                    Arg::key("key"),
                    Arg::new("group", ArgKind::String),
                    Arg::new("consumer", ArgKind::String),
                ],
                subcommands: &[],
                handler: Data(delete_consumer),
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
                handler: Data(group_help),
            },
        ],
        handler: Handler::Container,
    },
    Row {
        name: "xack",
        arity: -4,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(log N) for each id",
        summary: "Removes entries from those pending in a group.",
        args: &[
            Arg::key("key"),
            Arg::new("group", ArgKind::String),
            Arg::new("id", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(xack),
    },
];

/// What XGROUP answers where there is no such key.
const NO_STREAM: CommandError = CommandError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);

/// There is no such group, or no such key.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8], after: &str) -> CommandError {
    let text = [
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        group,
        b"'",
        after.as_bytes(),
    ];
    CommandError::owned(text.concat())
}

/// There is no such group of a key that is there.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    let text: [&[u8]; 5] = [
        b"NOGROUP No such consumer group '",
        group,
        b"' for key name '",
        key,
        b"'",
    ];
    CommandError::owned(text.concat())
}

/// The consumer of a name, which is added if there is none, and has been seen now; whether it was
/// added.
pub(super) fn seen_consumer(
    group: &mut ConsumerGroup,
    name: &[u8],
    unix_ms: i64,
) -> (ConsumerId, bool) {
    let found = group.find(name);
    let id = found.unwrap_or_else(|| group.add_consumer(name, unix_ms));
    group.consumer_mut(id).seen_unix_ms = unix_ms;
    (id, found.is_none())
}

/// Reports that a consumer was added by a command about something else.
pub(super) fn note_new_consumer(live: &mut Live<'_>, [key, group, consumer]: [&[u8]; 3]) {
    live.changed(Event::XGROUP_CREATECONSUMER, key);
    let words: [&[u8]; 2] = [b"XGROUP", b"CREATECONSUMER"];
    live.effect(words.into_iter().chain([key, group, consumer]));
}

/// How entries of a group were delivered, as an effect repeats it.
pub(super) struct Delivered<'a> {
    /// Key, group and consumer.
    pub(super) names: [&'a [u8]; 3],
    pub(super) unix_ms: i64,
    pub(super) count: u64,
    pub(super) last_id: Id,
}

impl Delivered<'_> {
    /// Records that as an effect.
    pub(super) fn record(&self, live: &mut Live<'_>, ids: &[Id]) {
        if !live.is_followed() {
            return;
        }
        let [time, count, last] = [
            self.unix_ms.to_string(),
            self.count.to_string(),
            self.last_id.to_string(),
        ];
        for ids in ids.chunks(ITEMS_PER_EFFECT) {
            let ids: Vec<String> = ids.iter().map(Id::to_string).collect();
            let start = [b"XCLAIM".as_slice()].into_iter().chain(self.names);
            let ids = [b"0".as_slice()]
                .into_iter()
                .chain(ids.iter().map(String::as_bytes));
            let end: [&[u8]; 8] = [
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"FORCE",
                b"JUSTID",
                b"LASTID",
                last.as_bytes(),
            ];
            live.effect(start.chain(ids).chain(end));
        }
    }
}

/// Records as an effect that entries are no longer pending.
pub(super) fn record_acknowledged(live: &mut Live<'_>, [key, group]: [&[u8]; 2], ids: &[Id]) {
    if live.is_followed() && !ids.is_empty() {
        let ids: Vec<String> = ids.iter().map(Id::to_string).collect();
        let start = [b"XACK".as_slice(), key, group].into_iter();
        live.effect(start.chain(ids.iter().map(String::as_bytes)));
    }
}

/// Records as an effect up to where a group is.
pub(super) fn record_position(live: &mut Live<'_>, [key, name]: [&[u8]; 2]) {
    if !live.is_followed() {
        return;
    }
    let Ok(Some(stream)) = live.stream(key) else {
        return;
    };
    let Some((last_id, read)) = stream.groups().get(name).map(position_of) else {
        return;
    };
    let words: [&[u8]; 2] = [b"XGROUP", b"SETID"];
    let end = [last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    live.effect(words.into_iter().chain([key, name]).chain(end));
}

/// The last id of a group and how many entries it has read, as text.
pub(crate) fn position_of(group: &ConsumerGroup) -> (String, String) {
    let read = group
        .entries_read
        .map_or("-1".to_owned(), |read| read.to_string());
    (group.last_id.to_string(), read)
}

/// The options of XGROUP CREATE and SETID.
#[derive(Clone, Copy)]
struct Position {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Position {
    fn parse(args: Args<'_>, makes_stream: bool) -> Result<Position, CommandError> {
        let mut position = Position {
            makes_stream: false,
            entries_read: None,
        };
        let mut i = 5;
        while i < args.len() {
            if makes_stream && args.is(i, "mkstream") {
                position.makes_stream = true;
                i += 1;
            } else if i + 1 < args.len() && args.is(i, "entriesread") {
                let read = args.integer(i + 1)?;
                if read < -1 {
                    return Err(CommandError::text(
                        "ERR value for ENTRIESREAD must be positive or -1",
                    ));
                }
                position.entries_read = u64::try_from(read).ok();
                i += 2;
            } else {
                let name = if makes_stream { "create" } else { "setid" };
                let name = args.text(1).chars().take(name.len()).collect::<String>();
                return Err(CommandError::owned(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. \
                     Try XGROUP HELP."
                )));
            }
        }
        Ok(position)
    }

    /// The id that an argument asks for, and how many entries there are up to there.
    fn at(
        self,
        stream: &Stream,
        text: &[u8],
        parse: fn(&[u8], u64) -> Result<Id, CommandError>,
    ) -> Result<(Id, Option<u64>), CommandError> {
        let facts = stream.facts();
        let id = match text {
            b"$" => facts.last_id,
            text => parse(text, 0)?,
        };
        let read = self.entries_read.map(|read| read.min(facts.entries_added));
        Ok((id, read))
    }
}

fn create(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, name) = (args.get(2), args.get(3));
    let position = Position::parse(args, true)?;
    let found = live.stream_mut(key)?;
    if found.is_none() && !position.makes_stream {
        return Err(NO_STREAM);
    }
    let none = Stream::default();
    let stream = found.as_ref().map_or(&none, StreamMut::view);
    let (last_id, entries_read) = position.at(stream, args.get(4), parse_strict_id)?;
    if stream.groups().contains_key(name) {
        return Err(CommandError::text(
            "BUSYGROUP Consumer Group name already exists",
        ));
    }
    let mut group = ConsumerGroup::default();
    (group.last_id, group.entries_read) = (last_id, entries_read);
    let (last_id, read) = position_of(&group);
    live.stream_or_new(key)?.add_group(name, group);
    live.changed(Event::XGROUP_CREATE, key);
    let words: [&[u8]; 2] = [b"XGROUP", b"CREATE"];
    let end: [&[u8]; 4] = [
        last_id.as_bytes(),
        b"MKSTREAM",
        b"ENTRIESREAD",
        read.as_bytes(),
    ];
    live.effect(words.into_iter().chain([key, name]).chain(end));
    reply.ok();
    Ok(())
}

/// The stream and the group of XGROUP's other subcommands.
fn group_of<'l>(live: &'l mut Live<'_>, args: Args<'_>) -> Result<StreamMut<'l>, CommandError> {
    let (key, name) = (args.get(2), args.get(3));
    let stream = live.stream_mut(key)?.ok_or(NO_STREAM)?;
    if !stream.view().groups().contains_key(name) {
        return Err(no_group(key, name));
    }
    Ok(stream)
}

fn set_id(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, name) = (args.get(2), args.get(3));
    let position = Position::parse(args, false)?;
    let mut stream = group_of(live, args)?;
    let found = position.at(stream.view(), args.get(4), parse_id)?;
    stream.edit_group(name, |group| {
        (group.last_id, group.entries_read) = found;
    });
    live.changed(Event::XGROUP_SETID, key);
    record_position(live, [key, name]);
    reply.ok();
    Ok(())
}

fn destroy(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(2);
    let mut stream = live.stream_mut(key)?.ok_or(NO_STREAM)?;
    let is_removed = stream.remove_group(args.get(3));
    if is_removed {
        live.changed(Event::XGROUP_DESTROY, key);
    }
    reply.integer(i64::from(is_removed));
    Ok(())
}

fn create_consumer(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let now = now_unix_ms(live);
    let mut stream = group_of(live, args)?;
    let is_new = stream.edit_group(args.get(3), |group| {
        let is_new = group.find(args.get(4)).is_none();
        if is_new {
            group.add_consumer(args.get(4), now);
        }
        is_new
    });
    let is_new = is_new.expect("it was just found");
    if is_new {
        live.changed(Event::XGROUP_CREATECONSUMER, args.get(2));
    }
    reply.integer(i64::from(is_new));
    Ok(())
}

fn delete_consumer(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let mut stream = group_of(live, args)?;
    let pending = stream.edit_group(args.get(3), |group| group.remove_consumer(args.get(4)));
    let pending = pending.expect("it was just found");
    if pending.is_some() {
        live.changed(Event::XGROUP_DELCONSUMER, args.get(2));
    }
    reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

fn group_help(
    _live: &mut Live<'_>,
    _args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_help(reply, "xgroup");
    Ok(())
}

fn xack(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let mut found = live.stream_mut(args.get(1))?;
    let name = args.get(2);
    let has_group = |stream: &&mut StreamMut<'_>| stream.view().groups().contains_key(name);
    let Some(stream) = found.as_mut().filter(has_group) else {
        reply.integer(0);
        return Ok(());
    };
    let ids = args.from(3).map(|id| parse_strict_id(id, 0));
    let ids = ids.collect::<Result<Vec<Id>, CommandError>>()?;
    let acknowledged = stream.edit_group(name, |group| {
        ids.iter().filter(|id| group.acknowledge(**id)).count()
    });
    let acknowledged = acknowledged.unwrap_or(0);
    live.changed_silently(args.get(1), acknowledged);
    reply.integer(acknowledged as i64);
    Ok(())
}
