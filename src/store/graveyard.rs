//! The graveyard: what is already gone for users but still has to be freed, piece by piece.
//!
//! Freeing a database of millions of keys at once would hold everybody up; here it is freed a few
//! thousand entries per slice, between other work.

use std::collections::VecDeque;

use super::entry::Slot;
use super::table::Table;
use crate::expiry::index::{Remains, Strata};

/// What waits to be freed.
#[derive(Default)]
pub struct Graveyard {
    tables: VecDeque<Table>,
    indexes: VecDeque<Remains>,
    open: Vec<Slot>,
    freed: u64,
}

impl Graveyard {
    /// Takes a database out of use.
    pub fn bury(&mut self, table: Table, mut index: Strata) {
        if !table.is_empty() {
            self.tables.push_back(table);
        }
        if !index.is_empty() {
            self.indexes.push_back(index.clear());
        }
    }

    /// Entries still to be freed.
    pub fn pending(&self) -> usize {
        self.tables.iter().map(Table::len).sum::<usize>() + self.open.len()
    }

    /// Entries freed since start.
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.open.is_empty() && self.indexes.is_empty()
    }

    /// Frees up to `entries` entries.
    pub fn dig(&mut self, entries: usize) {
        if self.open.is_empty() {
            self.open_segment();
        }
        let left = self.open.len().saturating_sub(entries);
        self.freed += (self.open.len() - left) as u64;
        self.open.truncate(left);
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
