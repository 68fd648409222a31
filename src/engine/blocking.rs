//! Clients that wait for a key: BLPOP and its like.
//!
//! A command that finds nothing to take hands its arguments over to [`Engine::block`] and leaves no
//! reply. When a key somebody waits for has changed, its waiting clients are let try again in the
//! order in which they came: the command itself runs once more, as if it had just arrived, and
//! either replies or leaves them waiting. So what a blocked command does is written once.
//!
//! ```text
//! changes ──> a key somebody waits for ──> ready ──> after the outermost command: each waiting
//!                                                    client tries again, first come first served
//! ```
//!
//! Invariants: a session has [`Session::blocked`] iff it is in the queue of each of its keys, and
//! among the timeouts if it has one. Nobody blocks inside EXEC.
//!
//! Not here: what the commands do (`command`), which runs them (`command::dispatch`).
//!
//! [`Session::blocked`]: super::session::Session::blocked

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Engine;
use super::session::{Queued, Replies, SessionKey};
use crate::value::Kind;

/// What a client waits for.
pub struct Blocked {
    /// The command, to be tried again.
    pub request: Queued,
    /// The keys, each once.
    keys: Vec<Box<[u8]>>,
    db: u16,
    /// When it gives up, in ms of monotonic time.
    until_ms: Option<u64>,
    wait: Wait,
    /// It wants no reply.
    pub is_silent: bool,
}

/// How a command waits.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// What type of value it waits for; others do not concern it.
    pub kind: Kind,
    /// For how long, in ms; 0 is for ever.
    pub timeout_ms: u64,
    /// What it is told when that is over.
    pub nothing: Nothing,
}

/// How a command says that it got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// With a null.
    Null,
    /// With a null array.
    NullArray,
}

/// All waiting clients.
#[derive(Default)]
pub struct Blocking {
    /// Who waits for which key, by database, in order of arrival.
    dbs: BTreeMap<u16, BTreeMap<Box<[u8]>, VecDeque<SessionKey>>>,
    /// When who gives up.
    timeouts: BTreeSet<(u64, SessionKey)>,
    /// Keys that have changed and are waited for, in order.
    ready: VecDeque<(u16, Box<[u8]>)>,
    clients: usize,
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
        self.ready.pop_front()
    }

    /// Who waits for a key, in order.
    pub fn waiting(&self, db: u16, key: &[u8]) -> Vec<SessionKey> {
        let queue = self.dbs.get(&db).and_then(|keys| keys.get(key));
        queue.map_or_else(Vec::new, |queue| queue.iter().copied().collect())
    }

    /// A key has changed.
    pub fn note_change(&mut self, db: u16, key: &[u8]) {
        let is_waited_for = self.dbs.get(&db).is_some_and(|keys| keys.contains_key(key));
        let is_noted = || {
            self.ready
                .iter()
                .any(|(at, name)| *at == db && **name == *key)
        };
        if is_waited_for && !is_noted() {
            self.ready.push_back((db, key.into()));
        }
    }

    /// All keys of a database may have changed: SWAPDB.
    pub fn note_all(&mut self, db: u16) {
        let keys = self.dbs.get(&db).into_iter().flat_map(BTreeMap::keys);
        self.ready.extend(keys.map(|key| (db, key.clone())));
    }

    fn remove(&mut self, session: SessionKey, blocked: &Blocked) {
        self.clients -= 1;
        if let Some(until_ms) = blocked.until_ms {
            self.timeouts.remove(&(until_ms, session));
        }
        let Some(keys) = self.dbs.get_mut(&blocked.db) else {
            return;
        };
        for key in &blocked.keys {
            if let Some(queue) = keys.get_mut(key) {
                queue.retain(|other| *other != session);
                if queue.is_empty() {
                    keys.remove(key);
                }
            }
        }
        if keys.is_empty() {
            self.dbs.remove(&blocked.db);
        }
    }
}

impl Engine {
    /// Whether the running command may wait: not inside EXEC.
    pub fn may_block(&self) -> bool {
        !self.is_in_exec
    }

    /// Makes a client wait for any of the keys. One that waits already and was only trying again
    /// keeps its place and its time.
    pub fn block<'k>(
        &mut self,
        session_key: SessionKey,
        request: Queued,
        keys: impl Iterator<Item = &'k [u8]>,
        wait: Wait,
    ) {
        let now_ms = self.reading.monotonic_us / 1000;
        let session = &mut self.sessions[session_key];
        if let Some(blocked) = &mut session.blocked {
            blocked.request = request;
            return;
        }
        let db = session.db as u16;
        let until_ms = (wait.timeout_ms > 0).then(|| now_ms.saturating_add(wait.timeout_ms));
        let names = self.blocking.dbs.entry(db).or_default();
        let mut own: Vec<Box<[u8]>> = Vec::new();
        for key in keys {
            let queue = names.entry(key.into()).or_default();
            // The same key may have been named before, by this request only.
            if queue.back() != Some(&session_key) {
                queue.push_back(session_key);
                own.push(key.into());
            }
        }
        self.blocking.clients += 1;
        if let Some(until_ms) = until_ms {
            self.blocking.timeouts.insert((until_ms, session_key));
        }
        session.blocked = Some(Box::new(Blocked {
            request,
            keys: own,
            db,
            until_ms,
            wait,
            is_silent: matches!(session.replies, Replies::Off | Replies::SkipThis),
        }));
        self.listen_to_changes();
    }

    /// Takes the request of a waiting client, to be tried again: it is given back by
    /// [`Engine::block`] if it goes on waiting. None unless it waits for this type of value.
    pub fn take_request(&mut self, session_key: SessionKey, kind: Kind) -> Option<Queued> {
        let blocked = self.sessions[session_key].blocked.as_mut()?;
        (blocked.wait.kind == kind).then(|| std::mem::take(&mut blocked.request))
    }

    /// Whether a client whose request was taken is still waiting after it was tried again.
    pub fn still_waits(&self, session_key: SessionKey) -> bool {
        let blocked = self.sessions[session_key].blocked.as_ref();
        blocked.is_some_and(|blocked| !blocked.request.ranges.is_empty())
    }

    /// Ends a client's wait, without telling it; what it waited for, if it did.
    pub fn unblock(&mut self, session_key: SessionKey) -> Option<Box<Blocked>> {
        let blocked = self.sessions[session_key].blocked.take()?;
        self.blocking.remove(session_key, &blocked);
        self.listen_to_changes();
        Some(blocked)
    }

    /// Ends a client's wait for nothing, and says so, or says the error; false if it did not wait.
    pub fn give_up(&mut self, session_key: SessionKey, error: Option<&[u8]>) -> bool {
        let Some(blocked) = self.unblock(session_key) else {
            return false;
        };
        if !blocked.is_silent {
            let mut reply = self.reply(session_key);
            match (error, blocked.wait.nothing) {
                (Some(error), _) => reply.error(error),
                (None, Nothing::Null) => reply.null(),
                (None, Nothing::NullArray) => reply.null_array(),
            }
        }
        self.make_ready(session_key);
        true
    }

    /// Lets those go on whose time to wait is over.
    pub fn end_waits(&mut self) {
        let now_ms = self.reading.monotonic_us / 1000;
        while let Some(&(until_ms, session_key)) = self.blocking.timeouts.first()
            && until_ms <= now_ms
        {
            self.give_up(session_key, None);
        }
    }

    /// How long until the first client gives up, in ms.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let now_ms = self.reading.monotonic_us / 1000;
        let (until_ms, _) = self.blocking.timeouts.first()?;
        Some(until_ms.saturating_sub(now_ms))
    }
}
