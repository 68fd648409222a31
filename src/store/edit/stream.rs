//! Streams to be edited.

use super::{Found, empty_stream};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::stream_of;
use crate::store::entry_mut::EntryMut;
use crate::store::graveyard::Graveyard;
use crate::value::stream::{
    ChunkLimit, ConsumerGroup, Exactness, Facts, Id, References, Stream, Strings, Trim,
};
use crate::value::{Kind, Value};

/// So few chunks are freed at once.
const FREED_CHUNKS_MAX: usize = 4;

/// A group with so few pending entries is freed at once.
const FREED_PENDING_MAX: usize = 500;

impl Live<'_> {
    /// The stream at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn stream_mut(&mut self, key: &[u8]) -> Result<Option<StreamMut<'_>>, CommandError> {
        let limit = self.space.limits.stream;
        let found = self.edit(key, Kind::Stream)?;
        Ok(found.map(|found| StreamMut {
            slot: found.slot,
            graveyard: found.graveyard,
            limit,
        }))
    }

    /// The same; a missing key becomes an empty stream.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn stream_or_new(&mut self, key: &[u8]) -> Result<StreamMut<'_>, CommandError> {
        let limit = self.space.limits.stream;
        let Found {
            slot, graveyard, ..
        } = self.edit_or_new(key, Kind::Stream, empty_stream)?;
        Ok(StreamMut {
            slot,
            graveyard,
            limit,
        })
    }

    /// How many entries a chunk of a stream may hold.
    pub fn stream_chunk_limit(&self) -> ChunkLimit {
        self.space.limits.stream
    }
}

/// A stream to be edited.
pub struct StreamMut<'a> {
    pub(super) slot: EntryMut<'a>,
    pub(super) graveyard: &'a mut Graveyard,
    pub(super) limit: ChunkLimit,
}

impl StreamMut<'_> {
    /// The stream as it is now.
    pub fn view(&self) -> &Stream {
        stream_of(&self.slot).expect("only streams get here")
    }

    fn stream(&mut self) -> &mut Stream {
        match self.slot.value_mut() {
            Some(Value::Stream(stream)) => stream,
            _ => unreachable!("only streams get here"),
        }
    }

    /// What it remembers, to be changed.
    pub fn facts(&mut self) -> &mut Facts {
        self.stream().facts_mut()
    }

    /// Adds an entry behind all others; its id is greater than the last.
    pub fn push<'s>(&mut self, id: Id, pairs: usize, string: &impl Strings<'s>) {
        let limit = self.limit;
        self.stream().push(id, pairs, string, limit);
    }

    /// Deletes an entry; false if there is none.
    pub fn remove(&mut self, id: Id) -> bool {
        self.stream().remove(id)
    }

    /// Deletes an entry as a choice about what is pending says: whether it was there or, being
    /// referenced, might be; and whether it is gone.
    pub fn remove_as(&mut self, id: Id, references: References) -> (bool, bool) {
        let stream = self.stream();
        if references == References::Delete {
            stream.dereference(id);
        }
        if references == References::Acknowledged && stream.is_referenced(id) {
            return (true, false);
        }
        (stream.remove(id), true)
    }

    /// Removes entries at the front as a choice about what is pending says; how many.
    pub fn trim_as(&mut self, trim: Trim, exactness: Exactness, references: References) -> usize {
        match references {
            References::Keep => self.trim(trim, exactness),
            _ => self.stream().trim_referenced(trim, exactness, references),
        }
    }

    /// Removes entries at the front; how many.
    pub fn trim(&mut self, trim: Trim, exactness: Exactness) -> usize {
        let (removed, count) = self.stream().trim(trim, exactness);
        if removed.chunks() > FREED_CHUNKS_MAX {
            let value = Box::new(Value::Stream(Box::new(removed)));
            self.graveyard.bury_value(value);
        }
        count
    }

    /// Changes one of its groups; none if there is no such group.
    pub fn edit_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut ConsumerGroup) -> R,
    ) -> Option<R> {
        self.stream().edit_group(name, change)
    }

    /// Lets `change` change one of its groups while it reads the entries; none if there is no such
    /// group.
    pub fn edit_group_beside<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&Stream, &mut ConsumerGroup) -> R,
    ) -> Option<R> {
        self.stream().edit_group_beside(name, change)
    }

    /// Adds a group, whose name is new.
    pub fn add_group(&mut self, name: &[u8], group: ConsumerGroup) {
        self.stream().insert_group(name, group);
    }

    /// Removes a group; false if there is none of this name.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.stream().remove_group(name) else {
            return false;
        };
        if group.pending_len() > FREED_PENDING_MAX {
            let mut remains = Stream::default();
            remains.insert_group(name, group);
            let value = Box::new(Value::Stream(Box::new(remains)));
            self.graveyard.bury_value(value);
        }
        true
    }

    /// Adds elements of a snapshot; false if they are none.
    pub(super) fn load(&mut self, strings: &[&[u8]]) -> bool {
        let limit = self.limit;
        self.stream().load(strings, limit)
    }
}
