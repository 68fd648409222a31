//! Typed values: what a key can hold.
//!
//! Short strings live inside their entry (`store/entry.rs`), and so do small collections, as one
//! [`packed`] byte string; everything else is a [`Value`] of its own. This folder also holds what
//! values are read from and printed as: integers, doubles, the 80-bit arithmetic of INCRBYFLOAT,
//! and glob patterns; and the hash that places keys.

pub mod glob;
pub mod hash;
pub mod intset;
pub mod long_double;
pub mod members;
pub mod number;
pub mod packed;
pub mod placement;
pub mod segment;
pub mod set;
pub mod zset;

use bytes::Bytes;

/// The most bytes of a small collection, which lies inside its key's entry.
pub const SMALL_BYTES_MAX: usize = 16 * 1024 - 1;

/// The type of a value; the discriminant fits the three bits an entry has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    String = 0,
    List = 1,
    Set = 2,
    Zset = 3,
    Hash = 4,
}

impl Kind {
    /// All of them, by their discriminants.
    pub const ALL: [Kind; 5] = [Kind::String, Kind::List, Kind::Set, Kind::Zset, Kind::Hash];

    /// From the bits of an entry's header.
    pub fn from_bits(bits: u8) -> Kind {
        Kind::ALL[usize::from(bits)]
    }

    /// The name TYPE answers.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
        }
    }

    /// The type TYPE and SCAN call by this name, whatever its case.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        Kind::ALL
            .into_iter()
            .find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }
}

/// A value with an allocation of its own.
#[derive(Clone, Debug)]
pub enum Value {
    /// A long string, exactly sized and shared with readers.
    Long(Bytes),
    /// A string that has been grown in place and keeps spare capacity.
    Growable(Vec<u8>),
}

impl Value {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Long(_) | Value::Growable(_) => Kind::String,
        }
    }

    /// Whether it is a big collection, which must be freed piece by piece.
    pub fn is_collection(&self) -> bool {
        self.kind() != Kind::String
    }

    /// Frees a piece of a big collection; false if nothing is left.
    pub fn dismantle(&mut self) -> bool {
        false
    }

    /// The bytes of a string.
    pub fn string(&self) -> Option<&[u8]> {
        match self {
            Value::Long(bytes) => Some(bytes),
            Value::Growable(bytes) => Some(bytes),
        }
    }

    /// Bytes of memory it takes, its own box included.
    pub fn allocated_bytes(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::Long(bytes) => bytes.len(),
                Value::Growable(bytes) => bytes.capacity(),
            }
    }
}
