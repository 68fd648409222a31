//! A big set or hash ("hashtable" to users): extendible hashing over bounded segments.
//!
//! ```text
//! directory      segments             a segment (`segment`), behind Rc
//! [0] ---------> [0] ---------------> table of offsets -> arena of records
//! [0] ----^      [1] ---------------> table of offsets -> arena of records
//! [1] ---------> [2] ...
//! [2] ------------^
//! ```
//!
//! The directory is addressed by the top bits of the member's placement hash, as in store/table.rs;
//! a full segment is split alone, two nearly empty neighbours are merged, so nothing but an
//! intended walk over everything takes longer than one segment. The directory and `segments` are
//! the spine: a snapshot clones `segments` ([`Segmented::freeze`]), and the next change of a
//! segment it still holds copies that segment alone.
//!
//! A scan goes in the order of hashes, not of places, and so survives splits, merges and rebuilds.
//! Its cursor is the top 48 bits of a hash.
//!
//! With 1,000,000 elements in random order, processor time on a machine quiet and busy
//! (benches/collections.rs): 26 bytes a member of 16, 62 a field of 16 with a value of 32 (30 and
//! 70 after every one was replaced by another); insert 320-670 ns, get 340-660, miss 75-250, remove
//! 540-660, of which the hash takes 20. A hash table of boxed members, which misses the cache as
//! often, needs 360-580 for a get. The longest insert, a split, takes 55-85 us, the longest step of
//! a dismantling 12.
//!
//! Elements may have deadlines (in `segment`). What is known of them, a [`Span`] for each segment,
//! stands side by side here ([`Dates`]), so that those which may hold due ones are found without
//! touching a segment: [`Segmented::expire`] looks through one or a few of them at a call. That
//! costs 6 bytes an element in its record and no reference back; a sorted structure over single
//! elements would cost twice as much or more, and save the walk over a segment where due elements
//! lie far apart. (benches/peers.py: 500,000 fields that die beside one that stays take 0.05 s; a
//! deadline takes 11 bytes, since a record that gets one later leaves a hole.)
//!
//! Invariants: those of the directory; `deepest` segments have its depth; `len` is the sum over
//! segments.

use std::rc::Rc;

use hashbrown::HashTable;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::dated::{Dates, Span};
use super::directory::Directory;
use super::placement::{Ahead, Placement};
use super::prefetch::prefetch;
use super::segment::{self, Segment, TAG_BITS};
use super::{StringRef, size_class};
use crate::clock::UnixMillis;
use crate::expiry::index::ItemRef;
use crate::expiry::{ALL_LIVE, Deadline, MemberTerm, is_due};
use crate::heap::{ShouldMove, relocate_rc, relocate_vec};

/// Bits of a hash in a cursor.
const CURSOR_BITS: u32 = 48;
/// The deepest directory. Only hundreds of members with equal top 32 bits could ask for more, and
/// the hash is keyed so that nobody can choose them.
const DEPTH_MAX: u32 = 32;
/// How often a random bucket is tried before elements are counted instead.
const TRIES_MAX: usize = 256;
/// A sample of more than this share of all elements is drawn by walking over everything.
const SAMPLE_BY_WALK: usize = 3;
/// How many trials for each element of a sample may meet dead ones, or the same again, before all
/// are walked over.
const TRIES_PER_SAMPLE: usize = 4;
/// Removals between two looks at a neighbour of a sparse segment.
const MERGE_STEP: usize = 8;

/// What a table of members is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The members of a set; all values are empty.
    Members,
    /// The fields of a hash, with values.
    Fields,
}

/// A member of a set, or a field of a hash and its value.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The member or field.
    pub member: StringRef<'a>,
    /// The field's value; empty in a set.
    pub value: StringRef<'a>,
    /// When it dies.
    pub term: Option<MemberTerm>,
}

impl Element<'_> {
    /// From when on it is dead.
    #[inline]
    pub fn deadline(&self) -> Option<Deadline> {
        self.term.map(|term| term.deadline)
    }

    /// Whether it is dead.
    pub fn is_dead(&self, now: UnixMillis) -> bool {
        self.deadline()
            .is_some_and(|deadline| is_due(deadline, now))
    }
}

/// A big set or hash. A clone shares its segments until one of the two changes them.
#[derive(Clone)]
pub struct Segmented {
    directory: Directory<u32>,
    segments: Vec<Rc<Segment>>,
    len: usize,
    /// Bytes of all segments.
    segment_bytes: usize,
    placement: Placement,
    /// Segments of depth `depth`; without any, half the directory would do.
    deepest: u32,
    /// No segment has more buckets; for random draws.
    buckets_max: u32,
    content: Content,
    /// None until an element gets a deadline.
    dated: Option<Box<Dates>>,
}

impl Segmented {
    /// An empty table.
    pub fn new(content: Content, placement: Placement) -> Segmented {
        let first = Segment::new(content, (0, 0), 0, 0);
        Segmented {
            directory: Directory::new(0),
            segment_bytes: first.allocated_bytes(),
            segments: vec![Rc::new(first)],
            len: 0,
            placement,
            deepest: 1,
            buckets_max: 0,
            content,
            dated: None,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hash of a member or field, which the other operations want.
    #[inline]
    pub fn hash(&self, member: &[u8]) -> u64 {
        self.placement.hash(member)
    }

    /// Hash of a member or field, which may have been computed ahead of its command.
    #[inline]
    pub fn hash_with(&self, ahead: Ahead, member: &[u8]) -> u64 {
        ahead.of(member).unwrap_or_else(|| self.hash(member))
    }

    /// Finds an element, dead or alive.
    #[inline]
    pub fn get(&self, hash: u64, member: &[u8]) -> Option<Element<'_>> {
        self.segments[self.segment(hash)].get(hash, member)
    }

    /// Pass 1 of a look-ahead: asks for the segment of a member.
    #[inline]
    pub fn prefetch_segment(&self, hash: u64) {
        prefetch(Rc::as_ptr(&self.segments[self.segment(hash)]).addr());
    }

    /// Pass 2 of a look-ahead: finds by hash alone and asks for the record.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) {
        let segment = &self.segments[self.segment(hash)];
        segment
            .probable_address(hash)
            .into_iter()
            .for_each(prefetch);
    }

    /// Whether a member is there.
    #[inline]
    pub fn contains(&self, hash: u64, member: &[u8]) -> bool {
        self.segments[self.segment(hash)].contains(hash, member)
    }

    /// Adds a member without a deadline unless it is there; whether it was added.
    pub fn insert(&mut self, hash: u64, member: &[u8], value: &[u8]) -> bool {
        if self.contains(hash, member) {
            return false;
        }
        self.add(hash, member, value, None);
        true
    }

    /// Adds a member that is not there.
    pub fn add(&mut self, hash: u64, member: &[u8], value: &[u8], term: Option<MemberTerm>) {
        let segment = self.make_room(hash, segment::record_size(self.content, member, value));
        self.change(segment, |segment| {
            segment.insert(hash, member, value, term);
        });
        self.len += 1;
        if let Some(term) = term {
            self.dated().add(segment, term.deadline);
        }
    }

    /// Adds a field without a deadline, or gives it another value if it is there, where it keeps
    /// its deadline; whether it was added.
    pub fn set(&mut self, hash: u64, field: &[u8], value: &[u8]) -> bool {
        if self.insert(hash, field, value) {
            return true;
        }
        let segment = self.make_room(hash, segment::record_size(self.content, field, value));
        self.change(segment, |segment| segment.replace(hash, field, value));
        false
    }

    /// Gives a member another deadline, or takes it away; false if it is not there.
    pub fn set_term(&mut self, hash: u64, member: &[u8], term: Option<MemberTerm>) -> bool {
        let Some(Element {
            value, term: old, ..
        }) = self.get(hash, member)
        else {
            return false;
        };
        if old == term {
            return true;
        }
        let size = segment::record_size(self.content, member, &value);
        let segment = self.make_room(hash, size);
        self.change(segment, |segment| {
            segment.set_term(hash, member, term);
        });
        let dated = self.dated();
        // Added first: a later deadline spares the survey.
        if let Some(term) = term {
            dated.add(segment, term.deadline);
        }
        if let Some(old) = old {
            self.leave_out(segment, old.deadline);
        }
        true
    }

    /// An element of a segment has a deadline no more.
    fn leave_out(&mut self, segment: usize, deadline: Deadline) {
        let piece = &self.segments[segment];
        if let Some(dated) = &mut self.dated {
            dated.leave_out(segment, deadline, || piece.survey(ALL_LIVE).1);
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, hash: u64, member: &[u8]) -> bool {
        let segment = self.segment(hash);
        // Looked for first: a miss must not copy a segment that a snapshot holds.
        let Some(element) = self.segments[segment].get(hash, member) else {
            return false;
        };
        let deadline = element.deadline();
        let placement = self.placement;
        self.change(segment, |segment| {
            segment.remove(hash, member, placement);
        });
        self.removed(segment, deadline);
        true
    }

    fn removed(&mut self, segment: usize, deadline: Option<Deadline>) {
        self.len -= 1;
        if let Some(deadline) = deadline {
            self.leave_out(segment, deadline);
        }
        if self.segments[segment].len().is_multiple_of(MERGE_STEP) {
            self.merge_if_sparse(segment);
        }
    }

    /// All elements, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        self.segments.iter().flat_map(|segment| segment.iter())
    }

    /// One step of SSCAN or HSCAN: calls `found` for elements from `cursor` on until about `count`
    /// were met, and gives the next cursor, 0 at the end. Every element that is there from the
    /// first step to the last is met at least once. Looks at one segment.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, found: impl FnMut(Element<'a>)) -> u64 {
        let cursor = cursor.min((1 << CURSOR_BITS) - 1);
        let segment = &self.segments[self.segment(cursor << (64 - CURSOR_BITS))];
        // Cursors that share a tag differ by less than `unit`.
        let unit = CURSOR_BITS - u32::from(segment.depth()) - TAG_BITS;
        let first = u64::from(segment.prefix()) << (unit + TAG_BITS);
        let tag = (cursor - first) >> unit;
        match segment.scan(tag as u8, count.max(1), found) {
            Some(next) => first + (u64::from(next) << unit),
            None => {
                let next = first + (1 << (unit + TAG_BITS));
                if next >> CURSOR_BITS == 0 { next } else { 0 }
            }
        }
    }

    /// A random living element, all equally likely; none if there is none.
    pub fn random(&self, now: UnixMillis, rng: &mut SmallRng) -> Option<Element<'_>> {
        self.random_by_trial(now, rng).or_else(|| {
            // Nearly all are dead.
            let living = self.len - self.dead(now);
            self.living(now).nth(rng.random_range(0..living.max(1)))
        })
    }

    /// The same; none as well if too many draws meet dead ones.
    fn random_by_trial(&self, now: UnixMillis, rng: &mut SmallRng) -> Option<Element<'_>> {
        for _ in 0..TRIES_MAX {
            let (segment, bucket) = self.random_place(rng)?;
            let drawn = self.segments[segment].bucket(bucket)?;
            if !drawn.is_dead(now) {
                return Some(drawn);
            }
        }
        None
    }

    /// Calls `found` for `count` random living elements, independent of each other, if there are
    /// any, as long as it returns true.
    pub fn draw<'a>(
        &'a self,
        count: usize,
        now: UnixMillis,
        rng: &mut SmallRng,
        mut found: impl FnMut(Element<'a>) -> bool,
    ) {
        for done in 0..count {
            if let Some(drawn) = self.random_by_trial(now, rng) {
                if !found(drawn) {
                    return;
                }
                continue;
            }
            // Nearly all are dead: they are looked at once, not for every draw.
            let living: Vec<Element<'_>> = self.living(now).collect();
            if !living.is_empty() {
                (done..count).all(|_| found(living[rng.random_range(0..living.len())]));
            }
            return;
        }
    }

    /// Removes a random element after handing it to `taken`; false if there is none.
    pub fn random_remove(&mut self, rng: &mut SmallRng, taken: impl FnOnce(Element<'_>)) -> bool {
        let Some((segment, bucket)) = self.random_place(rng) else {
            return false;
        };
        let mut deadline = None;
        if let Some(element) = self.segments[segment].bucket(bucket) {
            deadline = element.deadline();
            taken(element);
        }
        let placement = self.placement;
        self.change(segment, |segment| segment.remove_bucket(bucket, placement));
        self.removed(segment, deadline);
        true
    }

    /// Calls `found` for `count` different living elements, or all if there are not so many, every
    /// choice being equally likely; the order is not random.
    pub fn sample<'a>(
        &'a self,
        count: usize,
        now: UnixMillis,
        rng: &mut SmallRng,
        mut found: impl FnMut(Element<'a>),
    ) {
        if count.saturating_mul(SAMPLE_BY_WALK) < self.len
            && let Some(places) = self.sample_places(count, now, rng)
        {
            for (segment, bucket) in places {
                self.segments[segment].bucket(bucket).map(&mut found);
            }
            return;
        }
        let living = self.len - self.dead(now);
        sample_by_walk(self.living(now), living, count, rng).for_each(found);
    }

    /// Different places of living elements, by trial; none if too many trials meet dead ones.
    fn sample_places(
        &self,
        count: usize,
        now: UnixMillis,
        rng: &mut SmallRng,
    ) -> Option<HashTable<(usize, usize)>> {
        let mut drawn = HashTable::with_capacity(count);
        for _ in 0..count * TRIES_PER_SAMPLE + TRIES_MAX {
            if drawn.len() == count {
                return Some(drawn);
            }
            let place @ (segment, bucket) = self.random_place(rng)?;
            if self.segments[segment].bucket(bucket)?.is_dead(now) {
                continue;
            }
            let hash = |&(segment, bucket): &(usize, usize)| {
                // Fibonacci hashing; nobody can choose what is drawn.
                ((segment as u64) << 16 ^ bucket as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            };
            let entry = drawn.entry(hash(&place), |other| *other == place, hash);
            if let hashbrown::hash_table::Entry::Vacant(vacant) = entry {
                vacant.insert(place);
            }
        }
        (drawn.len() == count).then_some(drawn)
    }

    /// The pieces as they are now. The next change of one that is still held copies it.
    pub fn freeze(&self) -> Vec<Rc<Segment>> {
        self.segments.clone()
    }

    /// Moves what `should_move` says of the segment with this number, and with the first one of
    /// what they have in common; false if there is no such.
    pub fn relocate(&mut self, segment: usize, should_move: ShouldMove<'_>) -> bool {
        if segment == 0 {
            self.directory.relocate(should_move);
            relocate_vec(&mut self.segments, should_move);
            if let Some(dated) = &mut self.dated {
                dated.relocate(should_move);
            }
        }
        let content = self.content;
        let Some(counted) = self.segments.get_mut(segment) else {
            return false;
        };
        let empty = || Segment::new(content, (0, 0), 0, 0);
        if relocate_rc(counted, empty, should_move).is_some() {
            self.change(segment, |segment| segment.relocate(should_move));
        }
        true
    }

    /// Frees one segment; false when nothing is left. The table is of no other use after the first
    /// call.
    pub fn dismantle(&mut self) -> bool {
        self.directory = Directory::new(0);
        self.dated = None;
        match self.segments.pop() {
            Some(segment) => {
                self.len -= segment.len();
                self.segment_bytes -= segment.allocated_bytes();
                true
            }
            None => false,
        }
    }

    /// Bytes of memory it takes, its own struct not included.
    pub fn allocated_bytes(&self) -> usize {
        self.directory.allocated_bytes()
            + size_class::of(self.segments.capacity() * size_of::<Rc<Segment>>())
            + self
                .dated
                .as_ref()
                .map_or(0, |dated| dated.allocated_bytes())
            + self.segment_bytes
    }

    #[inline(always)]
    fn segment(&self, hash: u64) -> usize {
        self.directory.get(hash) as usize
    }

    /// Makes room for a record of `size` bytes in the segment of `hash`, and says which one that
    /// is then.
    fn make_room(&mut self, hash: u64, size: usize) -> usize {
        loop {
            let at = self.segment(hash);
            let segment = &self.segments[at];
            if segment.has_room(size) {
                return at;
            }
            if segment.must_split(size) {
                self.split(at);
            } else {
                let placement = self.placement;
                self.change(at, |segment| segment.make_room(size, placement));
                let buckets = self.segments[at].buckets() as u32;
                self.buckets_max = self.buckets_max.max(buckets);
            }
        }
    }

    /// Changes a segment, or a copy of its own if others have it too, and the sum of bytes.
    #[inline]
    fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Segment) -> R) -> R {
        let segment = &mut self.segments[at];
        // Before a copy is made: that may be smaller than the original.
        let before = segment.capacities();
        let segment = Rc::make_mut(segment);
        let result = change(segment);
        let after = segment.capacities();
        if after != before {
            let (after, before) = (segment::bytes_of(after), segment::bytes_of(before));
            self.segment_bytes = self.segment_bytes + after - before;
        }
        result
    }

    /// Has the directory say which one a segment is.
    fn name(&mut self, at: usize) {
        let segment = &self.segments[at];
        let span = self
            .directory
            .span_mut(segment.first_hash(), segment.depth().into());
        span.fill(at as u32);
    }

    fn split(&mut self, at: usize) {
        if self.is_deepest(&self.segments[at]) {
            let depth = self.directory.depth();
            assert!(depth < DEPTH_MAX, "the placement hash is broken");
            self.directory.double();
            self.deepest = 0;
        }
        let empty = Rc::new(Segment::new(self.content, (0, 0), 0, 0));
        let full = std::mem::replace(&mut self.segments[at], empty);
        self.segment_bytes -= full.allocated_bytes();
        let [low, high] = Rc::unwrap_or_clone(full).split(self.placement);
        self.segment_bytes += low.allocated_bytes() + high.allocated_bytes();
        for half in [&low, &high] {
            self.buckets_max = self.buckets_max.max(half.buckets() as u32);
            self.deepest += u32::from(self.is_deepest(half));
        }
        if let Some(dated) = &mut self.dated {
            // Due elements count as well.
            dated.set_span(at, low.survey(ALL_LIVE).1);
            dated.push(high.survey(ALL_LIVE).1);
        }
        self.segments[at] = Rc::new(low);
        self.segments.push(Rc::new(high));
        self.name(self.segments.len() - 1);
    }

    fn is_deepest(&self, segment: &Segment) -> bool {
        u32::from(segment.depth()) == self.directory.depth()
    }

    /// After a removal.
    fn merge_if_sparse(&mut self, at: usize) {
        let segment = &self.segments[at];
        if segment.depth() == 0 || !segment.is_sparse() {
            return;
        }
        let bit = 64 - u32::from(segment.depth());
        let neighbour = self.segment(segment.first_hash() ^ 1 << bit);
        if segment.may_merge(&self.segments[neighbour]) {
            self.merge(at, neighbour);
        }
    }

    /// Merges two neighbours into the place of the first; the last segment takes the free place.
    fn merge(&mut self, at: usize, neighbour: usize) {
        let empty = Rc::new(Segment::new(self.content, (0, 0), 0, 0));
        let one = std::mem::replace(&mut self.segments[at], empty.clone());
        let other = std::mem::replace(&mut self.segments[neighbour], empty);
        self.segment_bytes -= one.allocated_bytes() + other.allocated_bytes();
        let (one, other) = (Rc::unwrap_or_clone(one), Rc::unwrap_or_clone(other));
        if self.is_deepest(&one) {
            self.deepest -= 2;
        }
        let merged = one.merge(other, self.placement);
        self.segment_bytes += merged.allocated_bytes();
        self.buckets_max = self.buckets_max.max(merged.buckets() as u32);
        self.segments[at] = Rc::new(merged);
        self.name(at);
        self.segments.swap_remove(neighbour);
        if let Some(dated) = &mut self.dated {
            dated.merge(at, neighbour);
        }
        if neighbour < self.segments.len() {
            self.name(neighbour);
        }
        if self.segments.len() * 4 <= self.segments.capacity() {
            self.segments.shrink_to(self.segments.len() * 2);
            if let Some(dated) = &mut self.dated {
                dated.shrink_to(self.segments.len() * 2);
            }
        }
        self.halve_directory();
    }

    fn halve_directory(&mut self) {
        while self.deepest == 0 && self.directory.depth() > 0 {
            self.directory.halve();
            // Only two of the deepest can share a pair; counted without touching segments.
            self.deepest = match self.directory.depth() {
                0 => 1,
                _ => 2 * self.directory.pairs(u32::ne).count() as u32,
            };
        }
    }

    /// A random segment and a bucket of it that holds a record, all records being equally likely.
    fn random_place(&self, rng: &mut SmallRng) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        let buckets = match &self.segments[..] {
            [only] => only.buckets(),
            _ => self.buckets_max as usize,
        };
        for _ in 0..TRIES_MAX {
            let segment = rng.random_range(0..self.segments.len());
            let bucket = rng.random_range(0..buckets);
            if self.segments[segment].bucket(bucket).is_some() {
                return Some((segment, bucket));
            }
        }
        // Nearly empty segments: the nth record.
        let mut nth = rng.random_range(0..self.len);
        for (at, segment) in self.segments.iter().enumerate() {
            if nth < segment.len() {
                let mut held = (0..segment.buckets()).filter(|&b| segment.bucket(b).is_some());
                return held.nth(nth).map(|bucket| (at, bucket));
            }
            nth -= segment.len();
        }
        None
    }

    fn dated(&mut self) -> &mut Dates {
        let segments = self.segments.len();
        self.dated
            .get_or_insert_with(|| Box::new(Dates::new(segments)))
    }
}

/// Deadlines of elements.
impl Segmented {
    /// What is known of them; none until an element has got one.
    pub fn dates(&self) -> Option<&Dates> {
        self.dated.as_deref()
    }

    /// How many elements have a deadline.
    pub fn volatile(&self) -> usize {
        self.dated.as_ref().map_or(0, |dated| dated.volatile())
    }

    /// Notes where the keyspace has filed the table.
    pub fn set_filed(&mut self, filed: Option<(Deadline, ItemRef)>) {
        if self.dated.is_some() || filed.is_some() {
            self.dated().set_filed(filed);
        }
    }

    /// How many elements are due; see [`Dates::dead`].
    pub fn dead(&self, now: UnixMillis) -> usize {
        let dated = self.dated.as_ref();
        dated.map_or(0, |dated| {
            dated.dead(now, |at| self.segments[at].survey(now))
        })
    }

    /// The elements that are not due, in no order. Segments of dead ones alone are passed over.
    pub fn living(&self, now: UnixMillis) -> impl Iterator<Item = Element<'_>> {
        let dead_in = move |at: usize| {
            let dated = self.dated.as_ref();
            dated.map_or(0, |dated| {
                dated.dead_in(at, now, |at| self.segments[at].survey(now)).0
            })
        };
        let segments = self.segments.iter().enumerate();
        segments
            .filter(move |(at, segment)| dead_in(*at) < segment.len())
            .flat_map(|(_, segment)| segment.iter())
            .filter(move |element| !element.is_dead(now))
    }

    /// Whether there are elements and all of them are due.
    pub fn is_dead(&self, now: UnixMillis) -> bool {
        let dated = self.dated.as_ref();
        dated.is_some_and(|dated| dated.are_all_due(self.len, now))
    }

    /// Moves deadlines that were given as moments in the other era of the wall clock by so much
    /// into this era.
    pub fn shift(&mut self, era: bool, later_ms: i64) {
        if self.volatile() == 0 {
            return;
        }
        for at in 0..self.segments.len() {
            // Looked for first, so that what a snapshot holds is not copied in vain.
            if self.segments[at].has_moments_before(era) {
                self.change(at, |segment| segment.shift(era, later_ms));
                let (_, span) = self.segments[at].survey(ALL_LIVE);
                self.dated().moved(at, span);
            }
        }
        self.dated().measure();
    }

    /// Removes due elements, handing them and their deadlines to `gone`, until about `limit`
    /// elements were looked at; true if no element is due any more.
    pub fn expire(
        &mut self,
        now: UnixMillis,
        limit: usize,
        mut gone: impl FnMut(&[u8], Deadline),
    ) -> bool {
        let mut looked_at = 0;
        while let Some(dated) = &mut self.dated {
            let Some(at) = dated.next_due(now) else {
                return true;
            };
            if looked_at >= limit {
                return false;
            }
            looked_at += self.segments[at].len();
            let (dead, span) = self.segments[at].survey(now);
            dated.expired(at, dead, span);
            if dead > 0 {
                self.len -= dead;
                let placement = self.placement;
                self.change(at, |segment| segment.expire(now, placement, &mut gone));
                self.merge_if_sparse(at);
            }
        }
        true
    }
}

impl Segmented {
    /// Checks every invariant of the header; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let places = self.directory.places();
        assert_eq!(places.len(), 1 << self.directory.depth());
        let mut named = 0;
        let (mut len, mut deepest) = (0, 0);
        for (at, segment) in self.segments.iter().enumerate() {
            segment.check(self.placement);
            let depth = segment.depth().into();
            let span = self.directory.span(segment.first_hash(), depth);
            named += span.len();
            assert!(places[span].iter().all(|&place| place == at as u32));
            assert!(self.segments.len() == 1 || segment.buckets() <= self.buckets_max as usize);
            len += segment.len();
            deepest += u32::from(self.is_deepest(segment));
        }
        assert_eq!((len, named), (self.len, places.len()));
        let bytes = self
            .segments
            .iter()
            .map(|segment| segment.allocated_bytes());
        assert_eq!(bytes.sum::<usize>(), self.segment_bytes);
        assert_eq!(deepest, self.deepest);
        self.check_deadlines();
    }

    fn check_deadlines(&self) {
        let surveys = self
            .segments
            .iter()
            .map(|segment| segment.survey(ALL_LIVE).1);
        match &self.dated {
            Some(dated) => dated.check(surveys),
            None => assert!(surveys.into_iter().all(|span| span == Span::EMPTY)),
        }
    }
}

/// Passes on `count` of `len` elements, every choice being equally likely (Knuth's algorithm S).
pub(super) fn sample_by_walk<'a, E>(
    elements: impl Iterator<Item = E> + 'a,
    mut len: usize,
    mut count: usize,
    rng: &'a mut SmallRng,
) -> impl Iterator<Item = E> + 'a {
    elements.filter(move |_| {
        let is_taken = rng.random_range(0..len.max(1)) < count;
        len = len.saturating_sub(1);
        count -= usize::from(is_taken);
        is_taken
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use rand::SeedableRng;

    use super::*;
    use crate::expiry::Basis;

    fn span(deadline: Deadline) -> MemberTerm {
        MemberTerm::new(deadline, Basis::Relative, false)
    }

    type Twin = BTreeMap<Vec<u8>, Vec<u8>>;

    fn twin_of<'a>(elements: impl Iterator<Item = Element<'a>>) -> Twin {
        let mut twin = Twin::new();
        for element in elements {
            let is_new = twin.insert(element.member.to_vec(), element.value.to_vec());
            assert_eq!(is_new, None, "an element was met twice");
        }
        twin
    }

    fn string(rng: &mut SmallRng, lens: &[usize]) -> Vec<u8> {
        let len = lens[rng.random_range(0..lens.len())];
        let mut string = vec![0; len];
        rng.fill(&mut string[..]);
        string
    }

    fn filled(content: Content, len: u32, seed: u64) -> (Segmented, SmallRng) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut members = Segmented::new(content, Placement::new(&mut rng));
        for i in 0..len {
            let member = format!("member:{i:09}");
            let hash = members.hash(member.as_bytes());
            assert!(members.insert(hash, member.as_bytes(), b""));
        }
        (members, rng)
    }

    fn remove(members: &mut Segmented, i: u32) -> bool {
        let member = format!("member:{i:09}");
        members.remove(members.hash(member.as_bytes()), member.as_bytes())
    }

    /// Random changes against a twin, with a spine frozen now and then that must not change.
    fn run(content: Content, seed: u64, steps: usize, names: u32, lens: &[usize]) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut members = Segmented::new(content, Placement::new(&mut rng));
        let mut twin = Twin::new();
        let mut frozen = (members.freeze(), twin.clone());
        for step in 0..steps {
            // Grows for a while, then shrinks, and again.
            let is_growing = (step * 4 / steps).is_multiple_of(2);
            let name = rng.random_range(0..names);
            let pad = lens[name as usize % lens.len()];
            let mut member = format!("{name:x}").into_bytes();
            member.resize(member.len().max(pad), b'.');
            let hash = members.hash(&member);
            let value = match content {
                Content::Members => Vec::new(),
                Content::Fields => string(&mut rng, lens),
            };
            match rng.random_range(0..10) {
                0..7 if is_growing => {
                    let is_new = !twin.contains_key(&member);
                    let value = twin.entry(member.clone()).or_insert(value);
                    assert_eq!(members.insert(hash, &member, value), is_new, "seed {seed}");
                }
                0..7 => {
                    let was_there = twin.remove(&member).is_some();
                    assert_eq!(members.remove(hash, &member), was_there, "seed {seed}");
                }
                7..9 => {
                    let is_new = twin.insert(member.clone(), value.clone()).is_none();
                    assert_eq!(members.set(hash, &member, &value), is_new, "seed {seed}");
                }
                _ if is_growing => {}
                _ => {
                    let mut taken = None;
                    let was_any = members.random_remove(&mut rng, |element| {
                        taken = Some((element.member.to_vec(), element.value.to_vec()));
                    });
                    assert_eq!(was_any, !twin.is_empty(), "seed {seed}");
                    if let Some((member, value)) = taken {
                        assert_eq!(twin.remove(&member), Some(value), "seed {seed}");
                    }
                }
            }
            let got = members
                .get(hash, &member)
                .map(|element| element.value.to_vec());
            assert_eq!(got.as_ref(), twin.get(&member), "seed {seed}");
            assert_eq!(members.len(), twin.len(), "seed {seed}");
            if step % (steps / 16) == 0 {
                members.check();
                assert_eq!(twin_of(members.iter()), twin, "seed {seed}");
                let still = twin_of(frozen.0.iter().flat_map(|segment| segment.iter()));
                assert_eq!(still, frozen.1, "seed {seed}");
                frozen = (members.freeze(), twin.clone());
            }
        }
        while members.dismantle() {}
        assert_eq!(members.len(), 0);
        let still = twin_of(frozen.0.iter().flat_map(|segment| segment.iter()));
        assert_eq!(still, frozen.1, "seed {seed}");
    }

    #[test]
    fn behaves_like_a_map() {
        run(Content::Members, 1, 40_000, 12_000, &[0, 3, 16, 20]);
        run(Content::Fields, 2, 40_000, 12_000, &[0, 5, 16, 32]);
        run(Content::Fields, 3, 8_000, 300, &[0, 1, 127, 128]);
        run(
            Content::Fields,
            4,
            8_000,
            1_000,
            &[5, 127, 128, 1023, 1024, 1025],
        );
        run(Content::Members, 5, 8_000, 1_500, &[700, 1024, 1025, 2000]);
        run(Content::Fields, 6, 6_000, 20, &[0, 64, 1025]);
    }

    /// Random deadlines, changes and removals against a twin, with steps of expiry in between.
    fn run_with_deadlines(seed: u64, names: u32, lens: &[usize]) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut fields = Segmented::new(Content::Fields, Placement::new(&mut rng));
        let mut twin = BTreeMap::<Vec<u8>, (Vec<u8>, Option<Deadline>)>::new();
        let mut now = UnixMillis(1_000);
        let mut frozen = (fields.freeze(), twin.clone());
        for step in 0..20_000 {
            let name = rng.random_range(0..names);
            let mut field = format!("{name:x}").into_bytes();
            field.resize(field.len().max(lens[name as usize % lens.len()]), b'.');
            let hash = fields.hash(&field);
            let later = Deadline(now.plus(rng.random_range(1..500)));
            match rng.random_range(0..12) {
                0..3 => {
                    let value = string(&mut rng, lens);
                    let old = twin.get(&field).and_then(|(_, deadline)| *deadline);
                    let is_new = twin.insert(field.clone(), (value.clone(), old)).is_none();
                    assert_eq!(fields.set(hash, &field, &value), is_new, "seed {seed}");
                }
                3..6 => {
                    let found = twin.get_mut(&field);
                    let is_there = found.is_some();
                    found
                        .into_iter()
                        .for_each(|(_, deadline)| *deadline = Some(later));
                    assert_eq!(fields.set_term(hash, &field, Some(span(later))), is_there);
                }
                6 => {
                    let found = twin.get_mut(&field);
                    let is_there = found.is_some();
                    found.into_iter().for_each(|(_, deadline)| *deadline = None);
                    assert_eq!(fields.set_term(hash, &field, None), is_there);
                }
                7 => {
                    let was_there = twin.remove(&field).is_some();
                    assert_eq!(fields.remove(hash, &field), was_there, "seed {seed}");
                }
                8 if !twin.contains_key(&field) => {
                    fields.add(hash, &field, b"added", Some(span(later)));
                    twin.insert(field.clone(), (b"added".to_vec(), Some(later)));
                }
                9 => now = now.plus(rng.random_range(0..20)),
                10 if step % 40 < 5 => {
                    let mut gone = Vec::new();
                    let is_over = fields.expire(now, 500, |_, deadline| gone.push(deadline));
                    assert!(gone.iter().all(|&deadline| is_due(deadline, now)));
                    let has_gone = |field: &[u8]| fields.get(fields.hash(field), field).is_none();
                    twin.retain(|field, _| !has_gone(field));
                    assert!(!is_over || fields.dead(now) == 0, "seed {seed}");
                }
                11 => {
                    let due = |at: &Option<Deadline>| at.is_some_and(|at| is_due(at, now));
                    let due = twin.values().filter(|(_, at)| due(at)).count();
                    assert_eq!(fields.dead(now), due, "seed {seed}");
                }
                _ => {}
            }
            let is_dead = |deadline: Option<Deadline>| deadline.is_some_and(|d| is_due(d, now));
            let got = fields.get(hash, &field);
            let got = got.map(|element| (element.value.to_vec(), element.deadline()));
            assert_eq!(got.as_ref(), twin.get(&field), "seed {seed}");
            if step % 500 == 0 {
                fields.check();
                let dead = twin
                    .values()
                    .filter(|(_, deadline)| is_dead(*deadline))
                    .count();
                assert_eq!(
                    (fields.len(), fields.dead(now)),
                    (twin.len(), dead),
                    "seed {seed}"
                );
                assert_eq!(fields.is_dead(now), !twin.is_empty() && dead == twin.len());
                let all = |pieces: &[Rc<Segment>]| {
                    let elements = pieces.iter().flat_map(|segment| segment.iter());
                    let pairs = elements.map(|element| {
                        let value = (element.value.to_vec(), element.deadline());
                        (element.member.to_vec(), value)
                    });
                    pairs.collect::<BTreeMap<_, _>>()
                };
                assert_eq!(all(&fields.segments), twin, "seed {seed}");
                assert_eq!(all(&frozen.0), frozen.1, "seed {seed}");
                frozen = (fields.freeze(), twin.clone());
            }
        }
        let end = now.plus(1_000);
        let volatile = twin
            .values()
            .filter(|(_, deadline)| deadline.is_some())
            .count();
        assert_eq!(fields.volatile(), volatile);
        let mut gone = 0;
        while !fields.expire(end, 1, |_, _| gone += 1) {}
        fields.check();
        assert_eq!((gone, fields.len()), (volatile, twin.len() - volatile));
        assert_eq!(
            (fields.volatile(), fields.dates().and_then(Dates::soonest)),
            (0, None)
        );
    }

    #[test]
    fn deadlines_agree_with_a_map() {
        run_with_deadlines(1, 8_000, &[0, 3, 16, 20]);
        run_with_deadlines(2, 300, &[0, 1, 127, 128]);
        run_with_deadlines(3, 1_500, &[5, 128, 1023, 1024, 1025]);
        run_with_deadlines(4, 20, &[0, 64, 1025]);
        run_with_deadlines(5, 3, &[0, 4]);
    }

    #[test]
    fn a_number_of_due_elements_is_remembered_until_the_next_is_due() {
        let (mut fields, _) = filled(Content::Fields, 2_000, 1_000);
        for i in 0..2_000u32 {
            let name = format!("member:{i:09}").into_bytes();
            let at = Deadline(UnixMillis(if i % 2 == 0 {
                5
            } else {
                1_000 + i64::from(i)
            }));
            fields.set_term(fields.hash(&name), &name, Some(span(at)));
        }
        let counted = |fields: &Segmented| fields.dates().expect("deadlines").counted();
        let due = fields.dead(UnixMillis(7));
        assert!(due > 100);
        let first = counted(&fields).expect("a count");
        assert_eq!(first.0, 7);
        assert!(first.1 > 1_000, "{first:?}");
        assert_eq!(fields.dead(UnixMillis(1_000)), due);
        assert_eq!(counted(&fields), Some(first));
        assert_eq!(fields.dead(UnixMillis(6)), due);
        assert_eq!(fields.dead(UnixMillis(first.1)), due + 1);
        // Whatever changes makes it count again.
        let name = b"member:000000000".to_vec();
        let was_there = fields.remove(fields.hash(&name), &name);
        assert_eq!(counted(&fields).is_none(), was_there);
    }

    #[test]
    fn draws_pass_over_the_dead() {
        for living in [0, 1, 300, 1_900] {
            let (mut fields, mut rng) = filled(Content::Fields, 2_000, living);
            let due = Deadline(UnixMillis(5));
            let names = (living as u32..2_000).map(|i| format!("member:{i:09}").into_bytes());
            for name in names {
                fields.set_term(fields.hash(&name), &name, Some(span(due)));
            }
            let now = UnixMillis(5);
            let is_alive = |element: &Element<'_>| element.term.is_none();
            for _ in 0..200 {
                let drawn = fields.random(now, &mut rng);
                assert_eq!(drawn.as_ref().map(is_alive), (living > 0).then_some(true));
            }
            for count in [1, 100, 2_000] {
                let mut met = HashSet::new();
                fields.sample(count, now, &mut rng, |element| {
                    assert!(is_alive(&element));
                    assert!(met.insert(element.member.to_vec()));
                });
                assert_eq!(met.len(), count.min(living as usize));
            }
            assert_eq!(fields.is_dead(now), living == 0);
            assert!(!fields.is_dead(UnixMillis(4)));
        }
    }

    #[test]
    fn any_bytes_are_members() {
        let (mut members, _) = filled(Content::Fields, 0, 1);
        let huge = vec![7; 3 << 20];
        for member in [&b""[..], b"\0", b"\xff\r\n", &huge] {
            let hash = members.hash(member);
            assert!(!members.remove(hash, member));
            assert!(members.set(hash, member, &huge));
            assert!(!members.set(hash, member, b""));
            assert!(!members.insert(hash, member, b"other"));
            assert_eq!(*members.get(hash, member).unwrap().value, *b"");
            assert!(!members.set(hash, member, &huge));
            let StringRef::Long(value) = members.get(hash, member).unwrap().value else {
                panic!("three megabytes in an arena");
            };
            assert_eq!(*value, huge);
        }
        members.check();
        assert!(members.allocated_bytes() > 5 * huge.len());
        assert!(members.allocated_bytes() < 6 * huge.len());
    }

    #[test]
    fn memory_goes_back() {
        let (mut members, _) = filled(Content::Members, 100_000, 2);
        members.check();
        let full = members.allocated_bytes();
        assert!(full < 3_000_000, "{full} bytes for 100,000 members");
        (0..90_000).for_each(|i| assert!(remove(&mut members, i)));
        members.check();
        let tenth = members.allocated_bytes();
        assert!(tenth < full / 5, "{tenth} of {full} bytes for a tenth");
        (90_000..100_000).for_each(|i| assert!(remove(&mut members, i)));
        members.check();
        assert!(members.allocated_bytes() < 1000);
        assert_eq!(members.directory.depth(), 0);
    }

    #[test]
    fn a_scan_misses_nothing_that_stays() {
        for seed in 0..12 {
            // Members below 3,000 stay; the others come, or come and go, between the steps.
            let (mut members, mut rng) = filled(Content::Members, 3_000, seed);
            let mut next: u32 = 3_000;
            let mut met = HashSet::new();
            let mut cursor = 0;
            for step in 0.. {
                assert!(step < 100_000, "seed {seed}: the scan does not end");
                let count = rng.random_range(1..30);
                cursor = members.scan(cursor, count, |element| {
                    met.insert(element.member.to_vec());
                });
                if cursor == 0 {
                    break;
                }
                assert!(cursor < 1 << CURSOR_BITS);
                if seed % 2 == 0 && step % 128 < 64 && step < 400 {
                    for _ in 0..rng.random_range(0..300) {
                        let member = format!("member:{next:09}");
                        let hash = members.hash(member.as_bytes());
                        members.insert(hash, member.as_bytes(), b"");
                        next += 1;
                    }
                } else if next > 3_000 && seed % 4 == 0 {
                    let from = next.saturating_sub(600).max(3_000);
                    (from..next).for_each(|i| assert!(remove(&mut members, i)));
                    next = from;
                }
            }
            for i in 0..3_000 {
                let member = format!("member:{i:09}").into_bytes();
                assert!(met.contains(&member), "seed {seed}: {i} was missed");
            }
            members.check();
        }
    }

    #[test]
    fn a_scan_survives_merges() {
        let (mut members, _) = filled(Content::Members, 20_000, 3);
        let mut met = HashSet::new();
        let mut cursor = 0;
        let mut gone = 100;
        loop {
            cursor = members.scan(cursor, 20, |element| {
                met.insert(element.member.to_vec());
            });
            if cursor == 0 {
                break;
            }
            (gone..20_000.min(gone + 100)).for_each(|i| assert!(remove(&mut members, i)));
            gone = 20_000.min(gone + 100);
        }
        assert!(
            members.len() < 1_000 && members.directory.depth() < 3,
            "nothing was merged"
        );
        (0..100).for_each(|i| assert!(met.contains(format!("member:{i:09}").as_bytes())));
        // Whatever a client sends as a cursor.
        for cursor in [1, u64::MAX, 1 << 48, (1 << 48) - 1] {
            assert_eq!(members.scan(cursor, usize::MAX, |_| {}), 0);
        }
        assert_eq!(members.scan(0, 0, |_| {}) >> CURSOR_BITS, 0);
    }

    #[test]
    fn draws_are_even() {
        let (members, mut rng) = filled(Content::Members, 1_000, 4);
        let mut drawn = BTreeMap::new();
        for _ in 0..100_000 {
            let element = members.random(ALL_LIVE, &mut rng).unwrap();
            *drawn.entry(element.member.to_vec()).or_insert(0) += 1;
        }
        assert_eq!(drawn.len(), 1_000);
        // A mean of 100 and a deviation of 10.
        assert!(drawn.values().all(|count| (50..160).contains(count)));
    }

    #[test]
    fn a_sample_is_distinct_and_even() {
        let (members, mut rng) = filled(Content::Members, 600, 5);
        for count in [0, 1, 100, 199, 200, 400, 599, 600, 601, usize::MAX] {
            let mut met = HashSet::new();
            members.sample(count, ALL_LIVE, &mut rng, |element| {
                assert!(met.insert(element.member.to_vec()));
            });
            assert_eq!(met.len(), count.min(600));
        }
        for count in [60, 300] {
            let mut drawn = BTreeMap::new();
            for _ in 0..200 {
                members.sample(count, ALL_LIVE, &mut rng, |element| {
                    *drawn.entry(element.member.to_vec()).or_insert(0) += 1;
                });
            }
            let mean = count as i32 / 3;
            let is_near = |&drawn: &i32| (drawn - mean).abs() < 45;
            assert!(drawn.len() == 600 && drawn.values().all(is_near));
        }
    }

    #[test]
    fn sparse_segments_still_draw() {
        let (mut members, mut rng) = filled(Content::Members, 3_000, 6);
        (1..3_000).for_each(|i| assert!(remove(&mut members, i)));
        assert!(members.random(ALL_LIVE, &mut rng).is_some());
        assert!(members.random_remove(&mut rng, |element| {
            assert_eq!(*element.member, *b"member:000000000");
        }));
        assert!(members.random(ALL_LIVE, &mut rng).is_none());
        assert!(!members.random_remove(&mut rng, |_| {}));
    }
}
