//! Libraries of functions in snapshots.

use mayfly::config::Permission;
use mayfly::engine::Engine;

use crate::sim::{Sim, TempDir};

const LIBRARY: &str = "#!lua name=lib
redis.register_function('f', function(keys, args) return args[1] end)
redis.register_function{function_name='g', callback=function() return 7 end,
    flags={'no-writes'}, description='seven'}";

fn load(sim: &mut Sim, code: &str) -> String {
    let reply = sim.ask(&[b"function", b"load", code.as_bytes()]);
    String::from_utf8_lossy(&reply).into_owned()
}

fn saving_in(dir: &TempDir) -> Sim {
    let mut sim = Sim::saving_in(dir, 1);
    sim.engine.config.debug_command = Permission::Yes;
    sim
}

#[test]
fn libraries_are_part_of_every_snapshot() {
    let dir = TempDir::new();
    let mut sim = saving_in(&dir);
    assert_eq!(load(&mut sim, LIBRARY), "$3\r\nlib\r\n");
    let big = format!(
        "#!lua name=big\n--{}\nredis.register_function('h', function() return 1 end)",
        "x".repeat(5_000_000)
    );
    assert_eq!(load(&mut sim, &big), "$3\r\nbig\r\n");
    sim.expect("set k v", "+OK");
    let before = sim.run("function list withcode");
    for save in ["save", "bgsave"] {
        sim.run(save);
        while sim.engine.jobs.persistence.is_saving() {
            sim.jobs();
        }
        // What comes after the cut is in none of them.
        load(
            &mut sim,
            "#!lua name=late\nredis.register_function('late', function() end)",
        );
        let mut other = saving_in(&dir);
        other.engine.load_now().expect("it loads");
        assert_eq!(other.run("function list withcode"), before);
        other.script("fcall f 0 word=>$4 word\nfcall_ro g 0=>:7\nfcall h 0=>:1\nget k=>$1 v");
        sim.expect("function delete late", "+OK");
    }
    sim.expect("debug reload", "+OK");
    assert_eq!(sim.run("function list withcode"), before);
    sim.expect("fcall g 0", ":7");
    // A file without any takes away those that are there.
    sim.script("function flush=>+OK\nsave=>+OK");
    load(&mut sim, LIBRARY);
    sim.script("debug reload nosave=>+OK\nfunction list=>*0\nget k=>$1 v");
    sim.run("fcall f 0 word");
}

#[test]
fn a_library_that_cannot_be_loaded_is_kept_for_the_next_snapshot() {
    let dir = TempDir::new();
    let mut sim = saving_in(&dir);
    load(&mut sim, LIBRARY);
    sim.expect("save", "+OK");
    let lost = |engine: &mut Engine| {
        let texts: Vec<Vec<u8>> = engine.scripts.library_texts().map(<[u8]>::to_vec).collect();
        engine
            .scripts
            .restore_libraries([texts, vec![b"#!other name=x\ncode".to_vec()]].concat())
    };
    assert_eq!(lost(&mut sim.engine), 1);
    sim.script("fcall g 0=>:7\nsave=>+OK");
    let mut other = saving_in(&dir);
    other.engine.load_now().expect("it loads");
    other.expect("fcall g 0", ":7");
    let texts: Vec<&[u8]> = other.engine.scripts.library_texts().collect();
    assert_eq!(texts, [LIBRARY.as_bytes(), b"#!other name=x\ncode"]);
}

#[test]
fn flushing_all_keys_leaves_the_libraries() {
    let mut sim = Sim::new();
    load(&mut sim, LIBRARY);
    sim.script("set k v=>+OK\nflushall=>+OK\nfcall g 0=>:7");
    sim.expect("script flush", "+OK");
    sim.expect("fcall g 0", ":7");
}

#[test]
fn a_reload_without_a_flush_merges_libraries_if_it_may() {
    let dir = TempDir::new();
    let mut sim = saving_in(&dir);
    load(&mut sim, LIBRARY);
    let refused = sim.run("debug reload noflush");
    assert!(
        refused.contains("Library 'lib' already exists"),
        "{refused}"
    );
    load(
        &mut sim,
        "#!lua name=late\nredis.register_function('late', function() end)",
    );
    sim.script("debug reload nosave noflush merge=>+OK\nfcall g 0=>:7\nfcall late 0=>$-1");
}

#[test]
fn what_libraries_take_in_the_interpreter_is_told_apart() {
    let mut sim = Sim::new();
    let figure = |sim: &mut Sim, name: &str| {
        let text = sim.run("info memory");
        let (_, rest) = text.split_once(&format!("{name}:")).expect("the field");
        let number = rest.split(' ').next().expect("a number");
        number.parse::<u64>().expect("a number")
    };
    sim.run("eval \"return 1\" 0");
    assert_eq!(figure(&mut sim, "used_memory_vm_functions"), 0);
    for i in 0..50 {
        let code = format!(
            "#!lua name=lib{i}\nlocal t = {{}} for i = 1, 100 do t[i] = i .. 'x' end \
             redis.register_function('f{i}', function() return #t end)"
        );
        sim.ask(&[b"function", b"load", code.as_bytes()]);
    }
    let functions = figure(&mut sim, "used_memory_vm_functions");
    assert!(functions > 50 * 2_000, "{functions}");
    let eval = figure(&mut sim, "used_memory_vm_eval");
    assert_eq!(functions + eval, figure(&mut sim, "used_memory_lua"));
    sim.expect("function flush async", "+OK");
    assert_eq!(figure(&mut sim, "used_memory_vm_functions"), 0);
}
