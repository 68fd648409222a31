//! The `redis` crate, which Rust's programs use, against the running binary in both protocols.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::channel;
use std::time::Duration;

use redis::{
    Client, Commands, Connection, Direction, ErrorKind, ExpireOption, Expiry, PushKind,
    RedisResult, Script, SetExpiry, SetOptions, Value, pipe, transaction,
};

use crate::process::{DEADLINE_MS, Server, wait_for};
use crate::sim::TempDir;

/// A server and what connects to it.
struct Rig {
    server: Server,
    _dir: TempDir,
}

impl Rig {
    fn new() -> Rig {
        let dir = TempDir::new();
        let server = Server::start(&dir);
        Rig { server, _dir: dir }
    }

    fn connect(&self, protocol: &str) -> Connection {
        let socket = self.server.socket.display();
        let client = Client::open(format!("unix://{socket}?protocol={protocol}"));
        let connection = client.expect("an address").get_connection();
        let connection = connection.expect("a connection");
        let timeout = Some(Duration::from_millis(DEADLINE_MS));
        connection.set_read_timeout(timeout).expect("a timeout");
        connection
    }
}

/// Runs a test in both protocols, each time with a server of its own.
fn in_both(test: impl Fn(&Rig, &mut Connection)) {
    for protocol in ["resp2", "resp3"] {
        let rig = Rig::new();
        let mut connection = rig.connect(protocol);
        test(&rig, &mut connection);
    }
}

#[test]
fn the_crate_reads_and_writes_strings_and_deadlines() {
    in_both(|_, c| strings(c).expect("no error"));
}

fn strings(c: &mut Connection) -> RedisResult<()> {
    let () = c.set("k", 42)?;
    assert_eq!(c.get::<_, i64>("k")?, 42);
    assert_eq!(c.get::<_, Option<String>>("no")?, None);
    assert_eq!(c.ttl::<_, i64>("k")?, -1);
    let () = c.set_ex("k", "v", 100)?;
    assert_eq!(c.ttl::<_, i64>("k")?, 100);
    let options = SetOptions::default().with_expiration(SetExpiry::PXAT(4_000_000_000_123));
    let () = c.set_options("k", "w", options)?;
    assert_eq!(c.pexpire_time::<_, i64>("k")?, 4_000_000_000_123);
    let value: Option<String> = c.get_ex("k", Expiry::EX(50))?;
    assert_eq!(value.as_deref(), Some("w"));
    assert_eq!(c.ttl::<_, i64>("k")?, 50);
    assert!(c.persist::<_, bool>("k")?);
    assert!(!c.persist::<_, bool>("k")?);
    assert!(c.expire::<_, bool>("k", 10)?);
    assert!(c.expire_at::<_, bool>("k", 4_000_000_000)?);
    assert_eq!(c.expire_time::<_, i64>("k")?, 4_000_000_000);
    let mut nx = redis::cmd("EXPIRE");
    nx.arg("k").arg(5).arg(ExpireOption::NX);
    assert!(!nx.query::<bool>(c)?);
    assert!(!c.set_nx::<_, _, bool>("k", "x")?);
    assert_eq!(c.get_del::<_, Option<String>>("k")?.as_deref(), Some("w"));
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let () = c.set(&bytes[..300], &bytes)?;
    assert_eq!(c.get::<_, Vec<u8>>(&bytes[..300])?, bytes);
    assert_eq!(c.incr::<_, _, i64>("n", 5)?, 5);
    assert_eq!(c.incr::<_, _, f64>("n", 0.5)?, 5.5);
    let () = c.mset(&[("a", 1), ("b", 2)])?;
    let many: Vec<Option<i64>> = c.mget(&["a", "no", "b"])?;
    assert_eq!(many, [Some(1), None, Some(2)]);
    assert_eq!(c.del::<_, i64>(&["a", "b", "no"])?, 2);
    Ok(())
}

#[test]
fn the_crate_reads_and_writes_collections() {
    in_both(|_, c| collections(c).expect("no error"));
}

fn collections(c: &mut Connection) -> RedisResult<()> {
    let () = c.hset_multiple("h", &[("f", 1), ("g", 2)])?;
    let hash: HashMap<String, i64> = c.hgetall("h")?;
    assert_eq!(hash, HashMap::from([("f".into(), 1), ("g".into(), 2)]));
    assert_eq!(c.hincr::<_, _, _, i64>("h", "f", 4)?, 5);
    let fields: Vec<Option<i64>> = c.hmget("h", &["f", "no"])?;
    assert_eq!(fields, [Some(5), None]);
    assert!(c.hdel::<_, _, bool>("h", "f")?);

    assert_eq!(c.rpush::<_, _, i64>("l", &["a", "b", "c", "d"])?, 4);
    assert_eq!(c.lrange::<_, Vec<String>>("l", 1, -2)?, ["b", "c"]);
    let moved: String = c.lmove("l", "m", Direction::Left, Direction::Right)?;
    assert_eq!(moved, "a");
    assert_eq!(
        c.rpop::<_, Vec<String>>("l", 2.try_into().ok())?,
        ["d", "c"]
    );

    assert_eq!(c.sadd::<_, _, i64>("s", &[1, 2, 3])?, 3);
    let members: BTreeSet<i64> = c.smembers("s")?;
    assert_eq!(members, BTreeSet::from([1, 2, 3]));
    assert!(c.sismember::<_, _, bool>("s", 2)?);

    let scores = [(1.0, "a"), (2.5, "b"), (f64::INFINITY, "c")];
    assert_eq!(c.zadd_multiple::<_, _, _, i64>("z", &scores)?, 3);
    let all: Vec<(String, f64)> = c.zrange_withscores("z", 0, -1)?;
    let expected = scores.map(|(score, member)| (member.to_owned(), score));
    assert_eq!(all, expected);
    assert_eq!(c.zscore::<_, _, Option<f64>>("z", "b")?, Some(2.5));
    assert_eq!(c.zscore::<_, _, Option<f64>>("z", "no")?, None);
    let low: Vec<String> = c.zrangebyscore("z", "-inf", "(2.5")?;
    assert_eq!(low, ["a"]);
    let popped: Vec<(String, f64)> = c.zpopmax("z", 2)?;
    assert_eq!(popped, [("c".into(), f64::INFINITY), ("b".into(), 2.5)]);
    assert_eq!(c.zincr::<_, _, _, f64>("z", "a", 0.25)?, 1.25);

    let error = c.get::<_, String>("z").expect_err("a sorted set");
    assert_eq!(error.code(), Some("WRONGTYPE"));
    Ok(())
}

#[test]
fn the_crate_iterates_over_keys_and_members() {
    in_both(|_, c| {
        for i in 0..1_000 {
            let () = c.set_ex(format!("key:{i}"), i, 1_000).expect("no error");
        }
        let () = c
            .sadd("set", (0..3_000).collect::<Vec<i64>>())
            .expect("no error");
        let keys = c.scan_match::<_, String>("key:*").expect("no error");
        let keys: BTreeSet<String> = keys.map(|key| key.expect("a key")).collect();
        assert_eq!(keys.len(), 1_000);
        let members = c.sscan::<_, i64>("set").expect("no error");
        let members: BTreeSet<i64> = members.map(|member| member.expect("a member")).collect();
        assert!(members.into_iter().eq(0..3_000));
    });
}

#[test]
fn the_crate_sends_pipelines_and_transactions() {
    in_both(|rig, c| batches(rig, c).expect("no error"));
}

fn batches(rig: &Rig, c: &mut Connection) -> RedisResult<()> {
    let mut many = pipe();
    for i in 0..2_000 {
        many.set(format!("k{i}"), i).ignore().get(format!("k{i}"));
    }
    let values: Vec<i64> = many.query(c)?;
    assert!(values.into_iter().eq(0..2_000));

    let mut atomic = pipe();
    atomic.atomic().set("a", 1).ignore().incr("a", 4).ttl("a");
    assert_eq!(atomic.query::<(i64, i64)>(c)?, (5, -1));
    let mut bad = pipe();
    bad.atomic().set("a", 9).cmd("NOSUCH");
    let error = bad.query::<()>(c).expect_err("an unknown command");
    assert!(error.to_string().contains("unknown command"), "{error}");
    assert_eq!(c.get::<_, i64>("a")?, 5);

    // Another client is faster once: the transaction is tried again.
    let mut other = rig.connect("resp3");
    let mut tries = 0;
    let (sum,): (i64,) = transaction(c, &["a"], |c, pipe| {
        tries += 1;
        let old: i64 = c.get("a")?;
        if tries == 1 {
            let () = other.set("a", 100)?;
        }
        pipe.set("a", old + 1).ignore().get("a").query(c)
    })?;
    assert_eq!((sum, tries), (101, 2));
    Ok(())
}

#[test]
fn the_crate_runs_scripts() {
    in_both(|rig, c| scripts(rig, c).expect("no error"));
}

/// What a code is worth, which can be used once; nothing if it is another.
const SPEND: &str = r"
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
    redis.call('DEL', KEYS[1])
    return {redis.call('INCRBY', KEYS[2], ARGV[2]), {'spent', redis.call('TTL', KEYS[1])}}
";

fn scripts(rig: &Rig, c: &mut Connection) -> RedisResult<()> {
    type Spent = Option<(i64, (String, i64))>;
    let script = Script::new(SPEND);
    let mut spend = script.prepare_invoke();
    spend.key("code").key("sum").arg("493817").arg(5);
    let () = c.set("code", "another")?;
    assert_eq!(spend.invoke::<Spent>(c)?, None);
    let () = c.set("code", "493817")?;
    let spent = Some((5, ("spent".to_owned(), -2)));
    assert_eq!(spend.invoke::<Spent>(c)?, spent);
    assert_eq!(spend.invoke::<Spent>(c)?, None);

    // The server has forgotten the script: the crate loads it again.
    let () = redis::cmd("SCRIPT").arg("FLUSH").query(c)?;
    let () = c.set("code", "493817")?;
    let spent = Some((10, ("spent".to_owned(), -2)));
    assert_eq!(spend.invoke::<Spent>(c)?, spent);
    assert_eq!(script.load(c)?, script.get_hash());

    // In a pipeline it has to be loaded before.
    let mut many = pipe();
    many.set("code", 1).ignore();
    many.invoke_script(script.key("code").key("sum").arg(1).arg(2));
    many.get("sum");
    let (spent, sum): (Spent, i64) = many.query(c)?;
    assert_eq!((spent.map(|(sum, _)| sum), sum), (Some(12), 12));

    let wrong = Script::new("return redis.call('INCR', KEYS[1])");
    let () = rig.connect("resp2").rpush("list", 1)?;
    let error = wrong.key("list").invoke::<i64>(c).expect_err("a list");
    assert_eq!(error.code(), Some("WRONGTYPE"));
    let error = Script::new("return nosuch").invoke::<i64>(c);
    let error = error.expect_err("an unknown name");
    assert!(error.to_string().contains("nosuch"), "{error}");
    Ok(())
}

#[test]
fn the_crate_waits_for_elements() {
    in_both(|rig, c| {
        let nothing: Option<(String, String)> = c.blpop("queue", 0.02).expect("no error");
        assert_eq!(nothing, None);
        let mut other = rig.connect("resp3");
        let pusher = std::thread::spawn(move || {
            wait_for("a client that waits", || {
                let info: String = redis::cmd("INFO").arg("clients").query(&mut other).ok()?;
                info.contains("blocked_clients:1\r").then_some(())
            });
            let () = other.zadd("delayed", "job", 1.5).expect("no error");
        });
        let popped: Option<(String, String, f64)> = c.bzpopmin("delayed", 30.0).expect("no error");
        assert_eq!(popped, Some(("delayed".into(), "job".into(), 1.5)));
        pusher.join().expect("the other client");
    });
}

#[test]
fn the_crate_hears_messages_and_of_keys_that_expire() {
    let rig = Rig::new();
    let mut c = rig.connect("resp2");
    let mut subscriber = rig.connect("resp2");
    let mut pubsub = subscriber.as_pubsub();
    pubsub.subscribe("news").expect("subscribed");
    pubsub
        .psubscribe("__keyevent@*__:expired")
        .expect("subscribed");
    assert_eq!(
        c.publish::<_, _, i64>("news", "hello").expect("no error"),
        1
    );
    let message = pubsub.get_message().expect("a message");
    assert_eq!(message.get_channel_name(), "news");
    assert_eq!(message.get_payload::<String>().expect("text"), "hello");

    let mut notify = redis::cmd("CONFIG");
    notify.arg("SET").arg("notify-keyspace-events").arg("Ex");
    let () = notify.query(&mut c).expect("no error");
    let () = c.pset_ex("k", "v", 20).expect("no error");
    let message = pubsub.get_message().expect("an event");
    assert_eq!(message.get_channel_name(), "__keyevent@0__:expired");
    assert_eq!(message.get_payload::<String>().expect("text"), "k");
    assert!(message.from_pattern());
}

#[test]
fn the_crate_hears_messages_between_replies() {
    let rig = Rig::new();
    let mut c = rig.connect("resp3");
    let (sender, receiver) = channel();
    c.set_push_sender(sender);
    c.subscribe_resp3("news").expect("subscribed");
    let () = rig
        .connect("resp3")
        .publish("news", "hello")
        .expect("no error");
    assert_eq!(
        c.set::<_, _, Value>("k", "v").expect("no error"),
        Value::Okay
    );
    let kinds: Vec<PushKind> = receiver.try_iter().map(|push| push.kind).collect();
    assert_eq!(kinds, [PushKind::Subscribe, PushKind::Message]);
    let error = c.incr::<_, _, i64>("k", 1).expect_err("no number");
    assert!(matches!(error.kind(), ErrorKind::Server(_)), "{error:?}");
}
