//! A list to be read, in either form.

use super::{List, Range};
use crate::value::StringRef;
use crate::value::packed::{self, End};

/// A list to be read.
#[derive(Clone, Copy)]
pub enum ListRef<'a> {
    /// A small one.
    Packed(&'a [u8]),
    /// A big one.
    Big(&'a List),
}

impl<'a> ListRef<'a> {
    /// The name OBJECT ENCODING answers.
    pub fn encoding(self) -> &'static str {
        match self {
            ListRef::Packed(_) => "listpack",
            ListRef::Big(_) => "quicklist",
        }
    }

    /// The number of items.
    pub fn len(self) -> usize {
        match self {
            ListRef::Packed(packed) => packed::len(packed),
            ListRef::Big(list) => list.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The item of an index.
    pub fn get(self, index: usize) -> Option<StringRef<'a>> {
        match self {
            ListRef::Packed(packed) => {
                packed::at(packed, index).map(|item| StringRef::Short(item.bytes))
            }
            ListRef::Big(list) => list.get(index),
        }
    }

    /// The item at an end.
    pub fn peek(self, end: End) -> Option<StringRef<'a>> {
        match (self, end) {
            (ListRef::Packed(packed), End::Front) => packed::iter(packed).next().map(short),
            (ListRef::Packed(packed), End::Back) => packed::iter(packed).next_back().map(short),
            (ListRef::Big(list), end) => list.peek(end),
        }
    }

    /// The items from an index on, as many as `count`, from either end.
    pub fn range(self, start: usize, count: usize) -> Items<'a> {
        match self {
            ListRef::Packed(packed) => {
                let len = packed::len(packed);
                let start = start.min(len);
                let end = start + count.min(len - start);
                let offset = |index| packed::at(packed, index).map_or(packed.len(), |item| item.at);
                Items::Packed(packed::iter_between(packed, offset(start), offset(end)))
            }
            ListRef::Big(list) => Items::Big(list.range(start, count)),
        }
    }

    /// All items, from either end.
    pub fn iter(self) -> Items<'a> {
        self.range(0, usize::MAX)
    }
}

fn short(item: packed::Item<'_>) -> StringRef<'_> {
    StringRef::Short(item.bytes)
}

/// Items of a list, from either end.
#[derive(Clone)]
pub enum Items<'a> {
    /// Of a small one.
    Packed(packed::Iter<'a>),
    /// Of a big one.
    Big(Range<'a>),
}

impl<'a> Iterator for Items<'a> {
    type Item = StringRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<StringRef<'a>> {
        match self {
            Items::Packed(items) => items.next().map(short),
            Items::Big(items) => items.next(),
        }
    }
}

impl DoubleEndedIterator for Items<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Items::Packed(items) => items.next_back().map(short),
            Items::Big(items) => items.next_back(),
        }
    }
}
