//! WATCH: which transactions die when a key changes.
//!
//! A key that expires after it was watched has changed, and so has a hash one of whose fields
//! does. A key that had expired already when it was watched has not changed when it is removed at
//! last: no client could see it before or after.
//!
//! Invariant: a session is in a key's list iff the key is among the session's watched keys.

use std::collections::BTreeMap;

use super::Engine;
use super::session::SessionKey;
use crate::store::change::Event;
use crate::value::size_class;

/// What a watched key takes besides its name, which stands with the client and here, in bytes: a
/// place in the client's list, one in a tree, and a list of its own.
const WATCHED_BYTES: usize = 184;

/// A client that watches a key.
struct Watcher {
    session: SessionKey,
    /// There was no such key, or a dead one, when it began to watch.
    was_dead: bool,
}

/// All watched keys.
#[derive(Default)]
pub struct Watch {
    /// By database; a lookup for a changed key copies nothing.
    dbs: BTreeMap<u16, BTreeMap<Box<[u8]>, Vec<Watcher>>>,
}

impl Watch {
    /// Whether nothing is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.dbs.is_empty()
    }

    /// Number of watched keys.
    pub fn len(&self) -> usize {
        self.dbs.values().map(BTreeMap::len).sum()
    }

    fn add(&mut self, db: u16, key: &[u8], watcher: Watcher) {
        let keys = self.dbs.entry(db).or_default();
        keys.entry(key.into()).or_default().push(watcher);
    }

    fn remove(&mut self, db: u16, key: &[u8], session: SessionKey) {
        let Some(keys) = self.dbs.get_mut(&db) else {
            return;
        };
        if let Some(watchers) = keys.get_mut(key) {
            watchers.retain(|watcher| watcher.session != session);
            if watchers.is_empty() {
                keys.remove(key);
            }
        }
        if keys.is_empty() {
            self.dbs.remove(&db);
        }
    }

    fn watchers(&self, db: u16, key: &[u8]) -> &[Watcher] {
        let watchers = self.dbs.get(&db).and_then(|keys| keys.get(key));
        watchers.map_or(&[], Vec::as_slice)
    }
}

impl Engine {
    /// Makes a client watch a key of a database.
    pub fn watch(&mut self, session_key: SessionKey, db: u16, key: &[u8]) {
        let mut watchers = self.watch.watchers(db, key).iter();
        if watchers.any(|watcher| watcher.session == session_key) {
            return;
        }
        // What is left of the dead afterwards has died since.
        self.keyspace
            .settle_members(db as usize, key, &self.reading);
        let live = self.keyspace.live(db as usize, &self.reading);
        let was_dead = live.peek(key).is_none();
        let watcher = Watcher {
            session: session_key,
            was_dead,
        };
        self.watch.add(db, key, watcher);
        let multi = &mut self.sessions[session_key].multi;
        multi.watched.push((db, key.into(), was_dead));
        multi.watched_bytes += WATCHED_BYTES + 2 * size_class::of(key.len());
        self.listen_to_changes();
    }

    /// Stops watching everything a client watches.
    pub fn unwatch(&mut self, session_key: SessionKey) {
        let multi = &mut self.sessions[session_key].multi;
        let watched = std::mem::take(&mut multi.watched);
        multi.watched_bytes = 0;
        if watched.is_empty() {
            return;
        }
        for (db, key, _) in watched {
            self.watch.remove(db, &key, session_key);
        }
        self.listen_to_changes();
    }

    /// A key changed: transactions that watch it will fail.
    pub fn touch_watched(&mut self, db: u16, event: Event, key: &[u8]) {
        let is_removal_of_dead = [
            Event::EXPIRED,
            Event::HEXPIRED,
            Event::SEXPIRED,
            Event::ZEXPIRED,
            Event::DEL,
        ]
        .contains(&event);
        let failed: Vec<SessionKey> = self
            .watch
            .watchers(db, key)
            .iter()
            // A key that came to life again since has left another event before this one.
            .filter(|watcher| !(is_removal_of_dead && watcher.was_dead))
            .map(|watcher| watcher.session)
            .collect();
        self.fail_transactions(&failed);
    }

    /// A transaction that fails in any case need not watch anything any more.
    fn fail_transactions(&mut self, failed: &[SessionKey]) {
        for &session_key in failed {
            self.sessions[session_key].multi.is_stale = true;
            self.unwatch(session_key);
        }
    }

    /// A whole database is about to be replaced (by another one or by nothing): transactions that
    /// watch a key which is there, or will be, fail.
    pub fn touch_database(&mut self, db: u16, replacement: Option<u16>) {
        let Some(keys) = self.watch.dbs.get(&db) else {
            return;
        };
        let reading = &self.reading;
        let mut failed = Vec::new();
        for (key, watchers) in keys {
            let is_there = [Some(db), replacement].into_iter().flatten().any(|db| {
                let live = self.keyspace.live(db as usize, reading);
                live.peek(key).is_some()
            });
            if is_there {
                failed.extend(watchers.iter().map(|watcher| watcher.session));
            }
        }
        self.fail_transactions(&failed);
    }

    /// Whether EXEC must fail because a watched key, or a member of it, died since it was watched.
    pub fn has_dead_watched(&mut self, session_key: SessionKey) -> bool {
        let watched = &self.sessions[session_key].multi.watched;
        watched.iter().any(|(db, key, was_dead)| {
            let live = self.keyspace.live(*db as usize, &self.reading);
            !was_dead && (live.peek(key).is_none() || live.has_dead_members(key))
        })
    }
}
