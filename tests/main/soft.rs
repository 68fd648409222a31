//! Soft deadlines: values that are served while one caller refreshes them, and keys that one caller
//! fills.

use mayfly::config::Permission;

use crate::sim::{Sim, TempDir};
use crate::transcripts::{events_of, notifying};

#[test]
fn a_value_is_fresh_then_stale_then_gone() {
    let mut sim = Sim::new();
    sim.script(
        "set k v px 1000 soft 400 => +OK
        getsoft k => *3 $1 v $5 fresh :400
        pttl k => :1000
        +399
        getsoft k lease 50 => *3 $1 v $5 fresh :1
        +1
        getsoft k => *3 $1 v $5 stale :600
        getsoft k lease 50 => *3 $1 v $15 stale-and-yours :600
        getsoft k lease 50 => *3 $1 v $5 stale :600
        +49
        getsoft k lease 50 => *3 $1 v $5 stale :551
        +1
        getsoft k lease 50 => *3 $1 v $15 stale-and-yours :550
        set k w px 1000 soft 400 => +OK
        getsoft k lease 50 => *3 $1 w $5 fresh :400
        +500
        getsoft k lease 9000 => *3 $1 w $15 stale-and-yours :500
        +498
        getsoft k lease 9000 => *3 $1 w $5 stale :2
        +2
        getsoft k => *3 $-1 $7 missing :-2
        set k v => +OK
        getsoft k => *3 $1 v $5 fresh :-1
        pexpire k 70 => :1
        getsoft k lease 5 => *3 $1 v $5 fresh :70",
    );
    sim.engine.keyspace.check();
}

#[test]
fn one_of_those_who_miss_may_fill_the_key() {
    Sim::new().script(
        "getsoft k => *3 $-1 $7 missing :-2
        getsoft k lease 100 => *3 $-1 $17 missing-and-yours :100
        getsoft k lease 100 => *3 $-1 $12 being-filled :100
        +60
        getsoft k => *3 $-1 $12 being-filled :40
        getsoft other lease 5 => *3 $-1 $17 missing-and-yours :5
        +40
        getsoft k lease 100 => *3 $-1 $17 missing-and-yours :100
        set k v => +OK
        getsoft k lease 100 => *3 $1 v $5 fresh :-1
        del k => :1
        getsoft k lease 100 => *3 $-1 $17 missing-and-yours :100
        del k => :0
        getsoft k lease 100 => *3 $-1 $12 being-filled :100
        flushdb => +OK
        getsoft k lease 100 => *3 $-1 $17 missing-and-yours :100
        select 1 => +OK
        getsoft k lease 100 => *3 $-1 $17 missing-and-yours :100",
    );
}

#[test]
fn what_writes_a_stale_value_ends_the_lease() {
    for write in [
        "set k w keepttl",
        "append k w",
        "setrange k 0 w",
        "setbit k 0 1",
        "incr k",
    ] {
        let mut sim = Sim::new();
        sim.script("set k 1 px 1000 soft 100 => +OK\n+100");
        sim.expect("getsoft k lease 500", "*3 $1 1 $15 stale-and-yours :900");
        sim.expect("getsoft k lease 500", "*3 $1 1 $5 stale :900");
        sim.run(write);
        let reply = sim.run("getsoft k lease 500");
        assert!(
            reply.ends_with("$15 stale-and-yours :900"),
            "{write}: {reply}"
        );
        sim.engine.keyspace.check();
    }
}

#[test]
fn every_way_to_give_one() {
    for (set, soft, hard) in [
        ("set k v ex 10 soft 3", 3_000, 10_000),
        ("set k v exat 1700000010 soft 1700000003", 3_000, 10_000),
        (
            "set k v pxat 1700000010000 soft 1700000003000",
            3_000,
            10_000,
        ),
        ("set k v px 10 SOFT 9 nx", 9, 10),
        ("msetex 1 k v ex 10 soft 3", 3_000, 10_000),
        ("getex k ex 10 soft 3", 3_000, 10_000),
        ("expire k 10 soft 3", 3_000, 10_000),
        ("pexpire k 10 soft 3", 3, 10),
        ("expireat k 1700000010 soft 1700000003", 3_000, 10_000),
        (
            "pexpireat k 1700000010000 soft 1700000003000",
            3_000,
            10_000,
        ),
        ("set k v ex 10 soft 3 jitter 0", 3_000, 10_000),
    ] {
        let mut sim = Sim::new();
        if !set.contains("nx") {
            sim.run("set k v");
        }
        sim.run(set);
        let fresh = format!("*3 $1 v $5 fresh :{soft}");
        sim.expect("getsoft k", &fresh);
        sim.expect("pttl k", &format!(":{hard}"));
        sim.script("copy k c => :1\nrename k r => +OK\nmove r 1 => :1");
        sim.expect("getsoft c", &fresh);
        sim.script("select 1 => +OK");
        sim.expect("getsoft r", &fresh);
        sim.engine.keyspace.check();
        sim.run("persist r");
        sim.expect("getsoft r", "*3 $1 v $5 fresh :-1");
    }
}

#[test]
fn a_soft_deadline_is_reported_once() {
    let mut sim = notifying();
    events_of(&mut sim, &["set k v px 1000 soft 400"], "set k, expire k");
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent@0__:*");
    let watcher = sim.connect();
    sim.run_as(watcher, "watch k");
    let mut seen = Vec::new();
    for ms in (0..1_100).step_by(4) {
        sim.advance(4);
        let text = sim.received(listener);
        let events = ["softexpired", "expired"]
            .into_iter()
            .filter(|event| text.contains(&format!("__keyevent@0__:{event} ")));
        events.for_each(|event| seen.push((event, ms)));
        if ms == 800 {
            // A value that has become stale is the value it was.
            sim.run_as(watcher, "multi");
            sim.run_as(watcher, "get k");
            assert_eq!(sim.run_as(watcher, "exec"), "*1 $1 v");
        }
    }
    let [("softexpired", soft), ("expired", hard)] = seen[..] else {
        panic!("{seen:?}");
    };
    assert!(
        (396..420).contains(&soft) && (996..1_020).contains(&hard),
        "{seen:?}"
    );
    sim.engine.keyspace.check();
    // One that was written anew in time is not.
    sim.script("set k v px 1000 soft 400 => +OK\n+300\nset k v px 1000 soft 400 => +OK");
    sim.advance(350);
    assert_eq!(sim.received(listener).matches("softexpired").count(), 0);
    sim.advance(70);
    assert_eq!(sim.received(listener).matches("softexpired").count(), 1);
}

#[test]
fn a_snapshot_keeps_soft_deadlines() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.config.debug_command = Permission::Yes;
    sim.script(
        "set k v px 1000 soft 400 => +OK\nrpush l a => :1\npexpire l 1000 soft 10 => :1\n+100",
    );
    sim.script("set stale v px 1000 soft 1 => +OK\n+1");
    sim.expect(
        "getsoft stale lease 500",
        "*3 $1 v $15 stale-and-yours :999",
    );
    sim.expect("debug reload", "+OK");
    sim.script(
        "getsoft k => *3 $1 v $5 fresh :299
        pttl k => :899
        pttl l => :899
        getsoft stale lease 500 => *3 $1 v $15 stale-and-yours :999",
    );
    sim.engine.keyspace.check();
}

#[test]
fn what_soft_deadlines_refuse() {
    Sim::new().script(
        "set k v soft 5 => {syntax error}
        set k v ex 10 soft => {syntax error}
        set k v ex 10 soft 5 soft 6 => {syntax error}
        set k v ex 10 soft 5 sliding => {syntax error}
        set k v ex 10 sliding soft 5 => {syntax error}
        set k v ex 10 soft x => {value is not an integer or out of range}
        set k v ex 10 soft 0 => {invalid expire time in 'set' command}
        set k v ex 10 soft -1 => {invalid expire time in 'set' command}
        set k v ex 10 soft 10 => {the soft deadline must come before the deadline}
        set k v ex 10 soft 11 => {the soft deadline must come before the deadline}
        exists k => :0
        getsoft => {wrong number of arguments for 'getsoft' command}
        getsoft k foo => {syntax error}
        getsoft k lease => {syntax error}
        getsoft k foo 5 => {syntax error}
        getsoft k lease x => {value is not an integer or out of range}
        getsoft k lease 0 => {lease is out of range}
        getsoft k lease -1 => {lease is out of range}
        getsoft k lease 86400001 => {lease is out of range}
        rpush l a => :1
        getsoft l => -WRONGTYPE Operation against a key holding the wrong kind of value
        getsoft l lease 5 => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

/// Jitter, and the bounds of a rule, move both in proportion.
#[test]
fn the_soft_deadline_moves_with_the_other() {
    let mut sim = Sim::new();
    sim.expect("expiry rule set r prefix r min 50 max 60 sliding", "+OK");
    for (set, soft) in [
        ("set r v px 1000 soft 500", 30),
        ("set r v px 600 soft 599", 59),
        ("set r v px 25 soft 10", 20),
    ] {
        sim.expect(set, "+OK");
        sim.expect("getsoft r", &format!("*3 $1 v $5 fresh :{soft}"));
    }
    for _ in 0..200 {
        sim.expect("set k v px 100000 soft 90000 jitter 50", "+OK");
        let left = |reply: String| reply[1..].parse::<i64>().expect("a number");
        let hard = left(sim.run("pttl k"));
        let reply = sim.run("getsoft k");
        let soft = left(reply.rsplit(' ').next().expect("a number").to_owned());
        assert!((50_000..=100_000).contains(&hard), "{hard}");
        assert!((soft - hard * 9 / 10).abs() <= 1, "{hard} {soft}");
    }
}

#[test]
fn a_copy_has_no_lease_and_swapped_databases_keep_theirs() {
    Sim::new().script(
        "set k v px 1000 soft 1 => +OK
        +1
        getsoft k lease 500 => *3 $1 v $15 stale-and-yours :999
        copy k c => :1
        getsoft c lease 500 => *3 $1 v $15 stale-and-yours :999
        getsoft none lease 500 => *3 $-1 $17 missing-and-yours :500
        swapdb 0 9 => +OK
        getsoft none lease 500 => *3 $-1 $17 missing-and-yours :500
        select 9 => +OK
        getsoft none lease 500 => *3 $-1 $12 being-filled :500
        getsoft k lease 500 => *3 $1 v $5 stale :999",
    );
}

#[test]
fn a_lease_goes_with_a_key_that_is_renamed_or_moved() {
    Sim::new().script(
        "set k v px 1000 soft 1 => +OK
        +1
        getsoft k lease 500 => *3 $1 v $15 stale-and-yours :999
        getsoft r lease 500 => *3 $-1 $17 missing-and-yours :500
        rename k r => +OK
        getsoft r lease 500 => *3 $1 v $5 stale :999
        getsoft k lease 500 => *3 $-1 $17 missing-and-yours :500
        move r 1 => :1
        getsoft r => *3 $-1 $7 missing :-2
        select 1 => +OK
        getsoft r lease 500 => *3 $1 v $5 stale :999
        +500
        getsoft r lease 500 => *3 $1 v $15 stale-and-yours :499",
    );
}
