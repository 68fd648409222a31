//! Every operation of the file system that a snapshot needs fails once, and then with all after it:
//! what was saved before stays, nothing is left behind, and the server goes on.

use mayfly::config::SnapshotLoad;

use crate::disk::{Fault, MemoryDisk, logged};
use crate::sim::Sim;

const FILE: &str = "/data/dump.mayfly";
const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EACCES: i32 = 13;

/// Fills a server so that its snapshot takes several chunks: of strings, of collections in one
/// part and in many, and of strings that are shared.
fn fill(sim: &mut Sim) {
    for i in 0..3_000 {
        let ttl = if i % 3 == 0 { " ex 100000" } else { "" };
        sim.run(&format!("set key:{i} {}{ttl}", "v".repeat(100 + i % 50)));
    }
    let words: Vec<String> = (0..400).map(|i| format!("member:{i:05}")).collect();
    for i in 0..20 {
        sim.run(&format!("rpush list {i} {}", words.join(" ")));
        sim.run(&format!("sadd small:{i} a b {i}"));
    }
    sim.run(&format!("sadd set {}", words.join(" ")));
    sim.run(&format!("hset hash {}", words.join(" ")));
    sim.expect("hexpire hash 1000 fields 1 member:00000", "*1 :1");
    sim.run("zadd zset 1 a 2 b");
    let long = "x".repeat(200_000);
    assert_eq!(sim.ask(&[b"set", b"long", long.as_bytes()]), b"+OK\r\n");
    assert_eq!(sim.ask(&[b"lpush", b"list", long.as_bytes()]), b":8021\r\n");
    sim.expect("select 3", "+OK");
    sim.run("set other v");
    sim.expect("select 0", "+OK");
}

/// A server with keys, saved on a disk of its own.
fn saved() -> (MemoryDisk, Sim) {
    let disk = MemoryDisk::default();
    let mut sim = Sim::saving_on(disk.clone(), 1);
    fill(&mut sim);
    sim.expect("save", "+OK");
    (disk, sim)
}

fn digest(sim: &mut Sim) -> String {
    sim.run("debug digest")
}

fn load(sim: &mut Sim) {
    while sim.engine.jobs.is_loading() {
        sim.jobs();
    }
}

/// What a server that starts on this disk holds.
#[track_caller]
fn loaded(disk: &MemoryDisk) -> String {
    let mut sim = Sim::saving_on(disk.clone(), 2);
    sim.engine.begin_load().expect("the header is whole");
    load(&mut sim);
    assert_eq!(sim.engine.exit, None, "it is whole");
    sim.engine.keyspace.check();
    digest(&mut sim)
}

/// The ways to save.
#[derive(Clone, Copy, Debug)]
enum Save {
    AtOnce,
    InBackground,
    AtTheEnd,
}

impl Save {
    /// Saves; true if that is said to have succeeded.
    #[track_caller]
    fn run(self, sim: &mut Sim) -> bool {
        match self {
            Save::AtOnce => {
                let reply = sim.run("save");
                let failed = "-ERR saving the snapshot failed: ";
                assert!(reply == "+OK" || reply.starts_with(failed), "{reply}");
                reply == "+OK"
            }
            Save::InBackground => {
                sim.expect("bgsave", "+Background saving started");
                while sim.engine.jobs.persistence.is_saving() {
                    sim.jobs();
                    std::thread::yield_now();
                }
                sim.engine.jobs.persistence.is_last_ok
            }
            Save::AtTheEnd => {
                let client = sim.connect();
                let reply = sim.run_as(client, "shutdown save");
                let exit = sim.engine.exit.take();
                let refusal = "-ERR Errors trying to SHUTDOWN. Check logs.";
                assert_eq!(reply, if exit.is_some() { "" } else { refusal });
                exit == Some(0)
            }
        }
    }
}

/// Changes something and saves while operations fail, again and again with a later one, until the
/// fault comes after the last.
fn fail_saves(save: Save, fault: impl Fn(usize) -> Fault) {
    let (disk, mut sim) = saved();
    for round in 1.. {
        let fault = fault(round);
        let place = format!("{save:?} with {fault:?}");
        sim.script("select 0=>+OK");
        sim.expect(&format!("set round {round}"), "+OK");
        sim.clock.advance_ms(1_000);
        sim.jobs();
        let (before, last_save) = (disk.bytes(FILE), sim.run("lastsave"));
        logged();
        disk.fail(fault);
        let is_saved = save.run(&mut sim);
        let operations = disk.heal();
        let log = logged();
        let Some(failed) = operations.get(fault.nth - 1) else {
            assert!(is_saved, "{place}");
            assert!(round > 20, "{place}: {operations:?}");
            return;
        };
        let place = format!("{place}, {failed}");
        // Looking for files left by others is not worth a failure.
        let is_harmless = *failed == "files" && !fault.lasts;
        assert_eq!(is_saved, is_harmless, "{place}");
        let info = sim.run("info persistence");
        if !is_saved {
            let error = std::io::Error::from_raw_os_error(fault.errno).to_string();
            assert!(
                log.contains("Saving the snapshot failed: "),
                "{place}: {log}"
            );
            assert!(log.contains(&error), "{place}: {log}");
            assert!(info.contains("rdb_last_bgsave_status:err "), "{place}");
            assert!(!info.contains("rdb_changes_since_last_save:0 "), "{place}");
            assert_eq!(sim.run("lastsave"), last_save, "{place}");
            // The new file has the name when only the directory remains to be synced.
            let is_same = disk.bytes(FILE) == before;
            assert_eq!(is_same, *failed != "sync_directory", "{place}");
        }
        let unfinished = disk.names_with(".tmp.").len();
        let longest = usize::from(fault.lasts);
        assert!(unfinished <= longest, "{place}: {unfinished} left");
        // It goes on.
        sim.engine.keyspace.check();
        sim.expect(
            "get round",
            &format!("${} {round}", round.to_string().len()),
        );
        assert!(save.run(&mut sim), "{place}");
        assert_eq!(disk.names_with(""), [FILE], "{place}");
        assert_eq!(loaded(&disk), digest(&mut sim), "{place}");
        let info = sim.run("info persistence");
        assert!(info.contains("rdb_last_bgsave_status:ok "), "{place}");
    }
}

#[test]
fn any_operation_of_a_save_may_fail_once() {
    for (save, errno) in [
        (Save::AtOnce, EIO),
        (Save::InBackground, ENOSPC),
        (Save::InBackground, EACCES),
        (Save::AtTheEnd, EIO),
    ] {
        fail_saves(save, |nth| Fault::once(nth, errno));
    }
}

#[test]
fn all_operations_of_a_save_may_fail_from_any_on() {
    for (save, errno) in [
        (Save::AtOnce, EACCES),
        (Save::InBackground, EIO),
        (Save::AtTheEnd, ENOSPC),
    ] {
        fail_saves(save, |nth| Fault::lasting(nth, errno));
    }
}

#[test]
fn any_write_may_be_short_before_the_next_fails() {
    for (save, lasts) in [(Save::AtOnce, true), (Save::InBackground, false)] {
        fail_saves(save, |nth| Fault {
            nth,
            errno: ENOSPC,
            lasts,
            shortens: true,
        });
    }
}

#[test]
fn a_failed_sync_amid_a_large_file_fails_the_save() {
    let (disk, mut sim) = saved();
    sim.expect("debug populate 80 large 500000", "+OK");
    disk.fail(Fault::once(usize::MAX, EIO));
    assert!(Save::AtOnce.run(&mut sim));
    let operations = disk.heal();
    let syncs = operations.iter().filter(|name| **name == "sync").count();
    assert!(
        syncs > 1,
        "one for each 32 MiB, and one at the end: {syncs}"
    );
    let first = operations.iter().position(|name| *name == "sync");
    let before = disk.bytes(FILE);
    disk.fail(Fault::once(1 + first.expect("a sync"), EIO));
    assert!(!Save::InBackground.run(&mut sim));
    disk.heal();
    assert!(disk.bytes(FILE) == before);
    assert_eq!(disk.names_with(""), [FILE]);
}

#[test]
fn shutdown_force_ends_a_server_whose_disk_fails() {
    let (disk, mut sim) = saved();
    let before = disk.bytes(FILE);
    sim.expect("set k new", "+OK");
    disk.fail(Fault::lasting(1, EIO));
    assert!(!Save::AtTheEnd.run(&mut sim));
    let client = sim.connect();
    assert_eq!(sim.run_as(client, "shutdown save force"), "");
    assert_eq!(sim.engine.exit, Some(0));
    assert!(disk.bytes(FILE) == before);
}

#[test]
fn save_points_try_again_until_the_disk_works() {
    let (disk, mut sim) = saved();
    sim.script("config set save \"1 1\"=>+OK\nset k new=>+OK");
    disk.fail(Fault::lasting(1, ENOSPC));
    // Each second for an hour; the server waits longer and longer between its tries.
    let seconds = |sim: &mut Sim, count: usize| {
        for _ in 0..count {
            sim.advance(1_000);
            while sim.engine.jobs.persistence.is_saving() {
                sim.jobs();
                std::thread::yield_now();
            }
        }
    };
    seconds(&mut sim, 3_600);
    let info = sim.run("info persistence");
    assert!(info.contains("rdb_last_bgsave_status:err "), "{info}");
    let tries = disk.heal().len();
    assert!((10..100).contains(&tries), "{tries}");
    seconds(&mut sim, 600);
    let info = sim.run("info persistence");
    assert!(info.contains("rdb_last_bgsave_status:ok "), "{info}");
    assert_eq!(disk.names_with(""), [FILE]);
    assert_eq!(loaded(&disk), digest(&mut sim));
}

#[test]
fn a_flush_is_not_refused_when_its_save_fails() {
    let (disk, mut sim) = saved();
    let before = digest(&mut sim);
    disk.fail(Fault::lasting(1, EIO));
    sim.script("flushall=>+OK\ndbsize=>:0");
    disk.heal();
    assert_eq!(loaded(&disk), before);
    sim.expect("save", "+OK");
    assert_eq!(loaded(&disk), digest(&mut sim));
}

#[test]
fn any_operation_of_a_load_may_fail() {
    let (disk, mut saving) = saved();
    let (before, expected) = (disk.bytes(FILE), digest(&mut saving));
    for mode in [SnapshotLoad::Strict, SnapshotLoad::Partial] {
        for errno in [EIO, EACCES] {
            let error = std::io::Error::from_raw_os_error(errno).to_string();
            for nth in 1.. {
                let mut sim = Sim::saving_on(disk.clone(), 2);
                sim.engine.config.snapshot_load = mode;
                logged();
                disk.fail(Fault::once(nth, errno));
                let begun = sim.engine.begin_load().map_err(|error| error.to_string());
                load(&mut sim);
                let operations = disk.heal();
                let log = logged();
                assert!(disk.bytes(FILE) == before, "the file is left as it is");
                assert_eq!(disk.names_with(""), [FILE]);
                let Some(failed) = operations.get(nth - 1) else {
                    assert!(nth > 10, "{operations:?}");
                    break;
                };
                let place = format!("{mode:?}, operation {nth}, {failed}: {log}");
                if matches!(*failed, "files" | "check_writable") {
                    assert_eq!(digest(&mut sim), expected, "{place}");
                } else if let Err(text) = begun {
                    // The start ends with this text and the file's name.
                    assert_eq!(text, error, "{place}");
                } else {
                    assert_eq!(sim.engine.exit, Some(1), "{place}");
                    let wanted = format!(
                        "Fatal: the snapshot {FILE} cannot be read: {error}. It was left as it is."
                    );
                    assert!(log.contains(&wanted), "{place}");
                    assert!(!log.contains("damaged"), "{place}");
                }
            }
        }
    }
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_data_or_the_new() {
    let (disk, mut sim) = saved();
    let old = digest(&mut sim);
    for nth in 1.. {
        let copy = disk.copy();
        let mut sim = Sim::saving_on(copy.clone(), 1);
        sim.engine.load_now().expect("it is whole");
        sim.script("set k new=>+OK\ndel list=>:1\nsadd set new=>:1");
        let new = digest(&mut sim);
        copy.fail(Fault::lasting(nth, EIO));
        let is_saved = Save::AtOnce.run(&mut sim);
        let is_over = copy.heal().len() < nth;
        assert_eq!(is_saved, is_over);
        let mut found = Vec::new();
        for image in copy.images() {
            let digest = loaded(&image);
            assert!(digest == old || digest == new, "operation {nth}");
            // What the start leaves is what it loaded, and the next save works.
            assert_eq!(image.names_with(""), [FILE], "operation {nth}");
            found.push(digest);
        }
        if is_over {
            assert!(found.iter().all(|digest| *digest == new));
            return;
        }
    }
}

/// The bytes of a snapshot with damage in one chunk.
fn damaged_snapshot() -> Vec<u8> {
    let (disk, _) = saved();
    let mut bytes = disk.bytes(FILE).expect("a snapshot");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    bytes
}

/// A disk with such a snapshot, and a server that has loaded what is whole of it.
fn partly_loaded(bytes: &[u8]) -> (MemoryDisk, Sim) {
    let disk = MemoryDisk::default();
    disk.put(FILE, bytes);
    let mut sim = Sim::saving_on(disk.clone(), 3);
    sim.engine.config.snapshot_load = SnapshotLoad::Partial;
    assert!(sim.engine.begin_load().expect("the header is whole"));
    load(&mut sim);
    assert_eq!(sim.engine.jobs.persistence.loaded.lost_chunks, 1);
    (disk, sim)
}

/// Saves over a snapshot that was loaded in part, with a fault at each operation in turn: it is
/// there before and after, under one name, and a crash finds it as well.
fn fail_saves_over_a_part(has_links: bool, fault: impl Fn(usize) -> Fault) {
    let aside = format!("{FILE}.partly-loaded-1");
    let damaged = damaged_snapshot();
    for nth in 1.. {
        let (disk, mut sim) = partly_loaded(&damaged);
        if !has_links {
            disk.refuse_links();
        }
        disk.fail(fault(nth));
        let is_saved = Save::InBackground.run(&mut sim);
        let operations = disk.heal();
        let place = format!("{:?}: {operations:?}", fault(nth));
        for image in disk.images() {
            let names = image.names_with("dump.mayfly");
            assert!(names.iter().any(|name| name == FILE), "{place}: {names:?}");
            let is_kept = names
                .iter()
                .any(|name| image.bytes(name) == Some(damaged.clone()));
            assert!(is_kept, "{place}: {names:?}");
        }
        let is_set_aside = disk.bytes(&aside) == Some(damaged.clone());
        if !fault(nth).lasts {
            let is_replaced = disk.bytes(FILE) != Some(damaged.clone());
            assert_eq!(is_set_aside, is_replaced, "{place}");
        }
        assert!(Save::AtOnce.run(&mut sim), "{place}");
        sim.expect("set later v", "+OK");
        assert!(Save::InBackground.run(&mut sim), "{place}");
        let asides = disk.names_with(".partly-loaded-");
        let mut kept = asides.iter().map(|name| disk.bytes(name));
        assert!(kept.any(|bytes| bytes == Some(damaged.clone())), "{place}");
        assert_eq!(loaded(&disk), digest(&mut sim), "{place}");
        // Where the disk fails on, a second name or a copy may stay that should have gone.
        let most = 1 + usize::from(fault(nth).lasts);
        assert!(asides.len() <= most, "{place}: {asides:?}");
        assert_eq!(disk.names_with("").len(), 1 + asides.len(), "{place}");
        if nth > operations.len() {
            assert!(is_saved, "{place}");
            return;
        }
    }
}

#[test]
fn what_was_loaded_in_part_is_kept_once_whatever_fails() {
    for has_links in [true, false] {
        fail_saves_over_a_part(has_links, |nth| Fault::once(nth, EIO));
        fail_saves_over_a_part(has_links, |nth| Fault::lasting(nth, ENOSPC));
    }
}
