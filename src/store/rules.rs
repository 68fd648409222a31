//! Which rule of expiry a key has: the one with the longest prefix that the key begins with.
//!
//! The prefixes are sorted, and each knows the longest other one that it begins with. The rule of a
//! key is found from the last prefix that is not after the key: that one, or the first of those it
//! begins with, and they again, with which the key begins too. (Any other prefix of the key would
//! lie between, and so be one of these.)
//!
//! Rules of one database and those of all are looked for apart; of equally long prefixes that of
//! the database counts.
//!
//! Invariant: without rules nothing is looked for.

use std::collections::BTreeMap;

use crate::config::rules::ExpiryRule;

const NONE: usize = usize::MAX;

/// A prefix, its rule, and the longest other prefix that it begins with.
struct Prefix {
    bytes: Box<[u8]>,
    rule: usize,
    parent: usize,
}

/// Sorted prefixes.
#[derive(Default)]
struct Prefixes(Vec<Prefix>);

impl Prefixes {
    fn add(&mut self, bytes: &[u8], rule: usize) {
        self.0.push(Prefix {
            bytes: bytes.into(),
            rule,
            parent: NONE,
        });
    }

    /// To be called when all have been added.
    fn sort(&mut self) {
        self.0.sort_by(|one, other| one.bytes.cmp(&other.bytes));
        // Those that the current one may begin with, each a part of the next.
        let mut open: Vec<usize> = Vec::new();
        for at in 0..self.0.len() {
            while let Some(&last) = open.last()
                && !self.0[at].bytes.starts_with(&self.0[last].bytes)
            {
                open.pop();
            }
            self.0[at].parent = open.last().copied().unwrap_or(NONE);
            open.push(at);
        }
    }

    fn longest(&self, key: &[u8]) -> Option<&Prefix> {
        let after = self.0.partition_point(|prefix| *prefix.bytes <= *key);
        let mut prefix = self.0.get(after.checked_sub(1)?)?;
        while !key.starts_with(&prefix.bytes) {
            prefix = self.0.get(prefix.parent)?;
        }
        Some(prefix)
    }
}

/// All rules.
#[derive(Default)]
pub struct Rules {
    list: Vec<ExpiryRule>,
    of_all: Prefixes,
    of_one: BTreeMap<usize, Prefixes>,
    has_default: bool,
}

impl Rules {
    /// Rules that can stand together.
    pub fn new(list: &[ExpiryRule]) -> Rules {
        let mut rules = Rules {
            list: list.to_vec(),
            has_default: list.iter().any(|rule| rule.default_ms.is_some()),
            ..Rules::default()
        };
        for (at, rule) in list.iter().enumerate() {
            let prefixes = match rule.db {
                None => &mut rules.of_all,
                Some(db) => rules.of_one.entry(db as usize).or_default(),
            };
            prefixes.add(&rule.prefix, at);
        }
        rules.of_all.sort();
        rules.of_one.values_mut().for_each(Prefixes::sort);
        rules
    }

    /// All of them.
    pub fn list(&self) -> &[ExpiryRule] {
        &self.list
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether any rule gives a TTL to keys without one.
    #[inline(always)]
    pub fn have_default(&self) -> bool {
        self.has_default
    }

    /// The rule of a key.
    pub fn of(&self, db: usize, key: &[u8]) -> Option<&ExpiryRule> {
        if self.is_empty() {
            return None;
        }
        let of_all = self.of_all.longest(key);
        let of_one = self
            .of_one
            .get(&db)
            .and_then(|prefixes| prefixes.longest(key));
        let longer = match (of_all, of_one) {
            (Some(all), Some(one)) if all.bytes.len() > one.bytes.len() => all,
            (_, Some(one)) => one,
            (Some(all), None) => all,
            (None, None) => return None,
        };
        Some(&self.list[longer.rule])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, prefix: &str, db: Option<u32>) -> ExpiryRule {
        let db = db.map_or(Vec::new(), |db| vec!["DB".to_owned(), db.to_string()]);
        let words = [name, "PREFIX", prefix].map(str::to_owned);
        ExpiryRule::parse(&[words.to_vec(), db].concat()).expect("a rule")
    }

    /// The rule of a key, found by looking at all.
    fn expected(list: &[ExpiryRule], db: u32, key: &[u8]) -> Option<Vec<u8>> {
        let mut found: Vec<&ExpiryRule> = list
            .iter()
            .filter(|rule| key.starts_with(&rule.prefix) && rule.db.is_none_or(|n| n == db))
            .collect();
        found.sort_by_key(|rule| (rule.prefix.len(), rule.db.is_some()));
        found.last().map(|rule| rule.name.clone())
    }

    #[test]
    fn the_longest_prefix_counts() {
        let prefixes = [
            "", "a", "ab", "abc", "abd", "b", "ba", "aab", "abcabc", "c", "cc", "ccc",
        ];
        // All choices of some prefixes, in all databases, one, or another.
        for choice in 0..1_u32 << prefixes.len() {
            let mut list = Vec::new();
            for (at, prefix) in prefixes.iter().enumerate() {
                if choice >> at & 1 != 0 {
                    let db = [None, Some(0), Some(1)][(choice as usize / 7 + at) % 3];
                    list.push(rule(&format!("r{at}"), prefix, db));
                }
            }
            let rules = Rules::new(&list);
            for key in [
                "", "a", "ab", "abcd", "abca", "abcabcd", "abe", "b", "bab", "cccc", "d",
            ] {
                for db in 0..3 {
                    let found = rules.of(db, key.as_bytes()).map(|rule| rule.name.clone());
                    assert_eq!(found, expected(&list, db as u32, key.as_bytes()), "{key}");
                }
            }
        }
    }
}
