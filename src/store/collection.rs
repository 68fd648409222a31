//! Collections as commands see them: alive, of the right type, in whichever form they have.
//!
//! A small collection is the value part of its entry and is edited there; when it outgrows its
//! limits it becomes a big one behind a box. Whoever edits one gets a `..Mut`, which hides that: it
//! holds the entry, and an edit that does not fit converts it first. Only lists become small again.
//!
//! Before the first edit the entry is handed to a running snapshot. Of a big collection that takes
//! a copy of its spine only; its pieces are shared and copied one by one when they change.
//!
//! While a hash is edited, its expired fields are removed as they are met (see `fields`).
//!
//! Not here: what becomes of an emptied collection (the command calls [`Live::drop_empty`]).

use rand::rngs::SmallRng;

use super::change::Event;
use super::db::Db;
use super::entry::{NewValue, Parts, SMALL_MAX, Slot, ValueRef};
use super::fields::{self, Losses};
use super::graveyard::Graveyard;
use super::table::Place;
use super::{Keyspace, Live};
use crate::clock::{Reading, UnixMillis};
use crate::config::Config;
use crate::expiry::index::Strata;
use crate::expiry::{ALL_LIVE, Deadline, is_due};
use crate::resp::error::CommandError;
use crate::value::hash::{self, Form, HashLimits, HashRef, Shape, Stored};
use crate::value::list::{ChunkLimit, List, ListRef, Side};
use crate::value::members::{Element, Members};
use crate::value::packed::{self, End};
use crate::value::placement::{Ahead, Placement};
use crate::value::set::{self, Added, SetForm, SetLimits, SetRef};
use crate::value::zset::{self, Outcome, Zset, ZsetLimits, ZsetRef};
use crate::value::{Kind, StringRef, Value, intset};

/// When small collections become big ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of lists, and of the chunks of big ones.
    pub list: ChunkLimit,
    /// Of sets.
    pub set: SetLimits,
    /// Of sorted sets.
    pub zset: ZsetLimits,
    /// Of hashes.
    pub hash: HashLimits,
}

impl Limits {
    /// As the settings say.
    pub fn new(config: &Config) -> Limits {
        let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Limits {
            list: ChunkLimit::from_setting(config.list_chunk),
            set: SetLimits {
                intset_entries_max: usize_of(config.set_integers_max),
                packed_entries_max: usize_of(config.set_packed_entries_max),
                packed_value_bytes_max: usize_of(config.set_packed_value_bytes_max),
            },
            zset: ZsetLimits {
                entries_max: usize_of(config.zset_packed_entries_max),
                value_bytes_max: usize_of(config.zset_packed_value_bytes_max),
            },
            hash: HashLimits {
                packed_entries_max: usize_of(config.hash_packed_entries_max),
                packed_value_bytes_max: usize_of(config.hash_packed_value_bytes_max),
            },
        }
    }
}

/// The list in an entry.
///
/// # Errors
/// WRONGTYPE if it holds something else, as the three functions below.
pub fn list_of(slot: &Slot) -> Result<ListRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::List => Ok(ListRef::Packed(bytes)),
        ValueRef::Boxed(Value::List(list)) => Ok(ListRef::Big(list)),
        _ => Err(CommandError::WrongType),
    }
}

/// The set in an entry.
///
/// # Errors
/// WRONGTYPE.
pub fn set_of(slot: &Slot) -> Result<SetRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::Set => Ok(if slot.is_variant() {
            SetRef::Intset(bytes)
        } else {
            SetRef::Packed(bytes)
        }),
        ValueRef::Boxed(Value::Set(members)) => Ok(SetRef::Big(members)),
        _ => Err(CommandError::WrongType),
    }
}

/// The sorted set in an entry.
///
/// # Errors
/// WRONGTYPE.
pub fn zset_of(slot: &Slot) -> Result<ZsetRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::Zset => Ok(ZsetRef::Packed(bytes)),
        ValueRef::Boxed(Value::Zset(zset)) => Ok(ZsetRef::Big(zset)),
        _ => Err(CommandError::WrongType),
    }
}

/// The hash in an entry, at an instant.
///
/// # Errors
/// WRONGTYPE.
pub fn hash_of(slot: &Slot, now: UnixMillis) -> Result<HashRef<'_>, CommandError> {
    let form = match slot.value() {
        ValueRef::Inline(bytes) if slot.is_dated() => Form::Dated(bytes),
        ValueRef::Inline(bytes) if slot.kind() == Kind::Hash => Form::Packed(bytes),
        ValueRef::Boxed(Value::Hash(members)) => Form::Big(members),
        _ => return Err(CommandError::WrongType),
    };
    Ok(HashRef::new(form, now))
}

/// How many elements the collection in an entry has, dead or alive; none for a string.
pub fn len_of(slot: &Slot) -> Option<usize> {
    match slot.kind() {
        Kind::String => None,
        Kind::List => list_of(slot).ok().map(ListRef::len),
        Kind::Set => set_of(slot).ok().map(SetRef::len),
        Kind::Zset => zset_of(slot).ok().map(ZsetRef::len),
        Kind::Hash => hash_of(slot, ALL_LIVE).ok().map(HashRef::len),
    }
}

/// Hands out the elements of a small collection as their strings (a field and its value, a member
/// and the eight bytes of its score) and deadlines.
pub fn for_each_small(slot: &Slot, mut each: impl FnMut(&[StringRef<'_>], Option<Deadline>)) {
    if let Ok(set) = set_of(slot) {
        set.iter()
            .for_each(|member| each(&[StringRef::Short(&member)], None));
        return;
    }
    if let Ok(hash) = hash_of(slot, ALL_LIVE) {
        hash.iter()
            .for_each(|field| each(&[field.member, field.value], field.deadline));
        return;
    }
    let mut items = packed::iter(slot.inline());
    let is_paired = slot.kind() != Kind::List;
    while let Some(item) = items.next() {
        let first = StringRef::Short(item.bytes);
        match if is_paired { items.next() } else { None } {
            Some(second) => each(&[first, StringRef::Short(second.bytes)], None),
            None => each(&[first], None),
        }
    }
}

/// The same of a collection of any size. Big ones are frozen for it.
pub fn for_each_element(slot: &Slot, mut each: impl FnMut(&[StringRef<'_>], Option<Deadline>)) {
    let ValueRef::Boxed(value) = slot.value() else {
        return for_each_small(slot, each);
    };
    let Some(mut frozen) = value.freeze() else {
        return;
    };
    while !frozen.pieces.is_empty() {
        frozen.walk(0, |strings, deadline| {
            each(strings, deadline);
            true
        });
        frozen.dismantle();
    }
}

/// Bytes of the strings a value is made of, without what keeps them together; looks at all of it.
pub fn payload_bytes(slot: &Slot) -> usize {
    if let Some(string) = slot.string() {
        return string.len();
    }
    let mut bytes = 0;
    for_each_element(slot, |strings, _| {
        bytes += strings.iter().map(|s| s.len()).sum::<usize>();
    });
    bytes
}

/// Reading: counts a hit or a miss and sets the access clock, as [`Live::get`] does.
impl Live<'_> {
    /// The list at a key.
    ///
    /// # Errors
    /// WRONGTYPE if the key holds something else, as the three methods below.
    pub fn list(&self, key: &[u8]) -> Result<Option<ListRef<'_>>, CommandError> {
        self.get(key).map(list_of).transpose()
    }

    /// The set at a key.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set(&self, key: &[u8]) -> Result<Option<SetRef<'_>>, CommandError> {
        self.get(key).map(set_of).transpose()
    }

    /// The sorted set at a key.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset(&self, key: &[u8]) -> Result<Option<ZsetRef<'_>>, CommandError> {
        self.get(key).map(zset_of).transpose()
    }

    /// The hash at a key. Some of its expired fields are removed when the command ends.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn hash(&self, key: &[u8]) -> Result<Option<HashRef<'_>>, CommandError> {
        self.get(key)
            .map(|slot| self.hash_in(key, slot))
            .transpose()
    }

    /// The hash at a key, without counting a hit or a miss (see [`Live::peek`]).
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn peek_hash(&self, key: &[u8]) -> Result<Option<HashRef<'_>>, CommandError> {
        self.peek(key)
            .map(|slot| self.hash_in(key, slot))
            .transpose()
    }

    fn hash_in<'s>(&self, key: &[u8], slot: &'s Slot) -> Result<HashRef<'s>, CommandError> {
        let now = self.reading.now;
        if fields::may_be_due(slot, now) {
            self.note(self.space.hash(key), slot);
        }
        Ok(hash_of(slot, now)?.with(self.member_ahead()))
    }

    /// The hash of a member that was worked out ahead, for [`SetRef::contains_with`].
    pub fn member_ahead(&self) -> Ahead {
        self.space.member_ahead.get()
    }
}

/// The value of an empty collection other than a set, and that it is no variant of its form.
fn empty_packed() -> (&'static [u8], bool) {
    (packed::EMPTY, false)
}

/// An entry to be edited, and what else an edit may touch.
struct Found<'a> {
    slot: &'a mut Slot,
    /// The placement hash of its key.
    hash: u64,
    graveyard: &'a mut Graveyard,
    /// The hashes with volatile fields.
    index: &'a mut Strata,
    losses: Losses<'a>,
    /// The hash of a member that was worked out ahead.
    ahead: Ahead,
}

/// Editing. The caller reports the change, and then calls [`Live::drop_empty`] if it has removed
/// elements.
impl Live<'_> {
    /// The list at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE if the key holds something else, as the methods below.
    pub fn list_mut(&mut self, key: &[u8]) -> Result<Option<ListMut<'_>>, CommandError> {
        let limit = self.space.limits.list;
        let found = self.edit(key, Kind::List)?;
        Ok(found.map(|found| ListMut {
            slot: found.slot,
            graveyard: found.graveyard,
            limit,
        }))
    }

    /// The same; a missing key becomes an empty list, to which the caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn list_or_new(&mut self, key: &[u8]) -> Result<ListMut<'_>, CommandError> {
        let limit = self.space.limits.list;
        let Found {
            slot, graveyard, ..
        } = self.edit_or_new(key, Kind::List, empty_packed)?;
        Ok(ListMut {
            slot,
            graveyard,
            limit,
        })
    }

    /// The set at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set_mut(&mut self, key: &[u8]) -> Result<Option<SetMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.set);
        let found = self.edit(key, Kind::Set)?;
        Ok(found.map(|Found { slot, ahead, .. }| SetMut {
            slot,
            placement,
            ahead,
            limits,
        }))
    }

    /// The same; a missing key becomes an empty set in the form that suits the first member and as
    /// many as `expected`. The caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set_or_new(
        &mut self,
        key: &[u8],
        first: &[u8],
        expected: usize,
    ) -> Result<SetMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.set);
        let empty = || match SetForm::of_new(first, expected, limits) {
            SetForm::Intset => (intset::EMPTY, true),
            SetForm::Packed | SetForm::Big => (packed::EMPTY, false),
        };
        let Found { slot, ahead, .. } = self.edit_or_new(key, Kind::Set, empty)?;
        let mut set = SetMut {
            slot,
            placement,
            ahead,
            limits,
        };
        set.prepare(expected);
        Ok(set)
    }

    /// The sorted set at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_mut(&mut self, key: &[u8]) -> Result<Option<ZsetMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let found = self.edit(key, Kind::Zset)?;
        Ok(found.map(|Found { slot, .. }| ZsetMut {
            slot,
            placement,
            limits,
        }))
    }

    /// The same; a missing key becomes an empty sorted set, to which the caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_or_new(&mut self, key: &[u8]) -> Result<ZsetMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let Found { slot, .. } = self.edit_or_new(key, Kind::Zset, empty_packed)?;
        Ok(ZsetMut {
            slot,
            placement,
            limits,
        })
    }

    /// The hash at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn hash_mut(&mut self, key: &[u8]) -> Result<Option<HashMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.hash);
        let found = self.edit(key, Kind::Hash)?;
        Ok(found.map(|found| HashMut::new(found, placement, limits)))
    }

    /// The same; a missing key becomes an empty hash, to which the caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn hash_or_new(&mut self, key: &[u8]) -> Result<HashMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.hash);
        let found = self.edit_or_new(key, Kind::Hash, empty_packed)?;
        Ok(HashMut::new(found, placement, limits))
    }

    /// Removes a collection that has become empty, and reports that; true if it was.
    pub fn drop_empty(&mut self, key: &[u8]) -> bool {
        let is_empty = self.peek(key).and_then(len_of) == Some(0);
        if is_empty {
            self.remove(key);
            self.also(Event::DEL, key);
        }
        is_empty
    }

    /// Removes whatever is at a key, deadline and all, because a collection of this type is to be
    /// written there; the caller does that next and reports it.
    pub fn vacate(&mut self, key: &[u8], kind: Kind) {
        let Some(old) = self.peek(key).map(Slot::kind) else {
            return;
        };
        self.remove(key);
        self.is_vacated = true;
        let db = self.db as u16;
        self.space.changes.record_overwrite(db, key, old, kind);
    }

    fn edit(&mut self, key: &[u8], kind: Kind) -> Result<Option<Found<'_>>, CommandError> {
        let hash = self.space.hash(key);
        match self.settle(hash, key) {
            Some(place) => self.edit_at(place, hash, kind).map(Some),
            None => Ok(None),
        }
    }

    fn edit_at(&mut self, place: Place, hash: u64, kind: Kind) -> Result<Found<'_>, CommandError> {
        let clock = self.clock();
        let Keyspace {
            dbs,
            cut,
            graveyard,
            changes,
            effects,
            lag,
            stats,
            member_ahead,
            ..
        } = &mut *self.space;
        let db = &mut dbs[self.db];
        let number = db.cut_number;
        let slot = db.table.at_mut(place);
        if slot.kind() != kind {
            return Err(CommandError::WrongType);
        }
        Db::preserve(cut, number, slot);
        slot.set_clock(clock);
        Ok(Found {
            slot,
            hash,
            graveyard,
            index: &mut db.fields,
            losses: Losses {
                changes,
                effects,
                lag,
                expired: &mut stats.fields_expired_lazily,
                now: self.reading.now,
                db: self.db,
                is_reported: false,
            },
            ahead: member_ahead.get(),
        })
    }

    fn edit_or_new(
        &mut self,
        key: &[u8],
        kind: Kind,
        empty: impl FnOnce() -> (&'static [u8], bool),
    ) -> Result<Found<'_>, CommandError> {
        let hash = self.space.hash(key);
        let mut found = self.settle(hash, key);
        if found.is_none() {
            let (empty, is_variant) = empty();
            let parts = Parts {
                key,
                value: NewValue::Inline(kind, empty),
                deadline: None,
                epoch: self.space.cut.epoch,
                clock: self.clock(),
                is_variant,
            };
            self.space.dbs[self.db].insert(hash, parts, None);
            if !std::mem::take(&mut self.is_vacated) {
                self.also(Event::NEW, key);
            }
            found = self.space.dbs[self.db].table.locate(hash, key);
        }
        let place = found.expect("the key was just found or inserted");
        self.edit_at(place, hash, kind)
    }
}

/// Loading from a snapshot: nothing is reported.
impl Keyspace {
    /// Makes a key an empty collection, in the place of whatever it holds; true if that was
    /// something. Elements must follow. `hash` comes from [`Keyspace::look_ahead`].
    pub fn begin_collection(
        &mut self,
        db: usize,
        key: (u64, &[u8]),
        kind: Kind,
        deadline: Option<Deadline>,
        reading: &Reading,
    ) -> bool {
        // A set of no integers: it becomes packed when something else is added.
        let (empty, is_variant) = match kind {
            Kind::Set => (intset::EMPTY, true),
            _ => (packed::EMPTY, false),
        };
        let value = NewValue::Inline(kind, empty);
        self.load(db, key, value, deadline, is_variant, reading)
    }

    /// Adds elements, given as their strings, to a collection that is being loaded; false if they
    /// do not fit its type, or if there is no such collection. `deadlines` are those of the fields
    /// of a hash, one for each field, or there are none at all.
    pub fn load_elements(
        &mut self,
        db: usize,
        (hash, key): (u64, &[u8]),
        kind: Kind,
        strings: &[&[u8]],
        deadlines: &[Option<Deadline>],
    ) -> bool {
        let (placement, limits) = (self.placement, self.limits);
        let Keyspace { dbs, graveyard, .. } = self;
        let Db {
            table,
            fields: index,
            ..
        } = &mut dbs[db];
        let Some(place) = table.locate(hash, key) else {
            return false;
        };
        let slot = table.at_mut(place);
        if slot.kind() != kind || strings.is_empty() {
            return false;
        }
        match kind {
            Kind::String => false,
            Kind::List => {
                let limit = limits.list;
                let mut list = ListMut {
                    slot,
                    graveyard,
                    limit,
                };
                strings.iter().for_each(|item| list.push(End::Back, item));
                true
            }
            Kind::Set => {
                let limits = limits.set;
                let mut set = SetMut {
                    slot,
                    placement,
                    ahead: Ahead::NONE,
                    limits,
                };
                for member in strings {
                    set.add(member);
                }
                true
            }
            Kind::Zset => {
                let limits = limits.zset;
                let mut zset = ZsetMut {
                    slot,
                    placement,
                    limits,
                };
                strings.chunks(2).all(|pair| zset.load(pair))
            }
            Kind::Hash => {
                let mut fields = FieldsMut {
                    slot,
                    hash,
                    index,
                    placement,
                    ahead: Ahead::NONE,
                    limits: limits.hash,
                };
                let mut deadlines = deadlines.iter().copied();
                strings.chunks(2).all(|pair| match pair {
                    [field, value] => {
                        fields.load(field, value, deadlines.next().flatten());
                        true
                    }
                    _ => false,
                })
            }
        }
    }
}

/// A list to be edited.
pub struct ListMut<'a> {
    slot: &'a mut Slot,
    graveyard: &'a mut Graveyard,
    limit: ChunkLimit,
}

impl ListMut<'_> {
    /// The list as it is now.
    pub fn view(&self) -> ListRef<'_> {
        list_of(self.slot).expect("only lists get here")
    }

    fn big(&mut self) -> Option<&mut List> {
        match self.slot.value_mut() {
            Some(Value::List(list)) => Some(list),
            _ => None,
        }
    }

    /// The big form, into which a small list is turned.
    fn grown(&mut self) -> &mut List {
        if self.big().is_none() {
            let list = List::from_packed(self.slot.inline(), self.limit);
            let value = NewValue::Boxed(Box::new(Value::List(list)));
            self.slot.set_value(value, false);
        }
        self.big().expect("it was just made big")
    }

    /// Whether a small list may have one more item, which takes the place of `removed` bytes.
    fn fits(&self, item: &[u8], removed: usize) -> bool {
        let packed = self.slot.inline();
        let bytes = packed.len() - removed + packed::item_bytes(item.len());
        let items = packed::len(packed) + usize::from(removed == 0);
        bytes <= SMALL_MAX && self.limit.allows(bytes, items)
    }

    /// Makes a big list small again if it has shrunk enough.
    fn settle(&mut self) {
        let limit = self.limit;
        let Some(list) = self.big().filter(|list| list.fits_packed(limit)) else {
            return;
        };
        let Some(packed) = list.to_packed(limit) else {
            return;
        };
        let old = self
            .slot
            .set_value(NewValue::Inline(Kind::List, &packed), false);
        old.into_iter()
            .for_each(|list| self.graveyard.bury_value(list));
    }

    /// Adds an item at an end.
    pub fn push(&mut self, end: End, item: &[u8]) {
        if let Some(list) = self.big() {
            list.push(end, item);
        } else if self.fits(item, 0) {
            match end {
                End::Front => packed::push_front(self.slot, &[item]),
                End::Back => packed::push_back(self.slot, &[item]),
            }
        } else {
            self.grown().push(end, item);
        }
    }

    /// Removes up to `items` items at an end.
    pub fn remove_end(&mut self, end: End, items: usize) {
        let len = self.view().len();
        match end {
            End::Front => self.trim(items.min(len), len),
            End::Back => self.trim(0, len.saturating_sub(items)),
        }
    }

    /// Keeps only up to `kept` items from index `start` on.
    pub fn trim(&mut self, start: usize, kept: usize) {
        if let Some(list) = self.big() {
            let removed = list.trim(start, kept);
            if !removed.is_empty() {
                self.graveyard.bury_value(Box::new(Value::List(removed)));
            }
            return self.settle();
        }
        let len = packed::len(self.slot.inline());
        let behind = len.saturating_sub(start.saturating_add(kept));
        if let Some(first) = packed::at(self.slot.inline(), len - behind).filter(|_| behind > 0) {
            let at = first.at;
            packed::remove(self.slot, at, behind);
        }
        let before = start.min(len - behind);
        if before > 0 {
            packed::remove(self.slot, packed::HEADER, before);
        }
    }

    /// Replaces the item of an index; false if there is none.
    pub fn set(&mut self, index: usize, item: &[u8]) -> bool {
        if self.big().is_none() {
            let Some(old) = packed::at(self.slot.inline(), index) else {
                return false;
            };
            let (at, size) = (old.at, old.end() - old.at);
            if self.fits(item, size) {
                packed::replace(self.slot, at, item);
                return true;
            }
        }
        let is_set = self.grown().set(index, item);
        self.settle();
        is_set
    }

    /// Inserts an item beside the first that equals `pivot`; false if none does.
    pub fn insert(&mut self, side: Side, pivot: &[u8], item: &[u8]) -> bool {
        if self.big().is_none() {
            let Some(found) = packed::find(self.slot.inline(), pivot, 1) else {
                return false;
            };
            let at = match side {
                Side::Before => found.at,
                Side::After => found.end(),
            };
            if self.fits(item, 0) {
                packed::insert_before(self.slot, at, &[item]);
                return true;
            }
        }
        self.grown().insert(side, pivot, item)
    }

    /// Removes up to `limit` items that equal `unwanted`, those nearest to an end first; how many
    /// there were.
    pub fn remove_equal(&mut self, unwanted: &[u8], limit: usize, end: End) -> usize {
        let Some(list) = self.big() else {
            return packed::remove_equal(self.slot, unwanted, limit, end);
        };
        let removed = list.remove_equal(unwanted, limit, end);
        self.settle();
        removed
    }
}

/// A set to be edited.
pub struct SetMut<'a> {
    slot: &'a mut Slot,
    placement: Placement,
    ahead: Ahead,
    limits: SetLimits,
}

impl SetMut<'_> {
    /// The set as it is now.
    pub fn view(&self) -> SetRef<'_> {
        set_of(self.slot).expect("only sets get here")
    }

    fn become_form(&mut self, form: SetForm) {
        match (form, self.view()) {
            (SetForm::Packed, SetRef::Intset(integers)) => {
                let packed = set::intset_to_packed(integers);
                self.slot
                    .set_value(NewValue::Inline(Kind::Set, &packed), false);
            }
            (SetForm::Big, view @ (SetRef::Intset(_) | SetRef::Packed(_))) => {
                let members = view.to_big(self.placement);
                let value = NewValue::Boxed(Box::new(Value::Set(members)));
                self.slot.set_value(value, false);
            }
            _ => {}
        }
    }

    /// Gives the set the form that suits `expected` members more.
    pub fn prepare(&mut self, expected: usize) {
        if matches!(self.slot.value(), ValueRef::Inline(_)) {
            let form = self.view().form().for_more(expected, self.limits);
            self.become_form(form);
        }
    }

    /// Adds a member; whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        loop {
            if let Some(Value::Set(members)) = self.slot.value_mut() {
                return members.insert(members.hash_with(self.ahead, member), member, b"");
            }
            let added = if self.slot.is_variant() {
                set::add_to_intset(self.slot, member, self.limits)
            } else {
                set::add_to_packed(self.slot, member, self.limits)
            };
            match added {
                Added::New => return true,
                Added::Present => return false,
                Added::MustBecome(form) => self.become_form(form),
            }
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            return members.remove(members.hash_with(self.ahead, member), member);
        }
        if self.slot.is_variant() {
            set::remove_from_intset(self.slot, member)
        } else {
            set::remove_from_packed(self.slot, member)
        }
    }

    /// Removes `count` random members, or all if there are not so many, after handing each to
    /// `taken`.
    pub fn pop_many(&mut self, count: usize, rng: &mut SmallRng, mut taken: impl FnMut(&[u8])) {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            for _ in 0..count {
                if !members.random_remove(rng, |element| taken(&element.member)) {
                    return;
                }
            }
            return;
        }
        // Not one after another: each removal would move all that is behind it.
        let is_intset = self.slot.is_variant();
        let kept = set::part(self.view(), count, rng, taken);
        self.slot
            .set_value(NewValue::Inline(Kind::Set, &kept), is_intset);
    }

    /// Removes a random member after handing it to `taken`; false if there is none.
    pub fn pop(&mut self, rng: &mut SmallRng, taken: impl FnOnce(&[u8])) -> bool {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            return members.random_remove(rng, |element| taken(&element.member));
        }
        if self.slot.is_variant() {
            set::pop_from_intset(self.slot, rng, taken)
        } else {
            set::pop_from_packed(self.slot, rng, taken)
        }
    }
}

/// A sorted set to be edited.
pub struct ZsetMut<'a> {
    slot: &'a mut Slot,
    placement: Placement,
    limits: ZsetLimits,
}

impl ZsetMut<'_> {
    /// The sorted set as it is now.
    pub fn view(&self) -> ZsetRef<'_> {
        zset_of(self.slot).expect("only sorted sets get here")
    }

    fn big(&mut self) -> Option<&mut Zset> {
        match self.slot.value_mut() {
            Some(Value::Zset(zset)) => Some(zset),
            _ => None,
        }
    }

    /// Makes the set big if `expected` members are more than a small one may have.
    pub fn prepare(&mut self, expected: usize) {
        if expected > self.limits.entries_max {
            self.grow();
        }
    }

    fn grow(&mut self) {
        if self.big().is_none() {
            let zset = zset::to_big(self.slot.inline(), self.placement);
            let value = NewValue::Boxed(Box::new(Value::Zset(Box::new(zset))));
            self.slot.set_value(value, false);
        }
    }

    /// Sets the score of a member, which is added if it is new. The score is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Outcome {
        if let Some(zset) = self.big() {
            return zset.insert(member, score);
        }
        if let Some(outcome) = zset::insert(self.slot, member, score, &self.limits) {
            return outcome;
        }
        self.grow();
        self.insert(member, score)
    }

    /// Adds a member with the eight bytes of its score; false if they are no score.
    fn load(&mut self, strings: &[&[u8]]) -> bool {
        let [member, score] = strings else {
            return false;
        };
        let score = <[u8; 8]>::try_from(*score).map(f64::from_le_bytes);
        let Some(score) = score.ok().filter(|score| !score.is_nan()) else {
            return false;
        };
        self.insert(member, score);
        true
    }

    /// Removes a member; its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self.big() {
            Some(zset) => zset.remove(member),
            None => zset::remove(self.slot, member),
        }
    }

    /// Removes `count` members from a rank on, or as many as there are, handing each to `removed`;
    /// how many there were.
    pub fn remove_ranks(
        &mut self,
        start: usize,
        count: usize,
        removed: impl FnMut(&[u8], f64),
    ) -> usize {
        match self.big() {
            Some(zset) => zset.remove_ranks(start, count, removed),
            None => zset::remove_ranks(self.slot, start, count, removed),
        }
    }
}

/// A hash to be edited. A due field that an edit meets is removed, counted and reported first: it
/// is as if it were not there.
pub struct HashMut<'a> {
    fields: FieldsMut<'a>,
    losses: Losses<'a>,
}

impl<'a> HashMut<'a> {
    fn new(found: Found<'a>, placement: Placement, limits: HashLimits) -> HashMut<'a> {
        let Found {
            slot,
            hash,
            index,
            losses,
            ahead,
            ..
        } = found;
        HashMut {
            fields: FieldsMut {
                slot,
                hash,
                index,
                placement,
                ahead,
                limits,
            },
            losses,
        }
    }

    /// The hash as it is now.
    pub fn view(&self) -> HashRef<'_> {
        hash_of(self.fields.slot, self.losses.now).expect("only hashes get here")
    }

    /// Makes the hash a table if `expected` fields are more than a packed one may have.
    pub fn prepare(&mut self, expected: usize) {
        if expected > self.fields.limits.packed_entries_max {
            self.fields.grow();
        }
    }

    /// A field.
    pub fn find(&mut self, field: &[u8]) -> Option<Element<'_>> {
        self.settle(field);
        self.view().find(field)
    }

    /// Gives a field a value and takes its deadline; whether the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let is_new = self.set_keeping(field, value);
        if !is_new && self.fields.slot.is_dated() {
            self.fields.set_deadline(field, None);
        }
        is_new
    }

    /// Gives a field a value; whether the field is new. One that is not keeps its deadline.
    pub fn set_keeping(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.settle(field);
        self.fields.set(field, value)
    }

    /// Gives a field a deadline, which is not due, or takes it away; false if there is no such
    /// field.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<Deadline>) -> bool {
        self.settle(field);
        let Some(old) = self.view().deadline(field) else {
            return false;
        };
        if old != deadline {
            self.fields.set_deadline(field, deadline);
        }
        true
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.settle(field);
        self.fields.remove(field)
    }

    /// Removes a field if it is due.
    fn settle(&mut self, field: &[u8]) {
        let HashMut { fields, losses } = self;
        if !fields::may_be_due(fields.slot, losses.now) {
            return;
        }
        let all = hash_of(fields.slot, ALL_LIVE).expect("only hashes get here");
        let deadline = all.deadline(field).flatten();
        if let Some(deadline) = deadline.filter(|&deadline| is_due(deadline, losses.now)) {
            fields.remove(field);
            losses.field(fields.slot.key(), field, deadline);
        }
    }
}

/// The fields of a hash, dead or alive, to be edited.
struct FieldsMut<'a> {
    slot: &'a mut Slot,
    /// The placement hash of its key.
    hash: u64,
    index: &'a mut Strata,
    placement: Placement,
    ahead: Ahead,
    limits: HashLimits,
}

impl FieldsMut<'_> {
    fn view(&self) -> HashRef<'_> {
        hash_of(self.slot, ALL_LIVE).expect("only hashes get here")
    }

    fn shape(&self) -> Shape {
        if self.slot.is_dated() {
            Shape::Dated
        } else {
            Shape::Packed
        }
    }

    fn big(&mut self) -> Option<&mut Members> {
        match self.slot.value_mut() {
            Some(Value::Hash(members)) => Some(members),
            _ => None,
        }
    }

    /// The big form, into which a small hash is turned.
    fn grow(&mut self) -> &mut Members {
        if self.big().is_none() {
            let (filed, is_dated) = (fields::filed(self.slot), self.slot.is_dated());
            let mut members = self.view().to_big(self.placement);
            members.set_filed(filed);
            let value = NewValue::Boxed(Box::new(Value::Hash(members)));
            self.slot.set_value(value, is_dated);
        }
        self.big().expect("it was just made big")
    }

    /// Gives fields room for deadlines.
    fn become_dated(&mut self) {
        if self.slot.is_dated() {
            return;
        }
        if self.big().is_none() {
            if let Some(dated) = hash::to_dated(self.slot.inline()) {
                self.slot
                    .set_value(NewValue::Inline(Kind::Hash, &dated), true);
                return;
            }
            self.grow();
        }
        self.slot.set_dated();
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if self.big().is_none() {
            let (shape, limits) = (self.shape(), self.limits);
            match hash::set_in_small(self.slot, shape, field, value, limits) {
                Stored::New => return true,
                Stored::Replaced => return false,
                Stored::MustGrow => {}
            }
        }
        let ahead = self.ahead;
        let members = self.grow();
        members.set(members.hash_with(ahead, field), field, value)
    }

    /// Adds a field with all it has.
    fn load(&mut self, field: &[u8], value: &[u8], deadline: Option<Deadline>) {
        let Some(at) = deadline else {
            self.set(field, value);
            return;
        };
        if let Some(members) = self.big()
            && !members.contains(members.hash(field), field)
        {
            // At once: a deadline that came later would make a hole of the record.
            members.add(members.hash(field), field, value, deadline);
            self.slot.set_dated();
            self.file(at);
        } else {
            self.set(field, value);
            self.set_deadline(field, deadline);
        }
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let ahead = self.ahead;
        let removed = match self.big() {
            Some(members) => members.remove(members.hash_with(ahead, field), field),
            None => hash::remove_from_small(self.slot, self.shape(), field),
        };
        if removed {
            self.unfile_if_stable();
        }
        removed
    }

    /// The field is there.
    fn set_deadline(&mut self, field: &[u8], deadline: Option<Deadline>) {
        if deadline.is_some() {
            self.become_dated();
        } else if !self.slot.is_dated() {
            return;
        }
        if self.big().is_some() || !hash::set_deadline_in_dated(self.slot, field, deadline) {
            let ahead = self.ahead;
            let members = self.grow();
            members.set_deadline(members.hash_with(ahead, field), field, deadline);
        }
        match deadline {
            Some(deadline) => self.file(deadline),
            None => self.unfile_if_stable(),
        }
    }

    /// Files the hash no later than this deadline of a field.
    fn file(&mut self, deadline: Deadline) {
        let item = match fields::filed(self.slot) {
            None => self.index.insert(self.hash, deadline),
            Some((old, item)) if deadline < old => self.index.change(item, old, deadline),
            Some(_) => return,
        };
        fields::set_filed(self.slot, Some((deadline, item)));
    }

    /// Files the hash no more if no field is volatile any more.
    fn unfile_if_stable(&mut self) {
        if let Some((deadline, item)) = fields::filed(self.slot)
            && !self.view().has_volatile()
        {
            self.index.remove(item, deadline);
            fields::set_filed(self.slot, None);
        }
    }
}
