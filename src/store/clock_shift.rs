//! What becomes of deadlines when the wall clock is set.
//!
//! Deadlines are kept in the server's own time, which never jumps: a TTL lasts as long as was said.
//! But what was given as a moment (EXPIREAT, PXAT, and all that comes from a file) means the wall
//! clock. When that is set, such deadlines are moved, in steps between commands: half a second or
//! so for ten million keys. Each step of the clock begins an *era*, and an entry knows in which of
//! two its deadline was given or moved, so that none is moved twice, and none that was given since.
//! Each field and member knows it likewise. Those of a collection are moved together.
//!
//! The wall clock must be off by a second for that.
//!
//! Invariant: but for those that are still to be moved, all deadlines are of the current era.

use super::keyspace::Keyspace;
use super::members;
use super::table::Walk;
use crate::clock::Reading;
use crate::expiry::Basis;

/// Deadlines follow the wall clock when it is so far from where it was, in ms.
const STEP_MS: i64 = 1_000;
/// Buckets of a table looked at in a step.
const BUCKETS_PER_STEP: usize = 512;

/// Which deadlines are given in which offset of the wall clock, and which are still to be moved.
pub(super) struct Shift {
    /// The offset of the current era.
    offset_ms: i64,
    /// The databases that are left, the current one last.
    left: Vec<usize>,
    walk: Walk,
}

impl Shift {
    /// Nothing to be moved.
    pub(super) fn new(offset_ms: i64) -> Shift {
        Shift {
            offset_ms,
            left: Vec::new(),
            walk: Walk::default(),
        }
    }
}

impl Keyspace {
    /// Begins a new era if the wall clock was set. To be called with each reading before a command
    /// that may give a deadline gets it.
    #[inline]
    pub fn follow_wall(&mut self, reading: &Reading) {
        let moved_ms = reading.wall_offset_ms - self.shift.offset_ms;
        if moved_ms.abs() >= STEP_MS {
            self.begin_era(moved_ms);
        }
    }

    #[cold]
    fn begin_era(&mut self, moved_ms: i64) {
        // There are two eras only.
        while self.is_shifting() {
            self.shift_step();
        }
        self.shift.offset_ms += moved_ms;
        self.look_at_all();
        for db in &mut self.dbs {
            (db.era, db.shift_ms) = (!db.era, -moved_ms);
            db.is_shifting = true;
        }
    }

    /// Looks at all databases for deadlines to be moved, from the beginning.
    pub(super) fn look_at_all(&mut self) {
        self.shift.left = (0..self.dbs.len()).collect();
        self.shift.walk = Walk::default();
    }

    /// Whether deadlines are to be moved.
    #[inline]
    pub fn is_shifting(&self) -> bool {
        !self.shift.left.is_empty()
    }

    /// Moves some of them.
    pub fn shift_step(&mut self) {
        let Some(&number) = self.shift.left.last() else {
            return;
        };
        let Keyspace {
            dbs,
            shift,
            schedule,
            ..
        } = self;
        let db = &mut dbs[number];
        let is_mortal = !db.index.is_empty() || !db.members.is_empty();
        if is_mortal {
            let (mut found, mut collections) = (Vec::new(), Vec::new());
            let (index, dated, era) = (&db.index, &db.members, db.era);
            db.table.walk(&mut shift.walk, BUCKETS_PER_STEP, |slot| {
                if slot.basis() == Some(Basis::Absolute)
                    && slot.era() != era
                    && let Some(item) = slot.item()
                {
                    found.push((item, index.hash(item)));
                }
                if let Some((_, item)) = members::filed(slot) {
                    collections.push((item, dated.hash(item)));
                }
                true
            });
            found.into_iter().for_each(|item| db.shift(item));
            collections
                .into_iter()
                .for_each(|item| db.shift_members(item));
            schedule.note(number);
        }
        if !is_mortal || shift.walk.is_done() {
            shift.left.pop();
            shift.walk = Walk::default();
        }
        if shift.left.is_empty() {
            dbs.iter_mut().for_each(|db| db.is_shifting = false);
        }
    }
}
