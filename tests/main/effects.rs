//! The log of effects: a second keyspace that gets nothing else holds what the first one does.

use std::collections::{BTreeMap, BTreeSet};

use mayfly::command::table::row::flag;
use mayfly::command::table::table;
use mayfly::config::Permission;
use mayfly::store::collection::{for_each_element, stream_of};
use mayfly::store::entry::Slot;
use mayfly::value::Kind;
use mayfly::value::stream::{Consumer, Id, Stream};

use crate::model::Pair;
use crate::sim::{Sim, TempDir};

const SEEDS: u64 = 12;
const STEPS: usize = 2_000;
const COMPARE_EVERY: usize = 20;

/// A server that carries out effects and whose time stands still, so that it removes nothing.
pub struct Follower {
    sim: Sim,
    db: usize,
}

impl Follower {
    /// One that knows nothing of the server it follows but what is still to come.
    pub fn of(leader: &mut Sim) -> Follower {
        leader.engine.keyspace.effects.listen(true);
        leader.engine.config.debug_command = Permission::Yes;
        let mut sim = Sim::new();
        sim.engine.config.debug_command = Permission::Yes;
        Follower { sim, db: 0 }
    }

    /// Carries out what has happened; how many effects that were, and in words.
    pub fn follow(&mut self, leader: &mut Sim) -> Vec<String> {
        let effects = &mut leader.engine.keyspace.effects;
        let mut words = Vec::new();
        for (db, args) in effects.iter() {
            if self.db != db {
                self.sim.expect(&format!("select {db}"), "+OK");
                self.db = db;
            }
            let text = String::from_utf8_lossy(&args.join(&b' ')).into_owned();
            let reply = self.sim.ask(&args);
            let reply = String::from_utf8_lossy(&reply);
            assert!(!reply.starts_with('-'), "{text}: {reply}");
            words.push(text);
        }
        effects.clear();
        words
    }

    /// Holds what the other does, dead keys included.
    #[track_caller]
    pub fn assert_alike(&self, leader: &Sim) {
        assert_eq!(picture(&self.sim), picture(leader));
    }

    fn assert_same(&mut self, leader: &mut Sim) {
        self.assert_alike(leader);
        let behind = leader.engine.reading.now.0 - self.sim.engine.reading.now.0;
        self.sim.clock.advance_ms(behind as u64);
        assert_eq!(self.sim.run("debug digest"), leader.run("debug digest"));
    }
}

/// All keys with their values and deadlines, what is dead and not yet removed included.
fn picture(sim: &Sim) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut keys = BTreeMap::new();
    for db in 0..sim.engine.keyspace.databases() {
        sim.engine.keyspace.db(db).table.for_each(|slot| {
            keys.insert((db, slot.key().to_vec()), value(slot));
        });
    }
    keys
}

fn value(slot: &Slot) -> String {
    let mut elements = Vec::new();
    match slot.string() {
        Some(string) => elements.push(format!("{:?}", String::from_utf8_lossy(string))),
        None => for_each_element(slot, |element, deadline| {
            let parts: Vec<_> = element
                .iter()
                .map(|part| part.escape_ascii().to_string())
                .collect();
            elements.push(format!("{parts:?} {deadline:?}"));
        }),
    }
    if let Ok(stream) = stream_of(slot) {
        elements = groups(stream);
    }
    if slot.kind() != Kind::List {
        elements.sort();
    }
    let soft = slot.expiry().and_then(|expiry| expiry.soft);
    let ends = (
        slot.deadline(),
        slot.sliding_ms(),
        soft.map(|soft| soft.before_ms),
    );
    format!("{:?} {ends:?} {elements:?}", slot.kind())
}

/// A stream, but for when its consumers were seen and their numbers.
fn groups(stream: &Stream) -> Vec<String> {
    let entries = stream.range(Id::MIN, Id::MAX);
    let mut all: Vec<String> = entries
        .map(|entry| format!("{} {:?}", entry.id, entry.pairs().collect::<Vec<_>>()))
        .collect();
    all.push(format!("{:?}", stream.facts()));
    for (name, group) in stream.groups() {
        let consumers: Vec<_> = group.consumers().map(Consumer::name).collect();
        let position = (group.last_id, group.entries_read);
        all.push(format!("{name:?} {position:?} {consumers:?}"));
        for (id, delivery) in group.pending_from(Id::MIN) {
            let consumer = group.consumer(delivery.consumer).name();
            let (unix_ms, count) = (delivery.unix_ms, delivery.count);
            all.push(format!("{name:?} {id} {consumer:?} {unix_ms} {count}"));
        }
    }
    all
}

/// The commands that the random runs of the model have made, and that had an effect.
fn follow_the_model(seed: u64) -> BTreeSet<String> {
    println!("seed {seed}");
    let dir = TempDir::new();
    let mut pair = Pair::new(&dir, seed);
    let mut follower = Follower::of(&mut pair.sim);
    let mut seen = BTreeSet::new();
    for step in 1..=STEPS {
        let request = pair.step();
        let effects = follower.follow(&mut pair.sim);
        let name = request.split(' ').next().unwrap_or_default();
        if !effects.is_empty() {
            seen.insert(name.to_lowercase());
        }
        if step % COMPARE_EVERY == 0 {
            assert_eq!(picture(&follower.sim), picture(&pair.sim), "{request}");
        }
    }
    follower.assert_same(&mut pair.sim);
    seen
}

/// Requests, what they leave, and time passing: `request => effect; effect`, `+5` for 5 ms.
#[track_caller]
fn transcript(leader: &mut Sim, follower: &mut Follower, text: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expected) = line.split_once("=>").unwrap_or((line, ""));
        let request = request.trim();
        match request.strip_prefix('+') {
            Some(ms) => leader.advance(ms.parse().expect("a number of milliseconds")),
            None => {
                let reply = leader.run(request);
                assert!(!reply.starts_with('-'), "{request}: {reply}");
                seen.insert(request.split(' ').next().unwrap_or_default().to_owned());
            }
        }
        assert_eq!(
            follower.follow(leader).join("; "),
            expected.trim(),
            "{line}"
        );
        assert_eq!(picture(&follower.sim), picture(leader), "{line}");
    }
    seen
}

/// What does not say when, or what, is put so that it does.
const REWRITTEN: &str = "
    set k v                             => set k v
    set k v ex 10                       => SET k v PXAT 1700000010000
    set k v px 5 nx                     =>
    set k w xx get keepttl              => SET k w KEEPTTL
    get k                               =>
    getex k px 700                      => PEXPIREAT k 1700000000700
    getex k persist                     => PERSIST k
    getex k exat 1                      => DEL k
    setex k 10 v                        => SET k v PXAT 1700000010000
    psetex k 10 v                       => SET k v PXAT 1700000000010
    +20                                 => DEL k
    msetex 2 a 1 b 2 px 9               => SET a 1 PXAT 1700000000029; SET b 2 PXAT 1700000000029
    incrbyfloat a 0.5                   => SET a 1.5 KEEPTTL
    increx b ex 5                       => SET b 3 PXAT 1700000005020
    increx c byfloat 2.5                => SET c 2.5 KEEPTTL
    increx b persist                    => SET b 4
    expire b 3                          => PEXPIREAT b 1700000003020
    pexpire b 3 xx                      => PEXPIREAT b 1700000000023
    expireat b 1800000000               => PEXPIREAT b 1800000000000
    pexpireat b 1800000000001 gt        => PEXPIREAT b 1800000000001
    pexpireat b 1700000000020           => DEL b
    expire b 10                         =>
    del a b c                           => del a b c
    hset h f 1 g 2 i 3                  => hset h f 1 g 2 i 3
    hexpire h 5 fields 3 f x g          => HPEXPIREAT h 1700000005020 FIELDS 2 f g
    hpexpire h 7 fields 1 f             => HPEXPIREAT h 1700000000027 FIELDS 1 f
    hincrbyfloat h f 0.5                => HSET h f 1.5; HPEXPIREAT h 1700000000027 FIELDS 1 f
    hincrbyfloat h j 0.5                => HSET h j 0.5
    hexpireat h 1800000000 fields 1 i   => HPEXPIREAT h 1800000000000 FIELDS 1 i
    hpexpireat h 1 fields 1 i           => HDEL h i
    hgetex h persist fields 2 g j       => HPERSIST h FIELDS 1 g
    hgetex h px 70 fields 1 g           => HPEXPIREAT h 1700000000090 FIELDS 1 g
    hgetex h fields 1 g                 =>
    hsetex h px 9 fields 1 l 1          => HSETEX h PXAT 1700000000029 FIELDS 1 l 1
    hsetex h keepttl fields 1 l 2       => HSETEX h KEEPTTL FIELDS 1 l 2
    hsetex h fnx fields 1 l 2           =>
    hsetex h pxat 5 fields 1 m 2        => HDEL h m
    +20                                 => HDEL h f; HDEL h l
    +100                                => HDEL h g
    del h                               => del h
    hsetex h px 9 fields 2 a 1 b 1      => HSETEX h PXAT 1700000000149 FIELDS 2 a 1 b 1
    +20                                 => DEL h
    sadd s a b c                        => sadd s a b c
    sexpire s 5 members 3 a x b         => SPEXPIREAT s 1700000005160 MEMBERS 2 a b
    spexpire s 7 members 1 a            => SPEXPIREAT s 1700000000167 MEMBERS 1 a
    sexpireat s 1800000000 members 1 c  => SPEXPIREAT s 1800000000000 MEMBERS 1 c
    spexpireat s 1 members 1 c          => SREM s c
    spersist s members 2 a x            => spersist s members 2 a x
    expiremember s a 9 ms               => SPEXPIREAT s 1700000000169 MEMBERS 1 a
    expirememberat s b 1800000000       => SPEXPIREAT s 1800000000000 MEMBERS 1 b
    pexpirememberat s b 1               => SREM s b
    fieldexpire s 5 a                   => SPEXPIREAT s 1700000005160 MEMBERS 1 a
    saddex s 3 a b                      => SADD s b; SPEXPIREAT s 1700000003160 MEMBERS 2 a b
    saddex s nx 9 a c                   => SADD s c; SPEXPIREAT s 1700000009160 MEMBERS 1 c
    smove s t a                         => smove s t a
    spexpire t 20 members 1 a           => SPEXPIREAT t 1700000000180 MEMBERS 1 a
    sadd t x                            => sadd t x
    +30                                 => SREM t a
    spexpire s 0 members 2 b c          => SREM s b c
    del t                               => del t
    sadd s a                            => sadd s a
    spop s                              => SREM s a
    sadd s a b                          => sadd s a b
    spop s 5                            => DEL s
    spop s                              =>
    rpush l b a c d e                   => rpush l b a c d e
    sort l alpha limit 0 2              =>
    sort l alpha limit 0 2 store m      => DEL m; RPUSH m a b
    sort x store m                      => DEL m
    blpop x l 0                         => LPOP l
    brpop l 0                           => RPOP l
    blmove l m left right 0             => LMOVE l m LEFT RIGHT
    brpoplpush l m 0                    => LMOVE l m RIGHT LEFT
    blmpop 0 2 x m left count 5         => LMPOP 2 x m left count 5
    zadd z 1 a 2 b 3 c 4 d              => zadd z 1 a 2 b 3 c 4 d
    zexpire z 5 members 3 a x b         => ZPEXPIREAT z 1700000005190 MEMBERS 2 a b
    zpexpire z 7 members 1 a            => ZPEXPIREAT z 1700000000197 MEMBERS 1 a
    zexpireat z 1800000000 members 1 c  => ZPEXPIREAT z 1800000000000 MEMBERS 1 c
    zpexpireat z 1 members 1 c          => ZREM z c
    zpersist z members 2 a x            => zpersist z members 2 a x
    expiremember z b 0                  => ZREM z b
    zadd z 2 b 3 c                      => zadd z 2 b 3 c
    bzpopmin z 0                        => ZPOPMIN z
    bzpopmax z 0                        => ZPOPMAX z
    bzmpop 0 1 z min                    => ZMPOP 1 z min
    xadd x * f 1                        => XADD x 1700000000190-0 f 1
    xadd x * f 2                        => XADD x 1700000000190-1 f 2
    xadd x nomkstream 1800000000000-* f 3 => XADD x 1800000000000-0 f 3
    xadd x maxlen 3 * f 4               => XADD x MAXLEN = 3 1800000000000-1 f 4
    xadd x maxlen 5 * f 5               => XADD x 1800000000000-2 f 5
    xadd x maxlen ~ 1 * f 5             => XADD x 1800000000000-3 f 5
    xadd y nomkstream * f 1             =>
    xadd x minid 1800000000000-1 1800000000000-9 f 6 => XADD x MAXLEN = 4 1800000000000-9 f 6
    xtrim x minid 1800000000000-3       => XTRIM x MAXLEN = 2
    xtrim x maxlen ~ 1                  =>
    xdel x 1800000000000-9              => xdel x 1800000000000-9
    xdel x 1-1                          =>
    xsetid x 1900000000000-1 entriesadded 7 => xsetid x 1900000000000-1 entriesadded 7
    xadd x 1900000000000-5 f 6          => XADD x 1900000000000-5 f 6
    xdelex x ids 2 1900000000000-5 1-1  => xdelex x ids 2 1900000000000-5 1-1
    xtrim x maxlen 0                    => XTRIM x MAXLEN = 0
";

/// What becomes of entries of a consumer group, with the effects on lines of their own.
const GROUPS: [[&str; 2]; 23] = [
    ["xadd q 1-1 f 1", "XADD q 1-1 f 1"],
    ["xadd q 2-1 f 2", "XADD q 2-1 f 2"],
    ["xadd q 3-1 f 3", "XADD q 3-1 f 3"],
    [
        "xgroup create q g 0",
        "XGROUP CREATE q g 0-0 MKSTREAM ENTRIESREAD -1",
    ],
    [
        "xgroup create q h $ entriesread 9",
        "XGROUP CREATE q h 3-1 MKSTREAM ENTRIESREAD 3",
    ],
    [
        "xgroup setid q h 1-1",
        "XGROUP SETID q h 1-1 ENTRIESREAD -1",
    ],
    [
        "xreadgroup group g c count 2 streams q >",
        "XGROUP CREATECONSUMER q g c; \
         XCLAIM q g c 0 1-1 2-1 TIME 1700000000190 RETRYCOUNT 1 FORCE JUSTID LASTID 2-1; \
         XGROUP SETID q g 2-1 ENTRIESREAD 2",
    ],
    [
        "xreadgroup group g c streams q 1-1",
        "XCLAIM q g c 0 2-1 TIME 1700000000190 RETRYCOUNT 2 FORCE JUSTID LASTID 2-1",
    ],
    [
        "xreadgroup group h d noack streams q >",
        "XGROUP CREATECONSUMER q h d; XGROUP SETID q h 3-1 ENTRIESREAD 3",
    ],
    ["xack q g 1-1 9-9", "xack q g 1-1 9-9"],
    ["xdel q 2-1", "xdel q 2-1"],
    [
        "xautoclaim q g d 0 0",
        "XGROUP CREATECONSUMER q g d; XACK q g 2-1",
    ],
    [
        "xclaim q g d 0 3-1 force justid time 1600000000000",
        "XCLAIM q g d 0 3-1 TIME 1600000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 2-1",
    ],
    [
        "xclaim q g d 0 9-9 lastid 3-1",
        "XGROUP SETID q g 3-1 ENTRIESREAD 2",
    ],
    ["xgroup createconsumer q g e", "xgroup createconsumer q g e"],
    [
        "xadd q acked maxlen 1 4-1 f 4",
        "XADD q ACKED MAXLEN = 2 4-1 f 4",
    ],
    ["xtrim q maxlen 1 delref", "XTRIM q MAXLEN = 1 DELREF"],
    [
        "xreadgroup group g e streams q >",
        "XCLAIM q g e 0 4-1 TIME 1700000000190 RETRYCOUNT 1 FORCE JUSTID LASTID 4-1; \
         XGROUP SETID q g 4-1 ENTRIESREAD 4",
    ],
    [
        "xreadgroup group g f claim 0 streams q >",
        "XGROUP CREATECONSUMER q g f; \
         XCLAIM q g f 0 4-1 TIME 1700000000190 RETRYCOUNT 2 FORCE JUSTID LASTID 4-1",
    ],
    ["xdelex q acked ids 1 4-1", ""],
    ["xackdel q g ids 1 4-1", "xackdel q g ids 1 4-1"],
    ["xgroup delconsumer q g d", "xgroup delconsumer q g d"],
    ["xgroup destroy q h", "xgroup destroy q h"],
];

/// What others leave is what they are, in the database they are in, if they change anything.
const VERBATIM: &str = "
    set k v                             => set k v
    setnx k w                           =>
    setnx n w                           => setnx n w
    move k 1                            => move k 1
    select 1                            =>
    append k w                          => append k w
    set e v px 5                        => SET e v PXAT 1700000000195
    set f v px 5                        => SET f v PXAT 1700000000195
    swapdb 0 1                          => swapdb 0 1
    select 0                            =>
    debug populate 2 p                  => SET p:0 value:0; SET p:1 value:1
    copy k c db 3                       => copy k c db 3
    multi                               =>
    persist k                           =>
    rename k r                          =>
    sadd t v                            =>
    exec                                => rename k r; sadd t v
    persist e                           => persist e
    getset e w                          => getset e w
    mset a 1 b 2                        => mset a 1 b 2
    msetnx a 2 d 3                      =>
    msetnx d 3                          => msetnx d 3
    incrby a 5                          => incrby a 5
    decrby a 2                          => decrby a 2
    decr a                              => decr a
    delex a ifeq 4                      =>
    delex a ifeq 3                      => delex a ifeq 3
    unlink b x                          => unlink b x
    unlink x                            =>
    hmset h f 1                         => hmset h f 1
    setbit bits 7 1                     => setbit bits 7 1
    setbit bits 7 1                     =>
    bitop not inverse bits              => bitop not inverse bits
    bitfield bits get u8 0              =>
    bitfield bits incrby u8 #1 1        => bitfield bits incrby u8 #1 1
    pfadd seen a b                      => pfadd seen a b
    pfadd seen a                        =>
    pfcount seen                        => pfcount seen
    pfcount seen                        =>
    pfmerge all seen                    => pfmerge all seen
    pfdebug todense all                 => pfdebug todense all
    geoadd geo 15 37 a                  => geoadd geo 15 37 a
    georadius geo 15 37 1 km            =>
    georadius geo 15 37 1 km store near => georadius geo 15 37 1 km store near
    georadiusbymember geo a 1 km store near => georadiusbymember geo a 1 km store near
    geosearchstore s geo frommember a byradius 1 m => geosearchstore s geo frommember a byradius 1 m
    rpush l a b c                       => rpush l a b c
    rpoplpush l m                       => rpoplpush l m
    lmpop 1 l right count 2             => lmpop 1 l right count 2
    zadd z 1 a                          => zadd z 1 a
    zmpop 2 x z min                     => zmpop 2 x z min
    expire e 1                          => PEXPIREAT e 1700000001190
    flushdb                             => flushdb
    flushdb                             =>
    select 3                            =>
    flushall                            => flushall
";

#[test]
fn a_keyspace_that_gets_the_effects_is_the_same() {
    let mut leader = Sim::new();
    let mut follower = Follower::of(&mut leader);
    let mut seen = transcript(&mut leader, &mut follower, REWRITTEN);
    for [request, effects] in GROUPS {
        let line = format!("{request} => {effects}");
        seen.extend(transcript(&mut leader, &mut follower, &line));
    }
    leader.run("flushall");
    follower.follow(&mut leader);
    seen.extend(transcript(&mut leader, &mut follower, VERBATIM));
    follower.assert_same(&mut leader);
    for seed in 0..SEEDS {
        seen.extend(follow_the_model(seed));
    }
    assert_eq!(unseen_writing(&seen), [""; 0]);
}

/// The writing commands of the table that are not among these.
fn unseen_writing(seen: &BTreeSet<String>) -> Vec<&'static str> {
    let all = table().commands().map(|number| table().entry(number));
    let writing = all.filter(|entry| entry.is(flag::WRITE));
    let names = writing.map(|entry| entry.row.name);
    names.filter(|name| !seen.contains(*name)).collect()
}

/// The others, which the model runs at random.
const OTHERS: &str = "
    set n 1
    incr n
    setrange n 0 x
    getdel n
    hset h a 1 b 2 c 3 d 4
    hsetnx h e 1
    hdel h a
    hincrby h b 1
    hexpire h 100 fields 1 b
    hpersist h fields 1 b
    sadd e a b
    saddex e 100 c
    sexpire e 100 members 1 a
    spersist e members 1 a
    hgetdel h fields 1 c
    sadd s a b c
    sadd t b c d
    srem s a
    smove s t b
    sinterstore u s t
    sunionstore u s t
    sdiffstore v t s
    zadd z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h
    zincrby z 1 a
    zexpire z 100 members 2 a b
    zpersist z members 1 a
    zrem z a
    zrangestore y z 0 -1
    zremrangebyrank z 0 0
    zremrangebyscore z 2 3
    zremrangebylex y - [a
    zremrangebylex y - +
    zpopmin z
    zpopmax z
    zunionstore y 2 z s
    zinterstore x 2 z z
    zdiffstore w 1 z
    lpush l a b c d e f g
    lpushx l h
    rpushx l i
    lpop l
    rpop l
    lset l 0 x
    linsert l before x y
    lrem l 0 y
    ltrim l 1 -1
    lmove l m left right
    rename m l2
    renamenx l2 l3
";

/// Whatever command has written a key, its rule holds for its deadline; and a keyspace that gets
/// the effects, and has no rules, is the same.
#[test]
fn rules_hold_for_every_writing_command() {
    let texts = GROUPS.map(|[request, _]| request);
    let texts = [REWRITTEN].into_iter().chain(texts);
    let texts = texts.chain(["flushall", VERBATIM, OTHERS]);
    let mut leader = Sim::new();
    let mut follower = Follower::of(&mut leader);
    let rule = "expiry rule set all prefix \"\" default 5000 min 1000 max 10000 sliding";
    leader.expect(rule, "+OK");
    let mut seen = BTreeSet::new();
    for line in texts.flat_map(str::lines).map(str::trim) {
        let request = line.split("=>").next().unwrap_or_default().trim();
        // Time stands still, so that all the others find what they found before.
        if request.is_empty() || request.starts_with('+') {
            continue;
        }
        let before = leader.engine.keyspace.changes.dirty();
        leader.run(request);
        if leader.engine.keyspace.changes.dirty() > before {
            seen.insert(request.split(' ').next().unwrap_or_default().to_owned());
        }
        follower.follow(&mut leader);
        let now = leader.engine.reading.now;
        for db in 0..leader.engine.keyspace.databases() {
            leader.engine.keyspace.db(db).table.for_each(|slot| {
                let key = String::from_utf8_lossy(slot.key());
                let ms = slot.deadline().map(|deadline| deadline.0.since(now));
                assert!(
                    ms.is_some_and(|ms| (1_000..=10_000).contains(&ms)),
                    "{request}: {key} {ms:?}"
                );
                assert_eq!(
                    slot.sliding_ms(),
                    ms.map(|ms| ms as u64),
                    "{request}: {key}"
                );
            });
        }
        assert_eq!(picture(&follower.sim), picture(&leader), "{request}");
    }
    assert_eq!(unseen_writing(&seen), [""; 0]);
}

#[test]
fn what_a_command_was_not_shown_is_gone_before_its_effect() {
    let mut leader = Sim::new();
    let mut follower = Follower::of(&mut leader);
    leader.run("sadd live a b");
    leader.run("sadd dead a b c");
    leader.run("pexpire dead 5");
    leader.run("hset h f 1 g 1");
    leader.run("hpexpire h 5 fields 1 f");
    leader.run("spexpire live 5 members 1 a");
    leader.run("zadd z 1 a 2 b");
    leader.run("zpexpire z 5 members 1 a");
    follower.follow(&mut leader);
    leader.clock.advance_ms(5);
    leader.run("sunionstore to live dead");
    leader.run("hincrby h f 1");
    leader.run("zrangestore y z 0 0");
    assert_eq!(
        follower.follow(&mut leader),
        [
            "SREM live a",
            "DEL dead",
            "sunionstore to live dead",
            "HDEL h f",
            "hincrby h f 1",
            "ZREM z a",
            "zrangestore y z 0 0"
        ]
    );
    follower.assert_same(&mut leader);
}

#[test]
fn a_client_that_waited_leaves_what_it_took() {
    let mut leader = Sim::new();
    let mut follower = Follower::of(&mut leader);
    let waiting = leader.connect();
    leader.run_as(waiting, "blmove from to left right 0");
    leader.run("rpush from a b");
    assert_eq!(
        follower.follow(&mut leader),
        ["rpush from a b", "LMOVE from to LEFT RIGHT"]
    );
    follower.assert_same(&mut leader);
}

#[test]
fn after_a_reload_all_is_said_anew() {
    let dir = TempDir::new();
    let mut leader = Sim::saving_in(&dir, 1);
    let mut follower = Follower::of(&mut leader);
    for request in [
        "set s v px 100",
        "set dead v px 1",
        "rpush l a b",
        "sadd t 1 2 x",
        "zadd z 0.1 a -inf b",
        "xadd x 5-1 a 1 b 2",
        "xadd x 5-2 a 1 b 2",
        "xdel x 5-1",
        "xgroup create x g 0",
        "xreadgroup group g zed streams x >",
        "xgroup createconsumer x g anna",
        "xclaim x g anna 0 5-2 time 5",
        "xadd x 5-3 a 1",
        "xreadgroup group g zed streams x >",
        "xdel x 5-3",
        "xgroup create x h $",
        "xadd empty 5-5 a 1",
        "xtrim empty maxlen 0",
        "hset h f 1 g 2",
        "hpexpire h 50 fields 1 f",
        "spexpire t 50 members 2 1 x",
        "zpexpire z 50 members 1 b",
    ] {
        leader.run(request);
    }
    leader.run("select 5");
    leader.run("debug populate 3000");
    leader.run("sunionstore big nothing");
    (0..3_000).for_each(|i| drop(leader.run(&format!("zadd big {i} m{i}"))));
    follower.follow(&mut leader);
    leader.clock.advance_ms(1);
    leader.expect("debug reload", "+OK");
    assert_eq!(follower.follow(&mut leader)[0], "FLUSHALL");
    follower.assert_same(&mut leader);
}

#[test]
fn nothing_is_kept_that_nobody_asked_for() {
    let mut sim = Sim::new();
    sim.run("set k v px 1");
    sim.run("hset h f v");
    sim.run("hpexpire h 1 fields 1 f");
    sim.run("spop s 3");
    sim.advance(100);
    assert_eq!(sim.engine.keyspace.effects.iter().count(), 0);
    assert_eq!(sim.run("dbsize"), ":0");
}
