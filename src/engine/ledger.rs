//! The ledger of memory: what everything takes that clients or jobs make the server keep.
//!
//! Each sum is kept where its items come and go, so reading it walks no keys: a table knows the
//! bytes of its entries (`store::entry_mut`), a big value those of its pieces, the graveyard and a
//! snapshot's queue what waits in them, a session what its client has made it keep. An index asks
//! its pages, of which there is one for some thousands of keys.
//!
//! Sizes are those of the allocator's classes; what names in trees take (watched keys, channels) is
//! an average. A test compares the sum with what the allocator has handed out, for data and clients
//! of 24 shapes: they are within 5 % and 1 MiB of each other (`tests/main/ledger.rs`). Not counted:
//! what of a frozen collection only the snapshot still has, beyond 128 KiB, and what libraries
//! allocate for themselves.
//!
//! Not here: limits of what one client may make the server keep (`client_limits`), and what the
//! allocator has of the system (`memory`).

use super::Engine;
use super::session::Session;
use crate::store::db::Db;

/// Bytes of memory by what they are for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    /// Taken before there was any key.
    pub startup: usize,
    /// Entries: keys with their values.
    pub entries: usize,
    /// Tables that find them.
    pub tables: usize,
    /// Indexes of deadlines.
    pub indexes: usize,
    /// What is gone for users but not freed yet.
    pub graveyard: usize,
    /// What is kept for the running snapshot, or waits to be written.
    pub snapshot: usize,
    /// Sessions: buffers, queued commands, watched keys, subscriptions.
    pub clients: usize,
    /// Room for sessions that are not there: of clients that have left.
    pub vacancies: usize,
    /// Connections to the port of metrics, and what they are to be sent.
    pub web: usize,
    /// The interpreter of scripts, with what they keep in it.
    pub interpreter: usize,
    /// Texts of cached scripts.
    pub scripts: usize,
    /// Texts of libraries of functions.
    pub libraries: usize,
}

impl Ledger {
    /// All but keys with their values.
    pub fn overhead(&self) -> usize {
        self.sum() - self.entries
    }

    /// All of it.
    pub fn sum(&self) -> usize {
        let keys = self.entries + self.tables + self.indexes;
        let jobs = self.graveyard + self.snapshot;
        let scripts = self.interpreter + self.scripts + self.libraries;
        let clients = self.clients + self.vacancies;
        self.startup + keys + jobs + clients + self.web + scripts
    }

    /// Adds what a database takes.
    pub fn add_database(&mut self, db: &Db) {
        self.entries += db.table.entry_bytes();
        self.tables += db.table.allocated_bytes();
        self.indexes += db.index.allocated_bytes() + db.members.allocated_bytes();
    }
}

impl Engine {
    /// What everything takes now. Asks every database that holds anything, every client and every
    /// library once.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger_without_many();
        let databases = self.keyspace.kept_databases();
        databases.for_each(|db| ledger.add_database(db));
        let sessions = self.sessions.iter();
        ledger.clients = sessions.map(|(_, session)| session.memory_bytes()).sum();
        ledger
    }

    /// The same without what there may be many of, databases and clients.
    pub fn ledger_without_many(&self) -> Ledger {
        let waiting = self.jobs.persistence.waiting_bytes();
        Ledger {
            startup: self.identity.startup_bytes as usize,
            graveyard: self.keyspace.graveyard.allocated_bytes(),
            snapshot: self.keyspace.cut.held_bytes() + waiting,
            vacancies: (self.sessions.capacity() - self.sessions.len()) * size_of::<Session>(),
            web: self.web_bytes,
            interpreter: self.scripts.interpreter_bytes(),
            scripts: self.scripts.cached_bytes(),
            libraries: self.scripts.library_bytes(),
            ..Ledger::default()
        }
    }
}
