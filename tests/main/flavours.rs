//! Random requests about TTLs that only Mayfly has beside a naive model of them: sliding ones, soft
//! deadlines with leases, jitter, and rules by prefix; and what becomes of them when keys move.
//!
//! The model is a map of strings whose dead keys are thrown out whenever time moves. What it does
//! is what docs/expiry.md says, written down once more in the plainest way. What jitter draws it
//! cannot know: it asks for the deadline, once, which must be among those that were possible, and
//! from then on holds the server to it.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::disk::MemoryDisk;
use crate::effects::Follower;
use crate::sim::{START, Sim};

/// How many runs, unless the environment says otherwise in `SEEDS`.
const SEEDS: u64 = 24;
const STEPS: usize = 4_000;
const DBS: usize = 2;
/// Keys whose names begin with one of the prefixes of rules, or with none.
const KEYS: [&str; 8] = ["a:1", "a:2", "a:x:1", "a:x:2", "b:1", "b:2", "c", "d"];
const PREFIXES: [&str; 3] = ["a:", "a:x:", "b:"];

/// A database and a name in it.
type Place = (usize, &'static str);

/// What a command asks for.
#[derive(Clone, Copy, Default)]
struct Ask {
    ms: i64,
    slides: bool,
    /// Behind a moment, by how much.
    sliding_ms: Option<i64>,
    soft_ms: Option<i64>,
    jitter_percent: i64,
}

/// What a key has got: all in ms, the times absolute.
#[derive(Clone, Copy, Default)]
struct Ttl {
    /// When the key dies.
    hard: Option<i64>,
    /// A use moves that to so much later than itself.
    span: Option<i64>,
    /// From when on the value is stale.
    soft: Option<i64>,
    /// Until when somebody refreshes it.
    leased: Option<i64>,
}

/// A TTL of which only the server knows how long it is.
struct Draw {
    place: Place,
    ask: Ask,
    shortest: i64,
    longest: i64,
}

#[derive(Clone, Default)]
struct Key {
    value: String,
    ttl: Ttl,
}

#[derive(Clone, Default)]
struct Rule {
    default: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
    jitter_percent: i64,
    slides: bool,
}

#[derive(Default)]
struct Model {
    now: i64,
    /// The database of the client.
    db: usize,
    keys: BTreeMap<Place, Key>,
    /// Until when somebody fills a key that is not there.
    fills: BTreeMap<Place, i64>,
    /// By prefix, of one database or of all.
    rules: BTreeMap<(&'static str, Option<usize>), Rule>,
    /// What the last request had drawn.
    draw: Option<Draw>,
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| format!("${} {v}", v.len()))
}

fn integer(truth: bool) -> String {
    format!(":{}", i32::from(truth))
}

impl Model {
    fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        self.keys
            .retain(|_, key| key.ttl.hard.is_none_or(|at| at > now));
        self.fills.retain(|_, end| *end > now);
    }

    /// The rule with the longest prefix of a key; of two alike, that of its database.
    fn rule(&self, (db, key): Place) -> Rule {
        let fits = self.rules.iter().filter(|((prefix, of), _)| {
            key.starts_with(prefix) && of.is_none_or(|number| number == db)
        });
        let longest = fits.max_by_key(|((prefix, of), _)| (prefix.len(), of.is_some()));
        longest.map_or(Rule::default(), |(_, rule)| rule.clone())
    }

    /// What a key gets for which that is asked, or at most gets, if something is to be drawn.
    fn granted(&mut self, place: Place, mut ask: Ask) -> Ttl {
        let rule = self.rule(place);
        ask.slides |= rule.slides && ask.soft_ms.is_none();
        if ask.jitter_percent == 0 {
            ask.jitter_percent = rule.jitter_percent;
        }
        let longest = ask.ms.max(rule.min.unwrap_or(1));
        let longest = longest.min(rule.max.unwrap_or(i64::MAX));
        let shortest = longest - longest * ask.jitter_percent / 100;
        let shortest = shortest.max(rule.min.unwrap_or(1));
        ask.sliding_ms = ask.sliding_ms.map(|ms| {
            let ms = ms.max(rule.min.unwrap_or(1));
            ms.min(rule.max.unwrap_or(i64::MAX))
        });
        self.draw = (shortest < longest).then_some(Draw {
            place,
            ask,
            shortest,
            longest,
        });
        self.lasting(ask, longest)
    }

    /// What was asked for, but of this length.
    fn lasting(&self, ask: Ask, span: i64) -> Ttl {
        // The time for which the value is stale is in proportion, in whole ms, at least one.
        let stale_ms = ask.soft_ms.map(|soft| {
            let before = (ask.ms - soft) as f64 * (span as f64 / ask.ms as f64);
            (before as i64).max(1)
        });
        Ttl {
            hard: Some(self.now + span),
            span: ask.slides.then_some(ask.sliding_ms.unwrap_or(span)),
            soft: stale_ms.map(|stale| self.now + span - stale),
            leased: None,
        }
    }

    /// The server has drawn this deadline.
    fn drawn(&mut self, draw: Draw, hard: i64) {
        let span = hard - self.now;
        assert!((draw.shortest..=draw.longest).contains(&span), "{span}");
        let ttl = self.lasting(draw.ask, span);
        self.keys.get_mut(&draw.place).expect("it has a TTL").ttl = ttl;
    }

    /// A command has written a key: what it leaves without a deadline gets that of its rule, and
    /// nobody need refresh or fill it any more.
    fn written(&mut self, place: Place) {
        self.fills.remove(&place);
        let default = self.rule(place).default;
        let Some(key) = self.keys.get_mut(&place) else {
            return;
        };
        key.ttl.leased = None;
        if let (None, Some(ms)) = (key.ttl.hard, default) {
            let ask = Ask {
                ms,
                ..Ask::default()
            };
            let ttl = self.granted(place, ask);
            self.keys.get_mut(&place).expect("it is there").ttl = ttl;
        }
    }

    /// The value of a key is read or written.
    fn used(&mut self, place: Place) -> Option<String> {
        let now = self.now;
        let key = self.keys.get_mut(&place)?;
        if let Some(span) = key.ttl.span {
            // A use never makes it die sooner.
            key.ttl.hard = key.ttl.hard.map(|at| at.max(now + span));
        }
        Some(key.value.clone())
    }

    fn set(&mut self, place: Place, value: &str, ttl: Ttl) {
        let value = value.to_owned();
        self.keys.insert(place, Key { value, ttl });
        self.written(place);
    }

    fn get_soft(&mut self, place: Place, lease: Option<i64>) -> String {
        let now = self.now;
        let told = |value: Option<&str>, state: &str, ms: i64| {
            format!("*3 {} ${} {state} :{ms}", bulk(value), state.len())
        };
        let Some(value) = self.used(place) else {
            if let Some(end) = self.fills.get(&place) {
                return told(None, "being-filled", end - now);
            }
            let Some(ms) = lease else {
                return told(None, "missing", -2);
            };
            self.fills.insert(place, now + ms);
            return told(None, "missing-and-yours", ms);
        };
        let ttl = &mut self.keys.get_mut(&place).expect("it has a value").ttl;
        let left = ttl.hard.map_or(-1, |at| at - now);
        match ttl.soft {
            Some(soft) if soft <= now => {}
            Some(soft) => return told(Some(&value), "fresh", soft - now),
            None => return told(Some(&value), "fresh", left),
        }
        let is_leased = ttl.leased.is_some_and(|end| end > now);
        if let (Some(ms), false) = (lease, is_leased) {
            // The right ends with the key at the latest.
            ttl.leased = Some((now + ms).min(now + left - 1));
            return told(Some(&value), "stale-and-yours", left);
        }
        told(Some(&value), "stale", left)
    }

    /// One random request and the reply to it.
    fn request(&mut self, rng: &mut SmallRng) -> (String, String) {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        match rng.random_range(0..30) {
            0..=10 => self.write(rng, key),
            11..=15 => self.change_ttl(rng, key),
            16..=21 => self.read(rng, key),
            22..=26 => self.move_about(rng, key),
            27 if rng.random_bool(0.2) => {
                self.keys = swapped(std::mem::take(&mut self.keys));
                self.fills = swapped(std::mem::take(&mut self.fills));
                ("swapdb 0 1".to_owned(), "+OK".to_owned())
            }
            27 => {
                self.db = rng.random_range(0..DBS);
                (format!("select {}", self.db), "+OK".to_owned())
            }
            _ => self.change_rules(rng),
        }
    }

    /// A request for a TTL of some kind: the words, and what a key gets.
    fn ask(&mut self, rng: &mut SmallRng, place: Place, is_always: bool) -> (String, Ttl) {
        let ms = random_ms(rng);
        let mut ask = Ask {
            ms,
            ..Ask::default()
        };
        let mut words = match rng.random_range(0..4) {
            0 => {
                ask.ms *= 1_000;
                format!("ex {ms}")
            }
            1 => format!("pxat {}", START + self.now + ms),
            _ => format!("px {ms}"),
        };
        let is_moment = words.starts_with("pxat");
        match rng.random_range(0..4) {
            0 if !is_moment => {
                ask.slides = true;
                words += " sliding";
            }
            0 => {
                let ms = random_ms(rng);
                (ask.slides, ask.sliding_ms) = (true, Some(ms));
                words += &format!(" sliding {ms}");
            }
            1 | 2 if ask.ms == ms => {
                let soft = rng.random_range(1..ms);
                ask.soft_ms = Some(soft);
                let moment = if is_moment { START + self.now } else { 0 };
                words += &format!(" soft {}", moment + soft);
            }
            _ => {}
        }
        if rng.random_bool(0.3) {
            ask.jitter_percent = rng.random_range(0..=100);
            words += &format!(" jitter {}", ask.jitter_percent);
        }
        if is_always || self.keys.contains_key(&place) {
            let ttl = self.granted(place, ask);
            return (words, ttl);
        }
        (words, Ttl::default())
    }

    fn write(&mut self, rng: &mut SmallRng, key: &'static str) -> (String, String) {
        let place = (self.db, key);
        let value = format!("v{}", rng.random_range(0..100));
        let ok = "+OK".to_owned();
        let had = self.keys.get(&place).map_or(Ttl::default(), |key| key.ttl);
        match rng.random_range(0..11) {
            0 => {
                self.set(place, &value, Ttl::default());
                (format!("set {key} {value}"), ok)
            }
            1 => {
                self.used(place);
                let kept = self.keys.get(&place).map_or(had, |key| key.ttl);
                self.set(place, &value, kept);
                (format!("set {key} {value} keepttl"), ok)
            }
            2 => {
                let new = self.used(place).unwrap_or_default() + &value;
                let kept = self.keys.get(&place).map_or(had, |key| key.ttl);
                self.set(place, &new, kept);
                (format!("append {key} {value}"), format!(":{}", new.len()))
            }
            3 => {
                let is_there = self.keys.remove(&place).is_some();
                if is_there {
                    self.fills.remove(&place);
                }
                (format!("del {key}"), integer(is_there))
            }
            _ => {
                let (words, ttl) = self.ask(rng, place, true);
                self.set(place, &value, ttl);
                (format!("set {key} {value} {words}"), ok)
            }
        }
    }

    fn change_ttl(&mut self, rng: &mut SmallRng, key: &'static str) -> (String, String) {
        let place = (self.db, key);
        let is_there = self.keys.contains_key(&place);
        if rng.random_bool(0.3) {
            let had = self.keys.get_mut(&place);
            let had = had.is_some_and(|key| std::mem::take(&mut key.ttl).hard.is_some());
            if had {
                self.written(place);
            }
            return (format!("persist {key}"), integer(had));
        }
        let (words, ttl) = self.ask(rng, place, false);
        let reads = rng.random_bool(0.4);
        let condition = ["nx", "xx", "gt", "lt", ""][rng.random_range(0..5)];
        let allowed = match reads {
            true => Some(true),
            false => self.allows(place, ttl, condition),
        };
        // It may depend on what is drawn.
        let (condition, is_allowed) = allowed.map_or(("", true), |truth| (condition, truth));
        let value = self.keys.get(&place).map(|key| key.value.clone());
        if is_there && is_allowed {
            self.keys.get_mut(&place).expect("it is there").ttl = ttl;
            self.written(place);
        } else {
            self.draw = None;
        }
        if reads {
            return (format!("getex {key} {words}"), bulk(value.as_deref()));
        }
        let (word, words) = words.split_once(' ').expect("a word and a number");
        let command = match word {
            "ex" => "expire",
            "px" => "pexpire",
            _ => "pexpireat",
        };
        let request = format!("{command} {key} {words} {condition}");
        (request, integer(is_there && is_allowed))
    }

    /// Whether a condition of EXPIRE allows a new TTL; none if only the server knows.
    fn allows(&self, place: Place, new: Ttl, condition: &str) -> Option<bool> {
        let old = self.keys.get(&place)?.ttl.hard;
        let longest = new.hard?;
        let drawn = |draw: &Draw| self.now + draw.shortest;
        let shortest = self.draw.as_ref().map_or(longest, drawn);
        let [of_shortest, of_longest] = [shortest, longest].map(|new| match condition {
            "nx" => old.is_none(),
            "xx" => old.is_some(),
            "gt" => old.is_some_and(|old| new > old),
            "lt" => old.is_none_or(|old| new < old),
            _ => true,
        });
        (of_shortest == of_longest).then_some(of_longest)
    }

    fn read(&mut self, rng: &mut SmallRng, key: &'static str) -> (String, String) {
        let place = (self.db, key);
        if rng.random_bool(0.3) {
            return (format!("get {key}"), bulk(self.used(place).as_deref()));
        }
        let lease = rng.random_bool(0.7).then(|| random_ms(rng));
        let word = lease.map_or(String::new(), |ms| format!(" lease {ms}"));
        (format!("getsoft {key}{word}"), self.get_soft(place, lease))
    }

    /// Gives a key another name, database or copy. What it has goes with it, a copy has no lease;
    /// only for what has no deadline is the rule of the new place asked.
    fn move_about(&mut self, rng: &mut SmallRng, key: &'static str) -> (String, String) {
        let (from, to) = ((self.db, key), KEYS[rng.random_range(0..KEYS.len())]);
        let db = rng.random_range(0..DBS);
        let is_there = self.keys.contains_key(&from);
        match rng.random_range(0..5) {
            0 | 1 => {
                let replaces = rng.random_bool(0.5);
                let word = if replaces { " replace" } else { "" };
                let request = format!("copy {key} {to} db {db}{word}");
                if from == (db, to) {
                    let why = "-ERR source and destination objects are the same";
                    return (request, why.to_owned());
                }
                // Its value is read.
                self.used(from);
                let is_copied = is_there && (replaces || !self.keys.contains_key(&(db, to)));
                if is_copied {
                    let mut copy = self.keys[&from].clone();
                    copy.ttl.leased = None;
                    self.keys.insert((db, to), copy);
                    self.written((db, to));
                }
                (request, integer(is_copied))
            }
            2 => {
                let is_free = !self.keys.contains_key(&(self.db, to));
                if is_there && is_free {
                    self.take_to(from, (self.db, to));
                }
                let reply = match is_there {
                    true => integer(is_free),
                    false => "-ERR no such key".to_owned(),
                };
                (format!("renamenx {key} {to}"), reply)
            }
            3 => {
                if is_there && key != to {
                    self.take_to(from, (self.db, to));
                }
                let reply = if is_there { "+OK" } else { "-ERR no such key" };
                (format!("rename {key} {to}"), reply.to_owned())
            }
            _ => {
                let db = 1 - self.db;
                let is_moved = is_there && !self.keys.contains_key(&(db, key));
                if is_moved {
                    self.take_to(from, (db, key));
                }
                (format!("move {key} {db}"), integer(is_moved))
            }
        }
    }

    fn take_to(&mut self, from: Place, to: Place) {
        let key = self.keys.remove(&from).expect("it is there");
        let leased = key.ttl.leased;
        self.keys.insert(to, key);
        self.written(to);
        self.keys.get_mut(&to).expect("it is there").ttl.leased = leased;
    }

    fn change_rules(&mut self, rng: &mut SmallRng) -> (String, String) {
        let nth = rng.random_range(0..PREFIXES.len());
        let prefix = PREFIXES[nth];
        let db = rng.random_bool(0.3).then(|| rng.random_range(0..DBS));
        let name = format!("r{nth}{}", db.map_or(String::new(), |db| format!("of{db}")));
        if rng.random_bool(0.4) {
            let was_there = self.rules.remove(&(prefix, db)).is_some();
            return (format!("expiry rule del {name}"), integer(was_there));
        }
        let ms = random_ms(rng);
        let mut chance = |ms: i64| rng.random_bool(0.5).then_some(ms);
        let mut rule = Rule {
            min: chance(ms),
            max: chance(2 * ms),
            default: chance(ms + ms / 2),
            ..Rule::default()
        };
        if rng.random_bool(0.4) {
            rule.jitter_percent = rng.random_range(1..=100);
        }
        rule.slides = rng.random_bool(0.3);
        let words = [
            ("db", db.map(|db| db as i64)),
            ("default", rule.default),
            ("min", rule.min),
            ("max", rule.max),
            ("jitter", Some(rule.jitter_percent)),
        ];
        let words = words.map(|(word, ms)| ms.map_or(String::new(), |ms| format!(" {word} {ms}")));
        let slides = if rule.slides { " sliding" } else { "" };
        self.rules.insert((prefix, db), rule);
        let request = format!(
            "expiry rule set {name} prefix {prefix}{}{slides}",
            words.concat()
        );
        (request, "+OK".to_owned())
    }
}

/// What is in two databases that change places.
fn swapped<T>(places: BTreeMap<Place, T>) -> BTreeMap<Place, T> {
    let places = places.into_iter();
    places.map(|((db, key), of)| ((1 - db, key), of)).collect()
}

/// A span, short ones as likely as long ones.
fn random_ms(rng: &mut SmallRng) -> i64 {
    let bits = rng.random_range(1..12);
    rng.random_range(1..1_i64 << bits) + 1
}

/// Asks for the moment of a key's death, whichever its database, as the model has it: Unix ms.
fn moment_of(sim: &mut Sim, model: &Model, (db, key): Place) -> i64 {
    sim.expect(&format!("select {db}"), "+OK");
    let reply = sim.run(&format!("pexpiretime {key}"));
    sim.expect(&format!("select {}", model.db), "+OK");
    reply[1..].parse().expect("a number")
}

/// A snapshot and a restart: no lease outlasts them, and nothing is drawn anew.
fn restart(sim: &mut Sim, model: &mut Model) {
    sim.expect("debug reload", "+OK");
    model.fills.clear();
    for key in model.keys.values_mut() {
        key.ttl.leased = None;
    }
}

fn follow(seed: u64) {
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut sim = Sim::saving_on(MemoryDisk::default(), seed);
    let mut model = Model::default();
    let mut follower = Follower::of(&mut sim);
    for step in 0..STEPS {
        if rng.random_bool(0.3) {
            let bits = rng.random_range(1..11);
            let ms = rng.random_range(0..1_i64 << bits);
            sim.clock.advance_ms(ms as u64);
            model.advance(ms);
            if rng.random_bool(0.5) {
                sim.jobs();
            }
            continue;
        }
        if rng.random_range(0..200) == 0 {
            restart(&mut sim, &mut model);
        }
        let (request, reply) = model.request(&mut rng);
        assert_eq!(sim.run(&request), reply, "{request}");
        if let Some(draw) = model.draw.take() {
            let at = moment_of(&mut sim, &model, draw.place);
            model.drawn(draw, at - START);
        }
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let place = (rng.random_range(0..DBS), key);
        let key = model.keys.get(&place);
        let at = key.map_or(-2, |key| key.ttl.hard.map_or(-1, |at| START + at));
        let found = moment_of(&mut sim, &model, place);
        assert_eq!(found, at, "step {step}: {request}; {place:?}");
        let effects = follower.follow(&mut sim);
        println!("{request}: {effects:?}");
        follower.assert_alike(&sim);
        if step % 100 == 0 {
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn random_requests_about_every_kind_of_ttl_do_what_the_model_does() {
    let seeds = std::env::var("SEEDS").map(|text| text.parse().expect("a number"));
    (0..seeds.unwrap_or(SEEDS)).for_each(follow);
}
