//! What the keyspace costs: ns per operation on 100,000 and 1,000,000 keys of 16 bytes with values
//! of 32, one by one and in batches whose cache misses overlap, without and with deadlines.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mayfly::clock::{Clock, ManualClock, Reading, UnixMillis};
use mayfly::expiry::{Basis, Deadline, Term};
use mayfly::store::Keyspace;
use mayfly::store::db::Ttl;
use mayfly::store::entry::Slot;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const NOW: i64 = 1_700_000_000_000;
const HOUR_MS: i64 = 3_600_000;
/// Operations looked ahead at together, as the server does.
const BATCH: usize = 32;

struct Filled {
    space: Keyspace,
    reading: Reading,
    rng: SmallRng,
    keys: u64,
}

fn name(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = number;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

impl Filled {
    fn new(keys: u64, is_volatile: bool) -> Filled {
        let reading = ManualClock::new(UnixMillis(NOW)).read();
        let mut space = Keyspace::new(1, UnixMillis(NOW), SmallRng::seed_from_u64(1));
        let mut rng = SmallRng::seed_from_u64(2);
        let mut live = space.live(0, &reading);
        for number in 0..keys {
            let ms = NOW + HOUR_MS + rng.random_range(0..HOUR_MS);
            let ttl = if is_volatile {
                Ttl::At(Term::new(Deadline(UnixMillis(ms)), Basis::Relative))
            } else {
                Ttl::Drop
            };
            live.set_string(&name(number), &[b'x'; 32], ttl);
        }
        Filled {
            space,
            reading,
            rng,
            keys,
        }
    }

    fn picks(&mut self, from: u64) -> [[u8; 16]; BATCH] {
        std::array::from_fn(|_| name(from + self.rng.random_range(0..self.keys)))
    }

    /// GETs; the three passes of the look-ahead first, if wanted.
    fn get(&mut self, picks: &[[u8; 16]; BATCH], looks_ahead: bool) -> usize {
        let mut hashes = [0; BATCH];
        if looks_ahead {
            for (hash, key) in hashes.iter_mut().zip(picks) {
                *hash = self.space.look_ahead(0, key);
            }
            let entries = hashes.map(|hash| self.space.look_at_entry(0, hash));
            entries.into_iter().flatten().for_each(Slot::prefetch_rest);
        }
        let mut found = 0;
        for (key, hash) in picks.iter().zip(hashes) {
            if looks_ahead {
                self.space.remember(key, hash);
            }
            found += usize::from(self.space.live(0, &self.reading).get(key).is_some());
        }
        self.space.forget();
        found
    }
}

fn operations(c: &mut Criterion) {
    for keys in [100_000, 1_000_000] {
        for is_volatile in [false, true] {
            let kind = if is_volatile { "volatile" } else { "plain" };
            let mut group = c.benchmark_group(format!("{keys} {kind} keys"));
            group.throughput(Throughput::Elements(BATCH as u64));
            let mut filled = Filled::new(keys, is_volatile);
            for looks_ahead in [false, true] {
                let how = if looks_ahead { "ahead" } else { "one by one" };
                group.bench_function(format!("get, {how}"), |b| {
                    b.iter(|| {
                        let picks = filled.picks(0);
                        assert_eq!(black_box(filled.get(&picks, looks_ahead)), BATCH);
                    });
                });
            }
            group.bench_function("get, miss", |b| {
                b.iter(|| {
                    let picks = filled.picks(keys);
                    assert_eq!(black_box(filled.get(&picks, false)), 0);
                });
            });
            group.bench_function("set, overwrite", |b| {
                b.iter(|| {
                    let picks = filled.picks(0);
                    let mut live = filled.space.live(0, &filled.reading);
                    picks
                        .iter()
                        .for_each(|key| live.set_string(key, &[b'y'; 32], Ttl::Keep));
                });
            });
            group.bench_function("set new and del", |b| {
                b.iter(|| {
                    let picks = filled.picks(keys);
                    let mut live = filled.space.live(0, &filled.reading);
                    picks
                        .iter()
                        .for_each(|key| live.set_string(key, &[b'y'; 32], Ttl::Drop));
                    picks.iter().for_each(|key| {
                        black_box(live.remove(key));
                    });
                });
            });
            group.finish();
        }
    }
}

fn growth(c: &mut Criterion) {
    let mut group = c.benchmark_group("growth");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(100_000));
    group.bench_function("100,000 keys into an empty database", |b| {
        b.iter_with_large_drop(|| Filled::new(100_000, false));
    });
    group.finish();
}

criterion_group!(benches, operations, growth);
criterion_main!(benches);
