//! Requests on sorted sets, and their replies by the model.

use std::collections::BTreeMap;

use super::collections::Combination;
use super::{Model, Request, Set, Words, Zset, array, between, bulk, integer, wrong_type};

/// Scores and members by score and then by the bytes of the member.
pub fn in_order(zset: &Zset) -> Vec<(f64, String)> {
    let mut records: Vec<(f64, String)> = zset
        .iter()
        .map(|(member, score)| (*score, member.clone()))
        .collect();
    records.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    records
}

/// Members and scores by turns, as they are answered.
pub fn with_scores(records: &[(f64, String)]) -> Vec<String> {
    let pairs = records.iter();
    pairs
        .flat_map(|(score, member)| [member.clone(), score.to_string()])
        .collect()
}

fn is_one_score(zset: &Zset) -> bool {
    let mut scores = zset.values();
    let first = scores.next();
    scores.all(|score| Some(score) == first)
}

impl Words {
    /// The score of element number `n`, a half of an integer that many share; in a sorted set at an
    /// even key all are 0, so that there is an order of members.
    fn score(&self, n: u32) -> f64 {
        if self.is_even() {
            return 0.0;
        }
        let other = self.index.rem_euclid(64) as u32 * 13;
        f64::from((n * 37 + other) % 101) / 2.0 - 10.0
    }

    /// What is added to a score.
    fn amount(&self) -> f64 {
        if self.is_even() {
            return 0.0;
        }
        self.index as f64 / 2.0
    }
}

/// One end of a part: as it is written, and what it is.
struct Bound<T> {
    text: String,
    value: T,
    is_included: bool,
}

/// The least and the greatest score of a part.
fn score_bounds(w: &Words) -> (Bound<f64>, Bound<f64>) {
    let bound = |number: i64, infinite: f64| {
        if number % 7 == 6 {
            let text = if infinite < 0.0 { "-inf" } else { "+inf" };
            return Bound {
                text: text.to_owned(),
                value: infinite,
                is_included: true,
            };
        }
        let (value, is_included) = (number as f64 / 2.0, number % 3 != 0);
        let mark = if is_included { "" } else { "(" };
        Bound {
            text: format!("{mark}{value}"),
            value,
            is_included,
        }
    };
    (
        bound(w.index, f64::NEG_INFINITY),
        bound(w.last, f64::INFINITY),
    )
}

/// The first and the last member of a part; none stands for no end.
fn member_bounds(w: &Words) -> (Bound<Option<String>>, Bound<Option<String>>) {
    let bound = |n: u32, number: i64, endless: &str| {
        if number % 7 == 6 {
            return Bound {
                text: endless.to_owned(),
                value: None,
                is_included: true,
            };
        }
        let (member, is_included) = (w.element(n), number % 3 != 0);
        let mark = if is_included { "[" } else { "(" };
        Bound {
            text: format!("{mark}{member}"),
            value: Some(member),
            is_included,
        }
    };
    let last = w.number + w.many;
    (bound(w.number, w.index, "-"), bound(last, w.last, "+"))
}

impl Bound<f64> {
    fn is_below(&self, score: f64) -> bool {
        self.value < score || self.is_included && self.value == score
    }

    fn is_above(&self, score: f64) -> bool {
        self.value > score || self.is_included && self.value == score
    }
}

impl Bound<Option<String>> {
    fn is_below(&self, member: &String) -> bool {
        let Some(value) = &self.value else {
            return true;
        };
        value < member || self.is_included && value == member
    }

    fn is_above(&self, member: &String) -> bool {
        let Some(value) = &self.value else {
            return true;
        };
        value > member || self.is_included && value == member
    }
}

/// What a part is described by. That of members means nothing if scores differ, and then it is one
/// of scores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

impl By {
    fn of(w: &Words, zset: &Zset) -> By {
        match w.number % 3 {
            0 => By::Rank,
            1 if is_one_score(zset) => By::Member,
            _ => By::Score,
        }
    }

    /// The least and the greatest end as they are written, and the records of a part, which are
    /// few.
    fn part(self, w: &Words, zset: &Zset) -> (String, String, Vec<(f64, String)>) {
        let mut records = in_order(zset);
        match self {
            By::Rank => {
                let ranks = between(w.index, w.last, records.len());
                let records = records[ranks].to_vec();
                (w.index.to_string(), w.last.to_string(), records)
            }
            By::Score => {
                let (min, max) = score_bounds(w);
                records.retain(|(score, _)| min.is_below(*score) && max.is_above(*score));
                (min.text, max.text, records)
            }
            By::Member => {
                let (min, max) = member_bounds(w);
                records.retain(|(_, member)| min.is_below(member) && max.is_above(member));
                (min.text, max.text, records)
            }
        }
    }
}

/// The arguments of ZRANGE behind the key, and what it finds.
fn select(w: &Words, zset: &Zset) -> (String, Vec<(f64, String)>) {
    let by = By::of(w, zset);
    let is_backwards = w.ms % 2 == 0;
    let (min, max, mut records) = match by {
        // Ranks count from the end then.
        By::Rank if is_backwards => {
            let all: Vec<_> = in_order(zset).into_iter().rev().collect();
            let mut found = all[between(w.index, w.last, all.len())].to_vec();
            found.reverse();
            (w.last.to_string(), w.index.to_string(), found)
        }
        _ => by.part(w, zset),
    };
    let option = match by {
        By::Rank => "",
        By::Score => " byscore",
        By::Member => " bylex",
    };
    let mut args = format!("{min} {max}{option}");
    if is_backwards {
        args = format!("{max} {min}{option} rev");
        records.reverse();
    }
    if by != By::Rank && w.ms % 3 == 0 {
        let (offset, count) = (w.many - 1, w.ms % 9 - 1);
        args = format!("{args} limit {offset} {count}");
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let left = records.into_iter().skip(offset as usize).take(count);
        records = left.collect();
    }
    (args, records)
}

pub const ZSETS: [Request; 22] = [
    add,
    add,
    add,
    add,
    increment,
    increment,
    |m, w| {
        let members = w.elements();
        let request = format!("zrem {} {}", w.key, members.join(" "));
        let remove = |zset: &mut Zset| {
            let removed = members.iter().filter_map(|member| zset.remove(member));
            integer(removed.count())
        };
        (request, m.with(&w.key, remove))
    },
    |m, w| {
        let member = w.element(w.number);
        let request = format!("zscore {} {member}", w.key);
        let score = |zset: &mut Zset| {
            let score = zset.get(&member).map(|score| score.to_string());
            bulk(score.as_deref())
        };
        (request, m.with(&w.key, score))
    },
    |m, w| {
        let len = |zset: &mut Zset| integer(zset.len());
        (format!("zcard {}", w.key), m.with(&w.key, len))
    },
    count,
    rank,
    rank,
    range,
    range,
    range,
    range_store,
    pop,
    pop,
    remove_part,
    remove_part,
    combine_and_store,
    combine_and_store,
];

fn add(m: &mut Model, w: &Words) -> (String, String) {
    let options = [
        "",
        "",
        " nx",
        " xx",
        " gt",
        " lt",
        " ch",
        " xx gt ch",
        " lt ch",
    ];
    let options = options[w.ms as usize % options.len()];
    let is = |option: &str| options.split(' ').any(|word| word == option);
    let numbers = w.number..w.number + w.many;
    let pairs: Vec<(f64, String)> = numbers.map(|n| (w.score(n), w.element(n))).collect();
    let words: Vec<String> = pairs
        .iter()
        .map(|(s, member)| format!("{s} {member}"))
        .collect();
    let request = format!("zadd {}{options} {}", w.key, words.join(" "));
    let reply = m.with(&w.key, |zset: &mut Zset| {
        let (mut added, mut changed) = (0, 0);
        for (score, member) in pairs {
            let old = zset.get(&member).copied();
            let may = match old {
                None => !is("xx"),
                Some(old) => !is("nx") && (!is("gt") || score > old) && (!is("lt") || score < old),
            };
            if may {
                added += u32::from(old.is_none());
                changed += u32::from(old.is_some_and(|old| old != score));
                zset.put(member, score);
            }
        }
        integer(if is("ch") { added + changed } else { added })
    });
    (request, reply)
}

/// ZINCRBY, or ZADD with INCR and a condition.
fn increment(m: &mut Model, w: &Words) -> (String, String) {
    let (member, amount) = (w.element(w.number), w.amount());
    let condition = ["", "nx", "xx", "gt", "lt"][w.ms as usize % 5];
    let request = match condition {
        "" => format!("zincrby {} {amount} {member}", w.key),
        _ => format!("zadd {} {condition} incr {amount} {member}", w.key),
    };
    let reply = m.with(&w.key, |zset: &mut Zset| {
        let old = zset.get(&member).copied();
        let score = old.unwrap_or(0.0) + amount;
        let may = match condition {
            "nx" => old.is_none(),
            "xx" => old.is_some(),
            "gt" => old.is_none_or(|old| score > old),
            "lt" => old.is_none_or(|old| score < old),
            _ => true,
        };
        if !may {
            return bulk(None);
        }
        zset.put(member, score);
        bulk(Some(&score.to_string()))
    });
    (request, reply)
}

/// ZCOUNT or ZLEXCOUNT.
fn count(m: &mut Model, w: &Words) -> (String, String) {
    let zset = m.read::<Zset>(&w.key).unwrap_or_default();
    let by = match By::of(w, &zset) {
        By::Rank => By::Score,
        by => by,
    };
    let name = if by == By::Score {
        "zcount"
    } else {
        "zlexcount"
    };
    let (min, max, records) = by.part(w, &zset);
    let request = format!("{name} {} {min} {max}", w.key);
    (
        request,
        m.with(&w.key, |_: &mut Zset| integer(records.len())),
    )
}

/// ZRANK or ZREVRANK.
fn rank(m: &mut Model, w: &Words) -> (String, String) {
    let member = w.element(w.number);
    let is_backwards = w.last % 2 == 0;
    let name = if is_backwards { "zrevrank" } else { "zrank" };
    let request = format!("{name} {} {member}", w.key);
    let reply = m.with(&w.key, |zset: &mut Zset| {
        let mut records = in_order(zset);
        if is_backwards {
            records.reverse();
        }
        let rank = records.iter().position(|(_, other)| *other == member);
        rank.map_or(bulk(None), integer)
    });
    (request, reply)
}

fn range(m: &mut Model, w: &Words) -> (String, String) {
    let zset = m.read::<Zset>(&w.key).unwrap_or_default();
    let (args, records) = select(w, &zset);
    let has_scores = !args.contains("bylex") && w.last % 2 == 0;
    let (option, found) = if has_scores {
        (" withscores", with_scores(&records))
    } else {
        ("", records.into_iter().map(|(_, member)| member).collect())
    };
    let request = format!("zrange {} {args}{option}", w.key);
    (request, m.with(&w.key, |_: &mut Zset| array(found)))
}

fn range_store(m: &mut Model, w: &Words) -> (String, String) {
    let found = m.read::<Zset>(&w.key);
    let (args, records) = select(w, &found.clone().unwrap_or_default());
    let request = format!("zrangestore {} {} {args}", w.to, w.key);
    if found.is_none() {
        return (request, wrong_type());
    }
    let zset: Zset = records.into_iter().map(|(score, it)| (it, score)).collect();
    let len = zset.len();
    (request, m.store(&w.to, zset, len))
}

/// ZPOPMIN or ZPOPMAX.
fn pop(m: &mut Model, w: &Words) -> (String, String) {
    let is_max = w.last % 2 == 0;
    let name = if is_max { "zpopmax" } else { "zpopmin" };
    let count = w.many - 1;
    let request = format!("{name} {} {count}", w.key);
    let reply = m.with(&w.key, |zset: &mut Zset| {
        let mut records = in_order(zset);
        if is_max {
            records.reverse();
        }
        records.truncate(count as usize);
        records.iter().for_each(|(_, member)| {
            zset.remove(member);
        });
        array(with_scores(&records))
    });
    (request, reply)
}

/// ZREMRANGEBYRANK and its like.
fn remove_part(m: &mut Model, w: &Words) -> (String, String) {
    let zset = m.read::<Zset>(&w.key).unwrap_or_default();
    let by = By::of(w, &zset);
    let (min, max, records) = by.part(w, &zset);
    let name = match by {
        By::Rank => "rank",
        By::Score => "score",
        By::Member => "lex",
    };
    let request = format!("zremrangeby{name} {} {min} {max}", w.key);
    let reply = m.with(&w.key, |zset: &mut Zset| {
        records.iter().for_each(|(_, member)| {
            zset.remove(member);
        });
        integer(records.len())
    });
    (request, reply)
}

/// A sorted set, or a set, whose members have the score 1; none if there is something else.
fn scores_at(m: &Model, key: &str) -> Option<Zset> {
    let of_set = |set: Set| set.keys().map(|member| (member.clone(), 1.0)).collect();
    m.read::<Zset>(key)
        .or_else(|| m.read::<Set>(key).map(of_set))
}

fn combine_and_store(m: &mut Model, w: &Words) -> (String, String) {
    let combination = Combination::of(w.index);
    let aggregate = ["sum", "min", "max"][w.ms as usize % 3];
    let name = combination.name();
    let mut request = format!("z{name}store {} 2 {} {}", w.beside, w.key, w.to);
    let (mut one_weight, mut other_weight) = (1.0, 1.0);
    if combination != Combination::Diff {
        (one_weight, other_weight) = (2.0, 3.0);
        request.push_str(&format!(" weights 2 3 aggregate {aggregate}"));
    }
    let (Some(one), Some(other)) = (scores_at(m, &w.key), scores_at(m, &w.to)) else {
        return (request, wrong_type());
    };
    let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (zset, weight) in [(&one, one_weight), (&other, other_weight)] {
        for (member, score) in zset.iter() {
            scores
                .entry(member.clone())
                .or_default()
                .push(score * weight);
        }
    }
    let mut found = Zset::default();
    for (member, scores) in scores {
        let is_in = match combination {
            Combination::Inter => scores.len() == 2,
            Combination::Union => true,
            Combination::Diff => one.contains_key(&member) && scores.len() == 1,
        };
        let score = match aggregate {
            "min" => scores.iter().copied().fold(f64::INFINITY, f64::min),
            "max" => scores.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            _ => scores.iter().sum(),
        };
        if is_in {
            found.put(member, score);
        }
    }
    let len = found.len();
    (request, m.store(&w.beside, found, len))
}
