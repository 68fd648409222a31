//! Deadlines of hash fields: every command, option and error as Redis 8.2.3 answers them, and what
//! dead fields are, which is nothing.

use mayfly::clock::Clock;

use crate::process::wait_for;
use crate::sim::{START, Sim, TempDir};
use crate::transcripts::{events_of, notifying};

/// Requests with the answers of Redis 8.2.3; lines of `#` say what they are about.
const RECORDED: &str = include_str!("recorded/hash_fields.txt");

/// A server, one whose hashes are all tables, and one whose hashes outgrow the small form here.
fn all_forms() -> [Sim; 3] {
    [512, 0, 2].map(|entries| {
        let mut sim = Sim::new();
        sim.expect(
            &format!("config set hash-max-listpack-entries {entries}"),
            "+OK",
        );
        sim
    })
}

fn stop_collecting(sim: &mut Sim) {
    sim.engine.pause_expiry(None);
}

/// Nothing is collected by itself, so that the dead stay where they are.
fn without_collecting() -> [Sim; 3] {
    all_forms().map(|mut sim| {
        stop_collecting(&mut sim);
        sim
    })
}

#[test]
fn every_option_and_error_is_as_in_redis() {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let requests: Vec<&str> = lines.collect();
    Sim::new().script(&requests.join("\n"));
    // A table says so, and has no order.
    let of_tables = requests.iter().filter(|line| {
        !["object encoding", "hgetall"]
            .iter()
            .any(|word| line.starts_with(word))
    });
    let of_tables: Vec<&str> = of_tables.copied().collect();
    for mut sim in all_forms() {
        sim.script(&of_tables.join("\n"));
    }
}

#[test]
fn a_field_lives_until_its_millisecond() {
    for (request, ms) in [
        ("hexpire h 1 fields 1 a", 1_000),
        ("hpexpire h 1 fields 1 a", 1),
        ("hexpireat h 1700000002 fields 1 a", 2_000),
        ("hpexpireat h 1700000000777 fields 1 a", 777),
        ("hgetex h ex 3 fields 1 a", 3_000),
        ("hgetex h px 4 fields 1 a", 4),
        ("hgetex h exat 1700000001 fields 1 a", 1_000),
        ("hgetex h pxat 1700000000009 fields 1 a", 9),
        ("hsetex h ex 3 fields 1 a 1", 3_000),
        ("hsetex h px 4 fields 1 a 1", 4),
        ("hsetex h exat 1700000001 fields 1 a 1", 1_000),
        ("hsetex h pxat 1700000000009 fxx fields 1 a 1", 9),
    ] {
        for mut sim in all_forms() {
            sim.expect("hset h a 1 b 2 c 3", ":3");
            sim.run(request);
            let seconds = (START + ms + 999) / 1_000;
            sim.expect("hpexpiretime h fields 1 a", &format!("*1 :{}", START + ms));
            sim.expect("hexpiretime h fields 1 a", &format!("*1 :{seconds}"));
            sim.clock.advance_ms(ms as u64 - 1);
            sim.script("hpttl h fields 3 a b x => *3 :1 :-1 :-2\nhttl h fields 1 a => *1 :1");
            sim.script("hlen h => :3\nhget h a => $1 1\nhexists h a => :1\nhstrlen h a => :1");
            sim.clock.advance_ms(1);
            sim.script("hlen h => :2\nhget h a => $-1\nhexists h a => :0\nhstrlen h a => :0");
            sim.script("hpttl h fields 3 a b x => *3 :-2 :-1 :-2\nttl h => :-1\ndbsize => :1");
        }
    }
}

#[test]
fn dead_fields_are_not_seen() {
    for mut sim in without_collecting() {
        sim.script(
            "
            hset h a 1 b 2 c 3 => :3
            hpexpire h 10 fields 2 a c => *2 :1 :1
            +10
            hgetall h => *2 $1 b $1 2
            hkeys h => *1 $1 b
            hvals h => *1 $1 2
            hmget h a b c => *3 $-1 $1 2 $-1
            hscan h 0 => *2 $1 0 *2 $1 b $1 2
            hrandfield h => $1 b
            hrandfield h 5 => *1 $1 b
            hrandfield h -3 => *3 $1 b $1 b $1 b
            hrandfield h 2 withvalues => *2 $1 b $1 2
            hlen h => :1
            httl h fields 3 a b c => *3 :-2 :-1 :-2
            hpersist h fields 2 a b => *2 :-2 :-1
            hgetex h ex 10 fields 2 a c => *2 $-1 $-1
            hgetdel h fields 1 a => *1 $-1
            exists h => :1
            sort h => -WRONGTYPE Operation against a key holding the wrong kind of value
            rpush l 1 => :1
            copy h 1 => :1
            sort l get *->a get *->b => *2 $-1 $1 2
            ",
        );
    }
}

#[test]
fn writes_find_no_dead_field() {
    for [make, write, answer, fields] in [
        ["1", "hset h a 5", ":1", "*2 $1 5 $1 2"],
        ["1", "hmset h a 5", "+OK", "*2 $1 5 $1 2"],
        ["1", "hsetnx h a 5", ":1", "*2 $1 5 $1 2"],
        ["1", "hincrby h a 5", ":5", "*2 $1 5 $1 2"],
        ["1", "hincrbyfloat h a 0.5", "$3 0.5", "*2 $3 0.5 $1 2"],
        ["text", "hincrby h a 5", ":5", "*2 $1 5 $1 2"],
        ["1", "hdel h a", ":0", "*2 $-1 $1 2"],
        ["1", "hdel h a b", ":1", "*2 $-1 $-1"],
        ["1", "hexpire h 100 fields 1 a", "*1 :-2", "*2 $-1 $1 2"],
        ["1", "hexpire h 100 xx fields 1 a", "*1 :-2", "*2 $-1 $1 2"],
        ["1", "hexpire h 0 fields 1 a", "*1 :-2", "*2 $-1 $1 2"],
        ["1", "hsetex h keepttl fields 1 a 5", ":1", "*2 $1 5 $1 2"],
        ["1", "hsetex h fnx fields 1 a 5", ":1", "*2 $1 5 $1 2"],
        ["1", "hsetex h fxx fields 1 a 5", ":0", "*2 $-1 $1 2"],
        [
            "1",
            "hsetex h fnx keepttl fields 2 a 5 b 6",
            ":0",
            "*2 $-1 $1 2",
        ],
        ["1", "hgetdel h fields 2 a b", "*2 $-1 $1 2", "*2 $-1 $-1"],
    ] {
        for mut sim in without_collecting() {
            sim.script(&format!(
                "hset h a {make} b 2 => :2\nhpexpire h 10 fields 1 a => *1 :1"
            ));
            sim.script(&format!(
                "+10\n{write} => {answer}\nhmget h a b => {fields}"
            ));
            let is_there = !fields.starts_with("*2 $-1");
            let ttl = if is_there { ":-1" } else { ":-2" };
            sim.expect("httl h fields 1 a", &format!("*1 {ttl}"));
            sim.clock.advance_ms(100_000);
            sim.expect("hmget h a b", fields);
        }
    }
}

#[test]
fn a_hash_of_dead_fields_does_not_exist() {
    for [request, answer] in [
        ["exists h", ":0"],
        ["type h", "+none"],
        ["ttl h", ":-2"],
        ["keys *", "*0"],
        ["scan 0", "*2 $1 0 *0"],
        ["scan 0 type hash", "*2 $1 0 *0"],
        ["randomkey", "$-1"],
        ["get h", "$-1"],
        ["hgetall h", "*0"],
        ["hlen h", ":0"],
        ["hscan h 0", "*2 $1 0 *0"],
        ["hrandfield h", "$-1"],
        ["hrandfield h 3", "*0"],
        ["object encoding h", "$-1"],
        ["del h", ":0"],
        ["unlink h", ":0"],
        ["touch h", ":0"],
        ["expire h 10", ":0"],
        ["persist h", ":0"],
        ["rename h g", "-ERR no such key"],
        ["copy h g", ":0"],
        ["move h 1", ":0"],
        ["set h v nx", "+OK"],
        ["set h v xx", "$-1"],
        ["set h v get", "$-1"],
        ["append h v", ":1"],
        ["incr h", ":1"],
        ["lpush h v", ":1"],
        ["sadd h v", ":1"],
        ["zadd h 1 v", ":1"],
        ["hset h a 1", ":1"],
        ["hsetnx h a 1", ":1"],
        ["hincrby h a 1", ":1"],
        ["hdel h a", ":0"],
        ["hexpire h 10 fields 1 a", "*1 :-2"],
        ["hpersist h fields 1 a", "*1 :-2"],
        ["httl h fields 1 a", "*1 :-2"],
        ["hgetex h ex 10 fields 1 a", "*1 $-1"],
        ["hgetdel h fields 1 a", "*1 $-1"],
        ["hsetex h keepttl fields 1 a 1", ":1"],
        ["hsetex h fxx fields 1 a 1", ":0"],
        ["getset h v", "$-1"],
        ["getdel h", "$-1"],
        ["strlen h", ":0"],
    ] {
        for mut sim in without_collecting() {
            sim.script("hset h a 1 b 2 c 3 => :3\nhpexpire h 10 fields 3 a b c => *3 :1 :1 :1");
            sim.script("+9\nexists h => :1\n+1");
            sim.expect(request, answer);
        }
    }
    // Collecting or not, DBSIZE does not count it; but while nothing is collected it does, as dead
    // keys.
    for mut sim in all_forms() {
        sim.script("hset h a 1 => :1\nhpexpire h 10 fields 1 a => *1 :1\n+10\ndbsize => :0");
    }
}

#[test]
fn what_gives_a_field_a_value_decides_about_its_deadline() {
    for (write, ttl) in [
        ("hset h a 1", ":-1"),
        ("hmset h a 1", ":-1"),
        ("hsetex h fields 1 a 1", ":-1"),
        ("hsetnx h a 1", ":100"),
        ("hincrby h a 1", ":100"),
        ("hincrbyfloat h a 1", ":100"),
        ("hsetex h keepttl fields 1 a 12345678901234567890", ":100"),
        ("hsetex h ex 50 fields 1 a 1", ":50"),
        ("hgetex h fields 1 a", ":100"),
        ("hgetex h persist fields 1 a", ":-1"),
        ("expire h 10", ":100"),
        ("hdel h b", ":100"),
    ] {
        for mut sim in all_forms() {
            sim.script("hset h a 1 b 2 => :2\nhexpire h 100 fields 1 a => *1 :1");
            sim.run(write);
            sim.expect("httl h fields 1 a", &format!("*1 {ttl}"));
        }
    }
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 => :2\nhexpire h 100 fields 1 a => *1 :1");
        sim.script("hdel h a => :1\nhset h a 1 => :1\nhttl h fields 1 a => *1 :-1");
    }
}

#[test]
fn deadlines_move_with_the_key() {
    for (request, db, key) in [
        ("rename h g", 0, "g"),
        ("copy h g", 0, "g"),
        ("copy h h db 1", 1, "h"),
        ("move h 1", 1, "h"),
        ("swapdb 0 1", 1, "h"),
        ("debug reload", 0, "h"),
    ] {
        for entries in [512, 0] {
            let dir = TempDir::new();
            let mut sim = Sim::saving_in(&dir, 1);
            sim.run(&format!("config set hash-max-listpack-entries {entries}"));
            sim.script("hset h a 1 b 2 c 3 => :3\nhpexpire h 100 fields 1 a => *1 :1");
            sim.script("hpexpire h 50 fields 1 c => *1 :1\n+50");
            sim.run(request);
            sim.run(&format!("select {db}"));
            let ttls = format!("hpttl {key} fields 3 a b c");
            sim.expect(&ttls, "*3 :50 :-1 :-2");
            sim.expect(&format!("hlen {key}"), ":2");
            sim.advance(70);
            sim.expect(&ttls, "*3 :-2 :-1 :-2");
            sim.engine.keyspace.check();
            let collected = sim.engine.keyspace.db(db).members.len();
            assert_eq!(collected, 0, "{request}: a hash is still filed");
        }
    }
}

#[test]
fn fields_die_of_themselves() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 c 3 => :3\nhset g a 1 => :1");
        sim.script("hpexpire h 10 fields 1 a => *1 :1\nhpexpire h 500 fields 1 b => *1 :1");
        sim.script("hpexpire g 500 fields 1 a => *1 :1");
        sim.advance(30);
        let len = |sim: &Sim| sim.engine.keyspace.stats.members_expired_actively;
        assert_eq!(len(&sim), 1);
        sim.advance(500);
        assert_eq!(len(&sim), 3);
        sim.script("hgetall h => *2 $1 c $1 3\nexists g => :0\ndbsize => :1");
        let stats = sim.run("info stats");
        assert!(
            stats.contains("expired_subkeys:3 expired_keys:0 "),
            "{stats}"
        );
        sim.engine.keyspace.check();
    }
}

#[test]
fn info_counts_hashes_with_volatile_fields() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 => :2\nhset g a 1 => :1\nset k v => +OK");
        let mut subexpiry = |requests: &[&str]| {
            for request in requests {
                sim.run(request);
            }
            let keyspace = sim.run("info keyspace");
            let (_, number) = keyspace.split_once("subexpiry=").expect("the field");
            number.trim().to_owned()
        };
        assert_eq!(subexpiry(&[]), "0");
        assert_eq!(subexpiry(&["hexpire h 10 fields 2 a b"]), "1");
        assert_eq!(
            subexpiry(&["hexpire g 10 fields 1 a", "hpersist h fields 1 a"]),
            "2"
        );
        assert_eq!(subexpiry(&["hset h b 5"]), "1");
        assert_eq!(subexpiry(&["hexpire h 10 fields 1 a", "hdel h a"]), "1");
        assert_eq!(subexpiry(&["set g v"]), "0");
        assert_eq!(subexpiry(&["hexpire h 10 fields 1 b", "copy h i"]), "2");
        assert_eq!(subexpiry(&["del h", "rename i j"]), "1");
        assert_eq!(subexpiry(&["hexpire j 0 fields 1 b"]), "0");
    }
}

#[test]
fn lazily_and_actively_removed_fields_are_counted_apart() {
    for mut sim in without_collecting() {
        sim.script("hset h a 1 b 2 c 3 => :3\nhpexpire h 10 fields 2 a b => *2 :1 :1");
        sim.script("+10\nhget h a => $-1");
        let expiry = sim.run("info expiry");
        assert!(
            expiry.contains("expired_subkeys_active:0 expired_subkeys_lazy:2"),
            "{expiry}"
        );
    }
}

#[test]
fn events_tell_what_became_of_fields() {
    let mut sim = notifying();
    events_of(&mut sim, &["hset h a 1 b 2 c 3"], "hset h");
    events_of(&mut sim, &["hexpire h 10 fields 2 a b"], "hexpire h");
    events_of(&mut sim, &["hexpire h 10 nx fields 3 a b x"], "");
    events_of(&mut sim, &["hpersist h fields 3 a b c"], "hpersist h");
    events_of(&mut sim, &["hexpire h 0 fields 2 a b"], "hdel h");
    events_of(&mut sim, &["hexpire h 0 fields 1 c"], "hdel h, del h");
    events_of(
        &mut sim,
        &["hsetex h ex 10 fields 1 a 1"],
        "hset h, hexpire h",
    );
    events_of(&mut sim, &["hsetex h px 1 keepttl fields 1 a 1"], "");
    events_of(&mut sim, &["hgetex h ex 20 fields 2 a x"], "hexpire h");
    events_of(&mut sim, &["hgetex h persist fields 2 a x"], "hpersist h");
    events_of(&mut sim, &["hgetdel h fields 2 a x"], "hdel h, del h");
    events_of(
        &mut sim,
        &["hsetex h pxat 1 fields 2 a 1 b 2"],
        "hset h, hdel h, del h",
    );
    // As Valkey says it.
    sim.expect("config set expire-past-event expired", "+OK");
    events_of(
        &mut sim,
        &["hset h a 1 b 2", "hexpire h 0 fields 1 a"],
        "hset h, hexpired h",
    );
    events_of(&mut sim, &["hgetex h px 0 fields 1 b"], "hexpired h, del h");
}

#[test]
fn the_dead_are_reported_before_what_a_command_does() {
    for (write, events) in [
        ("hset h a 1", "hexpired h, hset h"),
        ("hdel h a", "hexpired h"),
        ("hdel h b", "hdel h, hexpired h, del h"),
        ("hget h a", "hexpired h"),
        ("hgetall h", "hexpired h"),
        ("hgetdel h fields 1 a", "hexpired h"),
        ("hlen h", "hexpired h"),
    ] {
        let mut sim = notifying();
        stop_collecting(&mut sim);
        sim.script("hset h a 1 b 2 => :2\nhpexpire h 10 fields 1 a => *1 :1\n+10");
        events_of(&mut sim, &[write], events);
    }
    for (request, events) in [
        ("hset h a 1", "hexpired h, del h, hset h"),
        ("get h", "hexpired h, del h"),
        ("set h v", "hexpired h, del h, set h"),
    ] {
        let mut sim = notifying();
        stop_collecting(&mut sim);
        sim.script("hset h a 1 b 2 => :2\nhpexpire h 10 fields 2 a b => *2 :1 :1\n+10");
        events_of(&mut sim, &[request], events);
    }
}

#[test]
fn replies_in_resp3_differ_only_in_null() {
    for mut sim in all_forms() {
        sim.run("hello 3");
        sim.script(
            "
            hsetex h ex 10 fields 2 a 1 b 2 => :1
            hgetex h fields 2 a x => *2 $1 1 _
            hgetex h persist fields 2 a x => *2 $1 1 _
            hgetex none ex 10 fields 1 a => *1 _
            httl h fields 3 a b x => *3 :-1 :10 :-2
            hexpire h 10 fields 2 a x => *2 :1 :-2
            hpersist h fields 2 a x => *2 :1 :-2
            hgetdel h fields 3 a a b => *3 $1 1 _ $1 2
            hgetdel h fields 1 a => *1 _
            ",
        );
    }
}

#[test]
fn only_reads_of_deadlines_report_a_missing_hash() {
    let mut sim = notifying();
    sim.expect("config set notify-keyspace-events KEAmn", "+OK");
    for (request, events) in [
        (
            "hsetex h fnx ex 10 fields 1 a 1",
            "new h, hset h, hexpire h",
        ),
        ("hsetex h keepttl fields 1 b 1", "hset h"),
        ("hsetex g px 0 fields 1 a 1", "new g, hset g, hdel g, del g"),
        ("hsetex none fxx fields 1 a 1", ""),
        ("hexpire none 10 fields 1 a", ""),
        ("hpersist none fields 1 a", ""),
        ("hgetdel none fields 1 a", ""),
        ("httl none fields 1 a", "keymiss none"),
        ("httl h fields 1 x", ""),
        ("hgetex none fields 1 a", ""),
        ("hgetex none ex 10 fields 1 a", ""),
    ] {
        events_of(&mut sim, &[request], events);
    }
}

#[test]
fn watched_hashes_change_when_fields_die() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 => :2\nhpexpire h 10 fields 1 a => *1 :1");
        sim.script("watch h => +OK\n+9\nmulti => +OK\nping => +QUEUED\nexec => *1 +PONG");
        sim.script("watch h => +OK\n+1\nmulti => +OK\nping => +QUEUED\nexec => *-1");
        // What was dead before is not a change.
        sim.script("hpexpire h 10 fields 1 b => *1 :1\n+10\nwatch h => +OK");
        sim.advance(30);
        sim.script("multi => +OK\nping => +QUEUED\nexec => *1 +PONG");
        sim.script("watch h => +OK\nhset h a 1 => :1\nmulti => +OK\nping => +QUEUED\nexec => *-1");
    }
}

#[test]
fn time_stands_still_in_a_transaction() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 => :2\nhpexpire h 10 fields 1 a => *1 :1");
        sim.script("multi => +OK\nhlen h => +QUEUED\nhpttl h fields 1 a => +QUEUED\n+9");
        sim.script("exec => *2 :2 *1 :1");
        sim.script("multi => +OK\nhlen h => +QUEUED\nhset h a 3 => +QUEUED\n+1");
        sim.script("exec => *2 :1 :1\nhttl h fields 1 a => *1 :-1");
    }
}

#[test]
fn a_pause_hides_the_dead_and_removes_none() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 => :2\nhpexpire h 10 fields 1 a => *1 :1");
        sim.script("hset g a 1 => :1\nhpexpire g 10 fields 1 a => *1 :1");
        sim.expect("client pause 1000 write", "+OK");
        sim.advance(50);
        sim.script("hlen h => :1\nhgetall h => *2 $1 b $1 2\nexists g => :0\nhget g a => $-1");
        let stats = sim.run("info stats");
        assert!(stats.contains("expired_subkeys:0 "), "{stats}");
        sim.advance(1_000);
        sim.advance(1);
        let stats = sim.run("info stats");
        assert!(stats.contains("expired_subkeys:2 "), "{stats}");
    }
}

#[test]
fn a_sooner_deadline_is_kept_and_a_later_one_too() {
    for mut sim in all_forms() {
        sim.script("hset h a 1 b 2 c 3 => :3\nhpexpire h 100000000 fields 1 a => *1 :1");
        sim.script("hpexpire h 40 fields 1 a => *1 :1\nhpexpire h 30 fields 1 b => *1 :1");
        sim.script("hpexpire h 90 fields 1 b => *1 :1");
        sim.advance(60);
        sim.script("hlen h => :2\nhpttl h fields 2 a b => *2 :-2 :30");
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 1);
        sim.engine.keyspace.check();
        sim.advance(60);
        assert_eq!(sim.engine.keyspace.stats.members_expired_actively, 2);
        sim.engine.keyspace.check();
    }
}

#[test]
fn fields_due_are_not_loaded_and_their_hash_with_the_last_of_them() {
    for fields in [3, 5_000] {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 1);
        for i in 0..fields {
            sim.expect(&format!("hsetex h px 100 fields 1 f{i} {i}"), ":1");
            sim.expect(&format!("hsetex g px 100 fields 1 f{i} {i}"), ":1");
        }
        sim.script("hset g last 1 => :1\nhsetex g px 101 fields 1 later 1 => :1\nsave => +OK");
        for (later_ms, keeps, keys, left) in [
            (99, false, 2, fields + 2),
            (100, false, 1, 2),
            (101, false, 1, 1),
            (100, true, 1, 2),
        ] {
            let mut other = Sim::saving_in(&dir, 2);
            other.engine.config.load_keeps_expired = keeps;
            other.engine.pause_expiry(None);
            other.clock.advance_ms(later_ms);
            other.engine.reading = other.clock.read();
            other.engine.load_now().expect("it loads");
            other.engine.keyspace.check();
            let held = other.engine.keyspace.db(0).table.len();
            assert_eq!(held, if keeps { 2 } else { keys }, "{later_ms}");
            other.expect("hlen g", &format!(":{left}"));
            other.expect("exists h g", &format!(":{keys}"));
            other.engine.resume_expiry();
            other.advance(1_000);
            (0..20).for_each(|_| other.jobs());
            other.script("hgetall g => *2 $4 last $1 1\ndbsize => :1");
            let removed = other.engine.keyspace.stats.members_expired_actively;
            let lazily = other.engine.keyspace.stats.members_expired_lazily;
            let expected = if keeps {
                2 * fields + 1
            } else {
                left - 1 + (keys - 1) * fields
            };
            assert_eq!(removed + lazily, expected as u64, "{later_ms} {keeps}");
            other.engine.keyspace.check();
        }
    }
}

#[test]
fn fields_that_die_during_a_save_are_not_in_it() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    for key in ["small", "big"] {
        for i in 0..if key == "big" { 3_000 } else { 20 } {
            let px = [50, 1_000_000][i % 2];
            sim.expect(&format!("hsetex {key} px {px} fields 1 f{i} {i}"), ":1");
        }
    }
    sim.expect("bgsave", "+Background saving started");
    sim.advance(60);
    (0..50).for_each(|_| sim.jobs());
    sim.script("hlen small => :10\nhlen big => :1500\nhset big f1 x => :0");
    wait_for("the end of the save", || {
        sim.jobs();
        (!sim.engine.jobs.persistence.is_saving()).then_some(())
    });
    let mut other = Sim::saving_in(&dir, 2);
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    // Of those that died some may have been met before they did.
    other.clock.advance_ms(60);
    other.script("hlen small => :10\nhlen big => :1500\nhget big f1 => $1 1");
}

#[test]
fn a_past_time_counts_as_expiry() {
    for setting in ["del", "expired"] {
        let mut sim = Sim::new();
        sim.expect(&format!("config set expire-past-event {setting}"), "+OK");
        sim.script("hset h a 1 b 2 c 3 => :3\nhexpire h 0 fields 2 a x => *2 :2 :-2");
        sim.script("hgetex h px 0 fields 1 b => *1 $1 2\nhsetex h pxat 1 fields 1 c 1 => :1");
        assert_eq!(sim.engine.keyspace.stats.members_expired_lazily, 3);
    }
}

/// A dead field that a command names goes before what the command does to others.
#[test]
fn the_dead_are_reported_before_what_is_done_to_the_living() {
    for request in [
        "hgetex h ex 100 fields 2 a b",
        "hexpire h 100 fields 2 b a",
        "hpexpireat h 1900000000000 fields 2 a b",
    ] {
        let mut sim = notifying();
        sim.script("hset h b 2 c 3 => :2\nhsetex h px 5 fields 1 a 1 => :1");
        sim.clock.advance_ms(5);
        events_of(&mut sim, &[request], "hexpired h, hexpire h");
    }
}
