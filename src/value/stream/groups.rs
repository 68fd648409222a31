//! The consumer groups of a stream by name, and the sum of what they take.
//!
//! Invariant ([`Groups::check`]): `bytes` is the sum over all groups. So a group is changed only
//! inside [`Groups::edit`] and its like.

use std::collections::BTreeMap;

use super::group::ConsumerGroup;
use crate::value::size_class;

/// Groups by name.
pub(super) type ByName = BTreeMap<Box<[u8]>, ConsumerGroup>;

/// The groups of one stream.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_name: ByName,
    bytes: usize,
}

impl Clone for Groups {
    /// A copy has no room to spare, and takes fewer bytes.
    fn clone(&self) -> Groups {
        let by_name = self.by_name.clone();
        let bytes = by_name.iter().map(|(name, group)| group_bytes(name, group));
        Groups {
            bytes: bytes.sum(),
            by_name,
        }
    }
}

impl Groups {
    /// All of them.
    pub(super) fn by_name(&self) -> &ByName {
        &self.by_name
    }

    /// Changes a group; none if there is no such group.
    pub(super) fn edit<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut ConsumerGroup) -> R,
    ) -> Option<R> {
        let group = self.by_name.get_mut(name)?;
        Some(edit(group, &mut self.bytes, change))
    }

    /// Changes the last group by name; none if there are no groups.
    pub(super) fn edit_last<R>(
        &mut self,
        change: impl FnOnce(&mut ConsumerGroup) -> R,
    ) -> Option<R> {
        let mut group = self.by_name.last_entry()?;
        Some(edit(group.get_mut(), &mut self.bytes, change))
    }

    /// Changes every group; how many of them `change` said yes of.
    pub(super) fn edit_each(
        &mut self,
        mut change: impl FnMut(&mut ConsumerGroup) -> bool,
    ) -> usize {
        let groups = self.by_name.values_mut();
        let changed = groups.filter_map(|group| {
            let is_changed = edit(group, &mut self.bytes, &mut change);
            is_changed.then_some(())
        });
        changed.count()
    }

    /// Adds a group, in the place of one of its name if there is one.
    pub(super) fn insert(&mut self, name: &[u8], group: ConsumerGroup) {
        self.remove(name);
        self.bytes += group_bytes(name, &group);
        self.by_name.insert(name.into(), group);
    }

    /// Removes a group.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<ConsumerGroup> {
        let group = self.by_name.remove(name)?;
        self.bytes -= group_bytes(name, &group);
        Some(group)
    }

    /// Frees a piece of the last group; false if there is none.
    pub(super) fn dismantle(&mut self) -> bool {
        match self.edit_last(ConsumerGroup::dismantle) {
            None => return false,
            Some(true) => {}
            Some(false) => {
                if let Some((name, group)) = self.by_name.pop_last() {
                    self.bytes -= group_bytes(&name, &group);
                }
            }
        }
        true
    }

    /// Bytes of memory behind them.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes
    }

    /// Asserts every invariant.
    pub(super) fn check(&self) {
        self.by_name.values().for_each(ConsumerGroup::check);
        let groups = self.by_name.iter();
        let bytes = groups.map(|(name, group)| group_bytes(name, group));
        assert_eq!(
            bytes.sum::<usize>(),
            self.bytes,
            "a group is counted wrongly"
        );
    }
}

fn edit<R>(
    group: &mut ConsumerGroup,
    bytes: &mut usize,
    change: impl FnOnce(&mut ConsumerGroup) -> R,
) -> R {
    let before = group.allocated_bytes();
    let result = change(group);
    *bytes = *bytes + group.allocated_bytes() - before;
    result
}

/// Bytes that a group takes with its name. The nodes of such a tree are about three quarters full.
fn group_bytes(name: &[u8], group: &ConsumerGroup) -> usize {
    let place = (size_of::<Box<[u8]>>() + size_of::<ConsumerGroup>()) * 4 / 3;
    place + size_class::of(name.len()) + group.allocated_bytes()
}
