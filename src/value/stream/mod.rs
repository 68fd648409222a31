//! Streams: entries of fields and values in the order of their ids, to which entries are added
//! behind all others.
//!
//! ```text
//! Stream    links   [ last id | chunk ][ last id | chunk ][ last id | chunk ] ...
//!                              |                  |                  |
//!                          Rc<Chunk>          Rc<Chunk>          Rc<Chunk>
//!                          at most 100 entries and 4 KiB, as the settings say
//! ```
//!
//! An id is found by a binary search of the links, which lie in blocks (`links`), and a walk
//! through one chunk. A clone, as a snapshot takes it by [`Stream::freeze`], shares blocks and
//! chunks; whoever changes a shared one copies it first.
//!
//! Beside its entries a stream has consumer groups by name (`group`).
//!
//! Unlike other collections a stream may be empty: it remembers its last id.
//!
//! Invariants ([`Stream::check`]): no chunk is empty; ids grow from entry to entry; no entry of a
//! chunk is beyond the id of its link, and none beyond the last id.

mod chunk;
mod group;
mod groups;
mod id;
mod links;
mod runs;

pub use chunk::{Chunk, Entry, Strings};
pub use group::{Consumer, ConsumerGroup, ConsumerId, Delivery};
pub use id::{ID_BYTES, Id, TEXT_MAX, parse_number};
pub use links::{Block, Link};

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::heap::ShouldMove;
use crate::value::{StringRef, size_class};
use chunk::{Entries, entry_bytes_max};
use groups::Groups;
use links::{Links, Place};

/// A chunk has no more bytes, whatever the settings say, unless it is a single entry: what is done
/// at once must be bounded.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// First byte of what a snapshot tells of the stream itself.
const HEAD: u8 = 0;
/// First byte of what it tells of an entry.
const ENTRY: u8 = 1;
/// Of a consumer group.
const GROUP: u8 = 2;
/// Of a consumer of the group before it.
const CONSUMER: u8 = 3;
/// Of a pending entry of the group before it.
const PENDING: u8 = 4;
/// What stands for a number of entries that is not known, and a time that never was.
const UNKNOWN: i64 = -1;

/// How much a chunk may hold; more than one entry only within both.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimit {
    /// Bytes.
    pub bytes_max: usize,
    /// Entries.
    pub entries_max: usize,
}

impl ChunkLimit {
    /// From `stream-node-max-bytes` and `stream-node-max-entries`, in which 0 is no limit.
    pub fn from_settings(bytes: u64, entries: u64) -> ChunkLimit {
        let limit = |setting| match usize::try_from(setting) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(limit) => limit,
        };
        ChunkLimit {
            bytes_max: limit(bytes).min(CHUNK_BYTES_MAX),
            entries_max: limit(entries),
        }
    }
}

/// Entries, and what is known of those that are gone.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    links: Links,
    len: usize,
    facts: Facts,
    groups: Groups,
}

/// What a stream remembers whatever becomes of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The greatest id it has had; later ones are greater.
    pub last_id: Id,
    /// The greatest id that was deleted.
    pub max_deleted_id: Id,
    /// How many entries were added, as far as is known.
    pub entries_added: u64,
}

/// What is removed at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// All but so many entries.
    MaxLen(u64),
    /// Entries whose id is less.
    MinId(Id),
}

/// How exactly that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// To the entry.
    Exact,
    /// Whole chunks only, and not more than so many entries, if they are limited.
    Chunks(Option<u64>),
}

/// What becomes of pending entries that are deleted or trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They stay pending: KEEPREF.
    #[default]
    Keep,
    /// They are pending no more: DELREF.
    Delete,
    /// Only what every group has got and acknowledged is removed: ACKED.
    Acknowledged,
}

impl Stream {
    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.links.len()
    }

    /// What it remembers.
    #[inline]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The same, to be changed. The last id must not be less than that of an entry.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Adds an entry of so many pairs of strings; its id must be greater than the last.
    pub fn push<'s>(&mut self, id: Id, pairs: usize, string: &impl Strings<'s>, limit: ChunkLimit) {
        debug_assert!(id > self.facts.last_id);
        let is_full = self.links.back().is_none_or(|link| {
            let bytes = link.chunk.bytes() + entry_bytes_max(pairs, string);
            link.chunk.put() >= limit.entries_max || bytes > limit.bytes_max
        });
        if is_full {
            if self.links.owns_back() {
                self.links.edit_back(|_, chunk| chunk.close());
            }
            self.links.push(id, Chunk::new(id, pairs, string));
        }
        self.links.edit_back(|last, chunk| {
            chunk.push(id, pairs, string);
            *last = id;
        });
        self.len += 1;
        self.facts.last_id = id;
        self.facts.entries_added += 1;
    }

    /// The entry of an id.
    pub fn get(&self, id: Id) -> Option<Entry<'_>> {
        let link = self.links.get(self.links.find(id))?;
        let entry = link.chunk.iter_from(id).next()?;
        (entry.id == id).then_some(entry)
    }

    /// The first entry.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.links.get(Place::default())?.chunk.iter().next()
    }

    /// The last entry.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.range_back(Id::MIN, Id::MAX).next()
    }

    /// The entries from one id to another, both included, in order.
    pub fn range(&self, start: Id, end: Id) -> Range<'_> {
        let place = self.links.find(start);
        let link = self.links.get(place);
        Range {
            links: &self.links,
            next: self.links.after(place),
            end,
            entries: link.map(|link| link.chunk.iter_from(start)),
        }
    }

    /// The same entries, the last first.
    pub fn range_back(&self, start: Id, end: Id) -> RangeBack<'_> {
        RangeBack {
            links: &self.links,
            before: self.links.after(self.links.find(end)),
            places: Vec::new(),
            start,
            end,
        }
    }

    /// Deletes the entry of an id; false if there is none.
    pub fn remove(&mut self, id: Id) -> bool {
        let is_removed = self.take(id);
        if is_removed {
            let facts = &mut self.facts;
            facts.max_deleted_id = facts.max_deleted_id.max(id);
        }
        is_removed
    }

    /// Whether a group has an entry still to get or to acknowledge.
    pub fn is_referenced(&self, id: Id) -> bool {
        let mut groups = self.groups().values();
        groups.any(|group| group.last_id < id || group.delivery(id).is_some())
    }

    /// Takes an entry from those pending in any group; whether it was among them.
    pub fn dereference(&mut self, id: Id) -> bool {
        self.groups.edit_each(|group| group.acknowledge(id)) > 0
    }

    /// Removes entries at the front one by one, as [`Stream::trim`] does, but for those that are
    /// referenced if so asked; how many.
    pub fn trim_referenced(
        &mut self,
        trim: Trim,
        exactness: Exactness,
        references: References,
    ) -> usize {
        let candidates = match exactness {
            Exactness::Exact => self.len,
            Exactness::Chunks(_) => {
                let (whole, _) = self.whole_chunks(trim, exactness);
                let chunks = self.links.iter().take(whole);
                chunks.map(|link| link.chunk.len()).sum()
            }
        };
        let is_exact = exactness == Exactness::Exact;
        let mut removed = Vec::new();
        for entry in self.range(Id::MIN, Id::MAX).take(candidates) {
            let is_over = match trim {
                Trim::MaxLen(kept) => (self.len - removed.len()) as u64 <= kept,
                Trim::MinId(min) => entry.id >= min,
            };
            if is_exact && is_over {
                break;
            }
            if references != References::Acknowledged || !self.is_referenced(entry.id) {
                removed.push(entry.id);
            }
        }
        for &id in &removed {
            self.take(id);
            if references == References::Delete {
                self.dereference(id);
            }
        }
        removed.len()
    }

    fn take(&mut self, id: Id) -> bool {
        let place = self.links.find(id);
        let Some(link) = self.links.get(place) else {
            return false;
        };
        let Some(found) = link.chunk.find(id) else {
            return false;
        };
        if link.chunk.len() == 1 {
            self.links.remove(place);
        } else {
            self.links.edit(place, |_, chunk| chunk.remove(found));
        }
        self.len -= 1;
        true
    }

    /// Removes entries at the front; those in whole chunks, to be freed piece by piece, and how
    /// many were removed in all.
    pub fn trim(&mut self, trim: Trim, exactness: Exactness) -> (Stream, usize) {
        let before = self.len;
        let (whole, left) = self.whole_chunks(trim, exactness);
        let removed = Stream {
            links: self.links.split_front(whole),
            len: before - left,
            facts: self.facts,
            groups: Groups::default(),
        };
        self.len = left;
        if exactness == Exactness::Exact {
            self.trim_chunk(trim);
        }
        (removed, before - self.len)
    }

    /// How many chunks at the front are removed whole, and how many entries are left then.
    fn whole_chunks(&self, trim: Trim, exactness: Exactness) -> (usize, usize) {
        let before = self.len;
        let limit = match exactness {
            Exactness::Chunks(Some(limit)) => limit,
            _ => u64::MAX,
        };
        let (mut whole, mut left) = (0, self.len);
        for link in self.links.iter() {
            let rest = left - link.chunk.len();
            let is_removed = match trim {
                Trim::MaxLen(len) => rest as u64 >= len,
                Trim::MinId(id) => link.last < id,
            };
            if !is_removed || left as u64 == 0 || (before - rest) as u64 > limit {
                break;
            }
            (whole, left) = (whole + 1, rest);
        }
        (whole, left)
    }

    /// Removes those entries of the first chunk that [`Stream::trim`] leaves of it.
    fn trim_chunk(&mut self, trim: Trim) {
        let len = self.len as u64;
        let is_removed = |removed: usize, id: Id| match trim {
            Trim::MaxLen(kept) => len - removed as u64 > kept,
            Trim::MinId(min) => id < min,
        };
        // The id of a link may be greater than that of any entry, so a chunk may be emptied here.
        let front = Place::default();
        while let Some(link) = self.links.get(front)
            && let Some(first) = link.chunk.iter().next()
            && is_removed(0, first.id)
        {
            let removed = self.links.edit(front, |_, chunk| {
                (chunk.remove_front(is_removed), chunk.is_empty())
            });
            let (removed, is_emptied) = removed.expect("it was there");
            self.len -= removed;
            if !is_emptied {
                break;
            }
            self.links.remove(front);
        }
    }

    /// Its groups by name.
    pub fn groups(&self) -> &BTreeMap<Box<[u8]>, ConsumerGroup> {
        self.groups.by_name()
    }

    /// Changes one of its groups; none if there is no such group.
    pub fn edit_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut ConsumerGroup) -> R,
    ) -> Option<R> {
        self.groups.edit(name, change)
    }

    /// Lets `change` change one of its groups while it reads the entries; none if there is no such
    /// group.
    pub fn edit_group_beside<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&Stream, &mut ConsumerGroup) -> R,
    ) -> Option<R> {
        let mut group = self.groups.edit(name, std::mem::take)?;
        let result = change(self, &mut group);
        self.groups.edit(name, |place| *place = group)?;
        Some(result)
    }

    /// Adds a group, in the place of one of its name if there is one.
    pub fn insert_group(&mut self, name: &[u8], group: ConsumerGroup) {
        self.groups.insert(name, group);
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<ConsumerGroup> {
        self.groups.remove(name)
    }

    /// How many entries there were up to an id and with it since the stream was made, if that
    /// follows from what is known.
    pub fn entries_up_to(&self, id: Id) -> Option<u64> {
        let Facts {
            last_id,
            max_deleted_id,
            entries_added,
        } = self.facts;
        if entries_added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= last_id {
            return Some(entries_added);
        }
        if id != Id::MIN && id < max_deleted_id {
            return None;
        }
        if id >= last_id {
            return (id == last_id).then_some(entries_added);
        }
        let first_id = self.first().map_or(Id::MIN, |entry| entry.id);
        let is_whole = max_deleted_id == Id::MIN || max_deleted_id < first_id;
        if !is_whole || id > first_id {
            return None;
        }
        let before = entries_added.checked_sub(self.len as u64)?;
        Some(before + u64::from(id == first_id))
    }

    /// Whether an entry behind an id may have been deleted.
    pub fn may_have_gaps_behind(&self, id: Id) -> bool {
        let max_deleted_id = self.facts.max_deleted_id;
        let first_id = self.first().map_or(Id::MIN, |entry| entry.id);
        !self.is_empty()
            && max_deleted_id != Id::MIN
            && first_id <= max_deleted_id
            && id <= max_deleted_id
    }

    /// How many entries are still to be delivered to a group, if that is known. It is less than
    /// 0 if
    /// somebody said that fewer were added than were read.
    pub fn lag(&self, group: &ConsumerGroup) -> Option<i64> {
        let added = self.facts.entries_added;
        if added == 0 || self.is_empty() {
            return Some(0);
        }
        let first_id = self.first().map_or(Id::MIN, |entry| entry.id);
        if group.last_id < first_id && self.facts.max_deleted_id < first_id {
            return Some(self.len as i64);
        }
        let read = group
            .entries_read
            .filter(|_| !self.may_have_gaps_behind(group.last_id))
            .or_else(|| self.entries_up_to(group.last_id))?;
        Some((added as i64).wrapping_sub(read as i64))
    }

    /// How many entries a group will have read when it has read that of an id, which is the next.
    pub fn entries_read_with(&self, group: &ConsumerGroup, id: Id) -> Option<u64> {
        let first_id = self.first().map_or(Id::MIN, |entry| entry.id);
        let is_behind = group.last_id < first_id || self.may_have_gaps_behind(group.last_id);
        match group.entries_read {
            Some(read) if !is_behind => Some(read + 1),
            _ => self.entries_up_to(id),
        }
    }

    /// The pieces as they are now, in order.
    pub fn freeze(&self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Head(self.facts)];
        pieces.extend(self.links.freeze().map(Piece::Chunks));
        for (name, group) in self.groups() {
            pieces.extend(group.freeze(name).into_iter().map(Piece::Group));
        }
        pieces
    }

    /// Adds what [`Piece::for_each`] handed out of another stream, in that order, from the strings
    /// of a snapshot; false if they are something else.
    pub fn load(&mut self, mut strings: &[&[u8]], limit: ChunkLimit) -> bool {
        while let Some((head, rest)) = strings.split_first() {
            let used = match head.split_first() {
                Some((&HEAD, head)) => self.load_head(head).map(|()| 0),
                Some((&ENTRY, head)) => self.load_entry(head, rest, limit),
                Some((&GROUP, head)) => self.load_group(head, rest),
                Some((&CONSUMER, head)) => self.load_consumer(head, rest),
                Some((&PENDING, head)) => self.load_pending(head).map(|()| 0),
                _ => None,
            };
            match used.and_then(|used| rest.get(used..)) {
                Some(rest) => strings = rest,
                None => return false,
            }
        }
        true
    }

    fn load_head(&mut self, head: &[u8]) -> Option<()> {
        let (last_id, rest) = Id::from_bytes(head)?;
        let (max_deleted_id, rest) = Id::from_bytes(rest)?;
        let entries_added = u64::from_le_bytes(rest.try_into().ok()?);
        self.facts = Facts {
            last_id,
            max_deleted_id,
            entries_added,
        };
        // More than Redis can say would be no number that was counted.
        let is_counted = i64::try_from(entries_added).is_ok();
        (is_counted && self.is_empty()).then_some(())
    }

    /// Adds an entry; how many strings it has.
    fn load_entry(&mut self, head: &[u8], strings: &[&[u8]], limit: ChunkLimit) -> Option<usize> {
        let (id, rest) = Id::from_bytes(head)?;
        let pairs = u32::from_le_bytes(rest.try_into().ok()?) as usize;
        let used = pairs.checked_mul(2).filter(|&used| used > 0)?;
        let strings = strings.get(..used)?;
        let facts = self.facts;
        let before = self.links.back().map_or(Id::MIN, |link| link.last);
        if id <= before || id > facts.last_id {
            return None;
        }
        self.facts.last_id = before;
        self.push(id, pairs, &|index: usize| strings[index], limit);
        self.facts = facts;
        Some(used)
    }

    /// Adds a group; how many strings it has besides.
    fn load_group(&mut self, head: &[u8], strings: &[&[u8]]) -> Option<usize> {
        let name = *strings.first()?;
        let (last_id, rest) = Id::from_bytes(head)?;
        let mut group = ConsumerGroup::default();
        group.last_id = last_id;
        group.entries_read = u64::try_from(i64::from_le_bytes(rest.try_into().ok()?)).ok();
        // They come in order, which tells whose the consumers are.
        let last = self.groups().keys().next_back();
        let is_last = last.is_none_or(|last| **last < *name);
        self.groups.insert(name, group);
        is_last.then_some(1)
    }

    /// Adds a consumer of the last group; how many strings it has besides.
    fn load_consumer(&mut self, head: &[u8], strings: &[&[u8]]) -> Option<usize> {
        let (id, rest) = head.split_first_chunk()?;
        let (seen, rest) = rest.split_first_chunk()?;
        let active = i64::from_le_bytes(rest.try_into().ok()?);
        let id = ConsumerId(u32::from_le_bytes(*id));
        let active = Some(active).filter(|&active| active != UNKNOWN);
        let (name, seen) = (*strings.first()?, i64::from_le_bytes(*seen));
        self.groups
            .edit_last(|group| group.load_consumer(id, name, seen, active))?
            .map(|()| 1)
    }

    fn load_pending(&mut self, head: &[u8]) -> Option<()> {
        let (id, rest) = Id::from_bytes(head)?;
        let (consumer, rest) = rest.split_first_chunk()?;
        let (unix_ms, rest) = rest.split_first_chunk()?;
        let delivery = Delivery {
            consumer: ConsumerId(u32::from_le_bytes(*consumer)),
            unix_ms: i64::from_le_bytes(*unix_ms),
            count: u64::from_le_bytes(rest.try_into().ok()?),
        };
        self.groups
            .edit_last(|group| group.load_pending(id, delivery))?
    }

    /// Moves what `should_move` says of the block of chunks with this number; false if there is no
    /// such. Groups stay where they are.
    pub fn relocate(&mut self, block: usize, should_move: ShouldMove<'_>) -> bool {
        self.links.relocate(block, should_move)
    }

    /// Frees one piece; false if there was none left.
    pub fn dismantle(&mut self) -> bool {
        if let Some(entries) = self.links.dismantle() {
            self.len -= entries;
            return true;
        }
        self.groups.dismantle()
    }

    /// Bytes of memory behind it, its box and shared chunks included.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(size_of::<Stream>())
            + self.links.allocated_bytes()
            + self.groups.allocated_bytes()
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        let len = self.links.check(self.facts.last_id);
        assert_eq!(self.len, len, "the stream counts wrongly");
        self.groups.check();
    }
}

/// A piece of a stream that does not change.
#[derive(Clone, Debug)]
pub enum Piece {
    /// What the stream remembers.
    Head(Facts),
    /// Entries.
    Chunks(Rc<Block>),
    /// Of a group.
    Group(group::Piece),
}

impl Piece {
    /// Bytes of memory it takes.
    pub fn allocated_bytes(&self) -> usize {
        match self {
            Piece::Head(_) => size_of::<Facts>(),
            Piece::Chunks(links) => links::allocated_bytes(links),
            Piece::Group(group::Piece::Pending(run)) => {
                run.capacity() * size_of::<(Id, Delivery)>()
            }
            Piece::Group(group::Piece::Group { name, .. })
            | Piece::Group(group::Piece::Consumer { name, .. }) => size_of::<Piece>() + name.len(),
        }
    }

    /// Hands out what it holds as the strings of a snapshot. The first byte of the first string of
    /// each element tells what the element is.
    ///
    /// * 0, the stream: its last id, the greatest deleted id, and eight bytes, how many entries
    ///   were added;
    /// * 1, an entry: its id and four bytes, how many fields it has, and then its fields and
    ///   values;
    /// * 2, a group: its last id, eight bytes, how many entries it has read, or -1, and then its
    ///   name;
    /// * 3, a consumer of the group before it: four bytes, its number, eight bytes each, when it
    ///   was last seen and active in ms of Unix time, or -1, and then its name;
    /// * 4, a pending entry of the group before it: its id, four bytes, its consumer's number,
    ///   eight bytes each, when it was last delivered in ms of Unix time, and how often.
    ///
    /// An id is its time and its number, of eight bytes each; all numbers are little-endian.
    pub fn for_each(&self, mut each: impl FnMut(&[StringRef<'_>])) {
        match self {
            Piece::Head(facts) => {
                let mut head = vec![HEAD];
                head.extend(facts.last_id.to_bytes());
                head.extend(facts.max_deleted_id.to_bytes());
                head.extend(facts.entries_added.to_le_bytes());
                each(&[StringRef::Short(&head)]);
            }
            Piece::Chunks(links) => {
                for entry in links.iter().flat_map(|link| link.chunk.iter()) {
                    let mut head = [ENTRY; 1 + ID_BYTES + 4];
                    head[1..=ID_BYTES].copy_from_slice(&entry.id.to_bytes());
                    head[1 + ID_BYTES..].copy_from_slice(&(entry.len() as u32).to_le_bytes());
                    let mut strings = vec![StringRef::Short(&head)];
                    for (field, value) in entry.pairs() {
                        strings.extend([StringRef::Short(field), StringRef::Short(value)]);
                    }
                    each(&strings);
                }
            }
            Piece::Group(piece) => hand_out_group(piece, each),
        }
    }
}

fn hand_out_group(piece: &group::Piece, mut each: impl FnMut(&[StringRef<'_>])) {
    match piece {
        group::Piece::Group {
            name,
            last_id,
            entries_read,
        } => {
            let read = entries_read.and_then(|read| i64::try_from(read).ok());
            let mut head = vec![GROUP];
            head.extend(last_id.to_bytes());
            head.extend(read.unwrap_or(UNKNOWN).to_le_bytes());
            each(&[StringRef::Short(&head), StringRef::Short(name)]);
        }
        group::Piece::Consumer {
            id,
            name,
            seen_unix_ms,
            active_unix_ms,
        } => {
            let mut head = vec![CONSUMER];
            head.extend(id.0.to_le_bytes());
            head.extend(seen_unix_ms.to_le_bytes());
            head.extend(active_unix_ms.unwrap_or(UNKNOWN).to_le_bytes());
            each(&[StringRef::Short(&head), StringRef::Short(name)]);
        }
        group::Piece::Pending(run) => {
            for (id, delivery) in run.iter() {
                let mut head = vec![PENDING];
                head.extend(id.to_bytes());
                head.extend(delivery.consumer.0.to_le_bytes());
                head.extend(delivery.unix_ms.to_le_bytes());
                head.extend(delivery.count.to_le_bytes());
                each(&[StringRef::Short(&head)]);
            }
        }
    }
}

/// Whether strings of a snapshot may be those of elements of a stream.
pub fn are_elements(mut strings: &[&[u8]]) -> bool {
    while let Some((head, rest)) = strings.split_first() {
        let len = match head.split_first() {
            Some((&HEAD, head)) if head.len() == 2 * ID_BYTES + 8 => 0,
            Some((&ENTRY, head)) if head.len() == ID_BYTES + 4 => {
                let pairs = head
                    .last_chunk()
                    .map_or(0, |bytes| u32::from_le_bytes(*bytes));
                2 * pairs as usize
            }
            Some((&GROUP, head)) if head.len() == ID_BYTES + 8 => 1,
            Some((&CONSUMER, head)) if head.len() == 4 + 2 * 8 => 1,
            Some((&PENDING, head)) if head.len() == ID_BYTES + 4 + 2 * 8 => 0,
            _ => return false,
        };
        match rest.get(len..) {
            Some(rest) => strings = rest,
            None => return false,
        }
    }
    true
}

/// What the first string of an element that [`Piece::for_each`] handed out says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// The stream itself.
    Head(Facts),
    /// An entry of this id, whose fields and values follow.
    Entry(Id),
    /// Of a group.
    OfGroup,
}

impl Element {
    /// Reads it.
    pub fn read(head: &[u8]) -> Option<Element> {
        let (&kind, head) = head.split_first()?;
        match kind {
            HEAD => {
                let mut stream = Stream::default();
                stream.load_head(head)?;
                Some(Element::Head(stream.facts))
            }
            ENTRY => Some(Element::Entry(Id::from_bytes(head)?.0)),
            GROUP | CONSUMER | PENDING => Some(Element::OfGroup),
            _ => None,
        }
    }
}

/// Entries of a range, in order.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    links: &'a Links,
    /// The link after that of `entries`.
    next: Place,
    end: Id,
    entries: Option<Entries<'a>>,
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(entry) = self.entries.as_mut()?.next() {
                return (entry.id <= self.end).then_some(entry);
            }
            let link = self.links.get(self.next);
            self.entries = link.map(|link| link.chunk.iter());
            self.next = self.links.after(self.next);
        }
    }
}

/// Entries of a range, the last first.
#[derive(Clone, Debug)]
pub struct RangeBack<'a> {
    links: &'a Links,
    /// The links before this one are still to come.
    before: Place,
    /// Where entries of the link there begin that are still to come.
    places: Vec<u32>,
    start: Id,
    end: Id,
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            while let Some(place) = self.places.pop() {
                let entry = self.links.get(self.before)?.chunk.at(place)?;
                if entry.id <= self.end {
                    return (entry.id >= self.start).then_some(entry);
                }
            }
            self.before = self.links.before(self.before)?;
            self.places = self.links.get(self.before)?.chunk.places();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    type Strings = Vec<Vec<u8>>;
    type Twin = BTreeMap<Id, Strings>;

    fn limit(bytes: u64, entries: u64) -> ChunkLimit {
        ChunkLimit::from_settings(bytes, entries)
    }

    fn add(stream: &mut Stream, id: Id, strings: &Strings, limit: ChunkLimit) {
        let pairs = strings.len() / 2;
        stream.push(id, pairs, &|index: usize| strings[index].as_slice(), limit);
    }

    fn random_entry(rng: &mut SmallRng) -> Strings {
        let mut strings = Vec::new();
        for pair in 0..rng.random_range(1..5u8) {
            let name = if rng.random_range(0..4) > 0 { pair } else { 9 };
            strings.push(vec![b'a' + name; usize::from(name)]);
            let len = match rng.random_range(0..40) {
                0 => rng.random_range(0..6_000),
                _ => rng.random_range(0..20),
            };
            strings.push(vec![rng.random(); len]);
        }
        strings
    }

    fn seen<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<(Id, Strings)> {
        let strings = |entry: Entry<'_>| {
            let pairs = entry.pairs().flat_map(|(field, value)| [field, value]);
            pairs.map(<[u8]>::to_vec).collect()
        };
        entries.map(|entry| (entry.id, strings(entry))).collect()
    }

    fn random_id(twin: &Twin, rng: &mut SmallRng) -> Id {
        let place = rng.random_range(0..=twin.len());
        match twin.keys().nth(place) {
            Some(id) if rng.random() => *id,
            Some(id) => id.next().expect("it is not the last"),
            None => Id { ms: 3, seq: 0 },
        }
    }

    fn agree(stream: &Stream, twin: &Twin, rng: &mut SmallRng) {
        stream.check();
        let (a, b) = (random_id(twin, rng), random_id(twin, rng));
        for (start, end) in [(Id::MIN, Id::MAX), (a.min(b), a.max(b)), (a, a)] {
            let all = twin.range(start..=end);
            let mut all: Vec<_> = all.map(|(id, strings)| (*id, strings.clone())).collect();
            assert_eq!(seen(stream.range(start, end)), all);
            all.reverse();
            assert_eq!(seen(stream.range_back(start, end)), all);
        }
        assert_eq!(stream.get(a).is_some(), twin.contains_key(&a));
        assert_eq!(stream.len(), twin.len());
    }

    #[test]
    fn random_edits_agree_with_a_map() {
        let limits = [limit(4096, 100), limit(0, 3), limit(64, 0), limit(0, 0)];
        for seed in 0..20 {
            println!("seed {seed}");
            let mut rng = SmallRng::seed_from_u64(seed);
            let limit = limits[seed as usize % limits.len()];
            let (mut stream, mut twin) = (Stream::default(), Twin::new());
            let (mut frozen, mut frozen_twin) = (stream.clone(), twin.clone());
            for step in 0..800 {
                let last = stream.facts().last_id;
                match rng.random_range(0..20) {
                    0..13 => {
                        let id = Id {
                            ms: last.ms + rng.random_range(0..2) * rng.random_range(0..500),
                            seq: last.seq + rng.random_range(1..3),
                        };
                        let strings = random_entry(&mut rng);
                        add(&mut stream, id, &strings, limit);
                        twin.insert(id, strings);
                    }
                    13..17 => {
                        let id = random_id(&twin, &mut rng);
                        assert_eq!(stream.remove(id), twin.remove(&id).is_some());
                    }
                    17 => {
                        let kept = twin.len() - rng.random_range(0..=twin.len().min(30));
                        stream.trim(Trim::MaxLen(kept as u64), Exactness::Exact);
                        while twin.len() > kept {
                            twin.pop_first();
                        }
                    }
                    18 => {
                        let id = random_id(&twin, &mut rng);
                        let id = id.min(twin.keys().nth(20).copied().unwrap_or(id));
                        stream.trim(Trim::MinId(id), Exactness::Exact);
                        twin = twin.split_off(&id);
                    }
                    _ => {
                        let (removed, count) =
                            stream.trim(Trim::MaxLen(3), Exactness::Chunks(Some(20)));
                        assert!(count <= 20 && removed.len() == count);
                        (0..count).for_each(|_| drop(twin.pop_first()));
                    }
                }
                if step % 9 == 0 {
                    agree(&stream, &twin, &mut rng);
                }
                if step % 60 == 0 {
                    agree(&frozen, &frozen_twin, &mut rng);
                    (frozen, frozen_twin) = (stream.clone(), twin.clone());
                }
            }
        }
    }

    #[test]
    fn an_entry_of_three_small_fields_takes_little_more_than_its_values() {
        let mut stream = Stream::default();
        for number in 0..100_000u64 {
            let values = [format!("{number}"), "value".to_owned(), "12.5".to_owned()];
            let fields: [&[u8]; 3] = [b"id", b"name", b"weight"];
            let strings = (0..3).flat_map(|i| [fields[i].to_vec(), values[i].as_bytes().to_vec()]);
            let id = Id {
                ms: 1_700_000_000_000 + number,
                seq: 0,
            };
            add(&mut stream, id, &strings.collect(), limit(4096, 100));
        }
        let bytes = stream.allocated_bytes() as f64 / 100_000.0;
        assert!(bytes < 24.0, "{bytes} bytes an entry");
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Some(Id { ms, seq });
        for (text, expected) in [
            ("5-1", id(5, 1)),
            ("5", id(5, 9)),
            ("007-01", id(7, 1)),
            (" +5-1", id(5, 1)),
            ("18446744073709551615-18446744073709551615", Some(Id::MAX)),
            ("18446744073709551616", None),
            ("5-", None),
            ("-5", None),
            ("", None),
            ("x", None),
            ("5-1-1", None),
        ] {
            assert_eq!(Id::parse(text.as_bytes(), 9), expected, "{text}");
        }
        assert_eq!(Id::MAX.next(), None);
        assert_eq!(Id::MIN.previous(), None);
        assert_eq!(
            Id {
                ms: 4,
                seq: u64::MAX
            }
            .next(),
            id(5, 0)
        );
        assert_eq!(Id { ms: 5, seq: 0 }.previous(), id(4, u64::MAX));
    }
}
