//! The real binary: packets, tools, signals, arguments.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use mayfly::clock::{Clock, Source, SystemClock};
use rustix::process::Signal;

use crate::process::{Server, ask, expect, mayfly, run_to_end, text_of, wait_for};
use crate::sim::TempDir;

#[test]
fn requests_may_come_byte_by_byte() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nGET k\r\n";
    for byte in request.bytes() {
        stream.write_all(&[byte]).expect("a byte goes out");
    }
    let reply = ask(&mut stream, "", 4);
    assert_eq!(reply.as_deref(), Some("+OK\r\n$4\r\na\r\nb\r\n"));
}

#[test]
fn a_pipeline_of_ten_thousand_is_answered_in_order() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let requests = "INCR n\r\n".repeat(10_000);
    let reply = ask(&mut stream, &requests, 10_000).expect("replies");
    let expected: String = (1..=10_000).map(|i| format!(":{i}\r\n")).collect();
    assert!(reply == expected);
}

#[test]
fn the_usual_tools_work() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    assert_eq!(server.tool("redis-cli", &["set", "k", "v"]), "OK\n");
    assert_eq!(server.tool("redis-cli", &["get", "k"]), "v\n");
    assert_eq!(server.tool("redis-cli", &["-3", "ping"]), "PONG\n");
    let args = "-t ping,set,get,incr,mset -P 16 -c 50 -n 20000 --csv";
    let args: Vec<&str> = args.split(' ').collect();
    let text = server.tool("redis-benchmark", &args);
    for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"] {
        assert!(text.contains(&format!("\"{test}")), "{text}");
    }
    assert_eq!(server.run("ping", 1), "+PONG\r\n");
}

#[test]
fn sigterm_saves_when_asked_and_a_restart_has_the_same_deadlines() {
    let dir = TempDir::new();
    let mut server = Server::start(&dir);
    server.run("set k v ex 1000", 1);
    server.run("set forever v", 1);
    let deadline = server.run("pexpiretime k", 1);
    server.run("config set save \"3600 1\"", 1);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::start(&dir);
    assert_eq!(server.run("pexpiretime k", 1), deadline);
    assert_eq!(server.run("dbsize", 1), ":2\r\n");
    assert_eq!(server.run("ttl forever", 1), ":-1\r\n");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let dir = TempDir::new();
    let dir_name = dir.path().display().to_string();
    let output = run_to_end(&["--port", &port, "--dir", &dir_name, "--bind", "127.0.0.1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = text_of(&output);
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("in use"), "{text}");
}

#[test]
fn a_bad_line_of_the_configuration_is_named() {
    let dir = TempDir::new();
    let path = dir.file("bad.conf");
    std::fs::write(&path, "# fine\nport 0\nhz many\n").expect("the disk is writable");
    let path = std::fs::canonicalize(&path).expect("a path");
    let path = path.display().to_string();
    let output = run_to_end(&[&path]);
    assert_eq!(output.status.code(), Some(1));
    let text = text_of(&output);
    assert!(text.contains(&format!("{path}:3")), "{text}");
}

/// Runs the binary with one thing wrong about it; it must say so and exit with 1.
#[track_caller]
fn assert_refused(command: &mut Command, expected: &str) {
    let output = command.output().expect("the binary");
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn bytes_that_are_no_text_are_refused_or_left_alone() {
    let bad = OsStr::from_bytes(b"a\xff");
    let refused = "the argument 'a\u{fffd}' is not UTF-8";
    assert_refused(mayfly().arg(bad), refused);
    assert_refused(mayfly().args(["--dir"]).arg(bad), refused);
    let refused = "the environment variable MAYFLY_DIR is not UTF-8";
    assert_refused(mayfly().env("MAYFLY_DIR", bad), refused);
    let dir = TempDir::new();
    let mut command = mayfly();
    command.env("OTHER", bad).env(bad, "other");
    let server = Server::launch(&dir, command);
    assert_eq!(server.run("PING", 1), "+PONG\r\n");
}

#[test]
fn a_log_file_that_cannot_be_opened_is_refused() {
    let dir = TempDir::new();
    let path = dir.file("missing/log").display().to_string();
    let expected = format!("can't open the log file '{path}': No such file");
    assert_refused(mayfly().args(["--logfile", &path]), &expected);
}

#[test]
fn a_snapshot_that_is_no_file_is_refused() {
    for is_pipe in [true, false] {
        let dir = TempDir::new();
        let path = dir.file("dump.mayfly");
        if is_pipe {
            let status = Command::new("mkfifo").arg(&path).status();
            assert!(status.expect("mkfifo").success());
        } else {
            std::fs::create_dir(&path).expect("a directory");
        }
        let dir_name = dir.path().display().to_string();
        let args = ["--port", "0", "--dir", &dir_name, "--unixsocket"];
        let socket = dir.file("s").display().to_string();
        assert_refused(mayfly().args(args).arg(socket), "not a regular file");
        assert_refused(mayfly().arg("check").arg(&path), "not a regular file");
    }
}

#[test]
fn an_output_that_is_full_or_closed_is_no_reason_to_panic() {
    let full = || std::fs::File::options().write(true).open("/dev/full");
    let mut command = mayfly();
    command.arg("--help").stdout(full().expect("/dev/full"));
    let output = command.output().expect("the binary");
    assert_eq!(
        (output.status.code(), text_of(&output)),
        (Some(1), String::new())
    );
    let dir = TempDir::new();
    let socket = dir.file("s");
    let mut child = mayfly()
        .args(["--port", "0", "--save", "", "--dir"])
        .arg(dir.path())
        .arg("--unixsocket")
        .arg(&socket)
        .stdout(full().expect("/dev/full"))
        .spawn()
        .expect("the binary");
    let mut stream = wait_for("a connection", || UnixStream::connect(&socket).ok());
    assert_eq!(
        ask(&mut stream, "PING\r\n", 1).as_deref(),
        Some("+PONG\r\n")
    );
    child.kill().expect("the server is there");
    child.wait().expect("its end");
}

#[test]
fn config_set_says_at_once_what_cannot_be_had() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let failed = |name: &str, why: &str| {
        format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}\r\n")
    };
    let reply = server.run(&format!("CONFIG SET bind 127.0.0.1 port {port}"), 1);
    let why = "Unable to listen on this port. Check server logs.";
    assert_eq!(reply, failed("port", why));
    assert_eq!(
        server.run("CONFIG GET port", 5),
        "*2\r\n$4\r\nport\r\n$1\r\n0\r\n"
    );
    drop(taken);
    // The port may be taken by somebody else by now, so any reply but a wrong one will do.
    let ok = "+OK\r\n";
    let connects = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    if server.run(&format!("CONFIG SET bind 127.0.0.1 port {port}"), 1) == ok {
        assert!(connects());
        let reply = server.run("CONFIG SET bind \"127.0.0.1 192.0.2.1\"", 1);
        assert_eq!(
            reply,
            failed("bind", "Failed to bind to specified addresses.")
        );
        assert!(connects(), "the old address is still served");
        let reply = server.run("CONFIG SET bind \"127.0.0.1 -192.0.2.1\"", 1);
        assert_eq!(reply, ok);
        assert!(connects());
    }
    let reply = server.run("CONFIG SET maxclients 4000000000", 1);
    let why = "The operating system is not able to handle the specified number of clients, try";
    assert!(reply.contains(why), "{reply}");
    assert_eq!(server.run("CONFIG SET maxclients 100", 1), ok);
}

#[test]
fn a_browser_learns_nothing() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n";
    stream.write_all(request).expect("room");
    let mut reply = Vec::new();
    // Closed with bytes unread, which may be told as a reset.
    let _ = stream.read_to_end(&mut reply);
    assert_eq!(String::from_utf8_lossy(&reply), "");
}

fn resident_mib(server: &Server) -> usize {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("the server runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kibibytes.map_or(0, |kibibytes: usize| kibibytes / 1024)
}

/// Nobody asks the server for anything meanwhile: it gives its memory back by itself.
#[test]
fn a_silent_server_gives_freed_memory_back() {
    let dir = TempDir::new();
    let server = Server::start_with(&dir, &["--enable-debug-command", "local"]);
    server.run("debug populate 300000 k 200", 1);
    let full = resident_mib(&server);
    assert!(full > 60, "{full} MiB");
    // Longer than housekeeping waits between two looks at the memory.
    server.run("debug sleep 0.2", 1);
    server.run("flushall", 1);
    wait_for("the memory", || {
        (resident_mib(&server) < full / 2).then_some(())
    });
    let peak: usize = server.info("used_memory_peak").parse().expect("a number");
    assert!(peak > 50 << 20, "{peak} bytes");
}

/// The most memory the server ever had resident, in KiB.
fn peak_kib(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("the server runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a peak")
}

#[test]
fn a_copy_onto_a_key_that_exists_copies_nothing() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    // 30 to 40 MB, and no type that shares its pieces with its copies.
    for part in 0..1_000 {
        let mut request = String::from("*602\r\n$4\r\nZADD\r\n$3\r\nbig\r\n");
        (0..300).for_each(|i| request += &format!("$1\r\n1\r\n$84\r\n{part:040}{i:044}\r\n"));
        let reply = ask(&mut stream, &request, 1);
        assert_eq!(reply.as_deref(), Some(":300\r\n"));
    }
    assert_eq!(server.run("SET there v", 1), "+OK\r\n");
    let before = peak_kib(&server);
    assert_eq!(server.run("COPY big there", 1), ":0\r\n");
    let after = peak_kib(&server);
    assert!(after < before + 8 * 1024, "{before} KiB, then {after}");
    assert_eq!(server.run("COPY big there REPLACE", 1), ":1\r\n");
    let copied = peak_kib(&server);
    assert!(copied > before + 16 * 1024, "{before} KiB, then {copied}");
}

#[test]
fn absolute_times_are_those_of_the_wall_clock_to_the_microsecond() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let mut clock = SystemClock::new(Source::Wall);
    for round in 0..300 {
        let before_us = clock.read().wall_us;
        let at_ms = before_us / 1_000 + 10_000;
        let text = format!("SET k v PXAT {at_ms}\r\nPTTL k\r\nPEXPIRETIME k\r\nTIME\r\n");
        let reply = ask(&mut stream, &text, 8).expect("a reply");
        let after_us = clock.read().wall_us;
        let lines: Vec<&str> = reply.split("\r\n").collect();
        let number = |line: usize| lines[line].trim_start_matches(':').parse::<i64>();
        let left_ms = number(1).expect("a number");
        assert!(left_ms <= 10_000, "{left_ms} in round {round}");
        assert_eq!(number(2), Ok(at_ms));
        let (s, us) = (
            number(5).expect("seconds"),
            number(7).expect("microseconds"),
        );
        let told_us = s * 1_000_000 + us;
        // Two microseconds for the rounding of three readings.
        let range = before_us - 2..=after_us + 2;
        assert!(range.contains(&told_us), "{told_us} is not in {range:?}");
    }
}

/// The lines of a section of INFO, but for its title.
fn section(server: &Server, name: &str) -> Vec<String> {
    let mut stream = server.connect();
    let mut text = ask(&mut stream, &format!("INFO {name}\r\nPING\r\n"), 1).expect("a reply");
    while !text.ends_with("+PONG\r\n") {
        text += &ask(&mut stream, "", 1).expect("the rest");
    }
    let lines = text.lines().skip(2).map(str::to_owned);
    lines.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn unknown_commands_that_a_script_calls_are_counted_too() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let mut send = |script: &str| {
        let request = format!("EVAL \"{script}\" 0\r\n");
        ask(&mut stream, &request, 1).expect("a reply")
    };
    let reply = send("return redis.call('XNOPE', 'x', '*')");
    assert!(
        reply.starts_with("-ERR Unknown Redis command called from script"),
        "{reply}"
    );
    send("return redis.pcall('xnope', 'x')");
    send("return redis.pcall('object', 'nope')");
    let expected = [
        "unknown_command_object|nope:calls=1",
        "unknown_command_xnope:calls=2",
    ];
    assert_eq!(section(&server, "unknowncommands"), expected);
    let log = server.log();
    assert_eq!(log.matches("the unknown command").count(), 2, "{log}");
}

#[test]
fn unknown_commands_that_libraries_swallow_are_logged_once_and_counted_by_name() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let mut send = |request: &str, replies: usize| {
        let reply = ask(&mut stream, request, replies).expect("replies");
        assert!(reply.contains("-ERR unknown "), "{reply}");
    };
    send("XNOPE x *\r\nxnope y *\r\nXQuux z 0\r\n", 3);
    send("CLIENT NOPE\r\nclient nope x\r\nOBJECT nope k\r\n", 3);
    send("MULTI\r\nXNOPE x 0\r\nEXEC\r\n", 3);
    // Nothing that a client sends can forge a line.
    send("*1\r\n$13\r\nx\r\n# A:1\r\ny:2\r\n", 1);
    let expected = [
        "unknown_command_client|nope:calls=2",
        "unknown_command_object|nope:calls=1",
        "unknown_command_x\\x0d\\x0a\\x23\\x20a\\x3a1\\x0d\\x0ay\\x3a2:calls=1",
        "unknown_command_xnope:calls=3",
        "unknown_command_xquux:calls=1",
    ];
    assert_eq!(section(&server, "unknowncommands"), expected);
    let log = server.log();
    let count = |log: &str, text: &str| log.matches(text).count();
    assert_eq!(count(&log, "the unknown command"), 5, "{log}");
    assert_eq!(count(&log, "the unknown command 'xnope'"), 1, "{log}");
    // Names beyond the limit are counted together; neither the log nor INFO can be flooded.
    for _ in 0..2 {
        let flood: String = (0..200).map(|i| format!("FLOOD{i:x<300}\r\n")).collect();
        send(&flood, 200);
    }
    let lines = section(&server, "unknowncommands");
    assert_eq!(lines.len(), 65);
    assert!(lines.iter().all(|line| line.len() < 100), "{lines:?}");
    let other = lines.last().map(String::as_str);
    assert_eq!(other, Some("unknown_commands_other:calls=282"), "{lines:?}");
    assert_eq!(server.run("CONFIG RESETSTAT", 1), "+OK\r\n");
    assert_eq!(section(&server, "unknowncommands"), [""; 0]);
    send("XNOPE x 0\r\n", 1);
    send("NEWNAME\r\n", 1);
    let expected = [
        "unknown_command_newname:calls=1",
        "unknown_command_xnope:calls=1",
    ];
    assert_eq!(section(&server, "unknowncommands"), expected);
    let log = server.log();
    assert_eq!(count(&log, "the unknown command"), 64, "{log}");
    assert_eq!(count(&log, "are not logged"), 1, "{log}");
}

/// The allocator's settings are in the binary, whatever directory it was built from.
#[test]
fn the_build_tells_whether_it_is_the_one_that_was_measured() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    assert!(server.info("mem_allocator").starts_with("jemalloc-5."));
    let build = server.info("mayfly_build");
    let unoptimized = "built without optimization; cargo build --release makes the fast one";
    assert!(
        ["as measured", unoptimized].contains(&build.as_str()),
        "{build}"
    );
    assert_eq!(server.log().contains(unoptimized), build == unoptimized);
    drop(server);
    // Whoever sets them otherwise has the last word, and is told.
    let mut command = mayfly();
    command.env(
        "_RJEM_MALLOC_CONF",
        "thp:never,slab_sizes:1-128:1,cache_oblivious:true",
    );
    let server = Server::launch(&dir, command);
    let build = server.info("mayfly_build");
    for option in ["thp", "slab_sizes", "cache_oblivious"] {
        let fault = format!("the allocator's option {option} is not");
        assert!(build.contains(&fault), "{build}");
        assert!(server.log().contains(&fault));
    }
}

#[test]
fn what_a_server_took_at_start_is_not_more_than_it_holds_later() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    let number = |name: &str| -> u64 { server.info(name).parse().expect("a number") };
    for _ in 0..4 {
        for i in 0..3_000 {
            expect(&mut stream, &format!("setex key{i} 10000 x"), "+OK");
        }
        expect(&mut stream, "flushall", "+OK");
        // What the allocator kept at hand at start comes back as it is used.
        let (used, startup) = (number("used_memory"), number("used_memory_startup"));
        assert!(used >= startup, "{used} < {startup}");
    }
}
