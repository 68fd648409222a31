//! One database at one instant: what commands see. A due key does not exist in it; see the header
//! of [`super`].

use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::change::Event;
use super::db::{Db, Filed, Ttl};
use super::entry::{Form, INLINE_MAX, NewValue, Parts, Slot, ValueRef};
use super::expire::{Noted, SETTLE_MAX};
use super::keyspace::Keyspace;
use super::lag::Removal;
use super::members;
use super::table::Place;
use crate::clock::{Reading, UnixMillis};
use crate::expiry::{
    Basis, Deadline, MemberTerm, SLIDING_MS_MAX, Soft, Term, expiretime_ms, is_due,
};
use crate::resp::error::CommandError;
use crate::value::placement::Placement;
use crate::value::{Kind, StringRef, Value};

/// Strings that were edited in place and are at least this long keep spare capacity, so that
/// repeated appends cost amortized constant time.
pub const GROWABLE_MIN: usize = 256;

/// A grown string of at least so many bytes has little room to spare.
const SPARSE_MIN: usize = 1024 * 1024;

/// What a key takes in the table: a slot and a control byte, at the usual load.
const TABLE_SHARE_BYTES: usize = 15;

/// What a volatile key takes in the index: a hash, and its part of a full chunk's header.
const INDEX_SHARE_BYTES: usize = 10;

/// A random draw gives up after so many dead or missing keys and looks for the next live one.
const RANDOM_TRIES: usize = 100;

/// How fresh a value is, with how many ms that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Not stale; for ever if it never will be.
    Fresh(Option<i64>),
    /// Stale until it dies.
    Stale(i64),
    /// The same, and the caller is to refresh it.
    StaleAndYours(i64),
    /// There is none.
    Missing,
    /// There is none, and the caller is to fill it within this time.
    MissingAndYours(i64),
    /// There is none, and somebody else has so long to fill it.
    BeingFilled(i64),
}

/// One database at one instant: what commands see. A due key does not exist in it.
pub struct Live<'a> {
    pub(super) space: &'a mut Keyspace,
    pub(super) db: usize,
    pub(super) reading: &'a Reading,
    /// Whether reads set the access clock.
    pub is_touching: bool,
    /// Whether a script asks, which gets in an order what has none.
    pub is_for_script: bool,
    /// Whether the next collection made takes the place of what was there: see [`Live::vacate`].
    pub(super) is_vacated: bool,
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

    /// A sparse HyperLogLog becomes dense when it is longer, in bytes.
    pub fn sparse_bytes_max(&self) -> usize {
        self.space.sparse_bytes_max
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

    /// Records a command that has the effect of the running one; see [`super::effect`].
    #[inline]
    pub fn effect<'a>(&mut self, args: impl IntoIterator<Item = &'a [u8]>) {
        self.space.effects.record(self.db, args);
    }

    /// The same of a command that ends with a deadline, in milliseconds of Unix time, and with the
    /// span by which that slides.
    pub fn effect_until<const N: usize>(&mut self, args: [&[u8]; N], term: Term) {
        if self.is_followed() {
            let ends = ends_of(term, self.reading);
            let ends = ends.iter().map(Vec::as_slice);
            self.effect(args.into_iter().chain(ends));
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

    /// The clock of a key that is used now; of one that is new, if uses are counted.
    pub(super) fn clock(&self) -> u16 {
        self.space.clock(self.reading)
    }

    /// How often a key is used, from 0 to 255; none if that is not counted.
    pub fn frequency(&self, slot: &Slot) -> Option<u8> {
        let eviction = &self.space.eviction;
        let count = || eviction.count(slot.clock(), self.reading.now);
        eviction.counts_uses.then(count)
    }

    #[inline]
    pub(super) fn visible(&self, key: &[u8]) -> Option<&Slot> {
        let hash = self.space.hash(key);
        let slot = self.space.dbs[self.db].table.find(hash, key)?;
        if self.is_dead(slot) {
            self.note(hash, slot);
            return None;
        }
        Some(slot)
    }

    #[inline]
    pub(super) fn is_dead(&self, slot: &Slot) -> bool {
        is_dead(slot, self.reading.now)
    }

    /// Notes that a key is dead, or that members of it are.
    #[cold]
    pub(super) fn note(&self, hash: u64, slot: &Slot) {
        let now = self.reading.now;
        let is_due = slot.deadline().is_some_and(|at| is_due(at, now));
        let (what, item) = if is_due {
            (Filed::Keys, slot.item())
        } else {
            (Filed::Members, members::filed(slot).map(|(_, item)| item))
        };
        if let Some(item) = item {
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
            self.touch(slot);
        }
        found
    }

    /// Notes that a key is used: its access clock, and its deadline if that slides.
    #[inline(always)]
    pub(super) fn touch(&self, slot: &Slot) {
        if self.space.eviction.counts_uses {
            self.count_use(slot);
        } else if !self.space.eviction.dates_writes {
            slot.set_clock(self.clock());
        }
        if slot.slide(self.reading.now) && self.is_followed() {
            self.note_slid(slot);
        }
    }

    #[inline(never)]
    fn count_use(&self, slot: &Slot) {
        // Marsaglia's xorshift (J. Stat. Soft. 8, 2003): nothing else may be drawn by a reader.
        let mut draw = self.space.use_draw.get();
        draw ^= draw << 13;
        draw ^= draw >> 17;
        draw ^= draw << 5;
        self.space.use_draw.set(draw);
        let eviction = &self.space.eviction;
        slot.set_clock(eviction.used(slot.clock(), self.reading.now, draw));
    }

    #[cold]
    fn note_slid(&self, slot: &Slot) {
        let mut slid = self.space.slid.take();
        slid.push((self.db, slot.key().to_vec()));
        self.space.slid.set(slid);
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

    pub(super) fn note_miss(&self, key: &[u8]) {
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

    /// Whether a key holds a collection with members that are due but still there.
    pub fn has_dead_members(&self, key: &[u8]) -> bool {
        let now = self.reading.now;
        let slot = self.peek(key).filter(|slot| members::may_be_due(slot, now));
        let deadlines = slot.and_then(members::deadlines_of);
        deadlines.is_some_and(|deadlines| deadlines.dead(now) > 0)
    }

    /// Removes all due members of the collection at a key, however many they are: before a command
    /// that makes something of those that are left, as it would make something else elsewhere.
    #[inline]
    pub fn settle_all_members(&mut self, key: &[u8]) {
        if !self.space.dbs[self.db].members.is_empty() {
            self.settle_members_at(self.space.hash(key), key);
        }
    }

    fn settle_members_at(&mut self, hash: u64, key: &[u8]) {
        let now = self.reading.now;
        while let Some(slot) = self.space.dbs[self.db].table.find(hash, key) {
            let due = members::filed(slot).filter(|&(at, _)| is_due(at, now));
            let Some((_, item)) = due.filter(|_| !self.is_dead(slot)) else {
                return;
            };
            let at = (now, Removal::Lazy);
            self.space
                .expire_members_up_to(usize::MAX, self.db, (item, hash), at);
        }
    }

    /// A deadline for members, given now on this basis.
    pub fn member_term(&self, deadline: Deadline, basis: Basis) -> MemberTerm {
        MemberTerm::new(deadline, basis, self.space.dbs[self.db].era)
    }

    /// Settles a key that is about to be removed, renamed or overwritten. If what dies is to be
    /// told of, its due members are removed first, as they have died of themselves.
    pub(super) fn settle_whole(&mut self, hash: u64, key: &[u8]) -> Option<Place> {
        let place = self.settle(hash, key);
        if place.is_none() || !self.space.deaths.are_kept() {
            return place;
        }
        self.settle_members_at(hash, key);
        self.settle(hash, key)
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
        self.autopsy(key).map(memory_of)
    }

    /// The string at a key, read as [`Live::get`] does.
    ///
    /// # Errors
    /// WRONGTYPE if it holds something else.
    #[inline]
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, CommandError> {
        self.get(key).map(string_of).transpose()
    }

    /// The string at a key that a command is about to change: not counted, but used.
    ///
    /// # Errors
    /// WRONGTYPE if it holds something else.
    pub fn peek_string(&self, key: &[u8]) -> Result<Option<StringRef<'_>>, CommandError> {
        let Some(slot) = self.peek(key) else {
            return Ok(None);
        };
        let string = string_of(slot)?;
        self.touch(slot);
        Ok(Some(string))
    }

    /// Where a living key is that a command is about to write; a due one is removed. A write that
    /// runs during CLIENT PAUSE WRITE, inside the EXEC that began it, must not find the dead
    /// either.
    #[inline]
    pub(super) fn settle(&mut self, hash: u64, key: &[u8]) -> Option<Place> {
        let table = &self.space.dbs[self.db].table;
        let place = table.locate(hash, key)?;
        if self.is_dead(table.at(place)) {
            self.remove_dead(hash, key, place);
            return None;
        }
        Some(place)
    }

    #[cold]
    pub(super) fn remove_dead(&mut self, hash: u64, key: &[u8], place: Place) {
        let slot = self.space.dbs[self.db].table.at(place);
        let now = self.reading.now;
        let at = (now, Removal::Lazy);
        let is_key = slot
            .deadline()
            .is_some_and(|deadline| is_due(deadline, now));
        if let Some((_, item)) = members::filed(slot).filter(|_| !is_key) {
            self.space.expire_members(self.db, (item, hash), at);
        } else {
            self.space
                .expire(self.db, hash, at, |slot| slot.key() == key);
        }
    }

    /// Counts a change of a value that means the same as before, of which nobody is told.
    pub fn altered(&mut self) {
        self.space.changes.count(1);
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
        self.note_written(key);
    }

    /// Counts changes of a key that nobody is told about.
    pub fn changed_silently(&mut self, key: &[u8], changes: usize) {
        if changes > 0 {
            self.space.changes.count(changes as u64);
            self.note_written(key);
        }
    }

    #[inline]
    fn note_written(&mut self, key: &[u8]) {
        self.space.note_written(self.db, key);
        if self.space.eviction.dates_writes {
            self.date_write(key);
        }
    }

    /// Sets the clock of a key that was written, where that of a key that was read stays.
    #[inline(never)]
    pub(super) fn date_write(&mut self, key: &[u8]) {
        let hash = self.space.hash(key);
        if let Some(slot) = self.space.dbs[self.db].table.find(hash, key) {
            slot.set_clock(self.clock());
        }
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
            let old = self.put(key, Form::String, NewValue::Inline(value), ttl);
            self.report_overwrite(key, old);
        }
    }

    /// Writes a string that was computed over whatever the key holds; a long one is not copied. Its
    /// encoding is raw, even if it is short. The caller reports the change.
    pub fn set_computed(&mut self, key: &[u8], value: Vec<u8>) {
        if value.len() > INLINE_MAX {
            self.set_shared(key, Bytes::from(value), Ttl::Drop);
        } else {
            let value = NewValue::Inline(&value);
            let old = self.put(key, Form::RawString, value, Ttl::Drop);
            self.report_overwrite(key, old);
        }
    }

    /// Writes a string of at least [`INLINE_MAX`] bytes, which is not copied, over whatever the key
    /// holds. The caller reports the change.
    pub fn set_shared(&mut self, key: &[u8], value: Bytes, ttl: Ttl) {
        let value = Box::new(Value::Long(value));
        let old = self.put(key, Form::String, NewValue::Boxed(value), ttl);
        self.report_overwrite(key, old);
    }

    /// Writes the text of a number that was computed from the one the key holds: the key is changed
    /// but not overwritten. The caller reports the change.
    pub fn set_number(&mut self, key: &[u8], text: &[u8], ttl: Ttl) {
        if text.len() > INLINE_MAX {
            let value = Box::new(Value::Long(Bytes::copy_from_slice(text)));
            self.put(key, Form::String, NewValue::Boxed(value), ttl);
        } else {
            self.put(key, Form::String, NewValue::Inline(text), ttl);
        }
    }

    #[inline]
    pub(super) fn report_overwrite(&mut self, key: &[u8], old: Option<Kind>) {
        if let Some(old) = old {
            let changes = &mut self.space.changes;
            changes.record_overwrite(self.db as u16, key, old, Kind::String);
        }
    }

    /// Writes a string and says what type of value was there.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        form: Form,
        value: NewValue<'_>,
        mut ttl: Ttl,
    ) -> Option<Kind> {
        if self.space.rules.have_default() && ttl == Ttl::Drop {
            ttl = self.default_term(key).map_or(ttl, Ttl::At);
        }
        let hash = self.space.hash(key);
        let place = self.settle_whole(hash, key);
        let mut clock = self.clock();
        if let Some(place) = place {
            let slot = self.space.dbs[self.db].table.at(place);
            if ttl == Ttl::Keep {
                self.touch(slot);
                clock = slot.clock();
            } else if self.space.eviction.counts_uses {
                self.count_use(slot);
                clock = slot.clock();
            }
        }
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
            form,
            value,
            expiry: None,
            epoch: cut.epoch,
            clock,
        };
        if let Some(place) = place {
            let old = db.table.at(place).kind();
            db.overwrite(cut, graveyard, (hash, place), parts, ttl);
            return Some(old);
        }
        let term = match ttl {
            Ttl::At(term) => Some(term),
            Ttl::Drop | Ttl::Keep => None,
        };
        db.insert(hash, parts, term);
        changes.record(self.db as u16, Event::NEW, key);
        None
    }

    /// Edits the string at a key in place, keeping its deadline; a missing key starts empty. It
    /// will be `len` bytes long. The caller has checked the type and reports the change.
    pub fn edit_string(&mut self, key: &[u8], len: usize, edit: impl FnOnce(&mut Vec<u8>)) {
        let hash = self.space.hash(key);
        let place = self.settle(hash, key);
        let mut bytes = Vec::new();
        if let Some(place) = place {
            self.touch(self.space.dbs[self.db].table.at(place));
            let Keyspace { dbs, cut, .. } = &mut *self.space;
            let db = &mut dbs[self.db];
            let number = db.cut_number;
            let mut slot = db.table.at_mut(place);
            Db::preserve(cut, number, &slot);
            match slot.value() {
                ValueRef::Boxed(Value::Growable(_)) => {
                    slot.edit_growable(|bytes| {
                        let bytes = own(bytes);
                        make_room(bytes, len);
                        edit(bytes);
                    });
                    return;
                }
                ValueRef::Boxed(_) => {
                    // Its bytes become the grown string's, unless a reply or a snapshot has them
                    // too.
                    if let Some(Value::Long(long)) = slot.value_mut() {
                        bytes = Vec::from(std::mem::take(long));
                    }
                }
                ValueRef::Inline(inline) => bytes.extend_from_slice(inline),
            }
        }
        make_room(&mut bytes, len);
        edit(&mut bytes);
        if bytes.len() >= GROWABLE_MIN {
            let value = Box::new(Value::Growable(Arc::new(bytes)));
            self.put(key, Form::RawString, NewValue::Boxed(value), Ttl::Keep);
        } else {
            let value = NewValue::Inline(&bytes);
            self.put(key, Form::RawString, value, Ttl::Keep);
        }
    }

    /// Removes a key. True if it was alive.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.space.hash(key);
        self.settle_whole(hash, key);
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

    /// The event of members that were removed from a collection of this type because they were
    /// given a deadline in the past, as the setting `expire-past-event` says. They count as expired
    /// either way, unlike keys: so in Redis.
    pub fn past_member_event(&mut self, kind: Kind, members: usize) -> Event {
        self.space.stats.members_expired_lazily += members as u64;
        let words = super::members::words_of(kind);
        if self.space.past_is_expired {
            words.expired
        } else {
            words.removed
        }
    }

    /// The deadline of a key: none if there is no such key, `Some(None)` if it has none.
    pub fn deadline(&self, key: &[u8]) -> Option<Option<Deadline>> {
        self.peek(key).map(Slot::deadline)
    }

    /// What a key gets for which such terms are asked. The jitter, a share of the span in percent,
    /// has it die at a random moment up to that much sooner. The key's rule, if it has one, bounds
    /// the span, and says by how much it is jittered and whether it slides if the command does not.
    /// A deadline that has come is one of now.
    pub fn term(&mut self, key: &[u8], asked: Term, jitter_percent: Option<u8>) -> Term {
        let asked_ms = asked.deadline.0.since(self.reading.now);
        let rule = self.space.rules.of(self.db, key);
        let is_plain = jitter_percent.is_none() && asked.sliding_ms.is_none() && rule.is_none();
        if asked_ms <= 0 {
            // How late it is removed counts from now, not from when it is said to have died.
            return Term::new(Deadline(self.reading.now), asked.basis);
        }
        if is_plain {
            return asked;
        }
        let min_ms = rule.and_then(|rule| rule.min_ms).map_or(1, |ms| ms as i64);
        let max_ms = rule
            .and_then(|rule| rule.max_ms)
            .map_or(i64::MAX, |ms| ms as i64);
        let slides = rule.is_some_and(|rule| rule.slides);
        let percent = jitter_percent.or(rule.map(|rule| rule.jitter_percent));
        let percent = percent.unwrap_or(0);
        let mut span_ms = asked_ms.clamp(min_ms, max_ms);
        let most = (i128::from(span_ms) * i128::from(percent) / 100) as i64;
        let most = most.min(span_ms - min_ms);
        if most > 0 {
            span_ms -= self.space.rng.random_range(0..=most);
        }
        let mut term = asked;
        if span_ms != asked_ms {
            term.deadline = Deadline(self.reading.now.plus(span_ms));
            term.basis = Basis::Relative;
            // The soft deadline comes as much sooner or later, in proportion.
            term.soft = asked.soft.map(|soft| {
                let ratio = span_ms as f64 / asked_ms as f64;
                let before_ms = (soft.before_ms as f64 * ratio) as u64;
                Soft::new(before_ms.clamp(1, SLIDING_MS_MAX))
            });
        }
        let is_span = asked.basis == Basis::Relative;
        let slides = slides && asked.sliding_ms.is_none() && asked.soft.is_none();
        term.sliding_ms = if slides || is_span && asked.sliding_ms.is_some() {
            Some((span_ms as u64).min(SLIDING_MS_MAX))
        } else {
            // A span that was asked for beside a moment.
            asked
                .sliding_ms
                .map(|ms| (ms as i64).clamp(min_ms, max_ms) as u64)
        };
        term
    }

    /// What a key gets by its rule that would be left without a deadline.
    fn default_term(&mut self, key: &[u8]) -> Option<Term> {
        let ms = self.space.rules.of(self.db, key)?.default_ms?;
        let deadline = Deadline(self.reading.now.plus(ms as i64));
        let term = self.term(key, Term::new(deadline, Basis::Relative), None);
        if self.is_followed() || self.space.changes.is_heard(Event::EXPIRE) {
            self.space.given.push((self.db, key.to_vec()));
        }
        Some(term)
    }

    /// Gives a key that has been left without a deadline the one of its rule.
    pub(super) fn give_default(&mut self, key: &[u8]) {
        if let Some(None) = self.deadline(key)
            && let Some(term) = self.default_term(key)
        {
            self.set_term(key, Some(term));
        }
    }

    /// Reports that a key has got a deadline by its rule, behind what gave rise to it.
    pub(super) fn report_default(&mut self, key: &[u8]) {
        let expiry = self.peek(key).and_then(Slot::expiry);
        if let Some(expiry) = expiry {
            self.effect_until([b"PEXPIREAT", key], expiry.term());
            self.also(Event::EXPIRE, key);
        }
    }

    /// How fresh the value of a living key is. If it is stale and nobody has the right to refresh
    /// it, the caller gets that for so many ms, if wanted.
    pub fn freshness(&mut self, key: &[u8], lease_ms: Option<i64>) -> Freshness {
        let hash = self.space.hash(key);
        let place = self.settle(hash, key);
        let now = self.reading.now;
        let Some(mut slot) = place.map(|place| self.space.dbs[self.db].table.at_mut(place)) else {
            return Freshness::Missing;
        };
        let Some(mut expiry) = slot.expiry() else {
            return Freshness::Fresh(None);
        };
        let left_ms = expiry.deadline.0.since(now);
        let soft_deadline = expiry.term().soft_deadline();
        let Some((soft, at)) = expiry.soft.as_mut().zip(soft_deadline) else {
            return Freshness::Fresh(Some(left_ms));
        };
        if !is_due(at, now) {
            return Freshness::Fresh(Some(at.0.since(now)));
        }
        let lease_left_ms = left_ms - soft.lease_before_ms as i64;
        let is_leased = soft.lease_before_ms > 0 && lease_left_ms > 0;
        match lease_ms {
            Some(ms) if !is_leased => {
                soft.lease_before_ms = (left_ms - ms).max(1) as u64;
                slot.set_expiry(Some(expiry));
                Freshness::StaleAndYours(left_ms)
            }
            _ => Freshness::Stale(left_ms),
        }
    }

    /// Who may fill a key that is not there: the caller, for so many ms, if that is wanted and
    /// nobody else may.
    pub fn fill_lease(&mut self, key: &[u8], lease_ms: Option<i64>) -> Freshness {
        let now = self.reading.now;
        let fills = &mut self.space.dbs[self.db].fills;
        let held = match lease_ms {
            Some(ms) => fills.grant(key, now, now.plus(ms)),
            None => fills.held(key, now),
        };
        match (held, lease_ms) {
            (Some(end), _) => Freshness::BeingFilled(end.since(now)),
            (None, Some(ms)) => Freshness::MissingAndYours(ms),
            (None, None) => Freshness::Missing,
        }
    }

    /// Changes the deadline of a living key; the caller reports the change.
    pub fn set_term(&mut self, key: &[u8], term: Option<Term>) {
        let hash = self.space.hash(key);
        if let Some(place) = self.settle(hash, key) {
            let Keyspace { dbs, cut, .. } = &mut *self.space;
            dbs[self.db].set_term(cut, (hash, place), term);
        }
    }

    /// Moves a living key to another name, with its deadline, over whatever is there, and reports
    /// it. False if there is no such key.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        let (source_hash, hash) = (self.space.hash(from), self.space.hash(to));
        self.settle_whole(source_hash, from);
        self.settle_whole(hash, to);
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
        let expiry = slot.expiry();
        let renamed = slot.renamed(hash, to, expiry, cut.epoch);
        db.insert_slot(hash, renamed);
        let number = self.db as u16;
        changes.count(1);
        changes.record(number, Event::NEW, to);
        changes.record(number, Event::RENAME_FROM, from);
        changes.record(number, Event::RENAME_TO, to);
        if let Some(old) = old {
            changes.record_overwrite(number, to, old, new);
        }
        self.space.note_written(self.db, to);
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

    /// One step of SCAN over living keys; see [`super::table::Table::scan`].
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

/// How a command ends that gives a key these terms: when, in Unix ms, and the sliding span.
pub(super) fn ends_of(term: Term, reading: &Reading) -> Vec<Vec<u8>> {
    let mut ends = vec![expiretime_ms(term.deadline, reading).to_string().into()];
    if let Some(ms) = term.sliding_ms {
        ends.extend([b"SLIDING".to_vec(), ms.to_string().into()]);
    }
    if let Some(soft) = term.soft_deadline() {
        let moment = expiretime_ms(soft, reading);
        ends.extend([b"SOFT".to_vec(), moment.to_string().into()]);
    }
    ends
}

/// Bytes of memory of an entry, its value, and its share of the table and of the index.
pub(super) fn memory_of(slot: &Slot) -> usize {
    let index = slot.item().map_or(0, |_| INDEX_SHARE_BYTES);
    slot.allocated_bytes() + TABLE_SHARE_BYTES + index
}

/// Whether a key is dead: by its own deadline, or as a collection by those of all its members.
#[inline]
pub(super) fn is_dead(slot: &Slot, now: UnixMillis) -> bool {
    slot.deadline()
        .is_some_and(|deadline| is_due(deadline, now))
        || members::is_dead(slot, now)
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

pub(super) fn string_of(slot: &Slot) -> Result<StringRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::String => Ok(StringRef::Short(bytes)),
        ValueRef::Inline(_) => Err(CommandError::WrongType),
        ValueRef::Boxed(Value::Long(bytes)) => Ok(StringRef::Long(bytes)),
        ValueRef::Boxed(Value::Growable(bytes)) => Ok(StringRef::Short(bytes)),
        ValueRef::Boxed(_) => Err(CommandError::WrongType),
    }
}
