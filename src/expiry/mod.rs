//! Expiry: when a key is due, and which keys fall due next.
//!
//! This folder is arithmetic and an index; it deletes nothing, knows no key and reads no clock.
//! The keyspace files each volatile key here and asks for samples.
//!
//! # Stratified sampling
//!
//! Redis: the active cycle samples volatile keys uniformly, so how long a dead key stays depends
//! on how many live ones it hides among, and no bound can be given. Here the samples are taken
//! where the dead are: items are kept in *strata* by deadline, the near future finely divided,
//! the far future coarsely.
//!
//! ```text
//!        ended | now                 65 s          18 .. 37 h            8.7 years
//!   -----------+----------------------+-------------------+----------------+----------->  deadline
//!     [ ripe ] | A: 8,192 x 8 ms      | B: 4,096 x 32.8 s | C: 4,096 x 19 h| [ beyond ]
//!       FIFO   | [][][][][][][]..[][] | [  ][  ]..[  ][  ]| [    ]..[    ] |
//!         ^    |   |        ^           |          ^        |      ^           |
//!         +--------+        +-----------+          +--------+      +-----------+
//!        a bucket ends:        refiled, item by item, in the width of one bucket before it begins
//!        spliced whole
//!
//!   bucket -> chunk <-> chunk <-> chunk      those with room in front, full ones behind
//!              | 64 hashes, a bitmap of which are taken, the bucket, how many are extended
//! ```
//!
//! * A bucket of ring A whose last millisecond has come is *ripe*: its list of chunks is spliced
//!   to the end of the ripe queue without touching a chunk. Samples are drawn there, oldest first;
//!   whatever is due is deleted, the rest is refiled, so every draw makes progress.
//! * A ring spans two buckets of the next one. So a bucket of B is *coming* while the one before
//!   it is current: its items are refiled into A, in steps, during 32.8 s. If that was not
//!   finished when it begins, what is left counts as ripe and is drawn with priority.
//! * A later deadline is only noted in the entry (*lazy extension*): the item stays where it is,
//!   counted as *extended*, and is refiled when its bucket is drawn. An earlier deadline moves the
//!   item only if it lies before the start of the bucket it is filed in.
//! * A small share of the samples is taken from all items alike, as an audit: it gives an unbiased
//!   estimate of the dead and finds what the strata should have found (`pacing`).
//!
//! Invariants: an item is filed no later than the bucket of its deadline. An item of the ripe
//! queue is due or counted as extended. The number of items is the number of volatile keys.
//!
//! Not here: the table lookup from hash to entry, deleting, events (`store`); when to spend how
//! much is computed in [`pacing`], measured by the caller.

pub mod index;

pub mod forecast;
pub mod pacing;

mod bitmap;
mod chunks;
#[cfg(test)]
mod tests;

use crate::clock::{Reading, UnixMillis};

/// The moment from which a key is dead, in the server's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(pub UnixMillis);

/// Whether something with this deadline is dead at `now`: the one predicate. Commands, expiry of
/// keys and of fields, snapshots and loading all ask here, so that they cannot disagree at the
/// millisecond itself.
#[inline]
pub fn is_due(deadline: Deadline, now: UnixMillis) -> bool {
    deadline.0 <= now
}

/// An instant at which nothing is due: for looking at everything, dead or alive.
pub const ALL_LIVE: UnixMillis = UnixMillis(i64::MIN);

/// What a user's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds: EXPIRE, EX, EXAT.
    Seconds,
    /// Milliseconds: PEXPIRE, PX, PXAT.
    Millis,
}

/// What a user's number counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// From now: a TTL.
    Relative,
    /// From the Unix epoch, by the wall clock.
    Absolute,
}

/// When a key is to die, and how that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// From when on it is dead.
    pub deadline: Deadline,
    /// Whether that was said as a span from now or as a moment.
    pub basis: Basis,
    /// The deadline moves to so many ms from whenever the key is used; at most
    /// [`SLIDING_MS_MAX`]. A deadline that slides has no soft one before it.
    pub sliding_ms: Option<u64>,
    /// From when on the value is stale.
    pub soft: Option<Soft>,
}

/// The last deadline that a field or member may have, in ms; the first is 0. What users may ask for
/// lies between, unless the server's time is ahead of the wall clock.
pub const MEMBER_DEADLINE_MAX: i64 = (1 << 46) - 1;

/// When a field or member is to die, and how that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberTerm {
    /// From when on it is dead.
    pub deadline: Deadline,
    /// Whether that was said as a span from now or as a moment.
    pub basis: Basis,
    /// The era of the wall clock that the deadline belongs to, if it was said as a moment.
    pub era: bool,
}

impl MemberTerm {
    /// Of a deadline that was said on this basis in this era of the wall clock. One beyond
    /// [`MEMBER_DEADLINE_MAX`] is that.
    pub fn new(deadline: Deadline, basis: Basis, era: bool) -> MemberTerm {
        MemberTerm {
            deadline: Deadline(UnixMillis(deadline.0.0.clamp(0, MEMBER_DEADLINE_MAX))),
            basis,
            era,
        }
    }

    /// Whether it was said as a moment, in the other era of the wall clock than this.
    #[inline]
    pub fn is_before(self, era: bool) -> bool {
        self.basis == Basis::Absolute && self.era != era
    }

    /// The same in this era of the wall clock, where deadlines of the other one that were said as
    /// moments are later by so much.
    #[must_use]
    pub fn in_era(self, era: bool, later_ms: i64) -> MemberTerm {
        if !self.is_before(era) {
            return self;
        }
        MemberTerm::new(Deadline(self.deadline.0.plus(later_ms)), self.basis, era)
    }
}

/// The soft deadline of a key: from then on its value is stale, and somebody should refresh it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soft {
    /// How long before the deadline, in ms; at least one, and at most [`SLIDING_MS_MAX`].
    pub before_ms: u64,
    /// It has come, and that was reported.
    pub is_told: bool,
    /// How long before the deadline the right of whoever refreshes the value ends, in ms; zero if
    /// nobody does.
    pub lease_before_ms: u64,
}

impl Soft {
    /// One that has not come yet.
    pub fn new(before_ms: u64) -> Soft {
        Soft {
            before_ms,
            is_told: false,
            lease_before_ms: 0,
        }
    }
}

/// The longest sliding span, in ms: half of what fits 48 bits, so that the way a deadline has slid
/// fits as well.
pub const SLIDING_MS_MAX: u64 = (1 << 47) - 1;

impl Term {
    /// Of a key whose deadline does not move.
    pub fn new(deadline: Deadline, basis: Basis) -> Term {
        Term {
            deadline,
            basis,
            sliding_ms: None,
            soft: None,
        }
    }

    /// From when on the value is stale.
    pub fn soft_deadline(&self) -> Option<Deadline> {
        let before_ms = self.soft?.before_ms as i64;
        Some(Deadline(self.deadline.0.plus(-before_ms)))
    }
}

/// The deadline a user asks for, or `None` where "invalid expire time" is due: the number of
/// milliseconds, or the Unix time it leads to, does not fit 64 bits.
///
/// Zero, negative and past amounts are valid here; commands that refuse them look first.
///
/// An absolute time is kept exactly. The exception is one that would leave the 64-bit range when
/// converted to the server's time, that is, one within the clock offset of either end: it is
/// clamped to that end.
pub fn deadline(amount: i64, unit: Unit, basis: Basis, reading: &Reading) -> Option<Deadline> {
    let ms = match unit {
        Unit::Seconds => amount.checked_mul(1_000)?,
        Unit::Millis => amount,
    };
    if basis == Basis::Absolute {
        return Some(Deadline(reading.from_wall(ms)));
    }
    // The wall clock decides: the user must be able to read the result back as a Unix time.
    if ms > 0 && reading.to_wall(reading.now).checked_add(ms).is_none() {
        return None;
    }
    Some(Deadline(reading.now.plus(ms)))
}

/// What PTTL answers: milliseconds left, zero if due.
pub fn ttl_ms(deadline: Deadline, now: UnixMillis) -> i64 {
    deadline.0.since(now).max(0)
}

/// What TTL answers: seconds left, rounded to the nearest, half up. A live key can have 0.
pub fn ttl_seconds(deadline: Deadline, now: UnixMillis) -> i64 {
    nearest_second(ttl_ms(deadline, now))
}

/// What PEXPIRETIME answers: the deadline as Unix milliseconds. The end of time is itself in
/// every clock, so that the largest deadline is echoed although the clocks differ.
pub fn expiretime_ms(deadline: Deadline, reading: &Reading) -> i64 {
    if deadline.0.0 == i64::MAX {
        return i64::MAX;
    }
    reading.to_wall(deadline.0)
}

/// What EXPIRETIME answers: the deadline as Unix seconds, rounded to the nearest, half up.
pub fn expiretime_seconds(deadline: Deadline, reading: &Reading) -> i64 {
    nearest_second(expiretime_ms(deadline, reading))
}

/// What HTTL and HEXPIRETIME answer instead: seconds, rounded up.
pub fn seconds_up(ms: i64) -> i64 {
    ms.div_euclid(1_000) + i64::from(ms.rem_euclid(1_000) > 0)
}

/// (ms + 500) / 1,000 without the overflow.
fn nearest_second(ms: i64) -> i64 {
    ms.div_euclid(1_000) + i64::from(ms.rem_euclid(1_000) >= 500)
}
