//! EXPIRY: what will die and when, how late it is removed, and a switch for the job that removes
//! it. Redis has no such command.
//!
//! All answers come from the index of deadlines and a bounded number of looks at entries, however
//! many keys there are. No dead key is listed. Times are Unix times in ms, or spans in ms where a
//! name says so.
//!
//! Not here: the index (`expiry`), what is looked up for it (`store/forecast.rs`).

mod rule;

use std::ops::Range;

use crate::clock::{Reading, UnixMillis};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::dispatch::wait::whole_timeout_ms;
use crate::command::key::expire::{JITTER, SINCE_MAYFLY, SLIDING};
use crate::command::server::info::expiry_figures;
use crate::command::server::introspect;
use crate::command::table::row::{Handler, *};
use crate::engine::Engine;
use crate::expiry::{Basis, Deadline, Unit, deadline, expiretime_ms};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::forecast::Listing;
use crate::store::lag::{LagFigures, Removal};
use crate::value::glob::Glob;
use crate::value::number::parse_i64;

/// Ranges that FORECAST tells about if it is not told how many, without that of what dies later:
/// from a second to six days.
const BUCKETS: usize = 20;
/// The most, which end in 17 thousand years.
const BUCKETS_MAX: i64 = 40;
/// The end of the first range, in ms from now; each of the others is twice as long as what is
/// before it.
const FIRST_RANGE_MS: i64 = 1_000;
/// Keys that RANGE lists if it is not told how many.
const COUNT: usize = 100;

const DB: Arg = Arg::new("db", ArgKind::Integer).token("DB").optional();
const COUNT_ARG: Arg = Arg::new("count", ArgKind::Integer)
    .token("COUNT")
    .optional();

/// The command EXPIRY.
pub const COMMANDS: &[Row] = &[Row {
    name: "expiry",
    arity: -2,
    flags: 0,
    categories: category::SLOW,
    keys: &[],
    group: Group::Generic,
    since: SINCE_MAYFLY,
    complexity: "That of the subcommand",
    summary: "Groups the commands about what expires.",
    args: &[],
    subcommands: SUBCOMMANDS,
    handler: Handler::Container,
}];

const SUBCOMMANDS: &[Row] = &[
    Row {
        name: "forecast",
        arity: -2,
        flags: flag::READONLY | flag::TOUCHES_ARBITRARY_KEYS,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1): some thousands of keys are looked at",
        summary: "Tells how many keys and about how many bytes fall due in coming ranges of time.",
        args: &[
            DB,
            Arg::new("buckets", ArgKind::Integer)
                .token("BUCKETS")
                .optional(),
        ],
        subcommands: &[],
        handler: Handler::Engine(forecast),
    },
    Row {
        name: "range",
        arity: -4,
        flags: flag::READONLY | flag::TOUCHES_ARBITRARY_KEYS,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(N) with N the count; at least some thousands of keys are looked at",
        summary: "Lists the keys that fall due in a window of time, the soonest first.",
        args: &[
            Arg::new("from", ArgKind::String),
            Arg::new("to", ArgKind::String),
            DB,
            COUNT_ARG,
            Arg::new("pattern", ArgKind::Pattern)
                .token("MATCH")
                .optional(),
        ],
        subcommands: &[],
        handler: Handler::Engine(range),
    },
    Row {
        name: "next",
        arity: -2,
        flags: flag::READONLY | flag::TOUCHES_ARBITRARY_KEYS,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(N) with N the count; at most some thousands of keys are looked at",
        summary: "Lists the keys of all databases that fall due next.",
        args: &[COUNT_ARG],
        subcommands: &[],
        handler: Handler::Engine(next),
    },
    Row {
        name: "lag",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1)",
        summary: "Tells how late keys and fields were removed, since start and in the last minute.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(lag),
    },
    Row {
        name: "stats",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1): some thousands of keys are looked at",
        summary: "Returns the figures of INFO EXPIRY.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(stats),
    },
    Row {
        name: "pause",
        arity: -2,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1)",
        summary: "Stops looking for what is due, for a time or until RESUME; it stays hidden.",
        args: &[Arg::new("milliseconds", ArgKind::Integer).optional()],
        subcommands: &[],
        handler: Handler::Engine(pause),
    },
    Row {
        name: "resume",
        arity: 2,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1)",
        summary: "Looks for what is due again.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(resume),
    },
    Row {
        name: "rule",
        arity: -3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(N) with N the number of rules",
        summary: "Sets, deletes and shows what holds for the deadlines of keys that begin alike.",
        args: &[Arg::one_of("action", RULE_ACTION)],
        subcommands: &[],
        handler: Handler::Engine(rule::rule),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: SINCE_MAYFLY,
        complexity: "O(1)",
        summary: "Lists the subcommands of EXPIRY, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(introspect::help),
    },
];

/// What EXPIRY RULE does.
const RULE_ACTION: &[Arg] = &[
    Arg::block(
        "set",
        &[
            Arg::new("name", ArgKind::String).token("SET"),
            Arg::new("prefix", ArgKind::String).token("PREFIX"),
            DB,
            Arg::new("default-milliseconds", ArgKind::Integer)
                .token("DEFAULT")
                .optional(),
            Arg::new("min-milliseconds", ArgKind::Integer)
                .token("MIN")
                .optional(),
            Arg::new("max-milliseconds", ArgKind::Integer)
                .token("MAX")
                .optional(),
            JITTER,
            SLIDING,
        ],
    ),
    Arg::new("name", ArgKind::String).token("DEL"),
    Arg::word("list", "LIST"),
    Arg::new("name", ArgKind::String).token("GET"),
    Arg::block(
        "test",
        &[Arg::new("key", ArgKind::String).token("TEST"), DB],
    ),
];

/// What may follow the positions of a subcommand.
#[derive(Default)]
struct Options<'a> {
    db: Option<usize>,
    buckets: Option<usize>,
    count: Option<usize>,
    pattern: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Options from argument `at` on, of those that are `allowed`.
    fn parse(
        engine: &Engine,
        args: Args<'a>,
        mut at: usize,
        allowed: &[&str],
    ) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        while at < args.len() {
            let is_allowed = |word: &&&str| args.is(at, word);
            let word = allowed.iter().find(is_allowed);
            let (Some(&word), true) = (word, at + 1 < args.len()) else {
                return Err(CommandError::Syntax);
            };
            at += 1;
            match word {
                "db" => options.db = Some(database(engine, args, at)?),
                "buckets" => options.buckets = Some(buckets(args, at)?),
                "count" => options.count = Some(count(args, at)?),
                _ => options.pattern = Some(args.get(at)),
            }
            at += 1;
        }
        Ok(options)
    }
}

fn database(engine: &Engine, args: Args<'_>, at: usize) -> Result<usize, CommandError> {
    let db = usize::try_from(args.integer(at)?).ok();
    db.filter(|&db| db < engine.keyspace.databases())
        .ok_or(CommandError::DbIndexOutOfRange)
}

fn buckets(args: Args<'_>, at: usize) -> Result<usize, CommandError> {
    match args.integer(at)? {
        buckets @ 1..=BUCKETS_MAX => Ok(buckets as usize),
        _ => Err(CommandError::owned(format!(
            "ERR buckets must be between 1 and {BUCKETS_MAX} inclusive"
        ))),
    }
}

fn count(args: Args<'_>, at: usize) -> Result<usize, CommandError> {
    match usize::try_from(args.integer(at)?) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(CommandError::text("ERR count should be greater than 0")),
    }
}

/// The databases that an option names, or all.
fn databases(engine: &Engine, db: Option<usize>) -> Range<usize> {
    db.map_or(0..engine.keyspace.databases(), |db| db..db + 1)
}

fn forecast(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let options = Options::parse(engine, args, 2, &["db", "buckets"])?;
    let ends = (0..options.buckets.unwrap_or(BUCKETS)).map(|range| FIRST_RANGE_MS << range);
    let ends: Vec<i64> = ends.collect();
    let now = engine.reading.now;
    let moments: Vec<UnixMillis> = ends.iter().map(|&ms| now.plus(ms)).collect();
    let dbs = databases(engine, options.db);
    let due = engine.keyspace.forecast(dbs, &moments);
    let mut reply = caller.reply();
    reply.array(due.len());
    for (range, due) in due.iter().enumerate() {
        let after_ms = range.checked_sub(1).map_or(0, |before| ends[before]);
        reply.map(4);
        reply.bulk(b"after_ms");
        reply.integer(after_ms);
        reply.bulk(b"within_ms");
        match ends.get(range) {
            Some(&ms) => reply.integer(ms),
            None => reply.null(),
        }
        reply.bulk(b"keys");
        reply.integer(due.keys as i64);
        reply.bulk(b"bytes");
        reply.integer(due.bytes as i64);
    }
    Ok(())
}

/// A moment of RANGE: a Unix time in ms, `+` and a span from now, or an end of time.
fn moment(reading: &Reading, args: Args<'_>, at: usize) -> Result<UnixMillis, CommandError> {
    let (amount, basis) = match args.get(at) {
        b"-" => return Ok(UnixMillis(i64::MIN)),
        b"+" => return Ok(UnixMillis(i64::MAX)),
        [b'+', span @ ..] => (parse_i64(span), Basis::Relative),
        time => (parse_i64(time), Basis::Absolute),
    };
    let amount = amount.ok_or(CommandError::NotAnInteger)?;
    deadline(amount, Unit::Millis, basis, reading)
        .map(|deadline| deadline.0)
        .ok_or(CommandError::NotAnInteger)
}

fn range(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let reading = engine.reading;
    let (from, to) = (moment(&reading, args, 2)?, moment(&reading, args, 3)?);
    let options = Options::parse(engine, args, 4, &["db", "count", "match"])?;
    if from > to {
        return Err(CommandError::text("ERR the window ends before it begins"));
    }
    let dbs = databases(engine, options.db);
    let pattern = options.pattern.map(|pattern| Glob::new(pattern, false));
    let is_wanted = |key: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
    let window = (from.max(reading.now.plus(1)), to);
    let count = options.count.unwrap_or(COUNT);
    let listing = engine.keyspace.due_in(dbs, window, count, is_wanted);
    reply_listing(&mut caller.reply(), &reading, &listing);
    Ok(())
}

fn next(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let options = Options::parse(engine, args, 2, &["count"])?;
    let reading = engine.reading;
    let window = (reading.now.plus(1), UnixMillis(i64::MAX));
    let count = options.count.unwrap_or(1);
    let dbs = databases(engine, None);
    let listing = engine.keyspace.due_in(dbs, window, count, |_| true);
    reply_listing(&mut caller.reply(), &reading, &listing);
    Ok(())
}

/// Each key as its database, its name and its deadline, and before which moment they are all: null
/// if they are all of the window.
fn reply_listing(reply: &mut Reply<'_>, reading: &Reading, listing: &Listing) {
    reply.map(2);
    reply.bulk(b"complete_until");
    match listing.complete_until {
        Some(until) => reply.integer(expiretime_ms(Deadline(until), reading)),
        None => reply.null(),
    }
    reply.bulk(b"keys");
    reply.array(listing.keys.len());
    for mortal in &listing.keys {
        reply.array(3);
        reply.integer(mortal.db as i64);
        reply.bulk(&mortal.key);
        reply.integer(expiretime_ms(mortal.deadline, reading));
    }
}

fn lag(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    let (lags, now) = (&engine.keyspace.lag, engine.reading.now);
    let mut reply = caller.reply();
    reply.map(3);
    reply.bulk(b"expire-max-lag-ms");
    reply.integer(engine.config.expire_lag_ms_max.into());
    for (name, removal) in [("active", Removal::Active), ("lazy", Removal::Lazy)] {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"since_start");
        reply_lag(&mut reply, lags.of(removal));
        reply.bulk(b"last_minute");
        reply_lag(&mut reply, &lags.of_last_minute(removal, now));
    }
    Ok(())
}

fn reply_lag(reply: &mut Reply<'_>, figures: &LagFigures) {
    let counts = [
        ("removals", figures.removals()),
        ("p50_ms", figures.quantile_ms(0.50)),
        ("p99_ms", figures.quantile_ms(0.99)),
        ("p999_ms", figures.quantile_ms(0.999)),
        ("max_ms", figures.max_ms()),
    ];
    reply.map(counts.len() + 1);
    for (name, count) in counts {
        reply.bulk(name.as_bytes());
        reply.integer(count as i64);
    }
    reply.bulk(b"histogram");
    reply.map(figures.histogram().count());
    for (ms, removals) in figures.histogram() {
        reply.integer(ms as i64);
        reply.integer(removals as i64);
    }
}

fn stats(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    let figures = expiry_figures(engine);
    let mut reply = caller.reply();
    reply.map(figures.len());
    for (name, value) in &figures {
        reply.bulk(name.as_bytes());
        match parse_i64(value.as_bytes()) {
            Some(number) => reply.integer(number),
            None => reply.bulk(value.as_bytes()),
        }
    }
    Ok(())
}

fn pause(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let ms = match args.len() {
        2 => None,
        3 => Some(whole_timeout_ms(engine, args, 2)?),
        _ => return Err(introspect::wrong_subcommand(args)),
    };
    engine.pause_expiry(ms);
    caller.reply().ok();
    Ok(())
}

fn resume(engine: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    engine.resume_expiry();
    caller.reply().ok();
    Ok(())
}
