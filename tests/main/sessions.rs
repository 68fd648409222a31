//! What libraries for sessions send, in virtual time: connect-redis, Spring Session, and others.

use mayfly::config::{Config, NotifyFlags};
use mayfly::engine::session::Closing;

use crate::sim::Sim;

/// How late the event of an idle server may be.
const EVENT_LATE_MS_MAX: u64 = 10;

/// The keys in a reply of SCAN that ends the iteration, sorted.
#[track_caller]
fn scanned(sim: &mut Sim, request: &str) -> Vec<String> {
    let reply = sim.run(request);
    let words: Vec<&str> = reply.split(' ').collect();
    assert_eq!(words[..3], ["*2", "$1", "0"], "{request}: {reply}");
    let mut keys: Vec<String> = words
        .iter()
        .skip(5)
        .step_by(2)
        .map(|k| k.to_string())
        .collect();
    keys.sort();
    keys
}

#[test]
fn connect_redis_sets_touches_lists_and_destroys() {
    let mut sim = Sim::new();
    sim.script(
        r#"
        set sess:a '{"cookie":{},"user":"alice"}' EX 86400 => +OK
        set sess:b '{"cookie":{},"user":"bob"}' EX 60 => +OK
        set other v => +OK
        get sess:a => $28 {"cookie":{},"user":"alice"}
        get sess:no => $-1
        +59999
        expire sess:b 60 => :1
        expire sess:no 60 => :0
        +59999
        pttl sess:b => :1
        pttl sess:a => :86280002
        "#,
    );
    let scan = "scan 0 MATCH sess:* COUNT 100";
    assert_eq!(scanned(&mut sim, scan), ["sess:a", "sess:b"]);
    sim.script(
        r#"
        mget sess:b sess:a => *2 $26 {"cookie":{},"user":"bob"} $28 {"cookie":{},"user":"alice"}
        +1
        get sess:b => $-1
        mget sess:b sess:a => *2 $-1 $28 {"cookie":{},"user":"alice"}
        expire sess:b 60 => :0
        "#,
    );
    assert_eq!(scanned(&mut sim, scan), ["sess:a"]);
    sim.script("del sess:a=>:1\ndel sess:a=>:0\ndbsize=>:1");
    assert!(scanned(&mut sim, scan).is_empty());
}

/// A server as Spring Session configures it, and a listener of the deaths of sessions.
fn spring() -> (Sim, mayfly::engine::session::SessionKey) {
    let mut sim = Sim::new();
    sim.script("config set notify-keyspace-events Egx=>+OK");
    sim.script("config get notify-keyspace-events=>*2 $22 notify-keyspace-events $3 gxE");
    let listener = sim.connect();
    sim.run_as(
        listener,
        "psubscribe __keyevent@*__:del __keyevent@*__:expired spring:session:event:0:created:*",
    );
    (sim, listener)
}

/// A session is three keys: its data, which outlive it by five minutes so that they can be read
/// when it ends; an empty key that ends with it; a mark in the set of the minute in which it ends.
const SPRING_CREATES: &str = r#"
    hmset s:1 creationTime 1700000000000 maxInactiveInterval 1800 sessionAttr:user alice => +OK
    sadd index:alice 1 => :1
    sadd expirations:1700001840000 expires:1 => :1
    expire expirations:1700001840000 2100 => :1
    append s:expires:1 "" => :0
    expire s:expires:1 1800 => :1
    expire s:1 2100 => :1
    publish spring:session:event:0:created:1 x => :1
"#;

#[test]
fn spring_session_learns_of_the_end_at_the_deadline() {
    let (mut sim, listener) = spring();
    sim.script(SPRING_CREATES);
    assert_eq!(
        sim.received(listener),
        "*4 $8 pmessage $32 spring:session:event:0:created:* \
         $32 spring:session:event:0:created:1 $1 x"
    );
    sim.script("get s:expires:1=>$0 \nttl s:expires:1=>:1800\nexists s:expires:1=>:1");

    sim.advance(1_799_999);
    sim.jobs();
    assert_eq!(sim.received(listener), "", "a millisecond before");
    sim.script("exists s:expires:1=>:1");
    let mut late_ms = 0;
    let event = loop {
        sim.advance(1);
        let event = sim.received(listener);
        if !event.is_empty() {
            break event;
        }
        assert!(late_ms < EVENT_LATE_MS_MAX, "no event");
        late_ms += 1;
    };
    assert_eq!(
        event,
        "*4 $8 pmessage $22 __keyevent@*__:expired $22 __keyevent@0__:expired $11 s:expires:1"
    );
    // The data are still there, for five minutes.
    sim.script(
        "
        hget s:1 sessionAttr:user => $5 alice
        smembers expirations:1700001840000 => *1 $9 expires:1
        srem index:alice 1 => :1
        del s:1 => :1
        ",
    );
    assert!(
        sim.received(listener)
            .ends_with("__keyevent@0__:del $3 s:1")
    );
}

#[test]
fn spring_session_learns_of_the_end_when_its_own_clock_touches_the_key() {
    let (mut sim, listener) = spring();
    sim.script(SPRING_CREATES);
    sim.received(listener);
    sim.script("+1799999\nexists s:expires:1=>:1");
    assert_eq!(sim.received(listener), "");
    sim.script("+1\nexists s:expires:1=>:0");
    let event = sim.received(listener);
    assert!(
        event.ends_with("__keyevent@0__:expired $11 s:expires:1"),
        "{event}"
    );
    sim.script("exists s:expires:1=>:0\ndel expirations:1700001840000=>:1");
    assert!(!sim.received(listener).contains("expired"), "only once");
}

#[test]
fn spring_session_prolongs_and_ends_a_session() {
    let (mut sim, listener) = spring();
    sim.script(SPRING_CREATES);
    sim.received(listener);
    sim.script(
        r#"
        +1000000
        hmset s:1 lastAccessedTime 1700001000000 => +OK
        srem expirations:1700001840000 expires:1 => :1
        sadd expirations:1700002860000 expires:1 => :1
        expire expirations:1700002860000 2100 => :1
        append s:expires:1 "" => :0
        expire s:expires:1 1800 => :1
        expire s:1 2100 => :1
        "#,
    );
    let event = sim.received(listener);
    assert!(
        event.ends_with("__keyevent@0__:del $25 expirations:1700001840000"),
        "{event}"
    );
    sim.advance(1_799_999);
    sim.jobs();
    assert_eq!(sim.received(listener), "", "it was prolonged");
    sim.script("exists s:expires:1 s:1=>:2\nexists expirations:1700001840000=>:0");
    sim.script("del s:expires:1=>:1");
    let event = sim.received(listener);
    assert!(
        event.ends_with("__keyevent@0__:del $11 s:expires:1"),
        "{event}"
    );
    sim.advance(10_000_000);
    sim.jobs();
    let events = sim.received(listener);
    assert!(!events.contains("s:expires:1"), "it ended before: {events}");
}

#[test]
fn a_session_slides_with_every_look_and_moves_with_its_deadline() {
    Sim::new().script(
        "
        set sess:old data px 1000 nx => +OK
        +999
        getex sess:old px 1000 => $4 data
        +999
        set sess:old more xx keepttl => +OK
        rename sess:old sess:new => +OK
        pttl sess:new => :1
        set sess:old data xx keepttl => $-1
        +1
        getex sess:new px 1000 => $-1
        set sess:new data xx px 1000 => $-1
        dbsize => :0
        ",
    );
}

#[test]
fn a_lock_around_a_session_ends_by_itself() {
    let config = Config {
        notify_keyspace_events: NotifyFlags::parse("Ex").expect("flags"),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    let other = sim.connect();
    sim.script("set sess:a:lock token-1 NX PX 5000=>+OK");
    assert_eq!(
        sim.run_as(other, "set sess:a:lock token-2 NX PX 5000"),
        "$-1"
    );
    sim.script("+4999");
    assert_eq!(
        sim.run_as(other, "set sess:a:lock token-2 NX PX 5000"),
        "$-1"
    );
    sim.script("+1");
    assert_eq!(
        sim.run_as(other, "set sess:a:lock token-2 NX PX 5000"),
        "+OK"
    );
    // The first holder deletes by its token, so that it does not take the lock of the other.
    sim.script("delex sess:a:lock IFEQ token-1=>:0\nget sess:a:lock=>$7 token-2");
    assert_eq!(sim.run_as(other, "delex sess:a:lock IFEQ token-2"), ":1");
}

/// As Redis 8.2.3 answers.
#[test]
fn numbers_of_databases_beyond_32_bits_are_refused_as_such() {
    let mut sim = Sim::new();
    sim.expect("set k v", "+OK");
    let out_of_range = "ERR value is out of range, value must between -2147483648 and 2147483647";
    for request in ["move k", "move nope", "select", "copy k j db"] {
        for (number, error) in [
            ("99999999999", out_of_range),
            ("-2147483649", out_of_range),
            ("2147483647", "ERR DB index is out of range"),
            ("-1", "ERR DB index is out of range"),
            (
                "99999999999999999999",
                "ERR value is not an integer or out of range",
            ),
        ] {
            sim.expect(&format!("{request} {number}"), &format!("-{error}"));
        }
    }
    sim.script("swapdb 0 99999999999=>{invalid second DB index}");
}

#[test]
fn client_setinfo_quotes_the_attribute_as_it_was_sent() {
    let mut sim = Sim::new();
    for attribute in ["LIB-NAME", "lib-name", "Lib-Ver"] {
        let reply = sim.ask(&[b"client", b"setinfo", attribute.as_bytes(), b"a b"]);
        let text = "cannot contain spaces, newlines or special characters.";
        let expected = format!("-ERR {attribute} {text}\r\n");
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }
    sim.expect("client getredir", ":-1");
}

#[test]
fn a_client_that_wants_no_replies_is_not_told_of_a_broken_protocol() {
    for (before, error) in [
        ("client reply off", ""),
        ("client reply skip", ""),
        (
            "client reply skip\r\nping",
            "-ERR Protocol error: invalid multibulk length",
        ),
    ] {
        let mut sim = Sim::new();
        let client = sim.connect();
        let reply = sim.run_as(client, &format!("{before}\r\n*x"));
        assert_eq!(reply, error, "{before}");
        assert_eq!(sim.engine.sessions[client].closing, Closing::AfterReply);
    }
}
