//! Leases on keys that are not there: who may fill them, so that not all who miss do.
//!
//! A lease ends when its key is written or deleted, when its time is over, or when its database is
//! flushed or exchanged. It is not data: nothing of it is saved.
//!
//! Leases that are over stay until there are twice as many as were left the last time they were
//! looked through, so that one costs constant time on average.

use std::collections::HashMap;

use crate::clock::UnixMillis;

/// So many are not looked through.
const PURGED_MIN: usize = 1_024;

/// Leases by database and key, with when they end.
pub struct Fills {
    leases: HashMap<(usize, Box<[u8]>), UnixMillis>,
    purge_at: usize,
}

impl Default for Fills {
    fn default() -> Fills {
        Fills {
            leases: HashMap::new(),
            purge_at: PURGED_MIN,
        }
    }
}

impl Fills {
    /// Grants a lease until `until`, unless somebody has one: then it is told when that ends.
    pub fn grant(
        &mut self,
        db: usize,
        key: &[u8],
        now: UnixMillis,
        until: UnixMillis,
    ) -> Option<UnixMillis> {
        let held = self.held(db, key, now);
        if held.is_none() {
            if self.leases.len() >= self.purge_at {
                self.leases.retain(|_, end| *end > now);
                self.purge_at = PURGED_MIN.max(2 * self.leases.len());
                self.leases.shrink_to(self.purge_at);
            }
            self.leases.insert((db, key.into()), until);
        }
        held
    }

    /// When the lease on a key ends that somebody has.
    pub fn held(&self, db: usize, key: &[u8], now: UnixMillis) -> Option<UnixMillis> {
        let end = self.leases.get(&(db, Box::from(key)));
        end.copied().filter(|&end| end > now)
    }

    /// Ends the lease on a key, if there is one.
    #[inline(always)]
    pub fn end(&mut self, db: usize, key: &[u8]) {
        if !self.leases.is_empty() {
            self.leases.remove(&(db, Box::from(key)));
        }
    }

    /// Ends all leases of a database.
    pub fn clear(&mut self, db: usize) {
        self.leases.retain(|(other, _), _| *other != db);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_are_over_do_not_pile_up() {
        let mut fills = Fills::default();
        for ms in 0..1_000_000 {
            let key = format!("k{ms}");
            let (now, until) = (UnixMillis(ms), UnixMillis(ms + 100));
            assert_eq!(fills.grant(0, key.as_bytes(), now, until), None);
            assert_eq!(fills.grant(0, key.as_bytes(), now, until), Some(until));
            assert!(fills.leases.len() <= PURGED_MIN);
        }
        fills.clear(1);
        assert!(!fills.leases.is_empty());
        fills.clear(0);
        assert!(fills.leases.is_empty());
    }
}
