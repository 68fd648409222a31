//! Rules of expiry: what holds for the deadlines of keys that begin alike.

use std::sync::Arc;

use mayfly::config::Config;
use mayfly::config::expiry_rules::{ExpiryRule, ExpiryRules};

use crate::sim::{START, Sim, TempDir};
use crate::transcripts::{events_of, notifying};

#[test]
fn a_default_is_for_writes_that_leave_no_deadline() {
    let mut sim = Sim::new();
    sim.script(
        "set s:old v => +OK
        expiry rule set s prefix s: default 5000 => +OK
        pttl s:old => :-1
        get s:old => $1 v
        pttl s:old => :-1
        append s:old w => :2
        pttl s:old => :5000
        set s:1 v => +OK
        pttl s:1 => :5000
        set t:1 v => +OK
        pttl t:1 => :-1
        set s:1 v px 70 => +OK
        pttl s:1 => :70
        append s:1 w => :2
        pttl s:1 => :70
        persist s:1 => :1
        pttl s:1 => :5000
        rpush s:l a b => :2
        pttl s:l => :5000
        rename t:1 s:2 => +OK
        pttl s:2 => :5000
        copy s:2 t:2 => :1
        pttl t:2 => :5000
        set t:3 v => +OK
        copy t:3 s:3 => :1
        pttl s:3 => :5000
        expiry rule set s prefix s: db 1 default 6000 => +OK
        set s:4 v => +OK
        pttl s:4 => :-1
        move s:4 1 => :1
        select 1 => +OK
        pttl s:4 => :6000
        mset s:5 a s:6 b => +OK
        pttl s:6 => :6000
        del s:5 s:6 => :2
        dbsize => :1
        multi => +OK
        set s:7 v => +QUEUED
        pttl s:7 => +QUEUED
        exec => *2 +OK :6000
        expiry rule del s => :1
        expiry rule del s => :0
        set s:8 v => +OK
        pttl s:8 => :-1",
    );
    sim.engine.keyspace.check();
}

#[test]
fn bounds_are_for_what_a_command_asks_for() {
    let mut sim = Sim::new();
    sim.script(
        "expiry rule set r prefix k min 1000 max 5000 => +OK\nset k v => +OK\npttl k => :-1",
    );
    for (request, ms) in [
        ("set k v px 10", 1_000),
        ("set k v ex 100", 5_000),
        ("set k v px 3000", 3_000),
        ("psetex k 10 v", 1_000),
        ("expire k 1000", 5_000),
        ("pexpire k 1", 1_000),
        (&format!("pexpireat k {}", START + 7_000), 5_000),
        (&format!("set k v pxat {}", START + 4_000), 4_000),
        ("getex k px 1", 1_000),
        ("msetex 1 k v px 1", 1_000),
    ] {
        sim.run(request);
        sim.expect("pttl k", &format!(":{ms}"));
    }
    // What has come has come, and conditions are for what will be.
    sim.script("pexpire k 4000 => :1\npexpire k 9000 gt => :1\npexpire k 9000 gt => :0");
    sim.script("pexpire k -1 => :1\nexists k => :0\nset k v px 100 => +OK");
    sim.script("getex k pxat 5 => $1 v\nexists k => :0");
}

/// A span that is asked for beside a moment is a TTL as any other.
#[test]
fn bounds_are_for_sliding_spans_too() {
    for (span, ms) in [(60_000, 5_000), (10, 1_000), (3_000, 3_000)] {
        let mut sim = Sim::new();
        sim.script("expiry rule set r prefix k min 1000 max 5000 => +OK");
        sim.run(&format!("set k v pxat {} sliding {span}", START + 4_000));
        sim.expect("pttl k", ":4000");
        sim.expect("get k", "$1 v");
        sim.expect("pttl k", &format!(":{}", ms.max(4_000)));
        sim.clock.advance_ms(3_500);
        sim.run("get k");
        sim.expect("pttl k", &format!(":{}", ms.max(500)));
    }
}

#[test]
fn jitter_that_is_asked_for_is_not_that_of_the_rule() {
    let mut sim = Sim::new();
    sim.script(
        "
        expiry rule set r prefix k jitter 90 => +OK
        set k v ex 100000 jitter 0 => +OK
        pttl k => :100000000
        expire k 200000 jitter 0 => :1
        pttl k => :200000000
        ",
    );
}

#[test]
fn a_ttl_that_comes_along_with_a_key_is_not_asked_for() {
    let mut sim = Sim::new();
    sim.script(
        "expiry rule set r prefix r: default 900 max 1000 jitter 50 sliding => +OK
        set k v px 5000 => +OK
        copy k r:c => :1
        move k 1 => :1
        select 1 => +OK
        rename k r:k => +OK
        +100
        get r:k => $1 v
        pttl r:k => :4900
        select 0 => +OK
        get r:c => $1 v
        pttl r:c => :4900",
    );
}

#[test]
fn jitter_and_sliding_of_a_rule() {
    let mut sim = Sim::new();
    sim.script("expiry rule set r prefix k min 900 default 1000 jitter 50 sliding => +OK");
    let pttl = |sim: &mut Sim| {
        let reply = sim.run("pttl k");
        reply[1..].parse::<i64>().expect("a number")
    };
    let mut seen = std::collections::BTreeSet::new();
    for request in ["set k v", "set k v px 1000"].repeat(100) {
        sim.run(request);
        let ms = pttl(&mut sim);
        assert!((900..=1_000).contains(&ms), "{ms}");
        seen.insert(ms);
        sim.script("+100\nget k => $1 v");
        assert_eq!(pttl(&mut sim), ms);
    }
    assert!(seen.len() > 60);
    // What the command says counts.
    sim.script("set k v px 2000 jitter 1 => +OK");
    assert!((1_980..=2_000).contains(&pttl(&mut sim)));
}

#[test]
fn the_longest_prefix_wins_and_exempts() {
    let mut sim = Sim::new();
    sim.script(
        r#"expiry rule set all prefix "" default 1000 => +OK
        expiry rule set a prefix a default 2000 => +OK
        expiry rule set ab prefix ab => +OK
        expiry rule set ab0 prefix ab db 0 default 3000 => +OK
        mset x 1 a 1 ab 1 abc 1 => +OK
        pttl x => :1000
        pttl a => :2000
        pttl ab => :3000
        pttl abc => :3000
        select 1 => +OK
        mset x 1 a 1 ab 1 => +OK
        pttl a => :2000
        pttl ab => :-1"#,
    );
    sim.expect("expiry rule test abc", &shown("ab", "ab", "$-1", "$-1"));
    sim.expect(
        "expiry rule test abc db 0",
        &shown("ab0", "ab", ":0", ":3000"),
    );
    sim.script("expiry rule del all => :1\nexpiry rule test x => $-1\nexpiry rule get none => $-1");
    sim.expect("expiry rule get a", &shown("a", "a", "$-1", ":2000"));
}

/// A rule without bounds, as GET and TEST show it.
fn shown(name: &str, prefix: &str, db: &str, default: &str) -> String {
    let (name, prefix) = [name, prefix]
        .map(|text| format!("${} {text}", text.len()))
        .into();
    format!(
        "*16 $4 name {name} $6 prefix {prefix} $2 db {db} $10 default_ms {default} $6 min_ms $-1 \
         $6 max_ms $-1 $14 jitter_percent :0 $7 sliding :0"
    )
}

#[test]
fn what_rules_refuse() {
    Sim::new().script(
        "expiry rule => {wrong number of arguments for 'expiry|rule' command}
        expiry rule set r => {a rule needs a PREFIX}
        expiry rule set r default 5 => {a rule needs a PREFIX}
        expiry rule set r prefix => {syntax error}
        expiry rule set r prefix p foo => {syntax error}
        expiry rule set r prefix p foo 1 => {syntax error}
        expiry rule set r prefix p prefix q => {syntax error}
        expiry rule set r prefix p sliding sliding => {syntax error}
        expiry rule set r prefix p default 0 => {value is not an integer or out of range}
        expiry rule set r prefix p default -1 => {value is not an integer or out of range}
        expiry rule set r prefix p default x => {value is not an integer or out of range}
        expiry rule set r prefix p max 4398046511104 => {value is not an integer or out of range}
        expiry rule set r prefix p jitter 101 => {value is not an integer or out of range}
        expiry rule set r prefix p min 10 max 9 => {MIN is greater than MAX}
        expiry rule set r prefix p default 8 min 10 => {DEFAULT is not between MIN and MAX}
        expiry rule set r prefix p default 8 max 7 => {DEFAULT is not between MIN and MAX}
        expiry rule set r prefix p db 16 => {DB index is out of range}
        expiry rule set r prefix p db x => {value is not an integer or out of range}
        expiry rule list => *0
        expiry rule set r prefix p => +OK
        expiry rule set q prefix p => {two rules have the prefix p}
        expiry rule set q prefix p db 3 => +OK
        expiry rule test k foo 3 => {syntax error}
        expiry rule test k db 16 => {DB index is out of range}",
    );
    let mut sim = Sim::new();
    for request in [
        "expiry rule foo",
        "expiry rule set",
        "expiry rule test k db",
        "expiry rule list now",
    ] {
        let reply = sim.run(request);
        assert!(reply.starts_with("-ERR unknown subcommand or wrong number of arguments"));
    }
}

fn rule(line: &str) -> Arc<ExpiryRule> {
    let words = mayfly::config::split_line(line.as_bytes()).expect("words");
    Arc::new(ExpiryRule::parse(&words).expect("a rule"))
}

fn printed(config: &Config) -> Vec<String> {
    let rules = config.expiry_rules.iter();
    rules.map(|rule| rule.print()).collect()
}

#[test]
fn rules_are_a_setting() {
    let mut sim = Sim::new();
    sim.expect("expiry rule set a prefix \"a b\" default 1000", "+OK");
    sim.expect("expiry rule set s prefix s: max 5 sliding", "+OK");
    let shown = "a PREFIX \"a b\" DEFAULT 1000\ns PREFIX s: MAX 5 SLIDING";
    let value = shown.len();
    sim.expect(
        "config get expiry-rule",
        &format!("*2 $11 expiry-rule ${value} {}", shown),
    );
    sim.ask(&[
        b"config",
        b"set",
        b"expiry-rule",
        b"z PREFIX z JITTER 5\ny PREFIX y DB 2",
    ]);
    sim.script(
        "expiry rule get a => $-1\nconfig set expiry-rule \"\" => +OK\nexpiry rule list => *0",
    );
    for (value, why) in [
        ("z", "a rule needs a PREFIX"),
        ("z PREFIX z DB 99", "there is no database 99"),
        ("z PREFIX z\nz PREFIX y", "two rules are called z"),
        ("z PREFIX \"z", "unbalanced quotes"),
    ] {
        let reply = sim.ask(&[b"config", b"set", b"expiry-rule", value.as_bytes()]);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.contains(why), "{reply}");
        sim.expect("expiry rule list", "*0");
    }
}

#[test]
fn lines_of_a_file_add_up_and_are_written_back() {
    let text =
        "port 7\nexpiry-rule a PREFIX a: DEFAULT 1000\nexpiry-rule b PREFIX \"b \\xff\" SLIDING\n";
    let none = || std::iter::empty();
    let mut no_include = |_: &str| Err(std::io::Error::other("no file"));
    let read = |text: &str, args: &[String], no_include: &mut dyn FnMut(&str) -> _| {
        mayfly::config::parse(Some(("f", text.as_bytes())), none(), args, no_include)
    };
    let (config, _) = read(text, &[], &mut no_include).expect("a configuration");
    let both = ["a PREFIX a: DEFAULT 1000", "b PREFIX \"b \\xff\" SLIDING"];
    assert_eq!(printed(&config), both);
    let again = config.rewrite(text.as_bytes(), &mut no_include);
    assert_eq!(String::from_utf8_lossy(&again), text);
    let mut other = config.clone();
    other.expiry_rules.remove(b"a");
    let less = other.rewrite(text.as_bytes(), &mut no_include);
    let less = String::from_utf8(less).expect("text");
    assert_eq!(less, "port 7\nexpiry-rule b PREFIX \"b \\xff\" SLIDING\n");
    other.expiry_rules = ExpiryRules::default();
    let nothing = other.rewrite(text.as_bytes(), &mut no_include);
    let nothing = String::from_utf8(nothing).expect("text");
    assert_eq!(nothing, "port 7\nexpiry-rule \"\"\n");
    let (config, _) = read(&nothing, &[], &mut no_include).expect("a configuration");
    assert!(config.expiry_rules.is_empty());
    // The command line replaces what the file says.
    let args = ["--expiry-rule", "c", "PREFIX", "c"].map(str::to_owned);
    let (config, _) = read(text, &args, &mut no_include).expect("a configuration");
    assert_eq!(printed(&config), ["c PREFIX c"]);
    for (line, why) in [
        ("expiry-rule a PREFIX c", "two rules are called a"),
        ("expiry-rule c PREFIX a:", "two rules have the prefix a:"),
        ("expiry-rule c PREFIX c DB 16", "there is no database 16"),
        (
            "expiry-rule c PREFIX c MIN 2 MAX 1",
            "MIN is greater than MAX",
        ),
    ] {
        let errors = read(&format!("{text}{line}\n"), &[], &mut no_include).expect_err("a mistake");
        assert!(errors.to_string().contains(why), "{errors}");
    }
}

/// Each takes as long as the first: it would be minutes if all were looked at for each.
#[test]
fn there_may_be_many_rules() {
    let mut sim = Sim::new();
    for nth in 0..20_000 {
        let request = format!("expiry rule set r{nth} prefix {nth}: default {}", 1 + nth);
        sim.expect(&request, "+OK");
    }
    sim.script("set 7:x v => +OK\npttl 7:x => :8\nset 19999:x v => +OK\npttl 19999:x => :20000");
    let mut no_include = |_: &str| Err(std::io::Error::other("no file"));
    let text = sim.engine.config.rewrite(b"", &mut no_include);
    let none = std::iter::empty();
    let (config, _) = mayfly::config::parse(Some(("f", &text)), none, &[], &mut no_include)
        .expect("a configuration");
    assert_eq!(config.expiry_rules, sim.engine.config.expiry_rules);
    assert!(config.rewrite(&text, &mut no_include) == text);
    for nth in 0..20_000 {
        sim.expect(&format!("expiry rule del r{nth}"), ":1");
    }
    sim.script("set 7:x v => +OK\npttl 7:x => :-1\nexpiry rule list => *0");
}

#[test]
fn a_snapshot_keeps_rules() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.expect("expiry rule set a prefix a: default 1000", "+OK");
    sim.expect("expiry rule set b prefix b: max 9 sliding", "+OK");
    sim.expect("save", "+OK");
    let config = |sim: &Sim, rules: ExpiryRules| Config {
        expiry_rules: rules,
        ..sim.engine.config.clone()
    };
    let empty = config(&sim, ExpiryRules::default());
    let both = sim.engine.config.expiry_rules.clone();
    let mut other = Sim::with(empty, 2);
    other.engine.load_now().expect("a snapshot");
    assert_eq!(other.engine.config.expiry_rules, both);
    other.script("set a:1 v => +OK\npttl a:1 => :1000");
    // What the configuration says is newer.
    let mut newer = ExpiryRules::default();
    newer.add(rule("a PREFIX a: DEFAULT 7")).expect("one");
    let mut other = Sim::with(config(&sim, newer), 2);
    other.engine.load_now().expect("a snapshot");
    let rules = ["a PREFIX a: DEFAULT 7", "b PREFIX b: MAX 9 SLIDING"];
    assert_eq!(printed(&other.engine.config), rules);
}

#[test]
fn a_default_gives_the_event_that_a_ttl_gives() {
    let mut sim = notifying();
    sim.run("expiry rule set a prefix k default 1000");
    events_of(&mut sim, &["set k v"], "set k, expire k");
    events_of(&mut sim, &["rpush kl v"], "rpush kl, expire kl");
    events_of(&mut sim, &["append k v"], "append k");
    events_of(&mut sim, &["persist k"], "persist k, expire k");
}

#[test]
fn a_rule_of_a_database_that_is_not_there_is_left_out() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("expiry rule set a prefix a db 12 => +OK\nexpiry rule set b prefix b => +OK");
    sim.expect("save", "+OK");
    let config = Config {
        databases: 4,
        expiry_rules: ExpiryRules::default(),
        ..sim.engine.config.clone()
    };
    let mut other = Sim::with(config, 2);
    other.engine.load_now().expect("a snapshot");
    assert_eq!(printed(&other.engine.config), ["b PREFIX b"]);
}
