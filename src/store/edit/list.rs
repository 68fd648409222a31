//! Lists to be edited.

use super::{Found, empty_packed};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::list_of;
use crate::store::entry::{Form, NewValue, SMALL_MAX};
use crate::store::entry_mut::EntryMut;
use crate::store::graveyard::Graveyard;
use crate::value::list::{List, ListRef, NodeLimit, Side};
use crate::value::packed::{self, End};
use crate::value::{Kind, Value};

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
        } = self.edit_or_new(key, Kind::List, || empty_packed(Form::List))?;
        Ok(ListMut {
            slot,
            graveyard,
            limit,
        })
    }
}

/// A list to be edited.
pub struct ListMut<'a> {
    pub(super) slot: EntryMut<'a>,
    pub(super) graveyard: &'a mut Graveyard,
    pub(super) limit: NodeLimit,
}

impl ListMut<'_> {
    /// The list as it is now.
    pub fn view(&self) -> ListRef<'_> {
        list_of(&self.slot).expect("only lists get here")
    }

    pub(super) fn big(&mut self) -> Option<&mut List> {
        match self.slot.value_mut() {
            Some(Value::List(list)) => Some(list),
            _ => None,
        }
    }

    /// The big form, into which a small list is turned.
    pub(super) fn grown(&mut self) -> &mut List {
        if !self.slot.is_boxed() {
            let list = List::from_packed(self.slot.inline(), self.limit);
            let value = NewValue::Boxed(Box::new(Value::List(list)));
            self.slot.set_value(Form::List, value);
        }
        self.big().expect("it was just made big")
    }

    /// Whether a small list may have one more item, which takes the place of `removed` bytes.
    pub(super) fn fits(&self, item: &[u8], removed: usize) -> bool {
        let packed = self.slot.inline();
        let bytes = packed.len() - removed + packed::item_bytes(item.len());
        let items = packed::len(packed) + usize::from(removed == 0);
        bytes <= SMALL_MAX && self.limit.allows(bytes, items)
    }

    /// Makes a big list small again if it has shrunk enough.
    pub(super) fn settle(&mut self) {
        let limit = self.limit;
        let Some(list) = self.big().filter(|list| list.fits_packed(limit)) else {
            return;
        };
        let Some(packed) = list.to_packed(limit) else {
            return;
        };
        let old = self.slot.set_value(Form::List, NewValue::Inline(&packed));
        old.into_iter()
            .for_each(|list| self.graveyard.bury_value(list));
    }

    /// Adds an item at an end.
    pub fn push(&mut self, end: End, item: &[u8]) {
        if let Some(list) = self.big() {
            list.push(end, item);
        } else if self.fits(item, 0) {
            match end {
                End::Front => packed::push_front(&mut self.slot, &[item]),
                End::Back => packed::push_back(&mut self.slot, &[item]),
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
            packed::remove(&mut self.slot, at, behind);
        }
        let before = start.min(len - behind);
        if before > 0 {
            packed::remove(&mut self.slot, packed::HEADER, before);
        }
    }

    /// Replaces the item of an index; false if there is none.
    pub fn set(&mut self, index: usize, item: &[u8]) -> bool {
        if !self.slot.is_boxed() {
            let Some(old) = packed::at(self.slot.inline(), index) else {
                return false;
            };
            let (at, size) = (old.at, old.end() - old.at);
            if self.fits(item, size) {
                packed::replace(&mut self.slot, at, item);
                return true;
            }
        }
        let is_set = self.grown().set(index, item);
        self.settle();
        is_set
    }

    /// Inserts an item beside the first that equals `pivot`; false if none does.
    pub fn insert(&mut self, side: Side, pivot: &[u8], item: &[u8]) -> bool {
        if !self.slot.is_boxed() {
            let Some(found) = packed::find(self.slot.inline(), pivot, 1) else {
                return false;
            };
            let at = match side {
                Side::Before => found.at,
                Side::After => found.end(),
            };
            if self.fits(item, 0) {
                packed::insert_before(&mut self.slot, at, &[item]);
                return true;
            }
        }
        self.grown().insert(side, pivot, item)
    }

    /// Removes up to `limit` items that equal `unwanted`, those nearest to an end first; how many
    /// there were.
    pub fn remove_equal(&mut self, unwanted: &[u8], limit: usize, end: End) -> usize {
        let Some(list) = self.big() else {
            return packed::remove_equal(&mut self.slot, unwanted, limit, end);
        };
        let removed = list.remove_equal(unwanted, limit, end);
        self.settle();
        removed
    }
}
