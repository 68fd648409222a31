//! What collections cost: processor time per operation on big forms of a million elements, in
//! random order, so that every cache line is cold, and on small ones; bytes per element; and what
//! takes longest of all insertions and of all steps of a dismantling. Segmented, fields and items
//! have 16 bytes, values 32. A batch has a thousand operations: microseconds are nanoseconds each.

#![allow(clippy::too_many_lines)]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use hashbrown::HashTable;
use mayfly::expiry::ALL_LIVE;
use mayfly::value::dated_packed::Shape;
use mayfly::value::hash::{self, Form, HashLimits, HashRef};
use mayfly::value::list::{List, NodeLimit};
use mayfly::value::packed::{self, End};
use mayfly::value::placement::Placement;
use mayfly::value::segmented::{Content, Segmented};
use mayfly::value::set::{self, SetLimits, SetRef};
use mayfly::value::zset::{
    Direction, Interval, ScoreBound, Small, Zset, ZsetLimits, ZsetRef, small,
};
use mayfly::value::{intset, size_class};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use tikv_jemalloc_ctl::{epoch, stats};

/// The server's allocator, whose size classes everything is made for.
#[path = "../src/allocator.rs"]
mod allocator;

const ELEMENTS: u64 = 1_000_000;
/// As many as a small set or sorted set has at most.
const SMALL_ELEMENTS: u64 = 128;
/// Operations per timed batch.
const BATCH: usize = 1_000;
const VALUE: [u8; 32] = [b'v'; 32];
/// `list-max-listpack-size -2`.
const LIST_SETTING: i64 = -2;

type Group<'a> = BenchmarkGroup<'a, WallTime>;
type Name = [u8; 16];

/// The element of a number.
fn name(number: u64) -> Name {
    let mut name = *b"member:000000000";
    let mut rest = number;
    for digit in name[7..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

/// CPU time of this thread: on a shared machine steadier than what the clock on the wall says.
fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

fn rng() -> SmallRng {
    SmallRng::seed_from_u64(2)
}

fn placement() -> Placement {
    Placement::new(&mut SmallRng::seed_from_u64(1))
}

/// Random elements out of so many from a number on.
fn picks(rng: &mut SmallRng, from: u64, count: u64) -> Vec<Name> {
    let pick = |_| name(from + rng.random_range(0..count));
    (0..BATCH).map(pick).collect()
}

/// Times `run` on what `prepare` made, which is not timed.
fn timed<T, P>(
    group: &mut Group<'_>,
    id: &str,
    state: &mut T,
    mut prepare: impl FnMut(&mut T) -> P,
    mut run: impl FnMut(&mut T, &P),
) {
    group.bench_function(id, |b| {
        b.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                let prepared = prepare(state);
                let started = cpu_time();
                run(state, &prepared);
                total += cpu_time() - started;
            }
            total
        });
    });
}

/// How often a collection is filled and dismantled to find what takes longest.
const ROUNDS: usize = 3;

/// Fills a collection with the numbers below [`ELEMENTS`] and says how many bytes that took, by the
/// allocator's count, and how long the longest insertion and the longest step of dismantling it.
/// Every round does the same; the least of all rounds is what the work itself took.
fn filled<T>(
    kind: &str,
    new: impl Fn() -> T,
    insert: impl Fn(&mut T, u64),
    step: impl Fn(&mut T) -> bool,
) -> T {
    // First, while the allocator has little at hand of what was freed.
    let before = allocated_bytes();
    let mut kept = new();
    (0..ELEMENTS).for_each(|number| insert(&mut kept, number));
    let bytes = (allocated_bytes() - before) as f64 / ELEMENTS as f64;
    let (mut inserts, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut collection = new();
        note_least(&mut inserts, |number| {
            insert(&mut collection, number);
            number + 1 < ELEMENTS
        });
        note_least(&mut steps, |_| step(&mut collection));
    }
    let (insert, step) = (inserts.iter().max(), steps.iter().max());
    let (insert, step) = (insert.expect("elements"), step.expect("a step"));
    println!("{kind}: {bytes:.1} bytes each; longest insert {insert:?}, dismantling {step:?}");
    kept
}

/// Notes for each call of `work`, until it gives false, the least time it took in all rounds.
fn note_least(least: &mut Vec<Duration>, mut work: impl FnMut(u64) -> bool) {
    for number in 0.. {
        let started = cpu_time();
        let goes_on = work(number);
        let took = cpu_time() - started;
        match least.get_mut(number as usize) {
            Some(least) => *least = took.min(*least),
            None => least.push(took),
        }
        if !goes_on {
            return;
        }
    }
}

/// Bytes the allocator has handed out.
fn allocated_bytes() -> usize {
    epoch::advance().expect("the allocator keeps statistics");
    stats::allocated::read().expect("the allocator keeps statistics")
}

fn group<'a>(c: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = c.benchmark_group(name);
    group
        .throughput(Throughput::Elements(BATCH as u64))
        .sample_size(20);
    group
}

fn big_list(c: &mut Criterion) {
    let list = filled(
        "list",
        || List::new(NodeLimit::from_setting(LIST_SETTING)),
        |list, number| list.push(End::Back, &name(number)),
        List::dismantle,
    );
    let mut state = (list, rng());
    let mut group = group(c, "list of 1,000,000");
    for (end, word) in [(End::Front, "front"), (End::Back, "back")] {
        let cut = |(list, _): &mut (List, SmallRng)| {
            let surplus = list.len() - ELEMENTS as usize;
            list.remove_end(end, surplus);
        };
        timed(
            &mut group,
            &format!("push {word}"),
            &mut state,
            cut,
            |(list, _), ()| {
                (0..BATCH).for_each(|_| list.push(end, b"0123456789abcdef"));
            },
        );
        let add = |(list, _): &mut (List, SmallRng)| {
            (0..BATCH).for_each(|_| list.push(end, b"0123456789abcdef"));
        };
        timed(
            &mut group,
            &format!("pop {word}"),
            &mut state,
            add,
            |(list, _), ()| {
                for _ in 0..BATCH {
                    black_box(list.peek(end));
                    list.remove_end(end, 1);
                }
            },
        );
    }
    let places = |(list, rng): &mut (List, SmallRng)| -> Vec<usize> {
        (0..BATCH)
            .map(|_| rng.random_range(0..list.len()))
            .collect()
    };
    timed(
        &mut group,
        "index",
        &mut state,
        places,
        |(list, _), places| {
            for &place in places {
                black_box(list.get(place));
            }
        },
    );
    timed(
        &mut group,
        "ten from an index",
        &mut state,
        places,
        |(list, _), places| {
            for &place in places {
                list.range(place, 10).for_each(|item| {
                    black_box(item);
                });
            }
        },
    );
    timed(
        &mut group,
        "set an index",
        &mut state,
        places,
        |(list, _), places| {
            for &place in places {
                list.set(place, b"fedcba9876543210");
            }
        },
    );
    group.finish();
}

/// A big set or hash, and elements that are in it, or that it lacks, for now.
struct Table {
    members: Segmented,
    rng: SmallRng,
    guests: Vec<Name>,
    missed: Vec<Name>,
}

impl Table {
    fn new(kind: &str, content: Content) -> Table {
        Table {
            members: filled(
                kind,
                || Segmented::new(content, placement()),
                |members, number| insert(members, &name(number)),
                Segmented::dismantle,
            ),
            rng: rng(),
            guests: Vec::new(),
            missed: Vec::new(),
        }
    }

    fn known(&mut self) -> Vec<Name> {
        picks(&mut self.rng, 0, ELEMENTS)
    }

    fn unknown(&mut self) -> Vec<Name> {
        picks(&mut self.rng, ELEMENTS, 100 * ELEMENTS)
    }

    /// Removes the guests, and puts back what is missed.
    fn settle(&mut self) {
        for guest in std::mem::take(&mut self.guests) {
            remove(&mut self.members, &guest);
        }
        for member in std::mem::take(&mut self.missed) {
            insert(&mut self.members, &member);
        }
    }
}

fn insert(members: &mut Segmented, member: &Name) {
    let hash = members.hash(member);
    // A set keeps no value.
    members.insert(hash, member, &VALUE);
}

fn remove(members: &mut Segmented, member: &Name) {
    let hash = members.hash(member);
    members.remove(hash, member);
}

/// What is taken for each element when every one has been replaced by another.
fn replace_all(kind: &str, mut table: Table) {
    table.settle();
    for number in 0..ELEMENTS {
        remove(&mut table.members, &name(number));
        insert(&mut table.members, &name(ELEMENTS + number));
    }
    let bytes = table.members.allocated_bytes() as f64 / ELEMENTS as f64;
    println!("{kind}: {bytes:.1} bytes each when every one has been replaced");
}

/// What sets and hashes have in common.
fn table_operations(group: &mut Group<'_>, table: &mut Table) {
    for (id, is_known) in [("get", true), ("get, miss", false)] {
        let prepare = |table: &mut Table| {
            if is_known {
                table.known()
            } else {
                table.unknown()
            }
        };
        timed(group, id, table, prepare, |table, names| {
            for name in names {
                black_box(table.members.get(table.members.hash(name), name));
            }
        });
    }
    let arrive = |table: &mut Table| {
        table.settle();
        table.guests = table.unknown();
        table.guests.clone()
    };
    timed(group, "insert", table, arrive, |table, names| {
        names
            .iter()
            .for_each(|name| insert(&mut table.members, name));
    });
    let leave = |table: &mut Table| {
        table.settle();
        table.missed = table.known();
        table.missed.clone()
    };
    timed(group, "remove", table, leave, |table, names| {
        names
            .iter()
            .for_each(|name| remove(&mut table.members, name));
    });
    table.settle();
    timed(
        group,
        "random",
        table,
        |_| (),
        |table, ()| {
            for _ in 0..BATCH {
                black_box(table.members.random(ALL_LIVE, &mut table.rng));
            }
        },
    );
}

fn big_set(c: &mut Criterion) {
    let mut table = Table::new("set", Content::Members);
    let mut group = group(c, "set of 1,000,000");
    table_operations(&mut group, &mut table);
    timed(
        &mut group,
        "hash alone",
        &mut table,
        Table::known,
        |table, names| {
            for name in names {
                black_box(table.members.hash(name));
            }
        },
    );
    // What a set would be that has each member in a box of its own.
    let mut boxed: HashTable<Box<[u8]>> = HashTable::new();
    let placement = placement();
    for number in 0..ELEMENTS {
        let member: Box<[u8]> = name(number).into();
        boxed.insert_unique(placement.hash(&member), member, |it| placement.hash(it));
    }
    timed(
        &mut group,
        "get among boxes",
        &mut table,
        Table::known,
        |_, names| {
            for name in names {
                let hash = placement.hash(name);
                black_box(boxed.find(hash, |member| member[..] == name[..]));
            }
        },
    );
    group.finish();
    replace_all("set", table);
}

fn big_hash(c: &mut Criterion) {
    let mut table = Table::new("hash", Content::Fields);
    let mut group = group(c, "hash of 1,000,000");
    table_operations(&mut group, &mut table);
    timed(
        &mut group,
        "set",
        &mut table,
        Table::known,
        |table, names| {
            for name in names {
                let hash = table.members.hash(name);
                table.members.set(hash, name, &[b'w'; 32]);
            }
        },
    );
    group.finish();
    replace_all("hash", table);
}

/// A big sorted set, and members that are in it, or that it lacks, for now.
struct Ranked {
    zset: Zset,
    rng: SmallRng,
    guests: Vec<(Name, f64)>,
    missed: Vec<(Name, f64)>,
}

impl Ranked {
    fn new(kind: &str, score: impl Fn(&mut SmallRng, u64) -> f64) -> Ranked {
        let (zset, rng) = filled(
            kind,
            || (Zset::new(placement()), rng()),
            |(zset, rng), number| {
                zset.insert(&name(number), score(rng, number));
            },
            |(zset, _)| zset.dismantle(),
        );
        Ranked {
            zset,
            rng,
            guests: Vec::new(),
            missed: Vec::new(),
        }
    }

    fn known(&mut self) -> Vec<Name> {
        picks(&mut self.rng, 0, ELEMENTS)
    }

    fn ranks(&mut self) -> Vec<usize> {
        let len = self.zset.len();
        (0..BATCH).map(|_| self.rng.random_range(0..len)).collect()
    }

    /// Removes the guests, and puts back what is missed.
    fn settle(&mut self) {
        for (guest, _) in std::mem::take(&mut self.guests) {
            self.zset.remove(&guest);
        }
        let missed = std::mem::take(&mut self.missed);
        self.insert(&missed);
    }

    fn scored(&mut self, names: Vec<Name>) -> Vec<(Name, f64)> {
        let names = names.into_iter();
        names.map(|name| (name, self.rng.random())).collect()
    }

    fn insert(&mut self, records: &[(Name, f64)]) {
        for (member, score) in records {
            self.zset.insert(member, *score);
        }
    }
}

fn reading_of_big_zset(group: &mut Group<'_>, ranked: &mut Ranked) {
    timed(group, "score", ranked, Ranked::known, |ranked, names| {
        for name in names {
            black_box(ranked.zset.score(name));
        }
    });
    timed(group, "rank", ranked, Ranked::known, |ranked, names| {
        for name in names {
            black_box(ranked.zset.rank(name));
        }
    });
    timed(
        group,
        "member of a rank",
        ranked,
        Ranked::ranks,
        |ranked, ranks| {
            for &rank in ranks {
                black_box(ranked.zset.by_rank(rank));
            }
        },
    );
    timed(
        group,
        "ten from a rank",
        ranked,
        Ranked::ranks,
        |ranked, ranks| {
            for &rank in ranks {
                let records = ranked.zset.iter(rank, Direction::Ascending);
                records.take(10).for_each(|record| {
                    black_box(record);
                });
            }
        },
    );
    let bounds = |ranked: &mut Ranked| -> Vec<(f64, f64)> {
        (0..BATCH)
            .map(|_| (ranked.rng.random(), ranked.rng.random()))
            .collect()
    };
    timed(
        group,
        "count between scores",
        ranked,
        bounds,
        |ranked, bounds| {
            for &(one, other) in bounds {
                let bound = |score| ScoreBound {
                    score,
                    is_exclusive: false,
                };
                let (min, max) = (bound(one.min(other)), bound(one.max(other)));
                black_box(ranked.zset.ranks(&Interval::Scores { min, max }));
            }
        },
    );
}

fn big_zset(c: &mut Criterion) {
    let mut group = group(c, "sorted set of 1,000,000");
    let mut ranked = Ranked::new("sorted set, random scores", |rng, _| rng.random());
    reading_of_big_zset(&mut group, &mut ranked);
    let arrive = |ranked: &mut Ranked| {
        ranked.settle();
        let names = picks(&mut ranked.rng, ELEMENTS, 100 * ELEMENTS);
        ranked.guests = ranked.scored(names);
        ranked.guests.clone()
    };
    timed(
        &mut group,
        "insert",
        &mut ranked,
        arrive,
        |ranked, records| {
            ranked.insert(records);
        },
    );
    let leave = |ranked: &mut Ranked| {
        ranked.settle();
        let names = ranked.known();
        ranked.missed = ranked.scored(names);
        ranked.missed.clone()
    };
    timed(
        &mut group,
        "removal",
        &mut ranked,
        leave,
        |ranked, records| {
            for (member, _) in records {
                ranked.zset.remove(member);
            }
        },
    );
    ranked.settle();
    let moved = |ranked: &mut Ranked| {
        let names = ranked.known();
        ranked.scored(names)
    };
    timed(
        &mut group,
        "new score",
        &mut ranked,
        moved,
        |ranked, records| {
            ranked.insert(records);
        },
    );
    drop(ranked);
    thin_out();
    let mut equal = Ranked::new("sorted set, equal scores", |_, _| 1.0);
    timed(
        &mut group,
        "rank, all scores equal",
        &mut equal,
        Ranked::known,
        |ranked, names| {
            for name in names {
                black_box(ranked.zset.rank(name));
            }
        },
    );
    drop(equal);
    let mut rising = Ranked::new("sorted set, rising scores", |_, number| number as f64);
    let mut next = ELEMENTS;
    let more = |_: &mut Ranked| -> Vec<(Name, f64)> {
        next += BATCH as u64;
        let numbers = next - BATCH as u64..next;
        numbers
            .map(|number| (name(number), number as f64))
            .collect()
    };
    timed(
        &mut group,
        "insert, rising",
        &mut rising,
        more,
        |ranked, records| {
            ranked.insert(records);
        },
    );
    group.finish();
}

/// What is taken for each member that is left when a random half goes, and then when all but a
/// sixteenth of all have gone.
fn thin_out() {
    let (mut zset, mut rng) = (Zset::new(placement()), rng());
    for number in 0..ELEMENTS {
        zset.insert(&name(number), rng.random());
    }
    for left in [2, 16] {
        // Numbers say nothing of scores and places, so those of one remainder are random.
        let gone = (0..ELEMENTS).filter(|number| number % left > 0);
        gone.for_each(|number| {
            zset.remove(&name(number));
        });
        let bytes = zset.allocated_bytes() as f64 / zset.len() as f64;
        println!("sorted set: {bytes:.1} bytes a member when one in {left} is left");
    }
}

/// A small collection, whose elements have the even numbers: between any two there is room.
fn small_picks(rng: &mut SmallRng) -> Vec<Name> {
    let pick = |_| name(2 * rng.random_range(0..SMALL_ELEMENTS));
    (0..BATCH).map(pick).collect()
}

fn small_strings(c: &mut Criterion) {
    let mut items = packed::EMPTY.to_vec();
    (0..SMALL_ELEMENTS).for_each(|n| packed::push_back(&mut items, &[&name(n)]));
    let size = size_class::of(items.len());
    println!("packed string of {SMALL_ELEMENTS} items: {size} bytes");
    let mut group = group(c, "packed list of 128");
    timed(
        &mut group,
        "push back and pop front",
        &mut items,
        |_| (),
        |items, ()| {
            for n in 0..BATCH as u64 {
                packed::push_back(items, &[&name(n)]);
                packed::remove(items, packed::HEADER, 1);
            }
        },
    );
    timed(
        &mut group,
        "insert in the middle and remove",
        &mut items,
        |_| (),
        |items, ()| {
            let at = packed::at(items, SMALL_ELEMENTS as usize / 2).map_or(0, |item| item.at);
            for n in 0..BATCH as u64 {
                packed::insert_before(items, at, &[&name(n)]);
                packed::remove(items, at, 1);
            }
        },
    );
    let mut places = (items, rng());
    timed(
        &mut group,
        "index",
        &mut places,
        |_| (),
        |(items, rng), ()| {
            for _ in 0..BATCH {
                black_box(packed::at(
                    items,
                    rng.random_range(0..SMALL_ELEMENTS as usize),
                ));
            }
        },
    );
    group.finish();
}

fn small_sets(c: &mut Criterion) {
    let limits = SetLimits {
        intset_entries_max: 512,
        packed_entries_max: usize::MAX,
        packed_value_bytes_max: 64,
    };
    let mut members = packed::EMPTY.to_vec();
    for n in 0..SMALL_ELEMENTS {
        set::add_to_packed(&mut members, &name(2 * n), limits);
    }
    let mut state = (members, rng());
    let names = |(_, rng): &mut (Vec<u8>, SmallRng)| small_picks(rng);
    let mut group = group(c, "small set");
    timed(
        &mut group,
        "packed, 128: contains",
        &mut state,
        names,
        |(members, _), names| {
            for name in names {
                black_box(SetRef::Packed(members).contains(name));
            }
        },
    );
    timed(
        &mut group,
        "packed, 128: add and remove",
        &mut state,
        |_| (),
        |(members, _), ()| {
            for _ in 0..BATCH {
                set::add_to_packed(members, &name(1), limits);
                set::remove_from_packed(members, &name(1));
            }
        },
    );
    let mut integers = intset::EMPTY.to_vec();
    for n in 0..limits.intset_entries_max as i64 - 1 {
        intset::insert(&mut integers, n * 100);
    }
    let mut state = (integers, rng());
    let values = |(_, rng): &mut (Vec<u8>, SmallRng)| -> Vec<i64> {
        (0..BATCH).map(|_| rng.random_range(0..511) * 100).collect()
    };
    timed(
        &mut group,
        "integers, 511: contains",
        &mut state,
        values,
        |(integers, _), values| {
            for &value in values {
                black_box(intset::contains(integers, value));
            }
        },
    );
    timed(
        &mut group,
        "integers, 511: add and remove",
        &mut state,
        values,
        |(it, _), values| {
            for &value in values {
                intset::insert(it, value + 1);
                intset::remove(it, value + 1);
            }
        },
    );
    group.finish();
}

fn small_hash(c: &mut Criterion) {
    let limits = HashLimits {
        packed_entries_max: 512,
        packed_value_bytes_max: 64,
    };
    let mut fields = packed::EMPTY.to_vec();
    for n in 0..SMALL_ELEMENTS {
        hash::set_in_small(&mut fields, Shape::Packed, &name(2 * n), &VALUE, limits);
    }
    let mut state = (fields, rng());
    let names = |(_, rng): &mut (Vec<u8>, SmallRng)| small_picks(rng);
    let mut group = group(c, "packed hash of 128");
    timed(
        &mut group,
        "get",
        &mut state,
        names,
        |(fields, _), names| {
            for name in names {
                black_box(HashRef::new(Form::Packed(fields), ALL_LIVE).get(name));
            }
        },
    );
    timed(
        &mut group,
        "set",
        &mut state,
        names,
        |(fields, _), names| {
            for name in names {
                hash::set_in_small(fields, Shape::Packed, name, &[b'w'; 32], limits);
            }
        },
    );
    group.finish();
}

fn small_zset(c: &mut Criterion) {
    let limits = ZsetLimits {
        entries_max: usize::MAX,
        ..ZsetLimits::default()
    };
    let (mut records, mut random) = (packed::EMPTY.to_vec(), rng());
    for n in 0..SMALL_ELEMENTS {
        let score = random.random();
        small::insert(&mut records, Shape::Packed, &name(2 * n), score, &limits);
    }
    let mut state = (records, random);
    let scored = |(_, rng): &mut (Vec<u8>, SmallRng)| -> Vec<(Name, f64)> {
        let names = small_picks(rng);
        names.into_iter().map(|name| (name, rng.random())).collect()
    };
    let mut group = group(c, "packed sorted set of 128");
    timed(
        &mut group,
        "score",
        &mut state,
        scored,
        |(records, _), names| {
            for (name, _) in names {
                black_box(ZsetRef::Small(Small::new(records, Shape::Packed)).score(name));
            }
        },
    );
    timed(
        &mut group,
        "rank",
        &mut state,
        scored,
        |(records, _), names| {
            for (name, _) in names {
                black_box(ZsetRef::Small(Small::new(records, Shape::Packed)).rank(name));
            }
        },
    );
    timed(
        &mut group,
        "new score",
        &mut state,
        scored,
        |(records, _), names| {
            for (name, score) in names {
                small::insert(records, Shape::Packed, name, *score, &limits);
            }
        },
    );
    group.finish();
}

criterion_group!(
    benches,
    big_list,
    big_set,
    big_hash,
    big_zset,
    small_strings,
    small_sets,
    small_hash,
    small_zset
);
criterion_main!(benches);
