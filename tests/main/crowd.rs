//! Random requests of several clients that have to do with each other, beside a naive model: they
//! watch keys, collect transactions, wait for lists, publish and listen, and walk through the keys,
//! while keys die.
//!
//! The model is a map whose dead keys are thrown out whenever time moves, and for each client a
//! list of what it must have been sent. It is compared after every request, for all clients. A
//! server that gets the effects alone must come to hold the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mayfly::command::dispatch::run_ready;
use mayfly::engine::session::SessionKey;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::effects::Follower;
use crate::sim::Sim;

/// How many runs, unless the environment says otherwise in `SEEDS`.
const SEEDS: u64 = 24;
const STEPS: usize = 4_000;
const COMPARE_EVERY: usize = 20;
/// Clients that ask, and after them some that listen.
const ASKING: usize = 6;
const LISTENING: usize = 2;
const KEYS: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];
const CHANNELS: [&str; 3] = ["c1", "c2", "d1"];
/// None of the channels fits two of them.
const PATTERNS: [&str; 2] = ["c*", "d?"];
/// Keys that nobody asks for, so that a walk takes many steps.
const FILLERS: usize = 300;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

/// A request that a transaction may contain.
#[derive(Clone)]
enum Op {
    Set(&'static str, i64, Option<i64>),
    Get(&'static str),
    Del(&'static str),
    /// At the right end, or else at the left.
    Push(&'static str, bool, Vec<i64>),
    Pop(&'static str, bool),
    /// From the first list that is there, or the first that comes to be.
    Wait(Vec<&'static str>, bool, i64),
    Expire(&'static str, i64),
    Rename(&'static str, &'static str),
    Sort(&'static str),
    Publish(&'static str, i64),
}

impl Op {
    fn random(rng: &mut SmallRng) -> Op {
        let mut key = || KEYS[rng.random_range(0..KEYS.len())];
        let (key, to) = (key(), key());
        let number = rng.random_range(0..1_000);
        let is_right = rng.random_bool(0.5);
        let ms = 1 << rng.random_range(0..10);
        match rng.random_range(0..16) {
            0 => Op::Set(key, number, rng.random_bool(0.7).then_some(ms)),
            1 => Op::Get(key),
            2 | 3 => Op::Del(key),
            4..=6 => {
                let many = rng.random_range(1..4);
                Op::Push(key, is_right, (number..number + many).collect())
            }
            7 => Op::Pop(key, is_right),
            8..=11 if key != to => Op::Wait(vec![key, to], is_right, ms),
            8..=11 => Op::Wait(vec![key], is_right, 0),
            12 => Op::Expire(key, ms),
            13 => Op::Rename(key, to),
            14 => Op::Sort(key),
            _ => Op::Publish(CHANNELS[rng.random_range(0..CHANNELS.len())], number),
        }
    }

    fn text(&self) -> String {
        let side = |is_right: &bool| if *is_right { "r" } else { "l" };
        match self {
            Op::Set(key, number, None) => format!("set {key} {number}"),
            Op::Set(key, number, Some(ms)) => format!("set {key} {number} px {ms}"),
            Op::Get(key) => format!("get {key}"),
            Op::Del(key) => format!("del {key}"),
            Op::Push(key, is_right, numbers) => {
                let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
                format!("{}push {key} {}", side(is_right), numbers.join(" "))
            }
            Op::Pop(key, is_right) => format!("{}pop {key}", side(is_right)),
            Op::Wait(keys, is_right, ms) => {
                let seconds = *ms as f64 / 1_000.0;
                format!("b{}pop {} {seconds}", side(is_right), keys.join(" "))
            }
            Op::Expire(key, ms) => format!("pexpire {key} {ms}"),
            Op::Rename(key, to) => format!("rename {key} {to}"),
            Op::Sort(key) => format!("sort {key}"),
            Op::Publish(channel, number) => format!("publish {channel} {number}"),
        }
    }
}

#[derive(Clone)]
enum Value {
    Number(i64),
    List(VecDeque<i64>),
}

#[derive(Clone)]
struct Waiting {
    keys: Vec<&'static str>,
    is_right: bool,
    /// Until when, if not for ever.
    until: Option<i64>,
}

/// A walk through the keys.
struct Walk {
    cursor: String,
    /// Keys that have been there all the time, and those that were at some.
    always: BTreeSet<String>,
    ever: BTreeSet<String>,
    found: BTreeSet<String>,
}

#[derive(Default)]
struct Client {
    watched: BTreeSet<&'static str>,
    is_dirty: bool,
    queue: Option<Vec<Op>>,
    has_erred: bool,
    heard: BTreeSet<&'static str>,
    /// What it must be sent.
    sent: Vec<String>,
}

#[derive(Default)]
struct Model {
    now: i64,
    keys: BTreeMap<String, (Value, Option<i64>)>,
    clients: Vec<Client>,
    /// Those who wait, the first first.
    waiting: Vec<(usize, Waiting)>,
    /// Lists that have come to be, or become longer, since the last command ended.
    ready: Vec<&'static str>,
    walk: Option<Walk>,
}

fn bulk(text: &str) -> String {
    format!("${} {text}", text.len())
}

fn array(items: &[String]) -> String {
    let all: Vec<String> = [format!("*{}", items.len())]
        .into_iter()
        .chain(items.iter().cloned())
        .collect();
    all.join(" ")
}

fn ok() -> String {
    "+OK".to_owned()
}

impl Model {
    fn advance(&mut self, ms: i64) {
        self.now += ms;
        for key in KEYS {
            let ends = self.keys.get(key).and_then(|(_, end)| *end);
            if ends.is_some_and(|end| end <= self.now) {
                self.remove(key);
            }
        }
        let now = self.now;
        let is_over = |waiting: &Waiting| waiting.until.is_some_and(|until| until <= now);
        let over = self.waiting.extract_if(.., |(_, waiting)| is_over(waiting));
        for (client, _) in over {
            self.clients[client].sent.push("*-1".to_owned());
        }
    }

    /// A key has changed.
    fn touch(&mut self, key: &str) {
        for client in &mut self.clients {
            client.is_dirty |= client.watched.contains(key);
        }
        let is_there = self.keys.contains_key(key);
        if let Some(walk) = &mut self.walk {
            if is_there {
                walk.ever.insert(key.to_owned());
            } else {
                walk.always.remove(key);
            }
        }
    }

    fn remove(&mut self, key: &str) -> Option<(Value, Option<i64>)> {
        let old = self.keys.remove(key);
        if old.is_some() {
            self.touch(key);
        }
        old
    }

    fn put(&mut self, key: &'static str, value: Value, ends: Option<i64>) {
        if matches!(value, Value::List(_)) {
            self.ready.push(key);
        }
        self.keys.insert(key.to_owned(), (value, ends));
        self.touch(key);
    }

    fn list(&mut self, key: &str) -> Result<Option<&mut VecDeque<i64>>, String> {
        match self.keys.get_mut(key) {
            None => Ok(None),
            Some((Value::List(list), _)) => Ok(Some(list)),
            Some(_) => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn pop(&mut self, key: &str, is_right: bool) -> Result<Option<i64>, String> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let item = if is_right {
            list.pop_back()
        } else {
            list.pop_front()
        };
        if list.is_empty() {
            self.remove(key);
        } else {
            self.touch(key);
        }
        Ok(item)
    }

    /// Carries out a request; the reply, none if the client waits.
    fn apply(&mut self, client: usize, op: &Op, may_wait: bool) -> Result<Option<String>, String> {
        let nil = || "$-1".to_owned();
        let reply = match op {
            Op::Set(key, number, ms) => {
                let ends = ms.map(|ms| self.now + ms);
                self.put(key, Value::Number(*number), ends);
                ok()
            }
            Op::Get(key) => match self.keys.get(*key) {
                None => nil(),
                Some((Value::Number(number), _)) => bulk(&number.to_string()),
                Some(_) => return Err(WRONG_TYPE.to_owned()),
            },
            Op::Del(key) => format!(":{}", i32::from(self.remove(key).is_some())),
            Op::Push(key, is_right, numbers) => {
                let mut list = self.list(key)?.cloned().unwrap_or_default();
                for &number in numbers {
                    match is_right {
                        true => list.push_back(number),
                        false => list.push_front(number),
                    }
                }
                let len = list.len();
                let ends = self.keys.get(*key).and_then(|(_, end)| *end);
                self.put(key, Value::List(list), ends);
                format!(":{len}")
            }
            Op::Pop(key, is_right) => {
                let item = self.pop(key, *is_right)?;
                item.map_or_else(nil, |item| bulk(&item.to_string()))
            }
            Op::Wait(keys, is_right, ms) => {
                for key in keys {
                    if let Some(item) = self.pop(key, *is_right)? {
                        return Ok(Some(array(&[bulk(key), bulk(&item.to_string())])));
                    }
                }
                if may_wait {
                    let waiting = Waiting {
                        keys: keys.clone(),
                        is_right: *is_right,
                        until: (*ms > 0).then_some(self.now + ms),
                    };
                    self.waiting.push((client, waiting));
                    return Ok(None);
                }
                "*-1".to_owned()
            }
            Op::Expire(key, ms) => {
                let ends = self.now + ms;
                let found = self.keys.get_mut(*key);
                let is_there = found.map(|(_, end)| *end = Some(ends)).is_some();
                if is_there {
                    self.touch(key);
                }
                format!(":{}", i32::from(is_there))
            }
            Op::Rename(key, to) => {
                if !self.keys.contains_key(*key) {
                    return Err("-ERR no such key".to_owned());
                }
                if key != to {
                    let (value, ends) = self.remove(key).expect("it is there");
                    self.put(to, value, ends);
                }
                ok()
            }
            Op::Sort(key) => {
                let list = self.list(key)?.cloned().unwrap_or_default();
                let mut numbers: Vec<i64> = list.into();
                numbers.sort_unstable();
                let texts = numbers.iter().map(|number| bulk(&number.to_string()));
                array(&texts.collect::<Vec<_>>())
            }
            Op::Publish(channel, number) => {
                format!(":{}", self.publish(channel, &number.to_string()))
            }
        };
        Ok(Some(reply))
    }

    fn publish(&mut self, channel: &str, message: &str) -> usize {
        let mut receivers = 0;
        let parts = [bulk(channel), bulk(message)];
        for client in &mut self.clients {
            if client.heard.contains(channel) {
                receivers += 1;
                client
                    .sent
                    .push(format!("*3 $7 message {}", parts.join(" ")));
            }
            let pattern = if channel.starts_with('c') { "c*" } else { "d?" };
            if client.heard.contains(pattern) {
                receivers += 1;
                let pattern = bulk(pattern);
                let text = format!("*4 $8 pmessage {pattern} {}", parts.join(" "));
                client.sent.push(text);
            }
        }
        receivers
    }

    /// The outermost command has ended: those who wait get what there is, in their order.
    fn serve(&mut self) {
        for key in std::mem::take(&mut self.ready) {
            let mut at = 0;
            while at < self.waiting.len() && self.list(key).is_ok_and(|list| list.is_some()) {
                if !self.waiting[at].1.keys.contains(&key) {
                    at += 1;
                    continue;
                }
                // It tries again, and may fail at a key that has become something else.
                let (client, waiting) = self.waiting.remove(at);
                let op = Op::Wait(waiting.keys, waiting.is_right, 0);
                let reply = self.apply(client, &op, false).unwrap_or_else(Some);
                self.clients[client].sent.extend(reply);
            }
        }
    }

    /// A request of a client that is not in a transaction or does not collect this.
    fn request(&mut self, at: usize, op: &Op) {
        if let Some(queue) = &mut self.clients[at].queue {
            queue.push(op.clone());
            self.clients[at].sent.push("+QUEUED".to_owned());
            return;
        }
        let reply = self.apply(at, op, true).unwrap_or_else(Some);
        self.clients[at].sent.extend(reply);
        self.serve();
    }

    fn exec(&mut self, at: usize) {
        let client = std::mem::take(&mut self.clients[at]);
        let Client {
            watched: _,
            is_dirty,
            queue,
            has_erred,
            heard,
            sent,
        } = client;
        self.clients[at] = Client {
            heard,
            sent,
            ..Client::default()
        };
        let reply = match queue {
            None => {
                // It changes nothing.
                self.clients[at].watched = client.watched;
                self.clients[at].is_dirty = is_dirty;
                "-ERR EXEC without MULTI".to_owned()
            }
            Some(_) if has_erred => {
                "-EXECABORT Transaction discarded because of previous errors.".to_owned()
            }
            Some(_) if is_dirty => "*-1".to_owned(),
            Some(ops) => {
                let replies = ops.iter().map(|op| {
                    let reply = self.apply(at, op, false).unwrap_or_else(Some);
                    reply.expect("nobody waits in a transaction")
                });
                let replies: Vec<String> = replies.collect();
                array(&replies)
            }
        };
        self.clients[at].sent.push(reply);
        self.serve();
    }
}

/// A server, its clients and their model.
struct Crowd {
    sim: Sim,
    /// A server that gets the effects alone.
    follower: Follower,
    rng: SmallRng,
    sessions: Vec<SessionKey>,
    model: Model,
}

impl Crowd {
    fn new(seed: u64) -> Crowd {
        let mut sim = Sim::new();
        let mut follower = Follower::of(&mut sim);
        let mut model = Model::default();
        for nth in 0..FILLERS {
            sim.expect(&format!("set filler{nth} v"), "+OK");
            let value = (Value::Number(0), None);
            model.keys.insert(format!("filler{nth}"), value);
        }
        follower.follow(&mut sim);
        let sessions: Vec<SessionKey> = (0..ASKING + LISTENING).map(|_| sim.connect()).collect();
        model.clients = sessions.iter().map(|_| Client::default()).collect();
        Crowd {
            sim,
            follower,
            rng: SmallRng::seed_from_u64(seed),
            sessions,
            model,
        }
    }

    /// What all clients were sent is what they must have been.
    #[track_caller]
    fn assert_sent(&mut self, what: &str) {
        println!("{} {what}", self.model.now);
        for (at, &session) in self.sessions.iter().enumerate() {
            let expected = std::mem::take(&mut self.model.clients[at].sent).join(" ");
            assert_eq!(self.sim.received(session), expected, "client {at}: {what}");
        }
    }

    #[track_caller]
    fn ask(&mut self, at: usize, request: &str) {
        let bytes = format!("{request}\r\n");
        self.sim.engine.feed(self.sessions[at], bytes.as_bytes());
        run_ready(&mut self.sim.engine, &mut self.sim.clock);
        self.assert_sent(&format!("{at}: {request}"));
    }

    fn step(&mut self) {
        let is_waiting = |model: &Model, at| model.waiting.iter().any(|(one, _)| *one == at);
        match self.rng.random_range(0..20) {
            0..=3 => {
                let ms = 1_i64 << self.rng.random_range(0..8);
                self.sim.clock.advance_ms(ms as u64);
                self.model.advance(ms);
                self.sim.jobs();
                self.assert_sent("time passes");
            }
            4 => self.listen(),
            5 => self.walk(),
            6 if self.rng.random_bool(0.1) => {
                let at = self.rng.random_range(0..self.sessions.len());
                self.sim.engine.disconnect(self.sessions[at]);
                self.sessions[at] = self.sim.connect();
                self.model.clients[at] = Client::default();
                self.model.waiting.retain(|(one, _)| *one != at);
            }
            _ => {
                let at = self.rng.random_range(0..ASKING);
                if !is_waiting(&self.model, at) {
                    self.speak(at);
                }
            }
        }
    }

    fn speak(&mut self, at: usize) {
        let client = &mut self.model.clients[at];
        let (is_collecting, mut sent) = (client.queue.is_some(), ok());
        let request = match self.rng.random_range(0..24) {
            0..=2 => {
                match is_collecting {
                    true => sent = "-ERR MULTI calls can not be nested".to_owned(),
                    false => client.queue = Some(Vec::new()),
                }
                "multi".to_owned()
            }
            3..=6 => {
                self.model.exec(at);
                return self.ask(at, "exec");
            }
            7 => {
                match is_collecting {
                    false => sent = "-ERR DISCARD without MULTI".to_owned(),
                    true => {
                        (client.queue, client.has_erred) = (None, false);
                        (client.watched, client.is_dirty) = (BTreeSet::new(), false);
                    }
                }
                "discard".to_owned()
            }
            8..=10 => {
                let key = KEYS[self.rng.random_range(0..KEYS.len())];
                match is_collecting {
                    true => sent = "-ERR WATCH inside MULTI is not allowed".to_owned(),
                    false => _ = client.watched.insert(key),
                }
                format!("watch {key}")
            }
            11 if !is_collecting => {
                (client.watched, client.is_dirty) = (BTreeSet::new(), false);
                "unwatch".to_owned()
            }
            12 if self.rng.random_bool(0.2) => {
                client.has_erred = is_collecting;
                sent = "-ERR wrong number of arguments for 'get' command".to_owned();
                "get".to_owned()
            }
            _ => {
                let op = Op::random(&mut self.rng);
                self.model.request(at, &op);
                return self.ask(at, &op.text());
            }
        };
        client.sent.push(sent);
        self.ask(at, &request);
    }

    /// Somebody listens to a channel or a pattern, or no longer does.
    fn listen(&mut self) {
        let at = ASKING + self.rng.random_range(0..LISTENING);
        let is_pattern = self.rng.random_bool(0.5);
        let name = match is_pattern {
            true => PATTERNS[self.rng.random_range(0..PATTERNS.len())],
            false => CHANNELS[self.rng.random_range(0..CHANNELS.len())],
        };
        let heard = &mut self.model.clients[at].heard;
        let word = match self.rng.random_bool(0.6) {
            true => {
                heard.insert(name);
                "subscribe"
            }
            false => {
                heard.remove(name);
                "unsubscribe"
            }
        };
        let word = if is_pattern {
            format!("p{word}")
        } else {
            word.to_owned()
        };
        let reply = format!("*3 {} {} :{}", bulk(&word), bulk(name), heard.len());
        self.model.clients[at].sent.push(reply);
        self.ask(at, &format!("{word} {name}"));
    }

    /// One step of SCAN. A walk must find what is there all the time, and nothing that never is.
    fn walk(&mut self) {
        let keys = || self.model.keys.keys().cloned().collect::<BTreeSet<_>>();
        let mut walk = self.model.walk.take().unwrap_or_else(|| Walk {
            cursor: "0".to_owned(),
            always: keys(),
            ever: keys(),
            found: BTreeSet::new(),
        });
        let reply = self.sim.run(&format!("scan {} count 30", walk.cursor));
        let mut words = reply
            .split(' ')
            .filter(|word| !word.starts_with(['*', '$']));
        walk.cursor = words.next().expect("a cursor").to_owned();
        walk.found.extend(words.map(str::to_owned));
        if walk.cursor == "0" {
            assert!(walk.always.is_subset(&walk.found), "{reply}");
            assert!(walk.found.is_subset(&walk.ever), "{reply}");
        } else {
            self.model.walk = Some(walk);
        }
    }
}

#[test]
fn clients_that_watch_wait_and_listen_see_what_the_model_does() {
    let seeds = std::env::var("SEEDS").map(|text| text.parse().expect("a number"));
    for seed in 0..seeds.unwrap_or(SEEDS) {
        println!("seed {seed}");
        let mut crowd = Crowd::new(seed);
        for step in 0..STEPS {
            crowd.step();
            if step % COMPARE_EVERY == 0 {
                crowd.follower.follow(&mut crowd.sim);
                crowd.follower.assert_alike(&crowd.sim);
            }
        }
        crowd.sim.engine.keyspace.check();
    }
}
