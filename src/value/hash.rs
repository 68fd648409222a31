//! A hash, whatever its form: how it is read, how a small one is edited, and when it must become a
//! table.
//!
//! A small hash is a [`packed`] string inside its key's entry, in the order the fields came, edited
//! through [`Buffer`]. An edit that does not fit changes nothing and says so; [`HashRef::to_big`]
//! is the table, which never goes back.
//!
//! ```text
//! packed  field  value  field  value ...                      "listpack"
//! dated   as in `dated_packed`                                "listpackex"
//! ```
//!
//! A hash becomes dated with its first field that has a deadline, and stays so.
//!
//! Redis: a packed hash has no limit of bytes, so one of 512 fields may take 64 KiB. Ours lies in
//! its key's entry and becomes a table at 16 KiB, however few its fields are. "listpackex" is
//! sorted by deadlines there.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::dated_packed::{self, FILED_BYTES, Inner, Shape, element};
use super::packed::{self, Buffer};
use super::placement::{Ahead, Placement};
use super::segmented::{Content, Element, Segmented, sample_by_walk};
use super::{SMALL_BYTES_MAX, StringRef};
use crate::clock::UnixMillis;
use crate::expiry::{ALL_LIVE, MemberTerm};

/// Strings of a field.
pub const STRINGS: usize = 2;

/// When a packed hash must become a table.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// `hash-max-listpack-entries`: fields.
    pub packed_entries_max: usize,
    /// `hash-max-listpack-value`: bytes of a field's name or of its value.
    pub packed_value_bytes_max: usize,
}

/// What became of a field set in a small hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The field is new.
    New,
    /// The field was there and has the value now.
    Replaced,
    /// Nothing was changed: the hash must become a table first.
    MustGrow,
}

/// Gives a field of a small hash a value. One that is there keeps its deadline.
pub fn set_in_small<B: Buffer>(
    buffer: &mut B,
    shape: Shape,
    field: &[u8],
    value: &[u8],
    limits: HashLimits,
) -> Stored {
    if field.len().max(value.len()) > limits.packed_value_bytes_max {
        return Stored::MustGrow;
    }
    let mut inner = Inner(buffer, shape.start());
    let hash = inner.bytes();
    if let Some(old) = find(hash, shape, field) {
        let (at, old) = (old.at, old.end() - old.at);
        if hash.len() - old + packed::item_bytes(value.len()) > SMALL_BYTES_MAX {
            return Stored::MustGrow;
        }
        packed::replace(&mut inner, at, value);
        return Stored::Replaced;
    }
    let step = shape.step();
    let items = &[field, value, b""][..step];
    let size = items
        .iter()
        .map(|item| packed::item_bytes(item.len()))
        .sum::<usize>();
    if packed::len(hash) / step >= limits.packed_entries_max || hash.len() + size > SMALL_BYTES_MAX
    {
        return Stored::MustGrow;
    }
    packed::push_back(&mut inner, items);
    Stored::New
}

/// Removes a field from a small hash; whether it was there.
pub fn remove_from_small<B: Buffer>(buffer: &mut B, shape: Shape, field: &[u8]) -> bool {
    let mut inner = Inner(buffer, shape.start());
    let Some(item) = packed::find(inner.bytes(), field, shape.step()) else {
        return false;
    };
    let at = item.at;
    packed::remove(&mut inner, at, shape.step());
    true
}

/// A form of a hash.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// Fields in the order they came, all without deadlines.
    Packed(&'a [u8]),
    /// Fields in the order they came.
    Dated(&'a [u8]),
    /// A table.
    Big(&'a Segmented),
}

/// A hash to be read, at one instant: dead fields are not seen.
#[derive(Clone, Copy)]
pub struct HashRef<'a> {
    form: Form<'a>,
    now: UnixMillis,
    ahead: Ahead,
}

impl<'a> HashRef<'a> {
    /// A hash in some form at an instant.
    pub fn new(form: Form<'a>, now: UnixMillis) -> HashRef<'a> {
        HashRef {
            form,
            now,
            ahead: Ahead::NONE,
        }
    }

    /// The same hash, when the placement hash of a field may have been worked out already.
    pub fn with(self, ahead: Ahead) -> HashRef<'a> {
        HashRef { ahead, ..self }
    }

    /// The name OBJECT ENCODING answers.
    pub fn encoding(self) -> &'static str {
        match self.form {
            Form::Packed(_) => "listpack",
            Form::Dated(_) => "listpackex",
            Form::Big(_) => "hashtable",
        }
    }

    /// Number of fields.
    pub fn len(self) -> usize {
        match self.form {
            Form::Packed(hash) => packed::len(hash) / Shape::Packed.step(),
            Form::Dated(_) => self.iter().count(),
            Form::Big(hash) => hash.len() - hash.dead(self.now),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        match self.form {
            Form::Packed(hash) => packed::is_empty(hash),
            Form::Dated(_) => self.iter().next().is_none(),
            Form::Big(hash) => hash.is_empty() || hash.is_dead(self.now),
        }
    }

    /// A field.
    pub fn find(self, field: &[u8]) -> Option<Element<'a>> {
        let element = match self.form {
            Form::Packed(hash) => {
                let value = find(hash, Shape::Packed, field)?;
                element(b"", value.bytes, b"")
            }
            Form::Dated(hash) => dated_packed::find(hash, STRINGS, field)?,
            Form::Big(hash) => hash.get(hash.hash_with(self.ahead, field), field)?,
        };
        (!element.is_dead(self.now)).then_some(element)
    }

    /// The value of a field.
    #[inline]
    pub fn get(self, field: &[u8]) -> Option<StringRef<'a>> {
        self.find(field).map(|element| element.value)
    }

    /// The term of a field: none if there is no such field, `Some(None)` if it has none.
    pub fn term(self, field: &[u8]) -> Option<Option<MemberTerm>> {
        self.find(field).map(|element| element.term)
    }

    /// Whether there is such a field.
    pub fn contains(self, field: &[u8]) -> bool {
        self.find(field).is_some()
    }

    /// All fields and values: those of a table in no order, others in the order they came.
    pub fn iter(self) -> impl Iterator<Item = Element<'a>> {
        let (items, shape, table) = match self.form {
            Form::Packed(hash) => (hash, Shape::Packed, None),
            Form::Dated(hash) => (&hash[FILED_BYTES..], Shape::Dated, None),
            Form::Big(hash) => (packed::EMPTY, Shape::Packed, Some(hash)),
        };
        let mut items = packed::iter(items);
        let small = std::iter::from_fn(move || {
            let (field, value) = (items.next()?, items.next()?);
            let term = match shape {
                Shape::Packed => &b""[..],
                Shape::Dated => items.next()?.bytes,
            };
            Some(element(field.bytes, value.bytes, term))
        });
        let small = small.filter(move |element| !element.is_dead(self.now));
        small.chain(
            table
                .into_iter()
                .flat_map(move |table| table.living(self.now)),
        )
    }

    /// A random field and its value, all equally likely; none if there is none.
    pub fn random(self, rng: &mut SmallRng) -> Option<Element<'a>> {
        match self.form {
            Form::Packed(hash) => {
                let index = rng.random_range(0..self.len().max(1));
                let field = packed::at(hash, index * Shape::Packed.step())?;
                let value = packed::item_at(hash, field.end())?;
                Some(element(field.bytes, value.bytes, b""))
            }
            Form::Dated(_) => self.iter().nth(rng.random_range(0..self.len().max(1))),
            Form::Big(hash) => hash.random(self.now, rng),
        }
    }

    /// Calls `found` for `count` random fields, independent of each other, if there are any, as
    /// long as it returns true.
    pub fn draw(self, count: usize, rng: &mut SmallRng, found: impl FnMut(Element<'a>) -> bool) {
        match self.form {
            Form::Packed(_) | Form::Dated(_) => {
                (0..count).filter_map(|_| self.random(rng)).all(found);
            }
            Form::Big(hash) => hash.draw(count, self.now, rng, found),
        }
    }

    /// Calls `found` for `count` different fields, or all if there are not so many, every choice
    /// being equally likely; the order is not random.
    pub fn sample(self, count: usize, rng: &mut SmallRng, found: impl FnMut(Element<'a>)) {
        match self.form {
            Form::Packed(_) | Form::Dated(_) => {
                sample_by_walk(self.iter(), self.len(), count, rng).for_each(found);
            }
            Form::Big(hash) => hash.sample(count, self.now, rng, found),
        }
    }

    /// One step of HSCAN, see [`Segmented::scan`]; a small hash is met whole, as in Redis.
    pub fn scan(self, cursor: u64, count: usize, mut found: impl FnMut(Element<'a>)) -> u64 {
        match self.form {
            Form::Packed(_) | Form::Dated(_) => {
                self.iter().for_each(found);
                0
            }
            Form::Big(hash) => hash.scan(cursor, count, |element| {
                if !element.is_dead(self.now) {
                    found(element);
                }
            }),
        }
    }

    /// The big form of these fields.
    pub fn to_big(self, placement: Placement) -> Segmented {
        let mut fields = Segmented::new(Content::Fields, placement);
        for Element {
            member,
            value,
            term,
        } in HashRef::new(self.form, ALL_LIVE).iter()
        {
            fields.add(placement.hash(&member), &member, &value, term);
        }
        fields
    }
}

/// The value of a field of a packed string.
fn find<'a>(hash: &'a [u8], shape: Shape, field: &[u8]) -> Option<packed::Item<'a>> {
    packed::item_at(hash, packed::find(hash, field, shape.step())?.end())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;

    use super::*;
    use crate::expiry::Basis;
    use crate::expiry::Deadline;
    use crate::expiry::index::ItemRef;

    fn span(deadline: Deadline) -> MemberTerm {
        MemberTerm::new(deadline, Basis::Relative, false)
    }

    const LIMITS: HashLimits = HashLimits {
        packed_entries_max: 512,
        packed_value_bytes_max: 64,
    };

    fn read(form: Form<'_>) -> HashRef<'_> {
        HashRef::new(form, ALL_LIVE)
    }

    fn encoding_after(fields: impl IntoIterator<Item = (String, String)>) -> &'static str {
        let mut hash = packed::EMPTY.to_vec();
        for (field, value) in fields {
            if set_in_small(
                &mut hash,
                Shape::Packed,
                field.as_bytes(),
                value.as_bytes(),
                LIMITS,
            ) == Stored::MustGrow
            {
                return "hashtable";
            }
        }
        read(Form::Packed(&hash)).encoding()
    }

    /// Measured on Redis 8.2.3.
    #[test]
    fn a_hash_grows_where_that_of_redis_does() {
        let fields = |count: u32| (0..count).map(|i| (format!("f{i}"), "v".to_string()));
        let one = |field: usize, value: usize| [("f".repeat(field), "v".repeat(value))];
        assert_eq!(encoding_after(fields(512)), "listpack");
        assert_eq!(encoding_after(fields(513)), "hashtable");
        assert_eq!(encoding_after(fields(512).chain(fields(512))), "listpack");
        assert_eq!(encoding_after(one(64, 64)), "listpack");
        assert_eq!(encoding_after(one(65, 1)), "hashtable");
        assert_eq!(encoding_after(one(1, 65)), "hashtable");
        assert_eq!(
            encoding_after(one(1, 1).into_iter().chain(one(1, 65))),
            "hashtable"
        );
    }

    #[test]
    fn fields_keep_their_order() {
        let mut hash = packed::EMPTY.to_vec();
        for (field, value) in [("b", "1"), ("", "2"), ("a", ""), ("b", "a longer one")] {
            set_in_small(
                &mut hash,
                Shape::Packed,
                field.as_bytes(),
                value.as_bytes(),
                LIMITS,
            );
        }
        let all = |hash: &[u8]| {
            let texts = read(Form::Packed(hash))
                .iter()
                .map(|Element { member, value, .. }| [member.to_vec(), value.to_vec()].join(&b'='));
            String::from_utf8(texts.collect::<Vec<_>>().join(&b' ')).unwrap()
        };
        assert_eq!(all(&hash), "b=a longer one =2 a=");
        // A value is no field.
        assert!(!read(Form::Packed(&hash)).contains(b"2"));
        assert!(!remove_from_small(&mut hash, Shape::Packed, b"2"));
        assert!(remove_from_small(&mut hash, Shape::Packed, b""));
        assert_eq!(all(&hash), "b=a longer one a=");
    }

    #[test]
    fn no_packed_hash_outgrows_an_entry() {
        let endless = HashLimits {
            packed_entries_max: usize::MAX,
            packed_value_bytes_max: usize::MAX,
        };
        let mut hash = packed::EMPTY.to_vec();
        let set = |hash: &mut Vec<u8>, field: &[u8], len| {
            set_in_small(hash, Shape::Packed, field, &vec![b'v'; len], endless)
        };
        assert_eq!(set(&mut hash, b"a", 20_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 8_000), Stored::New);
        assert_eq!(set(&mut hash, b"b", 8_000), Stored::New);
        assert_eq!(set(&mut hash, b"c", 8_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 9_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 8_001), Stored::Replaced);
        assert_eq!(read(Form::Packed(&hash)).len(), 2);
    }

    #[test]
    fn a_dated_hash_keeps_its_deadlines() {
        let at = |ms| Some(span(Deadline(UnixMillis(ms))));
        let mut packed = packed::EMPTY.to_vec();
        for (field, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            set_in_small(
                &mut packed,
                Shape::Packed,
                field.as_bytes(),
                value.as_bytes(),
                LIMITS,
            );
        }
        let mut hash = dated_packed::to_dated(&packed, STRINGS).unwrap();
        assert_eq!(dated_packed::filed(&hash), None);
        assert!(dated_packed::set_term(&mut hash, STRINGS, b"a", at(5)));
        assert!(dated_packed::set_term(&mut hash, STRINGS, b"c", at(9)));
        dated_packed::set_filed(&mut hash, Some((Deadline(UnixMillis(5)), ItemRef(7))));
        assert_eq!(
            dated_packed::filed(&hash),
            Some((Deadline(UnixMillis(5)), ItemRef(7)))
        );
        let hash_at = |hash: &[u8], now| {
            let hash = HashRef::new(Form::Dated(hash), UnixMillis(now));
            let texts = hash
                .iter()
                .map(|field| [&*field.member, &*field.value].concat());
            (
                texts.collect::<Vec<_>>().concat(),
                hash.len(),
                hash.get(b"a").is_some(),
            )
        };
        assert_eq!(hash_at(&hash, 4), (b"a1b2c3".to_vec(), 3, true));
        assert_eq!(hash_at(&hash, 5), (b"b2c3".to_vec(), 2, false));
        assert_eq!(hash_at(&hash, 9), (b"b2".to_vec(), 1, false));
        let all = read(Form::Dated(&hash));
        assert_eq!((all.term(b"b"), all.term(b"x")), (Some(None), None));
        assert_eq!(all.term(b"c"), Some(at(9)));
        assert_eq!(
            dated_packed::soonest(&hash, STRINGS),
            at(5).map(|term| term.deadline)
        );
        // A value keeps the deadline of its field; neither is a field.
        let set = set_in_small(&mut hash, Shape::Dated, b"c", b"longer", LIMITS);
        assert_eq!(set, Stored::Replaced);
        assert_eq!(read(Form::Dated(&hash)).term(b"c"), Some(at(9)));
        assert!(!remove_from_small(&mut hash, Shape::Dated, b"longer"));
        let (living, dead) = dated_packed::without_dead(&hash, STRINGS, UnixMillis(5));
        let dead: Vec<_> = dead.iter().map(|(field, at)| (&**field, at.0.0)).collect();
        assert_eq!(dead, [(b"a".as_slice(), 5)]);
        assert_eq!(hash_at(&living, 4), (b"b2clonger".to_vec(), 2, false));
        let mut rng = SmallRng::seed_from_u64(1);
        let big = read(Form::Dated(&hash)).to_big(Placement::new(&mut rng));
        assert_eq!(read(Form::Big(&big)).term(b"c"), Some(at(9)));
        assert!(remove_from_small(&mut hash, Shape::Dated, b"c"));
        assert!(dated_packed::set_term(&mut hash, STRINGS, b"a", None));
        assert_eq!(dated_packed::soonest(&hash, STRINGS), None);
    }

    #[test]
    fn behaves_like_a_map_in_both_forms() {
        for seed in 0..40 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let names = [10, 100, 600][seed as usize % 3];
            let mut hash = packed::EMPTY.to_vec();
            let mut twin = BTreeMap::new();
            for _ in 0..600 {
                let field = format!("f{}", rng.random_range(0..names)).into_bytes();
                let value = vec![b'v'; rng.random_range(0..20)];
                if rng.random_ratio(3, 5) {
                    let is_new = twin.insert(field.clone(), value.clone()).is_none();
                    let wanted = if is_new {
                        Stored::New
                    } else {
                        Stored::Replaced
                    };
                    let stored = set_in_small(&mut hash, Shape::Packed, &field, &value, LIMITS);
                    assert_eq!(stored, wanted, "seed {seed}");
                } else {
                    let was_there = twin.remove(&field).is_some();
                    assert_eq!(
                        remove_from_small(&mut hash, Shape::Packed, &field),
                        was_there,
                        "seed {seed}"
                    );
                }
            }
            let big = read(Form::Packed(&hash)).to_big(Placement::new(&mut rng));
            for form in [read(Form::Packed(&hash)), read(Form::Big(&big))] {
                check(form, &twin, &mut rng);
            }
        }
    }

    fn check(hash: HashRef<'_>, twin: &BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut SmallRng) {
        assert_eq!((hash.len(), hash.is_empty()), (twin.len(), twin.is_empty()));
        let is_of_twin =
            |element: Element<'_>| twin.get(&*element.member) == Some(&element.value.to_vec());
        assert_eq!(hash.iter().count(), twin.len());
        assert!(hash.iter().all(is_of_twin));
        for (field, value) in twin {
            assert_eq!(*hash.get(field).unwrap(), **value);
            assert!(hash.contains(field));
        }
        assert!(hash.get(b"v").is_none() && !hash.contains(b"v"));
        let (mut cursor, mut met) = (0, BTreeMap::new());
        loop {
            cursor = hash.scan(cursor, 10, |element| {
                met.insert(element.member.to_vec(), element.value.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(met, *twin);
        assert_eq!(
            hash.random(rng).map(is_of_twin),
            (!twin.is_empty()).then_some(true)
        );
        for count in [0, 1, twin.len() / 2, twin.len(), usize::MAX] {
            let mut drawn = BTreeMap::new();
            hash.sample(count, rng, |element| {
                assert!(is_of_twin(element));
                assert_eq!(drawn.insert(element.member.to_vec(), ()), None);
            });
            assert_eq!(drawn.len(), count.min(twin.len()));
        }
    }
}
