//! What the expiry index costs: ns per operation with a million items, and bytes per item.
//!
//! Items are spread over an hour (rings A and B), or over 65 s (ring A alone, where each
//! operation meets another bucket).

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mayfly::clock::UnixMillis;
use mayfly::expiry::index::{ItemRef, Strata};
use mayfly::expiry::{Deadline, is_due};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};

const NOW: i64 = 1_700_000_000_000;
const ITEMS: u64 = 1_000_000;
/// Few enough to stay in the second-level cache, for the cost without misses.
const ITEMS_HOT: u64 = 5_000;
/// Operations per timed batch.
const BATCH: usize = 10_000;

struct Filled {
    strata: Strata,
    items: Vec<(ItemRef, Deadline)>,
    rng: SmallRng,
    spread: i64,
}

impl Filled {
    fn new(items: u64, spread: i64) -> Filled {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut strata = Strata::new(UnixMillis(NOW));
        let items = (0..items)
            .map(|hash| {
                let deadline = Deadline(UnixMillis(NOW + rng.random_range(20..spread)));
                (strata.insert(hash, deadline), deadline)
            })
            .collect();
        Filled {
            strata,
            items,
            rng,
            spread,
        }
    }

    fn ttls(&mut self) -> Vec<Deadline> {
        let spread = self.spread;
        (0..BATCH)
            .map(|_| Deadline(UnixMillis(NOW + self.rng.random_range(20..spread))))
            .collect()
    }

    fn picks(&mut self) -> Vec<usize> {
        (0..BATCH)
            .map(|_| self.rng.random_range(0..self.items.len()))
            .collect()
    }
}

fn operations(c: &mut Criterion) {
    let cases = [
        ("5,000 in 1 h", ITEMS_HOT, 3_600_000),
        ("65 s", ITEMS, 65_000),
        ("1 h", ITEMS, 3_600_000),
    ];
    for (name, count, spread) in cases {
        let mut filled = Filled::new(count, spread);
        let bytes = filled.strata.allocated_bytes() as f64 / count as f64;
        println!("spread over {name}: {bytes:.2} bytes per item");
        let mut group = c.benchmark_group(name);
        group
            .throughput(Throughput::Elements(BATCH as u64))
            .sample_size(30);
        // The new item takes the place of a random one, so that the index keeps its size: this is
        // a removal and an insertion.
        group.bench_function("remove + insert", |b| {
            b.iter_custom(|rounds| {
                let mut total = Duration::ZERO;
                for _ in 0..rounds {
                    let (ttls, picks) = (filled.ttls(), filled.picks());
                    let started = cpu_time();
                    for (deadline, i) in ttls.into_iter().zip(picks) {
                        let (item, old) = filled.items[i];
                        filled.strata.remove(item, old);
                        filled.items[i] = (filled.strata.insert(i as u64, deadline), deadline);
                    }
                    total += cpu_time() - started;
                }
                total
            });
        });
        group.bench_function("insert", |b| {
            b.iter_custom(|rounds| {
                let mut total = Duration::ZERO;
                for _ in 0..rounds {
                    let ttls = filled.ttls();
                    let mut new = Vec::with_capacity(BATCH);
                    let started = cpu_time();
                    for deadline in ttls {
                        new.push((filled.strata.insert(7, deadline), deadline));
                    }
                    total += cpu_time() - started;
                    new.into_iter()
                        .for_each(|(item, d)| filled.strata.remove(item, d));
                }
                total
            });
        });
        group.bench_function("extend", |b| extend(b, &mut filled));
        let mut filled = Filled::new(count, spread);
        group.bench_function("shorten", |b| shorten(b, &mut filled));
        group.bench_function("draw_all of 20", |b| {
            let mut out = Vec::new();
            b.iter_custom(|rounds| {
                let started = cpu_time();
                for _ in 0..rounds * BATCH as u64 / 20 {
                    out.clear();
                    filled.strata.draw_all(&mut filled.rng, 20, &mut out);
                    black_box(&out);
                }
                cpu_time() - started
            });
        });
        group.finish();
    }
}

/// Adds an hour to random deadlines.
fn extend(b: &mut criterion::Bencher, filled: &mut Filled) {
    b.iter_custom(|rounds| {
        let mut total = Duration::ZERO;
        for _ in 0..rounds {
            let picks = filled.picks();
            let started = cpu_time();
            for i in picks {
                let (item, old) = filled.items[i];
                let new = Deadline(old.0.plus(3_600_000));
                filled.items[i] = (filled.strata.change(item, old, new), new);
            }
            total += cpu_time() - started;
        }
        total
    });
}

/// Halves what is left of random deadlines, which refiles nearly all; then puts them back.
fn shorten(b: &mut criterion::Bencher, filled: &mut Filled) {
    b.iter_custom(|rounds| {
        let mut total = Duration::ZERO;
        for _ in 0..rounds {
            let picks = filled.picks();
            let before: Vec<_> = picks.iter().map(|&i| filled.items[i].1).collect();
            let started = cpu_time();
            for &i in &picks {
                let (item, old) = filled.items[i];
                let new = Deadline(UnixMillis(NOW + old.0.since(UnixMillis(NOW)) / 2));
                filled.items[i] = (filled.strata.change(item, old, new), new);
            }
            total += cpu_time() - started;
            // In reverse, as one may have been picked twice.
            for (&i, old) in picks.iter().zip(before).rev() {
                let (item, new) = filled.items[i];
                filled.strata.remove(item, new);
                filled.items[i] = (filled.strata.insert(i as u64, old), old);
            }
        }
        total
    });
}

/// CPU time of this thread: on a shared machine steadier than what the clock on the wall says.
fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

/// A million items due: draw 19, remove them, until nothing is left.
fn drain(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain");
    group
        .throughput(Throughput::Elements(ITEMS))
        .sample_size(10);
    for (name, spread) in [("1 ms", 21), ("65 s", 65_000), ("1 h, refiling", 3_600_000)] {
        group.bench_function(name, |b| {
            b.iter_custom(|rounds| {
                let mut total = Duration::ZERO;
                for _ in 0..rounds {
                    let mut filled = Filled::new(ITEMS, spread);
                    let started = cpu_time();
                    drain_all(&mut filled);
                    total += cpu_time() - started;
                }
                total
            });
        });
    }
    group.finish();
}

fn drain_all(filled: &mut Filled) {
    let mut out = Vec::new();
    while let Some(now) = filled.strata.next_wakeup() {
        filled.strata.advance(now);
        loop {
            out.clear();
            filled.strata.draw_ripe(&mut filled.rng, 19, &mut out);
            if out.is_empty() {
                filled.strata.draw_coming(64, &mut out);
            }
            if out.is_empty() {
                break;
            }
            for &(item, hash) in &out {
                let entry = &mut filled.items[hash as usize];
                if is_due(entry.1, now) {
                    filled.strata.remove(item, entry.1);
                } else {
                    entry.0 = filled.strata.refile(item, entry.1);
                }
            }
        }
    }
}

/// Time alone: a tick with nothing due, one bucket ending per tick, and all of them at once.
fn tick(c: &mut Criterion) {
    let mut group = c.benchmark_group("tick");
    group.bench_function("1 ms, nothing ripens", |b| {
        let mut strata = Strata::new(UnixMillis(NOW));
        strata.insert(1, Deadline(UnixMillis(i64::MAX / 2)));
        let mut now = NOW;
        b.iter(|| {
            now += 1;
            strata.advance(UnixMillis(now));
            black_box(strata.next_wakeup())
        });
    });
    group
        .sample_size(10)
        .bench_function("jump of a day, all 8,192 buckets filled", |b| {
            b.iter_batched_ref(
                || Filled::new(ITEMS, 65_000).strata,
                |strata| strata.advance(UnixMillis(NOW + 86_400_000)),
                BatchSize::LargeInput,
            );
        });
    group.finish();
}

criterion_group!(benches, operations, drain, tick);
criterion_main!(benches);
