//! Streams of the model: a map of ids to strings, and what is remembered of ids that are gone.

use std::collections::BTreeMap;

use super::group::Group;
use super::{Collection, Model, Request, Value, Words, integer, item, null_array};

pub type Id = (u64, u64);

/// Entries by id: fields and values in order.
#[derive(Clone, Default)]
pub struct Stream {
    pub entries: BTreeMap<Id, Vec<String>>,
    last: Id,
    deleted: Id,
    /// It was added to, or made for a group: it stays when it is empty.
    pub is_there: bool,
    pub groups: BTreeMap<String, Group>,
}

impl Collection for Stream {
    fn of(value: &mut Value) -> Option<&mut Stream> {
        match value {
            Value::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Stream(self)
    }

    fn is_empty(&self) -> bool {
        !self.is_there
    }
}

pub fn text((ms, seq): Id) -> String {
    format!("{ms}-{seq}")
}

pub fn entry(id: &Id, strings: &[String]) -> String {
    let strings: Vec<String> = strings.iter().map(|string| item(Some(string))).collect();
    let id = item(Some(&text(*id)));
    format!("*2 {id} *{} {}", strings.len(), strings.join(" "))
}

fn entries<'a>(all: impl Iterator<Item = (&'a Id, &'a Vec<String>)>) -> String {
    let all: Vec<String> = all.map(|(id, strings)| entry(id, strings)).collect();
    format!("*{} {}", all.len(), all.join(" "))
        .trim_end()
        .to_owned()
}

impl Stream {
    /// The reply to XRANGE of all there is.
    pub fn whole(&self) -> String {
        entries(self.entries.iter())
    }

    /// An id of the stream, or one that is not.
    pub fn some_id(&self, number: i64) -> Id {
        let place = number.unsigned_abs() as usize % (self.entries.len() + 1);
        match self.entries.keys().nth(place) {
            Some(&(ms, seq)) => (ms, seq + u64::from(number < 0)),
            None => (number.unsigned_abs(), 1),
        }
    }

    /// Deletes an entry; whether it was there.
    pub fn remove(&mut self, id: Id) -> bool {
        let is_removed = self.entries.remove(&id).is_some();
        if is_removed {
            self.deleted = self.deleted.max(id);
        }
        is_removed
    }

    /// Removes entries at the front while `is_removed` says so of how many are left and of an id;
    /// `choice` is what becomes of those that are pending.
    fn trim(&mut self, choice: &str, is_removed: impl Fn(usize, Id) -> bool) -> usize {
        let ids: Vec<Id> = self.entries.keys().copied().collect();
        let before = self.entries.len();
        for id in ids {
            if !is_removed(self.entries.len(), id) {
                break;
            }
            if choice == "acked" && self.groups.values().any(|group| group.needs(id)) {
                continue;
            }
            self.entries.remove(&id);
            if choice == "delref" {
                self.groups.values_mut().for_each(|group| {
                    group.forget(id);
                });
            }
        }
        before - self.entries.len()
    }
}

pub const STREAMS: [Request; 15] = [
    add,
    add,
    add,
    add_given,
    add_given,
    delete,
    delete,
    trim,
    trim,
    range,
    range,
    range,
    read,
    set_id,
    |m, w| {
        let len = |stream: &mut Stream| integer(stream.entries.len());
        (format!("xlen {}", w.key), m.with(&w.key, len))
    },
];

fn strings(w: &Words) -> Vec<String> {
    let names = if w.index < 0 { "g" } else { "f" };
    let pairs = w.elements().into_iter().enumerate();
    pairs
        .flat_map(|(i, element)| [format!("{names}{i}"), element])
        .collect()
}

fn push(stream: &mut Stream, id: Id, strings: Vec<String>) -> String {
    stream.is_there = true;
    stream.last = id;
    stream.entries.insert(id, strings);
    item(Some(&text(id)))
}

fn add(m: &mut Model, w: &Words) -> (String, String) {
    let strings = strings(w);
    let max = w.last.unsigned_abs() as usize;
    let trims = w.ms % 3 == 0;
    let option = if trims {
        format!(" maxlen {max}")
    } else {
        String::new()
    };
    let request = format!("xadd {}{option} * {}", w.key, strings.join(" "));
    let now = (m.now as u64, 0);
    let reply = m.with(&w.key, |stream: &mut Stream| {
        let (ms, seq) = stream.last;
        let id = if now.0 > ms { now } else { (ms, seq + 1) };
        let reply = push(stream, id, strings);
        if trims {
            stream.trim("keepref", |len, _| len > max);
        }
        reply
    });
    (request, reply)
}

fn add_given(m: &mut Model, w: &Words) -> (String, String) {
    let strings = strings(w);
    let id = match m.read::<Stream>(&w.key) {
        Some(stream) if w.index % 4 > 0 => (stream.last.0 + u64::from(w.number % 2), w.ms as u64),
        _ => (u64::from(w.number), u64::from(w.many)),
    };
    let request = format!("xadd {} {} {}", w.key, text(id), strings.join(" "));
    let reply = m.with(&w.key, |stream: &mut Stream| {
        if id > stream.last {
            return push(stream, id, strings);
        }
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
            .to_owned()
    });
    (request, reply)
}

fn delete(m: &mut Model, w: &Words) -> (String, String) {
    let stream = m.read::<Stream>(&w.key).unwrap_or_default();
    let ids = [stream.some_id(w.index), stream.some_id(w.last)];
    let request = format!("xdel {} {} {}", w.key, text(ids[0]), text(ids[1]));
    let reply = m.with(&w.key, |stream: &mut Stream| {
        integer(ids.iter().filter(|id| stream.remove(**id)).count())
    });
    (request, reply)
}

fn trim(m: &mut Model, w: &Words) -> (String, String) {
    let stream = m.read::<Stream>(&w.key).unwrap_or_default();
    let max = stream.entries.len().saturating_sub(w.many as usize);
    let choice = ["keepref", "delref", "acked"][w.number as usize % 3];
    if w.ms % 2 == 0 {
        let reply = m.with(&w.key, |stream: &mut Stream| {
            integer(stream.trim(choice, |len, _| len > max))
        });
        return (format!("xtrim {} maxlen = {max} {choice}", w.key), reply);
    }
    let id = stream.some_id(w.index % 8);
    let reply = m.with(&w.key, |stream: &mut Stream| {
        integer(stream.trim(choice, |_, first| first < id))
    });
    let request = format!("xtrim {} minid {} {choice}", w.key, text(id));
    (request, reply)
}

fn range(m: &mut Model, w: &Words) -> (String, String) {
    let stream = m.read::<Stream>(&w.key).unwrap_or_default();
    let (a, b) = (stream.some_id(w.index), stream.some_id(w.last));
    let (start, end) = (a.min(b), a.max(b));
    let count = w.many as usize;
    let is_reversed = w.ms % 2 == 0;
    let reply = m.with(&w.key, |stream: &mut Stream| {
        let found = stream.entries.range(start..=end);
        if is_reversed {
            entries(found.rev().take(count))
        } else {
            entries(found.take(count))
        }
    });
    let (name, first, last) = if is_reversed {
        ("xrevrange", end, start)
    } else {
        ("xrange", start, end)
    };
    let [first, last] = [first, last].map(text);
    let request = format!("{name} {} {first} {last} count {count}", w.key);
    (request, reply)
}

fn read(m: &mut Model, w: &Words) -> (String, String) {
    let stream = m.read::<Stream>(&w.key).unwrap_or_default();
    let (ms, seq) = stream.some_id(w.index);
    let request = format!("xread count {} streams {} {ms}-{seq}", w.many, w.key);
    let reply = m.with(&w.key, |stream: &mut Stream| {
        let found = stream.entries.range((ms, seq + 1)..);
        let reply = entries(found.take(w.many as usize));
        if reply == "*0" {
            return null_array();
        }
        format!("*1 *2 {} {reply}", item(Some(&w.key)))
    });
    (request, reply)
}

fn set_id(m: &mut Model, w: &Words) -> (String, String) {
    let id = match m.read::<Stream>(&w.key) {
        Some(stream) if w.index % 4 > 0 => (stream.last.0, stream.last.1 + u64::from(w.many)),
        _ => (w.ms as u64, 7),
    };
    let request = format!("xsetid {} {}", w.key, text(id));
    let reply = m.with(&w.key, |stream: &mut Stream| {
        let text = if !stream.is_there {
            "-ERR no such key"
        } else if id < stream.deleted {
            "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
        } else if stream
            .entries
            .keys()
            .next_back()
            .is_some_and(|last| id < *last)
        {
            "-ERR The ID specified in XSETID is smaller than the target stream top item"
        } else {
            stream.last = id;
            "+OK"
        };
        text.to_owned()
    });
    (request, reply)
}
