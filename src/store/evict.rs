//! Which key gives way when memory is full.
//!
//! Of the policies by use (LRU, LFU, and LRM, for which only writes are uses) some keys are drawn
//! at random, and the best of them join a pool of those drawn before, of which the one goes that
//! was used longest ago, or most seldom. So each draw adds to what is known, and few draws come
//! close to the true order (the approximation that Redis made known). What is due is not looked for
//! here: it has gone before.
//!
//! A count of uses is logarithmic and decays: eight bits of a count, eight of the minute in which
//! it last decayed, in the place of the access clock. A use adds one with a chance of one in
//! `count * factor`, and a minute without takes one away (Morris, CACM 21, 1978, counts so).
//!
//! Invariant: a candidate of the pool may be gone or used since; it is looked at again before it
//! goes.

use rand::RngExt;

use super::change::Event;
use super::entry::Slot;
use super::keyspace::Keyspace;
use crate::clock::{Reading, UnixMillis};
use crate::config::EvictionPolicy;

/// Candidates that are remembered.
const POOL: usize = 16;
/// Keys looked at for the soonest deadline.
const SOONEST: usize = 64;
/// The count of a new key: it must have a chance.
const COUNT_OF_NEW: u8 = 5;

/// A key that may give way.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The greater, the sooner it goes.
    score: u32,
    db: usize,
    hash: u64,
}

/// How uses are counted, and what is known of those that may give way.
#[derive(Debug, Default)]
pub struct Eviction {
    /// Uses are counted, and not only dated.
    pub(super) counts_uses: bool,
    /// Only writes are uses, and dated.
    pub(super) dates_writes: bool,
    log_factor: u32,
    decay_minutes: u32,
    /// In ascending order of their scores.
    pool: Vec<Candidate>,
}

impl Eviction {
    /// Takes over settings: whether uses are counted, how large a count grows, and after how many
    /// minutes it falls by one; 0 for never.
    pub fn configure(&mut self, policy: EvictionPolicy, log_factor: u32, decay_minutes: u32) {
        self.counts_uses = policy.counts_uses();
        self.dates_writes = policy.dates_writes();
        (self.log_factor, self.decay_minutes) = (log_factor, decay_minutes);
        self.pool.clear();
    }

    /// The clock of a key that is new.
    pub(super) fn new_clock(&self, now: UnixMillis) -> u16 {
        u16::from(minute(now)) << 8 | u16::from(COUNT_OF_NEW)
    }

    /// How often a key is used, from its clock.
    pub fn count(&self, clock: u16, now: UnixMillis) -> u8 {
        let [count, at] = clock.to_le_bytes();
        let minutes = u32::from(minute(now).wrapping_sub(at));
        let fallen = minutes.checked_div(self.decay_minutes).unwrap_or(0);
        count.saturating_sub(fallen.min(255) as u8)
    }

    /// The clock of a key after one more use; `draw` is any number.
    pub(super) fn used(&self, clock: u16, now: UnixMillis, draw: u32) -> u16 {
        let mut count = self.count(clock, now);
        let above = u64::from(count.saturating_sub(COUNT_OF_NEW));
        let odds = above * u64::from(self.log_factor) + 1;
        if count < u8::MAX && u64::from(draw) * odds <= u64::from(u32::MAX) {
            count += 1;
        }
        u16::from(minute(now)) << 8 | u16::from(count)
    }

    /// The greater, the sooner a key goes: how long ago it was used, in seconds, or how seldom.
    /// `at` is the clock of a key that is used now, and now.
    fn score(&self, policy: EvictionPolicy, slot: &Slot, at: (u16, UnixMillis)) -> u32 {
        if policy.counts_uses() {
            return u32::from(u8::MAX - self.count(slot.clock(), at.1));
        }
        at.0.wrapping_sub(slot.clock()).into()
    }

    fn would_remember(&self, score: u32) -> bool {
        self.pool.len() < POOL || self.pool.first().is_some_and(|worst| score > worst.score)
    }

    fn remember(&mut self, candidate: Candidate) {
        let is_known = |other: &Candidate| (other.db, other.hash) == (candidate.db, candidate.hash);
        self.pool.retain(|other| !is_known(other));
        let at = self
            .pool
            .partition_point(|other| other.score < candidate.score);
        self.pool.insert(at, candidate);
        if self.pool.len() > POOL {
            self.pool.remove(0);
        }
    }
}

/// Minutes since 1970, of which the count of a clock is a part.
fn minute(now: UnixMillis) -> u8 {
    now.0.div_euclid(60_000) as u8
}

impl Keyspace {
    /// Removes a key by a policy; false if there is none that may go.
    pub fn evict(&mut self, policy: EvictionPolicy, samples: usize, reading: &Reading) -> bool {
        let victim = match policy {
            EvictionPolicy::NoEviction => return false,
            EvictionPolicy::AllkeysRandom | EvictionPolicy::VolatileTtl => None,
            EvictionPolicy::VolatileRandom => self.draw_volatile(1).pop(),
            _ => self.least_used(policy, samples, reading),
        };
        // Where few places of many are taken, draws may find none; but there may be one.
        let victim = victim.or_else(|| match policy.is_volatile() {
            true => self.soonest(),
            false => self.draw_key(),
        });
        let Some((db, hash)) = victim else {
            return false;
        };
        self.schedule.note(db);
        let Keyspace {
            dbs,
            cut,
            graveyard,
            changes,
            effects,
            stats,
            ..
        } = self;
        dbs[db].remove_by(
            Some(cut),
            graveyard,
            hash,
            |_| true,
            |slot| {
                changes.record(db as u16, Event::EVICTED, slot.key());
                effects.delete(db, slot.key());
                stats.evicted += 1;
            },
        )
    }

    /// A database, drawn with the chance of its share of `len`.
    fn draw_database(&mut self, len: fn(&super::db::Db) -> usize) -> Option<usize> {
        let all: usize = self.used_databases().map(len).sum();
        if all == 0 {
            return None;
        }
        let mut left = self.rng.random_range(0..all);
        let mut used = self.schedule.used().iter().map(|&db| usize::from(db));
        used.find(|&db| {
            let len = len(&self.dbs[db]);
            let is_it = left < len;
            left = left.saturating_sub(len);
            is_it
        })
    }

    fn draw_key(&mut self) -> Option<(usize, u64)> {
        let db = self.draw_database(|db| db.table.len())?;
        let Keyspace { dbs, rng, .. } = self;
        let slot = dbs[db].table.random(rng)?;
        Some((db, self.placement.hash(slot.key())))
    }

    fn draw_volatile(&mut self, k: usize) -> Vec<(usize, u64)> {
        let Some(db) = self.draw_database(|db| db.index.len()) else {
            return Vec::new();
        };
        let Keyspace { dbs, rng, .. } = self;
        let mut drawn = Vec::new();
        dbs[db].index.draw_all(rng, k, &mut drawn);
        drawn.into_iter().map(|(_, hash)| (db, hash)).collect()
    }

    /// A key with the soonest deadline, to the width of a bucket of many.
    fn soonest(&self) -> Option<(usize, u64)> {
        let mut best: Option<(UnixMillis, usize, u64)> = None;
        for &db in self.schedule.used() {
            let db = usize::from(db);
            let database = &self.dbs[db];
            let Some(bucket) = database.index.soonest().next() else {
                continue;
            };
            let mut drawn = Vec::new();
            database.index.draw_of(&bucket, SOONEST, &mut drawn);
            for (_, at, hash) in self.found(db, &drawn) {
                if best.is_none_or(|(soonest, ..)| at.0 < soonest) {
                    best = Some((at.0, db, hash));
                }
            }
        }
        best.map(|(_, db, hash)| (db, hash))
    }

    fn least_used(
        &mut self,
        policy: EvictionPolicy,
        samples: usize,
        reading: &Reading,
    ) -> Option<(usize, u64)> {
        if policy.is_volatile() {
            let drawn = self.draw_volatile(samples);
            for (db, hash) in drawn {
                if let Some(score) = self.score(policy, (db, hash), reading) {
                    self.eviction.remember(Candidate { score, db, hash });
                }
            }
        } else {
            self.sample_keys(policy, samples, reading);
        }
        while let Some(candidate) = self.eviction.pool.pop() {
            let place = (candidate.db, candidate.hash);
            // One that was used since is a candidate no more.
            let score = self.score(policy, place, reading);
            if score.is_some_and(|score| score >= candidate.score) {
                return Some(place);
            }
        }
        None
    }

    fn sample_keys(&mut self, policy: EvictionPolicy, samples: usize, reading: &Reading) {
        let Some(db) = self.draw_database(|db| db.table.len()) else {
            return;
        };
        let clock = self.clock(reading);
        let Keyspace {
            dbs,
            rng,
            eviction,
            placement,
            ..
        } = self;
        for slot in dbs[db].table.sample(rng, samples) {
            let score = eviction.score(policy, slot, (clock, reading.now));
            // Most that are drawn are no better than those that are known.
            if eviction.would_remember(score) {
                let hash = placement.hash(slot.key());
                eviction.remember(Candidate { score, db, hash });
            }
        }
    }

    fn score(
        &self,
        policy: EvictionPolicy,
        (db, hash): (usize, u64),
        reading: &Reading,
    ) -> Option<u32> {
        let slot = self.dbs.get(db)?.table.find_by(hash, |_| true)?;
        if policy.is_volatile() && slot.deadline().is_none() {
            return None;
        }
        let at = (self.clock(reading), reading.now);
        Some(self.eviction.score(policy, slot, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(log_factor: u32, decay_minutes: u32) -> Eviction {
        let mut eviction = Eviction::default();
        eviction.configure(EvictionPolicy::AllkeysLfu, log_factor, decay_minutes);
        eviction
    }

    #[test]
    fn counts_grow_more_slowly_the_larger_they_are() {
        let now = UnixMillis(1_700_000_000_000);
        let eviction = counting(10, 1);
        let mut clock = eviction.new_clock(now);
        let mut draw = 1_u32;
        let mut counts = Vec::new();
        for uses in 1..=1_000_000 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            clock = eviction.used(clock, now, draw);
            if [100, 1_000, 100_000, 1_000_000].contains(&uses) {
                counts.push(eviction.count(clock, now));
            }
        }
        // What redis.conf tells of factor 10: 10, 18, 142, 255.
        let near = [(5..20), (12..30), (110..180), (250..256)];
        for (count, near) in counts.iter().zip(near) {
            assert!(near.contains(&i32::from(*count)), "{counts:?}");
        }
        // And they fall.
        let later = now.plus(10 * 60_000);
        assert_eq!(eviction.count(clock, later), counts[3] - 10);
        assert_eq!(counting(10, 0).count(clock, later), counts[3]);
        assert_eq!(counting(10, 2).count(clock, later), counts[3] - 5);
    }
}
