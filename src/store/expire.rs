//! Removing what is due: what commands have met, what a count must leave out, and the rounds of
//! active expiry, whose pace `engine::jobs` sets.

use super::change::Event;
use super::collection::len_of;
use super::db::{Db, Filed};
use super::entry::Slot;
use super::keyspace::Keyspace;
use super::lag::Removal;
use super::members::{self, Losses, MEMBERS_PER_STEP};
use super::restate::restate_deadline;
use crate::clock::{Reading, UnixMillis};
use crate::expiry::index::{ItemRef, Strata};
use crate::expiry::is_due;

/// DBSIZE and INFO remove at most this many due keys before they count.
pub const SETTLE_MAX: usize = 4096;

/// A key that a read passed over because it was due, or a collection with members that are.
#[derive(Clone, Copy)]
pub(super) struct Noted {
    pub(super) db: u16,
    pub(super) what: Filed,
    pub(super) hash: u64,
    pub(super) item: ItemRef,
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
    /// The numbers of the databases that expiry has to look at: see `schedule.rs`.
    pub fn active_databases(&self) -> &[u16] {
        self.schedule.active()
    }

    /// Lets go of the active databases that have nothing to do before a later moment.
    pub fn settle_schedule(&mut self) {
        let mut schedule = std::mem::take(&mut self.schedule);
        schedule.settle(|number| {
            let number = usize::from(number);
            let db = &self.dbs[number];
            (db.next_wakeup(number), self.is_blank(db))
        });
        self.schedule = schedule;
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

    /// Removes a key because it is due. The entry is found by its hash and a test.
    pub(super) fn expire(
        &mut self,
        db: usize,
        hash: u64,
        (now, removal): (UnixMillis, Removal),
        is_it: impl Fn(&Slot) -> bool,
    ) -> bool {
        if self.deaths.are_kept() && !self.dbs[db].members.is_empty() {
            self.settle_members_before(db, hash, (now, removal), &is_it);
        }
        let Keyspace {
            dbs,
            changes,
            effects,
            lag,
            graveyard,
            stats,
            cut,
            deaths,
            ..
        } = self;
        let expired = match removal {
            Removal::Active => &mut stats.expired_actively,
            Removal::Lazy => &mut stats.expired_lazily,
        };
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
            *expired += 1;
            deaths.note_key(db, slot, now);
            if let Some(deadline) = slot.deadline() {
                lag.add(removal, now, deadline.0, 1);
            }
        })
    }

    /// Removes members that died before their key did, so that they are told of.
    fn settle_members_before(
        &mut self,
        db: usize,
        hash: u64,
        at: (UnixMillis, Removal),
        is_it: impl Fn(&Slot) -> bool,
    ) {
        while let Some(slot) = self.dbs[db].table.find_by(hash, &is_it)
            && let Some(deadline) = slot.deadline().filter(|&deadline| is_due(deadline, at.0))
            && let Some((_, item)) = members::filed(slot).filter(|&(first, _)| first <= deadline)
        {
            self.expire_members_up_to(usize::MAX, db, (item, hash), at);
        }
    }

    /// Removes the key that an item names, if it is due.
    fn expire_item(
        &mut self,
        db: usize,
        (item, hash): (ItemRef, u64),
        at: (UnixMillis, Removal),
    ) -> bool {
        self.expire(db, hash, at, |slot| slot.item() == Some(item))
    }

    /// Removes due members of the collection that an item names, about as many as are looked at in
    /// one step, and files it anew if that was all; the collection itself if all of them are due.
    pub(super) fn expire_members(
        &mut self,
        db: usize,
        named: (ItemRef, u64),
        at: (UnixMillis, Removal),
    ) {
        self.expire_members_up_to(MEMBERS_PER_STEP, db, named, at);
    }

    /// The same, with this limit of members looked at.
    pub(super) fn expire_members_up_to(
        &mut self,
        limit: usize,
        db: usize,
        (item, hash): (ItemRef, u64),
        (now, removal): (UnixMillis, Removal),
    ) {
        let Keyspace {
            dbs,
            changes,
            effects,
            lag,
            graveyard,
            stats,
            cut,
            deaths,
            ..
        } = self;
        let number = dbs[db].cut_number;
        let is_it = |slot: &Slot| members::is_filed_at(slot, item);
        let Some(mut slot) = dbs[db].table.find_by_mut(hash, is_it) else {
            return;
        };
        let expired = match removal {
            Removal::Active => &mut stats.members_expired_actively,
            Removal::Lazy => &mut stats.members_expired_lazily,
        };
        let mut losses = Losses {
            changes,
            effects,
            lag,
            deaths,
            expired,
            removal,
            now,
            db,
            is_reported: false,
        };
        let mut is_dead = members::is_dead(&slot, now);
        let mut is_over = true;
        if members::may_be_due(&slot, now) && !is_dead {
            Db::preserve(cut, number, &slot);
            let kind = slot.kind();
            let event = members::words_of(kind).expired;
            let is_named = losses.changes.is_heard(event)
                || losses.effects.are_heard()
                || losses.deaths.are_kept();
            let key = if is_named {
                slot.key().to_vec()
            } else {
                Vec::new()
            };
            let gone = |member: &[u8], deadline| losses.member_of(kind, &key, member, deadline);
            is_over = members::expire(&mut slot, now, limit, gone);
            is_dead = len_of(&slot) == Some(0);
        }
        if is_dead {
            // As of a dead key, a snapshot needs nothing of it.
            if let Some(slot) = dbs[db].take_dead(hash, is_it) {
                cut.count_unkept(number, &slot);
                match losses.collection(&slot) {
                    Some(owner) => graveyard.bury_estate(slot, owner),
                    None => graveyard.bury_entry(slot),
                }
            }
        } else if is_over {
            dbs[db].file_members(hash, item);
        }
    }

    /// Removes due members of a collection before it is watched, as many as DBSIZE would remove
    /// keys.
    pub fn settle_members(&mut self, db: usize, key: &[u8], reading: &Reading) {
        let hash = self.hash(key);
        let mut left = SETTLE_MAX;
        while left > 0 && !self.is_frozen {
            let Some(slot) = self.dbs[db].table.find(hash, key) else {
                return;
            };
            let due = members::filed(slot).filter(|&(at, _)| is_due(at, reading.now));
            let Some((_, item)) = due else {
                return;
            };
            self.expire_members(db, (item, hash), (reading.now, Removal::Lazy));
            left = left.saturating_sub(MEMBERS_PER_STEP);
        }
    }

    /// Removes the due keys and members that reads passed over, reports them and then the missed
    /// keys and the deadlines that have slid. Called when a command ends, before its changes are
    /// published.
    #[inline]
    pub fn settle_noted(&mut self, reading: &Reading) {
        let mut noted = self.noted.take();
        if !noted.is_empty() {
            if self.is_frozen {
                noted.clear();
            }
            let at = (reading.now, Removal::Lazy);
            for noted in noted.drain(..) {
                // Of what leaves very much to write the rest stays hidden, for the next round.
                if self.deaths.are_many() {
                    continue;
                }
                let (db, found) = (usize::from(noted.db), (noted.item, noted.hash));
                match noted.what {
                    Filed::Members => self.expire_members(db, found, at),
                    Filed::Keys => _ = self.expire_item(db, found, at),
                }
            }
        }
        self.noted.set(noted);
        let mut missed = self.missed.take();
        for (db, key) in missed.drain(..) {
            self.changes.record(db, Event::KEY_MISS, &key);
        }
        self.missed.set(missed);
        let mut slid = self.slid.take();
        for (db, key) in slid.drain(..) {
            let slot = self.dbs[db].table.find(self.hash(&key), &key);
            if let Some(slot) = slot.filter(|slot| slot.sliding_ms().is_some()) {
                restate_deadline(&mut self.effects, db, slot, reading);
            }
        }
        self.slid.set(slid);
    }

    /// Removes the keys that are due now, whom nobody asked for, if there can be no more than
    /// `limit`: DBSIZE and INFO. If there are more, removing some would only make the caller wait.
    /// The number of items looked at.
    pub fn settle_due(&mut self, db: usize, reading: &Reading, limit: usize) -> usize {
        if self.is_frozen {
            return 0;
        }
        let collections = self.settle_dead_collections(db, reading, limit);
        let keys = self.settle_due_keys(db, reading, limit);
        let indexes = [&self.dbs[db].index, &self.dbs[db].members];
        if collections + keys > 0 || indexes.iter().any(|index| index.ripe_len() > 0) {
            // It has something else to do now, at another time.
            self.schedule.note(db);
        }
        keys
    }

    pub(super) fn settle_due_keys(&mut self, db: usize, reading: &Reading, limit: usize) -> usize {
        self.dbs[db].index.advance(reading.now);
        if self.dbs[db].index.due_len_max() > limit {
            return 0;
        }
        let mut drawn = Vec::new();
        let mut left = limit;
        while left > 0 && !self.deaths.are_many() {
            drawn.clear();
            self.dbs[db]
                .index
                .draw_ripe(&mut self.rng, left.min(64), &mut drawn);
            if drawn.is_empty() {
                break;
            }
            left = left.saturating_sub(drawn.len());
            self.settle(db, reading, &drawn);
        }
        if left > 0 {
            drawn.clear();
            self.dbs[db].index.draw_current(left, &mut drawn);
            for &found in &drawn {
                if self.deaths.are_many() {
                    break;
                }
                self.expire_item(db, found, (reading.now, Removal::Active));
            }
            left -= drawn.len();
        }
        limit - left
    }

    /// Removes the collections that are dead because all their members are due, in the same way.
    pub(super) fn settle_dead_collections(
        &mut self,
        db: usize,
        reading: &Reading,
        limit: usize,
    ) -> usize {
        let index = &mut self.dbs[db].members;
        index.advance(reading.now);
        if index.is_empty() || index.due_len_max() > limit {
            return 0;
        }
        let mut drawn = Vec::new();
        index.draw_ripe(&mut self.rng, limit, &mut drawn);
        index.draw_current(limit, &mut drawn);
        self.fetch(db, &drawn);
        for &(item, hash) in &drawn {
            if self.deaths.are_many() {
                break;
            }
            let is_it = |slot: &Slot| members::is_filed_at(slot, item);
            let slot = self.dbs[db].table.find_by(hash, is_it);
            if slot.is_some_and(|slot| members::is_dead(slot, reading.now)) {
                self.expire_members(db, (item, hash), (reading.now, Removal::Active));
            }
        }
        drawn.len()
    }

    /// Asks for the entries of drawn items, all probes first, so that their misses overlap.
    pub(super) fn fetch(&self, db: usize, drawn: &[(ItemRef, u64)]) {
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
    pub(super) fn settle(
        &mut self,
        db: usize,
        reading: &Reading,
        drawn: &[(ItemRef, u64)],
    ) -> Round {
        let mut round = Round::default();
        self.fetch(db, drawn);
        for &(item, hash) in drawn {
            if self.deaths.are_many() {
                break;
            }
            if self.expire_item(db, (item, hash), (reading.now, Removal::Active)) {
                round.removed += 1;
            } else {
                let Keyspace { dbs, changes, .. } = self;
                let stale = |key: &[u8]| changes.record(db as u16, Event::SOFT_EXPIRED, key);
                dbs[db].refile(Filed::Keys, (item, hash), reading.now, stale);
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
        if audit > 0 && !self.deaths.are_many() {
            drawn.clear();
            self.dbs[db].index.draw_all(&mut self.rng, audit, drawn);
            for &found in drawn.iter() {
                round.audited += 1;
                if self.expire_item(db, found, (reading.now, Removal::Active)) {
                    round.audited_due += 1;
                }
            }
        }
        round
    }

    /// One round of active expiry of members in one database: draws up to `ripe` collections from
    /// those whose time has come and removes some of their due members.
    pub fn expire_members_round(
        &mut self,
        db: usize,
        reading: &Reading,
        ripe: usize,
        drawn: &mut Vec<(ItemRef, u64)>,
    ) {
        drawn.clear();
        self.dbs[db].members.draw_ripe(&mut self.rng, ripe, drawn);
        self.fetch(db, drawn);
        for &(item, hash) in drawn.iter() {
            if self.deaths.are_a_step() {
                break;
            }
            self.expire_members(db, (item, hash), (reading.now, Removal::Active));
        }
    }

    /// The indexes of the active databases.
    pub fn active_indexes(&self) -> impl Iterator<Item = &Strata> {
        self.schedule.active().iter().flat_map(|&number| {
            let db = &self.dbs[usize::from(number)];
            [&db.index, &db.members]
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
            // None of them is due, hard or soft: their bucket has not begun.
            self.dbs[db].refile(what, (item, hash), UnixMillis(i64::MIN), |_| {});
        }
        drawn.len()
    }

    /// The coming bucket of an index has been refiled for now.
    pub fn refile_later(&mut self, (db, what): (usize, Filed), at: UnixMillis) {
        self.dbs[db].index_of_mut(what).refile_later(at);
    }
}
