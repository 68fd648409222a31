//! Random requests about TTLs that only Mayfly has beside a naive model of them: sliding ones, soft
//! deadlines with leases, and rules by prefix.
//!
//! The model is a map of strings whose dead keys are thrown out whenever time moves. What it does
//! is what docs/expiry.md says, written down once more in the plainest way.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::sim::Sim;

const SEEDS: u64 = 24;
const STEPS: usize = 4_000;
/// Keys whose names begin with one of the prefixes of rules, or with none.
const KEYS: [&str; 8] = ["a:1", "a:2", "a:x:1", "a:x:2", "b:1", "b:2", "c", "d"];
const PREFIXES: [&str; 4] = ["a:", "a:x:", "b:", ""];

/// What is asked for, or had: all in ms, the times from now on or absolute.
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
    slides: bool,
}

#[derive(Default)]
struct Model {
    now: i64,
    keys: BTreeMap<String, Key>,
    /// Until when somebody fills a key that is not there.
    fills: BTreeMap<String, i64>,
    rules: BTreeMap<&'static str, Rule>,
}

fn bulk(value: Option<&str>) -> String {
    value.map_or("$-1".to_owned(), |v| format!("${} {v}", v.len()))
}

impl Model {
    fn advance(&mut self, ms: i64) {
        self.now += ms;
        let now = self.now;
        self.keys
            .retain(|_, key| key.ttl.hard.is_none_or(|at| at > now));
        self.fills.retain(|_, end| *end > now);
    }

    /// The rule with the longest prefix of a key.
    fn rule(&self, key: &str) -> Option<&Rule> {
        let fits = self
            .rules
            .iter()
            .filter(|(prefix, _)| key.starts_with(**prefix));
        fits.max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, rule)| rule)
    }

    /// What a key gets for which so many ms are asked.
    fn granted(&self, key: &str, ms: i64, slides: bool, soft_ms: Option<i64>) -> Ttl {
        let none = Rule::default();
        let rule = self.rule(key).unwrap_or(&none);
        let span = ms
            .max(rule.min.unwrap_or(ms))
            .min(rule.max.unwrap_or(i64::MAX));
        let is_sliding = slides || rule.slides && soft_ms.is_none();
        // The time for which the value is stale is in proportion, in whole ms, at least one.
        let stale_ms = soft_ms.map(|soft| {
            let before = (ms - soft) as f64 * (span as f64 / ms as f64);
            if span == ms {
                ms - soft
            } else {
                (before as i64).max(1)
            }
        });
        Ttl {
            hard: Some(self.now + span),
            span: is_sliding.then_some(span),
            soft: stale_ms.map(|stale| self.now + span - stale),
            leased: None,
        }
    }

    /// A command has written a key: what it leaves without a deadline gets that of its rule, and
    /// nobody need refresh or fill it any more.
    fn written(&mut self, name: &str) {
        self.fills.remove(name);
        let default = self.rule(name).and_then(|rule| rule.default);
        let granted = default.map(|ms| self.granted(name, ms, false, None));
        if let Some(key) = self.keys.get_mut(name) {
            key.ttl.leased = None;
            if let (None, Some(granted)) = (key.ttl.hard, granted) {
                key.ttl = granted;
            }
        }
    }

    /// The value of a key is read or written.
    fn used(&mut self, name: &str) -> Option<String> {
        let now = self.now;
        let key = self.keys.get_mut(name)?;
        if let Some(span) = key.ttl.span {
            // A use never makes it die sooner.
            key.ttl.hard = key.ttl.hard.map(|at| at.max(now + span));
        }
        Some(key.value.clone())
    }

    fn set(&mut self, name: &str, value: String, ttl: Ttl) {
        self.keys.insert(name.to_owned(), Key { value, ttl });
        self.written(name);
    }

    fn get_soft(&mut self, name: &str, lease: Option<i64>) -> String {
        let now = self.now;
        let told = |value: Option<&str>, state: &str, ms: i64| {
            format!("*3 {} ${} {state} :{ms}", bulk(value), state.len())
        };
        let Some(value) = self.used(name) else {
            if let Some(end) = self.fills.get(name) {
                return told(None, "being-filled", end - now);
            }
            let Some(ms) = lease else {
                return told(None, "missing", -2);
            };
            self.fills.insert(name.to_owned(), now + ms);
            return told(None, "missing-and-yours", ms);
        };
        let ttl = &mut self.keys.get_mut(name).expect("it has a value").ttl;
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
        let mut name = || KEYS[rng.random_range(0..KEYS.len())];
        let (key, to) = (name(), name());
        let bits = rng.random_range(1..12);
        let ms = rng.random_range(1..1_i64 << bits) + 1;
        let value = format!("v{}", rng.random_range(0..100));
        let ok = "+OK".to_owned();
        match rng.random_range(0..22) {
            0 => {
                self.set(key, value.clone(), Ttl::default());
                (format!("set {key} {value}"), ok)
            }
            1 | 2 => {
                let ttl = self.granted(key, ms, false, None);
                self.set(key, value.clone(), ttl);
                (format!("set {key} {value} px {ms}"), ok)
            }
            3 | 4 => {
                let ttl = self.granted(key, ms * 1_000, true, None);
                self.set(key, value.clone(), ttl);
                (format!("set {key} {value} ex {ms} sliding"), ok)
            }
            5..=8 => {
                let soft = rng.random_range(1..ms);
                let ttl = self.granted(key, ms, false, Some(soft));
                self.set(key, value.clone(), ttl);
                (format!("set {key} {value} px {ms} soft {soft}"), ok)
            }
            9 => {
                self.used(key);
                let ttl = self.keys.get(key).map_or(Ttl::default(), |key| key.ttl);
                self.set(key, value.clone(), ttl);
                (format!("set {key} {value} keepttl"), ok)
            }
            10 => {
                let old = self.used(key).unwrap_or_default();
                let ttl = self.keys.get(key).map_or(Ttl::default(), |key| key.ttl);
                let new = old + &value;
                let len = new.len();
                self.set(key, new, ttl);
                (format!("append {key} {value}"), format!(":{len}"))
            }
            11 | 12 => {
                let slides = rng.random_bool(0.5);
                let granted = self.granted(key, ms, slides, None);
                let is_there = self
                    .keys
                    .get_mut(key)
                    .map(|key| key.ttl = granted)
                    .is_some();
                if is_there {
                    self.written(key);
                }
                let word = if slides { " sliding" } else { "" };
                let reply = format!(":{}", i32::from(is_there));
                (format!("pexpire {key} {ms}{word}"), reply)
            }
            13 => {
                let had = self
                    .keys
                    .get_mut(key)
                    .map(|key| std::mem::take(&mut key.ttl));
                let had = had.is_some_and(|ttl| ttl.hard.is_some());
                if had {
                    self.written(key);
                }
                (format!("persist {key}"), format!(":{}", i32::from(had)))
            }
            14 | 15 => (format!("get {key}"), bulk(self.used(key).as_deref())),
            16..=18 => {
                let lease = rng.random_bool(0.7).then_some(ms);
                let word = lease.map_or(String::new(), |ms| format!(" lease {ms}"));
                (format!("getsoft {key}{word}"), self.get_soft(key, lease))
            }
            19 => {
                let is_there = self.keys.remove(key).is_some();
                if is_there {
                    self.fills.remove(key);
                }
                (format!("del {key}"), format!(":{}", i32::from(is_there)))
            }
            20 => {
                if key == to || !self.keys.contains_key(key) {
                    return (format!("exists {key}"), self.exists(key));
                }
                // Its value is read.
                self.used(key);
                let mut copy = self.keys[key].clone();
                copy.ttl.leased = None;
                self.keys.insert(to.to_owned(), copy);
                self.written(to);
                (format!("copy {key} {to} replace"), ":1".to_owned())
            }
            _ => self.change_rules(rng, ms),
        }
    }

    fn exists(&self, key: &str) -> String {
        format!(":{}", i32::from(self.keys.contains_key(key)))
    }

    fn change_rules(&mut self, rng: &mut SmallRng, ms: i64) -> (String, String) {
        let nth = rng.random_range(0..PREFIXES.len());
        let prefix = PREFIXES[nth];
        if prefix.is_empty() || rng.random_bool(0.3) {
            let was_there = self.rules.remove(prefix).is_some();
            let reply = format!(":{}", i32::from(was_there));
            return (format!("expiry rule del r{nth}"), reply);
        }
        let mut chance = |ms: i64| rng.random_bool(0.5).then_some(ms);
        let mut rule = Rule {
            min: chance(ms),
            max: chance(2 * ms),
            default: chance(ms + ms / 2),
            slides: false,
        };
        rule.slides = rng.random_bool(0.3);
        let words = [
            ("default", rule.default),
            ("min", rule.min),
            ("max", rule.max),
        ];
        let words = words.map(|(word, ms)| ms.map_or(String::new(), |ms| format!(" {word} {ms}")));
        let slides = if rule.slides { " sliding" } else { "" };
        self.rules.insert(prefix, rule);
        let request = format!(
            "expiry rule set r{nth} prefix {prefix}{}{slides}",
            words.concat()
        );
        (request, "+OK".to_owned())
    }
}

#[test]
fn random_requests_about_every_kind_of_ttl_do_what_the_model_does() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut sim, mut model) = (Sim::new(), Model::default());
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
            let (request, reply) = model.request(&mut rng);
            assert_eq!(sim.run(&request), reply, "{request}");
            let key = KEYS[rng.random_range(0..KEYS.len())];
            let left = model.keys.get(key);
            let left = left.map_or(-2, |key| key.ttl.hard.map_or(-1, |at| at - model.now));
            assert_eq!(
                sim.run(&format!("pttl {key}")),
                format!(":{left}"),
                "{request}; {key}"
            );
            if step % 100 == 0 {
                sim.engine.keyspace.check();
            }
        }
    }
}
