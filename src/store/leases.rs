//! Leases on keys that are not there: who may fill them, so that not all who miss do.
//!
//! A lease ends when its key is written or deleted, when its time is over, or when its database is
//! flushed. It is not data: nothing of it is saved.
//!
//! Leases that are over stay until there are twice as many as were left the last time they were
//! looked through. Both that and growing are done for one of many small tables at a time, so that
//! nobody waits for a million leases.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::clock::UnixMillis;

/// Tables that the leases are spread over.
const SHARDS: usize = 1_024;
/// So many of one table are not looked through.
const PURGED_MIN: usize = 64;

#[derive(Default)]
struct Shard {
    leases: HashMap<Box<[u8]>, UnixMillis>,
    /// With so many they are looked through.
    purge_at: usize,
}

/// Leases by key, with when they end.
#[derive(Default)]
pub struct Fills {
    hasher: RandomState,
    /// None before the first lease.
    shards: Vec<Shard>,
}

impl Fills {
    fn shard(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    /// Grants a lease until `until`, unless somebody has one: then it is told when that ends.
    pub fn grant(&mut self, key: &[u8], now: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
        let held = self.held(key, now);
        if held.is_none() {
            self.shards.resize_with(SHARDS, Shard::default);
            let at = self.shard(key);
            let Shard { leases, purge_at } = &mut self.shards[at];
            if leases.len() >= (*purge_at).max(PURGED_MIN) {
                leases.retain(|_, end| *end > now);
                *purge_at = 2 * leases.len();
                leases.shrink_to(*purge_at);
            }
            leases.insert(key.into(), until);
        }
        held
    }

    /// When the lease on a key ends that somebody has.
    pub fn held(&self, key: &[u8], now: UnixMillis) -> Option<UnixMillis> {
        let shard = self.shards.get(self.shard(key))?;
        let end = shard.leases.get(key);
        end.copied().filter(|&end| end > now)
    }

    /// Ends the lease on a key, if there is one.
    #[inline(always)]
    pub fn end(&mut self, key: &[u8]) {
        if !self.shards.is_empty() {
            let at = self.shard(key);
            self.shards[at].leases.remove(key);
        }
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
            assert_eq!(fills.grant(key.as_bytes(), now, until), None);
            assert_eq!(fills.grant(key.as_bytes(), now, until), Some(until));
        }
        let kept = fills.shards.iter().map(|shard| shard.leases.len());
        assert!(kept.sum::<usize>() <= SHARDS * PURGED_MIN);
        fills.end(b"k999999");
        assert_eq!(fills.held(b"k999999", UnixMillis(1_000_000)), None);
        assert!(fills.held(b"k999998", UnixMillis(1_000_000)).is_some());
    }
}
