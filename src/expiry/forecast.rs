//! Forecasts: how many items fall due until when, and which is the next.
//!
//! Buckets know how many of their items are due when the bucket has ended. They do not know the
//! deadlines in a bucket that a moment cuts in two, nor those of extended items, which are later
//! than their bucket says: such items are *uncertain* for that moment, and only their entries,
//! which the index does not see, can tell.
//!
//! ```text
//!                 moment
//!   [ bucket ][ buc|ket ][ bucket ]      of the first: all but the extended are due by then,
//!     certain   uncertain   not yet      and the extended may be
//! ```
//!
//! So the uncertain items are counted, and drawn for the caller to look up. If they are few all are
//! drawn, and the result is exact. If not, the draw is spread over all their chunks, or in the
//! largest indexes over chunks met at random, and the share of those that were due is applied to
//! their exact number. With 4,096 drawn the standard error is under 0.8 % of the uncertain items,
//! which are a part of all that are counted.
//!
//! Not here: looking entries up (`store/forecast.rs`).

use rand::{Rng, RngExt};

use super::Deadline;
use super::chunks::{CHUNK_ITEMS_MAX, NONE};
use super::index::{Bucket, Filing, ItemRef, Strata, thin_out};
use crate::clock::UnixMillis;

/// Chunks with uncertain items that are listed; if there are more they are met at random.
const CHUNKS_LISTED_MAX: usize = 4_096;
/// Places tried at random to meet uncertain items.
const TRIES_MAX: usize = 65_536;

/// How many items fall due until each of some moments.
#[derive(Clone, Debug)]
pub struct Forecast {
    moments: Vec<Moment>,
}

#[derive(Clone, Debug)]
struct Moment {
    until: i64,
    /// Items that are due by then.
    certain: usize,
    /// Items that may be.
    uncertain: usize,
    /// Weight of the uncertain items that were looked up, and of those that are due by then.
    seen: f64,
    seen_due: f64,
}

/// An item whose entry is to be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Where it is.
    pub item: ItemRef,
    /// The hash of its key.
    pub hash: u64,
    start: i64,
    last: i64,
    weight: f64,
}

impl Moment {
    /// Whether an item of a bucket with these ends counts as uncertain.
    fn doubts(&self, start: i64, last: i64, is_extended: bool) -> bool {
        start <= self.until && (last > self.until || is_extended)
    }

    /// Whether a bucket has uncertain items.
    fn doubts_any(&self, bucket: &Bucket) -> bool {
        bucket.start <= self.until && (bucket.last > self.until || bucket.pile.extended > 0)
    }
}

impl Forecast {
    /// How many items are uncertain, those that are so for several moments counted for each.
    pub fn uncertain_len(&self) -> usize {
        self.moments.iter().map(|moment| moment.uncertain).sum()
    }

    /// Takes note of a sample's filing and of its deadline, which may have slid since.
    pub fn note(&mut self, sample: &Sample, filing: Filing, deadline: Deadline) {
        let is_extended = filing.is_extended(sample.last);
        for moment in &mut self.moments {
            if moment.doubts(sample.start, sample.last, is_extended) {
                moment.seen += sample.weight;
                if deadline.0.0 <= moment.until {
                    moment.seen_due += sample.weight;
                }
            }
        }
    }

    /// Items that are due by each moment; those that are due already among them.
    pub fn due(&self) -> impl Iterator<Item = usize> {
        self.moments.iter().map(|moment| {
            // Without any knowledge, half of them.
            let share = if moment.seen > 0.0 {
                moment.seen_due / moment.seen
            } else {
                0.5
            };
            moment.certain + (moment.uncertain as f64 * share).round() as usize
        })
    }
}

impl Strata {
    /// What the buckets know of how many items are due by each of these moments, which ascend.
    pub fn forecast(&self, moments: &[UnixMillis]) -> Forecast {
        // How many are certain, or uncertain, from a moment on that were not so before. There are
        // thousands of buckets, and of most of them all items are certain from some moment on.
        let mut from: Vec<(usize, isize)> = vec![(0, 0); moments.len() + 1];
        for Bucket { start, last, pile } in self.buckets() {
            let first = moments.partition_point(|moment| moment.0 < start);
            let ended = first + moments[first..].partition_point(|moment| moment.0 < last);
            let (len, extended) = (pile.len as usize, pile.extended as usize);
            from[first].1 += len as isize;
            from[ended].0 += len - extended;
            from[ended].1 -= (len - extended) as isize;
        }
        let (mut certain, mut uncertain) = (0, 0);
        let moments = moments.iter().zip(from).map(|(&UnixMillis(until), from)| {
            certain += from.0;
            uncertain += from.1;
            Moment {
                until,
                certain,
                uncertain: usize::try_from(uncertain).expect("no more end than began"),
                seen: 0.0,
                seen_due: 0.0,
            }
        });
        Forecast {
            moments: moments.collect(),
        }
    }

    /// Draws uncertain items for a forecast: all of them if they are in few chunks and no more than
    /// about `k`; else about `k`.
    pub fn draw_uncertain(
        &self,
        rng: &mut impl Rng,
        forecast: &Forecast,
        k: usize,
        out: &mut Vec<Sample>,
    ) {
        if forecast.uncertain_len() == 0 {
            return;
        }
        let doubts = |bucket: &Bucket| {
            let mut moments = forecast.moments.iter();
            moments.any(|moment| moment.doubts_any(bucket))
        };
        match self.doubtful_chunks(doubts) {
            Some(chunks) => self.draw_spread(rng, &chunks, k, out),
            None => self.draw_met(rng, doubts, k, out),
        }
    }

    /// The chunks of such buckets that may hold uncertain items; none if they are too many.
    fn doubtful_chunks(&self, doubts: impl Fn(&Bucket) -> bool) -> Option<Vec<u32>> {
        let mut chunks = Vec::new();
        let mut steps = 0;
        for bucket in self.buckets().filter(&doubts) {
            let mut next = bucket.pile.head;
            while next != NONE {
                steps += 1;
                if steps > CHUNKS_LISTED_MAX {
                    return None;
                }
                if doubts(&self.bucket_of(next)) {
                    chunks.push(next);
                }
                next = self.chunk(next).next;
            }
        }
        Some(chunks)
    }

    /// Draws from each of these chunks in proportion to its items.
    fn draw_spread(&self, rng: &mut impl Rng, chunks: &[u32], k: usize, out: &mut Vec<Sample>) {
        let count = |n: u32| self.chunk(n).occupied.count_ones() as usize;
        let all: usize = chunks.iter().map(|&n| count(n)).sum();
        for &n in chunks {
            let items = count(n);
            let wanted = (items * k).div_ceil(all.max(1)).clamp(1, items);
            let mut places = self.chunk(n).occupied;
            if wanted < items {
                places = thin_out(rng, places, wanted);
            }
            let weight = items as f64 / wanted as f64;
            while places != 0 {
                out.push(self.sample(n, places.trailing_zeros(), weight));
                places &= places - 1;
            }
        }
    }

    /// Draws up to `k` of the items met at places drawn at random from all.
    fn draw_met(
        &self,
        rng: &mut impl Rng,
        doubts: impl Fn(&Bucket) -> bool,
        k: usize,
        out: &mut Vec<Sample>,
    ) {
        let limit = out.len() + k;
        let places = self.places();
        for _ in 0..TRIES_MAX {
            if out.len() == limit {
                return;
            }
            let item = ItemRef(rng.random_range(0..places) as u32);
            let n = item.0 / CHUNK_ITEMS_MAX as u32;
            if self.contains(item) && doubts(&self.bucket_of(n)) {
                out.push(self.sample(n, item.0 % CHUNK_ITEMS_MAX as u32, 1.0));
            }
        }
    }

    fn sample(&self, n: u32, place: u32, weight: f64) -> Sample {
        let bucket = self.bucket_of(n);
        let item = ItemRef::new(n, place);
        Sample {
            item,
            hash: self.hash(item),
            start: bucket.start,
            last: bucket.last,
            weight,
        }
    }
}
