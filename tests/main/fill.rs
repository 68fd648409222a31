//! Collections put into the keyspace directly, for tests of commands that only read them.

use mayfly::store::Live;
use mayfly::value::packed::End;

use crate::sim::Sim;

/// Lets `fill` write to database 0, and forgets what it reported.
fn with_live(sim: &mut Sim, fill: impl FnOnce(&mut Live<'_>)) {
    let engine = &mut sim.engine;
    let reading = engine.reading;
    fill(&mut engine.keyspace.live(0, &reading));
    engine.keyspace.changes.clear();
}

/// Adds items, parted by spaces, to the end of a list.
pub fn list(sim: &mut Sim, key: &str, items: &str) {
    with_live(sim, |live| {
        let mut list = live.list_or_new(key.as_bytes()).expect("a list");
        items
            .split(' ')
            .for_each(|item| list.push(End::Back, item.as_bytes()));
    });
}

/// Adds members, parted by spaces, to a set.
pub fn set(sim: &mut Sim, key: &str, members: &str) {
    with_live(sim, |live| {
        let first = members.split(' ').next().expect("a member");
        let set = live.set_or_new(key.as_bytes(), first.as_bytes(), 1);
        let mut set = set.expect("a set");
        members.split(' ').for_each(|member| {
            set.add(member.as_bytes());
        });
    });
}

/// Adds members, parted by spaces, to a sorted set, with the scores 1, 2 and so on.
pub fn zset(sim: &mut Sim, key: &str, members: &str) {
    with_live(sim, |live| {
        let mut zset = live.zset_or_new(key.as_bytes()).expect("a sorted set");
        for (i, member) in members.split(' ').enumerate() {
            zset.insert(member.as_bytes(), i as f64 + 1.0);
        }
    });
}

/// Sets fields of a hash, given as fields and values in turn, parted by spaces.
pub fn hash(sim: &mut Sim, key: &str, pairs: &str) {
    with_live(sim, |live| {
        let mut hash = live.hash_or_new(key.as_bytes()).expect("a hash");
        let words: Vec<&str> = pairs.split(' ').collect();
        for pair in words.chunks(2) {
            hash.set(pair[0].as_bytes(), pair[1].as_bytes());
        }
    });
}
