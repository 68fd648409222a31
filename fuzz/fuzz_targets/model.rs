//! The whole engine against the naive model of the random tests: requests on a few keys, jumps of
//! the clock, slices of jobs, saves and restarts, chosen by the bytes in groups of four. Every
//! reply is the model's, and so is what is left, here and in each snapshot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::clock::Clock;

#[allow(dead_code)]
#[path = "../../tests/main/sim.rs"]
mod sim;
#[allow(dead_code)]
#[path = "../../tests/main/twin.rs"]
mod twin;
use sim::{START, Sim, TempDir};
use twin::{KINDS, Model, Words, assert_same, assert_snapshot_is};

const KEYS: u8 = 12;
/// Time stays below this, so that microseconds fit.
const NOW_MAX: i64 = 1 << 50;
/// Saves per input, which cost a thread and a file each.
const SAVES_MAX: usize = 4;
/// What a look at the clock costs in a slice of jobs: such a slice does one piece of work.
const SLICE_COST_US: u64 = 1_000;

/// The last key is too long for a narrow header.
fn name(number: u8) -> String {
    let number = number % KEYS;
    let width = if number == KEYS - 1 { 256 } else { 0 };
    format!("key{number:0width$}")
}

struct Pair {
    dir: TempDir,
    sim: Sim,
    model: Model,
    /// The model when the background save that is running began.
    at_cut: Option<Model>,
    names: Vec<String>,
    saves: usize,
}

impl Pair {
    fn new() -> Pair {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 7);
        sim.engine.config.save.clear();
        let model = Model { now: START, ..Model::default() };
        let names = (0..KEYS).map(name).collect();
        Pair { dir, sim, model, at_cut: None, names, saves: 0 }
    }

    fn step(&mut self, group: &[u8; 4]) {
        let [kind, key, size, bits] = *group;
        let ms = (i64::from(size) + 1) << (bits % 40);
        let kind = usize::from(kind) % (KINDS + 6);
        if kind >= KINDS {
            return match kind - KINDS {
                0 if self.model.now + ms < NOW_MAX => {
                    self.sim.clock.advance_ms(ms as u64);
                    self.model.advance(ms);
                }
                0 | 1 => self.sim.jobs(),
                2 => self.slice(),
                3 => self.restart(),
                4 => self.begin_save(),
                _ => self.end_save(),
            };
        }
        let value = match bits % 4 {
            0 => size.to_string(),
            1 => "v".repeat(size.into()),
            2 => "long".repeat(usize::from(size) * 20),
            _ => format!("-{size}"),
        };
        let words = Words { key: name(key), to: name(size), value, ms };
        let (request, expected) = self.model.request(kind, &words);
        assert_eq!(self.sim.run(&request), expected, "{request}");
    }

    /// A slice of jobs that has time for little. Time moves by looking at the clock.
    fn slice(&mut self) {
        self.sim.clock.cost_us = SLICE_COST_US;
        self.sim.jobs();
        self.sim.clock.cost_us = 0;
        let now = self.sim.clock.read().now.0;
        self.model.advance(now - self.model.now);
    }

    fn begin_save(&mut self) {
        self.end_save();
        if self.saves < SAVES_MAX {
            self.saves += 1;
            self.at_cut = Some(self.model.clone());
            assert!(self.sim.engine.begin_save().expect("a thread"));
        }
    }

    /// Waits for a background save and compares what it wrote.
    fn end_save(&mut self) {
        let Some(mut at_cut) = self.at_cut.take() else {
            return;
        };
        while self.sim.engine.jobs.persistence.is_saving() {
            self.sim.jobs();
            std::thread::yield_now();
        }
        assert!(self.sim.engine.jobs.persistence.is_last_ok);
        // A key that died before the save came to it is left out.
        at_cut.advance(self.model.now - at_cut.now);
        assert_snapshot_is(&self.dir, &at_cut, &self.names);
    }

    /// Saves, and goes on with a server that has loaded it.
    fn restart(&mut self) {
        if self.saves == SAVES_MAX {
            return;
        }
        self.saves += 1;
        self.at_cut = None;
        self.sim.engine.save_now().expect("a snapshot");
        self.sim = assert_snapshot_is(&self.dir, &self.model, &self.names);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut pair = Pair::new();
    for group in data.as_chunks().0 {
        pair.step(group);
    }
    pair.end_save();
    assert_same(&mut pair.sim, &pair.model, &pair.names);
});
