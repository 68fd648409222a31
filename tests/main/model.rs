//! Random requests against the server and a model so simple that it is right by inspection.

use std::collections::BTreeSet;

use mayfly::engine::session::SessionKey;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::sim::{START, Sim, TempDir};
use crate::twin::{
    CLEARING, KINDS, MANY_MAX, Model, TYPES, Words, assert_reply, assert_same, assert_snapshot_is,
    is_growing, type_of,
};

const SEEDS: u64 = 24;
const STEPS: usize = 3_000;
const CHECK_EVERY: usize = 100;
const KEYS: u32 = 40;
const FILLERS: usize = 10_000;
/// Keys where collections are to become large: few of each type.
const KEYS_OF_LARGE: u32 = 15;
/// Bits of the numbers of elements: few, so that requests meet, or as many as need many pieces.
const NUMBER_BITS: [u32; 2] = [6, 12];

/// Kinds of steps: the requests, and time passing.
const STEP_KINDS: usize = KINDS + 1;

/// A server, its model and the source of what happens to both.
pub struct Pair {
    pub sim: Sim,
    pub model: Model,
    rng: SmallRng,
    /// Whose requests they are.
    clients: Vec<SessionKey>,
    /// How often each kind of step is taken.
    weights: [u32; STEP_KINDS],
    /// Longest jump of the clock, in ms.
    jump_ms_max: i64,
    keys: u32,
    /// Most elements of a request.
    many_max: u32,
    /// Of the numbers of elements, and of indices.
    number_bits: u32,
}

impl Pair {
    pub fn new(dir: &TempDir, seed: u64) -> Pair {
        let is_large = seed % 4 == 3;
        let model = Model {
            now: START,
            // The usual limits are reached by large collections alone.
            packed_max: (!seed.is_multiple_of(4) && seed % 8 != 3).then_some(4 + seed % 5),
            ..Model::default()
        };
        let mut sim = model.server(dir, seed);
        if seed % 2 == 1 {
            sim.engine.jobs.defrag.always();
        }
        let weight = |kind| {
            if is_large && kind < KINDS && is_growing(kind) {
                4
            } else {
                1
            }
        };
        Pair {
            clients: vec![sim.client],
            sim,
            model,
            rng: SmallRng::seed_from_u64(seed),
            weights: std::array::from_fn(weight),
            jump_ms_max: 1_000_000,
            keys: if is_large { KEYS_OF_LARGE } else { KEYS },
            many_max: if is_large { MANY_MAX } else { 6 },
            number_bits: NUMBER_BITS[usize::from(is_large)],
        }
    }

    /// The same with many clients, of whom some kinds of steps are seen often and some never.
    fn swarm(dir: &TempDir, seed: u64, clients: usize) -> Pair {
        let mut pair = Pair::new(dir, seed);
        pair.clients = (0..clients).map(|_| pair.sim.connect()).collect();
        pair.weights = std::array::from_fn(|_| [0, 1, 1, 8][pair.rng.random_range(0..4)]);
        // There is always something to do, and time passes.
        pair.weights[2] += 1;
        pair.weights[KINDS] += 1;
        pair.jump_ms_max = 1 << pair.rng.random_range(1..40);
        pair
    }

    fn kind(&mut self) -> usize {
        let mut at = self.rng.random_range(0..self.weights.iter().sum());
        for (kind, weight) in self.weights.iter().enumerate() {
            if at < *weight {
                return kind;
            }
            at -= weight;
        }
        unreachable!("the weights add up")
    }

    /// A request of any client, who may come and go.
    fn run(&mut self, request: &str) -> String {
        let at = self.rng.random_range(0..self.clients.len());
        if self.clients.len() > 1 && self.rng.random_bool(0.01) {
            self.sim.engine.disconnect(self.clients[at]);
            self.clients[at] = self.sim.connect();
        }
        self.sim.run_as(self.clients[at], request)
    }

    fn key(&mut self) -> String {
        format!("key{}", self.rng.random_range(0..self.keys))
    }

    /// Mostly a key that is of the type which requests of this kind are for, if any is.
    fn key_for(&mut self, kind: usize) -> String {
        let number = self.rng.random_range(0..self.keys);
        match type_of(kind).filter(|_| self.rng.random_bool(0.9)) {
            Some(own) => format!("key{}", number - number % TYPES + own),
            None => format!("key{number}"),
        }
    }

    /// Of either sign, mostly small.
    fn index(&mut self) -> i64 {
        let most = 1 << self.rng.random_range(1..=self.number_bits);
        self.rng.random_range(-most..most)
    }

    fn words(&mut self, kind: usize) -> Words {
        let bits = self.rng.random_range(1..=self.number_bits);
        let most = self.rng.random_range(1..=self.many_max);
        Words {
            key: self.key_for(kind),
            to: self.key_for(kind),
            beside: self.key_for(kind),
            value: self.value(),
            ms: self.ms(),
            number: self.rng.random_range(0..1 << bits),
            many: self.rng.random_range(1..=most),
            index: self.index(),
            last: self.index(),
        }
    }

    fn value(&mut self) -> String {
        let number: u32 = self.rng.random_range(0..1_000);
        match self.rng.random_range(0..4) {
            0 => number.to_string(),
            1 => format!("v{number}"),
            2 => "long".repeat(number as usize),
            _ => format!("-{number}"),
        }
    }

    /// Mostly soon, now and then far away.
    fn ms(&mut self) -> i64 {
        let bits = self.rng.random_range(1..36);
        self.rng.random_range(1..1_i64 << bits)
    }

    /// The words of a random request and its kind; none if time is to pass.
    pub fn draw(&mut self) -> Option<(Words, usize)> {
        let kind = self.kind();
        (kind < KINDS).then(|| (self.words(kind), kind))
    }

    pub fn advance(&mut self) {
        let ms = match self.rng.random_range(0..20) {
            0 => self.ms() % self.jump_ms_max,
            _ => self.rng.random_range(0..20),
        };
        self.sim.clock.advance_ms(ms as u64);
        self.model.advance(ms);
        if self.rng.random_bool(0.5) {
            self.sim.jobs();
        }
    }

    /// One random request, or time passing; the request.
    pub fn step(&mut self) -> String {
        let Some((words, kind)) = self.draw() else {
            self.advance();
            return String::new();
        };
        let (request, expected) = self.model.request(kind, &words);
        assert_reply(&request, &self.run(&request), &expected);
        request
    }

    /// A request whose reply is not looked at.
    fn unforeseen(&mut self) -> String {
        let kind = self.kind();
        if kind >= KINDS {
            return "ping".to_owned();
        }
        let words = self.words(kind);
        self.model.request(kind, &words).0
    }

    /// The forms that collections have now.
    fn note_forms(&mut self, forms: &mut BTreeSet<String>) {
        for name in names() {
            let kind = self.sim.run(&format!("type {name}"));
            let form = self.sim.run(&format!("object encoding {name}"));
            if !["+none", "+string"].contains(&kind.as_str()) {
                forms.insert(format!("{kind} {form}"));
            }
        }
    }
}

fn names() -> Vec<String> {
    (0..KEYS).map(|n| format!("key{n}")).collect()
}

#[test]
fn the_server_does_what_the_model_does() {
    let mut forms = BTreeSet::new();
    for seed in 0..SEEDS {
        let dir = TempDir::new();
        let mut pair = Pair::new(&dir, seed);
        for step in 1..=STEPS {
            pair.step();
            if step % CHECK_EVERY == 0 {
                pair.sim.engine.keyspace.check();
                pair.note_forms(&mut forms);
            }
            if step == STEPS / 2 {
                pair.sim.jobs();
                pair.sim.engine.save_now().expect("a snapshot");
                assert_snapshot_is(&dir, &pair.model, &names());
            }
        }
        assert_same(&mut pair.sim, &pair.model, &names());
    }
    // Of each type every form was met.
    assert_eq!(forms.len(), 13, "{forms:?}");
}

#[test]
fn two_hundred_clients_see_what_the_model_does() {
    for seed in 1_000..1_000 + SEEDS {
        println!("seed {seed}");
        let dir = TempDir::new();
        let mut pair = Pair::swarm(&dir, seed, 200);
        for step in 1..=STEPS {
            pair.step();
            if step % CHECK_EVERY == 0 {
                pair.sim.engine.keyspace.check();
            }
        }
        assert_same(&mut pair.sim, &pair.model, &names());
        assert_eq!(pair.sim.engine.sessions.len(), 201);
        pair.sim.jobs();
        pair.sim.engine.save_now().expect("a snapshot");
        assert_snapshot_is(&dir, &pair.model, &names());
    }
}

#[test]
fn a_background_save_shows_the_instant_it_began() {
    for seed in 0..SEEDS {
        let dir = TempDir::new();
        let mut pair = Pair::new(&dir, seed);
        pair.sim.engine.config.save.clear();
        pair.weights[CLEARING].fill(0);
        // Keys that only lengthen the save, so that writes fall into it.
        for i in 0..FILLERS {
            let request = format!("set filler{i} v");
            pair.sim.expect(&request, "+OK");
            pair.model.set(&format!("filler{i}"), "v", None);
        }
        (0..500).for_each(|_| drop(pair.step()));
        pair.sim.jobs();
        let mut at_cut = pair.model.clone();
        assert!(pair.sim.engine.begin_save().expect("a thread"));
        pair.sim.clock.cost_us = 50;
        let mut steps: usize = 0;
        while pair.sim.engine.jobs.persistence.is_saving() {
            // Several writes to a slice of the save. Reading the clock moves it, so the model's
            // time is set by the server's.
            if steps.is_multiple_of(4) {
                pair.sim.jobs();
            }
            let now = pair.sim.engine.reading.now.0;
            let behind = now - pair.model.now;
            pair.model.advance(behind);
            let key = pair.key();
            let value = pair.value();
            let request = match steps % 8 {
                0 => format!("set {key} x{value}"),
                1 => format!("del {key} filler{}", steps % FILLERS),
                2 => format!("set filler{} {value}9 px 5", FILLERS - steps % FILLERS),
                _ => pair.unforeseen(),
            };
            pair.sim.run(&request);
            steps += 1;
            assert!(steps < 10_000_000, "the save does not end");
        }
        assert!(steps > 1, "nothing was written during the save");
        assert!(
            pair.sim
                .run("info persistence")
                .contains("rdb_last_bgsave_status:ok")
        );
        // A key that dies before the save comes to it is left out, so look at the time of the end.
        at_cut.advance(pair.sim.engine.reading.now.0 - at_cut.now);
        assert_snapshot_is(&dir, &at_cut, &names());
        pair.sim.engine.keyspace.check();
    }
}
