//! Sorted sets to be edited.

use super::{Found, empty_packed};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::zset_of;
use crate::store::entry::{Form, NewValue};
use crate::store::entry_mut::EntryMut;
use crate::value::placement::Placement;
use crate::value::zset::{self, Outcome, Zset, ZsetLimits, ZsetRef};
use crate::value::{Kind, Value};

impl Live<'_> {
    /// The sorted set at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_mut(&mut self, key: &[u8]) -> Result<Option<ZsetMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let found = self.edit(key, Kind::Zset)?;
        Ok(found.map(|Found { slot, .. }| ZsetMut {
            slot,
            placement,
            limits,
        }))
    }

    /// The same; a missing key becomes an empty sorted set, to which the caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_or_new(&mut self, key: &[u8]) -> Result<ZsetMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let Found { slot, .. } = self.edit_or_new(key, Kind::Zset, || empty_packed(Form::Zset))?;
        Ok(ZsetMut {
            slot,
            placement,
            limits,
        })
    }
}

/// A sorted set to be edited.
pub struct ZsetMut<'a> {
    pub(super) slot: EntryMut<'a>,
    pub(super) placement: Placement,
    pub(super) limits: ZsetLimits,
}

impl ZsetMut<'_> {
    /// The sorted set as it is now.
    pub fn view(&self) -> ZsetRef<'_> {
        zset_of(&self.slot).expect("only sorted sets get here")
    }

    pub(super) fn big(&mut self) -> Option<&mut Zset> {
        match self.slot.value_mut() {
            Some(Value::Zset(zset)) => Some(zset),
            _ => None,
        }
    }

    /// Makes the set big if `expected` members are more than a small one may have.
    pub fn prepare(&mut self, expected: usize) {
        if expected > self.limits.entries_max {
            self.grow();
        }
    }

    pub(super) fn grow(&mut self) {
        if !self.slot.is_boxed() {
            let zset = zset::to_big(self.slot.inline(), self.placement);
            let value = NewValue::Boxed(Box::new(Value::Zset(Box::new(zset))));
            self.slot.set_value(Form::Zset, value);
        }
    }

    /// Sets the score of a member, which is added if it is new. The score is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Outcome {
        if let Some(zset) = self.big() {
            return zset.insert(member, score);
        }
        if let Some(outcome) = zset::insert(&mut self.slot, member, score, &self.limits) {
            return outcome;
        }
        self.grow();
        self.insert(member, score)
    }

    /// Adds a member with the eight bytes of its score; false if they are no score.
    pub(super) fn load(&mut self, strings: &[&[u8]]) -> bool {
        let [member, score] = strings else {
            return false;
        };
        let score = <[u8; 8]>::try_from(*score).map(f64::from_le_bytes);
        let Some(score) = score.ok().filter(|score| !score.is_nan()) else {
            return false;
        };
        self.insert(member, score);
        true
    }

    /// Removes a member; its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self.big() {
            Some(zset) => zset.remove(member),
            None => zset::remove(&mut self.slot, member),
        }
    }

    /// Removes `count` members from a rank on, or as many as there are, handing each to `removed`;
    /// how many there were.
    pub fn remove_ranks(
        &mut self,
        start: usize,
        count: usize,
        removed: impl FnMut(&[u8], f64),
    ) -> usize {
        match self.big() {
            Some(zset) => zset.remove_ranks(start, count, removed),
            None => zset::remove_ranks(&mut self.slot, start, count, removed),
        }
    }
}
