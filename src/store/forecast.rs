//! When keys will die: the forecasts of INFO and EXPIRY. The index knows the buckets
//! (`expiry/forecast.rs`); here the deadlines that it does not know are looked up in the entries.
//!
//! All questions look up a bounded number of keys, whatever there is.
//!
//! ```text
//! forecast   how many keys, and about how many bytes, until when     all databases or one
//! due_in     which keys, the soonest first
//! nearest    when the next one
//! ```

use std::ops::Range;

use super::Keyspace;
use super::entry::Slot;
use super::live::memory_of;
use crate::clock::UnixMillis;
use crate::expiry::Deadline;
use crate::expiry::forecast::{Forecast, Sample};
use crate::expiry::index::ItemRef;

/// Keys looked up for the counts, about: some hundred microseconds.
pub const LOOKUPS_MAX: usize = 4_096;
/// Keys looked up for the next deadline.
pub const NEAREST_LOOKUPS_MAX: usize = 1_024;
/// Keys looked up for the sizes of what falls due, and as many more of each range of time of which
/// these are fewer, if there are.
const SIZED_MAX: usize = 1_024;
const SIZED_IN_RANGE: usize = 32;

/// When the next key dies: not before `min`, and not after `max`. They are equal unless so many
/// keys came into question that not all of them were looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The lower bound.
    pub min: UnixMillis,
    /// The upper bound.
    pub max: UnixMillis,
}

/// What falls due in a range of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// How many keys.
    pub keys: usize,
    /// Bytes of memory that they take, keys and values; from a sample.
    pub bytes: usize,
}

/// A key that will die.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mortal {
    /// When.
    pub deadline: Deadline,
    /// In which database it is.
    pub db: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// Keys that die in a window of time, the soonest first.
#[derive(Clone, Debug)]
pub struct Listing {
    /// All of them, or those that die before `complete_until` and some others.
    pub keys: Vec<Mortal>,
    /// Set if there are more than were asked for, or than could be looked up.
    pub complete_until: Option<UnixMillis>,
}

/// How much may be listed, and looked up for that.
struct Allowance {
    count: usize,
    lookups: usize,
}

impl Keyspace {
    /// The databases of a range that have keys with a deadline.
    fn mortal(&self, dbs: Range<usize>) -> Vec<usize> {
        dbs.filter(|&db| !self.dbs[db].index.is_empty()).collect()
    }

    /// How many keys of some databases die until each of these moments, which ascend; those that
    /// are dead and not removed yet among them. Exact if no more than [`LOOKUPS_MAX`] keys have to
    /// be looked up.
    pub fn due_until(&mut self, dbs: Range<usize>, moments: &[UnixMillis]) -> Vec<usize> {
        let mut sums = vec![0; moments.len()];
        let forecasts: Vec<(usize, Forecast)> = self
            .mortal(dbs)
            .into_iter()
            .map(|db| (db, self.dbs[db].index.forecast(moments)))
            .collect();
        let uncertain: usize = forecasts.iter().map(|(_, f)| f.uncertain_len()).sum();
        for (db, mut forecast) in forecasts {
            // Every database gets its share of the lookups.
            let share = forecast.uncertain_len() * LOOKUPS_MAX;
            let k = share.div_ceil(uncertain.max(1));
            self.look_up(db, &mut forecast, k);
            sums.iter_mut()
                .zip(forecast.due())
                .for_each(|(sum, due)| *sum += due);
        }
        sums
    }

    fn look_up(&mut self, db: usize, forecast: &mut Forecast, k: usize) {
        let mut samples: Vec<Sample> = Vec::new();
        let index = &self.dbs[db].index;
        index.draw_uncertain(&mut self.rng, forecast, k, &mut samples);
        let drawn: Vec<(ItemRef, u64)> = samples.iter().map(|s| (s.item, s.hash)).collect();
        self.fetch(db, &drawn);
        for sample in &samples {
            let Some(slot) = self.slot_of(db, sample.item, sample.hash) else {
                continue;
            };
            if let Some(((filing, _), deadline)) = slot.filed().zip(slot.deadline()) {
                forecast.note(sample, filing, deadline);
            }
        }
    }

    /// What falls due until each of these moments, which ascend, from the one before on, and what
    /// later: one element more than there are moments. What is dead and not removed yet is in the
    /// first. Keys are counted as by [`Keyspace::due_until`].
    pub fn forecast(&mut self, dbs: Range<usize>, moments: &[UnixMillis]) -> Vec<Due> {
        let used = self.mortal(dbs.clone());
        let all = used.iter().map(|&db| self.dbs[db].index.len()).sum();
        let mut until = self.due_until(dbs, moments);
        until.push(all);
        let mut counted = 0;
        let mut due: Vec<Due> = Vec::new();
        for sum in until {
            // They are estimates: one may be less than the one before.
            let keys = sum.saturating_sub(counted);
            counted += keys;
            due.push(Due { keys, bytes: 0 });
        }
        let mut sizes = Sizes::new(moments);
        self.draw_sizes(&used, &mut sizes);
        for (range, due) in due.iter_mut().enumerate() {
            if due.keys > 0 {
                self.draw_sizes_in(&used, range, &mut sizes);
                due.bytes = sizes.bytes(range, due.keys);
            }
        }
        due
    }

    /// Takes sizes from all keys alike.
    fn draw_sizes(&mut self, used: &[usize], sizes: &mut Sizes<'_>) {
        let all: usize = used.iter().map(|&db| self.dbs[db].index.len()).sum();
        let mut drawn = Vec::new();
        for &db in used {
            drawn.clear();
            let k = (self.dbs[db].index.len() * SIZED_MAX).div_ceil(all);
            let Keyspace { dbs, rng, .. } = self;
            dbs[db].index.draw_all(rng, k, &mut drawn);
            self.note_sizes(db, &drawn, sizes);
        }
    }

    /// Takes sizes from the buckets of a range of which few keys were met.
    fn draw_sizes_in(&self, used: &[usize], range: usize, sizes: &mut Sizes<'_>) {
        let (from, to) = sizes.ends(range);
        let mut drawn = Vec::new();
        let mut left = SIZED_IN_RANGE;
        for &db in used {
            let index = &self.dbs[db].index;
            for bucket in index.soonest() {
                left = left.min(SIZED_IN_RANGE.saturating_sub(sizes.seen(range)));
                if left == 0 || bucket.start() > to {
                    break;
                }
                if !bucket.is_due(from) {
                    drawn.clear();
                    index.draw_of(&bucket, left, &mut drawn);
                    left -= drawn.len();
                    self.note_sizes(db, &drawn, sizes);
                }
            }
        }
    }

    fn note_sizes(&self, db: usize, drawn: &[(ItemRef, u64)], sizes: &mut Sizes<'_>) {
        self.fetch(db, drawn);
        for &(item, hash) in drawn {
            let slot = self.slot_of(db, item, hash);
            if let Some((slot, deadline)) = slot.and_then(|slot| Some((slot, slot.deadline()?))) {
                sizes.note(deadline, memory_of(slot));
            }
        }
    }

    fn slot_of(&self, db: usize, item: ItemRef, hash: u64) -> Option<&Slot> {
        let table = &self.dbs[db].table;
        table.find_by(hash, |slot| slot.item() == Some(item))
    }

    fn deadline_of(&self, db: usize, item: ItemRef, hash: u64) -> Option<Deadline> {
        self.slot_of(db, item, hash)?.deadline()
    }

    /// Up to `count` keys of some databases that die in a window, its ends included, and that are
    /// wanted. Looks up at most [`LOOKUPS_MAX`] keys, or four times the count.
    pub fn due_in(
        &self,
        dbs: Range<usize>,
        (from, to): (UnixMillis, UnixMillis),
        count: usize,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Listing {
        let mut allowance = Allowance {
            count,
            lookups: LOOKUPS_MAX.max(count.saturating_mul(4)),
        };
        let mut keys = Vec::new();
        let mut complete_until: Option<UnixMillis> = None;
        let mut limit = |until: Option<UnixMillis>| {
            complete_until = complete_until.into_iter().chain(until).min();
        };
        for db in self.mortal(dbs) {
            let mut found = Vec::new();
            limit(self.due_in_one(db, (from, to), &is_wanted, &mut allowance, &mut found));
            keys.append(&mut found);
        }
        keys.sort();
        limit(keys.get(count).map(|left_out: &Mortal| left_out.deadline.0));
        keys.truncate(count);
        Listing {
            keys,
            complete_until,
        }
    }

    /// Adds keys of one database; the moment before which they are all that there are, if there may
    /// be others.
    fn due_in_one(
        &self,
        db: usize,
        (from, to): (UnixMillis, UnixMillis),
        is_wanted: &impl Fn(&[u8]) -> bool,
        allowance: &mut Allowance,
        found: &mut Vec<Mortal>,
    ) -> Option<UnixMillis> {
        let index = &self.dbs[db].index;
        let window = from..=to;
        let mut drawn = Vec::new();
        for bucket in index.soonest().take_while(|bucket| bucket.start() <= to) {
            if bucket.is_due(from.plus(-1)) {
                continue;
            }
            let start = bucket.start().max(from);
            if found.len() > allowance.count {
                found.sort();
                if found[allowance.count].deadline.0 <= start {
                    return Some(start);
                }
            }
            drawn.clear();
            index.draw_of(&bucket, allowance.lookups, &mut drawn);
            allowance.lookups -= drawn.len();
            self.fetch(db, &drawn);
            for &(item, hash) in &drawn {
                let slot = self.slot_of(db, item, hash);
                let Some((slot, deadline)) = slot.and_then(|slot| Some((slot, slot.deadline()?)))
                else {
                    continue;
                };
                if window.contains(&deadline.0) && is_wanted(slot.key()) {
                    let key = slot.key().to_vec();
                    found.push(Mortal { deadline, db, key });
                }
            }
            if drawn.len() < bucket.len() {
                // What was not looked up may be as early as the bucket.
                return Some(start);
            }
        }
        None
    }

    /// When the next key dies after `now`; none if no key ever will.
    pub fn nearest_deadline(&self, now: UnixMillis) -> Option<Nearest> {
        let mut left = NEAREST_LOOKUPS_MAX;
        let used = (0..self.dbs.len()).filter(|&db| !self.dbs[db].index.is_empty());
        let nearest = used.filter_map(|db| self.nearest_in(db, now, &mut left));
        nearest.reduce(|one, other| Nearest {
            min: one.min.min(other.min),
            max: one.max.min(other.max),
        })
    }

    fn nearest_in(&self, db: usize, now: UnixMillis, left: &mut usize) -> Option<Nearest> {
        let index = &self.dbs[db].index;
        let mut drawn = Vec::new();
        let mut found: Option<UnixMillis> = None;
        for bucket in index.soonest().filter(|bucket| !bucket.is_due(now)) {
            if found.is_some_and(|at| at <= bucket.start()) {
                break;
            }
            drawn.clear();
            index.draw_of(&bucket, *left, &mut drawn);
            *left -= drawn.len();
            self.fetch(db, &drawn);
            let deadlines = drawn
                .iter()
                .filter_map(|&(item, hash)| self.deadline_of(db, item, hash));
            let soonest = deadlines.map(|d| d.0).filter(|&at| at > now).min();
            found = found.into_iter().chain(soonest).min();
            if drawn.len() < bucket.len() {
                // What was not looked up may be as early as the bucket.
                let max = found.unwrap_or(bucket.last().max(now));
                let min = bucket.start().max(now).min(max);
                return Some(Nearest { min, max });
            }
        }
        found.map(|at| Nearest { min: at, max: at })
    }
}

/// Sizes of some of the keys that fall due in ranges of time.
struct Sizes<'a> {
    /// The ends of the ranges; the last one has none.
    moments: &'a [UnixMillis],
    /// How many keys were met in each, and their bytes.
    seen: Vec<(usize, usize)>,
}

impl Sizes<'_> {
    fn new(moments: &[UnixMillis]) -> Sizes<'_> {
        Sizes {
            moments,
            seen: vec![(0, 0); moments.len() + 1],
        }
    }

    fn note(&mut self, deadline: Deadline, bytes: usize) {
        let range = self.moments.partition_point(|&until| until < deadline.0);
        self.seen[range].0 += 1;
        self.seen[range].1 += bytes;
    }

    fn seen(&self, range: usize) -> usize {
        self.seen[range].0
    }

    /// After which moment a range begins, and with which it ends.
    fn ends(&self, range: usize) -> (UnixMillis, UnixMillis) {
        let first = range.checked_sub(1).map(|before| self.moments[before]);
        let last = self.moments.get(range).copied();
        (
            first.unwrap_or(UnixMillis(i64::MIN)),
            last.unwrap_or(UnixMillis(i64::MAX)),
        )
    }

    /// Bytes of so many keys of a range; as many as those of others if none of it was met.
    fn bytes(&self, range: usize, keys: usize) -> usize {
        let all = || {
            let sum = |(n, b): (usize, usize), seen: &(usize, usize)| (n + seen.0, b + seen.1);
            self.seen.iter().fold((0, 0), sum)
        };
        let (seen, bytes) = match self.seen[range] {
            (0, _) => all(),
            some => some,
        };
        (bytes as f64 / seen.max(1) as f64 * keys as f64).round() as usize
    }
}
