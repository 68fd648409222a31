//! The commands that make a key what it is: how a value is handed on by somebody who did not follow
//! its changes, as after a load.

use std::collections::BTreeSet;

use super::collection::{for_each_element, stream_of};
use super::effect::{Effects, ITEMS_PER_EFFECT};
use super::entry::Slot;
use super::live::ends_of;
use super::members::words_of;
use crate::clock::Reading;
use crate::expiry::expiretime_ms;
use crate::value::Kind;
use crate::value::number::format_f64;
use crate::value::stream::{ConsumerGroup, Facts, Id, Stream};

/// Records the effects by which a key that is not there becomes the one in an entry, its deadlines
/// and those of its fields included.
pub fn restate(effects: &mut Effects, db: usize, slot: &Slot, reading: &Reading) {
    let key = slot.key();
    if let Some(string) = slot.string() {
        effects.record(db, [b"SET".as_slice(), key, string]);
    } else if let Ok(stream) = stream_of(slot) {
        restate_stream(effects, db, key, stream);
    } else {
        restate_elements(effects, db, slot, reading);
    }
    restate_deadline(effects, db, slot, reading);
}

/// Records the effect by which a key gets the deadline of an entry, if that has one.
pub fn restate_deadline(effects: &mut Effects, db: usize, slot: &Slot, reading: &Reading) {
    if let Some(expiry) = slot.expiry() {
        let ends = ends_of(expiry.term(), reading);
        let command = [b"PEXPIREAT".as_slice(), slot.key()].into_iter();
        effects.record(db, command.chain(ends.iter().map(Vec::as_slice)));
    }
}

fn restate_stream(effects: &mut Effects, db: usize, key: &[u8], stream: &Stream) {
    // An entry that is gone but pending must be there when it is delivered.
    let pending = stream
        .groups()
        .values()
        .flat_map(|group| group.pending_from(Id::MIN));
    let gone: BTreeSet<Id> = pending
        .map(|(id, _)| id)
        .filter(|id| stream.get(*id).is_none())
        .collect();
    let add = |effects: &mut Effects, id: Id, strings: &[&[u8]]| {
        let id = id.to_string();
        let command = [b"XADD".as_slice(), key, id.as_bytes()];
        effects.record(db, command.into_iter().chain(strings.iter().copied()));
    };
    let mut left = gone.iter().peekable();
    for entry in stream.range(Id::MIN, Id::MAX) {
        while let Some(id) = left.next_if(|id| **id < entry.id) {
            add(effects, *id, &[b"x", b"y"]);
        }
        let pairs = entry.pairs().flat_map(|(field, value)| [field, value]);
        add(effects, entry.id, &pairs.collect::<Vec<_>>());
    }
    left.for_each(|id| add(effects, *id, &[b"x", b"y"]));
    if stream.is_empty() && gone.is_empty() {
        // It is there although it has no entries: one comes and goes.
        let command: [&[u8]; 7] = [b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"];
        effects.record(db, command);
    }
    let facts = stream.facts();
    let more = Facts {
        entries_added: facts.entries_added + gone.len() as u64,
        max_deleted_id: Id::MIN,
        ..facts
    };
    restate_facts(effects, db, key, more);
    for (name, group) in stream.groups() {
        restate_group(effects, db, [key, name], group);
    }
    for id in &gone {
        let id = id.to_string();
        effects.record(db, [b"XDEL".as_slice(), key, id.as_bytes()]);
    }
    restate_facts(effects, db, key, facts);
}

fn restate_facts(effects: &mut Effects, db: usize, key: &[u8], facts: Facts) {
    let [last, added, deleted] = [
        facts.last_id.to_string(),
        facts.entries_added.to_string(),
        facts.max_deleted_id.to_string(),
    ];
    effects.record(
        db,
        [
            b"XSETID".as_slice(),
            key,
            last.as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            deleted.as_bytes(),
        ],
    );
}

fn restate_group(effects: &mut Effects, db: usize, names: [&[u8]; 2], group: &ConsumerGroup) {
    let last = group.last_id.to_string();
    let read = group
        .entries_read
        .map_or("-1".to_owned(), |read| read.to_string());
    let words: [&[u8]; 2] = [b"XGROUP", b"CREATE"];
    let position = [last.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    effects.record(db, words.into_iter().chain(names).chain(position));
    for consumer in group.consumers() {
        let words: [&[u8]; 2] = [b"XGROUP", b"CREATECONSUMER"];
        let consumer = [consumer.name()];
        effects.record(db, words.into_iter().chain(names).chain(consumer));
    }
    for (id, delivery) in group.pending_from(Id::MIN) {
        let [id, time, count] = [
            id.to_string(),
            delivery.unix_ms.to_string(),
            delivery.count.to_string(),
        ];
        let start = [b"XCLAIM".as_slice()].into_iter().chain(names);
        let rest: [&[u8]; 11] = [
            group.consumer(delivery.consumer).name(),
            b"0",
            id.as_bytes(),
            b"TIME",
            time.as_bytes(),
            b"RETRYCOUNT",
            count.as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last.as_bytes(),
        ];
        effects.record(db, start.chain(rest));
    }
}

fn restate_elements(effects: &mut Effects, db: usize, slot: &Slot, reading: &Reading) {
    let (kind, key) = (slot.kind(), slot.key());
    let command: &[u8] = match kind {
        Kind::List => b"RPUSH",
        Kind::Set => b"SADD",
        Kind::Zset => b"ZADD",
        Kind::Hash | Kind::String | Kind::Stream => b"HSET",
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
    let words = words_of(kind);
    for (member, moment) in volatile {
        let moment = moment.to_string();
        let command = [words.expiration, key, moment.as_bytes()].into_iter();
        effects.record(db, command.chain([words.members, b"1", &member]));
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
