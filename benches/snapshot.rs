//! What snapshots cost: saving 100,000 keys with deadlines to a file, synced, and loading them.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::config::Config;
use mayfly::engine::Engine;
use mayfly::expiry::{Basis, Deadline, Term};
use mayfly::store::db::Ttl;

const NOW: i64 = 1_700_000_000_000;
const KEYS: u64 = 100_000;

fn engine(dir: &str) -> Engine {
    let config = Config {
        dir: dir.to_owned(),
        ..Config::default()
    };
    Engine::new(config, ManualClock::new(UnixMillis(NOW)).read(), 1)
}

fn snapshot(c: &mut Criterion) {
    let dir = std::env::temp_dir().join(format!("mayfly-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    let dir_name = dir.display().to_string();
    let mut full = engine(&dir_name);
    let reading = full.reading;
    let mut live = full.keyspace.live(0, &reading);
    for number in 0..KEYS {
        let deadline = Deadline(UnixMillis(NOW + 3_600_000 + number as i64));
        let key = format!("key:{number:012}");
        live.set_string(
            key.as_bytes(),
            &[b'x'; 32],
            Ttl::At(Term::new(deadline, Basis::Relative)),
        );
    }
    let mut group = c.benchmark_group("snapshot");
    group.sample_size(10).throughput(Throughput::Elements(KEYS));
    group.bench_function("save", |b| {
        b.iter(|| full.save_now().expect("the directory can be written to"));
    });
    group.bench_function("load", |b| {
        b.iter_with_large_drop(|| {
            let mut empty = engine(&dir_name);
            empty.load_now().expect("a snapshot that was just written");
            assert_eq!(empty.keyspace.db(0).table.len() as u64, KEYS);
            empty
        });
    });
    group.finish();
    std::fs::remove_dir_all(&dir).expect("the directory is ours");
}

criterion_group!(benches, snapshot);
criterion_main!(benches);
