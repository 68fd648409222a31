//! The real binary, over a unix socket in a directory of its own: packets, tools, signals, faults.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use mayfly::clock::{Clock, Source, SystemClock};
use rustix::process::{Pid, Signal, kill_process};

use crate::sim::TempDir;

/// How long anything may take before the test has failed.
const DEADLINE_MS: u64 = 60_000;
/// How long to leave the processor to others between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits until `condition` gives something.
#[track_caller]
fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let mut clock = SystemClock::new(Source::Monotonic);
    let until_us = clock.read().monotonic_us + DEADLINE_MS * 1_000;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(clock.read().monotonic_us < until_us, "waited for {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn mayfly() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
    command.stdin(Stdio::null());
    command
}

/// A running server; killed when dropped.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts one in `dir` and waits until it answers.
    fn start(dir: &TempDir) -> Server {
        let socket = dir.file("mayfly.sock");
        let log = std::fs::File::create(dir.file("log")).expect("a log");
        let child = mayfly()
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(dir.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary");
        let mut server = Server { child, socket };
        wait_for("a PONG", || {
            if let Some(status) = server.child.try_wait().expect("a child") {
                let log = std::fs::read_to_string(dir.file("log")).unwrap_or_default();
                panic!("exited with {status}: {log}");
            }
            let mut stream = UnixStream::connect(&server.socket).ok()?;
            (ask(&mut stream, "DBSIZE\r\n", 1)?.starts_with(':')).then_some(())
        });
        server
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("a connection");
        let timeout = Some(Duration::from_millis(DEADLINE_MS));
        stream.set_read_timeout(timeout).expect("a timeout");
        stream
    }

    /// One inline request with a reply of `lines` lines.
    #[track_caller]
    fn run(&self, request: &str, lines: usize) -> String {
        ask(&mut self.connect(), &format!("{request}\r\n"), lines).expect("a reply")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the server is there");
    }

    fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_for("the exit", || child.try_wait().expect("a child"))
    }

    fn tool(&self, name: &str, args: &[&str]) -> String {
        let output = Command::new(name)
            .arg("-s")
            .arg(&self.socket)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{name} is needed (tests/all.sh): {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name} {args:?}: {text}");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends bytes and reads until so many lines have come; `None` if the server hangs up first.
fn ask(stream: &mut UnixStream, text: &str, lines: usize) -> Option<String> {
    stream.write_all(text.as_bytes()).ok()?;
    let mut reply = Vec::new();
    let mut buffer = [0; 65_536];
    let mut seen = 0;
    while seen < lines {
        let n = stream.read(&mut buffer).ok()?;
        if n == 0 {
            return None;
        }
        seen += buffer[..n].iter().filter(|byte| **byte == b'\n').count();
        reply.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8(reply).ok()
}

/// Runs the binary to its end.
fn run_to_end(args: &[&str]) -> Output {
    mayfly().args(args).output().expect("the binary")
}

fn text_of(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

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
fn a_kill_during_a_save_leaves_a_whole_snapshot() {
    let dir = TempDir::new();
    let mut server = Server::start(&dir);
    let mut stream = server.connect();
    let fill: String = (0..50_000)
        .map(|i| format!("SET key:{i} value PX {}\r\n", 1_000_000 + i))
        .collect();
    let replies = ask(&mut stream, &fill, 50_000).expect("replies");
    assert!(replies.bytes().filter(|byte| *byte == b'+').count() == 50_000);
    assert_eq!(server.run("save", 1), "+OK\r\n");
    let before = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    let reply = ask(&mut stream, "SET late v\r\nBGSAVE\r\n", 2).expect("replies");
    assert!(reply.contains("Background saving started"), "{reply}");
    server.signal(Signal::KILL);
    server.wait();
    let after = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    let server = Server::start(&dir);
    let keys = if after == before { 50_000 } else { 50_001 };
    assert_eq!(server.run("dbsize", 1), format!(":{keys}\r\n"));
}

#[test]
fn a_damaged_snapshot_is_refused_and_left_alone() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    server.run("set k v", 1);
    server.run("save", 1);
    drop(server);
    let path = dir.file("dump.mayfly");
    let mut bytes = std::fs::read(&path).expect("a snapshot");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, &bytes).expect("the disk is writable");
    let socket = dir.file("other.sock").display().to_string();
    let dir_name = dir.path().display().to_string();
    let output = run_to_end(&["--port", "0", "--unixsocket", &socket, "--dir", &dir_name]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("left as it"));
    assert!(std::fs::read(&path).expect("a snapshot") == bytes);
    let output = run_to_end(&["check", &path.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
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
