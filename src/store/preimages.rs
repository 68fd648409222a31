//! Entries as they were at the cut of a running snapshot (pre-images), kept because a command was
//! about to change or remove them before the snapshot came to them.

use std::collections::VecDeque;

use super::entry::{Slot, ValueRef};
use super::graveyard::Graveyard;
use crate::value::Value;

/// The cut of a running snapshot: what must be kept for it.
#[derive(Default)]
pub struct Cut {
    /// Whether one is running.
    pub is_active: bool,
    /// The stamp of entries that the snapshot need not save (any more).
    pub epoch: u8,
    /// Keys of the cut that came to their deadline and were removed before the snapshot met them.
    pub unkept: u64,
    queue: VecDeque<(u16, Slot)>,
    /// Big collections apart: they take long to encode, and the others should not wait for them.
    big: VecDeque<(u16, Slot)>,
    /// What they take of the limit.
    queued_bytes: usize,
    /// What they take of memory.
    held_bytes: usize,
}

/// What a big collection that waits is said to take, in bytes, at most: pieces that have been
/// changed since. Of a much larger one not all pieces are changed at once.
const BIG_BYTES_MAX: usize = 128 * 1024;

impl Cut {
    /// Whether an entry is to be saved as it is now, and has not been: whoever changes or removes
    /// it hands it over first, if its database was there at the cut.
    #[inline(always)]
    pub fn wants(&self, slot: &Slot) -> bool {
        self.is_active && slot.epoch() != self.epoch
    }

    /// Takes over an entry as it was at the cut.
    pub fn keep(&mut self, db: u16, slot: Slot) {
        self.queued_bytes += Cut::cost_bytes(&slot);
        self.held_bytes += Cut::slot_bytes(&slot);
        match slot.value() {
            ValueRef::Boxed(value) if value.is_collection() => self.big.push_back((db, slot)),
            _ => self.queue.push_back((db, slot)),
        }
    }

    /// An entry is removed that need not be kept, as it is due: it counts if it is part of the cut
    /// and was not met yet. `number` is that of its database at the cut.
    pub fn count_unkept(&mut self, number: Option<u16>, slot: &Slot) {
        let is_pending = number.is_some() && self.wants(slot);
        self.unkept += u64::from(is_pending);
    }

    /// The next kept entry that is no big collection, with the number its database had at the cut.
    pub fn take(&mut self) -> Option<(u16, Slot)> {
        let (db, slot) = self.queue.pop_front()?;
        self.taken(&slot);
        Some((db, slot))
    }

    /// The next kept big collection.
    pub fn take_big(&mut self) -> Option<(u16, Slot)> {
        let (db, slot) = self.big.pop_front()?;
        self.taken(&slot);
        Some((db, slot))
    }

    fn taken(&mut self, slot: &Slot) {
        self.queued_bytes -= Cut::cost_bytes(slot);
        self.held_bytes -= Cut::slot_bytes(slot);
    }

    /// What an entry that waits costs. One that was about to be changed shares its pieces with the
    /// collection that is there now, until they are changed; one that was about to be removed would
    /// not have been freed at once either.
    fn cost_bytes(slot: &Slot) -> usize {
        match slot.value() {
            ValueRef::Boxed(Value::Frozen(frozen)) => {
                size_of::<Value>() + frozen.bytes_up_to(BIG_BYTES_MAX)
            }
            ValueRef::Boxed(value) if value.is_collection() => size_of::<Value>(),
            _ => slot.allocated_bytes(),
        }
    }

    /// Bytes of memory of an entry that waits. Of a frozen collection, pieces that it alone has are
    /// not told from those it shares: it counts as it does for the limit.
    fn slot_bytes(slot: &Slot) -> usize {
        match slot.value() {
            ValueRef::Boxed(Value::Frozen(_)) => Cut::cost_bytes(slot),
            _ => slot.allocated_bytes(),
        }
    }

    /// What kept entries that wait to be written take of `snapshot-backlog-limit`, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes of memory that they take.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Checks that what waits is counted; for tests.
    ///
    /// # Panics
    /// If it is not.
    pub fn check(&self) {
        let slots = self.queue.iter().chain(&self.big);
        let bytes = slots.map(|(_, slot)| Cut::slot_bytes(slot));
        assert_eq!(
            bytes.sum::<usize>(),
            self.held_bytes,
            "kept entries are miscounted"
        );
    }

    /// Drops everything that waits.
    pub fn clear(&mut self, graveyard: &mut Graveyard) {
        for queue in [&mut self.queue, &mut self.big] {
            let slots = std::mem::take(queue).into_iter();
            slots.for_each(|(_, slot)| graveyard.bury_entry(slot));
        }
        (self.queued_bytes, self.held_bytes) = (0, 0);
    }
}
