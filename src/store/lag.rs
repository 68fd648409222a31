//! How late keys and fields are removed after their deadlines.

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
}

impl Default for LagFigures {
    fn default() -> LagFigures {
        LagFigures {
            buckets: [0; (LAG_OCTAVES + 2) * LAG_STEPS as usize],
            max_ms: 0,
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
}
