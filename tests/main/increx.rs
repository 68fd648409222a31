//! Transcripts of INCREX and MSETEX, which Redis has from 8.8 and 8.4 on.

use crate::fill;
use crate::sim::{START, Sim};

#[test]
fn increx_adds_whole_numbers() {
    Sim::new().script(
        "
        increx k => *2 :1 :1
        increx k byint 5 => *2 :6 :5
        increx k BYINT -10 => *2 :-4 :-10
        increx k byint 0 => *2 :-4 :0
        get k => $2 -4
        object encoding k => $3 int
        set k 9223372036854775800 => +OK
        increx k byint 9223372036854775800 => *2 :9223372036854775800 :0
        increx k byint 9223372036854775800 saturate => *2 :9223372036854775807 :7
        set k -9223372036854775800 => +OK
        increx k byint -9223372036854775800 saturate => *2 :-9223372036854775808 :-8
        set k 9223372036854775807 => +OK
        increx k ubound -9223372036854775808 saturate => {applied increment would overflow}
        get k => $19 9223372036854775807
        ",
    );
}

#[test]
fn increx_keeps_whole_numbers_within_bounds() {
    Sim::new().script(
        "
        set k 50 => +OK
        increx k byint 100 ubound 80 => *2 :50 :0
        increx k byint 100 ubound 80 saturate => *2 :80 :30
        increx k byint -100 lbound 0 => *2 :80 :0
        increx k saturate lbound 0 byint -100 => *2 :0 :-80
        increx k byint 10 lbound 0 ubound 10 => *2 :10 :10
        increx k lbound 0 ubound 10 => *2 :10 :0
        increx k byint -10 lbound 0 ubound 10 => *2 :0 :-10
        set k 50 => +OK
        increx k byint 5 ubound 30 => *2 :50 :0
        increx k byint -5 ubound 30 => *2 :50 :0
        increx k byint 5 ubound 30 saturate => *2 :30 :-20
        set k 50 => +OK
        increx k byint -25 ubound 30 => *2 :25 :-25
        increx k byint -5 lbound 40 saturate => *2 :40 :15
        increx new byint 5 lbound 10 => *2 :0 :0
        increx new ubound 0 => *2 :0 :0
        exists new => :0
        increx new ubound 0 saturate => *2 :0 :0
        get new => $1 0
        del new => :1
        increx new byint 5 lbound 10 saturate => *2 :10 :10
        ",
    );
}

#[test]
fn increx_adds_numbers_with_fractions_within_bounds() {
    Sim::new().script(
        "
        set k 1.5 => +OK
        increx k byfloat 0.25 => *2 $4 1.75 $4 0.25
        increx k byfloat 1 => *2 $4 2.75 $1 1
        increx k byint 1 => {value is not an integer or out of range}
        increx new byfloat 0.1 => *2 $3 0.1 $3 0.1
        increx new byfloat 0.2 => *2 $3 0.3 $3 0.2
        set k 10 => +OK
        increx k byfloat 100 ubound 42.5 => *2 $2 10 $1 0
        increx k byfloat 100 ubound 42.5 saturate => *2 $4 42.5 $4 32.5
        increx k byfloat -100 lbound -5.5 saturate => *2 $4 -5.5 $3 -48
        set k 50.5 => +OK
        increx k byfloat 5.5 ubound 30 => *2 $4 50.5 $1 0
        increx k byfloat 5.5 ubound 30 saturate => *2 $2 30 $5 -20.5
        increx k byfloat 1 ubound inf lbound -inf => *2 $2 31 $1 1
        increx k byfloat 1 lbound inf ubound inf => *2 $2 31 $1 0
        increx k byfloat 1 lbound inf ubound inf saturate => {applied increment would be Infinity}
        increx k byfloat 1 lbound -inf ubound -inf => *2 $2 31 $1 0
        increx none byfloat -0.5 ubound -1.5 => *2 $1 0 $1 0
        exists none => :0
        set k 10.0 => +OK
        increx k byfloat 5 ubound 11 => *2 $2 10 $1 0
        get k => $4 10.0
        ",
    );
}

/// The largest numbers that are finite, of 4,933 digits.
#[test]
fn increx_stops_at_the_largest_number() {
    let mut sim = Sim::new();
    sim.run("set k 1e4932");
    let kept = sim.run("increx k byfloat 1e4932");
    assert!(kept.ends_with(" $1 0"), "{}", &kept[kept.len() - 20..]);
    let saturated = sim.run("increx k byfloat 1e4932 saturate");
    assert!(saturated.starts_with("*2 $4933 118973149535723176502126385303097020516"));
    let kept = sim.run("increx k byfloat 1e4932 ubound inf");
    assert!(kept.ends_with(" $1 0"));
    sim.run("set k -1e4932");
    let saturated = sim.run("increx k byfloat -1e4932 saturate lbound -inf");
    assert!(saturated.starts_with("*2 $4934 -118973149535723176502126385303097020516"));
    sim.expect(
        "increx k byfloat 1 lbound 1e4932 saturate",
        "-ERR applied increment would be Infinity",
    );
}

#[test]
fn increx_answers_doubles_in_resp3() {
    let mut sim = Sim::new();
    sim.run("hello 3");
    sim.script(
        "
        increx k byfloat 2.5 => *2 ,2.5 ,2.5
        increx k byfloat 1 ubound 2 => *2 ,2.5 ,0
        increx n byint 5 => *2 :5 :5
        ",
    );
}

#[test]
fn increx_refuses_options_that_make_no_sense() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    for options in [
        "foo",
        "byint 1 foo",
        "byint",
        "lbound",
        "ubound",
        "ex",
        "byint 1 byfloat 1.5",
        "byfloat 1.5 byint 1",
        "byint 1 byint 2",
        "byfloat 1 byfloat 2",
        "lbound 0 lbound 1",
        "ubound 9 ubound 8",
        "saturate saturate",
        "ex 10 px 5000",
        "ex 10 ex 20",
        "pxat 1 pxat 2",
        "ex 10 persist",
        "persist ex 10",
        "persist persist",
        "persist enx",
        "enx persist",
        "enx enx ex 10",
    ] {
        sim.expect(&format!("increx k {options}"), "-ERR syntax error");
    }
    sim.script(
        "
        increx => {wrong number of arguments for 'increx' command}
        increx k enx => {ENX flag requires an expiration}
        increx k byint abc => {Increment is not an integer or out of range}
        increx k byint 1.5 => {Increment is not an integer or out of range}
        increx k byfloat abc => {Increment is not a valid float}
        increx k byfloat nan => {Increment is not a valid float}
        increx k byfloat +inf => {BYFLOAT increment cannot be Infinity}
        increx k byfloat -inf => {BYFLOAT increment cannot be Infinity}
        increx k lbound 1.5 => {LBOUND is not an integer or out of range}
        increx k ubound inf => {UBOUND is not an integer or out of range}
        increx k byfloat 1 lbound abc => {LBOUND is not a valid float}
        increx k byfloat 1 ubound abc => {UBOUND is not a valid float}
        increx k lbound 10 ubound 5 => {LBOUND can't be greater than UBOUND}
        increx k byfloat 1 lbound 10.5 ubound 1.5 => {LBOUND can't be greater than UBOUND}
        increx k byfloat 1 ubound -inf => {LBOUND can't be greater than UBOUND}
        increx k byfloat 1 lbound inf => {LBOUND can't be greater than UBOUND}
        increx k ex 0 => {invalid expire time in 'increx' command}
        increx k px -1 => {invalid expire time in 'increx' command}
        increx k ex 9223372036854775807 => {invalid expire time in 'increx' command}
        increx k ex x => {value is not an integer or out of range}
        exists k => :0
        set k hello => +OK
        increx k => {value is not an integer or out of range}
        increx k byfloat 1 => {value is not a valid float}
        set k inf => +OK
        increx k byfloat 1 => {value cannot be Infinity}
        get k => $3 inf
        increx l => -WRONGTYPE Operation against a key holding the wrong kind of value
        increx l byfloat 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        ",
    );
}

#[test]
fn increx_changes_the_deadline_with_the_number() {
    Sim::new().script(
        "
        increx k px 100 => *2 :1 :1
        pttl k => :100
        +1
        increx k => *2 :2 :1
        pttl k => :99
        increx k ex 2 => *2 :3 :1
        pttl k => :2000
        increx k px 5 enx => *2 :4 :1
        pttl k => :2000
        increx k ubound 4 px 5 => *2 :4 :0
        increx k ubound 4 persist => *2 :4 :0
        pttl k => :2000
        increx k ubound 4 px 50 saturate => *2 :4 :0
        pttl k => :50
        increx k persist => *2 :5 :1
        pttl k => :-1
        increx k exat 1700000001 enx => *2 :6 :1
        pttl k => :999
        increx k exat 1 enx => *2 :7 :1
        pttl k => :999
        increx k pxat 1700000000001 => *2 :8 :1
        exists k => :0
        increx none exat 1 => *2 :1 :1
        exists none => :0
        increx k byfloat 1.5 px 1 => *2 $3 1.5 $3 1.5
        +1
        increx k ubound 1 px 10 enx => *2 :1 :1
        increx k ubound 1 px 10 enx => *2 :1 :0
        +10
        increx k ubound 1 px 10 enx => *2 :1 :1
        ",
    );
}

/// The events a request leads to, in order, each with its key.
pub fn events(sim: &mut Sim, request: &str) -> String {
    sim.run("config set notify-keyspace-events KEA");
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent@0__:*");
    sim.run(request);
    let told = sim.received(listener);
    sim.run_as(listener, "punsubscribe");
    let words: Vec<&str> = told.split(' ').collect();
    // *4 $8 pmessage $16 pattern $n channel $n key
    let messages = words.chunks(9).filter(|words| words.len() == 9);
    let events = messages.map(|words| {
        let event = words[6].rsplit(':').next().unwrap_or("");
        format!("{event} {}", words[8])
    });
    events.collect::<Vec<_>>().join(", ")
}

#[test]
fn every_part_of_a_change_is_reported_in_order() {
    let mut sim = Sim::new();
    for (request, expected) in [
        ("increx k", "incrby k"),
        ("increx k byfloat 0.5", "incrbyfloat k"),
        ("increx k byfloat 0.5 ex 10", "incrbyfloat k, expire k"),
        ("increx k ex 10 enx", "incrby k"),
        ("increx k persist", "incrby k, persist k"),
        ("increx k persist", "incrby k"),
        ("increx k ubound 0 ex 10", ""),
        ("increx k exat 1", "del k"),
        ("increx k exat 1", ""),
        ("msetex 2 a 1 b 2 ex 10", "set a, expire a, set b, expire b"),
        ("msetex 2 a 1 b 2", "set a, set b"),
        ("msetex 2 a 1 c 2 nx", ""),
    ] {
        assert_eq!(events(&mut sim, request), expected, "{request}");
    }
}

#[test]
fn msetex_stores_all_or_nothing_with_one_deadline() {
    Sim::new().script(
        "
        msetex 2 a 1 b 2 px 100 => :1
        pttl a => :100
        pttl b => :100
        msetex 2 a 3 c 4 nx => :0
        msetex 2 a 3 c 4 xx => :0
        get a => $1 1
        exists c => :0
        msetex 2 a 3 b 4 xx keepttl => :1
        mget a b => *2 $1 3 $1 4
        pttl b => :100
        msetex 1 a 5 => :1
        pttl a => :-1
        msetex 2 c 1 d 2 NX EX 10 => :1
        ttl d => :10
        msetex 2 a x a y exat 1700000001 => :1
        get a => $1 y
        pttl a => :1000
        msetex 2 a 1 new 1 pxat 1 => :1
        exists a new => :0
        msetex 1 a v xx xx ex 10 ex 5 => :0
        set a v px 10 => +OK
        +10
        msetex 1 a v nx ex 10 ex 5 => :1
        ttl a => :5
        ",
    );
}

#[test]
fn msetex_judges_the_number_then_the_options_then_the_keys() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    sim.script(
        "
        msetex => {wrong number of arguments for 'msetex' command}
        msetex 1 a => {wrong number of arguments for 'msetex' command}
        msetex 0 a b => {invalid numkeys value}
        msetex -1 a b => {invalid numkeys value}
        msetex a b c => {invalid numkeys value}
        msetex 2147483648 a b => {invalid numkeys value}
        msetex 2147483647 a b => {wrong number of key-value pairs}
        msetex 2 a b => {wrong number of key-value pairs}
        msetex 2 a b c => {wrong number of key-value pairs}
        msetex 1 a b c => {syntax error}
        msetex 1 a b get => {syntax error}
        msetex 1 a b ifeq c => {syntax error}
        msetex 1 a b nx xx => {syntax error}
        msetex 1 a b ex => {syntax error}
        msetex 1 a b ex 10 px 5 => {syntax error}
        msetex 1 a b ex 10 keepttl => {syntax error}
        msetex 1 a b keepttl ex 10 => {syntax error}
        msetex 1 a b ex 0 => {invalid expire time in 'msetex' command}
        msetex 1 a b px -5 nx => {invalid expire time in 'msetex' command}
        msetex 1 a b ex x => {value is not an integer or out of range}
        exists a => :0
        msetex 1 l v => :1
        get l => $1 v
        command getkeys msetex 2 a 1 b 2 ex 10 => *2 $1 a $1 b
        command getkeysandflags msetex 1 a 1 => *1 *2 $1 a *2 +OW +update
        command getkeys msetex 0 a 1 => {Invalid arguments specified for command}
        command getkeys zinterstore z 3 a => {Invalid arguments specified for command}
        ",
    );
    let deadline = format!("pxat {}", START + 5);
    sim.expect(&format!("msetex 1 a v {deadline}"), ":1");
    sim.expect("pttl a", ":5");
}
