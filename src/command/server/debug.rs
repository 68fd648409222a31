//! DEBUG: for tests and for looking inside; refused unless `enable-debug-command` allows it.
//!
//! Only what means something here is offered. It has one row and no subcommands of its own on the
//! table, as in Redis, where they are not documented either.

use std::time::Duration;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::key;
use crate::command::server::digest;
use crate::command::server::introspect::wrong_subcommand;
use crate::command::table::row::Handler::Engine as OnEngine;
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::{Protocol, Reply};
use crate::store::change::Event;
use crate::store::collection;
use crate::store::db::Ttl;
use crate::value::glob;

/// The commands for testing.
pub const COMMANDS: &[Row] = &[Row {
    name: "debug",
    arity: -2,
    flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
    categories: category::ADMIN | category::SLOW | category::DANGEROUS,
    keys: &[],
    group: Group::Server,
    since: "1.0.0",
    complexity: "That of the subcommand",
    summary: "Groups the commands for testing the server itself.",
    args: &[],
    subcommands: &[],
    handler: OnEngine(debug),
}];

/// DEBUG SLEEP stops the server for at most this long: a slip of the finger must not stop it for
/// years.
const SLEEP_SECONDS_MAX: f64 = 3600.0;
/// The longest text DEBUG STRINGMATCH-LEN makes.
const MATCHED_BYTES_MAX: i64 = 1 << 20;

/// What DEBUG HELP answers.
const HELP: &[&str] = &[
    "DEBUG has the subcommands",
    "DIGEST",
    "    Shows a digest of all keys and values, the same as Redis 8.2 shows.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Shows a digest of each value.",
    "ERROR <text>",
    "    Answers with an error.",
    "HTSTATS <db>",
    "    Describes the table of a database's keys and the index of their deadlines.",
    "LOG <text>",
    "    Writes a line to the log.",
    "OBJECT <key>",
    "    Shows how a key is kept, even if its deadline has passed.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Makes keys <prefix>:0, <prefix>:1 and so on, leaving those that are there alone.",
    "PROTOCOL <type>",
    "    Answers with a value of a type: string, integer, double, bignum, null, array, set, map,",
    "    attrib, push, verbatim, true or false.",
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Saves the snapshot, empties all databases and loads it.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    With 0, keys whose deadline has passed are removed only when a command meets them.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    With 1, scripts may call commands that they otherwise may not.",
    "SLEEP <seconds>",
    "    Stops the whole server for a while.",
    "STRINGMATCH-LEN <length> <pattern>",
    "    Matches so many letters a with a pattern.",
    "HELP",
    "    Lists these lines.",
];

fn debug(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let is_local = engine.sessions[caller.session].is_local();
    if !engine.config.debug_command.allows(is_local) {
        return Err(CommandError::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \
             \"local\", you can run it from a local \
             connection, otherwise you need to set this option in the \
             configuration file, and then restart the server.",
        ));
    }
    let subcommand = args.get(1).to_ascii_lowercase();
    // The others may run while the snapshot is loaded; this one would mix its keys with the file's.
    if subcommand == b"populate" && engine.jobs.is_loading() {
        return Err(CommandError::Loading);
    }
    match (subcommand.as_slice(), args.len()) {
        (b"digest", 2) => dataset_digest(engine, caller),
        (b"digest-value", _) => value_digests(engine, caller, args),
        (b"sleep", 3) => sleep(caller, args),
        (b"set-active-expire", 3) => set_active_expire(engine, caller, args),
        (b"error", 3) => error(caller, args),
        (b"log", 3) => write_log(caller, args),
        (b"protocol", 3) => protocol(caller, args),
        (b"set-disable-deny-scripts", 3) => allow_all_to_scripts(engine, caller, args),
        (b"object", 3) => object(engine, caller, args),
        (b"populate", 3..=5) => populate(engine, caller, args),
        (b"stringmatch-len", 4) => stringmatch_len(caller, args),
        (b"htstats", 3..=4) => htstats(engine, caller, args),
        (b"reload", _) => reload(engine, caller, args),
        (b"help", 2) => help(caller),
        _ => Err(wrong_subcommand(args)),
    }
}

fn dataset_digest(engine: &mut Engine, caller: &mut Caller<'_>) -> Result<(), CommandError> {
    let digest = digest::of_dataset(engine);
    caller.reply().simple(&digest.text());
    Ok(())
}

fn value_digests(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let db = caller.db;
    caller.reply().array(args.len() - 2);
    for name in args.from(2) {
        let digest = digest::of_value(engine, db, name);
        caller.reply().simple(&digest.text());
    }
    Ok(())
}

/// `DEBUG RELOAD [NOSAVE] [NOFLUSH] [MERGE]`. Without MERGE a key that is both there and in the
/// snapshot is an error in Redis; here the snapshot's value wins in both cases and is counted.
fn reload(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let (mut saves, mut flushes, mut merges) = (true, true, false);
    for i in 2..args.len() {
        match args.get(i).to_ascii_lowercase().as_slice() {
            b"nosave" => saves = false,
            b"noflush" => flushes = false,
            b"merge" => merges = true,
            _ => {
                return Err(CommandError::text(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    crate::command::server::snapshot::reload(engine, (saves, flushes, merges))?;
    caller.reply().ok();
    Ok(())
}

/// Redis: reads its number as far as it is one; here what is no number is 0.
fn sleep(caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let seconds: f64 = args.text(2).parse().unwrap_or(0.0);
    // The comparison is false for what is not a number.
    if seconds > 0.0 {
        let seconds = seconds.min(SLEEP_SECONDS_MAX);
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
    caller.reply().ok();
    Ok(())
}

fn set_active_expire(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if args.integer(2).unwrap_or(0) == 0 {
        engine.pause_expiry(None);
    } else {
        engine.resume_expiry();
    }
    caller.reply().ok();
    Ok(())
}

/// Answers with this text as an error, without counting it.
fn error(caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let line: Vec<u8> = args
        .get(2)
        .iter()
        .map(|&byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                byte
            }
        })
        .collect();
    caller.reply().error(&line);
    Ok(())
}

fn write_log(caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    log::warn!("DEBUG LOG: {}", args.text(2));
    caller.reply().ok();
    Ok(())
}

/// Answers with a value of a type, which shows how a client reads it. The values are those of
/// Redis.
fn protocol(caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let is_resp2 = caller.protocol == Protocol::Resp2;
    let mut reply = caller.reply();
    let numbers = |reply: &mut Reply<'_>| (0..3).for_each(|number| reply.integer(number));
    match args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            numbers(&mut reply);
        }
        b"set" => {
            reply.set(3);
            numbers(&mut reply);
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if !is_resp2 {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if is_resp2 => {
            return Err(CommandError::text(
                "ERR RESP2 is not supported by this command",
            ));
        }
        b"push" => {
            // What is pushed follows the reply.
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
        }
        b"verbatim" => reply.verbatim("This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        _ => {
            return Err(CommandError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn allow_all_to_scripts(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    engine.scripts.allows_all = args.integer(2).unwrap_or(0) != 0;
    caller.reply().ok();
    Ok(())
}

fn object(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let (db, reading) = (caller.db, engine.reading);
    let live = engine.keyspace.live(db, &reading);
    let slot = live.autopsy(args.get(2)).ok_or(CommandError::NoSuchKey)?;
    let text = format!(
        "Value at:{:#x} refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        slot.address(),
        key::encoding(slot),
        collection::payload_bytes(slot),
        slot.clock(),
        live.idle_seconds(slot),
    );
    caller.reply().simple(&text);
    Ok(())
}

fn populate(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let positive = |i: usize| {
        let number = args.integer(i).ok().and_then(|n| usize::try_from(n).ok());
        number.ok_or(CommandError::text(
            "ERR value is out of range, must be positive",
        ))
    };
    let count = positive(2)?;
    let prefix = args.at(3).unwrap_or(b"key");
    let size = if args.len() > 4 { positive(4)? } else { 0 };
    if size > engine.keyspace.string_bytes_max {
        return Err(CommandError::StringTooLong);
    }
    let (db, reading) = (caller.db, engine.reading);
    let mut live = engine.keyspace.live(db, &reading);
    for number in 0..count {
        let name = [prefix, format!(":{number}").as_bytes()].concat();
        if live.peek(&name).is_some() {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        live.set_string(&name, &value, Ttl::Drop);
        live.effect([b"SET".as_slice(), &name, &value]);
        live.changed(Event::SET, &name);
    }
    caller.reply().ok();
    Ok(())
}

/// 1 if the pattern matches, else 0: lets a test see that no pattern takes exponential time.
fn stringmatch_len(caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let len = args.integer(2)?;
    if !(0..=MATCHED_BYTES_MAX).contains(&len) {
        return Err(CommandError::NotAnInteger);
    }
    let text = vec![b'a'; len as usize];
    let is_match = glob::matches(args.get(3), &text, false);
    caller.reply().integer(i64::from(is_match));
    Ok(())
}

fn htstats(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let number = usize::try_from(args.integer(2)?)
        .ok()
        .filter(|&number| number < engine.keyspace.databases())
        .ok_or(CommandError::text("ERR Out of range database"))?;
    let db = engine.keyspace.db(number);
    let (keys, buckets) = (db.table.len(), db.table.buckets());
    let load = keys as f64 * 100.0 / buckets.max(1) as f64;
    let text = format!(
        "[Keys]\n segments: {}\n buckets: {buckets}\n keys: {keys}\n load: {load:.1}%\n \
         bytes: {}\n[Deadlines]\n items: {}\n ripe: {}\n bytes: {}\n",
        db.table.segments(),
        db.table.allocated_bytes(),
        db.index.len(),
        db.index.ripe_len(),
        db.index.allocated_bytes(),
    );
    caller.reply().verbatim(text);
    Ok(())
}

fn help(caller: &mut Caller<'_>) -> Result<(), CommandError> {
    let mut reply = caller.reply();
    reply.array(HELP.len());
    HELP.iter().for_each(|line| reply.simple(line));
    Ok(())
}
