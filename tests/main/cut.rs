//! Snapshots taken while the server goes on: the file shows the instant of BGSAVE, whatever
//! commands do to the keys that the job has not reached yet.

use std::collections::BTreeMap;

use mayfly::clock::Clock;
use mayfly::config::Permission;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::process::wait_for;
use crate::sim::{START, Sim, TempDir};

/// Enough for some fifty slices of the job, and for a few splits.
const KEYS: usize = 10_000;
/// Keys of database 1.
const OTHERS: usize = 2_000;
/// Longer than a slice may take, so that each does one step.
const STEP_US: u64 = 600;

/// Everything alive: database and key, value and deadline.
type State = BTreeMap<(usize, String), (String, Option<i64>)>;

fn state(sim: &mut Sim) -> State {
    sim.engine.reading = sim.clock.read();
    let reading = sim.engine.reading;
    let mut state = State::new();
    for db in 0..sim.engine.keyspace.databases() {
        sim.engine.keyspace.live(db, &reading).for_each(|slot| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let deadline = slot.deadline().map(|at| reading.to_wall(at.0));
            let value = text(slot.string().expect("a string"));
            let was_there = state.insert((db, text(slot.key())), (value, deadline));
            assert!(was_there.is_none(), "a key twice");
        });
    }
    state
}

#[track_caller]
fn assert_same(found: &State, expected: &State, what: &str) {
    for (key, value) in expected {
        assert_eq!(found.get(key), Some(value), "{what}: {key:?} as it was");
    }
    for key in found.keys() {
        assert!(expected.contains_key(key), "{what}: {key:?} was not there");
    }
}

/// What the file in `dir` holds, by a server whose clock shows `ms` after the start.
fn saved_in(dir: &TempDir, ms: u64) -> State {
    let mut other = Sim::saving_in(dir, 99);
    other.clock.advance_ms(ms);
    other.engine.reading = other.clock.read();
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    state(&mut other)
}

/// A server with many keys and a save that moves one small step at a time.
struct Saving {
    dir: TempDir,
    sim: Sim,
    at_cut: State,
    rng: SmallRng,
    fresh: usize,
    steps: usize,
}

impl Saving {
    fn new(seed: u64) -> Saving {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, seed);
        sim.engine.config.save.clear();
        sim.engine.config.debug_command = Permission::Yes;
        Saving {
            dir,
            sim,
            at_cut: State::new(),
            rng: SmallRng::seed_from_u64(seed),
            fresh: 0,
            steps: 0,
        }
    }

    /// Short and long strings, numbers, edited strings; a third with a deadline.
    fn filled(seed: u64) -> Saving {
        let mut saving = Saving::new(seed);
        saving.fill();
        saving
    }

    fn fill(&mut self) {
        let (long, edited) = ("l".repeat(20_000), "e".repeat(300));
        // So long that the save shares them.
        let (huge, huge_edited) = ("h".repeat(70_000), "g".repeat(70_000));
        for i in 0..KEYS {
            let value = match i % 100 {
                0 => &long,
                1 => &edited,
                2 if i % 1_000 == 2 => &huge,
                3 if i % 1_000 == 3 => &huge_edited,
                n if n < 50 => &format!("value {i}"),
                _ => &i.to_string(),
            };
            let key = format!("k{i}");
            let reply = self.sim.ask(&[b"set", key.as_bytes(), value.as_bytes()]);
            assert_eq!(reply, b"+OK\r\n");
            if i % 100 == 1 {
                self.sim.expect(&format!("append k{i} x"), ":301");
            }
            if i % 1_000 == 3 {
                self.sim.expect(&format!("append k{i} x"), ":70001");
            }
            if i % 3 == 0 {
                let request = format!("pexpire k{i} {}", 600_000 + i);
                self.sim.expect(&request, ":1");
            }
        }
        self.sim.expect("select 1", "+OK");
        for i in 0..OTHERS {
            self.sim.expect(&format!("set k{i} other px 900000"), "+OK");
        }
        self.sim.expect("select 0", "+OK");
    }

    /// Notes the state and makes the cut.
    #[track_caller]
    fn begin(&mut self) {
        self.at_cut = state(&mut self.sim);
        self.steps = 0;
        self.sim.expect("bgsave", "+Background saving started");
        assert!(self.is_saving());
    }

    fn is_saving(&self) -> bool {
        self.sim.engine.jobs.persistence.is_saving()
    }

    /// One step of the job while requests wait.
    fn step(&mut self) {
        self.steps += 1;
        self.sim.clock.cost_us = STEP_US;
        self.sim.engine.run_jobs(&mut self.sim.clock, false);
        self.sim.clock.cost_us = 0;
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
        assert!(self.is_saving(), "the save ended before step {count}");
    }

    fn slot_is_pending(&mut self, key: &str) -> Option<bool> {
        let reading = self.sim.engine.reading;
        let epoch = self.sim.engine.keyspace.cut.epoch;
        let db = self.sim.engine.sessions[self.sim.client].db;
        let live = self.sim.engine.keyspace.live(db, &reading);
        live.peek(key.as_bytes()).map(|slot| slot.epoch() != epoch)
    }

    /// A key of the selected database that the job has, or has not, come to yet.
    fn pick(&mut self, is_pending: bool) -> Option<String> {
        for _ in 0..200 {
            let key = format!("k{}", self.rng.random_range(0..KEYS));
            if self.slot_is_pending(&key) == Some(is_pending) {
                return Some(key);
            }
        }
        None
    }

    /// Fills a request in: K and L are keys, N is a new name.
    fn request(&mut self, form: &str, is_pending: bool) -> Option<String> {
        let key = self.pick(is_pending)?;
        let other = self.pick(is_pending).filter(|other| *other != key)?;
        self.fresh += 1;
        let fresh = format!("new{}", self.fresh);
        let words = form.split(' ').map(|word| match word {
            "K" => key.as_str(),
            "L" => other.as_str(),
            "N" => fresh.as_str(),
            word => word,
        });
        Some(words.collect::<Vec<_>>().join(" "))
    }

    #[track_caller]
    fn run(&mut self, request: &str) {
        let reply = self.sim.run(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }

    /// Lets the save end and compares its file with the cut, less what was due by the end.
    #[track_caller]
    fn finish(&mut self, what: &str) {
        wait_for("the end of the save", || {
            self.step();
            (!self.is_saving()).then_some(())
        });
        let info = self.sim.run("info persistence");
        assert!(info.contains("rdb_last_bgsave_status:ok"), "{what}: {info}");
        self.sim.engine.keyspace.check();
        let now = self.sim.engine.reading.now.0;
        let mut expected = self.at_cut.clone();
        expected.retain(|_, (_, deadline)| deadline.is_none_or(|at| at > now));
        let found = saved_in(&self.dir, (now - START) as u64);
        assert_same(&found, &expected, what);
    }
}

/// What may happen to a key, one request each.
const CHANGES: &[&str] = &[
    "set K w",
    "set K w px 900000",
    "set K w keepttl",
    "set K w xx get",
    "setnx N w",
    "setex K 800 w",
    "getset K w",
    "mset K w L w N w",
    "msetnx K w N w",
    "del K L",
    "unlink K",
    "getdel K",
    "append K x",
    "append N x",
    "setrange K 1 zz",
    "expire K 5000",
    "expire K 5000 gt",
    "pexpire K 60000",
    "pexpire K 3",
    "pexpire K 0",
    "pexpireat K 1",
    "persist K",
    "getex K px 700000",
    "getex K pxat 1",
    "getex K persist",
    "rename K N",
    "rename K L",
    "rename K K",
    "renamenx K N",
    "renamenx K L",
    "copy K N",
    "copy K L replace",
    "copy K N db 1",
    "copy K L db 2 replace",
    "move K 3",
    "move K 2",
    "get K",
    "touch K",
];

#[test]
fn changes_of_keys_the_save_has_not_reached_are_not_in_it() {
    let mut saving = Saving::filled(1);
    saving.begin();
    let mut times = vec![[0; 2]; CHANGES.len()];
    while saving.is_saving() && saving.steps < 60 {
        saving.step();
        for (at, form) in CHANGES.iter().enumerate() {
            for is_pending in [false, true] {
                if let Some(request) = saving.request(form, is_pending) {
                    saving.run(&request);
                    times[at][usize::from(is_pending)] += 1;
                }
            }
        }
    }
    for (form, times) in CHANGES.iter().zip(&times) {
        assert!(times[0] > 5 && times[1] > 5, "{form}: {times:?}");
    }
    saving.finish("changes of keys");
}

#[test]
fn a_deadline_moved_lazily_is_saved_as_it_was() {
    // The index is not touched when a deadline moves back, so this is easily forgotten.
    let mut saving = Saving::filled(2);
    saving.begin();
    saving.steps(3);
    let key = saving.request("K", true).expect("most are pending");
    saving.run(&format!("pexpire {key} 1000000000"));
    assert_eq!(saving.slot_is_pending(&key), Some(false));
    saving.run(&format!("pexpire {key} 2000000000"));
    saving.run(&format!("persist {key}"));
    saving.finish("a moved deadline");
}

#[test]
fn whole_databases_may_change_places_or_go_during_a_save() {
    let scripts = [
        "swapdb 0 1",
        "swapdb 0 1|swapdb 0 1",
        "swapdb 0 1|swapdb 1 2|swapdb 0 15",
        "flushall",
        "flushall async|set k1 new|flushall",
        "flushdb",
        "select 1|flushdb|select 0|swapdb 0 1|flushall",
        "swapdb 0 1|flushdb",
        "swapdb 0 3|set k5 new|copy k5 k6 db 3 replace|select 3|del k7 k8 k9|flushdb",
        "swapdb 0 1|move k9000 3|select 1|del k5|rename k6 k7|move k8 0|move k9 4",
        "flushdb|select 1|copy k5 k5 db 0|move k6 0|select 0|set k7 new|swapdb 0 1|flushall",
    ];
    for (at, script) in scripts.iter().enumerate() {
        for steps in [0, 1 + at * 17 % 40] {
            let mut saving = Saving::filled(3);
            saving.begin();
            saving.steps(steps);
            for request in script.split('|') {
                saving.run(request);
                saving.steps(1);
            }
            saving.finish(&format!("{script} after {steps} steps"));
            // The next save sees the new state: nothing was left stamped or numbered wrongly.
            saving.begin();
            saving.finish(&format!("{script}, saved again"));
        }
    }
}

#[test]
fn the_table_may_be_rearranged_during_a_save() {
    let segments = |saving: &Saving| saving.sim.engine.keyspace.db(0).table.segments();
    // Split.
    let mut saving = Saving::filled(4);
    saving.begin();
    let before = segments(&saving);
    for i in 0..4 * KEYS {
        saving.run(&format!("set more{i} v"));
        if i % 1000 == 0 {
            saving.steps(1);
        }
    }
    assert!(segments(&saving) > before * 2, "{before}");
    saving.finish("splits");
    // Merge, of a table in which all is pending again.
    saving.begin();
    let before = segments(&saving);
    saving.steps(30);
    for i in 0..4 * KEYS {
        saving.run(&format!("del more{i} k{i}"));
        if i % 1000 == 0 {
            saving.steps(1);
        }
    }
    assert!(segments(&saving) < before / 4, "{before}");
    saving.finish("merges");
    // Shrink: what was in high buckets, not walked yet, comes to lie in low ones.
    let mut saving = Saving::new(5);
    for i in 0..1_700 {
        saving.run(&format!("set k{i} v"));
    }
    let buckets = |saving: &Saving| saving.sim.engine.keyspace.db(0).table.buckets();
    assert_eq!(segments(&saving), 1);
    let before = buckets(&saving);
    saving.begin();
    saving.steps(3);
    for i in 150..1_700 {
        saving.run(&format!("del k{i}"));
    }
    assert!(buckets(&saving) <= before / 4, "{before}");
    saving.finish("a shrunk segment");
    // Rebuild: churn at a constant number of keys fills a segment with tombstones.
    let mut saving = Saving::filled(5);
    saving.begin();
    let before = segments(&saving);
    for i in 0..12 * KEYS {
        saving.run(&format!("set churn{i} v"));
        saving.run(&format!("del churn{i}"));
        if i % 10_000 == 0 {
            saving.steps(1);
        }
    }
    assert!(segments(&saving) < before * 2, "{before}");
    saving.finish("rebuilds");
}

#[test]
fn keys_that_die_before_the_save_meets_them_are_not_in_it() {
    let mut saving = Saving::filled(6);
    // Dead at the cut already, and not removed by anybody.
    saving.sim.engine.pause_expiry(None);
    saving.sim.expect("set dead v px 1", "+OK");
    saving.sim.clock.advance_ms(1);
    saving.begin();
    saving.steps(10);
    let mut victims = Vec::new();
    while victims.len() < 40 {
        let key = saving.pick(true).expect("most are pending");
        let is_volatile = saving.at_cut[&(0, key.clone())].1.is_some();
        if is_volatile && !victims.contains(&key) {
            victims.push(key);
        }
    }
    // Some are kept for the save while they live, and die before it writes them.
    let (kept, met) = victims.split_at(10);
    for key in kept {
        saving.run(&format!("append {key} again"));
    }
    saving.sim.clock.advance_ms(700_000);
    for (i, key) in met.iter().enumerate() {
        let command = [
            "get K",
            "set K again",
            "append K again",
            "del K",
            "copy k1 K replace",
            "get k1",
        ];
        saving.run(&command[i % command.len()].replace('K', key));
    }
    saving.finish("deaths");
    // Not even for a reader whose clock shows the instant of the cut.
    let early = saved_in(&saving.dir, 0);
    assert!(!early.contains_key(&(0, "dead".to_owned())));
    for key in victims {
        assert!(!early.contains_key(&(0, key.clone())), "{key}");
    }
}

#[test]
fn bgsave_inside_a_transaction_cuts_after_it() {
    let mut saving = Saving::filled(7);
    saving.sim.script(
        "multi=>+OK
        set k1 before=>+QUEUED
        bgsave=>+QUEUED
        set k2 after=>+QUEUED
        exec=>*3 +OK +Background saving scheduled +OK",
    );
    saving.at_cut = state(&mut saving.sim);
    saving.steps(1);
    saving.run("set k3 late");
    saving.finish("a transaction");
    let (value, _) = &saving.at_cut[&(0, "k2".to_owned())];
    assert_eq!(value, "after");
}

#[test]
fn one_save_at_a_time_and_one_in_waiting() {
    let mut saving = Saving::filled(8);
    saving.begin();
    saving.steps(5);
    saving.sim.script(
        "bgsave=>{Background save already in progress}
        bgsave schedule=>+Background saving scheduled
        bgsave schedule=>+Background saving scheduled
        bgsave now=>{syntax error}
        bgsave schedule schedule=>{syntax error}",
    );
    saving.run("set k1 between");
    wait_for("the second save", || {
        saving.step();
        let saves = saving.sim.engine.jobs.persistence.saves;
        (saves == 1 && saving.is_saving()).then_some(())
    });
    saving.at_cut = state(&mut saving.sim);
    saving.finish("the scheduled save");
    saving.steps = 0;
    (0..10).for_each(|_| saving.step());
    assert_eq!(saving.sim.engine.jobs.persistence.saves, 2);
    assert!(!saving.is_saving(), "it was scheduled once");
}

#[test]
fn saving_at_once_takes_the_place_of_a_running_save() {
    for request in ["save", "debug reload", "shutdown save"] {
        let mut saving = Saving::filled(9);
        saving.begin();
        saving.steps(20);
        saving.run("set k1 late");
        saving.at_cut = state(&mut saving.sim);
        saving.run(request);
        assert!(!saving.is_saving(), "{request}");
        assert!(!saving.sim.engine.keyspace.cut.is_active, "{request}");
        assert_same(&saved_in(&saving.dir, 0), &saving.at_cut, request);
        wait_for("the temporary files to go", || {
            (saving.dir.temporary_files() == 0).then_some(())
        });
        let exits = saving.sim.engine.exit == Some(0);
        assert_eq!(exits, request == "shutdown save");
        assert_same(&state(&mut saving.sim), &saving.at_cut, request);
        // SHUTDOWN ends the client that sent it.
        saving.sim.client = saving.sim.connect();
        saving.begin();
        saving.finish(request);
    }
}

#[test]
fn ending_without_a_save_gives_a_running_one_up() {
    for request in ["shutdown nosave", "debug reload nosave"] {
        let mut saving = Saving::filled(10);
        saving.run("save");
        let before = std::fs::read(saving.dir.file("dump.mayfly")).expect("a snapshot");
        saving.run("set k1 late");
        saving.begin();
        saving.steps(20);
        saving.run(request);
        assert!(!saving.is_saving());
        wait_for("the temporary file to go", || {
            (saving.dir.temporary_files() == 0).then_some(())
        });
        let after = std::fs::read(saving.dir.file("dump.mayfly")).expect("a snapshot");
        assert!(before == after, "{request}");
    }
}

#[test]
fn a_save_that_changes_outrun_is_given_up() {
    let mut saving = Saving::filled(11);
    saving.run("set k1 old");
    saving.run("save");
    let saved_at = saving.sim.run("lastsave");
    let before = std::fs::read(saving.dir.file("dump.mayfly")).expect("a snapshot");
    saving.run("config set snapshot-backlog-limit 1mb");
    saving.sim.clock.advance_ms(5_000);
    saving.begin();
    saving.steps(2);
    for i in (0..KEYS).filter(|i| i % 100 == 0) {
        saving.run(&format!("set k{i} short"));
    }
    saving.step();
    assert!(!saving.is_saving());
    assert_eq!(saving.sim.engine.keyspace.cut.queued_bytes(), 0);
    let info = saving.sim.run("info persistence");
    assert!(info.contains("rdb_last_bgsave_status:err"), "{info}");
    assert_eq!(saving.sim.run("lastsave"), saved_at);
    wait_for("the temporary file to go", || {
        (saving.dir.temporary_files() == 0).then_some(())
    });
    let after = std::fs::read(saving.dir.file("dump.mayfly")).expect("a snapshot");
    assert!(before == after);
    saving.begin();
    saving.finish("the save after");
}

/// A save that was given up leaves its stamp on what it had reached. The stamp has eight bits, so
/// the 256th save after it would take those entries for saved.
#[track_caller]
fn after_256_failures(mut fail: impl FnMut(&mut Saving)) {
    let mut saving = Saving::new(12);
    saving.run("save");
    saving.fill();
    // Less than the setting allows, so that one change is too much.
    saving.sim.engine.config.snapshot_backlog_bytes_limit = 1;
    for nth in 0..256 {
        // While entries are restamped a save only waits.
        wait_for("the save to begin", || {
            if !saving.is_saving() {
                saving.sim.run("bgsave schedule");
                saving.step();
            }
            saving.is_saving().then_some(())
        });
        (0..if nth == 0 { 30 } else { 0 }).for_each(|_| saving.step());
        fail(&mut saving);
        assert!(!saving.is_saving());
    }
    wait_for("the restamping to end", || {
        saving.step();
        let wakeup = saving.sim.engine.jobs.persistence.wakeup_ms();
        wakeup.is_none().then_some(())
    });
    saving.sim.engine.config.snapshot_backlog_bytes_limit = 12 << 20;
    saving.begin();
    saving.finish("after many failures");
}

#[test]
fn stamps_do_not_come_round_after_many_failures() {
    after_256_failures(|saving| {
        let request = saving
            .request("set K changed", true)
            .expect("most are pending");
        saving.run(&request);
        saving.step();
    });
}

#[test]
fn stamps_do_not_come_round_after_many_saves_given_up() {
    after_256_failures(|saving| saving.run("debug reload nosave noflush"));
}

#[test]
fn random_changes_during_a_save_are_not_in_it() {
    for seed in 0..12 {
        let mut saving = Saving::filled(100 + seed);
        println!("seed {seed}");
        let shift: u32 = saving.rng.random_range(0..4);
        saving.begin();
        while saving.is_saving() {
            saving.step();
            for _ in 0..saving.rng.random_range(0..16) >> shift {
                let at = saving.rng.random_range(0..CHANGES.len() + 1);
                let is_pending = saving.rng.random_bool(0.7);
                let request = match CHANGES.get(at) {
                    Some(form) => saving.request(form, is_pending),
                    None => Some(saving.whole()),
                };
                if let Some(request) = request {
                    saving.run(&request);
                }
            }
        }
        saving.finish(&format!("seed {seed}"));
    }
}

impl Saving {
    /// A request about whole databases, rarely a flush.
    fn whole(&mut self) -> String {
        let (a, b) = (self.rng.random_range(0..2), self.rng.random_range(0..4));
        match self.rng.random_range(0..20) {
            0 => "flushdb".to_owned(),
            1 => "flushall".to_owned(),
            2..10 => format!("select {a}"),
            _ => format!("swapdb {a} {b}"),
        }
    }
}

#[test]
fn long_strings_that_grow_during_a_save_are_saved_as_they_were() {
    let mut saving = Saving::new(5);
    let long = "g".repeat(90_000);
    let keys: Vec<String> = (0..300).map(|i| format!("k{i}")).collect();
    for key in &keys {
        let reply = saving
            .sim
            .ask(&[b"append", key.as_bytes(), long.as_bytes()]);
        assert_eq!(reply, b":90000\r\n");
    }
    saving.begin();
    let mut times = [0; 2];
    while saving.is_saving() && saving.steps < 40 {
        saving.step();
        // Few at a time: what the save must keep of them counts against its limit.
        for key in keys.iter().skip(saving.steps % 60).step_by(60) {
            let is_pending = saving.slot_is_pending(key).expect("it stays");
            times[usize::from(is_pending)] += 1;
            saving.run(&format!("setrange {key} {} changed", saving.steps));
            saving.run(&format!("append {key} more"));
        }
    }
    assert!(times.iter().all(|&times| times > 0), "{times:?}");
    saving.finish("grown strings");
}

#[test]
fn pieces_that_commands_copy_count_toward_the_backlog() {
    for (hashes, is_enough) in [(200, true), (2_000, false)] {
        let dir = TempDir::new();
        let mut sim = Sim::saving_in(&dir, 1);
        let fields: String = (0..600).map(|n| format!(" field:{n} value:{n}")).collect();
        for n in 0..hashes {
            sim.expect(&format!("hset h{n}{fields}"), ":600");
        }
        sim.expect("config set snapshot-backlog-limit 12mb", "+OK");
        sim.expect("bgsave", "+Background saving started");
        for n in 0..hashes {
            sim.expect(&format!("hset h{n} field:1 other"), ":0");
        }
        let backlog = sim.engine.keyspace.cut.queued_bytes();
        assert!(backlog > hashes * 10_000, "{backlog}");
        while sim.engine.jobs.persistence.is_saving() {
            sim.advance(1);
        }
        assert_eq!(sim.engine.jobs.persistence.saves, u64::from(is_enough));
        assert_eq!(sim.engine.keyspace.cut.queued_bytes(), 0);
        if is_enough {
            let mut other = Sim::saving_in(&dir, 2);
            other.engine.load_now().expect("a snapshot");
            other.expect("hmget h7 field:1 field:2", "*2 $7 value:1 $7 value:2");
        }
    }
}
