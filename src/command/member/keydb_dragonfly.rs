//! Deadlines of members as other servers have them. KeyDB: EXPIREMEMBER and its kin, and TTL with a
//! member (`command::key::expire`). Dragonfly: SADDEX, FIELDEXPIRE, FIELDTTL.
//!
//! They work on whatever collection is at the key, if members of it may have deadlines.
//!
//! KeyDB: a member whose deadline is given in the past is removed some time later. Here it is
//! removed at once, as HEXPIRE does.

use crate::command::dispatch::args::Args;
use crate::command::key::expire::{Conditions, SINCE_MAYFLY};
use crate::command::member::{
    Done, NO_DEADLINE, NO_MEMBER, TTL_SECONDS, deadline_effect, member_term,
};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{Basis, Unit, is_due};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;

/// What FIELDTTL answers if there is a key but no such member.
const NO_MEMBER_OF_KEY: i64 = -3;

const UNIT: &[Arg] = &[Arg::word("seconds", "s"), Arg::word("milliseconds", "ms")];

/// A command that gives deadlines.
const SETTING: Row = Row {
    name: "expiremember",
    arity: -4,
    flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
    categories: category::KEYSPACE | category::WRITE | category::FAST,
    keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
    group: Group::Generic,
    since: SINCE_MAYFLY,
    complexity: "O(1)",
    summary: "Sets the time to live of a member of a set or sorted set, or of a hash field.",
    args: &[
        Arg::key("key"),
        Arg::new("member", ArgKind::String),
        Arg::new("ttl", ArgKind::Integer),
        Arg::one_of("unit", UNIT).optional(),
    ],
    subcommands: &[],
    handler: Data(expiremember),
};

/// Commands of other servers on deadlines of members.
pub const COMMANDS: &[Row] = &[
    SETTING,
    Row {
        name: "expirememberat",
        arity: 4,
        summary: "Sets when a member or hash field expires, as a Unix time in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String),
            Arg::new("unix-time-seconds", ArgKind::UnixTime),
        ],
        handler: Data(|live, args, reply| {
            expire_one(
                live,
                args,
                reply,
                (Unit::Seconds, Basis::Absolute),
                "expirememberat",
            )
        }),
        ..SETTING
    },
    Row {
        name: "pexpirememberat",
        arity: 4,
        summary: "Sets when a member or hash field expires, as a Unix time in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String),
            Arg::new("unix-time-milliseconds", ArgKind::UnixTime),
        ],
        handler: Data(|live, args, reply| {
            expire_one(
                live,
                args,
                reply,
                (Unit::Millis, Basis::Absolute),
                "pexpirememberat",
            )
        }),
        ..SETTING
    },
    Row {
        name: "fieldexpire",
        complexity: "O(N) with N the number of fields",
        summary: "Sets the time to live of hash fields or members, in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("seconds", ArgKind::Integer),
            Arg::new("field", ArgKind::String).multiple(),
        ],
        handler: Data(fieldexpire),
        ..SETTING
    },
    Row {
        name: "fieldttl",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        summary: "Returns the remaining time to live of a hash field or member, in seconds.",
        args: &[Arg::key("key"), Arg::new("field", ArgKind::String)],
        handler: Data(fieldttl),
        ..SETTING
    },
    Row {
        name: "saddex",
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::SET | category::FAST,
        group: Group::Set,
        complexity: "O(N) with N the number of members",
        summary: "Adds members to a set together with their time to live, in seconds.",
        args: &[
            Arg::key("key"),
            Arg::one_of("condition", SADDEX_CONDITION).optional(),
            Arg::new("seconds", ArgKind::Integer),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        handler: Data(saddex),
        ..SETTING
    },
];

const SADDEX_CONDITION: &[Arg] = &[Arg::word("nx", "NX"), Arg::word("keepttl", "KEEPTTL")];

/// The type of the collection at a key; none if there is no key.
///
/// # Errors
/// WRONGTYPE if its members, or elements, have no deadlines.
pub fn kind_at(live: &Live<'_>, key: &[u8]) -> Result<Option<Kind>, CommandError> {
    match live.peek(key).map(|slot| slot.kind()) {
        kind @ (None | Some(Kind::Hash | Kind::Set | Kind::Zset)) => Ok(kind),
        Some(Kind::String | Kind::List | Kind::Stream) => Err(CommandError::WrongType),
    }
}

fn expiremember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let unit = match args.len() {
        4 => Unit::Seconds,
        5 if args.is(4, "s") => Unit::Seconds,
        5 if args.is(4, "ms") => Unit::Millis,
        _ => return Err(CommandError::Syntax),
    };
    expire_one(live, args, reply, (unit, Basis::Relative), "expiremember")
}

/// Gives one member a deadline; whether there is such a member.
fn expire_one(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    time: (Unit, Basis),
    command: &'static str,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let kind = kind_at(live, key)?;
    let term = member_term(live, args.get(3), time, command)?;
    let mut answers = Vec::new();
    if let Some(kind) = kind {
        let mut done = Done::new(kind);
        let member = [args.get(2)].into_iter();
        answers = done.expire(live, key, member, term, Conditions::default())?;
        done.record(live, key, Some(term.deadline));
        done.report_past(live, key);
    }
    let is_there = answers.first().is_some_and(|&answer| answer > 0);
    reply.integer(i64::from(is_there));
    Ok(())
}

fn fieldexpire(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let kind = kind_at(live, key)?.unwrap_or(Kind::Hash);
    let time = (Unit::Seconds, Basis::Relative);
    let term = member_term(live, args.get(2), time, "fieldexpire")?;
    let mut done = Done::new(kind);
    let answers = done.expire(live, key, args.from(3), term, Conditions::default())?;
    done.record(live, key, Some(term.deadline));
    done.report_past(live, key);
    reply.array(answers.len());
    answers.into_iter().for_each(|answer| reply.integer(answer));
    Ok(())
}

fn fieldttl(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let Some(kind) = kind_at(live, key)? else {
        reply.integer(NO_MEMBER);
        return Ok(());
    };
    let reading = *live.reading();
    let members = live.members(key, kind)?;
    let deadline = members.and_then(|members| members.deadline(args.get(2)));
    reply.integer(match deadline {
        None => NO_MEMBER_OF_KEY,
        Some(None) => NO_DEADLINE,
        Some(Some(deadline)) => TTL_SECONDS(deadline, &reading),
    });
    Ok(())
}

/// Adds members that die after some seconds. Those that are there get this deadline too, or with NX
/// or KEEPTTL keep what they have.
fn saddex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let keeps = args.is(2, "nx") || args.is(2, "keepttl");
    let first = if keeps { 4 } else { 3 };
    if args.len() <= first {
        return Err(CommandError::WrongArity("saddex".to_owned()));
    }
    let time = (Unit::Seconds, Basis::Relative);
    let term = member_term(live, args.get(first - 1), time, "saddex")?;
    let deadline = term.deadline;
    if is_due(deadline, live.reading().now) {
        return Err(CommandError::InvalidExpire("saddex"));
    }
    let mut set = live.set_or_new(key, args.get(first), args.len() - first)?;
    let (mut added, mut dated) = (Vec::new(), Vec::new());
    for member in args.from(first) {
        let is_new = set.add(member);
        if is_new {
            added.push(member);
        }
        if is_new || !keeps {
            set.set_term(member, Some(term));
            dated.push(member);
        }
    }
    if !added.is_empty() {
        let effect = [b"SADD".as_slice(), key].into_iter();
        live.effect(effect.chain(added.iter().copied()));
        live.changed_by(Event::SADD, key, added.len());
    }
    if !dated.is_empty() {
        deadline_effect(live, (Kind::Set, key), deadline, &dated);
        live.changed_by(Event::SEXPIRE, key, dated.len());
    }
    reply.integer(added.len() as i64);
    Ok(())
}
