//! Bits of strings, and HyperLogLogs, which are strings of a form.

use mayfly::config::Permission;

use crate::sim::{Sim, TempDir};

const OFFSET: &str = "{bit offset is not an integer or out of range}";

#[test]
fn bits_are_set_and_read() {
    let mut sim = Sim::new();
    sim.script(&format!(
        "setbit k -1 1                    => {OFFSET}
        setbit k 4294967296 1            => {OFFSET}
        getbit k 4294967296              => {OFFSET}
        setbit k 0 2                     => {{bit is not an integer or out of range}}
        setbit k 7 1                     => :0
        setbit k 7 1                     => :1
        get k                            => $1 \u{1}
        setbit k 7 0                     => :1
        getbit k 100                     => :0
        getbit nokey 4294967295          => :0
        exists nokey                     => :0
        setbit k 4294967295 1            => :0
        strlen k                         => :536870912
        del k                            => :1
        rpush l a                        => :1
        setbit l 0 1                     => -WRONGTYPE Operation against a key holding the \
         wrong kind of value
        set n 12345 px 100               => +OK
        setbit n 2 0                     => :1
        get n                            => $5 \u{11}2345
        pttl n                           => :100
        config set proto-max-bulk-len 1mb => +OK
        setbit m 8388607 1               => :0
        setbit m 8388608 1               => {OFFSET}
        getbit m 8388608                 => {OFFSET}
        bitfield m get u8 8388608        => {OFFSET}
        bitfield m get u8 #-1            => {OFFSET}
        bitfield m incrby u8 #1048576 1  => {OFFSET}
        strlen m                         => :1048576"
    ));
}

#[test]
fn bits_are_counted_and_found() {
    let mut sim = Sim::new();
    sim.script(
        "set s foobar                 => +OK
        bitcount s                   => :26
        bitcount s 1 1               => :6
        bitcount s 5 30 bit          => :17
        bitcount s -2 -100           => :0
        bitcount s 0                 => {syntax error}
        bitcount nokey 0 a           => {value is not an integer or out of range}
        bitpos s 1 2                 => :17
        bitpos s 1 7 15 bit          => :9
        bitpos s 2                   => {The bit argument must be 1 or 0.}
        bitpos nokey 0               => :0
        bitpos nokey 1               => :-1
        bitfield ff set u24 0 16777215 => *1 :0
        bitpos ff 0                  => :24
        bitpos ff 0 0 -1             => :-1
        bitpos ff 0 5                => :-1
        bitpos ff 0 1 x foo          => {syntax error}
        bitpos ff 0 x 1 foo          => {value is not an integer or out of range}
        bitpos ff 0 1 x bit          => {value is not an integer or out of range}
        bitcount ff 1 x foo          => {value is not an integer or out of range}",
    );
}

#[test]
fn strings_are_combined() {
    let mut sim = Sim::new();
    sim.script(
        "set a foobar                  => +OK
        set b foo                     => +OK
        set d old px 100              => +OK
        bitop and d a b               => :6
        getrange d 0 2                => $3 foo
        bitcount d 3 5                => :0
        pttl d                        => :-1
        set n 5                       => +OK
        bitop or d n                  => :1
        object encoding d             => $3 raw
        bitop or d a nokey            => :6
        get d                         => $6 foobar
        bitop diff d a b              => :6
        getrange d 3 5                => $3 bar
        bitop one d a b               => :6
        bitcount d 0 2                => :0
        bitop and d nokey             => :0
        exists d                      => :0
        bitop not d a b               => {BITOP NOT must be called with a single source key.}
        bitop diff d a                => {BITOP DIFF must be called with at least two source keys.}
        bitop nand d a                => {syntax error}",
    );
}

#[test]
fn integers_of_any_width_are_read_and_written() {
    let mut sim = Sim::new();
    sim.script(
        "bitfield b                                        => *0
        bitfield b set u8 0 255 get u8 0 get i8 0 get u4 2 => *4 :0 :255 :-1 :15
        bitfield b incrby u8 #1 10 incrby u8 #1 -20        => *2 :10 :246
        bitfield b overflow fail incrby u8 0 300           => *1 $-1
        bitfield b overflow sat incrby u8 0 -300 get u8 0  => *2 :0 :0
        bitfield b get u64 0  => {Invalid bitfield type. Use something \
         like i16 u8. Note that u64 is not supported but i64 is.}
        bitfield b overflow foo                            => {Invalid OVERFLOW type specified}
        bitfield_ro b set u8 0 1        => {BITFIELD_RO only supports the GET subcommand}
        bitfield nokey get u8 0                            => *1 :0
        exists nokey                                       => :0",
    );
    let keys = sim.run("command getkeysandflags bitfield b get u8 0");
    assert_eq!(keys, "*1 *2 $1 b *2 +RO +access");
}

#[test]
fn different_elements_are_counted() {
    let mut sim = Sim::new();
    let corrupted = "-INVALIDOBJ Corrupted HLL object detected";
    sim.script(&format!(
        "pfadd h a b c        => :1
        pfadd h a b          => :0
        pfdebug encoding h   => +sparse
        pfdebug decode h     => $44 Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603
        pfcount h            => :3
        pfadd e              => :1
        pfadd e              => :0
        pfcount e nokey h    => :3
        pfmerge m h e        => +OK
        pfcount m            => :3
        pfdebug todense m    => :1
        pfdebug todense m    => :0
        pfdebug decode m     => {{HLL encoding is not sparse}}
        strlen m             => :12304
        pfcount m            => :3
        setrange h 16 x      => :27
        pfcount h m          => {corrupted}
        set s text           => +OK
        pfadd s a            => -WRONGTYPE Key is not a valid HyperLogLog string value.
        pfselftest           => +OK"
    ));
}

#[test]
fn what_only_begins_as_a_hyperloglog_is_refused() {
    const NONE: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n";
    const DAMAGED: &str = "-INVALIDOBJ Corrupted HLL object detected\r\n";
    let with = |head: &[u8], rest: &[u8]| {
        let header = [b"HYLL", head, &[0; 10], b"\x80"].concat();
        [&header[..], rest].concat()
    };
    let sparse = |runs: &[u8]| with(b"\x01", runs);
    let cases: [(&str, Vec<u8>); 13] = [
        (NONE, b"HYL".to_vec()),
        (NONE, b"HYLL\x01\0\0\0".to_vec()),
        (NONE, with(b"\x02", b"\x7f\xff")),
        (NONE, with(b"\0", &[0; 12_287])),
        (NONE, with(b"\0", &[0; 12_289])),
        (DAMAGED, sparse(b"")),
        // A run that is cut off, and too few or too many registers.
        (DAMAGED, sparse(b"\x7f")),
        (DAMAGED, sparse(b"\x7f\xfe")),
        (DAMAGED, sparse(b"\x7f\xff\0")),
        (DAMAGED, sparse(&b"\x7f\xff".repeat(100_000))),
        (DAMAGED, sparse(&[0xff; 4_095])),
        (DAMAGED, sparse(&[0x80; 16_385])),
        (DAMAGED, sparse(&[0; 255])),
    ];
    for (reply, bytes) in cases {
        let mut sim = Sim::new();
        sim.ask(&[b"SET", b"h", &bytes]);
        sim.run("pfadd ok a b");
        for request in [
            "PFCOUNT h",
            "PFCOUNT ok h",
            "PFMERGE h ok",
            "PFMERGE new ok h",
            "PFDEBUG TODENSE h",
        ] {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            assert_eq!(
                String::from_utf8_lossy(&sim.ask(&words)),
                reply,
                "{request}"
            );
        }
        let same = [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
        assert_eq!(sim.ask(&[b"GET", b"h"]), same);
        sim.expect("exists new", ":0");
    }
    // Whatever an element falls on.
    let mut sim = Sim::new();
    sim.ask(&[b"SET", b"h", &sparse(b"")]);
    sim.expect("pfadd h a", DAMAGED.trim_end());
}

#[test]
fn a_noted_count_is_saved_and_a_save_shows_what_was() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.config.debug_command = Permission::Yes;
    sim.run("pfadd h a b c");
    sim.run("setbit k 70000 1");
    sim.expect("bgsave", "+Background saving started");
    sim.run("pfadd h d");
    sim.run("setbit k 1 1");
    while sim.engine.jobs.persistence.is_saving() {
        sim.jobs();
    }
    sim.script("debug reload nosave=>+OK\npfcount h=>:3\ngetbit k 1=>:0\ngetbit k 70000=>:1");
}
