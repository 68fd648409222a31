//! The shell: the event loop around the engine, in visible phases.
//!
//! ```text
//! poll ─> clock ─> accept ─> read + parse ─> execute ─> flush ─> jobs ─> flush ─> web ─> close
//!   ▲                                                                                     │
//!   └──────────────────────── timeout: the next deadline ◄────────────────────────────────┘
//! ```
//!
//! Replies leave before the jobs run, so that nobody waits for a slice that began after his request
//! (benches/peers.py, storm: ping p99).
//!
//! A client gets one read of at most 64 KiB a turn and a bounded number of commands; what is left
//! waits on a list, as mio reports each edge only once. A client with unexecuted requests is not
//! read from, so its socket fills and the sender waits. A client that does not read costs memory
//! up to its output limit and nobody else anything.
//!
//! Invariants: nothing here blocks but the poll; a connection and its session have the same key
//! and end together, at the end of a turn, so a stale event cannot name a new client.
//!
//! Not here: what bytes mean (`resp`, `command`), when jobs run (`engine::jobs`).

pub mod connection;
pub mod listener;
pub mod logging;
pub mod machine;
pub mod max_clients;
pub mod web;

use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Interest, Poll, Token};
use signal_hook_mio::v1_0::Signals;

use crate::clock::{Clock, Reading};
use crate::command::dispatch::{self, Outside};
use crate::command::server::snapshot::{StopSignal, request_shutdown};
use crate::config::SetError;
use crate::engine::memory;
use crate::engine::session::{Closing, SessionKey};
use crate::engine::{Engine, Origin, Reconfigure};
use connection::{Connection, READ_MAX, Received, Stream};
use listener::{FIRST_LISTENER, Listener, Listeners};
use web::Web;

const SIGNALS: Token = Token(usize::MAX - 300);
const EVENTS_PER_POLL: usize = 1024;
/// Connections accepted per listener and turn.
const ACCEPTED_PER_TURN: usize = 1000;
/// When to accept again, in microseconds, after the system had no descriptor for a client and if
/// none of the others leaves.
const ACCEPT_AGAIN_US: u64 = 100_000;

/// The engine and what is around it.
pub struct Server<'a> {
    /// The state.
    pub engine: Engine,
    shell: Shell<'a>,
}

/// The sockets around the engine.
struct Shell<'a> {
    clock: &'a mut dyn Clock,
    poll: Poll,
    /// Shared with the function that changes them on CONFIG SET.
    listeners: Rc<RefCell<Listeners>>,
    signals: Signals,
    web: Web,
    connections: Vec<Option<Connection>>,
    /// Connections that may have something to read.
    to_read: Vec<SessionKey>,
    buffer: Box<[u8]>,
    is_accepting: bool,
    /// Clients wait whom the system refused: try again then, in monotonic microseconds.
    accept_again_us: Option<u64>,
    /// It has been logged that the snapshot is loaded and clients are served.
    is_ready_told: bool,
}

impl<'a> Server<'a> {
    /// Registers the listeners and the signals.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(
        mut engine: Engine,
        clock: &'a mut dyn Clock,
        listeners: Vec<Listener>,
        metrics: Vec<Listener>,
        mut signals: Signals,
    ) -> io::Result<Server<'a>> {
        let poll = Poll::new()?;
        let registry = poll.registry();
        let listeners = Listeners::new(listeners, &listener::CLIENTS, registry)?;
        let listeners = Rc::new(RefCell::new(listeners));
        let metrics = Listeners::new(metrics, &listener::METRICS, registry)?;
        let metrics = Rc::new(RefCell::new(metrics));
        engine.reconfigure = reconfiguring(&listeners, &metrics);
        let web = Web::new(metrics, registry)?;
        poll.registry()
            .register(&mut signals, SIGNALS, Interest::READABLE)?;
        let shell = Shell {
            clock,
            poll,
            listeners,
            signals,
            web,
            connections: Vec::new(),
            to_read: Vec::new(),
            buffer: vec![0; READ_MAX].into_boxed_slice(),
            is_accepting: false,
            accept_again_us: None,
            is_ready_told: false,
        };
        Ok(Server { engine, shell })
    }

    /// Serves until the server is told to stop; the exit code.
    ///
    /// # Errors
    /// If polling fails, which nothing can be done about.
    pub fn run(&mut self) -> io::Result<i32> {
        let Server { engine, shell } = self;
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        shell.tell_ready(engine);
        // With all that a server has that holds nothing; a snapshot is loaded in the loop.
        engine.identity.startup_bytes = memory::startup_bytes();
        loop {
            let timeout = shell.timeout(engine);
            match shell.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            engine.reading = shell.clock.read();
            let start_us = engine.reading.monotonic_us;
            events.iter().for_each(|event| shell.note(engine, event));
            shell.accept(engine);
            let is_idle = shell.to_read.is_empty() && engine.ready.is_empty();
            shell.read(engine);
            dispatch::run_ready(engine, shell);
            shell.flush(engine);
            engine.run_jobs(shell.clock, is_idle);
            // Those that the end of a CLIENT PAUSE lets go on.
            dispatch::wait::serve_waiting(engine, shell);
            // What the jobs had to tell: events, and the replies of those they let go on.
            shell.flush(engine);
            shell.web.turn(engine, shell.clock);
            shell.close(engine);
            engine.metrics.turns += 1;
            engine.metrics.busy_us += engine.reading.monotonic_us - start_us;
            if let Some(code) = engine.exit {
                shell.flush(engine);
                return Ok(code);
            }
            shell.tell_ready(engine);
        }
    }
}

impl Clock for Shell<'_> {
    fn read(&mut self) -> Reading {
        self.clock.read()
    }
}

impl Outside for Shell<'_> {
    /// A turn of the loop without jobs, during a command that takes very long.
    fn attend(&mut self, engine: &mut Engine) {
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        // If it fails, the turn that follows the command will see it.
        if self.poll.poll(&mut events, Some(Duration::ZERO)).is_err() {
            return;
        }
        events.iter().for_each(|event| self.note(engine, event));
        self.accept(engine);
        self.read(engine);
        dispatch::run_ready(engine, self);
        self.flush(engine);
        self.close(engine);
    }
}

impl Shell<'_> {
    /// Logs once that clients are served, as soon as that is so: tools wait for this line.
    fn tell_ready(&mut self, engine: &mut Engine) {
        if self.is_ready_told || engine.jobs.is_loading() {
            return;
        }
        self.is_ready_told = true;
        let listeners = self.listeners.borrow();
        let places: Vec<String> = listeners.iter().map(Listener::place).collect();
        log::info!("Ready to accept connections on {}", places.join(" and "));
        self.web.tell_places();
    }

    fn timeout(&mut self, engine: &mut Engine) -> Option<Duration> {
        let has_more = self.is_accepting
            || self.web.has_work()
            || !engine.unflushed.is_empty()
            || self.to_read.iter().any(|&key| self.may_read(engine, key));
        if has_more {
            return Some(Duration::ZERO);
        }
        let now_us = engine.reading.monotonic_us;
        let again = self.accept_again_us;
        let again_ms = again.map(|at_us| at_us.saturating_sub(now_us).div_ceil(1000));
        let wakeups = [
            engine.next_wakeup_ms(),
            again_ms,
            self.web.wakeup_ms(now_us),
        ];
        wakeups
            .into_iter()
            .flatten()
            .min()
            .map(Duration::from_millis)
    }

    /// A client whose requests have all been executed, or one that is held back: if it leaves, that
    /// must be seen.
    fn may_read(&self, engine: &Engine, key: SessionKey) -> bool {
        engine.sessions.get(key).is_some_and(|session| {
            let is_due = session.input.waiting() == 0 || session.is_held();
            is_due && session.closing == Closing::No && engine.busy != Some(key)
        })
    }

    fn note(&mut self, engine: &mut Engine, event: &Event) {
        let token = event.token();
        if token == SIGNALS {
            let signals: Vec<i32> = self.signals.pending().collect();
            signals
                .into_iter()
                .for_each(|signal| self.signal(engine, signal));
            return;
        }
        if self.web.note(event) {
            return;
        }
        if token.0 >= FIRST_LISTENER {
            self.is_accepting = true;
            return;
        }
        let Some(Some(connection)) = self.connections.get_mut(token.0) else {
            return;
        };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.is_readable = true;
            connection.is_read_closed |= event.is_read_closed() || event.is_error();
            if !connection.is_listed {
                connection.is_listed = true;
                self.to_read.push(token.0);
            }
        }
        if event.is_writable() || event.is_write_closed() || event.is_error() {
            connection.is_full = false;
            let session = &mut engine.sessions[token.0];
            if !session.is_unflushed && !session.output.is_empty() {
                session.is_unflushed = true;
                engine.unflushed.push(token.0);
            }
        }
    }

    fn signal(&mut self, engine: &mut Engine, signal: i32) {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        if signal == signal_hook::consts::SIGHUP {
            // The log is opened for each line, so a rotated one is left by itself.
            log::info!("Received {name}: the log goes to the file of that name from here on");
            return;
        }
        log::warn!("Received {name}, scheduling shutdown...");
        let kind = match signal {
            signal_hook::consts::SIGINT => StopSignal::Interrupt,
            _ => StopSignal::Terminate,
        };
        request_shutdown(engine, kind);
    }

    fn accept(&mut self, engine: &mut Engine) {
        let now_us = engine.reading.monotonic_us;
        let is_again = self.accept_again_us.is_some_and(|at_us| now_us >= at_us);
        if !std::mem::take(&mut self.is_accepting) && !is_again {
            return;
        }
        let was_refused = self.accept_again_us.take().is_some();
        let listeners = Rc::clone(&self.listeners);
        for listener in listeners.borrow().iter() {
            for round in 0..=ACCEPTED_PER_TURN {
                if round == ACCEPTED_PER_TURN {
                    self.is_accepting = true;
                    break;
                }
                match accept_one(listener, &engine.config) {
                    Ok((stream, origin)) => self.admit(engine, stream, origin),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The client gave up while it waited; the next one may be fine.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        if !was_refused {
                            log::warn!("Accepting client connection: {error}");
                        }
                        // The poll has reported the waiting clients, and will not do so again.
                        self.accept_again_us = Some(now_us + ACCEPT_AGAIN_US);
                        break;
                    }
                }
            }
        }
    }

    /// Turns a client away or makes it a session.
    fn admit(&mut self, engine: &mut Engine, mut stream: Stream, origin: Origin) {
        let refusal = max_clients::refusal(engine, &origin);
        if let Some(text) = refusal {
            engine.metrics.connections_rejected += 1;
            stream.refuse(text);
            return;
        }
        let key = engine.connect(origin);
        match Connection::new(stream, self.poll.registry(), Token(key)) {
            Ok(connection) => {
                if key >= self.connections.len() {
                    self.connections.resize_with(key + 1, || None);
                }
                self.connections[key] = Some(connection);
            }
            Err(error) => {
                log::warn!("Registering client connection: {error}");
                engine.disconnect(key);
            }
        }
    }

    fn read(&mut self, engine: &mut Engine) {
        let mut to_read = std::mem::take(&mut self.to_read);
        to_read.retain(|&key| {
            let is_kept = self.read_one(engine, key);
            if let Some(Some(connection)) = self.connections.get_mut(key) {
                connection.is_listed = is_kept;
            }
            is_kept
        });
        to_read.append(&mut self.to_read);
        self.to_read = to_read;
    }

    /// Reads once from a client; true if it should be read again later.
    fn read_one(&mut self, engine: &mut Engine, key: SessionKey) -> bool {
        if !self.may_read(engine, key) {
            return engine
                .sessions
                .get(key)
                .is_some_and(|s| s.closing == Closing::No);
        }
        let Some(Some(connection)) = self.connections.get_mut(key) else {
            return false;
        };
        match connection.receive(&mut self.buffer) {
            Received::Bytes(n) => {
                let is_more = connection.is_readable;
                engine.feed(key, &self.buffer[..n]);
                is_more
            }
            Received::Nothing => false,
            Received::End => {
                let session = &engine.sessions[key];
                let how = if session.output.is_empty() || session.is_held() {
                    Closing::Now
                } else {
                    Closing::AfterReply
                };
                engine.close(key, how);
                false
            }
        }
    }

    fn flush(&mut self, engine: &mut Engine) {
        let mut unflushed = std::mem::take(&mut engine.unflushed);
        for key in unflushed.drain(..) {
            let session = &mut engine.sessions[key];
            session.is_unflushed = false;
            let Some(Some(connection)) = self.connections.get_mut(key) else {
                continue;
            };
            // A client that is being disconnected gets no further replies.
            if session.closing == Closing::Now {
                continue;
            }
            if session.output.is_over_limit() {
                engine.check_output_limit(key);
                continue;
            }
            match connection.send(&mut session.output) {
                Ok(sent) => {
                    let is_more = !connection.is_full && !session.output.is_empty();
                    engine.note_sent(key, sent);
                    if is_more {
                        // It has used up its share of this turn, and no event will follow.
                        engine.sessions[key].is_unflushed = true;
                        engine.unflushed.push(key);
                    }
                }
                Err(_) => engine.close(key, Closing::Now),
            }
        }
        // Keep the list's room.
        unflushed.append(&mut engine.unflushed);
        engine.unflushed = unflushed;
    }

    fn close(&mut self, engine: &mut Engine) {
        // The engine has given back places of sessions, whose numbers these are.
        let places = engine.sessions.capacity();
        if self.connections.len() > places {
            self.connections.truncate(places);
            self.connections.shrink_to_fit();
        }
        if engine.closing.is_empty() {
            return;
        }
        let closing = std::mem::take(&mut engine.closing);
        for key in closing {
            let session = &engine.sessions[key];
            let is_owed = session.closing == Closing::AfterReply && !session.output.is_empty();
            if is_owed || engine.busy == Some(key) {
                engine.closing.push(key);
                continue;
            }
            if let Some(mut connection) = self.connections[key].take() {
                connection.deregister(self.poll.registry());
            }
            engine.disconnect(key);
            // A file descriptor is free again: accept the next waiting client.
            self.is_accepting |= self.accept_again_us.is_some();
        }
    }
}

impl Stream {
    /// Sends a last line to a client that is not admitted.
    fn refuse(&mut self, text: &str) {
        use std::io::Write;
        // It is closed in any case; a client that cannot take 400 bytes is not told why.
        let _ = match self {
            Stream::Tcp(stream) => stream.write(text.as_bytes()),
            Stream::Unix(stream) => stream.write(text.as_bytes()),
        };
    }
}

/// What CONFIG SET calls to put settings into effect that the engine cannot.
fn reconfiguring(
    listeners: &Rc<RefCell<Listeners>>,
    metrics: &Rc<RefCell<Listeners>>,
) -> Reconfigure {
    let (listeners, metrics) = (Rc::clone(listeners), Rc::clone(metrics));
    Box::new(move |config, before, names| {
        let needs_descriptors = ["maxclients", "metrics-port"];
        if let Some(name) = needs_descriptors.iter().find(|name| names.contains(name)) {
            max_clients::make_room(config).map_err(|most| {
                let why = "The operating system is not able to handle the specified number of \
                           clients, try with";
                SetError::failed(*name, format!("{why} {most}"))
            })?;
        }
        let is_moved = listener::CLIENTS.is_moved(names);
        if is_moved {
            listeners.borrow_mut().reopen(config, before)?;
        }
        if listener::METRICS.is_moved(names)
            && let Err(error) = metrics.borrow_mut().reopen(config, before)
        {
            if is_moved {
                // All is changed or nothing.
                let _ = listeners.borrow_mut().reopen(before, config);
            }
            return Err(error);
        }
        if names.contains(&"loglevel") {
            log::set_max_level(logging::level(config.loglevel));
        }
        Ok(())
    })
}

/// Accepts one connection.
fn accept_one(listener: &Listener, config: &crate::config::Config) -> io::Result<(Stream, Origin)> {
    match listener {
        Listener::Tcp(tcp) => tcp.accept().map(|(stream, peer)| {
            let local = stream
                .local_addr()
                .map(|a| a.to_string())
                .unwrap_or_default();
            let fd = stream.as_raw_fd();
            set_options(&stream, config.tcp_keepalive_seconds);
            let origin = Origin {
                peer: peer.to_string(),
                local,
                is_unix: false,
                fd,
            };
            (Stream::Tcp(stream), origin)
        }),
        Listener::Unix(unix) => unix.accept().map(|(stream, _)| {
            let path = format!("{}:0", config.unixsocket);
            let fd = stream.as_raw_fd();
            let origin = Origin {
                peer: path.clone(),
                local: path,
                is_unix: true,
                fd,
            };
            (Stream::Unix(stream), origin)
        }),
    }
}

/// No delay for small replies, and keepalive probes for silent peers.
fn set_options(stream: &mio::net::TcpStream, keepalive_seconds: u32) {
    // Failing options cost latency or late detection of dead peers, not correctness.
    let _ = stream.set_nodelay(true);
    if keepalive_seconds > 0 {
        let time = Duration::from_secs(keepalive_seconds.into());
        let probe = Duration::from_secs((keepalive_seconds / 3).max(1).into());
        let options = socket2::TcpKeepalive::new()
            .with_time(time)
            .with_interval(probe);
        let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&options);
    }
}
