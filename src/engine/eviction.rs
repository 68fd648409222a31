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
/// Dead items drawn at a time before anything alive goes.
const DUE_DRAWN: usize = 16;

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
        let effort = Effort::of(self.config.eviction_tenacity);
        let mut gone = 0;
        let mut until_us = None;
        // Time stands still for the command: the clock only tells how long this takes. Mostly a key
        // or two are enough, and it is not asked.
        loop {
            let step = self.evict_some(EVICTED_PER_STEP);
            gone += step;
            if step < EVICTED_PER_STEP || gone >= effort.keys || self.excess_bytes() == 0 {
                break;
            }
            let now_us = clock.read().monotonic_us;
            if now_us >= *until_us.get_or_insert(now_us.saturating_add(effort.us)) {
                break;
            }
        }
        self.publish_changes();
        if gone > 0 || self.excess_bytes() == 0 {
            return Ok(());
        }
        Err(OUT_OF_MEMORY)
    }

    /// Lets up to so many keys give way, as long as there are too many; how many did.
    fn evict_some(&mut self, most: usize) -> usize {
        let policy = self.config.maxmemory_policy;
        let samples = self.config.maxmemory_samples as usize;
        let reading = self.reading;
        let mut gone = 0;
        while gone < most && self.excess_bytes() > 0 {
            let due = self.remove_due();
            if due > 0 {
                gone += due;
            } else if policy != EvictionPolicy::NoEviction
                && self.keyspace.evict(policy, samples, &reading)
            {
                gone += 1;
            } else {
                break;
            }
            self.keyspace.graveyard.dig(FREED_PER_EVICTED);
        }
        gone
    }

    /// Removes some of what is due; how many keys those were.
    fn remove_due(&mut self) -> usize {
        let reading = self.reading;
        let databases = self.keyspace.active_databases().iter();
        let ripe = databases
            .map(|&db| usize::from(db))
            .find(|&db| self.keyspace.db(db).index.ripe_len() > 0);
        let Some(db) = ripe else {
            return 0;
        };
        let round = self
            .keyspace
            .expire_round(db, &reading, DUE_DRAWN, 0, &mut Vec::new());
        round.removed
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
        let ledger = self.ledger();
        self.memory_limit.other_bytes = ledger.sum() - ledger.entries - ledger.graveyard;
        while self.excess_bytes() > 0 && !self.keyspace.is_frozen {
            let gone = self.evict_some(EVICTED_PER_STEP);
            self.publish_changes();
            self.reading = clock.read();
            if gone == 0 || self.reading.monotonic_us >= until_us {
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
