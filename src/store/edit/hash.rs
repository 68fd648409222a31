//! Hashes to be edited: while that is done, due fields are removed as they are met.

use super::dated::DatedMut;
use super::{Found, empty_packed};
use crate::expiry::MemberTerm;
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::hash_of;
use crate::store::entry::Form;
use crate::store::members::Losses;
use crate::value::hash::{self, HashLimits, HashRef, Stored};
use crate::value::placement::Placement;
use crate::value::segmented::{Element, Segmented};
use crate::value::{Kind, Value};

impl Live<'_> {
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
        let found = self.edit_or_new(key, Kind::Hash, || empty_packed(Form::Hash))?;
        Ok(HashMut::new(found, placement, limits))
    }
}

/// A hash to be edited. A due field that an edit meets is removed, counted and reported first: it
/// is as if it were not there.
pub struct HashMut<'a> {
    pub(super) fields: FieldsMut<'a>,
    pub(super) losses: Losses<'a>,
}

impl<'a> HashMut<'a> {
    pub(super) fn new(found: Found<'a>, placement: Placement, limits: HashLimits) -> HashMut<'a> {
        let (base, losses) = DatedMut::new(found, placement);
        HashMut {
            fields: FieldsMut { base, limits },
            losses,
        }
    }

    /// The hash as it is now.
    pub fn view(&self) -> HashRef<'_> {
        hash_of(&self.fields.base.slot, self.losses.now).expect("only hashes get here")
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
        if !is_new && self.fields.base.slot.is_dated() {
            self.fields.base.set_term(field, None);
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
    pub fn set_term(&mut self, field: &[u8], term: Option<MemberTerm>) -> bool {
        self.settle(field);
        let Some(old) = self.view().term(field) else {
            return false;
        };
        if old != term {
            self.fields.base.set_term(field, term);
        }
        true
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.settle(field);
        self.fields.remove(field)
    }

    /// Removes a field if it is due.
    pub(super) fn settle(&mut self, field: &[u8]) {
        let HashMut { fields, losses } = self;
        if let Some(deadline) = fields.base.due(field, losses.now) {
            fields.remove(field);
            losses.member(&fields.base.slot, field, deadline);
        }
    }
}

/// The fields of a hash, dead or alive, to be edited.
pub(super) struct FieldsMut<'a> {
    pub(super) base: DatedMut<'a>,
    pub(super) limits: HashLimits,
}

impl FieldsMut<'_> {
    pub(super) fn big(&mut self) -> Option<&mut Segmented> {
        match self.base.slot.value_mut() {
            Some(Value::Hash(members)) => Some(members),
            _ => None,
        }
    }

    /// The big form, into which a small hash is turned.
    pub(super) fn grow(&mut self) -> &mut Segmented {
        self.base.grow();
        self.big().expect("it was just made big")
    }

    pub(super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if !self.base.slot.is_boxed() {
            let (shape, limits) = (self.base.shape(), self.limits);
            match hash::set_in_small(&mut self.base.slot, shape, field, value, limits) {
                Stored::New => return true,
                Stored::Replaced => return false,
                Stored::MustGrow => {}
            }
        }
        let ahead = self.base.ahead;
        let members = self.grow();
        members.set(members.hash_with(ahead, field), field, value)
    }

    /// Adds a field with all it has.
    pub(super) fn load(&mut self, field: &[u8], value: &[u8], term: Option<MemberTerm>) {
        let Some(MemberTerm { deadline, .. }) = term else {
            self.set(field, value);
            return;
        };
        if let Some(members) = self.big()
            && !members.contains(members.hash(field), field)
        {
            // At once: a deadline that came later would make a hole of the record.
            members.add(members.hash(field), field, value, term);
            self.base.slot.set_dated();
            self.base.file(deadline);
        } else {
            self.set(field, value);
            self.base.set_term(field, term);
        }
    }

    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let (ahead, shape) = (self.base.ahead, self.base.shape());
        let removed = match self.big() {
            Some(members) => members.remove(members.hash_with(ahead, field), field),
            None => hash::remove_from_small(&mut self.base.slot, shape, field),
        };
        if removed {
            self.base.unfile_if_stable();
        }
        removed
    }
}
