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
//! Invariants: a [`SystemClock`] in monotonic mode never goes back. `wall = internal + offset`.
//! The offset only moves when the wall clock has left it by [`OFFSET_TOLERANCE_US`] or more, so
//! that an absolute deadline is echoed exactly although the two clocks are read at different
//! instants.
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

/// How far the wall clock may drift before the offset follows it, in microseconds. Two readings of
/// two clocks differ by what lies between them; less than this is noise, not drift.
pub const OFFSET_TOLERANCE_US: i64 = 5_000;
/// How often the offset is compared with the wall clock, in microseconds.
const OFFSET_INTERVAL_US: u64 = 1_000_000;
/// A wall-clock change this large is a step: counted and logged.
pub const STEP_US: i64 = 1_000_000;

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    source: Source,
    /// What turns CLOCK_BOOTTIME into the server's time, in microseconds.
    anchor_us: i64,
    wall_offset_us: i64,
    compared_at_us: u64,
    wall_steps: u64,
    last_wall_us: i64,
    last_step_us: i64,
}

fn us(clock: ClockId) -> i64 {
    let t = clock_gettime(clock);
    t.tv_sec * 1_000_000 + t.tv_nsec / 1_000
}

impl SystemClock {
    /// Anchors a clock to this moment.
    pub fn new(source: Source) -> SystemClock {
        let boot = us(ClockId::Boottime);
        let wall = us(ClockId::Realtime);
        // A whole number of milliseconds, so that truncating internal and wall time agree.
        let anchor_us = (wall - boot).div_euclid(1_000) * 1_000;
        SystemClock {
            source,
            anchor_us,
            wall_offset_us: 0,
            compared_at_us: boot as u64,
            wall_steps: 0,
            last_wall_us: wall,
            last_step_us: 0,
        }
    }

    fn follow_wall(&mut self, boot_us: i64) {
        let wall = us(ClockId::Realtime);
        if us(ClockId::Boottime) - boot_us > 100 {
            // Something ran between the two readings; try again with the next reading.
            return;
        }
        self.compared_at_us = boot_us as u64;
        let moved = wall - (boot_us + self.anchor_us) - self.wall_offset_us;
        if moved.abs() >= OFFSET_TOLERANCE_US {
            self.wall_offset_us += moved.div_euclid(1_000) * 1_000;
            self.note_step(moved);
        }
    }

    fn note_step(&mut self, moved_us: i64) {
        if moved_us.abs() >= STEP_US {
            self.wall_steps += 1;
            self.last_step_us = moved_us;
        }
    }

    fn read_wall(&mut self, boot_us: i64) -> Reading {
        let wall = us(ClockId::Realtime);
        let expected = self.last_wall_us + (boot_us - self.compared_at_us as i64);
        self.note_step(wall - expected);
        self.last_wall_us = wall;
        self.compared_at_us = boot_us as u64;
        Reading {
            now: UnixMillis(wall.div_euclid(1_000)),
            monotonic_us: boot_us as u64,
            wall_us: wall,
            wall_offset_ms: 0,
            wall_steps: self.wall_steps,
            wall_step_ms: self.last_step_us / 1_000,
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
        let internal_us = boot_us + self.anchor_us;
        Reading {
            now: UnixMillis(internal_us.div_euclid(1_000)),
            monotonic_us: boot_us as u64,
            wall_us: internal_us + self.wall_offset_us,
            wall_offset_ms: self.wall_offset_us / 1_000,
            wall_steps: self.wall_steps,
            wall_step_ms: self.last_step_us / 1_000,
        }
    }
}

/// A clock moved by hand: simulation, tests, fuzzing.
#[derive(Clone, Debug)]
pub struct ManualClock {
    reading: Reading,
    /// What each reading costs, in microseconds: lets slices of work end in virtual time.
    pub cost_us: u64,
    us: u64,
}

impl ManualClock {
    /// A clock that shows `at`, with the wall clock equal to it.
    pub fn new(at: UnixMillis) -> ManualClock {
        let mut clock = ManualClock {
            reading: Reading::default(),
            cost_us: 0,
            us: 0,
        };
        clock.us = (at.0 as u64) * 1_000;
        clock
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
        self.reading.wall_offset_ms += ms;
        self.reading.wall_steps += 1;
        self.reading.wall_step_ms = ms;
    }
}

impl Clock for ManualClock {
    fn read(&mut self) -> Reading {
        let ms = (self.us / 1_000) as i64;
        self.reading.now = UnixMillis(ms);
        self.reading.monotonic_us = self.us;
        self.reading.wall_us = self.us as i64 + self.reading.wall_offset_ms * 1_000;
        self.us += self.cost_us;
        self.reading
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
