//! Which databases expiry must look at now, and when it must look at the others.
//!
//! A database is *active* if it may have changed since it was last looked at, or if it has
//! something to do: a bucket has ended, a coarse one can be refiled. Each turn looks at the active
//! ones alone, and those with nothing to do until later leave. So the work of a turn grows neither
//! with the setting `databases` nor with how many of them hold deadlines.
//!
//! ```text
//!            note: about to change                 settle: nothing to do before `at`
//!   later  ────────────────────────────>  active  ──────────────────────────────────>  later
//!            wake: `at` has come
//! ```
//!
//! Beside that it knows the databases that are *used*: all that hold anything, and maybe more. What
//! asks all databases for something (a sum, a key drawn from all) asks these.
//!
//! Invariants: a database that is not active has nothing to do before `at`, or ever if it has none;
//! one that is not used is blank.
//!
//! Not here: what there is to do (`expiry`), when a turn comes (`engine::jobs`).

use std::collections::BTreeSet;

use crate::clock::UnixMillis;

/// With so many active databases no others are activated: each costs a turn about a microsecond.
const ACTIVE_MAX: usize = 256;

/// All databases of a keyspace, by number.
#[derive(Default)]
pub struct Schedule {
    active: Vec<u16>,
    is_active: Vec<bool>,
    used: Vec<u16>,
    is_used: Vec<bool>,
    /// When to look at a database; also of an active one, from before it became so.
    at: Vec<Option<UnixMillis>>,
    /// The same in order.
    order: BTreeSet<(UnixMillis, u16)>,
    /// The time of the last [`Schedule::wake`].
    now: UnixMillis,
}

impl Schedule {
    /// Nothing is to be done.
    pub fn new(databases: usize, now: UnixMillis) -> Schedule {
        Schedule {
            active: Vec::new(),
            is_active: vec![false; databases],
            used: Vec::new(),
            is_used: vec![false; databases],
            at: vec![None; databases],
            order: BTreeSet::new(),
            now,
        }
    }

    /// A database may be about to change; true if it was not active.
    #[inline]
    pub fn note(&mut self, db: usize) -> bool {
        let is_new = !self.is_active[db];
        if is_new {
            self.is_active[db] = true;
            self.active.push(db as u16);
            if !std::mem::replace(&mut self.is_used[db], true) {
                self.used.push(db as u16);
            }
        }
        is_new
    }

    /// The databases that hold anything, and maybe others, in no order.
    pub fn used(&self) -> &[u16] {
        &self.used
    }

    /// Whether a database is one of them.
    pub fn is_used(&self, db: usize) -> bool {
        self.is_used[db]
    }

    /// The active databases, in no order.
    pub fn active(&self) -> &[u16] {
        &self.active
    }

    /// Activates the databases whose time has come, as many as a turn can look at; all of them if
    /// the clock went back, as their times mean nothing then.
    pub fn wake(&mut self, now: UnixMillis) {
        let has_gone_back = now < self.now;
        self.now = now;
        while let Some(&(at, db)) = self.order.first() {
            let can_wait = at > now || self.active.len() >= ACTIVE_MAX;
            if can_wait && !has_gone_back {
                break;
            }
            self.put(db, None);
            self.note(usize::from(db));
        }
    }

    /// Lets go of the active databases that have nothing to do now: `look` says when each has, and
    /// whether it is blank.
    pub fn settle(&mut self, mut look: impl FnMut(u16) -> (Option<UnixMillis>, bool)) {
        let mut active = std::mem::take(&mut self.active);
        let mut are_fewer_used = false;
        active.retain(|&db| {
            let (at, is_blank) = look(db);
            let is_due = at.is_some_and(|at| at <= self.now);
            if !is_due {
                self.put(db, at);
                self.is_active[usize::from(db)] = false;
                self.is_used[usize::from(db)] = !is_blank;
                are_fewer_used |= is_blank;
            }
            is_due
        });
        self.active = active;
        if are_fewer_used {
            self.used.retain(|&db| self.is_used[usize::from(db)]);
        }
    }

    /// When the first of those that are not active has something to do, or earlier.
    pub fn next(&self) -> Option<UnixMillis> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Asserts the invariants for one database: `next` is when it has something to do.
    pub fn check(&self, db: usize, next: Option<UnixMillis>, is_blank: bool) {
        assert_eq!(self.is_used[db], self.used.contains(&(db as u16)));
        assert!(self.is_used[db] || is_blank, "database {db}");
        let at = self.at[db];
        assert_eq!(
            at.is_some(),
            at.is_some_and(|at| self.order.contains(&(at, db as u16)))
        );
        assert_eq!(self.is_active[db], self.active.contains(&(db as u16)));
        if !self.is_active[db] {
            assert_eq!(at, next, "database {db}");
        }
    }

    fn put(&mut self, db: u16, at: Option<UnixMillis>) {
        let old = std::mem::replace(&mut self.at[usize::from(db)], at);
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.order.remove(&(old, db));
        }
        if let Some(at) = at {
            self.order.insert((at, db));
        }
    }
}
