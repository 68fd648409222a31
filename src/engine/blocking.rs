//! Clients that wait for a key: BLPOP and its like.
//!
//! A command that finds nothing to take hands its arguments over to [`Engine::block`] and leaves no
//! reply. When a key somebody waits for has changed, its waiting clients are let try again in the
//! order in which they came: the command itself runs once more, as if it had just arrived, and
//! either replies or leaves them waiting. So what a blocked command does is written once. During
//! CLIENT PAUSE nobody tries again; the keys stay ready until it ends. Limited waits do end then.
//!
//! ```text
//! changes ──> a key somebody waits for ──> ready ──> after the outermost command: each waiting
//!                                                    client tries again, first come first served
//! ```
//!
//! Whoever begins to wait draws a ticket; queues and timeouts are ordered by tickets, so that
//! joining and leaving cost the same however many others wait for the key.
//!
//! A command may also ask to try again after some time ([`Wait::retry_ms`]): then what it waits for
//! will be there though nothing changes, as entries of a stream become idle.
//!
//! Invariants: a session has [`Session::blocked`] iff it is in the queue of each of its keys, and
//! among the timeouts and the retries if it has one. Nobody blocks inside EXEC.
//!
//! Not here: what the commands do (`command`), which runs them (`command::dispatch`).
//!
//! [`Session::blocked`]: super::session::Session::blocked

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use super::Engine;
use super::session::{Queued, Replies, SessionKey};
use crate::value::{Kind, size_class};

/// What a client waits for.
pub struct Blocked {
    /// The command, to be tried again.
    pub request: Queued,
    /// The keys, each once.
    keys: Vec<Box<[u8]>>,
    db: u16,
    ticket: Ticket,
    /// When it gives up, in microseconds of monotonic time.
    until_us: Option<u64>,
    /// When it tries again though no key has changed.
    retry_us: Option<u64>,
    wait: Wait,
    /// What the wait takes of memory.
    pub bytes: usize,
    /// It wants no reply.
    pub is_silent: bool,
}

/// Bytes of memory that a wait takes, about: its request, and its keys, which stand with all that
/// are waited for as well.
fn wait_bytes(request: &Queued, keys: &[Box<[u8]>]) -> usize {
    let keys = keys
        .iter()
        .map(|key| WAITED_BYTES + 2 * size_class::of(key.len()));
    size_of::<Blocked>() + request.allocated_bytes() + keys.sum::<usize>()
}

/// What a key that somebody waits for takes besides its name, in bytes: a place in the client's
/// list, one in a tree, and a tree of clients.
const WAITED_BYTES: usize = 272;

/// A place in the order of arrival; never drawn twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// How a command waits.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// What type of value it waits for; others do not concern it.
    pub kind: Kind,
    /// It tries again as well when the key is gone or holds something else: to say so.
    pub wants_loss: bool,
    /// For how long, in ms; 0 is for ever.
    pub timeout_ms: u64,
    /// What it is told inside EXEC, where nobody waits.
    pub nothing: Nothing,
    /// After how many ms it tries again though no key has changed.
    pub retry_ms: Option<u64>,
}

/// How a command says that it got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// With a null.
    Null,
    /// With a null array.
    NullArray,
    /// With a zero: that many replicas have acknowledged.
    Zero,
    /// With two: neither a journal nor a replica has.
    Zeros,
}

/// The clients that wait for one key.
#[derive(Default)]
struct Waiting {
    clients: BTreeMap<Ticket, SessionKey>,
    /// The key is among the ready ones.
    is_ready: bool,
}

/// All waiting clients.
#[derive(Default)]
pub struct Blocking {
    /// The waiting clients, by database and key.
    dbs: BTreeMap<u16, BTreeMap<Box<[u8]>, Waiting>>,
    /// Clients by the end of their wait; those with the same end in order of arrival.
    timeouts: BTreeMap<(u64, Ticket), SessionKey>,
    /// Clients by the time at which they try again by themselves.
    retries: BTreeMap<(u64, Ticket), SessionKey>,
    /// Keys that have changed and are waited for, in order.
    ready: VecDeque<(u16, Box<[u8]>)>,
    /// The ticket drawn last.
    last: Ticket,
    clients: usize,
    /// Those among them that want to know of the loss of a key.
    wanting_loss: usize,
}

impl Blocking {
    /// Number of waiting clients.
    pub fn len(&self) -> usize {
        self.clients
    }

    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.clients == 0
    }

    /// Whether anybody wants to know of the loss of a key.
    pub fn wants_loss(&self) -> bool {
        self.wanting_loss > 0
    }

    /// Number of keys somebody waits for.
    pub fn keys(&self) -> usize {
        self.dbs.values().map(BTreeMap::len).sum()
    }

    /// Number of clients that wait for a limited time.
    pub fn timeouts(&self) -> usize {
        self.timeouts.len()
    }

    /// Whether a key that somebody waits for has changed.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next such key.
    pub fn next_ready(&mut self) -> Option<(u16, Box<[u8]>)> {
        let (db, key) = self.ready.pop_front()?;
        if let Some(waiting) = self.waiting_mut(db, &key) {
            waiting.is_ready = false;
        }
        Some((db, key))
    }

    /// The client that waits for a key, next in order after that with this ticket; the first for
    /// [`Ticket::default`], which no client has.
    pub fn next_waiting(&self, db: u16, key: &[u8], after: Ticket) -> Option<(Ticket, SessionKey)> {
        let waiting = self.dbs.get(&db)?.get(key)?;
        let later = (Bound::Excluded(after), Bound::Unbounded);
        let (&ticket, &session) = waiting.clients.range(later).next()?;
        Some((ticket, session))
    }

    /// A key has changed.
    pub fn note_change(&mut self, db: u16, key: &[u8]) {
        if let Some(waiting) = self.waiting_mut(db, key)
            && !std::mem::replace(&mut waiting.is_ready, true)
        {
            self.ready.push_back((db, key.into()));
        }
    }

    /// All keys of a database may have changed: SWAPDB.
    pub fn note_all(&mut self, db: u16) {
        for (key, waiting) in self.dbs.get_mut(&db).into_iter().flatten() {
            if !std::mem::replace(&mut waiting.is_ready, true) {
                self.ready.push_back((db, key.clone()));
            }
        }
    }

    fn waiting_mut(&mut self, db: u16, key: &[u8]) -> Option<&mut Waiting> {
        self.dbs.get_mut(&db)?.get_mut(key)
    }

    /// Puts a client into the queues of these keys; its ticket, and the keys, each once.
    fn add<'k>(
        &mut self,
        session: SessionKey,
        db: u16,
        keys: impl Iterator<Item = &'k [u8]>,
        until_us: Option<u64>,
    ) -> (Ticket, Vec<Box<[u8]>>) {
        self.clients += 1;
        self.last.0 += 1;
        let ticket = self.last;
        if let Some(until_us) = until_us {
            self.timeouts.insert((until_us, ticket), session);
        }
        let names = self.dbs.entry(db).or_default();
        let mut own: Vec<Box<[u8]>> = Vec::new();
        for key in keys {
            let waiting = names.entry(key.into()).or_default();
            if waiting.clients.insert(ticket, session).is_none() {
                own.push(key.into());
            }
        }
        (ticket, own)
    }

    /// Sets when a client tries again by itself: it was to do so then, and does so now.
    fn put_off(
        &mut self,
        (old_us, new_us): (Option<u64>, Option<u64>),
        ticket: Ticket,
        session: SessionKey,
    ) {
        if let Some(old_us) = old_us {
            self.retries.remove(&(old_us, ticket));
        }
        if let Some(new_us) = new_us {
            self.retries.insert((new_us, ticket), session);
        }
    }

    fn remove(&mut self, blocked: &Blocked) {
        self.clients -= 1;
        self.wanting_loss -= usize::from(blocked.wait.wants_loss);
        if let Some(until_us) = blocked.until_us {
            self.timeouts.remove(&(until_us, blocked.ticket));
        }
        if let Some(retry_us) = blocked.retry_us {
            self.retries.remove(&(retry_us, blocked.ticket));
        }
        let Some(names) = self.dbs.get_mut(&blocked.db) else {
            return;
        };
        for key in &blocked.keys {
            if let Some(waiting) = names.get_mut(key) {
                waiting.clients.remove(&blocked.ticket);
                if waiting.clients.is_empty() {
                    names.remove(key);
                }
            }
        }
        if names.is_empty() {
            self.dbs.remove(&blocked.db);
        }
    }
}

impl Engine {
    /// Makes a client wait for any of the keys of a database. One that waits already and was only
    /// trying again keeps its place and its time, but for when it tries again by itself.
    pub fn block<'k>(
        &mut self,
        (session_key, db): (SessionKey, usize),
        request: Queued,
        keys: impl Iterator<Item = &'k [u8]>,
        wait: Wait,
    ) {
        let session = &mut self.sessions[session_key];
        let now_us = self.reading.monotonic_us;
        let retry_ms = wait.retry_ms;
        let retry_us = retry_ms.map(|ms| now_us.saturating_add(ms.saturating_mul(1000)));
        if let Some(blocked) = &mut session.blocked {
            blocked.request = request;
            let old_us = std::mem::replace(&mut blocked.retry_us, retry_us);
            let ticket = blocked.ticket;
            return self
                .blocking
                .put_off((old_us, retry_us), ticket, session_key);
        }
        let db = db as u16;
        let timeout_us = wait.timeout_ms.saturating_mul(1000);
        let until_us = (timeout_us > 0).then(|| now_us.saturating_add(timeout_us));
        let (ticket, keys) = self.blocking.add(session_key, db, keys, until_us);
        self.blocking.wanting_loss += usize::from(wait.wants_loss);
        self.blocking.put_off((None, retry_us), ticket, session_key);
        session.blocked = Some(Box::new(Blocked {
            bytes: wait_bytes(&request, &keys),
            request,
            keys,
            db,
            ticket,
            until_us,
            retry_us,
            wait,
            is_silent: matches!(session.replies, Replies::Off | Replies::SkipThis),
        }));
        self.listen_to_changes();
    }

    /// Takes the request of a waiting client, to be tried again: it is given back by
    /// [`Engine::block`] if it goes on waiting. None unless it waits for what the key holds now, if
    /// anything, or for its loss.
    pub fn take_request(&mut self, session_key: SessionKey, kind: Option<Kind>) -> Option<Queued> {
        let blocked = self.sessions[session_key].blocked.as_mut()?;
        let wait = blocked.wait;
        let is_concerned = wait.wants_loss || kind == Some(wait.kind);
        is_concerned.then(|| std::mem::take(&mut blocked.request))
    }

    /// Whether a client whose request was taken is still waiting after it was tried again.
    pub fn still_waits(&self, session_key: SessionKey) -> bool {
        let blocked = self.sessions[session_key].blocked.as_ref();
        blocked.is_some_and(|blocked| !blocked.request.ranges.is_empty())
    }

    /// Ends a client's wait, without telling it; what it waited for, if it did.
    pub fn unblock(&mut self, session_key: SessionKey) -> Option<Box<Blocked>> {
        let session = &mut self.sessions[session_key];
        let blocked = session.blocked.take()?;
        // It was not idle, it could not go on.
        session.active_ms = self.reading.monotonic_us / 1000;
        self.blocking.remove(&blocked);
        self.listen_to_changes();
        Some(blocked)
    }

    /// Ends a client's wait for nothing, and says so, or says the error; false if it did not wait.
    pub fn give_up(&mut self, session_key: SessionKey, error: Option<&[u8]>) -> bool {
        let Some(blocked) = self.unblock(session_key) else {
            return false;
        };
        if let Some(error) = error {
            self.metrics.command(blocked.request.row).failed += 1;
            self.metrics.error(error);
        }
        if !blocked.is_silent {
            let mut reply = self.reply(session_key);
            match error {
                Some(error) => reply.error(error),
                None => match blocked.wait.nothing {
                    // Whatever it is told inside EXEC.
                    Nothing::Null | Nothing::NullArray => reply.null_array(),
                    Nothing::Zero => reply.integer(0),
                    Nothing::Zeros => reply.zeros(),
                },
            }
        }
        self.make_ready(session_key);
        true
    }

    /// Lets those go on whose time to wait is over.
    pub fn end_waits(&mut self) {
        while let Some((&(until_us, _), &session_key)) = self.blocking.timeouts.first_key_value()
            && until_us <= self.reading.monotonic_us
        {
            self.give_up(session_key, None);
        }
    }

    /// Makes ready the keys of those who try again by themselves now.
    pub fn retry_waits(&mut self) {
        while let Some((&(retry_us, ticket), &session_key)) =
            self.blocking.retries.first_key_value()
            && retry_us <= self.reading.monotonic_us
        {
            self.blocking.retries.remove(&(retry_us, ticket));
            if let Some(blocked) = &mut self.sessions[session_key].blocked {
                blocked.retry_us = None;
                // It looks at all its keys.
                if let Some(key) = blocked.keys.first() {
                    self.blocking.note_change(blocked.db, key);
                }
            }
        }
    }

    /// How long until the first client gives up or tries again by itself, in ms; never too short.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let ends = [&self.blocking.timeouts, &self.blocking.retries];
        let firsts = ends.into_iter().filter_map(BTreeMap::first_key_value);
        let (first_us, _) = firsts.map(|(key, _)| *key).min()?;
        let left_us = first_us.saturating_sub(self.reading.monotonic_us);
        Some(left_us.div_ceil(1000))
    }
}
