//! Time: the only file that asks the operating system for it.
//!
//! The server's own time is a count of milliseconds that looks like Unix time but never jumps: it
//! is CLOCK_BOOTTIME (which goes on during suspend) plus a constant chosen at start so that it
//! equals the wall clock then. Deadlines live in this time, so a step of the wall clock moves no
//! relative TTL. What a user sees or gives as an absolute time is converted with
//! [`Reading::wall_offset_ms`], which follows the wall clock.
//!
//! With `expire-clock wall` the server's time *is* the wall clock and the offset is always zero.
//!
//! The two clocks are tied together to the microsecond, but deadlines are whole milliseconds of the
//! server's time. The offset that converts them is therefore rounded up: a key is never served
//! after its Unix deadline, and never has more time left than was asked for; after the wall clock
//! was set by a part of a millisecond it may have up to one less. Until then the offset is zero.
//!
//! Invariants: a [`SystemClock`] in monotonic mode never goes back. `wall = internal + offset`.
//! The offset only moves when the wall clock has left it by [`OFFSET_TOLERANCE_US`] or more, that
//! is, when it was set, so that an absolute deadline is echoed exactly although the two clocks are
//! read at different instants.
//!
//! Not here: comparing a deadline with now (`expiry`).

use rustix::time::{ClockId, clock_gettime};

/// A moment of the server's own time, in milliseconds; at start it equals Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// The moment `ms` later (or earlier, if negative), clamped at the ends of the range.
    pub fn plus(self, ms: i64) -> UnixMillis {
        UnixMillis(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`; negative if `earlier` is later.
    pub fn since(self, earlier: UnixMillis) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The server's own time: what deadlines are compared with.
    pub now: UnixMillis,
    /// Microseconds that only go forward, for durations; zero is arbitrary.
    pub monotonic_us: u64,
    /// Wall clock, Unix microseconds: what TIME answers.
    pub wall_us: i64,
    /// What to add to the server's time to get Unix milliseconds.
    pub wall_offset_ms: i64,
    /// Steps of the wall clock of a second or more, seen since start.
    pub wall_steps: u64,
    /// By how much the last of them moved it, in milliseconds.
    pub wall_step_ms: i64,
}

impl Reading {
    /// The Unix time in ms of a moment of the server's time.
    pub fn to_wall(&self, at: UnixMillis) -> i64 {
        at.0.saturating_add(self.wall_offset_ms)
    }

    /// The moment of the server's time at which the wall clock shows `unix_ms`.
    pub fn from_wall(&self, unix_ms: i64) -> UnixMillis {
        UnixMillis(unix_ms.saturating_sub(self.wall_offset_ms))
    }
}

/// A source of time. The engine gets readings as arguments and never a clock, but for jobs, which
/// measure their slices.
pub trait Clock {
    /// Reads the clock.
    fn read(&mut self) -> Reading;
}

/// Which clock deadlines follow: the setting `expire-clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// CLOCK_BOOTTIME anchored to the wall clock at start.
    Monotonic,
    /// The wall clock, with its steps.
    Wall,
}

/// How far the wall clock may be from the offset before that follows it, in microseconds. Two
/// readings of two clocks differ by what lies between them; less than this is noise, not a step.
/// (Both clocks run at one rate, that of the system's clock discipline.)
pub const OFFSET_TOLERANCE_US: i64 = 100;
/// The two clocks are compared only if both could be read within this, in microseconds: else
/// something ran in between, and the next reading tries again.
const READING_US_MAX: i64 = 20;
/// How often both are read to tie them together at start.
const ANCHOR_ATTEMPTS: usize = 16;
/// How often the offset is compared with the wall clock, in microseconds.
const OFFSET_INTERVAL_US: u64 = 1_000_000;
/// A wall-clock change this large is a step: counted and logged.
pub const STEP_US: i64 = 1_000_000;

/// The microseconds of a clock of the system.
fn us(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000 + t.tv_nsec / 1_000
}

/// Both clocks of the system, the wall clock right after the other: of several attempts, the one
/// in which the least time passed.
fn boot_and_wall_us() -> (i64, i64) {
    let attempts = (0..ANCHOR_ATTEMPTS).map(|_| {
        let boot_us = us(ClockId::Boottime);
        let wall_us = us(ClockId::Realtime);
        (us(ClockId::Boottime) - boot_us, boot_us, wall_us)
    });
    let (_, boot_us, wall_us) = attempts.min().expect("there is more than one attempt");
    (boot_us, wall_us)
}

/// How CLOCK_BOOTTIME, the server's time and the wall clock lie to each other.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// What turns CLOCK_BOOTTIME into the server's time, in microseconds.
    boot_offset_us: i64,
    /// What turns the server's time into that of the wall clock, in microseconds.
    wall_offset_us: i64,
    wall_steps: u64,
    last_step_us: i64,
}

impl Anchor {
    /// Makes the server's time equal to the wall clock's. `wall_us` was read after `boot_us`, so
    /// that what a client reads from the wall clock is never ahead of the server.
    fn new(boot_us: i64, wall_us: i64) -> Anchor {
        Anchor {
            boot_offset_us: wall_us - boot_us,
            wall_offset_us: 0,
            wall_steps: 0,
            last_step_us: 0,
        }
    }

    /// Follows the wall clock if it was set.
    fn follow(&mut self, boot_us: i64, wall_us: i64) {
        let moved_us = wall_us - (boot_us + self.boot_offset_us) - self.wall_offset_us;
        if moved_us.abs() >= OFFSET_TOLERANCE_US {
            self.wall_offset_us += moved_us;
            self.note_step(moved_us);
        }
    }

    fn note_step(&mut self, moved_us: i64) {
        if moved_us.abs() >= STEP_US {
            self.wall_steps += 1;
            self.last_step_us = moved_us;
        }
    }

    fn reading(&self, boot_us: i64) -> Reading {
        let internal_us = boot_us + self.boot_offset_us;
        Reading {
            now: UnixMillis(internal_us.div_euclid(1_000)),
            monotonic_us: boot_us as u64,
            wall_us: internal_us + self.wall_offset_us,
            wall_offset_ms: offset_ms(self.wall_offset_us),
            wall_steps: self.wall_steps,
            wall_step_ms: self.last_step_us / 1_000,
        }
    }
}

/// The offset that converts deadlines, rounded up.
fn offset_ms(offset_us: i64) -> i64 {
    -(-offset_us).div_euclid(1_000)
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    source: Source,
    anchor: Anchor,
    compared_at_us: u64,
    last_wall_us: i64,
}

impl SystemClock {
    /// Anchors a clock to this moment.
    pub fn new(source: Source) -> SystemClock {
        let (boot, wall) = boot_and_wall_us();
        SystemClock {
            source,
            anchor: Anchor::new(boot, wall),
            compared_at_us: boot as u64,
            last_wall_us: wall,
        }
    }

    fn follow_wall(&mut self, boot_us: i64) {
        let wall_us = us(ClockId::Realtime);
        if us(ClockId::Boottime) - boot_us <= READING_US_MAX {
            self.compared_at_us = boot_us as u64;
            self.anchor.follow(boot_us, wall_us);
        }
    }

    fn read_wall(&mut self, boot_us: i64) -> Reading {
        let wall = us(ClockId::Realtime);
        let expected = self.last_wall_us + (boot_us - self.compared_at_us as i64);
        self.anchor.note_step(wall - expected);
        self.last_wall_us = wall;
        self.compared_at_us = boot_us as u64;
        Reading {
            now: UnixMillis(wall.div_euclid(1_000)),
            monotonic_us: boot_us as u64,
            wall_us: wall,
            wall_offset_ms: 0,
            wall_steps: self.anchor.wall_steps,
            wall_step_ms: self.anchor.last_step_us / 1_000,
        }
    }
}

impl Clock for SystemClock {
    fn read(&mut self) -> Reading {
        let boot_us = us(ClockId::Boottime);
        if self.source == Source::Wall {
            return self.read_wall(boot_us);
        }
        if boot_us as u64 - self.compared_at_us >= OFFSET_INTERVAL_US {
            self.follow_wall(boot_us);
        }
        self.anchor.reading(boot_us)
    }
}

/// A clock moved by hand: simulation, tests, fuzzing.
#[derive(Clone, Debug)]
pub struct ManualClock {
    anchor: Anchor,
    /// What each reading costs, in microseconds: lets slices of work end in virtual time.
    pub cost_us: u64,
    us: u64,
}

impl ManualClock {
    /// A clock that shows `at`, with the wall clock equal to it.
    pub fn new(at: UnixMillis) -> ManualClock {
        let us = (at.0 as u64) * 1_000;
        ManualClock {
            anchor: Anchor::new(us as i64, us as i64),
            cost_us: 0,
            us,
        }
    }

    /// Moves time forward.
    pub fn advance_ms(&mut self, ms: u64) {
        self.us += ms * 1_000;
    }

    /// Moves time forward by microseconds.
    pub fn advance_us(&mut self, us: u64) {
        self.us += us;
    }

    /// Steps the wall clock alone.
    pub fn step_wall_ms(&mut self, ms: i64) {
        self.step_wall_us(ms * 1_000);
    }

    /// Steps the wall clock alone, by microseconds.
    pub fn step_wall_us(&mut self, us: i64) {
        self.anchor.wall_offset_us += us;
        self.anchor.wall_steps += 1;
        self.anchor.last_step_us = us;
    }
}

impl Clock for ManualClock {
    fn read(&mut self) -> Reading {
        let reading = self.anchor.reading(self.us as i64);
        self.us += self.cost_us;
        reading
    }
}

/// The wall clock's date and time as the log writes it, in UTC: `28 Nov 2026 01:02:03.456`.
pub fn log_time_text() -> String {
    let us = us(ClockId::Realtime);
    let (days, ms) = (
        us.div_euclid(86_400_000_000),
        us.rem_euclid(86_400_000_000) / 1_000,
    );
    // Civil date from a day count, by eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let names = [
        "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb",
    ];
    let year = era * 400 + year_of_era + i64::from(month >= 10);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    let name = names[month as usize];
    format!(
        "{day:02} {name} {year} {hour:02}:{minute:02}:{second:02}.{:03}",
        ms % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_kept_to_the_microsecond() {
        let (boot, wall) = (5_000_123, 1_700_000_000_000_999);
        let mut anchor = Anchor::new(boot, wall);
        let reading = anchor.reading(boot + 1);
        assert_eq!(reading.wall_us, wall + 1);
        assert_eq!(reading.now.0, 1_700_000_000_001);
        assert_eq!(reading.wall_offset_ms, 0);
        // Noise moves nothing.
        anchor.follow(boot + 1_000, wall + 1_000 + OFFSET_TOLERANCE_US - 1);
        assert_eq!(anchor.reading(boot + 1_000).wall_us, wall + 1_000);
        for (step_us, offset_ms) in [(100, 1), (900, 1), (1, 2), (-1_001, 0), (-1, 0)] {
            let before = anchor.wall_offset_us;
            anchor.wall_offset_us += step_us;
            let expected = offset_ms * 1_000;
            assert!((expected - 1_000..=expected).contains(&anchor.wall_offset_us));
            let reading = anchor.reading(boot);
            assert_eq!(reading.wall_offset_ms, offset_ms, "{before} and {step_us}");
        }
        let mut anchor = Anchor::new(boot, wall);
        anchor.follow(boot + 500, wall + 500 - 1_234_567);
        let reading = anchor.reading(boot + 500);
        assert_eq!(reading.wall_us, wall + 500 - 1_234_567);
        assert_eq!((reading.wall_offset_ms, reading.wall_steps), (-1_234, 1));
        assert_eq!(reading.wall_step_ms, -1_234);
    }
}
