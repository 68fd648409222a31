//! A server in virtual time: the engine, a clock moved by hand, and no I/O but snapshots.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::command::dispatch::run_ready;
use mayfly::config::{Config, Permission};
use mayfly::engine::session::SessionKey;
use mayfly::engine::{Engine, Origin};
use mayfly::snapshot::storage::Storage;

/// When the clock of every simulation starts, Unix ms.
pub const START: i64 = 1_700_000_000_000;

/// A directory of its own under the system's, removed with its owner.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let nth = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mayfly-test-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Number of unfinished snapshots.
    pub fn temporary_files(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).expect("the directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names
            .filter(|n| n.to_string_lossy().contains(".tmp."))
            .count()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The simulated server with one client that is always there.
pub struct Sim {
    pub engine: Engine,
    pub clock: ManualClock,
    pub client: SessionKey,
}

impl Sim {
    pub fn new() -> Sim {
        // Without save points, as there is no directory to save in.
        let config = Config {
            save: Vec::new(),
            ..Config::default()
        };
        Sim::with(config, 1)
    }

    pub fn with(config: Config, seed: u64) -> Sim {
        let mut clock = ManualClock::new(UnixMillis(START));
        let reading = clock.read();
        let mut engine = Engine::new(config, reading, seed);
        mayfly::command::server::config::apply_all(&mut engine);
        let client = engine.connect(Origin::default());
        Sim {
            engine,
            clock,
            client,
        }
    }

    /// A server whose snapshot is in `dir`.
    pub fn saving_in(dir: &TempDir, seed: u64) -> Sim {
        let config = Config {
            dir: dir.path().display().to_string(),
            ..Config::default()
        };
        Sim::with(config, seed)
    }

    /// A server whose snapshot is /data/dump.mayfly in this storage.
    pub fn saving_on(storage: impl Storage + 'static, seed: u64) -> Sim {
        let config = Config {
            dir: "/data".to_owned(),
            debug_command: Permission::Yes,
            ..Config::default()
        };
        let mut sim = Sim::with(config, seed);
        sim.engine.jobs.persistence.storage = Arc::new(storage);
        sim
    }

    pub fn connect(&mut self) -> SessionKey {
        self.engine.connect(Origin::default())
    }

    /// One inline request of the first client; its reply.
    pub fn run(&mut self, request: &str) -> String {
        self.run_as(self.client, request)
    }

    /// One inline request; the reply with a space for each end of line.
    pub fn run_as(&mut self, client: SessionKey, request: &str) -> String {
        self.engine
            .feed(client, format!("{request}\r\n").as_bytes());
        run_ready(&mut self.engine, &mut self.clock);
        self.received(client)
    }

    /// One multibulk request of the first client; the reply as it stands.
    pub fn ask(&mut self, request: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        for arg in request {
            bytes.extend(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend([arg, b"\r\n".as_slice()].concat());
        }
        self.engine.feed(self.client, &bytes);
        run_ready(&mut self.engine, &mut self.clock);
        self.take(self.client)
    }

    fn take(&mut self, client: SessionKey) -> Vec<u8> {
        let bytes = self.engine.sessions[client].output.take_all();
        self.engine.note_sent(client, bytes.len());
        bytes
    }

    /// What the client has been sent since the last look.
    pub fn received(&mut self, client: SessionKey) -> String {
        let bytes = self.take(client);
        let text = String::from_utf8_lossy(&bytes);
        text.replace("\r\n", " ").trim_end().to_owned()
    }

    #[track_caller]
    pub fn expect(&mut self, request: &str, reply: &str) {
        assert_eq!(self.run(request), reply, "{request}");
    }

    /// Requests and their replies, one pair a line, parted by `=>`; `+5` moves the clock 5 ms
    /// without collecting. Braces around a reply stand for an `ERR` reply.
    #[track_caller]
    pub fn script(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(ms) = line.strip_prefix('+') {
                self.clock
                    .advance_ms(ms.parse().expect("a number of milliseconds"));
                continue;
            }
            let (request, reply) = line.split_once("=>").expect("request => reply");
            let reply = reply.trim();
            let error = reply.strip_prefix('{').and_then(|r| r.strip_suffix('}'));
            let reply = error.map_or(reply.to_owned(), |text| format!("-ERR {text}"));
            assert_eq!(self.run(request.trim()), reply, "{line}");
        }
    }

    /// Moves the clock and lets the jobs of an idle server run.
    pub fn advance(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        self.jobs();
    }

    /// One slice of jobs on an idle server.
    pub fn jobs(&mut self) {
        self.engine.run_jobs(&mut self.clock, true);
        run_ready(&mut self.engine, &mut self.clock);
    }
}
