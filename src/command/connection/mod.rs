//! The connection itself: greeting, passwords, the selected database, the end.
//!
//! There is one user, `default`. It has the password of the setting `requirepass`, or none, and
//! then everybody is let in whatever password they give.
//!
//! Redis: a failing AUTH in the middle of a pipeline may get no reply at all there, which puts the
//! client out of step. Here every command gets its reply.

pub mod client;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::{wait_with, whole_timeout_ms};
use crate::command::table::row::{Handler, *};
use crate::command::transaction::discard_transaction;
use crate::engine::Engine;
use crate::engine::REDIS_VERSION;
use crate::engine::blocking::{Nothing, Wait};
use crate::engine::session::{Closing, Replies, SessionKey};
use crate::resp::error::CommandError;
use crate::resp::reply::{PONG, Protocol};
use crate::value::Kind;
use crate::value::number::parse_i64;

/// The only user.
pub const USER: &str = "default";

const WRONG_PASSWORD: CommandError =
    CommandError::text("WRONGPASS invalid username-password pair or user is disabled.");

/// The commands on the connection itself.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "ping",
        arity: -1,
        flags: flag::FAST | flag::LOADING | flag::FOR_SUBSCRIBERS | flag::NEEDS_SAVES,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Replies PONG, or with the given message.",
        args: &[Arg::new("message", ArgKind::String).optional()],
        subcommands: &[],
        handler: Handler::Engine(ping),
    },
    Row {
        name: "echo",
        arity: 2,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Replies with its argument.",
        args: &[Arg::new("message", ArgKind::String)],
        subcommands: &[],
        handler: Handler::Engine(echo),
    },
    Row {
        name: "hello",
        arity: -1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::NO_AUTH
            | flag::ALLOW_BUSY,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "6.0.0",
        complexity: "O(1)",
        summary: "Sets the protocol version, may authenticate, and returns facts of the server.",
        args: &[Arg::block("arguments", HELLO_ARGS).optional()],
        subcommands: &[],
        handler: Handler::Engine(hello),
    },
    Row {
        name: "auth",
        arity: -2,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::NO_AUTH
            | flag::ALLOW_BUSY
            | flag::LONG,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(N) with N the number of the user's passwords",
        summary: "Authenticates the connection with a password, or a user and password.",
        args: &[
            Arg::new("username", ArgKind::String)
                .optional()
                .since("6.0.0"),
            Arg::new("password", ArgKind::String),
        ],
        subcommands: &[],
        handler: Handler::Engine(auth),
    },
    Row {
        name: "select",
        arity: 2,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Selects the database that this connection works on.",
        args: &[Arg::new("index", ArgKind::Integer)],
        subcommands: &[],
        handler: Handler::Engine(select),
    },
    Row {
        name: "quit",
        arity: -1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::NO_AUTH
            | flag::ALLOW_BUSY
            | flag::NOT_QUEUED
            | flag::FOR_SUBSCRIBERS,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Closes the connection after its pending replies have been sent.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(quit),
    },
    Row {
        name: "reset",
        arity: 1,
        flags: flag::NOSCRIPT
            | flag::LOADING
            | flag::STALE
            | flag::FAST
            | flag::NO_AUTH
            | flag::ALLOW_BUSY
            | flag::NOT_QUEUED
            | flag::FOR_SUBSCRIBERS,
        categories: category::FAST | category::CONNECTION,
        keys: &[],
        group: Group::Connection,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Resets the connection to the state of a new one.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(reset),
    },
    Row {
        name: "wait",
        arity: 3,
        flags: flag::BLOCKING,
        categories: category::SLOW | category::BLOCKING | category::CONNECTION,
        keys: &[],
        group: Group::Generic,
        since: "3.0.0",
        complexity: "O(1)",
        summary: "Waits until so many replicas have acknowledged the client's writes.",
        args: &[
            Arg::new("numreplicas", ArgKind::Integer),
            Arg::new("timeout", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Handler::Engine(wait),
    },
    Row {
        name: "waitaof",
        arity: 4,
        flags: flag::BLOCKING,
        categories: category::SLOW | category::BLOCKING | category::CONNECTION,
        keys: &[],
        group: Group::Generic,
        since: "7.2.0",
        complexity: "O(1)",
        summary: "Waits until the client's writes are in the journals of so many servers.",
        args: &[
            Arg::new("numlocal", ArgKind::Integer),
            Arg::new("numreplicas", ArgKind::Integer),
            Arg::new("timeout", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Handler::Engine(wait_for_journal),
    },
];

/// Credentials within HELLO.
const HELLO_AUTH: &[Arg] = &[
    Arg::new("username", ArgKind::String),
    Arg::new("password", ArgKind::String),
];

/// What may follow HELLO.
const HELLO_ARGS: &[Arg] = &[
    Arg::new("protover", ArgKind::Integer),
    Arg::block("auth", HELLO_AUTH).token("AUTH").optional(),
    Arg::new("clientname", ArgKind::String)
        .token("SETNAME")
        .optional(),
];

fn ping(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    if args.len() > 2 {
        return Err(CommandError::WrongArity("ping".to_owned()));
    }
    let message = args.at(1);
    let is_subscriber = engine.sessions[caller.session].is_subscriber();
    let mut reply = caller.reply();
    match message {
        // A subscriber of RESP2 reads nothing but arrays.
        _ if is_subscriber => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(message.unwrap_or_default());
        }
        Some(message) => reply.bulk(message),
        None => reply.output().extend(PONG),
    }
    Ok(())
}

fn echo(_: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    caller.reply().bulk(args.get(1));
    Ok(())
}

/// Compares in a time that depends on the length of `given` alone.
fn is_same_secret(given: &[u8], secret: &[u8]) -> bool {
    let mut difference = given.len() ^ secret.len();
    for (i, &byte) in given.iter().enumerate() {
        let other = secret.get(i % secret.len().max(1)).copied();
        difference |= usize::from(byte ^ other.unwrap_or_default());
    }
    std::hint::black_box(difference) == 0
}

/// Lets a client in, or not.
fn authenticate(
    engine: &mut Engine,
    key: SessionKey,
    user: &[u8],
    password: &[u8],
) -> Result<(), CommandError> {
    let secret = engine.config.requirepass.as_slice();
    let is_known = user == USER.as_bytes();
    let is_right = secret.is_empty() || is_same_secret(password, secret);
    if !(is_known && is_right) {
        engine.metrics.auth_denied += 1;
        return Err(WRONG_PASSWORD);
    }
    engine.sessions[key].is_authenticated = true;
    engine.limit_output(key);
    Ok(())
}

fn auth(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let (user, password) = match args.len() {
        2 if engine.config.requirepass.is_empty() => {
            return Err(CommandError::text(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        2 => (USER.as_bytes(), args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(engine, caller.session, user, password)?;
    caller.reply().ok();
    Ok(())
}

/// Checks a name for a client, a library or a version: no spaces, nothing that does not print.
/// `what` stands before the error text.
///
/// # Errors
/// It has other bytes.
pub fn check_name(name: &[u8], what: &str) -> Result<(), CommandError> {
    if name.iter().all(u8::is_ascii_graphic) {
        return Ok(());
    }
    Err(CommandError::owned(format!(
        "ERR {what} cannot contain spaces, newlines or special characters."
    )))
}

/// What HELLO asks for.
#[derive(Default)]
struct Hello<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    fn parse(args: Args<'a>) -> Result<Hello<'a>, CommandError> {
        let mut hello = Hello::default();
        let Some(version) = args.at(1) else {
            return Ok(hello);
        };
        hello.protocol = Some(match parse_i64(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(CommandError::text("NOPROTO unsupported protocol version")),
            None => {
                return Err(CommandError::text(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        });
        let mut i = 2;
        while i < args.len() {
            let left = args.len() - i - 1;
            if args.is(i, "auth") && left >= 2 {
                hello.credentials = Some((args.get(i + 1), args.get(i + 2)));
                i += 3;
            } else if args.is(i, "setname") && left >= 1 {
                check_name(args.get(i + 1), "Client names")?;
                hello.name = Some(args.get(i + 1));
                i += 2;
            } else {
                return Err(args.refused("ERR Syntax error in HELLO option '", i, "'"));
            }
        }
        Ok(hello)
    }
}

fn hello(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let hello = Hello::parse(args)?;
    if let Some((user, password)) = hello.credentials {
        authenticate(engine, caller.session, user, password)?;
    }
    let session = &mut engine.sessions[caller.session];
    if !session.is_authenticated {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = hello.name {
        session.name = name.to_vec();
    }
    session.protocol = hello.protocol.unwrap_or(session.protocol);
    caller.protocol = session.protocol;
    let id = session.id as i64;
    let number = match session.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let mut reply = caller.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(number);
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn select(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let number = args.short_integer(1)?;
    let db = usize::try_from(number)
        .ok()
        .filter(|&db| db < engine.keyspace.databases())
        .ok_or(CommandError::DbIndexOutOfRange)?;
    caller.db = db;
    caller.reply().ok();
    Ok(())
}

fn quit(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    caller.reply().ok();
    engine.close(caller.session, Closing::AfterReply);
    Ok(())
}

/// Everything but the connection's number, its library's name and its statistics starts anew.
fn reset(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    discard_transaction(engine, caller.session);
    engine.unsubscribe_all(caller.session);
    let is_open = engine.config.requirepass.is_empty();
    let session = &mut engine.sessions[caller.session];
    session.protocol = Protocol::Resp2;
    session.is_authenticated = is_open;
    session.name = Vec::new();
    session.is_no_touch = false;
    session.is_no_evict = false;
    if session.replies != Replies::SkipThis {
        session.replies = Replies::On;
    }
    engine.limit_output(caller.session);
    caller.db = 0;
    caller.protocol = Protocol::Resp2;
    caller.reply().simple("RESET");
    Ok(())
}

/// Waits for replicas, of which there are none: for nothing, as long as the client wants.
fn wait(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let replicas = args.integer(1)?;
    let timeout_ms = whole_timeout_ms(engine, args, 2)?;
    if replicas <= 0 {
        caller.reply().integer(0);
        return Ok(());
    }
    wait_in_vain(engine, caller, args, timeout_ms, Nothing::Zero);
    Ok(())
}

/// There is no journal either.
fn wait_for_journal(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let here = args.integer(1)?;
    if !(0..=1).contains(&here) {
        return Err(CommandError::text(
            "ERR value is out of range, value must between 0 and 1",
        ));
    }
    let replicas = args.integer(2).ok().filter(|replicas| *replicas >= 0);
    let replicas = replicas.ok_or(CommandError::text(
        "ERR value is out of range, must be positive",
    ))?;
    let timeout_ms = whole_timeout_ms(engine, args, 3)?;
    if here > 0 {
        return Err(CommandError::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    if replicas == 0 {
        caller.reply().zeros();
        return Ok(());
    }
    wait_in_vain(engine, caller, args, timeout_ms, Nothing::Zeros);
    Ok(())
}

/// Waits for what never comes.
fn wait_in_vain(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    timeout_ms: u64,
    nothing: Nothing,
) {
    let wait = Wait {
        kind: Kind::String,
        wants_loss: false,
        timeout_ms,
        nothing,
        retry_ms: None,
    };
    wait_with(engine, caller, args, 0..0, wait, |_| None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_the_same_only_if_equal() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("a", "", false),
            ("", "a", false),
            ("a", "a", true),
            ("aa", "a", false),
            ("a", "aa", false),
            ("abc", "abd", false),
            ("foobared", "foobared", true),
        ];
        for &(given, secret, is_same) in cases {
            assert_eq!(
                is_same_secret(given.as_bytes(), secret.as_bytes()),
                is_same,
                "{given:?} {secret:?}"
            );
        }
    }
}
