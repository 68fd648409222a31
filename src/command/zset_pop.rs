//! Taking members off an end of a sorted set.

use super::Handler::Data;
use super::args::Args;
use super::row::*;
use super::zset::Shape;
use super::zset_combine::Records;
use super::zset_range::cut;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::zset::Direction;

/// The commands that take members off an end.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "zpopmin",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M log N) with N the number of members and M of those taken",
        summary: "Takes the members of the least scores out of a sorted set.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer).optional(),
        ],
        subcommands: &[],
        handler: Data(zpopmin),
    },
    Row {
        name: "zpopmax",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::SORTEDSET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "5.0.0",
        complexity: "O(M log N) with N the number of members and M of those taken",
        summary: "Takes the members of the greatest scores out of a sorted set.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer).optional(),
        ],
        subcommands: &[],
        handler: Data(zpopmax),
    },
    Row {
        name: "zmpop",
        arity: -4,
        flags: flag::WRITE | flag::MOVABLEKEYS,
        categories: category::WRITE | category::SORTEDSET | category::SLOW,
        keys: &[KeySpec::counted(
            1,
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::SortedSet,
        since: "7.0.0",
        complexity: "O(K + M log N) with K the keys, N the members and M those taken",
        summary: "Takes members off an end of the first of several sorted sets that exists.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::one_of("where", WHERE),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(zmpop),
    },
];

/// Off which end ZMPOP takes members.
const WHERE: &[Arg] = &[Arg::word("min", "MIN"), Arg::word("max", "MAX")];

/// The end of a sorted set that members are taken off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

/// Takes up to `count` members off an end. None if there is no such key.
fn take(
    live: &mut Live<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Records>, CommandError> {
    let Some(zset) = live.zset_mut(key)? else {
        return Ok(None);
    };
    let zset = zset.view();
    let (len, taken) = (zset.len(), zset.len().min(count));
    let (event, ranks, first, direction) = match end {
        End::Min => (Event::ZPOPMIN, 0..taken, 0, Direction::Ascending),
        End::Max => (
            Event::ZPOPMAX,
            len - taken..len,
            len - 1,
            Direction::Descending,
        ),
    };
    let mut records = Records::default();
    for (member, score) in zset.iter(first, direction).take(taken) {
        records.push(member, score);
    }
    cut(live, key, event, |_| ranks)?;
    Ok(Some(records))
}

fn pop(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let has_count = args.len() == 3;
    let count = if has_count {
        let count = args.integer(2).ok();
        count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(CommandError::text(
                "ERR value is out of range, must be positive",
            ))?
    } else {
        1
    };
    let records = take(live, args.get(1), end, count)?.unwrap_or_default();
    // A single member that was not counted is no list of pairs.
    let shape = if has_count {
        Shape::with_scores(true, reply)
    } else {
        Shape::Flat
    };
    shape.announce(records.len(), reply);
    records.iter().for_each(|record| shape.reply(record, reply));
    Ok(())
}

fn zpopmin(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Min)
}

fn zpopmax(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    pop(live, args, reply, End::Max)
}

/// What ZMPOP and BZMPOP are asked for.
struct Pops {
    /// Where the keys are among the arguments.
    keys: std::ops::Range<usize>,
    end: End,
    count: usize,
}

impl Pops {
    /// Reads everything from the number of keys on.
    fn parse(args: Args<'_>, number_at: usize) -> Result<Pops, CommandError> {
        let positive = |index, error| {
            let number = args.integer(index).ok();
            number
                .and_then(|number| usize::try_from(number).ok())
                .filter(|&number| number > 0)
                .ok_or(CommandError::text(error))
        };
        let number = positive(number_at, "ERR numkeys should be greater than 0")?;
        let first = number_at + 1;
        // After the keys there is one word more.
        if number >= args.len() - first {
            return Err(CommandError::Syntax);
        }
        let keys = first..first + number;
        let end = match keys.end {
            at if args.is(at, "min") => End::Min,
            at if args.is(at, "max") => End::Max,
            _ => return Err(CommandError::Syntax),
        };
        let count = match args.len() - keys.end {
            1 => 1,
            3.. if args.is(keys.end + 1, "count") => {
                positive(keys.end + 2, "ERR count should be greater than 0")?
            }
            _ => return Err(CommandError::Syntax),
        };
        if args.len() - keys.end > 3 {
            return Err(CommandError::Syntax);
        }
        Ok(Pops { keys, end, count })
    }

    /// Takes members off the first set there is: its key and them.
    fn take<'a>(
        &self,
        live: &mut Live<'_>,
        args: Args<'a>,
    ) -> Result<Option<(&'a [u8], Records)>, CommandError> {
        for index in self.keys.clone() {
            let key = args.get(index);
            if let Some(records) = take(live, key, self.end, self.count)? {
                return Ok(Some((key, records)));
            }
        }
        Ok(None)
    }
}

fn reply_taken(reply: &mut Reply<'_>, taken: Option<(&[u8], Records)>) {
    let Some((key, records)) = taken else {
        return reply.null_array();
    };
    reply.array(2);
    reply.bulk(key);
    Shape::Pair.announce(records.len(), reply);
    let records = records.iter();
    records.for_each(|record| Shape::Pair.reply(record, reply));
}

fn zmpop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let pops = Pops::parse(args, 1)?;
    let taken = pops.take(live, args)?;
    reply_taken(reply, taken);
    Ok(())
}
