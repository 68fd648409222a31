//! Work that is done in slices between requests, and when to wake up for it.
//!
//! All jobs together take at most [`SLICE_US`] of a turn. In order of urgency: expiry, refiling
//! items of the deadline index whose coarse bucket is about to begin, the snapshot, freeing what
//! was flushed, giving memory back. Housekeeping (idle clients, soft output limits, save points,
//! rates) runs `hz` times a second while there is anything to look after, and not at all on an idle
//! server.
//!
//! Redis: `hz` also drives expiry there. Here it does not: deletion follows the deadlines.
//!
//! Invariants: a job keeps its place and gives way when its time is up; nothing here blocks.

use super::Engine;
use super::defrag::Defrag;
use super::memory::Reclaim;
use super::persistence::Persistence;
use super::session::{Closing, Session, SessionKey};
use crate::clock::{Clock, Reading};
use crate::config::{Config, ExpireClock};
use crate::expiry::index::{ItemRef, Strata};
use crate::expiry::pacing::{Pacer, REFILE_MS, SLICE_US};
use crate::store::db::Filed;

/// Hashes whose due fields are removed between two readings of the clock, of each of which at most
/// one piece is looked at.
const HASHES_PER_ROUND: usize = 4;
/// Entries freed between two readings of the clock.
const BURIED_PER_STEP: usize = 256;
/// After a turn whose commands took longer than this, in microseconds, burying may take half as
/// long as they did: they may have made what is buried, faster than slices can free it.
const LONG_TURN_US: u64 = 10_000;
/// The same is true if so many values wait to be freed.
const BURIED_MAX: usize = 16 * 1024;
/// Items refiled between two readings of the clock.
const REFILED_PER_STEP: usize = 64;

/// A client that is to be closed after its reply and takes no byte of it for so long, in ms, is
/// closed without it, whatever `timeout` says: it would stay for ever otherwise, reply and all.
const CLOSING_IDLE_MS_MAX: u64 = 60_000;

/// Buffers of a client that has been silent for so long, in ms, are given back; as in Redis.
const BUFFERS_KEPT_MS: u64 = 2000;
/// Of at most so many clients each time: freeing a large buffer takes a few microseconds.
const SHRUNK_PER_HOUSEKEEPING: usize = 256;
/// Room for so many clients is kept, and for so many times as many as there are.
const SESSIONS_KEPT: usize = 256;
const VACANT_SHARE: usize = 4;
/// Buffers that hold nothing and take less than this, in bytes, are not worth giving back.
const SPARE_BYTES_MIN: usize = 1024;

/// The state of all jobs.
pub struct Jobs {
    /// Budget of expiry.
    pub pacer: Pacer,
    /// Saves and loads.
    pub persistence: Persistence,
    /// Memory that is given back.
    pub reclaim: Reclaim,
    /// What lives is moved together.
    pub defrag: Defrag,
    /// Time expiry took.
    pub expiry_us: u64,
    /// Time the commands of this turn took.
    pub commands_us: u64,
    expired_at_us: u64,
    /// The index whose turn it is.
    next_index: usize,
    drawn: Vec<(ItemRef, u64)>,
    housekept_ms: u64,
    /// Steps of the wall clock that have been logged.
    wall_steps_told: u64,
    /// Commands processed when housekeeping last ran: tells an idle server.
    housekept_commands: u64,
}

impl Jobs {
    /// Jobs of a new server.
    pub fn new(config: &Config, reading: &Reading) -> Jobs {
        Jobs {
            pacer: Pacer::new(config.active_expire_effort as u8),
            persistence: Persistence::new(reading.wall_us.div_euclid(1_000_000)),
            reclaim: Reclaim::default(),
            defrag: Defrag::default(),
            expiry_us: 0,
            commands_us: 0,
            expired_at_us: reading.monotonic_us,
            next_index: 0,
            drawn: Vec::new(),
            housekept_ms: reading.monotonic_us / 1000,
            housekept_commands: 0,
            wall_steps_told: reading.wall_steps,
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset_stats(&mut self) {
        self.expiry_us = 0;
        self.defrag.reset_stats();
        self.pacer.reset_stats();
    }

    /// Whether a snapshot is being loaded.
    pub fn is_loading(&self) -> bool {
        self.persistence.is_loading()
    }
}

/// Whether a client has moved no byte for longer than it may. `timeout_ms` is the setting, 0 for
/// ever.
///
/// Redis: a client that is to be closed after its reply stays for ever unless `timeout` is set.
fn is_idle_too_long(session: &Session, now_ms: u64, timeout_ms: u64) -> bool {
    let limit_ms = if timeout_ms > 0 { timeout_ms } else { u64::MAX };
    let idle_ms = now_ms.saturating_sub(session.active_ms);
    match session.closing {
        Closing::Now => false,
        Closing::AfterReply => idle_ms > limit_ms.min(CLOSING_IDLE_MS_MAX),
        Closing::No => {
            let may_be_silent = session.subscriptions() > 0 || session.is_held();
            idle_ms > limit_ms && !may_be_silent
        }
    }
}

/// How often an idle server with deadlines looks at the wall clock, in ms.
const WALL_CLOCK_SEEN_MS: u64 = 1_000;
/// How often an idle server collects garbage of scripts, in ms.
const GARBAGE_STEP_MS: u64 = 5;

impl Engine {
    /// Runs the jobs for one slice. `is_idle`: the poll came back empty.
    pub fn run_jobs(&mut self, clock: &mut dyn Clock, is_idle: bool) {
        self.reading = clock.read();
        self.keyspace.follow_wall(&self.reading);
        let start_us = self.reading.monotonic_us;
        let until_us = start_us + SLICE_US;
        let is_over = |until_ms: u64| until_ms <= start_us / 1000;
        if self.expiry_paused_until_ms.is_some_and(is_over) {
            self.resume_expiry();
        }
        self.shift_slice(clock, until_us);
        self.expire_slice(clock, is_idle);
        self.keyspace.settle_schedule();
        self.publish_changes();
        self.evict_slice(clock, until_us);
        self.persist_slice(clock, until_us, is_idle);
        if !self.keyspace.graveyard.is_empty() {
            let is_behind = self.jobs.commands_us > LONG_TURN_US
                || self.keyspace.graveyard.pending_values() > BURIED_MAX;
            let share_us = if is_behind {
                self.jobs.commands_us / 2
            } else {
                0
            };
            self.bury_slice(clock, until_us.max(start_us + share_us));
        }
        self.defragment_slice(clock, until_us);
        self.reclaim_slice(clock);
        if is_idle {
            self.scripts.collect_step();
        }
        let now_ms = self.reading.monotonic_us / 1000;
        if let Some(pause) = self.pause
            && now_ms >= pause.until_ms
        {
            self.end_pause();
        }
        self.evict_clients();
        self.end_waits();
        self.retry_waits();
        if now_ms >= self.jobs.housekept_ms + self.housekeeping_ms() {
            self.jobs.housekept_ms = now_ms;
            self.housekeep(now_ms);
        }
    }

    /// Moves deadlines that follow the wall clock, after that was set.
    fn shift_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        while self.keyspace.is_shifting() {
            self.keyspace.shift_step();
            self.reading = clock.read();
            if self.reading.monotonic_us >= until_us {
                break;
            }
        }
    }

    /// How late the oldest due key is, in ms; what lies in ended buckets is due.
    fn lateness_ms(&self) -> i64 {
        self.keyspace
            .active_indexes()
            .filter_map(Strata::oldest_ripe)
            .chain(self.keyspace.next_activation())
            .map(|end| self.reading.now.since(end))
            .fold(0, i64::max)
    }

    /// Whether there is anything to expire or to refile at once.
    fn has_ripe(&self) -> bool {
        let mut indexes = self.keyspace.active_indexes();
        indexes.any(|index| !index.is_empty() && index.ripe_len() > 0)
    }

    fn collects(&self) -> bool {
        !self.is_expiry_paused() && !self.keyspace.is_frozen
    }

    /// Active expiry: see `expiry` for the idea, `expiry/pacing.rs` for the budget.
    fn expire_slice(&mut self, clock: &mut dyn Clock, is_idle: bool) {
        let now = self.reading.now;
        self.keyspace.ripen(now);
        let has_work = self.collects() && self.has_ripe() || self.has_untold();
        let start_us = self.reading.monotonic_us;
        let elapsed_us = start_us - self.jobs.expired_at_us;
        self.refile_slice(clock, start_us + SLICE_US);
        self.jobs.expired_at_us = start_us;
        let late_ms = self.lateness_ms();
        let lag_max_ms = i64::from(self.config.expire_lag_ms_max);
        let allowed_us = self
            .jobs
            .pacer
            .allow_us(elapsed_us, is_idle, late_ms, lag_max_ms);
        if !has_work {
            return;
        }
        let until_us = self.reading.monotonic_us + allowed_us;
        let began_us = self.reading.monotonic_us;
        let is_unfinished = self.tell_deaths(clock, until_us)
            || self.collects() && self.expire_rounds(clock, until_us);
        let spent_us = self.reading.monotonic_us - began_us;
        self.jobs.expiry_us += spent_us;
        self.note_freed();
        self.jobs.pacer.spent(spent_us, is_idle, is_unfinished);
    }

    /// Whether what is gone, members of collections for instance, has to leave its events: while
    /// expiry is paused, too, but not while clients are.
    fn has_untold(&self) -> bool {
        let is_left = self.keyspace.deaths.are_pending() || self.keyspace.graveyard.has_estates();
        is_left && !self.keyspace.is_frozen
    }

    /// Has such things leave their events, until none is left or half the time is up; true if all
    /// of it is.
    fn tell_deaths(&mut self, clock: &mut dyn Clock, until_us: u64) -> bool {
        let half_us = self.reading.monotonic_us.midpoint(until_us);
        while self.has_untold() && self.reading.monotonic_us < half_us {
            if !self.keyspace.deaths.are_pending() {
                self.keyspace.settle_estates();
            }
            self.publish_changes();
            self.reading = clock.read();
        }
        self.reading.monotonic_us >= until_us
    }

    /// Rounds over both indexes of all active databases in turn, until nothing is ripe or
    /// time is up; true if the latter.
    fn expire_rounds(&mut self, clock: &mut dyn Clock, until_us: u64) -> bool {
        let indexes = self.keyspace.active_databases().len() * 2;
        let draw = self.jobs.pacer.draw();
        let mut drawn = std::mem::take(&mut self.jobs.drawn);
        let mut done = 0;
        let mut is_unfinished = false;
        while done < indexes {
            let next = self.jobs.next_index % indexes;
            let db = usize::from(self.keyspace.active_databases()[next / 2]);
            let what = [Filed::Keys, Filed::Members][next % 2];
            if self.keyspace.db(db).index_of(what).ripe_len() == 0 {
                self.jobs.next_index = (next + 1) % indexes;
                done += 1;
                continue;
            }
            if self.reading.monotonic_us >= until_us {
                is_unfinished = true;
                // The next slice begins with the next index, so that none starves.
                self.jobs.next_index = (next + 1) % indexes;
                break;
            }
            let reading = self.reading;
            if what == Filed::Members {
                self.keyspace
                    .expire_members_round(db, &reading, HASHES_PER_ROUND, &mut drawn);
            } else {
                let round = self
                    .keyspace
                    .expire_round(db, &reading, draw.ripe, draw.audit, &mut drawn);
                let now_us = reading.monotonic_us;
                let (sampled, dead) = (round.audited, round.audited_due);
                self.jobs.pacer.audited(sampled, dead, now_us);
            }
            self.publish_changes();
            self.reading = clock.read();
        }
        self.jobs.drawn = drawn;
        is_unfinished
    }

    /// Refiles items of coarse buckets that are about to begin, spread over the time left.
    fn refile_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        let mut drawn = std::mem::take(&mut self.jobs.drawn);
        let now = self.reading.now;
        for next in 0..self.keyspace.active_databases().len() * 2 {
            let db = usize::from(self.keyspace.active_databases()[next / 2]);
            let what = [Filed::Keys, Filed::Members][next % 2];
            let Some(coming) = self.keyspace.db(db).coming(what, db, now) else {
                continue;
            };
            let mut left = self.jobs.pacer.refile_count(&coming);
            while left > 0 && self.reading.monotonic_us < until_us {
                let step = left.min(REFILED_PER_STEP);
                let refiled = self.keyspace.refile_coming((db, what), step, &mut drawn);
                if refiled == 0 {
                    break;
                }
                left -= refiled.min(left);
                self.reading = clock.read();
            }
            let again = now.plus(REFILE_MS as i64);
            self.keyspace.refile_later((db, what), again);
        }
        self.jobs.drawn = drawn;
    }

    fn bury_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        self.note_freed();
        while !self.keyspace.graveyard.is_empty() {
            self.keyspace.graveyard.dig(BURIED_PER_STEP);
            self.reading = clock.read();
            if self.reading.monotonic_us >= until_us {
                break;
            }
        }
    }

    fn housekeeping_ms(&self) -> u64 {
        1000 / u64::from(self.config.hz.max(1))
    }

    fn housekeep(&mut self, now_ms: u64) {
        self.metrics.sample(now_ms);
        self.sample_memory();
        if self.reading.wall_steps != self.jobs.wall_steps_told {
            self.jobs.wall_steps_told = self.reading.wall_steps;
            log::warn!("The wall clock was set by {} ms", self.reading.wall_step_ms);
        }
        self.check_save_points(now_ms);
        if self.jobs.housekept_commands != self.metrics.commands_processed {
            self.jobs.housekept_commands = self.metrics.commands_processed;
            self.jobs.defrag.note(now_ms);
        }
        self.look_after_clients(now_ms);
    }

    /// Closes clients that have been idle or over their limit for too long, and gives back the
    /// buffers of those that have fallen silent.
    fn look_after_clients(&mut self, now_ms: u64) {
        let timeout_ms = u64::from(self.config.timeout_seconds) * 1000;
        let (mut late, mut owed) = (Vec::new(), Vec::new());
        let mut shrunk = Vec::new();
        self.has_spare_buffers = false;
        for (key, session) in &mut self.sessions {
            if is_idle_too_long(session, now_ms, timeout_ms) {
                late.push(key);
            } else if !session.output.is_empty() {
                owed.push(key);
            }
            if session.spare_bytes() >= SPARE_BYTES_MIN {
                let is_silent = now_ms.saturating_sub(session.active_ms) >= BUFFERS_KEPT_MS;
                if is_silent && shrunk.len() < SHRUNK_PER_HOUSEKEEPING {
                    shrunk.push(key);
                    session.shrink();
                } else {
                    self.has_spare_buffers = true;
                }
            }
        }
        shrunk.into_iter().for_each(|key| self.count_client(key));
        // There is room for as many as there have been at a time.
        let (len, capacity) = (self.sessions.len(), self.sessions.capacity());
        if capacity > SESSIONS_KEPT && len * VACANT_SHARE <= capacity {
            self.sessions.shrink_to_fit();
        }
        self.has_backlog = !owed.is_empty();
        late.into_iter()
            .for_each(|key| self.close(key, Closing::Now));
        owed.into_iter()
            .for_each(|key| self.check_output_limit(key));
    }

    /// A client has been sent so many bytes. One that has not taken all it is owed may be owed too
    /// much.
    pub fn note_sent(&mut self, key: SessionKey, bytes: usize) {
        self.metrics.output_bytes += bytes as u64;
        let session = &mut self.sessions[key];
        session.bytes_out += bytes as u64;
        if bytes > 0 {
            session.active_ms = self.reading.monotonic_us / 1000;
        }
        if session.output.is_empty() {
            session.over_soft_since_ms = None;
        } else {
            self.has_backlog = true;
            self.check_output_limit(key);
        }
        self.count_client(key);
    }

    /// How long the loop may sleep, in ms: until a bucket of the index ends, a pause ends, or
    /// housekeeping has something to look after. None: until something arrives.
    pub fn next_wakeup_ms(&self) -> Option<u64> {
        let has_work =
            !self.keyspace.graveyard.is_empty() || self.has_untold() || self.keyspace.is_shifting();
        if !self.ready.is_empty() || has_work {
            return Some(0);
        }
        let now_ms = self.reading.monotonic_us / 1000;
        let mut wakeup = self
            .pause
            .map(|pause| pause.until_ms.saturating_sub(now_ms));
        let mut sooner = |ms: u64| wakeup = Some(wakeup.map_or(ms, |w: u64| w.min(ms)));
        if let Some(until_ms) = self.expiry_paused_until_ms {
            sooner(until_ms.saturating_sub(now_ms));
        }
        if self.collects() {
            let expiry = [
                self.keyspace.next_activation(),
                self.keyspace.next_of_active(),
            ];
            for at in expiry.into_iter().flatten() {
                sooner(at.since(self.reading.now).max(0) as u64);
                if self.config.expire_clock == ExpireClock::Monotonic {
                    // Somebody must see that the wall clock was set.
                    sooner(WALL_CLOCK_SEEN_MS);
                }
            }
        }
        for ms in [
            self.next_timeout_ms(),
            self.jobs.persistence.wakeup_ms(),
            self.save_point_wakeup_ms(),
            self.jobs.reclaim.wakeup_ms(now_ms),
            self.jobs.defrag.wakeup_ms(now_ms),
        ] {
            ms.into_iter().for_each(&mut sooner);
        }
        if self.scripts.has_garbage {
            sooner(GARBAGE_STEP_MS);
        }
        let is_active = self.jobs.housekept_commands != self.metrics.commands_processed;
        if is_active || self.has_backlog || self.has_spare_buffers {
            sooner(self.housekeeping_ms());
        } else if self.config.timeout_seconds > 0 && !self.sessions.is_empty() {
            sooner(1000);
        }
        wakeup
    }
}
