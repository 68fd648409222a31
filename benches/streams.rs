//! What streams cost: XADD, XRANGE, and XREADGROUP with XACK, in pipelines as the server runs them;
//! and what holds clients up longest while a stream of ten million entries is saved, trimmed,
//! deleted or expires. Entries have three fields.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mayfly::clock::{Clock, Reading, Source, SystemClock};
use mayfly::command::dispatch::{Outside, run_ready};
use mayfly::config::Config;
use mayfly::engine::session::SessionKey;
use mayfly::engine::{Engine, Origin};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use tikv_jemallocator::Jemalloc;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ENTRIES: u64 = 100_000;
const LONG: u64 = 10_000_000;
const PIPELINE: u64 = 64;
/// Pipelines prepared before the clock runs.
const PREPARED: usize = 1024;

/// Nothing is left to do if there was nothing for so long: more than a deadline in a millisecond
/// needs.
const SETTLED: Duration = Duration::from_millis(50);

/// A request in RESP.
fn request(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let bulks = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
}

/// So many requests, one behind the other.
fn pipeline(count: u64, mut words: impl FnMut() -> String) -> String {
    (0..count).map(|_| request(&words())).collect()
}

/// CPU time of this thread: on a shared machine steadier than what the clock on the wall says.
fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

/// The time, as slices of jobs must end by it; there is nobody but the one client.
struct Around(SystemClock);

impl Clock for Around {
    fn read(&mut self) -> Reading {
        self.0.read()
    }
}

impl Outside for Around {
    fn attend(&mut self, _: &mut Engine) {}
}

struct Server {
    engine: Engine,
    clock: Around,
    client: SessionKey,
}

impl Server {
    fn new(dir: &str) -> Server {
        let config = Config {
            dir: dir.to_owned(),
            ..Config::default()
        };
        let mut clock = Around(SystemClock::new(Source::Monotonic));
        let mut engine = Engine::new(config, clock.read(), 1);
        let client = engine.connect(Origin::default());
        Server {
            engine,
            clock,
            client,
        }
    }

    /// Runs requests; the replies.
    fn run(&mut self, requests: &str) -> Vec<u8> {
        self.engine.feed(self.client, requests.as_bytes());
        while !self.engine.ready.is_empty() {
            run_ready(&mut self.engine, &mut self.clock);
        }
        let sent = self.engine.sessions[self.client].output.take_all();
        self.engine.note_sent(self.client, sent.len());
        sent
    }

    /// Fills a stream with the ids 1-1, 1-2 and so on.
    fn fill(&mut self, name: &str, entries: u64) {
        let mut number = 0;
        while number < entries {
            let requests = pipeline(PIPELINE, || {
                number += 1;
                format!("XADD {name} 1-{number} {FIELDS}")
            });
            self.run(&requests);
        }
    }

    /// The longest that clients are held up by a request and by each slice of the jobs after it,
    /// until there is nothing left to do.
    fn longest(&mut self, words: &str) -> Duration {
        let requests = request(words);
        let mut begun = cpu_time();
        self.run(&requests);
        let mut longest = cpu_time() - begun;
        let mut busy_at = cpu_time();
        while cpu_time() - busy_at < SETTLED {
            begun = cpu_time();
            self.engine.run_jobs(&mut self.clock, true);
            longest = longest.max(cpu_time() - begun);
            let is_saving = self.engine.jobs.persistence.is_saving();
            let is_busy = is_saving || !self.engine.keyspace.graveyard.is_empty();
            if is_busy {
                busy_at = cpu_time();
            }
        }
        longest
    }
}

const FIELDS: &str = "id 000000012345 name value weight 12.5";

fn requests(c: &mut Criterion) {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut server = Server::new(".");
    server.fill("events", ENTRIES);
    server.fill("jobs", ENTRIES);
    server.run(&request("XGROUP CREATE jobs workers 0"));
    let mut group = c.benchmark_group("streams");

    let add = pipeline(PIPELINE, || format!("XADD log MAXLEN ~ 1000000 * {FIELDS}"));
    group.throughput(Throughput::Elements(PIPELINE));
    group.bench_function("XADD", |b| b.iter(|| black_box(server.run(&add))));

    let ranges: Vec<String> = (0..PREPARED)
        .map(|_| {
            let from = rng.random_range(1..ENTRIES - 100);
            request(&format!("XRANGE events 1-{from} + COUNT 100"))
        })
        .collect();
    let mut at = 0;
    group.throughput(Throughput::Elements(1));
    group.bench_function("XRANGE of 100 entries", |b| {
        b.iter(|| {
            at += 1;
            black_box(server.run(&ranges[at % PREPARED]))
        });
    });

    let mut number = 0;
    let works: Vec<String> = (0..ENTRIES / PIPELINE)
        .map(|_| {
            let one = || {
                number += 1;
                let read = request("XREADGROUP GROUP workers one COUNT 1 STREAMS jobs >");
                read + &request(&format!("XACK jobs workers 1-{number}"))
            };
            std::iter::repeat_with(one)
                .take(PIPELINE as usize)
                .collect()
        })
        .collect();
    let again = request("XGROUP SETID jobs workers 0");
    at = 0;
    group.throughput(Throughput::Elements(PIPELINE));
    group.bench_function("XREADGROUP and XACK", |b| {
        b.iter(|| {
            if at % works.len() == 0 {
                server.run(&again);
            }
            at += 1;
            black_box(server.run(&works[(at - 1) % works.len()]))
        });
    });
    group.finish();
}

/// Prints the pauses.
fn long_stream(_: &mut Criterion) {
    let dir = std::env::temp_dir().join(format!("mayfly-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let mut server = Server::new(&dir.display().to_string());
    for (what, words) in [
        ("saved", "BGSAVE"),
        ("trimmed to 10", "XTRIM long MAXLEN 10"),
        ("deleted", "DEL long"),
        ("expired", "PEXPIRE long 1"),
    ] {
        if server.run(&request("XLEN long")) != format!(":{LONG}\r\n").as_bytes() {
            server.run(&request("DEL long"));
            server.fill("long", LONG);
            server.longest("PING");
        }
        let longest = server.longest(words);
        println!("stream of {LONG} entries, {what}: {longest:?} at once at most");
    }
    std::fs::remove_dir_all(&dir).expect("the directory is ours");
}

criterion_group!(benches, requests, long_stream);
criterion_main!(benches);
