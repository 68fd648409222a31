//! The memory limit: what gives way, and what is refused.

use mayfly::config::{Config, MemorySize};

use crate::sim::Sim;
use crate::transcripts::{events_of, notifying};

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn limited(policy: &str, bytes: u64) -> Sim {
    let config = Config {
        save: Vec::new(),
        maxmemory: MemorySize::Bytes(bytes),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    sim.expect(&format!("config set maxmemory-policy {policy}"), "+OK");
    sim.advance(1);
    sim
}

fn used(sim: &mut Sim) -> u64 {
    let text = sim.run("info memory");
    let (_, rest) = text.split_once("mem_counted:").expect("the field");
    rest.split(' ')
        .next()
        .expect("a number")
        .parse()
        .expect("a number")
}

fn is_there(sim: &mut Sim, key: &str) -> bool {
    sim.run(&format!("exists {key}")) == ":1"
}

#[test]
fn every_policy_keeps_to_the_limit_and_to_its_keys() {
    const LIMIT: u64 = 1_500_000;
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-lrm",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-lrm",
        "volatile-random",
        "volatile-ttl",
    ] {
        let mut sim = limited(policy, LIMIT);
        for i in 0..500 {
            sim.expect(&format!("set kept{i} {}", "x".repeat(100)), "+OK");
        }
        for i in 0..30_000 {
            let ttl = 1_000 + i % 500;
            sim.expect(&format!("set k{i} {} ex {ttl}", "x".repeat(100)), "+OK");
            if i % 500 == 0 {
                sim.advance(1);
                assert!(
                    used(&mut sim) < LIMIT + LIMIT / 50,
                    "{policy}: {}",
                    used(&mut sim)
                );
            }
        }
        sim.engine.keyspace.check();
        let evicted = sim.engine.keyspace.stats.evicted;
        assert!(evicted > 10_000, "{policy}: {evicted}");
        let kept = (0..500)
            .filter(|i| is_there(&mut sim, &format!("kept{i}")))
            .count();
        assert_eq!(
            kept == 500,
            policy.starts_with("volatile"),
            "{policy}: {kept}"
        );
        assert!(
            sim.run("info stats")
                .contains(&format!("evicted_keys:{evicted}"))
        );
    }
}

#[test]
fn without_a_policy_what_needs_memory_is_refused() {
    let mut sim = limited("noeviction", 1_000_000);
    let mut i = 0;
    while sim.run(&format!("set k{i} {}", "x".repeat(1_000))) == "+OK" {
        i += 1;
        assert!(i < 1_000);
    }
    sim.expect("set k v", OOM);
    sim.expect("lpush l v", OOM);
    sim.script("get nothing => $-1\ndel k0 => :1\nexpire k1 100 => :1");
    sim.expect("config set maxmemory 900000", "+OK");
    sim.script("multi => +OK");
    sim.expect("set k v", OOM);
    sim.script("exec => -EXECABORT Transaction discarded because of previous errors.");
    // A transaction that was queued in time is refused as a whole.
    sim.script("config set maxmemory 0 => +OK\nmulti => +OK\nset k v => +QUEUED");
    let other = sim.connect();
    sim.run_as(other, "config set maxmemory 900000");
    let reply = sim.run("exec");
    assert!(
        reply.starts_with("-EXECABORT") && reply.contains("OOM"),
        "{reply}"
    );
    sim.expect("exists k", ":0");
    // Volatile policies find nothing if nothing is volatile.
    sim.script("persist k1 => :1\nconfig set maxmemory-policy volatile-ttl => +OK");
    sim.expect("set k v", OOM);
    sim.script("config set maxmemory-policy allkeys-random => +OK\nset k v => +OK");
}

#[test]
fn the_due_go_before_anything_alive() {
    let mut sim = limited("allkeys-random", 2_000_000);
    for i in 0..3_000 {
        sim.run(&format!("set dead{i} {} px 100", "x".repeat(100)));
        sim.run(&format!("set kept{i} {}", "x".repeat(100)));
    }
    assert_eq!(sim.engine.keyspace.stats.evicted, 0);
    sim.clock.advance_ms(200);
    for i in 0..2_000 {
        sim.expect(&format!("set new{i} {}", "x".repeat(100)), "+OK");
    }
    assert_eq!(sim.engine.keyspace.stats.evicted, 0);
}

#[test]
fn the_soonest_deadline_goes_first() {
    let mut sim = limited("volatile-ttl", 500_000);
    for i in 0..2_000 {
        sim.run(&format!(
            "set k{i:04} {} ex {}",
            "x".repeat(100),
            100 + i * 10
        ));
    }
    for i in 0..3_000 {
        sim.expect(&format!("set n{i} {}", "x".repeat(100)), "+OK");
    }
    let left: Vec<bool> = (0..2_000)
        .map(|i| is_there(&mut sim, &format!("k{i:04}")))
        .collect();
    let gone = left.iter().filter(|is_there| !**is_there).count();
    assert!(gone > 300, "{gone}");
    // None of the first is left and none of the last has gone, but within a bucket.
    assert!(left[..gone - 20].iter().all(|is_there| !is_there));
    assert!(left[gone + 20..].iter().all(|is_there| *is_there));
}

#[test]
fn what_is_used_stays() {
    for policy in ["allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu"] {
        let mut sim = limited(policy, 1_000_000);
        let hot: Vec<String> = (0..200).map(|i| format!("hot{i}")).collect();
        for key in &hot {
            sim.run(&format!("set {key} {} ex 100000", "x".repeat(100)));
        }
        for i in 0..12_000 {
            sim.expect(&format!("set k{i} {} ex 100000", "x".repeat(100)), "+OK");
            if i % 20 == 0 {
                sim.advance(1_000);
            }
            sim.run(&format!("get {}", hot[i % 200]));
        }
        let left = hot.iter().filter(|key| is_there(&mut sim, key)).count();
        assert!(left > 190, "{policy}: {left}");
    }
}

#[test]
fn events_effects_and_figures_of_what_gave_way() {
    let mut sim = notifying();
    sim.script("config set maxmemory-policy allkeys-random => +OK\nset a v => +OK");
    sim.expect("config set maxmemory 1", "+OK");
    sim.advance(1);
    assert_eq!(sim.run("dbsize"), ":0");
    sim.expect("config set maxmemory 0", "+OK");
    sim.script("set a v => +OK\nconfig set maxmemory 1 => +OK");
    events_of(&mut sim, &["set b v"], "evicted a");
    sim.script("config set maxmemory 0 => +OK\nset b v => +OK");
    assert!(
        sim.run("object freq b")
            .contains("An LFU maxmemory policy is not selected")
    );
    sim.expect("object idletime b", ":0");
    sim.script("config set maxmemory 0 => +OK\nconfig set maxmemory-policy allkeys-lfu => +OK");
    sim.script(
        "set c v => +OK\nobject freq c => :5\nget c => $1 v\nobject freq c => :6\nset c w => +OK",
    );
    let info = sim.run("info memory");
    assert!(info.contains("maxmemory_policy:allkeys-lfu"));
    assert!(
        sim.run("object idletime c")
            .contains("An LFU maxmemory policy is selected")
    );
}

#[test]
#[cfg(feature = "scripting")]
fn nothing_gives_way_within_a_script() {
    let mut sim = limited("noeviction", 1_000_000);
    let mut i = 0;
    while sim.run(&format!("set k{i} {}", "x".repeat(1_000))) == "+OK" {
        i += 1;
    }
    let reply = sim.run("eval \"return redis.call('set', 'k', 'v')\" 0");
    assert!(reply.contains("OOM command not allowed"), "{reply}");
    sim.expect("eval \"return redis.call('get', 'nothing')\" 0", "$-1");
    let reply = sim.ask(&[b"eval", b"#!lua\nreturn 1", b"0"]);
    assert!(reply.starts_with(b"-OOM allow-oom flag is not set on the script"));
    let script = b"#!lua flags=allow-oom\nreturn redis.call('set', 'k', 'v')";
    assert_eq!(sim.ask(&[b"eval", script, b"0"]), b"+OK\r\n");
}

#[test]
fn a_limit_may_be_a_share_of_what_the_process_may_use() {
    let mut sim = Sim::new();
    sim.script(
        "config set maxmemory 50% => {CONFIG SET failed (possibly related to argument \
         'maxmemory') - it is not known how much memory this machine has}
         config get maxmemory => *2 $9 maxmemory $1 0",
    );
    sim.engine.identity.memory_bytes = 4_000_001;
    sim.script(
        "config set maxmemory 50% => +OK
        config get maxmemory => *2 $9 maxmemory $3 50%",
    );
    assert!(sim.run("info memory").contains("maxmemory:2000000 "));
    let mut i = 0;
    while sim.run(&format!("set k{i} {}", "x".repeat(1_000))) == "+OK" {
        i += 1;
        sim.advance(1);
    }
    assert!(
        (1_950_000..2_050_000).contains(&used(&mut sim)),
        "{}",
        used(&mut sim)
    );
    sim.expect("set k v", OOM);
    sim.script("config set maxmemory 100% => +OK\nset k v => +OK\nconfig set maxmemory 0% => +OK");
    assert!(sim.run("info memory").contains("maxmemory:0 "));
}

#[test]
fn only_what_is_written_stays_under_a_policy_of_writes() {
    for policy in ["allkeys-lrm", "volatile-lrm"] {
        let mut sim = limited(policy, 1_000_000);
        for i in 0..100 {
            sim.run(&format!("set read{i} {} ex 100000", "x".repeat(100)));
            sim.run(&format!("set written{i} {} ex 100000", "x".repeat(100)));
        }
        for i in 0..12_000 {
            sim.expect(&format!("set k{i} {} ex 100000", "x".repeat(100)), "+OK");
            if i % 20 == 0 {
                sim.advance(1_000);
            }
            sim.run(&format!("get read{}", i % 100));
            sim.run(&format!("setrange written{} 0 y", i % 100));
        }
        let mut left = |name: &str| {
            let keys = (0..100).map(|i| format!("{name}{i}"));
            keys.filter(|key| is_there(&mut sim, key)).count()
        };
        let (read, written) = (left("read"), left("written"));
        assert!(read < 20 && written > 95, "{policy}: {read}, {written}");
    }
}

#[test]
fn the_idle_time_under_a_policy_of_writes_is_that_since_the_last_write() {
    let mut sim = Sim::new();
    sim.expect("config set maxmemory-policy allkeys-lrm", "+OK");
    for (make, write, reads) in [
        (
            "set k v",
            "append k w",
            ["get k", "strlen k", "getrange k 0 1"],
        ),
        (
            "rpush k a b c",
            "lset k 0 z",
            ["lrange k 0 -1", "llen k", "lindex k 0"],
        ),
        (
            "sadd k a b",
            "srem k a",
            ["smembers k", "sismember k a", "srem k missing"],
        ),
        (
            "hset k f v",
            "hincrby k n 1",
            ["hget k f", "hgetall k", "hdel k missing"],
        ),
        (
            "zadd k 1 m",
            "zincrby k 1 m",
            ["zscore k m", "zrange k 0 -1", "zrem k missing"],
        ),
        (
            "xadd k 1-1 f v",
            "xadd k * f v",
            ["xrange k - +", "xlen k", "xdel k 9-9"],
        ),
        (
            "set k v ex 100",
            "expire k 200",
            ["ttl k", "touch k", "exists k"],
        ),
    ] {
        sim.run("del k");
        sim.run(make);
        sim.clock.advance_ms(7_000);
        for read in reads {
            sim.run(read);
            sim.expect("object idletime k", ":7");
        }
        sim.run("client no-touch on");
        sim.run(write);
        sim.run("client no-touch off");
        sim.expect("object idletime k", ":0");
        sim.clock.advance_ms(3_000);
        sim.run("rename k other");
        // The value is as old as it was; a copy is new.
        sim.expect("object idletime other", ":3");
        sim.script("copy other k => :1\nobject idletime k => :0\nobject idletime other => :3");
        sim.run("del other");
    }
    // A deadline that slides moves with reads, the clock does not.
    sim.script(
        "set s v px 10000 sliding => +OK
        +4000
        get s => $1 v
        pttl s => :10000
        object idletime s => :4",
    );
    assert!(
        sim.run("object freq s")
            .contains("An LFU maxmemory policy is not selected")
    );
}

#[test]
fn tenacity_is_how_much_gives_way_before_one_command() {
    for (tenacity, expected) in [(0, 16), (5, 32), (10, 64), (20, 258), (100, 4_000)] {
        let mut sim = Sim::new();
        sim.script(&format!(
            "config set maxmemory-policy allkeys-random => +OK
            config set maxmemory-eviction-tenacity {tenacity} => +OK"
        ));
        for i in 0..4_000 {
            sim.run(&format!("set k{i} {}", "x".repeat(100)));
        }
        sim.expect("config set maxmemory 1", "+OK");
        sim.engine.feed(sim.client, b"set new v\r\n");
        mayfly::command::dispatch::run_ready(&mut sim.engine, &mut sim.clock);
        let gone = sim.engine.keyspace.stats.evicted as usize;
        assert!(gone.abs_diff(expected) <= 16, "{tenacity}: {gone}");
        // All have gone, and a limit of one byte is still exceeded.
        let reply = if tenacity == 100 { OOM } else { "+OK" };
        assert_eq!(sim.received(sim.client), reply);
    }
}

#[test]
fn many_databases_cost_no_more_than_those_that_hold_anything() {
    let config = Config {
        save: Vec::new(),
        databases: 65_536,
        maxmemory: MemorySize::Bytes(200_000_000),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    sim.expect("config set maxmemory-policy allkeys-lru", "+OK");
    let used = |sim: &Sim| sim.engine.keyspace.used_databases().count();
    assert_eq!(used(&sim), 0);
    for db in [0, 5, 60_000] {
        sim.run(&format!("select {db}"));
        sim.run("set k v ex 100");
    }
    for db in 0..500 {
        sim.run(&format!("select {db}"));
        sim.run("get nothing");
    }
    sim.advance(1);
    assert_eq!(used(&sim), 3);
    sim.script("swapdb 5 7 => +OK\nselect 60000 => +OK\nflushdb => +OK");
    sim.advance(1);
    assert_eq!(used(&sim), 2);
    sim.engine.keyspace.check();
    sim.expect("flushall", "+OK");
    sim.advance(1);
    assert_eq!(used(&sim), 0);
    // What is used is what gives way, wherever it is.
    sim.script("select 9 => +OK\nset k v => +OK\nselect 50000 => +OK\nset k v => +OK");
    sim.advance(1);
    sim.expect("config set maxmemory 1", "+OK");
    sim.advance(1);
    assert_eq!(sim.engine.keyspace.stats.evicted, 2);
}

#[test]
fn the_last_keys_that_may_go_are_found_where_there_were_many() {
    for policy in [
        "volatile-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-ttl",
        "allkeys-random",
        "allkeys-lru",
    ] {
        let mut sim = limited(policy, 0);
        for i in 0..20_000 {
            sim.run(&format!("set k{i} v ex {}", 1_000 + i));
        }
        for i in 0..19_990 {
            sim.run(&format!("del k{}", (i * 7_919) % 20_000));
        }
        sim.expect("dbsize", ":10");
        sim.expect("config set maxmemory 1", "+OK");
        sim.expect("set k v", OOM);
        assert_eq!(sim.engine.keyspace.stats.evicted, 10, "{policy}");
    }
}

#[test]
fn what_expires_in_time_is_no_room_without_a_policy() {
    let mut sim = limited("noeviction", 0);
    sim.script("set dead v px 10 => +OK\nset k v => +OK\nconfig set maxmemory 1 => +OK\n+30");
    // The dead one goes, and the limit is still exceeded.
    sim.expect("set k w", OOM);
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 1);
}

#[test]
fn dead_members_go_before_living_keys() {
    let mut sim = limited("allkeys-random", 0);
    for i in 0..100 {
        sim.run(&format!("set k{i} {}", "x".repeat(100)));
    }
    for i in 0..1_000 {
        sim.run(&format!("hset h f{i} {}", "x".repeat(100)));
    }
    sim.run("hset h stays v");
    let fields: Vec<String> = (0..1_000).map(|i| format!("f{i}")).collect();
    sim.run(&format!("hpexpire h 100 fields 1000 {}", fields.join(" ")));
    sim.advance(1);
    let limit = used(&mut sim) - 1_000;
    sim.clock.advance_ms(200);
    sim.expect(&format!("config set maxmemory {limit}"), "+OK");
    sim.expect("set new v", "+OK");
    assert_eq!(sim.engine.keyspace.stats.evicted, 0);
    assert!(sim.engine.keyspace.stats.members_expired_actively > 0);
}
