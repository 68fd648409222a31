//! The naive model: a map whose due keys are thrown out whenever time moves. The random tests and
//! the fuzz target `model` drive it.

use std::collections::BTreeMap;

/// Kinds of requests that the model answers.
pub const KINDS: usize = 15;

/// What a request is made of; each kind takes what it needs.
pub struct Words {
    pub key: String,
    /// Another key, for RENAME.
    pub to: String,
    pub value: String,
    pub ms: i64,
}

/// Values and deadlines; what is due is thrown out before each step.
#[derive(Clone, Default)]
pub struct Model {
    pub keys: BTreeMap<String, (String, Option<i64>)>,
    pub now: i64,
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| {
        format!("${} {v}", v.len()).trim_end().to_owned()
    })
}

impl Model {
    pub fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        self.keys
            .retain(|_, (_, deadline)| deadline.is_none_or(|at| at > now));
    }

    pub fn set(&mut self, key: &str, value: &str, deadline: Option<i64>) -> String {
        self.keys
            .insert(key.to_owned(), (value.to_owned(), deadline));
        "+OK".to_owned()
    }

    pub fn get(&self, key: &str) -> String {
        bulk(self.keys.get(key).map(|(value, _)| value.as_str()))
    }

    fn expire(&mut self, key: &str, ms: i64) -> String {
        let Some((_, deadline)) = self.keys.get_mut(key) else {
            return ":0".to_owned();
        };
        *deadline = Some(self.now + ms);
        self.advance(0);
        ":1".to_owned()
    }

    fn persist(&mut self, key: &str) -> String {
        let deadline = self.keys.get_mut(key).and_then(|(_, at)| at.take());
        format!(":{}", i32::from(deadline.is_some()))
    }

    pub fn ttl(&self, key: &str) -> String {
        match self.keys.get(key) {
            None => ":-2".to_owned(),
            Some((_, None)) => ":-1".to_owned(),
            Some((_, Some(at))) => format!(":{}", at - self.now),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> String {
        let Some(found) = self.keys.remove(from) else {
            return "-ERR no such key".to_owned();
        };
        self.keys.insert(to.to_owned(), found);
        "+OK".to_owned()
    }

    fn append(&mut self, key: &str, more: &str) -> String {
        let (value, _) = self.keys.entry(key.to_owned()).or_default();
        value.push_str(more);
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

    /// A request of one kind (`0..KINDS`) and its reply: values contain no spaces.
    pub fn request(&mut self, kind: usize, words: &Words) -> (String, String) {
        let Words { key, to, value, ms } = words;
        let ms = *ms;
        let quoted = if value.is_empty() { "\"\"" } else { value };
        match kind {
            0 | 1 => (format!("set {key} {quoted}"), self.set(key, value, None)),
            2 | 3 => {
                let deadline = Some(self.now + ms);
                let request = format!("set {key} {quoted} px {ms}");
                (request, self.set(key, value, deadline))
            }
            4 => (format!("get {key}"), self.get(key)),
            5 => {
                let found = self.keys.remove(key).is_some();
                (format!("del {key}"), format!(":{}", i32::from(found)))
            }
            6 | 7 => (format!("pexpire {key} {ms}"), self.expire(key, ms)),
            8 => (format!("pexpire {key} 0"), self.expire(key, 0)),
            9 => (format!("persist {key}"), self.persist(key)),
            10 => (format!("rename {key} {to}"), self.rename(key, to)),
            11 => (format!("append {key} 7"), self.append(key, "7")),
            12 => (format!("incr {key}"), self.incr(key)),
            13 => (format!("pttl {key}"), self.ttl(key)),
            _ => ("dbsize".to_owned(), format!(":{}", self.keys.len())),
        }
    }
}
