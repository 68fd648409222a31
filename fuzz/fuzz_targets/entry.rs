//! The unsafe leaf under the address sanitizer: one entry against a plain twin, and a table of
//! entries against a map, step by step as the bytes say.
#![no_main]

use std::collections::HashMap;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mayfly::clock::UnixMillis;
use mayfly::expiry::Deadline;
use mayfly::expiry::index::ItemRef;
use mayfly::store::entry::{INLINE_MAX, NewValue, Parts, Slot, ValueRef, tag};
use mayfly::store::table::{Placement, Table};
use mayfly::value::Value;
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// Lengths at which headers and size classes change.
const LENGTHS: [usize; 12] = [
    0, 1, 7, 8, 38, 54, 254, 255, 256, 4096, INLINE_MAX - 1, INLINE_MAX,
];

/// What an entry should hold.
#[derive(Clone, Debug, PartialEq)]
struct Twin {
    key: Vec<u8>,
    value: Vec<u8>,
    is_boxed: bool,
    deadline: Option<(Deadline, ItemRef)>,
    epoch: u8,
    clock: u16,
    is_edited: bool,
}

impl Twin {
    fn parts(&self) -> Parts<'_> {
        let value = if self.is_boxed {
            NewValue::Boxed(Box::new(Value::Long(Bytes::copy_from_slice(&self.value))))
        } else {
            NewValue::Inline(&self.value)
        };
        Parts {
            key: &self.key,
            value,
            deadline: self.deadline,
            epoch: self.epoch,
            clock: self.clock,
            is_edited: self.is_edited,
        }
    }

    fn check(&self, slot: &Slot) {
        let value = match slot.value() {
            ValueRef::Inline(bytes) => (bytes, false),
            ValueRef::Boxed(Value::Long(bytes)) => (bytes.as_ref(), true),
            ValueRef::Boxed(Value::Growable(bytes)) => (bytes.as_slice(), true),
        };
        assert_eq!(value, (self.value.as_slice(), self.is_boxed));
        assert_eq!(slot.key(), self.key);
        assert_eq!(slot.filed(), self.deadline);
        assert_eq!((slot.epoch(), slot.clock()), (self.epoch, self.clock));
        assert_eq!(slot.is_edited(), self.is_edited);
        assert!(slot.allocated_bytes() >= self.key.len() + self.value.len());
    }
}

/// Reads choices off the input; zeros once it has ended.
struct Bytewise<'a>(std::slice::Iter<'a, u8>);

impl Bytewise<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = LENGTHS[usize::from(self.byte()) % LENGTHS.len()];
        vec![self.byte(); len]
    }

    fn deadline(&mut self) -> Option<(Deadline, ItemRef)> {
        let ms = match self.byte() % 5 {
            0 => return None,
            1 => i64::from(self.byte()),
            2 => (1 << 48) - 1,
            3 => 1 << 48,
            _ => i64::MAX,
        };
        let item = ItemRef(u32::from(self.byte()) << 24 | u32::from(self.byte()));
        Some((Deadline(UnixMillis(ms)), item))
    }

    fn twin(&mut self) -> Twin {
        Twin {
            key: self.bytes(),
            value: self.bytes(),
            is_boxed: self.byte() % 4 == 0,
            deadline: self.deadline(),
            epoch: self.byte(),
            clock: self.byte().into(),
            is_edited: self.byte() % 2 == 0,
        }
    }
}

/// One entry through every kind of change.
fn entry(input: &mut Bytewise<'_>) {
    let mut twin = input.twin();
    let mut hash = u64::from(input.byte()) << 56;
    let mut slot = Slot::new(hash, twin.parts());
    for _ in 0..64 {
        match input.byte() % 8 {
            0 => {
                let was_boxed = twin.is_boxed;
                twin = input.twin();
                assert_eq!(slot.replace(twin.parts()).is_some(), was_boxed);
            }
            1 => {
                twin.deadline = input.deadline();
                slot.reshape(twin.deadline);
            }
            2 => {
                twin.key = input.bytes();
                twin.deadline = input.deadline();
                twin.epoch = input.byte();
                hash = u64::from(input.byte()) << 48;
                slot = slot.renamed(hash, &twin.key, twin.deadline, twin.epoch);
            }
            3 => slot = slot.duplicate(),
            4 => {
                if let Some((deadline, item)) = input.deadline()
                    && slot.set_deadline(deadline, item)
                {
                    twin.deadline = Some((deadline, item));
                }
            }
            5 => {
                twin.epoch = input.byte();
                slot.set_epoch(twin.epoch);
            }
            6 => {
                twin.clock = input.byte().into();
                slot.set_clock(twin.clock);
            }
            _ if twin.is_boxed => {
                twin.value = input.bytes();
                let value = slot.value_mut().expect("the twin is boxed");
                *value = Value::Growable(twin.value.clone());
            }
            _ => assert!(slot.value_mut().is_none()),
        }
        twin.check(&slot);
        assert_eq!(slot.tag(), tag(hash));
    }
}

/// A table of entries against a map.
fn table(input: &mut Bytewise<'_>) {
    let mut rng = SmallRng::seed_from_u64(input.byte().into());
    let placement = Placement::new(&mut rng);
    let mut table = Table::new(placement);
    let mut map: HashMap<Vec<u8>, Twin> = HashMap::new();
    for round in 0..128_u32 {
        let span = 1 + u32::from(input.byte()) * 16;
        let mut twin = input.twin();
        let stem = twin.key.clone();
        let is_removing = input.byte() % 3 == 0;
        for nth in 0..span.min(if round % 16 == 0 { 4096 } else { 16 }) {
            twin.key = [&nth.to_le_bytes(), stem.as_slice()].concat();
            let hash = placement.hash(&twin.key);
            table.prefetch_probe(hash);
            table.prefetch_entry(hash);
            let known = map.remove(&twin.key);
            let found = table.find(hash, &twin.key);
            assert_eq!(found.is_some(), known.is_some());
            if let (Some(slot), Some(known)) = (found, &known) {
                known.check(slot);
            }
            if is_removing {
                assert_eq!(table.remove(hash, &twin.key).is_some(), known.is_some());
                continue;
            }
            if known.is_some() {
                let slot = table.find_mut(hash, &twin.key).expect("just found");
                slot.replace(twin.parts());
            } else {
                table.insert(hash, Slot::new(hash, twin.parts()));
            }
            if stem.len() > 256 {
                // One large entry a round is enough.
                map.insert(twin.key.clone(), twin.clone());
                break;
            }
            map.insert(twin.key.clone(), twin.clone());
        }
        assert_eq!(table.len(), map.len());
        if input.0.len() == 0 {
            break;
        }
    }
    table.check();
    let (mut cursor, mut seen) = (0, 0);
    loop {
        cursor = table.scan(cursor, 100, |slot| {
            map[slot.key()].check(slot);
            seen += 1;
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, map.len());
    assert_eq!(table.random(&mut rng).is_some(), !map.is_empty());
    let mut freed = 0;
    while let Some(slots) = table.dismantle() {
        freed += slots.count();
    }
    assert_eq!(freed, map.len());
}

fuzz_target!(|data: &[u8]| {
    let mut input = Bytewise(data.iter());
    if input.byte() % 2 == 0 {
        entry(&mut input);
    } else {
        table(&mut input);
    }
});
