//! Commands on keys, with keys of every type; the replies are those of Redis 8.2.3.

use mayfly::config::Permission;

use crate::fill;
use crate::increx::events;
use crate::sim::Sim;

/// The collections of [`filled`] and what they are.
const KEYS: [(&str, &str, &str); 5] = [
    ("l", "list", "listpack"),
    ("i", "set", "intset"),
    ("s", "set", "listpack"),
    ("z", "zset", "listpack"),
    ("h", "hash", "listpack"),
];

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// A server with a small collection of each form.
fn filled() -> Sim {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "a b");
    fill::set(&mut sim, "i", "1 2");
    fill::set(&mut sim, "s", "a b");
    fill::zset(&mut sim, "z", "a b");
    fill::hash(&mut sim, "h", "f v");
    sim
}

/// A server with a big collection of each type.
fn filled_big() -> Sim {
    let mut sim = Sim::new();
    let words: Vec<String> = (0..2_000).map(|i| format!("item-{i:05}")).collect();
    let words = words.join(" ");
    fill::list(&mut sim, "l", &words);
    fill::set(&mut sim, "s", &words);
    fill::zset(&mut sim, "z", &words);
    fill::hash(&mut sim, "h", &words);
    sim
}

#[test]
fn every_type_tells_what_it_is() {
    let mut sim = filled();
    for (key, kind, encoding) in KEYS {
        sim.expect(&format!("type {key}"), &format!("+{kind}"));
        let len = encoding.len();
        sim.expect(
            &format!("object encoding {key}"),
            &format!("${len} {encoding}"),
        );
        sim.expect(&format!("object refcount {key}"), ":1");
        sim.expect(&format!("object idletime {key}"), ":0");
        sim.expect(&format!("exists {key} {key}"), ":2");
        sim.expect(&format!("touch {key}"), ":1");
    }
    let mut sim = filled_big();
    sim.script(
        "
        object encoding l => $9 quicklist
        object encoding s => $9 hashtable
        object encoding z => $8 skiplist
        object encoding h => $9 hashtable
        type z => +zset
        ",
    );
}

#[test]
fn scan_finds_keys_by_their_type() {
    let mut sim = filled();
    sim.run("set str x");
    for (kind, found) in [
        ("string", "*1 $3 str"),
        ("list", "*1 $1 l"),
        ("zset", "*1 $1 z"),
        ("hash", "*1 $1 h"),
        ("stream", "*0"),
    ] {
        let request = format!("scan 0 type {kind} count 1000");
        sim.expect(&request, &format!("*2 $1 0 {found}"));
    }
    let sets = sim.run("scan 0 type SET count 1000");
    assert!(
        ["*2 $1 0 *2 $1 i $1 s", "*2 $1 0 *2 $1 s $1 i"].contains(&sets.as_str()),
        "{sets}"
    );
}

#[test]
fn string_commands_leave_other_types_alone() {
    for (key, kind, _) in KEYS {
        let mut sim = filled();
        for request in [
            "get K",
            "set K v get",
            "set K v nx get",
            "set K v xx get",
            "set K v ifeq v",
            "getset K v",
            "getdel K",
            "getex K",
            "getex K ex 10",
            "append K v",
            "strlen K",
            "setrange K 1 v",
            "getrange K 0 -1",
            "substr K 0 -1",
            "incr K",
            "decrby K 5",
            "incrbyfloat K 1.5",
            "increx K",
            "digest K",
        ] {
            sim.expect(&request.replace('K', key), WRONG_TYPE);
        }
        sim.expect(&format!("mget {key}"), "*1 $-1");
        sim.expect(&format!("setnx {key} v"), ":0");
        sim.expect(&format!("msetnx {key} v other v"), ":0");
        sim.expect(&format!("set {key} v nx"), "$-1");
        sim.expect(&format!("type {key}"), &format!("+{kind}"));
        sim.expect(&format!("ttl {key}"), ":-1");
        // These overwrite whatever is there.
        sim.expect(&format!("set {key} v xx px 5"), "+OK");
        sim.expect(&format!("type {key}"), "+string");
    }
    for request in [
        "set K v",
        "mset K v",
        "setex K 9 v",
        "psetex K 9 v",
        "msetex 1 K v",
    ] {
        for (key, ..) in KEYS {
            let mut sim = filled();
            sim.run(&request.replace('K', key));
            sim.expect(&format!("get {key}"), "$1 v");
        }
    }
}

#[test]
fn a_collection_lives_until_its_millisecond() {
    for (key, kind, _) in KEYS {
        for set in ["pexpire K 100", "pexpireat K 1700000000100"] {
            let mut sim = filled();
            sim.expect(&set.replace('K', key), ":1");
            sim.clock.advance_ms(99);
            sim.expect(&format!("pttl {key}"), ":1");
            sim.expect(&format!("type {key}"), &format!("+{kind}"));
            sim.clock.advance_ms(1);
            sim.expect(&format!("type {key}"), "+none");
            sim.expect(&format!("object encoding {key}"), "$-1");
            sim.expect(&format!("sort {key} alpha"), "*0");
            sim.expect("dbsize", ":4");
        }
    }
}

#[test]
fn deadlines_of_collections_change_by_the_same_rules() {
    let mut sim = filled();
    sim.script(
        r#"
        expire l -1 gt => :0
        expire l 10 xx => :0
        expire l 10 nx => :1
        expire l 20 gt => :1
        ttl l => :20
        expire l 5 lt => :1
        persist l => :1
        persist l => :0
        expire l -1 => :1
        exists l => :0
        expire i 10 => :1
        ttl i => :10
        pexpireat i 1 => :1
        exists i => :0
        expire s 10 => :1
        ttl s => :10
        pexpireat s 1 => :1
        exists s => :0
        expire z -1 gt => :0
        expire z 10 xx => :0
        expire z 10 nx => :1
        expire z 20 gt => :1
        ttl z => :20
        expire z 5 lt => :1
        persist z => :1
        persist z => :0
        expire z -1 => :1
        exists z => :0
        expire h 10 => :1
        ttl h => :10
        pexpireat h 1 => :1
        exists h => :0
        "#,
    );
}

#[test]
fn collections_are_copied_renamed_and_moved_with_their_deadlines() {
    let mut sim = filled();
    sim.script(
        r#"
        expire l 100 => :1
        copy l c => :1
        copy l c => :0
        copy l c replace => :1
        object encoding c => $8 listpack
        ttl c => :100
        rename c l2 => +OK
        ttl l2 => :100
        renamenx l2 l => :0
        move l2 1 => :1
        exists l2 => :0
        copy l l3 db 1 => :1
        select 1 => +OK
        type l2 => +list
        ttl l3 => :100
        select 0 => +OK
        expire i 100 => :1
        copy i c => :1
        copy i c => :0
        copy i c replace => :1
        object encoding c => $6 intset
        ttl c => :100
        rename c i2 => +OK
        ttl i2 => :100
        renamenx i2 i => :0
        move i2 1 => :1
        exists i2 => :0
        copy i i3 db 1 => :1
        select 1 => +OK
        type i2 => +set
        ttl i3 => :100
        select 0 => +OK
        expire s 100 => :1
        copy s c => :1
        copy s c => :0
        copy s c replace => :1
        object encoding c => $8 listpack
        ttl c => :100
        rename c s2 => +OK
        ttl s2 => :100
        renamenx s2 s => :0
        move s2 1 => :1
        exists s2 => :0
        copy s s3 db 1 => :1
        select 1 => +OK
        type s2 => +set
        ttl s3 => :100
        select 0 => +OK
        expire z 100 => :1
        copy z c => :1
        copy z c => :0
        copy z c replace => :1
        object encoding c => $8 listpack
        ttl c => :100
        rename c z2 => +OK
        ttl z2 => :100
        renamenx z2 z => :0
        move z2 1 => :1
        exists z2 => :0
        copy z z3 db 1 => :1
        select 1 => +OK
        type z2 => +zset
        ttl z3 => :100
        select 0 => +OK
        expire h 100 => :1
        copy h c => :1
        copy h c => :0
        copy h c replace => :1
        object encoding c => $8 listpack
        ttl c => :100
        rename c h2 => +OK
        ttl h2 => :100
        renamenx h2 h => :0
        move h2 1 => :1
        exists h2 => :0
        copy h h3 db 1 => :1
        select 1 => +OK
        type h2 => +hash
        ttl h3 => :100
        select 0 => +OK
        sort l alpha => *2 $1 a $1 b
        sort s alpha => *2 $1 a $1 b
        sort z by nosort => *2 $1 a $1 b
        rename h s => +OK
        type s => +hash
        rename l z => +OK
        ttl z => :100
        sort z by nosort => *2 $1 a $1 b
        copy z s replace => :1
        sort s by nosort => *2 $1 a $1 b
        del s z i => :3
        unlink s => :0
        "#,
    );
}

#[test]
fn copies_of_big_collections_are_their_own() {
    let mut sim = filled_big();
    for key in ["l", "s", "z", "h"] {
        sim.expect(&format!("copy {key} copy-{key}"), ":1");
        sim.expect(&format!("rename {key} old-{key}"), "+OK");
        sim.expect(&format!("del old-{key}"), ":1");
        sim.jobs();
    }
    sim.expect("sort copy-l alpha limit 1999 1", "*1 $10 item-01999");
    sim.expect("sort copy-s alpha limit 0 1", "*1 $10 item-00000");
    sim.expect("sort copy-z by nosort limit 1000 1", "*1 $10 item-01000");
    sim.expect("sort copy-l by nosort get copy-h->* limit 0 1", "*1 $-1");
    sim.expect("object encoding copy-h", "$9 hashtable");
    sim.expect("dbsize", ":4");
}

#[test]
fn memory_usage_of_collections_grows_with_them() {
    let usage = |sim: &mut Sim, key: &str| -> u64 {
        let plain = sim.run(&format!("memory usage {key}"));
        for samples in ["0", "5"] {
            let sampled = sim.run(&format!("memory usage {key} samples {samples}"));
            assert_eq!(sampled, plain);
        }
        let bytes = plain.strip_prefix(':').and_then(|n| n.parse().ok());
        bytes.expect("a number of bytes")
    };
    let (mut small, mut big) = (filled(), filled_big());
    for key in ["l", "s", "z", "h"] {
        let (less, more) = (usage(&mut small, key), usage(&mut big, key));
        assert!((20..200).contains(&less), "{key}: {less}");
        // Each has 2,000 items of ten bytes, or half as many pairs.
        assert!((20_000..400_000).contains(&more), "{key}: {more}");
    }
    small.script(
        "
        memory usage l samples -1 => {syntax error}
        memory usage l samples => {syntax error}
        memory usage none samples 5 => $-1
        ",
    );
}

#[test]
fn debug_shows_collections_and_populate_spares_them() {
    let mut sim = Sim::new();
    sim.engine.config.debug_command = Permission::Yes;
    fill::list(&mut sim, "key:1", "a b");
    fill::hash(&mut sim, "h", "f v");
    let shown = sim.run("debug object h");
    assert!(shown.contains("encoding:listpack"), "{shown}");
    sim.script(
        "
        debug populate 3 => +OK
        dbsize => :4
        type key:1 => +list
        get key:2 => $7 value:2
        ",
    );
}

#[test]
fn random_keys_are_of_any_type() {
    let mut sim = filled();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        seen.insert(sim.run("randomkey"));
    }
    assert_eq!(seen.len(), KEYS.len(), "{seen:?}");
}

#[test]
fn events_of_keys_are_the_same_for_every_type() {
    for (key, ..) in KEYS {
        let mut sim = filled();
        for (request, expected) in [
            ("expire K 100", "expire K"),
            ("persist K", "persist K"),
            ("copy K c", "copy_to c"),
            ("rename c d", "rename_from c, rename_to d"),
            ("move d 1", "move_from d"),
            ("expire K -1", "del K"),
            ("del K", ""),
        ] {
            let told = events(&mut sim, &request.replace('K', key));
            assert_eq!(told, expected.replace('K', key), "{request}");
        }
    }
}

/// What INFO calls `rdb_changes_since_last_save`, which save points count by; from Redis 8.2.3.
const CHANGES: &[(&str, u64)] = &[
    ("set a 1", 1),
    ("mset a 1 b 2 c 3", 3),
    ("msetnx x 1 y 2", 2),
    ("del a b c", 3),
    ("unlink x", 1),
    ("append q x", 1),
    ("incr n", 1),
    ("expire n 100", 1),
    ("persist n", 1),
    ("getdel n", 1),
    ("getex q ex 10", 1),
    ("getex q persist", 1),
    ("setrange q 0 abc", 1),
    ("rpush l a b c d", 4),
    ("lpush l a", 1),
    ("lpop l 2", 2),
    ("lrem l 0 a", 0),
    ("rpush l k k k", 3),
    ("lrem l 0 k", 3),
    ("ltrim l 0 0", 2),
    ("linsert l before c z", 0),
    ("lset l 0 q", 1),
    ("rpush l 1 2 3 4", 4),
    ("lmpop 1 l left count 2", 2),
    ("lmove l l left right", 1),
    ("rpoplpush l l2", 1),
    ("sadd s a b c d", 4),
    ("srem s a b", 2),
    ("sadd s q w e r t", 5),
    ("spop s 3", 3),
    ("spop s", 1),
    ("spop s 2", 2),
    ("sadd s A B C D E", 5),
    ("smove s s9 A", 2),
    ("sunionstore s3 s s9", 1),
    ("sinterstore s4 s s9", 0),
    ("hset h a 1 b 2 c 3", 3),
    ("hset h a 1", 1),
    ("hmset h a 2 b 3", 2),
    ("hsetnx h z 1", 1),
    ("hincrby h n 1", 1),
    ("hincrbyfloat h n 1.5", 1),
    ("hdel h a b", 2),
    ("hexpire h 100 fields 2 c z", 2),
    ("hpersist h fields 2 c z", 1),
    ("hgetex h ex 10 fields 2 c z", 2),
    ("hgetex h persist fields 2 c z", 2),
    ("hsetex h ex 10 fields 2 c 1 d 2", 2),
    ("hsetex h fields 2 c 1 d 2", 2),
    ("hsetex h px 0 fields 1 d 2", 1),
    ("hgetdel h fields 2 c z", 2),
    ("hexpire h 0 fields 1 n", 1),
    ("zadd z 1 a 2 b 3 c", 3),
    ("zadd z 2 a 2 b", 1),
    ("zadd z ch 5 a 6 b 7 d", 3),
    ("zincrby z 1 a", 1),
    ("zrem z a b", 2),
    ("zadd z 1 a 2 b 3 c 4 d 5 e", 4),
    ("zpopmin z 2", 2),
    ("zremrangebyrank z 0 1", 2),
    ("zadd z 1 a 2 b 3 c 4 d 5 e", 4),
    ("zremrangebyscore z 1 2", 2),
    ("zrangestore z2 z 0 -1", 1),
    ("zunionstore z3 2 z z2", 1),
    ("zinterstore z3 2 z z2", 1),
    ("zdiffstore z4 2 z nokey", 1),
    ("zmpop 1 z min count 2", 2),
    ("rename l2 l3", 1),
    ("copy l3 l4", 1),
    ("move l4 1", 1),
    ("sort l store l5", 2),
    ("swapdb 0 1", 1),
    ("flushdb", 1),
    ("set a 1", 1),
    ("flushall", 13),
    ("swapdb 0 1", 1),
];

#[test]
fn changes_are_counted_as_in_redis() {
    let mut sim = Sim::new();
    for &(request, changes) in CHANGES {
        let before = sim.engine.keyspace.changes.dirty();
        sim.run(request);
        let counted = sim.engine.keyspace.changes.dirty() - before;
        assert_eq!(counted, changes, "{request}");
    }
}

/// The digests are those of Redis 8.2.3.
#[test]
fn digests_are_those_of_redis() {
    let mut sim = Sim::new();
    sim.engine.config.debug_command = Permission::Yes;
    sim.script(
        "hset h a 1 b 2 => :2
         debug digest-value h => *1 +6c8f22b3bf510fdcfd6122dd0f908a80e88243bf
         hpexpire h 100000 fields 1 a => *1 :1
         debug digest-value h => *1 +c07db73128914a41e685572f9d83e5ec946f598d
         config set hash-max-listpack-entries 1 => +OK
         hset h c 3 => :1
         debug digest-value h => *1 +1afea367beb1670bcd708789cb07a48435bd836c
         zadd z 1.1 a -inf b 1e300 c 0 d 3 e => :5
         debug digest-value z => *1 +4d19798f402a130c0c8e5ff381768da48956c188
         set s hello => +OK
         debug digest-value s => *1 +36b23a1456b2dce2c3ed252c456761301dba8060
         set s2 hello ex 100 => +OK
         debug digest-value s2 none => *2 +d037c4eb8a8b36b602fbced4000daeab0714c1e3 \
         +0000000000000000000000000000000000000000
         rpush l a b => :2
         debug digest-value l => *1 +62f55a532623cf6c3d81081db480b6fd8461eb3f
         sadd st a b 1 => :3
         debug digest-value st => *1 +e8f32bbb1ad9bf537c8867de4f19fec9e001296d
         debug digest => +687e554160888ba450809977f1c1031cd918b23b
         select 3 => +OK
         set x y => +OK
         debug digest => +e8c6d8c96abdfa99b6a7a3af2ce7d70ebe41eb2e",
    );
    // What is dead is not in them, collected or not.
    sim.clock.advance_ms(100_000);
    let dead = sim.run("debug digest");
    sim.script("select 0 => +OK\n hdel h a => :0\n del s2 => :0");
    sim.expect("debug digest", &dead);
    sim.script("config set hash-max-listpack-entries 128 => +OK\n del h => :1");
    sim.script("hset h b 2 c 3 => :2");
    sim.expect("debug digest", &dead);
}

#[test]
fn who_is_held_back_counts_as_blocked() {
    let mut sim = Sim::new();
    let (writer, popper) = (sim.connect(), sim.connect());
    sim.expect("client pause 100000 write", "+OK");
    assert_eq!(sim.run_as(writer, "set k v"), "");
    assert_eq!(sim.run_as(popper, "blpop l 1"), "");
    assert!(sim.run("info clients").contains("blocked_clients:2 "));
    sim.expect("client unpause", "+OK");
    assert_eq!(sim.received(writer), "+OK");
    assert!(sim.run("info clients").contains("blocked_clients:1 "));
}
