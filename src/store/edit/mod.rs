//! Editing collections: a `..Mut` for each type, which hides the form a collection is in.
//!
//! A small collection is the value part of its entry and is edited there; when it outgrows its
//! limits it becomes a big one behind a box: a `..Mut` holds the entry, and an edit that does not
//! fit converts it first. Only lists become small again.
//!
//! Before the first edit the entry is handed to a running snapshot. Of a big collection that takes
//! a copy of its spine only; its pieces are shared and copied one by one when they change.
//!
//! Not here: what becomes of an emptied collection (the command calls [`Live::drop_empty`]).

pub mod dated;

pub mod list;

pub mod set;

pub mod zset;

pub mod hash;

pub mod stream;

use crate::clock::Reading;
use crate::expiry::index::Strata;
use crate::expiry::{Basis, Deadline, MemberTerm, Term};
use crate::resp::error::CommandError;
use crate::store::change::Event;
use crate::store::collection::len_of;
use crate::store::db::Db;
use crate::store::entry::{Form, NewValue, Parts, Slot};
use crate::store::entry_mut::EntryMut;
use crate::store::graveyard::Graveyard;
use crate::store::lag::Removal;
use crate::store::members::Losses;
use crate::store::table::Place;
use crate::store::{Keyspace, Live};
use crate::value::packed::{self, End};
use crate::value::placement::Ahead;
use crate::value::{Kind, Value, intset};
use dated::DatedMut;
use hash::FieldsMut;
use list::ListMut;
use set::MembersMut;
use stream::StreamMut;
use zset::ZsetMut;

/// An empty collection other than a set or a stream.
fn empty_packed(form: Form) -> (Form, NewValue<'static>) {
    (form, NewValue::Inline(packed::EMPTY))
}

fn empty_stream() -> (Form, NewValue<'static>) {
    let stream = Value::Stream(Box::default());
    (Form::Stream, NewValue::Boxed(Box::new(stream)))
}

/// An entry to be edited, and what else an edit may touch.
struct Found<'a> {
    slot: EntryMut<'a>,
    /// The placement hash of its key.
    hash: u64,
    graveyard: &'a mut Graveyard,
    /// The collections with volatile members.
    index: &'a mut Strata,
    losses: Losses<'a>,
    /// The hash of a member that was worked out ahead.
    ahead: Ahead,
    /// The era of the wall clock, and how much later deadlines of the other one are in it, in ms.
    era: (bool, i64),
}

/// Editing. The caller reports the change, and then calls [`Live::drop_empty`] if it has removed
/// elements.
impl Live<'_> {
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
        let slot = self.space.dbs[self.db].table.at(place);
        if slot.kind() != kind {
            return Err(CommandError::WrongType);
        }
        self.touch(slot);
        let Keyspace {
            dbs,
            cut,
            graveyard,
            changes,
            effects,
            lag,
            stats,
            deaths,
            member_ahead,
            ..
        } = &mut *self.space;
        let db = &mut dbs[self.db];
        let number = db.cut_number;
        let slot = db.table.at_mut(place);
        Db::preserve(cut, number, &slot);
        Ok(Found {
            slot,
            hash,
            graveyard,
            index: &mut db.members,
            losses: Losses {
                changes,
                effects,
                lag,
                deaths,
                expired: &mut stats.members_expired_lazily,
                removal: Removal::Lazy,
                now: self.reading.now,
                db: self.db,
                is_reported: false,
            },
            ahead: member_ahead.get(),
            era: (db.era, db.shift_ms),
        })
    }

    fn edit_or_new(
        &mut self,
        key: &[u8],
        kind: Kind,
        empty: impl FnOnce() -> (Form, NewValue<'static>),
    ) -> Result<Found<'_>, CommandError> {
        let hash = self.space.hash(key);
        let mut found = self.settle(hash, key);
        if found.is_none() {
            let (form, value) = empty();
            let parts = Parts {
                key,
                form,
                value,
                expiry: None,
                epoch: self.space.cut.epoch,
                clock: self.clock(),
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
        term: Option<Term>,
        reading: &Reading,
    ) -> bool {
        let empty = match kind {
            // A set of no integers: it becomes packed when something else is added.
            Kind::Set => (Form::IntegerSet, NewValue::Inline(intset::EMPTY)),
            Kind::Stream => empty_stream(),
            _ => empty_packed(Form::of(kind)),
        };
        self.load(db, key, empty, term, reading)
    }

    /// Adds elements, given as their strings, to a collection that is being loaded; false if they
    /// do not fit its type, or if there is no such collection. `deadlines` are those of its
    /// members or fields, one for each, or there are none at all.
    #[expect(clippy::too_many_lines, reason = "a part for each type")]
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
            members: index,
            era,
            shift_ms,
            ..
        } = &mut dbs[db];
        let era = (*era, *shift_ms);
        let mut terms = deadlines.iter().map(|deadline| {
            // What a file says is a moment.
            deadline.map(|deadline| MemberTerm::new(deadline, Basis::Absolute, era.0))
        });
        let Some(place) = table.locate(hash, key) else {
            return false;
        };
        let slot = table.at_mut(place);
        if slot.kind() != kind || strings.is_empty() {
            return false;
        }
        let dated = |slot, index| DatedMut {
            slot,
            hash,
            index,
            placement,
            ahead: Ahead::NONE,
            era,
        };
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
                let base = dated(slot, index);
                let mut set = MembersMut { base, limits };
                for member in strings {
                    set.load(member, terms.next().flatten());
                }
                true
            }
            Kind::Zset => {
                let limits = limits.zset;
                let base = dated(slot, index);
                let mut zset = ZsetMut {
                    base,
                    limits,
                    losses: None,
                };
                strings
                    .chunks(2)
                    .all(|pair| zset.load(pair, terms.next().flatten()))
            }
            Kind::Stream => {
                let limit = limits.stream;
                let mut stream = StreamMut {
                    slot,
                    graveyard,
                    limit,
                };
                stream.load(strings)
            }
            Kind::Hash => {
                let base = dated(slot, index);
                let limits = limits.hash;
                let mut fields = FieldsMut { base, limits };
                strings.chunks(2).all(|pair| match pair {
                    [field, value] => {
                        fields.load(field, value, terms.next().flatten());
                        true
                    }
                    _ => false,
                })
            }
        }
    }
}
