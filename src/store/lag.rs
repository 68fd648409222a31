//! How late keys and fields are removed after their deadlines.

use crate::clock::UnixMillis;

/// Parts of an octave in which lags are counted: a figure is at most an eighth too large.
const LAG_STEPS: u64 = 8;

/// Octaves above those lags that are counted exactly.
const LAG_OCTAVES: usize = 40;

/// How late keys and fields were removed after their deadlines: exact counts of the lags below 16
/// ms, above by eighths of a power of two.
#[derive(Clone, Debug)]
pub struct LagFigures {
    buckets: [u64; (LAG_OCTAVES + 2) * LAG_STEPS as usize],
    max_ms: u64,
    /// All lags together; more than a u64 holds after one removal that is said to be so late.
    sum_ms: u128,
}

impl Default for LagFigures {
    fn default() -> LagFigures {
        LagFigures {
            buckets: [0; (LAG_OCTAVES + 2) * LAG_STEPS as usize],
            max_ms: 0,
            sum_ms: 0,
        }
    }
}

impl LagFigures {
    /// Counts so many removals so late.
    pub fn add(&mut self, ms: i64, removals: u64) {
        let ms = ms.max(0) as u64;
        let bucket = LagFigures::bucket(ms).min(self.buckets.len() - 1);
        self.buckets[bucket] += removals;
        self.max_ms = self.max_ms.max(ms);
        self.sum_ms += u128::from(ms) * u128::from(removals);
    }

    /// The four highest bits of a lag, and how many come behind them.
    fn bucket(ms: u64) -> usize {
        let octave = (ms / (2 * LAG_STEPS))
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        (u64::from(octave) * LAG_STEPS + (ms >> octave)) as usize
    }

    /// The longest lag that is counted in a bucket.
    fn longest_ms(bucket: usize) -> u64 {
        let octave = (bucket as u64 / LAG_STEPS).saturating_sub(1);
        ((bucket as u64 - octave * LAG_STEPS + 1) << octave) - 1
    }

    /// An upper bound of the lag that this share (0..1) of removals stayed under, in ms.
    pub fn quantile_ms(&self, share: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return LagFigures::longest_ms(bucket).min(self.max_ms);
            }
        }
        0
    }

    /// The longest lag, in ms.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// All lags added up, in ms.
    pub fn sum_ms(&self) -> u128 {
        self.sum_ms
    }

    /// How many removals were at most so late, for each of these lags in ms, which ascend. Exact
    /// for lags below 16 ms and those that are one less than a power of two; for others what is
    /// counted together with longer lags is left out.
    pub fn at_most(&self, lags_ms: &[u64]) -> Vec<u64> {
        let mut counted = self.buckets.iter().enumerate().peekable();
        let mut sum = 0;
        let within = lags_ms.iter().map(|&ms| {
            while let Some((_, removals)) =
                counted.next_if(|&(bucket, _)| LagFigures::longest_ms(bucket) <= ms)
            {
                sum += removals;
            }
            sum
        });
        within.collect()
    }

    /// How many removals there were.
    pub fn removals(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The lags that occurred, ascending, to an eighth: the longest that is counted together with
    /// others, in ms, and how many removals were so late.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.buckets.iter().enumerate();
        let occurred = counted.filter(|&(_, &removals)| removals > 0);
        occurred
            .map(|(bucket, &removals)| (LagFigures::longest_ms(bucket).min(self.max_ms), removals))
    }

    fn merge(&mut self, other: &LagFigures) {
        let pairs = self.buckets.iter_mut().zip(&other.buckets);
        pairs.for_each(|(sum, removals)| *sum += removals);
        self.max_ms = self.max_ms.max(other.max_ms);
        self.sum_ms += other.sum_ms;
    }
}

/// Who removed what was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The expiry job, or a command that counts what is there.
    Active,
    /// A command that met it.
    Lazy,
}

/// Slots of the last minute, in ms.
const SLOT_MS: i64 = 10_000;
const SLOTS: usize = 6;

/// Lags since start, and of the last minute.
#[derive(Clone, Debug, Default)]
struct Kept {
    all: LagFigures,
    /// The slot that is being counted in, by its number since 1970, is the first.
    recent: Vec<(i64, LagFigures)>,
}

impl Kept {
    fn add(&mut self, now: UnixMillis, ms: i64, removals: u64) {
        self.all.add(ms, removals);
        let slot = now.0.div_euclid(SLOT_MS);
        if self.recent.first().is_none_or(|&(first, _)| first != slot) {
            self.recent.retain(|&(other, _)| is_recent(other, slot));
            self.recent.insert(0, (slot, LagFigures::default()));
        }
        self.recent[0].1.add(ms, removals);
    }
}

/// Whether a slot belongs to the minute that ends with another.
fn is_recent(slot: i64, last: i64) -> bool {
    (0..SLOTS as i64).contains(&(last - slot))
}

/// How late keys and fields were removed by whom.
#[derive(Clone, Debug, Default)]
pub struct Lags {
    active: Kept,
    lazy: Kept,
}

impl Lags {
    fn kept(&self, removal: Removal) -> &Kept {
        match removal {
            Removal::Active => &self.active,
            Removal::Lazy => &self.lazy,
        }
    }

    /// Counts so many removals at `now` of what was due at a deadline.
    pub fn add(&mut self, removal: Removal, now: UnixMillis, deadline: UnixMillis, removals: u64) {
        let kept = match removal {
            Removal::Active => &mut self.active,
            Removal::Lazy => &mut self.lazy,
        };
        kept.add(now, now.since(deadline), removals);
    }

    /// Of one kind, since start.
    pub fn of(&self, removal: Removal) -> &LagFigures {
        &self.kept(removal).all
    }

    /// Of one kind, in the minute until `now`: its last 50 to 60 seconds.
    pub fn of_last_minute(&self, removal: Removal, now: UnixMillis) -> LagFigures {
        let last = now.0.div_euclid(SLOT_MS);
        let mut sum = LagFigures::default();
        let slots = self.kept(removal).recent.iter();
        for (_, figures) in slots.filter(|&&(slot, _)| is_recent(slot, last)) {
            sum.merge(figures);
        }
        sum
    }

    /// Of both kinds together, since start.
    pub fn of_both(&self) -> LagFigures {
        let mut sum = self.active.all.clone();
        sum.merge(&self.lazy.all);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_told_to_an_eighth() {
        for ms in (0..5_000).chain([60_000, 123_456, 86_400_000, i64::MAX]) {
            let mut lag = LagFigures::default();
            lag.add(ms, 99);
            lag.add(i64::MAX, 1);
            let (told, ms) = (lag.quantile_ms(0.5), ms as u64);
            let most = if ms < 16 { ms } else { ms + ms / 8 };
            assert!(
                (ms..=most.max(ms)).contains(&told) || ms > 1 << 43,
                "{told} for {ms}"
            );
            assert_eq!(lag.max_ms(), i64::MAX as u64);
        }
        assert_eq!(LagFigures::default().quantile_ms(0.99), 0);
    }

    #[test]
    fn lags_are_counted_up_to_a_limit() {
        let mut lag = LagFigures::default();
        for ms in 0..5_000 {
            lag.add(ms, 2);
        }
        let limits: Vec<u64> = (0..16).chain([31, 63, 127, 255, 1_023, 8_191]).collect();
        let exact: Vec<u64> = limits.iter().map(|&ms| (ms + 1).min(5_000) * 2).collect();
        assert_eq!(lag.at_most(&limits), exact);
        assert_eq!(lag.sum_ms(), 4_999 * 5_000);
        assert_eq!(lag.at_most(&[16, u64::MAX]), [32, 10_000]);
    }

    #[test]
    fn the_last_minute_forgets() {
        let mut lags = Lags::default();
        let at = |ms: i64| UnixMillis(1_700_000_000_000 + ms);
        let recent = |lags: &Lags, ms| lags.of_last_minute(Removal::Active, at(ms)).removals();
        for second in 0..200 {
            lags.add(
                Removal::Active,
                at(second * 1_000),
                at(second * 1_000 - 3),
                1,
            );
            let told = recent(&lags, second * 1_000);
            assert!((50..=60).contains(&told) || told == second as u64 + 1);
        }
        lags.add(Removal::Lazy, at(200_000), at(199_000), 5);
        assert_eq!(lags.of(Removal::Active).removals(), 200);
        assert_eq!(lags.of_both().removals(), 205);
        assert_eq!(lags.of_both().max_ms(), 1_000);
        let histogram: Vec<(u64, u64)> = lags.of(Removal::Active).histogram().collect();
        assert_eq!(histogram, [(3, 200)]);
        assert_eq!(recent(&lags, 300_000), 0);
        // The clock was set back.
        lags.add(Removal::Active, at(-3_600_000), at(-3_600_001), 1);
        assert_eq!(recent(&lags, -3_600_000), 1);
    }
}
