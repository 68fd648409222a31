//! The whole server's state, without I/O of its own.
//!
//! The shell (`server`) feeds bytes in and drains bytes out; commands (`command`) act on what is
//! here. Time comes in with every turn, randomness with [`Engine::new`], so that a simulation can
//! run years of TTLs and thousands of clients in a second.
//!
//! ```text
//! bytes ──> Session.input ──> ready ──> (command::dispatch) ──> Session.output ──> bytes
//!                                         │                        ▲
//!                                     Keyspace ──> changes ──> pub/sub, WATCH
//! ```
//!
//! Invariants: a session with pending output is on `unflushed`, one with waiting requests is on
//! `ready` unless it is paused or closing; changes are published before the next command runs.
//!
//! Not here: what a command does (`command`), sockets (`server`).

pub mod blocking;
pub mod client_limits;
pub mod client_memory;
pub mod defrag;
pub mod eviction;
pub mod huge_pages;
pub mod jobs;
pub mod ledger;

pub mod libraries;
pub mod memory;
pub mod metrics;
pub mod persistence;
pub mod pubsub;

pub mod scripts;
pub mod session;
pub mod watch;

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use slab::Slab;

use crate::clock::{Clock, Reading};
use crate::config::{Config, NotifyFlags, SetError};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::Limits;
use crate::store::Keyspace;
use crate::store::change::{Changes, Event};
use blocking::Blocking;
use client_memory::ClientMemory;
use eviction::MemoryLimit;
use jobs::Jobs;
use metrics::Metrics;
use pubsub::PubSub;
use scripts::Scripts;
use session::{Closing, Input, Replies, Session, SessionKey, Transaction};
use watch::Watch;

/// The version of Redis whose behaviour clients may count on.
pub const REDIS_VERSION: &str = "7.4.0";

/// Puts changed settings of sockets, descriptors and the log into effect, which the engine cannot
/// do itself. Gets all settings as they are now and as they were, and the names of those that
/// changed; if it fails nothing has changed.
pub type Reconfigure = Box<dyn FnMut(&Config, &Config, &[&str]) -> Result<(), SetError>>;

/// Which commands a CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseKind {
    /// All of them.
    All,
    /// Those that may write.
    Write,
}

/// A CLIENT PAUSE in force.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// When it ends, in ms of monotonic time.
    pub until_ms: u64,
    /// What it holds back.
    pub kind: PauseKind,
}

/// Facts about the process that do not change.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// 40 hexadecimal digits, new with every start.
    pub run_id: String,
    /// Process id.
    pub pid: u32,
    /// Path of the binary.
    pub executable: String,
    /// Path of the configuration file, empty if none.
    pub config_file: String,
    /// Operating system and release.
    pub os: String,
    /// When the process started, monotonic microseconds.
    pub started_us: u64,
    /// Memory that the process may use, in bytes: the machine's, or that of its container; 0 if
    /// nobody has said.
    pub memory_bytes: u64,
    /// Memory the process used before it held any key, in bytes.
    pub startup_bytes: u64,
}

/// The server's state.
pub struct Engine {
    /// All keys.
    pub keyspace: Keyspace,
    /// All clients.
    pub sessions: Slab<Session>,
    /// All settings.
    pub config: Config,
    /// The instant of the running command.
    pub reading: Reading,
    /// Subscriptions to channels and patterns.
    pub pubsub: PubSub,
    /// Watched keys and the clients that watch them.
    pub watch: Watch,
    /// Keys that blocked clients wait for, and those clients.
    pub blocking: Blocking,
    /// Counters.
    pub metrics: Metrics,
    /// What is known of the memory limit.
    pub memory_limit: MemoryLimit,
    /// What clients take, if there is a limit for them.
    pub client_memory: ClientMemory,
    /// Background work.
    pub jobs: Jobs,
    /// CLIENT PAUSE.
    pub pause: Option<Pause>,
    /// Sessions with requests to execute, in order of service.
    pub ready: VecDeque<SessionKey>,
    /// Sessions with output to be written.
    pub unflushed: Vec<SessionKey>,
    /// Some session could not be written all it is owed.
    pub has_backlog: bool,
    /// Some session has buffers that hold nothing.
    pub has_spare_buffers: bool,
    /// Sessions that are to be closed.
    pub closing: Vec<SessionKey>,
    /// Scripts and functions.
    pub scripts: Scripts,
    /// The client whose command takes so long that others are told so; time stands still for all.
    pub busy: Option<SessionKey>,
    /// Stop the server with this exit code: all has been saved that was to be saved.
    pub exit: Option<i32>,
    /// Given by the shell; without one such settings are no more than remembered.
    pub reconfigure: Reconfigure,
    /// Bytes that connections to the port of metrics hold; told by the shell.
    pub web_bytes: usize,
    /// Facts about the process.
    pub identity: Identity,
    /// For whatever needs chance outside the keyspace.
    pub rng: SmallRng,
    /// Number of the client that connected last.
    last_id: u64,
    /// EXPIRY PAUSE or DEBUG SET-ACTIVE-EXPIRE 0 is in force until this moment, in ms of monotonic
    /// time: what is due is hidden, and removed where commands meet it, but not looked for.
    pub expiry_paused_until_ms: Option<u64>,
}

/// Where a new client comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its address and port, or the unix socket's path.
    pub peer: String,
    /// The server's side of the connection.
    pub local: String,
    /// Over a unix socket.
    pub is_unix: bool,
    /// File descriptor.
    pub fd: i32,
}

impl Engine {
    /// An empty server. `seed` determines everything that is random.
    pub fn new(config: Config, reading: Reading, seed: u64) -> Engine {
        let mut rng = SmallRng::seed_from_u64(seed);
        let keyspace_rng = SmallRng::from_rng(&mut rng);
        let run_id = (0..5).map(|_| format!("{:08x}", rng.next_u32())).collect();
        let mut engine = Engine {
            keyspace: Keyspace::new(config.databases as usize, reading.now, keyspace_rng),
            sessions: Slab::new(),
            reading,
            pubsub: PubSub::default(),
            watch: Watch::default(),
            blocking: Blocking::default(),
            metrics: Metrics::default(),
            memory_limit: MemoryLimit::default(),
            client_memory: ClientMemory::default(),
            jobs: Jobs::new(&config, &reading),
            pause: None,
            ready: VecDeque::new(),
            unflushed: Vec::new(),
            has_backlog: false,
            has_spare_buffers: false,
            closing: Vec::new(),
            scripts: Scripts::default(),
            busy: None,
            exit: None,
            reconfigure: Box::new(|_, _, _| Ok(())),
            web_bytes: 0,
            identity: Identity {
                run_id,
                ..Identity::default()
            },
            rng,
            last_id: 0,
            expiry_paused_until_ms: None,
            config,
        };
        engine.listen_to_changes();
        engine
    }

    /// Admits a client.
    pub fn connect(&mut self, origin: Origin) -> SessionKey {
        self.last_id += 1;
        let now_ms = self.reading.monotonic_us / 1000;
        let session = Session {
            id: self.last_id,
            peer: origin.peer,
            local: origin.local,
            is_unix: origin.is_unix,
            fd: origin.fd,
            name: Vec::new(),
            library: (String::new(), String::new()),
            db: 0,
            protocol: Protocol::Resp2,
            is_authenticated: self.config.requirepass.is_empty(),
            connected_ms: now_ms,
            active_ms: now_ms,
            input: Input::default(),
            input_lent: (0, 0),
            output_lent: (0, 0),
            output: Output::default(),
            is_unflushed: false,
            is_ready: false,
            is_postponed: false,
            blocked: None,
            over_soft_since_ms: None,
            multi: Transaction::default(),
            channels: Default::default(),
            patterns: Default::default(),
            shard_channels: Default::default(),
            subscribed_bytes: 0,
            replies: Replies::On,
            is_no_touch: false,
            is_no_evict: false,
            counted: None,
            closing: Closing::No,
            last_command: session::ROW_UNKNOWN,
            bytes_in: 0,
            bytes_out: 0,
            commands: 0,
        };
        self.metrics.connections_received += 1;
        let key = self.sessions.insert(session);
        self.limit_output(key);
        self.count_client(key);
        key
    }

    /// Forgets a client whose connection is gone, or is to be closed now.
    pub fn disconnect(&mut self, key: SessionKey) {
        if !self.sessions.contains(key) {
            return;
        }
        self.unwatch(key);
        self.unblock(key);
        self.unsubscribe_all(key);
        self.uncount_client(key);
        self.sessions.remove(key);
        self.ready.retain(|&other| other != key);
        self.unflushed.retain(|&other| other != key);
        self.closing.retain(|&other| other != key);
    }

    /// Hands received bytes to a client's parser and puts it on the ready list.
    pub fn feed(&mut self, key: SessionKey, bytes: &[u8]) {
        let session = &mut self.sessions[key];
        if session.closing != Closing::No {
            return;
        }
        self.metrics.input_bytes += bytes.len() as u64;
        session.bytes_in += bytes.len() as u64;
        session.active_ms = self.reading.monotonic_us / 1000;
        session.input.append(bytes);
        self.parse(key);
        if self.check_input_limit(key) {
            self.make_ready(key);
        }
        self.count_client(key);
        self.evict_clients();
    }

    /// Parses what a client has sent, unless it is held: what it sends meanwhile is kept as it
    /// came.
    #[inline]
    fn parse(&mut self, key: SessionKey) {
        let session = &mut self.sessions[key];
        if session.input.is_unparsed() && !session.is_held() {
            session.input.parse(&Limits {
                bulk_bytes_max: self.config.bulk_bytes_max,
                authenticated: session.is_authenticated,
            });
        }
    }

    /// Puts a client with waiting requests, or a broken protocol, on the ready list.
    pub fn make_ready(&mut self, key: SessionKey) {
        if self.sessions[key].input.waiting() == 0 {
            self.parse(key);
        }
        let session = &mut self.sessions[key];
        let has_work = session.input.waiting() > 0 || session.input.error.is_some();
        if has_work && !session.is_ready && !session.is_held() && session.closing == Closing::No {
            session.is_ready = true;
            self.ready.push_back(key);
        }
    }

    /// Puts a client back that was taken from the front of the ready list, and whose turn has not
    /// come.
    pub fn make_ready_first(&mut self, key: SessionKey) {
        // It may have left during a command that took very long.
        if let Some(session) = self.sessions.get_mut(key)
            && !session.is_ready
            && session.closing == Closing::No
        {
            session.is_ready = true;
            self.ready.push_front(key);
        }
    }

    /// Ends a client: at once, or when it has got what it is owed. One that ends at once listens to
    /// nothing any more, though its session stays until the end of the turn.
    pub fn close(&mut self, key: SessionKey, how: Closing) {
        if how == Closing::Now {
            self.unwatch(key);
            self.unblock(key);
            self.unsubscribe_all(key);
            self.uncount_client(key);
        }
        let session = &mut self.sessions[key];
        if session.closing == Closing::No {
            self.closing.push(key);
        }
        if session.closing != Closing::Now {
            session.closing = how;
        }
    }

    /// The reply writer of a client, which is put on the list of those to be flushed.
    #[inline]
    pub fn reply(&mut self, key: SessionKey) -> Reply<'_> {
        let session = &mut self.sessions[key];
        if !session.is_unflushed {
            session.is_unflushed = true;
            self.unflushed.push(key);
        }
        Reply::new(&mut session.output, session.protocol)
    }

    /// Adds what was sent to a client while its output was lent, by whatever else: it follows the
    /// reply to the request that is running.
    #[inline]
    pub fn add_pushes(&mut self, key: SessionKey, output: &mut Output) {
        let session = &mut self.sessions[key];
        if session.output.has_dropped() {
            output.drop_all();
        }
        if !session.output.is_empty() {
            let pushes = session.output.take_all();
            output.extend(&pushes);
        }
    }

    /// Puts a client's output back, to be flushed.
    pub fn return_output(&mut self, key: SessionKey, mut output: Output) {
        self.add_pushes(key, &mut output);
        let session = &mut self.sessions[key];
        session.return_output(output);
        if !session.is_unflushed && !session.output.is_empty() {
            session.is_unflushed = true;
            self.unflushed.push(key);
        }
        if session.output.has_dropped() {
            self.check_output_limit(key);
        }
        self.count_client(key);
    }

    /// Reads the clock, unless time stands still.
    #[inline]
    pub fn tell_time(&mut self, clock: &mut (impl Clock + ?Sized)) {
        if self.busy.is_none() {
            self.reading = clock.read();
            self.keyspace.follow_wall(&self.reading);
        }
    }

    /// Stops looking for what is due, for so many ms from now on or until
    /// [`Engine::resume_expiry`].
    pub fn pause_expiry(&mut self, ms: Option<u64>) {
        let now_ms = self.reading.monotonic_us / 1000;
        self.expiry_paused_until_ms = Some(ms.map_or(u64::MAX, |ms| now_ms.saturating_add(ms)));
    }

    /// Looks for what is due again.
    pub fn resume_expiry(&mut self) {
        self.expiry_paused_until_ms = None;
    }

    /// Whether nobody looks for what is due.
    pub fn is_expiry_paused(&self) -> bool {
        self.expiry_paused_until_ms.is_some()
    }

    /// Tells the keyspace which classes of changes somebody listens to.
    pub fn listen_to_changes(&mut self) {
        let flags = self.config.notify_keyspace_events.0;
        let is_on = flags & (NotifyFlags::KEYSPACE.0 | NotifyFlags::KEYEVENT.0) != 0;
        let classes = if self.watch.is_empty() && self.blocking.is_empty() {
            0
        } else {
            !NotifyFlags::KEY_MISS.0
        };
        self.keyspace
            .changes
            .listen(classes | if is_on { flags } else { 0 });
    }

    /// Publishes what happened to keys: to WATCH and those who wait first, then as notifications.
    #[inline]
    pub fn publish_changes(&mut self) {
        // While clients are paused the stream of what has expired stands still, as all they see.
        if self.keyspace.deaths.are_pending() && !self.keyspace.is_frozen {
            self.keyspace.write_deaths(&self.reading);
        }
        if !self.keyspace.changes.is_empty() {
            self.publish_changes_now();
        }
    }

    /// Has all that is gone leave its events, however long that takes.
    pub fn tell_all_deaths(&mut self) {
        let is_frozen = std::mem::take(&mut self.keyspace.is_frozen);
        while self.keyspace.deaths.are_pending() || self.keyspace.settle_estates() {
            self.publish_changes();
        }
        self.keyspace.is_frozen = is_frozen;
    }

    #[cold]
    fn publish_changes_now(&mut self) {
        let mut taken = std::mem::take(&mut self.keyspace.changes);
        let flags = self.config.notify_keyspace_events.0;
        for (change, key) in taken.iter() {
            let class = change.event.class;
            let is_change = class & (NotifyFlags::KEY_MISS.0 | NotifyFlags::NEW.0) == 0
                && change.event != Event::SOFT_EXPIRED;
            if is_change && change.event != Event::REDELIVERED {
                self.touch_watched(change.db, change.event, key);
            }
            if is_change && !self.blocking.is_empty() {
                self.blocking.note_change(change.db, key);
            }
            if flags & change.event.class != 0 {
                self.notify(flags, change, key);
            }
        }
        Changes::clear(&mut taken);
        self.keyspace.changes = taken;
        // Transactions that failed have stopped watching while the stream was elsewhere.
        self.listen_to_changes();
    }

    fn notify(&mut self, flags: u32, change: crate::store::change::Change, key: &[u8]) {
        if self.pubsub.is_silent() {
            return;
        }
        let name = change.event.name;
        if flags & NotifyFlags::KEYSPACE.0 != 0 {
            let mut channel = format!("__keyspace@{}__:", change.db).into_bytes();
            channel.extend_from_slice(key);
            self.publish(&channel, name.as_bytes());
        }
        if flags & NotifyFlags::KEYEVENT.0 != 0 {
            let channel = format!("__keyevent@{}__:{name}", change.db);
            self.publish(channel.as_bytes(), key);
        }
    }

    /// CLIENT PAUSE: holds clients back from now on. A pause in force gets no shorter.
    pub fn pause_for(&mut self, ms: u64, kind: PauseKind) {
        let until_ms = (self.reading.monotonic_us / 1000).saturating_add(ms);
        let longer_ms = self.pause.map_or(0, |pause| pause.until_ms);
        self.pause = Some(Pause {
            until_ms: until_ms.max(longer_ms),
            kind,
        });
        self.refreeze();
    }

    /// While clients are paused or a snapshot is loaded, dead keys are hidden, but nothing is
    /// removed: what paused clients see stands still, and a collection must not go between two of
    /// its parts.
    pub(crate) fn refreeze(&mut self) {
        self.keyspace.is_frozen = self.pause.is_some() || self.jobs.is_loading();
    }

    /// Ends a pause whose time has come and lets the clients it held back go on.
    pub fn end_pause(&mut self) {
        self.pause = None;
        self.refreeze();
        let held: Vec<SessionKey> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.is_postponed)
            .map(|(key, _)| key)
            .collect();
        for key in held {
            self.sessions[key].is_postponed = false;
            // It was not idle, it could not go on.
            self.sessions[key].active_ms = self.reading.monotonic_us / 1000;
            self.make_ready(key);
        }
    }
}
