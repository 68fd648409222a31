//! The whole engine against the naive model of the random tests: requests on a few keys, jumps of
//! the clock, slices of jobs, saves and restarts, chosen by the bytes in groups of five, after a
//! first one that tells how soon collections are no longer packed, and whether everything is moved about
//! in memory all the while. Every reply is the model's, and
//! so is what is left, here and in each snapshot.
//!
//! An input is to cost a millisecond at most, or a short run tries next to nothing: one directory
//! serves all inputs, and only keys that the model holds are asked for at the end, as DBSIZE tells
//! that there are no others.
#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mayfly::clock::Clock;

#[allow(dead_code)]
#[path = "../../tests/main/sim.rs"]
mod sim;
#[allow(dead_code)]
#[path = "../../tests/main/twin/mod.rs"]
mod twin;
use sim::{START, Sim, TempDir};
use twin::{KINDS, Model, TYPES, Words, assert_reply, assert_same, assert_snapshot_is, type_of};

const KEYS: u8 = 15;
/// Elements of a request that adds or removes many.
const MANY: u32 = 250;
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

/// The keys that a model holds, in either database.
fn names(model: &Model) -> Vec<String> {
    let keys: BTreeSet<&String> = model.keys.keys().chain(model.other.keys()).collect();
    keys.into_iter().cloned().collect()
}

/// Mostly a key that is of the type which requests of this kind are for, if any is.
fn name_for(kind: usize, number: u8) -> String {
    let types = TYPES as u8;
    match type_of(kind) {
        Some(own) if number < 200 => name(number % KEYS / types * types + own as u8),
        _ => name(number),
    }
}

/// Where the snapshots of all inputs are written, each over the one before.
static DIR: LazyLock<TempDir> = LazyLock::new(TempDir::new);

struct Pair {
    sim: Sim,
    model: Model,
    /// The model when the background save that is running began.
    at_cut: Option<Model>,
    saves: usize,
}

impl Pair {
    fn new(limit: u8) -> Pair {
        let packed_max = (limit >= 64).then_some(u64::from(limit % 8) + 1);
        let model = Model { now: START, packed_max, ..Model::default() };
        let mut sim = model.server(&DIR, 7);
        sim.engine.config.save.clear();
        if limit % 2 == 1 {
            sim.engine.jobs.defrag.always();
        }
        Pair { sim, model, at_cut: None, saves: 0 }
    }

    fn step(&mut self, group: &[u8; 5]) {
        let [kind, key, size, bits, number] = *group;
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
        let many = match bits {
            0..200 => u32::from(bits) % 4 + 1,
            200..248 => u32::from(bits) - 190,
            _ => MANY,
        };
        let words = Words {
            key: name_for(kind, key),
            to: name_for(kind, size),
            beside: name_for(kind, number),
            value,
            ms,
            number: number.into(),
            many,
            index: i64::from(size as i8),
            last: i64::from(bits as i8),
        };
        let (request, expected) = self.model.request(kind, &words);
        assert_reply(&request, &self.sim.run(&request), &expected);
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
        assert_snapshot_is(&DIR, &at_cut, &names(&at_cut));
    }

    /// Saves, and goes on with a server that has loaded it.
    fn restart(&mut self) {
        if self.saves == SAVES_MAX {
            return;
        }
        self.saves += 1;
        self.at_cut = None;
        self.sim.engine.save_now().expect("a snapshot");
        self.sim = assert_snapshot_is(&DIR, &self.model, &names(&self.model));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((limit, groups)) = data.split_first() else {
        return;
    };
    let mut pair = Pair::new(*limit);
    for group in groups.as_chunks().0 {
        pair.step(group);
    }
    pair.end_save();
    assert_same(&mut pair.sim, &pair.model, &names(&pair.model));
});
