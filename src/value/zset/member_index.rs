//! From member to record, for a big sorted set: extendible hashing over small hash tables.
//!
//! A directory, addressed by the top bits of a member's tag, points to segments of at most
//! [`BUCKETS_MAX`] buckets; a full segment is split alone and two nearly empty neighbours are
//! merged, so nothing takes longer than one segment. The tag is the top half of the placement
//! hash, whose density is uneven so that segments are not all full at once
//! (`value/placement.rs`).
//!
//! ```text
//! slot  63 ............................ 32 | 31 ........... 0
//!       tag: directory, bucket and scan      record
//! ```
//!
//! As a slot has its whole tag, neither splitting nor scanning touches a record, and a lookup
//! touches the right one alone. hashbrown is given the tag times an odd constant ([`spread`]).
//!
//! A scan goes in the order of tags, which is an order of members and not of places, so it survives
//! every split, merge and rebuild.
//!
//! Invariants: those of the directory; hashbrown never grows a segment by itself.

use hashbrown::HashTable;

use super::pages::RecordId;
use crate::heap::{ShouldMove, relocate_table, relocate_vec};
use crate::value::directory::Directory;
use crate::value::placement::{room, spread, top_half};
use crate::value::size_class;

/// Buckets of a segment that may split: 5 KiB with the bytes of hashbrown.
const BUCKETS_MAX: usize = 512;
const ROOM_MAX: usize = room(BUCKETS_MAX);
/// A segment with fewer members than this is compared with its neighbour.
const MERGE_BELOW: usize = ROOM_MAX / 3;
/// Two neighbours are merged when they have at most this many members together.
const MERGED_MAX: usize = ROOM_MAX * 6 / 10;
/// A segment of this depth does not split, it grows: a directory of 64 MiB is enough for any number
/// of records.
const DEPTH_MAX: u32 = 24;

/// A hash with this part.
#[inline]
fn hash_with(tag: u32) -> u64 {
    u64::from(tag) << 32
}

/// Tag and record.
#[derive(Clone, Copy, Debug)]
struct Tagged(u64);

impl Tagged {
    fn new(tag: u32, id: RecordId) -> Tagged {
        Tagged(u64::from(tag) << 32 | u64::from(id))
    }

    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn id(self) -> RecordId {
        self.0 as RecordId
    }
}

#[derive(Clone, Debug, Default)]
struct Segment {
    slots: HashTable<Tagged>,
    depth: u32,
}

/// The members of a sorted set.
#[derive(Clone, Debug)]
pub struct MemberIndex {
    directory: Directory<u32>,
    segments: Vec<Segment>,
    /// Numbers of segments that are not in use.
    unused: Vec<u32>,
    tables_bytes: usize,
}

impl MemberIndex {
    /// No members.
    pub fn new() -> MemberIndex {
        MemberIndex {
            directory: Directory::new(0),
            segments: vec![Segment::default()],
            unused: Vec::new(),
            tables_bytes: 0,
        }
    }

    /// The record of the member with this hash of which `is_it` is true.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(RecordId) -> bool) -> Option<RecordId> {
        let tag = top_half(hash);
        let slots = &self.segments[self.segment(tag)].slots;
        let found = slots.find(spread(tag), |slot| slot.tag() == tag && is_it(slot.id()));
        found.map(|slot| slot.id())
    }

    /// Adds a member that is not there yet.
    pub fn insert(&mut self, hash: u64, id: RecordId) {
        let tag = top_half(hash);
        loop {
            let segment = self.segment(tag);
            let slots = &mut self.segments[segment].slots;
            if slots.len() < slots.capacity() {
                slots.insert_unique(spread(tag), Tagged::new(tag, id), |slot| spread(slot.tag()));
                return;
            }
            self.make_room(segment, tag);
        }
    }

    /// Removes a record.
    pub fn remove(&mut self, hash: u64, id: RecordId) {
        let tag = top_half(hash);
        let segment = self.segment(tag);
        let slots = &mut self.segments[segment].slots;
        let slot = Tagged::new(tag, id).0;
        let found = slots.find_entry(spread(tag), |found| found.0 == slot);
        found.expect("every record has a slot").remove();
        let len = slots.len();
        // Not at every removal, as the neighbour may be anywhere in memory.
        if len < MERGE_BELOW && len.is_multiple_of(16) {
            self.shrink(segment, tag);
        }
    }

    /// Removes the records for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(RecordId) -> bool) {
        for segment in &mut self.segments {
            segment.slots.retain(|slot| keep(slot.id()));
        }
        let mut tag = 0_u64;
        while let Ok(start) = u32::try_from(tag) {
            let segment = self.segment(start);
            let depth = self.segments[segment].depth;
            self.shrink(segment, start);
            let merged = self.segments[self.segment(start)].depth;
            // A merged one may have a neighbour to be merged with too.
            tag = if merged < depth {
                tag >> (u32::BITS - merged) << (u32::BITS - merged)
            } else {
                tag + (1 << (u32::BITS - depth))
            };
        }
    }

    /// Gives a record another number.
    pub fn renumber(&mut self, hash: u64, old: RecordId, new: RecordId) {
        let tag = top_half(hash);
        let segment = self.segment(tag);
        let slots = &mut self.segments[segment].slots;
        let slot = Tagged::new(tag, old).0;
        let found = slots.find_mut(spread(tag), |found| found.0 == slot);
        *found.expect("every record has a slot") = Tagged::new(tag, new);
    }

    /// One step of a scan: calls `found` for the records from `cursor` on, in the order of tags,
    /// until at least `count` were met, or the segment ends; never leaves some with the same tag
    /// for the next step. Gives the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u32, count: usize, mut found: impl FnMut(RecordId)) -> u32 {
        let segment = &self.segments[self.segment(cursor)];
        let slots = segment.slots.iter().filter(|slot| slot.tag() >= cursor);
        let mut met: Vec<Tagged> = slots.copied().collect();
        met.sort_unstable_by_key(|slot| slot.tag());
        let mut end = count.clamp(1, met.len().max(1));
        while end < met.len() && met[end].tag() == met[end - 1].tag() {
            end += 1;
        }
        met.iter().take(end).for_each(|slot| found(slot.id()));
        if let Some(next) = met.get(end) {
            return next.tag();
        }
        let span = 1 << (u32::BITS - segment.depth);
        let next = (u64::from(cursor) / span + 1) * span;
        // Past the last tag there is no bit of it left: 0.
        next as u32
    }

    /// Numbers of segments, those not in use included.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Moves what `should_move` says of the segment with this number.
    pub fn relocate(&mut self, at: usize, should_move: ShouldMove<'_>) {
        if at == 0 {
            self.directory.relocate(should_move);
            relocate_vec(&mut self.segments, should_move);
        }
        relocate_table(&mut self.segments[at].slots, should_move);
    }

    /// Frees one segment; false if there is none. The table is of no use afterwards.
    pub fn dismantle(&mut self) -> bool {
        let Some(Segment { slots, .. }) = self.segments.pop() else {
            return false;
        };
        self.tables_bytes -= table_bytes(&slots);
        true
    }

    /// Bytes of memory taken.
    pub fn allocated_bytes(&self) -> usize {
        self.tables_bytes
            + self.directory.allocated_bytes()
            + size_class::of(self.unused.capacity() * size_of::<u32>())
            + size_class::of(self.segments.capacity() * size_of::<Segment>())
    }

    #[inline]
    fn segment(&self, tag: u32) -> usize {
        self.directory.get(hash_with(tag)) as usize
    }

    /// Has the places of the segment of `tag`, which has this depth, name it.
    fn name(&mut self, segment: usize, tag: u32, depth: u32) {
        let span = self.directory.span_mut(hash_with(tag), depth);
        span.fill(segment as u32);
    }

    /// Changes the table of a segment, and the count of bytes.
    fn set(&mut self, segment: usize, slots: HashTable<Tagged>, depth: u32) {
        let old = &mut self.segments[segment];
        self.tables_bytes += table_bytes(&slots);
        self.tables_bytes -= table_bytes(&old.slots);
        *old = Segment { slots, depth };
    }

    fn make_room(&mut self, segment: usize, tag: u32) {
        let Segment { slots, depth } = &self.segments[segment];
        let buckets = slots.num_buckets();
        // Else it is tombstones that fill it, and the same size will do.
        let is_full = slots.len() * 10 >= room(buckets) * 8;
        if is_full && buckets >= BUCKETS_MAX && *depth < DEPTH_MAX {
            self.split(segment, tag);
        } else {
            let capacity = if is_full {
                room((buckets * 2).max(4))
            } else {
                room(buckets)
            };
            self.rebuild(segment, capacity);
        }
    }

    fn rebuild(&mut self, segment: usize, capacity: usize) {
        let Segment { slots, depth } = std::mem::take(&mut self.segments[segment]);
        self.tables_bytes -= table_bytes(&slots);
        self.set(segment, filled(capacity, slots.into_iter()), depth);
    }

    fn split(&mut self, segment: usize, tag: u32) {
        let depth = self.segments[segment].depth + 1;
        if depth > self.directory.depth() {
            self.directory.double();
        }
        let slots = self.segments[segment].slots.iter().copied();
        let is_high = |slot: &Tagged| slot.tag() >> (u32::BITS - depth) & 1 == 1;
        let (high, low): (Vec<Tagged>, Vec<Tagged>) = slots.partition(is_high);
        self.set(segment, filled(ROOM_MAX, low.into_iter()), depth);
        let high_segment = self
            .unused
            .pop()
            .map_or(self.segments.len(), |at| at as usize);
        if high_segment == self.segments.len() {
            self.segments.push(Segment::default());
        }
        self.set(high_segment, filled(ROOM_MAX, high.into_iter()), depth);
        self.name(high_segment, tag | 1 << (u32::BITS - depth), depth);
    }

    /// Merges a segment with few members with its neighbour if that has few too; else makes it
    /// smaller if it is far too large.
    fn shrink(&mut self, segment: usize, tag: u32) {
        let Segment { slots, depth } = &self.segments[segment];
        let (len, buckets, depth) = (slots.len(), slots.num_buckets(), *depth);
        if depth > 0 {
            let neighbour = self.segment(tag ^ 1 << (u32::BITS - depth));
            let other = &self.segments[neighbour];
            if other.depth == depth && other.slots.len() + len <= MERGED_MAX {
                self.merge(segment, neighbour, tag);
                return;
            }
        }
        if buckets > 32 && len * 4 < room(buckets) {
            self.rebuild(segment, (len * 2).max(room(16)));
        }
    }

    fn merge(&mut self, segment: usize, neighbour: usize, tag: u32) {
        let depth = self.segments[segment].depth - 1;
        let mine = std::mem::take(&mut self.segments[segment].slots);
        let others = std::mem::take(&mut self.segments[neighbour].slots);
        self.tables_bytes -= table_bytes(&mine) + table_bytes(&others);
        let capacity = ROOM_MAX.min((mine.len() + others.len()) * 2);
        let slots = filled(capacity, mine.into_iter().chain(others));
        self.set(segment, slots, depth);
        self.unused.push(neighbour as u32);
        self.name(segment, tag, depth);
        // Half the directory goes when nothing needs it; only then is the rest of it looked at.
        let is_deepest = depth + 1 == self.directory.depth();
        if is_deepest && self.directory.pairs(u32::ne).next().is_none() {
            self.directory.halve();
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self, hash_of: impl Fn(RecordId) -> u64) -> usize {
        let (places, directory_depth) = (self.directory.places(), self.directory.depth());
        assert_eq!(places.len(), 1 << directory_depth);
        let (mut len, mut segments, mut place, mut bytes) = (0, 0, 0, 0);
        while place < places.len() {
            let at = places[place];
            let Segment { slots, depth } = &self.segments[at as usize];
            let span = 1 << (directory_depth - depth);
            assert_eq!(place % span, 0);
            assert!(places[place..place + span].iter().all(|&other| other == at));
            for slot in slots {
                assert_eq!(slot.tag(), top_half(hash_of(slot.id())));
                assert_eq!(
                    self.directory.place(hash_with(slot.tag())) / span,
                    place / span
                );
            }
            len += slots.len();
            segments += 1;
            place += span;
            bytes += table_bytes(slots);
        }
        assert_eq!(bytes, self.tables_bytes);
        assert_eq!(segments + self.unused.len(), self.segments.len());
        len
    }
}

/// Bytes of memory a table takes.
fn table_bytes(slots: &HashTable<Tagged>) -> usize {
    size_class::of(slots.allocation_size())
}

/// A table of these slots with room for `capacity`, or for all of them if they are more.
fn filled(capacity: usize, slots: impl Iterator<Item = Tagged>) -> HashTable<Tagged> {
    let mut table = HashTable::with_capacity(capacity);
    for slot in slots {
        table.insert_unique(spread(slot.tag()), slot, |slot| spread(slot.tag()));
    }
    table
}
