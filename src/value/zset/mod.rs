//! Sorted sets: members with a score each, ordered by score and then by the bytes of the member.
//!
//! A small one is a packed string inside its key's entry ([`small`]), `listpack` to users; a big
//! one, `skiplist` to users, is a [`Zset`]. [`ZsetRef`] reads either.
//!
//! ```text
//! small   [member][score][member][score] ..              packed, in order, with deadlines or not
//!
//! big     members: hash -> record      tree: order -> record      pages: the records
//! ```
//!
//! A part of a set is an [`Interval`] of scores or of members; [`ZsetRef::ranks`] makes a range of
//! ranks of it, in O(log n), and everything else is done by rank: counting (its length), reading
//! from either end, removing.
//!
//! A score is never NaN: nobody gives one. -0.0 equals 0.0; what was given first is kept.
//! Redis: prints the former as `-0` if the set is big and as `0` if it is small.
//!
//! A set of 1,000,000 members of 16 bytes takes 60 bytes a member with random scores and 56 with
//! rising ones, as jemalloc counts them; 105 a member left when a random half is removed, 110 when
//! all but a sixteenth are (benches/collections.rs). Of the 60: record and slot 27, table 15, tree
//! 18, and what pages and size classes leave over.
//!
//! In random order, with every cache line cold, an operation there takes (the same bench, processor
//! time in microseconds on a machine quiet and busy):
//!
//! ```text
//! score 0.5-0.8    member of a rank 0.4-0.7    rank 1.1-2.3    count between scores 0.7-1.1
//! insert 0.9-1.5   rising insert 0.4-0.9       new score 1.9-3.3    ten from a rank 1.0-1.9
//! removal 1.9-2.3  all scores equal: rank 2.5-9
//! ```
//!
//! What an operation does beside itself is one piece at most: splitting a segment of the table or
//! a node, copying a page of 16 KiB (shared with a snapshot, or to close its holes), or moving the
//! last records of a page (some 70). The longest insert of the million takes 38 to 48 microseconds,
//! page faults included; one step of dismantling at most 14.
//!
//! Not here: what commands do with two sets, and what scores are read from and printed as
//! (`value/number.rs`).

mod big;
mod bounds;
mod member_index;
mod pages;
pub mod small;
mod tree;

use std::ops::Range;

use rand::RngExt;
use rand::rngs::SmallRng;

pub use self::big::Zset;
pub use self::bounds::{Interval, LexBound, ScoreBound};
pub use self::pages::Page;
pub use self::small::{Small, insert, is_valid, remove, remove_ranks};
pub use self::tree::Direction;
use super::dated_packed::Shape;
use super::{SMALL_BYTES_MAX, packed};
use crate::clock::UnixMillis;
use crate::expiry::{MemberTerm, is_due};

/// What setting a score did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member is new.
    Added,
    /// The member had another score.
    Changed,
    /// The member had this score.
    Unchanged,
}

/// How large a small sorted set may get before it becomes big, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZsetLimits {
    /// MemberIndex: `zset-max-listpack-entries`.
    pub entries_max: usize,
    /// Bytes of each: `zset-max-listpack-value`.
    pub value_bytes_max: usize,
}

impl Default for ZsetLimits {
    fn default() -> ZsetLimits {
        ZsetLimits {
            entries_max: 128,
            value_bytes_max: 64,
        }
    }
}

impl ZsetLimits {
    /// Whether a small set of this shape may get this member as well.
    fn allow(&self, packed: &[u8], shape: Shape, member: &[u8]) -> bool {
        let items = [member.len(), size_of::<f64>(), 0];
        let sizes = items[..shape.step()]
            .iter()
            .map(|&len| packed::item_bytes(len));
        let added = sizes.sum::<usize>();
        packed::len(packed) / shape.step() < self.entries_max
            && member.len() <= self.value_bytes_max
            && packed.len() + added <= SMALL_BYTES_MAX
    }
}

/// A sorted set to be read.
#[derive(Clone, Copy)]
pub enum ZsetRef<'a> {
    /// A small one.
    Small(Small<'a>),
    /// A big one.
    Big(&'a Zset),
}

impl<'a> ZsetRef<'a> {
    /// The name OBJECT ENCODING answers.
    pub fn encoding(self) -> &'static str {
        match self {
            ZsetRef::Small(small) => small.encoding(),
            ZsetRef::Big(_) => "skiplist",
        }
    }

    /// Number of members.
    pub fn len(self) -> usize {
        match self {
            ZsetRef::Small(small) => small.len(),
            ZsetRef::Big(big) => big.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            ZsetRef::Small(small) => small.get(member).map(|(score, _)| score),
            ZsetRef::Big(big) => big.score(member),
        }
    }

    /// The score and the term of a member.
    pub fn get(self, member: &[u8]) -> Option<(f64, Option<MemberTerm>)> {
        match self {
            ZsetRef::Small(small) => small.get(member),
            ZsetRef::Big(big) => big.get(member),
        }
    }

    /// How many members are due.
    fn dead(self, now: UnixMillis) -> usize {
        match self {
            ZsetRef::Small(small) => small.dead(now),
            ZsetRef::Big(big) => big.dead(now),
        }
    }

    /// How many members are before this one.
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        match self {
            ZsetRef::Small(small) => small.rank(member),
            ZsetRef::Big(big) => big.rank(member),
        }
    }

    /// The member of this rank, and its score.
    pub fn by_rank(self, rank: usize) -> Option<(&'a [u8], f64)> {
        match self {
            ZsetRef::Small(small) => small.iter(rank, Direction::Ascending).next(),
            ZsetRef::Big(big) => big.by_rank(rank),
        }
    }

    /// MemberIndex and scores from a rank on, towards the end of the direction.
    pub fn iter(self, rank: usize, direction: Direction) -> Iter<'a> {
        match self {
            ZsetRef::Small(small) => Iter::Small(small.iter(rank, direction)),
            ZsetRef::Big(big) => Iter::Big(big.iter(rank, direction)),
        }
    }

    /// Hands `count` members and scores from a rank on to `found`; cheaper than [`ZsetRef::iter`].
    #[inline]
    pub fn visit(
        self,
        rank: usize,
        direction: Direction,
        count: usize,
        mut found: impl FnMut(&[u8], f64),
    ) {
        match self {
            ZsetRef::Small(small) => small
                .iter(rank, direction)
                .take(count)
                .for_each(|(member, score)| found(member, score)),
            ZsetRef::Big(big) => big.visit(rank, direction, count, found),
        }
    }

    /// The ranks of the members in an interval; of no members, if it ends before it starts.
    pub fn ranks(self, interval: &Interval<'_>) -> Range<usize> {
        match self {
            ZsetRef::Small(small) => small.ranks(interval),
            ZsetRef::Big(big) => big.ranks(interval),
        }
    }

    /// A random member, and its score; each with the same chance.
    pub fn random(self, rng: &mut SmallRng) -> Option<(&'a [u8], f64)> {
        match self.len() {
            0 => None,
            len => self.by_rank(rng.random_range(0..len)),
        }
    }

    /// So many different members, in no order; all of them, if they are fewer. Each selection has
    /// the same chance. Takes memory for as many numbers, at most for one for each member.
    pub fn sample(
        self,
        count: usize,
        rng: &mut SmallRng,
    ) -> impl Iterator<Item = (&'a [u8], f64)> + use<'a> {
        let count = count.min(self.len());
        let ranks = rand::seq::index::sample(rng, self.len(), count);
        ranks.into_iter().filter_map(move |rank| self.by_rank(rank))
    }

    /// One step of a scan, which starts with cursor 0; see [`Zset::scan`]. A small set is met
    /// whole.
    pub fn scan(self, cursor: u32, count: usize, mut found: impl FnMut(&[u8], f64)) -> u32 {
        match self {
            ZsetRef::Small(small) => {
                small.for_each(|member, score, _| found(member, score));
                0
            }
            ZsetRef::Big(big) => big.scan(cursor, count, found),
        }
    }
}

/// A sorted set of which members are asked for by name, at one instant: dead ones are not seen.
#[derive(Clone, Copy)]
pub struct NamedRef<'a> {
    zset: ZsetRef<'a>,
    now: UnixMillis,
}

impl<'a> NamedRef<'a> {
    /// A sorted set at an instant.
    pub fn new(zset: ZsetRef<'a>, now: UnixMillis) -> NamedRef<'a> {
        NamedRef { zset, now }
    }

    /// Number of members.
    pub fn len(self) -> usize {
        self.zset.len() - self.zset.dead(self.now)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        self.get(member).map(|(score, _)| score)
    }

    /// The term of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn term(self, member: &[u8]) -> Option<Option<MemberTerm>> {
        self.get(member).map(|(_, term)| term)
    }

    #[inline]
    fn get(self, member: &[u8]) -> Option<(f64, Option<MemberTerm>)> {
        let found = self.zset.get(member)?;
        let is_dead = found.1.is_some_and(|term| is_due(term.deadline, self.now));
        (!is_dead).then_some(found)
    }
}

/// MemberIndex and scores in order.
pub enum Iter<'a> {
    /// Of a small set.
    Small(small::Iter<'a>),
    /// Of a big one.
    Big(big::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        match self {
            Iter::Small(records) => records.next(),
            Iter::Big(records) => records.next(),
        }
    }
}
