//! Typed values: what a key can hold.
//!
//! Short strings live inside their entry (`store/entry.rs`), and so do small collections, as one
//! [`packed`] byte string; everything else is a [`Value`] of its own. This folder also holds what
//! values are read from and printed as: integers, doubles, the 80-bit arithmetic of INCRBYFLOAT,
//! and glob patterns; and the hash that places keys.

pub mod bits;
pub mod dated;
pub mod dated_packed;
pub mod directory;
pub mod geo;
pub mod glob;
pub mod hash;
pub mod hyperloglog;
pub mod intset;
pub mod list;
pub mod long_double;
pub mod number;
pub mod packed;
pub mod placement;
pub mod prefetch;
pub mod segment;
pub mod segmented;
pub mod set;
pub mod size_class;
pub mod stream;
pub mod wide;
pub mod zset;

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::expiry::Deadline;
use crate::heap::ShouldMove;
use list::{List, Node};
use segment::Segment;
use segmented::Segmented;
use stream::{Piece, Stream};
use zset::{Page, Zset};

/// The most bytes of a small set, sorted set or hash, which lies inside its key's entry.
pub const SMALL_BYTES_MAX: usize = 16 * 1024 - 1;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    String = 0,
    List = 1,
    Set = 2,
    Zset = 3,
    Hash = 4,
    Stream = 5,
}

impl Kind {
    /// All of them, by their discriminants.
    pub const ALL: [Kind; 6] = [
        Kind::String,
        Kind::List,
        Kind::Set,
        Kind::Zset,
        Kind::Hash,
        Kind::Stream,
    ];

    /// The name TYPE answers.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    /// The type TYPE and SCAN call by this name, whatever its case.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }
}

/// A string that a command reads.
#[derive(Clone, Copy, Debug)]
pub enum StringRef<'a> {
    /// Bytes that lie among others.
    Short(&'a [u8]),
    /// An allocation of its own, which a reply can share.
    Long(&'a Bytes),
}

impl<'a> StringRef<'a> {
    /// The bytes.
    #[inline(always)]
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            StringRef::Short(bytes) => bytes,
            StringRef::Long(bytes) => bytes,
        }
    }
}

impl Deref for StringRef<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// What is shared of a [`Value::Growable`] besides its bytes: two counts and the vector.
const GROWABLE_BYTES: usize = 2 * size_of::<usize>() + size_of::<Vec<u8>>();

/// A value with an allocation of its own.
#[derive(Clone)]
pub enum Value {
    /// A long string, exactly sized and shared with readers.
    Long(Bytes),
    /// A string that has been grown in place and keeps spare capacity. Shared only with the thread
    /// that writes a snapshot, so that a save need not copy it: whoever edits it meanwhile does.
    Growable(Arc<Vec<u8>>),
    /// A big list.
    List(List),
    /// A big set.
    Set(Segmented),
    /// A big sorted set.
    Zset(Box<Zset>),
    /// A big hash.
    Hash(Segmented),
    /// A stream.
    Stream(Box<Stream>),
    /// A big collection as it was at the cut of a snapshot.
    Frozen(Frozen),
}

/// The pieces of a big collection. What they hold does not change: whoever changes the collection
/// copies the piece first.
#[derive(Clone)]
pub struct Frozen {
    /// The collection's type.
    pub kind: Kind,
    /// Whether elements have deadlines.
    pub is_dated: bool,
    /// In an order in which they can be put together again; the last is the first to be.
    pub pieces: Pieces,
}

/// Pieces of a big collection.
#[derive(Clone)]
#[allow(missing_docs)]
pub enum Pieces {
    List(Vec<Rc<Node>>),
    Members(Vec<Rc<Segment>>),
    Zset(Vec<Rc<Page>>),
    Stream(Vec<Piece>),
}

impl Value {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Long(_) | Value::Growable(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::Zset(_) => Kind::Zset,
            Value::Hash(_) => Kind::Hash,
            Value::Stream(_) => Kind::Stream,
            Value::Frozen(frozen) => frozen.kind,
        }
    }

    /// Whether it is a big collection, which must be freed piece by piece.
    pub fn is_collection(&self) -> bool {
        self.kind() != Kind::String
    }

    /// A big collection as it is now; none for a string.
    pub fn freeze(&self) -> Option<Frozen> {
        let pieces = match self {
            Value::Long(_) | Value::Growable(_) => return None,
            Value::List(list) => {
                let mut chunks = list.freeze();
                chunks.reverse();
                Pieces::List(chunks)
            }
            Value::Set(members) | Value::Hash(members) => Pieces::Members(members.freeze()),
            Value::Zset(zset) => Pieces::Zset(zset.freeze()),
            Value::Stream(stream) => {
                let mut pieces = stream.freeze();
                pieces.reverse();
                Pieces::Stream(pieces)
            }
            Value::Frozen(frozen) => return Some(frozen.clone()),
        };
        let is_dated = match self {
            Value::Set(members) | Value::Hash(members) => members.volatile() > 0,
            Value::Zset(zset) => zset.dates().is_some_and(|all| all.volatile() > 0),
            _ => false,
        };
        Some(Frozen {
            kind: self.kind(),
            is_dated,
            pieces,
        })
    }

    /// Moves what `should_move` says of the piece of a big collection with this number, but for
    /// what a snapshot has too; false if it has no such piece. Consumer groups of streams stay
    /// where they are.
    pub fn relocate(&mut self, piece: usize, should_move: ShouldMove<'_>) -> bool {
        match self {
            Value::Long(_) | Value::Growable(_) | Value::Frozen(_) => false,
            Value::List(list) => list.relocate(piece, should_move),
            Value::Set(members) | Value::Hash(members) => members.relocate(piece, should_move),
            Value::Zset(zset) => zset.relocate(piece, should_move),
            Value::Stream(stream) => stream.relocate(piece, should_move),
        }
    }

    /// Frees a piece of a big collection; false if nothing is left.
    pub fn dismantle(&mut self) -> bool {
        match self {
            Value::Long(_) | Value::Growable(_) => false,
            Value::List(list) => list.dismantle(),
            Value::Set(members) | Value::Hash(members) => members.dismantle(),
            Value::Zset(zset) => zset.dismantle(),
            Value::Stream(stream) => stream.dismantle(),
            Value::Frozen(frozen) => frozen.dismantle(),
        }
    }

    /// The bytes of a string.
    pub fn string(&self) -> Option<&[u8]> {
        match self {
            Value::Long(bytes) => Some(bytes),
            Value::Growable(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Asserts every invariant of a collection, its sums of bytes included; for tests.
    pub fn check(&self) {
        match self {
            Value::Long(_) | Value::Growable(_) | Value::Frozen(_) => {}
            Value::List(list) => list.check(),
            Value::Set(members) | Value::Hash(members) => members.check(),
            Value::Zset(zset) => zset.check(),
            Value::Stream(stream) => stream.check(),
        }
    }

    /// Bytes of memory it takes, its own box included, as the allocator counts them: what its
    /// collections keep sums of, nothing is walked.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(size_of::<Value>())
            + match self {
                Value::Long(bytes) => size_class::of(bytes.len()),
                Value::Growable(bytes) => {
                    size_class::of(GROWABLE_BYTES) + size_class::of(bytes.capacity())
                }
                Value::List(list) => list.allocated_bytes(),
                Value::Set(members) | Value::Hash(members) => members.allocated_bytes(),
                Value::Zset(zset) => zset.allocated_bytes(),
                Value::Stream(stream) => stream.allocated_bytes(),
                Value::Frozen(frozen) => size_class::of(frozen.pieces.len() * size_of::<usize>()),
            }
    }
}

impl Frozen {
    /// Bytes of its pieces, as far as they are not more than `max`.
    pub fn bytes_up_to(&self, max: usize) -> usize {
        let mut sum = 0;
        let mut is_enough = |bytes: usize| {
            sum += bytes;
            sum >= max
        };
        match &self.pieces {
            Pieces::List(pieces) => pieces
                .iter()
                .any(|piece| is_enough(piece.allocated_bytes())),
            Pieces::Members(pieces) => pieces
                .iter()
                .any(|piece| is_enough(piece.allocated_bytes())),
            Pieces::Zset(pieces) => pieces
                .iter()
                .any(|piece| is_enough(piece.allocated_bytes())),
            Pieces::Stream(pieces) => pieces
                .iter()
                .any(|piece| is_enough(piece.allocated_bytes())),
        };
        sum.min(max)
    }

    /// Hands out elements of the next piece as their strings (a field and its value, a member and
    /// the eight bytes of its score, what [`Piece::for_each`] says) and deadlines, from number
    /// `first` on, until `each` returns
    /// false. How many there were then; none if the piece has no more.
    pub fn walk(
        &self,
        first: usize,
        mut each: impl FnMut(&[StringRef<'_>], Option<Deadline>) -> bool,
    ) -> Option<usize> {
        let (mut seen, mut stopped) = (0, None);
        let mut hand_out = |strings: &[StringRef<'_>], deadline| {
            seen += 1;
            if stopped.is_none() && seen > first && !each(strings, deadline) {
                stopped = Some(seen - first);
            }
        };
        match &self.pieces {
            Pieces::List(pieces) => {
                let items = pieces.last().into_iter().flat_map(|chunk| chunk.iter());
                items.for_each(|item| hand_out(&[item], None));
            }
            Pieces::Members(pieces) => {
                let elements = pieces.last().into_iter().flat_map(|segment| segment.iter());
                elements.for_each(|element| match self.kind {
                    Kind::Hash => hand_out(&[element.member, element.value], element.deadline()),
                    _ => hand_out(&[element.member], element.deadline()),
                });
            }
            Pieces::Zset(pieces) => {
                if let Some(page) = pieces.last() {
                    page.for_each(|member, score, deadline| {
                        let score = score.to_le_bytes();
                        let strings = [StringRef::Short(member), StringRef::Short(&score)];
                        hand_out(&strings, deadline);
                    });
                }
            }
            Pieces::Stream(pieces) => {
                if let Some(piece) = pieces.last() {
                    piece.for_each(|strings| hand_out(strings, None));
                }
            }
        }
        stopped
    }

    /// Lets go of a piece; false if none is left.
    pub fn dismantle(&mut self) -> bool {
        match &mut self.pieces {
            Pieces::List(pieces) => pieces.pop().is_some(),
            Pieces::Members(pieces) => pieces.pop().is_some(),
            Pieces::Zset(pieces) => pieces.pop().is_some(),
            Pieces::Stream(pieces) => pieces.pop().is_some(),
        }
    }
}

impl Pieces {
    /// How many are left.
    pub fn len(&self) -> usize {
        match self {
            Pieces::List(pieces) => pieces.len(),
            Pieces::Members(pieces) => pieces.len(),
            Pieces::Zset(pieces) => pieces.len(),
            Pieces::Stream(pieces) => pieces.len(),
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
