//! A chunk of a stream: consecutive entries in one byte string.
//!
//! ```text
//! bytes   | number of fields, fields |  removed  | entry | entry | entry | ...
//!           of the first entry                    start
//! string    its length, its bytes
//! entry     twice the length of what follows, one more if it has fields of its own
//!           time: by how much it is later than the first entry's
//!           number: if the times are equal, by how much it is greater than the first entry's
//!           number of fields and the fields, if they are its own
//!           values
//! ```
//!
//! All numbers have variable length: seven bits a byte, the lowest first, the top bit set in all
//! bytes but the last. Entries with the fields of the first, in that order, do not repeat them:
//! three
//! values of a few bytes take seven bytes more than their text.
//!
//! Entries removed at the front are only stepped over, so that a stream that is trimmed with every
//! addition moves nothing; those removed elsewhere leave no gap.

use super::id::Id;
use crate::heap::{ShouldMove, relocate_vec};
use crate::value::size_class;

/// Header of an `Rc`: two counts.
const RC_BYTES: usize = 16;

/// The most bytes a number takes.
const NUMBER_BYTES_MAX: usize = 10;

/// Spare room is given back when it is half of at least so many bytes.
const SHRINK_BYTES_MIN: usize = 256;

/// Consecutive entries.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The id of the first entry that was put here.
    base: Id,
    len: u32,
    /// Entries that were put here, those that are removed included.
    put: u32,
    /// Where the first entry is.
    start: u32,
    /// The number of shared fields.
    fields: u32,
    /// Where the shared fields begin.
    fields_at: u32,
    bytes: Vec<u8>,
}

/// The strings of an entry to be added: field, value, field, value and so on.
pub trait Strings<'s>: Fn(usize) -> &'s [u8] {}

impl<'s, F: Fn(usize) -> &'s [u8]> Strings<'s> for F {}

impl Chunk {
    /// An empty chunk for an entry of these fields.
    pub(super) fn new<'s>(base: Id, pairs: usize, string: &impl Strings<'s>) -> Chunk {
        let fields = (0..pairs).map(|pair| string(2 * pair));
        let mut bytes = Vec::with_capacity(entry_bytes_max(pairs, string));
        push_number(&mut bytes, pairs as u64);
        let fields_at = bytes.len() as u32;
        fields.for_each(|field| push_string(&mut bytes, field));
        Chunk {
            base,
            len: 0,
            put: 0,
            start: bytes.len() as u32,
            fields: pairs as u32,
            fields_at,
            bytes,
        }
    }

    /// A chunk of nothing, which no stream has and which takes no memory.
    pub(super) fn vacant() -> Chunk {
        Chunk {
            base: Id::default(),
            len: 0,
            put: 0,
            start: 0,
            fields: 0,
            fields_at: 0,
            bytes: Vec::new(),
        }
    }

    /// Moves its bytes if `should_move` says so.
    pub(super) fn relocate(&mut self, should_move: ShouldMove<'_>) {
        relocate_vec(&mut self.bytes, should_move);
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of entries that were put here; removed ones keep their places, as in Redis, so
    /// that trimming by whole chunks removes the same entries.
    #[inline]
    pub(super) fn put(&self) -> usize {
        self.put as usize
    }

    /// Bytes of its byte string.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory it takes, behind an `Rc`.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(RC_BYTES + size_of::<Chunk>()) + size_class::of(self.bytes.capacity())
    }

    /// Whether an entry has the shared fields.
    fn shares<'s>(&self, pairs: usize, string: &impl Strings<'s>) -> bool {
        let mut shared = &self.bytes[self.fields_at as usize..];
        pairs == self.fields as usize
            && (0..pairs).all(|pair| take_string(&mut shared) == string(2 * pair))
    }

    /// Adds an entry behind the others; its id is greater than theirs.
    pub(super) fn push<'s>(&mut self, id: Id, pairs: usize, string: &impl Strings<'s>) {
        let has_own = !self.shares(pairs, string);
        let ms = id.ms - self.base.ms;
        let seq = if ms == 0 {
            id.seq - self.base.seq
        } else {
            id.seq
        };
        let mut size = number_bytes(ms) + number_bytes(seq);
        let step = if has_own { 1 } else { 2 };
        if has_own {
            size += number_bytes(pairs as u64);
        }
        for index in (step - 1..2 * pairs).step_by(step) {
            size += string_bytes(string(index));
        }
        let bytes = &mut self.bytes;
        bytes.reserve(size + NUMBER_BYTES_MAX);
        push_number(bytes, (size as u64) << 1 | u64::from(has_own));
        push_number(bytes, ms);
        push_number(bytes, seq);
        if has_own {
            push_number(bytes, pairs as u64);
            (0..pairs).for_each(|pair| push_string(bytes, string(2 * pair)));
        }
        (0..pairs).for_each(|pair| push_string(bytes, string(2 * pair + 1)));
        self.len += 1;
        self.put += 1;
    }

    /// Gives back what it will not need, as nothing more is added.
    pub(super) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The entries, in order.
    #[inline]
    pub fn iter(&self) -> Entries<'_> {
        Entries {
            chunk: self,
            at: self.start as usize,
        }
    }

    /// The entries from the first on whose id is at least this one.
    pub(super) fn iter_from(&self, id: Id) -> Entries<'_> {
        let mut entries = self.iter();
        loop {
            let before = entries.at;
            match entries.next() {
                Some(entry) if entry.id < id => {}
                _ => {
                    entries.at = before;
                    return entries;
                }
            }
        }
    }

    /// Where the entries begin, in order.
    pub(super) fn places(&self) -> Vec<u32> {
        let mut places = Vec::with_capacity(self.len());
        let mut entries = self.iter();
        while entries.at < self.bytes.len() {
            places.push(entries.at as u32);
            entries.next();
        }
        places
    }

    /// The entry that begins there.
    pub(super) fn at(&self, place: u32) -> Option<Entry<'_>> {
        let mut entries = self.iter();
        entries.at = place as usize;
        entries.next()
    }

    /// Where the entry of an id begins and ends.
    pub(super) fn find(&self, id: Id) -> Option<(usize, usize)> {
        let mut entries = self.iter_from(id);
        let start = entries.at;
        (entries.next()?.id == id).then_some((start, entries.at))
    }

    /// Removes the entry between two places that [`Chunk::find`] gave.
    pub(super) fn remove(&mut self, (start, end): (usize, usize)) {
        if start == self.start as usize {
            self.start = end as u32;
        } else {
            self.bytes.drain(start..end);
        }
        self.len -= 1;
        let spare = self.bytes.capacity() - self.bytes.len();
        if spare >= SHRINK_BYTES_MIN && spare > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
    }

    /// Removes entries at the front while `is_removed` says so; how many.
    pub(super) fn remove_front(&mut self, mut is_removed: impl FnMut(usize, Id) -> bool) -> usize {
        let mut entries = self.iter();
        let (mut at, mut removed) = (entries.at, 0);
        while let Some(entry) = entries.next()
            && is_removed(removed, entry.id)
        {
            removed += 1;
            at = entries.at;
        }
        self.start = at as u32;
        self.len -= removed as u32;
        removed
    }

    /// Asserts what a chunk must be, given the least id it may have; its last id.
    pub(super) fn check(&self, after: Option<Id>) -> Id {
        let mut last = after;
        let mut len = 0;
        for entry in self.iter() {
            assert!(last.is_none_or(|last| entry.id > last), "ids out of order");
            assert_eq!(entry.pairs().count(), entry.len());
            last = Some(entry.id);
            len += 1;
        }
        assert!(len > 0 && len == self.len(), "a chunk counts wrongly");
        last.expect("it is not empty")
    }
}

/// Entries of a chunk.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    chunk: &'a Chunk,
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let mut rest = self.chunk.bytes.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let size = take_number(&mut rest);
        let (mut body, behind) = rest.split_at((size >> 1) as usize);
        self.at = self.chunk.bytes.len() - behind.len();
        let base = self.chunk.base;
        let ms = take_number(&mut body);
        let seq = take_number(&mut body);
        let id = Id {
            ms: base.ms + ms,
            seq: if ms == 0 { base.seq + seq } else { seq },
        };
        let (len, fields) = if size & 1 == 1 {
            (take_number(&mut body) as usize, None)
        } else {
            let fields = &self.chunk.bytes[self.chunk.fields_at as usize..];
            (self.chunk.fields as usize, Some(fields))
        };
        Some(Entry {
            id,
            len,
            fields,
            body,
        })
    }
}

/// An entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its id.
    pub id: Id,
    len: usize,
    /// The shared fields, and what is behind them; none if its own are in the body.
    fields: Option<&'a [u8]>,
    /// Its own fields, if any, and its values.
    body: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The number of its fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no fields; no entry is so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its fields and values, in order.
    #[inline]
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut values = self.body;
        let mut fields = self.fields.unwrap_or_else(|| {
            let own = self.body;
            for _ in 0..self.len {
                take_string(&mut values);
            }
            own
        });
        (0..self.len).map(move |_| (take_string(&mut fields), take_string(&mut values)))
    }
}

/// The most bytes that a chunk with one entry of these strings takes.
pub(super) fn entry_bytes_max<'s>(pairs: usize, string: &impl Strings<'s>) -> usize {
    let strings = (0..2 * pairs).map(|index| string_bytes(string(index)));
    strings.sum::<usize>() + 2 * NUMBER_BYTES_MAX
}

fn number_bytes(number: u64) -> usize {
    ((64 - (number | 1).leading_zeros()) as usize).div_ceil(7)
}

fn string_bytes(string: &[u8]) -> usize {
    number_bytes(string.len() as u64) + string.len()
}

#[inline]
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn push_string(bytes: &mut Vec<u8>, string: &[u8]) {
    push_number(bytes, string.len() as u64);
    bytes.extend_from_slice(string);
}

#[inline]
fn take_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

#[inline]
fn take_string<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = take_number(bytes) as usize;
    let (string, rest) = bytes.split_at(len);
    *bytes = rest;
    string
}
