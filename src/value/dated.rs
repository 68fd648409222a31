//! Deadlines of elements: their bytes, and what is known of those of a piece and of all pieces of a
//! big collection.

use std::cell::Cell;

use super::size_class;
use crate::clock::UnixMillis;
use crate::expiry::index::ItemRef;
use crate::expiry::{Basis, Deadline, MEMBER_DEADLINE_MAX, MemberTerm, is_due};
use crate::heap::{ShouldMove, relocate_vec};

/// Bytes of a stored term, little-endian: milliseconds, and two flags at the top.
pub const TERM_BYTES: usize = 6;
/// Set if the deadline was given as a moment.
const ABSOLUTE: u64 = 1 << 47;
/// Its era then.
const ERA: u64 = 1 << 46;
const _: () = assert!(ERA as i64 > MEMBER_DEADLINE_MAX);

/// The bytes of a term.
pub fn to_bytes(term: MemberTerm) -> [u8; TERM_BYTES] {
    let is_absolute = term.basis == Basis::Absolute;
    let flags = match (is_absolute, term.era) {
        (false, _) => 0,
        (true, false) => ABSOLUTE,
        (true, true) => ABSOLUTE | ERA,
    };
    let bits = term.deadline.0.0 as u64 | flags;
    let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
    [a, b, c, d, e, f]
}

/// The term of these bytes; none if there are not [`TERM_BYTES`] of them.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Option<MemberTerm> {
    let &[a, b, c, d, e, f] = bytes else {
        return None;
    };
    let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let deadline = Deadline(UnixMillis((bits & (ERA - 1)) as i64));
    let basis = match bits & ABSOLUTE {
        0 => Basis::Relative,
        _ => Basis::Absolute,
    };
    Some(MemberTerm::new(deadline, basis, bits & ERA != 0))
}

/// Rewrites the bytes of a term for another era, where moments of the former one are later by so
/// much; whether that has changed it.
pub fn shift(bytes: &mut [u8], era: bool, later_ms: i64) -> bool {
    let Some(old) = from_bytes(bytes) else {
        return false;
    };
    let new = old.in_era(era, later_ms);
    bytes.copy_from_slice(&to_bytes(new));
    new != old
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

/// What is known of the deadlines of a big collection, whose elements are in numbered pieces. The
/// pieces themselves are asked for what is not known (a *survey*: how many elements of a piece are
/// due, and the span of the others).
#[derive(Clone, Debug)]
pub struct Dates {
    /// Of each piece, side by side, so that those which may hold due elements are found without
    /// touching a piece.
    spans: Vec<Span>,
    /// No deadline is earlier.
    soonest: Deadline,
    /// No deadline is later.
    latest: Deadline,
    /// Elements that have one.
    volatile: usize,
    /// Where the search for due elements goes on.
    next: usize,
    /// Where the keyspace has filed the collection.
    filed: Option<(Deadline, ItemRef)>,
    /// How many were due when they were last counted.
    counted: Cell<Option<DueCount>>,
}

/// A number of due elements, from one moment until before another at which there may be more.
#[derive(Clone, Copy, Debug)]
struct DueCount {
    from: UnixMillis,
    before: Deadline,
    due: usize,
}

impl Dates {
    /// Of so many pieces without deadlines.
    pub fn new(pieces: usize) -> Dates {
        Dates {
            spans: vec![Span::EMPTY; pieces],
            soonest: Span::EMPTY.soonest,
            latest: Span::EMPTY.latest,
            volatile: 0,
            next: 0,
            filed: None,
            counted: Cell::new(None),
        }
    }

    /// How many elements have a deadline.
    pub fn volatile(&self) -> usize {
        self.volatile
    }

    /// A deadline that no element's is before, if any has one; the soonest one after
    /// [`Dates::next_due`] has found no piece.
    pub fn soonest(&self) -> Option<Deadline> {
        (self.volatile > 0).then_some(self.soonest)
    }

    /// Where the keyspace has filed the collection by the deadline of an element.
    pub fn filed(&self) -> Option<(Deadline, ItemRef)> {
        self.filed
    }

    /// Notes where the keyspace has filed the collection.
    pub fn set_filed(&mut self, filed: Option<(Deadline, ItemRef)>) {
        self.filed = filed;
    }

    /// An element of a piece has got this deadline.
    pub fn add(&mut self, piece: usize, deadline: Deadline) {
        self.counted.set(None);
        self.spans[piece].add(deadline);
        self.soonest = self.soonest.min(deadline);
        self.latest = self.latest.max(deadline);
        self.volatile += 1;
    }

    /// An element of a piece has this deadline no more; `survey` gives the piece's span.
    pub fn leave_out(&mut self, piece: usize, deadline: Deadline, survey: impl FnOnce() -> Span) {
        self.counted.set(None);
        if self.spans[piece].remove(deadline) {
            self.spans[piece] = survey();
        }
        self.volatile -= 1;
    }

    /// So many elements of a piece were removed as they were due; those left have this span.
    pub fn expired(&mut self, piece: usize, dead: usize, span: Span) {
        self.counted.set(None);
        self.spans[piece] = span;
        self.volatile -= dead;
    }

    /// A piece has gone, with all elements that are still in it.
    pub fn forget(&mut self, piece: usize) {
        let span = self.spans[piece];
        self.expired(piece, span.volatile, Span::EMPTY);
    }

    /// Elements have moved between pieces: one piece has this span now.
    pub fn set_span(&mut self, piece: usize, span: Span) {
        self.spans[piece] = span;
    }

    /// There is one more piece, to or from which elements have moved.
    pub fn push(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// All elements of one piece have moved to another; the last piece takes its number.
    pub fn merge(&mut self, into: usize, from: usize) {
        self.spans[into] = self.spans[into].join(self.spans[from]);
        self.spans.swap_remove(from);
    }

    /// Gives memory back, but for so many pieces.
    pub fn shrink_to(&mut self, pieces: usize) {
        self.spans.shrink_to(pieces);
    }

    /// Finds the soonest and the latest deadline anew.
    pub fn measure(&mut self) {
        let whole = self.spans.iter().copied().fold(Span::EMPTY, Span::join);
        (self.soonest, self.latest) = (whole.soonest, whole.latest);
    }

    /// Deadlines of a piece have moved: it has this span now. [Measuring](Dates::measure) must
    /// follow.
    pub fn moved(&mut self, piece: usize, span: Span) {
        self.counted.set(None);
        self.spans[piece] = span;
    }

    /// The next piece that may hold due elements. With none, the soonest and the latest deadline
    /// are found anew.
    pub fn next_due(&mut self, now: UnixMillis) -> Option<usize> {
        let start = self.next.min(self.spans.len());
        let (before, from) = self.spans.split_at(start);
        let may_hold_due = |span: &Span| is_due(span.soonest, now);
        let found = from.iter().position(may_hold_due).map(|at| start + at);
        let Some(at) = found.or_else(|| before.iter().position(may_hold_due)) else {
            self.measure();
            return None;
        };
        self.next = at;
        Some(at)
    }

    /// How many elements are due. Surveys the pieces that hold both due and living ones, and
    /// remembers the number until one more may be due: removing them can be held up for long.
    pub fn dead(&self, now: UnixMillis, survey: impl Fn(usize) -> (usize, Span)) -> usize {
        if !is_due(self.soonest, now) {
            return 0;
        }
        let known = self.counted.get();
        if let Some(known) = known.filter(|known| known.from <= now && !is_due(known.before, now)) {
            return known.due;
        }
        let mut count = DueCount {
            from: now,
            before: Span::EMPTY.soonest,
            due: 0,
        };
        for piece in 0..self.spans.len() {
            let (due, soonest) = self.dead_in(piece, now, &survey);
            count.due += due;
            count.before = count.before.min(soonest);
        }
        self.counted.set(Some(count));
        count.due
    }

    /// How many elements of a piece are due, and a time before which there are no more.
    pub fn dead_in(
        &self,
        piece: usize,
        now: UnixMillis,
        survey: impl Fn(usize) -> (usize, Span),
    ) -> (usize, Deadline) {
        let span = self.spans[piece];
        if span.volatile > 0 && is_due(span.latest, now) {
            (span.volatile, Span::EMPTY.soonest)
        } else if is_due(span.soonest, now) {
            let (due, living) = survey(piece);
            (due, living.soonest)
        } else {
            (0, span.soonest)
        }
    }

    /// Whether there are as many elements as this, and all are due.
    pub fn are_all_due(&self, elements: usize, now: UnixMillis) -> bool {
        if elements == 0 || self.volatile != elements || !is_due(self.soonest, now) {
            return false;
        }
        let is_dead = |span: &Span| span.volatile == 0 || is_due(span.latest, now);
        is_due(self.latest, now) || self.spans.iter().all(is_dead)
    }

    /// From when, and until when, a number of due elements is remembered, if one is.
    #[cfg(test)]
    pub fn counted(&self) -> Option<(i64, i64)> {
        let count = self.counted.get()?;
        Some((count.from.0, count.before.0.0))
    }

    /// Moves what `should_move` says.
    pub fn relocate(&mut self, should_move: ShouldMove<'_>) {
        relocate_vec(&mut self.spans, should_move);
    }

    /// Bytes of memory it takes, in a box.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(size_of::<Dates>())
            + size_class::of(self.spans.capacity() * size_of::<Span>())
    }

    /// Asserts that what is known agrees with the surveys of all pieces; for tests.
    pub fn check(&self, surveys: impl ExactSizeIterator<Item = Span>) {
        assert_eq!(self.spans.len(), surveys.len());
        let mut whole = Span::EMPTY;
        for (known, exact) in self.spans.iter().zip(surveys) {
            assert!(known.soonest <= exact.soonest);
            let mut known = *known;
            known.soonest = exact.soonest;
            assert_eq!(known, exact);
            whole = whole.join(exact);
        }
        assert_eq!(self.volatile, whole.volatile);
        assert!(self.soonest <= whole.soonest && self.latest >= whole.latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_keep_their_bytes() {
        let all = [
            (Basis::Relative, false),
            (Basis::Absolute, false),
            (Basis::Absolute, true),
        ];
        for (basis, era) in all {
            let term = |ms| MemberTerm::new(Deadline(UnixMillis(ms)), basis, era);
            for ms in [0, 1, 255, 256, MEMBER_DEADLINE_MAX] {
                assert_eq!(from_bytes(&to_bytes(term(ms))), Some(term(ms)));
            }
            for (ms, nearest) in [(-1, 0), (i64::MIN, 0), (i64::MAX, MEMBER_DEADLINE_MAX)] {
                assert_eq!(term(ms), term(nearest));
                assert_eq!(from_bytes(&to_bytes(term(ms))), Some(term(nearest)));
            }
            let mut bytes = to_bytes(term(1_000));
            let moves = basis == Basis::Absolute && !era;
            assert_eq!(shift(&mut bytes, true, -400), moves);
            let left = if moves { 600 } else { 1_000 };
            assert_eq!(from_bytes(&bytes).unwrap().deadline.0.0, left);
            assert!(!shift(&mut bytes, true, -400));
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
