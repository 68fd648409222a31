//! Transcripts of LCS, DIGEST, DELEX and the comparing conditions of SET. The replies of LCS are
//! those of Redis 8.2.3; it has no digests, whose values are those XXH3 is defined by.

use crate::fill;
use crate::increx::events;
use crate::sim::Sim;

#[test]
fn lcs_finds_what_two_strings_have_in_common() {
    let mut sim = Sim::new();
    sim.script(
        r#"
        set a ohmytext => +OK
        set b mynewtext => +OK
        lcs a b => $6 mytext
        lcs a b len => :6
        lcs a b idx => *4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6
        lcs a b idx minmatchlen 3 => *4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6
        lcs a b idx minmatchlen 2 minmatchlen 4 => *4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6
        lcs a b minmatchlen 5 => $6 mytext
        lcs a b withmatchlen => $6 mytext
        lcs a b len withmatchlen => :6
        lcs a a idx => *4 $7 matches *1 *2 *2 :0 :7 *2 :0 :7 $3 len :8
        lcs no a => $0
        lcs a no len => :0
        lcs no no2 idx => *4 $7 matches *0 $3 len :0
        "#,
    );
    sim.expect(
        "lcs a b idx withmatchlen",
        "*4 $7 matches *2 *3 *2 :4 :7 *2 :5 :8 :4 *3 *2 :2 :3 \
         *2 :0 :1 :2 $3 len :6",
    );
    sim.expect(
        "lcs a b idx minmatchlen -5",
        "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 \
         *2 :0 :1 $3 len :6",
    );
    sim.expect(
        "lcs b a idx withmatchlen",
        "*4 $7 matches *2 *3 *2 :5 :8 *2 :4 :7 :4 *3 *2 :0 :1 \
         *2 :2 :3 :2 $3 len :6",
    );
}

#[test]
fn lcs_judges_the_types_before_the_options() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    sim.script(
        r#"
        lcs a => {wrong number of arguments for 'lcs' command}
        lcs a b foo => {syntax error}
        lcs a b minmatchlen => {syntax error}
        lcs a b minmatchlen x => {value is not an integer or out of range}
        lcs a b len idx => {If you want both the length and indexes, please just use IDX.}
        lcs a l => {The specified keys must contain string values}
        lcs l a foo => {The specified keys must contain string values}
        lcs no l => {The specified keys must contain string values}
        "#,
    );
}

#[test]
fn lcs_answers_a_map_in_resp3() {
    let mut sim = Sim::new();
    sim.run("hello 3");
    sim.script(
        "
        set a ohmytext => +OK
        set b mynewtext => +OK
        lcs a b idx withmatchlen minmatchlen 4 => \
            %2 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6
        lcs a no idx => %2 $7 matches *0 $3 len :0
        ",
    );
}

#[test]
fn lcs_refuses_what_would_take_too_long() {
    let mut sim = Sim::new();
    sim.script(
        "
        config set proto-max-bulk-len 1048576 => +OK
        setrange a 510 x => :511
        setrange b 510 x => :511
        lcs a b len => :511
        setrange b 511 x => :512
        lcs a b len => {Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len}
        ",
    );
}

#[test]
fn a_digest_is_xxh3_in_sixteen_digits() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    for (value, digest) in [
        ("hello", "9555e8555c62dcfd"),
        ("Hello world", "b6acb9d84a38ff74"),
        ("123", "404a763b3f4c8c9a"),
        ("test", "9ec9f7918d7dfc40"),
        // A zero in front is kept.
        ("v8", "0cc76dbb41381419"),
        ("", "2d06800538d394c2"),
    ] {
        sim.run(&format!("set k \"{value}\""));
        sim.expect("digest k", &format!("$16 {digest}"));
    }
    sim.script(
        "
        digest none => $-1
        digest l => -WRONGTYPE Operation against a key holding the wrong kind of value
        digest => {wrong number of arguments for 'digest' command}
        digest a b => {wrong number of arguments for 'digest' command}
        ",
    );
}

#[test]
fn set_may_depend_on_the_old_value() {
    Sim::new().script(
        "
        set k v ifeq v => $-1
        set k v ifdeq 0123456789abcdef => $-1
        exists k => :0
        set k hello ifne v => +OK
        set k x ifne hello => $-1
        set k x IfEq other => $-1
        get k => $5 hello
        set k x ifeq hello px 100 => +OK
        pttl k => :100
        set k y ifeq no => $-1
        pttl k => :100
        set k y ifeq x keepttl => +OK
        pttl k => :100
        set k z ifne x get => $1 y
        pttl k => :-1
        set k q ifne z get => $1 z
        set k q ifeq no get => $1 z
        get k => $1 z
        set none q ifeq z get => $-1
        exists none => :0
        set none q ifne z get => $-1
        get none => $1 q
        set k 10 => +OK
        incr k => :11
        set k 12 ifeq 11 => +OK
        ",
    );
}

#[test]
fn set_may_depend_on_the_old_digest() {
    Sim::new().script(
        "
        set k hello => +OK
        set k x ifdeq 0000000000000000 => $-1
        set k x ifdne 9555e8555c62dcfd => $-1
        set k x ifdne 9555E8555C62DCFD => $-1
        set k x ifdeq 9555E8555C62DCFD => +OK
        set k hello ifdne 9555e8555c62dcfd => +OK
        set k x ifdeq 9555e8555c62dcf => {must be exactly 16 hexadecimal characters}
        set k x ifdne 09555e8555c62dcfd => {must be exactly 16 hexadecimal characters}
        set k x ifdeq zzzzzzzzzzzzzzzz => $-1
        get k => $5 hello
        set none x ifdne 12 => +OK
        ",
    );
}

#[test]
fn conditions_of_set_exclude_each_other() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    sim.script(
        "
        set k v => +OK
        set k x ifeq => {syntax error}
        set k x ifeq v ifeq v => {syntax error}
        set k x ifeq v ifne w => {syntax error}
        set k x ifeq v nx => {syntax error}
        set k x nx ifeq v => {syntax error}
        set k x xx ifdne v => {syntax error}
        set k x ifeq v ex 0 => {invalid expire time in 'set' command}
        get k => $1 v
        set l x ifeq x => -WRONGTYPE Operation against a key holding the wrong kind of value
        set l x ifdne 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        type l => +list
        ",
    );
}

#[test]
fn delex_removes_what_its_condition_allows() {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "x");
    sim.script(
        "
        delex k => :0
        delex k ifeq v => :0
        delex k ifne v => :0
        delex k ifdne 1 => :0
        set k v => +OK
        delex k => :1
        set k hello => +OK
        delex k ifeq other => :0
        delex k ifne hello => :0
        delex k ifdeq 0000000000000000 => :0
        delex k ifdne 9555e8555c62dcfd => :0
        delex k ifdeq 12 => {must be exactly 16 hexadecimal characters}
        delex k foo hello => {Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE}
        delex k ifeq => {wrong number of arguments for 'delex' command}
        delex k ifeq hello x => {wrong number of arguments for 'delex' command}
        delex none ifeq => {wrong number of arguments for 'delex' command}
        delex => {wrong number of arguments for 'delex' command}
        delex k IFEQ hello => :1
        set k hello => +OK
        delex k ifne other => :1
        set k hello => +OK
        delex k ifdeq 9555E8555c62dcfd => :1
        set k hello => +OK
        delex k ifdne 0000000000000000 => :1
        exists k => :0
        delex l ifeq x => {Key should be of string type if conditions are specified}
        delex l foo x => {Key should be of string type if conditions are specified}
        delex l => :1
        exists l => :0
        set k v px 10 => +OK
        +10
        delex k ifne w => :0
        ",
    );
}

#[test]
fn a_comparison_is_reported_only_if_it_led_to_a_change() {
    let mut sim = Sim::new();
    for (request, expected) in [
        ("set k v ifeq w", ""),
        ("set k v ifne w", "set k"),
        ("set k w ifeq v ex 10", "set k, expire k"),
        ("delex k ifeq v", ""),
        ("delex k ifeq w", "del k"),
        ("delex k", ""),
    ] {
        assert_eq!(events(&mut sim, request), expected, "{request}");
    }
}

#[test]
fn flags_of_keys_tell_whether_the_old_value_is_read() {
    Sim::new().script(
        "
        command getkeysandflags set k v => *1 *2 $1 k *2 +OW +update
        command getkeysandflags set k v ifeq w => *1 *2 $1 k *2 +RW +update
        command getkeysandflags set k v ifdne w get => *1 *2 $1 k *3 +RW +access +update
        command getkeysandflags delex k => *1 *2 $1 k *2 +RM +delete
        command getkeysandflags delex k ifeq v => *1 *2 $1 k *2 +RW +delete
        command getkeys lcs a b len => *2 $1 a $1 b
        ",
    );
}
