//! Sorted sets: their members one by one. Parts of them are in [`range`], taking from an
//! end in [`pop`], unions and the like in [`combine`].
//!
//! A member is given a score by `ZsetMut::insert`, which hides the form the set has; the deadline
//! of the key stays as it is.
//!
//! Redis: the score of a big set given as `-0` is printed as `-0`, and ZSCAN prints the scores of
//! a big set with 17 digits; here both are printed as those of a small one.

pub mod range;

pub mod pop;

pub mod combine;

use crate::command::dispatch::args::{Args, RepeatedDraws, draws_from};
use crate::command::key::{ScanOptions, Scanned, StringList, reply_scan, scan_cursor};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::{Protocol, Reply};
use crate::store::Live;
use crate::store::change::Event;
use crate::store::edit::zset::ZsetMut;
use crate::value::number::{format_f64, parse_f64};
use crate::value::zset::{Interval, LexBound, Outcome, ScoreBound};

/// The commands on members of sorted sets.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "zadd",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log N) for each member given, with N the number of members",
        summary: "Adds members to a sorted set, or changes their scores.",
        args: &[
            Arg::key("key"),
            Arg::one_of("condition", CONDITION)
                .optional()
                .since("3.0.2"),
            Arg::one_of("comparison", COMPARISON)
                .optional()
                .since("6.2.0"),
            Arg::word("change", "CH").optional().since("3.0.2"),
            Arg::word("increment", "INCR").optional().since("3.0.2"),
            Arg::block("data", DATA).multiple(),
        ],
        subcommands: &[],
        handler: Data(zadd),
    },
    Row {
        name: "zincrby",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log N) with N the number of members",
        summary: "Increments the score of a member; a missing member counts as 0.",
        args: &[
            Arg::key("key"),
            Arg::new("increment", ArgKind::Integer),
            Arg::new("member", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(zincrby),
    },
    Row {
        name: "zrem",
        arity: -3,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(M log N) with N the number of members and M of those removed",
        summary: "Removes members from a sorted set; one that becomes empty is deleted.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(zrem),
    },
    Row {
        name: "zscore",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Returns the score of a member of a sorted set.",
        args: &[Arg::key("key"), Arg::new("member", ArgKind::String)],
        subcommands: &[],
        handler: Data(zscore),
    },
    Row {
        name: "zmscore",
        arity: -3,
        flags: flag::READONLY | flag::FAST | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(M) with M the number of members asked for",
        summary: "Returns the scores of several members of a sorted set.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(zmscore),
    },
    Row {
        name: "zcard",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Returns how many members a sorted set has.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(zcard),
    },
    Row {
        name: "zcount",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log N) with N the number of members",
        summary: "Returns how many members of a sorted set have scores between two bounds.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::Double),
            Arg::new("max", ArgKind::Double),
        ],
        subcommands: &[],
        handler: Data(zcount),
    },
    Row {
        name: "zlexcount",
        arity: 4,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log N) with N the number of members",
        summary: "Returns how many members are in a lexicographical range; scores must be equal.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::String),
            Arg::new("max", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(zlexcount),
    },
    Row {
        name: "zrank",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log N) with N the number of members",
        summary: "Returns the rank of a member, from the lowest score up.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String),
            Arg::word("withscore", "WITHSCORE").optional(),
        ],
        subcommands: &[],
        handler: Data(zrank),
    },
    Row {
        name: "zrevrank",
        arity: -3,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(log N) with N the number of members",
        summary: "Returns the rank of a member, from the highest score down.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String),
            Arg::word("withscore", "WITHSCORE").optional(),
        ],
        subcommands: &[],
        handler: Data(zrevrank),
    },
    Row {
        name: "zrandmember",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(M log N) with N the number of members and M of those drawn",
        summary: "Returns random members of a sorted set, with or without repetition.",
        args: &[Arg::key("key"), Arg::block("options", OPTIONS).optional()],
        subcommands: &[],
        handler: Data(zrandmember),
    },
    Row {
        name: "zscan",
        arity: -3,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.8.0",
        complexity: "O(1) for each call, O(N) for all of N members",
        summary: "Iterates over the members of a sorted set with a cursor.",
        args: &[
            Arg::key("key"),
            Arg::new("cursor", ArgKind::Integer),
            Arg::new("pattern", ArgKind::Pattern)
                .token("MATCH")
                .optional(),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zscan),
    },
];

/// Which members ZADD may touch.
const CONDITION: &[Arg] = &[Arg::word("nx", "NX"), Arg::word("xx", "XX")];

/// To which side ZADD may move a score.
const COMPARISON: &[Arg] = &[Arg::word("gt", "GT"), Arg::word("lt", "LT")];

/// A pair of ZADD.
const DATA: &[Arg] = &[
    Arg::new("score", ArgKind::Double),
    Arg::new("member", ArgKind::String),
];

/// How many members ZRANDMEMBER draws.
const OPTIONS: &[Arg] = &[
    Arg::new("count", ArgKind::Integer),
    Arg::word("withscores", "WITHSCORES").optional(),
];

/// How a member and its score are answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The member alone.
    Member,
    /// The member, and the score after it.
    Flat,
    /// An array of the two.
    Pair,
}

impl Shape {
    /// Of a reply that has scores if WITHSCORES was given: RESP3 has pairs.
    pub(super) fn with_scores(has_scores: bool, reply: &Reply<'_>) -> Shape {
        match (has_scores, reply.protocol()) {
            (false, _) => Shape::Member,
            (true, Protocol::Resp2) => Shape::Flat,
            (true, Protocol::Resp3) => Shape::Pair,
        }
    }

    /// Announces so many members.
    pub(super) fn announce(self, len: usize, reply: &mut Reply<'_>) {
        reply.array(if self == Shape::Flat { 2 * len } else { len });
    }

    /// Answers a member.
    pub(super) fn reply(self, (member, score): (&[u8], f64), reply: &mut Reply<'_>) {
        if self == Shape::Pair {
            reply.array(2);
        }
        reply.bulk(member);
        if self != Shape::Member {
            reply.double(score);
        }
    }
}

/// The interval of scores between two arguments.
pub(super) fn score_interval<'a>(
    args: Args<'a>,
    min_at: usize,
    max_at: usize,
) -> Result<Interval<'a>, CommandError> {
    let bound = |index| {
        ScoreBound::parse(args.get(index))
            .ok_or(CommandError::text("ERR min or max is not a float"))
    };
    let (min, max) = (bound(min_at)?, bound(max_at)?);
    Ok(Interval::Scores { min, max })
}

/// The interval of members between two arguments.
pub(super) fn member_interval<'a>(
    args: Args<'a>,
    min_at: usize,
    max_at: usize,
) -> Result<Interval<'a>, CommandError> {
    let bound = |index| {
        LexBound::parse(args.get(index)).ok_or(CommandError::text(
            "ERR min or max not valid string range item",
        ))
    };
    let (min, max) = (bound(min_at)?, bound(max_at)?);
    Ok(Interval::Members { min, max })
}

/// Options of ZADD.
#[derive(Clone, Copy, Default)]
pub(super) struct AddOptions {
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    if_greater: bool,
    if_less: bool,
    pub(super) counts_changes: bool,
    increments: bool,
}

impl AddOptions {
    /// The options, and where the first score is. ZINCRBY goes through here as well: a word that
    /// is an option here leaves it without a pair.
    fn parse(args: Args<'_>, increments: bool) -> Result<(AddOptions, usize), CommandError> {
        let mut options = AddOptions {
            increments,
            ..AddOptions::default()
        };
        let mut first = 2;
        while first < args.len() {
            if args.is(first, "nx") {
                options.if_absent = true;
            } else if args.is(first, "xx") {
                options.if_present = true;
            } else if args.is(first, "gt") {
                options.if_greater = true;
            } else if args.is(first, "lt") {
                options.if_less = true;
            } else if args.is(first, "ch") {
                options.counts_changes = true;
            } else if args.is(first, "incr") {
                options.increments = true;
            } else {
                break;
            }
            first += 1;
        }
        let left = args.len() - first;
        if left == 0 || !left.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        options.check(left / 2)?;
        Ok((options, first))
    }

    fn check(&self, pairs: usize) -> Result<(), CommandError> {
        let conditions = [self.if_absent, self.if_greater, self.if_less];
        let text = if self.if_absent && self.if_present {
            "ERR XX and NX options at the same time are not compatible"
        } else if conditions.into_iter().filter(|&is_given| is_given).count() > 1 {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.increments && pairs > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(CommandError::text(text))
    }

    /// Sets the score of a member as the options say: what that did and the score it has now, or
    /// none if they do not allow it.
    fn put(
        &self,
        zset: &mut ZsetMut<'_>,
        member: &[u8],
        score: f64,
    ) -> Result<Option<(Outcome, f64)>, CommandError> {
        let mut score = score;
        if let Some(old) = zset.score(member) {
            if self.if_absent {
                return Ok(None);
            }
            if self.increments {
                score += old;
            }
            if score.is_nan() {
                return Err(CommandError::text(
                    "ERR resulting score is not a number (NaN)",
                ));
            }
            if self.if_greater && score <= old || self.if_less && score >= old {
                return Ok(None);
            }
        } else if self.if_present {
            return Ok(None);
        }
        Ok(Some((zset.insert(member, score), score)))
    }
}

fn add(
    live: &mut Live<'_>,
    args: Args<'_>,
    increments: bool,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (options, first) = AddOptions::parse(args, increments)?;
    let records: Vec<(&[u8], f64)> = (first..args.len())
        .step_by(2)
        .map(|index| {
            let score = parse_f64(args.get(index)).ok_or(CommandError::NotAFloat)?;
            Ok((args.get(index + 1), score))
        })
        .collect::<Result<_, CommandError>>()?;
    put_all(live, args.get(1), &options, &records, reply)
}

/// Gives members these scores as the options say, reports it and answers.
pub(super) fn put_all(
    live: &mut Live<'_>,
    key: &[u8],
    options: &AddOptions,
    records: &[(&[u8], f64)],
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let zset = if options.if_present {
        live.zset_by_name_mut(key)?
    } else {
        Some(live.zset_or_new(key)?)
    };
    let (mut added, mut changed, mut last) = (0, 0, None);
    if let Some(mut zset) = zset {
        zset.prepare(records.len());
        for &(member, score) in records {
            last = options.put(&mut zset, member, score)?;
            match last {
                Some((Outcome::Added, _)) => added += 1,
                Some((Outcome::Changed, _)) => changed += 1,
                Some((Outcome::Unchanged, _)) | None => {}
            }
        }
    }
    if added + changed > 0 {
        let event = if options.increments {
            Event::ZINCR
        } else {
            Event::ZADD
        };
        live.changed_by(event, key, (added + changed) as usize);
    }
    match last {
        Some((_, score)) if options.increments => reply.double(score),
        None if options.increments => reply.null(),
        _ if options.counts_changes => reply.integer(added + changed),
        _ => reply.integer(added),
    }
    Ok(())
}

fn zadd(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    add(live, args, false, reply)
}

fn zincrby(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    add(live, args, true, reply)
}

fn zrem(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut removed = 0;
    if let Some(mut zset) = live.zset_by_name_mut(key)? {
        removed = args
            .from(2)
            .filter_map(|member| zset.remove(member))
            .count();
    }
    if removed > 0 {
        live.changed_by(Event::ZREM, key, removed);
        live.drop_empty(key);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn reply_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

fn zscore(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let zset = live.zset_by_name(args.get(1))?;
    reply_score(reply, zset.and_then(|zset| zset.score(args.get(2))));
    Ok(())
}

fn zmscore(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let zset = live.zset_by_name(args.get(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        reply_score(reply, zset.and_then(|zset| zset.score(member)));
    }
    Ok(())
}

fn zcard(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live.zset_by_name(args.get(1))?.map_or(0, |zset| zset.len());
    reply.integer(len as i64);
    Ok(())
}

fn count(
    live: &mut Live<'_>,
    key: &[u8],
    interval: Interval<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let zset = live.zset(key)?;
    reply.integer(zset.map_or(0, |zset| zset.ranks(&interval).len()) as i64);
    Ok(())
}

fn zcount(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    count(live, args.get(1), score_interval(args, 2, 3)?, reply)
}

fn zlexcount(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    count(live, args.get(1), member_interval(args, 2, 3)?, reply)
}

/// Answers the rank of a member, which `from_end` makes of the rank from the start and the length.
fn rank(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    from_end: fn(usize, usize) -> usize,
) -> Result<(), CommandError> {
    if args.len() > 4 {
        let name = String::from_utf8_lossy(args.get(0)).to_lowercase();
        return Err(CommandError::WrongArity(name));
    }
    let has_score = args.len() == 4;
    if has_score && !args.is(3, "withscore") {
        return Err(CommandError::Syntax);
    }
    let member = args.get(2);
    let zset = live.zset(args.get(1))?;
    let found = zset.and_then(|zset| {
        let rank = from_end(zset.rank(member)?, zset.len());
        let score = if has_score { zset.score(member) } else { None };
        Some((rank as i64, score))
    });
    match found {
        Some((rank, Some(score))) => {
            reply.array(2);
            reply.integer(rank);
            reply.double(score);
        }
        Some((rank, None)) => reply.integer(rank),
        None if has_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

fn zrank(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    rank(live, args, reply, |rank, _| rank)
}

fn zrevrank(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    rank(live, args, reply, |rank, len| len - 1 - rank)
}

fn zrandmember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let mut rng = live.own_rng();
    let key = args.get(1);
    if args.len() == 2 {
        match live.zset(key)?.and_then(|zset| zset.random(&mut rng)) {
            Some((member, _)) => reply.bulk(member),
            None => reply.null(),
        }
        return Ok(());
    }
    let (count, has_scores) = args.draws_and_word("withscores")?;
    let Some(zset) = live.zset(key)? else {
        reply.array(0);
        return Ok(());
    };
    let draws = draws_from(count, zset.len())?;
    let shape = Shape::with_scores(has_scores, reply);
    let repeated = RepeatedDraws::begin(reply);
    shape.announce(draws, reply);
    if count >= 0 {
        zset.sample(draws, &mut rng)
            .for_each(|record| shape.reply(record, reply));
    } else {
        // As many replies as were announced: no sorted set is empty.
        let mut drawn = (0..draws).map_while(|_| zset.random(&mut rng));
        while repeated.go_on(reply)
            && let Some(record) = drawn.next()
        {
            shape.reply(record, reply);
        }
        repeated.end(reply)?;
    }
    Ok(())
}

fn zscan(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let cursor = scan_cursor(args, 2)?;
    let mut found = StringList::default();
    let Some(zset) = live.zset(args.get(1))? else {
        reply_scan(reply, 0, &found);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Members)?;
    let next = options.walk(cursor, |cursor, count, met| {
        // A cursor that never was one of ours is as good as the last there is.
        let cursor = u32::try_from(cursor).unwrap_or(u32::MAX);
        let next = zset.scan(cursor, count, |member, score| {
            *met += 1;
            if options.allow(member) {
                found.push(member);
                found.push(&format_f64(score));
            }
        });
        next.into()
    });
    reply_scan(reply, next, &found);
    Ok(())
}
