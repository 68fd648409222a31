//! Hashes.
//!
//! A field is given a value by `HashMut::set`, which hides the form the hash has; the deadline of
//! the key stays as it is. Counters and floats are read and written as those of strings. What has
//! to do with the deadlines of fields is in [`expire`].

pub mod expire;

use crate::command::dispatch::args::{Args, RepeatedDraws, draws_from};
use crate::command::key::{ScanOptions, Scanned, StringList, reply_scan, scan_cursor};
use crate::command::member::deadline_effect;
use crate::command::reply_string;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::{Protocol, Reply};
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;
use crate::value::hash::HashRef;
use crate::value::long_double::LongDouble;
use crate::value::number::{format_i64, parse_i64};
use crate::value::segmented::Element;

/// The commands on hashes.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "hset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets fields of a hash; creates the hash if it is missing.",
        args: &[Arg::key("key"), Arg::block("data", FIELD_VALUE).multiple()],
        subcommands: &[],
        handler: Data(hset),
    },
    Row {
        name: "hsetnx",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::INSERT)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets a field of a hash unless the field exists.",
        args: &[
            Arg::key("key"),
            Arg::new("field", ArgKind::String),
            Arg::new("value", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(hsetnx),
    },
    Row {
        name: "hmset",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets fields of a hash; an older form of HSET that replies OK.",
        args: &[Arg::key("key"), Arg::block("data", FIELD_VALUE).multiple()],
        subcommands: &[],
        handler: Data(hmset),
    },
    Row {
        name: "hget",
        arity: 3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Returns the value of a field of a hash.",
        args: &[Arg::key("key"), Arg::new("field", ArgKind::String)],
        subcommands: &[],
        handler: Data(hget),
    },
    Row {
        name: "hmget",
        arity: -3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns the values of several fields of a hash.",
        args: &[
            Arg::key("key"),
            Arg::new("field", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(hmget),
    },
    Row {
        name: "hgetall",
        arity: 2,
        flags: flag::READONLY,
        categories: category::READ | category::HASH | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the size of the hash",
        summary: "Returns all fields of a hash with their values.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(hgetall),
    },
    Row {
        name: "hkeys",
        arity: 2,
        flags: flag::READONLY,
        categories: category::READ | category::HASH | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the size of the hash",
        summary: "Returns all field names of a hash.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(hkeys),
    },
    Row {
        name: "hvals",
        arity: 2,
        flags: flag::READONLY,
        categories: category::READ | category::HASH | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the size of the hash",
        summary: "Returns all values of a hash.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(hvals),
    },
    Row {
        name: "hlen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Returns how many fields a hash has.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(hlen),
    },
    Row {
        name: "hexists",
        arity: 3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Checks whether a hash has a field.",
        args: &[Arg::key("key"), Arg::new("field", ArgKind::String)],
        subcommands: &[],
        handler: Data(hexists),
    },
    Row {
        name: "hdel",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Removes fields from a hash; a hash that becomes empty is deleted.",
        args: &[
            Arg::key("key"),
            Arg::new("field", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(hdel),
    },
    Row {
        name: "hstrlen",
        arity: 3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Hash,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Returns the length of a field's value, in bytes.",
        args: &[Arg::key("key"), Arg::new("field", ArgKind::String)],
        subcommands: &[],
        handler: Data(hstrlen),
    },
    Row {
        name: "hincrby",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::Hash,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Increments the integer in a field of a hash; a missing field counts as 0.",
        args: &[
            Arg::key("key"),
            Arg::new("field", ArgKind::String),
            Arg::new("increment", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(hincrby),
    },
    Row {
        name: "hincrbyfloat",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::Hash,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Increments the number in a field by a decimal; a missing field counts as 0.",
        args: &[
            Arg::key("key"),
            Arg::new("field", ArgKind::String),
            Arg::new("increment", ArgKind::Double),
        ],
        subcommands: &[],
        handler: Data(hincrbyfloat),
    },
    Row {
        name: "hrandfield",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::HASH | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "6.2.0",
        complexity: "O(N) with N the number of fields picked",
        summary: "Returns random fields of a hash, with or without repetition.",
        args: &[
            Arg::key("key"),
            Arg::block("options", HRANDFIELD_OPTIONS).optional(),
        ],
        subcommands: &[],
        handler: Data(hrandfield),
    },
    Row {
        name: "hscan",
        arity: -3,
        flags: flag::READONLY,
        categories: category::READ | category::HASH | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for a full iteration, with N the number of fields",
        summary: "Iterates over the fields of a hash with a cursor.",
        args: &[
            Arg::key("key"),
            Arg::new("cursor", ArgKind::Integer),
            Arg::new("pattern", ArgKind::Pattern)
                .token("MATCH")
                .optional(),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::word("novalues", "NOVALUES").optional(),
        ],
        subcommands: &[],
        handler: Data(hscan),
    },
];

/// A pair of HSET and HMSET.
pub(super) const FIELD_VALUE: &[Arg] = &[
    Arg::new("field", ArgKind::String),
    Arg::new("value", ArgKind::String),
];

/// How many fields HRANDFIELD picks.
const HRANDFIELD_OPTIONS: &[Arg] = &[
    Arg::new("count", ArgKind::Integer),
    Arg::word("withvalues", "WITHVALUES").optional(),
];

/// Sets the pairs from argument 2 on; how many fields are new.
fn set_pairs(live: &mut Live<'_>, args: Args<'_>, name: &str) -> Result<i64, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(name.to_owned()));
    }
    let key = args.get(1);
    let mut hash = live.hash_or_new(key)?;
    hash.prepare((args.len() - 2) / 2);
    let mut added = 0;
    for i in (2..args.len()).step_by(2) {
        added += i64::from(hash.set(args.get(i), args.get(i + 1)));
    }
    live.changed_by(Event::HSET, key, (args.len() - 2) / 2);
    Ok(added)
}

fn hset(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let added = set_pairs(live, args, "hset")?;
    reply.integer(added);
    Ok(())
}

fn hmset(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    set_pairs(live, args, "hmset")?;
    reply.ok();
    Ok(())
}

fn hsetnx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, field) = (args.get(1), args.get(2));
    let mut hash = live.hash_or_new(key)?;
    let is_new = !hash.view().contains(field);
    if is_new {
        hash.set(field, args.get(3));
        live.changed(Event::HSET, key);
    }
    reply.integer(i64::from(is_new));
    Ok(())
}

fn hget(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    reply_string(reply, hash.and_then(|hash| hash.get(args.get(2))));
    Ok(())
}

fn hmget(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    reply.array(args.len() - 2);
    for field in args.from(2) {
        reply_string(reply, hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

fn hgetall(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    reply.map(hash.map_or(0, HashRef::len));
    for Element { member, value, .. } in hash.into_iter().flat_map(HashRef::iter) {
        reply_string(reply, Some(member));
        reply_string(reply, Some(value));
    }
    Ok(())
}

fn hkeys(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    reply.array(hash.map_or(0, HashRef::len));
    for element in hash.into_iter().flat_map(HashRef::iter) {
        reply_string(reply, Some(element.member));
    }
    Ok(())
}

fn hvals(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    reply.array(hash.map_or(0, HashRef::len));
    for element in hash.into_iter().flat_map(HashRef::iter) {
        reply_string(reply, Some(element.value));
    }
    Ok(())
}

fn hlen(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live.hash(args.get(1))?.map_or(0, HashRef::len);
    reply.integer(len as i64);
    Ok(())
}

fn hexists(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    let is_there = hash.is_some_and(|hash| hash.contains(args.get(2)));
    reply.integer(i64::from(is_there));
    Ok(())
}

fn hdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut removed = 0;
    if let Some(mut hash) = live.hash_mut(key)? {
        removed = args.from(2).filter(|field| hash.remove(field)).count();
    }
    if removed > 0 {
        live.changed_by(Event::HDEL, key, removed);
        live.drop_empty(key);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn hstrlen(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    let value = hash.and_then(|hash| hash.get(args.get(2)));
    reply.integer(value.map_or(0, |value| value.len()) as i64);
    Ok(())
}

fn hincrby(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, field, amount) = (args.get(1), args.get(2), args.integer(3)?);
    // A new hash stays empty on no path: with a missing field nothing below fails.
    let mut hash = live.hash_or_new(key)?;
    let old = match hash.view().get(field) {
        Some(value) => {
            parse_i64(&value).ok_or(CommandError::text("ERR hash value is not an integer"))?
        }
        None => 0,
    };
    let new = old.checked_add(amount).ok_or(CommandError::Overflow)?;
    hash.set_keeping(field, format_i64(new, &mut [0; 20]));
    live.changed(Event::HINCRBY, key);
    reply.integer(new);
    Ok(())
}

fn hincrbyfloat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (key, field) = (args.get(1), args.get(2));
    let amount = LongDouble::parse(args.get(3)).ok_or(CommandError::NotAFloat)?;
    if !amount.is_finite() {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    // As in HINCRBY, nothing below fails with a missing field.
    let mut hash = live.hash_or_new(key)?;
    let new = match hash.view().get(field) {
        Some(value) => LongDouble::parse(&value)
            .ok_or(CommandError::text("ERR hash value is not a float"))?
            .add(amount),
        None => amount,
    };
    if !new.is_finite() {
        return Err(CommandError::NanOrInfinity);
    }
    let text = new.to_text();
    let term = hash.view().term(field).flatten();
    hash.set_keeping(field, text.as_bytes());
    live.effect([b"HSET".as_slice(), key, field, text.as_bytes()]);
    if let Some(term) = term {
        deadline_effect(live, (Kind::Hash, key), term.deadline, &[field]);
    }
    live.changed(Event::HINCRBYFLOAT, key);
    reply.bulk(text.as_bytes());
    Ok(())
}

fn hrandfield(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let mut rng = live.own_rng();
    let key = args.get(1);
    if args.len() == 2 {
        let element = live.hash(key)?.and_then(|hash| hash.random(&mut rng));
        reply_string(reply, element.map(|element| element.member));
        return Ok(());
    }
    let (count, has_values) = args.draws_and_word("withvalues")?;
    let Some(hash) = live.hash(key)? else {
        reply.array(0);
        return Ok(());
    };
    let is_flat = has_values && reply.protocol() == Protocol::Resp2;
    let begin = |reply: &mut Reply<'_>, draws| {
        reply.array(if is_flat { 2 * draws } else { draws });
    };
    let answer = |reply: &mut Reply<'_>, Element { member, value, .. }: Element<'_>| {
        if has_values && !is_flat {
            reply.array(2);
        }
        reply_string(reply, Some(member));
        if has_values {
            reply_string(reply, Some(value));
        }
    };
    let draws = draws_from(count, usize::MAX)?;
    if count >= 0 {
        // Drawn first: to count the living may take longer than to draw some.
        let mut drawn = Vec::new();
        hash.sample(draws, &mut rng, |element| drawn.push(element));
        begin(reply, drawn.len());
        drawn.into_iter().for_each(|element| answer(reply, element));
    } else {
        // As many replies as are announced: no hash is empty.
        let repeated = RepeatedDraws::begin(reply);
        begin(reply, draws);
        hash.draw(draws, &mut rng, |element| {
            answer(reply, element);
            repeated.go_on(reply)
        });
        repeated.end(reply)?;
    }
    Ok(())
}

fn hscan(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let cursor = scan_cursor(args, 2)?;
    let mut found = StringList::default();
    let Some(hash) = live.hash(args.get(1))? else {
        reply_scan(reply, 0, &found);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Fields)?;
    let next = options.walk(cursor, |cursor, count, met| {
        hash.scan(cursor, count, |Element { member, value, .. }| {
            *met += 1;
            if options.allow(&member) {
                found.push(&member);
                if !options.omits_values {
                    found.push(&value);
                }
            }
        })
    });
    reply_scan(reply, next, &found);
    Ok(())
}
