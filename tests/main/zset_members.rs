//! Deadlines of members of sorted sets: what dead members are, which is nothing, in either form.

use mayfly::clock::Clock;

use crate::process::wait_for;
use crate::sim::{START, Sim, TempDir};
use crate::transcripts::{events_of, notifying};

/// A server, and one whose sorted sets are all big before they have deadlines.
fn all_forms() -> [Sim; 2] {
    [128, 0].map(|entries| {
        let mut sim = Sim::new();
        let request = format!("config set zset-max-listpack-entries {entries}");
        sim.expect(&request, "+OK");
        sim
    })
}

/// The same; nothing is collected by itself, so that the dead stay where they are.
fn without_collecting() -> [Sim; 2] {
    all_forms().map(|mut sim| {
        sim.engine.pause_expiry(None);
        sim
    })
}

#[test]
fn a_small_set_stays_small_with_deadlines() {
    let [mut sim, _] = all_forms();
    let members = |from: u32, to: u32| {
        let all = (from..to).map(|i| format!(" {i} m{i}"));
        all.collect::<String>()
    };
    sim.expect(&format!("zadd z{}", members(0, 127)), ":127");
    sim.script(
        "
        object encoding z => $8 listpack
        zexpire z 10 members 1 m3 => *1 :1
        object encoding z => $10 listpackex
        zadd z 127 m127 => :1
        zadd z 3.5 m3 => :0
        zrank z m3 => :3
        zadd z 300 m3 => :0
        zrank z m3 => :127
        zttl z members 2 m3 m127 => *2 :10 :-1
        object encoding z => $10 listpackex
        copy z big => :1
        zadd big 128 m128 => :1
        object encoding big => $8 skiplist
        zttl big members 2 m3 m127 => *2 :10 :-1
        zrevrange z 0 1 => *2 $2 m3 $4 m127
        ",
    );
    sim.advance(10_000);
    sim.script(
        "
        zrevrange z 0 1 => *2 $4 m127 $4 m126
        zrevrange big 0 1 => *2 $4 m128 $4 m127
        zcard z => :127
        zcard big => :128
        object encoding z => $10 listpackex
        ",
    );
    sim.engine.keyspace.check();
}

#[test]
fn options_and_errors_are_those_of_hashes() {
    for mut sim in all_forms() {
        sim.script(
            "
            set k v => +OK
            zadd z 1 a 2 b 3 c => :3
            zexpire z x x => -ERR wrong number of arguments for 'zexpire' command
            zexpire k x x x x => -WRONGTYPE Operation against a key holding the wrong kind of value
            zexpire z x members 1 a => -ERR value is not an integer or out of range
            zexpire z -1 members 1 a => -ERR invalid expire time, must be >= 0
            zpexpire z 99999999999999 members 1 a => -ERR invalid expire time in 'zpexpire' command
            zexpire z 10 members 0 a => -ERR Parameter `numMembers` should be greater than 0
            zttl z members 0 a => -ERR Number of members must be a positive integer
            zttl k members 1 a => -WRONGTYPE Operation against a key holding the wrong kind of value
            zttl none members 2 a b => *2 :-2 :-2
            zpersist none members 1 a => *1 :-2
            zexpire z 10 members 3 a x a => *3 :1 :-2 :1
            zexpire z 20 nx members 2 a b => *2 :0 :1
            zexpire z 30 xx members 2 a c => *2 :1 :0
            zexpire z 25 gt members 3 a b c => *3 :0 :1 :0
            zexpire z 28 lt members 3 a b c => *3 :1 :0 :1
            zttl z members 4 a b c x => *4 :28 :25 :28 :-2
            zpttl z members 1 a => *1 :28000
            zexpiretime z members 1 a => *1 :1700000028
            zpexpiretime z members 1 a => *1 :1700000028000
            zpersist z members 4 a a x c => *4 :1 :-1 :-2 :1
            expiremember z a 5 ms => :1
            pttl z a => :5
            ttl z c => :-1
            fieldttl z b => :25
            zexpire z 0 members 2 a x => *2 :2 :-2
            zpexpireat z 1 members 2 b c => *2 :2 :2
            exists z => :0
            ",
        );
    }
}

#[test]
fn a_member_lives_until_its_millisecond() {
    for (request, ms) in [
        ("zexpire z 1 members 1 b", 1_000),
        ("zpexpire z 1 members 1 b", 1),
        ("zexpireat z 1700000002 members 1 b", 2_000),
        ("zpexpireat z 1700000000777 members 1 b", 777),
        ("expiremember z b 4 ms", 4),
    ] {
        for mut sim in all_forms() {
            sim.expect("zadd z 1 a 2 b 3 c", ":3");
            sim.run(request);
            let moment = format!("*1 :{}", START + ms);
            sim.expect("zpexpiretime z members 1 b", &moment);
            sim.clock.advance_ms(ms as u64 - 1);
            sim.script("zcard z => :3\nzscore z b => $1 2\nzrank z c => :2");
            sim.script("zpttl z members 3 a b x => *3 :-1 :1 :-2");
            sim.clock.advance_ms(1);
            sim.script("zrank z c => :1\nzcard z => :2\nzscore z b => $-1");
            sim.script("zpttl z members 3 a b x => *3 :-1 :-2 :-2");
        }
    }
}

#[test]
fn dead_members_are_not_seen() {
    for (request, answer) in [
        ("zcard z", ":2"),
        ("zcount z 2 4", ":2"),
        ("zlexcount z - +", ":2"),
        ("zscore z a", "$-1"),
        ("zmscore z a b", "*2 $-1 $1 2"),
        ("zrank z b", ":0"),
        ("zrank z d", ":1"),
        ("zrank z a", "$-1"),
        ("zrevrank z b", ":1"),
        ("zrange z 0 0", "*1 $1 b"),
        ("zrange z 0 -1", "*2 $1 b $1 d"),
        ("zrange z 1 3 byscore", "*1 $1 b"),
        ("zrange z -inf +inf byscore limit 1 1", "*1 $1 d"),
        ("zrevrange z 0 0", "*1 $1 d"),
        ("zrangebyscore z 0 3", "*1 $1 b"),
        ("zrevrangebyscore z 9 0 limit 0 1", "*1 $1 d"),
        ("zrangestore y z 0 0", ":1"),
        ("zremrangebyrank z 0 0", ":1"),
        ("zremrangebyscore z 0 1", ":0"),
        ("zpopmin z", "*2 $1 b $1 2"),
        ("zpopmax z 5", "*4 $1 d $1 4 $1 b $1 2"),
        ("zmpop 1 z min", "*2 $1 z *1 *2 $1 b $1 2"),
        ("bzpopmin z 0", "*3 $1 z $1 b $1 2"),
        ("bzmpop 0 1 z max", "*2 $1 z *1 *2 $1 d $1 4"),
        ("zrandmember z 9", "*2 $1 b $1 d"),
        ("zscan z 0 match a", "*2 $1 0 *0"),
        ("zunion 1 z", "*2 $1 b $1 d"),
        ("zinter 2 z z", "*2 $1 b $1 d"),
        ("zdiff 2 z y", "*2 $1 b $1 d"),
        ("zintercard 2 z z", ":2"),
        ("zunionstore y 1 z", ":2"),
        ("zinterstore y 2 z z", ":2"),
        ("zdiffstore y 1 z", ":2"),
        ("sort z by nosort", "*2 $1 b $1 d"),
        ("zadd z xx 9 a", ":0"),
        ("zadd z nx 9 a", ":1"),
        ("zincrby z 5 a", "$1 5"),
        ("zrem z a c b", ":1"),
        ("zexpire z 9 members 2 a b", "*2 :-2 :1"),
        ("geopos z a", "*1 *-1"),
        ("copy z y", ":1"),
        ("rename z y", "+OK"),
    ] {
        for mut sim in without_collecting() {
            sim.script(
                "zadd z 1 a 2 b 3 c 4 d => :4\nzpexpire z 10 members 2 a c => *2 :1 :1\n+10",
            );
            let reply = sim.run(request);
            if request.starts_with("zrandmember") {
                assert!(reply.starts_with("*2 ") && !reply.contains('a'), "{reply}");
            } else {
                assert_eq!(reply, answer, "{request}");
            }
            sim.engine.keyspace.check();
            if request.contains(" y ") && answer.starts_with(':') {
                sim.expect("zscore y a", "$-1");
            }
        }
    }
}

#[test]
fn places_die_as_members_do() {
    for mut sim in without_collecting() {
        sim.script("geoadd g 13 38 a 13 38 b => :2\nzpexpire g 10 members 1 a => *1 :1\n+10");
        sim.script("geosearch g fromlonlat 13 38 byradius 9 km => *1 $1 b\ngeodist g a b => $-1");
        sim.script("geosearchstore h g frommember b byradius 9 km => :1\nzscore h a => $-1");
    }
}

#[test]
fn a_dead_member_is_added_anew_and_a_living_one_keeps_its_deadline() {
    for mut sim in without_collecting() {
        sim.script("zadd z 1 a 2 b => :2\nzpexpire z 10 members 2 a b => *2 :1 :1\n+9");
        sim.script("zadd z 1 a 5 b 3 c => :1\nzincrby z 1 a => $1 2");
        sim.script("zpttl z members 3 a b c => *3 :1 :1 :-1\n+1");
        sim.script("zadd z 7 a => :1\nzpttl z members 3 a b c => *3 :-1 :-2 :-1");
        sim.script("zpexpire z 10 members 1 a => *1 :1\nzrem z a => :1\nzadd z 1 a => :1");
        sim.script("zpttl z members 1 a => *1 :-1\nzrange z 0 -1 => *2 $1 a $1 c");
        sim.engine.keyspace.check();
        assert_eq!(sim.engine.keyspace.db(0).members.len(), 0);
    }
}

#[test]
fn a_sorted_set_of_dead_members_does_not_exist() {
    for [request, answer] in [
        ["exists z", ":0"],
        ["type z", "+none"],
        ["keys *", "*0"],
        ["zcard z", ":0"],
        ["zrange z 0 -1", "*0"],
        ["zrank z a", "$-1"],
        ["zpopmin z", "*0"],
        ["zrandmember z", "$-1"],
        ["zscan z 0", "*2 $1 0 *0"],
        ["zunionstore y 1 z", ":0"],
        ["object encoding z", "$-1"],
        ["del z", ":0"],
        ["rename z y", "-ERR no such key"],
        ["copy z y", ":0"],
        ["lpush z v", ":1"],
        ["zadd z 1 a", ":1"],
        ["zincrby z 3 a", "$1 3"],
        ["zexpire z 10 members 1 a", "*1 :-2"],
        ["zttl z members 1 a", "*1 :-2"],
        ["ttl z a", ":-2"],
    ] {
        for mut sim in without_collecting() {
            sim.script("zadd z 1 a 2 b => :2\nzpexpire z 10 members 2 a b => *2 :1 :1");
            sim.script("+9\nexists z => :1\n+1");
            sim.expect(request, answer);
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn deadlines_move_with_the_key() {
    for (request, db, key) in [
        ("rename z y", 0, "y"),
        ("copy z y", 0, "y"),
        ("copy z z db 1", 1, "z"),
        ("move z 1", 1, "z"),
        ("swapdb 0 1", 1, "z"),
        ("debug reload", 0, "z"),
    ] {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 1);
        sim.script("zadd z 1 a 2 b 3 c => :3\nzpexpire z 100 members 1 a => *1 :1");
        sim.script("zpexpire z 50 members 1 c => *1 :1\n+50");
        sim.run(request);
        sim.run(&format!("select {db}"));
        let ttls = format!("zpttl {key} members 3 a b c");
        sim.expect(&ttls, "*3 :50 :-1 :-2");
        sim.expect(&format!("zrank {key} b"), ":1");
        sim.advance(70);
        sim.expect(&ttls, "*3 :-2 :-1 :-2");
        sim.engine.keyspace.check();
        let filed = sim.engine.keyspace.db(db).members.len();
        assert_eq!(filed, 0, "{request}: a sorted set is still filed");
    }
}

#[test]
fn members_die_of_themselves() {
    for mut sim in all_forms() {
        sim.script("zadd z 1 a 2 b 3 c => :3\nzadd y 1 a => :1");
        sim.script("zpexpire z 10 members 1 a => *1 :1\nzpexpire z 500 members 1 b => *1 :1");
        sim.script("zpexpire y 500 members 1 a => *1 :1");
        sim.advance(30);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 1);
        sim.advance(500);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 3);
        sim.script("zrange z 0 -1 => *1 $1 c\nexists y => :0\ndbsize => :1");
        sim.engine.keyspace.check();
    }
}

#[test]
fn many_members_die_of_themselves() {
    for collects in [false, true] {
        let mut sim = Sim::new();
        for i in 0..5_000 {
            sim.run(&format!("zadd z {i} m{i}"));
            sim.run(&format!("expiremember z m{i} {}", 1 + i % 2));
        }
        sim.script("zcard z => :5000\nzrank z m4999 => :4999");
        sim.clock.advance_ms(1_000);
        if collects {
            (0..20).for_each(|_| sim.jobs());
        }
        sim.script("zrank z m4999 => :2499\nzcard z => :2500\nzrange z 10 10 => *1 $3 m21");
        sim.engine.keyspace.check();
        sim.advance(1_010);
        (0..20).for_each(|_| sim.jobs());
        assert_eq!(sim.engine.keyspace.db(0).table.len(), 0);
        sim.engine.keyspace.check();
    }
}

#[test]
fn named_members_alone_are_looked_at_where_order_does_not_matter() {
    for (request, answer, left) in [
        ("zscore z m1", "$-1", None),
        ("zscore z stays", "$1 7", None),
        ("zmscore z m1 stays", "*2 $-1 $1 7", None),
        ("zcard z", ":1", None),
        ("zttl z members 2 m1 stays", "*2 :-2 :-1", None),
        ("zadd z 1 new", ":1", Some(5_002)),
        ("zadd z 1 m1", ":1", Some(5_001)),
        ("zincrby z 1 m1", "$1 1", Some(5_001)),
        ("zrem z m1", ":0", Some(5_000)),
        ("zexpire z 10 members 2 m1 stays", "*2 :-2 :1", Some(5_000)),
        ("zrank z stays", ":0", Some(1)),
    ] {
        let mut sim = Sim::new();
        sim.engine.pause_expiry(None);
        for i in 0..5_000 {
            sim.run(&format!("zadd z {i} m{i}"));
            sim.run(&format!("expiremember z m{i} 5 ms"));
        }
        sim.expect("zadd z 7 stays", ":1");
        sim.clock.advance_ms(5);
        sim.expect(request, answer);
        let mut held = 0;
        sim.engine.keyspace.db(0).table.for_each(|slot| {
            held = mayfly::store::collection::len_of(slot).expect("a collection");
        });
        // A read removes some, of as many as a step looks at.
        match left {
            Some(left) => assert_eq!(held, left, "{request}"),
            None => assert!((4_000..5_001).contains(&held), "{request}: {held}"),
        }
        sim.engine.keyspace.check();
    }
}

#[test]
fn events_tell_what_became_of_members() {
    let mut sim = notifying();
    for (request, events) in [
        ("zadd z 1 a 2 b 3 c", "zadd z"),
        ("zexpire z 10 members 2 a b", "zexpire z"),
        ("zexpire z 10 nx members 3 a b x", ""),
        ("zpersist z members 3 a b c", "zpersist z"),
        ("zexpire z 0 members 2 a b", "zrem z"),
        ("zexpire z 0 members 1 c", "zrem z, del z"),
    ] {
        events_of(&mut sim, &[request], events);
    }
    for (write, events) in [
        ("zadd z 1 a", "zexpired z, zadd z"),
        ("zrem z a", "zexpired z"),
        ("zrem z b", "zrem z, zexpired z, del z"),
        ("zcard z", "zexpired z"),
        ("zrank z b", "zexpired z"),
        ("zunionstore y 1 z", "zexpired z, zunionstore y"),
    ] {
        let mut sim = notifying();
        sim.engine.pause_expiry(None);
        sim.script("zadd z 1 a 2 b => :2\nzpexpire z 10 members 1 a => *1 :1\n+10");
        events_of(&mut sim, &[write], events);
    }
}

#[test]
fn a_client_that_waits_gets_no_dead_member() {
    let mut sim = Sim::new();
    sim.script("zadd z 1 a => :1\nzpexpire z 10 members 1 a => *1 :1\n+10");
    let waiting = sim.connect();
    sim.run_as(waiting, "bzpopmin z 0");
    sim.advance(30);
    assert_eq!(sim.run_as(waiting, ""), "");
    sim.script("zadd z 2 b => :1\nexists z => :0");
}

#[test]
fn watched_sorted_sets_change_when_members_die() {
    for mut sim in all_forms() {
        sim.script("zadd z 1 a 2 b => :2\nzpexpire z 10 members 1 a => *1 :1");
        sim.script("watch z => +OK\n+9\nmulti => +OK\nping => +QUEUED\nexec => *1 +PONG");
        sim.script("watch z => +OK\n+1\nmulti => +OK\nping => +QUEUED\nexec => *-1");
    }
}

#[test]
fn members_due_are_not_loaded_and_their_set_with_the_last_of_them() {
    for members in [3, 5_000] {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 1);
        for i in 0..members {
            for key in ["y", "z"] {
                sim.run(&format!("zadd {key} {i} m{i}"));
                sim.run(&format!("expiremember {key} m{i} 100 ms"));
            }
        }
        sim.script("zadd z 1 last => :1\nsave => +OK");
        for (later_ms, keys, left) in [(99, 2, members + 1), (100, 1, 1)] {
            let mut other = Sim::saving_in(&dir, 2);
            other.engine.pause_expiry(None);
            other.clock.advance_ms(later_ms);
            other.engine.reading = other.clock.read();
            other.engine.load_now().expect("it loads");
            other.engine.keyspace.check();
            assert_eq!(other.engine.keyspace.db(0).table.len(), keys);
            other.expect("zcard z", &format!(":{left}"));
            other.engine.resume_expiry();
            other.advance(1_000);
            (0..20).for_each(|_| other.jobs());
            other.script("zrange z 0 -1 => *1 $4 last\ndbsize => :1");
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
            sim.run(&format!("zadd {key} {i} m{i}"));
            let ms = [50, 1_000_000][i % 2];
            sim.expect(&format!("expiremember {key} m{i} {ms} ms"), ":1");
        }
    }
    sim.expect("bgsave", "+Background saving started");
    sim.advance(60);
    (0..50).for_each(|_| sim.jobs());
    sim.script("zcard small => :10\nzcard big => :1500\nzrem big m1 => :1");
    sim.expect("zpersist big members 1 m3", "*1 :1");
    wait_for("the end of the save", || {
        sim.jobs();
        (!sim.engine.jobs.persistence.is_saving()).then_some(())
    });
    let mut other = Sim::saving_in(&dir, 2);
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    // Of those that died some may have been met before they did.
    other.clock.advance_ms(60);
    other.script("zcard small => :10\nzcard big => :1500\nzscore big m1 => $1 1");
    other.expect("zpttl big members 1 m3", "*1 :999940");
}
