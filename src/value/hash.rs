//! A hash, whatever its form: how it is read, how a small one is edited, and when it must become a
//! table.
//!
//! A small hash is a [`packed`] string of field, value, field, value and so on inside its key's
//! entry, in the order the fields came, edited through [`Buffer`]. An edit that does not fit
//! changes nothing and says so; [`HashRef::to_big`] is the table, which never goes back.
//!
//! Redis: a packed hash has no limit of bytes, so one of 512 fields may take 64 KiB. Ours lies in
//! its key's entry and becomes a table at 16 KiB, however few its fields are.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::members::{Content, Element, Members, sample_by_walk};
use super::packed::{self, Buffer};
use super::placement::Placement;
use super::{SMALL_BYTES_MAX, StringRef};

/// Items of a field: its name and its value.
const STEP: usize = 2;

/// When a packed hash must become a table.
#[derive(Clone, Copy, Debug)]
pub struct HashLimits {
    /// `hash-max-listpack-entries`: fields.
    pub packed_entries_max: usize,
    /// `hash-max-listpack-value`: bytes of a field's name or of its value.
    pub packed_value_bytes_max: usize,
}

/// What became of a field set in a packed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The field is new.
    New,
    /// The field was there and has the value now.
    Replaced,
    /// Nothing was changed: the hash must become a table first.
    MustGrow,
}

/// Gives a field of a packed hash a value.
pub fn set_in_packed<B: Buffer>(
    buffer: &mut B,
    field: &[u8],
    value: &[u8],
    limits: HashLimits,
) -> Stored {
    if field.len().max(value.len()) > limits.packed_value_bytes_max {
        return Stored::MustGrow;
    }
    let hash = buffer.bytes();
    if let Some(old) = find(hash, field) {
        let (at, old) = (old.at, old.end() - old.at);
        if hash.len() - old + packed::item_bytes(value.len()) > SMALL_BYTES_MAX {
            return Stored::MustGrow;
        }
        packed::replace(buffer, at, value);
        return Stored::Replaced;
    }
    let size = packed::item_bytes(field.len()) + packed::item_bytes(value.len());
    if packed::len(hash) / STEP >= limits.packed_entries_max || hash.len() + size > SMALL_BYTES_MAX
    {
        return Stored::MustGrow;
    }
    packed::push_back(buffer, &[field, value]);
    Stored::New
}

/// Removes a field from a packed hash; whether it was there.
pub fn remove_from_packed<B: Buffer>(buffer: &mut B, field: &[u8]) -> bool {
    let Some(item) = packed::find(buffer.bytes(), field, STEP) else {
        return false;
    };
    let at = item.at;
    packed::remove(buffer, at, STEP);
    true
}

/// A hash to be read.
#[derive(Clone, Copy)]
pub enum HashRef<'a> {
    /// Fields in the order they came.
    Packed(&'a [u8]),
    /// A table.
    Big(&'a Members),
}

impl<'a> HashRef<'a> {
    /// The name OBJECT ENCODING answers.
    pub fn encoding(self) -> &'static str {
        match self {
            HashRef::Packed(_) => "listpack",
            HashRef::Big(_) => "hashtable",
        }
    }

    /// Number of fields.
    pub fn len(self) -> usize {
        match self {
            HashRef::Packed(hash) => packed::len(hash) / STEP,
            HashRef::Big(hash) => hash.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    pub fn get(self, field: &[u8]) -> Option<StringRef<'a>> {
        match self {
            HashRef::Packed(hash) => find(hash, field).map(|item| StringRef::Short(item.bytes)),
            HashRef::Big(hash) => hash.get(hash.hash(field), field),
        }
    }

    /// Whether there is such a field.
    pub fn contains(self, field: &[u8]) -> bool {
        match self {
            HashRef::Packed(hash) => packed::find(hash, field, STEP).is_some(),
            HashRef::Big(hash) => hash.contains(hash.hash(field), field),
        }
    }

    /// All fields and values: packed ones in the order they came, others in none.
    pub fn iter(self) -> impl Iterator<Item = Element<'a>> {
        let (items, table) = match self {
            HashRef::Packed(hash) => (hash, None),
            HashRef::Big(hash) => (packed::EMPTY, Some(hash)),
        };
        let mut items = packed::iter(items);
        let packed =
            std::iter::from_fn(move || Some(element(items.next()?.bytes, items.next()?.bytes)));
        packed.chain(table.into_iter().flat_map(Members::iter))
    }

    /// A random field and its value, all equally likely; none if there is none.
    pub fn random(self, rng: &mut SmallRng) -> Option<Element<'a>> {
        match self {
            HashRef::Packed(hash) => {
                let index = rng.random_range(0..self.len().max(1));
                let field = packed::at(hash, index * STEP)?;
                let value = packed::item_at(hash, field.end())?;
                Some(element(field.bytes, value.bytes))
            }
            HashRef::Big(hash) => hash.random(rng),
        }
    }

    /// Calls `found` for `count` different fields, or all if there are not so many, every choice
    /// being equally likely; the order is not random.
    pub fn sample(self, count: usize, rng: &mut SmallRng, found: impl FnMut(Element<'a>)) {
        match self {
            HashRef::Packed(_) => {
                sample_by_walk(self.iter(), self.len(), count, rng).for_each(found);
            }
            HashRef::Big(hash) => hash.sample(count, rng, found),
        }
    }

    /// One step of HSCAN, see [`Members::scan`]; a packed hash is met whole, as in Redis.
    pub fn scan(self, cursor: u64, count: usize, found: impl FnMut(Element<'a>)) -> u64 {
        match self {
            HashRef::Packed(_) => {
                self.iter().for_each(found);
                0
            }
            HashRef::Big(hash) => hash.scan(cursor, count, found),
        }
    }

    /// The big form of these fields.
    pub fn to_big(self, placement: Placement) -> Members {
        let mut fields = Members::new(Content::Fields, placement);
        for Element { member, value } in self.iter() {
            fields.insert(placement.hash(&member), &member, &value);
        }
        fields
    }
}

/// The value of a field of a packed hash.
fn find<'a>(hash: &'a [u8], field: &[u8]) -> Option<packed::Item<'a>> {
    packed::item_at(hash, packed::find(hash, field, STEP)?.end())
}

fn element<'a>(field: &'a [u8], value: &'a [u8]) -> Element<'a> {
    Element {
        member: StringRef::Short(field),
        value: StringRef::Short(value),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;

    use super::*;

    const LIMITS: HashLimits = HashLimits {
        packed_entries_max: 512,
        packed_value_bytes_max: 64,
    };

    fn encoding_after(fields: impl IntoIterator<Item = (String, String)>) -> &'static str {
        let mut hash = packed::EMPTY.to_vec();
        for (field, value) in fields {
            if set_in_packed(&mut hash, field.as_bytes(), value.as_bytes(), LIMITS)
                == Stored::MustGrow
            {
                return "hashtable";
            }
        }
        HashRef::Packed(&hash).encoding()
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
            set_in_packed(&mut hash, field.as_bytes(), value.as_bytes(), LIMITS);
        }
        let all = |hash: &[u8]| {
            let texts = HashRef::Packed(hash)
                .iter()
                .map(|Element { member, value }| [member.to_vec(), value.to_vec()].join(&b'='));
            String::from_utf8(texts.collect::<Vec<_>>().join(&b' ')).unwrap()
        };
        assert_eq!(all(&hash), "b=a longer one =2 a=");
        // A value is no field.
        assert!(!HashRef::Packed(&hash).contains(b"2"));
        assert!(!remove_from_packed(&mut hash, b"2"));
        assert!(remove_from_packed(&mut hash, b""));
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
            set_in_packed(hash, field, &vec![b'v'; len], endless)
        };
        assert_eq!(set(&mut hash, b"a", 20_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 8_000), Stored::New);
        assert_eq!(set(&mut hash, b"b", 8_000), Stored::New);
        assert_eq!(set(&mut hash, b"c", 8_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 9_000), Stored::MustGrow);
        assert_eq!(set(&mut hash, b"a", 8_001), Stored::Replaced);
        assert_eq!(HashRef::Packed(&hash).len(), 2);
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
                    let stored = set_in_packed(&mut hash, &field, &value, LIMITS);
                    assert_eq!(stored, wanted, "seed {seed}");
                } else {
                    let was_there = twin.remove(&field).is_some();
                    assert_eq!(
                        remove_from_packed(&mut hash, &field),
                        was_there,
                        "seed {seed}"
                    );
                }
            }
            let big = HashRef::Packed(&hash).to_big(Placement::new(&mut rng));
            for form in [HashRef::Packed(&hash), HashRef::Big(&big)] {
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
