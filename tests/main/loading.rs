//! Loading a snapshot: in slices, past damage if that is wanted, and with another clock.

use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::config::{Config, NotifyFlags, Permission, SnapshotLoad};
use mayfly::engine::Engine;

use crate::sim::{START, Sim, TempDir};

/// Values so long that each has a chunk of its own.
const LONG: usize = 300_000;
const CHUNKS: usize = 6;
const HOUR_MS: i64 = 3_600_000;

/// A snapshot of several chunks in `dir`.
fn long_file(dir: &TempDir) -> Vec<u8> {
    let mut sim = Sim::saving_in(dir, 1);
    for i in 0..CHUNKS {
        let value = i.to_string().repeat(LONG);
        let request = format!("*3\r\n$3\r\nset\r\n$2\r\nk{i}\r\n${LONG}\r\n{value}");
        assert!(sim.run(&request) == "+OK");
    }
    sim.expect("save", "+OK");
    std::fs::read(dir.file("dump.mayfly")).expect("a snapshot")
}

/// A server that has begun to load what is in `dir`.
fn loading_from(dir: &TempDir) -> Sim {
    let mut sim = Sim::saving_in(dir, 2);
    sim.engine.reading = sim.clock.read();
    assert!(sim.engine.begin_load().expect("a snapshot"));
    sim
}

/// One chunk, in a slice that is over after it.
fn step(sim: &mut Sim) {
    sim.clock.cost_us = 600;
    sim.engine.run_jobs(&mut sim.clock, false);
    sim.clock.cost_us = 0;
}

fn load(sim: &mut Sim) {
    while sim.engine.jobs.is_loading() {
        step(sim);
    }
}

#[test]
fn clients_are_answered_while_the_snapshot_loads() {
    let dir = TempDir::new();
    let before = long_file(&dir);
    let mut sim = loading_from(&dir);
    let refusal = "-LOADING Redis is loading the dataset in memory";
    let mut slices = 0;
    while sim.engine.jobs.is_loading() {
        sim.script("select 0=>+OK\nlastsave=>:1700000000\nping=>+PONG\nmulti=>+OK");
        sim.expect("get k0", refusal);
        sim.expect(
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        );
        for request in [
            "get k0", "set k0 v", "dbsize", "keys *", "save", "bgsave", "flushall",
        ] {
            sim.expect(request, refusal);
        }
        let info = sim.run("info persistence");
        assert!(info.contains("loading:1 "), "{info}");
        assert!(
            info.contains(&format!("loading_total_bytes:{} ", before.len())),
            "{info}"
        );
        assert_eq!(sim.engine.next_wakeup_ms(), Some(0));
        step(&mut sim);
        slices += 1;
    }
    assert!(slices > CHUNKS, "{slices}");
    sim.engine.keyspace.check();
    sim.expect("dbsize", &format!(":{CHUNKS}"));
    let info = sim.run("info persistence");
    assert!(info.contains("loading:0 "), "{info}");
    assert!(
        info.contains(&format!("rdb_last_load_keys_loaded:{CHUNKS} ")),
        "{info}"
    );
    assert!(info.contains("rdb_changes_since_last_save:0 "), "{info}");
}

#[test]
fn ending_while_loading_leaves_the_snapshot() {
    for request in ["shutdown", "shutdown save"] {
        let dir = TempDir::new();
        let before = long_file(&dir);
        let mut sim = loading_from(&dir);
        step(&mut sim);
        sim.run(request);
        assert_eq!(sim.engine.exit, Some(0), "{request}");
        let after = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
        assert!(before == after, "{request}");
    }
}

/// Loads damaged bytes as far as possible: which keys are there, and how many parts are lost.
fn load_partially(bytes: &[u8]) -> (Vec<usize>, u64) {
    let dir = TempDir::new();
    std::fs::write(dir.file("dump.mayfly"), bytes).expect("the disk is writable");
    let mut sim = Sim::saving_in(&dir, 2);
    sim.engine.config.snapshot_load = SnapshotLoad::Partial;
    sim.engine.begin_load().expect("the header is whole");
    load(&mut sim);
    assert_eq!(sim.engine.exit, None);
    sim.engine.keyspace.check();
    let is_there = |i: &usize| sim.run(&format!("exists k{i}")) == ":1";
    let found = (0..CHUNKS).filter(is_there).collect();
    (found, sim.engine.jobs.persistence.loaded.lost_chunks)
}

/// Where the value of a key begins.
fn place(bytes: &[u8], key: usize) -> usize {
    let value = key.to_string().repeat(100);
    let mut windows = bytes.windows(100);
    windows
        .position(|w| w == value.as_bytes())
        .expect("the value")
}

#[test]
fn what_is_whole_is_loaded_past_damage_if_that_is_wanted() {
    let bytes = long_file(&TempDir::new());
    assert_eq!(load_partially(&bytes), ((0..CHUNKS).collect(), 0));
    for damaged in 0..CHUNKS {
        let at = place(&bytes, damaged);
        let mut bytes = bytes.clone();
        bytes[at + 1_000] ^= 1;
        let rest = (0..CHUNKS).filter(|key| *key != damaged).collect();
        assert_eq!(load_partially(&bytes), (rest, 1), "k{damaged}");
        // By default it is refused, and nothing is overwritten.
        let dir = TempDir::new();
        std::fs::write(dir.file("dump.mayfly"), &bytes).expect("the disk is writable");
        let mut sim = loading_from(&dir);
        load(&mut sim);
        assert_eq!(sim.engine.exit, Some(1), "k{damaged}");
        let after = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
        assert!(after == bytes);
    }
    // Cut short within the chunk that comes third, in the order of the file.
    let mut order: Vec<usize> = (0..CHUNKS).collect();
    order.sort_by_key(|key| place(&bytes, *key));
    let cut = &bytes[..place(&bytes, order[2]) + 1_000];
    let mut before = order[..2].to_vec();
    before.sort_unstable();
    assert_eq!(load_partially(cut), (before, 1));
}

#[test]
fn due_keys_are_dropped_or_loaded_dead() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("set a v px 10=>+OK\nset b v px 11=>+OK\nset c v=>+OK\nsave=>+OK");
    for (keeps, expired, events) in [(false, 2, 0), (true, 0, 2)] {
        let mut sim = loading_from(&dir);
        sim.engine.config.load_keeps_expired = keeps;
        sim.engine.config.notify_keyspace_events = NotifyFlags::parse("Ex").expect("flags");
        sim.engine.listen_to_changes();
        sim.clock.advance_ms(11);
        sim.engine.reading = sim.clock.read();
        // The setting is read when loading begins.
        sim.engine.begin_load().expect("a snapshot");
        sim.engine.pause_expiry(None);
        load(&mut sim);
        let listener = sim.connect();
        sim.run_as(listener, "subscribe __keyevent@0__:expired");
        let loaded = 3 - expired;
        assert_eq!(sim.engine.keyspace.db(0).table.len() as i64, loaded);
        let info = sim.run("info persistence");
        assert!(
            info.contains(&format!("rdb_last_load_keys_expired:{expired} ")),
            "{info}"
        );
        assert!(
            info.contains(&format!("rdb_last_load_keys_loaded:{loaded} ")),
            "{info}"
        );
        // Dead is dead, loaded or not.
        sim.script("get a=>$-1\nexists a b c=>:1\ndbsize=>:1");
        sim.engine.resume_expiry();
        sim.advance(100);
        assert_eq!(sim.received(listener).matches("expired").count(), events);
    }
}

#[test]
fn deadlines_are_the_same_instants_after_a_restart_at_any_time() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    // The saving server's wall clock has been set forward, its own time has not.
    sim.clock.step_wall_ms(HOUR_MS);
    sim.jobs();
    let wall = START + HOUR_MS;
    sim.expect("set soon v px 60000", "+OK");
    sim.expect(&format!("set at v pxat {}", wall + 7_200_000), "+OK");
    sim.script("set never v=>+OK\npexpiretime soon=>:1700003660000\nsave=>+OK");
    for (later_ms, keys) in [
        (-HOUR_MS, 3),
        (-1, 3),
        (0, 3),
        (59_999, 3),
        (60_000, 2),
        (7_199_999, 2),
        (7_200_000, 1),
        (400 * 24 * HOUR_MS, 1),
    ] {
        let now = wall + later_ms;
        let mut other = Sim::saving_in(&dir, 2);
        // Nor do the two clocks of the loading server agree.
        other.clock = ManualClock::new(UnixMillis(now - 10_000));
        other.clock.step_wall_ms(10_000);
        other.engine = Engine::new(other.engine.config, other.clock.read(), 2);
        other.client = other.connect();
        other.engine.load_now().expect("it loads");
        let behind_ms = other.engine.jobs.persistence.loaded.clock_behind_ms;
        assert_eq!(behind_ms, (-later_ms).max(0));
        other.expect("dbsize", &format!(":{keys}"));
        for (key, at) in [("soon", wall + 60_000), ("at", wall + 7_200_000)] {
            let (ttl, time) = if at > now { (at - now, at) } else { (-2, -2) };
            other.expect(&format!("pttl {key}"), &format!(":{ttl}"));
            other.expect(&format!("pexpiretime {key}"), &format!(":{time}"));
        }
        other.expect("ttl never", ":-1");
    }
}

#[test]
fn no_snapshot_is_an_empty_server_and_a_strange_file_is_none() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    assert!(!sim.engine.begin_load().expect("nothing to load"));
    sim.expect("dbsize", ":0");
    for bytes in [&b""[..], b"REDIS0011", &[0; 4_096]] {
        std::fs::write(dir.file("dump.mayfly"), bytes).expect("the disk is writable");
        assert!(sim.engine.begin_load().is_err());
        assert!(!sim.engine.jobs.is_loading());
    }
    let config = Config {
        dir: dir.path().display().to_string(),
        snapshot_load: SnapshotLoad::Partial,
        ..Config::default()
    };
    assert!(Sim::with(config, 1).engine.begin_load().is_err());
}

#[test]
fn a_reload_during_the_load_is_refused() {
    let dir = TempDir::new();
    let before = long_file(&dir);
    let mut sim = loading_from(&dir);
    sim.engine.config.debug_command = Permission::Yes;
    step(&mut sim);
    let refusal = "-LOADING Redis is loading the dataset in memory";
    for request in [
        "debug reload",
        "debug reload nosave noflush",
        "debug populate 10",
    ] {
        sim.expect(request, refusal);
    }
    load(&mut sim);
    let after = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    assert!(before == after);
    sim.expect("dbsize", &format!(":{CHUNKS}"));
    sim.expect("debug reload", "+OK");
}

#[test]
fn nothing_expires_before_the_load_is_over() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    // Several parts each.
    let long = "m".repeat(100);
    for i in 0..2_000 {
        for request in ["zadd z 1", "rpush l", "sadd s", "hset h"] {
            let value = if request == "hset h" { " v" } else { "" };
            sim.run(&format!("{request} {i}{long}{value}"));
        }
    }
    sim.script("hset d keeps v=>:1\npexpire z 1000=>:1\npexpire l 1000=>:1");
    sim.script("pexpire s 1000=>:1\npexpire h 1000=>:1\nset last v px 2000=>+OK\nsave=>+OK");
    let mut sim = Sim::saving_in(&dir, 2);
    sim.engine.config.load_keeps_expired = true;
    sim.clock.advance_ms(1_500);
    sim.engine.reading = sim.clock.read();
    assert!(sim.engine.begin_load().expect("a snapshot"));
    while sim.engine.jobs.is_loading() {
        // A pause that ends meanwhile must not let expiry go on.
        sim.script("client pause 1 write=>+OK\nclient unpause=>+OK");
        sim.run("info");
        sim.clock.advance_ms(20);
        step(&mut sim);
    }
    assert_eq!(sim.engine.exit, None, "the file is whole");
    sim.engine.keyspace.check();
    let info = sim.run("info persistence");
    assert!(info.contains("rdb_last_load_keys_loaded:6 "), "{info}");
    sim.script("exists z l s h=>:0\nhlen d=>:1");
    sim.advance(2_000);
    sim.jobs();
    sim.expect("dbsize", ":1");
    let info = sim.run("info stats");
    assert!(info.contains("expired_keys:5 "), "{info}");
}

#[test]
fn what_fits_is_loaded_and_what_does_not_is_kept_and_told() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("set a 1=>+OK\nselect 9=>+OK\nset b 2=>+OK\nset c 3=>+OK\nsadd t x=>:1");
    sim.script("select 0=>+OK\nsadd s x=>:1\nsave=>+OK");
    let before = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    let few = |load| {
        let config = Config {
            dir: dir.path().display().to_string(),
            databases: 4,
            snapshot_load: load,
            ..Config::default()
        };
        Sim::with(config, 2)
    };
    let mut sim = few(SnapshotLoad::Strict);
    assert!(sim.engine.begin_load().expect("a header"));
    load(&mut sim);
    assert_eq!(sim.engine.exit, Some(1));
    let mut sim = few(SnapshotLoad::Partial);
    assert!(sim.engine.begin_load().expect("a header"));
    load(&mut sim);
    sim.script("get a=>$1 1\nscard s=>:1\ndbsize=>:2");
    let info = sim.run("info persistence");
    assert!(info.contains("snapshot_last_load_lost_chunks:2 "), "{info}");
    assert!(
        info.contains("snapshot_last_load_lost_records:3 "),
        "{info}"
    );
    // A save elsewhere is not the one that would replace it.
    sim.engine.config.dbfilename = "other.mayfly".to_owned();
    sim.expect("save", "+OK");
    sim.engine.config.dbfilename = "dump.mayfly".to_owned();
    // The next save does not cost what was not loaded, and the one after it adds nothing.
    sim.script("save=>+OK\nset d 4=>+OK\nsave=>+OK");
    let aside = |nth| std::fs::read(dir.file(&format!("dump.mayfly.partly-loaded-{nth}")));
    assert!(aside(1).expect("the original") == before);
    assert!(aside(2).is_err());
    let mut other = few(SnapshotLoad::Strict);
    other.engine.load_now().expect("it is whole");
    other.expect("dbsize", ":3");
    // Another one is kept beside the first.
    std::fs::write(dir.file("dump.mayfly"), &before).expect("the disk is writable");
    let mut sim = few(SnapshotLoad::Partial);
    sim.engine.load_now().expect("most of it");
    sim.script("bgsave=>+Background saving started");
    while sim.engine.jobs.persistence.is_saving() {
        sim.jobs();
    }
    assert!(aside(2).expect("the original") == before);
}
