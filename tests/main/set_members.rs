//! Deadlines of members of sets: what dead members are, which is nothing, in every form of a set.

use mayfly::clock::Clock;

use crate::process::wait_for;
use crate::sim::{START, Sim, TempDir};
use crate::transcripts::{events_of, notifying};

/// A server, one whose sets are all tables, and one whose sets outgrow the small forms here.
fn all_forms() -> [Sim; 3] {
    [128, 0, 2].map(|entries| {
        let mut sim = Sim::new();
        for setting in ["listpack", "intset"] {
            let request = format!("config set set-max-{setting}-entries {entries}");
            sim.expect(&request, "+OK");
        }
        sim
    })
}

/// The same; nothing is collected by itself, so that the dead stay where they are.
fn without_collecting() -> [Sim; 3] {
    all_forms().map(|mut sim| {
        sim.engine.pause_expiry(None);
        sim
    })
}

#[test]
fn options_and_errors_are_those_of_hashes() {
    for mut sim in all_forms() {
        sim.script(
            "
            set k v => +OK
            sadd s a b c => :3
            sexpire k x x => -ERR wrong number of arguments for 'sexpire' command
            sexpire k x x x x => -WRONGTYPE Operation against a key holding the wrong kind of value
            sexpire s x members 1 a => -ERR value is not an integer or out of range
            sexpire s -1 members 1 a => -ERR invalid expire time, must be >= 0
            sexpire s 99999999999999 members 1 a => -ERR invalid expire time in 'sexpire' command
            sexpire s 10 members 0 a => -ERR Parameter `numMembers` should be greater than 0
            sexpire s 10 members x a => -ERR Parameter `numMembers` should be greater than 0
            sttl s members 0 a => -ERR Number of members must be a positive integer
            sttl s members 2 a => -ERR The `nummembers` parameter must match the number of arguments
            sttl k members 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
            sttl none members 2 a b => *2 :-2 :-2
            spersist none members 1 a => *1 :-2
            sexpire none 10 members 2 a b => *2 :-2 :-2
            sexpire s 10 members 3 a x a => *3 :1 :-2 :1
            sexpire s 20 nx members 2 a b => *2 :0 :1
            sexpire s 30 xx members 2 a c => *2 :1 :0
            sexpire s 25 gt members 3 a b c => *3 :0 :1 :0
            sexpire s 28 lt members 3 a b c => *3 :1 :0 :1
            sttl s members 4 a b c x => *4 :28 :25 :28 :-2
            spttl s members 1 a => *1 :28000
            sexpiretime s members 1 a => *1 :1700000028
            spexpiretime s members 1 a => *1 :1700000028000
            spersist s members 4 a a x c => *4 :1 :-1 :-2 :1
            sexpire s 0 members 2 a x => *2 :2 :-2
            spexpireat s 1 members 2 b c => *2 :2 :2
            exists s => :0
            ",
        );
    }
}

#[test]
fn what_is_wrong_is_said_as_for_hashes() {
    for mut sim in all_forms() {
        sim.script("set k v => +OK\nsadd s a b c => :3");
        for (request, error) in [
            (
                "sexpire s 10 fields 1 a",
                "-ERR Mandatory argument MEMBERS is missing or not at the right position",
            ),
            (
                "sexpire s 10 nx xx members 1 a",
                "-ERR Mandatory argument MEMBERS is missing or not at the right position",
            ),
            (
                "sexpire s 10 members 2 a",
                "-ERR The `nummembers` parameter must match the number of arguments",
            ),
        ] {
            sim.expect(request, error);
        }
    }
}

#[test]
fn other_servers_commands() {
    for mut sim in all_forms() {
        sim.script(
            "
            saddex s 10 a b => :2
            saddex s 20 b c => :1
            saddex s nx 30 c d => :1
            saddex s keepttl 30 c e => :1
            sttl s members 5 a b c d e => *5 :10 :20 :20 :30 :30
            saddex s nx 10 => -ERR wrong number of arguments for 'saddex' command
            saddex s x a => -ERR value is not an integer or out of range
            saddex s 0 a => -ERR invalid expire time in 'saddex' command
            saddex s -1 a => -ERR invalid expire time, must be >= 0
            set k v => +OK
            saddex k 10 a => -WRONGTYPE Operation against a key holding the wrong kind of value
            expiremember s a 5 => :1
            expiremember s b 5 s => :1
            expiremember s c 5 ms => :1
            expiremember s c 5 x => -ERR syntax error
            expiremember s x 5 => :0
            expiremember none x 5 => :0
            expiremember k x 5 => -WRONGTYPE Operation against a key holding the wrong kind of value
            expirememberat s d 1700000040 => :1
            pexpirememberat s e 1700000050001 => :1
            pttl s a => :5000
            ttl s b => :5
            pttl s c => :5
            ttl s d => :40
            pttl s e => :50001
            ttl s x => :-2
            ttl none x => :-2
            ttl s => :-1
            ttl s a b => -ERR wrong number of arguments for 'ttl' command
            ttl k a => -WRONGTYPE Operation against a key holding the wrong kind of value
            pexpirememberat s e 1 => :1
            sismember s e => :0
            hset h f 1 g 2 => :2
            expiremember h f 7 => :1
            ttl h f => :7
            ttl h g => :-1
            fieldexpire h 9 g x => *2 :1 :-2
            fieldexpire s 9 a => *1 :1
            fieldexpire none 9 a b => *2 :-2 :-2
            fieldttl h g => :9
            fieldttl s a => :9
            fieldttl h x => :-3
            fieldttl none x => :-2
            spersist s members 1 a => *1 :1
            fieldttl s a => :-1
            fieldttl k a => -WRONGTYPE Operation against a key holding the wrong kind of value
            ",
        );
    }
}

#[test]
fn a_member_lives_until_its_millisecond() {
    for (request, ms) in [
        ("sexpire s 1 members 1 a", 1_000),
        ("spexpire s 1 members 1 a", 1),
        ("sexpireat s 1700000002 members 1 a", 2_000),
        ("spexpireat s 1700000000777 members 1 a", 777),
        ("saddex s 3 a", 3_000),
        ("expiremember s a 4 ms", 4),
    ] {
        for mut sim in all_forms() {
            sim.expect("sadd s a b c", ":3");
            sim.run(request);
            let seconds = (START + ms + 999) / 1_000;
            sim.expect("spexpiretime s members 1 a", &format!("*1 :{}", START + ms));
            sim.expect("sexpiretime s members 1 a", &format!("*1 :{seconds}"));
            sim.clock.advance_ms(ms as u64 - 1);
            sim.script("spttl s members 3 a b x => *3 :1 :-1 :-2\nscard s => :3");
            sim.script("sismember s a => :1\nsmismember s a b => *2 :1 :1");
            sim.clock.advance_ms(1);
            sim.script("spttl s members 3 a b x => *3 :-2 :-1 :-2\nscard s => :2");
            sim.script("sismember s a => :0\nsmismember s a b => *2 :0 :1");
        }
    }
}

#[test]
fn dead_members_are_not_seen() {
    for mut sim in without_collecting() {
        sim.script(
            "
            sadd s 1 2 3 => :3
            sadd t 1 2 => :2
            spexpire s 10 members 2 1 3 => *2 :1 :1
            +10
            scard s => :1
            sismember s 1 => :0
            smismember s 1 2 3 => *3 :0 :1 :0
            smembers s => *1 $1 2
            srandmember s => $1 2
            srandmember s 5 => *1 $1 2
            srandmember s -3 => *3 $1 2 $1 2 $1 2
            sscan s 0 => *2 $1 0 *1 $1 2
            smove s t 3 => :0
            sinter s t => *1 $1 2
            sdiff s t => *0
            sdiff t s => *1 $1 1
            sintercard 2 s t => :1
            sort s => *1 $1 2
            zunion 1 s => *1 $1 2
            sttl s members 3 1 2 3 => *3 :-2 :-1 :-2
            sexpire s 10 members 1 1 => *1 :-2
            spersist s members 1 3 => *1 :-2
            srem s 1 => :0
            exists s => :1
            ",
        );
    }
    for [request, answer, left] in [
        ["sunionstore u s", ":1", "*1 $1 2"],
        ["sinterstore u s s", ":1", "*1 $1 2"],
        ["zunionstore u 1 s", ":1", "*-1"],
        ["sort s store u", ":1", "*-1"],
        ["copy s u", ":1", "*1 $1 2"],
        ["rename s u", "+OK", "*1 $1 2"],
        ["spop s 5", "*1 $1 2", "*0"],
        ["spop s", "$1 2", "*0"],
        ["smove s u 2", ":1", "*1 $1 2"],
        ["smove s u 1", ":0", "*0"],
    ] {
        for mut sim in without_collecting() {
            sim.script("sadd s 1 2 3 => :3\nspexpire s 10 members 2 1 3 => *2 :1 :1\n+10");
            sim.expect(request, answer);
            if left != "*-1" {
                sim.expect("smembers u", left);
            }
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn a_dead_member_is_added_anew_and_a_living_one_keeps_its_deadline() {
    for mut sim in without_collecting() {
        sim.script("sadd s a b => :2\nspexpire s 10 members 2 a b => *2 :1 :1\n+9");
        sim.script("sadd s a c => :1\nspttl s members 3 a b c => *3 :1 :1 :-1\n+1");
        sim.script("sadd s a => :1\nspttl s members 3 a b c => *3 :-1 :-2 :-1");
        sim.script("srem s c => :1\nsadd s c => :1\nspttl s members 1 c => *1 :-1");
        sim.script("spexpire s 9 members 1 c => *1 :1\nsmove s t c => :1");
        sim.script("spttl t members 1 c => *1 :9\nsadd s c => :1\nsmove s t c => :1");
        sim.script("spttl t members 1 c => *1 :9");
        sim.engine.keyspace.check();
    }
}

#[test]
fn a_set_of_dead_members_does_not_exist() {
    for [request, answer] in [
        ["exists s", ":0"],
        ["type s", "+none"],
        ["keys *", "*0"],
        ["randomkey", "$-1"],
        ["scard s", ":0"],
        ["smembers s", "*0"],
        ["spop s", "$-1"],
        ["spop s 2", "*0"],
        ["srandmember s", "$-1"],
        ["sscan s 0", "*2 $1 0 *0"],
        ["sunionstore t s", ":0"],
        ["object encoding s", "$-1"],
        ["del s", ":0"],
        ["rename s t", "-ERR no such key"],
        ["copy s t", ":0"],
        ["set s v nx", "+OK"],
        ["lpush s v", ":1"],
        ["sadd s a", ":1"],
        ["saddex s 10 a", ":1"],
        ["srem s a", ":0"],
        ["smove s t a", ":0"],
        ["sexpire s 10 members 1 a", "*1 :-2"],
        ["sttl s members 1 a", "*1 :-2"],
        ["ttl s a", ":-2"],
        ["expiremember s a 5", ":0"],
    ] {
        for mut sim in without_collecting() {
            sim.script("sadd s a b c => :3\nspexpire s 10 members 3 a b c => *3 :1 :1 :1");
            sim.script("+9\nexists s => :1\n+1");
            sim.expect(request, answer);
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn forms_change_as_they_must() {
    let mut sim = Sim::new();
    sim.script(
        "
        sadd s 1 2 3 => :3
        object encoding s => $6 intset
        sexpire s 10 members 1 2 => *1 :1
        object encoding s => $10 listpackex
        spersist s members 1 2 => *1 :1
        object encoding s => $10 listpackex
        sadd t a b => :2
        sexpire t 10 members 1 a => *1 :1
        object encoding t => $10 listpackex
        ",
    );
    sim.run(&format!("sadd t {}", "x".repeat(70)));
    sim.script("object encoding t => $9 hashtable\nsttl t members 2 a b => *2 :10 :-1");
    let members: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    sim.run(&format!("sadd u {}", members.join(" ")));
    sim.script("object encoding u => $6 intset\nsexpire u 10 members 1 7 => *1 :1");
    sim.script("object encoding u => $9 hashtable\nscard u => :300\nttl u 7 => :10");
    sim.engine.keyspace.check();
    sim.script("+10000\nscard u => :299\nscard t => :2\nscard s => :3");
    sim.engine.keyspace.check();
}

#[test]
fn deadlines_move_with_the_key() {
    for (request, db, key) in [
        ("rename s t", 0, "t"),
        ("copy s t", 0, "t"),
        ("copy s s db 1", 1, "s"),
        ("move s 1", 1, "s"),
        ("swapdb 0 1", 1, "s"),
        ("debug reload", 0, "s"),
    ] {
        for entries in [128, 0] {
            let dir = TempDir::new();
            let mut sim = Sim::saving_in(&dir, 1);
            sim.run(&format!("config set set-max-listpack-entries {entries}"));
            sim.script("sadd s a b c => :3\nspexpire s 100 members 1 a => *1 :1");
            sim.script("spexpire s 50 members 1 c => *1 :1\n+50");
            sim.run(request);
            sim.run(&format!("select {db}"));
            let ttls = format!("spttl {key} members 3 a b c");
            sim.expect(&ttls, "*3 :50 :-1 :-2");
            sim.expect(&format!("scard {key}"), ":2");
            sim.advance(70);
            sim.expect(&ttls, "*3 :-2 :-1 :-2");
            sim.engine.keyspace.check();
            let filed = sim.engine.keyspace.db(db).members.len();
            assert_eq!(filed, 0, "{request}: a set is still filed");
        }
    }
}

#[test]
fn members_die_of_themselves() {
    for mut sim in all_forms() {
        sim.script("sadd s a b c => :3\nsadd t a => :1");
        sim.script("spexpire s 10 members 1 a => *1 :1\nspexpire s 500 members 1 b => *1 :1");
        sim.script("spexpire t 500 members 1 a => *1 :1");
        sim.advance(30);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 1);
        sim.advance(500);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 3);
        sim.script("smembers s => *1 $1 c\nexists t => :0\ndbsize => :1");
        let stats = sim.run("info stats");
        let counts = "expired_subkeys:3 expired_keys:0 ";
        assert!(stats.contains(counts), "{stats}");
        sim.engine.keyspace.check();
    }
}

#[test]
fn many_members_die_of_themselves() {
    let mut sim = Sim::new();
    for i in 0..5_000 {
        sim.run(&format!("saddex s {} m{i}", 1 + i % 2));
    }
    sim.expect("scard s", ":5000");
    sim.clock.advance_ms(1_000);
    sim.script("scard s => :2500\nsismember s m0 => :0\nsismember s m1 => :1");
    let drawn = sim.run("srandmember s 5000");
    assert!(drawn.starts_with("*2500 "), "{}", &drawn[..10]);
    (0..20).for_each(|_| sim.jobs());
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 1);
    sim.engine.keyspace.check();
    sim.advance(1_000);
    (0..20).for_each(|_| sim.jobs());
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 0);
    sim.engine.keyspace.check();
}

#[test]
fn events_tell_what_became_of_members() {
    let mut sim = notifying();
    for (request, events) in [
        ("sadd s a b c", "sadd s"),
        ("sexpire s 10 members 2 a b", "sexpire s"),
        ("sexpire s 10 nx members 3 a b x", ""),
        ("spersist s members 3 a b c", "spersist s"),
        ("sexpire s 0 members 2 a b", "srem s"),
        ("sexpire s 0 members 1 c", "srem s, del s"),
        ("saddex s 10 a", "sadd s, sexpire s"),
        ("saddex s 10 a", "sexpire s"),
        ("saddex s nx 10 a", ""),
        ("expiremember s a 5", "sexpire s"),
        ("expirememberat s a 1", "srem s, del s"),
    ] {
        events_of(&mut sim, &[request], events);
    }
    sim.expect("config set expire-past-event expired", "+OK");
    let requests = ["sadd s a b", "sexpire s 0 members 1 a"];
    events_of(&mut sim, &requests, "sadd s, sexpired s");
    let requests = ["sexpire s 0 members 1 b"];
    events_of(&mut sim, &requests, "sexpired s, del s");
}

#[test]
fn the_dead_are_reported_before_what_a_command_does() {
    for (write, events) in [
        ("sadd s a", "sexpired s, sadd s"),
        ("srem s a", "sexpired s"),
        ("srem s b", "srem s, sexpired s, del s"),
        ("smembers s", "sexpired s"),
        ("scard s", "sexpired s"),
        ("sexpire s 9 members 2 a b", "sexpired s, sexpire s"),
        ("sunionstore t s", "sexpired s, sunionstore t"),
    ] {
        let mut sim = notifying();
        sim.engine.pause_expiry(None);
        sim.script("sadd s a b => :2\nspexpire s 10 members 1 a => *1 :1\n+10");
        events_of(&mut sim, &[write], events);
    }
    for (request, events) in [
        ("sadd s a", "sexpired s, del s, sadd s"),
        ("get s", "sexpired s, del s"),
    ] {
        let mut sim = notifying();
        sim.engine.pause_expiry(None);
        sim.script("sadd s a b => :2\nspexpire s 10 members 2 a b => *2 :1 :1\n+10");
        events_of(&mut sim, &[request], events);
    }
}

#[test]
fn a_digest_tells_whether_members_have_deadlines() {
    for (add, expire, persist) in [
        (
            "sadd k a b",
            "sexpire k 9 members 1 a",
            "spersist k members 1 a",
        ),
        (
            "zadd k 1 a 2 b",
            "zexpire k 9 members 1 a",
            "zpersist k members 1 a",
        ),
    ] {
        let mut sim = Sim::new();
        sim.engine.config.debug_command = mayfly::config::Permission::Yes;
        sim.run(add);
        let before = sim.run("debug digest");
        sim.run(expire);
        assert_ne!(sim.run("debug digest"), before);
        sim.run(persist);
        assert_eq!(sim.run("debug digest"), before);
    }
}

#[test]
fn watched_sets_change_when_members_die() {
    for mut sim in all_forms() {
        sim.script("sadd s a b => :2\nspexpire s 10 members 1 a => *1 :1");
        sim.script("watch s => +OK\n+9\nmulti => +OK\nping => +QUEUED\nexec => *1 +PONG");
        sim.script("watch s => +OK\n+1\nmulti => +OK\nping => +QUEUED\nexec => *-1");
        sim.script("spexpire s 10 members 1 b => *1 :1\n+10\nwatch s => +OK");
        sim.advance(30);
        sim.script("multi => +OK\nping => +QUEUED\nexec => *1 +PONG");
    }
}

#[test]
fn a_pause_hides_the_dead_and_removes_none() {
    for mut sim in all_forms() {
        sim.script("sadd s a b => :2\nspexpire s 10 members 1 a => *1 :1");
        sim.script("sadd t a => :1\nspexpire t 10 members 1 a => *1 :1");
        sim.expect("client pause 1000 write", "+OK");
        sim.advance(50);
        sim.script("scard s => :1\nsmembers s => *1 $1 b\nexists t => :0\nscard t => :0");
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 0);
        sim.advance(1_000);
        sim.advance(1);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 2);
    }
}

#[test]
fn members_due_are_not_loaded_and_their_set_with_the_last_of_them() {
    for members in [3, 5_000] {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 1);
        for i in 0..members {
            sim.run(&format!("sadd s {i}"));
            sim.run(&format!("sadd t m{i}"));
            sim.run(&format!("expiremember s {i} 100 ms"));
            sim.run(&format!("expiremember t m{i} 100 ms"));
        }
        sim.script("sadd t last => :1\nsave => +OK");
        for (later_ms, keys, left) in [(99, 2, members + 1), (100, 1, 1)] {
            let mut other = Sim::saving_in(&dir, 2);
            other.engine.pause_expiry(None);
            other.clock.advance_ms(later_ms);
            other.engine.reading = other.clock.read();
            other.engine.load_now().expect("it loads");
            other.engine.keyspace.check();
            assert_eq!(other.engine.keyspace.db(0).table.len(), keys);
            other.expect("scard t", &format!(":{left}"));
            other.engine.resume_expiry();
            other.advance(1_000);
            (0..20).for_each(|_| other.jobs());
            other.script("smembers t => *1 $4 last\ndbsize => :1");
            other.engine.keyspace.check();
        }
    }
}

#[test]
fn members_that_die_during_a_save_are_not_in_it() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    for key in ["small", "big"] {
        for i in 0..if key == "big" { 3_000 } else { 20 } {
            sim.run(&format!("sadd {key} m{i}"));
            let ms = [50, 1_000_000][i % 2];
            sim.expect(&format!("expiremember {key} m{i} {ms} ms"), ":1");
        }
    }
    sim.expect("bgsave", "+Background saving started");
    sim.advance(60);
    (0..50).for_each(|_| sim.jobs());
    sim.script("scard small => :10\nscard big => :1500\nsrem big m1 => :1");
    wait_for("the end of the save", || {
        sim.jobs();
        (!sim.engine.jobs.persistence.is_saving()).then_some(())
    });
    let mut other = Sim::saving_in(&dir, 2);
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    // Of those that died some may have been met before they did.
    other.clock.advance_ms(60);
    other.script("scard small => :10\nscard big => :1500\nsismember big m1 => :1");
}
