//! Sockets of the page and of metrics: accepting, reading and writing them in the loop's turn, and
//! how long each may take.
//!
//! Whoever connects here is not trusted to end, to read or to be brief: connections are few, hold
//! little, and each stage of one has its time. They are served after clients of the Redis protocol,
//! a few answers a turn, and are not among those.
//!
//! ```text
//!  accepted ──> head ──> answer on its way ──> idle ──> head ...
//!                │ 10 s        │ 10 s          │ 30 s              then closed
//!                └── refused ──┴──> last answer ──> leaving, 1 s: what still comes is thrown away,
//!                                                   so that the answer is not lost by a reset
//! ```
//!
//! Invariants: of each connection one answer is on its way, which it holds by reference; without a
//! connection nothing here wakes up the loop, and nothing is taken.
//!
//! Not here: what bytes mean and what is answered (`web`), where to listen (`listener`).

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use mio::event::Event;
use mio::{Registry, Token};
use slab::Slab;

use super::connection::{Connection, Received, Stream};
use super::listener::{FIRST_METRICS_LISTENER, Listener, Listeners};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::resp::output::Output;
use crate::web::visitor::{READ_BYTES_MAX, Visitor};
use crate::web::{Response, Site};

/// Connections at one time; whoever comes after is closed at once.
pub const CONNECTIONS_MAX: usize = 64;
/// Tokens of connections.
const FIRST_CONNECTION: usize = usize::MAX - 1024;
/// Connections accepted in a turn.
const ACCEPTED_PER_TURN: usize = 128;
/// Answers given, and reads made, for one connection in a turn.
const STEPS_PER_TURN: usize = 8;
/// How long figures are taken in a turn, in microseconds.
const SURVEY_US: u64 = 250;
/// When to accept again, in microseconds, after the system had no descriptor.
const ACCEPT_AGAIN_US: u64 = 100_000;

/// From its first byte on, or from accepting the connection on, a head must be there within so many
/// microseconds.
const HEAD_US: u64 = 10_000_000;
/// An answer must have been taken.
const ANSWER_US: u64 = 10_000_000;
/// Another request must have begun.
const IDLE_US: u64 = 30_000_000;
/// Whoever has got the last answer must have closed.
const LEAVING_US: u64 = 1_000_000;

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A head is on its way in, or the figures for an answer are being taken.
    Head,
    /// An answer is on its way out.
    Answer,
    /// Nothing.
    Idle,
    /// All has been said.
    Leaving,
}

/// One connection.
struct Guest {
    socket: Connection,
    visitor: Visitor,
    output: Output,
    stage: Stage,
    /// When the stage must be over, in monotonic microseconds.
    until_us: u64,
    /// Is on the list of those with something to do.
    is_listed: bool,
}

impl Guest {
    fn enter(&mut self, stage: Stage, now_us: u64) {
        self.stage = stage;
        self.until_us = now_us
            + match stage {
                Stage::Head => HEAD_US,
                Stage::Answer => ANSWER_US,
                Stage::Idle => IDLE_US,
                Stage::Leaving => LEAVING_US,
            };
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Guest>() + self.visitor.memory_bytes() + self.output.capacity_bytes()
    }
}

/// What became of a connection in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// An event will tell when there is more to do, or the end of a survey.
    Waits,
    /// It has used up its share of the turn.
    HasMore,
    /// It is over.
    Closed,
}

/// The port of the page and of metrics.
pub struct Web {
    site: Site,
    /// Shared with the function that changes them on CONFIG SET.
    listeners: Rc<RefCell<Listeners>>,
    registry: Registry,
    guests: Slab<Guest>,
    /// Connections with something to do.
    listed: Vec<usize>,
    buffer: Box<[u8]>,
    is_accepting: bool,
    accept_again_us: Option<u64>,
}

impl Web {
    /// No connection yet.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(listeners: Rc<RefCell<Listeners>>, registry: &Registry) -> io::Result<Web> {
        Ok(Web {
            site: Site::default(),
            listeners,
            registry: registry.try_clone()?,
            guests: Slab::new(),
            listed: Vec::new(),
            buffer: vec![0; READ_BYTES_MAX].into_boxed_slice(),
            is_accepting: false,
            accept_again_us: None,
        })
    }

    /// Logs where the page is.
    pub fn tell_places(&self) {
        for listener in self.listeners.borrow().iter() {
            log::info!("Page and metrics on http://{}/", listener.place());
        }
    }

    /// Takes an event if it is about a socket of this port.
    pub fn note(&mut self, event: &Event) -> bool {
        let token = event.token().0;
        if token >= FIRST_METRICS_LISTENER {
            self.is_accepting = true;
            return true;
        }
        if !(FIRST_CONNECTION..FIRST_CONNECTION + CONNECTIONS_MAX).contains(&token) {
            return false;
        }
        let key = token - FIRST_CONNECTION;
        if let Some(guest) = self.guests.get_mut(key) {
            let is_over = event.is_read_closed() || event.is_error();
            guest.socket.is_readable |= event.is_readable() || is_over;
            guest.socket.is_read_closed |= is_over;
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                guest.socket.is_full = false;
            }
            self.list(key);
        }
        true
    }

    fn list(&mut self, key: usize) {
        let guest = &mut self.guests[key];
        if !guest.is_listed {
            guest.is_listed = true;
            self.listed.push(key);
        }
    }

    /// Whether there is something to do at once.
    pub fn has_work(&self) -> bool {
        self.is_accepting || !self.listed.is_empty() || self.site.is_busy()
    }

    /// When somebody has had time enough, in ms from now.
    pub fn wakeup_ms(&self, now_us: u64) -> Option<u64> {
        let ends = self.guests.iter().map(|(_, guest)| guest.until_us);
        let soonest = ends.chain(self.accept_again_us).min()?;
        Some(soonest.saturating_sub(now_us).div_ceil(1000))
    }

    /// One turn.
    pub fn turn(&mut self, engine: &mut Engine, clock: &mut dyn Clock) {
        let is_awaited = self.is_accepting || self.accept_again_us.is_some();
        if self.guests.is_empty() && !is_awaited {
            if engine.web_bytes > 0 {
                self.site.rest(engine.reading.monotonic_us);
                engine.web_bytes = self.site.memory_bytes();
            }
            return;
        }
        if engine.config.metrics_port == 0 {
            let keys: Vec<usize> = self.guests.iter().map(|(key, _)| key).collect();
            keys.into_iter().for_each(|key| self.close(key));
        }
        self.accept(engine);
        self.serve_listed(engine);
        if self.site.is_busy() && self.survey(engine, clock) {
            // All who wait for the figures get them now.
            let waiting = self.guests.iter().filter(|(_, g)| g.visitor.is_waiting());
            let waiting: Vec<usize> = waiting.map(|(key, _)| key).collect();
            waiting.into_iter().for_each(|key| self.list(key));
            self.serve_listed(engine);
        }
        self.close_late(engine.reading.monotonic_us);
        if self.guests.is_empty() {
            self.site.rest(engine.reading.monotonic_us);
        }
        let guests = self.guests.iter().map(|(_, guest)| guest.memory_bytes());
        engine.web_bytes = guests.sum::<usize>() + self.site.memory_bytes();
        engine.tell_time(clock);
    }

    /// Takes figures for a while; true if that is done.
    fn survey(&mut self, engine: &mut Engine, clock: &mut dyn Clock) -> bool {
        let began_us = clock.read().monotonic_us;
        let mut is_unfinished = true;
        let mut took_us = 0;
        while is_unfinished && took_us < SURVEY_US {
            is_unfinished = self.site.step(engine);
            took_us = clock.read().monotonic_us.saturating_sub(began_us);
        }
        self.site.spent(took_us);
        !is_unfinished
    }

    fn accept(&mut self, engine: &Engine) {
        let now_us = engine.reading.monotonic_us;
        let is_again = self.accept_again_us.is_some_and(|at_us| now_us >= at_us);
        if !std::mem::take(&mut self.is_accepting) && !is_again {
            return;
        }
        self.accept_again_us = None;
        let listeners = Rc::clone(&self.listeners);
        for listener in listeners.borrow().iter() {
            let Listener::Tcp(listener) = listener else {
                continue;
            };
            for round in 0..=ACCEPTED_PER_TURN {
                if round == ACCEPTED_PER_TURN {
                    self.is_accepting = true;
                    break;
                }
                match listener.accept() {
                    Ok((stream, _)) => {
                        // Without it a short answer may come later, but it comes.
                        let _ = stream.set_nodelay(true);
                        self.admit(Stream::Tcp(stream), now_us);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        log::debug!("Accepting a connection to metrics-port: {error}");
                        self.accept_again_us = Some(now_us + ACCEPT_AGAIN_US);
                        break;
                    }
                }
            }
        }
    }

    fn admit(&mut self, stream: Stream, now_us: u64) {
        if self.guests.len() >= CONNECTIONS_MAX {
            return;
        }
        let entry = self.guests.vacant_entry();
        let key = entry.key();
        match Connection::new(stream, &self.registry, Token(FIRST_CONNECTION + key)) {
            Ok(socket) => {
                entry.insert(Guest {
                    socket,
                    visitor: Visitor::default(),
                    output: Output::default(),
                    stage: Stage::Head,
                    until_us: now_us + HEAD_US,
                    is_listed: false,
                });
            }
            Err(error) => log::debug!("Registering a connection to metrics-port: {error}"),
        }
    }

    fn serve_listed(&mut self, engine: &Engine) {
        for key in std::mem::take(&mut self.listed) {
            let Some(guest) = self.guests.get_mut(key) else {
                continue;
            };
            guest.is_listed = false;
            match serve(guest, &mut self.site, engine, &mut self.buffer) {
                Outcome::Waits => {}
                Outcome::HasMore => self.list(key),
                Outcome::Closed => self.close(key),
            }
        }
    }

    fn close(&mut self, key: usize) {
        let mut guest = self.guests.remove(key);
        guest.socket.deregister(&self.registry);
        self.listed.retain(|&other| other != key);
    }

    fn close_late(&mut self, now_us: u64) {
        let late = self
            .guests
            .iter()
            .filter(|(_, guest)| guest.until_us <= now_us);
        let late: Vec<usize> = late.map(|(key, _)| key).collect();
        late.into_iter().for_each(|key| self.close(key));
    }
}

/// Goes on with one connection as far as it gets.
fn serve(guest: &mut Guest, site: &mut Site, engine: &Engine, buffer: &mut [u8]) -> Outcome {
    let now_us = engine.reading.monotonic_us;
    for _ in 0..STEPS_PER_TURN {
        if !guest.output.is_empty() {
            if guest.socket.send(&mut guest.output).is_err() {
                return Outcome::Closed;
            }
            if !guest.output.is_empty() {
                return match guest.socket.is_full {
                    true => Outcome::Waits,
                    false => Outcome::HasMore,
                };
            }
        }
        if guest.stage == Stage::Answer {
            let next = match (guest.visitor.is_over(), guest.visitor.is_in_head()) {
                (true, _) => Stage::Leaving,
                (false, true) => Stage::Head,
                (false, false) => Stage::Idle,
            };
            guest.enter(next, now_us);
            if next == Stage::Leaving {
                guest.socket.finish();
            }
        }
        if let Some(response) = guest.visitor.next_response(site, engine) {
            put(&mut guest.output, &response);
            guest.enter(Stage::Answer, now_us);
            continue;
        }
        let may_read = guest.visitor.has_room() || guest.stage == Stage::Leaving;
        if !may_read || !guest.socket.is_readable {
            return Outcome::Waits;
        }
        match guest.socket.receive(buffer) {
            Received::Bytes(n) => guest.visitor.receive(&buffer[..n]),
            Received::Nothing => return Outcome::Waits,
            Received::End => return Outcome::Closed,
        }
        if guest.stage == Stage::Idle {
            guest.enter(Stage::Head, now_us);
        }
    }
    Outcome::HasMore
}

fn put(output: &mut Output, response: &Response) {
    output.extend(response.head.as_bytes());
    if !response.body.is_empty() {
        output.push_shared(response.body.clone());
    }
}
