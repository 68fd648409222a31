//! DEBUG DIGEST and DEBUG DIGEST-VALUE: a fingerprint of the living dataset or of single values, by
//! which tests see whether a copy, a restart or a conversion has kept everything.
//!
//! The same 20 bytes as Redis 8.2 gives, so that datasets of both can be compared. Two ways to add
//! a string to a digest d: `d ^= SHA1(s)`, where order does not matter, and `d = SHA1(d ^
//! SHA1(s))`, where it does. A value is the number of its type, its elements (of a list, a
//! stream and a string by the second way, of the others by the first, where an element is the
//! second way's digest of its strings) and a mark for a deadline, of which the time itself is no
//! part.

use sha1::{Digest as _, Sha1};

use crate::clock::UnixMillis;
use crate::engine::Engine;
use crate::expiry::is_due;
use crate::store::collection;
use crate::store::entry::Slot;
use crate::value::number::format_f64;
use crate::value::stream::Element;
use crate::value::{Kind, StringRef};

/// Marks of a key and of a field that have a deadline.
const VOLATILE: &[u8] = b"!!expire!!";
const VOLATILE_FIELD: &[u8] = b"!!hexpire!!";

/// 160 bits that are gathered.
#[derive(Clone, Copy, Default)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Adds a string; the order of such additions does not matter.
    fn add(&mut self, string: &[u8]) {
        let hash = Sha1::digest(string);
        self.0.iter_mut().zip(hash).for_each(|(a, b)| *a ^= b);
    }

    /// Adds a string in its place.
    fn mix(&mut self, string: &[u8]) {
        self.add(string);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_number(&mut self, number: u32) {
        self.mix(&number.to_be_bytes());
    }

    /// Adds a value and whether it has a deadline.
    fn value(&mut self, slot: &Slot, now: UnixMillis) {
        let kind = slot.kind();
        self.mix_number(number_of(kind));
        if let Some(string) = slot.string() {
            self.mix(string);
        } else {
            collection::for_each_element(slot, |strings, deadline| {
                if deadline.is_none_or(|deadline| !is_due(deadline, now)) {
                    self.element(kind, strings, deadline.is_some());
                }
            });
        }
        if slot.deadline().is_some() {
            self.add(VOLATILE);
        }
    }

    fn element(&mut self, kind: Kind, strings: &[StringRef<'_>], is_volatile: bool) {
        let mut element = Digest::default();
        match (kind, strings) {
            (Kind::List, [item]) => return self.mix(item),
            (Kind::Stream, [head, strings @ ..]) => {
                // Of a stream only the entries count.
                if let Some(Element::Entry(id)) = Element::read(head) {
                    self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
                    strings.iter().for_each(|string| self.mix(string));
                }
                return;
            }
            (Kind::Set, [member]) if !is_volatile => return self.add(member),
            (Kind::Zset, [member, score]) => {
                element.mix(member);
                let score = score
                    .first_chunk()
                    .map_or(0.0, |bytes| f64::from_le_bytes(*bytes));
                element.mix(format_f64(score).as_bytes());
            }
            _ => strings.iter().for_each(|string| element.mix(string)),
        }
        if is_volatile {
            element.add(VOLATILE_FIELD);
        }
        self.add(&element.0);
    }

    /// In hexadecimal digits.
    pub fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The number Redis has for a type.
fn number_of(kind: Kind) -> u32 {
    match kind {
        Kind::Stream => 6,
        _ => kind as u32,
    }
}

/// The digest of all living keys; looks at everything.
pub fn of_dataset(engine: &mut Engine) -> Digest {
    let reading = engine.reading;
    let mut all = Digest::default();
    for db in 0..engine.keyspace.databases() {
        let mut is_first = true;
        engine.keyspace.live(db, &reading).for_each(|slot| {
            if std::mem::take(&mut is_first) {
                all.mix_number(db as u32);
            }
            let mut key = Digest::default();
            key.mix(slot.key());
            key.value(slot, reading.now);
            all.add(&key.0);
        });
    }
    all
}

/// The digest of the value at a key; zero if there is none.
pub fn of_value(engine: &mut Engine, db: usize, key: &[u8]) -> Digest {
    let reading = engine.reading;
    let mut digest = Digest::default();
    if let Some(slot) = engine.keyspace.live(db, &reading).peek(key) {
        digest.value(slot, reading.now);
    }
    digest
}
