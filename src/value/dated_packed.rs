//! Small collections whose elements may have deadlines: a [`packed`] string in which a deadline
//! follows the strings of each element, inside its key's entry.
//!
//! ```text
//! [deadline, 8 bytes] [item, 4 bytes]
//! field  value  deadline  field  value  deadline ...       a hash: two strings an element
//! member  deadline  member  deadline ...                   a set: one
//! ```
//!
//! An element's deadline is an item of 6 bytes, or of none. In front stands by which deadline the
//! keyspace has filed the collection, and where; the item is `u32::MAX` if it has not.

use super::dated;
use super::packed::{self, Buffer};
use super::segmented::Element;
use super::{SMALL_BYTES_MAX, StringRef};
use crate::clock::UnixMillis;
use crate::expiry::index::ItemRef;
use crate::expiry::{Deadline, MemberTerm};

/// Bytes before the packed string.
pub const FILED_BYTES: usize = 12;
/// What stands there for a collection that is not filed.
const NOT_FILED: [u8; FILED_BYTES] = [0xff; FILED_BYTES];

/// What a small hash or sorted set has for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two strings.
    Packed,
    /// A deadline as well.
    Dated,
}

impl Shape {
    /// Items of an element.
    pub fn step(self) -> usize {
        match self {
            Shape::Packed => 2,
            Shape::Dated => 3,
        }
    }

    /// Bytes before the packed string.
    pub fn start(self) -> usize {
        match self {
            Shape::Packed => 0,
            Shape::Dated => FILED_BYTES,
        }
    }
}

/// The packed string of a small collection, without as many bytes as stand before it.
pub struct Inner<'b, B>(pub &'b mut B, pub usize);

impl<B: Buffer> Buffer for Inner<'_, B> {
    fn bytes(&self) -> &[u8] {
        &self.0.bytes()[self.1..]
    }

    fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]) {
        self.0.splice(self.1 + at, removed, inserted);
    }

    fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.0.overwrite(self.1 + at, bytes);
    }
}

/// The dated form of a packed collection whose elements have so many strings, not filed; none if it
/// is too long for that.
pub fn to_dated(packed: &[u8], strings: usize) -> Option<Vec<u8>> {
    let deadlines = packed::len(packed) / strings * packed::item_bytes(0);
    if packed.len() + deadlines > SMALL_BYTES_MAX {
        return None;
    }
    let mut dated = empty();
    let mut items = packed::iter(packed);
    while let Some(first) = items.next() {
        let other = second(&mut items, strings);
        push(&mut dated, strings, element(first.bytes, other, b""));
    }
    Some(dated)
}

/// A dated collection of no elements, not filed.
fn empty() -> Vec<u8> {
    let mut dated = NOT_FILED.to_vec();
    dated.extend_from_slice(packed::EMPTY);
    dated
}

/// Elements, dead or alive, in the order they came.
pub fn iter(dated: &[u8], strings: usize) -> impl Iterator<Item = Element<'_>> {
    let mut items = packed::iter(&dated[FILED_BYTES..]);
    std::iter::from_fn(move || {
        let first = items.next()?;
        let other = second(&mut items, strings);
        Some(element(first.bytes, other, items.next()?.bytes))
    })
}

/// An element, dead or alive.
pub fn find<'a>(dated: &'a [u8], strings: usize, member: &[u8]) -> Option<Element<'a>> {
    let packed = &dated[FILED_BYTES..];
    let first = packed::find(packed, member, strings + 1)?;
    let mut items = packed::iter_between(packed, first.end(), packed.len());
    let other = second(&mut items, strings);
    Some(element(first.bytes, other, items.next()?.bytes))
}

/// The soonest deadline of all elements, if any has one.
pub fn soonest(dated: &[u8], strings: usize) -> Option<Deadline> {
    iter(dated, strings)
        .filter_map(|element| element.deadline())
        .min()
}

/// Gives an element a deadline, or takes it away; false if that does not fit, and then nothing is
/// changed. The element is there.
pub fn set_term<B: Buffer>(
    buffer: &mut B,
    strings: usize,
    member: &[u8],
    term: Option<MemberTerm>,
) -> bool {
    let mut inner = Inner(buffer, FILED_BYTES);
    let packed = inner.bytes();
    let first = packed::find(packed, member, strings + 1);
    let items = first.map(|first| packed::iter_between(packed, first.at, packed.len()));
    let Some(old) = items.and_then(|mut items| items.nth(strings)) else {
        return true;
    };
    let bytes = term.map(dated::to_bytes);
    let bytes = bytes.as_ref().map_or(&b""[..], |bytes| bytes);
    if packed.len() + bytes.len() > SMALL_BYTES_MAX {
        return false;
    }
    let at = old.at;
    packed::replace(&mut inner, at, bytes);
    true
}

/// Moves deadlines that were given as moments in the other era of the wall clock by so much into
/// this era.
pub fn shift<B: Buffer>(buffer: &mut B, strings: usize, era: bool, later_ms: i64) {
    let mut inner = Inner(buffer, FILED_BYTES);
    let mut terms = Vec::new();
    for item in packed::iter(inner.bytes())
        .skip(strings)
        .step_by(strings + 1)
    {
        let mut bytes = item.bytes.to_vec();
        if dated::shift(&mut bytes, era, later_ms) {
            terms.push((item.at, bytes));
        }
    }
    for (at, bytes) in terms {
        packed::replace(&mut inner, at, &bytes);
    }
}

/// The living elements, not filed, and the dead ones with their deadlines.
#[allow(clippy::type_complexity, reason = "what is left, and what is not")]
pub fn without_dead(
    dated: &[u8],
    strings: usize,
    now: UnixMillis,
) -> (Vec<u8>, Vec<(StringRef<'_>, Deadline)>) {
    let mut living = empty();
    let mut dead = Vec::new();
    for element in iter(dated, strings) {
        match element.deadline().filter(|_| element.is_dead(now)) {
            Some(deadline) => dead.push((element.member, deadline)),
            None => push(&mut living, strings, element),
        }
    }
    (living, dead)
}

/// Adds an element.
fn push(dated: &mut Vec<u8>, strings: usize, element: Element<'_>) {
    let deadline = element.term.map(dated::to_bytes);
    let deadline = deadline.as_ref().map_or(&b""[..], |bytes| bytes);
    let mut inner = Inner(dated, FILED_BYTES);
    match strings {
        1 => packed::push_back(&mut inner, &[&element.member, deadline]),
        _ => packed::push_back(&mut inner, &[&element.member, &element.value, deadline]),
    }
}

/// By which deadline a collection is filed, and where.
pub fn filed(dated: &[u8]) -> Option<(Deadline, ItemRef)> {
    let (deadline, item) = dated[..FILED_BYTES].split_at(8);
    let item = u32::from_le_bytes(item.try_into().expect("four bytes"));
    let deadline = i64::from_le_bytes(deadline.try_into().expect("eight bytes"));
    (item != u32::MAX).then_some((Deadline(UnixMillis(deadline)), ItemRef(item)))
}

/// Notes by which deadline a collection is filed, and where.
pub fn set_filed<B: Buffer>(buffer: &mut B, filed: Option<(Deadline, ItemRef)>) {
    let mut bytes = NOT_FILED;
    if let Some((deadline, item)) = filed {
        bytes[..8].copy_from_slice(&deadline.0.0.to_le_bytes());
        bytes[8..].copy_from_slice(&item.0.to_le_bytes());
    }
    buffer.overwrite(0, &bytes);
}

/// An element of its items.
pub fn element<'a>(first: &'a [u8], second: &'a [u8], term: &[u8]) -> Element<'a> {
    Element {
        member: StringRef::Short(first),
        value: StringRef::Short(second),
        term: dated::from_bytes(term),
    }
}

/// The second string of an element of two; empty if it has but one.
fn second<'a>(items: &mut packed::Iter<'a>, strings: usize) -> &'a [u8] {
    match strings {
        1 => b"",
        _ => items.next().map_or(&b""[..], |item| item.bytes),
    }
}
