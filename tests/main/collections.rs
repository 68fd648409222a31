//! Collections in the keyspace, below the commands: saved whole while they change, freed piece by
//! piece, copied and kept apart.

use std::collections::BTreeMap;

use mayfly::clock::Clock;
use mayfly::expiry::{Basis, Deadline, MemberTerm, Term};
use mayfly::store::Live;
use mayfly::store::collection::{hash_of, list_of, set_of, stream_of, zset_of};
use mayfly::store::entry::Slot;
use mayfly::value::Kind;
use mayfly::value::packed::End;
use mayfly::value::stream::{Exactness, Id, Trim};
use mayfly::value::zset::Direction;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::process::wait_for;
use crate::sim::{START, Sim, TempDir};

/// Longer than a slice may take, so that each does one step.
const STEP_US: u64 = 600;
/// Elements of a small collection, and of one of many pieces.
const SIZES: [usize; 2] = [20, 10_000];
const KINDS: [Kind; 5] = [Kind::List, Kind::Set, Kind::Zset, Kind::Hash, Kind::Stream];

fn span(deadline: Deadline) -> MemberTerm {
    MemberTerm::new(deadline, Basis::Relative, false)
}

/// Type, deadline and elements, in order where there is one.
type Content = (&'static str, Option<i64>, Vec<String>);

fn content(slot: &Slot, deadline: Option<i64>) -> Content {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut elements: Vec<String> = match slot.kind() {
        Kind::String => vec![text(slot.string().expect("a string"))],
        Kind::List => {
            let list = list_of(slot).expect("a list");
            list.iter().map(|item| text(&item)).collect()
        }
        Kind::Set => {
            let set = set_of(slot, mayfly::expiry::ALL_LIVE).expect("a set");
            set.iter().map(|member| text(&member)).collect()
        }
        Kind::Zset => {
            let zset = zset_of(slot).expect("a sorted set");
            let all = zset.iter(0, Direction::Ascending);
            all.map(|(m, score)| format!("{score} {}", text(m)))
                .collect()
        }
        Kind::Hash => {
            let hash = hash_of(slot, mayfly::expiry::ALL_LIVE).expect("a hash");
            let fields = hash.iter().map(|field| {
                let deadline = field.deadline().map(|at| at.0.0);
                format!(
                    "{} = {} until {deadline:?}",
                    text(&field.member),
                    text(&field.value)
                )
            });
            fields.collect()
        }
        Kind::Stream => {
            let stream = stream_of(slot).expect("a stream");
            let entries = stream.range(Id::MIN, Id::MAX).map(|entry| {
                let pairs = entry
                    .pairs()
                    .map(|(f, v)| format!("{} {}", text(f), text(v)));
                format!("{} {:?}", entry.id, pairs.collect::<Vec<_>>())
            });
            let facts = format!("{:?}", stream.facts());
            entries.chain([facts]).collect()
        }
    };
    if matches!(slot.kind(), Kind::Set | Kind::Hash) {
        elements.sort();
    }
    (slot.kind().name(), deadline, elements)
}

fn contents(sim: &mut Sim) -> BTreeMap<(usize, String), Content> {
    sim.engine.reading = sim.clock.read();
    let reading = sim.engine.reading;
    let mut found = BTreeMap::new();
    for db in 0..sim.engine.keyspace.databases() {
        sim.engine.keyspace.live(db, &reading).for_each(|slot| {
            let key = String::from_utf8_lossy(slot.key()).into_owned();
            let deadline = slot.deadline().map(|at| reading.to_wall(at.0));
            found.insert((db, key), content(slot, deadline));
        });
    }
    found
}

fn live(sim: &mut Sim) -> Live<'_> {
    sim.engine.reading = sim.clock.read();
    let engine = &mut sim.engine;
    engine.keyspace.live(0, &engine.reading)
}

/// Adds element number `i`; in every five hundredth place something long, or so long that a save
/// shares it.
fn add(live: &mut Live<'_>, key: &[u8], kind: Kind, i: usize) {
    let long = "x".repeat(match i % 1_000 {
        507 => 10_000,
        907 => 70_000,
        _ => 0,
    });
    let member = format!("element {i} {long}").into_bytes();
    let value = format!("value {i} {long}").into_bytes();
    match kind {
        Kind::List => {
            let end = if i.is_multiple_of(3) {
                End::Front
            } else {
                End::Back
            };
            live.list_or_new(key).expect("a list").push(end, &member);
        }
        Kind::Set => {
            let integer = i.to_string().into_bytes();
            let member = if key.ends_with(b"integers") {
                integer
            } else {
                member
            };
            live.set_or_new(key, &member, 1)
                .expect("a set")
                .add(&member);
        }
        Kind::Zset => {
            let score = (i % 97) as f64 / 8.0;
            live.zset_or_new(key)
                .expect("a sorted set")
                .insert(&member, score);
        }
        Kind::Hash => {
            live.hash_or_new(key).expect("a hash").set(&member, &value);
        }
        Kind::Stream => {
            let mut stream = live.stream_or_new(key).expect("a stream");
            let id = stream.view().facts().last_id.next().expect("no end");
            let strings = [b"member".as_slice(), &member, b"value", &value];
            let pairs = if i.is_multiple_of(7) { 1 } else { 2 };
            stream.push(id, pairs, &|index: usize| strings[index]);
        }
        Kind::String => live.set_string(key, &value, mayfly::store::db::Ttl::Drop),
    }
}

/// One random change of a collection of up to `size` elements; it may become empty and go.
fn change(live: &mut Live<'_>, key: &[u8], kind: Kind, size: usize, rng: &mut SmallRng) {
    let i = rng.random_range(0..size * 2);
    let member = format!("element {i} ").into_bytes();
    let is_there = live.peek(key).is_some();
    if !is_there || rng.random_range(0..2) == 0 {
        return add(live, key, kind, i);
    }
    match kind {
        Kind::List => {
            let mut list = live.list_mut(key).expect("a list").expect("it is there");
            match rng.random_range(0..4) {
                0 => list.remove_end(End::Front, 1 + i % 5),
                1 => list.remove_end(End::Back, 1 + i % 5),
                2 => drop(list.set(i, b"set")),
                _ => drop(list.remove_equal(&member, 1, End::Back)),
            }
        }
        Kind::Set => {
            let mut set = live.set_mut(key).expect("a set").expect("it is there");
            set.remove(&member);
            set.remove(i.to_string().as_bytes());
            set.pop(rng, |_| {});
        }
        Kind::Zset => {
            let mut zset = live
                .zset_mut(key)
                .expect("a sorted set")
                .expect("it is there");
            zset.remove(&member);
            zset.remove_ranks(i, 3, |_, _| {});
        }
        Kind::Hash => {
            let later = Deadline(
                live.reading()
                    .now
                    .plus(rng.random_range(1_000_000..2_000_000)),
            );
            let mut hash = live.hash_mut(key).expect("a hash").expect("it is there");
            match rng.random_range(0..4) {
                0 => drop(hash.remove(&member)),
                1 => drop(hash.set_term(&member, None)),
                _ => drop(hash.set_term(&member, Some(span(later)))),
            }
        }
        Kind::Stream => {
            let mut stream = live
                .stream_mut(key)
                .expect("a stream")
                .expect("it is there");
            let len = stream.view().len() as u64;
            let Some(first) = stream.view().first().map(|entry| entry.id) else {
                return;
            };
            let id = Id {
                seq: first.seq + i as u64 / 2,
                ..first
            };
            match rng.random_range(0..4) {
                0 => drop(stream.trim(Trim::MaxLen(len - len.min(3)), Exactness::Exact)),
                1 => drop(stream.trim(Trim::MinId(first), Exactness::Chunks(None))),
                _ => drop(stream.remove(id)),
            }
            stream.view().check();
        }
        Kind::String => {}
    }
    live.drop_empty(key);
}

/// A key of each type in each size, some with a deadline.
fn fill(sim: &mut Sim) -> Vec<(Vec<u8>, Kind, usize)> {
    let mut keys = Vec::new();
    for size in SIZES {
        for kind in KINDS {
            for name in ["", " dying", " integers"] {
                let key = format!("{} {size}{name}", kind.name()).into_bytes();
                let mut live = live(sim);
                (0..size).for_each(|i| add(&mut live, &key, kind, i));
                if kind == Kind::Hash {
                    date(&mut live, &key, size);
                }
                if name == " dying" {
                    let at = live.reading().now.plus(600_000);
                    let term = Term::new(Deadline(at), Basis::Absolute);
                    live.set_term(&key, Some(term));
                }
                keys.push((key, kind, size));
            }
        }
    }
    keys
}

/// Gives every third field of a hash a deadline.
fn date(live: &mut Live<'_>, key: &[u8], size: usize) {
    let now = live.reading().now;
    let mut hash = live.hash_mut(key).expect("a hash").expect("it is there");
    for i in (0..size).step_by(3) {
        let deadline = Deadline(now.plus(1_000_000 + i as i64));
        hash.set_term(format!("element {i} ").as_bytes(), Some(span(deadline)));
    }
}

fn loaded(dir: &TempDir, ms: u64) -> BTreeMap<(usize, String), Content> {
    let mut other = Sim::saving_in(dir, 99);
    other.clock.advance_ms(ms);
    other.engine.reading = other.clock.read();
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    contents(&mut other)
}

#[test]
fn collections_come_back_as_they_were() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    fill(&mut sim);
    let before = contents(&mut sim);
    sim.engine.save_now().expect("a snapshot");
    assert!(loaded(&dir, 0) == before);
    let bytes = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    let summary = mayfly::snapshot::loader::check(&bytes[..], bytes.len() as u64, START);
    let keys = KINDS.len() * SIZES.len() * 3;
    let databases = summary.expect("a whole file").databases;
    assert_eq!(databases, [(0, keys as u64, keys as u64 / 3, 0)]);
    // Dead ones are not loaded, in no part.
    let later = loaded(&dir, 600_000);
    assert_eq!(later.len(), keys * 2 / 3);
}

#[test]
fn collections_that_change_during_a_save_are_saved_as_they_were() {
    for seed in 0..3 {
        println!("seed {seed}");
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, seed);
        sim.engine.config.save.clear();
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut keys = fill(&mut sim);
        let before = contents(&mut sim);
        sim.expect("bgsave", "+Background saving started");
        let mut fresh = 0;
        wait_for("the end of the save", || {
            for _ in 0..40 {
                let at = rng.random_range(0..keys.len());
                let (key, kind, size) = keys[at].clone();
                match rng.random_range(0..300) {
                    0 => drop(live(&mut sim).remove(&key)),
                    1 => {
                        fresh += 1;
                        let name = format!("new {fresh}").into_bytes();
                        if live(&mut sim).rename(&key, &name) {
                            keys[at].0 = name;
                        }
                    }
                    2 => {
                        let other = keys[rng.random_range(0..keys.len())].0.clone();
                        let reading = sim.engine.reading;
                        let (from, to) = ((0, key.as_slice()), (1, other.as_slice()));
                        sim.engine.keyspace.copy_key(from, to, true, &reading);
                    }
                    3 => {
                        let reading = sim.engine.reading;
                        sim.engine.keyspace.move_key(0, 2, &key, &reading);
                    }
                    4 => live(&mut sim).set_term(&key, None),
                    _ => change(&mut live(&mut sim), &key, kind, size, &mut rng),
                }
            }
            sim.clock.cost_us = STEP_US;
            sim.engine.run_jobs(&mut sim.clock, false);
            sim.clock.cost_us = 0;
            (!sim.engine.jobs.persistence.is_saving()).then_some(())
        });
        sim.engine.keyspace.check();
        let info = sim.run("info persistence");
        assert!(info.contains("rdb_last_bgsave_status:ok"), "{info}");
        let now = sim.engine.reading.now.0;
        let found = loaded(&dir, (now - START) as u64);
        assert_eq!(found.len(), before.len());
        for (key, content) in &before {
            assert!(found.get(key) == Some(content), "{key:?}");
        }
    }
}

#[test]
fn big_collections_are_freed_in_pieces() {
    let mut sim = Sim::new();
    let keys = fill(&mut sim);
    // Streams are never packed.
    let is_big = |kind: Kind, size: usize| size == SIZES[1] || kind == Kind::Stream;
    let big = keys
        .iter()
        .filter(|(_, kind, size)| is_big(*kind, *size))
        .count();
    for (key, ..) in &keys {
        assert!(live(&mut sim).remove(key));
    }
    assert_eq!(sim.engine.keyspace.graveyard.pending(), big);
    let mut pieces = 0;
    while !sim.engine.keyspace.graveyard.is_empty() {
        sim.engine.keyspace.graveyard.dig(1_000);
        pieces += 1;
    }
    assert!(pieces > big * 10, "{pieces}");
    // A flushed database, an overwritten key, and one that expires go the same way.
    let keys = fill(&mut sim);
    let (key, ..) = keys.last().expect("a key");
    live(&mut sim).set_string(key, b"v", mayfly::store::db::Ttl::Drop);
    assert_eq!(sim.engine.keyspace.graveyard.pending(), 1);
    sim.clock.advance_ms(600_000);
    let (dying, ..) = keys
        .iter()
        .rfind(|(key, ..)| key.ends_with(b" dying"))
        .expect("one");
    assert!(!live(&mut sim).remove(dying));
    assert_eq!(sim.engine.keyspace.graveyard.pending(), 2);
    sim.expect("flushall", "+OK");
    while !sim.engine.keyspace.graveyard.is_empty() {
        sim.engine.keyspace.graveyard.dig(1_000);
    }
}

/// Whatever sizes lie side by side, what is freed between two readings of the clock is a piece or
/// some entries: in the time of a slice a client waits for no more than that.
#[test]
fn a_step_of_freeing_is_small_whatever_was_deleted() {
    let both = [
        ("flushall", 512 * 1024),
        ("del list set zset hash stream", 64 * 1024),
    ];
    for (request, bytes_max) in both {
        let mut sim = Sim::new();
        for i in 0..20_000 {
            let value = "v".repeat(1 + i % 3_000);
            sim.run(&format!("set key:{i} {value}"));
        }
        for i in 0..30_000 {
            sim.run(&format!("rpush list element:{i}"));
            sim.run(&format!("sadd set element:{i}"));
            sim.run(&format!("zadd zset {i} element:{i}"));
            sim.run(&format!("hset hash element:{i} {}", "v".repeat(i % 200)));
            sim.run(&format!("xadd stream * field element:{i}"));
        }
        sim.run(request);
        let before = sim.engine.keyspace.graveyard.allocated_bytes();
        assert!(before > 5_000_000, "{before} bytes to be freed");
        sim.clock.cost_us = STEP_US;
        let (mut steps, mut most) = (0, 0);
        while !sim.engine.keyspace.graveyard.is_empty() {
            let held = sim.engine.keyspace.graveyard.allocated_bytes();
            sim.engine.run_jobs(&mut sim.clock, false);
            let left = sim.engine.keyspace.graveyard.allocated_bytes();
            most = most.max(held.saturating_sub(left));
            steps += 1;
            assert!(steps < 100_000, "no end");
        }
        sim.clock.cost_us = 0;
        assert!(most <= bytes_max, "{most} bytes in one step of {steps}");
        sim.engine.keyspace.check();
    }
}

#[test]
fn a_copy_and_its_original_change_apart() {
    let mut sim = Sim::new();
    let mut rng = SmallRng::seed_from_u64(5);
    for (key, kind, size) in fill(&mut sim) {
        let reading = sim.engine.reading;
        let keyspace = &mut sim.engine.keyspace;
        assert!(keyspace.copy_key((0, &key), (1, &key), false, &reading));
        let shown = |sim: &mut Sim, db: usize| {
            let live = sim.engine.keyspace.live(db, &reading);
            content(live.peek(&key).expect("it is there"), None)
        };
        let before = shown(&mut sim, 0);
        for _ in 0..50 {
            change(&mut live(&mut sim), &key, kind, size, &mut rng);
        }
        assert!(shown(&mut sim, 1) == before, "{kind:?} {size}");
        assert!(shown(&mut sim, 0) != before, "{kind:?} {size}");
    }
}

#[test]
fn a_file_of_the_first_version_is_read() {
    let dir = TempDir::new();
    let bytes = include_bytes!("snapshots/v1.mayfly");
    std::fs::write(dir.file("dump.mayfly"), bytes).expect("the disk is writable");
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.load_now().expect("it loads");
    sim.script("dbsize=>:6\nget plain=>$5 value\nget number=>$2 42");
    sim.script(
        "pexpiretime dying=>:4102444800000\nget edited=>$37 a long enough text to be raw whatever",
    );
    sim.script("strlen large=>:20003\nselect 3=>+OK\npexpiretime far=>:300000000000000");
}

#[test]
fn a_file_of_the_second_version_is_read() {
    let dir = TempDir::new();
    let bytes = include_bytes!("snapshots/v2.mayfly");
    std::fs::write(dir.file("dump.mayfly"), bytes).expect("the disk is writable");
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.load_now().expect("it loads");
    sim.script(
        "
        dbsize => :9
        get plain => $5 value
        pexpiretime dying => :4102444800000
        lrange list 0 -1 => *3 $1 a $1 b $1 c
        scard set => :2
        smembers integers => *3 $1 1 $1 2 $1 3
        zrange zset 0 -1 withscores => *4 $1 b $4 -inf $1 a $3 1.5
        hgetall hash => *4 $1 f $1 v $1 g $1 w
        pexpiretime hash => :4102444800000
        hmget big a b c => *3 $1 1 $1 2 $1 3
        lrange biglist 0 -1 => *5 $1 1 $1 2 $1 3 $1 4 $1 5
        select 3 => +OK
        get other => $1 v
        ",
    );
}

#[test]
fn a_file_of_the_third_version_is_read() {
    let dir = TempDir::new();
    let bytes = include_bytes!("snapshots/v3.mayfly");
    std::fs::write(dir.file("dump.mayfly"), bytes).expect("the disk is writable");
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.load_now().expect("it loads");
    sim.script(
        "
        dbsize => :6
        get plain => $5 value
        pexpiretime dying => :4102444800000
        lrange list 0 -1 => *3 $1 a $1 b $1 c
        smembers integers => *3 $1 1 $1 2 $1 3
        zrange zset 0 -1 withscores => *4 $1 b $4 -inf $1 a $3 1.5
        hgetall hash => *4 $1 f $1 v $1 g $1 w
        hpexpiretime hash fields 2 f g => *2 :-1 :4102444800000
        select 3 => +OK
        get other => $1 v
        ",
    );
}
