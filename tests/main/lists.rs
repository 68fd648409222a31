//! Transcripts of the list commands, as Redis 8.2 answers them, on lists of both forms.

use mayfly::config::{Config, NotifyFlags};

use crate::sim::Sim;

/// Settings under which lists of these elements are small, and under which they are big.
const FORMS: [i64; 2] = [-2, 1];

fn sim_with(chunk: i64) -> Sim {
    let config = Config {
        list_chunk: chunk,
        ..Config::default()
    };
    Sim::with(config, 1)
}

/// The same transcript on small lists and on big ones.
fn in_both_forms(text: &str) {
    for chunk in FORMS {
        let mut sim = sim_with(chunk);
        sim.script(text);
        sim.engine.keyspace.check();
    }
}

#[test]
fn pushing_and_reading() {
    in_both_forms(
        "
        lpushx l a => :0
        rpushx l a b => :0
        exists l => :0
        lpush l a b c => :3
        rpush l d e => :5
        lpushx l x y => :7
        rpushx l z z => :9
        lrange l 0 -1 => *9 $1 y $1 x $1 c $1 b $1 a $1 d $1 e $1 z $1 z
        lrange l -100 100 => *9 $1 y $1 x $1 c $1 b $1 a $1 d $1 e $1 z $1 z
        lrange l 5 1 => *0
        lrange l 20 30 => *0
        lrange l -3 -2 => *2 $1 e $1 z
        lrange l 0 -100 => *0
        lrange l -9223372036854775808 2 => *3 $1 y $1 x $1 c
        lrange l 7 9223372036854775807 => *2 $1 z $1 z
        lrange no 0 -1 => *0
        llen l => :9
        llen no => :0
        lindex l 0 => $1 y
        lindex l 8 => $1 z
        lindex l 9 => $-1
        lindex l -1 => $1 z
        lindex l -9 => $1 y
        lindex l -10 => $-1
        lindex l -9223372036854775808 => $-1
        lindex no abc => $-1
        type l => +list
        ",
    );
}

#[test]
fn popping() {
    in_both_forms(
        "
        rpush l a b c d e f => :6
        lpop no => $-1
        lpop no 0 => *-1
        lpop no 1 => *-1
        lpop l 0 => *0
        llen l => :6
        lpop l => $1 a
        rpop l => $1 f
        lpop l 1 => *1 $1 b
        rpop l 2 => *2 $1 e $1 d
        rpop l 9223372036854775807 => *1 $1 c
        exists l => :0
        rpush l a b => :2
        lpop l 100 => *2 $1 a $1 b
        exists l => :0
        rpush l a b c => :3
        lmpop 2 no l left => *2 $1 l *1 $1 a
        lmpop 2 l no right count 5 => *2 $1 l *2 $1 c $1 b
        lmpop 2 l no right count 5 => *-1
        exists l => :0
        dbsize => :0
        ",
    );
}

#[test]
fn editing() {
    in_both_forms(
        "
        rpush l a b c d => :4
        lset l 0 A => +OK
        lset l -1 D => +OK
        lset l 4 x => {index out of range}
        lset l -5 x => {index out of range}
        lset l -9223372036854775807 x => {index out of range}
        lset l 4294967297 x => {index out of range}
        linsert l BEFORE A first => :5
        linsert l after D last => :6
        linsert l Before c mid => :7
        linsert l before nope x => :-1
        linsert no before x y => :0
        lrange l 0 -1 => *7 $5 first $1 A $1 b $3 mid $1 c $1 D $4 last
        del l => :1
        rpush l a b c a b c a b c => :9
        lrem l 2 a => :2
        lrem l -1 c => :1
        lrem l 0 b => :3
        lrem l 5 nope => :0
        lrem no 1 a => :0
        lrange l 0 -1 => *3 $1 c $1 c $1 a
        lrem l -9223372036854775807 c => :2
        lrem l 0 a => :1
        exists l => :0
        rpush l a b c d e f => :6
        ltrim l 0 -1 => +OK
        ltrim l 1 -2 => +OK
        lrange l 0 -1 => *4 $1 b $1 c $1 d $1 e
        ltrim l -3 100 => +OK
        ltrim l -100 1 => +OK
        lrange l 0 -1 => *2 $1 c $1 d
        ltrim no 0 1 => +OK
        ltrim l 1 0 => +OK
        exists l => :0
        rpush l a => :1
        ltrim l 5 6 => +OK
        exists l => :0
        ",
    );
}

#[test]
fn finding() {
    in_both_forms(
        "
        rpush l a b c 1 2 3 c c => :8
        lpos l c => :2
        lpos l nope => $-1
        lpos l nope count 1 => *0
        lpos no c => $-1
        lpos no c count 0 => *0
        lpos l c RANK 2 => :6
        lpos l c rank -1 => :7
        lpos l c rank 4 => $-1
        lpos l c rank 4 count 0 => *0
        lpos l c rank -9223372036854775807 => $-1
        lpos l c rank 1 rank 2 => :6
        lpos l c count 2 => *2 :2 :6
        lpos l c COUNT 0 => *3 :2 :6 :7
        lpos l c count 0 rank -2 => *2 :6 :2
        lpos l c count 0 maxlen 3 => *1 :2
        lpos l c count 0 maxlen 2 => *0
        lpos l c count 0 maxlen 0 => *3 :2 :6 :7
        lpos l c rank -1 MAXLEN 1 count 0 => *1 :7
        lpos l c rank 9223372036854775807 count 9223372036854775807 => *0
        lpos l c count 9223372036854775807 maxlen 9223372036854775807 => *3 :2 :6 :7
        ",
    );
}

#[test]
fn moving() {
    in_both_forms(
        "
        rpush l a b c 1 => :4
        lmove no m left left => $-1
        lmove no s left left => $-1
        lmove l m left right => $1 a
        lmove l m right left => $1 1
        lmove l l left right => $1 b
        lrange l 0 -1 => *2 $1 c $1 b
        lmove l l RIGHT Left => $1 b
        lrange l 0 -1 => *2 $1 b $1 c
        lrange m 0 -1 => *2 $1 1 $1 a
        rpoplpush m l => $1 a
        rpoplpush l l => $1 c
        lrange l 0 -1 => *3 $1 c $1 a $1 b
        rpoplpush m l => $1 1
        exists m => :0
        rpush m x => :1
        pexpire m 100 => :1
        lmove m m left left => $1 x
        pttl m => :100
        rpoplpush no l => $-1
        ",
    );
}

#[test]
fn which_error_comes_first() {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let mut sim = Sim::new();
    sim.script("set s x=>+OK\nrpush l a=>:1");
    for request in [
        "lpush s a",
        "rpushx s a",
        "llen s",
        "lrange s 0 1",
        "lindex s abc",
        "lset s abc x",
        "linsert s before x y",
        "lpop s",
        "rpop s 0",
        "lrem s 1 a",
        "ltrim s 0 1",
        "lpos s c",
        "lmove s m left left",
        "lmove l s left left",
        "rpoplpush s m",
        "rpoplpush l s",
        "lmpop 2 no s left",
        "blpop s 0",
        "brpop no s 0",
        "blmove s m left right 0",
        "blmove l s left right 0",
        "brpoplpush s m 0",
        "blmpop 0 1 s left",
        "get l",
    ] {
        sim.expect(request, wrong);
    }
    sim.script(
        "
        lpush l => {wrong number of arguments for 'lpush' command}
        lpop l 1 2 => {wrong number of arguments for 'lpop' command}
        RPOP l 1 2 => {wrong number of arguments for 'rpop' command}
        lrange s a 1 => {value is not an integer or out of range}
        lrange no 1 b => {value is not an integer or out of range}
        lrange l 9223372036854775808 1 => {value is not an integer or out of range}
        lindex l abc => {value is not an integer or out of range}
        lset no abc x => {no such key}
        lset l abc x => {value is not an integer or out of range}
        linsert no up x y => {syntax error}
        lpop no -1 => {value is out of range, must be positive}
        lpop s abc => {value is out of range, must be positive}
        lpop l 9223372036854775808 => {value is out of range, must be positive}
        lrem s x a => {value is not an integer or out of range}
        ltrim s x 1 => {value is not an integer or out of range}
        ltrim no 0 x => {value is not an integer or out of range}
        lpos s c rank x => {value is not an integer or out of range}
        lpos l c count x => {COUNT can't be negative}
        lpos l c count -1 => {COUNT can't be negative}
        lpos l c maxlen x => {MAXLEN can't be negative}
        lpos l c maxlen -1 => {MAXLEN can't be negative}
        lpos l c rank => {syntax error}
        lpos l c foo 1 => {syntax error}
        lmove s m up left => {syntax error}
        lmove l m left up => {syntax error}
        lmpop 0 s left => {numkeys should be greater than 0}
        lmpop x s left => {numkeys should be greater than 0}
        lmpop 1.5 s left => {numkeys should be greater than 0}
        lmpop 100 s left => {syntax error}
        lmpop 9223372036854775807 s left => {syntax error}
        lmpop 1 s middle => {syntax error}
        lmpop 1 s left count => {syntax error}
        lmpop 1 s left x 1 => {syntax error}
        lmpop 1 s left count x => {count should be greater than 0}
        lmpop 1 s left count 0 => {count should be greater than 0}
        lmpop 1 s left count 1 count 1 => {syntax error}
        blpop s abc => {timeout is not a float or out of range}
        ",
    );
    let range = "-ERR value is out of range, value must between -9223372036854775807 and \
                 9223372036854775807";
    sim.expect("lrem no -9223372036854775808 a", range);
    sim.expect("lpos l c rank -9223372036854775808", range);
    sim.expect(
        "lpos l c rank 0",
        "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
         use negative to start from the end of the list",
    );
}

#[test]
fn nulls_of_resp3() {
    let mut sim = Sim::new();
    sim.run("hello 3");
    sim.script(
        "
        lpop l => _
        lpop l 1 => _
        lmove l m left left => _
        rpoplpush l m => _
        lmpop 1 l left => _
        lpos l x => _
        lpos l x count 1 => *0
        lindex l 0 => _
        lrange l 0 -1 => *0
        rpush l a b => :2
        lmpop 1 l left => *2 $1 l *1 $1 a
        lpop l 5 => *1 $1 b
        ",
    );
}

#[test]
fn editing_keeps_the_deadline_and_an_emptied_list_loses_it() {
    in_both_forms(
        "
        rpush l a b c d e => :5
        pexpire l 100 => :1
        rpush l f => :6
        lpop l => $1 a
        lset l 0 B => +OK
        linsert l before c x => :6
        lrem l 0 x => :1
        ltrim l 0 3 => +OK
        lmove l l left right => $1 B
        lmove l m left right => $1 c
        pttl l => :100
        pttl m => :-1
        lpop l 3 => *3 $1 d $1 e $1 B
        rpush l a => :1
        pttl l => :-1
        pexpire l 10 => :1
        +9
        llen l => :1
        rpush l b => :2
        +1
        llen l => :0
        lpushx l x => :0
        rpush l c => :1
        pttl l => :-1
        lrange l 0 -1 => *1 $1 c
        ",
    );
}

#[test]
fn a_list_that_dies_is_gone_for_each_command() {
    for request in ["llen l", "lpushx l x", "lrem l 0 a", "linsert l before a b"] {
        let mut sim = Sim::new();
        sim.script("rpush l a b=>:2\npexpire l 5=>:1\n+5");
        sim.expect(request, ":0");
    }
    for request in ["lpop l", "lindex l 0", "lmove l m left left", "lpos l a"] {
        let mut sim = Sim::new();
        sim.script("rpush l a b=>:2\npexpire l 5=>:1\n+5");
        sim.expect(request, "$-1");
        sim.expect("exists l m", ":0");
    }
    let mut sim = Sim::new();
    sim.script(
        "rpush l a b=>:2\nrpush m x=>:1\npexpire l 5=>:1\n+5\nlmove m l left left=>$1 x
        lrange l 0 -1=>*1 $1 x\npttl l=>:-1\nlset no 0 x=>{no such key}",
    );
}

/// The events of a request, as `event key` in order.
fn events(sim: &mut Sim, listener: usize, request: &str) -> Vec<String> {
    sim.run(request);
    let text = sim.received(listener);
    let messages = text.split("*4 $8 pmessage $12 __keyevent@* ");
    messages
        .skip(1)
        .map(|message| {
            let words: Vec<&str> = message.split_whitespace().collect();
            let event = words[1].split("__:").nth(1).expect("an event");
            format!("{event} {}", words[3])
        })
        .collect()
}

#[test]
fn events_in_the_order_of_redis() {
    let all = NotifyFlags::KEYEVENT.0 | NotifyFlags::ALL.0 | NotifyFlags::NEW.0;
    let config = Config {
        notify_keyspace_events: NotifyFlags(all),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent@*");
    for (request, expected) in [
        ("rpush l a b", "new l, rpush l"),
        ("rpush l c", "rpush l"),
        ("lset l 0 a", "lset l"),
        ("linsert l before a y", "linsert l"),
        ("linsert l before nope y", ""),
        ("lrem l 0 nope", ""),
        ("lrem l 0 y", "lrem l"),
        ("ltrim l 0 -1", "ltrim l"),
        ("ltrim l 0 0", "ltrim l"),
        ("ltrim no 0 0", ""),
        ("lpop l 0", ""),
        ("lpop l", "lpop l, del l"),
        ("lpop l", ""),
        ("lpushx l a", ""),
        ("rpush l a b c d", "new l, rpush l"),
        ("lpop l 2", "lpop l"),
        ("rpop l 1", "rpop l"),
        ("lmove l m left right", "new m, rpush m, lpop l, del l"),
        ("rpush l 1", "new l, rpush l"),
        ("lmove l l left left", "lpush l, lpop l"),
        ("rpush l 2", "rpush l"),
        ("rpoplpush l l", "lpush l, rpop l"),
        ("lmpop 2 no l left", "lpop l"),
        ("lmpop 2 no l left count 2", "lpop l, del l"),
        ("blpop m 0", "lpop m, del m"),
        ("rpush l 1 2", "new l, rpush l"),
        ("blmove l m left right 0", "new m, rpush m, lpop l"),
        ("brpop l 0", "rpop l, del l"),
        ("blmpop 0 1 m left", "lpop m, del m"),
        ("rpush l 1", "new l, rpush l"),
        ("ltrim l 5 6", "ltrim l, del l"),
        ("rpush l 1", "new l, rpush l"),
        ("lrem l 0 1", "lrem l, del l"),
    ] {
        assert_eq!(
            events(&mut sim, listener, request).join(", "),
            expected,
            "{request}"
        );
    }
}

#[test]
fn only_what_changes_something_is_to_be_saved() {
    let mut sim = Sim::new();
    let dirty = |sim: &Sim| sim.engine.keyspace.changes.dirty();
    sim.run("rpush l a b c");
    let before = dirty(&sim);
    for request in [
        "lpop l 0",
        "lrem l 0 nope",
        "ltrim l 0 -1",
        "linsert l before nope x",
        "lset l 10 x",
        "lpushx no x",
        "lrange l 0 -1",
        "lmove no l left left",
        "lpop no 1",
    ] {
        sim.run(request);
        assert_eq!(dirty(&sim), before, "{request}");
    }
    sim.run("ltrim l 0 1");
    assert_eq!(dirty(&sim), before + 1);
}

#[track_caller]
fn expect_form(sim: &mut Sim, form: &str) {
    sim.expect("object encoding l", &format!("${} {form}", form.len()));
}

#[test]
fn a_list_grows_at_its_limit_of_items_and_shrinks_at_half_of_it() {
    for (grow, expected) in [
        ("rpush l 6", "*6 $1 1 $1 2 $1 3 $1 4 $1 5 $1 6"),
        ("lpush l 0", "*6 $1 0 $1 1 $1 2 $1 3 $1 4 $1 5"),
        ("linsert l after 3 x", "*6 $1 1 $1 2 $1 3 $1 x $1 4 $1 5"),
        ("linsert l before 1 x", "*6 $1 x $1 1 $1 2 $1 3 $1 4 $1 5"),
        ("linsert l after 5 x", "*6 $1 1 $1 2 $1 3 $1 4 $1 5 $1 x"),
    ] {
        for shrink in ["ltrim l 0 1", "ltrim l -2 -1", "lpop l 4", "rpop l 4"] {
            let mut sim = sim_with(5);
            sim.script("rpush l 1 2 3 4 5=>:5\nset other x=>+OK");
            expect_form(&mut sim, "listpack");
            sim.expect(grow, ":6");
            expect_form(&mut sim, "quicklist");
            sim.expect("lrange l 0 -1", expected);
            sim.run("rpop l");
            sim.run("lpop l");
            sim.run("rpop l");
            expect_form(&mut sim, "quicklist");
            sim.run("rpush l 7 8 9");
            sim.run(shrink);
            expect_form(&mut sim, "listpack");
            sim.expect("llen l", ":2");
            sim.run("rpush l a b c");
            expect_form(&mut sim, "listpack");
            sim.expect("llen l", ":5");
            sim.engine.keyspace.check();
        }
    }
}

#[test]
fn replacing_and_removing_shrink_as_well() {
    let mut sim = sim_with(4);
    sim.script("rpush l a a a b c=>:5\nlrem l 0 a=>:3");
    expect_form(&mut sim, "listpack");
    sim.expect("lrange l 0 -1", "*2 $1 b $1 c");
    let mut sim = sim_with(-1);
    let long = "x".repeat(4096);
    sim.run("rpush l a b");
    sim.expect(&format!("lset l 0 {long}"), "+OK");
    expect_form(&mut sim, "quicklist");
    sim.expect("lindex l 0", &format!("$4096 {long}"));
    sim.expect("lset l 0 y", "+OK");
    expect_form(&mut sim, "listpack");
    sim.expect("lrange l 0 -1", "*2 $1 y $1 b");
}

/// Bytes an element of a small list has beside its own: lengths before and behind.
fn framing(len: usize) -> usize {
    let digits = |n: usize| if n < 128 { 1 } else { 2 };
    digits(len) + digits(len + digits(len))
}

#[test]
fn every_limit_in_bytes_is_met_to_the_byte() {
    for (chunk, limit) in [(-1, 4), (-2, 8), (-3, 16), (-4, 32), (-5, 64)] {
        let limit = limit * 1024;
        let mut sim = sim_with(chunk);
        // A header of two bytes, and elements of 1,000 bytes as far as they go.
        let mut left = limit - 2;
        while left > 2 * (1000 + framing(1000)) {
            sim.run(&format!("rpush l {}", "x".repeat(1000)));
            left -= 1000 + framing(1000);
        }
        let last = left - framing(left - 4);
        sim.run(&format!("rpush l {}", "y".repeat(last)));
        expect_form(&mut sim, "listpack");
        let len = sim.run("llen l");
        sim.expect("lset l -1 y", "+OK");
        sim.expect(&format!("lset l -1 {}", "z".repeat(last)), "+OK");
        expect_form(&mut sim, "listpack");
        sim.expect(&format!("lset l -1 {}", "z".repeat(last + 1)), "+OK");
        expect_form(&mut sim, "quicklist");
        sim.expect("llen l", &len);
        let tail = sim.run("lindex l -1");
        assert_eq!(tail, format!("${} {}", last + 1, "z".repeat(last + 1)));
        sim.run("ltrim l 0 0");
        expect_form(&mut sim, "listpack");
    }
}

#[test]
fn an_element_longer_than_a_chunk_stands_alone() {
    for size in [5_000, 20_000, 60_000] {
        let mut sim = sim_with(-1);
        let long = "x".repeat(size);
        let reply = format!("${size} {long}");
        sim.expect(&format!("rpush l {long}"), ":1");
        expect_form(&mut sim, "quicklist");
        sim.script("rpush l b=>:2\nlpush l a=>:3");
        sim.expect("lrange l 0 -1", &format!("*3 $1 a {reply} $1 b"));
        sim.expect(&format!("lpos l {long}"), ":1");
        sim.expect(&format!("linsert l after {long} c"), ":4");
        sim.expect("lmove l m left left", "$1 a");
        sim.expect("lmove l m left left", &reply);
        expect_form(&mut sim, "listpack");
        sim.expect("lrange l 0 -1", "*2 $1 c $1 b");
        sim.expect("lrange m 0 -1", &format!("*2 {reply} $1 a"));
        sim.expect(&format!("lrem m 0 {long}"), ":1");
        sim.expect("object encoding m", "$8 listpack");
        sim.expect("lrange m 0 -1", "*1 $1 a");
    }
}

#[test]
fn empty_elements_and_a_changed_limit() {
    for chunk in FORMS {
        let mut sim = sim_with(chunk);
        sim.script(
            r#"
            rpush l "" a "" => :3
            lrange l 0 -1 => *3 $0  $1 a $0
            lpos l "" rank -1 => :2
            lrem l 0 "" => :2
            lset l 0 "" => +OK
            lpop l => $0
            exists l => :0
            "#,
        );
    }
    // Lists keep their form until they are next written to.
    let mut sim = sim_with(-2);
    sim.script("rpush l a b c d=>:4\nconfig set list-max-listpack-size 3=>+OK");
    expect_form(&mut sim, "listpack");
    sim.script("lset l 0 x=>+OK\nlrange l 0 -1=>*4 $1 x $1 b $1 c $1 d");
    sim.script("rpush l e=>:5\nconfig set list-max-listpack-size 100=>+OK");
    expect_form(&mut sim, "quicklist");
    sim.script("rpop l=>$1 e\nlrange l 0 -1=>*4 $1 x $1 b $1 c $1 d");
    expect_form(&mut sim, "listpack");
}

#[test]
fn a_big_list_is_copied_renamed_and_moved_whole() {
    for chunk in FORMS {
        let mut sim = sim_with(chunk);
        sim.script(
            "
            rpush l a b c => :3
            copy l m => :1
            rpush m d => :4
            lpop l => $1 a
            rename m n => +OK
            move n 1 => :1
            lrange l 0 -1 => *2 $1 b $1 c
            select 1 => +OK
            lrange n 0 -1 => *4 $1 a $1 b $1 c $1 d
            ",
        );
        sim.engine.keyspace.check();
    }
}
