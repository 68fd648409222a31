//! Very many databases: what is done costs what is there, and none is forgotten by a snapshot.

use mayfly::config::{Config, Permission};

use crate::sim::{Sim, TempDir};

/// As many as the setting allows.
const MOST: u32 = 65_536;

fn with_most_databases(dir: &TempDir) -> Sim {
    let config = Config {
        databases: MOST,
        dir: dir.path().display().to_string(),
        debug_command: Permission::Yes,
        save: Vec::new(),
        ..Config::default()
    };
    Sim::with(config, 1)
}

#[test]
fn a_snapshot_has_every_database_up_to_the_last() {
    let dir = TempDir::new();
    let mut sim = with_most_databases(&dir);
    sim.script("set a 0=>+OK\nselect 65535=>+OK\nset z 1 px 60000=>+OK\nsave=>+OK");
    sim.script("debug reload=>+OK\nget z=>$1 1\npttl z=>:60000\nselect 0=>+OK\nget a=>$1 0");
    sim.script("bgsave=>+Background saving started");
    while sim.engine.jobs.persistence.is_saving() {
        sim.jobs();
    }
    let mut other = with_most_databases(&dir);
    other.engine.load_now().expect("it loads");
    other.script("get a=>$1 0\nselect 65535=>+OK\nget z=>$1 1");
    other.engine.keyspace.check();
}

#[test]
fn a_key_in_each_of_the_most_databases_is_saved() {
    let dir = TempDir::new();
    let mut sim = with_most_databases(&dir);
    for db in 0..MOST {
        sim.expect(&format!("select {db}"), "+OK");
        sim.expect(&format!("set k {db}"), "+OK");
    }
    // While the databases are written two change places, and one is emptied.
    sim.expect("bgsave", "+Background saving started");
    sim.script("swapdb 7 65535=>+OK\nselect 100=>+OK\nflushdb=>+OK\nset k new=>+OK");
    while sim.engine.jobs.persistence.is_saving() {
        sim.jobs();
    }
    let mut other = with_most_databases(&dir);
    other.engine.load_now().expect("it loads");
    for db in [0, 1, 7, 100, 65_534, 65_535] {
        other.expect(&format!("select {db}"), "+OK");
        let text = db.to_string();
        other.expect("get k", &format!("${} {text}", text.len()));
    }
    let loaded = other.engine.jobs.persistence.loaded;
    assert_eq!(loaded.keys, u64::from(MOST));
}

#[test]
fn a_save_that_missed_a_key_is_refused() {
    let dir = TempDir::new();
    let mut sim = with_most_databases(&dir);
    sim.script("set k v=>+OK\nsave=>+OK\nset l v=>+OK");
    let before = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    sim.expect("bgsave", "+Background saving started");
    sim.engine.keyspace.cut.unkept += 1;
    while sim.engine.jobs.persistence.is_saving() {
        sim.jobs();
    }
    let info = sim.run("info persistence");
    assert!(info.contains("rdb_last_bgsave_status:err"), "{info}");
    let after = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    assert!(before == after);
}

#[test]
fn due_keys_removed_during_a_save_are_accounted_for() {
    let dir = TempDir::new();
    let mut sim = with_most_databases(&dir);
    for i in 0..2_000 {
        sim.expect(&format!("set k{i} v px {}", 10 + i % 20), "+OK");
        sim.expect(&format!("hset h{i} f v"), ":1");
        sim.expect(&format!("hpexpire h{i} 15 fields 1 f"), "*1 :1");
    }
    sim.expect("set stays v", "+OK");
    sim.expect("bgsave", "+Background saving started");
    sim.clock.advance_ms(20);
    sim.script("get k0=>$-1\nhget h0 f=>$-1\ndbsize=>:901");
    while sim.engine.jobs.persistence.is_saving() {
        sim.advance(1);
    }
    let info = sim.run("info persistence");
    assert!(info.contains("rdb_last_bgsave_status:ok"), "{info}");
    assert_eq!(sim.engine.jobs.persistence.saves, 1);
}

#[test]
fn expiry_looks_only_where_there_is_something_to_do() {
    let dir = TempDir::new();
    let mut sim = with_most_databases(&dir);
    let active = |sim: &Sim| sim.engine.keyspace.active_databases().to_vec();
    sim.script("select 60000=>+OK\nset k v px 100=>+OK\nhset h f v=>:1\nselect 9=>+OK");
    sim.script("set k v=>+OK\nhset h f v=>:1\nhpexpire h 200 fields 1 f=>*1 :1");
    assert_eq!(active(&sim), [60_000, 9]);
    sim.jobs();
    sim.engine.keyspace.check();
    assert_eq!(active(&sim), [0; 0]);
    let wakeup_ms = sim.engine.next_wakeup_ms().expect("a deadline");
    assert!((100..110).contains(&wakeup_ms), "{wakeup_ms}");
    sim.expect("swapdb 9 10", "+OK");
    assert_eq!(active(&sim), [9, 10]);
    sim.jobs();
    sim.engine.keyspace.check();
    assert_eq!(active(&sim), [0; 0]);
    sim.advance(110);
    assert_eq!(sim.engine.keyspace.stats.expired_actively, 1);
    sim.advance(100);
    assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 1);
    sim.engine.keyspace.check();
    // The indexes' memory is given back once, when they have been empty for a while.
    sim.advance(1_200);
    assert_eq!(sim.engine.next_wakeup_ms(), Some(1_000));
    for _ in 0..140 {
        sim.advance(1_000);
    }
    assert_eq!(sim.engine.next_wakeup_ms(), None);
    for db in [9, 10, 60_000] {
        assert_eq!(sim.engine.keyspace.db(db).index.allocated_bytes(), 0);
        assert_eq!(sim.engine.keyspace.db(db).members.allocated_bytes(), 0);
    }
}

#[test]
fn many_databases_with_deadlines_cost_a_turn_nothing() {
    let mut sim = Sim::with(
        Config {
            databases: 4_000,
            save: Vec::new(),
            ..Config::default()
        },
        1,
    );
    for db in 0..4_000 {
        sim.script(&format!(
            "select {db}=>+OK\nset k v px {}=>+OK\nset stays v ex 100000=>+OK",
            10_000 + db * 7
        ));
    }
    sim.jobs();
    let bytes: usize = (0..4_000)
        .map(|db| sim.engine.keyspace.db(db).index.allocated_bytes())
        .sum();
    assert!(bytes < 4_000 * 8_000, "{bytes}");
    let mut most = 0;
    for _ in 0..4_500 {
        sim.expect("ping", "+PONG");
        sim.clock.advance_ms(10);
        sim.jobs();
        most = most.max(sim.engine.keyspace.active_databases().len());
    }
    assert!(most < 10, "{most}");
    assert_eq!(sim.engine.keyspace.stats.expired_actively, 4_000);
    assert!(sim.engine.keyspace.lag.of_both().max_ms() <= 20);
    sim.engine.keyspace.check();
}

/// Turns of the loop until nothing is to be done before `wait_ms` from now.
fn turns_until_idle(sim: &mut Sim, wait_ms: u64) -> usize {
    let mut turns = 0;
    while sim.engine.next_wakeup_ms().is_some_and(|ms| ms < wait_ms) {
        sim.jobs();
        turns += 1;
        assert!(turns < 1_000, "it spins");
    }
    turns
}

#[test]
fn a_server_with_long_deadlines_sleeps() {
    // Each of these is refiled from a coarse bucket at some time.
    for (command, ttls) in [
        (
            "set k v px",
            &[66_000, 70_000, 100_000, 1_000_000, 100_000_000][..],
        ),
        ("hpexpire h", &[66_000, 100_000]),
    ] {
        for ttl in ttls {
            let mut sim = Sim::new();
            sim.expect("hset h f v g w", ":2");
            match command {
                "hpexpire h" => sim.run(&format!("hpexpire h {ttl} fields 1 f")),
                _ => sim.run(&format!("set k v px {ttl}")),
            };
            let (mut turns, mut passed_ms) = (0, 0);
            while passed_ms < ttl + 20 {
                turns += turns_until_idle(&mut sim, 1);
                let wakeup_ms = sim
                    .engine
                    .next_wakeup_ms()
                    .map_or(1_000, |ms| ms.min(1_000));
                sim.clock.advance_ms(wakeup_ms);
                passed_ms += wakeup_ms;
                sim.jobs();
            }
            assert!(turns < 50, "{command} {ttl}: {turns}");
            let lag_ms = sim.engine.keyspace.lag.of_both().max_ms();
            assert!((1..=16).contains(&lag_ms), "{command} {ttl}: {lag_ms}");
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn coarse_buckets_of_many_databases_are_refiled_in_time() {
    let config = Config {
        databases: 3_000,
        save: Vec::new(),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    for db in 0..3_000 {
        let ttl = 66_000 + db * 3;
        sim.script(&format!("select {db}=>+OK\nset k v px {ttl}=>+OK"));
    }
    for _ in 0..9_000 {
        sim.clock.advance_ms(8);
        sim.jobs();
        assert!(sim.engine.keyspace.active_databases().len() <= 256);
    }
    for _ in 0..500 {
        sim.clock.advance_ms(8);
        sim.jobs();
    }
    assert_eq!(sim.engine.keyspace.stats.expired_actively, 3_000);
    let lag_ms = sim.engine.keyspace.lag.of_both().max_ms();
    assert!(lag_ms <= 24, "{lag_ms}");
    sim.engine.keyspace.check();
}

#[test]
fn what_info_removes_is_not_waited_for() {
    let mut sim = Sim::new();
    for request in [
        "set k v px 2",
        "select 1",
        "set k v px 3",
        "hset h f v",
        "hpexpire h 2 fields 1 f",
    ] {
        sim.run(request);
    }
    sim.jobs();
    sim.clock.advance_ms(3);
    assert!(!sim.run("info keyspace").contains("keys="));
    sim.engine.keyspace.check();
    sim.jobs();
    sim.engine.keyspace.check();
}

#[test]
fn keys_that_info_removes_leave_the_schedule_as_good_as_it_was() {
    let mut sim = Sim::new();
    sim.script("select 1=>+OK\nset a v px 367=>+OK\nset b v px 900000=>+OK\nselect 0=>+OK");
    sim.jobs();
    sim.clock.advance_ms(380);
    assert!(sim.run("info keyspace").contains("db1:keys=1,"));
    sim.engine.keyspace.check();
    sim.advance(900_000);
    sim.script("select 1=>+OK\ndbsize=>:0");
    sim.engine.keyspace.check();
}
