//! The real binary: packets, tools, signals, arguments.

use std::io::Write;
use std::net::TcpListener;

use rustix::process::Signal;

use crate::process::{Server, ask, run_to_end, text_of};
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
