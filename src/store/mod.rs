//! The only place where keys live and die.
//!
//! ```text
//! Keyspace ── Db 0..n ── Table (segments of slots ──> entries)
//!    │           └────── Strata (index of deadlines; entries point back into it)
//!    ├── Changes    what happened, for notifications and WATCH
//!    ├── Cut        entries kept for the running snapshot
//!    └── Graveyard  what is gone but not yet freed
//! Live = Keyspace + one database + one instant: what commands get
//! ```
//!
//! **Live.** Commands never see a [`Db`]. In a [`Live`] a key whose deadline has come does not
//! exist, so no command can forget to check. Methods that take `&mut self` settle such a key
//! (remove it, report `expired`) before their own change; methods that take `&self` hide it and
//! note it, and [`Keyspace::settle_noted`] removes it when the command ends.
//!
//! Invariants: every change of a key goes through this folder and leaves its [`change::Change`];
//! the only interior mutability is `Live`'s notes and the hit counters, which belong to this
//! module alone.
//!
//! Not here: what a command means (`command`), when jobs run (`engine`).

pub mod entry;
pub mod schedule;
pub mod table;

pub mod db;

pub mod change;
pub mod effect;
pub mod graveyard;

pub mod collection;
pub mod fields;
pub mod restate;

pub mod forecast;

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::clock::{Reading, UnixMillis};
use crate::config::{BULK_BYTES_MAX, Config};
use crate::expiry::index::{ItemRef, Strata};
use crate::expiry::{Deadline, expiretime_ms, is_due};
use crate::resp::error::CommandError;
use crate::value::members::Members;
use crate::value::placement::{Ahead, Placement};
use crate::value::{Kind, StringRef, Value};
use change::{Changes, Event};
use collection::{Limits, hash_of, len_of};
use db::{Cut, Db, Filed, Ttl};
use effect::Effects;
use entry::{INLINE_MAX, NewValue, Parts, Slot, ValueRef};
use fields::{FIELDS_PER_STEP, Losses};
use graveyard::Graveyard;
use schedule::Schedule;
use table::{Place, Table};

/// Strings that were edited in place and are at least this long keep spare capacity, so that
/// repeated appends cost amortized constant time.
pub const GROWABLE_MIN: usize = 256;
/// A grown string of at least so many bytes has little room to spare.
const SPARSE_MIN: usize = 1024 * 1024;
/// DBSIZE and INFO remove at most this many due keys before they count.
pub const SETTLE_MAX: usize = 4096;
/// What a key takes in the table: a slot and a control byte, at the usual load.
const TABLE_SHARE_BYTES: usize = 15;
/// What a volatile key takes in the index: a hash, and its part of a full chunk's header.
const INDEX_SHARE_BYTES: usize = 10;
/// A random draw gives up after so many dead or missing keys and looks for the next live one.
const RANDOM_TRIES: usize = 100;

/// Counters of what happened to keys.
#[derive(Default)]
pub struct Stats {
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// Expired keys that were removed because a command met them.
    pub expired_lazily: u64,
    /// Expired keys that the expiry job removed.
    pub expired_actively: u64,
    /// Expired hash fields that were removed because a command met them.
    pub fields_expired_lazily: u64,
    /// Expired hash fields that the expiry job removed.
    pub fields_expired_actively: u64,
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

/// A key that a read passed over because it was due, or a hash with fields that are.
#[derive(Clone, Copy)]
struct Noted {
    db: u16,
    what: Filed,
    hash: u64,
    item: ItemRef,
}

/// Where a database that had keys at the cut is now.
#[derive(Clone, Copy)]
enum CutPlace {
    /// It held no key at the cut.
    None,
    /// In use, under this number.
    InUse(usize),
    /// Flushed; a position among the retired ones.
    Retired(usize),
}

/// All databases.
pub struct Keyspace {
    dbs: Vec<Db>,
    /// Databases flushed while a snapshot runs, which has still to save them.
    retired: Vec<Db>,
    /// Where the databases of the cut are now, by their numbers at the cut.
    cut_places: Vec<CutPlace>,
    schedule: Schedule,
    placement: Placement,
    rng: SmallRng,
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
    /// When small collections become big ones.
    pub limits: Limits,
    noted: Cell<Vec<Noted>>,
    missed: Cell<Vec<(u16, Vec<u8>)>>,
    /// Address, length and hash of the key that was last looked ahead for.
    ahead: Cell<Ahead>,
    /// The same of a member or field.
    member_ahead: Cell<Ahead>,
    /// Lag of deletions behind deadlines, in ms, since start or [`Keyspace::reset_stats`].
    pub lag: LagFigures,
}

/// Parts of an octave in which lags are counted: a figure is at most an eighth too large.
const LAG_STEPS: u64 = 8;
/// Octaves above those lags that are counted exactly.
const LAG_OCTAVES: usize = 40;

/// How late keys and fields were removed after their deadlines: exact counts of the lags below 16
/// ms, above by eighths of a power of two.
#[derive(Clone, Debug)]
pub struct LagFigures {
    buckets: [u64; (LAG_OCTAVES + 2) * LAG_STEPS as usize],
    max_ms: u64,
}

impl Default for LagFigures {
    fn default() -> LagFigures {
        LagFigures {
            buckets: [0; (LAG_OCTAVES + 2) * LAG_STEPS as usize],
            max_ms: 0,
        }
    }
}

impl LagFigures {
    fn add(&mut self, ms: i64, removals: u64) {
        let ms = ms.max(0) as u64;
        let bucket = LagFigures::bucket(ms).min(self.buckets.len() - 1);
        self.buckets[bucket] += removals;
        self.max_ms = self.max_ms.max(ms);
    }

    /// The four highest bits of a lag, and how many come behind them.
    fn bucket(ms: u64) -> usize {
        let octave = (ms / (2 * LAG_STEPS))
            .checked_ilog2()
            .map_or(0, |log| log + 1);
        (u64::from(octave) * LAG_STEPS + (ms >> octave)) as usize
    }

    /// The longest lag that is counted in a bucket.
    fn longest_ms(bucket: usize) -> u64 {
        let octave = (bucket as u64 / LAG_STEPS).saturating_sub(1);
        ((bucket as u64 - octave * LAG_STEPS + 1) << octave) - 1
    }

    /// An upper bound of the lag that this share (0..1) of removals stayed under, in ms.
    pub fn quantile_ms(&self, share: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return LagFigures::longest_ms(bucket).min(self.max_ms);
            }
        }
        0
    }

    /// The longest lag, in ms.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }
}

/// What one round of active expiry did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Keys removed.
    pub removed: usize,
    /// Items filed anew because their deadline had been moved.
    pub refiled: usize,
    /// Items of the audit sample, drawn from all volatile keys.
    pub audited: usize,
    /// How many of those were due.
    pub audited_due: usize,
}

impl Keyspace {
    /// `dbs` empty databases; `now` is the instant the index starts at.
    pub fn new(dbs: usize, now: UnixMillis, mut rng: SmallRng) -> Keyspace {
        let placement = Placement::new(&mut rng);
        Keyspace {
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
            limits: Limits::new(&Config::default()),
            noted: Cell::default(),
            missed: Cell::default(),
            ahead: Cell::new(Ahead::NONE),
            member_ahead: Cell::new(Ahead::NONE),
            lag: LagFigures::default(),
        }
    }

    /// Number of databases.
    pub fn databases(&self) -> usize {
        self.dbs.len()
    }

    /// Sets the counters of what happened to keys, and of how late they were removed, to zero.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.lag = LagFigures::default();
        self.graveyard.reset_stats();
    }

    /// One database, as it is, dead keys included.
    pub fn db(&self, db: usize) -> &Db {
        &self.dbs[db]
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

    /// The numbers of the databases that expiry has to look at: see `schedule.rs`.
    pub fn active_databases(&self) -> &[u16] {
        self.schedule.active()
    }

    /// Lets go of the active databases that have nothing to do before a later moment.
    pub fn settle_schedule(&mut self) {
        let Keyspace { dbs, schedule, .. } = self;
        schedule.settle(|number| {
            let number = usize::from(number);
            dbs[number].next_wakeup(number)
        });
    }

    /// The earliest moment at which an active database has something to do.
    pub fn next_of_active(&self) -> Option<UnixMillis> {
        let active = self
            .schedule
            .active()
            .iter()
            .map(|&number| usize::from(number));
        active
            .filter_map(|number| self.dbs[number].next_wakeup(number))
            .min()
    }

    /// When the first of the databases that are not active has something to do.
    pub fn next_activation(&self) -> Option<UnixMillis> {
        self.schedule.next()
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

    /// Look-ahead, pass 2: asks for the entry.
    #[inline]
    pub fn look_at_entry(&self, db: usize, hash: u64) {
        self.dbs[db].table.prefetch_entry(hash);
    }

    /// For passes 3 and 4 of a look-ahead, which are those of [`Members`]: the big set or hash that
    /// the key of this hash probably holds.
    pub fn probable_members(&self, db: usize, hash: u64) -> Option<&Members> {
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
            is_vacated: false,
        }
    }

    fn clock(reading: &Reading) -> u16 {
        (reading.now.0 / 1000) as u16
    }

    /// Removes a key because it is due. The entry is found by its hash and a test.
    fn expire(
        &mut self,
        db: usize,
        hash: u64,
        now: UnixMillis,
        is_it: impl Fn(&Slot) -> bool,
    ) -> bool {
        let Keyspace {
            dbs,
            changes,
            effects,
            lag,
            graveyard,
            cut,
            ..
        } = self;
        let number = dbs[db].cut_number;
        let is_due_too = |slot: &Slot| {
            slot.deadline()
                .is_some_and(|deadline| is_due(deadline, now))
                && is_it(slot)
        };
        // A snapshot does not save dead keys: a due entry needs no pre-image.
        dbs[db].remove_by(None, graveyard, hash, is_due_too, |slot| {
            cut.count_unkept(number, slot);
            changes.record(db as u16, Event::EXPIRED, slot.key());
            effects.delete(db, slot.key());
            if let Some(deadline) = slot.deadline() {
                lag.add(now.since(deadline.0), 1);
            }
        })
    }

    /// Removes due fields of the hash that an item names, about as many as are looked at in one
    /// step, and files it anew if that was all; the hash itself if all its fields are due.
    fn expire_fields(
        &mut self,
        db: usize,
        (item, hash): (ItemRef, u64),
        now: UnixMillis,
        is_lazy: bool,
    ) {
        let Keyspace {
            dbs,
            changes,
            effects,
            lag,
            graveyard,
            stats,
            cut,
            ..
        } = self;
        let number = dbs[db].cut_number;
        let is_it = |slot: &Slot| fields::is_filed_at(slot, item);
        let Some(slot) = dbs[db].table.find_by_mut(hash, is_it) else {
            return;
        };
        let expired = if is_lazy {
            &mut stats.fields_expired_lazily
        } else {
            &mut stats.fields_expired_actively
        };
        let mut losses = Losses {
            changes,
            effects,
            lag,
            expired,
            now,
            db,
            is_reported: false,
        };
        if fields::is_dead(slot, now) {
            // As of a dead key, a snapshot needs nothing of it.
            dbs[db].remove_by(None, graveyard, hash, is_it, |slot| {
                cut.count_unkept(number, slot);
                losses.hash(slot);
            });
            return;
        }
        let mut is_over = true;
        if fields::may_be_due(slot, now) {
            Db::preserve(cut, number, slot);
            let is_named = losses.changes.is_heard(Event::HEXPIRED) || losses.effects.are_heard();
            let key = if is_named {
                slot.key().to_vec()
            } else {
                Vec::new()
            };
            let gone = |field: &[u8], deadline| losses.field(&key, field, deadline);
            is_over = fields::expire(slot, now, FIELDS_PER_STEP, gone);
        }
        if is_over {
            dbs[db].file_fields(hash, item);
        }
    }

    /// Removes due fields of a hash before it is copied or watched, as many as DBSIZE would remove
    /// keys.
    pub fn settle_fields(&mut self, db: usize, key: &[u8], reading: &Reading) {
        let hash = self.hash(key);
        let mut left = SETTLE_MAX;
        while left > 0 && !self.is_frozen {
            let Some(slot) = self.dbs[db].table.find(hash, key) else {
                return;
            };
            let due = fields::filed(slot).filter(|&(at, _)| is_due(at, reading.now));
            let Some((_, item)) = due else {
                return;
            };
            self.expire_fields(db, (item, hash), reading.now, true);
            left = left.saturating_sub(FIELDS_PER_STEP);
        }
    }

    /// Removes the due keys and fields that reads passed over, and reports them and then the missed
    /// keys. Called when a command ends, before its changes are published.
    #[inline]
    pub fn settle_noted(&mut self, reading: &Reading) {
        let mut noted = self.noted.take();
        if !noted.is_empty() {
            for Noted {
                db,
                what,
                hash,
                item,
            } in noted.drain(..)
            {
                let is_it = |slot: &Slot| slot.item() == Some(item);
                if self.is_frozen {
                    continue;
                }
                if what == Filed::Fields {
                    self.expire_fields(db as usize, (item, hash), reading.now, true);
                } else if self.expire(db as usize, hash, reading.now, is_it) {
                    self.stats.expired_lazily += 1;
                }
            }
        }
        self.noted.set(noted);
        let mut missed = self.missed.take();
        for (db, key) in missed.drain(..) {
            self.changes.record(db, Event::KEY_MISS, &key);
        }
        self.missed.set(missed);
    }

    /// Removes the keys that are due now, whom nobody asked for, if there can be no more than
    /// `limit`: DBSIZE and INFO. If there are more, removing some would only make the caller wait.
    /// The number of items looked at.
    pub fn settle_due(&mut self, db: usize, reading: &Reading, limit: usize) -> usize {
        if self.is_frozen {
            return 0;
        }
        let hashes = self.settle_dead_hashes(db, reading, limit);
        let keys = self.settle_due_keys(db, reading, limit);
        let indexes = [&self.dbs[db].index, &self.dbs[db].fields];
        if hashes + keys > 0 || indexes.iter().any(|index| index.ripe_len() > 0) {
            // It has something else to do now, at another time.
            self.schedule.note(db);
        }
        keys
    }

    fn settle_due_keys(&mut self, db: usize, reading: &Reading, limit: usize) -> usize {
        self.dbs[db].index.advance(reading.now);
        if self.dbs[db].index.due_len_max() > limit {
            return 0;
        }
        let mut drawn = Vec::new();
        let mut left = limit;
        while left > 0 {
            drawn.clear();
            self.dbs[db]
                .index
                .draw_ripe(&mut self.rng, left.min(64), &mut drawn);
            if drawn.is_empty() {
                break;
            }
            left = left.saturating_sub(drawn.len());
            let round = self.settle(db, reading, &drawn);
            self.stats.expired_actively += round.removed as u64;
        }
        if left > 0 {
            drawn.clear();
            self.dbs[db].index.draw_current(left, &mut drawn);
            for &(item, hash) in &drawn {
                if self.expire(db, hash, reading.now, |slot| slot.item() == Some(item)) {
                    self.stats.expired_actively += 1;
                }
            }
            left -= drawn.len();
        }
        limit - left
    }

    /// Removes the hashes that are dead because all their fields are due, in the same way.
    fn settle_dead_hashes(&mut self, db: usize, reading: &Reading, limit: usize) -> usize {
        let index = &mut self.dbs[db].fields;
        index.advance(reading.now);
        if index.is_empty() || index.due_len_max() > limit {
            return 0;
        }
        let mut drawn = Vec::new();
        index.draw_ripe(&mut self.rng, limit, &mut drawn);
        index.draw_current(limit, &mut drawn);
        self.fetch(db, &drawn);
        for &(item, hash) in &drawn {
            let is_it = |slot: &Slot| fields::is_filed_at(slot, item);
            let slot = self.dbs[db].table.find_by(hash, is_it);
            if slot.is_some_and(|slot| fields::is_dead(slot, reading.now)) {
                self.expire_fields(db, (item, hash), reading.now, false);
            }
        }
        drawn.len()
    }

    /// Asks for the entries of drawn items, all probes first, so that their misses overlap.
    fn fetch(&self, db: usize, drawn: &[(ItemRef, u64)]) {
        let table = &self.dbs[db].table;
        for &(_, hash) in drawn {
            table.prefetch_probe(hash);
        }
        for &(_, hash) in drawn {
            table.prefetch_entry(hash);
        }
    }

    /// Deletes the due among the drawn items and refiles the others, with their entries fetched as
    /// a batch.
    fn settle(&mut self, db: usize, reading: &Reading, drawn: &[(ItemRef, u64)]) -> Round {
        let mut round = Round::default();
        self.fetch(db, drawn);
        for &(item, hash) in drawn {
            if self.expire(db, hash, reading.now, |slot| slot.item() == Some(item)) {
                round.removed += 1;
            } else {
                self.dbs[db].refile(Filed::Keys, hash, item);
                round.refiled += 1;
            }
        }
        round
    }

    /// One round of active expiry in one database: draws up to `ripe` items from the ripe stratum
    /// and `audit` from all volatile keys, deletes the due and refiles those whose deadline moved.
    pub fn expire_round(
        &mut self,
        db: usize,
        reading: &Reading,
        ripe: usize,
        audit: usize,
        drawn: &mut Vec<(ItemRef, u64)>,
    ) -> Round {
        drawn.clear();
        self.dbs[db].index.draw_ripe(&mut self.rng, ripe, drawn);
        let mut round = self.settle(db, reading, drawn);
        if audit > 0 {
            drawn.clear();
            self.dbs[db].index.draw_all(&mut self.rng, audit, drawn);
            for &(item, hash) in drawn.iter() {
                round.audited += 1;
                if self.expire(db, hash, reading.now, |slot| slot.item() == Some(item)) {
                    round.audited_due += 1;
                }
            }
        }
        self.stats.expired_actively += (round.removed + round.audited_due) as u64;
        round
    }

    /// One round of active expiry of fields in one database: draws up to `ripe` hashes from those
    /// whose time has come and removes some of their due fields.
    pub fn expire_fields_round(
        &mut self,
        db: usize,
        reading: &Reading,
        ripe: usize,
        drawn: &mut Vec<(ItemRef, u64)>,
    ) {
        drawn.clear();
        self.dbs[db].fields.draw_ripe(&mut self.rng, ripe, drawn);
        self.fetch(db, drawn);
        for &(item, hash) in drawn.iter() {
            self.expire_fields(db, (item, hash), reading.now, false);
        }
    }

    /// The indexes of the active databases.
    pub fn active_indexes(&self) -> impl Iterator<Item = &Strata> {
        self.schedule.active().iter().flat_map(|&number| {
            let db = &self.dbs[usize::from(number)];
            [&db.index, &db.fields]
        })
    }

    /// Activates the databases whose time has come and slides the indexes of all active ones to
    /// `now`: what has ended becomes ripe.
    pub fn ripen(&mut self, now: UnixMillis) {
        self.schedule.wake(now);
        for &number in self.schedule.active() {
            self.dbs[usize::from(number)].advance(now);
        }
    }

    /// Refiles up to `items` items whose coarse bucket is about to begin; how many there were.
    pub fn refile_coming(
        &mut self,
        (db, what): (usize, Filed),
        items: usize,
        drawn: &mut Vec<(ItemRef, u64)>,
    ) -> usize {
        drawn.clear();
        self.dbs[db].index_of(what).draw_coming(items, drawn);
        self.fetch(db, drawn);
        for &(item, hash) in drawn.iter() {
            self.dbs[db].refile(what, hash, item);
        }
        drawn.len()
    }

    /// The coming bucket of an index has been refiled for now.
    pub fn refile_later(&mut self, (db, what): (usize, Filed), at: UnixMillis) {
        self.dbs[db].index_of_mut(what).refile_later(at);
    }

    /// Empties a database. What it held is freed later, piece by piece.
    pub fn flush(&mut self, db: usize, now: UnixMillis) -> usize {
        let empty = Db::new(Table::new(self.placement), now);
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
        value: NewValue<'_>,
        deadline: Option<Deadline>,
        is_variant: bool,
        reading: &Reading,
    ) -> bool {
        let (epoch, clock) = (self.cut.epoch, Keyspace::clock(reading));
        let parts = Parts {
            key,
            value,
            deadline: None,
            epoch,
            clock,
            is_variant,
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
        dbs[db].insert(hash, parts, deadline);
        schedule.note(db);
        was_there
    }

    /// Whether there is a key, dead or alive. `hash` comes from [`Keyspace::look_ahead`].
    pub fn has(&self, db: usize, (hash, key): (u64, &[u8])) -> bool {
        self.dbs[db].table.find(hash, key).is_some()
    }

    /// Hashes of a database with volatile fields, dead ones among them until they are removed.
    pub fn dated_len(&self, db: usize) -> usize {
        self.dbs[db].fields.len()
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
        self.settle_fields(from.0, from.1, reading);
        let Some(source) = self.dbs[from.0].table.find(source_hash, from.1) else {
            return false;
        };
        let filed = source.filed();
        let copy = source
            .duplicate()
            .renamed(hash, to.1, filed, self.cut.epoch);
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
        true
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.dbs.iter().for_each(Db::check);
        for (number, db) in self.dbs.iter().enumerate() {
            self.schedule.check(number, db.next_wakeup(number));
        }
    }
}

/// One database at one instant: what commands see. A due key does not exist in it.
pub struct Live<'a> {
    space: &'a mut Keyspace,
    db: usize,
    reading: &'a Reading,
    /// Whether reads set the access clock.
    pub is_touching: bool,
    /// Whether the next collection made takes the place of what was there: see [`Live::vacate`].
    is_vacated: bool,
}

impl Live<'_> {
    /// The instant.
    pub fn reading(&self) -> &Reading {
        self.reading
    }

    /// The number of the database.
    pub fn db(&self) -> usize {
        self.db
    }

    /// Longer no string may become, in bytes.
    pub fn string_bytes_max(&self) -> usize {
        self.space.string_bytes_max
    }

    /// Whether anybody hears of effects.
    #[inline(always)]
    pub fn is_followed(&self) -> bool {
        self.space.effects.are_heard()
    }

    /// Records a command that has the effect of the running one; see [`effect`].
    #[inline]
    pub fn effect<'a>(&mut self, args: impl IntoIterator<Item = &'a [u8]>) {
        self.space.effects.record(self.db, args);
    }

    /// The same of a command that ends with a deadline, in milliseconds of Unix time.
    pub fn effect_until<const N: usize>(&mut self, args: [&[u8]; N], deadline: Deadline) {
        if self.is_followed() {
            let moment = expiretime_ms(deadline, self.reading).to_string();
            self.effect(args.into_iter().chain([moment.as_bytes()]));
        }
    }

    /// A random number generator.
    pub fn rng(&mut self) -> &mut SmallRng {
        &mut self.space.rng
    }

    /// A random number generator of its own, for draws from a collection that is being looked at or
    /// edited.
    pub fn own_rng(&mut self) -> SmallRng {
        SmallRng::from_rng(self.rng())
    }

    /// The hash that places keys and members.
    pub fn placement(&self) -> Placement {
        self.space.placement
    }

    fn clock(&self) -> u16 {
        Keyspace::clock(self.reading)
    }

    #[inline]
    fn visible(&self, key: &[u8]) -> Option<&Slot> {
        let hash = self.space.hash(key);
        let slot = self.space.dbs[self.db].table.find(hash, key)?;
        if self.is_dead(slot) {
            self.note(hash, slot);
            return None;
        }
        Some(slot)
    }

    #[inline]
    fn is_dead(&self, slot: &Slot) -> bool {
        is_dead(slot, self.reading.now)
    }

    /// Notes that a key is dead, or that fields of it are.
    #[cold]
    fn note(&self, hash: u64, slot: &Slot) {
        let due = slot.filed().filter(|&(at, _)| is_due(at, self.reading.now));
        let (what, filed) = match due {
            Some(_) => (Filed::Keys, due),
            None => (Filed::Fields, fields::filed(slot)),
        };
        if let Some((_, item)) = filed {
            let mut noted = self.space.noted.take();
            noted.push(Noted {
                db: self.db as u16,
                what,
                hash,
                item,
            });
            self.space.noted.set(noted);
        }
    }

    /// Reads a key: counts a hit or a miss and sets its access clock.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Slot> {
        let found = self.look(key);
        if let Some(slot) = found
            && self.is_touching
        {
            slot.set_clock(self.clock());
        }
        found
    }

    /// Reads whether and what a key is: counts a hit or a miss, but is no use of it. EXISTS, TYPE.
    #[inline]
    pub fn look(&self, key: &[u8]) -> Option<&Slot> {
        let found = self.inspect(key);
        if found.is_none() {
            self.note_miss(key);
        }
        found
    }

    /// Like [`Live::look`], but sends no `keymiss` event: OBJECT.
    #[inline]
    pub fn inspect(&self, key: &[u8]) -> Option<&Slot> {
        let stats = &self.space.stats;
        let found = self.visible(key);
        let count = if found.is_some() {
            &stats.hits
        } else {
            &stats.misses
        };
        count.set(count.get() + 1);
        found
    }

    /// Seconds since a key was last used, by a clock that wraps after 18.2 hours.
    pub fn idle_seconds(&self, slot: &Slot) -> u16 {
        self.clock().wrapping_sub(slot.clock())
    }

    fn note_miss(&self, key: &[u8]) {
        if self.space.changes.is_heard(Event::KEY_MISS) {
            let mut missed = self.space.missed.take();
            missed.push((self.db as u16, key.to_vec()));
            self.space.missed.set(missed);
        }
    }

    /// Looks at a key without counting or touching it: TTL, TYPE, OBJECT and writes.
    #[inline]
    pub fn peek(&self, key: &[u8]) -> Option<&Slot> {
        self.visible(key)
    }

    /// Whether a key holds a hash with fields that are due but still there.
    pub fn has_dead_fields(&self, key: &[u8]) -> bool {
        let now = self.reading.now;
        let slot = self.peek(key).filter(|slot| fields::may_be_due(slot, now));
        let hash = slot.and_then(|slot| hash_of(slot, now).ok());
        hash.is_some_and(|hash| Some(hash.len()) < slot.and_then(len_of))
    }

    /// Looks at a key even if it is dead: MEMORY USAGE, DEBUG OBJECT.
    pub fn autopsy(&self, key: &[u8]) -> Option<&Slot> {
        self.space.dbs[self.db]
            .table
            .find(self.space.hash(key), key)
    }

    /// Bytes of memory a key takes, even if it is dead: its entry, and its share of the table and
    /// of the index.
    pub fn memory_usage(&self, key: &[u8]) -> Option<usize> {
        let slot = self.autopsy(key)?;
        let index = slot.item().map_or(0, |_| INDEX_SHARE_BYTES);
        Some(slot.allocated_bytes() + TABLE_SHARE_BYTES + index)
    }

    /// The string at a key, read as [`Live::get`] does.
    ///
    /// # Errors
    /// WRONGTYPE if it holds something else.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, CommandError> {
        self.get(key).map(string_of).transpose()
    }

    /// The string at a key, looked at as [`Live::peek`] does.
    ///
    /// # Errors
    /// WRONGTYPE if it holds something else.
    pub fn peek_string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, CommandError> {
        self.peek(key).map(string_of).transpose()
    }

    /// Where a living key is that a command is about to write; a due one is removed. A write that
    /// runs during CLIENT PAUSE WRITE, inside the EXEC that began it, must not find the dead
    /// either.
    #[inline]
    fn settle(&mut self, hash: u64, key: &[u8]) -> Option<Place> {
        let table = &self.space.dbs[self.db].table;
        let place = table.locate(hash, key)?;
        if self.is_dead(table.at(place)) {
            self.remove_dead(hash, key, place);
            return None;
        }
        Some(place)
    }

    #[cold]
    fn remove_dead(&mut self, hash: u64, key: &[u8], place: Place) {
        let slot = self.space.dbs[self.db].table.at(place);
        let now = self.reading.now;
        let is_key = slot
            .deadline()
            .is_some_and(|deadline| is_due(deadline, now));
        if let Some((_, item)) = fields::filed(slot).filter(|_| !is_key) {
            self.space.expire_fields(self.db, (item, hash), now, true);
        } else if self
            .space
            .expire(self.db, hash, now, |slot| slot.key() == key)
        {
            self.space.stats.expired_lazily += 1;
        }
    }

    /// Records that the command changed a key, and counts one change.
    #[inline]
    pub fn changed(&mut self, event: Event, key: &[u8]) {
        self.changed_by(event, key, 1);
    }

    /// Records that the command changed so many elements of a key, each of which counts as a
    /// change.
    #[inline]
    pub fn changed_by(&mut self, event: Event, key: &[u8], elements: usize) {
        self.space.changes.count(elements as u64);
        self.space.changes.record(self.db as u16, event, key);
    }

    /// Records a further event of a change already counted.
    #[inline]
    pub fn also(&mut self, event: Event, key: &[u8]) {
        self.space.changes.record(self.db as u16, event, key);
    }

    /// Writes a string over whatever the key holds. The caller reports the change.
    pub fn set_string(&mut self, key: &[u8], value: &[u8], ttl: Ttl) {
        if value.len() > INLINE_MAX {
            self.set_shared(key, Bytes::copy_from_slice(value), ttl);
        } else {
            let old = self.put(key, NewValue::Inline(Kind::String, value), ttl, false);
            self.report_overwrite(key, old);
        }
    }

    /// Writes a string of at least [`INLINE_MAX`] bytes, which is not copied, over whatever the key
    /// holds. The caller reports the change.
    pub fn set_shared(&mut self, key: &[u8], value: Bytes, ttl: Ttl) {
        let value = Box::new(Value::Long(value));
        let old = self.put(key, NewValue::Boxed(value), ttl, false);
        self.report_overwrite(key, old);
    }

    /// Writes the text of a number that was computed from the one the key holds: the key is changed
    /// but not overwritten. The caller reports the change.
    pub fn set_number(&mut self, key: &[u8], text: &[u8], ttl: Ttl) {
        if text.len() > INLINE_MAX {
            let value = Box::new(Value::Long(Bytes::copy_from_slice(text)));
            self.put(key, NewValue::Boxed(value), ttl, false);
        } else {
            self.put(key, NewValue::Inline(Kind::String, text), ttl, false);
        }
    }

    #[inline]
    fn report_overwrite(&mut self, key: &[u8], old: Option<Kind>) {
        if let Some(old) = old {
            let changes = &mut self.space.changes;
            changes.record_overwrite(self.db as u16, key, old, Kind::String);
        }
    }

    /// Writes a string and says what type of value was there.
    fn put(&mut self, key: &[u8], value: NewValue<'_>, ttl: Ttl, is_variant: bool) -> Option<Kind> {
        let hash = self.space.hash(key);
        let place = self.settle(hash, key);
        let clock = self.clock();
        let Keyspace {
            dbs,
            cut,
            changes,
            graveyard,
            ..
        } = &mut *self.space;
        let db = &mut dbs[self.db];
        let parts = Parts {
            key,
            value,
            deadline: None,
            epoch: cut.epoch,
            clock,
            is_variant,
        };
        if let Some(place) = place {
            let old = db.table.at(place).kind();
            db.overwrite(cut, graveyard, (hash, place), parts, ttl);
            return Some(old);
        }
        let deadline = match ttl {
            Ttl::At(deadline) => Some(deadline),
            Ttl::Drop | Ttl::Keep => None,
        };
        db.insert(hash, parts, deadline);
        changes.record(self.db as u16, Event::NEW, key);
        None
    }

    /// Edits the string at a key in place, keeping its deadline; a missing key starts empty. It
    /// will be `len` bytes long. The caller has checked the type and reports the change.
    pub fn edit_string(&mut self, key: &[u8], len: usize, edit: impl FnOnce(&mut Vec<u8>)) {
        let hash = self.space.hash(key);
        let place = self.settle(hash, key);
        let clock = self.clock();
        let Keyspace { dbs, cut, .. } = &mut *self.space;
        let db = &mut dbs[self.db];
        let number = db.cut_number;
        let mut bytes = Vec::new();
        if let Some(place) = place {
            let slot = db.table.at_mut(place);
            Db::preserve(cut, number, slot);
            match slot.value_mut() {
                Some(Value::Growable(bytes)) => {
                    let bytes = own(bytes);
                    make_room(bytes, len);
                    edit(bytes);
                    slot.set_clock(clock);
                    return;
                }
                // Its bytes become the grown string's, unless a reply or a snapshot has them too.
                Some(Value::Long(long)) => bytes = Vec::from(std::mem::take(long)),
                _ => bytes.extend_from_slice(slot.string().unwrap_or_default()),
            }
        }
        make_room(&mut bytes, len);
        edit(&mut bytes);
        if bytes.len() >= GROWABLE_MIN {
            let value = Box::new(Value::Growable(Arc::new(bytes)));
            self.put(key, NewValue::Boxed(value), Ttl::Keep, true);
        } else {
            self.put(key, NewValue::Inline(Kind::String, &bytes), Ttl::Keep, true);
        }
    }

    /// Removes a key. True if it was alive.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.space.hash(key);
        self.settle(hash, key);
        let Keyspace {
            dbs,
            cut,
            graveyard,
            ..
        } = &mut *self.space;
        dbs[self.db].remove_by(Some(cut), graveyard, hash, |slot| slot.key() == key, |_| {})
    }

    /// Removes a living key because it was given a deadline in the past, and reports it as the
    /// setting `expire-past-event` says.
    pub fn remove_as_past(&mut self, key: &[u8]) {
        if self.remove(key) {
            self.space.effects.delete(self.db, key);
            let event = if self.space.past_is_expired {
                self.space.stats.expired_lazily += 1;
                Event::EXPIRED
            } else {
                Event::DEL
            };
            self.changed(event, key);
        }
    }

    /// The event of fields that were removed because they were given a deadline in the past, as the
    /// setting `expire-past-event` says. They count as expired either way, unlike keys: so in
    /// Redis.
    pub fn past_field_event(&mut self, fields: usize) -> Event {
        self.space.stats.fields_expired_lazily += fields as u64;
        if self.space.past_is_expired {
            Event::HEXPIRED
        } else {
            Event::HDEL
        }
    }

    /// The deadline of a key: none if there is no such key, `Some(None)` if it has none.
    pub fn deadline(&self, key: &[u8]) -> Option<Option<Deadline>> {
        self.peek(key).map(Slot::deadline)
    }

    /// Changes the deadline of a living key; the caller reports the change.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<Deadline>) {
        let hash = self.space.hash(key);
        if let Some(place) = self.settle(hash, key) {
            let Keyspace { dbs, cut, .. } = &mut *self.space;
            dbs[self.db].set_deadline(cut, (hash, place), deadline);
        }
    }

    /// Moves a living key to another name, with its deadline, over whatever is there, and reports
    /// it. False if there is no such key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        let (source_hash, hash) = (self.space.hash(from), self.space.hash(to));
        self.settle(source_hash, from);
        self.settle(hash, to);
        if from == to {
            return self.peek(from).is_some();
        }
        let Keyspace {
            dbs,
            cut,
            changes,
            graveyard,
            ..
        } = &mut *self.space;
        let db = &mut dbs[self.db];
        let Some(slot) = db.take(cut, source_hash, from) else {
            return false;
        };
        let old = db.table.find(hash, to).map(Slot::kind);
        db.remove_by(Some(cut), graveyard, hash, |slot| slot.key() == to, |_| {});
        let new = slot.kind();
        let filed = slot.filed();
        let renamed = slot.renamed(hash, to, filed, cut.epoch);
        db.insert_slot(hash, renamed);
        let number = self.db as u16;
        changes.count(1);
        changes.record(number, Event::NEW, to);
        changes.record(number, Event::RENAME_FROM, from);
        changes.record(number, Event::RENAME_TO, to);
        if let Some(old) = old {
            changes.record_overwrite(number, to, old, new);
        }
        true
    }

    /// Number of keys; dead ones are removed or left out unless `counts_dead`.
    pub fn len(&mut self, counts_dead: bool) -> usize {
        if counts_dead {
            return self.space.dbs[self.db].table.len();
        }
        self.space.settle_due(self.db, self.reading, SETTLE_MAX);
        self.space.live_len(self.db)
    }

    /// One step of SCAN over living keys; see [`Table::scan`].
    pub fn scan(&self, cursor: u32, count: usize, mut found: impl FnMut(&Slot)) -> u32 {
        self.space.dbs[self.db].table.scan(cursor, count, |slot| {
            if self.is_dead(slot) {
                self.note(self.space.placement.hash(slot.key()), slot);
            } else {
                found(slot);
            }
        })
    }

    /// Calls `found` for every living key, in no order. Dead ones are left to the expiry job.
    pub fn for_each(&self, mut found: impl FnMut(&Slot)) {
        self.space.dbs[self.db].table.for_each(|slot| {
            if !self.is_dead(slot) {
                found(slot);
            }
        });
    }

    /// A random living key, uniformly among the living unless nearly all keys are dead.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        self.space.dbs[self.db].index.advance(self.reading.now);
        // Redis: goes on drawing, for most of a second if 400,000 keys have just died.
        if self.space.live_len(self.db) == 0 {
            return None;
        }
        let now = self.reading.now;
        let is_alive = |slot: &Slot| !is_dead(slot, now);
        for _ in 0..RANDOM_TRIES {
            let Keyspace { dbs, rng, .. } = &mut *self.space;
            let slot = dbs[self.db].table.random(rng)?;
            let key = slot.key().to_vec();
            if is_alive(slot) {
                return Some(key);
            }
            let hash = self.space.placement.hash(&key);
            if !self.space.is_frozen {
                self.settle(hash, &key);
            }
        }
        let Keyspace { dbs, rng, .. } = &mut *self.space;
        let slot = dbs[self.db].table.find_any(rng, is_alive)?;
        Some(slot.key().to_vec())
    }
}

/// Whether a key is dead: by its own deadline, or as a hash by those of all its fields.
#[inline]
fn is_dead(slot: &Slot, now: UnixMillis) -> bool {
    slot.deadline()
        .is_some_and(|deadline| is_due(deadline, now))
        || fields::is_dead(slot, now)
}

/// Makes room for a string of so many bytes. A long one gets an eighth more than it needs and not
/// as much again, which is also more likely to fit behind it, so that nothing need be copied.
fn make_room(bytes: &mut Vec<u8>, len: usize) {
    if len > bytes.capacity() && len >= SPARSE_MIN {
        bytes.reserve_exact(len + len / 8 - bytes.len());
    }
}

/// A string that can be grown: copied, spare capacity and all, if a snapshot is still writing it.
fn own(string: &mut Arc<Vec<u8>>) -> &mut Vec<u8> {
    if Arc::get_mut(string).is_none() {
        let mut copy = Vec::with_capacity(string.capacity());
        copy.extend_from_slice(string);
        *string = Arc::new(copy);
    }
    Arc::get_mut(string).expect("nobody else knows the copy")
}

fn string_of(slot: &Slot) -> Result<StringRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::String => Ok(StringRef::Short(bytes)),
        ValueRef::Inline(_) => Err(CommandError::WrongType),
        ValueRef::Boxed(Value::Long(bytes)) => Ok(StringRef::Long(bytes)),
        ValueRef::Boxed(Value::Growable(bytes)) => Ok(StringRef::Short(bytes)),
        ValueRef::Boxed(_) => Err(CommandError::WrongType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_told_to_an_eighth() {
        for ms in (0..5_000).chain([60_000, 123_456, 86_400_000, i64::MAX]) {
            let mut lag = LagFigures::default();
            lag.add(ms, 99);
            lag.add(i64::MAX, 1);
            let (told, ms) = (lag.quantile_ms(0.5), ms as u64);
            let most = if ms < 16 { ms } else { ms + ms / 8 };
            assert!(
                (ms..=most.max(ms)).contains(&told) || ms > 1 << 43,
                "{told} for {ms}"
            );
            assert_eq!(lag.max_ms(), i64::MAX as u64);
        }
        assert_eq!(LagFigures::default().quantile_ms(0.99), 0);
    }
}
