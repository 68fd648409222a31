//! A running binary, over a unix socket in a directory of its own, and how to wait for it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use mayfly::clock::{Clock, Source, SystemClock};
use rustix::process::{Pid, Signal, kill_process};

use crate::sim::TempDir;

/// How long anything may take before the test has failed.
pub const DEADLINE_MS: u64 = 60_000;
/// How long to leave the processor to others between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Waits until `condition` gives something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
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

pub fn mayfly() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
    command.stdin(Stdio::null());
    command
}

/// A running server; killed when dropped.
pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
}

impl Server {
    /// Starts one in `dir` and waits until it answers.
    pub fn start(dir: &TempDir) -> Server {
        Server::start_with(dir, &[])
    }

    /// The same, with more arguments.
    pub fn start_with(dir: &TempDir, args: &[&str]) -> Server {
        let mut command = mayfly();
        command.args(args);
        Server::launch(dir, command)
    }

    /// The same, by a command of the caller's.
    pub fn launch(dir: &TempDir, command: Command) -> Server {
        Server::launch_in(dir, dir.path(), command)
    }

    /// The same with another working directory; socket and log are in `dir`.
    pub fn launch_in(dir: &TempDir, data: &Path, mut command: Command) -> Server {
        let socket = dir.file("mayfly.sock");
        let log = std::fs::File::create(dir.file("log")).expect("a log");
        let child = command
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(data)
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

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("a connection");
        let timeout = Some(Duration::from_millis(DEADLINE_MS));
        stream.set_read_timeout(timeout).expect("a timeout");
        stream
    }

    /// One inline request with a reply of `lines` lines.
    #[track_caller]
    pub fn run(&self, request: &str, lines: usize) -> String {
        ask(&mut self.connect(), &format!("{request}\r\n"), lines).expect("a reply")
    }

    /// A field of INFO.
    #[track_caller]
    pub fn info(&self, name: &str) -> String {
        info(&mut self.connect(), name)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        let path = self.socket.with_file_name("log");
        std::fs::read_to_string(path).expect("a log")
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server is there");
    }

    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_for("the exit", || child.try_wait().expect("a child"))
    }

    pub fn tool(&self, name: &str, args: &[&str]) -> String {
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
pub fn ask(stream: &mut UnixStream, text: &str, lines: usize) -> Option<String> {
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

/// A field of INFO, asked for by a client that is connected already.
#[track_caller]
pub fn info(stream: &mut UnixStream, name: &str) -> String {
    let end = "+PONG\r\n";
    let mut text = ask(stream, "INFO everything\r\nPING\r\n", 1).expect("a reply");
    while !text.ends_with(end) {
        text += &ask(stream, "", 1).expect("the rest");
    }
    let start = format!("{name}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .to_owned()
}

/// Runs the binary to its end.
pub fn run_to_end(args: &[&str]) -> Output {
    mayfly().args(args).output().expect("the binary")
}

pub fn text_of(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Reads until the server hangs up; what came before that.
pub fn read_to_end(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return bytes,
            Err(error) => panic!("the server did not hang up: {error}"),
        }
    }
}

/// One inline request, or the last bytes of another, with its reply of one line.
#[track_caller]
pub fn expect(stream: &mut UnixStream, request: &str, reply: &str) {
    let got = ask(stream, &format!("{request}\r\n"), 1).expect("a reply");
    let begin = &request[..request.len().min(80)];
    assert_eq!(got, format!("{reply}\r\n"), "{begin}");
}
