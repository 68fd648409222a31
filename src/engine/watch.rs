//! WATCH: which transactions die when a key changes.
//!
//! Invariant: a session is in a key's list iff the key is among the session's watched keys.

use std::collections::HashMap;

use super::Engine;
use super::session::SessionKey;

/// All watched keys.
#[derive(Default)]
pub struct Watch {
    keys: HashMap<(u16, Box<[u8]>), Vec<SessionKey>>,
}

impl Watch {
    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of watched keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}

impl Engine {
    /// Watches a key of the client's database.
    pub fn watch(&mut self, session_key: SessionKey, key: &[u8]) {
        let db = self.sessions[session_key].db as u16;
        let listeners = self.watch.keys.entry((db, key.into())).or_default();
        if listeners.contains(&session_key) {
            return;
        }
        listeners.push(session_key);
        let reading = self.reading;
        let is_dead = self
            .keyspace
            .live(db as usize, &reading)
            .peek(key)
            .is_none();
        self.sessions[session_key]
            .multi
            .watched
            .push((db, key.into(), is_dead));
        self.listen_to_changes();
    }

    /// Stops watching everything a client watches.
    pub fn unwatch(&mut self, session_key: SessionKey) {
        let watched = std::mem::take(&mut self.sessions[session_key].multi.watched);
        if watched.is_empty() {
            return;
        }
        for (db, key, _) in watched {
            let name = (db, key);
            if let Some(listeners) = self.watch.keys.get_mut(&name) {
                listeners.retain(|&listener| listener != session_key);
                if listeners.is_empty() {
                    self.watch.keys.remove(&name);
                }
            }
        }
        self.listen_to_changes();
    }

    /// A key changed: transactions that watch it will fail.
    pub fn touch_watched(&mut self, db: u16, key: &[u8]) {
        if self.watch.is_empty() {
            return;
        }
        if let Some(listeners) = self.watch.keys.get(&(db, key.into())) {
            for &listener in listeners {
                self.sessions[listener].multi.is_stale = true;
            }
        }
    }

    /// A whole database is about to be replaced (by another one or by nothing): transactions that
    /// watch a key which is there, or will be, fail.
    pub fn touch_database(&mut self, db: u16, replacement: Option<u16>) {
        let reading = self.reading;
        let names: Vec<(u16, Box<[u8]>)> = self
            .watch
            .keys
            .keys()
            .filter(|(other, _)| *other == db)
            .cloned()
            .collect();
        for (_, key) in names {
            let is_in = |engine: &mut Engine, db: u16| {
                engine
                    .keyspace
                    .live(db as usize, &reading)
                    .peek(&key)
                    .is_some()
            };
            let is_there = is_in(self, db);
            if is_there || replacement.is_some_and(|other| is_in(self, other)) {
                self.touch_watched(db, &key);
            }
        }
    }

    /// Whether EXEC must fail because a watched key died since it was watched.
    pub fn has_dead_watched(&mut self, session_key: SessionKey) -> bool {
        let reading = self.reading;
        let watched = std::mem::take(&mut self.sessions[session_key].multi.watched);
        let died = watched.iter().any(|(db, key, was_dead)| {
            let live = self.keyspace.live(*db as usize, &reading);
            !was_dead && live.peek(key).is_none()
        });
        self.sessions[session_key].multi.watched = watched;
        died
    }
}
