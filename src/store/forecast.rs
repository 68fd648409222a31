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

use rand::rngs::SmallRng;

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

/// How many keys a forecast looks up, about.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// For the counts.
    pub lookups: usize,
    /// For the sizes of what falls due,
    pub sized: usize,
    /// and as many more of each range of time of which these are fewer, if there are.
    pub sized_in_range: usize,
}

/// What a command takes.
const FULL: Effort = Effort {
    lookups: LOOKUPS_MAX,
    sized: 1_024,
    sized_in_range: 32,
};
/// Databases without such keys that a step of a forecast passes over.
const EMPTY_PER_STEP: usize = 64;
/// What the buckets of so many databases say is kept between the steps in which they are counted
/// and looked up; it takes some kilobytes each.
const FORECASTS_KEPT_MAX: usize = 16;
/// In so many databases keys of a range of time are looked for, to take their sizes.
const SIZED_DATABASES_MAX: usize = 256;

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
    pub fn due_until(&self, dbs: Range<usize>, moments: &[UnixMillis]) -> Vec<usize> {
        let mut forecaster = Forecaster::new(self, dbs, moments, FULL);
        while forecaster.count_step(self) {}
        forecaster.sums
    }

    /// What falls due until each of these moments, which ascend, from the one before on, and what
    /// later: one element more than there are moments. What is dead and not removed yet is in the
    /// first. Keys are counted as by [`Keyspace::due_until`].
    pub fn forecast(&self, dbs: Range<usize>, moments: &[UnixMillis]) -> Vec<Due> {
        let mut forecaster = Forecaster::new(self, dbs, moments, FULL);
        while forecaster.step(self) {}
        forecaster.due
    }

    fn look_up(&self, db: usize, forecast: &mut Forecast, k: usize, rng: &mut SmallRng) {
        let mut samples: Vec<Sample> = Vec::new();
        let index = &self.dbs[db].index;
        index.draw_uncertain(rng, forecast, k, &mut samples);
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

    fn note_sizes(&self, db: usize, drawn: &[(ItemRef, u64)], sizes: &mut Sizes) {
        for (slot, deadline, _) in self.found(db, drawn) {
            sizes.note(deadline, memory_of(slot));
        }
    }

    /// The entries of items of a database's index, with their deadlines and hashes.
    pub(super) fn found<'a>(
        &'a self,
        db: usize,
        drawn: &'a [(ItemRef, u64)],
    ) -> impl Iterator<Item = (&'a Slot, Deadline, u64)> {
        self.fetch(db, drawn);
        drawn.iter().filter_map(move |&(item, hash)| {
            let slot = self.slot_of(db, item, hash)?;
            Some((slot, slot.deadline()?, hash))
        })
    }

    fn slot_of(&self, db: usize, item: ItemRef, hash: u64) -> Option<&Slot> {
        let table = &self.dbs[db].table;
        table.find_by(hash, |slot| slot.item() == Some(item))
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
            for (slot, deadline, _) in self.found(db, &drawn) {
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
        let dbs = self.mortal(0..self.dbs.len()).into_iter();
        let nearest = dbs.filter_map(|db| self.nearest_in(db, now, &mut left));
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
            let moments = self.found(db, &drawn).map(|(_, deadline, _)| deadline.0);
            let soonest = moments.filter(|&at| at > now).min();
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

/// A forecast on its way. It goes from database to database, so that it can be made in slices; what
/// changes meanwhile may be counted or not. Draws with a copy of the keyspace's generator: whoever
/// asks changes nothing.
pub struct Forecaster {
    moments: Vec<UnixMillis>,
    effort: Effort,
    rng: SmallRng,
    /// The databases in question.
    dbs: Range<usize>,
    /// Those that have keys with a deadline.
    counted: Vec<u16>,
    /// Those of them some of whose keys must be looked up, the next one last, and what the buckets
    /// of some say.
    doubtful: Vec<(u16, Option<Forecast>)>,
    /// Items that only their entries can place, in all of them.
    uncertain: usize,
    /// Keys with a deadline.
    volatile: usize,
    /// How many keys die until each moment.
    sums: Vec<usize>,
    sizes: Sizes,
    /// Databases of which sizes have been taken from all keys alike.
    sized: usize,
    /// The range of time whose sizes are being taken, the next database for that, and how many keys
    /// may still be looked up.
    range: usize,
    sized_in_range: usize,
    left_in_range: usize,
    due: Vec<Due>,
}

impl Forecaster {
    /// A forecast of what falls due in some databases until these moments, which ascend.
    pub fn new(
        space: &Keyspace,
        dbs: Range<usize>,
        moments: &[UnixMillis],
        effort: Effort,
    ) -> Forecaster {
        Forecaster {
            moments: moments.to_vec(),
            effort,
            rng: space.rng.clone(),
            dbs,
            counted: Vec::new(),
            doubtful: Vec::new(),
            uncertain: 0,
            volatile: 0,
            sums: vec![0; moments.len()],
            sizes: Sizes::new(moments),
            sized: 0,
            range: 0,
            sized_in_range: 0,
            left_in_range: effort.sized_in_range,
            due: Vec::new(),
        }
    }

    /// What falls due in each range, as [`Keyspace::forecast`] gives it; empty before the end.
    pub fn due(&self) -> &[Due] {
        &self.due
    }

    /// Goes on with one database; false if all is done.
    pub fn step(&mut self, space: &Keyspace) -> bool {
        if self.count_step(space) || self.size_step(space) {
            return true;
        }
        if self.due.is_empty() {
            self.divide();
        }
        self.size_range_step(space)
    }

    /// Goes on counting keys; false if they are counted.
    fn count_step(&mut self, space: &Keyspace) -> bool {
        for db in self.dbs.by_ref().take(EMPTY_PER_STEP) {
            let index = &space.dbs[db].index;
            if !index.is_empty() {
                let forecast = index.forecast(&self.moments);
                self.volatile += index.len();
                self.counted.push(db as u16);
                if forecast.uncertain_len() == 0 {
                    self.add(&forecast);
                } else {
                    self.uncertain += forecast.uncertain_len();
                    let is_kept = self.doubtful.len() < FORECASTS_KEPT_MAX;
                    self.doubtful.push((db as u16, is_kept.then_some(forecast)));
                }
                return true;
            }
        }
        if !self.dbs.is_empty() {
            return true;
        }
        let Some((db, kept)) = self.doubtful.pop() else {
            return false;
        };
        let db = usize::from(db);
        let mut forecast = kept.unwrap_or_else(|| space.dbs[db].index.forecast(&self.moments));
        // Every database gets its share of the lookups.
        let share = forecast.uncertain_len() * self.effort.lookups;
        let k = share.div_ceil(self.uncertain.max(1));
        space.look_up(db, &mut forecast, k, &mut self.rng);
        self.add(&forecast);
        true
    }

    fn add(&mut self, forecast: &Forecast) {
        let sums = self.sums.iter_mut();
        sums.zip(forecast.due()).for_each(|(sum, due)| *sum += due);
    }

    /// Takes sizes from all keys alike, of the next database.
    fn size_step(&mut self, space: &Keyspace) -> bool {
        let Some(&db) = self.counted.get(self.sized) else {
            return false;
        };
        let db = usize::from(db);
        let index = &space.dbs[db].index;
        let k = (index.len() * self.effort.sized).div_ceil(self.volatile.max(1));
        let mut drawn = Vec::new();
        index.draw_all(&mut self.rng, k, &mut drawn);
        space.note_sizes(db, &drawn, &mut self.sizes);
        // Of more databases than keys are looked up, not all are asked.
        self.sized += self.counted.len().div_ceil(self.effort.sized).max(1);
        true
    }

    /// How many keys fall due in each range of time.
    fn divide(&mut self) {
        let mut counted = 0;
        for &sum in self.sums.iter().chain([&self.volatile]) {
            // They are estimates: one may be less than the one before.
            let keys = sum.saturating_sub(counted);
            counted += keys;
            self.due.push(Due { keys, bytes: 0 });
        }
    }

    /// Takes sizes from the buckets of a range of which few keys were met, of the next database.
    fn size_range_step(&mut self, space: &Keyspace) -> bool {
        let Some(due) = self.due.get_mut(self.range) else {
            return false;
        };
        let next = self
            .counted
            .get(self.sized_in_range)
            .filter(|_| due.keys > 0);
        if let Some(&db) = next
            && self.left_in_range > 0
            && self.sized_in_range < SIZED_DATABASES_MAX
            && self.sizes.seen(self.range) < self.effort.sized_in_range
        {
            self.sized_in_range += 1;
            self.draw_sizes_in(space, usize::from(db));
            return true;
        }
        due.bytes = self.sizes.bytes(self.range, due.keys);
        self.range += 1;
        self.sized_in_range = 0;
        self.left_in_range = self.effort.sized_in_range;
        true
    }

    fn draw_sizes_in(&mut self, space: &Keyspace, db: usize) {
        let (from, to) = self.sizes.ends(self.range);
        let mut drawn = Vec::new();
        let index = &space.dbs[db].index;
        for bucket in index.soonest() {
            let seen = self.sizes.seen(self.range);
            let missing = self.effort.sized_in_range.saturating_sub(seen);
            self.left_in_range = self.left_in_range.min(missing);
            if self.left_in_range == 0 || bucket.start() > to {
                break;
            }
            if !bucket.is_due(from) {
                drawn.clear();
                index.draw_of(&bucket, self.left_in_range, &mut drawn);
                self.left_in_range -= drawn.len();
                space.note_sizes(db, &drawn, &mut self.sizes);
            }
        }
    }
}

/// Sizes of some of the keys that fall due in ranges of time.
struct Sizes {
    /// The ends of the ranges; the last one has none.
    moments: Vec<UnixMillis>,
    /// How many keys were met in each, and their bytes.
    seen: Vec<(usize, usize)>,
}

impl Sizes {
    fn new(moments: &[UnixMillis]) -> Sizes {
        Sizes {
            moments: moments.to_vec(),
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
