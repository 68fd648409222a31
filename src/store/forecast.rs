//! When keys will die: the forecasts of INFO. The index knows the buckets (`expiry/forecast.rs`);
//! here the deadlines that it does not know are looked up in the entries.
//!
//! Both questions look up a bounded number of keys, whatever there is.

use super::Keyspace;
use crate::clock::UnixMillis;
use crate::expiry::Deadline;
use crate::expiry::forecast::{Forecast, Sample};
use crate::expiry::index::ItemRef;

/// Keys looked up for the counts, about: some hundred microseconds.
pub const LOOKUPS_MAX: usize = 4_096;
/// Keys looked up for the next deadline.
pub const NEAREST_LOOKUPS_MAX: usize = 1_024;

/// When the next key dies: not before `min`, and not after `max`. They are equal unless so many
/// keys came into question that not all of them were looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The lower bound.
    pub min: UnixMillis,
    /// The upper bound.
    pub max: UnixMillis,
}

impl Keyspace {
    /// How many keys die until each of these moments, which ascend; those that are dead and not
    /// removed yet among them. Exact if no more than [`LOOKUPS_MAX`] keys have to be looked up.
    pub fn due_until(&mut self, moments: &[UnixMillis]) -> Vec<usize> {
        let mut sums = vec![0; moments.len()];
        let used = (0..self.dbs.len()).filter(|&db| !self.dbs[db].index.is_empty());
        let forecasts: Vec<(usize, Forecast)> = used
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
            if let Some(deadline) = self.deadline_of(db, sample.item, sample.hash) {
                forecast.note(sample, deadline);
            }
        }
    }

    fn deadline_of(&self, db: usize, item: ItemRef, hash: u64) -> Option<Deadline> {
        let table = &self.dbs[db].table;
        let slot = table.find_by(hash, |slot| slot.item() == Some(item))?;
        slot.deadline()
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
