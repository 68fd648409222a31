//! The keys of one database: extendible hashing over small hash tables.
//!
//! A plain hash table stops the server while it grows. Here a directory, addressed by the top bits
//! of the placement hash, points to segments of at most 2,048 buckets; a full segment is split
//! alone, two nearly empty neighbours are merged, and nothing ever takes longer than one segment.
//!
//! ```text
//! placement hash  63 ............ 45 | 44 43 | 42 ........ 32 | 31 ....... 0
//!                 tag, kept in slot            bucket where the  of no account
//!                 top bits: directory          probe starts      here
//! ```
//!
//! An entry's place follows from the top half of its hash alone (`placed`), so that whoever must
//! find it again, as the index of deadlines does, need not keep more: 4 bytes less for each key
//! with a deadline. hashbrown takes its control byte from the top seven bits of what it is given
//! and the start of the probe from the low ones; it is given the top half times an odd constant. So
//! its probe starts with bits that are neither the directory's nor the tag's, and its control byte
//! depends on all of them. Of 16,000,000 keys a lookup meets a wrong entry with the right tag in
//! 1 of some 500 cases.
//!
//! The top half is *warped* ([`Placement`]): with a uniform one every segment is filled alike,
//! all of them split within one narrow window, and at 1,000,000 keys each one stands at 48 % load,
//! 19 bytes of table a key. The warp is a monotone map whose density falls by half from one
//! end to the other (an integer approximation of log2(1 + x)), so that loads are always spread over
//! the whole range between just split and full: 15 bytes a key, whatever the number of keys.
//!
//! Because the slot has the top 19 bits, a scan goes through the table in the order of those bits,
//! segment by segment, without touching entries; as it is an order of hashes and not of places it
//! survives split, merge and rebuild.
//!
//! The bytes of all entries with their values are kept as a sum ([`Table::entry_bytes`]), for which
//! entries are changed through [`EntryMut`] alone. At pipeline 64 it costs 1.2 to 1.7 % of the
//! instructions of SET over a key that is there, of HSET and ZADD, and 2 to 3 % of LPUSH, SADD,
//! XADD and APPEND and of a new key; GET pays nothing.
//!
//! Invariants: those of the directory; `len` is the sum over segments; a segment below full size
//! never splits; hashbrown never grows a segment by itself (an insert without room rebuilds first:
//! by itself it would double at constant load, from tombstones).

use hashbrown::HashTable;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::entry::{self, Slot, TAG_BITS, ValueRef};
use super::entry_mut::{EntryMut, EntrySum};
use crate::value::directory::Directory;
use crate::value::placement::{Placement, room, spread, top_half};
use crate::value::prefetch::prefetch;
use crate::value::size_class;

/// Buckets of a segment that may split.
const BUCKETS_MAX: usize = 2048;
/// Below this share of a full segment its neighbour is looked at for a merge.
const MERGE_BELOW: usize = room(BUCKETS_MAX) / 4;
/// Two neighbours merge when together they fill at most this.
const MERGED_MAX: usize = room(BUCKETS_MAX) * 6 / 10;
/// How many entries ahead of the one being moved are prefetched.
const AHEAD: usize = 16;
/// The scan order has this many positions.
const POSITIONS: u32 = 1 << TAG_BITS;

/// One entry of the directory: what a prefetch needs, and the segment.
#[derive(Clone, Copy)]
struct Pointer {
    /// Where hashbrown's control bytes start (slots lie below), or 0 if unknown.
    base: usize,
    mask: u32,
    segment: u32,
}

struct Segment {
    slots: HashTable<Slot>,
    depth: u8,
    /// Counts rebuilds, splits and merges: a walk over buckets restarts when it changes.
    generation: u32,
}

/// The keys of one database.
pub struct Table {
    directory: Directory<Pointer>,
    segments: Vec<Segment>,
    free: Vec<u32>,
    len: usize,
    /// What the entries take.
    sum: EntrySum,
    /// Bytes of the hash tables of all segments.
    slots_bytes: usize,
    placement: Placement,
    scratch: Vec<Slot>,
}

/// Where an entry is, until the table changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    segment: u32,
    bucket: u32,
}

impl Place {
    #[inline(always)]
    fn new(segment: usize, bucket: usize) -> Place {
        Place {
            segment: segment as u32,
            bucket: bucket as u32,
        }
    }
}

/// A position of a walk over all buckets, in directory order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// First scan position (tag) of the segment being walked.
    position: u32,
    bucket: usize,
    generation: u32,
    segment: u32,
    is_done: bool,
}

impl Walk {
    /// Whether everything has been walked.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

/// What hashbrown is given of a hash.
#[inline(always)]
fn placed(hash: u64) -> u64 {
    spread(top_half(hash))
}

impl Table {
    /// An empty table; allocates next to nothing.
    pub fn new(placement: Placement) -> Table {
        let mut table = Table {
            directory: Directory::new(Pointer {
                base: 0,
                mask: 0,
                segment: 0,
            }),
            segments: vec![Segment {
                slots: HashTable::new(),
                depth: 0,
                generation: 0,
            }],
            free: Vec::new(),
            len: 0,
            sum: EntrySum::default(),
            slots_bytes: 0,
            placement,
            scratch: Vec::new(),
        };
        table.point(0);
        table
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Segments in use.
    pub fn segments(&self) -> usize {
        self.segments.len() - self.free.len()
    }

    /// Buckets of all segments.
    pub fn buckets(&self) -> usize {
        self.segments.iter().map(|s| s.slots.num_buckets()).sum()
    }

    /// Bytes of the table itself, without entries.
    pub fn allocated_bytes(&self) -> usize {
        self.directory.allocated_bytes()
            + size_class::of(self.segments.capacity() * size_of::<Segment>())
            + size_class::of(self.free.capacity() * size_of::<u32>())
            + size_class::of(self.scratch.capacity() * size_of::<Slot>())
            + self.slots_bytes
    }

    /// Bytes of all entries with their values.
    pub fn entry_bytes(&self) -> usize {
        let lent = self.sum.lent.map(|place| self.at(place));
        self.sum.bytes + lent.map_or(0, Slot::boxed_bytes)
    }

    #[inline(always)]
    fn segment(&self, hash: u64) -> usize {
        self.directory.get(hash).segment as usize
    }

    /// Pass 1 of a look-ahead: asks for where the probe for `hash` starts.
    #[inline]
    pub fn prefetch_probe(&self, hash: u64) {
        let pointer = self.directory.get(hash);
        let start = (placed(hash) as u32 & pointer.mask) as usize;
        prefetch(pointer.base.wrapping_add(start));
        prefetch(pointer.base.wrapping_sub((start + 1) * size_of::<Slot>()));
    }

    /// Pass 2 of a look-ahead: finds by tag alone and asks for the entry's first two lines.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        let tag = entry::tag(hash);
        let slots = &self.segments[self.segment(hash)].slots;
        if let Some(slot) = slots.find(placed(hash), |slot| slot.tag() == tag) {
            prefetch(slot.address());
            prefetch(slot.address() + 63);
        }
    }

    /// Finds a key.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<&Slot> {
        let tag = entry::tag(hash);
        let slots = &self.segments[self.segment(hash)].slots;
        slots.find(placed(hash), |slot| slot.tag() == tag && slot.key() == key)
    }

    /// Finds where a key is, so as to look at its entry and then to change it.
    #[inline]
    pub fn locate(&self, hash: u64, key: &[u8]) -> Option<Place> {
        let tag = entry::tag(hash);
        let segment = self.segment(hash);
        let is_it = |slot: &Slot| slot.tag() == tag && slot.key() == key;
        let slots = &self.segments[segment].slots;
        let bucket = slots.find_bucket_index(placed(hash), is_it)?;
        Some(Place::new(segment, bucket))
    }

    /// The entry at a place that [`Table::locate`] has just found.
    ///
    /// # Panics
    /// If the table has changed so that there is none.
    #[inline]
    pub fn at(&self, place: Place) -> &Slot {
        let slots = &self.segments[place.segment as usize].slots;
        let slot = slots.get_bucket(place.bucket as usize);
        slot.expect("a place just found")
    }

    /// The entry at a place, to be changed.
    ///
    /// # Panics
    /// If the table has changed so that there is none.
    #[inline(always)]
    pub fn at_mut(&mut self, place: Place) -> EntryMut<'_> {
        if self.sum.lent.is_some_and(|lent| lent != place) {
            self.count_lent();
        }
        let slots = &mut self.segments[place.segment as usize].slots;
        let slot = slots.get_bucket_mut(place.bucket as usize);
        EntryMut::new(slot.expect("a place just found"), place, &mut self.sum)
    }

    /// Counts the lent value: places are about to change, or another one is lent.
    #[inline]
    fn count_lent(&mut self) {
        if let Some(place) = self.sum.lent.take() {
            self.sum.bytes += self.at(place).boxed_bytes();
        }
    }

    /// Finds an entry by its hash and a test, for callers that do not know the key.
    pub fn find_by(&self, hash: u64, is_it: impl Fn(&Slot) -> bool) -> Option<&Slot> {
        let tag = entry::tag(hash);
        let slots = &self.segments[self.segment(hash)].slots;
        slots.find(placed(hash), |slot| slot.tag() == tag && is_it(slot))
    }

    /// Like [`Table::find_by`], to change the entry.
    pub fn find_by_mut(
        &mut self,
        hash: u64,
        is_it: impl Fn(&Slot) -> bool,
    ) -> Option<EntryMut<'_>> {
        let tag = entry::tag(hash);
        let segment = self.segment(hash);
        let is_it = |slot: &Slot| slot.tag() == tag && is_it(slot);
        let slots = &self.segments[segment].slots;
        let bucket = slots.find_bucket_index(placed(hash), is_it)?;
        Some(self.at_mut(Place::new(segment, bucket)))
    }

    /// Adds an entry whose key is not in the table.
    pub fn insert(&mut self, hash: u64, slot: Slot) {
        self.count_lent();
        let mut segment = self.segment(hash);
        let slots = &self.segments[segment].slots;
        if slots.len() == slots.capacity() {
            self.make_room(hash);
            segment = self.segment(hash);
        }
        self.sum.bytes += slot.allocated_bytes();
        let slots = &mut self.segments[segment].slots;
        slots.insert_unique(placed(hash), slot, |_| {
            unreachable!("room was made before the insert, so nothing is rehashed")
        });
        self.len += 1;
    }

    /// Removes a key and gives back its entry.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Slot> {
        self.remove_by(hash, |slot| slot.key() == key)
    }

    /// Removes the entry found by its hash and a test.
    pub fn remove_by(&mut self, hash: u64, is_it: impl Fn(&Slot) -> bool) -> Option<Slot> {
        self.count_lent();
        let tag = entry::tag(hash);
        let segment = self.segment(hash);
        let slots = &mut self.segments[segment].slots;
        let found = slots
            .find_entry(placed(hash), |slot| slot.tag() == tag && is_it(slot))
            .ok()?;
        let (slot, _) = found.remove();
        self.len -= 1;
        self.sum.bytes -= slot.allocated_bytes();
        let left = self.segments[segment].slots.len();
        if left < MERGE_BELOW && left.is_multiple_of(64) {
            self.shrink(hash);
        }
        Some(slot)
    }

    /// Makes room for one more entry in the segment of `hash`.
    fn make_room(&mut self, hash: u64) {
        let segment = self.segment(hash);
        let (len, buckets) = {
            let slots = &self.segments[segment].slots;
            (slots.len(), slots.num_buckets().max(2))
        };
        // With tombstones the same size will do; a table of 2 buckets is one that never held any.
        let is_full = len * 10 >= room(buckets) * 8 || buckets == 2;
        if !is_full {
            self.rebuild(segment, room(buckets));
        } else if buckets < BUCKETS_MAX || u32::from(self.segments[segment].depth) == TAG_BITS {
            self.rebuild(segment, room(buckets * 2));
        } else {
            self.split(hash);
        }
        let slots = &self.segments[self.segment(hash)].slots;
        if slots.len() == slots.capacity() {
            // Only if a split sent everything to one side; a larger table always has room.
            let segment = self.segment(hash);
            let buckets = self.segments[segment].slots.num_buckets();
            self.rebuild(segment, room(buckets * 2));
        }
        self.point(hash);
    }

    /// Takes all slots out of a segment, with their entries on their way into the cache.
    fn take(&mut self, segment: usize) -> Vec<Slot> {
        let mut taken = std::mem::take(&mut self.scratch);
        taken.extend(self.release(segment));
        taken
    }

    /// Takes the hash table out of a segment.
    fn release(&mut self, segment: usize) -> HashTable<Slot> {
        let slots = std::mem::take(&mut self.segments[segment].slots);
        self.slots_bytes -= slots_bytes(&slots);
        slots
    }

    /// A hash table for a segment.
    fn allot(&mut self, capacity: usize) -> HashTable<Slot> {
        let slots = HashTable::with_capacity(capacity);
        self.slots_bytes += slots_bytes(&slots);
        slots
    }

    /// Puts slots into segments, prefetching ahead of the hashing.
    fn put(&mut self, mut taken: Vec<Slot>, mut choose: impl FnMut(u64) -> usize) {
        // Back to front, so that slots are popped.
        taken
            .iter()
            .rev()
            .take(AHEAD)
            .for_each(|slot| prefetch(slot.address()));
        for i in (0..taken.len()).rev() {
            if i >= AHEAD {
                prefetch(taken[i - AHEAD].address());
            }
            let slot = taken.pop().expect("i is below the length");
            let hash = self.placement.hash(slot.key());
            let segment = choose(hash);
            let slots = &mut self.segments[segment].slots;
            slots.insert_unique(placed(hash), slot, |_| {
                unreachable!("the segment was made with room for all")
            });
        }
        self.scratch = taken;
    }

    fn rebuild(&mut self, segment: usize, capacity: usize) {
        let taken = self.take(segment);
        self.segments[segment].slots = self.allot(capacity.max(taken.len()));
        self.segments[segment].generation += 1;
        let position = taken.first().map(|slot| self.placement.hash(slot.key()));
        self.put(taken, |_| segment);
        if let Some(hash) = position {
            self.point(hash);
        }
    }

    fn split(&mut self, hash: u64) {
        let low = self.segment(hash);
        let depth = self.segments[low].depth;
        if u32::from(depth) == self.directory.depth() {
            self.directory.double();
        }
        let taken = self.take(low);
        let half = Segment {
            slots: self.allot(room(BUCKETS_MAX).max(taken.len())),
            depth: depth + 1,
            generation: 0,
        };
        let high = self.add(half);
        self.segments[low].slots = self.allot(room(BUCKETS_MAX).max(taken.len()));
        self.segments[low].depth = depth + 1;
        self.segments[low].generation += 1;
        let bit = 63 - u32::from(depth);
        for pointer in self
            .directory
            .span_mut(hash | 1 << bit, u32::from(depth) + 1)
        {
            pointer.segment = high as u32;
        }
        self.put(taken, |hash| if hash >> bit & 1 == 0 { low } else { high });
        self.point(hash);
        self.point(hash ^ 1 << bit);
    }

    fn add(&mut self, segment: Segment) -> usize {
        match self.free.pop() {
            Some(at) => {
                let generation = self.segments[at as usize].generation + 1;
                self.segments[at as usize] = Segment {
                    generation,
                    ..segment
                };
                at as usize
            }
            None => {
                self.segments.push(segment);
                self.segments.len() - 1
            }
        }
    }

    /// After a removal: merges the segment of `hash` with its neighbour if both are nearly empty,
    /// else gives back memory of a segment that is far too large.
    fn shrink(&mut self, hash: u64) {
        let segment = self.segment(hash);
        let depth = self.segments[segment].depth;
        let len = self.segments[segment].slots.len();
        if depth > 0 {
            let bit = 64 - u32::from(depth);
            let neighbour = self.segment(hash ^ 1 << bit);
            let other = &self.segments[neighbour];
            if other.depth == depth && other.slots.len() + len <= MERGED_MAX {
                self.merge(hash);
                return;
            }
        }
        let buckets = self.segments[segment].slots.num_buckets();
        if buckets > 64 && len * 8 < room(buckets) {
            self.rebuild(segment, (len * 2).max(room(32)));
            self.point(hash);
        }
    }

    fn merge(&mut self, hash: u64) {
        let depth = self.segments[self.segment(hash)].depth;
        let bit = 64 - u32::from(depth);
        let low = self.segment(hash & !(1 << bit));
        let high = self.segment(hash | 1 << bit);
        let mut taken = self.take(high);
        taken.extend(self.release(low));
        self.segments[low].slots = self.allot(room(BUCKETS_MAX));
        self.segments[low].depth = depth - 1;
        self.segments[low].generation += 1;
        self.segments[high].generation += 1;
        self.segments[high].depth = u8::MAX;
        self.free.push(high as u32);
        for pointer in self.directory.span_mut(hash, u32::from(depth) - 1) {
            pointer.segment = low as u32;
        }
        self.put(taken, |_| low);
        self.point(hash);
        self.halve_directory();
    }

    fn halve_directory(&mut self) {
        let differ = |one: &Pointer, other: &Pointer| one.segment != other.segment;
        if self.directory.depth() > 0 && self.directory.pairs(differ).next().is_none() {
            self.directory.halve();
        }
    }

    /// Refreshes what the directory knows for prefetching about the segment of `hash`.
    fn point(&mut self, hash: u64) {
        let segment = self.segment(hash);
        let slots = &self.segments[segment].slots;
        let buckets = slots.num_buckets();
        // An occupied bucket i lies (i + 1) slots below the control bytes.
        let base = (0..buckets)
            .find_map(|i| slots.get_bucket(i).map(|slot| (i, slot)))
            .map_or(0, |(i, slot)| {
                std::ptr::from_ref(slot).addr() + (i + 1) * size_of::<Slot>()
            });
        let depth = self.segments[segment].depth.into();
        for pointer in self.directory.span_mut(hash, depth) {
            pointer.base = base;
            pointer.mask = buckets.saturating_sub(1) as u32;
        }
    }

    /// One step of SCAN: calls `found` for every entry from scan position `cursor` on, in the
    /// order of hashes, until at least `count` were met, never splitting entries of one position.
    /// Walks one segment. Returns the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u32, count: usize, mut found: impl FnMut(&Slot)) -> u32 {
        let cursor = cursor.min(POSITIONS - 1);
        let segment = &self.segments[self.segment(u64::from(cursor) << (64 - TAG_BITS))];
        let mut met: Vec<(u32, &Slot)> = segment
            .slots
            .iter()
            .filter(|slot| slot.tag() >= cursor)
            .map(|slot| (slot.tag(), slot))
            .collect();
        met.sort_unstable_by_key(|(tag, _)| *tag);
        let mut end = count.clamp(1, met.len().max(1));
        while end < met.len() && met[end].0 == met[end - 1].0 {
            end += 1;
        }
        for (_, slot) in met.iter().take(end) {
            prefetch(slot.address());
        }
        met.iter().take(end).for_each(|(_, slot)| found(slot));
        if end < met.len() {
            return met[end].0;
        }
        let span = POSITIONS >> segment.depth;
        let next = (cursor / span + 1) * span;
        if next >= POSITIONS { 0 } else { next }
    }

    /// Some `k` entries that lie side by side at a random place, with their memory asked for; fewer
    /// if a segment has fewer. All are as likely to be met.
    pub fn sample(&self, rng: &mut SmallRng, k: usize) -> Vec<&Slot> {
        let places = self.directory.places();
        let place = rng.random_range(0..places.len());
        let slots = &self.segments[places[place].segment as usize].slots;
        let buckets = slots.num_buckets();
        let start = rng.random_range(0..buckets.max(1));
        let from_there = (start..buckets).chain(0..start);
        let found = from_there.filter_map(|bucket| slots.get_bucket(bucket));
        let found: Vec<&Slot> = found.take(k).collect();
        found.iter().for_each(|slot| prefetch(slot.address()));
        found
    }

    /// A random entry, uniformly; none if the table is empty.
    pub fn random(&self, rng: &mut SmallRng) -> Option<&Slot> {
        if self.len == 0 {
            return None;
        }
        let buckets = self
            .segments
            .iter()
            .map(|s| s.slots.num_buckets())
            .max()
            .unwrap_or(0);
        for _ in 0..256 {
            let segment = &self.segments[rng.random_range(0..self.segments.len())];
            let found = segment.slots.get_bucket(rng.random_range(0..buckets));
            if found.is_some() {
                return found;
            }
        }
        // Nearly empty tables: the first entry from a random place on.
        let from = rng.random_range(0..self.segments.len());
        let order = (from..self.segments.len()).chain(0..from);
        order.into_iter().find_map(|at| {
            let slots = &self.segments[at].slots;
            let nth = rng.random_range(0..slots.len().max(1));
            slots.iter().nth(nth)
        })
    }

    /// Some entry that `is_wanted`, the first from a random segment on; none if there is no such
    /// entry. Walks over everything at worst, prefetching ahead.
    pub fn find_any(
        &self,
        rng: &mut SmallRng,
        mut is_wanted: impl FnMut(&Slot) -> bool,
    ) -> Option<&Slot> {
        let from = rng.random_range(0..self.segments.len());
        let (before, after) = self.segments.split_at(from);
        after.iter().chain(before).find_map(|segment| {
            segment
                .slots
                .iter()
                .for_each(|slot| prefetch(slot.address()));
            segment.slots.iter().find(|slot| is_wanted(slot))
        })
    }

    /// Calls `found` for every entry, dead or alive, in no order.
    pub fn for_each(&self, mut found: impl FnMut(&Slot)) {
        let mut walk = Walk::default();
        while !walk.is_done() {
            self.walk(&mut walk, usize::MAX / 2, |slot| {
                found(slot);
                true
            });
        }
    }

    /// Calls `found` for the entries of up to `buckets` buckets, as long as it returns true, and
    /// moves `walk` on, in directory order, prefetching ahead. A segment that was split, merged or
    /// rebuilt since the last step is walked again from its start, so an entry may be met twice but
    /// is never missed if it stays.
    pub fn walk(&self, walk: &mut Walk, buckets: usize, mut found: impl FnMut(&Slot) -> bool) {
        let Some((segment, mut end)) = self.enter(walk, buckets) else {
            return;
        };
        let slots = &self.segments[segment].slots;
        for i in walk.bucket..end {
            ahead(slots, i, end);
            if let Some(slot) = slots.get_bucket(i)
                && !found(slot)
            {
                end = i + 1;
                break;
            }
        }
        self.leave(walk, end);
    }

    /// The same, to change the entries.
    pub fn walk_mut(
        &mut self,
        walk: &mut Walk,
        buckets: usize,
        mut found: impl FnMut(EntryMut<'_>) -> bool,
    ) {
        let Some((segment, mut end)) = self.enter(walk, buckets) else {
            return;
        };
        for i in walk.bucket..end {
            let slots = &self.segments[segment].slots;
            ahead(slots, i, end);
            if slots.get_bucket(i).is_some() && !found(self.at_mut(Place::new(segment, i))) {
                end = i + 1;
                break;
            }
        }
        self.leave(walk, end);
    }

    /// The segment a walk is in and the bucket before which its next step ends, with the first
    /// entries asked for; none if it is done.
    fn enter(&self, walk: &mut Walk, buckets: usize) -> Option<(usize, usize)> {
        if walk.is_done {
            return None;
        }
        let at = self.segment(u64::from(walk.position) << (64 - TAG_BITS)) as u32;
        let segment = &self.segments[at as usize];
        if walk.bucket > 0 && (walk.segment, walk.generation) != (at, segment.generation) {
            walk.bucket = 0;
        }
        (walk.segment, walk.generation) = (at, segment.generation);
        let end = (walk.bucket + buckets).min(segment.slots.num_buckets());
        let first = walk.bucket..(walk.bucket + AHEAD).min(end);
        first.for_each(|bucket| prefetch_bucket(&segment.slots, bucket));
        Some((at as usize, end))
    }

    /// Ends a step of a walk before this bucket.
    fn leave(&self, walk: &mut Walk, end: usize) {
        let segment = &self.segments[walk.segment as usize];
        walk.bucket = end;
        if end >= segment.slots.num_buckets() {
            let span = POSITIONS >> segment.depth;
            let next = (walk.position / span + 1) * span;
            walk.bucket = 0;
            walk.is_done = next >= POSITIONS;
            walk.position = next.min(POSITIONS - 1);
        }
    }

    /// Takes out all entries of one segment, the last one first: how a table is freed piece by
    /// piece. The table is of no use for anything else after the first call.
    pub fn dismantle(&mut self) -> Option<impl Iterator<Item = Slot> + use<>> {
        self.count_lent();
        let slots = self.release(self.segments.len().checked_sub(1)?);
        self.segments.pop();
        self.len -= slots.len();
        Some(slots.into_iter())
    }

    /// Bytes of all entries with their values, by asking each of them; for tests.
    pub fn counted_bytes(&self) -> usize {
        let slots = self.segments.iter().flat_map(|segment| &segment.slots);
        slots.map(Slot::allocated_bytes).sum()
    }

    /// Checks every invariant of the header; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let (places, depth) = (self.directory.places(), self.directory.depth());
        assert_eq!(places.len(), 1 << depth);
        let mut len = 0;
        let mut place = 0;
        while place < places.len() {
            let at = places[place].segment;
            let segment = &self.segments[at as usize];
            let span = 1 << (depth - u32::from(segment.depth));
            assert_eq!(place % span, 0);
            for pointer in &places[place..place + span] {
                assert_eq!(pointer.segment, at);
            }
            for slot in &segment.slots {
                let hash = self.placement.hash(slot.key());
                assert_eq!(slot.tag(), entry::tag(hash));
                assert_eq!(self.directory.place(hash) / span, place / span);
                if let ValueRef::Boxed(value) = slot.value() {
                    value.check();
                }
            }
            len += segment.slots.len();
            place += span;
        }
        assert_eq!(len, self.len);
        let tables = self.segments.iter().map(|s| slots_bytes(&s.slots));
        assert_eq!(tables.sum::<usize>(), self.slots_bytes);
        let bytes = self.counted_bytes();
        assert_eq!(bytes, self.entry_bytes(), "an entry is miscounted");
    }
}

/// Asks for the entry of a bucket.
#[inline(always)]
fn prefetch_bucket(slots: &HashTable<Slot>, bucket: usize) {
    if let Some(slot) = slots.get_bucket(bucket) {
        prefetch(slot.address());
        prefetch(slot.address() + 63);
    }
}

/// Asks for the entry that a walk which ends before bucket `end` will come to after bucket `i`.
#[inline(always)]
fn ahead(slots: &HashTable<Slot>, i: usize, end: usize) {
    if i + AHEAD < end {
        prefetch_bucket(slots, i + AHEAD);
    }
}

fn slots_bytes(slots: &HashTable<Slot>) -> usize {
    size_class::of(slots.allocation_size())
}
