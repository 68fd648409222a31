//! The graveyard: what is already gone for users but still has to be freed, piece by piece.
//!
//! Freeing a database of millions of keys, or a collection of millions of elements, at once would
//! hold everybody up; here both are freed in steps, between other work.

use std::collections::VecDeque;

use super::db::Db;
use super::entry::Slot;
use super::table::Table;
use crate::expiry::index::Remains;
use crate::value::Value;

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
    freed: u64,
}

impl Graveyard {
    /// Takes a database out of use.
    pub fn bury(&mut self, db: Db) {
        if !db.table.is_empty() {
            self.tables.push_back(db.table);
        }
        for mut index in [db.index, db.members] {
            if !index.is_empty() {
                self.indexes.push_back(index.clear());
            }
        }
    }

    /// Takes an entry out of use: a big collection in it waits here, all else is freed at once.
    pub fn bury_entry(&mut self, mut slot: Slot) {
        if let Some(value) = slot.take_collection() {
            self.values.push(value);
        }
    }

    /// Takes a value out of use that was replaced.
    pub fn bury_value(&mut self, value: Box<Value>) {
        if value.is_collection() {
            self.values.push(value);
        }
    }

    /// Entries and collections still to be freed.
    pub fn pending(&self) -> usize {
        let entries = self.tables.iter().map(Table::len).sum::<usize>();
        entries + self.open.len() + self.values.len()
    }

    /// Collections to be freed, without those of buried databases.
    pub fn pending_values(&self) -> usize {
        self.values.len()
    }

    /// Counts freed entries from here on.
    pub fn reset_stats(&mut self) {
        self.freed = 0;
    }

    /// Entries freed since start or the last [`Graveyard::reset_stats`].
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.open.is_empty()
            && self.indexes.is_empty()
            && self.values.is_empty()
    }

    /// Frees a piece of a collection, or up to `entries` entries.
    pub fn dig(&mut self, entries: usize) {
        if let Some(value) = self.values.last_mut() {
            if !value.dismantle() {
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
        let Graveyard { open, values, .. } = self;
        values.extend(
            open.drain(left..)
                .filter_map(|mut slot| slot.take_collection()),
        );
        if self.open.is_empty() && self.tables.is_empty() {
            self.open = Vec::new();
            if let Some(index) = self.indexes.front_mut()
                && !index.free_step()
            {
                self.indexes.pop_front();
            }
        }
    }

    fn open_segment(&mut self) {
        let Some(table) = self.tables.front_mut() else {
            return;
        };
        match table.dismantle() {
            Some(slots) => self.open.extend(slots),
            None => drop(self.tables.pop_front()),
        }
    }
}
