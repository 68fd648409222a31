//! Deadlines of elements: their bytes, and what is known of those of a piece.

use crate::clock::UnixMillis;
use crate::expiry::Deadline;

/// Bytes of a stored deadline: milliseconds, little-endian.
pub const DEADLINE_BYTES: usize = 6;
/// The last deadline that can be stored; the first is 0. What users may ask for lies between.
const LAST: i64 = (1 << (8 * DEADLINE_BYTES as u32)) - 1;

/// The bytes of a deadline. One that cannot be stored becomes the nearest that can.
pub fn to_bytes(deadline: Deadline) -> [u8; DEADLINE_BYTES] {
    let [a, b, c, d, e, f, ..] = deadline.0.0.clamp(0, LAST).to_le_bytes();
    [a, b, c, d, e, f]
}

/// The deadline of these bytes; none if there are not [`DEADLINE_BYTES`] of them.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Option<Deadline> {
    let &[a, b, c, d, e, f] = bytes else {
        return None;
    };
    let ms = i64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    Some(Deadline(UnixMillis(ms)))
}

/// What is known of the deadlines of a piece of a collection. Elements come and go, and nobody
/// looks at all the others each time: so the soonest is a bound, exact after a survey. The latest
/// is exact, as it tells whether anything is alive; a survey is needed when the last element that
/// has it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// No deadline is earlier.
    pub soonest: Deadline,
    /// The latest deadline.
    pub latest: Deadline,
    /// Elements that have it.
    latest_count: usize,
    /// Elements that have one, exactly.
    pub volatile: usize,
}

impl Span {
    /// Of no elements.
    pub const EMPTY: Span = Span {
        soonest: Deadline(UnixMillis(i64::MAX)),
        latest: Deadline(UnixMillis(i64::MIN)),
        latest_count: 0,
        volatile: 0,
    };

    /// Takes in an element.
    pub fn add(&mut self, deadline: Deadline) {
        *self = self.join(Span {
            soonest: deadline,
            latest: deadline,
            latest_count: 1,
            volatile: 1,
        });
    }

    /// Leaves out an element; true if a survey must tell the latest deadline anew.
    #[must_use]
    pub fn remove(&mut self, deadline: Deadline) -> bool {
        self.volatile -= 1;
        self.latest_count -= usize::from(deadline == self.latest);
        if self.volatile == 0 {
            *self = Span::EMPTY;
        }
        self.latest_count == 0 && self.volatile > 0
    }

    /// The span of both.
    pub fn join(self, other: Span) -> Span {
        let latest = self.latest.max(other.latest);
        let count = |span: Span| {
            if span.latest == latest {
                span.latest_count
            } else {
                0
            }
        };
        Span {
            soonest: self.soonest.min(other.soonest),
            latest,
            latest_count: count(self) + count(other),
            volatile: self.volatile + other.volatile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_keep_their_bytes() {
        for ms in [0, 1, 255, 256, 70_368_744_177_663, LAST] {
            let deadline = Deadline(UnixMillis(ms));
            assert_eq!(from_bytes(&to_bytes(deadline)), Some(deadline));
        }
        for (ms, nearest) in [(-1, 0), (i64::MIN, 0), (LAST + 1, LAST), (i64::MAX, LAST)] {
            let nearest = Deadline(UnixMillis(nearest));
            assert_eq!(
                from_bytes(&to_bytes(Deadline(UnixMillis(ms)))),
                Some(nearest)
            );
        }
        assert_eq!(from_bytes(b""), None);
        assert_eq!(from_bytes(b"1234567"), None);
    }

    #[test]
    fn spans_are_bounds() {
        let at = |ms| Deadline(UnixMillis(ms));
        let mut span = Span::EMPTY;
        span.add(at(5));
        span.add(at(3));
        let mut other = Span::EMPTY;
        other.add(at(9));
        other.add(at(4));
        other.add(at(9));
        let both = span.join(other);
        assert_eq!(
            (both.soonest, both.latest, both.volatile),
            (at(3), at(9), 5)
        );
        assert_eq!(both.join(Span::EMPTY), both);
        assert!(!other.remove(at(9)));
        assert!(!other.remove(at(4)));
        assert_eq!(
            (other.soonest, other.latest, other.volatile),
            (at(4), at(9), 1)
        );
        // Of 3 and 5 the latest goes.
        assert!(span.remove(at(5)));
        assert_eq!((span.soonest, span.volatile), (at(3), 1));
        assert!(!span.remove(at(3)));
        assert_eq!(span, Span::EMPTY);
    }
}
