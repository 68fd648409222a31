//! Sorted sets to be edited.

use super::dated::DatedMut;
use super::empty_packed;
use crate::expiry::{ALL_LIVE, MemberTerm};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::zset_of;
use crate::store::entry::Form;
use crate::store::members::Losses;
use crate::value::zset::{self, Outcome, Zset, ZsetLimits, ZsetRef};
use crate::value::{Kind, Value};

impl Live<'_> {
    /// The sorted set at a key, to be edited, of which all due members are removed first.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_mut(&mut self, key: &[u8]) -> Result<Option<ZsetMut<'_>>, CommandError> {
        self.settle_all_members(key);
        self.zset_by_name_mut(key)
    }

    /// The same for edits of members by name: of the due ones only these are removed.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_by_name_mut(&mut self, key: &[u8]) -> Result<Option<ZsetMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let found = self.edit(key, Kind::Zset)?;
        Ok(found.map(|found| ZsetMut::new(DatedMut::new(found, placement), limits)))
    }

    /// The same; a missing key becomes an empty sorted set, to which the caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_or_new(&mut self, key: &[u8]) -> Result<ZsetMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.zset);
        let found = self.edit_or_new(key, Kind::Zset, || empty_packed(Form::Zset))?;
        Ok(ZsetMut::new(DatedMut::new(found, placement), limits))
    }
}

/// A sorted set to be edited. A due member that an edit meets is removed, counted and reported
/// first: it is as if it were not there.
pub struct ZsetMut<'a> {
    pub(super) base: DatedMut<'a>,
    pub(super) limits: ZsetLimits,
    /// None while it is being loaded.
    pub(super) losses: Option<Losses<'a>>,
}

impl<'a> ZsetMut<'a> {
    #[inline]
    fn new((base, losses): (DatedMut<'a>, Losses<'a>), limits: ZsetLimits) -> ZsetMut<'a> {
        let losses = Some(losses);
        ZsetMut {
            base,
            limits,
            losses,
        }
    }
}

impl ZsetMut<'_> {
    /// Removes a member if it is due.
    #[inline]
    fn settle(&mut self, member: &[u8]) {
        let now = self.losses.as_ref().map_or(ALL_LIVE, |losses| losses.now);
        if let Some(deadline) = self.base.due(member, now) {
            self.remove_any(member);
            if let Some(losses) = &mut self.losses {
                losses.member(&self.base.slot, member, deadline);
            }
        }
    }

    /// The score of a member.
    #[inline]
    pub fn score(&mut self, member: &[u8]) -> Option<f64> {
        self.settle(member);
        self.view().score(member)
    }

    /// The sorted set as it is now, due members that were not met included.
    pub fn view(&self) -> ZsetRef<'_> {
        zset_of(&self.base.slot).expect("only sorted sets get here")
    }

    pub(super) fn big(&mut self) -> Option<&mut Zset> {
        match self.base.slot.value_mut() {
            Some(Value::Zset(zset)) => Some(zset),
            _ => None,
        }
    }

    /// Makes the set big if `expected` members are more than a small one may have.
    pub fn prepare(&mut self, expected: usize) {
        if expected > self.limits.entries_max {
            self.base.grow();
        }
    }

    /// Sets the score of a member, which is added if it is new. The score is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Outcome {
        self.settle(member);
        if let Some(zset) = self.big() {
            return zset.insert(member, score);
        }
        let limits = self.limits;
        let shape = self.base.shape();
        let slot = &mut self.base.slot;
        if let Some(outcome) = zset::insert(slot, shape, member, score, &limits) {
            return outcome;
        }
        self.base.grow();
        self.insert(member, score)
    }

    /// The term of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn term(&mut self, member: &[u8]) -> Option<Option<MemberTerm>> {
        self.settle(member);
        self.view().get(member).map(|(_, term)| term)
    }

    /// Gives a member a deadline, which is not due, or takes it away; false if there is no such
    /// member.
    pub fn set_term(&mut self, member: &[u8], term: Option<MemberTerm>) -> bool {
        let Some(old) = self.term(member) else {
            return false;
        };
        if old != term {
            self.base.set_term(member, term);
        }
        true
    }

    /// Adds a member with the eight bytes of its score, and with all it has; false if they are no
    /// score.
    pub(super) fn load(&mut self, strings: &[&[u8]], term: Option<MemberTerm>) -> bool {
        let [member, score] = strings else {
            return false;
        };
        let score = <[u8; 8]>::try_from(*score).map(f64::from_le_bytes);
        let Some(score) = score.ok().filter(|score| !score.is_nan()) else {
            return false;
        };
        self.insert(member, score);
        if term.is_some() {
            self.set_term(member, term);
        }
        true
    }

    /// Removes a member; its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        self.settle(member);
        self.remove_any(member)
    }

    fn remove_any(&mut self, member: &[u8]) -> Option<f64> {
        let shape = self.base.shape();
        let removed = match self.big() {
            Some(zset) => zset.remove(member),
            None => zset::remove(&mut self.base.slot, shape, member),
        };
        self.base.unfile_if_stable();
        removed
    }

    /// Removes `count` members from a rank on, or as many as there are, handing each to `removed`;
    /// how many there were.
    pub fn remove_ranks(
        &mut self,
        start: usize,
        count: usize,
        removed: impl FnMut(&[u8], f64),
    ) -> usize {
        let shape = self.base.shape();
        let removed = match self.big() {
            Some(zset) => zset.remove_ranks(start, count, removed),
            None => zset::remove_ranks(&mut self.base.slot, shape, (start, count), removed),
        };
        self.base.unfile_if_stable();
        removed
    }
}
