//! The graveyard: what is already gone for users but still has to be freed, piece by piece.
//!
//! Freeing a database of millions of keys, or a collection of millions of elements, at once would
//! hold everybody up; here both are freed in steps, between other work.
//!
//! A big collection that died with all its members waits here as well while each of these is still
//! to leave an event (`deaths`). That is no work of digging: it is done by expiry.

use std::collections::VecDeque;

use super::db::Db;
use super::entry::Slot;
use super::members;
use super::table::Table;
use crate::clock::UnixMillis;
use crate::expiry::Deadline;
use crate::expiry::index::Remains;
use crate::value::{Kind, Value};

/// Whose members have died all together.
pub struct Owner {
    /// The database.
    pub db: usize,
    /// The type.
    pub kind: Kind,
    /// The key.
    pub key: Box<[u8]>,
    /// When they were removed; all of them were due then.
    pub removed: UnixMillis,
}

/// A collection whose members are still to be told of.
struct Estate {
    owner: Owner,
    value: Box<Value>,
}

/// What waits to be freed.
#[derive(Default)]
pub struct Graveyard {
    tables: VecDeque<Table>,
    indexes: VecDeque<Remains>,
    /// Big collections.
    #[allow(
        clippy::vec_box,
        reason = "they come boxed, and moving a pointer is less"
    )]
    values: Vec<Box<Value>>,
    open: Vec<Slot>,
    estates: VecDeque<Estate>,
    freed: u64,
    bytes: usize,
}

impl Graveyard {
    /// Takes a database out of use.
    pub fn bury(&mut self, db: Db) {
        if !db.table.is_empty() {
            self.bytes += db.table.allocated_bytes() + db.table.entry_bytes();
            self.tables.push_back(db.table);
        }
        for mut index in [db.index, db.members] {
            if !index.is_empty() {
                let remains = index.clear();
                self.bytes += remains.allocated_bytes();
                self.indexes.push_back(remains);
            }
        }
    }

    /// Takes an entry out of use: a big collection in it waits here, all else is freed at once.
    pub fn bury_entry(&mut self, mut slot: Slot) {
        if let Some(value) = slot.take_collection() {
            self.bury_value(value);
        }
    }

    /// Takes a value out of use that was replaced.
    pub fn bury_value(&mut self, value: Box<Value>) {
        if value.is_collection() {
            self.bytes += value.allocated_bytes();
            self.values.push(value);
        }
    }

    /// Takes the entry of a collection out of use whose members are to be told of before.
    pub fn bury_estate(&mut self, mut slot: Slot, owner: Owner) {
        if let Some(value) = slot.take_collection() {
            self.bytes += value.allocated_bytes();
            self.estates.push_back(Estate { owner, value });
        }
    }

    /// Whether members are to be told of.
    #[inline]
    pub fn has_estates(&self) -> bool {
        !self.estates.is_empty()
    }

    /// Removes about `limit` members of the first collection whose members are to be told of, and
    /// tells `heir`; false if there is none.
    pub fn settle_estate(
        &mut self,
        limit: usize,
        mut heir: impl FnMut(&Owner, &[u8], Deadline),
    ) -> bool {
        let Some(Estate { owner, value }) = self.estates.front_mut() else {
            return false;
        };
        let before = value.allocated_bytes();
        let gone = |member: &[u8], deadline| heir(owner, member, deadline);
        let is_over = members::expire_value(value, owner.removed, limit, gone);
        self.bytes -= before;
        self.bytes += value.allocated_bytes();
        if is_over && let Some(estate) = self.estates.pop_front() {
            self.bytes -= estate.value.allocated_bytes();
            self.bury_value(estate.value);
        }
        true
    }

    /// Entries and collections still to be freed.
    pub fn pending(&self) -> usize {
        let entries = self.tables.iter().map(Table::len).sum::<usize>();
        entries + self.open.len() + self.values.len() + self.estates.len()
    }

    /// Collections to be freed, without those of buried databases.
    pub fn pending_values(&self) -> usize {
        self.values.len()
    }

    /// Bytes of memory that it holds. Pieces of a collection that a snapshot still shares count
    /// until they are let go of here.
    pub fn allocated_bytes(&self) -> usize {
        self.bytes
    }

    /// Counts freed entries from here on.
    pub fn reset_stats(&mut self) {
        self.freed = 0;
    }

    /// Entries freed since start or the last [`Graveyard::reset_stats`].
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Whether there is nothing to dig.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.open.is_empty()
            && self.indexes.is_empty()
            && self.values.is_empty()
    }

    /// Frees a piece of a collection, or up to `entries` entries.
    pub fn dig(&mut self, entries: usize) {
        if let Some(value) = self.values.last_mut() {
            let before = value.allocated_bytes();
            if value.dismantle() {
                self.bytes -= before - value.allocated_bytes();
            } else {
                self.bytes -= before;
                self.values.pop();
                self.freed += 1;
            }
            return;
        }
        if self.open.is_empty() {
            self.open_segment();
        }
        let left = self.open.len().saturating_sub(entries);
        self.freed += (self.open.len() - left) as u64;
        let Graveyard {
            open,
            values,
            bytes,
            ..
        } = self;
        for mut slot in open.drain(left..) {
            *bytes -= slot.allocated_bytes();
            if let Some(value) = slot.take_collection() {
                *bytes += value.allocated_bytes();
                values.push(value);
            }
        }
        if self.open.is_empty() && self.tables.is_empty() {
            self.open = Vec::new();
            self.free_index();
        }
    }

    /// Checks that what it holds is counted; for tests.
    ///
    /// # Panics
    /// If it is not.
    pub fn check(&self) {
        let tables = self.tables.iter();
        let tables = tables.map(|table| table.allocated_bytes() + table.counted_bytes());
        let estates = self.estates.iter().map(|estate| &estate.value);
        let values = self.values.iter().chain(estates);
        let values = values.map(|value| value.allocated_bytes());
        let open = self.open.iter().map(Slot::allocated_bytes);
        let indexes = self.indexes.iter().map(Remains::allocated_bytes);
        let bytes = tables.chain(values).chain(open).chain(indexes);
        assert_eq!(bytes.sum::<usize>(), self.bytes, "the graveyard miscounts");
    }

    fn free_index(&mut self) {
        let Some(index) = self.indexes.front_mut() else {
            return;
        };
        let before = index.allocated_bytes();
        if index.free_step() {
            self.bytes -= before - index.allocated_bytes();
        } else {
            self.bytes -= before;
            self.indexes.pop_front();
        }
    }

    fn open_segment(&mut self) {
        let Some(table) = self.tables.front_mut() else {
            return;
        };
        let before = table.allocated_bytes();
        match table.dismantle() {
            Some(slots) => {
                self.open.extend(slots);
                self.bytes -= before - table.allocated_bytes();
            }
            None => {
                self.bytes -= before;
                self.tables.pop_front();
            }
        }
    }
}
