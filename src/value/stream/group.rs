//! Consumer groups: up to where entries were delivered, to whom, and which of these are pending.
//!
//! ```text
//! Group   pending     id -> consumer, time and number of the last delivery      Runs
//!         consumers   number -> name, times, the ids that are pending with it   Runs
//!         names       name -> number
//!         by_time     time of the last delivery, id                             Runs
//! ```
//!
//! What was delivered is kept once, by id; a consumer has only the ids of what is its own. Both are
//! changed in this file alone, and together: [`ConsumerGroup::deliver`],
//! [`ConsumerGroup::acknowledge`] and [`ConsumerGroup::remove_consumer`].
//!
//! Pending entries are ordered by time only in groups for which somebody has asked for idle ones
//! (XREADGROUP CLAIM): the first who asks waits for the sorting, and from then on the order is
//! kept. So groups that never ask do not pay the 24 bytes of each pending entry.
//!
//! Invariants ([`ConsumerGroup::check`]): an id is pending with a consumer if and only if the
//! group's record of it names that consumer.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::id::Id;
use super::runs::{Run, Runs};
use crate::value::size_class;

/// The number of a consumer within its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsumerId(pub u32);

/// The last delivery of an entry that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// To whom.
    pub consumer: ConsumerId,
    /// When, in ms of Unix time.
    pub unix_ms: i64,
    /// How often it was delivered.
    pub count: u64,
}

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Rc<[u8]>,
    /// When it last tried something, in ms of Unix time.
    pub seen_unix_ms: i64,
    /// When it last got something.
    pub active_unix_ms: Option<i64>,
    pending: Runs<Id, ()>,
}

impl Consumer {
    /// Bytes of memory it takes, its place under its number and its name included.
    fn allocated_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        let entries = size_of::<Consumer>() + size_of::<Rc<[u8]>>() + 2 * size_of::<ConsumerId>();
        // Nodes of such trees are three quarters full.
        entries * 4 / 3 + size_class::of(counts + self.name.len()) + self.pending.allocated_bytes()
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The ids that are pending with it, from one on.
    pub fn pending_from(&self, id: Id) -> impl Iterator<Item = Id> + Clone {
        self.pending.iter_from(id).map(|(id, ())| id)
    }

    /// How many there are.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

/// A consumer group.
#[derive(Debug, Default)]
pub struct ConsumerGroup {
    /// Entries up to this one were delivered.
    pub last_id: Id,
    /// How many entries there were up to there, if that is known.
    pub entries_read: Option<u64>,
    pending: Runs<Id, Delivery>,
    consumers: BTreeMap<ConsumerId, Consumer>,
    names: BTreeMap<Rc<[u8]>, ConsumerId>,
    /// What is pending by the time of its delivery, once that was asked for.
    by_time: Option<Runs<(i64, Id), ()>>,
    /// Bytes of all consumers.
    consumer_bytes: usize,
}

impl Clone for ConsumerGroup {
    /// A copy has no room to spare, and takes fewer bytes. Nobody has asked it for idle entries.
    fn clone(&self) -> ConsumerGroup {
        let consumers = self.consumers.clone();
        ConsumerGroup {
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: self.pending.clone(),
            consumer_bytes: consumers.values().map(Consumer::allocated_bytes).sum(),
            names: self.names.clone(),
            by_time: None,
            consumers,
        }
    }
}

impl ConsumerGroup {
    /// The number of a consumer.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// A consumer.
    ///
    /// # Panics
    /// If the number is none of this group.
    pub fn consumer(&self, id: ConsumerId) -> &Consumer {
        &self.consumers[&id]
    }

    /// The same, to be changed.
    ///
    /// # Panics
    /// If the number is none of this group.
    pub fn consumer_mut(&mut self, id: ConsumerId) -> &mut Consumer {
        self.consumers.get_mut(&id).expect("it is of this group")
    }

    /// Adds a consumer, whose name is new.
    pub fn add_consumer(&mut self, name: &[u8], unix_ms: i64) -> ConsumerId {
        let last = self.consumers.keys().next_back();
        let mut id = ConsumerId(last.map_or(0, |id| id.0.wrapping_add(1)));
        while self.consumers.contains_key(&id) {
            id.0 = id.0.wrapping_add(1);
        }
        self.insert_consumer(id, name, unix_ms, None);
        id
    }

    fn insert_consumer(&mut self, id: ConsumerId, name: &[u8], seen: i64, active: Option<i64>) {
        let name: Rc<[u8]> = name.into();
        self.names.insert(name.clone(), id);
        let consumer = Consumer {
            name,
            seen_unix_ms: seen,
            active_unix_ms: active,
            pending: Runs::default(),
        };
        self.consumer_bytes += consumer.allocated_bytes();
        self.consumers.insert(id, consumer);
    }

    /// Changes what is pending with a consumer.
    fn change_pending(
        &mut self,
        id: ConsumerId,
        change: impl FnOnce(&mut Runs<Id, ()>) -> Option<()>,
    ) {
        let consumer = self.consumers.get_mut(&id).expect("it is of this group");
        let before = consumer.pending.allocated_bytes();
        change(&mut consumer.pending);
        self.consumer_bytes = self.consumer_bytes + consumer.pending.allocated_bytes() - before;
    }

    /// Removes a consumer; how many entries were pending with it.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let id = self.names.remove(name)?;
        let consumer = self.consumers.remove(&id)?;
        self.consumer_bytes -= consumer.allocated_bytes();
        for (id, ()) in consumer.pending.iter_from(Id::MIN) {
            let delivery = self.pending.remove(id);
            if let (Some(by_time), Some(delivery)) = (&mut self.by_time, delivery) {
                by_time.remove((delivery.unix_ms, id));
            }
        }
        Some(consumer.pending.len())
    }

    /// All consumers, by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.names.values().map(|id| &self.consumers[id])
    }

    /// How many entries are pending.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The first and the last id that is pending.
    pub fn pending_ends(&self) -> Option<(Id, Id)> {
        self.pending.first().zip(self.pending.last())
    }

    /// The last delivery of a pending entry.
    pub fn delivery(&self, id: Id) -> Option<Delivery> {
        self.pending.get(id).copied()
    }

    /// The pending entries from an id on.
    pub fn pending_from(&self, id: Id) -> impl Iterator<Item = (Id, Delivery)> + Clone {
        let all = self.pending.iter_from(id);
        all.map(|(id, delivery)| (id, *delivery))
    }

    /// Sorts the pending entries by the time of their delivery, unless they are sorted already.
    pub fn sort_by_time(&mut self) {
        if self.by_time.is_some() {
            return;
        }
        let all = self.pending.iter_from(Id::MIN);
        let mut all: Vec<(i64, Id)> = all.map(|(id, delivery)| (delivery.unix_ms, id)).collect();
        all.sort_unstable();
        let mut by_time = Runs::default();
        for key in all {
            by_time.insert(key, ());
        }
        self.by_time = Some(by_time);
    }

    /// When the pending entries were delivered, in ms of Unix time, and their ids: those that have
    /// been idle longest first. None unless they have been sorted.
    pub fn by_time(&self) -> impl Iterator<Item = (i64, Id)> {
        let sorted = self.by_time.iter();
        sorted.flat_map(|by_time| by_time.iter_from((i64::MIN, Id::MIN)).map(|(key, ())| key))
    }

    /// Records that an entry was delivered.
    pub fn deliver(&mut self, id: Id, delivery: Delivery) {
        let old = self.pending.insert(id, delivery);
        if let Some(by_time) = &mut self.by_time {
            if let Some(old) = old {
                by_time.remove((old.unix_ms, id));
            }
            by_time.insert((delivery.unix_ms, id), ());
        }
        if old.is_some_and(|old| old.consumer == delivery.consumer) {
            return;
        }
        if let Some(old) = old {
            self.change_pending(old.consumer, |pending| pending.remove(id));
        }
        self.change_pending(delivery.consumer, |pending| pending.insert(id, ()));
    }

    /// Takes an entry from those that are pending; false if it is none of them.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let Some(old) = self.pending.remove(id) else {
            return false;
        };
        if let Some(by_time) = &mut self.by_time {
            by_time.remove((old.unix_ms, id));
        }
        self.change_pending(old.consumer, |pending| pending.remove(id));
        true
    }

    /// The pieces as they are now.
    pub(super) fn freeze(&self, name: &[u8]) -> Vec<Piece> {
        let mut pieces = vec![Piece::Group {
            name: name.into(),
            last_id: self.last_id,
            entries_read: self.entries_read,
        }];
        pieces.extend(
            self.consumers
                .iter()
                .map(|(&id, consumer)| Piece::Consumer {
                    id,
                    name: consumer.name.clone(),
                    seen_unix_ms: consumer.seen_unix_ms,
                    active_unix_ms: consumer.active_unix_ms,
                }),
        );
        pieces.extend(self.pending.freeze().map(Piece::Pending));
        pieces
    }

    /// Adds a consumer of a snapshot; none if it is there already.
    pub(super) fn load_consumer(
        &mut self,
        id: ConsumerId,
        name: &[u8],
        seen: i64,
        active: Option<i64>,
    ) -> Option<()> {
        if self.consumers.contains_key(&id) || self.names.contains_key(name) {
            return None;
        }
        self.insert_consumer(id, name, seen, active);
        Some(())
    }

    /// Adds a pending entry of a snapshot; none if its consumer is not there, or the entry is.
    pub(super) fn load_pending(&mut self, id: Id, delivery: Delivery) -> Option<()> {
        let is_known = self.consumers.contains_key(&delivery.consumer);
        if !is_known || self.pending.get(id).is_some() {
            return None;
        }
        self.deliver(id, delivery);
        Some(())
    }

    /// Frees a piece; false if nothing is left.
    pub(super) fn dismantle(&mut self) -> bool {
        if self.by_time.as_mut().is_some_and(Runs::dismantle) || self.pending.dismantle() {
            return true;
        }
        let Some(mut last) = self.consumers.last_entry() else {
            return false;
        };
        let before = last.get().allocated_bytes();
        if last.get_mut().pending.dismantle() {
            self.consumer_bytes = self.consumer_bytes + last.get().allocated_bytes() - before;
        } else {
            let consumer = last.remove();
            self.names.remove(&consumer.name);
            self.consumer_bytes -= before;
        }
        true
    }

    /// Bytes of memory behind it.
    pub(super) fn allocated_bytes(&self) -> usize {
        let by_time = self.by_time.as_ref().map_or(0, Runs::allocated_bytes);
        self.pending.allocated_bytes() + by_time + self.consumer_bytes
    }

    /// Asserts every invariant.
    pub(super) fn check(&self) {
        self.pending.check();
        assert_eq!(self.names.len(), self.consumers.len());
        for (name, id) in &self.names {
            assert_eq!(self.consumers[id].name, *name);
        }
        let mut sum = 0;
        for (number, consumer) in &self.consumers {
            consumer.pending.check();
            for id in consumer.pending_from(Id::MIN) {
                let delivery = self.delivery(id).expect("it is pending");
                assert_eq!(delivery.consumer, *number);
            }
            sum += consumer.pending.len();
        }
        assert_eq!(sum, self.pending.len(), "an entry is pending with nobody");
        if let Some(by_time) = &self.by_time {
            by_time.check();
            assert_eq!(by_time.len(), self.pending.len());
            let all = self.pending.iter_from(Id::MIN);
            let mut keys = all.map(|(id, delivery)| (delivery.unix_ms, id));
            assert!(keys.all(|key| by_time.get(key).is_some()));
        }
        let bytes = self.consumers.values().map(Consumer::allocated_bytes);
        assert_eq!(bytes.sum::<usize>(), self.consumer_bytes);
    }
}

/// A piece of a group that does not change.
#[derive(Clone, Debug)]
pub enum Piece {
    /// The group itself.
    Group {
        /// Its name.
        name: Rc<[u8]>,
        /// [`ConsumerGroup::last_id`]
        last_id: Id,
        /// [`ConsumerGroup::entries_read`]
        entries_read: Option<u64>,
    },
    /// A consumer of the group before it.
    Consumer {
        /// Its number.
        id: ConsumerId,
        /// Its name.
        name: Rc<[u8]>,
        /// [`Consumer::seen_unix_ms`]
        seen_unix_ms: i64,
        /// [`Consumer::active_unix_ms`]
        active_unix_ms: Option<i64>,
    },
    /// Pending entries of the group before them.
    Pending(Rc<Run<Id, Delivery>>),
}
