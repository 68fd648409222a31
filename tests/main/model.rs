//! Random requests against the server and a model so simple that it is right by inspection.

use std::collections::BTreeMap;

use mayfly::engine::session::SessionKey;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::sim::{START, Sim, TempDir};

const SEEDS: u64 = 20;
const STEPS: usize = 3_000;
const CHECK_EVERY: usize = 100;
const KEYS: u32 = 40;
const FILLERS: usize = 10_000;

/// Values and deadlines; what is due is thrown out before each step.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<String, (String, Option<i64>)>,
    now: i64,
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| {
        format!("${} {v}", v.len()).trim_end().to_owned()
    })
}

impl Model {
    fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        self.keys
            .retain(|_, (_, deadline)| deadline.is_none_or(|at| at > now));
    }

    fn set(&mut self, key: &str, value: &str, deadline: Option<i64>) -> String {
        self.keys
            .insert(key.to_owned(), (value.to_owned(), deadline));
        "+OK".to_owned()
    }

    fn get(&self, key: &str) -> String {
        bulk(self.keys.get(key).map(|(value, _)| value.as_str()))
    }

    fn expire(&mut self, key: &str, ms: i64) -> String {
        let Some((_, deadline)) = self.keys.get_mut(key) else {
            return ":0".to_owned();
        };
        *deadline = Some(self.now + ms);
        self.advance(0);
        ":1".to_owned()
    }

    fn persist(&mut self, key: &str) -> String {
        let deadline = self.keys.get_mut(key).and_then(|(_, at)| at.take());
        format!(":{}", i32::from(deadline.is_some()))
    }

    fn ttl(&self, key: &str) -> String {
        match self.keys.get(key) {
            None => ":-2".to_owned(),
            Some((_, None)) => ":-1".to_owned(),
            Some((_, Some(at))) => format!(":{}", at - self.now),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> String {
        let Some(found) = self.keys.remove(from) else {
            return "-ERR no such key".to_owned();
        };
        self.keys.insert(to.to_owned(), found);
        "+OK".to_owned()
    }

    fn append(&mut self, key: &str, more: &str) -> String {
        let (value, _) = self.keys.entry(key.to_owned()).or_default();
        value.push_str(more);
        format!(":{}", value.len())
    }

    fn incr(&mut self, key: &str) -> String {
        let fresh = || ("0".to_owned(), None);
        let (value, _) = self.keys.entry(key.to_owned()).or_insert_with(fresh);
        let number = value.parse::<i64>().ok();
        let is_plain = number.is_some_and(|n| n.to_string() == *value);
        match number.and_then(|n| n.checked_add(1)) {
            Some(sum) if is_plain => {
                *value = sum.to_string();
                format!(":{sum}")
            }
            Some(_) | None if is_plain => "-ERR increment or decrement would overflow".to_owned(),
            _ => "-ERR value is not an integer or out of range".to_owned(),
        }
    }
}

/// Kinds of steps.
const KINDS: usize = 16;

/// A server, its model and the source of what happens to both.
struct Pair {
    sim: Sim,
    model: Model,
    rng: SmallRng,
    /// Whose requests they are.
    clients: Vec<SessionKey>,
    /// How often each kind of step is taken.
    weights: [u32; KINDS],
    /// Longest jump of the clock, in ms.
    jump_ms_max: i64,
}

impl Pair {
    fn new(dir: &TempDir, seed: u64) -> Pair {
        let model = Model {
            now: START,
            ..Model::default()
        };
        let sim = Sim::saving_in(dir, seed);
        Pair {
            clients: vec![sim.client],
            sim,
            model,
            rng: SmallRng::seed_from_u64(seed),
            weights: [1; KINDS],
            jump_ms_max: 1_000_000,
        }
    }

    /// The same with many clients, of whom some kinds of steps are seen often and some never.
    fn swarm(dir: &TempDir, seed: u64, clients: usize) -> Pair {
        let mut pair = Pair::new(dir, seed);
        pair.clients = (0..clients).map(|_| pair.sim.connect()).collect();
        pair.weights = std::array::from_fn(|_| [0, 1, 1, 8][pair.rng.random_range(0..4)]);
        // There is always something to do, and time passes.
        pair.weights[2] += 1;
        pair.weights[KINDS - 1] += 1;
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
        format!("key{}", self.rng.random_range(0..KEYS))
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

    fn advance(&mut self) {
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

    /// One random request, or time passing.
    fn step(&mut self) {
        let (key, value, ms) = (self.key(), self.value(), self.ms());
        let kind = self.kind();
        let model = &mut self.model;
        let (request, expected) = match kind {
            0 | 1 => (format!("set {key} {value}"), model.set(&key, &value, None)),
            2 | 3 => {
                let deadline = Some(model.now + ms);
                let request = format!("set {key} {value} px {ms}");
                (
                    request.replace("  ", " \"\" "),
                    model.set(&key, &value, deadline),
                )
            }
            4 => (format!("get {key}"), model.get(&key)),
            5 => {
                let found = model.keys.remove(&key).is_some();
                (format!("del {key}"), format!(":{}", i32::from(found)))
            }
            6 | 7 => (format!("pexpire {key} {ms}"), model.expire(&key, ms)),
            8 => (format!("pexpire {key} 0"), model.expire(&key, 0)),
            9 => (format!("persist {key}"), model.persist(&key)),
            10 => {
                let to = format!("key{}", ms as u32 % KEYS);
                (format!("rename {key} {to}"), model.rename(&key, &to))
            }
            11 => (format!("append {key} 7"), model.append(&key, "7")),
            12 => (format!("incr {key}"), model.incr(&key)),
            13 => (format!("pttl {key}"), model.ttl(&key)),
            14 => ("dbsize".to_owned(), format!(":{}", model.keys.len())),
            _ => return self.advance(),
        };
        // An empty value must be quoted to be there at all.
        let request = match request.strip_suffix(' ') {
            Some(start) => format!("{start} \"\""),
            None => request,
        };
        assert_eq!(self.run(&request), expected, "{request}");
    }
}

/// Every key of the model and no other is in the server.
#[track_caller]
fn assert_same(sim: &mut Sim, model: &Model) {
    sim.engine.keyspace.check();
    for key in (0..KEYS).map(|n| format!("key{n}")) {
        sim.expect(&format!("pttl {key}"), &model.ttl(&key));
        sim.expect(&format!("get {key}"), &model.get(&key));
    }
    sim.expect("dbsize", &format!(":{}", model.keys.len()));
}

/// Loads the snapshot in `dir` into a server whose clock shows what the model's does.
#[track_caller]
fn assert_snapshot_is(dir: &TempDir, model: &Model) {
    let mut other = Sim::saving_in(dir, 99);
    other.clock.advance_ms((model.now - START) as u64);
    other.jobs();
    other.engine.load_now().expect("it loads");
    assert_same(&mut other, model);
}

#[test]
fn the_server_does_what_the_model_does() {
    for seed in 0..SEEDS {
        let dir = TempDir::new();
        let mut pair = Pair::new(&dir, seed);
        for step in 1..=STEPS {
            pair.step();
            if step % CHECK_EVERY == 0 {
                pair.sim.engine.keyspace.check();
            }
            if step == STEPS / 2 {
                pair.sim.jobs();
                pair.sim.engine.save_now().expect("a snapshot");
                assert_snapshot_is(&dir, &pair.model);
            }
        }
        assert_same(&mut pair.sim, &pair.model);
    }
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
        assert_same(&mut pair.sim, &pair.model);
        assert_eq!(pair.sim.engine.sessions.len(), 201);
        pair.sim.jobs();
        pair.sim.engine.save_now().expect("a snapshot");
        assert_snapshot_is(&dir, &pair.model);
    }
}

#[test]
fn a_background_save_shows_the_instant_it_began() {
    for seed in 0..SEEDS {
        let dir = TempDir::new();
        let mut pair = Pair::new(&dir, seed);
        pair.sim.engine.config.save.clear();
        // Keys that only lengthen the save, so that writes fall into it.
        for i in 0..FILLERS {
            let request = format!("set filler{i} v");
            pair.sim.expect(&request, "+OK");
            pair.model.set(&format!("filler{i}"), "v", None);
        }
        (0..500).for_each(|_| pair.step());
        pair.sim.jobs();
        let mut at_cut = pair.model.clone();
        assert!(pair.sim.engine.begin_save().expect("a thread"));
        pair.sim.clock.cost_us = 50;
        let mut steps: usize = 0;
        while pair.sim.engine.jobs.persistence.is_saving() {
            // Reading the clock moves it, so the model's time is set by the server's.
            pair.sim.jobs();
            let now = pair.sim.engine.reading.now.0;
            let behind = now - pair.model.now;
            pair.model.advance(behind);
            let key = pair.key();
            let value = pair.value();
            let request = match steps % 3 {
                0 => format!("set {key} x{value}"),
                1 => format!("del {key} filler{}", steps % FILLERS),
                _ => format!("set filler{} {value}9 px 5", FILLERS - steps % FILLERS),
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
        assert_snapshot_is(&dir, &at_cut);
        pair.sim.engine.keyspace.check();
    }
}
