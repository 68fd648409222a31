//! The ids of stream entries: a time in milliseconds, and a number among the entries of that time.

use std::fmt;

use crate::value::number::parse_i64;

/// An id. Ids are ordered by time, then by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Unix time in ms, as far as the server chose it.
    pub ms: u64,
    /// The number among the entries of one millisecond.
    pub seq: u64,
}

/// The most bytes an id has as text.
pub const TEXT_MAX: usize = 41;

/// Bytes of an id in a snapshot.
pub const ID_BYTES: usize = 16;

impl Id {
    /// The id no entry may have.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The id no other may follow.
    pub const MAX: Id = Id {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The id after this one; none after the last.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => self.ms.checked_add(1).map(|ms| Id { ms, seq: 0 }),
        }
    }

    /// The id before this one; none before the first.
    pub fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { ms: self.ms, seq }),
            None => {
                let ms = self.ms.checked_sub(1)?;
                Some(Id { ms, seq: u64::MAX })
            }
        }
    }

    /// Reads `5-1`, or `5` with the number that is missing then.
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<Id> {
        match memchr::memchr(b'-', text) {
            Some(dash) => Some(Id {
                ms: parse_number(&text[..dash])?,
                seq: parse_number(&text[dash + 1..])?,
            }),
            None => Some(Id {
                ms: parse_number(text)?,
                seq: missing_seq,
            }),
        }
    }

    /// The id as text, written into a buffer.
    pub fn text(self, buffer: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut digits = itoa::Buffer::new();
        let ms = digits.format(self.ms).as_bytes();
        let dash = ms.len();
        buffer[..dash].copy_from_slice(ms);
        buffer[dash] = b'-';
        let seq = digits.format(self.seq).as_bytes();
        let end = dash + 1 + seq.len();
        buffer[dash + 1..end].copy_from_slice(seq);
        &buffer[..end]
    }

    /// The bytes of a snapshot.
    pub fn to_bytes(self) -> [u8; ID_BYTES] {
        let mut bytes = [0; ID_BYTES];
        bytes[..8].copy_from_slice(&self.ms.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_le_bytes());
        bytes
    }

    /// The id in the first bytes of a part of a snapshot, and what is behind it.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Id, &[u8])> {
        let (ms, rest) = bytes.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let id = Id {
            ms: u64::from_le_bytes(*ms),
            seq: u64::from_le_bytes(*seq),
        };
        Some((id, rest))
    }
}

/// Reads a number of 64 bits. What is not canonical is read as C does, like Redis: there may be
/// spaces, a sign and zeros before it.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if is_negative {
        number.wrapping_neg()
    } else {
        number
    })
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}
