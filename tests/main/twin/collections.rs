//! Requests on lists, hashes and sets, and their replies by the model.

use super::fields::Dated;
use super::{
    Collection, Field, Hash, List, Model, Request, Set, Value, Words, array, between, bulk,
    canonical, integer, item, null_array, ok, word, wrong_type, yes,
};

impl Collection for List {
    fn of(value: &mut Value) -> Option<&mut List> {
        match value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::List(self)
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Collection for Hash {
    fn of(value: &mut Value) -> Option<&mut Hash> {
        match value {
            Value::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Hash(self)
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// An end of a list: the letter in the names of commands, and the word as an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn of(number: i64) -> End {
        if number % 2 == 0 {
            End::Left
        } else {
            End::Right
        }
    }

    fn letter(self) -> &'static str {
        if self == End::Left { "l" } else { "r" }
    }

    fn word(self) -> &'static str {
        if self == End::Left { "left" } else { "right" }
    }

    fn push(self, list: &mut List, item: String) {
        match self {
            End::Left => list.push_front(item),
            End::Right => list.push_back(item),
        }
    }

    fn pop(self, list: &mut List) -> Option<String> {
        match self {
            End::Left => list.pop_front(),
            End::Right => list.pop_back(),
        }
    }
}

pub const LISTS: [Request; 17] = [
    push,
    push,
    push,
    |m, w| {
        let end = End::of(w.last);
        let request = format!("{}push {} {}", end.letter(), w.key, word(&w.value));
        let reply = m.with(&w.key, |list: &mut List| {
            end.push(list, w.value.clone());
            integer(list.len())
        });
        (request, reply)
    },
    |m, w| {
        let (end, item) = (End::of(w.last), w.element(w.number));
        let request = format!("{}pushx {} {item}", end.letter(), w.key);
        let reply = m.with(&w.key, |list: &mut List| {
            if !list.is_empty() {
                end.push(list, item);
            }
            integer(list.len())
        });
        (request, reply)
    },
    |m, w| {
        let end = End::of(w.last);
        let pop = |list: &mut List| bulk(end.pop(list).as_deref());
        let request = format!("{}pop {}", end.letter(), w.key);
        (request, m.with(&w.key, pop))
    },
    pop_many,
    |m, w| {
        let len = |list: &mut List| integer(list.len());
        (format!("llen {}", w.key), m.with(&w.key, len))
    },
    |m, w| {
        let request = format!("lrange {} {} {}", w.key, w.index, w.last);
        let reply = m.with(&w.key, |list: &mut List| {
            array(list.range(between(w.index, w.last, list.len())))
        });
        (request, reply)
    },
    |m, w| {
        let request = format!("lindex {} {}", w.key, w.index);
        let reply = m.with(&w.key, |list: &mut List| {
            bulk(at(list, w.index).map(|item| item.as_str()))
        });
        (request, reply)
    },
    |m, w| set_at(m, w, w.element(w.number)),
    |m, w| set_at(m, w, w.value.clone()),
    insert,
    remove_equal,
    |m, w| {
        let request = format!("ltrim {} {} {}", w.key, w.index, w.last);
        let reply = m.with(&w.key, |list: &mut List| {
            *list = list.drain(between(w.index, w.last, list.len())).collect();
            ok()
        });
        (request, reply)
    },
    find,
    move_one,
];

/// The item of an index that may count from the end.
fn at(list: &mut List, index: i64) -> Option<&mut String> {
    let only = between(index, index, list.len());
    list.range_mut(only).next()
}

fn push(m: &mut Model, w: &Words) -> (String, String) {
    let (end, items) = (End::of(w.last), w.elements());
    let request = format!("{}push {} {}", end.letter(), w.key, items.join(" "));
    let reply = m.with(&w.key, |list: &mut List| {
        items.into_iter().for_each(|item| end.push(list, item));
        integer(list.len())
    });
    (request, reply)
}

fn pop_many(m: &mut Model, w: &Words) -> (String, String) {
    let end = End::of(w.last);
    let request = format!("{}pop {} {}", end.letter(), w.key, w.many - 1);
    let reply = m.with(&w.key, |list: &mut List| {
        if list.is_empty() {
            return null_array();
        }
        let popped: Vec<String> = (1..w.many).map_while(|_| end.pop(list)).collect();
        array(popped)
    });
    (request, reply)
}

fn set_at(m: &mut Model, w: &Words, item: String) -> (String, String) {
    let request = format!("lset {} {} {}", w.key, w.index, word(&item));
    let reply = m.with(&w.key, |list: &mut List| {
        if list.is_empty() {
            return "-ERR no such key".to_owned();
        }
        match at(list, w.index) {
            Some(place) => {
                *place = item;
                ok()
            }
            None => "-ERR index out of range".to_owned(),
        }
    });
    (request, reply)
}

fn insert(m: &mut Model, w: &Words) -> (String, String) {
    let (pivot, item) = (w.element(w.number), w.element(w.number + w.many));
    let is_after = w.last % 2 == 0;
    let side = if is_after { "after" } else { "before" };
    let request = format!("linsert {} {side} {pivot} {item}", w.key);
    let reply = m.with(&w.key, |list: &mut List| {
        if list.is_empty() {
            return integer(0);
        }
        let Some(place) = list.iter().position(|other| *other == pivot) else {
            return integer(-1);
        };
        list.insert(place + usize::from(is_after), item);
        integer(list.len())
    });
    (request, reply)
}

fn remove_equal(m: &mut Model, w: &Words) -> (String, String) {
    let item = w.element(w.number);
    let count = w.index % 4;
    let request = format!("lrem {} {count} {item}", w.key);
    let reply = m.with(&w.key, |list: &mut List| {
        let mut left = if count == 0 { i64::MAX } else { count.abs() };
        let mut removed = 0;
        let places: Vec<usize> = (0..list.len()).filter(|&i| list[i] == item).collect();
        // From the end on, so that the places of the others stay what they are.
        let skipped = match count {
            0.. => places.len().saturating_sub(left as usize),
            _ => 0,
        };
        for place in places.into_iter().rev().skip(skipped) {
            if left > 0 {
                list.remove(place);
                left -= 1;
                removed += 1;
            }
        }
        integer(removed)
    });
    (request, reply)
}

fn find(m: &mut Model, w: &Words) -> (String, String) {
    let item = w.element(w.number);
    let request = format!("lpos {} {item}", w.key);
    let reply = m.with(&w.key, |list: &mut List| {
        let place = list.iter().position(|other| *other == item);
        place.map_or(bulk(None), integer)
    });
    (request, reply)
}

fn move_one(m: &mut Model, w: &Words) -> (String, String) {
    let (take, put) = (End::of(w.index), End::of(w.last));
    let (from, to) = (take.word(), put.word());
    let request = format!("lmove {} {} {from} {to}", w.key, w.to);
    let (source, target) = (m.read::<List>(&w.key), m.read::<List>(&w.to));
    let reply = match source {
        None => wrong_type(),
        Some(source) if source.is_empty() => bulk(None),
        Some(_) if target.is_none() => wrong_type(),
        Some(_) => {
            let mut moved = None;
            m.with(&w.key, |list: &mut List| {
                moved = take.pop(list);
                // The only item of the same list goes and comes, and the deadline stays.
                if w.key == w.to {
                    moved.iter().for_each(|item| put.push(list, item.clone()));
                }
                ok()
            });
            if w.key != w.to {
                m.with(&w.to, |list: &mut List| {
                    moved.iter().for_each(|item| put.push(list, item.clone()));
                    ok()
                });
            }
            bulk(moved.as_deref())
        }
    };
    (request, reply)
}

pub const HASHES: [Request; 17] = [
    set_fields,
    set_fields,
    set_fields,
    |m, w| {
        let field = w.element(w.number);
        let request = format!("hset {} {field} {}", w.key, word(&w.value));
        let reply = m.with(&w.key, |hash: &mut Hash| {
            yes(hash.insert(field, Field::new(&w.value)).is_none())
        });
        (request, reply)
    },
    |m, w| {
        let field = w.element(w.number);
        let request = format!("hsetnx {} {field} {}", w.key, word(&w.value));
        let reply = m.with(&w.key, |hash: &mut Hash| {
            let is_new = !hash.contains_key(&field);
            hash.entry(field).or_insert_with(|| Field::new(&w.value));
            yes(is_new)
        });
        (request, reply)
    },
    |m, w| {
        let field = w.element(w.number);
        let request = format!("hget {} {field}", w.key);
        let get = |hash: &mut Hash| bulk(hash.get(&field).map(|it| it.value.as_str()));
        (request, m.with(&w.key, get))
    },
    |m, w| {
        let fields = w.elements();
        let request = format!("hmget {} {}", w.key, fields.join(" "));
        let reply = m.with(&w.key, |hash: &mut Hash| {
            let values = fields.iter().map(|field| hash.get(field));
            let words: Vec<String> = values
                .map(|field| item(field.map(|it| it.value.as_str())))
                .collect();
            let text = format!("*{} {}", fields.len(), words.join(" "));
            text.trim_end().to_owned()
        });
        (request, reply)
    },
    |m, w| {
        let fields = w.elements();
        let request = format!("hdel {} {}", w.key, fields.join(" "));
        let remove =
            |hash: &mut Hash| integer(fields.iter().filter_map(|field| hash.remove(field)).count());
        (request, m.with(&w.key, remove))
    },
    |m, w| {
        let len = |hash: &mut Hash| integer(hash.len());
        (format!("hlen {}", w.key), m.with(&w.key, len))
    },
    |m, w| {
        let field = w.element(w.number);
        let request = format!("hexists {} {field}", w.key);
        let exists = |hash: &mut Hash| yes(hash.contains_key(&field));
        (request, m.with(&w.key, exists))
    },
    |m, w| {
        let field = w.element(w.number);
        let request = format!("hstrlen {} {field}", w.key);
        let len = |hash: &mut Hash| integer(hash.get(&field).map_or(0, |it| it.value.len()));
        (request, m.with(&w.key, len))
    },
    |m, w| {
        let pairs = |hash: &Hash| -> Vec<String> {
            let pairs = hash.iter();
            pairs
                .flat_map(|(name, field)| [name.clone(), field.value.clone()])
                .collect()
        };
        let all = |hash: &mut Hash| array(pairs(hash));
        (format!("hgetall {}", w.key), m.with(&w.key, all))
    },
    |m, w| {
        let names = |hash: &mut Hash| array(hash.keys());
        (format!("hkeys {}", w.key), m.with(&w.key, names))
    },
    |m, w| {
        let values = |hash: &mut Hash| array(hash.values().map(|field| &field.value));
        (format!("hvals {}", w.key), m.with(&w.key, values))
    },
    // All of them, as what a part of them would be cannot be foretold.
    |m, w| {
        let names = |hash: &mut Hash| array(hash.keys());
        (
            format!("hrandfield {} 100000", w.key),
            m.with(&w.key, names),
        )
    },
    add_to_field,
    add_to_field,
];

/// Numbers and text by turns, some of it too long for a packed hash or a segment.
pub fn field_value(n: u32) -> String {
    match n % 1_000 {
        _ if n.is_multiple_of(3) => n.to_string(),
        850 => "z".repeat(2_000),
        rest if rest % 100 == 50 => "z".repeat(100),
        _ => format!("v{n}"),
    }
}

fn set_fields(m: &mut Model, w: &Words) -> (String, String) {
    let fields = w.elements().into_iter().zip(w.number..);
    let pairs: Vec<(String, String)> = fields
        .map(|(field, n)| (field, field_value(n.wrapping_add(w.index as u32 % 4))))
        .collect();
    let words: Vec<String> = pairs.iter().map(|(f, v)| format!("{f} {v}")).collect();
    let request = format!("hset {} {}", w.key, words.join(" "));
    let reply = m.with(&w.key, |hash: &mut Hash| {
        let pairs = pairs.into_iter();
        let new = pairs.filter(|(f, v)| hash.insert(f.clone(), Field::new(v)).is_none());
        integer(new.count())
    });
    (request, reply)
}

fn add_to_field(m: &mut Model, w: &Words) -> (String, String) {
    let field = w.element(w.number);
    let amount = if w.last == 7 { i64::MAX } else { w.index };
    let request = format!("hincrby {} {field} {amount}", w.key);
    let reply = m.with(&w.key, |hash: &mut Hash| {
        let old = hash.get(&field).map_or(Some(0), |it| canonical(&it.value));
        let Some(old) = old else {
            return "-ERR hash value is not an integer".to_owned();
        };
        let Some(sum) = old.checked_add(amount) else {
            return "-ERR increment or decrement would overflow".to_owned();
        };
        let fresh = || Field::new("");
        hash.entry(field).or_insert_with(fresh).value = sum.to_string();
        integer(sum)
    });
    (request, reply)
}

pub const SETS: [Request; 15] = [
    add,
    add,
    add,
    |m, w| {
        let members = w.elements();
        let request = format!("srem {} {}", w.key, members.join(" "));
        let remove = |set: &mut Set| {
            integer(
                members
                    .iter()
                    .filter_map(|member| set.remove(member))
                    .count(),
            )
        };
        (request, m.with(&w.key, remove))
    },
    |m, w| {
        let member = w.element(w.number);
        let request = format!("sismember {} {member}", w.key);
        let contains = |set: &mut Set| yes(set.contains_key(&member));
        (request, m.with(&w.key, contains))
    },
    |m, w| {
        let members = w.elements();
        let request = format!("smismember {} {}", w.key, members.join(" "));
        let reply = m.with(&w.key, |set: &mut Set| {
            let found = members.iter().map(|member| yes(set.contains_key(member)));
            let found: Vec<String> = found.collect();
            format!("*{} {}", found.len(), found.join(" "))
        });
        (request, reply)
    },
    |m, w| {
        let len = |set: &mut Set| integer(set.len());
        (format!("scard {}", w.key), m.with(&w.key, len))
    },
    |m, w| {
        let all = |set: &mut Set| array(set.keys());
        (format!("smembers {}", w.key), m.with(&w.key, all))
    },
    // All of them, as what a part of them would be cannot be foretold.
    |m, w| {
        let all = |set: &mut Set| array(set.keys());
        (format!("srandmember {} 100000", w.key), m.with(&w.key, all))
    },
    |m, w| {
        let take = |set: &mut Set| array(std::mem::take(set).keys());
        (format!("spop {} 100000", w.key), m.with(&w.key, take))
    },
    move_member,
    |m, w| {
        let combination = Combination::of(w.index);
        let request = format!("s{} {} {}", combination.name(), w.key, w.to);
        let reply = combination
            .of_sets(m, w)
            .map_or_else(wrong_type, |set| array(set.keys()));
        (request, reply)
    },
    combine_and_store,
    combine_and_store,
    |m, w| {
        let limit = w.many - 1;
        let request = format!("sintercard 2 {} {} limit {limit}", w.key, w.to);
        let reply = match Combination::Inter.of_sets(m, w) {
            Some(set) if limit > 0 => integer(set.len().min(limit as usize)),
            Some(set) => integer(set.len()),
            None => wrong_type(),
        };
        (request, reply)
    },
];

fn add(m: &mut Model, w: &Words) -> (String, String) {
    let members = w.elements();
    let request = format!("sadd {} {}", w.key, members.join(" "));
    let reply = m.with(&w.key, |set: &mut Set| {
        let members = members.into_iter();
        integer(members.filter(|member| set.put(member.clone(), ())).count())
    });
    (request, reply)
}

fn move_member(m: &mut Model, w: &Words) -> (String, String) {
    let member = w.element(w.number);
    let request = format!("smove {} {} {member}", w.key, w.to);
    let (source, target) = (m.read::<Set>(&w.key), m.read::<Set>(&w.to));
    let reply = match source {
        None => wrong_type(),
        Some(source) if source.is_empty() => yes(false),
        Some(_) if target.is_none() => wrong_type(),
        Some(source) if !source.contains_key(&member) => yes(false),
        Some(_) if w.key == w.to => yes(true),
        Some(source) => {
            let deadline = source.deadline(&member).flatten();
            m.with(&w.key, |set: &mut Set| yes(set.remove(&member).is_some()));
            m.with(&w.to, |set: &mut Set| {
                if set.put(member.clone(), ()) {
                    set.set_deadline(&member, deadline);
                }
                ok()
            });
            yes(true)
        }
    };
    (request, reply)
}

/// What is made of two sets, or sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    Inter,
    Union,
    Diff,
}

impl Combination {
    pub fn of(number: i64) -> Combination {
        use Combination::{Diff, Inter, Union};
        [Inter, Union, Diff][number.unsigned_abs() as usize % 3]
    }

    /// The name of its commands, without the first letter.
    pub fn name(self) -> &'static str {
        match self {
            Combination::Inter => "inter",
            Combination::Union => "union",
            Combination::Diff => "diff",
        }
    }

    /// Of the sets at the first two keys; none if there is something else.
    fn of_sets(self, m: &Model, w: &Words) -> Option<Set> {
        let (one, other) = (m.read::<Set>(&w.key)?, m.read::<Set>(&w.to)?);
        let both = one.keys().chain(other.keys());
        let is_in = |member: &&String| match self {
            Combination::Inter => one.contains_key(*member) && other.contains_key(*member),
            Combination::Union => true,
            Combination::Diff => !other.contains_key(*member),
        };
        Some(
            both.filter(is_in)
                .map(|member| (member.clone(), ()))
                .collect(),
        )
    }
}

fn combine_and_store(m: &mut Model, w: &Words) -> (String, String) {
    let combination = Combination::of(w.index);
    let name = combination.name();
    let request = format!("s{name}store {} {} {}", w.beside, w.key, w.to);
    let reply = match combination.of_sets(m, w) {
        Some(set) => {
            let len = set.len();
            m.store(&w.beside, set, len)
        }
        None => wrong_type(),
    };
    (request, reply)
}
