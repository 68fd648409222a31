//! What hashes, sets and sorted sets to be edited have in common: the deadlines of their members.
//!
//! Dead members are still seen here. Whoever edits a collection for a command removes those it
//! meets first (`DatedMut::due`).

use crate::clock::UnixMillis;
use crate::expiry::index::Strata;
use crate::expiry::{ALL_LIVE, Deadline, MemberTerm, is_due};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::{hash_of, set_of, small_zset_of};
use crate::store::edit::Found;
use crate::store::edit::hash::HashMut;
use crate::store::edit::set::SetMut;
use crate::store::edit::zset::ZsetMut;
use crate::store::entry::{Form, NewValue};
use crate::store::entry_mut::EntryMut;
use crate::store::members::{self, Losses};
use crate::value::dated_packed::Shape;
use crate::value::placement::{Ahead, Placement};
use crate::value::{Kind, Value, dated_packed};

impl Live<'_> {
    /// The collection at a key, which must be of this type, for what is done to deadlines of its
    /// members.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn members_mut(
        &mut self,
        key: &[u8],
        kind: Kind,
    ) -> Result<Option<AnyMut<'_>>, CommandError> {
        match kind {
            Kind::Set => Ok(self.set_mut(key)?.map(AnyMut::Set)),
            Kind::Zset => Ok(self.zset_by_name_mut(key)?.map(AnyMut::Zset)),
            _ => Ok(self.hash_mut(key)?.map(AnyMut::Hash)),
        }
    }
}

/// A collection whose members may have deadlines, to be edited.
pub enum AnyMut<'a> {
    /// A hash.
    Hash(HashMut<'a>),
    /// A set.
    Set(SetMut<'a>),
    /// A sorted set.
    Zset(ZsetMut<'a>),
}

impl AnyMut<'_> {
    /// The deadline of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn deadline(&mut self, member: &[u8]) -> Option<Option<Deadline>> {
        match self {
            AnyMut::Hash(hash) => hash.find(member).map(|found| found.deadline()),
            AnyMut::Set(set) => set.term(member).map(deadline_of),
            AnyMut::Zset(zset) => zset.term(member).map(deadline_of),
        }
    }

    /// Gives a member a deadline, which is not due, or takes it away; false if there is no such
    /// member.
    pub fn set_term(&mut self, member: &[u8], term: Option<MemberTerm>) -> bool {
        match self {
            AnyMut::Hash(hash) => hash.set_term(member, term),
            AnyMut::Set(set) => set.set_term(member, term),
            AnyMut::Zset(zset) => zset.set_term(member, term),
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            AnyMut::Hash(hash) => hash.remove(member),
            AnyMut::Set(set) => set.remove(member),
            AnyMut::Zset(zset) => zset.remove(member).is_some(),
        }
    }
}

fn deadline_of(term: Option<MemberTerm>) -> Option<Deadline> {
    term.map(|term| term.deadline)
}

/// The entry of a collection whose members may have deadlines, and where it is filed by them.
pub(super) struct DatedMut<'a> {
    pub(super) slot: EntryMut<'a>,
    /// The placement hash of its key.
    pub(super) hash: u64,
    pub(super) index: &'a mut Strata,
    pub(super) placement: Placement,
    pub(super) ahead: Ahead,
    /// The era of the wall clock, and how much later deadlines of the other one are in it, in ms.
    pub(super) era: (bool, i64),
}

impl<'a> DatedMut<'a> {
    /// An entry that was found, and where its dead members are counted.
    #[inline]
    pub(super) fn new(found: Found<'a>, placement: Placement) -> (DatedMut<'a>, Losses<'a>) {
        let Found {
            slot,
            hash,
            index,
            losses,
            ahead,
            era,
            ..
        } = found;
        let base = DatedMut {
            slot,
            hash,
            index,
            placement,
            ahead,
            era,
        };
        (base, losses)
    }

    /// The deadline of a member that is due.
    #[inline]
    pub(super) fn due(&self, member: &[u8], now: UnixMillis) -> Option<Deadline> {
        if !members::may_be_due(&self.slot, now) {
            return None;
        }
        let deadline = members::deadline(&self.slot, member).flatten();
        deadline.filter(|&deadline| is_due(deadline, now))
    }

    /// What a small hash or sorted set has for each element.
    pub(super) fn shape(&self) -> Shape {
        if self.slot.is_dated() {
            Shape::Dated
        } else {
            Shape::Packed
        }
    }

    /// Makes a small collection a big one, dated or not as it was.
    pub(super) fn grow(&mut self) {
        if self.slot.is_boxed() {
            return;
        }
        let (slot, placement) = (&self.slot, self.placement);
        let filed = members::filed(slot);
        let form = match slot.form() {
            Form::IntegerSet => Form::Set,
            form => form,
        };
        let value = match slot.kind() {
            Kind::Set => {
                let set = set_of(slot, ALL_LIVE).expect("it is a set");
                Value::Set(set.to_big(placement))
            }
            Kind::Zset => {
                let small = small_zset_of(slot).expect("it is a sorted set");
                Value::Zset(Box::new(small.to_big(placement)))
            }
            _ => {
                let hash = hash_of(slot, ALL_LIVE).expect("only hashes are left");
                Value::Hash(hash.to_big(placement))
            }
        };
        self.slot.set_value(form, NewValue::Boxed(Box::new(value)));
        if filed.is_some() {
            members::set_filed(&mut self.slot, filed);
        }
    }

    /// Gives members room for deadlines. A set of integers is packed.
    fn become_dated(&mut self) {
        if self.slot.is_dated() {
            return;
        }
        let kind = self.slot.kind();
        if !self.slot.is_boxed() {
            let dated = dated_packed::to_dated(self.slot.inline(), members::strings_of(kind));
            if let Some(dated) = dated {
                let form = Form::of(kind).dated();
                self.slot.set_value(form, NewValue::Inline(&dated));
                return;
            }
            self.grow();
        }
        self.slot.set_dated();
    }

    /// Gives a member, which is there, a deadline, or takes it away.
    pub(super) fn set_term(&mut self, member: &[u8], term: Option<MemberTerm>) {
        let term = term.map(|term| term.in_era(self.era.0, self.era.1));
        if term.is_some() {
            self.become_dated();
        } else if !self.slot.is_dated() {
            return;
        }
        let strings = members::strings_of(self.slot.kind());
        if self.slot.is_boxed() || !dated_packed::set_term(&mut self.slot, strings, member, term) {
            self.grow();
            let ahead = self.ahead;
            match self.slot.value_mut() {
                Some(Value::Set(members) | Value::Hash(members)) => {
                    members.set_term(members.hash_with(ahead, member), member, term);
                }
                Some(Value::Zset(zset)) => zset.set_term(member, term),
                _ => {}
            }
        }
        match term {
            Some(term) => self.file(term.deadline),
            None => self.unfile_if_stable(),
        }
    }

    /// Files the collection no later than this deadline of a member.
    pub(super) fn file(&mut self, deadline: Deadline) {
        let item = match members::filed(&self.slot) {
            None => self.index.insert(self.hash, deadline),
            Some((old, item)) if deadline < old => self.index.change(item, old, deadline),
            Some(_) => return,
        };
        members::set_filed(&mut self.slot, Some((deadline, item)));
    }

    /// Files the collection no more if no member is volatile any more.
    #[inline]
    pub(super) fn unfile_if_stable(&mut self) {
        if self.slot.is_dated()
            && let Some((deadline, item)) = members::filed(&self.slot)
            && members::deadlines_of(&self.slot).is_none_or(|all| all.soonest().is_none())
        {
            self.index.remove(item, deadline);
            members::set_filed(&mut self.slot, None);
        }
    }
}
