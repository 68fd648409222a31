//! Snapshots: the round trip, and that no damage goes unnoticed.

use mayfly::snapshot::loader;

use crate::sim::{START, Sim, TempDir};

/// The bytes of the snapshot of a few keys in two databases.
fn small_file() -> Vec<u8> {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("set a 1=>+OK\nset b two px 500=>+OK\nselect 3=>+OK\nset c 3=>+OK");
    sim.engine.save_now().expect("a snapshot");
    std::fs::read(dir.file("dump.mayfly")).expect("a snapshot")
}

fn is_whole(bytes: &[u8]) -> bool {
    loader::check(bytes, bytes.len() as u64, START).is_ok()
}

#[test]
fn what_is_saved_is_loaded() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    let long = "x".repeat(60_000);
    sim.expect(&format!("set long {long}"), "+OK");
    sim.script("set n 12 px 500=>+OK\nset gone v px 1=>+OK\nset z \"\"=>+OK");
    sim.script("select 15=>+OK\nset other v=>+OK\npexpireat other 9223372036854775807=>:1\n+1");
    sim.jobs();
    sim.engine.save_now().expect("a snapshot");
    let mut other = Sim::saving_in(&dir, 2);
    other.clock.advance_ms(1);
    other.jobs();
    other.engine.load_now().expect("it loads");
    other.engine.keyspace.check();
    other.expect("get long", &format!("$60000 {long}"));
    other.script("dbsize=>:3\npttl n=>:499\nttl z=>:-1\nstrlen z=>:0\nget gone=>$-1");
    other.script("select 15=>+OK\npexpiretime other=>:9223372036854775807\ndbsize=>:1");
    other.script("select 0=>+OK\n+498\nget n=>$2 12\n+1\nget n=>$-1\ndbsize=>:2");
}

#[test]
fn keys_due_are_not_loaded() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("set a v px 10=>+OK\nset b v px 11=>+OK");
    sim.engine.save_now().expect("a snapshot");
    let mut other = Sim::saving_in(&dir, 2);
    other.clock.advance_ms(10);
    other.jobs();
    other.engine.load_now().expect("it loads");
    other.script("dbsize=>:1\nget b=>$1 v\nget a=>$-1");
}

#[test]
fn a_file_cut_short_is_refused() {
    let bytes = small_file();
    assert!(is_whole(&bytes));
    for len in 0..bytes.len() {
        assert!(!is_whole(&bytes[..len]), "cut to {len} bytes");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(!is_whole(&longer));
}

#[test]
fn a_flipped_bit_is_refused() {
    let mut bytes = small_file();
    for i in 0..bytes.len() {
        for bit in 0..8 {
            bytes[i] ^= 1 << bit;
            assert!(!is_whole(&bytes), "bit {bit} of byte {i}");
            bytes[i] ^= 1 << bit;
        }
    }
}

#[test]
fn a_save_that_fails_leaves_the_old_file() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.expect("set k v", "+OK");
    sim.engine.save_now().expect("a snapshot");
    let before = std::fs::read(dir.file("dump.mayfly")).expect("a snapshot");
    sim.engine.config.dir = dir.file("missing").display().to_string();
    sim.expect("set k w", "+OK");
    assert!(sim.engine.save_now().is_err());
    assert!(sim.run("save").starts_with("-ERR"));
    assert!(std::fs::read(dir.file("dump.mayfly")).expect("a snapshot") == before);
    sim.engine.config.dir = dir.path().display().to_string();
    sim.expect("save", "+OK");
    assert!(std::fs::read(dir.file("dump.mayfly")).expect("a snapshot") != before);
}
