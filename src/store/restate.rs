//! The commands that make a key what it is: how a value is handed on by somebody who did not follow
//! its changes, as after a load.

use super::collection::for_each_element;
use super::effect::{Effects, ITEMS_PER_EFFECT};
use super::entry::Slot;
use crate::clock::Reading;
use crate::expiry::expiretime_ms;
use crate::value::Kind;
use crate::value::number::format_f64;

/// Records the effects by which a key that is not there becomes the one in an entry, its deadlines
/// and those of its fields included.
pub fn restate(effects: &mut Effects, db: usize, slot: &Slot, reading: &Reading) {
    let key = slot.key();
    if let Some(string) = slot.string() {
        effects.record(db, [b"SET".as_slice(), key, string]);
    } else {
        restate_elements(effects, db, slot, reading);
    }
    if let Some(deadline) = slot.deadline() {
        let moment = expiretime_ms(deadline, reading).to_string();
        effects.record(db, [b"PEXPIREAT".as_slice(), key, moment.as_bytes()]);
    }
}

fn restate_elements(effects: &mut Effects, db: usize, slot: &Slot, reading: &Reading) {
    let (kind, key) = (slot.kind(), slot.key());
    let command: &[u8] = match kind {
        Kind::List => b"RPUSH",
        Kind::Set => b"SADD",
        Kind::Zset => b"ZADD",
        Kind::Hash | Kind::String => b"HSET",
    };
    let mut strings: Vec<Vec<u8>> = Vec::new();
    let mut volatile = Vec::new();
    for_each_element(slot, |element, deadline| {
        match (kind, element) {
            (Kind::Zset, [member, score]) => {
                let score = score.first_chunk().map(|bytes| f64::from_le_bytes(*bytes));
                let score = format_f64(score.expect("a score is eight bytes"));
                strings.extend([score.as_bytes().to_vec(), member.to_vec()]);
            }
            (_, parts) => strings.extend(parts.iter().map(|part| part.to_vec())),
        }
        if let Some(deadline) = deadline {
            volatile.push((element[0].to_vec(), expiretime_ms(deadline, reading)));
        }
        if strings.len() >= ITEMS_PER_EFFECT {
            add(effects, db, [command, key], &mut strings);
        }
    });
    add(effects, db, [command, key], &mut strings);
    for (field, moment) in volatile {
        let moment = moment.to_string();
        let command = [b"HPEXPIREAT".as_slice(), key, moment.as_bytes()];
        effects.record(
            db,
            command
                .into_iter()
                .chain([b"FIELDS".as_slice(), b"1", &field]),
        );
    }
}

/// Records a command that adds these elements, and takes them.
fn add(effects: &mut Effects, db: usize, command: [&[u8]; 2], strings: &mut Vec<Vec<u8>>) {
    if !strings.is_empty() {
        let elements = strings.iter().map(Vec::as_slice);
        effects.record(db, command.into_iter().chain(elements));
        strings.clear();
    }
}
