//! How much work expiry may do: pure arithmetic on durations and counts that the caller measured.
//!
//! *Time.* While requests are waiting, expiry has a share of the elapsed time, kept as a token
//! bucket of microseconds, so that a late turn of the loop gets what it missed, but never more than
//! one short burst at once. The share rises when the oldest due key is later than the limit. When
//! no request is waiting, expiry may use the whole slice.
//!
//! *Samples.* As in Redis' cycle a round draws 20 keys at effort 1, and 5 more per step of effort.
//! 19 of 20 come from the ripe stratum, where rounds go on until it is empty or time is up. The
//! others are the audit, drawn from all volatile keys alike; those rounds go on while over a tenth
//! of what was audited was dead, Redis' rule, and keep `expired_stale_perc` unbiased.
//!
//! *Refiling ahead.* A coming bucket is refiled at twice the pace that would be done when it
//! begins.
//!
//! Not here: measuring, and the decision what else may run in a turn (the engine's pacer).

use super::index::Coming;

/// A coming bucket is refiled in steps that are so far apart, in ms,
pub const REFILE_MS: u64 = 8;
/// of so many items at least.
const REFILED_MIN: usize = 64;
/// Most time per turn, and what the bucket holds: what a request that arrives now may wait. The
/// same when the poll came back empty: a turn costs microseconds, so longer slices would save
/// nothing (with 2 ms, ping p99 was 2.4 ms while a million keys died: benches/peers.py, storm).
pub const SLICE_US: u64 = 500;
/// A slice that overran is paid back, but not more than this much of it.
const DEBT_US_MAX: i64 = 10_000;
/// Share of elapsed time at effort 1.
const SHARE_PERCENT_MIN: i64 = 25;
/// More share per step of effort.
const SHARE_PERCENT_STEP: i64 = 2;
/// Share while deletion is later than the limit.
const SHARE_PERCENT_LATE: i64 = 75;
/// Redis' number of keys per round at effort 1, and per step above.
const SAMPLE_MIN: usize = 20;
const SAMPLE_STEP: usize = 5;
/// Of so many samples, one is audit.
const AUDIT_ONE_IN: usize = 20;
/// Audit goes on while over this share of a round was dead.
const STALE_PERCENT_ACCEPTABLE: usize = 10;
/// What is left of the estimate after [`STALE_DECAY_US`] in which nothing was due and so nothing
/// was audited. A cycle of Redis in which no sampled key is dead does the same, ten times a second.
const STALE_DECAY: f64 = 0.95;
const STALE_DECAY_US: f64 = 100_000.0;
/// Weight of one audited key in the running average: 20 of them weigh a twentieth, as a cycle does
/// in Redis.
const STALE_WEIGHT: f64 = 0.05 / 20.0;

/// How many keys a round draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// From the ripe stratum.
    pub ripe: usize,
    /// From all volatile keys.
    pub audit: usize,
}

/// The budget of expiry.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// 1 to 10.
    effort: u8,
    /// Hundredths of a microsecond, so that a share of a microsecond is a whole number.
    tokens: i64,
    cap_hits: u64,
    stale_share: f64,
    /// When there was an audit last, in monotonic microseconds.
    audited_us: u64,
}

impl Pacer {
    /// A pacer with a full bucket. `effort` is `active-expire-effort`, clamped to 1..=10.
    pub fn new(effort: u8) -> Pacer {
        let tokens = SLICE_US as i64 * 100;
        Pacer {
            effort: effort.clamp(1, 10),
            tokens,
            cap_hits: 0,
            stale_share: 0.0,
            audited_us: 0,
        }
    }

    /// Changes the effort.
    pub fn set_effort(&mut self, effort: u8) {
        self.effort = effort.clamp(1, 10);
    }

    /// Forgets the counters and the estimate of dead keys; the budget stays.
    pub fn reset_stats(&mut self) {
        self.cap_hits = 0;
        self.stale_share = 0.0;
    }

    fn steps(&self) -> usize {
        usize::from(self.effort - 1)
    }

    /// Samples per round.
    pub fn draw(&self) -> Draw {
        let all = SAMPLE_MIN + SAMPLE_STEP * self.steps();
        let audit = all / AUDIT_ONE_IN;
        Draw {
            ripe: all - audit,
            audit,
        }
    }

    /// Microseconds this slice may use. `elapsed_us` is the time since the last call, `idle` says
    /// that the poll came back empty, `late_ms` is the age of the oldest due key.
    pub fn allow_us(&mut self, elapsed_us: u64, idle: bool, late_ms: i64, lag_max_ms: i64) -> u64 {
        let share = if late_ms > lag_max_ms {
            SHARE_PERCENT_LATE
        } else {
            SHARE_PERCENT_MIN + SHARE_PERCENT_STEP * self.steps() as i64
        };
        // No more than fills the bucket from the deepest debt.
        let elapsed_us = elapsed_us.min(1_000_000) as i64;
        self.tokens = (self.tokens + elapsed_us * share).min(SLICE_US as i64 * 100);
        if idle {
            return SLICE_US;
        }
        (self.tokens / 100).max(0) as u64
    }

    /// Notes what a slice used. `unfinished` says that it ended for lack of time with due items
    /// left. Idle time is free.
    pub fn spent(&mut self, us: u64, idle: bool, unfinished: bool) {
        if idle {
            return;
        }
        let us = i64::try_from(us).unwrap_or(i64::MAX).min(DEBT_US_MAX * 2);
        self.tokens = (self.tokens - us * 100).max(-DEBT_US_MAX * 100);
        self.cap_hits += u64::from(unfinished);
    }

    /// Slices that ended for lack of time: `expired_time_cap_reached_count`.
    pub fn cap_hits(&self) -> u64 {
        self.cap_hits
    }

    /// Notes a round of audit; true if another should follow.
    pub fn audited(&mut self, sampled: usize, dead: usize, now_us: u64) -> bool {
        if sampled == 0 {
            return false;
        }
        self.stale_share = self.stale_share_at(now_us);
        self.audited_us = now_us;
        let share = dead as f64 / sampled as f64;
        let weight = (sampled as f64 * STALE_WEIGHT).min(1.0);
        self.stale_share += (share - self.stale_share) * weight;
        dead * 100 > sampled * STALE_PERCENT_ACCEPTABLE
    }

    /// The running estimate of dead keys among volatile ones: `expired_stale_perc`. Where no key is
    /// due there is no audit, and the estimate falls to zero within seconds.
    pub fn stale_percent(&self, now_us: u64) -> f64 {
        self.stale_share_at(now_us) * 100.0
    }

    fn stale_share_at(&self, now_us: u64) -> f64 {
        let quiet_us = now_us.saturating_sub(self.audited_us) as f64;
        self.stale_share * STALE_DECAY.powf(quiet_us / STALE_DECAY_US)
    }

    /// How many items of a coming bucket to refile now, if that is done every [`REFILE_MS`]: twice
    /// as fast as needed to be done when it begins, and at once if they are few.
    pub fn refile_count(&self, coming: &Coming) -> usize {
        let half_ms = u128::from(coming.begins_in_ms.max(2).unsigned_abs() / 2);
        let due = (coming.items as u128 * u128::from(REFILE_MS)).div_ceil(half_ms);
        let due = usize::try_from(due).unwrap_or(usize::MAX);
        due.max(REFILED_MIN).min(coming.items)
    }
}
