//! TTLs that begin anew with each use, and TTLs that are shortened at random.

use mayfly::config::Permission;

use crate::sim::{START, Sim, TempDir};
use crate::transcripts::{events_of, notifying};

#[test]
fn each_use_restarts_a_sliding_ttl() {
    for (set, use_it) in [
        ("set k v px 1000 sliding", "get k"),
        ("set k v ex 1 SLIDING", "get k"),
        ("set k v pxat 1700000001000 sliding 1000", "get k"),
        ("set k v exat 1700000001 sliding 1000", "getrange k 0 -1"),
        ("set k v px 1000 sliding", "append k x"),
        ("set k v px 1000 sliding", "setrange k 0 x"),
        ("set k v px 1000 sliding", "set k other keepttl"),
        ("set k v px 1000 sliding", "mget a k"),
        ("set k 5 px 1000 sliding", "incr k"),
        ("set k 5 px 1000 sliding", "incrbyfloat k 1.5"),
        ("set k 5 px 1000 sliding", "setbit k 100 1"),
        ("msetex 1 k v px 1000 sliding", "get k"),
        ("getex k px 1000 sliding", "get k"),
        ("expire k 1 sliding", "touch k"),
        ("pexpire k 1000 sliding", "getex k"),
        ("pexpire k 1000 xx sliding", "strlen k"),
        ("pexpireat k 1700000001000 sliding 1000", "get k"),
        ("expireat k 1700000001 sliding 1000", "get k"),
        ("pexpire h 1000 sliding", "hget h a"),
        ("pexpire h 1000 sliding", "hset h a 2"),
        ("pexpire l 1000 sliding", "lpush l x"),
        ("pexpire l 1000 sliding", "lrange l 0 -1"),
        ("pexpire s 1000 sliding", "sadd s x"),
        ("pexpire s 1000 sliding", "sismember s x"),
        ("pexpire z 1000 sliding", "zadd z 1 x"),
        ("pexpire z 1000 sliding", "zscore z x"),
        ("pexpire x 1000 sliding", "xadd x * a b"),
        ("pexpire x 1000 sliding", "xlen x"),
    ] {
        let mut sim = Sim::new();
        sim.script("set k 1 px 5000=>+OK\nhset h a 1=>:1\nrpush l a=>:1\nsadd s a=>:1");
        sim.script("zadd z 1 a=>:1\nxadd x 1-1 a b=>$3 1-1");
        sim.run(set);
        let key = use_it
            .split(' ')
            .find(|word| ["k", "h", "l", "s", "z", "x"].contains(word));
        let key = key.expect("a key");
        sim.expect(&format!("pttl {key}"), ":1000");
        for _ in 0..3 {
            sim.advance(900);
            sim.expect(&format!("pttl {key}"), ":100");
            sim.run(use_it);
            assert_eq!(sim.run(&format!("pttl {key}")), ":1000", "{use_it}");
            sim.engine.keyspace.check();
        }
        sim.advance(999);
        sim.expect(&format!("exists {key}"), ":1");
        sim.advance(1);
        sim.expect(&format!("exists {key}"), ":0");
        sim.advance(20);
        assert_eq!(
            sim.engine.keyspace.db(0).index.len(),
            usize::from(key != "k")
        );
        sim.engine.keyspace.check();
    }
}

#[test]
fn looking_at_a_key_is_no_use_of_it() {
    let mut sim = Sim::new();
    sim.expect("set k v px 1000 sliding", "+OK");
    sim.advance(500);
    for look in [
        "ttl k",
        "pttl k",
        "pexpiretime k",
        "type k",
        "exists k",
        "object encoding k",
        "memory usage k",
        "keys *",
        "scan 0",
        "dbsize",
        "expiry next",
        "expiry forecast",
        "debug object k",
    ] {
        sim.run(look);
        sim.expect("pttl k", ":500");
    }
    sim.script("client no-touch on=>+OK\nget k=>$1 v\npttl k=>:500");
    sim.script("client no-touch off=>+OK\nget k=>$1 v\npttl k=>:1000");
}

#[test]
fn a_deadline_without_sliding_ends_it() {
    for (change, ms) in [
        ("pexpire k 700", 700),
        ("pexpireat k 1700000000700", 700),
        ("set k v px 700", 700),
        ("getex k px 700", 700),
        ("persist k", -1),
        ("set k v", -1),
        ("getex k persist", -1),
    ] {
        let mut sim = Sim::new();
        sim.expect("set k v px 1000 sliding", "+OK");
        sim.run(change);
        sim.expect("pttl k", &format!(":{ms}"));
        sim.advance(100);
        sim.run("get k");
        sim.expect(
            "pttl k",
            &format!(":{}", if ms > 0 { ms - 100 } else { ms }),
        );
        sim.engine.keyspace.check();
    }
}

#[test]
fn a_sliding_ttl_moves_with_its_key() {
    let mut sim = Sim::new();
    sim.script("set k v px 1000 sliding=>+OK\n+400\nget k=>$1 v\n+100");
    sim.script("copy k c=>:1\nrename k r=>+OK\ncopy c d db 3=>:1\nmove r 4=>:1\n+100");
    for (db, key) in [(0, "c"), (3, "d"), (4, "r")] {
        sim.expect(&format!("select {db}"), "+OK");
        sim.script(&format!(
            "pttl {key}=>:900\nget {key}=>$1 v\npttl {key}=>:1000"
        ));
    }
    sim.engine.keyspace.check();
    sim.advance(1_020);
    for db in 0..5 {
        assert_eq!(sim.engine.keyspace.db(db).table.len(), 0);
        assert_eq!(sim.engine.keyspace.db(db).index.len(), 0);
    }
}

#[test]
fn a_copy_is_a_use_and_another_name_is_none() {
    let mut sim = Sim::new();
    sim.script("set k v px 1000 sliding=>+OK\n+400\nrename k r=>+OK\npttl r=>:600");
    sim.script("move r 1=>:1\nselect 1=>+OK\npttl r=>:600\nrenamenx r k=>:1\npttl k=>:600");
    sim.script("copy k c=>:1\npttl k=>:1000\npttl c=>:1000");
}

/// A moment further off than the span is no reason to die sooner.
#[test]
fn a_use_never_shortens_a_ttl() {
    let mut sim = Sim::new();
    sim.script("set k v pxat 1700000005000 sliding 1000=>+OK\nget k=>$1 v\npttl k=>:5000");
    sim.script("+4000\nget k=>$1 v\npttl k=>:1000\n+1\nget k=>$1 v\npttl k=>:1000");
}

#[test]
fn a_sliding_ttl_is_part_of_a_snapshot() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.config.debug_command = Permission::Yes;
    let long = "x".repeat(100_000);
    sim.script("set k v px 1000 sliding=>+OK\nset plain v px 1000=>+OK");
    sim.ask(&[b"set", b"long", long.as_bytes(), b"px", b"1000", b"sliding"]);
    sim.script("rpush l a b c=>:3\npexpire l 1000 sliding=>:1");
    for i in 0..20_000 {
        sim.run(&format!("hset big f{i} {i}"));
    }
    sim.expect("pexpire big 1000 sliding", ":1");
    sim.ask(&[b"hset", b"big", b"g", long.as_bytes()]);
    sim.script("+300\nget k=>$1 v");
    sim.expect("debug reload", "+OK");
    sim.script("pttl k=>:1000\npttl plain=>:700\npttl long=>:700\npttl l=>:700\npttl big=>:700");
    sim.script("strlen long=>:100000\nllen l=>:3\nhlen big=>:20001\nget plain=>$1 v");
    sim.script("pttl plain=>:700\npttl long=>:1000\npttl l=>:1000\npttl big=>:1000");
    sim.engine.keyspace.check();
}

#[test]
fn jitter_shortens_a_ttl_once() {
    let mut sim = Sim::new();
    let pttl = |sim: &mut Sim, key: &str| {
        let reply = sim.run(&format!("pttl {key}"));
        reply[1..].parse::<i64>().expect("a number")
    };
    let mut seen = Vec::new();
    for i in 0..400 {
        let request = match i % 5 {
            0 => format!("set k{i} v ex 100 jitter 20"),
            1 => format!("set k{i} v px 100000 JITTER 20 nx"),
            2 => format!("set k{i} v pxat {} jitter 20", START + 100_000),
            3 => format!("msetex 1 k{i} v ex 100 jitter 20"),
            _ => {
                sim.run(&format!("set k{i} v"));
                format!("expire k{i} 100 jitter 20")
            }
        };
        sim.run(&request);
        let ms = pttl(&mut sim, &format!("k{i}"));
        assert!((80_000..=100_000).contains(&ms), "{request}: {ms}");
        seen.push(ms);
    }
    let mean = seen.iter().sum::<i64>() / seen.len() as i64;
    assert!((88_500..91_500).contains(&mean), "{mean}");
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 350);
    // What slides keeps what was drawn.
    sim.expect("set k v px 100000 jitter 50 sliding", "+OK");
    let ms = pttl(&mut sim, "k");
    sim.script("+1000\nget k=>$1 v");
    assert_eq!(pttl(&mut sim, "k"), ms);
    // A key lives for a moment at least, and nothing drawn is nothing changed.
    for _ in 0..50 {
        sim.expect("set k v px 2 jitter 100", "+OK");
        assert!((1..=2).contains(&pttl(&mut sim, "k")));
        sim.script(
            "set k v px 1 jitter 100=>+OK\npttl k=>:1\nset k v px 77 jitter 0=>+OK\npttl k=>:77",
        );
    }
}

#[test]
fn what_sliding_and_jitter_refuse() {
    Sim::new().script(
        "set k v sliding => {syntax error}
        set k v sliding ex 10 => {syntax error}
        set k v jitter 5 => {syntax error}
        set k v ex 10 jitter => {syntax error}
        set k v ex 10 sliding sliding => {syntax error}
        set k v ex 10 jitter 5 jitter 6 => {syntax error}
        set k v keepttl sliding => {syntax error}
        set k v exat 1700000010 sliding => {syntax error}
        set k v exat 1700000010 sliding x => {value is not an integer or out of range}
        set k v exat 1700000010 sliding 0 => {invalid expire time in 'set' command}
        set k v exat 1700000010 sliding -5 => {invalid expire time in 'set' command}
        set k v exat 1700000010 sliding 140737488355328 => {invalid expire time in 'set' command}
        set k v px 140737488355328 sliding => {invalid expire time in 'set' command}
        set k v ex 10 jitter x => {value is not an integer or out of range}
        set k v ex 10 jitter -1 => {jitter must be between 0 and 100 percent inclusive}
        set k v ex 10 jitter 101 => {jitter must be between 0 and 100 percent inclusive}
        exists k => :0
        set k v => +OK
        expire k 10 sliding 5 => {Unsupported option 5}
        expire k 10 jitter => {Unsupported option jitter}
        expire k 10 foo sliding => {Unsupported option foo}
        expire k x sliding => {value is not an integer or out of range}
        expireat k 1700000010 sliding => {Unsupported option sliding}
        pexpireat k 1700000010000 sliding 0 => {invalid expire time in 'pexpireat' command}
        getex k sliding => {syntax error}
        getex k persist sliding => {syntax error}
        pttl k => :-1
        expire k 10 sliding nx => :1
        expire k 20 nx sliding => :0
        expire k 5 gt jitter 0 => :0
        pttl k => :10000
        expire k -1 sliding => :1
        exists k => :0",
    );
}

#[test]
fn sliding_gives_no_event() {
    let mut sim = notifying();
    events_of(&mut sim, &["set k v px 1000 sliding"], "set k, expire k");
    events_of(&mut sim, &["get k"], "");
    events_of(&mut sim, &["pexpire k 900 sliding"], "expire k");
}

/// A key that is used all the time is looked at once in its span, and removed when it is not.
#[test]
fn the_index_follows_a_sliding_ttl() {
    let mut sim = Sim::new();
    for i in 0..200 {
        sim.expect(&format!("set k{i} v px {} sliding", 40_000 + i), "+OK");
    }
    for _ in 0..300 {
        for _ in 0..100 {
            sim.advance(10);
        }
        for i in (0..200).step_by(2) {
            sim.run(&format!("get k{i}"));
        }
        sim.engine.keyspace.check();
    }
    sim.expect("dbsize", ":100");
    let due = |sim: &mut Sim, seconds: &str| {
        let reply = sim.run("expiry stats");
        let (_, rest) = reply
            .split_once(&format!("keys_due_within_{seconds} :"))
            .expect("it");
        rest.split(' ')
            .next()
            .expect("a number")
            .parse::<i64>()
            .expect("a number")
    };
    assert_eq!(due(&mut sim, "10s"), 0);
    assert_eq!(due(&mut sim, "1min"), 100);
    for _ in 0..4_100 {
        sim.advance(10);
    }
    let lag_ms = sim.engine.keyspace.lag.of_both().max_ms();
    assert!(lag_ms < 20, "{lag_ms}");
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 0);
    sim.engine.keyspace.check();
}
