//! Expiry of members of collections, which are fields of hashes and members of sets and sorted
//! sets: how due ones are found, removed, counted and reported.
//!
//! A collection with volatile members is *dated*. Its database files it in an index of its own, one
//! item a collection, by a deadline that no member's is before. When that has come, the due members
//! are removed a few hundred at a time, and the collection is filed anew by the soonest deadline
//! that is left. Inside a small one all members are walked; a big one knows which of its segments
//! are worth a look (`value::segmented`).
//!
//! Whoever reads a collection does so at an instant at which due members do not exist, and neither
//! does a collection all of whose members are due. So when they are removed is seen in events and
//! memory alone. (Of a sorted set they are removed before a command looks at its order, as ranks
//! count them.) A collection that is dead as a whole is removed at once, however big it is, and
//! freed piece by piece.
//!
//! Redis: HLEN counts expired fields until they are removed, HEXPIRE revives them, HSETEX KEEPTTL
//! loses the value it writes, and a hash exists although all its fields have expired. Members of
//! sets and sorted sets have no deadlines.
//!
//! Not here: when to look for due members (`engine::jobs`).

use super::change::{Changes, Event};
use super::collection::{for_each_element, hash_of, set_of, zset_of};
use super::deaths::Deaths;
use super::effect::Effects;
use super::entry::{NewValue, Slot, ValueRef};
use super::entry_mut::EntryMut;
use super::graveyard::Owner;
use super::lag::{Lags, Removal};
use crate::clock::UnixMillis;
use crate::expiry::index::ItemRef;
use crate::expiry::{ALL_LIVE, Deadline, is_due};
use crate::value::segmented::Segmented;
use crate::value::zset::Zset;
use crate::value::{Kind, Value, dated_packed};

/// Members looked at between two readings of the clock.
pub const MEMBERS_PER_STEP: usize = 512;

/// A member of a sorted set takes so many times as long to remove: a million of 16 bytes take 0.5 s
/// where those of a set take 0.05.
const ZSET_SHARE: usize = 8;

/// How the deadlines of a type's members are spoken of.
#[derive(Clone, Copy)]
pub struct Words {
    /// Members were given a deadline.
    pub given: Event,
    /// Their deadlines were taken.
    pub persisted: Event,
    /// Members have died.
    pub expired: Event,
    /// Members were removed by a command.
    pub removed: Event,
    /// The command that removes members.
    pub removal: &'static [u8],
    /// The command that gives members deadlines, in Unix ms, and what stands before the members.
    pub expiration: &'static [u8],
    /// The command that takes their deadlines.
    pub persistence: &'static [u8],
    /// What stands before the number of members.
    pub members: &'static [u8],
}

/// The words of a type.
pub fn words_of(kind: Kind) -> Words {
    match kind {
        Kind::Set => Words {
            given: Event::SEXPIRE,
            persisted: Event::SPERSIST,
            expired: Event::SEXPIRED,
            removed: Event::SREM,
            removal: b"SREM",
            expiration: b"SPEXPIREAT",
            persistence: b"SPERSIST",
            members: b"MEMBERS",
        },
        Kind::Zset => Words {
            given: Event::ZEXPIRE,
            persisted: Event::ZPERSIST,
            expired: Event::ZEXPIRED,
            removed: Event::ZREM,
            removal: b"ZREM",
            expiration: b"ZPEXPIREAT",
            persistence: b"ZPERSIST",
            members: b"MEMBERS",
        },
        _ => Words {
            given: Event::HEXPIRE,
            persisted: Event::HPERSIST,
            expired: Event::HEXPIRED,
            removed: Event::HDEL,
            removal: b"HDEL",
            expiration: b"HPEXPIREAT",
            persistence: b"HPERSIST",
            members: b"FIELDS",
        },
    }
}

/// Strings of a member of a small dated collection.
pub fn strings_of(kind: Kind) -> usize {
    if kind == Kind::Set { 1 } else { 2 }
}

/// The deadlines of a dated collection, those of dead members included.
#[derive(Clone, Copy)]
pub enum Deadlines<'a> {
    /// Of a small one.
    Small {
        /// Its bytes.
        dated: &'a [u8],
        /// Strings of a member.
        strings: usize,
    },
    /// Of a big set or hash.
    Table(&'a Segmented),
    /// Of a big sorted set.
    Zset(&'a Zset),
}

/// The deadlines in an entry; none if it holds no dated collection.
#[inline]
pub fn deadlines_of(slot: &Slot) -> Option<Deadlines<'_>> {
    if !slot.is_dated() {
        return None;
    }
    match slot.value() {
        ValueRef::Inline(dated) => Some(Deadlines::Small {
            dated,
            strings: strings_of(slot.kind()),
        }),
        ValueRef::Boxed(Value::Hash(table) | Value::Set(table)) => Some(Deadlines::Table(table)),
        ValueRef::Boxed(Value::Zset(zset)) => Some(Deadlines::Zset(zset)),
        ValueRef::Boxed(_) => None,
    }
}

impl Deadlines<'_> {
    /// By which deadline the collection is filed, and where.
    #[inline]
    pub fn filed(self) -> Option<(Deadline, ItemRef)> {
        match self {
            Deadlines::Small { dated, .. } => dated_packed::filed(dated),
            Deadlines::Table(table) => table.dates()?.filed(),
            Deadlines::Zset(zset) => zset.dates()?.filed(),
        }
    }

    /// A deadline that no member's is before, if any has one. Exact in a small collection; see
    /// [`Dates::soonest`](crate::value::dated::Dates::soonest).
    pub fn soonest(self) -> Option<Deadline> {
        match self {
            Deadlines::Small { dated, strings } => dated_packed::soonest(dated, strings),
            Deadlines::Table(table) => table.dates()?.soonest(),
            Deadlines::Zset(zset) => zset.dates()?.soonest(),
        }
    }

    /// How many members are due.
    pub fn dead(self, now: UnixMillis) -> usize {
        match self {
            Deadlines::Small { dated, strings } => dated_packed::iter(dated, strings)
                .filter(|member| member.is_dead(now))
                .count(),
            Deadlines::Table(table) => table.dead(now),
            Deadlines::Zset(zset) => zset.dead(now),
        }
    }

    /// Whether all members are due.
    fn are_due(self, now: UnixMillis) -> bool {
        match self {
            Deadlines::Small { dated, strings } => {
                dated_packed::iter(dated, strings).all(|member| member.is_dead(now))
            }
            Deadlines::Table(table) => table.is_dead(now),
            Deadlines::Zset(zset) => zset.is_dead(now),
        }
    }

    /// How many members there are, dead or alive.
    pub fn count(self) -> usize {
        match self {
            Deadlines::Small { dated, strings } => dated_packed::iter(dated, strings).count(),
            Deadlines::Table(table) => table.len(),
            Deadlines::Zset(zset) => zset.len(),
        }
    }

    /// The exact soonest deadline; looks at all members.
    pub fn survey(self) -> Option<Deadline> {
        match self {
            Deadlines::Small { .. } => self.soonest(),
            Deadlines::Table(table) => table.iter().filter_map(|m| m.deadline()).min(),
            Deadlines::Zset(zset) => zset.soonest(),
        }
    }
}

/// The deadline of a member, dead or alive: none if there is no such member, `Some(None)` if it has
/// none.
pub fn deadline(slot: &Slot, member: &[u8]) -> Option<Option<Deadline>> {
    let term = match slot.kind() {
        Kind::Hash => hash_of(slot, ALL_LIVE).ok()?.term(member),
        Kind::Set => set_of(slot, ALL_LIVE).ok()?.term(member),
        Kind::Zset => zset_of(slot).ok()?.get(member).map(|(_, term)| term),
        Kind::String | Kind::List | Kind::Stream => None,
    };
    term.map(|term| term.map(|term| term.deadline))
}

/// Moves deadlines that were given as moments in the other era of the wall clock by so much into
/// this era. The collection is to be filed anew.
pub fn shift(slot: &mut EntryMut<'_>, era: bool, later_ms: i64) {
    let strings = strings_of(slot.kind());
    match slot.value_mut() {
        Some(Value::Hash(members) | Value::Set(members)) => members.shift(era, later_ms),
        Some(Value::Zset(zset)) => zset.shift(era, later_ms),
        Some(_) => {}
        None => dated_packed::shift(slot, strings, era, later_ms),
    }
}

/// By which deadline the collection in an entry is filed, and where; none if no member of it is
/// volatile.
#[inline]
pub fn filed(slot: &Slot) -> Option<(Deadline, ItemRef)> {
    deadlines_of(slot)?.filed()
}

/// Whether an entry holds the collection that an item of the index names.
pub fn is_filed_at(slot: &Slot, item: ItemRef) -> bool {
    filed(slot).is_some_and(|(_, other)| other == item)
}

/// Notes where a dated collection is filed.
pub fn set_filed(slot: &mut EntryMut<'_>, filed: Option<(Deadline, ItemRef)>) {
    match slot.value_mut() {
        Some(Value::Hash(members) | Value::Set(members)) => members.set_filed(filed),
        Some(Value::Zset(zset)) => zset.set_filed(filed),
        Some(_) => {}
        None => dated_packed::set_filed(slot, filed),
    }
}

/// Whether a member of the collection in an entry may be due.
#[inline]
pub fn may_be_due(slot: &Slot, now: UnixMillis) -> bool {
    filed(slot).is_some_and(|(deadline, _)| is_due(deadline, now))
}

/// Whether an entry holds a collection all of whose members are due.
#[inline]
pub fn is_dead(slot: &Slot, now: UnixMillis) -> bool {
    slot.is_dated() && is_dead_collection(slot, now)
}

#[cold]
fn is_dead_collection(slot: &Slot, now: UnixMillis) -> bool {
    may_be_due(slot, now) && deadlines_of(slot).is_some_and(|all| all.are_due(now))
}

/// Removes due members, handing them and their deadlines to `gone`, until about `limit` members
/// were looked at; true if none is due any more.
pub fn expire(
    slot: &mut EntryMut<'_>,
    now: UnixMillis,
    limit: usize,
    mut gone: impl FnMut(&[u8], Deadline),
) -> bool {
    if let Some(value) = slot.value_mut() {
        return expire_value(value, now, limit, gone);
    }
    let (filed, form) = (filed(slot), slot.form());
    let strings = strings_of(slot.kind());
    let (living, dead) = dated_packed::without_dead(slot.inline(), strings, now);
    if !dead.is_empty() {
        dead.into_iter()
            .for_each(|(member, deadline)| gone(&member, deadline));
        slot.set_value(form, NewValue::Inline(&living));
        set_filed(slot, filed);
    }
    true
}

/// The same of a big collection.
pub fn expire_value(
    value: &mut Value,
    now: UnixMillis,
    limit: usize,
    gone: impl FnMut(&[u8], Deadline),
) -> bool {
    match value {
        Value::Hash(members) | Value::Set(members) => members.expire(now, limit, gone),
        Value::Zset(zset) => zset.expire(now, limit / ZSET_SHARE, gone),
        _ => true,
    }
}

/// Where dead members are counted and reported, one event for all of a collection.
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
    /// A member of the collection in an entry was removed because it was due.
    pub fn member(&mut self, slot: &Slot, member: &[u8], deadline: Deadline) {
        self.member_of(slot.kind(), slot.key(), member, deadline);
    }

    /// The same of a collection of this type at `key`.
    pub fn member_of(&mut self, kind: Kind, key: &[u8], member: &[u8], deadline: Deadline) {
        let words = words_of(kind);
        self.effects.record(self.db, [words.removal, key, member]);
        *self.expired += 1;
        self.lag.add(self.removal, self.now, deadline.0, 1);
        let what = (kind, key, member);
        self.deaths.note_element(self.db, what, deadline, self.now);
        self.report(words.expired, key);
    }

    /// A collection of dead members was removed. All of them count as late as the first. If they
    /// are to leave more events than are written at a time, it is whose they are.
    pub fn collection(&mut self, slot: &Slot) -> Option<Owner> {
        let all = deadlines_of(slot)?;
        let members = all.count();
        *self.expired += members as u64;
        if let Some(first) = all.soonest() {
            self.lag
                .add(self.removal, self.now, first.0, members as u64);
        }
        let is_estate = self.deaths.are_kept() && slot.is_big() && members > MEMBERS_PER_STEP;
        if self.deaths.are_kept() && !is_estate {
            for_each_element(slot, |strings, deadline| {
                if let Some(deadline) = deadline {
                    let what = (slot.kind(), slot.key(), strings[0].as_bytes());
                    self.deaths.note_element(self.db, what, deadline, self.now);
                }
            });
        }
        self.report(words_of(slot.kind()).expired, slot.key());
        self.effects.delete(self.db, slot.key());
        self.changes.record(self.db as u16, Event::DEL, slot.key());
        is_estate.then(|| Owner {
            db: self.db,
            kind: slot.kind(),
            key: slot.key().into(),
            removed: self.now,
        })
    }

    fn report(&mut self, event: Event, key: &[u8]) {
        if !self.is_reported {
            self.is_reported = true;
            self.changes.record(self.db as u16, event, key);
        }
    }
}
