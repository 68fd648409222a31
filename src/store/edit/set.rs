//! Sets to be edited.

use rand::rngs::SmallRng;

use super::{Found, empty_packed};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::collection::set_of;
use crate::store::entry::{Form, NewValue, ValueRef};
use crate::store::entry_mut::EntryMut;
use crate::value::placement::{Ahead, Placement};
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
        Ok(found.map(|Found { slot, ahead, .. }| SetMut {
            slot,
            placement,
            ahead,
            limits,
        }))
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
            SetForm::Packed | SetForm::Big => empty_packed(Form::Set),
        };
        let Found { slot, ahead, .. } = self.edit_or_new(key, Kind::Set, empty)?;
        let mut set = SetMut {
            slot,
            placement,
            ahead,
            limits,
        };
        set.prepare(expected);
        Ok(set)
    }
}

/// A set to be edited.
pub struct SetMut<'a> {
    pub(super) slot: EntryMut<'a>,
    pub(super) placement: Placement,
    pub(super) ahead: Ahead,
    pub(super) limits: SetLimits,
}

impl SetMut<'_> {
    /// The set as it is now.
    pub fn view(&self) -> SetRef<'_> {
        set_of(&self.slot).expect("only sets get here")
    }

    pub(super) fn become_form(&mut self, form: SetForm) {
        match (form, self.view()) {
            (SetForm::Packed, SetRef::Intset(integers)) => {
                let packed = set::intset_to_packed(integers);
                self.slot.set_value(Form::Set, NewValue::Inline(&packed));
            }
            (SetForm::Big, view @ (SetRef::Intset(_) | SetRef::Packed(_))) => {
                let members = view.to_big(self.placement);
                let value = NewValue::Boxed(Box::new(Value::Set(members)));
                self.slot.set_value(Form::Set, value);
            }
            _ => {}
        }
    }

    /// Gives the set the form that suits `expected` members more.
    pub fn prepare(&mut self, expected: usize) {
        if matches!(self.slot.value(), ValueRef::Inline(_)) {
            let form = self.view().form().for_more(expected, self.limits);
            self.become_form(form);
        }
    }

    /// Adds a member; whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        loop {
            if let Some(Value::Set(members)) = self.slot.value_mut() {
                return members.insert(members.hash_with(self.ahead, member), member, b"");
            }
            let added = if self.slot.form() == Form::IntegerSet {
                set::add_to_intset(&mut self.slot, member, self.limits)
            } else {
                set::add_to_packed(&mut self.slot, member, self.limits)
            };
            match added {
                Added::New => return true,
                Added::Present => return false,
                Added::MustBecome(form) => self.become_form(form),
            }
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            return members.remove(members.hash_with(self.ahead, member), member);
        }
        if self.slot.form() == Form::IntegerSet {
            set::remove_from_intset(&mut self.slot, member)
        } else {
            set::remove_from_packed(&mut self.slot, member)
        }
    }

    /// Removes `count` random members, or all if there are not so many, after handing each to
    /// `taken`.
    pub fn pop_many(&mut self, count: usize, rng: &mut SmallRng, mut taken: impl FnMut(&[u8])) {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            for _ in 0..count {
                if !members.random_remove(rng, |element| taken(&element.member)) {
                    return;
                }
            }
            return;
        }
        // Not one after another: each removal would move all that is behind it.
        let form = self.slot.form();
        let kept = set::part(self.view(), count, rng, taken);
        self.slot.set_value(form, NewValue::Inline(&kept));
    }

    /// Removes a random member after handing it to `taken`; false if there is none.
    pub fn pop(&mut self, rng: &mut SmallRng, taken: impl FnOnce(&[u8])) -> bool {
        if let Some(Value::Set(members)) = self.slot.value_mut() {
            return members.random_remove(rng, |element| taken(&element.member));
        }
        if self.slot.form() == Form::IntegerSet {
            set::pop_from_intset(&mut self.slot, rng, taken)
        } else {
            set::pop_from_packed(&mut self.slot, rng, taken)
        }
    }
}
