//! The memory limit: `maxmemory`, and making room.
//!
//! What is counted is what the ledger says, but for what is gone and will be freed. It is summed up
//! once a turn; in between only the bytes of entries are, which commands make grow: of the
//! databases that hold any, so that a large setting `databases` costs nothing. Before a
//! command that may need memory (flag `denyoom`), and in every turn, keys give way until there is
//! room: what is due first, then what the policy names. A command waits for so many keys and for so
//! long at most, as `maxmemory-eviction-tenacity` says; the rest is for the turns after it. If no
//! key may go, it is refused.
//!
//! Not here: which key gives way (`store/evict.rs`).

use std::cmp::Ordering;

use super::Engine;
use crate::clock::Clock;
use crate::config::EvictionPolicy;
use crate::resp::error::CommandError;
use crate::store::db::Filed;

/// Keys that give way between two readings of the clock.
const EVICTED_PER_STEP: usize = 16;
/// The setting `maxmemory-eviction-tenacity` by default: then a command waits for so many keys, and
/// for so long, in microseconds.
const TENACITY_DEFAULT: u32 = 10;
const KEYS_BY_DEFAULT: u64 = 64;
const US_BY_DEFAULT: u64 = 500;
/// Each step of the setting above that makes both so much more; below, they follow it. The factor,
/// and the 500 microseconds, are those of Redis.
const GROWTH_PER_STEP: f64 = 1.15;
/// With so much there is no end but the limit.
const TENACITY_MAX: u32 = 100;
/// Entries freed for each that gave way, so that memory follows.
const FREED_PER_EVICTED: usize = 2;
/// Dead keys drawn at a time before anything alive goes, and collections with dead members.
const DUE_DRAWN: usize = 16;
const COLLECTIONS_DRAWN: usize = 1;

/// The error of a command for which there is no memory.
pub const OUT_OF_MEMORY: CommandError =
    CommandError::text("OOM command not allowed when used memory > 'maxmemory'.");

/// How much may be done at a time to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Effort {
    keys: usize,
    us: u64,
}

impl Effort {
    fn of(tenacity: u32) -> Effort {
        if tenacity >= TENACITY_MAX {
            return Effort {
                keys: usize::MAX,
                us: u64::MAX,
            };
        }
        let factor = match tenacity.checked_sub(TENACITY_DEFAULT) {
            Some(above) => GROWTH_PER_STEP.powi(above as i32),
            None => f64::from(tenacity) / f64::from(TENACITY_DEFAULT),
        };
        let times = |amount: u64| (amount as f64 * factor) as u64;
        Effort {
            keys: (times(KEYS_BY_DEFAULT) as usize).max(EVICTED_PER_STEP),
            us: times(US_BY_DEFAULT),
        }
    }
}

/// What is known of the limit.
#[derive(Debug, Default)]
pub struct MemoryLimit {
    /// The limit in bytes; 0 for none.
    limit_bytes: usize,
    /// Bytes of everything but entries, as of this turn.
    other_bytes: usize,
    /// Since when the limit is exceeded, in ms of monotonic time.
    exceeded_since_ms: Option<u64>,
    /// How long it was in all, before that, in ms.
    exceeded_ms: u64,
}

impl Engine {
    /// Whether there is a limit.
    #[inline(always)]
    pub fn has_memory_limit(&self) -> bool {
        self.memory_limit.limit_bytes > 0
    }

    /// The limit in bytes; 0 for none.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.memory_limit.limit_bytes as u64
    }

    /// Takes over the setting.
    pub fn set_memory_limit(&mut self) {
        let bytes = self.config.maxmemory.bytes_of(self.identity.memory_bytes);
        self.memory_limit.limit_bytes = bytes as usize;
        if bytes > 0 {
            self.sum_up_others();
        }
    }

    /// Sums up everything but entries.
    fn sum_up_others(&mut self) {
        let ledger = self.ledger();
        self.memory_limit.other_bytes = ledger.sum() - ledger.entries - ledger.graveyard;
    }

    /// Bytes beyond the limit.
    fn excess_bytes(&self) -> usize {
        let databases = self.keyspace.used_databases();
        let entries = databases.map(|db| db.table.entry_bytes());
        let used = self.memory_limit.other_bytes + entries.sum::<usize>();
        used.saturating_sub(self.memory_limit.limit_bytes)
    }

    /// How long the limit has been exceeded now, and in all, in ms.
    pub fn exceeded_ms(&self) -> (u64, u64) {
        let now_ms = self.reading.monotonic_us / 1000;
        let since = self.memory_limit.exceeded_since_ms;
        let current_ms = since.map_or(0, |since| now_ms.saturating_sub(since));
        (current_ms, self.memory_limit.exceeded_ms + current_ms)
    }

    /// Makes room before a command that may need memory.
    ///
    /// # Errors
    /// If there is none and no key may give way.
    pub fn make_room(&mut self, clock: &mut (impl Clock + ?Sized)) -> Result<(), CommandError> {
        // During CLIENT PAUSE nothing changes.
        if self.excess_bytes() == 0 || self.keyspace.is_frozen {
            return Ok(());
        }
        self.keyspace.ripen(self.reading.now);
        let effort = Effort::of(self.config.eviction_tenacity);
        let mut done = 0;
        let mut until_us = None;
        // Time stands still for the command: the clock only tells how long this takes. Mostly a key
        // or two are enough, and it is not asked.
        let is_over = loop {
            let is_over = self.evict_some(EVICTED_PER_STEP);
            done += EVICTED_PER_STEP;
            if is_over || done >= effort.keys || self.excess_bytes() == 0 {
                break is_over;
            }
            let now_us = clock.read().monotonic_us;
            if now_us >= *until_us.get_or_insert(now_us.saturating_add(effort.us)) {
                break false;
            }
        };
        self.publish_changes();
        // What is left for the turns after this is no reason to refuse.
        if is_over && self.excess_bytes() > 0 {
            return Err(OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Lets up to so many keys give way, as long as there are too many; true if no more may go.
    fn evict_some(&mut self, most: usize) -> bool {
        let policy = self.config.maxmemory_policy;
        let samples = self.config.maxmemory_samples as usize;
        let reading = self.reading;
        let mut done = 0;
        while done < most && self.excess_bytes() > 0 {
            if let Some(removed) = self.remove_due() {
                done += removed.max(1);
            } else if policy != EvictionPolicy::NoEviction
                && self.keyspace.evict(policy, samples, &reading)
            {
                done += 1;
            } else {
                return true;
            }
            self.keyspace.graveyard.dig(FREED_PER_EVICTED);
        }
        false
    }

    /// Removes some of what is due, keys or members, or files what was given more time; how many
    /// keys were removed. None if nothing is due.
    fn remove_due(&mut self) -> Option<usize> {
        let reading = self.reading;
        let databases = self.keyspace.active_databases().iter();
        let mut both = databases.flat_map(|&db| [Filed::Keys, Filed::Members].map(|of| (db, of)));
        let (db, what) = both.find(|(db, what)| {
            let db = self.keyspace.db(usize::from(*db));
            db.index_of(*what).ripe_len() > 0
        })?;
        let (db, drawn) = (usize::from(db), &mut Vec::new());
        if what == Filed::Members {
            self.keyspace
                .expire_members_round(db, &reading, COLLECTIONS_DRAWN, drawn);
            return Some(0);
        }
        let round = self
            .keyspace
            .expire_round(db, &reading, DUE_DRAWN, 0, drawn);
        Some(round.removed)
    }

    /// Sums up what is used, and makes room for a slice.
    pub(super) fn evict_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        if !self.has_memory_limit() {
            self.memory_limit = MemoryLimit {
                exceeded_ms: self.exceeded_ms().1,
                ..MemoryLimit::default()
            };
            return;
        }
        let effort = Effort::of(self.config.eviction_tenacity);
        let until_us = match self.config.eviction_tenacity.cmp(&TENACITY_DEFAULT) {
            Ordering::Less => until_us.min(self.reading.monotonic_us + effort.us),
            Ordering::Equal => until_us,
            Ordering::Greater => until_us.max(self.reading.monotonic_us.saturating_add(effort.us)),
        };
        self.sum_up_others();
        while self.excess_bytes() > 0 && !self.keyspace.is_frozen {
            let is_over = self.evict_some(EVICTED_PER_STEP);
            self.publish_changes();
            self.reading = clock.read();
            if is_over || self.reading.monotonic_us >= until_us {
                break;
            }
        }
        let (_, exceeded_ms) = self.exceeded_ms();
        if self.excess_bytes() == 0 {
            self.memory_limit.exceeded_ms = exceeded_ms;
            self.memory_limit.exceeded_since_ms = None;
        } else if self.memory_limit.exceeded_since_ms.is_none() {
            self.memory_limit.exceeded_since_ms = Some(self.reading.monotonic_us / 1000);
        }
    }
}
