//! The unsafe leaf beside plain twins: one entry against a struct, a table of entries against a
//! map, step by step as bytes say. The fuzz target `entry` gives the bytes, and the tests here,
//! which miri can run (`cargo +nightly miri test --test main entries`).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use mayfly::clock::UnixMillis;
use mayfly::expiry::index::ItemRef;
use mayfly::expiry::{Basis, Deadline, SLIDING_MS_MAX, Soft, Term};
use mayfly::store::entry::{
    Expiry, Form, INLINE_MAX, NewValue, Parts, SMALL_MAX, Slot, ValueRef, tag,
};
use mayfly::store::table::{Table, Walk};
use mayfly::value::packed::Buffer;
use mayfly::value::placement::Placement;
use mayfly::value::{Kind, Value};
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// Lengths at which headers and size classes change.
const LENGTHS: [usize; 16] = [
    0,
    1,
    7,
    8,
    9,
    38,
    54,
    100,
    254,
    255,
    256,
    257,
    1000,
    4096,
    INLINE_MAX - 1,
    INLINE_MAX,
];
/// Where a deadline takes more bytes.
const FAR: i64 = 1 << 46;
const STEPS_MAX: usize = 128;
/// Keys are added, sought and removed in spans of so many times a byte: the longest fill a segment.
const SPAN_UNIT: u32 = 16;
/// Keys touched by spans, enough to split and merge segments.
pub const TOUCHED_MAX: u32 = 6_000;

/// Reads choices off the input; zeros once it has ended.
pub struct Bytewise<'a>(std::slice::Iter<'a, u8>);

impl<'a> Bytewise<'a> {
    pub fn new(data: &'a [u8]) -> Bytewise<'a> {
        Bytewise(data.iter())
    }

    pub fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn has_ended(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = LENGTHS[usize::from(self.byte()) % LENGTHS.len()];
        vec![self.byte(); len]
    }

    fn expiry(&mut self) -> Option<Expiry> {
        let ms = match self.byte() % 7 {
            0 => return None,
            1 => i64::from(self.byte()),
            2 => 1_700_000_000_000 + i64::from(self.byte()),
            3 => FAR - 1,
            4 => FAR,
            5 => -1,
            _ => i64::MAX,
        };
        let item = ItemRef(u32::from(self.byte()) << 24 | u32::from(self.byte()));
        let basis = [Basis::Relative, Basis::Absolute][usize::from(self.byte() % 2)];
        let sliding_ms = match self.byte() % 4 {
            0 => Some(1 + u64::from(self.byte())),
            1 => Some(SLIDING_MS_MAX),
            _ => None,
        };
        let soft = (sliding_ms.is_none() && self.byte().is_multiple_of(3)).then(|| Soft {
            before_ms: 1 + u64::from(self.byte()),
            is_told: self.byte().is_multiple_of(2),
            lease_before_ms: u64::from(self.byte()) << 32,
        });
        let term = Term {
            sliding_ms,
            soft,
            ..Term::new(Deadline(UnixMillis(ms)), basis)
        };
        Some(Expiry {
            era: self.byte().is_multiple_of(2),
            ..Expiry::new(term, item)
        })
    }

    fn entry(&mut self) -> EntryTwin {
        let boxed = [None, None, Some(false), Some(true)][usize::from(self.byte() % 4)];
        let forms = match boxed {
            None => Form::ALL.as_slice(),
            // Only strings are boxed here.
            Some(_) => &[Form::String, Form::RawString],
        };
        EntryTwin {
            key: self.bytes(),
            value: self.bytes(),
            boxed,
            form: forms[usize::from(self.byte()) % forms.len()],
            expiry: self.expiry(),
            epoch: self.byte(),
            clock: self.byte().into(),
        }
    }
}

/// What an entry should hold.
#[derive(Clone)]
struct EntryTwin {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whether the value is boxed, and if so, growable.
    boxed: Option<bool>,
    form: Form,
    expiry: Option<Expiry>,
    epoch: u8,
    clock: u16,
}

impl EntryTwin {
    fn parts(&self) -> Parts<'_> {
        let value = match self.boxed {
            None => NewValue::Inline(&self.value),
            Some(false) => {
                NewValue::Boxed(Box::new(Value::Long(Bytes::copy_from_slice(&self.value))))
            }
            Some(true) => NewValue::Boxed(Box::new(Value::Growable(self.value.clone().into()))),
        };
        Parts {
            key: &self.key,
            form: self.form,
            value,
            expiry: self.expiry,
            epoch: self.epoch,
            clock: self.clock,
        }
    }

    fn check(&self, slot: &Slot) {
        let value = match slot.value() {
            ValueRef::Inline(bytes) => (bytes, None),
            ValueRef::Boxed(Value::Long(bytes)) => (bytes.as_ref(), Some(false)),
            ValueRef::Boxed(Value::Growable(bytes)) => (bytes.as_slice(), Some(true)),
            ValueRef::Boxed(_) => panic!("only strings are boxed here"),
        };
        assert_eq!(value, (self.value.as_slice(), self.boxed));
        let is_string = matches!(self.form, Form::String | Form::RawString);
        assert_eq!(slot.form(), self.form);
        assert_eq!(slot.kind(), self.form.kind());
        assert_eq!(slot.kind() == Kind::String, is_string);
        assert_eq!(slot.is_dated(), is_dated(self.form));
        assert_eq!(slot.string(), is_string.then_some(self.value.as_slice()));
        assert_eq!(slot.key(), self.key);
        assert_eq!(slot.expiry(), self.expiry);
        assert_eq!(slot.deadline(), self.expiry.map(|expiry| expiry.deadline));
        let filed = self.expiry.map(|expiry| (expiry.filing(), expiry.item));
        assert_eq!(slot.filed(), filed);
        assert_eq!((slot.epoch(), slot.clock()), (self.epoch, self.clock));
        assert!(slot.allocated_bytes() >= self.key.len() + self.value.len());
    }

    /// Changes where the index has filed it, if it has.
    fn set_item(&mut self, slot: &mut Slot, item: ItemRef) {
        if let Some(expiry) = &mut self.expiry {
            slot.set_item(item);
            expiry.item = item;
        }
    }

    /// Edits a value inside the entry.
    fn splice(&mut self, slot: &mut Slot, input: &mut Bytewise<'_>) {
        if self.boxed.is_some() {
            return;
        }
        let at = usize::from(input.byte()) * self.value.len() / 255;
        let removed = usize::from(input.byte()) * (self.value.len() - at) / 255;
        let (one, two) = (input.bytes(), input.bytes());
        let inserted = [one.as_slice(), &two];
        if self.value.len() - removed + one.len() + two.len() <= SMALL_MAX {
            slot.splice(at, removed, &inserted);
            self.value.splice(at..at + removed, inserted.concat());
        }
    }

    /// Uses the key, which has its deadline slide if it has a span for that.
    fn slide(&mut self, slot: &Slot, now_ms: i64) {
        let mut moved = false;
        if let Some(expiry) = &mut self.expiry
            && let Some(span_ms) = expiry.sliding_ms
        {
            let ms = now_ms + span_ms as i64;
            moved = ms > expiry.deadline.0.0;
            if moved {
                expiry.slid_ms += (ms - expiry.deadline.0.0) as u64;
                expiry.deadline = Deadline(UnixMillis(ms));
            }
        }
        assert_eq!(slot.slide(UnixMillis(now_ms)), moved);
    }

    fn set_value(&mut self, slot: &mut Slot, bytes: Vec<u8>) {
        let Some(value) = slot.value_mut() else {
            assert!(self.boxed.is_none());
            return;
        };
        *value = Value::Growable(bytes.clone().into());
        self.value = bytes;
        self.boxed = Some(true);
    }
}

fn is_dated(form: Form) -> bool {
    matches!(form, Form::DatedSet | Form::DatedZset | Form::DatedHash)
}

/// One entry through every kind of change.
pub fn entry(input: &mut Bytewise<'_>) {
    let mut twin = input.entry();
    let mut hash = u64::from(input.byte()) << 56;
    let mut slot = Slot::new(hash, twin.parts());
    for _ in 0..STEPS_MAX {
        if input.has_ended() {
            break;
        }
        match input.byte() % 14 {
            0 => {
                let was_boxed = twin.boxed.is_some();
                twin = input.entry();
                assert_eq!(slot.replace(twin.parts()).0.is_some(), was_boxed);
            }
            1 => {
                twin.expiry = input.expiry();
                slot.set_expiry(twin.expiry);
            }
            2 => {
                twin.key = input.bytes();
                twin.expiry = input.expiry();
                twin.epoch = input.byte();
                hash = u64::from(input.byte()) << 48;
                slot = slot.renamed(hash, &twin.key, twin.expiry, twin.epoch);
            }
            3 => slot = [Slot::duplicate, Slot::frozen][usize::from(input.byte() % 2)](&slot),
            4 => twin.set_item(&mut slot, ItemRef(u32::from(input.byte()) << 24)),
            5 => {
                twin.epoch = input.byte();
                slot.set_epoch(twin.epoch);
            }
            6 => {
                twin.clock = u16::from_le_bytes([input.byte(), input.byte()]);
                slot.set_clock(twin.clock);
            }
            7 => {
                // The old one lives on, unchanged, beside its replacement.
                let old = std::mem::replace(&mut slot, Slot::new(hash, twin.parts()));
                twin.check(&old);
            }
            8 => twin.set_value(&mut slot, input.bytes()),
            9 => twin.slide(&slot, 1_700_000_000_000 + i64::from(input.byte())),
            10 => {
                let (address, boxed) = (slot.address(), slot.box_address());
                slot.relocate();
                slot.relocate_box();
                assert_ne!(slot.address(), address);
                assert!(boxed.is_none() || slot.box_address() != boxed);
            }
            _ => twin.splice(&mut slot, input),
        }
        twin.check(&slot);
        assert_eq!(slot.tag(), tag(hash));
    }
}

/// A table, its twin, and a scan and a walk under way.
struct Tables {
    table: Table,
    map: HashMap<Vec<u8>, EntryTwin>,
    placement: Placement,
    rng: SmallRng,
    /// Keys that spans may still touch, or an input of few bytes could take seconds.
    untouched: u32,
    cursor: u32,
    walk: Walk,
    /// Keys the scan, and the walk, must still meet: there since its start.
    unscanned: HashSet<Vec<u8>>,
    unwalked: HashSet<Vec<u8>>,
}

/// Short but for a few.
fn key(number: u32) -> Vec<u8> {
    let len = if number.is_multiple_of(61) {
        260
    } else {
        number as usize % 24
    };
    let mut key = number.to_le_bytes().to_vec();
    key.resize(4 + len, 0);
    key
}

impl Tables {
    fn new(seed: u8, touched_max: u32) -> Tables {
        let mut rng = SmallRng::seed_from_u64(seed.into());
        let placement = Placement::new(&mut rng);
        Tables {
            table: Table::new(placement),
            map: HashMap::new(),
            placement,
            rng,
            untouched: touched_max,
            cursor: 0,
            walk: Walk::default(),
            unscanned: HashSet::new(),
            unwalked: HashSet::new(),
        }
    }

    fn put(&mut self, mut twin: EntryTwin, number: u32) {
        twin.key = key(number);
        let hash = self.placement.hash(&twin.key);
        match self.table.locate(hash, &twin.key) {
            Some(place) => {
                let mut slot = self.table.at_mut(place);
                self.map[&twin.key].check(&slot);
                slot.replace(twin.parts());
            }
            None => {
                assert!(!self.map.contains_key(&twin.key));
                self.table.insert(hash, Slot::new(hash, twin.parts()));
            }
        }
        self.map.insert(twin.key.clone(), twin);
    }

    fn take(&mut self, number: u32) {
        let key = key(number);
        let hash = self.placement.hash(&key);
        let known = self.map.remove(&key);
        let found = if number.is_multiple_of(2) {
            self.table.remove(hash, &key)
        } else {
            self.table.remove_by(hash, |slot| slot.key() == key)
        };
        assert_eq!(found.is_some(), known.is_some());
        if let (Some(slot), Some(known)) = (found, known) {
            known.check(&slot);
        }
        self.unscanned.remove(&key);
        self.unwalked.remove(&key);
    }

    fn find(&mut self, number: u32) {
        let key = key(number);
        let hash = self.placement.hash(&key);
        self.table.prefetch_probe(hash);
        self.table.prefetch_entry(hash);
        let found = self.table.find(hash, &key);
        let known = self.map.get(&key);
        assert_eq!(found.is_some(), known.is_some());
        if let (Some(slot), Some(known)) = (found, known) {
            known.check(slot);
            let by_test = self.table.find_by(hash, |slot| slot.key() == key);
            assert_eq!(by_test.map(Slot::address), Some(slot.address()));
            let by_test = self.table.find_by_mut(hash, |slot| slot.key() == key);
            assert!(by_test.is_some());
        }
    }

    /// A step of SCAN; one that ends has met all keys that were there all the while.
    fn scan(&mut self, count: usize) {
        if self.cursor == 0 {
            self.unscanned = self.map.keys().cloned().collect();
        }
        self.cursor = self.table.scan(self.cursor, count, |slot| {
            self.map[slot.key()].check(slot);
            self.unscanned.remove(slot.key());
        });
        assert!(self.cursor > 0 || self.unscanned.is_empty());
    }

    /// The same of a walk over buckets.
    fn walk(&mut self, buckets: usize) {
        if self.walk.is_done() {
            self.begin_walk();
        }
        let mut meet = |slot: &Slot| {
            self.map[slot.key()].check(slot);
            self.unwalked.remove(slot.key());
            // Now and then a walk stops early.
            !slot.tag().is_multiple_of(8)
        };
        if (buckets / 4).is_multiple_of(2) {
            self.table.walk(&mut self.walk, buckets, meet);
        } else {
            self.table.walk_mut(&mut self.walk, buckets, |mut entry| {
                entry.relocate();
                entry.relocate_box();
                meet(&entry)
            });
        }
        assert!(!self.walk.is_done() || self.unwalked.is_empty());
    }

    /// Edits a value where it is: a boxed one becomes these bytes, to another they are added.
    fn edit(&mut self, number: u32, bytes: Vec<u8>) {
        let hash = self.placement.hash(&key(number));
        let Some(place) = self.table.locate(hash, &key(number)) else {
            return;
        };
        let twin = self.map.get_mut(&key(number)).expect("it has a twin");
        let mut slot = self.table.at_mut(place);
        if let Some(value) = slot.value_mut() {
            *value = Value::Growable(bytes.clone().into());
            (twin.value, twin.boxed) = (bytes, Some(true));
        } else if twin.value.len() + bytes.len() <= SMALL_MAX {
            slot.splice(twin.value.len(), 0, &[&bytes]);
            twin.value.extend(bytes);
        }
    }

    fn begin_walk(&mut self) {
        self.walk = Walk::default();
        self.unwalked = self.map.keys().cloned().collect();
    }

    fn span(&mut self, input: &mut Bytewise<'_>) -> std::ops::Range<u32> {
        let from = u32::from(input.byte()) * 8;
        let len = u32::from(input.byte()) * SPAN_UNIT;
        let len = len.min(self.untouched);
        self.untouched -= len;
        from..from + len
    }

    fn step(&mut self, input: &mut Bytewise<'_>) {
        let number = u32::from(input.byte());
        match input.byte() % 12 {
            0 | 1 => self.put(input.entry(), number),
            2 => {
                let mut twin = input.entry();
                twin.value.truncate(64);
                self.span(input).for_each(|n| self.put(twin.clone(), n));
            }
            3 => self.span(input).for_each(|n| self.take(n)),
            4 => self.take(number),
            5 => self.span(input).for_each(|n| self.find(n)),
            6 => self.scan(number as usize * 4),
            7 => self.walk(1 + number as usize * 4),
            8 => {
                let found = self.table.random(&mut self.rng);
                assert_eq!(found.is_some(), !self.map.is_empty());
                found.inspect(|slot| self.map[slot.key()].check(slot));
            }
            9 => {
                let hash = self.placement.hash(&key(number));
                if let Some(place) = self.table.locate(hash, &key(number))
                    && let Some(twin) = self.map.get_mut(&key(number))
                {
                    twin.expiry = input.expiry();
                    self.table.at_mut(place).set_expiry(twin.expiry);
                }
            }
            10 => self.edit(number, input.bytes()),
            _ => self.table.check(),
        }
        assert_eq!(self.table.len(), self.map.len());
    }
}

/// A table of entries against a map; freed in part piece by piece, and the rest at once. Its spans
/// touch at most so many keys.
pub fn table(input: &mut Bytewise<'_>, touched_max: u32) {
    let mut tables = Tables::new(input.byte(), touched_max);
    for _ in 0..STEPS_MAX {
        if input.has_ended() {
            break;
        }
        tables.step(input);
    }
    tables.table.check();
    tables.cursor = 0;
    tables.scan(usize::MAX);
    while tables.cursor > 0 {
        tables.scan(100);
    }
    tables.begin_walk();
    while !tables.walk.is_done() {
        tables.walk(1000);
    }
    let (mut freed, wanted) = (0, tables.map.len() / 2);
    while freed < wanted {
        let slots = tables.table.dismantle().expect("there is more");
        freed += slots.count();
    }
    assert_eq!(tables.table.len(), tables.map.len() - freed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    /// Inputs, and bytes of each; interpreted, a table of several segments takes minutes.
    const SEEDS: u64 = if cfg!(miri) { 3 } else { 20 };
    const INPUT_BYTES: usize = if cfg!(miri) { 200 } else { 1_000 };

    fn random_bytes(seed: u64) -> Vec<u8> {
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        (0..INPUT_BYTES)
            .map(|_| rng.random_range(0..=255))
            .collect()
    }

    #[test]
    fn an_entry_holds_what_it_was_given() {
        for seed in 0..SEEDS {
            entry(&mut Bytewise::new(&random_bytes(seed)));
        }
    }

    /// An entry with a key of 16 bytes and a value of 32.
    fn usual(expiry: Option<Expiry>) -> EntryTwin {
        EntryTwin {
            key: vec![b'k'; 16],
            value: vec![b'v'; 32],
            boxed: None,
            form: Form::String,
            expiry,
            epoch: 1,
            clock: 2,
        }
    }

    fn expiry(ms: i64, basis: Basis) -> Expiry {
        Expiry::new(Term::new(Deadline(UnixMillis(ms)), basis), ItemRef(7))
    }

    #[test]
    fn an_entry_takes_no_more_than_it_must() {
        let now_ms = 1_800_000_000_000;
        let bytes = |expiry| Slot::new(0, usual(expiry).parts()).allocated_bytes();
        assert_eq!(bytes(None), 56);
        for basis in [Basis::Relative, Basis::Absolute] {
            assert_eq!(bytes(Some(expiry(now_ms, basis))), 64);
            assert_eq!(bytes(Some(expiry(FAR - 1, basis))), 64);
            assert_eq!(bytes(Some(expiry(FAR, basis))), 80);
        }
        let sliding = Expiry {
            sliding_ms: Some(SLIDING_MS_MAX),
            ..expiry(now_ms, Basis::Relative)
        };
        assert_eq!(bytes(Some(sliding)), 80);
    }

    /// Both sides of where a deadline takes the long form, with and without a sliding span.
    #[test]
    fn an_expiry_survives_every_other_change() {
        let moments = [0, 1, FAR - 1, FAR, i64::MAX, -1, i64::MIN];
        for (ms, basis, sliding_ms) in moments.into_iter().flat_map(|ms| {
            [Basis::Relative, Basis::Absolute]
                .into_iter()
                .flat_map(move |basis| {
                    [None, Some(1), Some(SLIDING_MS_MAX)].map(|span| (ms, basis, span))
                })
        }) {
            let wanted = Expiry {
                sliding_ms,
                ..expiry(ms, basis)
            };
            let mut slot = Slot::new(0, usual(None).parts());
            slot.set_expiry(Some(expiry(5, Basis::Relative)));
            slot.set_expiry(Some(wanted));
            assert_eq!((slot.basis(), slot.sliding_ms()), (Some(basis), sliding_ms));
            slot.splice(32, 0, &[&[b'x'; 300]]);
            assert_eq!(slot.expiry(), Some(wanted));
            slot.splice(0, 332, &[b"short"]);
            assert_eq!(slot.expiry(), Some(wanted));
            let long = Box::new(Value::Growable(vec![b'y'; 1_000].into()));
            slot.set_value(Form::RawString, NewValue::Boxed(long));
            assert_eq!(slot.expiry(), Some(wanted));
            let wanted = Expiry {
                item: ItemRef(9),
                ..wanted
            };
            slot.set_item(wanted.item);
            assert_eq!(slot.frozen().expiry(), Some(wanted));
            assert_eq!(slot.duplicate().expiry(), Some(wanted));
            let expiry = slot.expiry();
            let mut slot = slot.renamed(1, b"another", expiry, 3);
            assert_eq!(slot.expiry(), Some(wanted));
            slot.set_expiry(None);
            assert_eq!((slot.expiry(), slot.deadline()), (None, None));
            assert_eq!(slot.string(), Some([b'y'; 1_000].as_slice()));
        }
    }

    #[test]
    fn a_table_holds_what_a_map_does() {
        for seed in 0..SEEDS {
            table(&mut Bytewise::new(&random_bytes(seed)), TOUCHED_MAX);
        }
    }
}
