//! Rules of expiry: what holds for the deadlines of all keys that begin alike.
//!
//! A rule is written the same way everywhere, as the words behind EXPIRY RULE SET or `expiry-rule`:
//!
//! ```text
//! sessions PREFIX session: DB 0 DEFAULT 1800000 MIN 60000 MAX 86400000 JITTER 10 SLIDING
//! ```
//!
//! Invariants: of [`ExpiryRules`] no two have the same name, or the same prefix in the same
//! databases. To set one or to delete one does not take longer if there are many.
//!
//! Not here: which rule a key has, and what that means for it (`store`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::source::{quote, split_line};
use super::{Config, DATABASES_MAX};

/// The longest span a rule can name, in ms: a hundred years and more.
pub const RULE_MS_MAX: u64 = (1 << 42) - 1;
/// Rules there may be.
pub const RULES_MAX: usize = 65_536;

/// What holds for the deadlines of all keys with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryRule {
    /// What it is called.
    pub name: Vec<u8>,
    /// What its keys begin with; empty for all keys.
    pub prefix: Vec<u8>,
    /// The database of its keys; none for all.
    pub db: Option<u32>,
    /// The TTL of a key that a write would leave without one, in ms.
    pub default_ms: Option<u64>,
    /// No command gives a shorter TTL, in ms.
    pub min_ms: Option<u64>,
    /// No command gives a longer TTL, in ms.
    pub max_ms: Option<u64>,
    /// By how much a TTL is shortened at random, in percent.
    pub jitter_percent: u8,
    /// Whether a TTL begins anew with each use of its key.
    pub slides: bool,
}

impl ExpiryRule {
    /// A rule as it is written.
    ///
    /// # Errors
    /// What is wrong with it, as a text without a code word.
    pub fn parse<W: AsRef<[u8]>>(words: &[W]) -> Result<ExpiryRule, String> {
        let [name, options @ ..] = words else {
            return Err("a rule needs a name".to_owned());
        };
        let mut rule = ExpiryRule {
            name: name.as_ref().to_vec(),
            prefix: Vec::new(),
            db: None,
            default_ms: None,
            min_ms: None,
            max_ms: None,
            jitter_percent: 0,
            slides: false,
        };
        let mut given: Vec<Vec<u8>> = Vec::new();
        let mut options = options.iter().map(AsRef::as_ref);
        while let Some(word) = options.next() {
            let word = word.to_ascii_lowercase();
            if given.contains(&word) {
                return Err("syntax error".to_owned());
            }
            if word == b"sliding" {
                rule.slides = true;
            } else {
                rule.take(&word, options.next().ok_or("syntax error")?)?;
            }
            given.push(word);
        }
        if !given.iter().any(|word| word == b"prefix") {
            return Err("a rule needs a PREFIX".to_owned());
        }
        rule.check_bounds().map(|()| rule)
    }

    fn take(&mut self, word: &[u8], value: &[u8]) -> Result<(), String> {
        let number = |from: u64, to: u64| {
            let number = str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            number
                .filter(|number| (from..=to).contains(number))
                .ok_or("value is not an integer or out of range".to_owned())
        };
        let ms = || number(1, RULE_MS_MAX).map(Some);
        match word {
            b"prefix" => self.prefix = value.to_vec(),
            b"db" => self.db = Some(number(0, DATABASES_MAX as u64 - 1)? as u32),
            b"default" => self.default_ms = ms()?,
            b"min" => self.min_ms = ms()?,
            b"max" => self.max_ms = ms()?,
            b"jitter" => self.jitter_percent = number(0, 100)? as u8,
            _ => return Err("syntax error".to_owned()),
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), String> {
        let (min_ms, max_ms) = (self.min_ms.unwrap_or(0), self.max_ms.unwrap_or(u64::MAX));
        if min_ms > max_ms {
            return Err("MIN is greater than MAX".to_owned());
        }
        if self.default_ms.is_some_and(|ms| ms < min_ms || ms > max_ms) {
            return Err("DEFAULT is not between MIN and MAX".to_owned());
        }
        Ok(())
    }

    /// Where it holds: the database, and the prefix.
    fn place(&self) -> (Option<u32>, Vec<u8>) {
        (self.db, self.prefix.clone())
    }

    /// The rule as it is written.
    pub fn print(&self) -> String {
        let mut line = format!("{} PREFIX {}", quote(&self.name), quote(&self.prefix));
        let numbers = [
            ("DB", self.db.map(u64::from)),
            ("DEFAULT", self.default_ms),
            ("MIN", self.min_ms),
            ("MAX", self.max_ms),
            (
                "JITTER",
                Some(self.jitter_percent.into()).filter(|&percent| percent > 0),
            ),
        ];
        for (word, number) in numbers {
            if let Some(number) = number {
                line += &format!(" {word} {number}");
            }
        }
        if self.slides {
            line += " SLIDING";
        }
        line
    }
}

/// Rules that can stand together, in the order of their names. To clone them costs nothing; they
/// are copied when they change while there is a clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryRules(Arc<Index>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Index {
    by_name: BTreeMap<Vec<u8>, Arc<ExpiryRule>>,
    /// Where they hold, in the order of databases.
    places: BTreeSet<(Option<u32>, Vec<u8>)>,
}

impl ExpiryRules {
    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ExpiryRule>> {
        self.0.by_name.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.by_name.is_empty()
    }

    /// The rule of a name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<ExpiryRule>> {
        self.0.by_name.get(name)
    }

    /// Adds a rule, or puts it in the place of the one of the same name, which is returned.
    ///
    /// # Errors
    /// Why it cannot stand together with the others, as a text without a code word.
    pub fn put(&mut self, rule: Arc<ExpiryRule>) -> Result<Option<Arc<ExpiryRule>>, String> {
        let old = self.get(&rule.name);
        let place = rule.place();
        if self.0.places.contains(&place) && old.is_none_or(|old| old.place() != place) {
            return Err(format!("two rules have the prefix {}", quote(&rule.prefix)));
        }
        if old.is_none() && self.iter().len() == RULES_MAX {
            return Err(format!("there are more than {RULES_MAX} rules"));
        }
        let index = Arc::make_mut(&mut self.0);
        let old = index.by_name.insert(rule.name.clone(), rule);
        if let Some(old) = &old {
            index.places.remove(&old.place());
        }
        index.places.insert(place);
        Ok(old)
    }

    /// Adds a rule of a new name.
    ///
    /// # Errors
    /// As [`ExpiryRules::put`], and if there is one of that name.
    pub fn add(&mut self, rule: Arc<ExpiryRule>) -> Result<(), String> {
        match self.get(&rule.name) {
            Some(_) => Err(format!("two rules are called {}", quote(&rule.name))),
            None => self.put(rule).map(drop),
        }
    }

    /// Removes the rule of a name, and returns it.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<ExpiryRule>> {
        self.get(name)?;
        let index = Arc::make_mut(&mut self.0);
        let rule = index.by_name.remove(name)?;
        index.places.remove(&rule.place());
        Some(rule)
    }
}

/// Whether all databases that rules name are there.
///
/// # Errors
/// Which is not, as a text without a code word.
pub fn check_databases(config: &Config) -> Result<(), String> {
    let last = config.expiry_rules.0.places.last();
    match last.and_then(|(db, _)| *db) {
        Some(db) if db >= config.databases => Err(format!("there is no database {db}")),
        _ => Ok(()),
    }
}

/// The value of the setting `expiry-rule`: the words of one rule, or one word that holds a rule on
/// each of its lines.
pub(super) fn parse_all(words: &[Vec<u8>]) -> Result<ExpiryRules, String> {
    let mut rules = ExpiryRules::default();
    let [lines] = words else {
        rules.add(ExpiryRule::parse(words)?.into())?;
        return Ok(rules);
    };
    let lines = lines.split(|&byte| byte == b'\n');
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        let words = split_line(line).ok_or("unbalanced quotes")?;
        rules.add(ExpiryRule::parse(&words)?.into())?;
    }
    Ok(rules)
}

/// The same as CONFIG GET shows it.
pub(super) fn print_all(config: &Config) -> String {
    let lines = config.expiry_rules.iter().map(|rule| rule.print());
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}
