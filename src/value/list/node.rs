//! A node of a big list: some kilobytes of items in one packed string, or one long item alone.
//!
//! ```text
//! Room     |  spare  | count | item | item | item |  spare  |
//!          0       start                         len     capacity
//! ```
//!
//! An edit moves the shorter side of what it does not touch into the spare bytes at that side, so
//! that pushing and popping move next to nothing at either end. When the spare bytes are all at
//! the other side the whole string moves over once, and when there are none the allocation grows by
//! half, in jemalloc's size classes, but not past the next power of two: the limits of a node are
//! such powers, and so a full node of 8 KiB is 8,192 bytes of memory and not 10,240.

use bytes::Bytes;

use crate::heap::{ShouldMove, relocate_bytes, relocate_vec};
use crate::value::packed::{self, Buffer, End};
use crate::value::{StringRef, size_class};

/// Bytes of a node whose limit is a number of items.
const COUNTED_BYTES_MAX: usize = 8 * 1024;
/// Allocations up to this many bytes are not worth shrinking.
const SHRINK_BYTES_MIN: usize = 256;
/// Header of an `Rc`: two counts.
const RC_BYTES: usize = 16;

/// How much a node may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLimit {
    /// Bytes, the packed string's two bytes of header and the items' framing included.
    Bytes(usize),
    /// Items, and 8 KiB.
    Items(usize),
}

impl NodeLimit {
    /// From `list-max-listpack-size`: -1 to -5 are 4, 8, 16, 32 and 64 KiB, positive numbers are
    /// items. Beyond that, as in Redis, -6 is like -5 and 0 like 1.
    pub fn from_setting(setting: i64) -> NodeLimit {
        match setting {
            1.. => NodeLimit::Items(usize::try_from(setting).unwrap_or(usize::MAX)),
            0 => NodeLimit::Items(1),
            _ => NodeLimit::Bytes(2048 << (-setting.max(-5))),
        }
    }

    /// Whether a packed string of this size and number of items is within the limit.
    #[inline]
    pub fn allows(self, bytes: usize, items: usize) -> bool {
        match self {
            NodeLimit::Bytes(limit) => bytes <= limit,
            NodeLimit::Items(limit) => bytes <= COUNTED_BYTES_MAX && items <= limit,
        }
    }

    /// Whether an item of this length is too long to share a node with others.
    #[inline]
    pub fn is_alone(self, len: usize) -> bool {
        !self.allows(packed::HEADER + packed::item_bytes(len), 1)
    }

    /// Half of it: below that, what was divided is put together again.
    pub fn halved(self) -> NodeLimit {
        match self {
            NodeLimit::Bytes(limit) => NodeLimit::Bytes(limit / 2),
            NodeLimit::Items(limit) => NodeLimit::Items(limit / 2),
        }
    }
}

/// Consecutive items of a list.
#[derive(Clone, Debug)]
pub struct Node(Form);

#[derive(Clone, Debug)]
enum Form {
    Packed(Room),
    Alone(Bytes),
}

impl Node {
    /// A node of one item.
    pub(super) fn of(item: &[u8], limit: NodeLimit) -> Node {
        if limit.is_alone(item.len()) {
            return Node(Form::Alone(Bytes::copy_from_slice(item)));
        }
        let mut room = Room::copied(packed::EMPTY, packed::item_bytes(item.len()));
        packed::push_back(&mut room, &[item]);
        Node(Form::Packed(room))
    }

    /// A node of the items of a packed string.
    pub(super) fn of_packed(packed: &[u8]) -> Node {
        Node(Form::Packed(Room::copied(packed, 0)))
    }

    /// A node of nothing, which no list has and which takes no memory.
    pub(super) fn vacant() -> Node {
        Node(Form::Alone(Bytes::new()))
    }

    /// Moves its bytes if `should_move` says so.
    pub(super) fn relocate(&mut self, should_move: ShouldMove<'_>) {
        match &mut self.0 {
            Form::Packed(room) => relocate_vec(&mut room.bytes, should_move),
            Form::Alone(bytes) => relocate_bytes(bytes, should_move),
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.packed().map_or(1, packed::len)
    }

    /// Whether there are none; no list has such a node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, from either end.
    #[inline]
    pub fn iter(&self) -> Elements<'_> {
        match &self.0 {
            Form::Packed(room) => Elements {
                packed: packed::iter(room.bytes()),
                alone: None,
            },
            Form::Alone(bytes) => Elements {
                packed: packed::iter(packed::EMPTY),
                alone: Some(bytes),
            },
        }
    }

    /// Its items as one packed string, unless it is a long item alone.
    #[inline]
    pub fn packed(&self) -> Option<&[u8]> {
        match &self.0 {
            Form::Packed(room) => Some(room.bytes()),
            Form::Alone(_) => None,
        }
    }

    /// Bytes of memory it takes, behind an `Rc`.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(RC_BYTES + size_of::<Node>()) + size_class::of(self.capacity())
    }

    /// Bytes of its content's allocation, before they are rounded up: without a change of it the
    /// node's memory stays as it is.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        match &self.0 {
            Form::Packed(room) => room.bytes.capacity(),
            Form::Alone(bytes) => bytes.len(),
        }
    }

    /// The offset of the first item that equals `wanted`.
    pub(super) fn find(&self, wanted: &[u8]) -> Option<usize> {
        match &self.0 {
            Form::Packed(room) => packed::find(room.bytes(), wanted, 1).map(|item| item.at),
            Form::Alone(bytes) => (bytes == wanted).then_some(packed::HEADER),
        }
    }

    /// The packed string, to be edited.
    #[inline]
    pub(super) fn room(&mut self) -> &mut Room {
        match &mut self.0 {
            Form::Packed(room) => room,
            Form::Alone(_) => unreachable!("only packed nodes are edited"),
        }
    }

    /// Removes items from an end; some are left.
    pub(super) fn remove_end(&mut self, end: End, items: usize) {
        let room = self.room();
        let packed = room.bytes();
        match end {
            End::Front => packed::remove(room, packed::HEADER, items),
            End::Back => {
                let first = packed::iter(packed).nth_back(items - 1);
                let at = first.expect("there are more items than that").at;
                let len = packed.len();
                packed::remove_span(room, at, len, items);
            }
        }
    }

    /// Removes what equals an item, as [`packed::remove_equal`] does.
    pub(super) fn remove_equal(&mut self, unwanted: &[u8], limit: usize, end: End) -> usize {
        let room = self.room();
        let removed = packed::remove_equal(room, unwanted, limit, end);
        room.fit();
        removed
    }

    /// Moves the items from an offset on to a node of their own; there are some before it.
    pub(super) fn split_off(&mut self, at: usize) -> Node {
        let room = self.room();
        let (len, items) = (room.len(), packed::len(room.bytes()));
        let before = packed::iter_between(room.bytes(), packed::HEADER, at).count();
        let mut rest = room.clone();
        packed::remove_span(&mut rest, packed::HEADER, at, before);
        packed::remove_span(room, at, len, items - before);
        rest.fit();
        room.fit();
        Node(Form::Packed(rest))
    }

    /// Asserts what a node must be.
    pub(super) fn check(&self, limit: NodeLimit) {
        match &self.0 {
            Form::Alone(bytes) => assert!(limit.is_alone(bytes.len()), "a short item alone"),
            Form::Packed(room) => {
                let packed = room.bytes();
                assert!(packed::is_valid(packed), "a broken packed string");
                assert!(limit.allows(packed.len(), packed::len(packed)), "too big");
                assert!(!packed::is_empty(packed), "an empty node");
                room.check();
            }
        }
    }
}

/// Items of a node, from either end.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    packed: packed::Iter<'a>,
    alone: Option<&'a Bytes>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = StringRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<StringRef<'a>> {
        match self.packed.next() {
            Some(item) => Some(StringRef::Short(item.bytes)),
            None => self.alone.take().map(StringRef::Long),
        }
    }
}

impl DoubleEndedIterator for Elements<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self.packed.next_back() {
            Some(item) => Some(StringRef::Short(item.bytes)),
            None => self.alone.take().map(StringRef::Long),
        }
    }
}

/// A byte string with room to spare at either end.
#[derive(Debug)]
pub(super) struct Room {
    /// The content from `start` on; what is before it means nothing.
    bytes: Vec<u8>,
    start: usize,
}

impl Room {
    /// Of this content, in the class it has with so many bytes more.
    fn copied(content: &[u8], more: usize) -> Room {
        let mut bytes = Vec::with_capacity(size_class::of(content.len() + more));
        bytes.extend_from_slice(content);
        Room { bytes, start: 0 }
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Gives back what a smaller class would save, if that is worth it.
    fn fit(&mut self) {
        let fitting = size_class::of(self.len());
        if self.bytes.capacity() > SHRINK_BYTES_MIN && self.bytes.capacity() > fitting * 5 / 4 {
            *self = self.clone();
        }
    }

    /// After a removal: gives back memory, but leaves room for half as much again, so that no
    /// sequence of edits allocates at each of them.
    #[inline]
    fn relax(&mut self) {
        let (len, capacity) = (self.len(), self.bytes.capacity());
        if capacity > SHRINK_BYTES_MIN && capacity / 3 > len {
            *self = Room::copied(self.bytes(), len / 2);
        }
    }

    /// Makes at least so many spare bytes at the front.
    #[cold]
    fn make_room_front(&mut self, more: usize) {
        let len = self.len();
        if self.bytes.capacity() < len + more {
            let mut grown = Vec::with_capacity(grown_class(len, more));
            grown.resize(grown.capacity() - len, 0);
            let start = grown.len();
            grown.extend_from_slice(self.bytes());
            *self = Room {
                bytes: grown,
                start,
            };
        } else {
            let content = self.start..self.bytes.len();
            self.bytes.resize(self.bytes.capacity(), 0);
            let start = self.bytes.len() - len;
            self.bytes.copy_within(content, start);
            self.start = start;
        }
    }

    /// Makes at least so many spare bytes at the back.
    #[cold]
    fn make_room_back(&mut self, more: usize) {
        let len = self.len();
        if self.bytes.capacity() < len + more {
            *self = Room::copied(self.bytes(), grown_class(len, more) - len);
        } else {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(len);
            self.start = 0;
        }
    }

    /// Moves the last so many bytes by what an edit before them adds and removes.
    fn move_end(&mut self, behind: usize, added: usize, removed: usize) {
        let old_len = self.bytes.len();
        let new_len = old_len + added - removed;
        self.bytes.resize(new_len.max(old_len), 0);
        self.bytes
            .copy_within(old_len - behind..old_len, new_len - behind);
        self.bytes.truncate(new_len);
    }

    fn fill(&mut self, at: usize, len: usize, parts: &[&[u8]]) {
        let at = self.start + at;
        packed::fill(&mut self.bytes[at..at + len], parts);
    }

    fn check(&self) {
        assert!(self.start <= self.bytes.len(), "the start is in the bytes");
        let capacity = self.bytes.capacity();
        assert_eq!(
            capacity,
            size_class::of(capacity),
            "an allocation between classes"
        );
        assert!(
            capacity <= SHRINK_BYTES_MIN || capacity / 3 <= self.len(),
            "memory is kept for nothing"
        );
    }
}

/// A copy is as small as it can be.
impl Clone for Room {
    fn clone(&self) -> Room {
        Room::copied(self.bytes(), 0)
    }
}

impl Buffer for Room {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]) {
        let added = inserted.iter().map(|part| part.len()).sum::<usize>();
        let behind = self.len() - at - removed;
        let more = added.saturating_sub(removed);
        if at < behind {
            if self.start < more {
                self.make_room_front(more);
            }
            let start = self.start + removed - added;
            let before = self.start..self.start + at;
            self.bytes.copy_within(before, start);
            self.start = start;
            self.fill(at, added, inserted);
        } else {
            if self.bytes.capacity() - self.bytes.len() < more {
                self.make_room_back(more);
            }
            if behind == 0 {
                self.bytes.truncate(self.start + at);
                for part in inserted {
                    self.bytes.extend_from_slice(part);
                }
            } else {
                self.move_end(behind, added, removed);
                self.fill(at, added, inserted);
            }
        }
        if removed > added {
            self.relax();
        }
    }

    #[inline]
    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// The capacity for so many bytes more: half as much again, but not past the next power of two
/// unless that is too little.
fn grown_class(len: usize, more: usize) -> usize {
    let needed = len + more;
    size_class::of((len + len / 2).min(needed.next_power_of_two()).max(needed))
}
