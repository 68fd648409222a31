//! All databases together: making, emptying, exchanging and loading them, what moves from one to
//! another, and the cut a snapshot is made of.

use std::cell::Cell;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::change::{Changes, Event};
use super::clock_shift::Shift;
use super::collection::Limits;
use super::db::Db;
use super::deaths::Deaths;
use super::effect::Effects;
use super::entry::{Expiry, Form, NewValue, Parts, Slot, ValueRef};
use super::evict::Eviction;
use super::expire::Noted;
use super::expiry_rules::Rules;
use super::graveyard::Graveyard;
use super::lag::Lags;
use super::live::Live;
use super::preimages::Cut;
use super::restate;
use super::schedule::Schedule;
use super::table::Table;
use crate::clock::{Reading, UnixMillis};
use crate::config::{BULK_BYTES_MAX, Config};
use crate::expiry::Term;
use crate::value::Value;
use crate::value::placement::{Ahead, Placement};
use crate::value::prefetch::prefetch;
use crate::value::segmented::Segmented;

/// Counters of what happened to keys.
#[derive(Default)]
pub struct Stats {
    pub(super) hits: Cell<u64>,
    pub(super) misses: Cell<u64>,
    /// Expired keys that were removed because a command met them.
    pub expired_lazily: u64,
    /// Expired keys that the expiry job removed.
    pub expired_actively: u64,
    /// Living keys that gave way as memory was full.
    pub evicted: u64,
    /// Expired hash fields that were removed because a command met them.
    pub members_expired_lazily: u64,
    /// Expired hash fields that the expiry job removed.
    pub members_expired_actively: u64,
}

impl Stats {
    /// Reads that found a key.
    pub fn hits(&self) -> u64 {
        self.hits.get()
    }

    /// Reads that found none.
    pub fn misses(&self) -> u64 {
        self.misses.get()
    }
}

/// Where a database that had keys at the cut is now.
#[derive(Clone, Copy)]
pub(super) enum CutPlace {
    /// It held no key at the cut.
    None,
    /// In use, under this number.
    InUse(usize),
    /// Flushed; a position among the retired ones.
    Retired(usize),
}

/// All databases.
pub struct Keyspace {
    pub(super) dbs: Vec<Db>,
    /// Databases flushed while a snapshot runs, which has still to save them.
    pub(super) retired: Vec<Db>,
    /// Where the databases of the cut are now, by their numbers at the cut.
    pub(super) cut_places: Vec<CutPlace>,
    pub(super) schedule: Schedule,
    /// Bytes that a database takes which never held anything.
    blank_bytes: usize,
    pub(super) placement: Placement,
    pub(super) rng: SmallRng,
    /// What happened since it was last read.
    pub changes: Changes,
    /// What must be done elsewhere to have the same there.
    pub effects: Effects,
    /// What the running snapshot needs.
    pub cut: Cut,
    /// What waits to be freed.
    pub graveyard: Graveyard,
    /// What happened to keys.
    pub stats: Stats,
    /// Expired keys are hidden but not removed: CLIENT PAUSE is in force.
    pub is_frozen: bool,
    /// A deadline in the past gives the event `expired` and not `del`.
    pub past_is_expired: bool,
    /// Longer no string may become, in bytes.
    pub string_bytes_max: usize,
    /// A sparse HyperLogLog becomes dense when it is longer, in bytes.
    pub sparse_bytes_max: usize,
    /// When small collections become big ones.
    pub limits: Limits,
    pub(super) noted: Cell<Vec<Noted>>,
    pub(super) missed: Cell<Vec<(u16, Vec<u8>)>>,
    /// Which key gives way when memory is full.
    pub eviction: Eviction,
    /// The last number drawn for a use; never 0.
    pub(super) use_draw: Cell<u32>,
    /// Deadlines that follow the wall clock.
    pub(super) shift: Shift,
    /// What has expired, for the stream of such events.
    pub deaths: Deaths,
    /// Rules of expiry.
    pub rules: Rules,
    /// Keys that the running command has written, and that are still to get a deadline by a rule.
    pub(super) written: Vec<(usize, Vec<u8>)>,
    /// Keys that have got one, which somebody is to be told.
    pub(super) given: Vec<(usize, Vec<u8>)>,
    /// Keys whose deadlines have slid, while effects are heard.
    pub(super) slid: Cell<Vec<(usize, Vec<u8>)>>,
    /// Address, length and hash of the key that was last looked ahead for.
    pub(super) ahead: Cell<Ahead>,
    /// The same of a member or field.
    pub(super) member_ahead: Cell<Ahead>,
    /// Lag of deletions behind deadlines, in ms, since start or [`Keyspace::reset_stats`].
    pub lag: Lags,
}

impl Keyspace {
    /// `dbs` empty databases; `now` is the instant the index starts at.
    pub fn new(dbs: usize, now: UnixMillis, mut rng: SmallRng) -> Keyspace {
        let placement = Placement::new(&mut rng);
        let blank = Db::new(Table::new(placement), now);
        Keyspace {
            blank_bytes: blank.allocated_bytes(),
            dbs: (0..dbs)
                .map(|_| Db::new(Table::new(placement), now))
                .collect(),
            retired: Vec::new(),
            cut_places: Vec::new(),
            schedule: Schedule::new(dbs, now),
            placement,
            rng: SmallRng::from_rng(&mut rng),
            changes: Changes::default(),
            effects: Effects::default(),
            cut: Cut::default(),
            graveyard: Graveyard::default(),
            stats: Stats::default(),
            is_frozen: false,
            past_is_expired: false,
            string_bytes_max: BULK_BYTES_MAX as usize,
            sparse_bytes_max: Config::default().hll_sparse_bytes_max as usize,
            limits: Limits::new(&Config::default()),
            noted: Cell::default(),
            slid: Cell::default(),
            eviction: Eviction::default(),
            use_draw: Cell::new(1),
            shift: Shift::new(0),
            deaths: Deaths::default(),
            rules: Rules::default(),
            written: Vec::new(),
            given: Vec::new(),
            missed: Cell::default(),
            ahead: Cell::new(Ahead::NONE),
            member_ahead: Cell::new(Ahead::NONE),
            lag: Lags::default(),
        }
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.dbs.len()
    }

    /// Sets the counters of what happened to keys, and of how late they were removed, to zero.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.lag = Lags::default();
        (self.deaths.written, self.deaths.lost) = (0, 0);
        self.graveyard.reset_stats();
    }

    /// One database, as it is, dead keys included.
    pub fn db(&self, db: usize) -> &Db {
        &self.dbs[db]
    }

    /// Whether a database is as if it had never held anything.
    pub(super) fn is_blank(&self, db: &Db) -> bool {
        db.table.is_empty() && db.allocated_bytes() <= self.blank_bytes
    }

    /// The databases that hold anything, and maybe others, in no order.
    pub fn used_databases(&self) -> impl Iterator<Item = &Db> {
        let used = self.schedule.used().iter();
        used.map(|&db| &self.dbs[usize::from(db)])
    }

    /// Whether a database is one of them.
    pub fn is_used(&self, db: usize) -> bool {
        self.schedule.is_used(db)
    }

    /// The same with those that were flushed but are still to be saved.
    pub fn kept_databases(&self) -> impl Iterator<Item = &Db> {
        self.used_databases().chain(&self.retired)
    }

    /// All databases, those included that were flushed but are still to be saved.
    pub fn all_databases(&self) -> impl Iterator<Item = &Db> {
        self.dbs.iter().chain(&self.retired)
    }

    /// The database that had this number at the cut, wherever it is now; none if it was empty then.
    pub fn database_of_cut(&self, number: u16) -> Option<&Db> {
        match *self.cut_places.get(usize::from(number))? {
            CutPlace::None => None,
            CutPlace::InUse(at) => self.dbs.get(at),
            CutPlace::Retired(at) => self.retired.get(at),
        }
    }

    /// The numbers of the databases that had keys at the cut, in ascending order.
    pub fn numbers_of_cut(&self) -> Vec<u16> {
        let places = self.cut_places.iter().enumerate();
        let used = places.filter(|(_, place)| !matches!(place, CutPlace::None));
        used.map(|(number, _)| number as u16).collect()
    }

    /// The placement hash of a key, a member or a field.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let ahead = self.ahead.get();
        ahead.of(key).unwrap_or_else(|| self.placement.hash(key))
    }

    /// Look-ahead, pass 1: hashes a key and asks for where its probe starts.
    #[inline]
    pub fn look_ahead(&self, db: usize, key: &[u8]) -> u64 {
        let hash = self.placement.hash(key);
        self.dbs[db].table.prefetch_probe(hash);
        hash
    }

    /// Look-ahead, pass 2: asks for the beginning of what is probably the entry.
    #[inline]
    pub fn look_at_entry(&self, db: usize, hash: u64) -> Option<&Slot> {
        let slot = self.dbs[db].table.find_by(hash, |_| true)?;
        prefetch(slot.address());
        Some(slot)
    }

    /// For passes 3 and 4 of a look-ahead, which are those of [`Segmented`]: the big set or hash
    /// that the key of this hash probably holds.
    pub fn probable_members(&self, db: usize, hash: u64) -> Option<&Segmented> {
        let slot = self.dbs[db].table.find_by(hash, |_| true)?;
        match slot.value() {
            ValueRef::Boxed(Value::Set(members) | Value::Hash(members)) => Some(members),
            _ => None,
        }
    }

    /// Tells the hash of a key that is about to be used, found by its address; any other key is
    /// hashed as usual. Must be forgotten before the key's buffer changes or is freed.
    #[inline]
    pub fn remember(&self, key: &[u8], hash: u64) {
        self.ahead.set(Ahead::new(key, hash));
    }

    /// The same of a member or field.
    #[inline]
    pub fn remember_member(&self, member: &[u8], hash: u64) {
        self.member_ahead.set(Ahead::new(member, hash));
    }

    /// Forgets both.
    #[inline]
    pub fn forget(&self) {
        self.ahead.set(Ahead::NONE);
        self.member_ahead.set(Ahead::NONE);
    }

    /// One database at one instant.
    #[inline]
    pub fn live<'a>(&'a mut self, db: usize, reading: &'a Reading) -> Live<'a> {
        if self.schedule.note(db) {
            self.dbs[db].advance(reading.now);
        }
        Live {
            space: self,
            db,
            reading,
            is_touching: true,
            is_for_script: false,
            is_vacated: false,
        }
    }

    pub(super) fn clock(&self, reading: &Reading) -> u16 {
        if self.eviction.counts_uses {
            return self.eviction.new_clock(reading.now);
        }
        (reading.now.0 / 1000) as u16
    }

    /// Empties a database. What it held is freed later, piece by piece.
    pub fn flush(&mut self, db: usize, now: UnixMillis) -> usize {
        let mut empty = Db::new(Table::new(self.placement), now);
        let old = &self.dbs[db];
        (empty.era, empty.shift_ms) = (old.era, old.shift_ms);
        empty.is_shifting = old.is_shifting;
        let old = std::mem::replace(&mut self.dbs[db], empty);
        self.schedule.note(db);
        let keys = old.table.len();
        if let Some(number) = old.cut_number.filter(|_| self.cut.is_active) {
            self.cut_places[usize::from(number)] = CutPlace::Retired(self.retired.len());
            self.retired.push(old);
        } else {
            self.graveyard.bury(old);
        }
        keys
    }

    /// Exchanges two databases, index and all.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.dbs.swap(a, b);
        if self.is_shifting() {
            self.look_at_all();
        }
        for at in [a, b] {
            self.schedule.note(at);
            if let Some(number) = self.dbs[at].cut_number {
                self.cut_places[usize::from(number)] = CutPlace::InUse(at);
            }
        }
    }

    /// Starts a cut: from here on, entries that change are kept for the snapshot as they are now.
    pub fn begin_cut(&mut self) {
        self.cut.is_active = true;
        self.cut.epoch = self.cut.epoch.wrapping_add(1);
        self.cut.unkept = 0;
        self.number_tables();
    }

    /// Gives each table that holds keys the number its database has now, for a walk over all of
    /// them.
    pub fn number_tables(&mut self) {
        self.cut_places.clear();
        for (number, db) in self.dbs.iter_mut().enumerate() {
            let is_used = !db.table.is_empty();
            db.cut_number = is_used.then_some(number as u16);
            self.cut_places.push(if is_used {
                CutPlace::InUse(number)
            } else {
                CutPlace::None
            });
        }
    }

    /// Ends the cut, whether the snapshot was finished or given up.
    pub fn end_cut(&mut self) {
        self.cut.is_active = false;
        self.cut.clear(&mut self.graveyard);
        self.dbs.iter_mut().for_each(|db| db.cut_number = None);
        self.cut_places.clear();
        for db in self.retired.drain(..) {
            self.graveyard.bury(db);
        }
    }

    /// Records effects by which all that was there is replaced by all that is here now.
    pub fn restate(&mut self, reading: &Reading) {
        let Keyspace { dbs, effects, .. } = self;
        if !effects.are_heard() {
            return;
        }
        effects.record(0, [b"FLUSHALL".as_slice()]);
        for (number, db) in dbs.iter().enumerate() {
            db.table
                .for_each(|slot| restate::restate(effects, number, slot, reading));
        }
    }

    /// Adds a key from a snapshot. A key that is there already is replaced; true if so.
    /// `hash` comes from [`Keyspace::look_ahead`].
    pub fn load(
        &mut self,
        db: usize,
        (hash, key): (u64, &[u8]),
        (form, value): (Form, NewValue<'_>),
        term: Option<Term>,
        reading: &Reading,
    ) -> bool {
        let (epoch, clock) = (self.cut.epoch, self.clock(reading));
        let parts = Parts {
            key,
            form,
            value,
            expiry: None,
            epoch,
            clock,
        };
        let Keyspace {
            dbs,
            cut,
            graveyard,
            schedule,
            ..
        } = self;
        let was_there =
            dbs[db].remove_by(Some(cut), graveyard, hash, |slot| slot.key() == key, |_| {});
        dbs[db].insert(hash, parts, term);
        schedule.note(db);
        was_there
    }

    /// Whether there is a key, dead or alive. `hash` comes from [`Keyspace::look_ahead`].
    pub fn has(&self, db: usize, (hash, key): (u64, &[u8])) -> bool {
        self.dbs[db].table.find(hash, key).is_some()
    }

    /// Hashes of a database with volatile fields, dead ones among them until they are removed.
    pub fn dated_len(&self, db: usize) -> usize {
        self.dbs[db].members.len()
    }

    /// Keys of a database that are not known to be due; exact after [`Keyspace::settle_due`]
    /// unless more were due than it removes.
    pub fn live_len(&self, db: usize) -> usize {
        let Db { table, index, .. } = &self.dbs[db];
        table.len() - index.ripe_len().saturating_sub(index.ripe_extended())
    }

    /// Volatile keys of a database that are not known to be due.
    pub fn volatile_len(&self, db: usize) -> usize {
        let index = &self.dbs[db].index;
        index.len() - index.ripe_len().saturating_sub(index.ripe_extended())
    }

    /// Moves a key to another database with its deadline. False if it is not there or the other
    /// database has it already.
    pub fn move_key(&mut self, from: usize, to: usize, key: &[u8], reading: &Reading) -> bool {
        let hash = self.hash(key);
        self.live(from, reading).settle(hash, key);
        self.live(to, reading).settle(hash, key);
        if self.dbs[to].table.find(hash, key).is_some() {
            return false;
        }
        let Keyspace { dbs, cut, .. } = self;
        let Some(slot) = dbs[from].take(cut, hash, key) else {
            return false;
        };
        slot.set_epoch(cut.epoch);
        dbs[to].insert_slot(hash, slot);
        self.changes.count(1);
        self.changes.record(to as u16, Event::NEW, key);
        self.changes.record(from as u16, Event::MOVE_FROM, key);
        self.changes.record(to as u16, Event::MOVE_TO, key);
        self.note_written(to, key);
        true
    }

    /// Copies a key, possibly to another database. False if the source is not there, or the
    /// destination is and must not be replaced.
    pub fn copy_key(
        &mut self,
        from: (usize, &[u8]),
        to: (usize, &[u8]),
        replaces: bool,
        reading: &Reading,
    ) -> bool {
        let (source_hash, hash) = (self.hash(from.1), self.hash(to.1));
        self.live(from.0, reading).settle(source_hash, from.1);
        self.live(to.0, reading).settle(hash, to.1);
        let old = self.dbs[to.0].table.find(hash, to.1).map(Slot::kind);
        // Found out before the source is copied, which may take long and much memory.
        if old.is_some() && !replaces {
            return false;
        }
        self.live(to.0, reading).settle_whole(hash, to.1);
        // Or they would die once more, as members of the copy.
        self.live(from.0, reading).settle_all_members(from.1);
        let Some(source) = self.dbs[from.0].table.find(source_hash, from.1) else {
            return false;
        };
        // Whoever may refresh the source has no right to the copy.
        let expiry = source.expiry().map(Expiry::without_lease);
        let copy = source
            .duplicate()
            .renamed(hash, to.1, expiry, self.cut.epoch);
        let Keyspace {
            dbs,
            cut,
            graveyard,
            ..
        } = self;
        let new = copy.kind();
        if old.is_some() {
            dbs[to.0].remove_by(
                Some(cut),
                graveyard,
                hash,
                |slot| slot.key() == to.1,
                |_| {},
            );
        }
        dbs[to.0].insert_slot(hash, copy);
        let to_db = to.0 as u16;
        self.changes.count(1);
        self.changes.record(to_db, Event::NEW, to.1);
        self.changes.record(to_db, Event::COPY_TO, to.1);
        if let Some(old) = old {
            self.changes.record_overwrite(to_db, to.1, old, new);
        }
        self.note_written(to.0, to.1);
        if self.eviction.dates_writes {
            self.live(to.0, reading).date_write(to.1);
        }
        true
    }

    /// Notes that a command has written a key, or deleted it: nobody need fill it any more, and a
    /// rule may give it a deadline.
    #[inline(always)]
    pub(super) fn note_written(&mut self, db: usize, key: &[u8]) {
        self.dbs[db].fills.end(key);
        if self.rules.have_default() {
            self.note_ruled(db, key);
        }
    }

    #[inline(never)]
    fn note_ruled(&mut self, db: usize, key: &[u8]) {
        let rule = self.rules.of(db, key);
        if rule.is_some_and(|rule| rule.default_ms.is_some()) {
            let slot = self.dbs[db].table.find(self.hash(key), key);
            if slot.is_some_and(|slot| slot.deadline().is_none()) {
                self.written.push((db, key.to_vec()));
            }
        }
    }

    /// Gives the keys that a command has written, and left without a deadline, those of their
    /// rules. Called when the command ends and has left its effect.
    #[inline]
    pub fn give_defaults(&mut self, reading: &Reading) {
        if !self.written.is_empty() || !self.given.is_empty() {
            for (db, key) in std::mem::take(&mut self.written) {
                self.live(db, reading).give_default(&key);
            }
            for (db, key) in std::mem::take(&mut self.given) {
                self.live(db, reading).report_default(&key);
            }
        }
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.dbs.iter().for_each(Db::check);
        self.graveyard.check();
        self.cut.check();
        for (number, db) in self.dbs.iter().enumerate() {
            let next = db.next_wakeup(number);
            self.schedule.check(number, next, self.is_blank(db));
        }
    }
}
