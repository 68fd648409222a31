//! A set, whatever its form: how it is read, how a small one is edited, and when it must become
//! another.
//!
//! ```text
//!            a member that is no integer          too many, or too long a member
//! intset ----------------------------------> packed --------------------------> big
//!    \_________________________________________________________________________/
//!                  too many, or what is added does not fit `packed`
//! ```
//!
//! With the first deadline of a member an intset becomes packed or big, and a packed set what
//! [`dated_packed`] is; that may become big as well.
//!
//! A set never goes back by removals. The two small forms lie inside their key's entry and are
//! edited through [`Buffer`]; an edit that does not fit changes nothing and says which form the set
//! must have for it.

use std::ops::Deref;

use rand::RngExt;
use rand::rngs::SmallRng;

use super::dated_packed::{self, FILED_BYTES, Inner};
use super::packed::{self, Buffer};
use super::placement::{Ahead, Placement};
use super::segmented::{Content, Element, Segmented, sample_by_walk};
use super::{SMALL_BYTES_MAX, StringRef, intset, number};
use crate::clock::UnixMillis;
use crate::expiry::{ALL_LIVE, MemberTerm};

/// When a small set must become another.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`: members of an intset.
    pub intset_entries_max: usize,
    /// `set-max-listpack-entries`: members of a packed set.
    pub packed_entries_max: usize,
    /// `set-max-listpack-value`: bytes of a member of a packed set.
    pub packed_value_bytes_max: usize,
}

/// Strings of a member.
pub const STRINGS: usize = 1;

/// What a set is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetForm {
    /// Sorted integers ([`intset`]).
    Intset,
    /// Members in the order they came ([`packed`]).
    Packed,
    /// The same, with deadlines ([`dated_packed`]).
    Dated,
    /// A table ([`Segmented`]).
    Big,
}

impl SetForm {
    /// The form of a new set whose first member this is and that about to get `expected` of them.
    pub fn of_new(first: &[u8], expected: usize, limits: SetLimits) -> SetForm {
        if expected <= limits.intset_entries_max && number::is_canonical_i64(first) {
            SetForm::Intset
        } else if expected <= limits.packed_entries_max {
            SetForm::Packed
        } else {
            SetForm::Big
        }
    }

    /// The form a set of this form should have before `expected` members are added to it, so that
    /// it is not converted half-way. As in Redis, members that are there already count.
    pub fn for_more(self, expected: usize, limits: SetLimits) -> SetForm {
        match self {
            SetForm::Intset if expected <= limits.intset_entries_max => SetForm::Intset,
            SetForm::Packed | SetForm::Dated if expected <= limits.packed_entries_max => self,
            _ => SetForm::Big,
        }
    }

    /// The name OBJECT ENCODING answers.
    pub const fn name(self) -> &'static str {
        match self {
            SetForm::Intset => "intset",
            SetForm::Packed => "listpack",
            SetForm::Dated => "listpackex",
            SetForm::Big => "hashtable",
        }
    }
}

/// What became of a member added to a small set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is a member now.
    New,
    /// It was one before.
    Present,
    /// Nothing was changed: the set must be converted to this form first.
    MustBecome(SetForm),
}

/// Adds a member to an intset.
pub fn add_to_intset<B: Buffer>(buffer: &mut B, member: &[u8], limits: SetLimits) -> Added {
    let intset = buffer.bytes();
    let len = intset::len(intset);
    if let Some(value) = number::parse_i64(member) {
        if intset::contains(intset, value) {
            return Added::Present;
        }
        if len >= limits.intset_entries_max || intset::bytes_with(intset, value) > SMALL_BYTES_MAX {
            return Added::MustBecome(SetForm::Big);
        }
        intset::insert(buffer, value);
        return Added::New;
    }
    let bytes = packed::HEADER
        + intset::iter(intset)
            .map(|value| packed::item_bytes(SetMember::integer(value).len()))
            .sum::<usize>()
        + packed::item_bytes(member.len());
    // The longest texts are at the ends.
    let ends = [0, len.wrapping_sub(1)].map(|rank| intset::get(intset, rank));
    let longest = ends
        .into_iter()
        .flatten()
        .map(|value| SetMember::integer(value).len());
    let longest = longest.max().unwrap_or(0).max(member.len());
    if len < limits.packed_entries_max
        && longest <= limits.packed_value_bytes_max
        && bytes <= SMALL_BYTES_MAX
    {
        Added::MustBecome(SetForm::Packed)
    } else {
        Added::MustBecome(SetForm::Big)
    }
}

/// Adds a member to a packed set.
pub fn add_to_packed<B: Buffer>(buffer: &mut B, member: &[u8], limits: SetLimits) -> Added {
    let set = buffer.bytes();
    if packed::find(set, member, 1).is_some() {
        return Added::Present;
    }
    if packed::len(set) >= limits.packed_entries_max
        || member.len() > limits.packed_value_bytes_max
        || set.len() + packed::item_bytes(member.len()) > SMALL_BYTES_MAX
    {
        return Added::MustBecome(SetForm::Big);
    }
    packed::push_back(buffer, &[member]);
    Added::New
}

/// Adds a member without a deadline to a dated set.
pub fn add_to_dated<B: Buffer>(buffer: &mut B, member: &[u8], limits: SetLimits) -> Added {
    let mut inner = Inner(buffer, FILED_BYTES);
    let set = inner.bytes();
    if packed::find(set, member, STRINGS + 1).is_some() {
        return Added::Present;
    }
    let bytes = packed::item_bytes(member.len()) + packed::item_bytes(0);
    if packed::len(set) / (STRINGS + 1) >= limits.packed_entries_max
        || member.len() > limits.packed_value_bytes_max
        || set.len() + bytes > SMALL_BYTES_MAX
    {
        return Added::MustBecome(SetForm::Big);
    }
    packed::push_back(&mut inner, &[member, b""]);
    Added::New
}

/// Removes a member from a dated set; whether it was there.
pub fn remove_from_dated<B: Buffer>(buffer: &mut B, member: &[u8]) -> bool {
    let mut inner = Inner(buffer, FILED_BYTES);
    let Some(item) = packed::find(inner.bytes(), member, STRINGS + 1) else {
        return false;
    };
    let at = item.at;
    packed::remove(&mut inner, at, STRINGS + 1);
    true
}

/// Removes a member from an intset; whether it was there.
pub fn remove_from_intset<B: Buffer>(buffer: &mut B, member: &[u8]) -> bool {
    number::parse_i64(member).is_some_and(|value| intset::remove(buffer, value))
}

/// Removes a member from a packed set; whether it was there.
pub fn remove_from_packed<B: Buffer>(buffer: &mut B, member: &[u8]) -> bool {
    let Some(item) = packed::find(buffer.bytes(), member, 1) else {
        return false;
    };
    let (at, end) = (item.at, item.end());
    packed::remove_span(buffer, at, end, 1);
    true
}

/// Removes a random member of an intset after handing it to `taken`; false if there is none.
pub fn pop_from_intset<B: Buffer>(
    buffer: &mut B,
    rng: &mut SmallRng,
    taken: impl FnOnce(&[u8]),
) -> bool {
    let rank = rng.random_range(0..intset::len(buffer.bytes()).max(1));
    let Some(value) = intset::get(buffer.bytes(), rank) else {
        return false;
    };
    taken(&SetMember::integer(value));
    intset::remove(buffer, value)
}

/// Removes a random member of a packed set after handing it to `taken`; false if there is none.
pub fn pop_from_packed<B: Buffer>(
    buffer: &mut B,
    rng: &mut SmallRng,
    taken: impl FnOnce(&[u8]),
) -> bool {
    let index = rng.random_range(0..packed::len(buffer.bytes()).max(1));
    let Some(item) = packed::at(buffer.bytes(), index) else {
        return false;
    };
    taken(item.bytes);
    let (at, end) = (item.at, item.end());
    packed::remove_span(buffer, at, end, 1);
    true
}

/// Parts a small set at random: hands `count` members, or all if there are not so many, to `taken`,
/// and gives the set of the others, in the same form.
pub fn part(
    set: SetRef<'_>,
    mut count: usize,
    rng: &mut SmallRng,
    mut taken: impl FnMut(&[u8]),
) -> Vec<u8> {
    let mut kept = match set {
        SetRef::Intset(_) => intset::EMPTY.to_vec(),
        _ => packed::EMPTY.to_vec(),
    };
    let mut left = set.len();
    for member in set.iter() {
        // As in `sample_by_walk`.
        let is_taken = rng.random_range(0..left) < count;
        left -= 1;
        if is_taken {
            count -= 1;
            taken(&member);
        } else if let (SetRef::Intset(_), Some(value)) = (set, number::parse_i64(&member)) {
            intset::insert(&mut kept, value);
        } else {
            packed::push_back(&mut kept, &[&member]);
        }
    }
    kept
}

/// The packed set of an intset's members, in ascending order.
pub fn intset_to_packed(intset: &[u8]) -> Vec<u8> {
    let mut set = packed::EMPTY.to_vec();
    for value in intset::iter(intset) {
        packed::push_back(&mut set, &[&SetMember::integer(value)]);
    }
    set
}

/// A member of a set.
#[derive(Clone, Copy, Debug)]
pub enum SetMember<'a> {
    /// An integer, as text.
    Integer {
        /// Where the text starts; the rest is of no meaning.
        digits: [u8; 20],
        /// How long it is.
        len: u8,
    },
    /// A string.
    String(StringRef<'a>),
}

impl SetMember<'_> {
    fn integer(value: i64) -> Self {
        let mut digits = [0; 20];
        let len = number::format_i64(value, &mut digits).len() as u8;
        SetMember::Integer { digits, len }
    }
}

impl Deref for SetMember<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            SetMember::Integer { digits, len } => &digits[..usize::from(*len)],
            SetMember::String(string) => string.as_bytes(),
        }
    }
}

/// A set to be read, at one instant if it has deadlines: dead members are not seen.
#[derive(Clone, Copy)]
pub enum SetRef<'a> {
    /// Sorted integers.
    Intset(&'a [u8]),
    /// Members in the order they came.
    Packed(&'a [u8]),
    /// A table.
    Big(&'a Segmented),
    /// Members in the order they came, with deadlines.
    Dated(&'a [u8], UnixMillis),
    /// A table in which there are deadlines, or were.
    DatedBig(&'a Segmented, UnixMillis),
}

impl<'a> SetRef<'a> {
    /// What it is made of.
    pub fn form(self) -> SetForm {
        match self {
            SetRef::Intset(_) => SetForm::Intset,
            SetRef::Packed(_) => SetForm::Packed,
            SetRef::Dated(..) => SetForm::Dated,
            SetRef::Big(_) | SetRef::DatedBig(..) => SetForm::Big,
        }
    }

    /// Number of members.
    pub fn len(self) -> usize {
        match self {
            SetRef::Intset(set) => intset::len(set),
            SetRef::Packed(set) => packed::len(set),
            SetRef::Big(set) => set.len(),
            SetRef::Dated(..) => self.dated().count(),
            SetRef::DatedBig(set, now) => set.len() - set.dead(now),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether this is a member.
    pub fn contains(self, member: &[u8]) -> bool {
        self.contains_with(Ahead::NONE, member)
    }

    /// Whether this is a member; its hash may have been computed ahead of the command.
    pub fn contains_with(self, ahead: Ahead, member: &[u8]) -> bool {
        match self {
            SetRef::Intset(set) => {
                number::parse_i64(member).is_some_and(|value| intset::contains(set, value))
            }
            SetRef::Packed(set) => packed::find(set, member, STRINGS).is_some(),
            SetRef::Big(set) => set.contains(set.hash_with(ahead, member), member),
            SetRef::Dated(..) | SetRef::DatedBig(..) => self.find_dated(ahead, member).is_some(),
        }
    }

    /// The term of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn term(self, member: &[u8]) -> Option<Option<MemberTerm>> {
        match self {
            SetRef::Dated(..) | SetRef::DatedBig(..) => {
                let found = self.find_dated(Ahead::NONE, member);
                found.map(|found| found.term)
            }
            _ => self.contains(member).then_some(None),
        }
    }

    /// A member of a set with deadlines.
    fn find_dated(self, ahead: Ahead, member: &[u8]) -> Option<Element<'a>> {
        let (found, now) = match self {
            SetRef::Dated(set, now) => (dated_packed::find(set, STRINGS, member), now),
            SetRef::DatedBig(set, now) => (set.get(set.hash_with(ahead, member), member), now),
            _ => return None,
        };
        found.filter(|element| !element.is_dead(now))
    }

    /// The living members of a small set with deadlines.
    fn dated(self) -> impl Iterator<Item = Element<'a>> {
        let set = match self {
            SetRef::Dated(set, now) => Some((set, now)),
            _ => None,
        };
        set.into_iter().flat_map(|(set, now)| {
            dated_packed::iter(set, STRINGS).filter(move |element| !element.is_dead(now))
        })
    }

    /// All members: integers ascending, packed ones in the order they came, others in none.
    pub fn iter(self) -> impl Iterator<Item = SetMember<'a>> {
        let (integers, items, table) = match self {
            SetRef::Intset(set) => (set, packed::EMPTY, None),
            SetRef::Packed(set) => (intset::EMPTY, set, None),
            SetRef::Big(set) => (intset::EMPTY, packed::EMPTY, Some(set)),
            SetRef::Dated(..) | SetRef::DatedBig(..) => (intset::EMPTY, packed::EMPTY, None),
        };
        let dated = match self {
            SetRef::DatedBig(set, now) => Some((set, now)),
            _ => None,
        };
        let integers = intset::iter(integers).map(SetMember::integer);
        let items = packed::iter(items).map(|item| string(item.bytes));
        let table = table.into_iter().flat_map(Segmented::iter).map(member);
        let living = dated.into_iter().flat_map(|(set, now)| set.living(now));
        let living = self.dated().chain(living).map(member);
        integers.chain(items).chain(table).chain(living)
    }

    /// All members, dead ones included, with their terms.
    pub fn for_each_dated(self, mut each: impl FnMut(SetMember<'a>, Option<MemberTerm>)) {
        match self {
            SetRef::Dated(set, _) => dated_packed::iter(set, STRINGS)
                .for_each(|element| each(member(element), element.term)),
            SetRef::DatedBig(set, _) => set
                .iter()
                .for_each(|element| each(member(element), element.term)),
            _ => self.iter().for_each(|member| each(member, None)),
        }
    }

    /// A random member, all equally likely; none if there is none.
    pub fn random(self, rng: &mut SmallRng) -> Option<SetMember<'a>> {
        let nth = |rng: &mut SmallRng| rng.random_range(0..self.len().max(1));
        match self {
            SetRef::Intset(set) => intset::get(set, nth(rng)).map(SetMember::integer),
            SetRef::Packed(set) => packed::at(set, nth(rng)).map(|item| string(item.bytes)),
            SetRef::Big(set) => set.random(ALL_LIVE, rng).map(member),
            SetRef::Dated(..) => self.dated().nth(nth(rng)).map(member),
            SetRef::DatedBig(set, now) => set.random(now, rng).map(member),
        }
    }

    /// Calls `found` for `count` random members, independent of each other, if there are any, as
    /// long as it returns true.
    pub fn draw(
        self,
        count: usize,
        rng: &mut SmallRng,
        mut found: impl FnMut(SetMember<'a>) -> bool,
    ) {
        if let SetRef::DatedBig(set, now) = self {
            return set.draw(count, now, rng, |element| found(member(element)));
        }
        (0..count).map_while(|_| self.random(rng)).all(found);
    }

    /// Calls `found` for `count` different members, or all if there are not so many, every choice
    /// being equally likely; the order is not random.
    pub fn sample(self, count: usize, rng: &mut SmallRng, mut found: impl FnMut(SetMember<'a>)) {
        let (set, now) = match self {
            SetRef::Big(set) => (set, ALL_LIVE),
            SetRef::DatedBig(set, now) => (set, now),
            _ => return sample_by_walk(self.iter(), self.len(), count, rng).for_each(found),
        };
        set.sample(count, now, rng, |element| found(member(element)));
    }

    /// One step of SSCAN, see [`Segmented::scan`]; small sets are met whole, as in Redis.
    pub fn scan(self, cursor: u64, count: usize, mut found: impl FnMut(SetMember<'a>)) -> u64 {
        let (set, now) = match self {
            SetRef::Big(set) => (set, ALL_LIVE),
            SetRef::DatedBig(set, now) => (set, now),
            _ => {
                self.iter().for_each(found);
                return 0;
            }
        };
        set.scan(cursor, count, |element| {
            if !element.is_dead(now) {
                found(member(element));
            }
        })
    }

    /// The big form of these members, dead ones included.
    pub fn to_big(self, placement: Placement) -> Segmented {
        let mut members = Segmented::new(Content::Members, placement);
        self.for_each_dated(|member, term| {
            members.add(placement.hash(&member), &member, b"", term);
        });
        members
    }
}

fn string(bytes: &[u8]) -> SetMember<'_> {
    SetMember::String(StringRef::Short(bytes))
}

fn member(element: Element<'_>) -> SetMember<'_> {
    SetMember::String(element.member)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    const LIMITS: SetLimits = SetLimits {
        intset_entries_max: 512,
        packed_entries_max: 128,
        packed_value_bytes_max: 64,
    };

    /// A set with its conversions, as the store makes them.
    struct Set {
        form: SetForm,
        small: Vec<u8>,
        big: Option<Segmented>,
        placement: Placement,
        limits: SetLimits,
    }

    impl Set {
        fn new(first: &[u8], expected: usize, limits: SetLimits) -> Set {
            let mut set = Set {
                form: SetForm::of_new(first, expected, limits),
                small: intset::EMPTY.to_vec(),
                big: None,
                placement: Placement::new(&mut SmallRng::seed_from_u64(1)),
                limits,
            };
            match set.form {
                SetForm::Intset => {}
                SetForm::Packed | SetForm::Dated => set.small = packed::EMPTY.to_vec(),
                SetForm::Big => set.big = Some(Segmented::new(Content::Members, set.placement)),
            }
            set
        }

        fn of(members: &[&str]) -> Set {
            let mut set = Set::new(members[0].as_bytes(), 1, LIMITS);
            members.iter().for_each(|member| {
                set.add(member.as_bytes());
            });
            set
        }

        fn get(&self) -> SetRef<'_> {
            match (&self.big, self.form) {
                (Some(big), _) => SetRef::Big(big),
                (None, SetForm::Intset) => SetRef::Intset(&self.small),
                (None, _) => SetRef::Packed(&self.small),
            }
        }

        fn convert(&mut self, form: SetForm) {
            match form {
                SetForm::Packed => self.small = intset_to_packed(&self.small),
                _ => self.big = Some(self.get().to_big(self.placement)),
            }
            self.form = form;
        }

        fn add(&mut self, member: &[u8]) -> bool {
            loop {
                let added = match (&mut self.big, self.form) {
                    (Some(big), _) => return big.insert(big.hash(member), member, b""),
                    (None, SetForm::Intset) => add_to_intset(&mut self.small, member, self.limits),
                    (None, _) => add_to_packed(&mut self.small, member, self.limits),
                };
                match added {
                    Added::New => return true,
                    Added::Present => return false,
                    Added::MustBecome(form) => self.convert(form),
                }
            }
        }

        fn remove(&mut self, member: &[u8]) -> bool {
            match (&mut self.big, self.form) {
                (Some(big), _) => big.remove(big.hash(member), member),
                (None, SetForm::Intset) => remove_from_intset(&mut self.small, member),
                (None, _) => remove_from_packed(&mut self.small, member),
            }
        }

        fn pop(&mut self, rng: &mut SmallRng) -> Option<Vec<u8>> {
            let mut popped = None;
            let mut taken = |member: &[u8]| popped = Some(member.to_vec());
            let was_any = match (&mut self.big, self.form) {
                (Some(big), _) => big.random_remove(rng, |element| taken(&element.member)),
                (None, SetForm::Intset) => pop_from_intset(&mut self.small, rng, taken),
                (None, _) => pop_from_packed(&mut self.small, rng, taken),
            };
            assert_eq!(was_any, popped.is_some());
            popped
        }
    }

    fn name_after(limits: SetLimits, members: impl IntoIterator<Item = String>) -> &'static str {
        let mut set = Set::new(b"1", 1, limits);
        for member in members {
            set.add(member.as_bytes());
        }
        set.get().form().name()
    }

    fn integers(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
        range.map(|value| value.to_string())
    }

    /// Measured on Redis 8.2.3.
    #[test]
    fn forms_change_where_those_of_redis_do() {
        let with = |members: std::ops::Range<u32>, last: &str| {
            name_after(LIMITS, integers(members).chain([last.to_string()]))
        };
        assert_eq!(name_after(LIMITS, integers(0..512)), "intset");
        assert_eq!(name_after(LIMITS, integers(0..513)), "hashtable");
        assert_eq!(with(0..127, "a"), "listpack");
        assert_eq!(with(0..128, "a"), "hashtable");
        assert_eq!(with(0..127, &"a".repeat(64)), "listpack");
        assert_eq!(with(0..127, &"a".repeat(65)), "hashtable");
        let narrow = SetLimits {
            packed_value_bytes_max: 2,
            ..LIMITS
        };
        let wide_integer = ["100", "2", "b"].map(String::from);
        assert_eq!(name_after(narrow, wide_integer), "hashtable");
        for (text, name) in [
            ("01", "listpack"),
            ("-0", "listpack"),
            ("9223372036854775807", "intset"),
            ("9223372036854775808", "listpack"),
            ("", "listpack"),
        ] {
            assert_eq!(Set::of(&[text]).get().form().name(), name, "{text}");
        }
        let mut set = Set::of(&["1", "a"]);
        assert!(set.remove(b"a") && set.form == SetForm::Packed);
    }

    /// Measured on Redis 8.2.3: one SADD with so many members.
    #[test]
    fn expected_members_choose_the_form() {
        let new = |first: &[u8], expected| SetForm::of_new(first, expected, LIMITS).name();
        assert_eq!(new(b"0", 512), "intset");
        assert_eq!(new(b"0", 513), "hashtable");
        assert_eq!(new(b"a", 128), "listpack");
        assert_eq!(new(b"a", 129), "hashtable");
        let no_intset = SetLimits {
            intset_entries_max: 0,
            ..LIMITS
        };
        assert_eq!(SetForm::of_new(b"1", 1, no_intset), SetForm::Packed);
        assert_eq!(SetForm::Intset.for_more(513, LIMITS), SetForm::Big);
        assert_eq!(SetForm::Packed.for_more(128, LIMITS), SetForm::Packed);
        assert_eq!(SetForm::Packed.for_more(129, LIMITS), SetForm::Big);
        assert_eq!(SetForm::Big.for_more(1, LIMITS), SetForm::Big);
    }

    #[test]
    fn no_small_set_outgrows_an_entry() {
        let endless = SetLimits {
            intset_entries_max: usize::MAX,
            packed_entries_max: usize::MAX,
            packed_value_bytes_max: usize::MAX,
        };
        for is_integers in [true, false] {
            let mut set = Set::new(if is_integers { b"1" } else { b"a" }, 1, endless);
            let mut bytes = 0;
            for i in 0..20_000_u64 {
                let text = (i << 40).to_string();
                let text = if is_integers {
                    text
                } else {
                    format!("a{text}")
                };
                assert!(set.add(text.as_bytes()));
                bytes = bytes.max(set.small.len());
            }
            assert_eq!((set.form, set.get().len()), (SetForm::Big, 20_000));
            assert!(bytes <= SMALL_BYTES_MAX && bytes > SMALL_BYTES_MAX - 20);
        }
        let mut set = Set::new(b"1", 1, endless);
        integers(0..5_000).for_each(|text| assert!(set.add(text.as_bytes())));
        set.add(b"a");
        assert_eq!((set.form, set.get().len()), (SetForm::Big, 5_001));
    }

    #[test]
    fn behaves_like_a_set_in_every_form() {
        for seed in 0..40 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let names = [20, 100, 400, 1_500][seed as usize % 4];
            let mut set = Set::new(b"1", 1, LIMITS);
            let mut twin = BTreeSet::new();
            let letters_from = rng.random_range(0..1_500);
            for step in 0..1_500 {
                let name = rng.random_range(0..names) * 1_000 - 5_000;
                let is_text = step > letters_from && rng.random_ratio(1, 4);
                let text = if is_text {
                    format!("m{name}")
                } else {
                    name.to_string()
                };
                let text = text.into_bytes();
                match rng.random_range(0..10) {
                    0..6 => {
                        let is_new = twin.insert(text.clone());
                        assert_eq!(set.add(&text), is_new, "seed {seed}");
                    }
                    6..9 => assert_eq!(set.remove(&text), twin.remove(&text), "seed {seed}"),
                    _ => match set.pop(&mut rng) {
                        Some(member) => assert!(twin.remove(&member), "seed {seed}"),
                        None => assert!(twin.is_empty(), "seed {seed}"),
                    },
                }
                assert_eq!(
                    set.get().contains(&text),
                    twin.contains(&text),
                    "seed {seed}"
                );
                assert_eq!(set.get().len(), twin.len(), "seed {seed}");
                assert_eq!(set.get().is_empty(), twin.is_empty(), "seed {seed}");
                if step % 100 == 0 {
                    check(set.get(), &twin, &mut rng);
                }
            }
        }
    }

    fn check(set: SetRef<'_>, twin: &BTreeSet<Vec<u8>>, rng: &mut SmallRng) {
        let members: Vec<Vec<u8>> = set.iter().map(|member| member.to_vec()).collect();
        assert_eq!(members.len(), twin.len());
        assert!(members.iter().all(|member| twin.contains(member)));
        let (mut cursor, mut met) = (0, BTreeSet::new());
        loop {
            cursor = set.scan(cursor, 10, |member| {
                met.insert(member.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(met, *twin);
        let random = set.random(rng);
        assert_eq!(random.is_some(), !twin.is_empty());
        assert!(random.is_none_or(|member| twin.contains(&*member)));
        for count in [0, 1, twin.len() / 2, twin.len(), twin.len() + 1] {
            let mut drawn = BTreeSet::new();
            set.sample(count, rng, |member| assert!(drawn.insert(member.to_vec())));
            assert_eq!(drawn.len(), count.min(twin.len()));
            assert!(drawn.is_subset(twin));
        }
    }
}
