//! Random requests under a memory limit: whatever gives way was allowed to, and everything else is
//! as the model says.
//!
//! The model does not know how much memory anything takes. It is told by the `evicted` events which
//! keys gave way, and drops them before it answers the request: a command makes room before it
//! runs. The limit is set anew around what is in use, so that sometimes a few keys must go.

use std::collections::BTreeSet;

use mayfly::command::table::row::flag;
use mayfly::command::table::table;
use mayfly::config::EvictionPolicy;
use mayfly::engine::session::SessionKey;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::model::Pair;
use crate::sim::{Sim, TempDir};
use crate::twin::{Model, assert_reply, assert_same};

const STEPS: usize = 2_000;
const POLICIES: [(&str, EvictionPolicy); 9] = [
    ("allkeys-lru", EvictionPolicy::AllkeysLru),
    ("allkeys-lfu", EvictionPolicy::AllkeysLfu),
    ("allkeys-lrm", EvictionPolicy::AllkeysLrm),
    ("allkeys-random", EvictionPolicy::AllkeysRandom),
    ("volatile-lru", EvictionPolicy::VolatileLru),
    ("volatile-lfu", EvictionPolicy::VolatileLfu),
    ("volatile-lrm", EvictionPolicy::VolatileLrm),
    ("volatile-random", EvictionPolicy::VolatileRandom),
    ("volatile-ttl", EvictionPolicy::VolatileTtl),
];

/// A pair whose server tells of what it evicts.
struct Limited {
    pair: Pair,
    policy: EvictionPolicy,
    /// Who is told.
    listener: SessionKey,
    rng: SmallRng,
    events: u64,
}

/// Bytes that count toward the limit.
fn used(sim: &mut Sim) -> u64 {
    let text = sim.run("info memory");
    let field = |name: &str| -> u64 {
        let (_, rest) = text.split_once(name).expect("the field");
        let number = rest.split(' ').next().expect("a number");
        number.parse().expect("a number")
    };
    field("mem_counted:") - field("mem_graveyard:")
}

impl Limited {
    fn new(dir: &TempDir, (name, policy): (&str, EvictionPolicy), seed: u64) -> Limited {
        let mut pair = Pair::new(dir, seed);
        let sim = &mut pair.sim;
        sim.expect(&format!("config set maxmemory-policy {name}"), "+OK");
        sim.expect("config set notify-keyspace-events Ee save \"\"", "+OK");
        let listener = sim.connect();
        sim.run_as(listener, "psubscribe __keyevent@*__:evicted");
        Limited {
            pair,
            policy,
            listener,
            rng: SmallRng::seed_from_u64(seed),
            events: 0,
        }
    }

    /// Sets a limit near what is in use, or none.
    fn limit(&mut self) {
        let used = used(&mut self.pair.sim);
        let bytes = match self.rng.random_range(0..4) {
            0 => 0,
            1 => used + self.rng.random_range(0..1_000),
            _ => used.saturating_sub(self.rng.random_range(0..2_000)).max(1),
        };
        let request = format!("config set maxmemory {bytes}");
        self.pair.sim.expect(&request, "+OK");
    }

    /// The keys that gave way since the last call: database and name.
    fn evicted(&mut self) -> Vec<(usize, String)> {
        let text = self.pair.sim.received(self.listener);
        let words: Vec<&str> = text.split_whitespace().collect();
        let messages = words.chunks_exact(9);
        assert!(messages.remainder().is_empty(), "{text}");
        let evicted = messages.map(|message| {
            let channel = message[6].strip_prefix("__keyevent@").expect("a channel");
            let (db, _) = channel.split_once("__").expect("a database");
            (db.parse().expect("a number"), message[8].to_owned())
        });
        evicted.collect()
    }

    /// Drops from the model what gave way, if that was right.
    fn drop_evicted(&mut self, model: &mut Model) -> usize {
        let evicted = self.evicted();
        for (db, key) in &evicted {
            let keys = match db {
                0 => &mut model.keys,
                _ => &mut model.other,
            };
            let (_, deadline) = keys.remove(key).unwrap_or_else(|| panic!("{key} was dead"));
            assert!(
                deadline.is_some() || !self.policy.is_volatile(),
                "{key} has no deadline"
            );
        }
        if !evicted.is_empty() {
            // What was due had gone before: the limit was exceeded without it.
            let indexes = self.pair.sim.engine.keyspace.active_indexes();
            let ripe: usize = indexes.map(|index| index.ripe_len()).sum();
            assert_eq!(ripe, 0, "something due was left");
        }
        self.events += evicted.len() as u64;
        evicted.len()
    }

    fn step(&mut self) {
        let before = self.pair.model.clone();
        let Some((words, kind)) = self.pair.draw() else {
            self.pair.advance();
            let mut model = std::mem::take(&mut self.pair.model);
            self.drop_evicted(&mut model);
            self.pair.model = model;
            return;
        };
        let (request, mut expected) = self.pair.model.request(kind, &words);
        let reply = self.pair.sim.run(&request);
        let mut now = before;
        let evicted = self.drop_evicted(&mut now);
        if reply.starts_with("-OOM") {
            self.pair.model = now;
            self.assert_may_refuse(&request);
            return;
        }
        if evicted > 0 {
            let (again, other) = now.request(kind, &words);
            self.pair.model = now;
            if again != request {
                // It was made for what is no more there: nobody knows what it came to.
                return self.start_over();
            }
            expected = other;
        }
        assert_reply(&request, &reply, &expected);
    }

    /// Nothing could give way, and the command needs memory.
    fn assert_may_refuse(&mut self, request: &str) {
        assert!(needs_memory(request), "{request}");
        let model = &self.pair.model;
        let all = model.keys.values().chain(model.other.values());
        let may_go = |deadline: &Option<i64>| deadline.is_some() || !self.policy.is_volatile();
        let left = all.filter(|(_, deadline)| may_go(deadline)).count();
        assert_eq!(left, 0, "{request}: {left} keys could have given way");
    }

    fn start_over(&mut self) {
        self.pair.sim.expect("flushall", "+OK");
        self.pair.model.keys.clear();
        self.pair.model.other.clear();
    }
}

/// Whether the command of a request has the flag `denyoom`.
fn needs_memory(request: &str) -> bool {
    let mut words = request.split(' ');
    let table = table();
    let name = words.next().expect("a command");
    let row = table.find(name.as_bytes()).expect("it is known");
    let subcommand = words
        .next()
        .and_then(|word| table.find_subcommand(row, word.as_bytes()));
    table.entry(subcommand.unwrap_or(row)).is(flag::DENYOOM)
}

#[test]
fn under_every_policy_what_gives_way_may_and_all_else_is_there() {
    let mut events = 0;
    for (nth, policy) in POLICIES.into_iter().enumerate() {
        for round in 0..4 {
            // Collections stay small, so that there are many keys to choose from.
            let seed = [0, 1, 2, 4][round] + 8 * nth as u64;
            println!("{} seed {seed}", policy.0);
            let dir = TempDir::new();
            let mut limited = Limited::new(&dir, policy, seed);
            for step in 0..STEPS {
                if step % 10 == 0 {
                    limited.limit();
                }
                limited.step();
                if step % 100 == 0 {
                    limited.pair.sim.engine.keyspace.check();
                }
            }
            events += limited.events;
            let sim = &mut limited.pair.sim;
            sim.expect("config set maxmemory 0", "+OK");
            assert_eq!(sim.engine.keyspace.stats.evicted, limited.events);
            let names: Vec<String> = (0..40).map(|n| format!("key{n}")).collect();
            assert_same(sim, &limited.pair.model, &names);
        }
    }
    assert!(events > 1_000, "{events} gave way");
}

#[test]
fn without_a_policy_what_needs_memory_is_refused_and_nothing_else() {
    for seed in [0, 1, 2, 4] {
        println!("seed {seed}");
        let dir = TempDir::new();
        let mut limited = Limited::new(&dir, ("noeviction", EvictionPolicy::NoEviction), seed);
        let (mut refused, mut kinds) = (0, BTreeSet::new());
        for step in 0..STEPS {
            let is_full = step / 50 % 2 == 1;
            let sim = &mut limited.pair.sim;
            if step % 50 == 0 {
                let bytes = i32::from(is_full);
                sim.expect(&format!("config set maxmemory {bytes}"), "+OK");
            }
            let before = limited.pair.model.clone();
            let Some((words, kind)) = limited.pair.draw() else {
                limited.pair.advance();
                continue;
            };
            let (request, expected) = limited.pair.model.request(kind, &words);
            let reply = limited.pair.sim.run(&request);
            let is_refused = reply.starts_with("-OOM");
            assert_eq!(is_refused, is_full && needs_memory(&request), "{request}");
            if is_refused {
                limited.pair.model = before;
                refused += 1;
                kinds.insert(kind);
            } else {
                assert_reply(&request, &reply, &expected);
            }
        }
        assert_eq!(limited.evicted(), []);
        assert!(
            refused > 100 && kinds.len() > 20,
            "{refused} {}",
            kinds.len()
        );
    }
}
