//! Consumer groups of the model's streams: what is pending by id, and when consumers were seen.

use std::collections::BTreeMap;

use super::stream::{Id, Stream, entry, text};
use super::{Keys, Model, Request, Value, Words, array, integer, item, null_array, ok, yes};

/// The last delivery of an entry: to whom, when, and how often it was delivered.
#[derive(Clone)]
struct Delivery {
    consumer: String,
    at: i64,
    count: u64,
}

/// When a consumer last tried something, and last got something.
#[derive(Clone)]
struct Consumer {
    seen: i64,
    active: Option<i64>,
}

#[derive(Clone, Default)]
pub struct Group {
    last: Id,
    pending: BTreeMap<Id, Delivery>,
    consumers: BTreeMap<String, Consumer>,
}

impl Group {
    /// Whether it has an entry still to get or to acknowledge.
    pub fn needs(&self, id: Id) -> bool {
        self.last < id || self.pending.contains_key(&id)
    }

    /// The entry is pending no more.
    pub fn forget(&mut self, id: Id) -> bool {
        self.pending.remove(&id).is_some()
    }

    fn seen(&mut self, consumer: &str, now: i64) {
        let new = Consumer {
            seen: now,
            active: None,
        };
        self.consumers
            .entry(consumer.to_owned())
            .or_insert(new)
            .seen = now;
    }

    fn pending_of(&self, consumer: &str) -> usize {
        let own = self.pending.values().filter(|it| it.consumer == consumer);
        own.count()
    }

    fn deliver(&mut self, id: Id, consumer: &str, at: i64, count: u64) {
        let consumer = consumer.to_owned();
        self.pending.insert(
            id,
            Delivery {
                consumer,
                at,
                count,
            },
        );
    }

    fn be_active(&mut self, consumer: &str, now: i64) {
        if let Some(consumer) = self.consumers.get_mut(consumer) {
            consumer.active = Some(now);
        }
    }

    /// An id that is pending, or one of the stream's or near them.
    fn some_id(&self, stream: &Stream, number: i64) -> Id {
        let place = number.unsigned_abs() as usize / 2;
        let pending = self.pending.keys().nth(place % (self.pending.len() + 1));
        match pending {
            Some(id) if number % 2 == 0 => *id,
            _ => stream.some_id(number),
        }
    }

    fn summary(&self) -> String {
        let keys = &self.pending;
        let (Some((first, _)), Some((last, _))) = (keys.first_key_value(), keys.last_key_value())
        else {
            return "*4 :0 $-1 $-1 *-1".to_owned();
        };
        let count = |name: &String| (name.clone(), self.pending_of(name));
        let counts = self.consumers.keys().map(count);
        let own: Vec<String> = counts
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| array([name, count.to_string()]))
            .collect();
        let [first, last] = [first, last].map(|id| item(Some(&text(*id))));
        let pending = keys.len();
        format!(
            "*4 :{pending} {first} {last} *{} {}",
            own.len(),
            own.join(" ")
        )
    }

    fn all_pending(&self, now: i64, fits: impl Fn(&Id, &Delivery) -> bool, most: usize) -> String {
        let found = self.pending.iter().filter(|(id, it)| fits(id, it));
        let found: Vec<String> = found
            .take(most)
            .map(
                |(
                    id,
                    Delivery {
                        consumer,
                        at,
                        count,
                    },
                )| {
                    let names = [text(*id), consumer.clone()].map(|name| item(Some(&name)));
                    format!("*4 {} :{} :{count}", names.join(" "), now - at)
                },
            )
            .collect();
        list(&found)
    }

    fn all_consumers(&self, now: i64) -> String {
        let each = |(name, it): (&String, &Consumer)| {
            let inactive = it.active.map_or(-1, |active| now - active);
            let (pending, idle) = (self.pending_of(name), now - it.seen);
            format!(
                "*8 $4 name {} $7 pending :{pending} $4 idle :{idle} $8 inactive :{inactive}",
                item(Some(name))
            )
        };
        list(&self.consumers.iter().map(each).collect::<Vec<String>>())
    }
}

/// An array of what has been written already.
fn list(items: &[String]) -> String {
    let text = format!("*{} {}", items.len(), items.join(" "));
    text.trim_end().to_owned()
}

/// Requests for all that the groups of a stream hold, and their replies.
pub fn groups(keys: &Keys, key: &str, now: i64) -> Vec<(String, String)> {
    let Some((Value::Stream(stream), _)) = keys.get(key) else {
        return Vec::new();
    };
    let each = |(name, group): (&String, &Group)| {
        [
            (format!("xpending {key} {name}"), group.summary()),
            (
                format!("xpending {key} {name} - + 100000"),
                group.all_pending(now, |_, _| true, usize::MAX),
            ),
            (
                format!("xinfo consumers {key} {name}"),
                group.all_consumers(now),
            ),
        ]
    };
    stream.groups.iter().flat_map(each).collect()
}

pub const GROUPS: [Request; 26] = [
    create,
    create,
    set_id,
    create_consumer,
    delete_consumer,
    read_new,
    read_new,
    read_new,
    read_new,
    read_claiming,
    read_claiming,
    read_claiming,
    read_history,
    read_history,
    acknowledge,
    acknowledge,
    claim,
    claim,
    claim,
    claim_idle,
    claim_idle,
    summarize,
    list_pending,
    delete_as,
    acknowledge_and_delete,
    destroy,
];

fn group_name(w: &Words) -> &'static str {
    ["g", "h"][w.number as usize % 2]
}

fn consumer_name(w: &Words) -> &'static str {
    ["alice", "bob", "carol"][w.ms as usize % 3]
}

/// Lets `edit` use a stream and one of its groups; `missing` is the reply if there is no group, or
/// no stream either.
fn with_group(
    m: &mut Model,
    w: &Words,
    missing: impl Fn(bool) -> String,
    edit: impl FnOnce(&mut Stream, &mut Group) -> String,
) -> String {
    m.with(&w.key, |stream: &mut Stream| {
        let Some((name, mut group)) = stream.groups.remove_entry(group_name(w)) else {
            return missing(stream.is_there);
        };
        let reply = edit(stream, &mut group);
        stream.groups.insert(name, group);
        reply
    })
}

fn no_group(w: &Words, after: &str) -> impl Fn(bool) -> String {
    let (key, group) = (w.key.clone(), group_name(w));
    let after = after.to_owned();
    move |_| format!("-NOGROUP No such key '{key}' or consumer group '{group}'{after}")
}

/// What XGROUP answers.
fn no_group_or_stream(w: &Words) -> impl Fn(bool) -> String {
    let (key, group) = (w.key.clone(), group_name(w));
    move |has_stream| {
        if has_stream {
            return format!("-NOGROUP No such consumer group '{group}' for key name '{key}'");
        }
        "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
         use the MKSTREAM option to create an empty stream automatically."
            .to_owned()
    }
}

/// The group as it is, or an empty one, with its stream.
fn peek(m: &Model, w: &Words) -> (Stream, Group) {
    let stream = m.read::<Stream>(&w.key).unwrap_or_default();
    let group = stream.groups.get(group_name(w)).cloned();
    (stream, group.unwrap_or_default())
}

fn create(m: &mut Model, w: &Words) -> (String, String) {
    let makes = w.index % 2 == 0;
    let (stream, _) = peek(m, w);
    let id = if w.last < 0 {
        (0, 0)
    } else {
        stream.some_id(w.last)
    };
    let (key, name) = (&w.key, group_name(w));
    let option = if makes { " mkstream" } else { "" };
    let request = format!("xgroup create {key} {name} {}{option}", text(id));
    let missing = no_group_or_stream(w);
    let reply = m.with(key, |stream: &mut Stream| {
        if !stream.is_there && !makes {
            return missing(false);
        }
        stream.is_there = true;
        if stream.groups.contains_key(name) {
            return "-BUSYGROUP Consumer Group name already exists".to_owned();
        }
        let group = Group {
            last: id,
            ..Group::default()
        };
        stream.groups.insert(name.to_owned(), group);
        ok()
    });
    (request, reply)
}

fn set_id(m: &mut Model, w: &Words) -> (String, String) {
    let (stream, group) = peek(m, w);
    let id = group.some_id(&stream, w.index);
    let request = format!("xgroup setid {} {} {}", w.key, group_name(w), text(id));
    let reply = with_group(m, w, no_group_or_stream(w), |_, group| {
        group.last = id;
        ok()
    });
    (request, reply)
}

fn create_consumer(m: &mut Model, w: &Words) -> (String, String) {
    let (now, consumer) = (m.now, consumer_name(w));
    let words = format!("{} {} {consumer}", w.key, group_name(w));
    let reply = with_group(m, w, no_group_or_stream(w), |_, group| {
        let is_new = !group.consumers.contains_key(consumer);
        if is_new {
            group.seen(consumer, now);
        }
        yes(is_new)
    });
    (format!("xgroup createconsumer {words}"), reply)
}

fn delete_consumer(m: &mut Model, w: &Words) -> (String, String) {
    let consumer = consumer_name(w);
    let words = format!("{} {} {consumer}", w.key, group_name(w));
    let reply = with_group(m, w, no_group_or_stream(w), |_, group| {
        let own = group.pending_of(consumer);
        group.consumers.remove(consumer);
        group.pending.retain(|_, it| it.consumer != consumer);
        integer(own)
    });
    (format!("xgroup delconsumer {words}"), reply)
}

/// Seldom, or there would never be much to look at.
fn destroy(m: &mut Model, w: &Words) -> (String, String) {
    if w.last % 4 != 0 {
        return summarize(m, w);
    }
    let request = format!("xgroup destroy {} {}", w.key, group_name(w));
    let missing = no_group_or_stream(w);
    let reply = m.with(&w.key, |stream: &mut Stream| {
        if !stream.is_there {
            return missing(false);
        }
        yes(stream.groups.remove(group_name(w)).is_some())
    });
    (request, reply)
}

fn read_new(m: &mut Model, w: &Words) -> (String, String) {
    let (now, consumer) = (m.now, consumer_name(w));
    let is_acknowledged = w.index % 4 == 0;
    let option = if is_acknowledged { " noack" } else { "" };
    let (key, name) = (&w.key, group_name(w));
    let count = w.many;
    let request =
        format!("xreadgroup group {name} {consumer} count {count}{option} streams {key} >");
    let missing = no_group(w, " in XREADGROUP with GROUP option");
    let reply = with_group(m, w, missing, |stream, group| {
        group.seen(consumer, now);
        let (ms, seq) = group.last;
        let mut found = Vec::new();
        for (id, strings) in stream.entries.range((ms, seq + 1)..).take(count as usize) {
            group.last = *id;
            if !is_acknowledged {
                group.deliver(*id, consumer, now, 1);
                group.be_active(consumer, now);
            }
            found.push(entry(id, strings));
        }
        if found.is_empty() {
            return null_array();
        }
        format!("*1 *2 {} {}", item(Some(key)), list(&found))
    });
    (request, reply)
}

/// An entry of which is told how long it had been idle and how often it had been delivered.
fn told_entry(id: &Id, strings: &[String], idle: i64, count: u64) -> String {
    let plain = entry(id, strings);
    let rest = plain.strip_prefix("*2").expect("an entry is a pair");
    format!("*4{rest} :{idle} :{count}")
}

/// With CLAIM: what has been idle longest, then what is new.
fn read_claiming(m: &mut Model, w: &Words) -> (String, String) {
    let (now, consumer) = (m.now, consumer_name(w));
    let is_acknowledged = w.index % 4 == 0;
    let option = if is_acknowledged { " noack" } else { "" };
    let (key, name) = (&w.key, group_name(w));
    let (min, most) = ([0, 5, w.ms][w.number as usize % 3], w.many.min(30) as usize);
    let request = format!(
        "xreadgroup group {name} {consumer} count {most} claim {min}{option} streams {key} >"
    );
    let missing = no_group(w, " in XREADGROUP with GROUP option");
    let reply = with_group(m, w, missing, |stream, group| {
        group.seen(consumer, now);
        let pending = group.pending.iter();
        let idle = pending.filter(|(_, it)| min == 0 || now - it.at >= min);
        let mut idle: Vec<(i64, Id, u64)> = idle.map(|(id, it)| (it.at, *id, it.count)).collect();
        idle.sort();
        let mut found = Vec::new();
        for (at, id, count) in idle.into_iter().take(10 * most) {
            if found.len() == most {
                break;
            }
            let Some(strings) = stream.entries.get(&id) else {
                group.forget(id);
                continue;
            };
            group.deliver(id, consumer, now, count + 1);
            group.be_active(consumer, now);
            found.push(told_entry(&id, strings, now - at, count));
        }
        let (ms, seq) = group.last;
        let left = most - found.len();
        for (id, strings) in stream.entries.range((ms, seq + 1)..).take(left) {
            group.last = *id;
            if !is_acknowledged {
                group.deliver(*id, consumer, now, 1);
                group.be_active(consumer, now);
            }
            found.push(told_entry(id, strings, 0, 0));
        }
        if found.is_empty() {
            return null_array();
        }
        format!("*1 *2 {} {}", item(Some(key)), list(&found))
    });
    (request, reply)
}

fn read_history(m: &mut Model, w: &Words) -> (String, String) {
    let (now, consumer) = (m.now, consumer_name(w));
    let (stream, group) = peek(m, w);
    let (ms, seq) = if w.last < 0 {
        (0, 0)
    } else {
        group.some_id(&stream, w.last)
    };
    let (key, name) = (&w.key, group_name(w));
    let count = w.many;
    let request =
        format!("xreadgroup group {name} {consumer} count {count} streams {key} {ms}-{seq}");
    let missing = no_group(w, " in XREADGROUP with GROUP option");
    let reply = with_group(m, w, missing, |stream, group| {
        group.seen(consumer, now);
        let own = group.pending.range_mut((ms, seq + 1)..);
        let own = own.filter(|(_, it)| it.consumer == consumer);
        let mut found = Vec::new();
        for (id, delivery) in own.take(count as usize) {
            let Some(strings) = stream.entries.get(id) else {
                found.push(format!("*2 {} *-1", item(Some(&text(*id)))));
                continue;
            };
            (delivery.at, delivery.count) = (now, delivery.count + 1);
            found.push(entry(id, strings));
        }
        format!("*1 *2 {} {}", item(Some(key)), list(&found))
    });
    (request, reply)
}

/// Two ids that a request is about.
fn two_ids(m: &Model, w: &Words) -> [Id; 2] {
    let (stream, group) = peek(m, w);
    [w.index, w.last].map(|number| group.some_id(&stream, number))
}

fn acknowledge(m: &mut Model, w: &Words) -> (String, String) {
    let ids = two_ids(m, w);
    let [a, b] = ids.map(text);
    let request = format!("xack {} {} {a} {b}", w.key, group_name(w));
    let reply = with_group(
        m,
        w,
        |_| integer(0),
        |_, group| integer(ids.iter().filter(|id| group.forget(**id)).count()),
    );
    (request, reply)
}

/// What a claim of one pending entry, or of one that is none, comes to.
enum Claimed {
    No,
    Gone,
    Yes,
}

/// How entries are claimed.
struct Claim {
    consumer: &'static str,
    idle_min: i64,
    at: i64,
    count: Option<u64>,
    is_forced: bool,
    is_silent: bool,
}

impl Claim {
    fn carry_out(&self, stream: &Stream, group: &mut Group, id: Id, now: i64) -> Claimed {
        let old = group.pending.get(&id).cloned();
        if !stream.entries.contains_key(&id) {
            let was_pending = group.forget(id);
            return if was_pending {
                Claimed::Gone
            } else {
                Claimed::No
            };
        }
        let old_count = match old {
            None if !self.is_forced => return Claimed::No,
            None => 1,
            Some(old) if now - old.at < self.idle_min => return Claimed::No,
            Some(old) => old.count,
        };
        let count = self.count.unwrap_or(old_count + u64::from(!self.is_silent));
        group.deliver(id, self.consumer, self.at, count);
        group.be_active(self.consumer, now);
        Claimed::Yes
    }

    /// How an entry that was claimed is told of.
    fn told(&self, stream: &Stream, id: Id) -> String {
        if self.is_silent {
            return item(Some(&text(id)));
        }
        entry(&id, &stream.entries[&id])
    }
}

fn claim(m: &mut Model, w: &Words) -> (String, String) {
    let now = m.now;
    let ids = two_ids(m, w);
    let idle = i64::from(w.number);
    let mut claim = Claim {
        consumer: consumer_name(w),
        idle_min: [0, 5, w.ms][w.many as usize % 3],
        at: now,
        count: None,
        is_forced: w.ms % 5 == 0,
        is_silent: w.ms % 4 == 0,
    };
    let [a, b] = ids.map(text);
    let (key, name, consumer, min) = (&w.key, group_name(w), claim.consumer, claim.idle_min);
    let mut request = format!("xclaim {key} {name} {consumer} {min} {a} {b}");
    if w.ms % 3 == 0 {
        request += &format!(" idle {idle}");
        claim.at = now - idle;
    }
    if w.ms % 7 == 0 {
        request += &format!(" retrycount {}", w.many);
        claim.count = Some(u64::from(w.many));
    }
    let words = [(claim.is_forced, " force"), (claim.is_silent, " justid")];
    let words = words.into_iter().filter(|(is_said, _)| *is_said);
    request.extend(words.map(|(_, word)| word));
    let reply = with_group(m, w, no_group(w, ""), |stream, group| {
        group.seen(claim.consumer, now);
        let mut found = Vec::new();
        for id in ids {
            if let Claimed::Yes = claim.carry_out(stream, group, id, now) {
                found.push(claim.told(stream, id));
            }
        }
        list(&found)
    });
    (request, reply)
}

fn claim_idle(m: &mut Model, w: &Words) -> (String, String) {
    let now = m.now;
    let [start, _] = two_ids(m, w);
    let claim = Claim {
        consumer: consumer_name(w),
        idle_min: [0, 5, w.ms][w.number as usize % 3],
        at: now,
        count: None,
        is_forced: false,
        is_silent: w.ms % 4 == 0,
    };
    let most = w.many.min(7) as usize;
    let option = if claim.is_silent { " justid" } else { "" };
    let (key, name, consumer, min) = (&w.key, group_name(w), claim.consumer, claim.idle_min);
    let start_text = text(start);
    let request =
        format!("xautoclaim {key} {name} {consumer} {min} {start_text} count {most}{option}");
    let reply = with_group(m, w, no_group(w, ""), |stream, group| {
        group.seen(consumer, now);
        let (mut found, mut gone, mut next) = (Vec::new(), Vec::new(), (0, 0));
        let ids: Vec<Id> = group.pending.range(start..).map(|(id, _)| *id).collect();
        for (looked_at, id) in ids.into_iter().enumerate() {
            if looked_at == most * 10 || found.len() + gone.len() == most {
                next = id;
                break;
            }
            match claim.carry_out(stream, group, id, now) {
                Claimed::No => {}
                Claimed::Gone => gone.push(text(id)),
                Claimed::Yes => found.push(claim.told(stream, id)),
            }
        }
        let next = item(Some(&text(next)));
        format!("*3 {next} {} {}", list(&found), array(gone))
    });
    (request, reply)
}

fn summarize(m: &mut Model, w: &Words) -> (String, String) {
    let request = format!("xpending {} {}", w.key, group_name(w));
    let reply = with_group(m, w, no_group(w, ""), |_, group| group.summary());
    (request, reply)
}

fn list_pending(m: &mut Model, w: &Words) -> (String, String) {
    let now = m.now;
    let [a, b] = two_ids(m, w);
    let (start, end) = (a.min(b), a.max(b));
    let (idle, consumer, most) = (w.ms % 20, consumer_name(w), w.many as usize);
    let (key, name) = (&w.key, group_name(w));
    let [first, last] = [start, end].map(text);
    let request = format!("xpending {key} {name} idle {idle} {first} {last} {most} {consumer}");
    let reply = with_group(m, w, no_group(w, ""), |_, group| {
        let fits = |id: &Id, it: &Delivery| {
            (start..=end).contains(id) && now - it.at >= idle && it.consumer == consumer
        };
        group.all_pending(now, fits, most)
    });
    (request, reply)
}

/// The choice about what is pending of a request.
fn choice(w: &Words) -> &'static str {
    ["keepref", "delref", "acked"][w.many as usize % 3]
}

/// Deletes an entry as a choice says: 1 if it is gone, 2 if it was kept, -1 if there was none.
fn delete_one(stream: &mut Stream, id: Id, choice: &str) -> i32 {
    if choice == "delref" {
        stream.groups.values_mut().for_each(|group| {
            group.forget(id);
        });
    }
    if choice == "acked" && stream.groups.values().any(|group| group.needs(id)) {
        return 2;
    }
    if stream.remove(id) { 1 } else { -1 }
}

fn delete_as(m: &mut Model, w: &Words) -> (String, String) {
    let ids = two_ids(m, w);
    let [a, b] = ids.map(text);
    let request = format!("xdelex {} {} ids 2 {a} {b}", w.key, choice(w));
    let reply = m.with(&w.key, |stream: &mut Stream| {
        let outcomes = ids.map(|id| {
            if stream.is_there {
                delete_one(stream, id, choice(w))
            } else {
                -1
            }
        });
        list(&outcomes.map(integer))
    });
    (request, reply)
}

fn acknowledge_and_delete(m: &mut Model, w: &Words) -> (String, String) {
    let ids = two_ids(m, w);
    let [a, b] = ids.map(text);
    let (key, name) = (&w.key, group_name(w));
    let request = format!("xackdel {key} {name} {} ids 2 {a} {b}", choice(w));
    let reply = m.with(key, |stream: &mut Stream| {
        let outcomes = ids.map(|id| {
            let group = stream.groups.get_mut(name);
            if !group.is_some_and(|group| group.forget(id)) {
                return -1;
            }
            // Acknowledged it is in any case.
            delete_one(stream, id, choice(w)).abs()
        });
        list(&outcomes.map(integer))
    });
    (request, reply)
}
