//! The naive model: a map whose due keys and fields are thrown out whenever time moves, holding
//! plain collections of the standard library. The random tests and the fuzz target `model` drive it
//! beside a server and compare.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use mayfly::config::Config;

use crate::sim::{START, Sim, TempDir};

mod collections;
mod fields;
mod group;
mod members;
mod stream;
mod zset;

use fields::{Dated, Field, drop_dead};
use members::Members;
use stream::Stream;

/// What a request is made of; each kind takes what it needs.
pub struct Words {
    pub key: String,
    /// Another key, or the same.
    pub to: String,
    /// A third one, or one of the two.
    pub beside: String,
    /// Without spaces.
    pub value: String,
    /// At least 1.
    pub ms: i64,
    /// The first of some elements, fields or members.
    pub number: u32,
    /// How many they are: 1 to [`MANY_MAX`].
    pub many: u32,
    /// Indices, ranks, amounts and bounds, of either sign.
    pub index: i64,
    pub last: i64,
}

/// As many long elements as are among these fit a line.
pub const MANY_MAX: u32 = 800;

impl Words {
    /// Element number `n` of the key: of an even key an integer, in one of three widths, so that
    /// there are sets of integers; of an odd one text, short, too long for a packed collection, too
    /// long to lie among others, or longer than a chunk of a list.
    fn element(&self, n: u32) -> String {
        if self.is_even() {
            let n = i64::from(n);
            return match n % 8 {
                7 => n * 10_000_000_000,
                6 => -n,
                5 => n * 1_000,
                _ => n,
            }
            .to_string();
        }
        let more = match n {
            _ if n % 500 == 499 => 9_000,
            _ if n % 100 == 99 => 1_100,
            _ if n % 10 == 9 => 70,
            _ => 0,
        };
        format!("m{n}{}", "x".repeat(more))
    }

    fn elements(&self) -> Vec<String> {
        (0..self.many)
            .map(|n| self.element(self.number + n))
            .collect()
    }

    fn is_even(&self) -> bool {
        self.key.bytes().last().is_some_and(|digit| digit % 2 == 0)
    }
}

pub type List = VecDeque<String>;
pub type Hash = BTreeMap<String, Field>;
pub type Set = Members<()>;
pub type Zset = Members<f64>;

#[derive(Clone)]
pub enum Value {
    Text(String),
    List(List),
    Hash(Hash),
    Set(Set),
    Zset(Zset),
    Stream(Stream),
}

/// A collection, which is not there when it is empty.
trait Collection: Clone + Default {
    /// The collection in a value, if it is of this type.
    fn of(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

/// Values and deadlines of one database.
pub type Keys = BTreeMap<String, (Value, Option<i64>)>;

/// Two databases; what is due is thrown out before each step.
#[derive(Clone, Default)]
pub struct Model {
    /// Database 0, where all clients are.
    pub keys: Keys,
    /// Database 1, reached by SWAPDB, MOVE and COPY.
    pub other: Keys,
    pub now: i64,
    /// Elements of a packed collection, and of a list's chunk, in the servers beside this model;
    /// none for the usual limits.
    pub packed_max: Option<u64>,
}

/// A whole reply.
fn bulk(value: Option<&str>) -> String {
    item(value).trim_end().to_owned()
}

/// An item of an array: the space of an empty one stays, as others may follow.
fn item(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| format!("${} {v}", v.len()))
}

fn yes(is_so: bool) -> String {
    format!(":{}", i32::from(is_so))
}

fn ok() -> String {
    "+OK".to_owned()
}

fn integer(number: impl ToString) -> String {
    format!(":{}", number.to_string())
}

fn null_array() -> String {
    "*-1".to_owned()
}

fn array(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let items = items.into_iter();
    let words: Vec<String> = items.map(|text| item(Some(text.as_ref()))).collect();
    let text = format!("*{} {}", words.len(), words.join(" "));
    text.trim_end().to_owned()
}

fn wrong_type() -> String {
    "-WRONGTYPE Operation against a key holding the wrong kind of value".to_owned()
}

/// The indices between two that may count from the end.
fn between(start: i64, stop: i64, len: usize) -> Range<usize> {
    let place = |index: i64| if index < 0 { index + len as i64 } else { index };
    let is_between = |index: &usize| (place(start)..=place(stop)).contains(&(*index as i64));
    let indices: Vec<usize> = (0..len).filter(is_between).collect();
    indices.first().map_or(0, |first| *first)..indices.last().map_or(0, |last| last + 1)
}

/// The integer a text is, if it is printed that way.
fn canonical(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|n| n.to_string() == text)
}

fn ttl(keys: &Keys, key: &str, now: i64) -> String {
    match keys.get(key) {
        None => ":-2".to_owned(),
        Some((_, None)) => ":-1".to_owned(),
        Some((_, Some(at))) => format!(":{}", at - now),
    }
}

fn get(keys: &Keys, key: &str) -> String {
    match keys.get(key) {
        None => bulk(None),
        Some((Value::Text(text), _)) => bulk(Some(text)),
        Some(_) => wrong_type(),
    }
}

/// The type of a key, a request for all of its value, and the reply.
fn whole(keys: &Keys, key: &str) -> (&'static str, String, String) {
    match keys.get(key).map(|(value, _)| value) {
        None => ("none", format!("get {key}"), bulk(None)),
        Some(Value::Text(text)) => ("string", format!("get {key}"), bulk(Some(text))),
        Some(Value::List(list)) => ("list", format!("lrange {key} 0 -1"), array(list)),
        Some(Value::Hash(hash)) => {
            let pairs = hash.iter().flat_map(|(name, field)| [name, &field.value]);
            ("hash", format!("hgetall {key}"), array(pairs))
        }
        Some(Value::Set(set)) => ("set", format!("smembers {key}"), array(set.keys())),
        Some(Value::Zset(zset)) => {
            let pairs = zset::with_scores(&zset::in_order(zset));
            (
                "zset",
                format!("zrange {key} 0 -1 withscores"),
                array(pairs),
            )
        }
        Some(Value::Stream(stream)) => {
            let request = format!("xrange {key} - +");
            ("stream", request, stream.whole())
        }
    }
}

/// Deadlines on both sides of 2^48 ms, where an entry takes another shape, and the last one.
const FAR: [i64; 4] = [(1 << 48) - 1, 1 << 48, (1 << 48) + 1, i64::MAX];

impl Model {
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        for keys in [&mut self.keys, &mut self.other] {
            keys.retain(|_, (value, deadline)| {
                let is_empty = match value {
                    Value::Hash(hash) => {
                        drop_dead(hash, now);
                        hash.is_empty()
                    }
                    Value::Set(set) => {
                        drop_dead(set, now);
                        set.is_empty()
                    }
                    Value::Zset(zset) => {
                        drop_dead(zset, now);
                        zset.is_empty()
                    }
                    _ => false,
                };
                !is_empty && deadline.is_none_or(|at| at > now)
            });
        }
    }

    pub fn set(&mut self, key: &str, value: &str, deadline: Option<i64>) -> String {
        let value = Value::Text(value.to_owned());
        self.keys.insert(key.to_owned(), (value, deadline));
        ok()
    }

    /// Lets `edit` use the collection at a key, an empty one if there is none, and drops it with
    /// its deadline if it is empty afterwards.
    fn with<T: Collection>(&mut self, key: &str, edit: impl FnOnce(&mut T) -> String) -> String {
        let fresh = || (T::default().into_value(), None);
        let (value, _) = self.keys.entry(key.to_owned()).or_insert_with(fresh);
        let Some(collection) = T::of(value) else {
            return wrong_type();
        };
        let reply = edit(collection);
        if collection.is_empty() {
            self.keys.remove(key);
        }
        reply
    }

    /// Whether there is such a key.
    fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Lets `edit` use the collection at a key, as [`Model::with`] does, if its members may have
    /// deadlines.
    fn with_dated(&mut self, key: &str, edit: impl FnOnce(&mut dyn Dated) -> String) -> String {
        match self.keys.get(key) {
            Some((Value::Hash(_), _)) => self.with(key, |hash: &mut Hash| edit(hash)),
            Some((Value::Set(_), _)) => self.with(key, |set: &mut Set| edit(set)),
            Some((Value::Zset(_), _)) => self.with(key, |zset: &mut Zset| edit(zset)),
            _ => wrong_type(),
        }
    }

    /// A copy of the collection at a key; none if there is something else.
    fn read<T: Collection>(&self, key: &str) -> Option<T> {
        match self.keys.get(key) {
            None => Some(T::default()),
            Some((value, _)) => T::of(&mut value.clone()).cloned(),
        }
    }

    /// Puts a collection in the place of whatever is at a key, and answers its length.
    fn store<T: Collection>(&mut self, key: &str, collection: T, len: usize) -> String {
        self.keys.remove(key);
        if !collection.is_empty() {
            let value = collection.into_value();
            self.keys.insert(key.to_owned(), (value, None));
        }
        integer(len)
    }

    /// The text at a key, an empty one if there is none.
    fn text(&mut self, key: &str, fresh: &str) -> Option<&mut String> {
        let fresh = || (Value::Text(fresh.to_owned()), None);
        match self.keys.entry(key.to_owned()).or_insert_with(fresh) {
            (Value::Text(text), _) => Some(text),
            _ => None,
        }
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
        if let Some((Value::Text(_), _)) = self.keys.get(key) {
            self.keys.remove(key);
        }
        reply
    }

    fn get_and_expire(&mut self, key: &str, at: i64) -> String {
        let reply = get(&self.keys, key);
        if let Some((Value::Text(_), _)) = self.keys.get(key) {
            self.expire_at(key, at);
        }
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
        let Some(text) = self.text(key, "") else {
            return wrong_type();
        };
        text.push_str(more);
        integer(text.len())
    }

    /// All text is ASCII, so that bytes and characters are the same.
    fn set_range(&mut self, key: &str, offset: usize, part: &str) -> String {
        if part.is_empty() && !self.keys.contains_key(key) {
            return integer(0);
        }
        let Some(text) = self.text(key, "") else {
            return wrong_type();
        };
        if part.is_empty() {
            return integer(text.len());
        }
        let end = offset + part.len();
        while text.len() < end {
            text.push('\0');
        }
        text.replace_range(offset..end, part);
        integer(text.len())
    }

    fn incr(&mut self, key: &str) -> String {
        let Some(text) = self.text(key, "0") else {
            return wrong_type();
        };
        let Some(number) = canonical(text) else {
            return "-ERR value is not an integer or out of range".to_owned();
        };
        let Some(sum) = number.checked_add(1) else {
            return "-ERR increment or decrement would overflow".to_owned();
        };
        *text = sum.to_string();
        integer(sum)
    }

    /// A request of one kind (`0..KINDS`) and its reply.
    pub fn request(&mut self, kind: usize, words: &Words) -> (String, String) {
        let (table, at) = place(kind);
        table.requests[at](self, words)
    }

    /// A server with the model's limits.
    pub fn server(&self, dir: &TempDir, seed: u64) -> Sim {
        let mut config = Config {
            dir: dir.path().display().to_string(),
            databases: 2,
            ..Config::default()
        };
        if let Some(max) = self.packed_max {
            config.list_chunk = max as i64;
            config.hash_packed_entries_max = max;
            config.set_integers_max = max;
            config.set_packed_entries_max = max;
            config.zset_packed_entries_max = max;
            config.stream_chunk_entries_max = max;
        }
        Sim::with(config, seed)
    }
}

/// A value as a word of an inline request: an empty one must be quoted to be there at all.
fn word(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

type Request = fn(&mut Model, &Words) -> (String, String);

/// Requests of one type, or of all.
struct Table {
    /// Which of the six types, if one.
    of_type: Option<u32>,
    requests: &'static [Request],
    /// The first so many add as many elements as they are told.
    growing: usize,
}

impl Table {
    const fn new(of_type: Option<u32>, requests: &'static [Request], growing: usize) -> Table {
        Table {
            of_type,
            requests,
            growing,
        }
    }
}

const TABLES: [Table; 12] = [
    Table::new(None, &KEYS, 0),
    Table::new(Some(0), &STRINGS, 0),
    Table::new(Some(1), &collections::LISTS, 3),
    Table::new(Some(2), &collections::HASHES, 3),
    Table::new(Some(3), &collections::SETS, 3),
    Table::new(Some(4), &zset::ZSETS, 4),
    Table::new(Some(2), &fields::FIELDS, 3),
    Table::new(Some(3), &members::OF_SETS, 2),
    Table::new(Some(4), &members::OF_ZSETS, 0),
    Table::new(Some(5), &stream::STREAMS, 2),
    Table::new(Some(5), &group::GROUPS, 0),
    Table::new(None, &CLEARERS, 0),
];

/// Types, so numbered as by [`type_of`].
pub const TYPES: u32 = 6;

/// Kinds of requests that the model answers.
pub const KINDS: usize = CLEARING.end;
/// The kinds that take everything away, which come last.
pub const CLEARING: Range<usize> = {
    let (mut start, mut at) = (0, 0);
    while at < TABLES.len() - 1 {
        start += TABLES[at].requests.len();
        at += 1;
    }
    start..start + CLEARERS.len()
};

/// The table a kind is in, and its place there.
fn place(kind: usize) -> (&'static Table, usize) {
    let mut at = kind;
    for table in &TABLES {
        if at < table.requests.len() {
            return (table, at);
        }
        at -= table.requests.len();
    }
    panic!("there are {KINDS} kinds, no number {kind}")
}

/// The type that requests of this kind are for, if they are for one.
pub fn type_of(kind: usize) -> Option<u32> {
    place(kind).0.of_type
}

/// Whether requests of this kind add as many elements as they are told.
pub fn is_growing(kind: usize) -> bool {
    let (table, at) = place(kind);
    at < table.growing
}

const KEYS: [Request; 16] = [
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
    |m, w| (format!("pttl {}", w.key), ttl(&m.keys, &w.key, m.now)),
    |m, _| ("dbsize".to_owned(), integer(m.keys.len())),
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
    |m, w| {
        let (name, ..) = whole(&m.keys, &w.key);
        (format!("type {}", w.key), format!("+{name}"))
    },
    |m, w| {
        let (_, request, reply) = whole(&m.keys, &w.key);
        (request, reply)
    },
];

const STRINGS: [Request; 13] = [
    set,
    set,
    set_px,
    set_px,
    |m, w| (format!("get {}", w.key), get(&m.keys, &w.key)),
    |m, w| (format!("append {} 7", w.key), m.append(&w.key, "7")),
    |m, w| (format!("incr {}", w.key), m.incr(&w.key)),
    |m, w| {
        let request = format!("set {} {} keepttl", w.key, word(&w.value));
        (request, m.set_keeping(&w.key, &w.value))
    },
    |m, w| {
        let request = format!("set {} {} nx px {}", w.key, word(&w.value), w.ms);
        (request, m.set_new(&w.key, &w.value, m.now + w.ms))
    },
    |m, w| {
        let request = format!("getex {} px {}", w.key, w.ms);
        (request, m.get_and_expire(&w.key, m.now + w.ms))
    },
    |m, w| (format!("getdel {}", w.key), m.take(&w.key)),
    |m, w| {
        let offset = w.ms as usize % 300;
        let request = format!("setrange {} {offset} {}", w.key, word(&w.value));
        (request, m.set_range(&w.key, offset, &w.value))
    },
    |m, w| (format!("get {}", w.to), get(&m.keys, &w.to)),
];

const CLEARERS: [Request; 2] = [
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

/// Requests whose replies have no order, and the strings of each of their elements.
const UNORDERED: [(&str, usize); 10] = [
    ("hgetall", 2),
    ("hkeys", 1),
    ("hvals", 1),
    ("hrandfield", 1),
    ("smembers", 1),
    ("sinter", 1),
    ("sunion", 1),
    ("sdiff", 1),
    ("spop", 1),
    ("srandmember", 1),
];

/// An array with its elements in order. No string has a space in it.
fn sorted(reply: &str, strings: usize) -> Vec<Vec<&str>> {
    let (_, elements) = reply.split_once(' ').unwrap_or((reply, ""));
    let words: Vec<&str> = elements.split(' ').collect();
    let mut elements: Vec<Vec<&str>> = words.chunks(2 * strings).map(|it| it.to_vec()).collect();
    // An empty last string has lost its space.
    elements
        .iter_mut()
        .for_each(|it| it.resize(2 * strings, ""));
    elements.sort();
    elements
}

/// The reply is what the model says, in any order if the request has none.
#[track_caller]
pub fn assert_reply(request: &str, reply: &str, expected: &str) {
    let name = request.split(' ').next().unwrap_or_default();
    match UNORDERED.iter().find(|(unordered, _)| *unordered == name) {
        Some((_, strings)) if reply.starts_with('*') && expected.starts_with('*') => {
            assert_eq!(
                sorted(reply, *strings),
                sorted(expected, *strings),
                "{request}"
            );
        }
        _ => assert_eq!(reply, expected, "{request}"),
    }
}

/// These keys are in the server as they are in the model, and it has no others.
#[track_caller]
pub fn assert_same(sim: &mut Sim, model: &Model, names: &[String]) {
    sim.engine.keyspace.check();
    for (db, keys) in [&model.keys, &model.other].into_iter().enumerate() {
        sim.expect(&format!("select {db}"), "+OK");
        for key in names {
            sim.expect(&format!("pttl {key}"), &ttl(keys, key, model.now));
            let (name, request, expected) = whole(keys, key);
            sim.expect(&format!("type {key}"), &format!("+{name}"));
            assert_reply(&request, &sim.run(&request), &expected);
            let more = fields::deadlines(keys, key).into_iter();
            for (request, expected) in more.chain(group::groups(keys, key, model.now)) {
                sim.expect(&request, &expected);
            }
        }
        sim.expect("dbsize", &integer(keys.len()));
    }
    sim.expect("select 0", "+OK");
}

/// Loads the snapshot in `dir` into a server whose clock shows what the model's does.
#[track_caller]
pub fn assert_snapshot_is(dir: &TempDir, model: &Model, names: &[String]) -> Sim {
    let mut other = model.server(dir, 99);
    other.clock.advance_ms((model.now - START) as u64);
    other.engine.config.save.clear();
    other.jobs();
    other.engine.load_now().expect("it loads");
    assert_same(&mut other, model, names);
    other
}
