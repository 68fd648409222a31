//! Many small items in one byte string: what a small list, set, hash or sorted set is, inside its
//! key's entry, and what the chunks of a big list are.
//!
//! ```text
//! packed   count (u16, little endian)  item  item  item ...
//!
//! item     head      the length of the bytes, 7 bits a byte, low ones first, bit 7: more follow
//!          bytes
//!          tail      the length of head and bytes, the same way but last byte first, so that it
//!                    is read from the item's end towards its start
//! ```
//!
//! An item of up to 126 bytes takes two bytes more than itself, and both ends of the string are
//! reached in one step. A list has its items in order, a set its members, a hash field and value by
//! turns, a sorted set member and score. To this file everything is bytes.
//!
//! Invariants: both lengths are written in as few bytes as they can be, so that an item's size
//! follows from its length alone. The count is exact below [`COUNT_MAX`]; at that it only says
//! "count by walking", and stays so whatever is removed.
//!
//! The functions trust what they read: it was written here, or has passed [`is_valid`].

/// Bytes that can be edited in place: a vector, or the value part of an entry.
pub trait Buffer {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Puts the concatenation of `inserted` in the place of the `removed` bytes at `at`.
    fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]);

    /// Replaces as many bytes as it is given: a splice that moves nothing.
    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.splice(at, bytes.len(), &[bytes]);
    }
}

impl Buffer for Vec<u8> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self
    }

    fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]) {
        let added = inserted.iter().map(|part| part.len()).sum::<usize>();
        let (old_len, end) = (self.len(), at + removed);
        if added > removed {
            self.resize(old_len + added - removed, 0);
        }
        self.copy_within(end..old_len, at + added);
        self.truncate(old_len + added - removed);
        fill(&mut self[at..at + added], inserted);
    }

    #[inline]
    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Writes the parts, which together are exactly as long as the room.
#[inline]
pub fn fill(mut room: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let (this, rest) = room.split_at_mut(part.len());
        this.copy_from_slice(part);
        room = rest;
    }
}

/// A packed string of no items.
pub const EMPTY: &[u8] = &[0; HEADER];

/// From this many items on they are counted by walking.
pub const COUNT_MAX: usize = u16::MAX as usize;

/// Bytes before the first item.
pub const HEADER: usize = 2;

/// The longest item whose head and tail are one byte each.
const SHORT_MAX: usize = 126;

/// Most bytes of a head or tail that is believed: 35 bits.
const LENGTH_BYTES_MAX: usize = 5;

/// An item where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Offset of its head.
    pub at: usize,
    /// The item itself.
    pub bytes: &'a [u8],
}

impl Item<'_> {
    /// Offset of what follows it: the next item, or the end.
    #[inline]
    pub fn end(&self) -> usize {
        self.at + item_bytes(self.bytes.len())
    }
}

/// The bytes an item of this length takes.
#[inline]
pub const fn item_bytes(len: usize) -> usize {
    if len <= SHORT_MAX {
        return len + 2;
    }
    let framed = length_bytes(len) + len;
    framed + length_bytes(framed)
}

/// The number of items.
#[inline]
pub fn len(packed: &[u8]) -> usize {
    match count(packed) {
        COUNT_MAX => iter(packed).count(),
        count => count,
    }
}

/// Whether there are none.
#[inline]
pub fn is_empty(packed: &[u8]) -> bool {
    packed.len() == HEADER
}

/// All items, from either end.
#[inline]
pub fn iter(packed: &[u8]) -> Iter<'_> {
    iter_between(packed, HEADER, packed.len())
}

/// The items between two offsets, each of which is that of an item or the end.
#[inline]
pub fn iter_between(packed: &[u8], start: usize, end: usize) -> Iter<'_> {
    Iter { packed, start, end }
}

/// The item whose head is at this offset; none at the end.
#[inline]
pub fn item_at(packed: &[u8], at: usize) -> Option<Item<'_>> {
    iter_between(packed, at, packed.len()).next()
}

/// The item of this index, walking from the nearer end.
pub fn at(packed: &[u8], index: usize) -> Option<Item<'_>> {
    let len = len(packed);
    if index >= len {
        None
    } else if index < len / 2 {
        iter(packed).nth(index)
    } else {
        iter(packed).nth_back(len - 1 - index)
    }
}

/// The first item that equals `wanted` among those of index 0, `step`, 2 `step` and so on.
///
/// After the length the last eight bytes are compared, as one word: names that belong together
/// mostly begin alike.
pub fn find<'a>(packed: &'a [u8], wanted: &[u8], step: usize) -> Option<Item<'a>> {
    let ending = wanted.last_chunk::<8>();
    let mut at = HEADER;
    while at < packed.len() {
        let item = read(packed, at);
        let is_near = item.bytes.len() == wanted.len() && item.bytes.last_chunk::<8>() == ending;
        if is_near && item.bytes == wanted {
            return Some(item);
        }
        at = item.end();
        for _ in 1..step {
            at = item_at(packed, at)?.end();
        }
    }
    None
}

/// Whether these bytes, whatever they are, are a packed string that this file could have written.
pub fn is_valid(packed: &[u8]) -> bool {
    let Some(header) = packed.first_chunk::<HEADER>() else {
        return false;
    };
    let (mut at, mut walked) = (HEADER, 0);
    while at < packed.len() {
        let Some(end) = checked_end(packed, at) else {
            return false;
        };
        (at, walked) = (end, walked + 1);
    }
    let count = usize::from(u16::from_le_bytes(*header));
    count == COUNT_MAX || count == walked
}

/// Inserts items, in their order, before all others.
#[inline]
pub fn push_front<B: Buffer>(buffer: &mut B, items: &[&[u8]]) {
    insert_before(buffer, HEADER, items);
}

/// Appends items, in their order.
#[inline]
pub fn push_back<B: Buffer>(buffer: &mut B, items: &[&[u8]]) {
    insert_before(buffer, buffer.bytes().len(), items);
}

/// Inserts items, in their order, before the item at `at`, or at the end if that is the end.
pub fn insert_before<B: Buffer>(buffer: &mut B, at: usize, items: &[&[u8]]) {
    set_count(buffer, |count| count.saturating_add(items.len()));
    match *items {
        [item] => {
            let (head, tail) = frame(item.len());
            buffer.splice(at, 0, &[head.bytes(), item, tail.bytes()]);
        }
        [first, second] => {
            let ((head, tail), (head2, tail2)) = (frame(first.len()), frame(second.len()));
            let (head, tail, head2) = (head.bytes(), tail.bytes(), head2.bytes());
            buffer.splice(at, 0, &[head, first, tail, head2, second, tail2.bytes()]);
        }
        _ => {
            let size = items.iter().map(|item| item_bytes(item.len())).sum();
            let mut encoded = Vec::with_capacity(size);
            for item in items {
                append(&mut encoded, item);
            }
            buffer.splice(at, 0, &[&encoded]);
        }
    }
}

/// Appends all items of another packed string.
pub fn extend<B: Buffer>(buffer: &mut B, other: &[u8]) {
    let added = len(other);
    set_count(buffer, |count| count.saturating_add(added));
    buffer.splice(buffer.bytes().len(), 0, &[&other[HEADER..]]);
}

/// Puts other bytes in the place of the item at `at`.
pub fn replace<B: Buffer>(buffer: &mut B, at: usize, bytes: &[u8]) {
    let old = read(buffer.bytes(), at);
    let (old_len, size) = (old.bytes.len(), old.end() - at);
    if old_len == bytes.len() {
        buffer.overwrite(at + length_bytes(old_len), bytes);
    } else {
        let (head, tail) = frame(bytes.len());
        buffer.splice(at, size, &[head.bytes(), bytes, tail.bytes()]);
    }
}

/// Removes so many items, the first of which is at `at`; all that follow, if they are fewer.
pub fn remove<B: Buffer>(buffer: &mut B, at: usize, items: usize) {
    let packed = buffer.bytes();
    let (mut end, mut removed) = (at, 0);
    while removed < items && end < packed.len() {
        (end, removed) = (read(packed, end).end(), removed + 1);
    }
    remove_span(buffer, at, end, removed);
}

/// Removes the bytes from `at` to `end`, which are so many whole items.
#[inline]
pub fn remove_span<B: Buffer>(buffer: &mut B, at: usize, end: usize, items: usize) {
    set_count(buffer, |count| count - items);
    buffer.splice(at, end - at, &[]);
}

/// Removes the items that equal `unwanted`, as many as `limit` and those nearest to an end first,
/// and tells how many. However many there are, one splice closes all gaps.
pub fn remove_equal<B: Buffer>(buffer: &mut B, unwanted: &[u8], limit: usize, end: End) -> usize {
    let packed = buffer.bytes();
    let is_unwanted = |item: &Item<'_>| item.bytes == unwanted;
    let mut found: Vec<usize> = match end {
        End::Front => matches(iter(packed).filter(is_unwanted), limit),
        End::Back => matches(iter(packed).rev().filter(is_unwanted), limit),
    };
    if end == End::Back {
        found.reverse();
    }
    let (Some(&first), Some(&last)) = (found.first(), found.last()) else {
        return 0;
    };
    let size = item_bytes(unwanted.len());
    let mut kept = Vec::with_capacity(last - first);
    for pair in found.windows(2) {
        kept.extend_from_slice(&packed[pair[0] + size..pair[1]]);
    }
    set_count(buffer, |count| count - found.len());
    buffer.splice(first, last + size - first, &[&kept]);
    found.len()
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one with index 0, which Redis calls head and left.
    Front,
    /// The other one.
    Back,
}

/// Items of a packed string, from either end.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    packed: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        if self.start >= self.end {
            return None;
        }
        let item = read(self.packed, self.start);
        self.start = item.end();
        Some(item)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.start >= self.end {
            return None;
        }
        self.end = before(self.packed, self.end);
        Some(read(self.packed, self.end))
    }
}

fn matches<'a>(items: impl Iterator<Item = Item<'a>>, limit: usize) -> Vec<usize> {
    items.map(|item| item.at).take(limit).collect()
}

#[inline]
fn count(packed: &[u8]) -> usize {
    u16::from_le_bytes([packed[0], packed[1]]).into()
}

/// Changes the count, unless it has ceased to count.
#[inline]
fn set_count<B: Buffer>(buffer: &mut B, change: impl FnOnce(usize) -> usize) {
    let count = count(buffer.bytes());
    if count < COUNT_MAX {
        let count = u16::try_from(change(count)).unwrap_or(u16::MAX);
        buffer.overwrite(0, &count.to_le_bytes());
    }
}

/// The item at an offset; nearly always its head is one byte.
#[inline]
fn read(packed: &[u8], at: usize) -> Item<'_> {
    let first = packed[at];
    let (start, len) = if first < 0x80 {
        (at + 1, first.into())
    } else {
        read_long_head(packed, at)
    };
    Item {
        at,
        bytes: &packed[start..start + len],
    }
}

#[cold]
fn read_long_head(packed: &[u8], at: usize) -> (usize, usize) {
    let (len, size) = decode(packed[at..].iter()).expect("heads are written whole");
    (at + size, len)
}

/// The offset of the item that ends at `end`.
#[inline]
fn before(packed: &[u8], end: usize) -> usize {
    let last = packed[end - 1];
    if last < 0x80 {
        return end - 1 - usize::from(last);
    }
    let (framed, size) = decode(packed[..end].iter().rev()).expect("tails are written whole");
    end - size - framed
}

/// Where the item at `at` ends, if there is one, written as [`append`] would.
fn checked_end(packed: &[u8], at: usize) -> Option<usize> {
    let (len, head_bytes) = decode(packed[at..].iter())?;
    let tail_at = at.checked_add(head_bytes)?.checked_add(len)?;
    let (framed, tail_bytes) = (tail_at - at, length_bytes(tail_at - at));
    let end = tail_at.checked_add(tail_bytes)?;
    let tail = decode(packed.get(tail_at..end)?.iter().rev())?;
    let is_short = head_bytes == length_bytes(len);
    (is_short && tail == (framed, tail_bytes)).then_some(end)
}

/// Reads a length, and tells how many bytes it takes.
fn decode<'a>(bytes: impl Iterator<Item = &'a u8>) -> Option<(usize, usize)> {
    let mut len = 0_u64;
    for (index, &byte) in bytes.take(LENGTH_BYTES_MAX).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((usize::try_from(len).ok()?, index + 1));
        }
    }
    None
}

/// A length as it is written. It is put together in a register: bytes stored one by one and loaded
/// at once would have to wait for each other, for longer than the rest of a push takes.
struct Length {
    bytes: [u8; 8],
    used: usize,
}

impl Length {
    #[inline]
    fn head(len: usize) -> Length {
        let (word, used) = Length::word(len);
        Length {
            bytes: word.to_le_bytes(),
            used,
        }
    }

    #[inline]
    fn tail(len: usize) -> Length {
        let (word, used) = Length::word(len);
        Length {
            bytes: (word << (64 - 8 * used)).to_be_bytes(),
            used,
        }
    }

    /// The bytes of a head, the first one lowest, and how many they are.
    #[inline]
    fn word(len: usize) -> (u64, usize) {
        let (mut rest, mut word, mut used) = (len as u64, 0, 0);
        while rest >= 0x80 {
            word |= (rest & 0x7f | 0x80) << (8 * used);
            (rest, used) = (rest >> 7, used + 1);
        }
        assert!(used < LENGTH_BYTES_MAX, "an item of {len} bytes");
        (word | rest << (8 * used), used + 1)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Head and tail of an item of this length.
#[inline]
fn frame(len: usize) -> (Length, Length) {
    let head = Length::head(len);
    let tail = Length::tail(head.used + len);
    (head, tail)
}

fn append(encoded: &mut Vec<u8>, item: &[u8]) {
    let (head, tail) = frame(item.len());
    for part in [head.bytes(), item, tail.bytes()] {
        encoded.extend_from_slice(part);
    }
}

/// Bytes that a length takes.
#[inline]
const fn length_bytes(len: usize) -> usize {
    if len < 0x80 {
        1
    } else {
        (len.ilog2() / 7 + 1) as usize
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn unpacked(packed: &[u8]) -> Vec<Vec<u8>> {
        iter(packed).map(|item| item.bytes.to_vec()).collect()
    }

    fn packed(items: &[Vec<u8>]) -> Vec<u8> {
        let mut packed = EMPTY.to_vec();
        push_back(
            &mut packed,
            &items.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        );
        packed
    }

    fn random_item(rng: &mut SmallRng) -> Vec<u8> {
        let len = match rng.random_range(0..20) {
            0 => rng.random_range(124..132),
            1 => rng.random_range(16_378..16_390),
            2 => 0,
            _ => rng.random_range(0..20),
        };
        vec![rng.random_range(0..4); len]
    }

    fn agree(packed: &[u8], twin: &[Vec<u8>], seed: u64) {
        assert!(is_valid(packed), "seed {seed}");
        assert_eq!(unpacked(packed), twin, "seed {seed}");
        assert_eq!(len(packed), twin.len(), "seed {seed}");
        assert_eq!(is_empty(packed), twin.is_empty(), "seed {seed}");
        let backwards = iter(packed).rev().map(|item| item.bytes.to_vec());
        assert!(backwards.eq(twin.iter().rev().cloned()), "seed {seed}");
        let size = twin
            .iter()
            .map(|item| item_bytes(item.len()))
            .sum::<usize>();
        assert_eq!(packed.len(), HEADER + size, "seed {seed}");
    }

    #[test]
    fn random_edits_agree_with_a_vector() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut buffer, mut twin) = (EMPTY.to_vec(), Vec::<Vec<u8>>::new());
            for _ in 0..60 {
                edit(&mut buffer, &mut twin, &mut rng);
                agree(&buffer, &twin, seed);
                let (wanted, step) = (random_item(&mut rng), rng.random_range(1..4));
                let found = find(&buffer, &wanted, step).map(|item| item.at);
                let expected = twin.iter().step_by(step).position(|item| *item == wanted);
                let expected =
                    expected.map(|index| at(&buffer, index * step).expect("is there").at);
                assert_eq!(found, expected, "seed {seed}");
            }
        }
    }

    fn edit(buffer: &mut Vec<u8>, twin: &mut Vec<Vec<u8>>, rng: &mut SmallRng) {
        let items: Vec<_> = (0..rng.random_range(0..4))
            .map(|_| random_item(rng))
            .collect();
        let slices: Vec<_> = items.iter().map(Vec::as_slice).collect();
        let index = rng.random_range(0..=twin.len());
        let place = at(buffer, index).map_or(buffer.len(), |item| item.at);
        match rng.random_range(0..8) {
            0 => {
                push_front(buffer, &slices);
                twin.splice(0..0, items);
            }
            1 => {
                push_back(buffer, &slices);
                twin.extend(items);
            }
            2 => {
                insert_before(buffer, place, &slices);
                twin.splice(index..index, items);
            }
            4 => {
                extend(buffer, &packed(&items));
                twin.extend(items);
            }
            5 => {
                let (unwanted, limit) = (random_item(rng), rng.random_range(0..4));
                let end = [End::Front, End::Back][rng.random_range(0..2)];
                let removed = remove_equal(buffer, &unwanted, limit, end);
                assert_eq!(removed, remove_from_twin(twin, &unwanted, limit, end));
            }
            3 if index < twin.len() => {
                assert_eq!(item_at(buffer, place), at(buffer, index));
                twin[index] = random_item(rng);
                replace(buffer, place, &twin[index]);
            }
            _ => {
                let count = rng.random_range(0..4);
                remove(buffer, place, count);
                twin.drain(index..(index + count).min(twin.len()));
            }
        }
    }

    fn remove_from_twin(twin: &mut Vec<Vec<u8>>, item: &[u8], limit: usize, end: End) -> usize {
        let len = twin.len();
        for _ in 0..limit {
            let place = match end {
                End::Front => twin.iter().position(|other| other == item),
                End::Back => twin.iter().rposition(|other| other == item),
            };
            place.map(|index| twin.remove(index));
        }
        len - twin.len()
    }

    #[test]
    fn an_item_takes_two_bytes_more_up_to_126() {
        assert_eq!(item_bytes(0), 2);
        assert_eq!(item_bytes(126), 128);
        assert_eq!(item_bytes(127), 130);
        assert_eq!(item_bytes(128), 132);
        assert_eq!(packed(&[b"ab".to_vec(), vec![]]), b"\x02\0\x02ab\x03\0\x01");
    }

    #[test]
    fn a_very_long_item_is_read_from_both_ends() {
        let items = [b"a".to_vec(), vec![b'x'; 3 << 20], b"b".to_vec()];
        let packed = packed(&items);
        assert!(is_valid(&packed));
        assert_eq!(unpacked(&packed), items);
        let middle = iter(&packed).rev().nth(1).expect("is there");
        assert_eq!(middle.bytes, items[1]);
    }

    #[test]
    fn past_the_count_items_are_counted_by_walking() {
        let mut buffer = EMPTY.to_vec();
        push_back(&mut buffer, &vec![&b""[..]; COUNT_MAX - 1]);
        assert_eq!(count(&buffer), COUNT_MAX - 1);
        push_back(&mut buffer, &[b"a", b"b"]);
        assert_eq!((count(&buffer), len(&buffer)), (COUNT_MAX, COUNT_MAX + 1));
        assert_eq!(at(&buffer, COUNT_MAX).expect("is there").bytes, b"b");
        remove(&mut buffer, HEADER, COUNT_MAX - 1);
        assert_eq!(unpacked(&buffer), [b"a", b"b"]);
        assert!(is_valid(&buffer));
        assert_eq!(len(&buffer), 2);
    }

    #[test]
    fn bytes_that_are_not_packed_are_told() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\x01\0",
            b"\0\0\0",
            b"\x01\0\0",
            b"\x01\0\0\x02",
            b"\x01\0\x05ab\x03",
            b"\x01\0\x80\0\x02",
            b"\x01\0\xff\xff\xff\xff\x7f\0",
            b"\x01\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert!(!is_valid(bytes), "{bytes:?}");
        }
        for seed in 0..300 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let items: Vec<_> = (0..5).map(|_| random_item(&mut rng)).collect();
            let mut bytes = packed(&items);
            let place = rng.random_range(0..bytes.len().min(200));
            bytes[place] = rng.random();
            bytes.truncate(rng.random_range(0..=bytes.len()));
            if is_valid(&bytes) {
                assert_eq!(iter(&bytes).rev().count(), len(&bytes), "seed {seed}");
            }
        }
    }
}
