//! What several sets and sorted sets have together: union, intersection, difference.
//!
//! A set counts as a sorted set whose scores are all 1. The smallest is looked through first, as in
//! Redis, where that decides in which order scores are added up.

use std::cmp::Ordering;

use hashbrown::HashTable;

use crate::command::dispatch::args::Args;
use crate::command::key::StringList;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::command::zset::Shape;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;
use crate::value::number::parse_f64;
use crate::value::placement::Placement;
use crate::value::set::SetRef;
use crate::value::zset::{Direction, ZsetRef};

/// The commands on several sorted sets.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "zunion",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N + M log M) with N the members of all sets and M of the result",
        summary: "Returns the union of several sets or sorted sets, with combined scores.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::new("weight", ArgKind::Integer)
                .token("WEIGHTS")
                .optional()
                .multiple(),
            Arg::one_of("aggregate", AGGREGATE)
                .token("AGGREGATE")
                .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        subcommands: &[],
        handler: Data(zunion),
    },
    Row {
        name: "zinter",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N K + M log M): N members in the smallest of K sets, M in the result",
        summary: "Returns the intersection of sets or sorted sets, with combined scores.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::new("weight", ArgKind::Integer)
                .token("WEIGHTS")
                .optional()
                .multiple(),
            Arg::one_of("aggregate", AGGREGATE)
                .token("AGGREGATE")
                .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        subcommands: &[],
        handler: Data(zinter),
    },
    Row {
        name: "zdiff",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N K + M log M): N members in the first of K sets, M in the result",
        summary: "Returns the members of the first sorted set that are in none of the others.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        subcommands: &[],
        handler: Data(zdiff),
    },
    Row {
        name: "zunionstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::counted(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(N + M log M) with N the members of all sets and M of the result",
        summary: "Stores the union of several sets or sorted sets, with combined scores.",
        args: &[
            Arg::key("destination"),
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").key_spec(1).multiple(),
            Arg::new("weight", ArgKind::Integer)
                .token("WEIGHTS")
                .optional()
                .multiple(),
            Arg::one_of("aggregate", AGGREGATE)
                .token("AGGREGATE")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zunionstore),
    },
    Row {
        name: "zinterstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::counted(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::SortedSet,
        since: "2.0.0",
        complexity: "O(N K + M log M): N members in the smallest of K sets, M in the result",
        summary: "Stores the intersection of sets or sorted sets, with combined scores.",
        args: &[
            Arg::key("destination"),
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").key_spec(1).multiple(),
            Arg::new("weight", ArgKind::Integer)
                .token("WEIGHTS")
                .optional()
                .multiple(),
            Arg::one_of("aggregate", AGGREGATE)
                .token("AGGREGATE")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zinterstore),
    },
    Row {
        name: "zdiffstore",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::LONG,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::counted(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::SortedSet,
        since: "6.2.0",
        complexity: "O(N K + M log M): N members in the first of K sets, M in the result",
        summary: "Stores the members of the first sorted set that are in none of the others.",
        args: &[
            Arg::key("destination"),
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").key_spec(1).multiple(),
        ],
        subcommands: &[],
        handler: Data(zdiffstore),
    },
    Row {
        name: "zintercard",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(N K) with N the members of the smallest set and K the number of sets",
        summary: "Returns the size of the intersection of sorted sets, up to a limit.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::new("limit", ArgKind::Integer)
                .token("LIMIT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zintercard),
    },
];

/// What becomes of the scores a member has in several sets.
const AGGREGATE: &[Arg] = &[
    Arg::word("sum", "SUM"),
    Arg::word("min", "MIN"),
    Arg::word("max", "MAX"),
];

/// Members and scores on their way into a reply or a key.
#[derive(Default)]
pub(in crate::command) struct Records {
    members: StringList,
    scores: Vec<f64>,
}

impl Records {
    pub(in crate::command) fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    pub(in crate::command) fn len(&self) -> usize {
        self.scores.len()
    }

    fn get(&self, index: usize) -> (&[u8], f64) {
        (self.members.get(index), self.scores[index])
    }

    pub(in crate::command) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// All of them in the order of a sorted set.
    fn sorted(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by(|&one, &other| {
            let ((member, score), (other, other_score)) = (self.get(one), self.get(other));
            let scores = score.partial_cmp(&other_score);
            scores.unwrap_or(Ordering::Equal).then(member.cmp(other))
        });
        order.into_iter().map(|index| self.get(index))
    }
}

/// Writes a sorted set of these members over whatever a key holds, or removes the key if there are
/// none; answers how many there are.
pub(in crate::command) fn store(
    live: &mut Live<'_>,
    key: &[u8],
    records: &Records,
    event: Event,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    if records.len() > 0 {
        live.vacate(key, Kind::Zset);
        let mut zset = live.zset_or_new(key)?;
        zset.prepare(records.len());
        for (member, score) in records.sorted() {
            zset.insert(member, score);
        }
        live.changed(event, key);
    } else if live.remove(key) {
        live.changed(Event::DEL, key);
    }
    reply.integer(records.len() as i64);
    Ok(())
}

/// A set or sorted set to be combined with others.
#[derive(Clone, Copy)]
enum Source<'a> {
    Missing,
    Set(SetRef<'a>),
    Zset(ZsetRef<'a>),
}

impl<'a> Source<'a> {
    fn of(live: &'a Live<'_>, key: &[u8]) -> Result<Source<'a>, CommandError> {
        match live.get(key) {
            None => Ok(Source::Missing),
            Some(slot) if slot.kind() == Kind::Set => live.set_in(key, slot).map(Source::Set),
            Some(slot) => live.zset_in(slot).map(Source::Zset),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Missing => 0,
            Source::Set(set) => set.len(),
            Source::Zset(zset) => zset.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Missing => None,
            Source::Set(set) => set.contains(member).then_some(1.0),
            Source::Zset(zset) => zset.score(member),
        }
    }

    /// Calls `found` for every member until it says that this is enough.
    fn walk(self, mut found: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Source::Missing => {}
            Source::Set(set) => {
                set.iter().all(|member| found(&member, 1.0));
            }
            Source::Zset(zset) => {
                let mut records = zset.iter(0, Direction::Ascending);
                records.all(|(member, score)| found(member, score));
            }
        }
    }
}

/// A source, and what its scores are multiplied by.
#[derive(Clone, Copy)]
struct Operand<'a> {
    source: Source<'a>,
    weight: f64,
}

/// What becomes of the scores a member has in several sets.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// Infinity less infinity, and infinity times zero, are 0.
fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl Aggregate {
    fn parse(args: Args<'_>, index: usize) -> Result<Aggregate, CommandError> {
        let words = [
            ("sum", Aggregate::Sum),
            ("min", Aggregate::Min),
            ("max", Aggregate::Max),
        ];
        let found = words.into_iter().find(|(word, _)| args.is(index, word));
        found.map(|(_, it)| it).ok_or(CommandError::Syntax)
    }

    /// One score of two. The first is a number; if the second is none, only the sum heeds it.
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => or_zero(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

/// What is made of the operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// A request to combine sets.
struct Combination<'a> {
    operation: Operation,
    operands: Vec<Operand<'a>>,
    aggregate: Aggregate,
    has_scores: bool,
    placement: Placement,
}

/// The sets named by the arguments, from their number at `number_at` on, of which all due members
/// are removed first. Gives where the arguments after them start.
fn operands<'a>(
    live: &'a mut Live<'_>,
    args: Args<'_>,
    number_at: usize,
    command: &str,
) -> Result<(Vec<Operand<'a>>, usize), CommandError> {
    let number = args.integer(number_at)?;
    if number < 1 {
        let text = format!("ERR at least 1 input key is needed for '{command}' command");
        return Err(CommandError::owned(text));
    }
    let first = number_at + 1;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if number > args.len() - first {
        return Err(CommandError::Syntax);
    }
    for key in args.from(first).take(number) {
        live.settle_all_members(key);
    }
    let live = &*live;
    let mut operands = Vec::with_capacity(number);
    for index in first..first + number {
        let source = Source::of(live, args.get(index))?;
        let weight = 1.0;
        operands.push(Operand { source, weight });
    }
    Ok((operands, first + number))
}

impl<'a> Combination<'a> {
    /// Reads what follows the command's name, or its destination: from the number of keys at
    /// `number_at` on. Only what is not stored has scores.
    fn parse(
        live: &'a mut Live<'_>,
        args: Args<'_>,
        number_at: usize,
        operation: Operation,
        command: &str,
    ) -> Result<Combination<'a>, CommandError> {
        let placement = live.placement();
        let (mut operands, mut i) = operands(live, args, number_at, command)?;
        let (mut aggregate, mut has_scores) = (Aggregate::Sum, false);
        let is_weighing = operation != Operation::Diff;
        while i < args.len() {
            let left = args.len() - i - 1;
            if is_weighing && left >= operands.len() && args.is(i, "weights") {
                for operand in &mut operands {
                    i += 1;
                    operand.weight = parse_f64(args.get(i))
                        .ok_or(CommandError::text("ERR weight value is not a float"))?;
                }
            } else if is_weighing && left > 0 && args.is(i, "aggregate") {
                i += 1;
                aggregate = Aggregate::parse(args, i)?;
            } else if number_at == 1 && args.is(i, "withscores") {
                has_scores = true;
            } else {
                return Err(CommandError::Syntax);
            }
            i += 1;
        }
        Ok(Combination {
            operation,
            operands,
            aggregate,
            has_scores,
            placement,
        })
    }

    /// The members of the result with their scores, in no order.
    fn records(mut self) -> Records {
        if self.operation != Operation::Diff {
            self.operands.sort_by_key(|operand| operand.source.len());
        }
        match self.operation {
            Operation::Union => self.union(),
            Operation::Inter => self.inter(),
            Operation::Diff => self.diff(),
        }
    }

    fn union(&self) -> Records {
        let mut records = Records::default();
        let largest = self.operands.last().map_or(0, |last| last.source.len());
        let mut table: HashTable<usize> = HashTable::with_capacity(largest);
        let hash = |member: &[u8]| self.placement.hash(member);
        for operand in &self.operands {
            operand.source.walk(|member, score| {
                let score = or_zero(score * operand.weight);
                let own = hash(member);
                let found = table.find(own, |&index| records.members.get(index) == member);
                if let Some(&index) = found {
                    let sum = &mut records.scores[index];
                    *sum = self.aggregate.of(*sum, score);
                } else {
                    let index = records.len();
                    records.push(member, score);
                    let rehash = |&index: &usize| hash(records.members.get(index));
                    table.insert_unique(own, index, rehash);
                }
                true
            });
        }
        records
    }

    fn inter(&self) -> Records {
        let mut records = Records::default();
        if let Some((first, others)) = self.operands.split_first() {
            first.source.walk(|member, score| {
                let mut sum = or_zero(score * first.weight);
                for other in others {
                    let Some(score) = other.source.score(member) else {
                        return true;
                    };
                    sum = self.aggregate.of(sum, score * other.weight);
                }
                records.push(member, sum);
                true
            });
        }
        records
    }

    fn diff(&self) -> Records {
        let mut records = Records::default();
        if let Some((first, others)) = self.operands.split_first() {
            first.source.walk(|member, score| {
                let is_in = |other: &Operand<'_>| other.source.score(member).is_some();
                if !others.iter().any(is_in) {
                    records.push(member, score);
                }
                true
            });
        }
        records
    }
}

fn read(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: Operation,
    command: &str,
) -> Result<(), CommandError> {
    let combination = Combination::parse(live, args, 1, operation, command)?;
    let shape = Shape::with_scores(combination.has_scores, reply);
    let records = combination.records();
    shape.announce(records.len(), reply);
    records
        .sorted()
        .for_each(|record| shape.reply(record, reply));
    Ok(())
}

fn zunion(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    read(live, args, reply, Operation::Union, "zunion")
}

fn zinter(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    read(live, args, reply, Operation::Inter, "zinter")
}

fn zdiff(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    read(live, args, reply, Operation::Diff, "zdiff")
}

fn zunionstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let combination = Combination::parse(live, args, 2, Operation::Union, "zunionstore")?;
    let records = combination.records();
    store(live, args.get(1), &records, Event::ZUNIONSTORE, reply)
}

fn zinterstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let combination = Combination::parse(live, args, 2, Operation::Inter, "zinterstore")?;
    let records = combination.records();
    store(live, args.get(1), &records, Event::ZINTERSTORE, reply)
}

fn zdiffstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let combination = Combination::parse(live, args, 2, Operation::Diff, "zdiffstore")?;
    let records = combination.records();
    store(live, args.get(1), &records, Event::ZDIFFSTORE, reply)
}

fn zintercard(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (mut operands, first) = operands(live, args, 1, "zintercard")?;
    let mut limit = 0;
    for i in (first..args.len()).step_by(2) {
        if !args.is(i, "limit") || i + 1 >= args.len() {
            return Err(CommandError::Syntax);
        }
        let wanted = args.integer(i + 1).ok();
        limit = wanted
            .and_then(|wanted| u64::try_from(wanted).ok())
            .ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
    }
    operands.sort_by_key(|operand| operand.source.len());
    let mut found = 0;
    if let Some((smallest, others)) = operands.split_first() {
        smallest.source.walk(|member, _| {
            let is_in = |other: &Operand<'_>| other.source.score(member).is_some();
            found += u64::from(others.iter().all(is_in));
            // No limit is 0.
            found != limit || limit == 0
        });
    }
    reply.integer(found as i64);
    Ok(())
}
