//! Members of sets and sorted sets, which may have deadlines, and requests on these.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::fields::{Dated, Form, Named, drop_dead, expire, names, persist, tell};
use super::{Collection, Model, Request, Set, Value, Words, Zset, integer};

/// Members with what they have beside a deadline.
#[derive(Clone)]
pub struct Members<V> {
    held: BTreeMap<String, V>,
    deadlines: BTreeMap<String, i64>,
}

impl<V> Default for Members<V> {
    fn default() -> Members<V> {
        Members {
            held: BTreeMap::new(),
            deadlines: BTreeMap::new(),
        }
    }
}

impl<V> Deref for Members<V> {
    type Target = BTreeMap<String, V>;

    fn deref(&self) -> &BTreeMap<String, V> {
        &self.held
    }
}

impl<V> FromIterator<(String, V)> for Members<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(members: I) -> Members<V> {
        Members {
            held: members.into_iter().collect(),
            deadlines: BTreeMap::new(),
        }
    }
}

impl<V> Members<V> {
    /// Adds a member, or gives one that is there, and keeps its deadline, something else; whether
    /// it is new.
    pub fn put(&mut self, member: String, value: V) -> bool {
        self.held.insert(member, value).is_none()
    }

    pub fn remove(&mut self, member: &str) -> Option<V> {
        self.deadlines.remove(member);
        self.held.remove(member)
    }
}

impl<V> Dated for Members<V> {
    fn names(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }

    fn deadline(&self, member: &str) -> Option<Option<i64>> {
        let is_there = self.held.contains_key(member);
        is_there.then(|| self.deadlines.get(member).copied())
    }

    fn set_deadline(&mut self, member: &str, deadline: Option<i64>) {
        self.deadlines.remove(member);
        if let Some(deadline) = deadline {
            self.deadlines.insert(member.to_owned(), deadline);
        }
    }

    fn take(&mut self, member: &str) {
        self.remove(member);
    }
}

impl Collection for Set {
    fn of(value: &mut Value) -> Option<&mut Set> {
        match value {
            Value::Set(set) => Some(set),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Set(self)
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Collection for Zset {
    fn of(value: &mut Value) -> Option<&mut Zset> {
        match value {
            Value::Zset(zset) => Some(zset),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Zset(self)
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Named for Set {
    const LETTER: char = 's';
    const WORD: &str = "members";
}

impl Named for Zset {
    const LETTER: char = 'z';
    const WORD: &str = "members";
}

/// The first two add as many members as they are told.
pub const OF_SETS: [Request; 9] = [
    add,
    add,
    expire::<Set>,
    expire::<Set>,
    expire::<Set>,
    tell::<Set>,
    persist::<Set>,
    expire_one,
    tell_one,
];

pub const OF_ZSETS: [Request; 7] = [
    expire::<Zset>,
    expire::<Zset>,
    expire::<Zset>,
    tell::<Zset>,
    persist::<Zset>,
    expire_one,
    tell_one,
];

/// SADDEX.
fn add(m: &mut Model, w: &Words) -> (String, String) {
    let members = names(w);
    let seconds = w.ms.rem_euclid(3);
    let keeps = w.last % 2 == 0;
    let option = ["", "nx "][usize::from(keeps)];
    let request = format!("saddex {} {option}{seconds} {}", w.key, members.join(" "));
    if seconds == 0 {
        let refusal = "-ERR invalid expire time in 'saddex' command";
        return (request, refusal.to_owned());
    }
    let deadline = m.now + seconds * 1_000;
    let reply = m.with(&w.key, |set: &mut Set| {
        let mut added = 0;
        for member in members {
            let is_new = set.put(member.clone(), ());
            added += usize::from(is_new);
            if is_new || !keeps {
                set.set_deadline(&member, Some(deadline));
            }
        }
        integer(added)
    });
    (request, reply)
}

/// EXPIREMEMBER or PEXPIREMEMBERAT.
fn expire_one(m: &mut Model, w: &Words) -> (String, String) {
    let (member, now) = (w.element(w.number), m.now);
    let form = Form::of(w);
    let ms = w.ms % 100 - 20;
    let (deadline, request) = if form.is_moment {
        let request = format!("pexpirememberat {} {member} {}", w.key, now + ms);
        (now + ms, request)
    } else {
        let ms = ms.max(0);
        (now + ms, format!("expiremember {} {member} {ms} ms", w.key))
    };
    if !m.has(&w.key) {
        return (request, integer(0));
    }
    let reply = m.with_dated(&w.key, |collection| {
        let is_there = collection.deadline(&member).is_some();
        if is_there {
            collection.set_deadline(&member, Some(deadline));
            drop_dead(collection, now);
        }
        integer(u8::from(is_there))
    });
    (request, reply)
}

/// PTTL of a member.
fn tell_one(m: &mut Model, w: &Words) -> (String, String) {
    let (member, now) = (w.element(w.number), m.now);
    let request = format!("pttl {} {member}", w.key);
    if !m.has(&w.key) {
        return (request, integer(-2));
    }
    let reply = m.with_dated(&w.key, |collection| match collection.deadline(&member) {
        None => integer(-2),
        Some(None) => integer(-1),
        Some(Some(deadline)) => integer(deadline - now),
    });
    (request, reply)
}
