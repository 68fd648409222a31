//! Sets to be edited: while that is done, due members are removed as they are met.

use rand::rngs::SmallRng;

use super::dated::DatedMut;
use super::{Found, empty_packed};
use crate::expiry::{ALL_LIVE, MemberTerm};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::set_of;
use crate::store::entry::{Form, NewValue};
use crate::store::members::Losses;
use crate::value::segmented::Segmented;
use crate::value::set::{self, Added, SetForm, SetLimits, SetRef};
use crate::value::{Kind, Value, intset};

impl Live<'_> {
    /// The set at a key, to be edited.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set_mut(&mut self, key: &[u8]) -> Result<Option<SetMut<'_>>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.set);
        let found = self.edit(key, Kind::Set)?;
        Ok(found.map(|found| SetMut::new(DatedMut::new(found, placement), limits)))
    }

    /// The same; a missing key becomes an empty set in the form that suits the first member and as
    /// many as `expected`. The caller must add something.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set_or_new(
        &mut self,
        key: &[u8],
        first: &[u8],
        expected: usize,
    ) -> Result<SetMut<'_>, CommandError> {
        let (placement, limits) = (self.space.placement, self.space.limits.set);
        let empty = || match SetForm::of_new(first, expected, limits) {
            SetForm::Intset => (Form::IntegerSet, NewValue::Inline(intset::EMPTY)),
            _ => empty_packed(Form::Set),
        };
        let found: Found<'_> = self.edit_or_new(key, Kind::Set, empty)?;
        let mut set = SetMut::new(DatedMut::new(found, placement), limits);
        set.prepare(expected);
        Ok(set)
    }
}

/// A set to be edited. A due member that an edit meets is removed, counted and reported first: it
/// is as if it were not there.
pub struct SetMut<'a> {
    members: MembersMut<'a>,
    losses: Losses<'a>,
}

impl<'a> SetMut<'a> {
    #[inline]
    fn new((base, losses): (DatedMut<'a>, Losses<'a>), limits: SetLimits) -> SetMut<'a> {
        let members = MembersMut { base, limits };
        SetMut { members, losses }
    }

    /// The set as it is now.
    pub fn view(&self) -> SetRef<'_> {
        set_of(&self.members.base.slot, self.losses.now).expect("only sets get here")
    }

    /// Gives the set the form that suits `expected` members more.
    pub fn prepare(&mut self, expected: usize) {
        if !self.members.base.slot.is_boxed() {
            let form = self.view().form().for_more(expected, self.members.limits);
            self.members.become_form(form);
        }
    }

    /// Adds a member; whether it is new. One that is not keeps its deadline.
    pub fn add(&mut self, member: &[u8]) -> bool {
        self.settle(member);
        self.members.add(member)
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.settle(member);
        self.members.remove(member)
    }

    /// The term of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn term(&mut self, member: &[u8]) -> Option<Option<MemberTerm>> {
        self.settle(member);
        self.view().term(member)
    }

    /// Gives a member a deadline, which is not due, or takes it away; false if there is no such
    /// member.
    pub fn set_term(&mut self, member: &[u8], term: Option<MemberTerm>) -> bool {
        let Some(old) = self.term(member) else {
            return false;
        };
        if old != term {
            self.members.set_term(member, term);
        }
        true
    }

    /// Removes a member if it is due.
    #[inline]
    fn settle(&mut self, member: &[u8]) {
        let SetMut { members, losses } = self;
        if let Some(deadline) = members.base.due(member, losses.now) {
            members.remove(member);
            losses.member(&members.base.slot, member, deadline);
        }
    }

    /// Removes `count` random members, or all if there are not so many, after handing each to
    /// `taken`.
    pub fn pop_many(&mut self, count: usize, rng: &mut SmallRng, mut taken: impl FnMut(&[u8])) {
        if self.members.base.slot.is_dated() {
            let mut drawn: Vec<Vec<u8>> = Vec::new();
            self.view()
                .sample(count, rng, |member| drawn.push(member.to_vec()));
            for member in drawn {
                taken(&member);
                self.members.remove(&member);
            }
            return;
        }
        if let Some(members) = self.members.big() {
            for _ in 0..count {
                if !members.random_remove(rng, |element| taken(&element.member)) {
                    return;
                }
            }
            return;
        }
        // Not one after another: each removal would move all that is behind it.
        let form = self.members.base.slot.form();
        let kept = set::part(self.view(), count, rng, taken);
        let slot = &mut self.members.base.slot;
        slot.set_value(form, NewValue::Inline(&kept));
    }

    /// Removes a random member after handing it to `taken`; false if there is none.
    pub fn pop(&mut self, rng: &mut SmallRng, taken: impl FnOnce(&[u8])) -> bool {
        let slot = &mut self.members.base.slot;
        match slot.form() {
            Form::DatedSet => {
                let drawn = self.view().random(rng).map(|member| member.to_vec());
                drawn.is_some_and(|member| {
                    taken(&member);
                    self.members.remove(&member)
                })
            }
            _ if slot.is_boxed() => self
                .members
                .big()
                .is_some_and(|all| all.random_remove(rng, |element| taken(&element.member))),
            Form::IntegerSet => set::pop_from_intset(slot, rng, taken),
            _ => set::pop_from_packed(slot, rng, taken),
        }
    }
}

/// The members of a set, dead or alive, to be edited.
pub(super) struct MembersMut<'a> {
    pub(super) base: DatedMut<'a>,
    pub(super) limits: SetLimits,
}

impl MembersMut<'_> {
    fn big(&mut self) -> Option<&mut Segmented> {
        match self.base.slot.value_mut() {
            Some(Value::Set(members)) => Some(members),
            _ => None,
        }
    }

    fn become_form(&mut self, form: SetForm) {
        match (form, self.base.slot.form()) {
            (SetForm::Packed, Form::IntegerSet) => {
                let packed = set::intset_to_packed(self.base.slot.inline());
                let slot = &mut self.base.slot;
                slot.set_value(Form::Set, NewValue::Inline(&packed));
            }
            (SetForm::Big, _) => self.base.grow(),
            _ => {}
        }
    }

    /// Adds a member; whether it is new.
    fn add(&mut self, member: &[u8]) -> bool {
        loop {
            let ahead = self.base.ahead;
            if let Some(members) = self.big() {
                return members.insert(members.hash_with(ahead, member), member, b"");
            }
            let (slot, limits) = (&mut self.base.slot, self.limits);
            let added = match slot.form() {
                Form::IntegerSet => set::add_to_intset(slot, member, limits),
                Form::DatedSet => set::add_to_dated(slot, member, limits),
                _ => set::add_to_packed(slot, member, limits),
            };
            match added {
                Added::New => return true,
                Added::Present => return false,
                Added::MustBecome(form) => self.become_form(form),
            }
        }
    }

    /// Adds a member with all it has.
    pub(super) fn load(&mut self, member: &[u8], term: Option<MemberTerm>) {
        let Some(MemberTerm { deadline, .. }) = term else {
            self.add(member);
            return;
        };
        if let Some(members) = self.big()
            && !members.contains(members.hash(member), member)
        {
            // At once: a deadline that came later would make a hole of the record.
            members.add(members.hash(member), member, b"", term);
            self.base.slot.set_dated();
            self.base.file(deadline);
        } else {
            self.add(member);
            self.set_term(member, term);
        }
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let ahead = self.base.ahead;
        if let Some(members) = self.big() {
            let removed = members.remove(members.hash_with(ahead, member), member);
            if removed {
                self.base.unfile_if_stable();
            }
            return removed;
        }
        let slot = &mut self.base.slot;
        match slot.form() {
            Form::IntegerSet => set::remove_from_intset(slot, member),
            Form::DatedSet => {
                let removed = set::remove_from_dated(slot, member);
                self.base.unfile_if_stable();
                removed
            }
            _ => set::remove_from_packed(slot, member),
        }
    }

    /// Gives a member, which is there, a deadline, or takes it away.
    fn set_term(&mut self, member: &[u8], term: Option<MemberTerm>) {
        if term.is_some() && self.base.slot.form() == Form::IntegerSet {
            let set = set_of(&self.base.slot, ALL_LIVE).expect("only sets get here");
            let longest = set.iter().map(|member| member.len()).max().unwrap_or(0);
            let is_small = set.len() <= self.limits.packed_entries_max
                && longest <= self.limits.packed_value_bytes_max;
            let form = if is_small {
                SetForm::Packed
            } else {
                SetForm::Big
            };
            self.become_form(form);
        }
        self.base.set_term(member, term);
    }
}
