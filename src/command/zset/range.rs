//! Parts of sorted sets, between two ranks, scores or members: reading, storing and removing them.
//!
//! A `Selection` is what the arguments ask for; for a set it is a range of ranks, and everything
//! is done with that.

use std::ops::Range;

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::command::zset::combine::{Records, store};
use crate::command::zset::{Shape, member_interval, score_interval};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::zset::{Direction, Interval, ZsetRef};

/// The commands on parts of sorted sets.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "zrange",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns a range of a sorted set, by rank, score or member.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::String),
            Arg::new("stop", ArgKind::String),
            Arg::one_of("sortby", SORTBY).optional().since("6.2.0"),
            Arg::word("rev", "REV").optional().since("6.2.0"),
            Arg::block("limit", LIMIT)
                .token("LIMIT")
                .optional()
                .since("6.2.0"),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        subcommands: &[],
        handler: Data(zrange),
    },
    Row {
        name: "zrevrange",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns the members in a range of ranks, from the highest score down.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("stop", ArgKind::Integer),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        subcommands: &[],
        handler: Data(zrevrange),
    },
    Row {
        name: "zrangebyscore",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "1.0.5",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns the members with scores in a range.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::Double),
            Arg::new("max", ArgKind::Double),
            Arg::word("withscores", "WITHSCORES")
                .optional()
                .since("2.0.0"),
            Arg::block("limit", LIMIT).token("LIMIT").optional(),
        ],
        subcommands: &[],
        handler: Data(zrangebyscore),
    },
    Row {
        name: "zrevrangebyscore",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.2.0",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns the members with scores in a range, from the highest score down.",
        args: &[
            Arg::key("key"),
            Arg::new("max", ArgKind::Double),
            Arg::new("min", ArgKind::Double),
            Arg::word("withscores", "WITHSCORES").optional(),
            Arg::block("limit", LIMIT).token("LIMIT").optional(),
        ],
        subcommands: &[],
        handler: Data(zrevrangebyscore),
    },
    Row {
        name: "zrangebylex",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns the members in a lexicographical range; scores must be equal.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::String),
            Arg::new("max", ArgKind::String),
            Arg::block("limit", LIMIT).token("LIMIT").optional(),
        ],
        subcommands: &[],
        handler: Data(zrangebylex),
    },
    Row {
        name: "zrevrangebylex",
        arity: -4,
        flags: flag::READONLY,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(log N + M) with N the number of members and M of those read",
        summary: "Returns the members in a lexicographical range, in reverse order.",
        args: &[
            Arg::key("key"),
            Arg::new("max", ArgKind::String),
            Arg::new("min", ArgKind::String),
            Arg::block("limit", LIMIT).token("LIMIT").optional(),
        ],
        subcommands: &[],
        handler: Data(zrevrangebylex),
    },
    Row {
        name: "zrangestore",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::at(2, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(log N + M log M) with N the number of members and M of those stored",
        summary: "Stores a range of a sorted set under another key.",
        args: &[
            Arg::key("dst"),
            Arg::key("src").key_spec(1),
            Arg::new("min", ArgKind::String),
            Arg::new("max", ArgKind::String),
            Arg::one_of("sortby", SORTBY).optional(),
            Arg::word("rev", "REV").optional(),
            Arg::block("limit", LIMIT).token("LIMIT").optional(),
        ],
        subcommands: &[],
        handler: Data(zrangestore),
    },
    Row {
        name: "zremrangebyrank",
        arity: 4,
        flags: flag::WRITE | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(M log N) with N the number of members and M of those removed",
        summary: "Removes the members in a range of ranks.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("stop", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(zremrangebyrank),
    },
    Row {
        name: "zremrangebyscore",
        arity: 4,
        flags: flag::WRITE | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::SortedSet,
        since: "1.2.0",
        complexity: "O(M log N) with N the number of members and M of those removed",
        summary: "Removes the members with scores in a range.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::Double),
            Arg::new("max", ArgKind::Double),
        ],
        subcommands: &[],
        handler: Data(zremrangebyscore),
    },
    Row {
        name: "zremrangebylex",
        arity: 4,
        flags: flag::WRITE | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::SortedSet,
        since: "2.8.9",
        complexity: "O(M log N) with N the number of members and M of those removed",
        summary: "Removes the members in a lexicographical range; scores must be equal.",
        args: &[
            Arg::key("key"),
            Arg::new("min", ArgKind::String),
            Arg::new("max", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(zremrangebylex),
    },
];

/// What the ends of ZRANGE are.
const SORTBY: &[Arg] = &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")];

/// Which of the members found are answered.
const LIMIT: &[Arg] = &[
    Arg::new("offset", ArgKind::Integer),
    Arg::new("count", ArgKind::Integer),
];

/// What the two ends of a part are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// The two ends of a part.
enum Ends<'a> {
    /// Ranks, counted in the direction; negative ones from the other end.
    Ranks(i64, i64),
    Interval(Interval<'a>),
}

impl<'a> Ends<'a> {
    /// The ends in the arguments at `at` and after it, which are in the direction's order.
    fn parse(
        args: Args<'a>,
        at: usize,
        by: By,
        direction: Direction,
    ) -> Result<Ends<'a>, CommandError> {
        let (min_at, max_at) = match direction {
            Direction::Ascending => (at, at + 1),
            Direction::Descending => (at + 1, at),
        };
        Ok(match by {
            By::Rank => Ends::Ranks(args.integer(at)?, args.integer(at + 1)?),
            By::Score => Ends::Interval(score_interval(args, min_at, max_at)?),
            By::Member => Ends::Interval(member_interval(args, min_at, max_at)?),
        })
    }

    /// The ranks, from the least score on, of the members between them.
    fn ranks(&self, zset: ZsetRef<'_>, direction: Direction) -> Range<usize> {
        let (start, stop) = match self {
            Ends::Interval(interval) => return zset.ranks(interval),
            Ends::Ranks(start, stop) => (*start, *stop),
        };
        let len = zset.len();
        let from_start = |rank: i64| match rank {
            0.. => rank,
            _ => rank + len as i64,
        };
        let start = from_start(start).max(0);
        let stop = from_start(stop).min(len as i64 - 1);
        if start > stop {
            return 0..0;
        }
        let (start, end) = (start as usize, stop as usize + 1);
        match direction {
            Direction::Ascending => start..end,
            Direction::Descending => len - end..len - start,
        }
    }
}

/// The part of the grammar that follows from a command's name.
#[derive(Clone, Copy)]
struct Grammar {
    /// Where the first end is.
    ends_at: usize,
    /// What the ends are, unless an option says so.
    by: Option<By>,
    /// The direction, unless an option says so.
    direction: Option<Direction>,
    /// Whether there may be scores in the reply.
    may_have_scores: bool,
}

impl Grammar {
    const ZRANGE: Grammar = Grammar {
        ends_at: 2,
        by: None,
        direction: None,
        may_have_scores: true,
    };

    const fn settled(by: By, direction: Direction) -> Grammar {
        Grammar {
            by: Some(by),
            direction: Some(direction),
            ..Grammar::ZRANGE
        }
    }
}

/// A part of a sorted set, as the arguments describe it.
struct Selection<'a> {
    ends: Ends<'a>,
    direction: Direction,
    /// Members to be left out at the start; of none, if negative.
    offset: i64,
    /// Members at most; all, if negative.
    count: i64,
    has_scores: bool,
}

impl<'a> Selection<'a> {
    fn parse(args: Args<'a>, grammar: Grammar) -> Result<Selection<'a>, CommandError> {
        let Grammar {
            mut by,
            mut direction,
            ..
        } = grammar;
        let (mut offset, mut count, mut has_scores) = (0, -1, false);
        let mut i = grammar.ends_at + 2;
        while i < args.len() {
            if grammar.may_have_scores && args.is(i, "withscores") {
                has_scores = true;
            } else if args.is(i, "limit") && i + 2 < args.len() {
                offset = args.integer(i + 1)?;
                count = args.integer(i + 2)?;
                i += 2;
            } else if direction.is_none() && args.is(i, "rev") {
                direction = Some(Direction::Descending);
            } else if by.is_none() && args.is(i, "bylex") {
                by = Some(By::Member);
            } else if by.is_none() && args.is(i, "byscore") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            i += 1;
        }
        let by = by.unwrap_or(By::Rank);
        let direction = direction.unwrap_or(Direction::Ascending);
        if by == By::Rank && count != -1 {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if by == By::Member && has_scores {
            return Err(CommandError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        if by == By::Rank {
            // Redis ignores the offset of a LIMIT without an end.
            offset = 0;
        }
        Ok(Selection {
            ends: Ends::parse(args, grammar.ends_at, by, direction)?,
            direction,
            offset,
            count,
            has_scores,
        })
    }

    /// The rank of the first selected member, and how many there are.
    fn place(&self, zset: ZsetRef<'_>) -> (usize, usize) {
        let ranks = self.ends.ranks(zset, self.direction);
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let left = ranks.len().saturating_sub(offset);
        let len = usize::try_from(self.count).map_or(left, |count| count.min(left));
        let first = match self.direction {
            _ if len == 0 => 0,
            Direction::Ascending => ranks.start + offset,
            Direction::Descending => ranks.end - 1 - offset,
        };
        (first, len)
    }
}

fn read(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    grammar: Grammar,
) -> Result<(), CommandError> {
    let selection = Selection::parse(args, grammar)?;
    let Some(zset) = live.zset(args.get(1))? else {
        reply.array(0);
        return Ok(());
    };
    let (first, len) = selection.place(zset);
    let shape = Shape::with_scores(selection.has_scores, reply);
    shape.announce(len, reply);
    zset.visit(first, selection.direction, len, |member, score| {
        shape.reply((member, score), reply);
    });
    Ok(())
}

fn zrange(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    read(live, args, reply, Grammar::ZRANGE)
}

fn zrevrange(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar::settled(By::Rank, Direction::Descending);
    read(live, args, reply, grammar)
}

fn zrangebyscore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar::settled(By::Score, Direction::Ascending);
    read(live, args, reply, grammar)
}

fn zrevrangebyscore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar::settled(By::Score, Direction::Descending);
    read(live, args, reply, grammar)
}

fn zrangebylex(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar::settled(By::Member, Direction::Ascending);
    read(live, args, reply, grammar)
}

fn zrevrangebylex(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar::settled(By::Member, Direction::Descending);
    read(live, args, reply, grammar)
}

fn zrangestore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let grammar = Grammar {
        ends_at: 3,
        may_have_scores: false,
        ..Grammar::ZRANGE
    };
    let selection = Selection::parse(args, grammar)?;
    let mut records = Records::default();
    if let Some(zset) = live.zset(args.get(2))? {
        let (first, len) = selection.place(zset);
        zset.visit(first, selection.direction, len, |member, score| {
            records.push(member, score);
        });
    }
    store(live, args.get(1), &records, Event::ZRANGESTORE, reply)
}

fn remove(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: By,
    event: Event,
) -> Result<(), CommandError> {
    let ends = Ends::parse(args, 2, by, Direction::Ascending)?;
    let ranks = |zset: ZsetRef<'_>| ends.ranks(zset, Direction::Ascending);
    let removed = cut(live, args.get(1), event, ranks)?;
    reply.integer(removed as i64);
    Ok(())
}

/// Removes the members of some ranks and reports it; how many they were.
pub(super) fn cut(
    live: &mut Live<'_>,
    key: &[u8],
    event: Event,
    ranks: impl FnOnce(ZsetRef<'_>) -> Range<usize>,
) -> Result<usize, CommandError> {
    let Some(mut zset) = live.zset_mut(key)? else {
        return Ok(0);
    };
    let len = zset.view().len();
    let ranks = ranks(zset.view());
    let removed = ranks.len();
    if removed == 0 {
        return Ok(0);
    }
    if removed == len {
        // All at once, to be freed bit by bit.
        live.remove(key);
        live.changed_by(event, key, removed);
        live.also(Event::DEL, key);
    } else {
        zset.remove_ranks(ranks.start, removed, |_, _| {});
        live.changed_by(event, key, removed);
    }
    Ok(removed)
}

fn zremrangebyrank(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    remove(live, args, reply, By::Rank, Event::ZREMRANGEBYRANK)
}

fn zremrangebyscore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    remove(live, args, reply, By::Score, Event::ZREMRANGEBYSCORE)
}

fn zremrangebylex(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    remove(live, args, reply, By::Member, Event::ZREMRANGEBYLEX)
}
