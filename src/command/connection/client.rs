//! CLIENT: the connected clients, their names, and how they are paused, unblocked and closed.
//!
//! One line of CLIENT LIST has Redis' fields in Redis' order. What does not exist here is 0 (`rbp`,
//! `oll`, `io-thread`) or -1 (`redir`).

use std::fmt::Write;

use crate::command::connection::{USER, check_name};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::whole_timeout_ms;
use crate::command::server::introspect;
use crate::command::table::row::{Handler, *};
use crate::command::table::table;
use crate::engine::session::{Closing, ROW_UNKNOWN, Replies, Session, SessionKey};
use crate::engine::{Engine, PauseKind};
use crate::resp::error::CommandError;
use crate::resp::reply::Protocol;
use crate::value::number::parse_i64;

/// The commands on clients.
pub const COMMANDS: &[Row] = &[Row {
    name: "client",
    arity: -2,
    flags: flag::LONG,
    categories: category::SLOW,
    keys: &[],
    group: Group::Connection,
    since: "2.4.0",
    complexity: "That of the subcommand",
    summary: "Groups the commands on client connections.",
    args: &[],
    subcommands: CLIENT,
    handler: Handler::Container,
}];

/// Subcommands of CLIENT.
const CLIENT: &[Row] = &[
    Row {
        name: "id",
        arity: 2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Returns the id of this connection; ids are never reused.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(client_id),
    },
    Row {
        name: "info",
        arity: 2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Returns a description of this connection, in the format of CLIENT LIST.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(client_info),
    },
    Row {
        name: "list",
        arity: -2,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "2.4.0",
        complexity: "O(N) with N the number of connections",
        summary: "Returns a line about each client connection.",
        args: &[
            Arg::one_of("client-type", LIST_TYPE)
                .token("TYPE")
                .optional()
                .since("5.0.0"),
            Arg::new("client-id", ArgKind::Integer)
                .token("ID")
                .optional()
                .multiple()
                .since("6.2.0"),
        ],
        subcommands: &[],
        handler: Handler::Engine(client_list),
    },
    Row {
        name: "kill",
        arity: -3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "2.4.0",
        complexity: "O(N) with N the number of connections",
        summary: "Closes the connections that have an address or match all given filters.",
        args: &[Arg::one_of("filter", KILL_ARGS)],
        subcommands: &[],
        handler: Handler::Engine(client_kill),
    },
    Row {
        name: "setname",
        arity: 3,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "2.6.9",
        complexity: "O(1)",
        summary: "Gives this connection a name, which CLIENT LIST shows.",
        args: &[Arg::new("connection-name", ArgKind::String)],
        subcommands: &[],
        handler: Handler::Engine(client_setname),
    },
    Row {
        name: "getname",
        arity: 2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "2.6.9",
        complexity: "O(1)",
        summary: "Returns the name of this connection, if it has one.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(client_getname),
    },
    Row {
        name: "getredir",
        arity: 2,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Returns the id of the client that gets this one's tracking messages, or -1.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(client_getredir),
    },
    Row {
        name: "setinfo",
        arity: 4,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "7.2.0",
        complexity: "O(1)",
        summary: "Records the name or version of the client library in use.",
        args: &[Arg::one_of("attr", SETINFO_ATTR)],
        subcommands: &[],
        handler: Handler::Engine(client_setinfo),
    },
    Row {
        name: "reply",
        arity: 3,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Turns replies to this connection on or off, or skips the next one.",
        args: &[Arg::one_of("action", REPLY_ACTION)],
        subcommands: &[],
        handler: Handler::Engine(client_reply),
    },
    Row {
        name: "no-evict",
        arity: 3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Sets whether this connection may be closed when clients take too much memory.",
        args: &[Arg::one_of("enabled", ON_OFF)],
        subcommands: &[],
        handler: Handler::Engine(client_no_evict),
    },
    Row {
        name: "no-touch",
        arity: 3,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "7.2.0",
        complexity: "O(1)",
        summary: "Sets whether this connection's reads update the access times of keys.",
        args: &[Arg::one_of("enabled", ON_OFF)],
        subcommands: &[],
        handler: Handler::Engine(client_no_touch),
    },
    Row {
        name: "pause",
        arity: -3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "3.0.0",
        complexity: "O(1)",
        summary: "Delays all commands, or only writes, for a number of milliseconds.",
        args: &[
            Arg::new("timeout", ArgKind::Integer),
            Arg::one_of("mode", PAUSE_MODE).optional().since("6.2.0"),
        ],
        subcommands: &[],
        handler: Handler::Engine(client_pause),
    },
    Row {
        name: "unpause",
        arity: 2,
        flags: flag::ADMIN
            | flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::LONG
            | flag::ENDS_PAUSE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(N) with N the number of paused clients",
        summary: "Ends a CLIENT PAUSE early.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(client_unpause),
    },
    Row {
        name: "unblock",
        arity: -3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(N) with N the number of connections",
        summary: "Unblocks a client that waits in a blocking command, as a timeout or an error.",
        args: &[
            Arg::new("client-id", ArgKind::Integer),
            Arg::one_of("unblock-type", UNBLOCK_TYPE).optional(),
        ],
        subcommands: &[],
        handler: Handler::Engine(client_unblock),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of CLIENT, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(introspect::help),
    },
];

/// Kinds of clients CLIENT LIST tells apart.
const LIST_TYPE: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER"),
    Arg::word("replica", "REPLICA"),
    Arg::word("pubsub", "PUBSUB"),
];

/// Kinds of clients CLIENT KILL tells apart.
const KILL_TYPE: &[Arg] = &[
    Arg::word("normal", "NORMAL"),
    Arg::word("master", "MASTER").since("3.2.0"),
    Arg::word("slave", "SLAVE"),
    Arg::word("replica", "REPLICA").since("5.0.0"),
    Arg::word("pubsub", "PUBSUB"),
];

/// Whether CLIENT KILL spares its caller.
const YES_NO: &[Arg] = &[Arg::word("yes", "YES"), Arg::word("no", "NO")];

/// Filters of CLIENT KILL.
const KILL_FILTER: &[Arg] = &[
    Arg::new("client-id", ArgKind::Integer)
        .token("ID")
        .optional()
        .since("2.8.12"),
    Arg::one_of("client-type", KILL_TYPE)
        .token("TYPE")
        .optional()
        .since("2.8.12"),
    Arg::new("username", ArgKind::String)
        .token("USER")
        .optional(),
    Arg::new("addr", ArgKind::String)
        .token("ADDR")
        .display("ip:port")
        .optional(),
    Arg::new("laddr", ArgKind::String)
        .token("LADDR")
        .display("ip:port")
        .optional()
        .since("6.2.0"),
    Arg::one_of("skipme", YES_NO).token("SKIPME").optional(),
    Arg::new("maxage", ArgKind::Integer)
        .token("MAXAGE")
        .optional()
        .since("7.4.0"),
];

/// The two ways to call CLIENT KILL.
const KILL_ARGS: &[Arg] = &[
    Arg::new("old-format", ArgKind::String)
        .display("ip:port")
        .deprecated_since("2.8.12"),
    Arg::one_of("new-format", KILL_FILTER).multiple(),
];

/// What CLIENT SETINFO records.
const SETINFO_ATTR: &[Arg] = &[
    Arg::new("libname", ArgKind::String).token("LIB-NAME"),
    Arg::new("libver", ArgKind::String).token("LIB-VER"),
];

/// What CLIENT REPLY takes.
const REPLY_ACTION: &[Arg] = &[
    Arg::word("on", "ON"),
    Arg::word("off", "OFF"),
    Arg::word("skip", "SKIP"),
];

/// A switch.
const ON_OFF: &[Arg] = &[Arg::word("on", "ON"), Arg::word("off", "OFF")];

/// What CLIENT UNBLOCK tells the client.
const UNBLOCK_TYPE: &[Arg] = &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")];

/// What CLIENT PAUSE holds back.
const PAUSE_MODE: &[Arg] = &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")];

/// What a client gets whose wait is ended by CLIENT UNBLOCK ERROR.
const UNBLOCKED: &[u8] = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// The kinds of clients that exist here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Normal,
    PubSub,
    /// A master or a replica: there is none.
    Replication,
}

impl Class {
    fn parse(args: Args<'_>, at: usize) -> Result<Class, CommandError> {
        match args.get(at).to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::PubSub),
            b"master" | b"replica" | b"slave" => Ok(Class::Replication),
            _ => Err(args.refused("ERR Unknown client type '", at, "'")),
        }
    }

    fn of(session: &Session) -> Class {
        if session.subscriptions() > 0 {
            Class::PubSub
        } else {
            Class::Normal
        }
    }
}

fn client_id(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    let id = engine.sessions[caller.session].id;
    caller.reply().integer(id as i64);
    Ok(())
}

/// Redis' letters for a client's state, `N` if there is none.
fn flags_of(session: &Session) -> String {
    let letters = [
        (session.subscriptions() > 0, 'P'),
        (session.multi.is_open, 'x'),
        (session.is_held(), 'b'),
        (session.multi.is_stale, 'd'),
        (session.closing == Closing::AfterReply, 'c'),
        (session.is_unix, 'U'),
        (session.is_no_evict, 'e'),
        (session.is_no_touch, 'T'),
    ];
    let flags: String = letters
        .into_iter()
        .filter_map(|(is_set, letter)| is_set.then_some(letter))
        .collect();
    if flags.is_empty() {
        "N".to_owned()
    } else {
        flags
    }
}

fn last_command(session: &Session) -> String {
    match session.last_command {
        ROW_UNKNOWN => "NULL".to_owned(),
        row => table().entry(row).full_name(),
    }
}

/// Appends a client's line. `argument_bytes`: of the command it is running.
fn describe(session: &Session, now_ms: u64, argument_bytes: usize, out: &mut String) {
    let seconds_since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    let (input_bytes, input_capacity) = session.input_held();
    let (pending, output_capacity) = session.output_held();
    let queued = &session.multi;
    let is_stuck = pending > 0 && !session.is_unflushed;
    // Writing to memory does not fail.
    let _ = writeln!(
        out,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs={} rbp=0 \
         obl={} oll=0 omem={} tot-mem={} events={} cmd={} user={USER} redir=-1 resp={} \
         lib-name={} lib-ver={} io-thread=0 tot-net-in={} tot-net-out={} tot-cmds={}",
        session.id,
        session.peer,
        session.local,
        session.fd,
        String::from_utf8_lossy(&session.name),
        seconds_since(session.connected_ms),
        seconds_since(session.active_ms),
        flags_of(session),
        session.db,
        session.channels.len(),
        session.patterns.len(),
        session.shard_channels.len(),
        if queued.is_open {
            queued.queue.len() as i64
        } else {
            -1
        },
        queued.watched.len(),
        input_bytes,
        input_capacity.saturating_sub(input_bytes),
        argument_bytes,
        queued.queued_bytes,
        session.output.tail_capacity(),
        pending,
        if is_stuck { output_capacity } else { 0 },
        session.memory_bytes(),
        if is_stuck { "rw" } else { "r" },
        last_command(session),
        match session.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        },
        session.library.0,
        session.library.1,
        session.bytes_in,
        session.bytes_out,
        session.commands,
    );
}

fn argument_bytes(args: Args<'_>) -> usize {
    args.from(0).map(<[u8]>::len).sum()
}

fn now_ms(engine: &Engine) -> u64 {
    engine.reading.monotonic_us / 1000
}

fn client_info(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let mut text = String::new();
    let session = &engine.sessions[caller.session];
    describe(session, now_ms(engine), argument_bytes(args), &mut text);
    caller.reply().verbatim(text);
    Ok(())
}

/// Living clients in the order in which they connected.
fn by_age(engine: &Engine) -> Vec<SessionKey> {
    let mut keys: Vec<(u64, SessionKey)> = engine
        .sessions
        .iter()
        .filter(|(_, session)| session.closing != Closing::Now)
        .map(|(key, session)| (session.id, key))
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, key)| key).collect()
}

fn client_list(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let mut listed = by_age(engine);
    if args.len() == 4 && args.is(2, "type") {
        let class = Class::parse(args, 3)?;
        listed.retain(|&other| Class::of(&engine.sessions[other]) == class);
    } else if args.len() > 3 && args.is(2, "id") {
        let mut wanted = Vec::with_capacity(args.len() - 3);
        for id in args.from(3) {
            let id = parse_i64(id).ok_or(CommandError::text("ERR Invalid client ID"))?;
            let id_of = |other: &SessionKey| engine.sessions[*other].id as i64;
            wanted.extend(listed.binary_search_by_key(&id, id_of).map(|at| listed[at]));
        }
        listed = wanted;
    } else if args.len() != 2 {
        return Err(CommandError::Syntax);
    }
    let mut text = String::with_capacity(400 * listed.len());
    for other in listed {
        let bytes = if other == caller.session {
            argument_bytes(args)
        } else {
            0
        };
        describe(&engine.sessions[other], now_ms(engine), bytes, &mut text);
    }
    caller.reply().verbatim(text);
    Ok(())
}

/// What CLIENT KILL selects: clients that fit all that is given.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    class: Option<Class>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    age_seconds_min: u64,
    kills_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Filter<'a>, CommandError> {
        let mut filter = Filter::default();
        if args.len() == 3 {
            filter.peer = Some(args.get(2));
            filter.kills_me = true;
            return Ok(filter);
        }
        for i in (2..args.len()).step_by(2) {
            let value = args.at(i + 1).ok_or(CommandError::Syntax)?;
            match args.get(i).to_ascii_lowercase().as_slice() {
                b"id" => filter.id = Some(Filter::id(value)?),
                b"maxage" => filter.age_seconds_min = Filter::age(value)?,
                b"type" => filter.class = Some(Class::parse(args, i + 1)?),
                b"addr" => filter.peer = Some(value),
                b"laddr" => filter.local = Some(value),
                b"user" if value == USER.as_bytes() => {}
                b"user" => return Err(args.refused("ERR No such user '", i + 1, "'")),
                b"skipme" if args.is(i + 1, "yes") => filter.kills_me = false,
                b"skipme" if args.is(i + 1, "no") => filter.kills_me = true,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(filter)
    }

    fn id(value: &[u8]) -> Result<u64, CommandError> {
        parse_i64(value)
            .filter(|&id| id > 0)
            .map(|id| id as u64)
            .ok_or(CommandError::text("ERR client-id should be greater than 0"))
    }

    fn age(value: &[u8]) -> Result<u64, CommandError> {
        let seconds = parse_i64(value).ok_or(CommandError::text(
            "ERR maxage is not an integer or out of range",
        ))?;
        if seconds <= 0 {
            return Err(CommandError::text("ERR maxage should be greater than 0"));
        }
        Ok(seconds as u64)
    }

    fn fits(&self, session: &Session, now_ms: u64) -> bool {
        let age_seconds = now_ms.saturating_sub(session.connected_ms) / 1000;
        self.id.is_none_or(|id| id == session.id)
            && self.class.is_none_or(|class| class == Class::of(session))
            && self.peer.is_none_or(|peer| peer == session.peer.as_bytes())
            && self
                .local
                .is_none_or(|local| local == session.local.as_bytes())
            && age_seconds >= self.age_seconds_min
    }
}

fn client_kill(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let filter = Filter::parse(args)?;
    let mut killed = by_age(engine);
    killed.retain(|&other| {
        let is_spared = other == caller.session && !filter.kills_me;
        !is_spared && filter.fits(&engine.sessions[other], now_ms(engine))
    });
    for &other in &killed {
        let how = if other == caller.session {
            Closing::AfterReply
        } else {
            Closing::Now
        };
        engine.close(other, how);
    }
    if args.len() > 3 {
        caller.reply().integer(killed.len() as i64);
    } else if killed.is_empty() {
        return Err(CommandError::text("ERR No such client"));
    } else {
        caller.reply().ok();
    }
    Ok(())
}

fn client_setname(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    check_name(args.get(2), "Client names")?;
    engine.sessions[caller.session].name = args.get(2).to_vec();
    caller.reply().ok();
    Ok(())
}

fn client_getname(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    let name = engine.sessions[caller.session].name.clone();
    let mut reply = caller.reply();
    if name.is_empty() {
        reply.null();
    } else {
        reply.bulk(&name);
    }
    Ok(())
}

/// There is no tracking, so nobody's invalidations go elsewhere.
fn client_getredir(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    caller.reply().integer(-1);
    Ok(())
}

fn client_setinfo(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let library = &mut engine.sessions[caller.session].library;
    let field = if args.is(2, "lib-name") {
        &mut library.0
    } else if args.is(2, "lib-ver") {
        &mut library.1
    } else {
        return Err(args.refused("ERR Unrecognized option '", 2, "'"));
    };
    check_name(args.get(3), &args.text(2))?;
    *field = args.text(3);
    caller.reply().ok();
    Ok(())
}

fn client_reply(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let session = &mut engine.sessions[caller.session];
    let is_on = args.is(2, "on");
    if is_on {
        session.replies = Replies::On;
    } else if args.is(2, "off") {
        session.replies = Replies::Off;
    } else if !args.is(2, "skip") {
        return Err(CommandError::Syntax);
    } else if session.replies != Replies::Off {
        session.replies = Replies::SkipNext;
    }
    // Within EXEC an element of its array is due, whatever becomes of that.
    if is_on || !caller.may_wait {
        caller.reply().ok();
    }
    Ok(())
}

fn on_or_off(args: Args<'_>) -> Result<bool, CommandError> {
    let is_on = args.is(2, "on");
    if is_on || args.is(2, "off") {
        Ok(is_on)
    } else {
        Err(CommandError::Syntax)
    }
}

fn client_no_evict(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let is_on = on_or_off(args)?;
    engine.sessions[caller.session].is_no_evict = is_on;
    if is_on {
        engine.uncount_client(caller.session);
    } else {
        engine.count_client(caller.session);
    }
    caller.reply().ok();
    Ok(())
}

fn client_no_touch(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let is_on = on_or_off(args)?;
    engine.sessions[caller.session].is_no_touch = is_on;
    caller.reply().ok();
    Ok(())
}

fn client_pause(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let kind = match args.len() {
        3 => PauseKind::All,
        4 if args.is(3, "all") => PauseKind::All,
        4 if args.is(3, "write") => PauseKind::Write,
        4 => {
            return Err(CommandError::text(
                "ERR CLIENT PAUSE mode must be WRITE or ALL",
            ));
        }
        _ => return Err(introspect::wrong_subcommand(args)),
    };
    let ms = whole_timeout_ms(engine, args, 2)?;
    engine.pause_for(ms, kind);
    caller.reply().ok();
    Ok(())
}

fn client_unpause(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    engine.end_pause();
    caller.reply().ok();
    Ok(())
}

fn client_unblock(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let error = match args.len() {
        3 => None,
        4 if args.is(3, "timeout") => None,
        4 if args.is(3, "error") => Some(UNBLOCKED),
        4 => {
            return Err(CommandError::text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
        _ => return Err(introspect::wrong_subcommand(args)),
    };
    let id = args.integer(2)?;
    let mut sessions = engine.sessions.iter();
    let found = sessions.find(|(_, session)| session.id as i64 == id);
    let other = found.map(|(other, _)| other);
    let is_unblocked = other.is_some_and(|other| engine.give_up(other, error));
    caller.reply().integer(i64::from(is_unblocked));
    Ok(())
}
