//! The naive model: a map whose due keys are thrown out whenever time moves. The random tests and
//! the fuzz target `model` drive it beside a server and compare.

use std::collections::BTreeMap;

use crate::sim::{START, Sim, TempDir};

/// What a request is made of; each kind takes what it needs.
pub struct Words {
    pub key: String,
    /// Another key, or the same.
    pub to: String,
    /// Without spaces.
    pub value: String,
    /// At least 1.
    pub ms: i64,
}

/// Values and deadlines of one database.
pub type Keys = BTreeMap<String, (String, Option<i64>)>;

/// Two databases; what is due is thrown out before each step.
#[derive(Clone, Default)]
pub struct Model {
    /// Database 0, where all clients are.
    pub keys: Keys,
    /// Database 1, reached by SWAPDB, MOVE and COPY.
    pub other: Keys,
    pub now: i64,
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| {
        format!("${} {v}", v.len()).trim_end().to_owned()
    })
}

fn yes(is_so: bool) -> String {
    format!(":{}", i32::from(is_so))
}

fn ok() -> String {
    "+OK".to_owned()
}

fn ttl(keys: &Keys, key: &str, now: i64) -> String {
    match keys.get(key) {
        None => ":-2".to_owned(),
        Some((_, None)) => ":-1".to_owned(),
        Some((_, Some(at))) => format!(":{}", at - now),
    }
}

fn get(keys: &Keys, key: &str) -> String {
    bulk(keys.get(key).map(|(value, _)| value.as_str()))
}

/// Deadlines on both sides of 2^48 ms, where an entry takes another shape, and the last one.
const FAR: [i64; 4] = [(1 << 48) - 1, 1 << 48, (1 << 48) + 1, i64::MAX];

impl Model {
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        for keys in [&mut self.keys, &mut self.other] {
            keys.retain(|_, (_, deadline)| deadline.is_none_or(|at| at > now));
        }
    }

    pub fn set(&mut self, key: &str, value: &str, deadline: Option<i64>) -> String {
        self.keys
            .insert(key.to_owned(), (value.to_owned(), deadline));
        ok()
    }

    fn set_keeping(&mut self, key: &str, value: &str) -> String {
        let deadline = self.keys.get(key).and_then(|(_, at)| *at);
        self.set(key, value, deadline)
    }

    fn set_new(&mut self, key: &str, value: &str, deadline: i64) -> String {
        if self.keys.contains_key(key) {
            return bulk(None);
        }
        self.set(key, value, Some(deadline))
    }

    fn take(&mut self, key: &str) -> String {
        let reply = get(&self.keys, key);
        self.keys.remove(key);
        reply
    }

    fn expire_at(&mut self, key: &str, at: i64) -> String {
        let Some((_, deadline)) = self.keys.get_mut(key) else {
            return yes(false);
        };
        *deadline = Some(at);
        self.advance(0);
        yes(true)
    }

    fn expire_if(&mut self, key: &str, at: i64, condition: &str) -> String {
        let Some((_, deadline)) = self.keys.get(key) else {
            return yes(false);
        };
        let may = match condition {
            "nx" => deadline.is_none(),
            "xx" => deadline.is_some(),
            "gt" => deadline.is_some_and(|old| at > old),
            _ => deadline.is_none_or(|old| at < old),
        };
        if may {
            return self.expire_at(key, at);
        }
        yes(false)
    }

    fn persist(&mut self, key: &str) -> String {
        let deadline = self.keys.get_mut(key).and_then(|(_, at)| at.take());
        yes(deadline.is_some())
    }

    fn rename(&mut self, from: &str, to: &str, replaces: bool) -> String {
        if !self.keys.contains_key(from) {
            return "-ERR no such key".to_owned();
        }
        if !replaces && self.keys.contains_key(to) {
            return yes(false);
        }
        if let Some(found) = self.keys.remove(from) {
            self.keys.insert(to.to_owned(), found);
        }
        if replaces { ok() } else { yes(true) }
    }

    fn copy(&mut self, from: &str, to: &str, replaces: bool) -> String {
        if from == to {
            return "-ERR source and destination objects are the same".to_owned();
        }
        let Some(found) = self.keys.get(from).cloned() else {
            return yes(false);
        };
        if !replaces && self.keys.contains_key(to) {
            return yes(false);
        }
        self.keys.insert(to.to_owned(), found);
        yes(true)
    }

    fn copy_over(&mut self, from: &str, to: &str) -> String {
        let found = self.keys.get(from).cloned();
        let is_there = found.is_some();
        self.other.extend(found.map(|found| (to.to_owned(), found)));
        yes(is_there)
    }

    fn move_over(&mut self, key: &str) -> String {
        if self.other.contains_key(key) {
            return yes(false);
        }
        let found = self.keys.remove(key);
        let is_there = found.is_some();
        self.other
            .extend(found.map(|found| (key.to_owned(), found)));
        yes(is_there)
    }

    fn append(&mut self, key: &str, more: &str) -> String {
        let (value, _) = self.keys.entry(key.to_owned()).or_default();
        value.push_str(more);
        format!(":{}", value.len())
    }

    /// All text is ASCII, so that bytes and characters are the same.
    fn set_range(&mut self, key: &str, offset: usize, part: &str) -> String {
        if part.is_empty() {
            let len = self.keys.get(key).map_or(0, |(value, _)| value.len());
            return format!(":{len}");
        }
        let (value, _) = self.keys.entry(key.to_owned()).or_default();
        let end = offset + part.len();
        while value.len() < end {
            value.push('\0');
        }
        value.replace_range(offset..end, part);
        format!(":{}", value.len())
    }

    fn incr(&mut self, key: &str) -> String {
        let fresh = || ("0".to_owned(), None);
        let (value, _) = self.keys.entry(key.to_owned()).or_insert_with(fresh);
        let number = value.parse::<i64>().ok();
        let is_plain = number.is_some_and(|n| n.to_string() == *value);
        match number.and_then(|n| n.checked_add(1)) {
            Some(sum) if is_plain => {
                *value = sum.to_string();
                format!(":{sum}")
            }
            Some(_) | None if is_plain => "-ERR increment or decrement would overflow".to_owned(),
            _ => "-ERR value is not an integer or out of range".to_owned(),
        }
    }

    /// A request of one kind (`0..KINDS`) and its reply.
    pub fn request(&mut self, kind: usize, words: &Words) -> (String, String) {
        REQUESTS[kind](self, words)
    }
}

/// A value as a word of an inline request: an empty one must be quoted to be there at all.
fn word(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

type Request = fn(&mut Model, &Words) -> (String, String);

/// Kinds of requests that the model answers.
pub const KINDS: usize = REQUESTS.len();
/// The kinds that take everything away, which come last.
pub const CLEARING: std::ops::Range<usize> = KINDS - 2..KINDS;

const REQUESTS: [Request; 28] = [
    set,
    set,
    set_px,
    set_px,
    |m, w| (format!("get {}", w.key), get(&m.keys, &w.key)),
    |m, w| {
        let found = m.keys.remove(&w.key).is_some();
        (format!("del {}", w.key), yes(found))
    },
    pexpire,
    pexpire,
    |m, w| {
        let reply = m.expire_at(&w.key, m.now);
        (format!("pexpire {} 0", w.key), reply)
    },
    |m, w| (format!("persist {}", w.key), m.persist(&w.key)),
    |m, w| {
        let reply = m.rename(&w.key, &w.to, true);
        (format!("rename {} {}", w.key, w.to), reply)
    },
    |m, w| (format!("append {} 7", w.key), m.append(&w.key, "7")),
    |m, w| (format!("incr {}", w.key), m.incr(&w.key)),
    |m, w| (format!("pttl {}", w.key), ttl(&m.keys, &w.key, m.now)),
    |m, _| ("dbsize".to_owned(), format!(":{}", m.keys.len())),
    |m, w| {
        let request = format!("set {} {} keepttl", w.key, word(&w.value));
        (request, m.set_keeping(&w.key, &w.value))
    },
    |m, w| {
        let request = format!("set {} {} nx px {}", w.key, word(&w.value), w.ms);
        (request, m.set_new(&w.key, &w.value, m.now + w.ms))
    },
    |m, w| {
        let reply = get(&m.keys, &w.key);
        m.expire_at(&w.key, m.now + w.ms);
        (format!("getex {} px {}", w.key, w.ms), reply)
    },
    |m, w| (format!("getdel {}", w.key), m.take(&w.key)),
    |m, w| {
        let condition = ["nx", "xx", "gt", "lt"][w.ms as usize % 4];
        let request = format!("pexpire {} {} {condition}", w.key, w.ms);
        (request, m.expire_if(&w.key, m.now + w.ms, condition))
    },
    |m, w| {
        let at = FAR[w.ms as usize % FAR.len()];
        (format!("pexpireat {} {at}", w.key), m.expire_at(&w.key, at))
    },
    |m, w| {
        let offset = w.ms as usize % 300;
        let request = format!("setrange {} {offset} {}", w.key, word(&w.value));
        (request, m.set_range(&w.key, offset, &w.value))
    },
    |m, w| {
        let reply = m.rename(&w.key, &w.to, false);
        (format!("renamenx {} {}", w.key, w.to), reply)
    },
    |m, w| {
        let replaces = w.ms % 2 == 0;
        let option = if replaces { " replace" } else { "" };
        let request = format!("copy {} {}{option}", w.key, w.to);
        (request, m.copy(&w.key, &w.to, replaces))
    },
    |m, w| {
        let request = format!("copy {} {} db 1 replace", w.key, w.to);
        (request, m.copy_over(&w.key, &w.to))
    },
    |m, w| (format!("move {} 1", w.key), m.move_over(&w.key)),
    |m, _| {
        std::mem::swap(&mut m.keys, &mut m.other);
        ("swapdb 0 1".to_owned(), ok())
    },
    flush,
];

fn set(m: &mut Model, w: &Words) -> (String, String) {
    let request = format!("set {} {}", w.key, word(&w.value));
    (request, m.set(&w.key, &w.value, None))
}

fn set_px(m: &mut Model, w: &Words) -> (String, String) {
    let request = format!("set {} {} px {}", w.key, word(&w.value), w.ms);
    let deadline = Some(m.now + w.ms);
    (request, m.set(&w.key, &w.value, deadline))
}

fn pexpire(m: &mut Model, w: &Words) -> (String, String) {
    let reply = m.expire_at(&w.key, m.now + w.ms);
    (format!("pexpire {} {}", w.key, w.ms), reply)
}

/// Seldom, or there would never be much to look at.
fn flush(m: &mut Model, w: &Words) -> (String, String) {
    if w.ms % 16 > 0 {
        return (
            format!("exists {}", w.key),
            yes(m.keys.contains_key(&w.key)),
        );
    }
    m.keys.clear();
    ("flushdb".to_owned(), ok())
}

/// These keys are in the server as they are in the model, and it has no others.
#[track_caller]
pub fn assert_same(sim: &mut Sim, model: &Model, names: &[String]) {
    sim.engine.keyspace.check();
    for (db, keys) in [&model.keys, &model.other].into_iter().enumerate() {
        sim.expect(&format!("select {db}"), "+OK");
        for key in names {
            sim.expect(&format!("pttl {key}"), &ttl(keys, key, model.now));
            sim.expect(&format!("get {key}"), &get(keys, key));
        }
        sim.expect("dbsize", &format!(":{}", keys.len()));
    }
    sim.expect("select 0", "+OK");
}

/// Loads the snapshot in `dir` into a server whose clock shows what the model's does.
#[track_caller]
pub fn assert_snapshot_is(dir: &TempDir, model: &Model, names: &[String]) -> Sim {
    let mut other = Sim::saving_in(dir, 99);
    other.clock.advance_ms((model.now - START) as u64);
    other.engine.config.save.clear();
    other.jobs();
    other.engine.load_now().expect("it loads");
    assert_same(&mut other, model, names);
    other
}
