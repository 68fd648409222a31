//! What the log of effects costs: SET in pipelines of 64 over 1,000,000 keys of 16 bytes with
//! values of 32, as the server runs them, with nobody who hears of effects and with somebody who
//! takes them after each pipeline.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::command::dispatch::run_ready;
use mayfly::config::Config;
use mayfly::engine::session::SessionKey;
use mayfly::engine::{Engine, Origin};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const KEYS: u64 = 1_000_000;
const PIPELINE: usize = 64;
/// Pipelines prepared before the clock runs.
const PREPARED: usize = 1024;

struct Server {
    engine: Engine,
    clock: ManualClock,
    client: SessionKey,
}

impl Server {
    fn new() -> Server {
        let mut clock = ManualClock::new(UnixMillis(1_700_000_000_000));
        let mut engine = Engine::new(Config::default(), clock.read(), 1);
        let client = engine.connect(Origin::default());
        Server {
            engine,
            clock,
            client,
        }
    }

    fn run(&mut self, requests: &[u8]) {
        self.engine.feed(self.client, requests);
        while !self.engine.ready.is_empty() {
            run_ready(&mut self.engine, &mut self.clock);
        }
        let sent = self.engine.sessions[self.client].output.take_all();
        self.engine.note_sent(self.client, sent.len());
        let effects = &mut self.engine.keyspace.effects;
        black_box(&*effects);
        effects.clear();
    }
}

fn set(number: u64) -> String {
    format!(
        "*3\r\n$3\r\nSET\r\n$16\r\nkey:{number:012}\r\n$32\r\n{:032}\r\n",
        number
    )
}

fn pipelines(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut server = Server::new();
    for first in (0..KEYS).step_by(PIPELINE) {
        let requests: String = (first..first + PIPELINE as u64).map(set).collect();
        server.run(requests.as_bytes());
    }
    let pipelines: Vec<String> = (0..PREPARED)
        .map(|_| {
            (0..PIPELINE)
                .map(|_| set(rng.random_range(0..KEYS)))
                .collect()
        })
        .collect();
    let mut group = c.benchmark_group("effects");
    group.throughput(Throughput::Elements(PIPELINE as u64));
    for (name, is_heard) in [("unheard", false), ("heard", true)] {
        server.engine.keyspace.effects.listen(is_heard);
        let mut at = 0;
        group.bench_function(format!("set, {name}"), |b| {
            b.iter(|| {
                server.run(pipelines[at % PREPARED].as_bytes());
                at += 1;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pipelines);
criterion_main!(benches);
