//! A small sorted set: member and score by turns in one packed string, in their order.
//!
//! A score is the eight bytes of a double. Everything is found by walking, which for the hundred
//! records there may be is as fast as anything. Whatever changes the string tells when it must not
//! grow any more; what is too much then goes to [`to_big`].

use std::ops::Range;

use super::big::Zset;
use super::bounds::Interval;
use super::tree::Direction;
use super::{Outcome, ZsetLimits};
use crate::value::packed::{self, Buffer, Item};
use crate::value::placement::Placement;

/// A record where it stands.
#[derive(Clone, Copy)]
struct Record<'a> {
    member: &'a [u8],
    score: f64,
    /// Offset of the member's item, and of what follows the score's.
    span: (usize, usize),
}

impl<'a> Record<'a> {
    fn new(member: Item<'a>, score: Item<'a>) -> Record<'a> {
        let bytes = score.bytes.try_into().expect("a score has eight bytes");
        Record {
            member: member.bytes,
            score: f64::from_le_bytes(bytes),
            span: (member.at, score.end()),
        }
    }

    /// Whether it is before another one.
    fn is_before(&self, member: &[u8], score: f64) -> bool {
        self.score < score || self.score == score && self.member < member
    }
}

fn records(packed: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut items = packed::iter(packed);
    std::iter::from_fn(move || Some(Record::new(items.next()?, items.next()?)))
}

/// Number of members.
pub(super) fn len(packed: &[u8]) -> usize {
    packed::len(packed) / 2
}

/// The score of a member.
pub(super) fn score(packed: &[u8], member: &[u8]) -> Option<f64> {
    let found = packed::find(packed, member, 2)?;
    let score = packed::item_at(packed, found.end())?;
    Some(Record::new(found, score).score)
}

/// How many members are before this one.
pub(super) fn rank(packed: &[u8], member: &[u8]) -> Option<usize> {
    records(packed).position(|record| record.member == member)
}

/// The ranks of the members in an interval.
pub(super) fn ranks(packed: &[u8], interval: &Interval<'_>) -> Range<usize> {
    let (mut start, mut end) = (0, 0);
    for record in records(packed) {
        start += usize::from(interval.starts_after(record.member, record.score));
        if !interval.ends_after(record.member, record.score) {
            break;
        }
        end += 1;
    }
    start.min(end)..end
}

/// Members and scores from a rank on.
pub(super) fn iter(packed: &[u8], rank: usize, direction: Direction) -> Iter<'_> {
    let len = len(packed);
    let mut items = packed::iter(packed);
    if rank >= len {
        items = packed::iter(packed::EMPTY);
    } else if direction == Direction::Ascending && rank > 0 {
        items.nth(rank * 2 - 1);
    } else if direction == Direction::Descending && rank + 1 < len {
        items.nth_back((len - rank - 1) * 2 - 1);
    }
    Iter { items, direction }
}

/// Sets the score of a member, which is added if it is new and the limits allow it. The score is
/// not NaN. None if the set must become big first; then nothing has changed.
pub fn insert<B: Buffer>(
    buffer: &mut B,
    member: &[u8],
    score: f64,
    limits: &ZsetLimits,
) -> Option<Outcome> {
    let packed = buffer.bytes();
    let (mut found, mut target) = (None, packed.len());
    for record in records(packed) {
        if record.member == member {
            found = Some(record);
        } else if target == packed.len() && !record.is_before(member, score) {
            target = record.span.0;
        }
        // The member may be before its new place or after it.
        if found.is_some() && target < packed.len() {
            break;
        }
    }
    let bytes = score.to_le_bytes();
    let Some(record) = found else {
        if !limits.allow(packed, member) {
            return None;
        }
        packed::insert_before(buffer, target, &[member, &bytes]);
        return Some(Outcome::Added);
    };
    if record.score == score {
        return Some(Outcome::Unchanged);
    }
    let (start, end) = record.span;
    if target == end {
        packed::replace(buffer, end - packed::item_bytes(bytes.len()), &bytes);
        return Some(Outcome::Changed);
    }
    packed::remove_span(buffer, start, end, 2);
    let target = if target > start {
        target - (end - start)
    } else {
        target
    };
    packed::insert_before(buffer, target, &[member, &bytes]);
    Some(Outcome::Changed)
}

/// Removes a member; gives its score.
pub fn remove<B: Buffer>(buffer: &mut B, member: &[u8]) -> Option<f64> {
    let record = records(buffer.bytes()).find(|record| record.member == member)?;
    let (score, (start, end)) = (record.score, record.span);
    packed::remove_span(buffer, start, end, 2);
    Some(score)
}

/// Removes `count` members from a rank on, or as many as there are, calling `removed` for each in
/// order. Gives how many they were.
pub fn remove_ranks<B: Buffer>(
    buffer: &mut B,
    start: usize,
    count: usize,
    mut removed: impl FnMut(&[u8], f64),
) -> usize {
    let (mut span, mut len) = (None, 0);
    for record in records(buffer.bytes()).skip(start).take(count) {
        removed(record.member, record.score);
        let (first, _) = *span.get_or_insert(record.span);
        span = Some((first, record.span.1));
        len += 1;
    }
    if let Some((first, end)) = span {
        packed::remove_span(buffer, first, end, len * 2);
    }
    len
}

/// The same members in a set that may grow.
pub fn to_big(packed: &[u8], placement: Placement) -> Zset {
    let mut big = Zset::new(placement);
    for record in records(packed) {
        big.insert(record.member, record.score);
    }
    big
}

/// Whether these bytes, whatever they are, are a small sorted set that this file could have
/// written.
pub fn is_valid(packed: &[u8]) -> bool {
    if !packed::is_valid(packed) || !packed::len(packed).is_multiple_of(2) {
        return false;
    }
    let scores = packed::iter(packed).skip(1).step_by(2);
    let is_score = |item: Item<'_>| {
        let bytes = item.bytes.try_into();
        bytes.is_ok_and(|bytes| !f64::from_le_bytes(bytes).is_nan())
    };
    if !scores.into_iter().all(is_score) {
        return false;
    }
    let all: Vec<Record<'_>> = records(packed).collect();
    let is_ordered = |pair: &[Record<'_>]| pair[0].is_before(pair[1].member, pair[1].score);
    let mut members: Vec<&[u8]> = all.iter().map(|record| record.member).collect();
    members.sort_unstable();
    all.windows(2).all(is_ordered) && members.windows(2).all(|pair| pair[0] != pair[1])
}

/// Members and scores in order.
pub struct Iter<'a> {
    items: packed::Iter<'a>,
    direction: Direction,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        let record = match self.direction {
            Direction::Ascending => Record::new(self.items.next()?, self.items.next()?),
            Direction::Descending => {
                let score = self.items.next_back()?;
                Record::new(self.items.next_back()?, score)
            }
        };
        Some((record.member, record.score))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::super::{LexBound, ScoreBound, ZsetRef};
    use super::*;
    use crate::value::SMALL_BYTES_MAX;

    /// A big set is the twin: it has one of its own.
    fn compare(packed: &[u8], big: &Zset, rng: &mut SmallRng, seed: u64) {
        assert!(is_valid(packed), "seed {seed}");
        let (one, other) = (ZsetRef::Packed(packed), ZsetRef::Big(big));
        assert_eq!(one.len(), other.len(), "seed {seed}");
        for direction in [Direction::Ascending, Direction::Descending] {
            let rank = rng.random_range(0..=one.len());
            assert!(
                one.iter(rank, direction).eq(other.iter(rank, direction)),
                "seed {seed}"
            );
        }
        let rank = rng.random_range(0..=one.len());
        assert_eq!(one.by_rank(rank), other.by_rank(rank), "seed {seed}");
        let member = rng.random_range(0_u8..40).to_string();
        let member = member.as_bytes();
        assert_eq!(one.score(member), other.score(member), "seed {seed}");
        assert_eq!(one.rank(member), other.rank(member), "seed {seed}");
        let mut bound = || ScoreBound {
            score: f64::from(rng.random_range(-7..7)),
            is_exclusive: rng.random(),
        };
        let (min, max) = (bound(), bound());
        let interval = Interval::Scores { min, max };
        assert_eq!(one.ranks(&interval), other.ranks(&interval), "seed {seed}");
        let mut met = Vec::new();
        assert_eq!(
            one.scan(0, 1, |member, score| met.push((member.to_vec(), score))),
            0
        );
        assert_eq!(met.len(), other.len(), "seed {seed}");
        assert!(
            one.sample(5, rng)
                .all(|(member, score)| other.score(member) == Some(score))
        );
    }

    #[test]
    fn behaves_like_a_big_one() {
        for seed in 0..20 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let placement = Placement::new(&mut rng);
            let (mut packed, mut big) = (packed::EMPTY.to_vec(), Zset::new(placement));
            for _ in 0..300 {
                let member = rng.random_range(0_u8..40).to_string();
                let member = member.as_bytes();
                let score = f64::from(rng.random_range(-6..6));
                match rng.random_range(0..8) {
                    0..5 => {
                        let outcome = insert(&mut packed, member, score, &ZsetLimits::default());
                        assert_eq!(outcome, Some(big.insert(member, score)), "seed {seed}");
                    }
                    5..7 => {
                        let removed = remove(&mut packed, member);
                        assert_eq!(removed, big.remove(member), "seed {seed}");
                    }
                    _ => {
                        let (start, count) = (rng.random_range(0..40), rng.random_range(0..4));
                        let (mut one, mut other) = (Vec::new(), Vec::new());
                        let removed = remove_ranks(&mut packed, start, count, |member, score| {
                            one.push((member.to_vec(), score));
                        });
                        big.remove_ranks(start, count, |member, score| {
                            other.push((member.to_vec(), score));
                        });
                        assert_eq!((removed, one), (other.len(), other), "seed {seed}");
                    }
                }
                compare(&packed, &big, &mut rng, seed);
            }
            let again = to_big(&packed, placement);
            again.check();
            compare(&packed, &again, &mut rng, seed);
        }
    }

    #[test]
    fn lexicographic_intervals_when_all_scores_are_equal() {
        let mut packed = packed::EMPTY.to_vec();
        for member in [b"c", b"a", b"e", b"b", b"d"] {
            insert(&mut packed, member, 1.0, &ZsetLimits::default());
        }
        let ranks = |min, max| ranks(&packed, &Interval::Members { min, max });
        use LexBound::{Exclusive, Greatest, Inclusive, Least};
        assert_eq!(ranks(Least, Greatest), 0..5);
        assert_eq!(ranks(Inclusive(b"b"), Exclusive(b"d")), 1..3);
        assert_eq!(ranks(Exclusive(b"b"), Inclusive(b"d")), 2..4);
        assert!(ranks(Inclusive(b"d"), Inclusive(b"b")).is_empty());
        assert!(ranks(Greatest, Least).is_empty());
    }

    #[test]
    fn what_is_too_much_changes_nothing() {
        let limits = ZsetLimits {
            entries_max: 3,
            value_bytes_max: 4,
        };
        let mut packed = packed::EMPTY.to_vec();
        for member in [&b"a"[..], b"bb", b"cccc"] {
            assert_eq!(
                insert(&mut packed, member, 1.0, &limits),
                Some(Outcome::Added)
            );
        }
        let before = packed.clone();
        assert_eq!(insert(&mut packed, b"d", 1.0, &limits), None);
        assert_eq!(packed, before);
        // Who is there already may change, whatever the limits are now.
        let none = ZsetLimits {
            entries_max: 0,
            value_bytes_max: 0,
        };
        assert_eq!(
            insert(&mut packed, b"a", 2.0, &none),
            Some(Outcome::Changed)
        );
        remove(&mut packed, b"bb");
        assert_eq!(insert(&mut packed, b"ddddd", 1.0, &limits), None);
        let all = ZsetLimits {
            entries_max: usize::MAX,
            value_bytes_max: usize::MAX,
        };
        assert_eq!(
            insert(&mut packed, &[b'x'; SMALL_BYTES_MAX], 1.0, &all),
            None
        );
        let half = [b'x'; SMALL_BYTES_MAX / 2];
        assert_eq!(insert(&mut packed, &half, 1.0, &all), Some(Outcome::Added));
        assert!(packed.len() <= SMALL_BYTES_MAX);
    }

    #[test]
    fn only_what_it_could_have_written_is_valid() {
        let written = |items: &[&[u8]]| {
            let mut packed = packed::EMPTY.to_vec();
            packed::push_back(&mut packed, items);
            is_valid(&packed)
        };
        let [one, two, nan] = [1.0, 2.0, f64::NAN].map(f64::to_le_bytes);
        assert!(written(&[]));
        assert!(written(&[b"a", &one, b"b", &one, b"", &two]));
        assert!(!written(&[b"a"]));
        assert!(!written(&[b"a", &one[..7]]));
        assert!(!written(&[b"a", &nan]));
        assert!(!written(&[b"a", &two, b"b", &one]));
        assert!(!written(&[b"b", &one, b"a", &one]));
        assert!(!written(&[b"a", &one, b"b", &one, b"a", &two]));
        assert!(!is_valid(b""));
        assert!(!is_valid(&[9, 0, 1]));
    }
}
