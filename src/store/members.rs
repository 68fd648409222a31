//! Expiry of hash fields: how due fields are found, removed, counted and reported.
//!
//! A hash with volatile fields is *dated*. Its database files it in an index of its own, one item a
//! hash, by a deadline that no field's is before. When that has come, the due fields are removed a
//! few hundred at a time, and the hash is filed anew by the soonest deadline that is left. Inside a
//! small hash all fields are walked; a big one knows which of its segments are worth a look
//! (`value::segmented`).
//!
//! Whoever reads a hash does so at an instant at which due fields do not exist, and neither does a
//! hash all of whose fields are due. So when they are removed is seen in events and memory alone.
//! A hash that is dead as a whole is removed at once, however big it is, and freed piece by piece.
//!
//! Redis: HLEN counts expired fields until they are removed, HEXPIRE revives them, HSETEX KEEPTTL
//! loses the value it writes, and a hash exists although all its fields have expired.
//!
//! Not here: when to look for due fields (`engine::jobs`).

use super::change::{Changes, Event};
use super::collection::{for_each_element, hash_of};
use super::deaths::Deaths;
use super::effect::Effects;
use super::entry::{Form, NewValue, Slot, ValueRef};
use super::entry_mut::EntryMut;
use super::lag::{Lags, Removal};
use crate::clock::UnixMillis;
use crate::expiry::index::ItemRef;
use crate::expiry::{ALL_LIVE, Deadline, is_due};
use crate::value::hash::{self, HashRef};
use crate::value::{Kind, Value};

/// Fields looked at between two readings of the clock.
pub const MEMBERS_PER_STEP: usize = 512;

/// By which deadline the hash in an entry is filed, and where; none if no field of it is volatile.
#[inline]
pub fn filed(slot: &Slot) -> Option<(Deadline, ItemRef)> {
    if !slot.is_dated() {
        return None;
    }
    match slot.value() {
        ValueRef::Inline(bytes) => hash::filed(bytes),
        ValueRef::Boxed(Value::Hash(members)) => members.filed(),
        ValueRef::Boxed(_) => None,
    }
}

/// Whether an entry holds the hash that an item of the index names.
pub fn is_filed_at(slot: &Slot, item: ItemRef) -> bool {
    filed(slot).is_some_and(|(_, other)| other == item)
}

/// Notes where a dated hash is filed.
pub fn set_filed(slot: &mut EntryMut<'_>, filed: Option<(Deadline, ItemRef)>) {
    match slot.value_mut() {
        Some(Value::Hash(members)) => members.set_filed(filed),
        Some(_) => {}
        None => hash::set_filed(slot, filed),
    }
}

/// Whether a field of the hash in an entry may be due.
#[inline]
pub fn may_be_due(slot: &Slot, now: UnixMillis) -> bool {
    filed(slot).is_some_and(|(deadline, _)| is_due(deadline, now))
}

/// Whether an entry holds a hash all of whose fields are due.
#[inline]
pub fn is_dead(slot: &Slot, now: UnixMillis) -> bool {
    slot.is_dated() && is_dead_hash(slot, now)
}

#[cold]
fn is_dead_hash(slot: &Slot, now: UnixMillis) -> bool {
    may_be_due(slot, now) && hash_of(slot, now).is_ok_and(HashRef::is_empty)
}

/// Removes due fields, handing them and their deadlines to `gone`, until about `limit` fields were
/// looked at; true if none is due any more.
pub fn expire(
    slot: &mut EntryMut<'_>,
    now: UnixMillis,
    limit: usize,
    mut gone: impl FnMut(&[u8], Deadline),
) -> bool {
    if let Some(value) = slot.value_mut() {
        return match value {
            Value::Hash(members) => members.expire(now, limit, gone),
            _ => true,
        };
    }
    let filed = filed(slot);
    let (living, dead) = hash::without_dead(slot.inline(), now);
    if !dead.is_empty() {
        dead.into_iter()
            .for_each(|(field, deadline)| gone(&field, deadline));
        slot.set_value(Form::DatedHash, NewValue::Inline(&living));
        set_filed(slot, filed);
    }
    true
}

/// Where dead fields are counted and reported, one event for all of a hash.
pub struct Losses<'a> {
    /// The stream of changes.
    pub changes: &'a mut Changes,
    /// The log of effects.
    pub effects: &'a mut Effects,
    /// The stream of what has expired.
    pub deaths: &'a mut Deaths,
    /// How late they are removed.
    pub lag: &'a mut Lags,
    /// How many there were.
    pub expired: &'a mut u64,
    /// Who removes them.
    pub removal: Removal,
    /// The instant.
    pub now: UnixMillis,
    /// The database.
    pub db: usize,
    /// Whether the event was given.
    pub is_reported: bool,
}

impl Losses<'_> {
    /// A field of the hash at `key` was removed because it was due.
    pub fn field(&mut self, key: &[u8], field: &[u8], deadline: Deadline) {
        self.effects
            .record(self.db, [b"HDEL".as_slice(), key, field]);
        *self.expired += 1;
        self.lag.add(self.removal, self.now, deadline.0, 1);
        let what = (Kind::Hash, key, field);
        self.deaths.note_element(self.db, what, deadline, self.now);
        self.report(key);
    }

    /// A hash of dead fields was removed. All its fields count as late as the first of them.
    pub fn hash(&mut self, slot: &Slot) {
        let Ok(hash) = hash_of(slot, ALL_LIVE) else {
            return;
        };
        let fields = hash.len() as u64;
        *self.expired += fields;
        if let Some(first) = hash.soonest() {
            self.lag.add(self.removal, self.now, first.0, fields);
        }
        if self.deaths.are_kept() {
            for_each_element(slot, |strings, deadline| {
                if let Some(deadline) = deadline {
                    let what = (Kind::Hash, slot.key(), strings[0].as_bytes());
                    self.deaths.note_element(self.db, what, deadline, self.now);
                }
            });
        }
        self.report(slot.key());
        self.effects.delete(self.db, slot.key());
        self.changes.record(self.db as u16, Event::DEL, slot.key());
    }

    fn report(&mut self, key: &[u8]) {
        if !self.is_reported {
            self.is_reported = true;
            self.changes.record(self.db as u16, Event::HEXPIRED, key);
        }
    }
}
