//! Events of expiry that last: a stream that gets an entry for all that expires.

use std::collections::BTreeMap;

use crate::sim::{START, Sim, TempDir};

/// The entries of a stream in RESP2, each as its fields with their values.
fn entries(sim: &mut Sim, key: &str) -> Vec<BTreeMap<String, String>> {
    let reply = sim.run(&format!("xrange {key} - +"));
    let words: Vec<&str> = reply
        .split(' ')
        .filter(|word| !word.starts_with('$'))
        .collect();
    let mut found = Vec::new();
    // One of two entries begins as an entry does.
    let parts = words
        .split(|word| *word == "*2")
        .filter(|part| part.len() > 2);
    for part in parts {
        // The id, the number of strings, and these.
        let strings = part[2..].iter().take_while(|word| !word.starts_with('*'));
        let strings: Vec<String> = strings.map(|word| word.to_string()).collect();
        let pairs = strings
            .chunks_exact(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()));
        found.push(pairs.collect());
    }
    found
}

fn entry(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    pairs.collect()
}

#[test]
fn all_that_expires_leaves_an_entry_in_order() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream deaths => +OK\nset a one px 10 => +OK");
    sim.script("rpush b x => :1\npexpire b 20 => :1\nhset h f 1 g 2 => :2");
    sim.script("hpexpire h 30 fields 1 f => *1 :1\nselect 3 => +OK\nset c v px 40 => +OK");
    for _ in 0..60 {
        sim.advance(1);
    }
    sim.script("select 0 => +OK");
    let mut found = entries(&mut sim, "deaths");
    for entry in &mut found {
        let lag = entry.remove("lag").expect("a lag");
        assert!(
            lag.parse::<i64>().is_ok_and(|ms| (0..=18).contains(&ms)),
            "{lag}"
        );
    }
    let at = |ms: i64| (START + ms).to_string();
    let of = |key, db, kind, ty, ms: &str, last: (&str, &str)| {
        let rest = [
            ("key", key),
            ("db", db),
            ("kind", kind),
            ("type", ty),
            ("deadline", ms),
            last,
        ];
        entry(&rest)
    };
    let expected = [
        of("a", "0", "key", "string", &at(10), ("value", "one")),
        of("h", "0", "field", "hash", &at(30), ("field", "f")),
        of("c", "3", "key", "string", &at(40), ("value", "v")),
    ];
    let found: Vec<_> = found
        .into_iter()
        .filter(|entry| entry["key"] != "b")
        .collect();
    assert_eq!(found, expected);
    assert!(
        sim.run("info expiry")
            .contains("expired_events_written:4 expired_events_lost:0")
    );
    sim.engine.keyspace.check();
}

#[test]
fn what_a_command_meets_leaves_its_entry_too() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream \"deaths VALUE 3\" => +OK\nexpiry pause => +OK");
    sim.script("set a abcdef px 10 => +OK\nhset h f 1 => :1\nhpexpire h 5 fields 1 f => *1 :1");
    sim.script("+17\nget a => $-1\nhget h f => $-1\nget a => $-1");
    let found = entries(&mut sim, "deaths");
    assert_eq!(found.len(), 2);
    assert_eq!((&*found[0]["value"], &*found[0]["lag"]), ("abc", "7"));
    assert_eq!((&*found[1]["field"], &*found[1]["lag"]), ("f", "12"));
    // In a transaction, and what a write meets.
    sim.script("set b v px 1 => +OK\n+1\nmulti => +OK\nset b w => +QUEUED\nxlen deaths => +QUEUED");
    sim.expect("exec", "*2 +OK :3");
    // Who waits for the stream is woken.
    let reader = sim.connect();
    sim.run_as(reader, "xread block 0 streams deaths $");
    sim.script("set c v px 1 => +OK\n+1\nget c => $-1");
    assert!(sim.received(reader).contains("$1 c"));
}

#[test]
fn every_field_of_a_dead_hash_leaves_an_entry() {
    let mut sim = Sim::new();
    sim.expect("config set expired-event-stream deaths", "+OK");
    for i in 0..2_000 {
        sim.run(&format!("hsetex h px 1000 fields 1 f{i} v"));
    }
    sim.script("hsetex s px 1000 fields 3 a 1 b 2 c 3 => :1");
    for _ in 0..60 {
        sim.advance(20);
    }
    sim.script("exists h s => :0\nxlen deaths => :2003");
    let found = entries(&mut sim, "deaths");
    let fields: std::collections::BTreeSet<&String> = found.iter().map(|e| &e["field"]).collect();
    assert_eq!(fields.len(), 2_003);
    sim.engine.keyspace.check();
}

#[test]
fn every_key_leaves_one_entry_however_many_there_are() {
    let mut sim = Sim::new();
    sim.expect(
        "config set expired-event-stream \"deaths MAXLEN 500\"",
        "+OK",
    );
    for i in 0..5_000 {
        sim.run(&format!("set k{i} v px {}", 100 + i % 400));
    }
    for _ in 0..60 {
        sim.advance(10);
        if sim.engine.keyspace.db(0).index.is_empty() {
            break;
        }
    }
    assert_eq!(sim.engine.keyspace.deaths.written, 5_000);
    let len: i64 = sim.run("xlen deaths")[1..].parse().expect("a number");
    assert!((500..=600).contains(&len), "{len}");
    assert_eq!(sim.engine.keyspace.lag.of_both().removals(), 5_000);
}

#[test]
fn a_stream_that_cannot_take_events_has_them_counted() {
    let mut sim = Sim::new();
    sim.script("rpush l a => :1");
    let why = "the key holds something else than a stream";
    let refused = format!(
        "-ERR CONFIG SET failed (possibly related to argument 'expired-event-stream') - {why}"
    );
    sim.expect("config set expired-event-stream l", &refused);
    sim.script("config get expired-event-stream => *2 $20 expired-event-stream $0 ");
    sim.script("config set expired-event-stream s => +OK\nset s v => +OK\nset k v px 5 => +OK");
    sim.advance(30);
    assert!(
        sim.run("info expiry")
            .contains("expired_events_written:0 expired_events_lost:1")
    );
    sim.script("del s => :1\nset k v px 5 => +OK");
    sim.advance(30);
    sim.script("xlen s => :1\nconfig resetstat => +OK");
    assert!(
        sim.run("info expiry")
            .contains("expired_events_written:0 expired_events_lost:0")
    );
    // Off, it costs nothing and writes nothing.
    sim.script("config set expired-event-stream \"\" => +OK\nset k v px 5 => +OK");
    sim.advance(30);
    sim.script("xlen s => :1");
    for (value, why) in [
        ("s maxlen", "syntax error"),
        ("s maxlen x", "value is not an integer or out of range"),
        ("s value 1048577", "value is not an integer or out of range"),
        ("s foo 5", "syntax error"),
    ] {
        let reply = sim.ask(&[b"config", b"set", b"expired-event-stream", value.as_bytes()]);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.contains(why), "{reply}");
    }
}

/// The stream that dies itself is one more event, in the stream that is made then.
#[test]
fn a_stream_with_a_deadline_reports_its_own_end() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("config set expired-event-stream s => +OK\nset k v px 5 => +OK");
    sim.advance(30);
    sim.script("pexpire s 10 => :1");
    sim.advance(40);
    let found = entries(&mut sim, "s");
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0]["key"], &*found[0]["type"]), ("s", "stream"));
}

#[test]
fn members_leave_entries_as_fields_do() {
    let mut sim = Sim::new();
    sim.script(
        "config set expired-event-stream deaths => +OK\nsadd s a b => :2\nzadd z 1 c 2 d => :2",
    );
    sim.script("spexpire s 10 members 1 a => *1 :1\nzpexpire z 20 members 2 c d => *2 :1 :1");
    for _ in 0..60 {
        sim.advance(1);
    }
    sim.script("smembers s => *1 $1 b\nexists z => :0");
    let mut found: Vec<(String, String, String)> = entries(&mut sim, "deaths")
        .into_iter()
        .map(|mut entry| {
            let mut take = |name: &str| entry.remove(name).expect("the field");
            (take("kind"), take("type"), take("member"))
        })
        .collect();
    found.sort();
    let expected = [
        ("member", "set", "a"),
        ("member", "zset", "c"),
        ("member", "zset", "d"),
    ];
    let expected = expected.map(|(kind, ty, member)| (kind.into(), ty.into(), member.into()));
    assert_eq!(found, expected);
    sim.engine.keyspace.check();
}

/// A big collection of which all is due is gone at once, though its members leave their entries one
/// after another: what a command writes there takes its place.
#[test]
fn a_write_over_a_big_dead_hash_replaces_it() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream deaths => +OK\nexpiry pause => +OK");
    for (key, write, reply) in [
        ("a", "set a v", "+OK"),
        ("b", "hset b x 1", ":1"),
        ("c", "rename w c", "+OK"),
        ("d", "sadd d m", ":1"),
        ("e", "copy w e replace", ":1"),
        ("f", "sunionstore f s", ":1"),
        ("g", "copy w g", ":1"),
    ] {
        sim.script("set w v => +OK\nsadd s x => :1");
        for i in 0..2_000 {
            sim.run(&format!("hsetex {key} px 1000 fields 1 f{i} v"));
        }
        sim.script("+1001");
        sim.expect(write, reply);
        sim.engine.keyspace.check();
        sim.expect(&format!("del {key} s"), ":2");
        sim.expect(&format!("exists {key}"), ":0");
    }
    // Although expiry is paused, for they are no longer there.
    sim.advance(10);
    sim.expect("xlen deaths", ":14000");
    sim.engine.keyspace.check();
}

/// Longer than a slice may take, so that each does one step.
const STEP_US: u64 = 600;

/// How many entries the jobs wrote at most in one slice that was over after its first step, until
/// there were so many.
fn most_per_slice(sim: &mut Sim, entries: u64) -> u64 {
    sim.clock.cost_us = STEP_US;
    let mut most = 0;
    let mut slices = 0;
    while sim.engine.keyspace.deaths.written < entries {
        let before = sim.engine.keyspace.deaths.written;
        sim.jobs();
        most = most.max(sim.engine.keyspace.deaths.written - before);
        slices += 1;
        assert!(slices < 10 * entries, "no end");
    }
    sim.clock.cost_us = 0;
    assert_eq!(sim.engine.keyspace.deaths.written, entries);
    assert_eq!(sim.engine.keyspace.deaths.lost, 0);
    sim.engine.keyspace.check();
    most
}

#[test]
fn what_keys_leave_is_written_within_the_slice() {
    for limit in ["", " MAXLEN 1000"] {
        let mut sim = Sim::new();
        let setting = format!("expired-event-stream \"deaths{limit}\"");
        sim.expect(&format!("config set {setting}"), "+OK");
        for i in 0..10_000 {
            sim.run(&format!("set k{i} v px 1000"));
        }
        sim.clock.advance_ms(1020);
        let most = most_per_slice(&mut sim, 10_000);
        assert!(most <= 20, "{most} entries in a slice");
    }
}

/// Long values are what a slice has time for one of.
#[test]
fn kept_values_bound_how_many_keys_go_at_a_time() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream \"deaths VALUE 1048576\" => +OK");
    let value = vec![b'v'; 300_000];
    for i in 0..200 {
        sim.ask(&[b"set", format!("k{i}").as_bytes(), &value, b"px", b"1000"]);
    }
    sim.clock.advance_ms(1020);
    // Nor does a count of keys remove more, nor what has met many of them.
    let keys: Vec<String> = (0..200).map(|i| format!("k{i}")).collect();
    sim.expect("dbsize", ":0");
    sim.run(&format!("mget {}", keys.join(" ")));
    sim.run("info keyspace");
    let met = sim.engine.keyspace.deaths.written;
    assert!((1..=9).contains(&met), "{met} entries of commands");
    assert_eq!(most_per_slice(&mut sim, 200), 1);
    sim.expect("dbsize", ":1");
    let kept = sim.run("xrevrange deaths + - count 1");
    assert!(kept.contains(&format!("$300000 {}", "v".repeat(300_000))));
}

#[test]
fn what_members_leave_is_written_within_the_slice() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream deaths => +OK");
    for hash in 0..6 {
        for i in 0..3_000 {
            sim.run(&format!("hsetex h{hash} px 1000 fields 1 f{i} v"));
        }
        for i in 0..300 {
            sim.run(&format!("hsetex s{hash} px 1000 fields 1 f{i} v"));
        }
    }
    sim.run("hset h0 stays v");
    for i in 0..2_000 {
        sim.run(&format!("zadd z {i} m{i}"));
        sim.run(&format!("zpexpire z 1000 members 1 m{i}"));
    }
    sim.clock.advance_ms(1020);
    let most = most_per_slice(&mut sim, 6 * 3_300 + 2_000);
    assert!(most <= 2 * 512, "{most} entries in a slice");
    sim.script("dbsize => :2\nhlen h0 => :1");
}

/// All of it is removed at once, but INFO does not wait for what that leaves.
#[test]
fn a_count_does_not_wait_for_the_entries_of_dead_collections() {
    let mut sim = Sim::new();
    sim.expect("config set expired-event-stream deaths", "+OK");
    for hash in 0..30 {
        for i in 0..1_000 {
            sim.run(&format!("hsetex h{hash} px 1000 fields 1 f{i} v"));
        }
    }
    sim.clock.advance_ms(1020);
    sim.expect("dbsize", ":0");
    assert_eq!(sim.engine.keyspace.deaths.written, 0);
    let most = most_per_slice(&mut sim, 30_000);
    // A step ends with the segment in which it has looked at so many.
    assert!(most <= 2 * 512, "{most} entries in a slice");
    sim.expect("xlen deaths", ":30000");
}

/// Nothing of it is in the table any more, but it is told of before the server ends.
#[test]
fn what_a_dead_hash_leaves_is_saved_at_the_end() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("config set expired-event-stream deaths => +OK\nexpiry pause => +OK");
    for i in 0..5_000 {
        sim.run(&format!("hsetex h px 1000 fields 1 f{i} v"));
    }
    sim.script("+1001\nexists h => :0\nshutdown save =>");
    assert_eq!(sim.engine.keyspace.deaths.written, 5_000);
}

/// A rank counts no dead member, so all of them go before it is told; their entries follow.
#[test]
fn what_a_rank_removes_is_written_in_slices() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream deaths => +OK\nexpiry pause => +OK");
    for i in 0..20_000 {
        sim.run(&format!("zadd z {i} m{i}"));
        sim.run(&format!("zpexpire z 1000 members 1 m{i}"));
    }
    sim.script("zadd z 99999 stays => :1\n+1001\nzrank z stays => :0");
    let at_once = sim.engine.keyspace.deaths.written;
    assert!(at_once <= 512, "{at_once} entries of a command");
    // What dies meanwhile comes behind.
    sim.script("set k v px 1 => +OK\n+2\nappend k w => :1");
    let most = most_per_slice(&mut sim, 20_001);
    assert!(most <= 2 * 512, "{most} entries in a slice");
    let last = sim.run("xrevrange deaths + - count 1");
    assert!(
        last.contains("$1 k") && last.contains("$6 string"),
        "{last}"
    );
    sim.expect("xlen deaths", ":20001");
}

/// What is still to be written goes to the stream that was named when it died, and before the end.
#[test]
fn another_stream_is_named_while_entries_are_to_be_written() {
    let mut sim = Sim::new();
    sim.script("config set expired-event-stream one => +OK\nexpiry pause => +OK");
    for i in 0..10_000 {
        sim.run(&format!("zadd z {i} m{i}"));
        sim.run(&format!("zpexpire z 1000 members 1 m{i}"));
    }
    sim.script(
        "
        zadd z 99999 stays => :1
        +1001
        zrank z stays => :0
        config set expired-event-stream two => +OK
        xlen one => :10000
        exists two => :0
        ",
    );
}

/// Whatever takes the collection away: its members had died before. With each the number of keys
/// that live until a deadline of their own.
#[test]
fn dead_members_are_told_of_although_their_collection_goes_otherwise() {
    for (removal, keys) in [
        ("del c", 0),
        ("unlink c", 0),
        ("set c v", 0),
        ("rename other c", 0),
        ("copy other c replace", 0),
        ("sunionstore c other", 0),
        ("rename c renamed", 1),
        ("copy c copied", 2),
        ("ping", 1),
    ] {
        for (add, expire) in [
            ("hset c m$ v", "hpexpire c 20 fields 1 m$"),
            ("sadd c m$", "spexpire c 20 members 1 m$"),
            ("zadd c 1 m$", "zpexpire c 20 members 1 m$"),
        ] {
            for members in [3, 2_000] {
                let mut sim = Sim::new();
                sim.script("config set expired-event-stream deaths => +OK\nexpiry pause => +OK");
                for i in 0..members {
                    sim.run(&add.replace('$', &i.to_string()));
                    if i > 0 {
                        sim.run(&expire.replace('$', &i.to_string()));
                    }
                }
                sim.script("sadd other a => :1\npexpire c 30 => :1\n+25");
                sim.run(removal);
                sim.script("+1000\nexpiry resume => +OK");
                (0..100).for_each(|_| sim.advance(1));
                let what = format!("{removal}, {add}, {members}");
                let told = sim.run("xrange deaths - +");
                assert_eq!(
                    told.matches("$3 key $1 c").count(),
                    members - 1 + usize::from(keys > 0 && removal != "rename c renamed"),
                    "{what}"
                );
                assert_eq!(
                    sim.engine.keyspace.deaths.written,
                    (members - 1 + keys) as u64,
                    "{what}"
                );
                assert_eq!(sim.engine.keyspace.deaths.lost, 0);
                sim.engine.keyspace.check();
            }
        }
    }
}
