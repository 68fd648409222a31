//! What one client can make the server keep: it follows what has come from it, is counted in its
//! line of CLIENT LIST, has a limit, and is given back when it falls silent.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use mayfly::command::dispatch::run_ready;
use mayfly::engine::session::{Closing, Session};

use crate::process::{Server, ask, expect, info, read_to_end, wait_for};
use crate::sim::{Sim, TempDir};

const KIBIBYTE: usize = 1024;
const MEBIBYTE: usize = 1024 * KIBIBYTE;

/// A field of a client's line in CLIENT LIST.
#[track_caller]
fn field(sim: &mut Sim, client: usize, name: &str) -> usize {
    let id = sim.engine.sessions[client].id;
    let line = sim.run(&format!("client list id {id}"));
    let start = format!("{name}=");
    let value = line.split(' ').find_map(|part| part.strip_prefix(&start));
    let value = value.unwrap_or_else(|| panic!("no {name} in {line}"));
    value.parse().expect("a number")
}

#[test]
fn a_large_argument_takes_what_has_come_of_it() {
    let mut sim = Sim::new();
    let client = sim.connect();
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nvvvvvvvvvv";
    sim.engine.feed(client, request);
    assert!(field(&mut sim, client, "tot-mem") < 20 * KIBIBYTE);
    for _ in 0..16 {
        sim.engine.feed(client, &[b'v'; 60 * KIBIBYTE]);
    }
    let received = 16 * 60 * KIBIBYTE;
    assert_eq!(
        field(&mut sim, client, "qbuf") / KIBIBYTE,
        received / KIBIBYTE
    );
    let held = field(&mut sim, client, "tot-mem");
    assert!((received..5 * received).contains(&held), "{held}");
    // An upload that stands still takes no more than itself.
    sim.expect("ping", "+PONG");
    sim.advance(2_200);
    let held = field(&mut sim, client, "tot-mem");
    assert!(
        (received..received + 8 * KIBIBYTE).contains(&held),
        "{held}"
    );
}

#[test]
fn what_comes_while_a_client_waits_is_kept_as_it_came() {
    for waits in ["blpop x 0", "ping"] {
        let mut sim = Sim::new();
        let client = sim.connect();
        if waits == "ping" {
            sim.expect("client pause 100000 all", "+OK");
        }
        sim.engine.feed(client, format!("{waits}\r\n").as_bytes());
        run_ready(&mut sim.engine, &mut sim.clock);
        let pieces = 16;
        for _ in 0..pieces {
            sim.engine.feed(client, &b"a\n".repeat(32 * KIBIBYTE));
            run_ready(&mut sim.engine, &mut sim.clock);
        }
        assert_eq!(sim.received(client), "");
        assert!(sim.engine.sessions[client].is_held());
        let bytes = pieces * 64 * KIBIBYTE;
        let held = sim.engine.sessions[client].input.capacity_bytes();
        assert!((bytes..3 * bytes).contains(&held), "{waits}: {held}");
        if waits == "ping" {
            sim.expect("client unpause", "+OK");
        } else {
            sim.expect("rpush x v", ":1");
        }
        while !sim.engine.ready.is_empty() {
            run_ready(&mut sim.engine, &mut sim.clock);
        }
        let answers = sim.received(client);
        let errors = answers.matches("-ERR unknown command 'a'").count();
        assert_eq!(errors, bytes / 2, "{waits}");
    }
}

#[test]
fn a_transaction_counts_toward_the_limit_on_input() {
    let mut sim = Sim::new();
    sim.expect("config set client-query-buffer-limit 1mb", "+OK");
    let client = sim.connect();
    assert_eq!(sim.run_as(client, "multi"), "+OK");
    let value = "v".repeat(100 * KIBIBYTE);
    let set = format!("*3\r\n$3\r\nset\r\n$1\r\nk\r\n${}\r\n{value}", value.len());
    for nth in 1..=10 {
        assert_eq!(sim.run_as(client, &set), "+QUEUED", "{nth}");
    }
    assert_eq!(field(&mut sim, client, "multi-mem") / MEBIBYTE, 0);
    sim.run_as(client, &set);
    assert_eq!(sim.engine.sessions[client].closing, Closing::Now);
    assert!(
        sim.run("info stats")
            .contains("client_query_buffer_limit_disconnections:1 ")
    );
}

#[test]
fn buffers_of_a_silent_client_are_given_back() {
    let mut sim = Sim::new();
    let clients: Vec<usize> = (0..300).map(|_| sim.connect()).collect();
    for &client in &clients {
        sim.engine.feed(client, &b"get some-key\r\n".repeat(4_000));
    }
    while !sim.engine.ready.is_empty() {
        run_ready(&mut sim.engine, &mut sim.clock);
    }
    for &client in &clients {
        assert_eq!(sim.received(client).matches("$-1").count(), 4_000);
        assert!(sim.engine.sessions[client].spare_bytes() > 50 * KIBIBYTE);
    }
    sim.advance(1_900);
    let spare = |sim: &Sim| -> usize {
        clients
            .iter()
            .map(|&key| sim.engine.sessions[key].spare_bytes())
            .sum()
    };
    assert!(spare(&sim) > 300 * 50 * KIBIBYTE);
    assert!(sim.engine.next_wakeup_ms().is_some(), "it must look again");
    (0..4).for_each(|_| sim.advance(100));
    assert!(spare(&sim) < 300 * KIBIBYTE, "{}", spare(&sim));
    // And then it sleeps, after a look at what can be given back.
    sim.advance(1_000);
    assert_eq!(sim.engine.next_wakeup_ms(), None);
    assert_eq!(sim.run_as(clients[0], "ping"), "+PONG");
}

/// Their places are counted while they are kept, and given back.
#[test]
fn clients_that_have_left_leave_nothing_behind() {
    let mut sim = Sim::new();
    let clients: Vec<usize> = (0..3_000).map(|_| sim.connect()).collect();
    let places = sim.engine.sessions.capacity();
    let vacant = (places - 3_001) * size_of::<Session>();
    assert_eq!(sim.engine.ledger().vacancies, vacant);
    assert_eq!(sim.run_as(clients[0], "ping"), "+PONG");
    for &client in &clients[1..] {
        sim.engine.disconnect(client);
    }
    let vacant = (places - 2) * size_of::<Session>();
    assert_eq!(sim.engine.ledger().vacancies, vacant);
    sim.advance(100);
    assert!(sim.engine.sessions.capacity() < 256);
    assert_eq!(sim.run_as(clients[0], "ping"), "+PONG");
}

/// The most memory that the process has had, in bytes.
fn peak_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.expect("a peak").trim().trim_end_matches(" kB");
    kib.parse::<usize>().expect("a number") * KIBIBYTE
}

fn disconnections(good: &mut UnixStream) -> String {
    info(good, "client_output_buffer_limit_disconnections")
}

#[test]
fn one_reply_over_the_limit_ends_the_client() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut good = server.connect();
    let set = "CONFIG SET client-output-buffer-limit \"normal 100kb 0 0\"";
    expect(&mut good, set, "+OK");
    // One that is held by reference, one that is copied.
    let value = "v".repeat(500 * KIBIBYTE);
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}", value.len());
    expect(&mut good, &request, "+OK");
    let items = " item-of-a-list".repeat(1_000);
    for nth in 1..=20 {
        expect(
            &mut good,
            &format!("RPUSH l{items}"),
            &format!(":{}", nth * 1_000),
        );
    }
    for (nth, request) in ["GET k\r\n", "LRANGE l 0 -1\r\n"].into_iter().enumerate() {
        let mut bad = server.connect();
        bad.write_all(request.as_bytes()).expect("room");
        assert_eq!(read_to_end(&mut bad).len(), 0, "{request}");
        assert_eq!(disconnections(&mut good), (nth + 1).to_string());
    }
    // A client that does not want the reply is owed nothing.
    let mut silent = server.connect();
    let requests = "CLIENT REPLY OFF\r\nLRANGE l 0 -1\r\nGET k\r\nCLIENT REPLY ON\r\nPING\r\n";
    let replies = ask(&mut silent, requests, 2).expect("replies");
    assert_eq!(replies, "+OK\r\n+PONG\r\n");
}

#[test]
fn a_transaction_cannot_grow_over_the_limit() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut good = server.connect();
    let set = "CONFIG SET client-output-buffer-limit \"normal 1mb 0 0\"";
    expect(&mut good, set, "+OK");
    let items = " item-of-a-list".repeat(4_000);
    expect(&mut good, &format!("RPUSH l{items}"), ":4000");
    let before = peak_bytes(&server);
    let mut bad = server.connect();
    let ranges = "LRANGE l 0 -1\r\n".repeat(2_000);
    let requests = format!("MULTI\r\n{ranges}SET done 1\r\nEXEC\r\nSET after 1\r\n");
    bad.write_all(requests.as_bytes()).expect("room");
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED".len() + 7 * 2_000 + 2 * 2_000 + 2;
    assert!(read_to_end(&mut bad).len() <= queued);
    wait_for("the end of the client", || {
        (disconnections(&mut good) == "1").then_some(())
    });
    let grown = peak_bytes(&server) - before;
    assert!(grown < 40 * MEBIBYTE, "{grown}");
    // A transaction is whole; what follows it is not run.
    expect(&mut good, "EXISTS done after", ":1");
}

#[test]
fn a_broadcast_cannot_grow_over_the_limit() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut good = server.connect();
    let set = "CONFIG SET client-output-buffer-limit \"pubsub 1mb 0 0\"";
    expect(&mut good, set, "+OK");
    let deaf: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            ask(&mut stream, "SUBSCRIBE c\r\n", 6).expect("a reply");
            stream
        })
        .collect();
    let before = peak_bytes(&server);
    let mut publisher = server.connect();
    let message = "m".repeat(KIBIBYTE);
    let publish = format!("PUBLISH c {message}\r\n").repeat(20_000);
    let requests = format!("MULTI\r\n{publish}EXEC\r\n");
    // The server answers meanwhile; both take what the other sends.
    let mut reader = publisher.try_clone().expect("a second handle");
    let writer = std::thread::spawn(move || publisher.write_all(requests.as_bytes()));
    let wanted = "+OK\r\n".len() + 9 * 20_000 + "*20000\r\n".len() + 4 * 20_000;
    let mut got = 0;
    let mut buffer = vec![0; MEBIBYTE];
    while got < wanted {
        got += reader.read(&mut buffer).expect("replies");
    }
    writer.join().expect("the writer").expect("room");
    wait_for("the end of the four", || {
        (disconnections(&mut good) == "4").then_some(())
    });
    // The transaction itself takes some 50 MB, and the replies one.
    let grown = peak_bytes(&server) - before;
    assert!(grown < 80 * MEBIBYTE, "{grown}");
    drop(deaf);
}

#[test]
fn copies_are_freed_as_fast_as_they_are_made() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut client = server.connect();
    for part in 0..20 {
        let members: String = (0..10_000).map(|n| format!(" member:{part}:{n}")).collect();
        let request = format!("*10002\r\n{}", bulks(&format!("SADD s{members}")));
        client.write_all(request.as_bytes()).expect("room");
        let got = ask(&mut client, "", 1).expect("a reply");
        assert_eq!(got, ":10000\r\n");
    }
    let before = peak_bytes(&server);
    let copies = "COPY s d REPLACE\r\n".repeat(60);
    let replies = ask(&mut client, &copies, 60).expect("replies");
    assert_eq!(replies, ":1\r\n".repeat(60));
    let grown = peak_bytes(&server) - before;
    assert!(grown < 100 * MEBIBYTE, "{grown}");
}

/// The words of a request as bulk strings.
fn bulks(request: &str) -> String {
    let words = request.split(' ');
    words
        .map(|word| format!("${}\r\n{word}\r\n", word.len()))
        .collect()
}

#[test]
fn what_a_client_watches_and_listens_to_counts() {
    let mut sim = Sim::new();
    let client = sim.connect();
    let mut before = field(&mut sim, client, "tot-mem");
    let bytes_in_info = |sim: &mut Sim| {
        let info = sim.run("info memory");
        let start = "mem_clients_normal:";
        let value = info.split(' ').find_map(|part| part.strip_prefix(start));
        value.expect("a field").parse::<usize>().expect("a number")
    };
    let all_before = bytes_in_info(&mut sim);
    let name = "n".repeat(10_000);
    for request in ["watch", "subscribe", "psubscribe", "ssubscribe"] {
        sim.run_as(client, &format!("{request} {name}"));
        let after = field(&mut sim, client, "tot-mem");
        assert!(after >= before + 20_000, "{request}: {before} {after}");
        before = after;
    }
    let most = bytes_in_info(&mut sim);
    assert!(most >= all_before + 80_000, "{all_before} {most}");
    sim.run_as(client, "reset");
    assert!(field(&mut sim, client, "tot-mem") < before - 80_000);
    let last = bytes_in_info(&mut sim);
    assert!(last + 70_000 < most, "{most} {last}");
}

/// A server that closes clients if they take more than a megabyte, but for its own one.
fn limited() -> Sim {
    let mut sim = Sim::new();
    sim.script("client no-evict on => +OK\nconfig set maxmemory-clients 1mb => +OK");
    sim
}

/// Sends a part of a request, which stays in the client's buffer.
fn send(sim: &mut Sim, client: usize, bytes: usize) {
    sim.engine.feed(client, b"*2\r\n$3\r\nGET\r\n$30000000\r\n");
    sim.engine.feed(client, &vec![b'x'; bytes]);
    sim.jobs();
    sim.engine.check_client_memory();
}

fn is_closed(sim: &Sim, client: usize) -> bool {
    sim.engine.sessions[client].closing == Closing::Now
}

#[test]
fn the_largest_clients_are_closed_until_the_rest_is_below_the_limit() {
    let mut sim = limited();
    sim.expect("config set maxmemory-clients 4mb", "+OK");
    let clients: Vec<usize> = (0..6).map(|_| sim.connect()).collect();
    let kibibytes = [40, 90, 130, 180, 250, 300];
    for (&client, kibibytes) in clients.iter().zip(kibibytes) {
        send(&mut sim, client, kibibytes * KIBIBYTE);
    }
    sim.advance(2_200);
    assert!(clients.iter().all(|client| !is_closed(&sim, *client)));
    sim.expect("config set maxmemory-clients 500kb", "+OK");
    let closed: Vec<bool> = clients
        .iter()
        .map(|client| is_closed(&sim, *client))
        .collect();
    assert_eq!(closed, [false, false, false, false, true, true]);
    sim.engine.check_client_memory();
    let rest = sim.engine.client_memory.sum_bytes();
    assert!((440 * KIBIBYTE..500 * KIBIBYTE).contains(&rest), "{rest}");
    assert!(sim.run("info stats").contains("evicted_clients:2 "));
    // One that grows is the one that goes.
    sim.expect("config set maxmemory-clients 700kb", "+OK");
    send(&mut sim, clients[0], 400 * KIBIBYTE);
    assert!(is_closed(&sim, clients[0]) && !is_closed(&sim, clients[3]));
    sim.script("config resetstat => +OK\nconfig set maxmemory-clients 0 => +OK");
    assert!(sim.run("info stats").contains("evicted_clients:0 "));
    sim.engine.check_client_memory();
    send(&mut sim, clients[1], 5 * MEBIBYTE);
    assert!(!is_closed(&sim, clients[1]));
}

#[test]
fn whatever_a_client_makes_the_server_keep_counts_toward_the_limit_of_all() {
    let value = "v".repeat(200 * KIBIBYTE);
    let long = "n".repeat(50 * KIBIBYTE);
    let keys = ["a", "b"]
        .map(|name| format!("$51201\r\n{name}{long}\r\n"))
        .concat();
    for (what, requests) in [
        ("output", vec!["get k".to_owned(); 10]),
        ("messages", vec!["subscribe c".to_owned()]),
        (
            "transaction",
            vec!["multi".to_owned(), format!("set k {long}")],
        ),
        (
            "channels",
            (0..40).map(|n| format!("subscribe {n}{long}")).collect(),
        ),
        (
            "watched keys",
            (0..40).map(|n| format!("watch {n}{long}")).collect(),
        ),
        (
            "a wait",
            vec![format!("*4\r\n$5\r\nblpop\r\n{keys}$1\r\n0")],
        ),
    ] {
        let mut sim = limited();
        sim.ask(&[b"set", b"k", value.as_bytes()]);
        sim.expect("config set maxmemory-clients 300kb", "+OK");
        let client = sim.connect();
        let mut steps = 0;
        while !is_closed(&sim, client) {
            let request = &requests[steps % requests.len()];
            if what != "messages" || steps == 0 {
                let is_first = steps < requests.len();
                if is_first || what != "transaction" {
                    sim.engine.feed(client, format!("{request}\r\n").as_bytes());
                } else {
                    sim.engine
                        .feed(client, format!("{}\r\n", requests[1]).as_bytes());
                }
            } else {
                sim.run(&format!("publish c {long}"));
            }
            run_ready(&mut sim.engine, &mut sim.clock);
            sim.engine.check_client_memory();
            steps += 1;
            assert!(steps < 50, "{what}");
        }
        assert!(
            sim.run("info stats").contains("evicted_clients:1 "),
            "{what}"
        );
        sim.engine.disconnect(client);
        sim.engine.check_client_memory();
        assert_eq!(sim.engine.client_memory.sum_bytes(), 0);
    }
}

#[test]
fn a_pipeline_is_not_answered_beyond_the_limit_of_all() {
    let mut sim = limited();
    sim.ask(&[b"set", b"k", "v".repeat(10_000).as_bytes()]);
    let client = sim.connect();
    sim.engine.feed(client, &b"get k\r\n".repeat(500));
    while !sim.engine.ready.is_empty() {
        run_ready(&mut sim.engine, &mut sim.clock);
    }
    assert!(is_closed(&sim, client));
    let held = sim.engine.sessions[client].output_held().0;
    assert!(held < MEBIBYTE + 100 * KIBIBYTE, "{held}");
}

#[test]
fn a_client_may_be_exempt_and_the_limit_a_share() {
    let mut sim = limited();
    let client = sim.connect();
    assert_eq!(sim.run_as(client, "client no-evict on"), "+OK");
    send(&mut sim, client, 2 * MEBIBYTE);
    assert!(!is_closed(&sim, client));
    let id = sim.engine.sessions[client].id;
    assert!(
        sim.run(&format!("client list id {id}"))
            .contains(" flags=e ")
    );
    sim.script(
        "client no-evict x => {syntax error}
        client no-evict => {wrong number of arguments for 'client|no-evict' command}
        client no-touch on => +OK",
    );
    assert!(sim.run("client info").contains(" flags=eT "));
    sim.script("reset => +RESET\nclient no-evict off => +OK");
    assert!(sim.run("client info").contains(" flags=N "));
    sim.expect("client no-evict on", "+OK");
    // A share of no limit is no limit; a share of one is at least 128 KiB.
    sim.expect("config set maxmemory-clients 10%", "+OK");
    let other = sim.connect();
    send(&mut sim, other, MEBIBYTE);
    assert!(!is_closed(&sim, other));
    sim.expect("config set maxmemory 100mb", "+OK");
    assert!(!is_closed(&sim, other));
    sim.expect("config set maxmemory 5mb", "+OK");
    assert!(is_closed(&sim, other));
    sim.expect("config set maxmemory-clients 1", "+OK");
    let small = sim.connect();
    send(&mut sim, small, 20 * KIBIBYTE);
    assert!(!is_closed(&sim, small));
    sim.engine.check_client_memory();
}
