//! Limits on clients: what one of them sends, does not read or holds open costs that one only.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mayfly::clock::{Clock, Source, SystemClock};
use mayfly::command::dispatch::run_ready;
use mayfly::engine::session::Closing;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::process::{DEADLINE_MS, Server, ask, expect, info, read_to_end, wait_for};
use crate::sim::{Sim, TempDir};

const MEBIBYTE: usize = 1024 * 1024;

fn id(stream: &mut UnixStream) -> String {
    let reply = ask(stream, "CLIENT ID\r\n", 1).expect("a reply");
    reply[1..].trim_end().to_owned()
}

/// Whether a client is connected, in the eyes of another.
fn is_there(stream: &mut UnixStream, id: &str) -> bool {
    let request = format!("CLIENT LIST ID {id}\r\nPING\r\n");
    let mut text = ask(stream, &request, 2).expect("a reply");
    while !text.ends_with("+PONG\r\n") {
        text += &ask(stream, "", 1).expect("the rest");
    }
    text.contains("id=")
}

fn long_value(server: &Server) -> UnixStream {
    let mut stream = server.connect();
    let value = "v".repeat(MEBIBYTE);
    let request = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${MEBIBYTE}\r\n{value}");
    expect(&mut stream, &request, "+OK");
    stream
}

#[test]
fn who_never_reads_is_closed_alone() {
    // The hard limit acts at once, the soft one when it has been passed for a second.
    for limit in ["normal 8mb 0 0", "normal 0 1mb 1"] {
        let dir = TempDir::new();
        let server = Server::start(&dir);
        let mut good = long_value(&server);
        let set = format!("CONFIG SET client-output-buffer-limit \"{limit}\"");
        expect(&mut good, &set, "+OK");
        let mut bad = server.connect();
        let bad_id = id(&mut bad);
        bad.write_all(&b"GET big\r\n".repeat(64)).expect("room");
        wait_for("the end of the client", || {
            expect(&mut good, "PING", "+PONG");
            (!is_there(&mut good, &bad_id)).then_some(())
        });
        let count = info(&mut good, "client_output_buffer_limit_disconnections");
        assert_eq!(count, "1", "{limit}");
        assert_eq!(info(&mut good, "connected_clients"), "1");
        assert!(read_to_end(&mut bad).len() < 64 * MEBIBYTE);
    }
}

/// A server with one setting changed, and the client who changed it.
fn server_with(dir: &TempDir, setting: &str) -> (Server, UnixStream) {
    let server = Server::start(dir);
    let mut client = server.connect();
    expect(&mut client, &format!("CONFIG SET {setting}"), "+OK");
    (server, client)
}

#[test]
fn a_deaf_subscriber_is_closed_and_the_others_get_every_message() {
    let dir = TempDir::new();
    let setting = "client-output-buffer-limit \"pubsub 1mb 0 0\"";
    let (server, mut publisher) = server_with(&dir, setting);
    let (mut deaf, mut keen) = (server.connect(), server.connect());
    for stream in [&mut deaf, &mut keen] {
        ask(stream, "SUBSCRIBE c\r\n", 6).expect("a reply");
    }
    let text = "m".repeat(50_000);
    let message = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$50000\r\n{text}\r\n");
    wait_for("the end of the subscriber", || {
        let reply = ask(&mut publisher, &format!("PUBLISH c {text}\r\n"), 1);
        let got = ask(&mut keen, "", 7).expect("a message");
        assert!(got == message);
        (reply.expect("a reply") == ":1\r\n").then_some(())
    });
    assert!(read_to_end(&mut deaf).len() < 10 * MEBIBYTE);
}

#[test]
fn the_soft_limit_counts_from_when_it_was_passed() {
    let mut sim = Sim::new();
    let client = sim.connect();
    sim.expect(
        "config set client-output-buffer-limit \"normal 0 1000 2\"",
        "+OK",
    );
    sim.expect(&format!("set k {}", "v".repeat(2_000)), "+OK");
    let is_closed = |sim: &Sim| sim.engine.sessions[client].closing == Closing::Now;
    let owe = |sim: &mut Sim| {
        sim.engine.feed(client, b"get k\r\n");
        run_ready(&mut sim.engine, &mut sim.clock);
        // The shell could write nothing.
        sim.engine.note_sent(client, 0);
    };
    owe(&mut sim);
    sim.advance(1_950);
    assert!(!is_closed(&sim));
    // It reads, so the next time counts from its own beginning.
    sim.received(client);
    sim.advance(100);
    owe(&mut sim);
    sim.advance(1_999);
    assert!(!is_closed(&sim));
    sim.advance(101);
    assert!(is_closed(&sim));
}

#[test]
fn who_sends_too_much_is_closed_alone() {
    let dir = TempDir::new();
    let (server, mut good) = server_with(&dir, "client-query-buffer-limit 1mb");
    let mut bad = server.connect();
    bad.write_all(b"*2\r\n$3\r\nGET\r\n$5000000\r\n")
        .expect("room");
    // The server may hang up before it has taken all of it.
    let _ = bad.write_all(&vec![b'x'; 2 * MEBIBYTE]);
    assert_eq!(read_to_end(&mut bad), b"");
    let count = info(&mut good, "client_query_buffer_limit_disconnections");
    assert_eq!(count, "1");
    expect(&mut good, "PING", "+PONG");
}

#[test]
fn a_full_house_says_so_and_lets_the_next_in_when_one_leaves() {
    let dir = TempDir::new();
    let server = Server::start_with(&dir, &["--maxclients", "3"]);
    let mut first = server.connect();
    wait_for("the others to be gone", || {
        (info(&mut first, "connected_clients") == "1").then_some(())
    });
    let mut others = [server.connect(), server.connect()];
    for stream in &mut others {
        expect(stream, "PING", "+PONG");
    }
    for nth in 1..=2 {
        let text = read_to_end(&mut server.connect());
        assert_eq!(text, b"-ERR max number of clients reached\r\n");
        assert_eq!(info(&mut first, "rejected_connections"), nth.to_string());
    }
    let [gone, mut stays] = others;
    drop(gone);
    wait_for("a place", || {
        let mut stream = UnixStream::connect(&server.socket).ok()?;
        (ask(&mut stream, "PING\r\n", 1)? == "+PONG\r\n").then_some(())
    });
    expect(&mut stays, "PING", "+PONG");
}

#[test]
fn a_stranger_may_ask_for_little_and_leave_little_unread() {
    let dir = TempDir::new();
    let (server, mut good) = server_with(&dir, "requirepass secret");
    for (request, error) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut stranger = server.connect();
        stranger.write_all(request.as_bytes()).expect("room");
        let text = format!("-ERR Protocol error: {error}\r\n");
        assert_eq!(read_to_end(&mut stranger), text.as_bytes());
    }
    let mut deaf = server.connect();
    let timeout = Some(Duration::from_millis(DEADLINE_MS));
    deaf.set_write_timeout(timeout).expect("a timeout");
    let requests = b"GET k\r\n".repeat(1_000);
    let hung_up = (0..10_000).any(|_| deaf.write_all(&requests).is_err());
    assert!(hung_up, "the server keeps errors for a stranger");
    expect(&mut good, "PING", "+PONG");
    let mut friend = server.connect();
    expect(&mut friend, "AUTH secret", "+OK");
    expect(&mut friend, "PING", "+PONG");
}

#[test]
fn a_request_may_be_split_anywhere() {
    let bytes = b"PING\r\n\r\nset a 'b c'\n*3\r\n$6\r\nAPPEND\r\n$1\r\na\r\n$4\r\n\r\n*1\r\n\
        *2\r\n$3\r\nget\r\n$1\r\na\r\n*0\r\nnope\r\n*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n";
    let replies = |pieces: &[&[u8]]| {
        let mut sim = Sim::new();
        for piece in pieces {
            sim.engine.feed(sim.client, piece);
            run_ready(&mut sim.engine, &mut sim.clock);
        }
        sim.received(sim.client)
    };
    let whole = replies(&[bytes]);
    assert!(
        whole.starts_with("+PONG +OK :7 $7 b c *1 -ERR unknown"),
        "{whole}"
    );
    assert!(
        whole.ends_with("+PONG -ERR Protocol error: expected '$', got 'P'"),
        "{whole}"
    );
    for at in 1..bytes.len() {
        let (a, b) = bytes.split_at(at);
        assert_eq!(replies(&[a, b]), whole, "split at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(replies(&single), whole);
}

/// A stream of requests with large arguments, and its replies.
fn large_requests(lens: &[usize]) -> (Vec<u8>, Vec<u8>) {
    let value = |len: usize| -> Vec<u8> { (0..len).map(|i| (i % 251) as u8).collect() };
    let bulk = |bytes: &[u8]| {
        let start = format!("${}\r\n", bytes.len());
        [start.as_bytes(), bytes, b"\r\n"].concat()
    };
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let mut add = |args: &[&[u8]], reply: Vec<u8>| {
        requests.extend(format!("*{}\r\n", args.len()).as_bytes());
        args.iter().for_each(|arg| requests.extend(bulk(arg)));
        replies.extend(reply);
    };
    for &len in lens {
        let value = value(len);
        let ok = || b"+OK\r\n".to_vec();
        add(&[b"SET", b"a", &value], ok());
        add(
            &[b"MSET", b"b", &value, b"c", b"short", &value, &value],
            ok(),
        );
        add(&[b"GET", &value], bulk(&value));
        add(&[b"GETSET", b"a", b"x"], bulk(&value));
        add(&[b"MULTI"], ok());
        add(&[b"SET", b"a", &value, b"GET"], b"+QUEUED\r\n".to_vec());
        add(&[b"APPEND", b"a", &value], b"+QUEUED\r\n".to_vec());
        let len = format!(":{}\r\n", 2 * len);
        let exec = [b"*2\r\n$1\r\nx\r\n".as_slice(), len.as_bytes()].concat();
        add(&[b"EXEC"], exec);
        add(&[b"ECHO", &value], bulk(&value));
    }
    (requests, replies)
}

#[test]
fn large_arguments_may_come_in_any_pieces() {
    let (requests, replies) = large_requests(&[32_767, 32_768, 100_001]);
    for piece in [1_000, 16_384, 32_769, 65_536, 70_001, 1 << 20] {
        let mut sim = Sim::new();
        let mut received = Vec::new();
        for bytes in requests.chunks(piece) {
            sim.engine.feed(sim.client, bytes);
            run_ready(&mut sim.engine, &mut sim.clock);
            received.extend(sim.engine.sessions[sim.client].output.take_all());
        }
        assert!(received == replies, "in pieces of {piece}");
        let held = sim.engine.sessions[sim.client].input.capacity_bytes();
        assert!(held < 200_000, "{held} bytes are kept");
    }
}

#[test]
fn a_fast_reader_gets_a_huge_reply_without_a_pause() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut client = server.connect();
    let len = 128 * MEBIBYTE;
    expect(
        &mut client,
        &format!("SETRANGE k {} x", len - 1),
        &format!(":{len}"),
    );
    expect(
        &mut client,
        "CONFIG SET client-output-buffer-limit \"normal 0 0 0\"",
        "+OK",
    );
    client.write_all(b"GET k\r\n").expect("room");
    let mut left = len + "$134217728\r\n\r\n".len();
    let mut buffer = vec![0; 4 * MEBIBYTE];
    while left > 0 {
        let n = client.read(&mut buffer).expect("more of the reply");
        assert!(n > 0, "closed with {left} bytes to come");
        left -= n;
    }
}

/// A turn may be over before its first command has run: that one runs all the same.
#[test]
fn a_slow_look_ahead_does_not_keep_commands_waiting_for_ever() {
    let mut sim = Sim::new();
    sim.clock.cost_us = 50_000;
    sim.expect("set k v", "+OK");
    let other = sim.connect();
    sim.engine.feed(other, b"get k\r\nget k\r\n");
    sim.engine.feed(sim.client, b"get k\r\n");
    for _ in 0..3 {
        run_ready(&mut sim.engine, &mut sim.clock);
    }
    assert_eq!(sim.received(other), "$1 v $1 v");
    assert_eq!(sim.received(sim.client), "$1 v");
}

#[test]
fn names_and_keys_of_any_length_are_answered() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut other = server.connect();
    let long = "k".repeat(40 * MEBIBYTE);
    let ask_with = |words: [&str; 2], reply: &str| {
        let mut client = server.connect();
        let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*2\r\n{}", words.concat());
        client.write_all(request.as_bytes()).expect("room");
        expect(&mut client, "", reply);
    };
    ask_with(["GET", &long], "$-1");
    ask_with(["HLEN", &long], ":0");
    let mut client = server.connect();
    let name = format!("*2\r\n${}\r\n{long}\r\n$1\r\nx\r\n", long.len());
    client.write_all(name.as_bytes()).expect("room");
    let mut start = [0; 20];
    client.read_exact(&mut start).expect("an error");
    assert_eq!(&start, b"-ERR unknown command");
    // As much together.
    let each = &long[..MEBIBYTE];
    let mut clients: Vec<UnixStream> = (0..48).map(|_| server.connect()).collect();
    for client in &mut clients {
        let request = format!("*2\r\n$3\r\nGET\r\n${}\r\n{each}\r\n", each.len());
        client.write_all(request.as_bytes()).expect("room");
    }
    for client in &mut clients {
        expect(client, "", "$-1");
    }
    expect(&mut other, "PING", "+PONG");
}

#[test]
fn a_length_that_is_only_claimed_takes_no_memory() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut watcher = server.connect();
    let before: usize = info(&mut watcher, "used_memory_rss")
        .parse()
        .expect("bytes");
    let clients: Vec<UnixStream> = (0..200)
        .map(|_| {
            let mut client = server.connect();
            let request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nstart";
            client.write_all(request.as_bytes()).expect("room");
            client
        })
        .collect();
    wait_for("the requests to have been read", || {
        let read: usize = info(&mut watcher, "total_net_input_bytes").parse().ok()?;
        (read > 200 * 40).then_some(())
    });
    let after: usize = info(&mut watcher, "used_memory_rss")
        .parse()
        .expect("bytes");
    // 100 GiB are claimed; a huge page for each may have been touched.
    assert!(after < before + 700 * MEBIBYTE, "{before} {after}");
    drop(clients);
    expect(&mut watcher, "PING", "+PONG");
}

#[test]
fn who_leaves_during_a_pause_leaves_nothing_behind() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut admin = server.connect();
    expect(&mut admin, "CLIENT PAUSE 3600000 WRITE", "+OK");
    for ending in ["", "SET other"] {
        let mut client = server.connect();
        let sent = write!(client, "SET k v\r\nSET l w\r\n{ending}");
        sent.expect("room in the socket");
        drop(client);
        wait_for("its place to be free", || {
            (info(&mut admin, "connected_clients") == "1").then_some(())
        });
    }
    expect(&mut admin, "CLIENT UNPAUSE", "+OK");
    expect(&mut admin, "EXISTS k l", ":0");
}

/// Lets this process have as many files open as the system allows; how many that is.
fn most_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit may be raised");
    limit.maximum.unwrap_or(1 << 20)
}

#[test]
fn ten_thousand_idle_clients_are_in_nobodys_way() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut active = server.connect();
    // As many as there may be, less what the two processes need for themselves.
    let places: usize = server.info("maxclients").parse().expect("a number");
    let count = places.min(most_files() as usize - 100).min(10_000) - 10;
    let mut idle: Vec<UnixStream> = (0..count).map(|_| server.connect()).collect();
    wait_for("all to be in", || {
        let clients = info(&mut active, "connected_clients");
        (clients == (count + 1).to_string()).then_some(())
    });
    for i in 1..=1_000 {
        expect(&mut active, "INCR n", &format!(":{i}"));
    }
    // They are all still served.
    for stream in &mut idle {
        stream.write_all(b"PING\r\n").expect("room");
    }
    for stream in &mut idle {
        assert_eq!(ask(stream, "", 1).as_deref(), Some("+PONG\r\n"));
    }
    drop(idle);
    wait_for("all to be out", || {
        (info(&mut active, "connected_clients") == "1").then_some(())
    });
}

/// Files a process has open.
fn open_files(pid: Pid) -> u64 {
    let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
    std::fs::read_dir(path).expect("a process").count() as u64
}

fn limit_files(server: &Server, count: u64) {
    let limit = Rlimit {
        current: Some(count),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("the limit of a child");
}

/// Sends a PING from each of so many new clients.
fn knock(server: &Server, count: usize) -> Vec<UnixStream> {
    let knock = |_| {
        let mut stream = server.connect();
        stream.write_all(b"PING\r\n").expect("room");
        stream
    };
    (0..count).map(knock).collect()
}

/// Takes those out that have got their answer.
fn answered(waiting: &mut Vec<UnixStream>) -> Vec<UnixStream> {
    let has_answer = |stream: &mut UnixStream| {
        stream.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 7];
        let got = stream.read(&mut buffer);
        stream.set_nonblocking(false).expect("a socket");
        matches!(got, Ok(7))
    };
    waiting.extract_if(.., has_answer).collect()
}

#[test]
fn clients_without_a_descriptor_wait_for_one() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut early = server.connect();
    wait_for("the others to be gone", || {
        (info(&mut early, "connected_clients") == "1").then_some(())
    });
    limit_files(&server, open_files(server.pid()) + 5);
    let mut waiting = knock(&server, 15);
    wait_for("a refusal", || {
        let log = server.log();
        log.contains("Accepting client connection").then_some(())
    });
    let fitting: usize = info(&mut early, "connected_clients")
        .parse()
        .expect("a number");
    let fitting = fitting - 1;
    assert!((1..=7).contains(&fitting), "{fitting} fit");
    let mut inside = Vec::new();
    wait_for("those who fit", || {
        inside.append(&mut answered(&mut waiting));
        (inside.len() == fitting).then_some(())
    });
    // The others wait, and the server does not spin for them.
    let cycles = |early: &mut UnixStream| {
        let text = info(early, "eventloop_cycles");
        text.parse::<u64>().expect("a number")
    };
    let before = cycles(&mut early);
    let mut clock = SystemClock::new(Source::Monotonic);
    let start_ms = clock.read().monotonic_us / 1000;
    wait_for("half a second", || {
        (clock.read().monotonic_us / 1000 >= start_ms + 500).then_some(())
    });
    let took_ms = clock.read().monotonic_us / 1000 - start_ms;
    let turns = cycles(&mut early) - before;
    assert!(turns < 50 + took_ms, "{turns} turns in {took_ms} ms");
    assert_eq!(answered(&mut waiting).len(), 0);
    let log = server.log();
    assert_eq!(
        log.matches("Accepting client connection").count(),
        1,
        "{log}"
    );
    // Descriptors of clients that leave.
    inside.clear();
    wait_for("as many more", || {
        inside.append(&mut answered(&mut waiting));
        (inside.len() == fitting).then_some(())
    });
    // Descriptors from elsewhere: nothing tells the server.
    limit_files(&server, open_files(server.pid()) + 20);
    wait_for("the rest", || {
        inside.append(&mut answered(&mut waiting));
        waiting.is_empty().then_some(())
    });
    expect(&mut early, "PING", "+PONG");
}

#[test]
fn a_client_over_its_output_limit_is_counted_once() {
    for limit in ["normal 1000 0 0", "normal 0 1000 0"] {
        let mut sim = Sim::new();
        let client = sim.connect();
        let set = format!("config set client-output-buffer-limit \"{limit}\"");
        sim.expect(&set, "+OK");
        sim.expect(&format!("set k {}", "v".repeat(2_000)), "+OK");
        sim.engine.feed(client, b"get k\r\n");
        run_ready(&mut sim.engine, &mut sim.clock);
        sim.engine.note_sent(client, 0);
        assert_eq!(sim.engine.sessions[client].closing, Closing::Now);
        // Housekeeping meets it before its connection is closed.
        sim.advance(1_000);
        sim.engine.note_sent(client, 0);
        let stats = sim.run("info stats");
        let count = "client_output_buffer_limit_disconnections:1 ";
        assert!(stats.contains(count), "{limit}: {stats}");
    }
}

/// A server with `timeout 1`, and a client of it.
fn impatient() -> (Sim, usize) {
    let mut sim = Sim::new();
    sim.expect("config set timeout 1", "+OK");
    let client = sim.connect();
    (sim, client)
}

fn closing(sim: &Sim, client: usize) -> Closing {
    sim.engine.sessions[client].closing
}

/// Lets time pass in which the first client does something and the other one does not.
fn pass(sim: &mut Sim, ms: u64) {
    for _ in 0..ms / 100 {
        sim.expect("ping", "+PONG");
        sim.advance(100);
    }
}

#[test]
fn a_client_that_uploads_is_not_idle() {
    let (mut sim, client) = impatient();
    sim.engine
        .feed(client, b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$200000\r\n");
    for _ in 0..20 {
        pass(&mut sim, 900);
        assert_eq!(closing(&sim, client), Closing::No);
        sim.engine.feed(client, &[b'v'; 10_000]);
    }
    pass(&mut sim, 900);
    assert_eq!(sim.run_as(client, ""), "+OK");
    pass(&mut sim, 1_000);
    assert_eq!(closing(&sim, client), Closing::No);
    pass(&mut sim, 100);
    assert_eq!(closing(&sim, client), Closing::Now);
}

#[test]
fn a_client_that_downloads_is_not_idle() {
    let (mut sim, client) = impatient();
    sim.engine.feed(client, b"ping\r\n");
    run_ready(&mut sim.engine, &mut sim.clock);
    for _ in 0..20 {
        pass(&mut sim, 900);
        // Stands for what the shell does when the socket takes a part.
        sim.engine.note_sent(client, 1);
        assert_eq!(closing(&sim, client), Closing::No);
    }
    // A socket that takes nothing is no sign of life.
    pass(&mut sim, 900);
    sim.engine.note_sent(client, 0);
    pass(&mut sim, 200);
    assert_eq!(closing(&sim, client), Closing::Now);
}

#[test]
fn a_client_held_back_by_a_pause_is_not_idle() {
    let (mut sim, client) = impatient();
    sim.expect("client pause 5000 write", "+OK");
    sim.engine.feed(client, b"set k v\r\n");
    run_ready(&mut sim.engine, &mut sim.clock);
    pass(&mut sim, 5_000);
    assert_eq!(closing(&sim, client), Closing::No);
    assert_eq!(sim.received(client), "+OK");
    pass(&mut sim, 1_000);
    assert_eq!(closing(&sim, client), Closing::No);
    pass(&mut sim, 100);
    assert_eq!(closing(&sim, client), Closing::Now);
}

#[test]
fn a_client_to_be_closed_that_never_reads_its_reply_does_not_stay() {
    for (timeout, ms) in [(1, 1_000), (0, 60_000), (3_600, 60_000)] {
        for last in ["quit", "*x", "subscribe c\r\nquit"] {
            let mut sim = Sim::new();
            sim.expect(&format!("config set timeout {timeout}"), "+OK");
            let client = sim.connect();
            sim.engine
                .feed(client, format!("ping\r\n{last}\r\n").as_bytes());
            run_ready(&mut sim.engine, &mut sim.clock);
            assert_eq!(closing(&sim, client), Closing::AfterReply);
            sim.engine.note_sent(client, 1);
            pass(&mut sim, ms);
            assert_eq!(closing(&sim, client), Closing::AfterReply, "{last}");
            pass(&mut sim, 100);
            assert_eq!(closing(&sim, client), Closing::Now, "{last}");
        }
    }
}

#[test]
fn a_client_to_be_closed_that_leaves_is_noticed() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut good = long_value(&server);
    for half in [false, true] {
        let mut bad = server.connect();
        let bad_id = id(&mut bad);
        bad.write_all(&[&b"GET big\r\n".repeat(8)[..], b"QUIT\r\n"].concat())
            .expect("room");
        wait_for("its requests", || {
            let text = ask(&mut good, &format!("CLIENT LIST ID {bad_id}\r\n"), 3)?;
            text.contains(" cmd=quit ").then_some(())
        });
        if half {
            bad.shutdown(std::net::Shutdown::Write).expect("a shutdown");
            assert!(is_there(&mut good, &bad_id));
        }
        drop(bad);
        wait_for("the end of the client", || {
            (!is_there(&mut good, &bad_id)).then_some(())
        });
    }
}

#[test]
fn long_commands_of_one_client_do_not_hold_up_another() {
    let mut sim = Sim::new();
    let items = " item".repeat(10_000);
    sim.expect(&format!("rpush l{items}"), ":10000");
    let client = sim.connect();
    sim.engine.feed(client, &b"lrange l 0 -1\r\n".repeat(32));
    // Each reading of the clock stands for the time that a command takes.
    sim.clock.cost_us = 4_000;
    let mut answered = 0;
    let mut turn = |sim: &mut Sim| {
        run_ready(&mut sim.engine, &mut sim.clock);
        answered += sim.received(client).matches("*10000").count();
        answered
    };
    assert!((1..5).contains(&turn(&mut sim)));
    sim.engine.feed(sim.client, b"ping\r\n");
    while sim.received(sim.client).is_empty() {
        assert!(turn(&mut sim) < 8);
    }
    sim.clock.cost_us = 0;
    assert_eq!(turn(&mut sim), 32);
}
