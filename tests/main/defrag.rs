//! What lives is moved together, and nobody can tell but by the memory.

use std::collections::BTreeMap;

use mayfly::config::{Config, Permission};

use crate::process::{Server, wait_for};
use crate::sim::{Sim, TempDir};

/// Elements of a big collection: of many pieces.
const BIG: usize = 5_000;

fn server() -> Sim {
    let config = Config {
        save: Vec::new(),
        debug_command: Permission::Yes,
        ..Config::default()
    };
    Sim::with(config, 1)
}

/// A key of each form: small, big, with deadlines of the key and of elements, long strings.
fn fill(sim: &mut Sim) {
    let long = "l".repeat(20_000);
    let member = "m".repeat(2_000);
    for request in [
        "set small 1".to_owned(),
        "set volatile v px 50000".to_owned(),
        "set sliding v px 50000 sliding".to_owned(),
        "set soft v px 50000 soft 10000".to_owned(),
        format!("set long {long}"),
        format!("append grown {long}"),
        format!("append grown {long}"),
        "rpush list a b c".to_owned(),
        "sadd set a b c".to_owned(),
        "sadd numbers 1 2 3".to_owned(),
        "zadd zset 1 a 2 b".to_owned(),
        "hset hash a 1 b 2".to_owned(),
        "hset dated a 1 b 2".to_owned(),
        "hpexpire dated 40000 fields 1 a".to_owned(),
        "xgroup create stream group $ mkstream".to_owned(),
        format!("rpush biglist {member}"),
        format!("sadd bigset {member}"),
        format!("zadd bigzset 0 {member}"),
        format!("hset bighash {member} {member}"),
    ] {
        assert!(!sim.run(&request).starts_with('-'), "{request}");
    }
    for number in 0..BIG {
        sim.run(&format!("rpush biglist item:{number}"));
        sim.run(&format!("sadd bigset member:{number}"));
        sim.run(&format!("zadd bigzset {} member:{number}", number % 99));
        sim.run(&format!("hset bighash field:{number} value:{number}"));
        sim.run(&format!("xadd stream * number {number}"));
        sim.run(&format!("set key:{number} {number} px {}", 1_000 + number));
        if number % 3 == 0 {
            sim.run(&format!("hpexpire bighash 30000 fields 1 field:{number}"));
            sim.run(&format!("pexpire key:{number} {}", 100_000 + number));
        }
        if number % 9 == 0 {
            sim.run(&format!("zpexpire bigzset 30000 members 1 member:{number}"));
        }
    }
    sim.run("xreadgroup group group worker count 1000 streams stream >");
}

/// Fields of INFO that begin with `active_defrag`.
fn figures(sim: &mut Sim) -> BTreeMap<String, u64> {
    let reply = sim.run("info stats");
    let fields = reply.split(' ').filter_map(|line| line.split_once(':'));
    fields
        .filter(|(name, _)| name.starts_with("active_defrag"))
        .map(|(name, figure)| (name.to_owned(), figure.parse().expect("a number")))
        .collect()
}

fn check(sim: &Sim) {
    sim.engine.keyspace.check();
    for db in 0..sim.engine.keyspace.databases() {
        sim.engine.keyspace.db(db).table.check();
    }
}

#[test]
fn what_is_moved_says_what_it_said() {
    let mut sim = server();
    fill(&mut sim);
    let digest = sim.run("debug digest");
    let bytes = sim.engine.ledger();
    sim.engine.jobs.defrag.always();
    // The first slice begins a pass, which the clock that stands still lets end in the next one.
    sim.advance(0);
    sim.advance(10);
    let figures = figures(&mut sim);
    assert!(figures["active_defrag_hits"] > BIG as u64, "{figures:?}");
    assert!(figures["active_defrag_key_hits"] > BIG as u64);
    assert_eq!(figures["active_defrag_key_misses"], 0);
    assert_eq!(sim.run("debug digest"), digest);
    check(&sim);
    let moved = sim.engine.ledger();
    assert_eq!(moved.entries, bytes.entries, "moving changes no size");
    assert_eq!(moved.indexes, bytes.indexes);
    // All is where it is looked for, and dies when it should.
    for number in 0..BIG {
        sim.expect(&format!("hstrlen bighash field:{number}"), &{
            format!(":{}", format!("value:{number}").len())
        });
        sim.expect(&format!("sismember bigset member:{number}"), ":1");
    }
    sim.expect("llen biglist", &format!(":{}", BIG + 1));
    sim.expect("lindex biglist -1", &{
        let last = format!("item:{}", BIG - 1);
        format!("${} {last}", last.len())
    });
    sim.advance(30_000);
    sim.expect("hexists bighash field:3", ":0");
    sim.expect("zscore bigzset member:9", "$-1");
    let dead = (0..BIG).filter(|number| number % 3 != 0).count();
    sim.expect("dbsize", &format!(":{}", 17 + BIG - dead));
    check(&sim);
}

#[test]
fn a_snapshot_is_not_disturbed() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.config.save.clear();
    sim.engine.config.debug_command = Permission::Yes;
    fill(&mut sim);
    let digest = sim.run("debug digest");
    sim.engine.jobs.defrag.always();
    assert!(sim.engine.begin_save().expect("a thread"));
    sim.clock.cost_us = 20;
    let mut slices = 0;
    while sim.engine.jobs.persistence.is_saving() {
        // The server is not idle, so that the save leaves time for others.
        sim.engine.run_jobs(&mut sim.clock, false);
        sim.run(&format!("rpush biglist after:{slices}"));
        sim.run(&format!("hset bighash field:{slices} after"));
        slices += 1;
    }
    let figures = figures(&mut sim);
    assert!(figures["active_defrag_hits"] > 0, "{figures:?}");
    check(&sim);
    let mut loaded = Sim::saving_in(&dir, 2);
    loaded.engine.config.debug_command = Permission::Yes;
    loaded.engine.load_now().expect("a snapshot");
    assert_eq!(loaded.run("debug digest"), digest);
}

#[test]
fn nothing_moves_where_it_is_turned_off() {
    let mut sim = server();
    fill(&mut sim);
    sim.expect("config set activedefrag no", "+OK");
    sim.engine.jobs.defrag.always();
    sim.advance(10);
    sim.advance(10);
    assert_eq!(figures(&mut sim)["active_defrag_hits"], 0);
    sim.expect("config set activedefrag yes", "+OK");
    sim.advance(10);
    sim.advance(10);
    assert!(figures(&mut sim)["active_defrag_hits"] > 0);
    sim.expect("config resetstat", "+OK");
    assert_eq!(figures(&mut sim)["active_defrag_hits"], 0);
}

/// Values of many sizes, most of which are deleted, leave no holes for long.
#[test]
fn memory_between_what_lives_comes_back() {
    const KEYS: usize = 40_000;
    const KEPT_ONE_IN: usize = 10;
    let dir = TempDir::new();
    let args = "--active-defrag-ignore-bytes 1mb --active-defrag-cycle-max 1";
    let args: Vec<&str> = args.split(' ').collect();
    let server = Server::start_with(&dir, &args);
    let mut connection = server.connect();
    let mut all = |request: &dyn Fn(usize) -> String| {
        for first in (0..KEYS).step_by(500) {
            let requests: Vec<String> = (first..first + 500).map(request).collect();
            crate::process::ask(&mut connection, &(requests.join("\r\n") + "\r\n"), 500)
                .expect("replies");
        }
    };
    all(&|number| format!("set key:{number} {}", "v".repeat(8 + number % 1_000)));
    all(&|number| match number % KEPT_ONE_IN {
        0 => "ping".to_owned(),
        _ => format!("del key:{number}"),
    });
    let holes = || {
        let [active, allocated] = ["allocator_active", "allocator_allocated"]
            .map(|name| server.info(name).parse::<u64>().expect("bytes"));
        active - allocated
    };
    // A pass that was given up does not count as one that has done what it could.
    let is_running = || (server.info("active_defrag_running") != "0").then_some(());
    wait_for("a pass", is_running);
    for setting in [
        "activedefrag no",
        "active-defrag-cycle-max 50",
        "activedefrag yes",
    ] {
        assert_eq!(server.run(&format!("config set {setting}"), 1), "+OK\r\n");
    }
    wait_for("memory to come back", || (holes() < 1 << 20).then_some(()));
    let moved = server.info("active_defrag_hits").parse::<u64>();
    assert!(moved.expect("a number") > 1_000);
    assert_eq!(server.info("active_defrag_running"), "0");
    let reply = server.run("get key:990", 2);
    assert_eq!(reply.lines().last(), Some("v".repeat(8 + 990).as_str()));
}
