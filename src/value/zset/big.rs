//! A big sorted set: records in pages, their order in a tree, and a table from member to record.
//!
//! ```text
//!   member --hash--> MemberIndex --number--+
//!                                      v
//!                                    Pages: [score, member] [score, member] ...
//!                                      ^
//!   score, rank, bounds --> Tree --number--+
//! ```
//!
//! The pages alone are the set: a snapshot keeps them as they were, and what it reads back is
//! inserted anew. The score is in the tree too, so that searching by score does not touch records.
//!
//! Members that have deadlines stand with these in a table of their own, of the kind that sets are
//! (`segmented`), which knows the due ones; a set without deadlines has none. So a rank counts dead
//! members: whoever asks for one removes those first. (Not chosen: deadlines in the records. They
//! would be found by the same table only if each record had a way back from it, at four bytes a
//! member of any set.)
//!
//! Invariants: every record has one slot in the table and one in the tree, with the score it has
//! itself; records are ordered by score and then by the bytes of the member.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use super::Outcome;
use super::bounds::Interval;
use super::member_index::MemberIndex;
use super::pages::{Page, Pages, RecordId};
use super::tree::{Direction, Position, Tree};
use crate::clock::UnixMillis;
use crate::expiry::Deadline;
use crate::expiry::index::ItemRef;
use crate::heap::ShouldMove;
use crate::value::placement::Placement;
use crate::value::segmented::{Content, Element, Segmented};
use crate::value::size_class;

/// A sorted set of any size: `skiplist` to users.
pub struct Zset {
    pages: Pages,
    members: MemberIndex,
    tree: Tree,
    placement: Placement,
    /// The members that have deadlines, with these; none until one gets one.
    deadlines: Option<Box<Segmented>>,
}

/// Member by member: what is shared with a snapshot are pages, of which a set makes its own tree.
impl Clone for Zset {
    fn clone(&self) -> Zset {
        let mut copy = Zset::new(self.placement);
        for (member, score) in self.iter(0, Direction::Ascending) {
            copy.insert(member, score);
        }
        copy.deadlines = self.deadlines.clone();
        copy
    }
}

impl Zset {
    /// An empty set.
    pub fn new(placement: Placement) -> Zset {
        Zset {
            pages: Pages::default(),
            members: MemberIndex::new(),
            tree: Tree::new(),
            placement,
            deadlines: None,
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        let id = self.find(self.placement.hash(member), member)?;
        Some(self.pages.record(id).1)
    }

    /// How many members are before this one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let id = self.find(self.placement.hash(member), member)?;
        Some(self.place_of(id).rank)
    }

    /// The member of this rank, and its score.
    pub fn by_rank(&self, rank: usize) -> Option<(&[u8], f64)> {
        if rank >= self.len() {
            return None;
        }
        let (_, id) = self.tree.record(&self.tree.place_of_rank(rank))?;
        Some(self.pages.record(id))
    }

    /// MemberIndex and scores from a rank on, towards the end of the direction.
    pub fn iter(&self, rank: usize, direction: Direction) -> Iter<'_> {
        Iter {
            pages: &self.pages,
            records: self.tree.iter(rank, direction),
        }
    }

    /// Hands `count` members and scores from a rank on to `found`.
    #[inline]
    pub fn visit(
        &self,
        rank: usize,
        direction: Direction,
        count: usize,
        mut found: impl FnMut(&[u8], f64),
    ) {
        self.tree.iter(rank, direction).visit(count, |id| {
            let (member, score) = self.pages.record(id);
            found(member, score);
        });
    }

    /// The ranks of the members in an interval; of no members, if it ends before it starts.
    pub fn ranks(&self, interval: &Interval<'_>) -> Range<usize> {
        let member = |id| self.pages.record(id).0;
        let (start, end) = match interval {
            Interval::Scores { min, max } => (
                self.tree.seek(min.score, |_| min.is_exclusive),
                self.tree.seek(max.score, |_| !max.is_exclusive),
            ),
            Interval::Members { min, max } => (
                self.tree.seek_by_record(|id| min.starts_after(member(id))),
                self.tree.seek_by_record(|id| max.ends_after(member(id))),
            ),
        };
        start.rank.min(end.rank)..end.rank
    }

    /// One step of a scan: calls `found` for members from `cursor` on, in the order of their
    /// hashes, until at least `count` were met or a segment ends. Gives the next cursor, 0 at the
    /// end. Whoever is a member from the first step to the last is met.
    pub fn scan(&self, cursor: u32, count: usize, mut found: impl FnMut(&[u8], f64)) -> u32 {
        self.members.scan(cursor, count, |id| {
            let (member, score) = self.pages.record(id);
            found(member, score);
        })
    }

    /// Sets the score of a member, which is added if it is new. The score is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Outcome {
        debug_assert!(!score.is_nan());
        let hash = self.placement.hash(member);
        match self.find(hash, member) {
            Some(id) => self.change(id, score),
            None => {
                let place = self.seek(member, score);
                let id = self.pages.insert(member, score);
                self.tree.insert(&place, score, id);
                self.members.insert(hash, id);
                Outcome::Added
            }
        }
    }

    /// Removes a member; gives its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = self.placement.hash(member);
        let id = self.find(hash, member)?;
        let score = self.pages.record(id).1;
        let place = self.place_of(id);
        self.remove_record(hash, id, &place);
        Some(score)
    }

    /// Removes `count` members from a rank on, or as many as there are, calling `removed` for each
    /// in order. Gives how many they were.
    pub fn remove_ranks(
        &mut self,
        start: usize,
        count: usize,
        mut removed: impl FnMut(&[u8], f64),
    ) -> usize {
        let count = count.min(self.len().saturating_sub(start));
        for _ in 0..count {
            self.remove_rank(start, &mut removed);
        }
        count
    }

    /// Removes the member of this rank, if there is one, after calling `removed` for it. The least
    /// has rank 0, the greatest the length less one.
    pub fn remove_rank(&mut self, rank: usize, removed: impl FnOnce(&[u8], f64)) -> bool {
        if rank >= self.len() {
            return false;
        }
        let place = self.tree.place_of_rank(rank);
        let (_, id) = self
            .tree
            .record(&place)
            .expect("the rank is below the length");
        let (member, score) = self.pages.record(id);
        removed(member, score);
        let hash = self.placement.hash(member);
        self.remove_record(hash, id, &place);
        true
    }

    /// The pages with all members as they are now, in no order; later changes do not show in them.
    pub fn freeze(&self) -> Vec<Rc<Page>> {
        self.pages.freeze()
    }

    /// Moves what `should_move` says of the piece with this number: a page, a node of the tree, a
    /// table of members or of deadlines; false if there is no such.
    pub fn relocate(&mut self, piece: usize, should_move: ShouldMove<'_>) -> bool {
        let (leaves, inners) = self.tree.nodes();
        let mut left = piece;
        let mut is_in = |pieces: usize| {
            let is_in = left < pieces;
            left -= if is_in { 0 } else { pieces };
            is_in.then_some(left)
        };
        if let Some(at) = is_in(self.pages.pages()) {
            self.pages.relocate_page(at, should_move);
        } else if let Some(at) = is_in(leaves + inners) {
            self.tree.relocate(at, should_move);
        } else if let Some(at) = is_in(self.members.segments()) {
            self.members.relocate(at, should_move);
        } else {
            let deadlines = self.deadlines.as_mut();
            return deadlines.is_some_and(|all| all.relocate(left, should_move));
        }
        true
    }

    /// Frees one piece of at most a thousand members; false when nothing is left. The set is of no
    /// use for anything else afterwards.
    pub fn dismantle(&mut self) -> bool {
        self.pages.dismantle()
            || self.tree.dismantle()
            || self.members.dismantle()
            || self.deadlines.as_mut().is_some_and(|all| all.dismantle())
    }

    /// Bytes of memory it takes.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(size_of::<Zset>())
            + self.pages.allocated_bytes()
            + self.tree.allocated_bytes()
            + self.members.allocated_bytes()
            + self.deadlines.as_ref().map_or(0, |all| {
                size_class::of(size_of::<Segmented>()) + all.allocated_bytes()
            })
    }

    /// The members that have deadlines, with these; none if no member ever had one.
    pub fn deadlines(&self) -> Option<&Segmented> {
        self.deadlines.as_deref()
    }

    /// The deadline of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn deadline(&self, member: &[u8]) -> Option<Option<Deadline>> {
        let hash = self.placement.hash(member);
        self.find(hash, member)?;
        let all = self.deadlines.as_ref();
        Some(all.and_then(|all| all.get(hash, member)?.deadline))
    }

    /// Gives a member, which is there, a deadline, or takes it away.
    pub fn set_deadline(&mut self, member: &[u8], deadline: Option<Deadline>) {
        let hash = self.placement.hash(member);
        let all = self.dated();
        if deadline.is_none() {
            all.remove(hash, member);
        } else if !all.set_deadline(hash, member, deadline) {
            all.add(hash, member, b"", deadline);
        }
    }

    /// Notes where the keyspace has filed the set by the deadline of a member.
    pub fn set_filed(&mut self, filed: Option<(Deadline, ItemRef)>) {
        self.dated().set_filed(filed);
    }

    /// Removes due members, handing them and their deadlines to `gone`, until about `limit`
    /// volatile ones were looked at; true if no member is due any more.
    pub fn expire(
        &mut self,
        now: UnixMillis,
        limit: usize,
        mut gone: impl FnMut(&[u8], Deadline),
    ) -> bool {
        let Some(mut all) = self.deadlines.take() else {
            return true;
        };
        let is_over = all.expire(now, limit, |member, deadline| {
            self.remove(member);
            gone(member, deadline);
        });
        self.deadlines = Some(all);
        is_over
    }

    fn dated(&mut self) -> &mut Segmented {
        let placement = self.placement;
        self.deadlines
            .get_or_insert_with(|| Box::new(Segmented::new(Content::Members, placement)))
    }

    #[inline]
    fn find(&self, hash: u64, member: &[u8]) -> Option<RecordId> {
        self.members
            .find(hash, |id| self.pages.record(id).0 == member)
    }

    /// Where a member of this score would be inserted.
    fn seek(&self, member: &[u8], score: f64) -> Position {
        let is_before = |other| self.pages.record(other).0 < member;
        self.tree.seek(score, is_before)
    }

    /// The place of a record.
    fn place_of(&self, id: RecordId) -> Position {
        let (member, score) = self.pages.record(id);
        let is_up_to = |other| other == id || self.pages.record(other).0 < member;
        self.tree.seek_last(score, is_up_to)
    }

    fn compare(&self, one: (f64, RecordId), other: (f64, RecordId)) -> Ordering {
        let scores = one.0.partial_cmp(&other.0).expect("no score is NaN");
        scores.then_with(|| self.pages.record(one.1).0.cmp(self.pages.record(other.1).0))
    }

    /// Gives a record another score.
    fn change(&mut self, id: RecordId, score: f64) -> Outcome {
        let old_score = self.pages.record(id).1;
        if old_score == score {
            return Outcome::Unchanged;
        }
        let place = self.place_of(id);
        let [previous, next] = self.tree.neighbours(&place);
        let stays = previous.is_none_or(|it| self.compare(it, (score, id)).is_lt())
            && next.is_none_or(|it| self.compare((score, id), it).is_lt());
        if stays {
            self.tree.set(&place, score, id);
        } else {
            self.tree.remove(&place);
            let place = self.seek(self.pages.record(id).0, score);
            self.tree.insert(&place, score, id);
        }
        self.pages.set_score(id, score);
        Outcome::Changed
    }

    fn remove_record(&mut self, hash: u64, id: RecordId, place: &Position) {
        if let Some(all) = &mut self.deadlines {
            all.remove(hash, self.pages.record(id).0);
        }
        self.tree.remove(place);
        self.members.remove(hash, id);
        if let Some(page) = self.pages.remove(id) {
            self.empty_page(page);
        }
    }

    /// Moves the last records of a page elsewhere, and frees it.
    fn empty_page(&mut self, page: usize) {
        for old in self.pages.retire(page) {
            let place = self.place_of(old);
            let new = self.pages.relocate(old);
            let (member, score) = self.pages.record(old);
            self.tree.set(&place, score, new);
            self.members.renumber(self.placement.hash(member), old, new);
        }
        self.pages.free(page);
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.pages.check();
        self.tree
            .check(|one, other| self.compare(one, other).is_lt());
        let hash_of = |id| self.placement.hash(self.pages.record(id).0);
        assert_eq!(self.members.check(hash_of), self.len());
        for (score, id) in self.tree.iter(0, Direction::Ascending) {
            let (member, own_score) = self.pages.record(id);
            assert_eq!(own_score.to_bits(), score.to_bits());
            assert_eq!(self.find(self.placement.hash(member), member), Some(id));
        }
        if let Some(all) = &self.deadlines {
            all.check();
            let is_good =
                |it: Element<'_>| it.deadline.is_some() && self.score(&it.member).is_some();
            assert!(all.iter().all(is_good));
        }
    }
}

/// MemberIndex and scores in order.
pub struct Iter<'a> {
    pages: &'a Pages,
    records: super::tree::Iter<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        let (_, id) = self.records.next()?;
        Some(self.pages.record(id))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::super::{LexBound, ScoreBound, ZsetRef};
    use super::*;

    /// The same set, kept naively.
    #[derive(Default)]
    struct Twin {
        scores: HashMap<Vec<u8>, f64>,
        order: Vec<(f64, Vec<u8>)>,
    }

    impl Twin {
        fn rank(&self, score: f64, member: &[u8]) -> usize {
            self.order.partition_point(|(other_score, other)| {
                *other_score < score || *other_score == score && other.as_slice() < member
            })
        }

        fn insert(&mut self, member: &[u8], score: f64) -> Outcome {
            let old = self.scores.get(member).copied();
            if old == Some(score) {
                return Outcome::Unchanged;
            }
            self.remove(member);
            self.order
                .insert(self.rank(score, member), (score, member.to_vec()));
            self.scores.insert(member.to_vec(), score);
            old.map_or(Outcome::Added, |_| Outcome::Changed)
        }

        fn remove(&mut self, member: &[u8]) -> Option<f64> {
            let score = self.scores.remove(member)?;
            self.order.remove(self.rank(score, member));
            Some(score)
        }
    }

    fn in_order(set: &Zset) -> Vec<(f64, Vec<u8>)> {
        let all = set.iter(0, Direction::Ascending);
        all.map(|(member, score)| (score, member.to_vec()))
            .collect()
    }

    fn contents(pages: &[Rc<Page>]) -> HashMap<Vec<u8>, f64> {
        let mut found = HashMap::new();
        for page in pages {
            page.for_each(|member, score| {
                assert_eq!(found.insert(member.to_vec(), score), None);
            });
        }
        found
    }

    fn dismantled(mut set: Zset) {
        let mut steps = 0;
        while set.dismantle() {
            steps += 1;
        }
        assert!(steps > 0);
    }

    /// The member with this number: the empty one, or one of a length at some threshold.
    fn member(number: u32) -> Vec<u8> {
        if number == 0 {
            return Vec::new();
        }
        let mut member = number.to_string().into_bytes();
        let len = match number % 200 {
            1 => 253,
            2 => 254,
            3 => 1024,
            4 => 1025,
            5 => 5000,
            _ => member.len(),
        };
        member.resize(len, b'.');
        member
    }

    fn compare(set: &Zset, twin: &Twin, rng: &mut SmallRng, seed: u64) {
        set.check();
        assert_eq!(in_order(set), twin.order, "seed {seed}");
        let mut back = in_order(set);
        back.reverse();
        let descending = set.iter(set.len().wrapping_sub(1), Direction::Descending);
        assert!(
            descending.map(|(m, s)| (s, m.to_vec())).eq(back),
            "seed {seed}"
        );
        assert_eq!(contents(&set.freeze()), twin.scores, "seed {seed}");
        for _ in 0..20 {
            let rank = rng.random_range(0..=twin.order.len());
            let expected = twin
                .order
                .get(rank)
                .map(|(score, member)| (&member[..], *score));
            assert_eq!(set.by_rank(rank), expected, "seed {seed}");
            if let Some((member, score)) = expected {
                assert_eq!(set.rank(member), Some(rank), "seed {seed}");
                assert_eq!(set.score(member), Some(score), "seed {seed}");
            }
            let bound = |rng: &mut SmallRng| ScoreBound {
                score: f64::from(rng.random_range(-60..60)) / 2.0,
                is_exclusive: rng.random(),
            };
            let (min, max) = (bound(rng), bound(rng));
            let is_in = |score: f64| {
                let starts = if min.is_exclusive {
                    score > min.score
                } else {
                    score >= min.score
                };
                starts
                    && if max.is_exclusive {
                        score < max.score
                    } else {
                        score <= max.score
                    }
            };
            let ranks = set.ranks(&Interval::Scores { min, max });
            let count = twin.order.iter().filter(|(score, _)| is_in(*score)).count();
            assert_eq!(ranks.len(), count, "seed {seed}");
            assert!(
                ranks.clone().all(|rank| is_in(twin.order[rank].0)),
                "seed {seed}"
            );
        }
    }

    /// Grows to `numbers` members or so, shrinks to a few, grows again.
    fn random_operations(seed: u64, numbers: u32, steps: u32, scores: i32) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut set = Zset::new(Placement::new(&mut rng));
        let mut twin = Twin::default();
        for step in 0..steps {
            let is_shrinking = step / (steps / 4) % 2 == 1;
            let member = member(rng.random_range(0..numbers));
            let score = f64::from(rng.random_range(-scores..=scores)) / 2.0;
            if rng.random_range(0..100) < if is_shrinking { 4 } else { 80 } {
                let expected = twin.insert(&member, score);
                assert_eq!(set.insert(&member, score), expected, "seed {seed}");
            } else if is_shrinking && rng.random_range(0..100) < 50 {
                let rank = rng.random_range(0..twin.order.len().max(1));
                let expected: Vec<_> = twin.order.iter().skip(rank).take(3).cloned().collect();
                expected
                    .iter()
                    .for_each(|(_, member)| _ = twin.remove(member));
                let mut found = Vec::new();
                set.remove_ranks(rank, 3, |member, score| {
                    found.push((score, member.to_vec()))
                });
                assert_eq!(found, expected, "seed {seed}");
            } else {
                assert_eq!(set.remove(&member), twin.remove(&member), "seed {seed}");
            }
            if step % (steps / 16) == 0 {
                compare(&set, &twin, &mut rng, seed);
            }
        }
        compare(&set, &twin, &mut rng, seed);
        dismantled(set);
    }

    #[test]
    fn behaves_like_its_twin() {
        for seed in 0..6 {
            random_operations(seed, 300, 2_000, 60);
            // Few scores: members decide.
            random_operations(seed, 3_000, 6_000, 1);
        }
        random_operations(6, 20_000, 40_000, 50_000);
    }

    #[test]
    fn a_frozen_set_stays_as_it_was() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut set = Zset::new(Placement::new(&mut rng));
        for number in 0..5_000 {
            set.insert(&member(number), f64::from(number % 77));
        }
        let before: HashMap<_, _> = in_order(&set).into_iter().map(|(s, m)| (m, s)).collect();
        let frozen = set.freeze();
        for _ in 0..20_000 {
            let member = member(rng.random_range(0..8_000));
            match rng.random_range(0..3) {
                0 => _ = set.insert(&member, rng.random_range(0.0..9.0)),
                _ => _ = set.remove(&member),
            }
        }
        set.check();
        assert_eq!(contents(&frozen), before);
        dismantled(set);
        assert_eq!(contents(&frozen), before);
        let mut again = Zset::new(Placement::new(&mut rng));
        for page in frozen {
            page.for_each(|member, score| _ = again.insert(member, score));
        }
        again.check();
        assert_eq!(again.len(), 5_000);
    }

    #[test]
    fn scores_in_order_fill_the_leaves_and_removal_gives_memory_back() {
        for is_rising in [true, false] {
            let mut set = Zset::new(Placement::new(&mut SmallRng::seed_from_u64(1)));
            for number in 0..60_000 {
                let score = if is_rising { number } else { -number };
                set.insert(format!("member:{number:09}").as_bytes(), f64::from(score));
            }
            set.check();
            let full = set.allocated_bytes();
            assert!(full < 60_000 * 60, "{full}");
            // One of 64 stays, spread over all pages and leaves.
            for number in (0..60_000).filter(|number| number % 64 != 0) {
                let removed = set.remove(format!("member:{number:09}").as_bytes());
                assert!(removed.is_some());
            }
            set.check();
            let left = set.allocated_bytes();
            assert!(left < full / 20, "{left} of {full}");
            let len = set.len();
            assert_eq!(set.remove_ranks(0, usize::MAX, |_, _| ()), len);
            set.check();
            let left = set.allocated_bytes();
            assert!(left < full / 100, "{left} of {full}");
        }
    }

    #[test]
    fn a_scan_meets_whoever_stays() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut set = Zset::new(Placement::new(&mut rng));
        let name = |number: u32| number.to_string().into_bytes();
        (0..4_000).for_each(|number| _ = set.insert(&name(number), 1.0));
        let (mut cursor, mut met, mut steps) = (0, HashSet::new(), 0);
        loop {
            cursor = set.scan(cursor, 10, |member, _| _ = met.insert(member.to_vec()));
            steps += 1;
            if cursor == 0 {
                break;
            }
            // Even ones stay; the table grows and shrinks meanwhile.
            for _ in 0..60 {
                let number = rng.random_range(0..20_000) * 2 + 1;
                match steps % 100 < 50 {
                    true => _ = set.insert(&name(number), 2.0),
                    false => _ = set.remove(&name(number)),
                }
            }
        }
        assert!(steps > 300);
        assert!(
            (0..4_000)
                .step_by(2)
                .all(|number| met.contains(&name(number)))
        );
    }

    #[test]
    fn lexicographic_intervals_when_all_scores_are_equal() {
        let mut set = Zset::new(Placement::new(&mut SmallRng::seed_from_u64(4)));
        let names: Vec<Vec<u8>> = (0..2_000).map(|n| format!("{n:05}").into_bytes()).collect();
        names
            .iter()
            .rev()
            .for_each(|name| _ = set.insert(name, 0.0));
        let ranks = |min, max| set.ranks(&Interval::Members { min, max });
        use LexBound::{Exclusive, Greatest, Inclusive, Least};
        assert_eq!(ranks(Least, Greatest), 0..2_000);
        assert_eq!(ranks(Inclusive(b"00100"), Inclusive(b"00200")), 100..201);
        assert_eq!(ranks(Exclusive(b"00100"), Exclusive(b"00200")), 101..200);
        assert_eq!(ranks(Exclusive(b"001"), Inclusive(b"0010000")), 100..101);
        assert!(ranks(Exclusive(b"00100"), Exclusive(b"00100")).is_empty());
        assert!(ranks(Inclusive(b"00200"), Inclusive(b"00100")).is_empty());
        assert!(ranks(Greatest, Least).is_empty());
    }

    #[test]
    fn zeros_of_either_sign_are_one_score() {
        let mut set = Zset::new(Placement::new(&mut SmallRng::seed_from_u64(5)));
        set.insert(b"b", -0.0);
        set.insert(b"a", 0.0);
        assert_eq!(set.insert(b"b", 0.0), Outcome::Unchanged);
        assert!(set.score(b"b").is_some_and(f64::is_sign_negative));
        assert_eq!(set.rank(b"b"), Some(1));
        set.insert(b"c", f64::INFINITY);
        set.insert(b"d", f64::NEG_INFINITY);
        assert_eq!(set.by_rank(0), Some((&b"d"[..], f64::NEG_INFINITY)));
        set.check();
    }

    #[test]
    fn samples_are_distinct() {
        let mut rng = SmallRng::seed_from_u64(8);
        let mut set = Zset::new(Placement::new(&mut rng));
        (0..1_000_u32).for_each(|number| _ = set.insert(&number.to_be_bytes(), 0.0));
        let set = ZsetRef::Big(&set);
        for count in [0, 1, 10, 900, 1_000, usize::MAX] {
            let drawn: HashSet<_> = set
                .sample(count, &mut rng)
                .map(|(member, _)| member)
                .collect();
            assert_eq!(drawn.len(), count.min(1_000));
        }
        let drawn = (0..20_000).filter_map(|_| set.random(&mut rng));
        let drawn: HashSet<_> = drawn.map(|(member, _)| member).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}
