//! Transcripts in virtual time: what each request answers, to the millisecond.

use mayfly::config::{Config, NotifyFlags};
use mayfly::store::expire::SETTLE_MAX;

use crate::sim::{START, Sim, TempDir};

#[test]
fn a_key_lives_until_its_millisecond() {
    for set in [
        "set k v px 100",
        "psetex k 100 v",
        "set k v pxat 1700000000100",
    ] {
        let mut sim = Sim::new();
        sim.expect(set, "+OK");
        sim.script("+99\nget k=>$1 v\npttl k=>:1\nexists k=>:1\ndbsize=>:1\ntype k=>+string");
        sim.script("+1\nget k=>$-1\npttl k=>:-2\nexists k=>:0\ndbsize=>:0\ntype k=>+none");
        sim.script("+1\nget k=>$-1\nttl k=>:-2\nexpiretime k=>:-2\ndbsize=>:0\nkeys *=>*0");
    }
}

#[test]
fn every_kind_of_deadline_ends_at_its_millisecond() {
    for (request, ms) in [
        ("expire k 1", 1_000),
        ("pexpire k 1", 1),
        ("expireat k 1700000002", 2_000),
        ("pexpireat k 1700000000777", 777),
        ("getex k ex 3", 3_000),
        ("getex k px 4", 4),
        ("getex k exat 1700000001", 1_000),
        ("getex k pxat 1700000000009", 9),
    ] {
        let mut sim = Sim::new();
        sim.expect("set k v", "+OK");
        sim.run(request);
        sim.expect("pexpiretime k", &format!(":{}", START + ms));
        sim.clock.advance_ms(ms as u64 - 1);
        sim.expect("pttl k", ":1");
        sim.clock.advance_ms(1);
        sim.expect("pttl k", ":-2");
        sim.expect("get k", "$-1");
    }
}

#[test]
fn expire_checks_options_then_the_number_then_the_key() {
    Sim::new().script(
        r#"
        expire nokey abc => {value is not an integer or out of range}
        expire k abc FOO => {Unsupported option FOO}
        expire k => {wrong number of arguments for 'expire' command}
        pexpireat k => {wrong number of arguments for 'pexpireat' command}
        set k v => +OK
        expire k 1.5 => {value is not an integer or out of range}
        expire k "" => {value is not an integer or out of range}
        expire k +10 => {value is not an integer or out of range}
        expire k 010 => {value is not an integer or out of range}
        expire k 1e3 => {value is not an integer or out of range}
        expire k 9223372036854775808 => {value is not an integer or out of range}
        expire k 1 Foo => {Unsupported option Foo}
        expire k 1 nx xx => {NX and XX, GT or LT options at the same time are not compatible}
        expire k 1 nx gt => {NX and XX, GT or LT options at the same time are not compatible}
        expire k 1 lt nx => {NX and XX, GT or LT options at the same time are not compatible}
        expire k 1 gt lt => {GT and LT options at the same time are not compatible}
        expire k 9223372036854775807 => {invalid expire time in 'expire' command}
        expire k -9223372036854775808 => {invalid expire time in 'expire' command}
        expire k 9223370336854776 => {invalid expire time in 'expire' command}
        pexpire k 9223372036854775807 => {invalid expire time in 'pexpire' command}
        expireat k 9223372036854776 => {invalid expire time in 'expireat' command}
        ttl k => :-1
        expire k 9223370336854775 => :1
        pexpireat k 9223372036854775807 => :1
        pexpiretime k => :9223372036854775807
        expire nokey 10 => :0
        pexpire k -9223372036854775808 => :1
        exists k => :0
        set k v => +OK
        pexpireat k -9223372036854775808 => :1
        exists k => :0
        "#,
    );
}

#[test]
fn conditions_of_expire() {
    Sim::new().script(
        "
        set k v => +OK
        expire k 10 xx => :0
        expire k 10 gt => :0
        expire k -1 gt => :0
        expire k -1 xx => :0
        expire k 10 lt => :1
        expire k 20 nx => :0
        expire k 10 gt => :0
        expire k 10 lt => :0
        expire k 11 gt => :1
        expire k 11 xx gt => :0
        expire k 12 xx gt gt => :1
        expire k 5 xx lt => :1
        expire k -1 gt => :0
        pttl k => :5000
        expire k -1 lt => :1
        exists k => :0
        set k v => +OK
        expire k -1 nx => :1
        exists k => :0
        set k v px 5 => +OK
        +5
        expire k 10 => :0
        persist k => :0
        ",
    );
}

#[test]
fn ttl_rounds_to_the_nearest_second() {
    Sim::new().script(
        "
        set k v px 400 => +OK
        ttl k => :0
        set k v px 499 => +OK
        ttl k => :0
        set k v px 500 => +OK
        ttl k => :1
        set k v px 1001 => +OK
        ttl k => :1
        set k v px 1500 => +OK
        ttl k => :2
        pexpireat k 1700000005501 => :1
        expiretime k => :1700000006
        pexpiretime k => :1700000005501
        pexpireat k 1700000005499 => :1
        expiretime k => :1700000005
        persist k => :1
        persist k => :0
        ttl k => :-1
        expiretime k => :-1
        pexpiretime k => :-1
        ttl no => :-2
        pexpiretime no => :-2
        persist no => :0
        ",
    );
}

#[test]
fn options_of_set() {
    Sim::new().script(
        "
        set k v ex 0 => {invalid expire time in 'set' command}
        set k v px -1 => {invalid expire time in 'set' command}
        set k v exat 0 => {invalid expire time in 'set' command}
        set k v ex 9223372036854775807 => {invalid expire time in 'set' command}
        set k v px 9223372036854775807 => {invalid expire time in 'set' command}
        set k v ex abc => {value is not an integer or out of range}
        set k v ex => {syntax error}
        set k v ex 1 px 1 => {syntax error}
        set k v ex 1 keepttl => {syntax error}
        set k v keepttl ex 1 => {syntax error}
        set k v nx xx => {syntax error}
        set k v foo => {syntax error}
        exists k => :0
        set k v ex 1 ex 2 => +OK
        pttl k => :2000
        set k w get get => $1 v
        ttl k => :-1
        set k v exat 1 => +OK
        exists k => :0
        set k v => +OK
        set k w pxat 1 get => $1 v
        exists k => :0
        set k w pxat 1 nx => +OK
        set k w pxat 1 get => $-1
        setex k 0 v => {invalid expire time in 'setex' command}
        psetex k -5 v => {invalid expire time in 'psetex' command}
        setex k 9223372036854775807 v => {invalid expire time in 'setex' command}
        setex k abc v => {value is not an integer or out of range}
        set k v px 100 => +OK
        set k w nx => $-1
        set no w xx => $-1
        set k w nx get => $1 v
        setnx k w => :0
        pttl k => :100
        set k w keepttl => +OK
        pttl k => :100
        +100
        set k w xx => $-1
        set k w keepttl => +OK
        ttl k => :-1
        set n v nx get => $-1
        get n => $1 v
        ",
    );
}

#[test]
fn options_of_getex() {
    Sim::new().script(
        "
        set k v => +OK
        getex k ex 0 => {invalid expire time in 'getex' command}
        getex k exat 0 => {invalid expire time in 'getex' command}
        getex k px 9223372036854775807 => {invalid expire time in 'getex' command}
        getex k ex x => {value is not an integer or out of range}
        getex k ex 1 px 1 => {syntax error}
        getex k ex 1 persist => {syntax error}
        getex k keepttl => {syntax error}
        getex k nx => {syntax error}
        getex k => $1 v
        ttl k => :-1
        getex k px 70 => $1 v
        getex k => $1 v
        pttl k => :70
        getex k persist => $1 v
        ttl k => :-1
        getex k pxat 1 => $1 v
        exists k => :0
        getex k ex 10 => $-1
        set k v px 1 => +OK
        getdel k => $1 v
        getdel k => $-1
        ",
    );
}

#[test]
fn who_keeps_and_who_drops_the_deadline() {
    Sim::new().script(
        "
        set n 1 px 100 => +OK
        incr n => :2
        decr n => :1
        incrby n 5 => :6
        decrby n 2 => :4
        incrbyfloat n 0.5 => $3 4.5
        append n 1 => :4
        setrange n 0 9 => :4
        get n => $4 9.51
        pttl n => :100
        getset n 1 => $4 9.51
        ttl n => :-1
        pexpire n 100 => :1
        mset n 2 m 3 => +OK
        ttl n => :-1
        pexpire n 100 => :1
        msetnx n 5 q 6 => :0
        exists q => :0
        pttl n => :100
        rename n n => +OK
        pttl n => :100
        set o x px 500 => +OK
        rename n o => +OK
        pttl o => :100
        set p y => +OK
        rename p o => +OK
        ttl o => :-1
        pexpire o 50 => :1
        copy o c => :1
        pttl c => :50
        copy m c => :0
        copy m c replace => :1
        ttl c => :-1
        move o 1 => :1
        exists o => :0
        select 1 => +OK
        pttl o => :50
        swapdb 0 1 => +OK
        select 0 => +OK
        pttl o => :50
        ",
    );
}

#[test]
fn a_write_to_a_dead_key_is_a_write_to_none() {
    Sim::new().script(
        r#"
        mset z 1 => +OK
        set a 5 px 1 => +OK
        set b x px 1 => +OK
        set c x px 1 => +OK
        set d x px 1 => +OK
        set e x px 1 => +OK
        set f x px 1 => +OK
        set g x px 1 => +OK
        set h x px 1 => +OK
        +1
        incr a => :1
        ttl a => :-1
        append b yy => :2
        setrange c 2 z => :3
        get c => $3 __z
        del d => :0
        unlink d => :0
        rename e ee => {no such key}
        copy f ff => :0
        renamenx z g => :1
        ttl g => :-1
        msetnx h 1 i 2 => :1
        touch f => :0
        strlen f => :0
        "#
        .replace("__z", "\0\0z")
        .as_str(),
    );
}

#[test]
fn dbsize_counts_the_living_only() {
    let mut sim = Sim::new();
    for i in 0..1_000 {
        sim.expect(&format!("set k{i} v px {}", i + 1), "+OK");
    }
    for dead in 0..=1_000 {
        sim.expect("dbsize", &format!(":{}", 1_000 - dead));
        sim.clock.advance_ms(1);
    }
}

#[test]
fn scan_sees_what_stays_while_others_come_and_go() {
    let mut sim = Sim::new();
    for i in 0..2_000 {
        sim.expect(&format!("set stay{i} v"), "+OK");
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut other = 0;
    loop {
        let reply = sim.run(&format!("scan {cursor} count 10"));
        let words: Vec<&str> = reply.split(' ').collect();
        words[2].clone_into(&mut cursor);
        let keys = words.iter().filter(|word| word.starts_with("stay"));
        seen.extend(keys.map(|key| key.to_string()));
        for _ in 0..100 {
            if other < 20_000 {
                sim.expect(&format!("set other{other} v px 5000"), "+OK");
            } else if other < 40_000 {
                sim.expect(&format!("del other{}", other - 20_000), ":1");
            }
            other += 1;
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 2_000);
}

/// A server that reports every event but `new` and key misses.
pub fn notifying() -> Sim {
    let config = Config {
        notify_keyspace_events: NotifyFlags::parse("KEA").expect("flags"),
        ..Config::default()
    };
    Sim::with(config, 1)
}

#[test]
fn expired_is_sent_by_an_idle_server_within_18_ms() {
    for ttl in [1, 7, 50, 999, 12_345] {
        let mut sim = notifying();
        let listener = sim.connect();
        sim.run_as(listener, "subscribe __keyevent@0__:expired");
        sim.expect(&format!("set k v px {ttl}"), "+OK");
        for _ in 0..ttl - 1 {
            sim.advance(1);
            assert_eq!(sim.received(listener), "", "before the deadline");
        }
        let mut late = 0;
        while sim.received(listener).is_empty() {
            assert!(late < 19, "px {ttl}: no event 18 ms after the deadline");
            sim.advance(1);
            late += 1;
        }
    }
}

/// Expects these events of requests, as `event key` pairs.
#[track_caller]
pub fn events_of(sim: &mut Sim, requests: &[&str], expected: &str) {
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent@0__:*");
    for request in requests {
        sim.run(request);
    }
    let text = sim.received(listener);
    let words: Vec<&str> = text.split(' ').collect();
    let events: Vec<String> = words
        .chunks_exact(9)
        .map(|chunk| format!("{} {}", &chunk[6]["__keyevent@0__:".len()..], chunk[8]))
        .collect();
    assert_eq!(events.join(", "), expected, "{requests:?}");
    sim.run_as(listener, "punsubscribe");
}

#[test]
fn events_follow_what_happened() {
    let mut sim = notifying();
    events_of(&mut sim, &["set k v"], "set k");
    events_of(&mut sim, &["set k v ex 10"], "set k, expire k");
    events_of(&mut sim, &["persist k", "persist k", "get k"], "persist k");
    events_of(&mut sim, &["expire k 10"], "expire k");
    events_of(&mut sim, &["getex k persist"], "persist k");
    events_of(&mut sim, &["expire k -1"], "del k");
    sim.script("set k v px 5=>+OK\n+5");
    events_of(&mut sim, &["get k"], "expired k");
    sim.script("set k v px 5=>+OK\n+5");
    events_of(&mut sim, &["set k v"], "expired k, set k");
    events_of(&mut sim, &["rename k j"], "rename_from k, rename_to j");
    events_of(&mut sim, &["copy j i"], "copy_to i");
    events_of(&mut sim, &["getdel i", "del j"], "del i, del j");
    events_of(&mut sim, &["incr n", "append n 1"], "incrby n, append n");
}

#[test]
fn watch_notices_death_and_change() {
    let mut sim = Sim::new();
    let other = sim.connect();
    sim.script("set k v px 10=>+OK\nwatch k=>+OK\nmulti=>+OK\nget k=>+QUEUED\n+10\nexec=>*-1");
    sim.script("set k v=>+OK\nwatch k=>+OK\nmulti=>+OK\nget k=>+QUEUED");
    sim.run_as(other, "expire k 100");
    sim.expect("exec", "*-1");
    sim.script("watch k=>+OK\nunwatch=>+OK\nmulti=>+OK\nget k=>+QUEUED");
    sim.run_as(other, "set k w");
    sim.expect("exec", "*1 $1 w");
}

#[test]
fn time_stands_still_inside_exec() {
    let mut sim = Sim::new();
    sim.script("set k v px 60=>+OK\nmulti=>+OK\npttl k=>+QUEUED");
    for _ in 0..100 {
        sim.expect("get k", "+QUEUED");
    }
    sim.script("set j w px 1=>+QUEUED\nget j=>+QUEUED\npttl k=>+QUEUED");
    sim.clock.cost_us = 5_000;
    let reply = sim.run("exec");
    assert!(!reply.contains("$-1"), "{reply}");
    let words: Vec<&str> = reply.split(' ').collect();
    assert_eq!(words[1], words[words.len() - 1]);
    sim.expect("get j", "$-1");
}

#[test]
fn floats_are_added_in_decimal_as_redis_shows_them() {
    let mut sim = Sim::new();
    sim.script(
        "
        set f 0.1 => +OK
        incrbyfloat f 0.2 => $3 0.3
        set f 3e-10 => +OK
        incrbyfloat f 0 => $12 0.0000000003
        set f 5.0e3 => +OK
        incrbyfloat f 200 => $4 5200
        set f abc => +OK
        incrbyfloat f 1 => {value is not a valid float}
        set f 10 => +OK
        incrbyfloat f nan => {value is not a valid float}
        incrbyfloat f -10 => $1 0
        ",
    );
    sim.expect("set f 1.7e308", "+OK");
    let reply = sim.run("incrbyfloat f 0");
    assert!(reply.starts_with("$309 17"), "{reply}");
    assert_eq!(reply.len(), "$309 ".len() + 309);
}

#[test]
fn messages_reach_channels_and_patterns() {
    let mut sim = Sim::new();
    let (a, b) = (sim.connect(), sim.connect());
    assert_eq!(
        sim.run_as(a, "subscribe c d"),
        "*3 $9 subscribe $1 c :1 *3 $9 subscribe $1 d :2"
    );
    assert_eq!(sim.run_as(b, "psubscribe c*"), "*3 $10 psubscribe $2 c* :1");
    sim.expect("publish c hi", ":2");
    assert_eq!(sim.received(a), "*3 $7 message $1 c $2 hi");
    assert_eq!(sim.received(b), "*4 $8 pmessage $2 c* $1 c $2 hi");
    sim.expect("publish d x", ":1");
    sim.expect("publish e x", ":0");
    sim.expect("pubsub channels", "*2 $1 c $1 d");
    sim.expect("pubsub numpat", ":1");
    sim.expect("pubsub numsub c e", "*4 $1 c :1 $1 e :0");
    assert_eq!(
        sim.run_as(a, "get k"),
        "*3 $7 message $1 d $1 x -ERR Can't execute 'get': only (P|S)SUBSCRIBE / \
         (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    );
    assert_eq!(sim.run_as(a, "unsubscribe c"), "*3 $11 unsubscribe $1 c :1");
    sim.expect("publish c hi", ":1");
}

#[test]
fn getex_takes_the_same_option_twice() {
    let mut sim = Sim::new();
    sim.script("set a b=>+OK\ngetex a ex 100 ex 200=>$1 b\nttl a=>:200");
    sim.script("getex a persist persist=>$1 b\nttl a=>:-1");
    sim.script("getex a ex 100 px 200=>-ERR syntax error\ngetex a persist ex 1=>-ERR syntax error");
}

#[test]
fn http_is_closed_before_its_body_runs() {
    for first in ["POST / HTTP/1.1", "Host: x"] {
        let mut sim = Sim::new();
        let client = sim.connect();
        let request = format!("{first}\r\nSET pwn 1");
        assert_eq!(sim.run_as(client, &request), "");
        sim.expect("get pwn", "$-1");
    }
}

#[test]
fn object_and_copy_count_as_reads() {
    let mut sim = Sim::new();
    sim.script("config set notify-keyspace-events KEm=>+OK\nset k v=>+OK");
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent@*");
    for (request, hits) in [
        ("object encoding k", (1, 0)),
        ("object idletime k", (1, 0)),
        ("object refcount nokey", (0, 1)),
        ("object freq nokey", (0, 1)),
        ("copy k l", (1, 0)),
        ("copy k l", (1, 0)),
        ("copy nokey l", (0, 1)),
        ("move nokey 1", (0, 0)),
        ("renamenx k l", (0, 0)),
    ] {
        sim.expect("config resetstat", "+OK");
        sim.run(request);
        let stats = &sim.engine.keyspace.stats;
        assert_eq!((stats.hits(), stats.misses()), hits, "{request}");
        let told = sim.received(listener).contains("keymiss $5 nokey");
        let is_told = request == "copy nokey l";
        assert_eq!(told, is_told, "{request}");
    }
}

#[test]
fn what_a_transaction_cannot_do_at_once() {
    let mut sim = Sim::new();
    sim.script("multi=>+OK\nssubscribe a=>+QUEUED\nsubscribe a=>+QUEUED");
    sim.expect(
        "exec",
        "*2 -ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client *3 $9 subscribe $1 a :1",
    );
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("multi=>+OK\nbgsave=>+QUEUED\nset a b=>+QUEUED");
    sim.expect("exec", "*2 +Background saving scheduled +OK");
}

#[test]
fn a_write_inside_the_exec_that_pauses_does_not_find_the_dead() {
    for (write, reply) in [("rpush k x", ":1"), ("append k x", ":1"), ("incr k", ":1")] {
        let mut sim = Sim::new();
        sim.script("set k v px 10=>+OK\n+10\nmulti=>+OK\nclient pause 100 write=>+QUEUED");
        sim.expect(write, "+QUEUED");
        sim.expect("exec", &format!("*2 +OK {reply}"));
        sim.expect("ttl k", ":-1");
    }
}

#[test]
fn keys_that_dbsize_removes_are_not_found_by_a_read() {
    let mut sim = Sim::new();
    sim.script("set a v px 10=>+OK\nset b v px 10=>+OK\n+10\nget a=>$-1\ndbsize=>:0");
    let stats = &sim.engine.keyspace.stats;
    assert_eq!((stats.expired_lazily, stats.expired_actively), (1, 1));
}

#[test]
fn a_deadline_in_the_past_is_told_as_the_setting_says() {
    for (setting, event, expired) in [("del", "del", 0), ("expired", "expired", 5)] {
        let mut sim = notifying();
        sim.expect(&format!("config set expire-past-event {setting}"), "+OK");
        for request in [
            "expire k -1",
            "pexpire k 0",
            "expireat k 1",
            "pexpireat k 1",
            "getex k pxat 1",
        ] {
            sim.expect("set k v", "+OK");
            events_of(&mut sim, &[request, "exists k"], &format!("{event} k"));
        }
        let info = sim.run("info stats");
        assert!(
            info.contains(&format!(" expired_keys:{expired} ")),
            "{info}"
        );
        // A condition that is not met removes nothing.
        sim.expect("set k v", "+OK");
        events_of(&mut sim, &["expire k -1 xx", "expire k -1 gt"], "");
        sim.expect("exists k", ":1");
    }
}

#[test]
fn expire_with_too_few_arguments_aborts_the_transaction() {
    let mut sim = Sim::new();
    for request in ["expire k", "pexpire", "ttl", "persist k k", "pexpireat k"] {
        let command = request.split(' ').next().expect("a name");
        sim.script("set k v=>+OK\nmulti=>+OK\ndel k=>+QUEUED");
        sim.expect(
            request,
            &format!("-ERR wrong number of arguments for '{command}' command"),
        );
        sim.expect(
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        );
        sim.script("exists k=>:1\nexec=>{EXEC without MULTI}");
    }
    // What only fails when it runs fails alone.
    sim.script("multi=>+OK\nexpire k abc=>+QUEUED\nexpire k 10=>+QUEUED");
    sim.expect("exec", "*2 -ERR value is not an integer or out of range :1");
}

#[test]
fn each_class_of_events_is_told_alone() {
    let script = ["set k v", "expire k 5", "pexpire k 5", "wait", "get k"];
    for (flags, events) in [
        ("Eg", "__keyevent@0__:expire k, __keyevent@0__:expire k"),
        ("E$", "__keyevent@0__:set k"),
        ("Ex", "__keyevent@0__:expired k"),
        ("Em", "__keyevent@0__:keymiss k"),
        ("En", "__keyevent@0__:new k"),
        ("Kx", "__keyspace@0__:k expired"),
        ("KEx", "__keyspace@0__:k expired, __keyevent@0__:expired k"),
        ("K$m", "__keyspace@0__:k set, __keyspace@0__:k keymiss"),
        (
            "KA",
            "__keyspace@0__:k set, __keyspace@0__:k expire, __keyspace@0__:k expire, \
            __keyspace@0__:k expired",
        ),
        ("Exm", "__keyevent@0__:expired k, __keyevent@0__:keymiss k"),
        ("Eehlsztd", ""),
        ("g$xmn", ""),
        ("KE", ""),
        ("", ""),
    ] {
        let mut sim = Sim::new();
        sim.expect(
            &format!("config set notify-keyspace-events \"{flags}\""),
            "+OK",
        );
        let (listener, watcher) = (sim.connect(), sim.connect());
        sim.run_as(listener, "psubscribe __key*");
        // WATCH listens to other classes, which must not be told for that.
        sim.run_as(watcher, "watch other");
        for request in script {
            if request == "wait" {
                sim.clock.advance_ms(5);
            } else {
                sim.run(request);
            }
        }
        let text = sim.received(listener);
        let words: Vec<&str> = text.split(' ').collect();
        let told: Vec<String> = words
            .chunks_exact(9)
            .map(|words| format!("{} {}", words[6], words[8]))
            .collect();
        assert_eq!(told.join(", "), events, "{flags}: {text}");
    }
}

#[test]
fn dbsize_counts_the_extended_and_not_the_dead_while_nothing_is_removed() {
    let mut sim = Sim::new();
    sim.script(
        "set extended v px 10=>+OK
        pexpire extended 100000=>:1
        set dead v px 10=>+OK
        client pause 1000 write=>+OK",
    );
    sim.advance(50);
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 2);
    sim.expect("dbsize", ":1");
    sim.advance(1_000);
    // The slice that ends the pause had passed expiry when it did.
    sim.jobs();
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 1);
    sim.expect("dbsize", ":1");
}

#[test]
fn errors_quote_the_bytes_that_came() {
    let long = [b'b'; 200];
    let cases: &[(&[&[u8]], &[u8])] = &[
        (
            &[b"\xff\xfe\0abc", b"x\xffy\0z", b"a\r\nb"],
            b"unknown command '\xff\xfe', with args beginning with: 'x\xffy' 'a  b' ",
        ),
        (
            &[b"client", b"\xff\xfe\0q"],
            b"unknown subcommand '\xff\xfe'. Try CLIENT HELP.",
        ),
        (
            &[b"hello", b"3", b"\xffo\0p"],
            b"Syntax error in HELLO option '\xffo'",
        ),
        (
            &[b"expire", b"k", b"1", b"\xffab\0c"],
            b"Unsupported option \xffab",
        ),
        (
            &[b"client", b"list", b"type", b"\xff\0"],
            b"Unknown client type '\xff'",
        ),
        (
            &[b"client", b"kill", b"user", b"\xff"],
            b"No such user '\xff'",
        ),
        (
            &[b"client", b"setinfo", b"\xff", b"1"],
            b"Unrecognized option '\xff'",
        ),
        (
            &[b"config", b"set", b"\xff\0z", b"1"],
            b"Unknown option or number of arguments for CONFIG SET - '\xff'",
        ),
        (
            &[b"a", &long[..120], &long],
            &[
                b"unknown command 'a', with args beginning with: '".as_slice(),
                &long[..120],
                b"' 'bbbbb' ",
            ]
            .concat(),
        ),
    ];
    let mut sim = Sim::new();
    for (request, text) in cases {
        let reply = sim.ask(request);
        assert_eq!(reply, [b"-ERR ", *text, b"\r\n"].concat(), "{request:?}");
    }
}

#[test]
fn no_string_grows_beyond_the_setting() {
    let mut sim = Sim::new();
    let too_long = "{string exceeds maximum allowed size (proto-max-bulk-len)}";
    sim.expect("config set proto-max-bulk-len 1mb", "+OK");
    sim.script(&format!(
        "setrange k 1048574 xy=>:1048576\nappend k z=>{too_long}\nsetrange k 1048575 xy=>{too_long}
         strlen k=>:1048576"
    ));
    sim.expect("config set proto-max-bulk-len 2mb", "+OK");
    sim.expect("append k z", ":1048577");
}

#[test]
fn cluster_says_that_there_is_none() {
    let mut sim = Sim::new();
    sim.script(
        "
        cluster => {wrong number of arguments for 'cluster' command}
        cluster foo => {unknown subcommand 'foo'. Try CLUSTER HELP.}
        cluster info x => {wrong number of arguments for 'cluster|info' command}
        cluster KEYSLOT => {wrong number of arguments for 'cluster|keyslot' command}
        cluster INFO => {This instance has cluster support disabled}
        cluster addslots 1 2 3 => {This instance has cluster support disabled}
        ",
    );
    sim.expect(
        "config set hash-max-listpack-entries -1",
        "-ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - \
         argument must be greater or equal to 0",
    );
    sim.expect(
        "config set HASH-max-ziplist-ENTRIES abc",
        "-ERR CONFIG SET failed (possibly related to argument 'hash-max-ziplist-entries') - \
         argument couldn't be parsed into an integer",
    );
    sim.expect(
        "config set set-max-listpack-value 1k",
        "-ERR CONFIG SET failed (possibly related to argument 'set-max-listpack-value') - \
         argument couldn't be parsed into an integer",
    );
}

/// Of so many keys due together, INFO and DBSIZE remove all or none: with more than they may
/// remove they would have to count the rest all the same.
#[test]
fn dbsize_waits_for_no_storm() {
    let mut sim = Sim::new();
    for i in 0..=SETTLE_MAX {
        sim.run(&format!("set k{i} v px 10"));
    }
    sim.run("set a v");
    sim.clock.advance_ms(1_000);
    sim.expect("dbsize", ":1");
    assert!(sim.run("info keyspace").contains("keys=1,"));
    assert_eq!(sim.engine.keyspace.db(0).table.len(), SETTLE_MAX + 2);
    sim.run("exists k0");
    sim.expect("dbsize", ":1");
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 1);
}

/// Whatever has died and is still there, a living key is found, and if there is none that is known
/// without a look at them all.
#[test]
fn randomkey_finds_the_living_among_many_dead() {
    let mut sim = Sim::new();
    for i in 0..20_000 {
        sim.run(&format!("set k{i} v px 1000"));
    }
    sim.run("set alive v");
    sim.run("client pause 100000 write");
    // Some lie in ended buckets of the index, then in the one in progress.
    for ms in [1_000, 1] {
        sim.clock.advance_ms(ms);
        for _ in 0..20 {
            sim.expect("randomkey", "$5 alive");
        }
    }
    assert_eq!(sim.engine.keyspace.db(0).table.len(), 20_001);
    sim.run("client unpause");
    sim.expect("randomkey", "$5 alive");
    sim.expect("del alive", ":1");
    sim.expect("randomkey", "$-1");
    sim.clock.advance_ms(1_000);
    sim.expect("randomkey", "$-1");
    sim.expect("dbsize", ":0");
}

#[test]
fn errors_do_not_end_with_what_looks_like_the_end_of_a_line() {
    let mut sim = Sim::new();
    sim.expect("set k v", "+OK");
    let unsupported = |option: &str| format!("-ERR Unsupported option {option}\r\n").into_bytes();
    for (sent, quoted) in [
        (&b"x\r\n"[..], "x"),
        (b"\r\n\r\n", ""),
        (b"\r\nx", "  x"),
        (b" \n", " "),
        (b"x\n\0y", "x"),
    ] {
        assert_eq!(
            sim.ask(&[b"expire", b"k", b"10", sent]),
            unsupported(quoted)
        );
    }
}

/// As Redis 8.2.3 tells them.
#[test]
fn a_string_written_over_a_value_is_an_overwrite_whatever_becomes_of_the_ttl() {
    let mut sim = notifying();
    sim.expect("config set notify-keyspace-events KEAnoc", "+OK");
    for (request, events) in [
        ("set k v", "new k, set k"),
        ("set k v keepttl", "overwritten k, set k"),
        ("set k v xx keepttl get", "overwritten k, set k"),
        ("set k v ex 100", "overwritten k, set k, expire k"),
        ("getset k v", "overwritten k, set k"),
        ("mset k v j w", "overwritten k, set k, new j, set j"),
        ("msetex 1 k v keepttl", "overwritten k, set k"),
        ("setex k 100 v", "overwritten k, set k, expire k"),
        ("set k v keepttl nx", ""),
        ("del k j", "del k, del j"),
        ("rpush k v", "new k, rpush k"),
        ("set k v keepttl", "overwritten k, type_changed k, set k"),
        // What is computed from the old value changes it.
        ("set k 1", "overwritten k, set k"),
        ("incr k", "incrby k"),
        ("decrby k 2", "incrby k"),
        ("incrbyfloat k 1.5", "incrbyfloat k"),
        ("increx k byint 1", ""),
        ("set k 1 keepttl", "overwritten k, set k"),
        ("increx k byint 1", "incrby k"),
        ("increx k byint 1 ex 100", "incrby k, expire k"),
        ("append k 1", "append k"),
        ("setrange k 0 2", "setrange k"),
    ] {
        events_of(&mut sim, &[request], events);
    }
}

/// A field of INFO expiry.
fn expiry_info(sim: &mut Sim, name: &str) -> i64 {
    let text = sim.run("info expiry");
    let start = format!("{name}:");
    let value = text.split(' ').find_map(|line| line.strip_prefix(&start));
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}

#[track_caller]
fn expect_next(sim: &mut Sim, ms: i64) {
    assert_eq!(expiry_info(sim, "next_deadline_in_ms_min"), ms);
    assert_eq!(expiry_info(sim, "next_deadline_in_ms_max"), ms);
}

#[test]
fn the_next_deadline_is_exact_however_far_it_is() {
    let mut sim = Sim::new();
    expect_next(&mut sim, -1);
    for ttl_s in [315_360_000, 31_536_000, 90, 65, 1] {
        sim.expect(&format!("set k{ttl_s} v ex {ttl_s}"), "+OK");
        expect_next(&mut sim, ttl_s * 1_000);
    }
    // Of another database, and one that seems nearer than it is.
    sim.script("select 3=>+OK\nset near v px 500=>+OK\npexpire near 950=>:1");
    expect_next(&mut sim, 950);
    sim.script("set never v=>+OK\npersist near=>:1");
    expect_next(&mut sim, 1_000);
    sim.advance(1_000);
    expect_next(&mut sim, 64_000);
    sim.script("flushall=>+OK\nset k v px 5=>+OK");
    sim.advance(4);
    expect_next(&mut sim, 1);
    sim.advance(1);
    expect_next(&mut sim, -1);
}

#[test]
fn of_more_keys_than_are_looked_up_the_next_deadline_lies_between_two_bounds() {
    let mut sim = Sim::new();
    // All in one bucket of half a minute, if nobody looks closer.
    for i in 0..6_000 {
        sim.run(&format!("set k{i} v px {}", 1_000_000 + i));
    }
    let min = expiry_info(&mut sim, "next_deadline_in_ms_min");
    let max = expiry_info(&mut sim, "next_deadline_in_ms_max");
    assert!(min <= 1_000_000 && min > 1_000_000 - 33_000, "{min}");
    assert!((1_000_000..1_002_000).contains(&max), "{max}");
}

#[test]
fn keys_due_within_a_time_are_counted_to_the_millisecond() {
    let mut sim = Sim::new();
    let due = |sim: &mut Sim| {
        ["1s", "10s", "1min", "1h"].map(|span| expiry_info(sim, &format!("keys_due_within_{span}")))
    };
    sim.expect("set k v ex 3590", "+OK");
    assert_eq!(due(&mut sim), [0, 0, 0, 1]);
    for (ms, counts) in [
        (3_600_001, [0, 0, 0, 1]),
        (3_600_000, [0, 0, 0, 2]),
        (60_001, [0, 0, 0, 3]),
        (60_000, [0, 0, 1, 4]),
        (10_001, [0, 0, 2, 5]),
        (10_000, [0, 1, 3, 6]),
        (1_001, [0, 2, 4, 7]),
        (1_000, [1, 3, 5, 8]),
    ] {
        sim.expect(&format!("set k{ms} v px {ms}"), "+OK");
        assert_eq!(due(&mut sim), counts, "{ms}");
    }
    // A session that is used again and again.
    sim.script("select 1=>+OK\nset session v px 900=>+OK\npexpire session 30000=>:1");
    assert_eq!(due(&mut sim), [1, 3, 6, 9]);
    sim.advance(1_000);
    assert_eq!(due(&mut sim), [1, 3, 6, 9]);
}

#[test]
fn the_share_of_stale_keys_falls_to_zero_when_nothing_is_dead() {
    let mut sim = Sim::new();
    // As many changes would be saved, in the directory of whoever runs the tests.
    sim.expect("config set save \"\"", "+OK");
    for i in 0..20_000 {
        sim.run(&format!("set dying{i} v px 60000"));
    }
    for i in 0..200 {
        sim.run(&format!("set living{i} v ex 100000"));
    }
    let stale = |sim: &mut Sim| {
        let text = sim.run("info stats");
        let value = text
            .split(' ')
            .find_map(|line| line.strip_prefix("expired_stale_perc:"));
        value
            .and_then(|value| value.parse::<f64>().ok())
            .expect("a number")
    };
    sim.advance(60_008);
    assert!(stale(&mut sim) > 10.0);
    sim.expect("dbsize", ":200");
    sim.advance(20_000);
    assert_eq!(stale(&mut sim), 0.0);
}
