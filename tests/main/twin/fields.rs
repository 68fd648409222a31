//! Requests on deadlines of the fields of hashes, and their replies by the model.

use super::collections::field_value;
use super::{Collection, Hash, Keys, Model, Request, Value, Words, integer, item, wrong_type, yes};

/// What a hash holds under a name.
#[derive(Clone)]
pub struct Field {
    pub value: String,
    pub deadline: Option<i64>,
}

impl Field {
    /// One that stays.
    pub fn new(value: &str) -> Field {
        Field {
            value: value.to_owned(),
            deadline: None,
        }
    }
}

/// The last deadline that a field may have.
const DEADLINE_MAX: i64 = (1 << 46) - 1;

/// A collection whose members may have deadlines.
pub trait Dated {
    fn names(&self) -> Vec<String>;
    /// None if there is no such member, `Some(None)` if it has no deadline.
    fn deadline(&self, member: &str) -> Option<Option<i64>>;
    fn set_deadline(&mut self, member: &str, deadline: Option<i64>);
    fn take(&mut self, member: &str);
}

/// How the commands on deadlines of such a collection's members are written.
pub trait Named: Dated + Collection {
    /// The first of their names.
    const LETTER: char;
    /// What stands before the number of members.
    const WORD: &str;
}

impl Named for Hash {
    const LETTER: char = 'h';
    const WORD: &str = "fields";
}

impl Dated for Hash {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn deadline(&self, member: &str) -> Option<Option<i64>> {
        self.get(member).map(|field| field.deadline)
    }

    fn set_deadline(&mut self, member: &str, deadline: Option<i64>) {
        if let Some(field) = self.get_mut(member) {
            field.deadline = deadline;
        }
    }

    fn take(&mut self, member: &str) {
        self.remove(member);
    }
}

/// How a time is told: the command and the option that take it so, and what it counts.
pub struct Form {
    command: &'static str,
    option: &'static str,
    unit_ms: i64,
    pub is_moment: bool,
}

const FORMS: [Form; 4] = [
    Form {
        command: "hexpire",
        option: "ex",
        unit_ms: 1_000,
        is_moment: false,
    },
    Form {
        command: "hpexpire",
        option: "px",
        unit_ms: 1,
        is_moment: false,
    },
    Form {
        command: "hexpireat",
        option: "exat",
        unit_ms: 1_000,
        is_moment: true,
    },
    Form {
        command: "hpexpireat",
        option: "pxat",
        unit_ms: 1,
        is_moment: true,
    },
];

impl Form {
    pub fn of(w: &Words) -> &'static Form {
        &FORMS[(w.ms + w.last).rem_euclid(4) as usize]
    }

    /// Mostly some time that is to come; now and then a past, a negative, the last or a too late
    /// one.
    fn number(&self, w: &Words, now: i64) -> i64 {
        match w.index.rem_euclid(32) {
            28 => DEADLINE_MAX / self.unit_ms,
            29 => DEADLINE_MAX / self.unit_ms + 1,
            30 => 0,
            31 => -w.ms,
            _ => {
                let start = if self.is_moment { now } else { 0 };
                // Often so soon that the next steps see it pass.
                let ms = if !w.number.is_multiple_of(4) {
                    w.ms % 50 + 1
                } else {
                    w.ms
                };
                (start + ms + self.unit_ms - 1) / self.unit_ms
            }
        }
    }

    /// The deadline that a number stands for, or why the command refuses it.
    fn deadline(&self, number: i64, now: i64, command: &str) -> Result<i64, String> {
        if number < 0 {
            return Err("-ERR invalid expire time, must be >= 0".to_owned());
        }
        let start = if self.is_moment { 0 } else { now };
        let deadline = start + number * self.unit_ms;
        if deadline > DEADLINE_MAX {
            return Err(format!("-ERR invalid expire time in '{command}' command"));
        }
        Ok(deadline)
    }
}

/// What a request does to the deadline of a field that is there.
#[derive(Clone, Copy)]
enum Change {
    Keep,
    Stay,
    At(i64),
}

impl Change {
    /// A field that is given a past deadline is gone at once.
    fn apply(self, hash: &mut Hash, name: &str, now: i64) {
        let Some(field) = hash.get_mut(name) else {
            return;
        };
        match self {
            Change::Keep => {}
            Change::Stay => field.deadline = None,
            Change::At(deadline) => {
                field.deadline = Some(deadline);
                drop_dead(hash, now);
            }
        }
    }
}

/// Throws out the members that are due. Whoever lets time pass, or sets a deadline, calls this, so
/// that nobody else ever sees a dead member.
pub fn drop_dead<T: Dated + ?Sized>(collection: &mut T, now: i64) {
    for name in collection.names() {
        if let Some(Some(at)) = collection.deadline(&name)
            && at <= now
        {
            collection.take(&name);
        }
    }
}

/// The first three add as many fields as they are told.
pub const FIELDS: [Request; 12] = [
    set,
    set,
    set,
    expire::<Hash>,
    expire::<Hash>,
    expire::<Hash>,
    expire::<Hash>,
    tell::<Hash>,
    tell::<Hash>,
    persist::<Hash>,
    get,
    take,
];

/// Some names, now and then one of them twice.
pub fn names(w: &Words) -> Vec<String> {
    let mut names = w.elements();
    if w.number.is_multiple_of(4) {
        names.insert(names.len() / 2, names[0].clone());
    }
    names
}

/// The word FIELDS, or MEMBERS, and what follows.
fn listed<T: Named>(names: &[String]) -> String {
    format!("{} {} {}", T::WORD, names.len(), names.join(" "))
}

fn replies(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let text = format!("*{} {}", items.len(), items.join(" "));
    text.trim_end().to_owned()
}

pub fn expire<T: Named>(m: &mut Model, w: &Words) -> (String, String) {
    let (form, names, now) = (Form::of(w), names(w), m.now);
    let number = form.number(w, now);
    let condition = ["", "", "", " nx", " xx", " gt", " lt"][w.last.rem_euclid(7) as usize];
    let command = format!("{}{}", T::LETTER, &form.command[1..]);
    let list = listed::<T>(&names);
    let request = format!("{command} {} {number}{condition} {list}", w.key);
    if m.read::<T>(&w.key).is_none() {
        return (request, wrong_type());
    }
    let deadline = match form.deadline(number, now, &command) {
        Ok(deadline) => deadline,
        Err(refusal) => return (request, refusal),
    };
    let reply = m.with(&w.key, |held: &mut T| {
        replies(names.iter().map(|name| {
            let Some(old) = held.deadline(name) else {
                return integer(-2);
            };
            let may = match condition {
                " nx" => old.is_none(),
                " xx" => old.is_some(),
                " gt" => old.is_some_and(|old| deadline > old),
                " lt" => old.is_none_or(|old| deadline < old),
                _ => true,
            };
            if !may {
                return integer(0);
            }
            held.set_deadline(name, Some(deadline));
            drop_dead(held, now);
            integer(if deadline > now { 1 } else { 2 })
        }))
    });
    (request, reply)
}

/// HTTL and its like; seconds are rounded up.
pub fn tell<T: Named>(m: &mut Model, w: &Words) -> (String, String) {
    let names = names(w);
    let at = w.last.rem_euclid(4) as usize;
    let command = ["ttl", "pttl", "expiretime", "pexpiretime"][at];
    let start = if at < 2 { m.now } else { 0 };
    let reply = m.with(&w.key, |held: &mut T| {
        replies(names.iter().map(|name| {
            let Some(deadline) = held.deadline(name) else {
                return integer(-2);
            };
            integer(deadline.map_or(-1, |deadline| match at % 2 {
                0 => (deadline - start + 999) / 1_000,
                _ => deadline - start,
            }))
        }))
    });
    let (letter, list) = (T::LETTER, listed::<T>(&names));
    (format!("{letter}{command} {} {list}", w.key), reply)
}

pub fn persist<T: Named>(m: &mut Model, w: &Words) -> (String, String) {
    let names = names(w);
    let reply = m.with(&w.key, |held: &mut T| {
        replies(names.iter().map(|name| {
            let Some(old) = held.deadline(name) else {
                return integer(-2);
            };
            held.set_deadline(name, None);
            integer(old.map_or(-1, |_| 1))
        }))
    });
    let (letter, list) = (T::LETTER, listed::<T>(&names));
    (format!("{letter}persist {} {list}", w.key), reply)
}

fn value_of(hash: &Hash, name: &str) -> String {
    item(hash.get(name).map(|field| field.value.as_str()))
}

/// HGETEX.
fn get(m: &mut Model, w: &Words) -> (String, String) {
    let (form, names, now) = (Form::of(w), names(w), m.now);
    let number = form.number(w, now);
    let (option, change) = match w.last.rem_euclid(5) {
        0 => (String::new(), Ok(Change::Keep)),
        1 => (" persist".to_owned(), Ok(Change::Stay)),
        _ => (
            format!(" {} {number}", form.option),
            form.deadline(number, now, "hgetex").map(Change::At),
        ),
    };
    let request = format!("hgetex {}{option} {}", w.key, listed::<Hash>(&names));
    if m.read::<Hash>(&w.key).is_none() {
        return (request, wrong_type());
    }
    let change = match change {
        Ok(change) => change,
        Err(refusal) => return (request, refusal),
    };
    let reply = m.with(&w.key, |hash: &mut Hash| {
        replies(names.iter().map(|name| {
            let value = value_of(hash, name);
            change.apply(hash, name, now);
            value
        }))
    });
    (request, reply)
}

/// HSETEX, which says what is wrong with its time before it looks at the key.
fn set(m: &mut Model, w: &Words) -> (String, String) {
    let (form, now) = (Form::of(w), m.now);
    let number = form.number(w, now);
    let (option, change) = match w.last.rem_euclid(6) {
        0 => (String::new(), Ok(Change::Stay)),
        1 => (" keepttl".to_owned(), Ok(Change::Keep)),
        _ => (
            format!(" {} {number}", form.option),
            form.deadline(number, now, "hsetex").map(Change::At),
        ),
    };
    let condition = ["", "", "", "", " fnx", " fxx"][w.index.rem_euclid(6) as usize];
    let pairs: Vec<(String, String)> = names(w)
        .into_iter()
        .zip(w.number..)
        .map(|(name, n)| (name, field_value(n)))
        .collect();
    let words: Vec<String> = pairs.iter().map(|(f, v)| format!("{f} {v}")).collect();
    let (count, words) = (pairs.len(), words.join(" "));
    let request = format!("hsetex {}{condition}{option} fields {count} {words}", w.key);
    let change = match change {
        Ok(change) => change,
        Err(refusal) => return (request, refusal),
    };
    let reply = m.with(&w.key, |hash: &mut Hash| {
        let mut are_there = pairs.iter().map(|(name, _)| hash.contains_key(name));
        let may = match condition {
            " fnx" => are_there.all(|it| !it),
            " fxx" => are_there.all(|it| it),
            _ => true,
        };
        if !may {
            return yes(false);
        }
        for (name, value) in &pairs {
            let fresh = || Field::new(value);
            hash.entry(name.clone()).or_insert_with(fresh).value = value.clone();
            change.apply(hash, name, now);
        }
        yes(true)
    });
    (request, reply)
}

/// HGETDEL.
fn take(m: &mut Model, w: &Words) -> (String, String) {
    let names = names(w);
    let reply = m.with(&w.key, |hash: &mut Hash| {
        replies(names.iter().map(|name| {
            let value = value_of(hash, name);
            hash.remove(name);
            value
        }))
    });
    let list = listed::<Hash>(&names);
    (format!("hgetdel {} {list}", w.key), reply)
}

/// As many fields as are asked for at once: names of theirs fit a line.
const ASKED: usize = 100;

/// Requests for the deadlines of all members of a collection, and their replies.
pub fn deadlines(keys: &Keys, key: &str) -> Vec<(String, String)> {
    match keys.get(key) {
        Some((Value::Hash(hash), _)) => deadlines_of(hash, key),
        Some((Value::Set(set), _)) => deadlines_of(set, key),
        Some((Value::Zset(zset), _)) => deadlines_of(zset, key),
        _ => Vec::new(),
    }
}

fn deadlines_of<T: Named>(collection: &T, key: &str) -> Vec<(String, String)> {
    let asked = collection.names();
    let requests = asked.chunks(ASKED).map(|names| {
        let request = format!("{}pexpiretime {key} {}", T::LETTER, listed::<T>(names));
        let deadlines = names.iter().map(|name| collection.deadline(name).flatten());
        (
            request,
            replies(deadlines.map(|at| integer(at.unwrap_or(-1)))),
        )
    });
    requests.collect()
}
