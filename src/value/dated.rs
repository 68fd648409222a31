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
/// looks at all the others each time: so the ends of the span are bounds, exact after a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// No deadline is earlier.
    pub soonest: Deadline,
    /// No deadline is later.
    pub latest: Deadline,
    /// Elements that have one, exactly.
    pub volatile: usize,
}

impl Span {
    /// Of no elements.
    pub const EMPTY: Span = Span {
        soonest: Deadline(UnixMillis(i64::MAX)),
        latest: Deadline(UnixMillis(i64::MIN)),
        volatile: 0,
    };

    /// Takes in an element.
    pub fn add(&mut self, deadline: Deadline) {
        self.soonest = self.soonest.min(deadline);
        self.latest = self.latest.max(deadline);
        self.volatile += 1;
    }

    /// Leaves out an element.
    pub fn remove(&mut self) {
        self.volatile -= 1;
        if self.volatile == 0 {
            *self = Span::EMPTY;
        }
    }

    /// The span of both.
    pub fn join(self, other: Span) -> Span {
        Span {
            soonest: self.soonest.min(other.soonest),
            latest: self.latest.max(other.latest),
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
        let other = Span {
            soonest: at(4),
            latest: at(9),
            volatile: 1,
        };
        let both = span.join(other);
        assert_eq!(
            (both.soonest, both.latest, both.volatile),
            (at(3), at(9), 3)
        );
        assert_eq!(both.join(Span::EMPTY), both);
        span.remove();
        assert_eq!((span.soonest, span.volatile), (at(3), 1));
        span.remove();
        assert_eq!(span, Span::EMPTY);
    }
}
