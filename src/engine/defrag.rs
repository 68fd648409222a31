//! Giving back memory that lies between what lives: when to move things together, and how fast.
//!
//! What dies leaves holes (see `heap`). Once a second, while anything has been freed since the last
//! look, the job compares what is handed out with the pages that this takes. If the holes are over
//! `active-defrag-ignore-bytes` and over `active-defrag-threshold-lower` percent of what lives, a
//! pass over all keys moves what lies in sparse slabs. Its share of the time rises from
//! `active-defrag-cycle-min` percent to `-max` at `active-defrag-threshold-upper`.
//!
//! What a pass leaves cannot be removed by another: some holes lie between things that do not
//! move (buffers of clients, tables), some in slabs that are not sparse. So the next one waits
//! until there are more by the lower threshold again, or what lives has doubled or halved. That is
//! why the job comes to an end, and costs nothing where nothing is to be gained.
//!
//! Redis: needs a patched allocator, is off by default, and starts anew as long as the threshold is
//! exceeded.
//!
//! Not here: what is moved (`store::defrag`).

use super::Engine;
use super::memory::{Figures, figures};
use crate::clock::Clock;
use crate::config::Config;
use crate::expiry::pacing::SLICE_US;
use crate::heap::{Heap, Moving};
use crate::store::defrag::{Moved, Pass};

/// Time from one look at the figures to the next, in ms.
const LOOK_MS: u64 = 1000;

/// The job.
#[derive(Default)]
pub struct Defrag {
    /// The allocator.
    heap: Heap,
    pass: Option<Pass>,
    /// When to look at the figures, in monotonic ms; none if nothing has been freed since.
    look_at_ms: Option<u64>,
    /// The holes that the last pass has left, in percent of what lives,
    residue_percent: u64,
    /// and how many bytes lived then.
    residue_of_bytes: u64,
    /// The share of the time that the pass may take.
    share_percent: u64,
    /// What is left of it, in hundredths of a microsecond.
    tokens: u64,
    /// Up to when it has been handed out, in monotonic microseconds.
    filled_us: u64,
    /// When the pass began.
    since_us: u64,
    /// How long there was a pass before that, in microseconds.
    active_us: u64,
    /// What former passes have done.
    done: Moved,
}

/// Holes, in percent of what lives.
fn holes_percent(figures: &Figures) -> u64 {
    let holes = figures.active.saturating_sub(figures.allocated);
    holes * 100 / figures.allocated.max(1)
}

impl Defrag {
    /// For tests of what moves: everything is worth it, and one pass follows the other.
    pub fn always(&mut self) {
        self.heap.move_everything();
    }

    /// Something has been freed.
    pub fn note(&mut self, now_ms: u64) {
        self.look_at_ms.get_or_insert(now_ms + LOOK_MS);
    }

    /// The share of the time that a pass takes now, in percent; 0 if there is none.
    pub fn running_percent(&self) -> u64 {
        self.pass.as_ref().map_or(0, |_| self.share_percent)
    }

    /// What all passes have done.
    pub fn done(&self) -> Moved {
        let current = self.pass.as_ref().map(|pass| pass.done);
        self.done.plus(current.unwrap_or_default())
    }

    /// How long there has been a pass in all, and this one, in ms.
    pub fn active_ms(&self, now_us: u64) -> (u64, u64) {
        let current_us = self.pass.as_ref().map_or(0, |_| now_us - self.since_us);
        ((self.active_us + current_us) / 1000, current_us / 1000)
    }

    /// CONFIG RESETSTAT.
    pub fn reset_stats(&mut self) {
        self.done = Moved::default();
        if let Some(pass) = &mut self.pass {
            pass.done = Moved::default();
        }
    }

    /// When the job wants to run next, in ms from now.
    pub fn wakeup_ms(&self, now_ms: u64) -> Option<u64> {
        if self.pass.is_some() {
            let missing = (SLICE_US * 100).saturating_sub(self.tokens);
            return Some((missing / self.share_percent.max(1)).div_ceil(1000));
        }
        self.look_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Begins a pass if it is worth it.
    fn look(&mut self, config: &Config, now_us: u64) {
        let figures = figures();
        let percent = holes_percent(&figures);
        let holes = figures.active.saturating_sub(figures.allocated);
        if figures.allocated / 2 > self.residue_of_bytes
            || figures.allocated < self.residue_of_bytes / 2
        {
            // What lives is something else by now.
            self.residue_percent = 0;
        }
        self.residue_percent = self.residue_percent.min(percent);
        let lower = u64::from(config.active_defrag_threshold_lower);
        let is_enough = percent >= lower + self.residue_percent;
        let is_worth_it = holes >= config.active_defrag_ignore_bytes && is_enough;
        if !is_worth_it && !self.heap.moves_everything() {
            return;
        }
        self.pass = Some(Pass::default());
        self.share_percent = share_percent(config, percent);
        self.tokens = 0;
        (self.filled_us, self.since_us) = (now_us, now_us);
    }

    /// Ends a pass, whether it came to its end or not.
    fn end(&mut self, now_us: u64) {
        let pass = self.pass.take();
        self.done = self
            .done
            .plus(pass.map_or(Moved::default(), |pass| pass.done));
        self.active_us += now_us - self.since_us;
    }

    /// A pass has come to its end.
    fn note_residue(&mut self) {
        let figures = figures();
        self.residue_percent = holes_percent(&figures);
        self.residue_of_bytes = figures.allocated;
    }
}

/// The share of the time for so many holes: between the bounds as the holes between the thresholds.
fn share_percent(config: &Config, percent: u64) -> u64 {
    let [lower, upper, min, max] = [
        config.active_defrag_threshold_lower,
        config.active_defrag_threshold_upper,
        config.active_defrag_cycle_min,
        config.active_defrag_cycle_max,
    ]
    .map(u64::from);
    let max = max.max(min);
    if percent >= upper || upper <= lower {
        return max;
    }
    let above = percent.saturating_sub(lower);
    min + (max - min) * above / (upper - lower)
}

impl Engine {
    /// Looks at the figures if it is time, or goes on with the pass.
    pub(super) fn defragment_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        let now_us = self.reading.monotonic_us;
        let defrag = &mut self.jobs.defrag;
        if !self.config.activedefrag {
            if defrag.pass.is_some() {
                defrag.end(now_us);
            }
            defrag.look_at_ms = None;
            return;
        }
        let Some(pass) = &mut defrag.pass else {
            let now_ms = now_us / 1000;
            let is_time = defrag.look_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
            if is_time || defrag.heap.moves_everything() {
                defrag.look_at_ms = None;
                defrag.look(&self.config, now_us);
            }
            return;
        };
        let elapsed_us = now_us - defrag.filled_us;
        defrag.filled_us = now_us;
        defrag.tokens = (defrag.tokens + elapsed_us * defrag.share_percent).min(SLICE_US * 100);
        let until_us = until_us.min(now_us + defrag.tokens / 100);
        if until_us <= now_us {
            return;
        }
        let moving = Moving::begin();
        let mut has_more = true;
        while has_more && self.reading.monotonic_us < until_us {
            has_more = self.keyspace.defragment_step(pass, &defrag.heap);
            self.reading = clock.read();
        }
        drop(moving);
        let spent = (self.reading.monotonic_us - now_us) * 100;
        defrag.tokens = defrag.tokens.saturating_sub(spent);
        self.jobs.reclaim.note(self.reading.monotonic_us / 1000);
        if !has_more {
            self.jobs.defrag.end(self.reading.monotonic_us);
            self.jobs.defrag.note_residue();
        }
    }
}
