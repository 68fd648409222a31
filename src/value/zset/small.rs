//! A small sorted set: member and score by turns in one packed string, in their order; if members
//! may have deadlines, behind each score that of its member (`value::dated_packed`).
//!
//! A score is the eight bytes of a double. Everything is found by walking, which for the hundred
//! records there may be is as fast as anything. Whatever changes the string tells when it must not
//! grow any more; what is too much then goes to [`Small::to_big`].

use std::ops::Range;

use super::big::Zset;
use super::bounds::Interval;
use super::tree::Direction;
use super::{Outcome, ZsetLimits};
use crate::clock::UnixMillis;
use crate::expiry::{Deadline, MemberTerm, is_due};
use crate::value::dated;
use crate::value::dated_packed::{Inner, Shape};
use crate::value::packed::{self, Buffer, Item};
use crate::value::placement::Placement;

/// A record where it stands.
#[derive(Clone, Copy)]
struct Record<'a> {
    member: &'a [u8],
    score: f64,
    /// The bytes of the term: none if there is none.
    term: &'a [u8],
    /// Offset of the member's item, and of what follows the record.
    span: (usize, usize),
}

impl<'a> Record<'a> {
    fn new(member: Item<'a>, score: Item<'a>, term: Option<Item<'a>>) -> Record<'a> {
        let bytes = score.bytes.try_into().expect("a score has eight bytes");
        Record {
            member: member.bytes,
            score: f64::from_le_bytes(bytes),
            term: term.map_or(b"", |term| term.bytes),
            span: (member.at, term.unwrap_or(score).end()),
        }
    }

    fn term(&self) -> Option<MemberTerm> {
        dated::from_bytes(self.term)
    }

    fn deadline(&self) -> Option<Deadline> {
        self.term().map(|term| term.deadline)
    }

    /// Whether it is before another one.
    fn is_before(&self, member: &[u8], score: f64) -> bool {
        self.score < score || self.score == score && self.member < member
    }
}

fn next_record<'a>(items: &mut packed::Iter<'a>, shape: Shape) -> Option<Record<'a>> {
    let (member, score) = (items.next()?, items.next()?);
    let term = match shape {
        Shape::Packed => None,
        Shape::Dated => Some(items.next()?),
    };
    Some(Record::new(member, score, term))
}

fn records(packed: &[u8], shape: Shape) -> impl Iterator<Item = Record<'_>> {
    let mut items = packed::iter(packed);
    std::iter::from_fn(move || next_record(&mut items, shape))
}

/// A small sorted set to be read.
#[derive(Clone, Copy)]
pub struct Small<'a> {
    packed: &'a [u8],
    shape: Shape,
}

impl<'a> Small<'a> {
    /// The one that is kept in these bytes.
    pub fn new(bytes: &'a [u8], shape: Shape) -> Small<'a> {
        let packed = &bytes[shape.start()..];
        Small { packed, shape }
    }

    fn records(self) -> impl Iterator<Item = Record<'a>> {
        records(self.packed, self.shape)
    }

    /// The name OBJECT ENCODING answers.
    pub(super) fn encoding(self) -> &'static str {
        match self.shape {
            Shape::Packed => "listpack",
            Shape::Dated => "listpackex",
        }
    }

    /// Number of members.
    pub(super) fn len(self) -> usize {
        packed::len(self.packed) / self.shape.step()
    }

    /// The score and the term of a member.
    pub(super) fn get(self, member: &[u8]) -> Option<(f64, Option<MemberTerm>)> {
        let found = packed::find(self.packed, member, self.shape.step())?;
        let mut items = packed::iter_between(self.packed, found.at, self.packed.len());
        let record = next_record(&mut items, self.shape)?;
        Some((record.score, record.term()))
    }

    /// How many members are due.
    pub(super) fn dead(self, now: UnixMillis) -> usize {
        let is_dead = |record: &Record<'_>| record.deadline().is_some_and(|at| is_due(at, now));
        match self.shape {
            Shape::Packed => 0,
            Shape::Dated => self.records().filter(is_dead).count(),
        }
    }

    /// How many members are before this one.
    pub(super) fn rank(self, member: &[u8]) -> Option<usize> {
        self.records().position(|record| record.member == member)
    }

    /// The ranks of the members in an interval.
    pub(super) fn ranks(self, interval: &Interval<'_>) -> Range<usize> {
        let (mut start, mut end) = (0, 0);
        for record in self.records() {
            start += usize::from(interval.starts_after(record.member, record.score));
            if !interval.ends_after(record.member, record.score) {
                break;
            }
            end += 1;
        }
        start.min(end)..end
    }

    /// Members and scores from a rank on.
    pub(super) fn iter(self, rank: usize, direction: Direction) -> Iter<'a> {
        let (len, step) = (self.len(), self.shape.step());
        let mut items = packed::iter(self.packed);
        if rank >= len {
            items = packed::iter(packed::EMPTY);
        } else if direction == Direction::Ascending && rank > 0 {
            items.nth(rank * step - 1);
        } else if direction == Direction::Descending && rank + 1 < len {
            items.nth_back((len - rank - 1) * step - 1);
        }
        Iter {
            items,
            shape: self.shape,
            direction,
        }
    }

    /// Calls `found` with every member, its score and its deadline, in order.
    pub fn for_each(self, mut found: impl FnMut(&[u8], f64, Option<Deadline>)) {
        self.records()
            .for_each(|record| found(record.member, record.score, record.deadline()));
    }

    /// The same members in a set that may grow, not filed.
    pub fn to_big(self, placement: Placement) -> Zset {
        let mut big = Zset::new(placement);
        for record in self.records() {
            big.insert(record.member, record.score);
            if let Some(term) = record.term() {
                big.set_term(record.member, Some(term));
            }
        }
        big
    }
}

/// Sets the score of a member, which is added if it is new and the limits allow it; then it has no
/// deadline. The score is not NaN. None if the set must become big first; then nothing has changed.
pub fn insert<B: Buffer>(
    buffer: &mut B,
    shape: Shape,
    member: &[u8],
    score: f64,
    limits: &ZsetLimits,
) -> Option<Outcome> {
    let step = shape.step();
    let buffer = &mut Inner(buffer, shape.start());
    let packed = buffer.bytes();
    let (mut found, mut target) = (None, packed.len());
    for record in records(packed, shape) {
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
        if !limits.allow(packed, shape, member) {
            return None;
        }
        packed::insert_before(buffer, target, &[member, &bytes, b""][..step]);
        return Some(Outcome::Added);
    };
    if record.score == score {
        return Some(Outcome::Unchanged);
    }
    let (start, end) = record.span;
    if target == end {
        packed::replace(buffer, start + packed::item_bytes(member.len()), &bytes);
        return Some(Outcome::Changed);
    }
    let term = record.term.to_vec();
    packed::remove_span(buffer, start, end, step);
    let target = if target > start {
        target - (end - start)
    } else {
        target
    };
    packed::insert_before(buffer, target, &[member, &bytes, &term][..step]);
    Some(Outcome::Changed)
}

/// Removes a member; gives its score.
pub fn remove<B: Buffer>(buffer: &mut B, shape: Shape, member: &[u8]) -> Option<f64> {
    let buffer = &mut Inner(buffer, shape.start());
    let record = records(buffer.bytes(), shape).find(|record| record.member == member)?;
    let (score, (start, end)) = (record.score, record.span);
    packed::remove_span(buffer, start, end, shape.step());
    Some(score)
}

/// Removes `count` members from a rank on, or as many as there are, calling `removed` for each in
/// order. Gives how many they were.
pub fn remove_ranks<B: Buffer>(
    buffer: &mut B,
    shape: Shape,
    (start, count): (usize, usize),
    mut removed: impl FnMut(&[u8], f64),
) -> usize {
    let buffer = &mut Inner(buffer, shape.start());
    let (mut span, mut len) = (None, 0);
    for record in records(buffer.bytes(), shape).skip(start).take(count) {
        removed(record.member, record.score);
        let (first, _) = *span.get_or_insert(record.span);
        span = Some((first, record.span.1));
        len += 1;
    }
    if let Some((first, end)) = span {
        packed::remove_span(buffer, first, end, len * shape.step());
    }
    len
}

/// Whether these bytes, whatever they are, are a small sorted set without deadlines that this file
/// could have written.
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
    let all: Vec<Record<'_>> = records(packed, Shape::Packed).collect();
    let is_ordered = |pair: &[Record<'_>]| pair[0].is_before(pair[1].member, pair[1].score);
    let mut members: Vec<&[u8]> = all.iter().map(|record| record.member).collect();
    members.sort_unstable();
    all.windows(2).all(is_ordered) && members.windows(2).all(|pair| pair[0] != pair[1])
}

/// Members and scores in order.
pub struct Iter<'a> {
    items: packed::Iter<'a>,
    shape: Shape,
    direction: Direction,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        let record = match self.direction {
            Direction::Ascending => next_record(&mut self.items, self.shape)?,
            Direction::Descending => {
                let term = match self.shape {
                    Shape::Packed => None,
                    Shape::Dated => Some(self.items.next_back()?),
                };
                let score = self.items.next_back()?;
                Record::new(self.items.next_back()?, score, term)
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
    use crate::expiry::Basis;
    use crate::value::{SMALL_BYTES_MAX, dated_packed};

    /// A big set is the twin: it has one of its own.
    fn compare(small: Small<'_>, big: &Zset, rng: &mut SmallRng, seed: u64) {
        let is_plain = small.shape == Shape::Packed || small.len() == 0;
        assert_eq!(is_valid(small.packed), is_plain, "seed {seed}");
        let (one, other) = (ZsetRef::Small(small), ZsetRef::Big(big));
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
        assert_eq!(one.get(member), other.get(member), "seed {seed}");
        let now = UnixMillis(rng.random_range(0..99));
        assert_eq!(one.dead(now), other.dead(now), "seed {seed}");
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

    /// Random edits beside a big set; deadlines too, if it has them.
    fn run(seed: u64, shape: Shape) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let placement = Placement::new(&mut rng);
        let mut small = match shape {
            Shape::Packed => packed::EMPTY.to_vec(),
            Shape::Dated => dated_packed::to_dated(packed::EMPTY, 2).unwrap(),
        };
        let mut big = Zset::new(placement);
        for _ in 0..300 {
            let member = rng.random_range(0_u8..40).to_string();
            let member = member.as_bytes();
            let score = f64::from(rng.random_range(-6..6));
            match rng.random_range(0..10) {
                0..5 => {
                    let outcome = insert(&mut small, shape, member, score, &ZsetLimits::default());
                    assert_eq!(outcome, Some(big.insert(member, score)), "seed {seed}");
                }
                5..7 => {
                    let removed = remove(&mut small, shape, member);
                    assert_eq!(removed, big.remove(member), "seed {seed}");
                }
                7..9 if shape == Shape::Dated => {
                    let at = Deadline(UnixMillis(rng.random_range(1..99)));
                    let term = MemberTerm::new(at, Basis::Absolute, rng.random());
                    let term = rng.random_bool(0.7).then_some(term);
                    assert!(dated_packed::set_term(&mut small, 2, member, term));
                    big.set_term(member, term);
                }
                _ => {
                    let range = (rng.random_range(0..40), rng.random_range(0..4));
                    let (mut one, mut other) = (Vec::new(), Vec::new());
                    let removed = remove_ranks(&mut small, shape, range, |member, score| {
                        one.push((member.to_vec(), score));
                    });
                    big.remove_ranks(range.0, range.1, |member, score| {
                        other.push((member.to_vec(), score));
                    });
                    assert_eq!((removed, one), (other.len(), other), "seed {seed}");
                }
            }
            compare(Small::new(&small, shape), &big, &mut rng, seed);
        }
        let again = Small::new(&small, shape).to_big(placement);
        again.check();
        compare(Small::new(&small, shape), &again, &mut rng, seed);
    }

    #[test]
    fn behaves_like_a_big_one() {
        for seed in 0..20 {
            run(seed, Shape::Packed);
            run(seed, Shape::Dated);
        }
    }

    #[test]
    fn lexicographic_intervals_when_all_scores_are_equal() {
        let mut packed = packed::EMPTY.to_vec();
        for member in [b"c", b"a", b"e", b"b", b"d"] {
            insert(
                &mut packed,
                Shape::Packed,
                member,
                1.0,
                &ZsetLimits::default(),
            );
        }
        let small = Small::new(&packed, Shape::Packed);
        let ranks = |min, max| small.ranks(&Interval::Members { min, max });
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
                insert(&mut packed, Shape::Packed, member, 1.0, &limits),
                Some(Outcome::Added)
            );
        }
        let before = packed.clone();
        assert_eq!(insert(&mut packed, Shape::Packed, b"d", 1.0, &limits), None);
        assert_eq!(packed, before);
        // Who is there already may change, whatever the limits are now.
        let none = ZsetLimits {
            entries_max: 0,
            value_bytes_max: 0,
        };
        assert_eq!(
            insert(&mut packed, Shape::Packed, b"a", 2.0, &none),
            Some(Outcome::Changed)
        );
        remove(&mut packed, Shape::Packed, b"bb");
        assert_eq!(
            insert(&mut packed, Shape::Packed, b"ddddd", 1.0, &limits),
            None
        );
        let all = ZsetLimits {
            entries_max: usize::MAX,
            value_bytes_max: usize::MAX,
        };
        assert_eq!(
            insert(
                &mut packed,
                Shape::Packed,
                &[b'x'; SMALL_BYTES_MAX],
                1.0,
                &all
            ),
            None
        );
        let half = [b'x'; SMALL_BYTES_MAX / 2];
        assert_eq!(
            insert(&mut packed, Shape::Packed, &half, 1.0, &all),
            Some(Outcome::Added)
        );
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
