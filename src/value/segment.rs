//! One piece of a big set or hash: at most 448 records, or 32 KiB of them, behind one `Rc`.
//!
//! ```text
//! table   hashbrown, at most 512 buckets of 2 bytes: where a record starts in the arena
//!
//! arena   [head][member] [head][member] ...                     of a set
//!         [head][field][value] [head][field][value] ...         of a hash
//!
//! head    7...3  2         1           0
//!         tag    volatile  value long  member long
//!         [deadline, 6 bytes]                          only of a volatile record
//!
//! string  [length, 1 byte below 128, else 2][bytes]    up to 1 KiB
//!         [place in `longs`, 2 bytes]                  longer: a `Bytes` of its own
//! ```
//!
//! The arena is never walked, only entered through the table: a removed or replaced record is a
//! hole that is merely counted, and a string shortened in place leaves one behind it. When more
//! than a sixth is holes, everything is copied to a new arena. As long strings are outside, a
//! copy of a segment, made for holes, for a split or because a snapshot still reads the old one,
//! moves at most 32 KiB.
//!
//! The tag is the five bits of the placement hash below those all records of the segment share. A
//! scan orders a segment by it, without hashing a member again.
//!
//! Deadlines stand in the records alone. A segment is small enough to be walked for the due ones
//! (a few microseconds); which segments are worth it is known outside, from their [`Span`]s.
//!
//! Invariants: every offset of the table is the start of a record; live bytes and `holes` add up to
//! the arena; each entry of `longs` belongs to one record; hashbrown never grows by itself.
//!
//! Not here: which segment a member belongs to (`members`).

use bytes::Bytes;
use hashbrown::HashTable;
use slab::Slab;

use super::dated::{self, Span, TERM_BYTES};
use super::directory::first_hash;
use super::placement::{Placement, inner, room};
use super::segmented::{Content, Element};
use super::{StringRef, size_class};
use crate::clock::UnixMillis;
use crate::expiry::{Deadline, MemberTerm, is_due};
use crate::heap::{ShouldMove, relocate_bytes, relocate_table, relocate_vec};

/// What a place for a long string takes in a slab.
const LONG_BYTES: usize = size_of::<Bytes>() + size_of::<usize>();
/// Buckets of a segment that may split.
pub const BUCKETS_MAX: usize = 512;
/// Records that many buckets hold.
pub const RECORDS_MAX: usize = room(BUCKETS_MAX);
/// Bytes of an arena; below 2^16, so that an offset takes two.
pub const ARENA_BYTES_MAX: usize = 32 * 1024;
/// A split makes room when the records themselves fill this much, else holes are closed.
const LIVE_BYTES_MAX: usize = ARENA_BYTES_MAX / 8 * 7;
/// The longest string kept in the arena.
const SHORT_MAX: usize = 1024;
/// An arena is compacted when a sixth of it is holes, and before it grows if an eighth is:
/// otherwise members that come and go would cost memory. With a quarter, deadlines that fields get
/// later took 16 bytes each, not 11; HSET and HEXPIRE took as long (benches/peers.py, field_rss).
const HOLES_SHARE: usize = 6;
/// The share of holes with which an arena does not grow (see above).
const HOLES_SHARE_TO_GROW: usize = 8;

const MEMBER_LONG: u8 = 1 << 0;
const VALUE_LONG: u8 = 1 << 1;
const VOLATILE: u8 = 1 << VOLATILE_SHIFT;
const VOLATILE_SHIFT: u32 = 2;
const FLAGS: u8 = (1 << TAG_SHIFT) - 1;
const TAG_SHIFT: u32 = 3;
/// Bits of the placement hash that a record carries.
pub const TAG_BITS: u32 = 8 - TAG_SHIFT;

/// Bytes a string takes in the arena.
fn string_size(string: &[u8]) -> usize {
    match string.len() {
        0..128 => 1 + string.len(),
        128..=SHORT_MAX => 2 + string.len(),
        _ => 2,
    }
}

/// Bytes a record takes in the arena, with a deadline.
pub(super) fn record_size(content: Content, member: &[u8], value: &[u8]) -> usize {
    let value = match content {
        Content::Members => 0,
        Content::Fields => string_size(value),
    };
    1 + TERM_BYTES + string_size(member) + value
}

/// A string of a record: where its bytes lie, and where what follows it starts.
#[derive(Clone, Copy)]
enum Part {
    Short { from: usize, end: usize },
    Long { index: usize, end: usize },
}

impl Part {
    #[inline(always)]
    fn end(self) -> usize {
        match self {
            Part::Short { end, .. } | Part::Long { end, .. } => end,
        }
    }
}

/// Bytes behind a segment of these capacities.
pub(super) fn bytes_of([table, arena, longs, long_bytes]: [usize; 4]) -> usize {
    // A slab's entry is its value and a tag of one word.
    let longs = size_class::of(longs * LONG_BYTES);
    size_class::of(table) + size_class::of(arena) + longs + long_bytes
}

/// The records of a segment.
#[derive(Clone)]
struct Records {
    arena: Vec<u8>,
    longs: Slab<Bytes>,
    long_bytes: usize,
    holes: u32,
    content: Content,
}

impl Records {
    fn new(content: Content, capacity: usize) -> Records {
        Records {
            arena: Vec::with_capacity(if capacity == 0 {
                0
            } else {
                size_class::of(capacity)
            }),
            longs: Slab::new(),
            long_bytes: 0,
            holes: 0,
            content,
        }
    }

    fn live_bytes(&self) -> usize {
        self.arena.len() - self.holes as usize
    }

    #[inline(always)]
    fn part(&self, at: usize, is_long: bool) -> Part {
        let first = self.arena[at];
        if is_long {
            let index = usize::from(u16::from_le_bytes([first, self.arena[at + 1]]));
            return Part::Long { index, end: at + 2 };
        }
        let (len, from) = if first < 128 {
            (usize::from(first), at + 1)
        } else {
            let second = usize::from(self.arena[at + 1]);
            (usize::from(first & 127) | second << 7, at + 2)
        };
        Part::Short {
            from,
            end: from + len,
        }
    }

    /// Where the member of the record at `at` starts.
    #[inline(always)]
    fn start(&self, at: u16) -> usize {
        let at = usize::from(at);
        let deadlines = usize::from(self.arena[at] >> VOLATILE_SHIFT & 1);
        at + 1 + deadlines * TERM_BYTES
    }

    #[inline(always)]
    fn member(&self, at: u16) -> Part {
        self.part(
            self.start(at),
            self.arena[usize::from(at)] & MEMBER_LONG != 0,
        )
    }

    #[inline(always)]
    fn term(&self, at: u16) -> Option<MemberTerm> {
        let at = usize::from(at);
        if self.arena[at] & VOLATILE == 0 {
            return None;
        }
        dated::from_bytes(&self.arena[at + 1..at + 1 + TERM_BYTES])
    }

    #[inline(always)]
    fn deadline(&self, at: u16) -> Option<Deadline> {
        self.term(at).map(|term| term.deadline)
    }

    /// The value of the record at `at`, which starts where its member ends. None in a set.
    #[inline(always)]
    fn value(&self, at: u16, member: Part) -> Option<Part> {
        match self.content {
            Content::Members => None,
            Content::Fields => {
                let is_long = self.arena[usize::from(at)] & VALUE_LONG != 0;
                Some(self.part(member.end(), is_long))
            }
        }
    }

    fn end(&self, at: u16) -> usize {
        let member = self.member(at);
        self.value(at, member).map_or(member.end(), Part::end)
    }

    #[inline(always)]
    fn string(&self, part: Part) -> StringRef<'_> {
        match part {
            Part::Short { from, end } => StringRef::Short(&self.arena[from..end]),
            Part::Long { index, .. } => StringRef::Long(&self.longs[index]),
        }
    }

    #[inline(always)]
    fn element(&self, at: u16) -> Element<'_> {
        let member = self.member(at);
        let value = self.value(at, member);
        Element {
            member: self.string(member),
            value: value.map_or(StringRef::Short(b""), |value| self.string(value)),
            term: self.term(at),
        }
    }

    #[inline(always)]
    fn is(&self, at: u16, member: &[u8]) -> bool {
        *self.string(self.member(at)) == *member
    }

    fn tag(&self, at: u16) -> u8 {
        self.arena[usize::from(at)] >> TAG_SHIFT
    }

    /// Lengthens the arena by `size` bytes of anything; gives where they start.
    fn extend(&mut self, size: usize) -> usize {
        let at = self.arena.len();
        if at + size > self.arena.capacity() {
            // To the next size class: at most a fifth is spare, where doubling would leave a half.
            self.arena.reserve_exact(size_class::of(at + size) - at);
        }
        self.arena.resize(at + size, 0);
        at
    }

    /// Writes a string over the arena's bytes at `at`.
    fn write(&mut self, at: usize, string: &[u8]) {
        let len = string.len();
        let from = match len {
            0..128 => {
                self.arena[at] = len as u8;
                at + 1
            }
            128..=SHORT_MAX => {
                self.arena[at..at + 2].copy_from_slice(&[len as u8 | 128, (len >> 7) as u8]);
                at + 2
            }
            _ => {
                self.write_long(at, Bytes::copy_from_slice(string));
                return;
            }
        };
        self.arena[from..from + len].copy_from_slice(string);
    }

    fn write_long(&mut self, at: usize, string: Bytes) {
        self.long_bytes += size_class::of(string.len());
        let index = self.longs.insert(string);
        let index = u16::try_from(index).expect("two strings a record at most");
        self.arena[at..at + 2].copy_from_slice(&index.to_le_bytes());
    }

    fn take_long(&mut self, part: Part) -> Option<Bytes> {
        let Part::Long { index, .. } = part else {
            return None;
        };
        let string = self.longs.remove(index);
        self.long_bytes -= size_class::of(string.len());
        Some(string)
    }

    fn append(&mut self, tag: u8, member: &[u8], value: &[u8], term: Option<MemberTerm>) -> u16 {
        let spare = if term.is_none() { TERM_BYTES } else { 0 };
        let at = self.extend(record_size(self.content, member, value) - spare);
        let mut head = tag << TAG_SHIFT;
        let mut start = at + 1;
        if let Some(term) = term {
            head |= VOLATILE;
            start += TERM_BYTES;
            self.arena[at + 1..start].copy_from_slice(&dated::to_bytes(term));
        }
        if member.len() > SHORT_MAX {
            head |= MEMBER_LONG;
        }
        self.write(start, member);
        if self.content == Content::Fields {
            if value.len() > SHORT_MAX {
                head |= VALUE_LONG;
            }
            self.write(start + string_size(member), value);
        }
        self.arena[at] = head;
        u16::try_from(at).expect("an arena is shorter than 2^16")
    }

    /// Moves a record in from elsewhere.
    fn adopt(&mut self, tag: u8, from: &mut Records, at: u16) -> u16 {
        let member = from.member(at);
        let value = from.value(at, member);
        let source = usize::from(at);
        let start = from.start(at) - source;
        let end = value.map_or(member.end(), Part::end);
        let target = self.extend(end - source);
        self.arena[target..].copy_from_slice(&from.arena[source..end]);
        self.arena[target] = self.arena[target] & FLAGS | tag << TAG_SHIFT;
        if let Some(long) = from.take_long(member) {
            self.write_long(target + start, long);
        }
        if let Some(long) = value.and_then(|value| from.take_long(value)) {
            self.write_long(target + member.end() - source, long);
        }
        u16::try_from(target).expect("an arena is shorter than 2^16")
    }

    /// Makes a hole of a record.
    fn forget(&mut self, at: u16) {
        let member = self.member(at);
        let value = self.value(at, member);
        self.take_long(member);
        if let Some(value) = value {
            self.take_long(value);
        }
        let end = value.map_or(member.end(), Part::end);
        self.holes += (end - usize::from(at)) as u32;
    }

    /// Gives a record another value, in place if it fits there; gives where the record is then.
    fn replace(&mut self, at: u16, value: &[u8]) -> u16 {
        let start = self.member(at).end();
        let Some(old) = self.value(at, self.member(at)) else {
            return at;
        };
        self.take_long(old);
        let (room, size) = (old.end() - start, string_size(value));
        let head = usize::from(at);
        let (record, place) = if size <= room {
            self.holes += (room - size) as u32;
            (head, start)
        } else {
            self.holes += (old.end() - head) as u32;
            let record = self.extend(start - head + size);
            self.arena.copy_within(head..start, record);
            (record, record + start - head)
        };
        self.write(place, value);
        self.arena[record] &= !VALUE_LONG;
        if value.len() > SHORT_MAX {
            self.arena[record] |= VALUE_LONG;
        }
        u16::try_from(record).expect("an arena is shorter than 2^16")
    }

    /// Gives a record a deadline, or takes it away; gives where the record is then. The strings
    /// stay as they are.
    fn set_term(&mut self, at: u16, term: Option<MemberTerm>) -> u16 {
        let (head, start, end) = (usize::from(at), self.start(at), self.end(at));
        let body = head + 1;
        match term {
            None => {
                self.arena.copy_within(start..end, body);
                self.holes += (start - body) as u32;
                self.arena[head] &= !VOLATILE;
                at
            }
            Some(term) if start > body => {
                self.arena[body..start].copy_from_slice(&dated::to_bytes(term));
                at
            }
            Some(term) => {
                self.holes += (end - head) as u32;
                let moved = self.extend(end - head + TERM_BYTES);
                let start = moved + 1 + TERM_BYTES;
                self.arena[moved] = self.arena[head] | VOLATILE;
                self.arena[moved + 1..start].copy_from_slice(&dated::to_bytes(term));
                self.arena.copy_within(body..end, start);
                u16::try_from(moved).expect("an arena is shorter than 2^16")
            }
        }
    }
}

/// A bounded piece of a set or hash.
#[derive(Clone)]
pub struct Segment {
    table: HashTable<u16>,
    records: Records,
    /// The `depth` top bits of the placement hash, which all members share.
    prefix: u32,
    depth: u8,
}

impl Segment {
    /// A segment for members whose hashes start with the `depth` low bits of `prefix`; with room
    /// for that many records of that many bytes together.
    pub(super) fn new(
        content: Content,
        (prefix, depth): (u32, u8),
        records: usize,
        bytes: usize,
    ) -> Segment {
        Segment {
            table: HashTable::with_capacity(records),
            records: Records::new(content, bytes),
            prefix,
            depth,
        }
    }

    /// Moves what `should_move` says of its table, its arena and its long strings.
    pub(super) fn relocate(&mut self, should_move: ShouldMove<'_>) {
        let records = &mut self.records;
        relocate_vec(&mut records.arena, should_move);
        for (_, long) in &mut records.longs {
            relocate_bytes(long, should_move);
        }
        relocate_table(&mut self.table, should_move);
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All records, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        self.table.iter().map(|&at| self.records.element(at))
    }

    /// Bytes of memory it takes.
    pub fn allocated_bytes(&self) -> usize {
        // Its own box holds two counts as well.
        size_class::of(size_of::<Segment>() + 2 * size_of::<usize>()) + bytes_of(self.capacities())
    }

    /// What its memory follows from: without a change of these it stays as it is.
    #[inline]
    pub(super) fn capacities(&self) -> [usize; 4] {
        [
            self.table.allocation_size(),
            self.records.arena.capacity(),
            self.records.longs.capacity(),
            self.records.long_bytes,
        ]
    }

    pub(super) fn prefix(&self) -> u32 {
        self.prefix
    }

    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    /// The first placement hash that its members may have.
    pub(super) fn first_hash(&self) -> u64 {
        first_hash(self.prefix.into(), self.depth.into())
    }

    pub(super) fn buckets(&self) -> usize {
        self.table.num_buckets()
    }

    /// The record in a bucket, if any.
    pub(super) fn bucket(&self, bucket: usize) -> Option<Element<'_>> {
        self.table
            .get_bucket(bucket)
            .map(|&at| self.records.element(at))
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, member: &[u8]) -> Option<Element<'_>> {
        self.table
            .find(inner(hash), |&at| self.records.is(at, member))
            .map(|&at| self.records.element(at))
    }

    /// Where a record lies that may be the one of this hash, for prefetching.
    #[inline]
    pub(super) fn probable_address(&self, hash: u64) -> Option<usize> {
        let at = self.table.find(inner(hash), |_| true)?;
        Some(self.records.arena.as_ptr().addr() + usize::from(*at))
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64, member: &[u8]) -> bool {
        self.table
            .find(inner(hash), |&at| self.records.is(at, member))
            .is_some()
    }

    /// Whether one more record of `size` bytes can be added as things are.
    #[inline]
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.table.len() < self.table.capacity() && !self.should_compact(size)
    }

    /// Whether holes should be closed rather than the arena lengthened by `size` bytes.
    #[inline]
    fn should_compact(&self, size: usize) -> bool {
        let (arena, holes) = (&self.records.arena, self.records.holes as usize);
        let end = arena.len() + size;
        end > ARENA_BYTES_MAX
            || (end > arena.capacity() && holes * HOLES_SHARE_TO_GROW > arena.len())
    }

    /// Whether only a split makes room for one more record of `size` bytes.
    pub(super) fn must_split(&self, size: usize) -> bool {
        let is_table_full = self.table.len() == self.table.capacity();
        (is_table_full && self.table.len() * 10 >= RECORDS_MAX * 8)
            || self.records.live_bytes() + size > LIVE_BYTES_MAX
    }

    /// Makes room for one more record of `size` bytes in a segment that need not split.
    pub(super) fn make_room(&mut self, size: usize, placement: Placement) {
        if self.table.len() == self.table.capacity() {
            // With tombstones the same size will do.
            let held = room(self.table.num_buckets());
            let is_full = self.table.len() * 10 >= held * 8;
            self.rebuild(if is_full { held + 1 } else { held }, placement);
        }
        if self.should_compact(size) {
            self.compact(size);
        }
    }

    /// Adds a member that is not there and for which there is room.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        member: &[u8],
        value: &[u8],
        term: Option<MemberTerm>,
    ) {
        let tag = self.tag_of(hash);
        let at = self.records.append(tag, member, value, term);
        self.place(hash, at);
    }

    /// Gives a member that is there a deadline, for which there is room, or takes it away.
    pub(super) fn set_term(&mut self, hash: u64, member: &[u8], term: Option<MemberTerm>) {
        let records = &mut self.records;
        if let Some(at) = self
            .table
            .find_mut(inner(hash), |&at| records.is(at, member))
        {
            *at = records.set_term(*at, term);
        }
        self.compact_if_hollow();
    }

    /// Whether a deadline was given as a moment in the other era of the wall clock.
    pub(super) fn has_moments_before(&self, era: bool) -> bool {
        let mut terms = self.table.iter().filter_map(|&at| self.records.term(at));
        terms.any(|term| term.is_before(era))
    }

    /// Moves such deadlines by so much into this era.
    pub(super) fn shift(&mut self, era: bool, later_ms: i64) {
        let Segment { table, records, .. } = self;
        for at in table.iter().map(|&at| usize::from(at)) {
            if records.arena[at] & VOLATILE != 0 {
                dated::shift(&mut records.arena[at + 1..][..TERM_BYTES], era, later_ms);
            }
        }
    }

    /// How many records are due, and the deadlines of the others.
    pub(super) fn survey(&self, now: UnixMillis) -> (usize, Span) {
        let (mut dead, mut span) = (0, Span::EMPTY);
        for &at in &self.table {
            match self.records.deadline(at) {
                Some(deadline) if is_due(deadline, now) => dead += 1,
                Some(deadline) => span.add(deadline),
                None => {}
            }
        }
        (dead, span)
    }

    /// Removes the due records, handing them and their deadlines to `gone`.
    pub(super) fn expire(
        &mut self,
        now: UnixMillis,
        placement: Placement,
        mut gone: impl FnMut(&[u8], Deadline),
    ) {
        let records = &mut self.records;
        self.table.retain(|&mut at| match records.deadline(at) {
            Some(deadline) if is_due(deadline, now) => {
                gone(&records.string(records.member(at)), deadline);
                records.forget(at);
                false
            }
            _ => true,
        });
        self.shrink(placement);
    }

    /// Gives a member that is there another value, for which there is room.
    pub(super) fn replace(&mut self, hash: u64, member: &[u8], value: &[u8]) {
        let records = &mut self.records;
        if let Some(at) = self
            .table
            .find_mut(inner(hash), |&at| records.is(at, member))
        {
            *at = records.replace(*at, value);
        }
        self.compact_if_hollow();
    }

    /// Removes a member; whether it was there.
    pub(super) fn remove(&mut self, hash: u64, member: &[u8], placement: Placement) -> bool {
        let records = &mut self.records;
        let Ok(found) = self
            .table
            .find_entry(inner(hash), |&at| records.is(at, member))
        else {
            return false;
        };
        let (at, _) = found.remove();
        records.forget(at);
        self.shrink(placement);
        true
    }

    /// Removes the record in a bucket that has one.
    pub(super) fn remove_bucket(&mut self, bucket: usize, placement: Placement) {
        if let Ok(found) = self.table.get_bucket_entry(bucket) {
            let (at, _) = found.remove();
            self.records.forget(at);
        }
        self.shrink(placement);
    }

    /// Whether it is so empty that a neighbour should be looked at for a merge.
    pub(super) fn is_sparse(&self) -> bool {
        self.len() < RECORDS_MAX / 4 && self.records.live_bytes() < ARENA_BYTES_MAX / 4
    }

    /// Whether two neighbours would make one segment with room to spare.
    pub(super) fn may_merge(&self, other: &Segment) -> bool {
        self.depth == other.depth
            && self.len() + other.len() <= RECORDS_MAX * 6 / 10
            && self.records.live_bytes() + other.records.live_bytes() <= ARENA_BYTES_MAX * 6 / 10
    }

    /// The two segments for the next bit of the hash.
    pub(super) fn split(mut self, placement: Placement) -> [Segment; 2] {
        let bit = 63 - u32::from(self.depth);
        let hashed: Vec<(u64, u16)> = self
            .table
            .iter()
            .map(|&at| {
                let member = self.records.string(self.records.member(at));
                (placement.hash(&member), at)
            })
            .collect();
        let high = hashed.iter().filter(|(hash, _)| hash >> bit & 1 == 1);
        let high = high.count();
        let live = self.records.live_bytes();
        let mut halves = [(0, hashed.len() - high), (1, high)].map(|(side, records)| {
            let prefix = self.prefix << 1 | side;
            // Some room to grow, so that a half is not rebuilt at once. All may be in one
            // half: members that are added in the order of another set with this placement.
            let bytes = live * records / hashed.len().max(1);
            Segment::new(
                self.records.content,
                (prefix, self.depth + 1),
                (records + records / 8).min(RECORDS_MAX),
                bytes,
            )
        });
        for (hash, at) in hashed {
            halves[(hash >> bit & 1) as usize].adopt(hash, &mut self.records, at);
        }
        halves
    }

    /// The segment of two neighbours that may merge.
    pub(super) fn merge(self, other: Segment, placement: Placement) -> Segment {
        let mut merged = Segment::new(
            self.records.content,
            (self.prefix >> 1, self.depth - 1),
            self.len() + other.len(),
            self.records.live_bytes() + other.records.live_bytes(),
        );
        for mut half in [self, other] {
            for &at in &half.table {
                let hash = placement.hash(&half.records.string(half.records.member(at)));
                merged.adopt(hash, &mut half.records, at);
            }
        }
        merged
    }

    /// Calls `found` for the records from tag `from` on, in the order of tags, until at least
    /// `count` were met, never splitting those of one tag. Gives the next tag, None at the end.
    pub(super) fn scan<'a>(
        &'a self,
        from: u8,
        count: usize,
        mut found: impl FnMut(Element<'a>),
    ) -> Option<u8> {
        let mut met = [0; 1 << TAG_BITS];
        // Each record is looked at once, for its tag is a cache miss.
        let mut tagged = [(0, 0); RECORDS_MAX];
        for (tagged, &at) in tagged.iter_mut().zip(&self.table) {
            *tagged = (self.records.tag(at), at);
            met[usize::from(tagged.0)] += 1;
        }
        let mut end = from;
        let mut taken = 0;
        while usize::from(end) < met.len() && (taken < count || met[usize::from(end)] == 0) {
            taken += met[usize::from(end)];
            end += 1;
        }
        tagged[..self.len()]
            .iter()
            .filter(|(tag, _)| (from..end).contains(tag))
            .for_each(|&(_, at)| found(self.records.element(at)));
        (usize::from(end) < met.len()).then_some(end)
    }

    fn tag_of(&self, hash: u64) -> u8 {
        (hash << self.depth >> (64 - TAG_BITS)) as u8
    }

    fn place(&mut self, hash: u64, at: u16) {
        self.table.insert_unique(inner(hash), at, |_| {
            unreachable!("room was made before the insert, so nothing is rehashed")
        });
    }

    fn adopt(&mut self, hash: u64, from: &mut Records, at: u16) {
        let at = self.records.adopt(self.tag_of(hash), from, at);
        self.place(hash, at);
    }

    /// Gives the table another size.
    fn rebuild(&mut self, capacity: usize, placement: Placement) {
        let table = std::mem::replace(&mut self.table, HashTable::with_capacity(capacity));
        for at in table {
            let hash = placement.hash(&self.records.string(self.records.member(at)));
            self.place(hash, at);
        }
    }

    fn shrink(&mut self, placement: Placement) {
        self.compact_if_hollow();
        let buckets = self.table.num_buckets();
        if buckets > 8 && self.len() * 8 < room(buckets) {
            self.rebuild(self.len() * 2, placement);
        }
    }

    fn compact_if_hollow(&mut self) {
        if self.records.holes as usize * HOLES_SHARE > self.records.arena.len() {
            self.compact(0);
        }
    }

    /// Closes the holes, leaving room for `spare` bytes.
    fn compact(&mut self, spare: usize) {
        let compact = Records::new(self.records.content, self.records.live_bytes() + spare);
        let mut old = std::mem::replace(&mut self.records, compact);
        for at in &mut self.table {
            *at = self.records.adopt(old.tag(*at), &mut old, *at);
        }
    }

    /// Checks every invariant of the header; for tests.
    pub(super) fn check(&self, placement: Placement) {
        let records = &self.records;
        let (mut live, mut longs, mut long_bytes) = (0, 0, 0);
        for &at in &self.table {
            live += records.end(at) - usize::from(at);
            let element = records.element(at);
            for string in [element.member, element.value] {
                match string {
                    StringRef::Short(bytes) => assert!(bytes.len() <= SHORT_MAX),
                    StringRef::Long(bytes) => {
                        longs += 1;
                        long_bytes += size_class::of(bytes.len());
                    }
                }
            }
            let hash = placement.hash(&element.member);
            assert_eq!(records.tag(at), self.tag_of(hash));
            assert_eq!(
                (u64::from(self.prefix), true),
                (hash >> 1 >> (63 - self.depth), self.depth <= 32)
            );
            assert!(self.contains(hash, &element.member));
        }
        assert_eq!(live, records.live_bytes());
        assert_eq!(
            (longs, long_bytes),
            (records.longs.len(), records.long_bytes)
        );
        assert!(records.arena.len() <= ARENA_BYTES_MAX);
        assert!(self.buckets() <= BUCKETS_MAX);
    }
}
