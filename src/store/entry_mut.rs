//! An entry of a table, to be changed: the one way to do so, as the table's sum of bytes must
//! follow whatever becomes of its entries.
//!
//! What an entry itself takes is changed by [`Slot::replace`] and its like, which tell by how much;
//! most changes stay within the size class. A value of its own is lent out by
//! [`EntryMut::value_mut`]: it counts for nothing while it may be changed, and is counted again
//! when the table lends another one or is asked for its sum. So whoever edits a list need not say
//! that it has become longer, and many edits of one list in a row are counted once.
//!
//! Not chosen: a guard that counts when it is dropped. It lives to the end of its block, so that
//! every command would have to drop it by hand before it goes on.

use std::ops::Deref;
use std::sync::Arc;

use super::entry::{Form, NewValue, Parts, Slot};
use super::table::Place;
use crate::expiry::index::ItemRef;
use crate::value::packed::Buffer;
use crate::value::{Value, size_class};

/// The bytes of a table's entries with their values, but for the lent value.
#[derive(Default)]
pub struct EntrySum {
    /// Bytes of all others.
    pub bytes: usize,
    /// The entry whose own value was last lent out to be changed.
    pub lent: Option<Place>,
}

/// An entry, to be changed.
pub struct EntryMut<'a> {
    slot: &'a mut Slot,
    place: Place,
    sum: &'a mut EntrySum,
}

impl<'a> EntryMut<'a> {
    /// The entry at a place, in whose table no other is lent.
    #[inline]
    pub fn new(slot: &'a mut Slot, place: Place, sum: &'a mut EntrySum) -> EntryMut<'a> {
        debug_assert!(sum.lent.is_none_or(|lent| lent == place));
        EntryMut { slot, place, sum }
    }

    /// An entry that is in no table, with a sum of its own that holds it.
    pub fn outside(slot: &'a mut Slot, sum: &'a mut EntrySum) -> EntryMut<'a> {
        EntryMut::new(slot, Place::default(), sum)
    }

    /// Its value if that is one of its own, to be changed in place.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        if self.sum.lent.is_none() && self.slot.is_boxed() {
            self.sum.bytes -= self.slot.boxed_bytes();
            self.sum.lent = Some(self.place);
        }
        self.slot.value_mut()
    }

    /// Changes a string that is grown in place, without lending it; none if the value is no such.
    pub fn edit_growable<R>(&mut self, change: impl FnOnce(&mut Arc<Vec<u8>>) -> R) -> Option<R> {
        let Some(Value::Growable(bytes)) = self.slot.value_mut() else {
            return None;
        };
        let before = bytes.capacity();
        let result = change(bytes);
        let after = bytes.capacity();
        if after != before && self.sum.lent.is_none() {
            self.sum.bytes = self.sum.bytes + size_class::of(after) - size_class::of(before);
        }
        Some(result)
    }

    /// [`Slot::replace`].
    #[inline]
    pub fn replace(&mut self, parts: Parts<'_>) -> Option<Box<Value>> {
        let new = boxed_bytes(&parts.value);
        let (old, grown) = self.slot.replace(parts);
        self.count(new, old.as_deref(), grown);
        old
    }

    /// Puts another entry in its place, which is handed out.
    pub fn exchange(&mut self, slot: Slot) -> Slot {
        let old = std::mem::replace(self.slot, slot);
        let old_bytes = match self.sum.lent.take() {
            Some(_) => old.allocated_bytes() - old.boxed_bytes(),
            None => old.allocated_bytes(),
        };
        self.sum.bytes = self.sum.bytes + self.slot.allocated_bytes() - old_bytes;
        old
    }

    /// [`Slot::set_value`].
    pub fn set_value(&mut self, form: Form, value: NewValue<'_>) -> Option<Box<Value>> {
        let new = boxed_bytes(&value);
        let (old, grown) = self.slot.set_value(form, value);
        self.count(new, old.as_deref(), grown);
        old
    }

    /// [`Slot::set_expiry`].
    pub fn set_expiry(&mut self, expiry: Option<super::entry::Expiry>) {
        let grown = self.slot.set_expiry(expiry);
        self.count(0, None, grown);
    }

    /// [`Slot::relocate`].
    pub fn relocate(&mut self) {
        self.slot.relocate();
    }

    /// [`Slot::relocate_box`].
    pub fn relocate_box(&mut self) {
        self.slot.relocate_box();
    }

    /// [`Slot::set_item`].
    pub fn set_item(&mut self, item: ItemRef) {
        self.slot.set_item(item);
    }

    /// [`Slot::set_dated`].
    pub fn set_dated(&mut self) {
        self.slot.set_dated();
    }

    /// Counts by how much the entry itself has grown, and a value of its own that came or went.
    #[inline]
    fn count(&mut self, new: usize, old: Option<&Value>, grown: isize) {
        self.sum.bytes = (self.sum.bytes + new).wrapping_add_signed(grown);
        if let Some(old) = old
            && self.sum.lent.take().is_none()
        {
            self.sum.bytes -= old.allocated_bytes();
        }
    }
}

#[inline]
fn boxed_bytes(value: &NewValue<'_>) -> usize {
    match value {
        NewValue::Inline(_) => 0,
        NewValue::Boxed(value) => value.allocated_bytes(),
    }
}

impl Deref for EntryMut<'_> {
    type Target = Slot;

    #[inline(always)]
    fn deref(&self) -> &Slot {
        self.slot
    }
}

/// A small collection, edited where it lives.
impl Buffer for EntryMut<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.slot.inline()
    }

    fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]) {
        let grown = self.slot.splice(at, removed, inserted);
        self.count(0, None, grown);
    }
}
