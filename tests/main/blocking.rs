//! Clients that wait for a list: who is served when, with what, and what ends the wait.

use std::io::Write;

use mayfly::config::{Config, NotifyFlags};
use mayfly::engine::session::{Closing, SessionKey};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::process::{Server, ask, info, wait_for};
use crate::sim::{Sim, TempDir};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const UNBLOCKED: &str = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// A server whose clients past the first wait, each with one of the requests.
fn waiting<const N: usize>(requests: [&str; N]) -> (Sim, [SessionKey; N]) {
    let mut sim = Sim::new();
    let clients = requests.map(|request| {
        let client = sim.connect();
        wait(&mut sim, client, request);
        client
    });
    (sim, clients)
}

/// A request that is not answered.
#[track_caller]
fn wait(sim: &mut Sim, client: SessionKey, request: &str) {
    assert_eq!(sim.run_as(client, request), "", "{request}");
    assert!(sim.engine.sessions[client].blocked.is_some(), "{request}");
}

#[track_caller]
fn expect_nobody_waits(sim: &Sim) {
    let blocking = &sim.engine.blocking;
    assert_eq!(
        (blocking.len(), blocking.keys(), blocking.timeouts()),
        (0, 0, 0)
    );
}

#[track_caller]
fn expect_received(sim: &mut Sim, client: SessionKey, reply: &str) {
    assert_eq!(sim.received(client), reply);
}

/// One after another, what each of the clients has been sent.
fn received<const N: usize>(sim: &mut Sim, clients: [SessionKey; N]) -> [String; N] {
    clients.map(|client| sim.received(client))
}

#[test]
fn who_came_first_is_served_first() {
    let (mut sim, clients) = waiting(["blpop k 0", "brpop k 0", "blpop k 0"]);
    let info = sim.run("info clients");
    assert!(info.contains(" blocked_clients:3 "), "{info}");
    assert!(info.contains(" total_blocking_keys:1"), "{info}");
    for (i, value) in ["x", "y", "z"].into_iter().enumerate() {
        sim.expect(&format!("rpush k {value}"), ":1");
        for (j, client) in clients.into_iter().enumerate() {
            let reply = format!("*2 $1 k $1 {value}");
            expect_received(&mut sim, client, if i == j { &reply } else { "" });
        }
    }
    expect_nobody_waits(&sim);
    sim.script("exists k=>:0\nrpush k w=>:1\nllen k=>:1");
}

#[test]
fn one_push_serves_several() {
    let (mut sim, clients) = waiting(["blpop k 0", "brpop k 0", "blmpop 0 1 k left count 2"]);
    sim.expect("rpush k 1 2 3 4 5", ":5");
    let replies = ["*2 $1 k $1 1", "*2 $1 k $1 5", "*2 $1 k *2 $1 2 $1 3"];
    assert_eq!(received(&mut sim, clients), replies);
    sim.expect("lrange k 0 -1", "*1 $1 4");

    let (mut sim, clients) = waiting(["blpop k 0", "blpop k 0", "blpop k 0"]);
    sim.expect("lpush k a b", ":2");
    assert_eq!(
        received(&mut sim, clients),
        ["*2 $1 k $1 b", "*2 $1 k $1 a", ""]
    );
    sim.expect("exists k", ":0");
    sim.expect("lpush k c", ":1");
    expect_received(&mut sim, clients[2], "*2 $1 k $1 c");
    expect_nobody_waits(&sim);
}

#[test]
fn several_keys_in_one_command() {
    let (mut sim, [a, b]) = waiting(["blpop x y z y 0", "brpop z x 0"]);
    assert_eq!(sim.engine.blocking.keys(), 3);
    sim.expect("rpush y 1", ":1");
    expect_received(&mut sim, a, "*2 $1 y $1 1");
    assert_eq!(sim.engine.blocking.keys(), 2);
    sim.expect("rpush x 1 2", ":2");
    expect_received(&mut sim, b, "*2 $1 x $1 2");
    expect_nobody_waits(&sim);
    // With several lists at once it is the order of the command's keys that counts.
    wait(&mut sim, a, "blpop p q 0");
    sim.script(
        "multi=>+OK\nrpush q 1=>+QUEUED\nrpush p 2=>+QUEUED\nexec=>*2 :1 :1
        exists p=>:0\nlrange q 0 -1=>*1 $1 1",
    );
    expect_received(&mut sim, a, "*2 $1 p $1 2");
}

#[test]
fn what_one_takes_is_put_where_another_waits() {
    let (mut sim, clients) = waiting([
        "blpop d 0",
        "blmove c d left left 0",
        "brpoplpush b c 0",
        "blmove a b right left 0",
    ]);
    sim.expect("rpush a 1", ":1");
    let replies = ["*2 $1 d $1 1", "$1 1", "$1 1", "$1 1"];
    assert_eq!(received(&mut sim, clients), replies);
    expect_nobody_waits(&sim);
    sim.expect("dbsize", ":0");
}

#[test]
fn moves_in_a_circle_end() {
    let (mut sim, clients) = waiting([
        "blmove a b left left 0",
        "blmove b a left left 0",
        "blmove a a left right 0",
        "blmove a a left right 0",
    ]);
    sim.expect("rpush a 1 2", ":2");
    assert_eq!(
        received(&mut sim, clients),
        ["$1 1", "$1 1", "$1 2", "$1 2"]
    );
    sim.script("lrange a 0 -1=>*2 $1 1 $1 2\nexists b=>:0");
    expect_nobody_waits(&sim);
}

#[test]
fn a_destination_of_another_type_is_an_error_and_loses_nothing() {
    let (mut sim, [a, b]) = waiting(["blmove k s left left 0", "blpop k 0"]);
    sim.script("set s x=>+OK\nrpush k 1=>:1");
    expect_received(&mut sim, a, WRONG_TYPE);
    expect_received(&mut sim, b, "*2 $1 k $1 1");
    // As is an earlier key of another type.
    wait(&mut sim, a, "blpop p k 0");
    sim.script("set p x=>+OK\nrpush k 2=>:1");
    expect_received(&mut sim, a, WRONG_TYPE);
    sim.expect("lrange k 0 -1", "*1 $1 2");
    expect_nobody_waits(&sim);
}

#[test]
fn timeouts_end_at_their_millisecond() {
    for (timeout, ms) in [
        ("0.001", 1),
        ("0.0001", 1),
        ("1e-300", 1),
        ("1e-400", 1),
        ("0.1", 100),
        ("4.035", 4_035),
        ("4.0351", 4_036),
        ("2", 2_000),
        ("0x1p-1", 500),
        ("1e3", 1_000_000),
    ] {
        for request in [
            "blpop k",
            "brpop j k",
            "blmove k l left left",
            "brpoplpush k l",
        ] {
            let (mut sim, [a]) = waiting([&format!("{request} {timeout}")]);
            assert_eq!(sim.engine.next_wakeup_ms(), Some(ms.min(100)));
            sim.advance(ms - 1);
            expect_received(&mut sim, a, "");
            sim.advance(1);
            expect_received(&mut sim, a, "*-1");
            expect_nobody_waits(&sim);
            assert_eq!(sim.run_as(a, "ping"), "+PONG");
            sim.script("rpush k x=>:1\nllen k=>:1");
        }
    }
    for timeout in ["0", "-0.0001", "-0", "0e5", "-1e-400"] {
        let (mut sim, [a]) = waiting([&format!("blmpop {timeout} 1 k left")]);
        sim.advance(1_000_000_000_000);
        expect_received(&mut sim, a, "");
        sim.expect("rpush k x", ":1");
        expect_received(&mut sim, a, "*2 $1 k *1 $1 x");
    }
}

#[test]
fn a_timeout_is_never_early_by_a_part_of_a_millisecond() {
    let mut sim = Sim::new();
    let a = sim.connect();
    sim.clock.advance_us(900);
    wait(&mut sim, a, "blpop k 0.010");
    sim.clock.advance_us(9_999);
    sim.jobs();
    expect_received(&mut sim, a, "");
    assert_eq!(sim.engine.next_timeout_ms(), Some(1));
    sim.clock.advance_us(1);
    sim.jobs();
    expect_received(&mut sim, a, "*-1");
}

#[test]
fn timeouts_that_are_none() {
    let not_a_float = "-ERR timeout is not a float or out of range";
    let negative = "-ERR timeout is negative";
    let out_of_range = "-ERR timeout is out of range";
    let mut sim = Sim::new();
    for (timeout, error) in [
        ("abc", not_a_float),
        ("\"\"", not_a_float),
        ("\" 1\"", not_a_float),
        ("0x", not_a_float),
        ("nan", not_a_float),
        ("1e-4960", not_a_float),
        ("-1", negative),
        ("-0.0011", negative),
        ("-inf", negative),
        ("inf", out_of_range),
        ("1e400", out_of_range),
        ("9223372036854775807", out_of_range),
        ("9223372036854775", out_of_range),
        ("9223372036854774", out_of_range),
    ] {
        for request in [
            format!("blpop k {timeout}"),
            format!("brpop k j {timeout}"),
            format!("blmove k l left right {timeout}"),
            format!("brpoplpush k l {timeout}"),
            format!("blmpop {timeout} 1 k left"),
        ] {
            sim.expect(&request, error);
        }
    }
    sim.script(
        "
        set s x => +OK
        blpop s abc => {timeout is not a float or out of range}
        blmove s l up right abc => {syntax error}
        blmove s l left right -1 => {timeout is negative}
        blmpop x 0 s left => {numkeys should be greater than 0}
        blmpop x 1 s up => {syntax error}
        blmpop x 1 s left count 0 => {count should be greater than 0}
        blmpop x 1 s left count 1 count 1 => {syntax error}
        blmpop x 2 s left => {syntax error}
        blmpop -1 1 s left => {timeout is negative}
        blpop k => {wrong number of arguments for 'blpop' command}
        ",
    );
    sim.expect("blpop k s 0", WRONG_TYPE);
    expect_nobody_waits(&sim);
}

#[test]
fn those_who_give_up_together_do_so_in_order_and_late_comers_stay() {
    let mut sim = Sim::new();
    let listener = sim.connect();
    let clients: Vec<SessionKey> = (0..4).map(|_| sim.connect()).collect();
    // The later a client connected, the earlier it waits.
    for &client in clients.iter().rev() {
        wait(&mut sim, client, "blpop k 1");
    }
    sim.advance(500);
    wait(&mut sim, listener, "blpop k 1");
    sim.advance(499);
    assert_eq!(sim.engine.blocking.len(), 5);
    for client in sim.engine.unflushed.split_off(0) {
        sim.engine.sessions[client].is_unflushed = false;
    }
    sim.advance(1);
    assert_eq!(sim.engine.blocking.len(), 1);
    let order: Vec<SessionKey> = sim.engine.unflushed.iter().rev().copied().collect();
    assert_eq!(order, clients);
    sim.expect("rpush k x", ":1");
    expect_received(&mut sim, listener, "*2 $1 k $1 x");
}

#[test]
fn trying_in_vain_costs_neither_place_nor_time() {
    let (mut sim, [a, b]) = waiting(["blpop k 0.100", "blpop k 0.100"]);
    sim.advance(60);
    // Pushed and taken at once: there was nothing for them.
    sim.script("multi=>+OK\nrpush k x=>+QUEUED\nlpop k=>+QUEUED\nexec=>*2 :1 $1 x");
    sim.script("set k x=>+OK\ndel k=>:1");
    sim.expect("rpush k y", ":1");
    expect_received(&mut sim, a, "*2 $1 k $1 y");
    sim.advance(39);
    expect_received(&mut sim, b, "");
    sim.advance(1);
    expect_received(&mut sim, b, "*-1");
}

/// There are no replicas that could acknowledge anything.
#[test]
fn wait_waits_for_replicas_as_long_as_it_is_told() {
    let mut sim = Sim::new();
    let client = sim.connect();
    for request in ["wait 0 0", "wait -1 5", "multi", "wait 3 1000"] {
        let reply = match request {
            "multi" => "+OK",
            "wait 3 1000" => "+QUEUED",
            _ => ":0",
        };
        assert_eq!(sim.run_as(client, request), reply, "{request}");
    }
    assert_eq!(sim.run_as(client, "exec"), "*1 :0");
    sim.expect("eval \"return redis.call('wait','1','0')\" 0", ":0");
    wait(&mut sim, client, "wait 1 20");
    sim.advance(19);
    expect_received(&mut sim, client, "");
    sim.advance(1);
    expect_received(&mut sim, client, ":0");
    wait(&mut sim, client, "wait 1 0");
    sim.expect("client unblock 2", ":1");
    expect_received(&mut sim, client, ":0");
    wait(&mut sim, client, "waitaof 0 2 5");
    sim.advance(5);
    expect_received(&mut sim, client, "*2 :0 :0");
    expect_nobody_waits(&sim);
    for (request, error) in [
        ("wait x y", "-ERR value is not an integer or out of range"),
        ("wait 1 x", "-ERR timeout is not an integer or out of range"),
        ("wait 1 -1", "-ERR timeout is negative"),
        ("wait 0 -1", "-ERR timeout is negative"),
        ("waitaof 0 0 0", "*2 :0 :0"),
        (
            "waitaof 2 0 0",
            "-ERR value is out of range, value must between 0 and 1",
        ),
        (
            "waitaof 0 -1 x",
            "-ERR value is out of range, must be positive",
        ),
        ("waitaof 1 0 -1", "-ERR timeout is negative"),
        (
            "waitaof 1 0 0",
            "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ),
        (
            "eval \"return redis.call('waitaof','0','1','0')\" 0",
            "*2 :0 :0",
        ),
    ] {
        sim.expect(request, error);
    }
}

#[test]
fn client_unblock() {
    let mut sim = Sim::new();
    let clients = [sim.connect(), sim.connect(), sim.connect()];
    for client in clients {
        wait(&mut sim, client, "blpop k 0");
    }
    sim.script(
        "
        client unblock 2 => :1
        client unblock 2 => :0
        client unblock 3 TimeOut => :1
        client unblock 4 Error => :1
        client unblock 1 => :0
        client unblock 99 => :0
        client unblock -1 error => :0
        client unblock x => {value is not an integer or out of range}
        client unblock x foo => {CLIENT UNBLOCK reason should be TIMEOUT or ERROR}
        client unblock => {wrong number of arguments for 'client|unblock' command}
        ",
    );
    sim.expect(
        "client unblock 1 timeout x",
        "-ERR unknown subcommand or wrong number of arguments for 'unblock'. Try CLIENT HELP.",
    );
    assert_eq!(received(&mut sim, clients), ["*-1", "*-1", UNBLOCKED]);
    expect_nobody_waits(&sim);
    sim.script("rpush k x=>:1\nllen k=>:1");
    assert!(
        sim.run("info errorstats")
            .contains("errorstat_UNBLOCKED:count=1")
    );
}

#[test]
fn nobody_waits_inside_exec() {
    let mut sim = Sim::new();
    sim.script(
        "
        multi => +OK
        blpop k 0 => +QUEUED
        brpop k l 1 => +QUEUED
        blmove k l left right 0 => +QUEUED
        brpoplpush k l 0 => +QUEUED
        blmpop 0 1 k left => +QUEUED
        blpop k x => +QUEUED
        rpush k 1 2 => +QUEUED
        blpop k 0 => +QUEUED
        blmove k l left right 0 => +QUEUED
        ",
    );
    sim.expect(
        "exec",
        "*9 *-1 *-1 $-1 $-1 *-1 -ERR timeout is not a float or out of range :2 *2 $1 k $1 1 $1 2",
    );
    expect_nobody_waits(&sim);
    // Whoever waits is served when the transaction is over, not in its middle.
    let (mut sim, [a]) = waiting(["blpop k 0"]);
    sim.script(
        "
        multi => +OK
        rpush k 1 => +QUEUED
        rpush k 2 => +QUEUED
        lpop k => +QUEUED
        exec => *3 :1 :2 $1 1
        ",
    );
    expect_received(&mut sim, a, "*2 $1 k $1 2");
}

#[test]
fn another_type_concerns_nobody() {
    let (mut sim, [a]) = waiting(["blpop k 0"]);
    sim.script("set k x=>+OK\nappend k y=>:2\nexpire k 10=>:1\ndel k=>:1");
    expect_received(&mut sim, a, "");
    sim.script("set k x px 5=>+OK\n+5\nget k=>$-1");
    expect_received(&mut sim, a, "");
    sim.expect("rpush k 1", ":1");
    expect_received(&mut sim, a, "*2 $1 k $1 1");
    expect_nobody_waits(&sim);
}

#[test]
fn however_a_list_comes_to_the_key() {
    for (requests, value) in [
        ("rpush o 1|rename o k", "1"),
        ("rpush o 2|renamenx o k", "2"),
        ("rpush o 3|copy o k", "3"),
        ("set k x|rpush o 4|rename o k", "4"),
        ("set k x|rpush o 5|copy o k replace", "5"),
        ("select 1|rpush k 6|move k 0", "6"),
        ("select 1|rpush k 7|copy k k db 0", "7"),
        ("select 1|rpush k 8|swapdb 0 1", "8"),
        ("select 1|rpush k 9|swapdb 1 0", "9"),
        ("rpush o 1|lmove o k left left", "1"),
        ("rpush o 2|rpoplpush o k", "2"),
        ("multi|select 1|rpush k 3|swapdb 0 1|exec", "3"),
        ("multi|rpush k 4|expire k 100|exec", "4"),
        ("flushall|rpush k 5", "5"),
        ("rpush o 6|flushdb|rpush k 6", "6"),
    ] {
        let (mut sim, [a]) = waiting(["blpop j k 0"]);
        for request in requests.split('|') {
            assert_eq!(sim.received(a), "", "{requests} before {request}");
            sim.run(request);
        }
        let reply = format!("*2 $1 k $1 {value}");
        assert_eq!(sim.received(a), reply, "{requests}");
        expect_nobody_waits(&sim);
        sim.engine.keyspace.check();
    }
}

#[test]
fn a_list_that_is_gone_or_elsewhere_serves_nobody() {
    for requests in [
        "multi|rpush k 1|del k|exec",
        "multi|rpush k 1|pexpire k 0|exec",
        "multi|rpush k 1|flushall|exec",
        "multi|rpush k 1|rename k o|exec",
        "multi|rpush k 1|move k 1|exec",
        "multi|rpush k 1|swapdb 0 1|exec",
        "multi|rpush k 1|set k x|exec",
        "rpush o 1|pexpire o 5|+5|rename o k",
        "rpush o 1|pexpire o 5|+5|copy o k",
        "select 1|rpush k 1|pexpire k 5|+5|move k 0",
        "select 1|rpush k 1|pexpire k 5|+5|swapdb 0 1",
        "select 1|rpush k 1",
        "rpush kk 1",
    ] {
        let (mut sim, [a]) = waiting(["blpop k 0"]);
        for request in requests.split('|') {
            match request.strip_prefix('+') {
                Some(ms) => sim.clock.advance_ms(ms.parse().expect("a number")),
                None => drop(sim.run(request)),
            }
        }
        sim.advance(0);
        assert_eq!(sim.received(a), "", "{requests}");
        sim.run("select 0");
        sim.run("del k");
        sim.expect("rpush k 2", ":1");
        assert_eq!(sim.received(a), "*2 $1 k $1 2", "{requests}");
    }
}

#[test]
fn a_client_that_dies_takes_nothing() {
    let (mut sim, [a, b, c]) = waiting(["blpop k 0", "blpop k l 5", "blpop k 0"]);
    sim.engine.disconnect(a);
    sim.expect("client kill id 3", ":1");
    assert_eq!(sim.engine.sessions[b].closing, Closing::Now);
    assert_eq!(sim.engine.blocking.len(), 1);
    assert_eq!(sim.engine.blocking.keys(), 1);
    sim.expect("rpush k 1", ":1");
    expect_received(&mut sim, b, "");
    expect_received(&mut sim, c, "*2 $1 k $1 1");
    // Killed in the same moment in which there would be something.
    wait(&mut sim, c, "blpop k 0");
    sim.script(
        "multi=>+OK\nrpush k 2=>+QUEUED\nclient kill id 4=>+QUEUED\nexec=>*2 :1 :1\nllen k=>:1",
    );
    expect_received(&mut sim, c, "");
    expect_nobody_waits(&sim);
}

#[test]
fn who_wants_no_reply_gets_none_but_takes_its_item() {
    let mut sim = Sim::new();
    let a = sim.connect();
    sim.run_as(a, "client reply off");
    wait(&mut sim, a, "blpop k 0");
    sim.script("rpush k 1=>:1\nexists k=>:0");
    expect_received(&mut sim, a, "");
    wait(&mut sim, a, "blpop k 0.1");
    sim.advance(100);
    expect_received(&mut sim, a, "");
    wait(&mut sim, a, "blpop k 0");
    sim.expect("client unblock 2 error", ":1");
    expect_received(&mut sim, a, "");
    assert_eq!(sim.run_as(a, "client reply on"), "+OK");
    // SKIP covers one command, however long it takes.
    assert_eq!(sim.run_as(a, "client reply skip"), "");
    wait(&mut sim, a, "blpop k 0");
    sim.script("rpush k 1=>:1\nexists k=>:0");
    expect_received(&mut sim, a, "");
    assert_eq!(sim.run_as(a, "ping"), "+PONG");
}

#[test]
fn requests_behind_one_that_waits_wait_too() {
    let mut sim = Sim::new();
    let a = sim.connect();
    sim.engine
        .feed(a, b"set n 1\r\nblpop k 0\r\nincr n\r\nblpop k 0\r\n");
    sim.engine.feed(a, b"incr n\r\nget n\r\n");
    assert_eq!(sim.run_as(a, "ping"), "+OK");
    sim.expect("get n", "$1 1");
    sim.expect("rpush k x", ":1");
    expect_received(&mut sim, a, "*2 $1 k $1 x :2");
    sim.expect("rpush k y", ":1");
    expect_received(&mut sim, a, "*2 $1 k $1 y :3 $1 3 +PONG");
    // The same when the wait ends in vain.
    sim.engine.feed(a, b"blpop k 1\r\nblpop k 1\r\nincr n\r\n");
    assert_eq!(sim.run_as(a, "ping"), "");
    sim.advance(1_000);
    expect_received(&mut sim, a, "*-1");
    sim.expect("client unblock 2 error", ":1");
    expect_received(&mut sim, a, &format!("{UNBLOCKED} :4 +PONG"));
}

#[test]
fn a_broken_protocol_behind_a_request_that_waits_is_met_in_its_turn() {
    let mut sim = Sim::new();
    let a = sim.connect();
    sim.engine.feed(a, b"blpop k 0\r\n*x\r\n");
    assert_eq!(sim.run_as(a, ""), "");
    assert_eq!(sim.engine.sessions[a].closing, Closing::No);
    sim.expect("rpush k 1", ":1");
    let text = sim.received(a);
    assert_eq!(
        text,
        "*2 $1 k $1 1 -ERR Protocol error: invalid multibulk length"
    );
    assert_eq!(sim.engine.sessions[a].closing, Closing::AfterReply);
}

#[test]
fn nulls_and_pushes_of_resp3() {
    let config = Config {
        notify_keyspace_events: NotifyFlags(NotifyFlags::KEYEVENT.0 | NotifyFlags::ALL.0),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    let a = sim.connect();
    sim.run_as(a, "hello 3");
    for request in [
        "blpop k 1",
        "blmove k l left left 1",
        "brpoplpush k l 1",
        "blmpop 1 1 k left",
    ] {
        wait(&mut sim, a, request);
        sim.advance(1_000);
        expect_received(&mut sim, a, "_");
    }
    for request in ["multi", "blpop k 0", "blmove k l left left 0"] {
        sim.run_as(a, request);
    }
    assert_eq!(sim.run_as(a, "exec"), "*2 _ _");
    // Messages reach a client that waits; those it causes itself follow its reply.
    sim.run_as(a, "subscribe __keyevent@0__:lpop __keyevent@0__:rpush c");
    wait(&mut sim, a, "blpop k 0");
    sim.expect("publish c hi", ":1");
    expect_received(&mut sim, a, ">3 $7 message $1 c $2 hi");
    sim.expect("rpush k x", ":1");
    let event = |name: &str| {
        let len = 15 + name.len();
        format!(">3 $7 message ${len} __keyevent@0__:{name} $1 k")
    };
    let expected = format!("{} *2 $1 k $1 x {}", event("rpush"), event("lpop"));
    expect_received(&mut sim, a, &expected);
}

#[test]
fn waiting_is_shown_and_counted_once() {
    let (mut sim, [_, b]) = waiting(["blpop k 0", "brpoplpush k l 3"]);
    let list = sim.run("client list");
    assert_eq!(list.matches(" flags=b ").count(), 2, "{list}");
    assert!(list.contains(" cmd=blpop "), "{list}");
    let line = |sim: &mut Sim| {
        let list = sim.run("client list id 3");
        let words = list.split_whitespace();
        let shown = ["flags=", "cmd=", "tot-cmds=", "idle="];
        let fields = words.filter(|word| shown.iter().any(|name| word.starts_with(name)));
        fields.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line(&mut sim), "idle=0 flags=b cmd=brpoplpush tot-cmds=1");
    sim.advance(2_000);
    assert_eq!(line(&mut sim), "idle=2 flags=b cmd=brpoplpush tot-cmds=1");
    sim.expect("rpush k 1 2", ":2");
    expect_received(&mut sim, b, "$1 2");
    assert_eq!(line(&mut sim), "idle=0 flags=N cmd=brpoplpush tot-cmds=1");
    let stats = sim.run("info commandstats");
    assert!(stats.contains("cmdstat_blpop:calls=1,"), "{stats}");
}

#[test]
fn who_waits_is_not_idle() {
    let config = Config {
        timeout_seconds: 10,
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    let (idle, patient) = (sim.connect(), sim.connect());
    sim.run_as(idle, "ping");
    wait(&mut sim, patient, "blpop k 60");
    sim.advance(59_999);
    assert_eq!(sim.engine.sessions[idle].closing, Closing::Now);
    assert_eq!(sim.engine.sessions[patient].closing, Closing::No);
    sim.advance(1);
    expect_received(&mut sim, patient, "*-1");
    sim.advance(10_000);
    assert_eq!(sim.engine.sessions[patient].closing, Closing::No);
    sim.advance(1_001);
    assert_eq!(sim.engine.sessions[patient].closing, Closing::Now);
}

/// A random request of this small world.
fn random_request(rng: &mut SmallRng) -> String {
    let key = |rng: &mut SmallRng| ["a", "b", "c"][rng.random_range(0..3)];
    let (one, two) = (key(rng), key(rng));
    let timeout = ["0", "0.01", "0.02"][rng.random_range(0..3)];
    match rng.random_range(0..14) {
        0 => format!("blpop {one} {two} {timeout}"),
        1 => format!("brpop {one} {timeout}"),
        2 => format!("blmove {one} {two} left right {timeout}"),
        3 => format!("blmpop {timeout} 2 {one} {two} left count 2"),
        4 | 5 => format!("rpush {one} 1"),
        6 => format!("rpush {one} 1 2 3"),
        7 => format!("set {one} x"),
        8 => format!("del {one} {two}"),
        9 => format!("rename {one} {two}"),
        10 => format!("copy {one} {two} db 1 replace"),
        11 => "swapdb 0 1".to_owned(),
        12 => format!("pexpire {one} 3"),
        _ => format!("client unblock {}", rng.random_range(2..10)),
    }
}

#[test]
fn nobody_waits_for_a_list_that_is_there() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut sim = Sim::with(Config::default(), seed);
        let mut clients: Vec<SessionKey> = (0..8).map(|_| sim.connect()).collect();
        for step in 0..400 {
            let at = rng.random_range(0..clients.len());
            let request = random_request(&mut rng);
            sim.run_as(clients[at], &request);
            if rng.random_ratio(1, 20) {
                sim.engine.disconnect(clients[at]);
                clients[at] = sim.connect();
            }
            sim.advance(rng.random_range(0..3));
            let blocked = clients
                .iter()
                .filter(|&&client| sim.engine.sessions[client].blocked.is_some());
            assert_eq!(blocked.count(), sim.engine.blocking.len());
            for name in ["a", "b", "c"] {
                let after = Default::default();
                let waits = sim.engine.blocking.next_waiting(0, name.as_bytes(), after);
                let kind = sim.run(&format!("type {name}"));
                let is_served = waits.is_none() || kind != "+list";
                assert!(is_served, "seed {seed}, step {step}: {request}, {name}");
            }
        }
        clients
            .into_iter()
            .for_each(|client| sim.engine.disconnect(client));
        expect_nobody_waits(&sim);
        sim.engine.keyspace.check();
    }
}

#[test]
fn a_client_that_hangs_up_while_it_waits_leaves_no_trace() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut watcher = server.connect();
    let mut first = server.connect();
    let mut second = server.connect();
    for (stream, request) in [
        (&mut first, "BLPOP k 0\r\nSET behind x\r\n"),
        (&mut second, "BLMOVE k l LEFT LEFT 0\r\n"),
    ] {
        std::io::Write::write_all(stream, request.as_bytes()).expect("the server is there");
    }
    wait_for("two clients to wait", || {
        (info(&mut watcher, "blocked_clients") == "2").then_some(())
    });
    assert_eq!(info(&mut watcher, "connected_clients"), "3");
    drop(first);
    wait_for("one to be gone", || {
        (info(&mut watcher, "connected_clients") == "2").then_some(())
    });
    assert_eq!(info(&mut watcher, "blocked_clients"), "1");
    drop(second);
    wait_for("the other to be gone", || {
        (info(&mut watcher, "connected_clients") == "1").then_some(())
    });
    assert_eq!(info(&mut watcher, "blocked_clients"), "0");
    assert_eq!(info(&mut watcher, "total_blocking_keys"), "0");
    let reply = ask(
        &mut watcher,
        "RPUSH k x\r\nLLEN k\r\nEXISTS behind l\r\n",
        3,
    );
    assert_eq!(reply.as_deref(), Some(":1\r\n:1\r\n:0\r\n"));
    // On a server that has nothing else to do a timeout ends all the same.
    let reply = ask(&mut watcher, "BLPOP none 0.02\r\n", 1);
    assert_eq!(reply.as_deref(), Some("*-1\r\n"));
}

#[test]
fn a_pause_that_begins_in_the_exec_that_pushes_keeps_who_waits_waiting() {
    for kind in ["write", "all"] {
        let (mut sim, [a, b, late]) = waiting(["blpop q 0", "bzpopmin z 0", "blpop q 0.2"]);
        sim.run_as(sim.client, "multi");
        sim.run(&format!("client pause 500 {kind}"));
        sim.script("rpush q 1 2=>+QUEUED\nzadd z 1 m=>+QUEUED\nexec=>*3 +OK :2 :1");
        assert_eq!(received(&mut sim, [a, b, late]), ["", "", ""]);
        // Waits that are limited end all the same.
        sim.advance(199);
        expect_received(&mut sim, late, "");
        sim.advance(1);
        expect_received(&mut sim, late, "*-1");
        sim.advance(299);
        assert_eq!(received(&mut sim, [a, b]), ["", ""]);
        if kind == "write" {
            sim.expect("lrange q 0 -1", "*2 $1 1 $1 2");
        }
        sim.advance(1);
        assert_eq!(
            received(&mut sim, [a, b]),
            ["*2 $1 q $1 1", "*3 $1 z $1 m $1 1"]
        );
        expect_nobody_waits(&sim);
        sim.script("lrange q 0 -1=>*1 $1 2\nexists z=>:0");
    }
}

#[test]
fn client_unpause_lets_those_go_on_who_wait_for_a_key() {
    let (mut sim, [a]) = waiting(["blpop q 0"]);
    sim.script(
        "multi=>+OK\nclient pause 500000 write=>+QUEUED\nrpush q 1=>+QUEUED\nexec=>*2 +OK :1",
    );
    expect_received(&mut sim, a, "");
    // The element may be gone again by then; here it is not.
    sim.expect("client unpause", "+OK");
    expect_received(&mut sim, a, "*2 $1 q $1 1");
    // Nothing is owed to a client that left meanwhile.
    wait(&mut sim, a, "blpop q 0");
    sim.script("multi=>+OK\nclient pause 5 write=>+QUEUED\nrpush q 1=>+QUEUED\nexec=>*2 +OK :1");
    sim.engine.disconnect(a);
    sim.advance(5);
    sim.expect("llen q", ":1");
    expect_nobody_waits(&sim);
}

#[test]
fn the_end_of_a_pause_wakes_an_idle_server_for_who_waits() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut waiting = server.connect();
    waiting.write_all(b"BLPOP q 0\r\n").expect("room");
    wait_for("the wait", || {
        (server.info("blocked_clients") == "1").then_some(())
    });
    let push = "MULTI\r\nCLIENT PAUSE 50 WRITE\r\nRPUSH q 1\r\nEXEC\r\n";
    let reply = ask(&mut server.connect(), push, 6).expect("a reply");
    assert!(reply.ends_with("*2\r\n+OK\r\n:1\r\n"), "{reply}");
    let reply = ask(&mut waiting, "", 5);
    assert_eq!(reply.as_deref(), Some("*2\r\n$1\r\nq\r\n$1\r\n1\r\n"));
}

/// A field of the line INFO commandstats has on a command.
fn stat(sim: &mut Sim, command: &str, field: &str) -> String {
    let text = sim.run("info commandstats");
    let line = text.split(' ').find_map(|line| {
        let line = line.strip_prefix("cmdstat_")?;
        line.strip_prefix(command)?.strip_prefix(':')
    });
    let mut fields = line.unwrap_or_default().split(',');
    let value = fields.find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
    value.unwrap_or_default().to_owned()
}

#[test]
fn a_wait_that_ends_in_an_error_counts_as_a_failed_call() {
    let (mut sim, [a]) = waiting(["blpop k 0"]);
    let id = sim.engine.sessions[a].id;
    sim.expect(&format!("client unblock {id} error"), ":1");
    expect_received(&mut sim, a, UNBLOCKED);
    assert_eq!(stat(&mut sim, "blpop", "calls"), "1");
    assert_eq!(stat(&mut sim, "blpop", "failed_calls"), "1");
    assert_eq!(sim.engine.metrics.errors["UNBLOCKED"], 1);
    // Others that end without what they waited for do not.
    wait(&mut sim, a, "blpop k 0");
    sim.expect(&format!("client unblock {id}"), ":1");
    expect_received(&mut sim, a, "*-1");
    assert_eq!(stat(&mut sim, "blpop", "failed_calls"), "1");
    // One that fails when it is tried again counts once.
    wait(&mut sim, a, "blmove k string left left 0");
    sim.script("set string v=>+OK\nrpush k 1=>:1");
    expect_received(&mut sim, a, WRONG_TYPE);
    assert_eq!(stat(&mut sim, "blmove", "failed_calls"), "1");
    assert_eq!(stat(&mut sim, "blmove", "calls"), "1");
    assert_eq!(sim.engine.metrics.error_replies, 2);
}
