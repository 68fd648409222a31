//! Sets: every command, option and error in all forms, as Redis 8.2.3 answers them.

use std::collections::BTreeSet;

use crate::sim::Sim;
use crate::transcripts::{events_of, notifying};

/// Intsets of four members, packed sets of eight members of five bytes.
const SMALL: &str = "config set set-max-intset-entries 4 set-max-listpack-entries 8 \
                     set-max-listpack-value 5";

/// Servers whose sets of integers are intsets, packed, and tables.
fn all_forms() -> [Sim; 3] {
    let mut sims = [Sim::new(), Sim::new(), Sim::new()];
    sims[1].expect("config set set-max-intset-entries 0", "+OK");
    sims[2].expect(
        "config set set-max-intset-entries 0 set-max-listpack-entries 0",
        "+OK",
    );
    for (sim, encoding) in sims
        .iter_mut()
        .zip(["$6 intset", "$8 listpack", "$9 hashtable"])
    {
        sim.expect("sadd probe 1", ":1");
        sim.expect("object encoding probe", encoding);
        sim.expect("del probe", ":1");
    }
    sims
}

/// The bulk strings of a reply that has no others.
fn strings(reply: &str) -> BTreeSet<String> {
    let words = reply.split(' ').skip(1);
    words.skip(1).step_by(2).map(str::to_owned).collect()
}

/// Expects an array of these strings, in whichever order.
#[track_caller]
fn expect_members(sim: &mut Sim, request: &str, members: &[&str]) {
    let reply = sim.run(request);
    let len = reply.split(' ').next().expect("a reply");
    assert_eq!(len, format!("*{}", members.len()), "{request}: {reply}");
    let wanted: BTreeSet<String> = members.iter().map(|member| member.to_string()).collect();
    assert_eq!(strings(&reply), wanted, "{request}");
}

#[test]
fn members_are_added_looked_up_and_removed() {
    for mut sim in all_forms() {
        sim.script(
            "
        sadd s 3 1 2 3 => :3
        sadd s 1 4 => :1
        sadd s 1 4 => :0
        scard s => :4
        sismember s 3 => :1
        sismember s 5 => :0
        sismember s 03 => :0
        sismember nokey 1 => :0
        smismember s 1 5 2 x => *4 :1 :0 :1 :0
        smismember nokey 1 2 => *2 :0 :0
        scard nokey => :0
        smembers nokey => *0
        srem s 5 x => :0
        srem nokey 1 => :0
        srem s 3 3 5 => :1
        scard s => :3
        type s => +set
        sadd s => {wrong number of arguments for 'sadd' command}
        smismember s => {wrong number of arguments for 'smismember' command}
        srem s => {wrong number of arguments for 'srem' command}
            ",
        );
        expect_members(&mut sim, "smembers s", &["1", "2", "4"]);
        sim.script("sadd s a 05 +7 => :3\nsrem s 2 5 a => :2");
        expect_members(&mut sim, "smembers s", &["1", "4", "05", "+7"]);
        sim.expect("sadd s \"\" -0", ":2");
        sim.script("sismember s \"\" => :1\nsismember s 0 => :0\nsismember s -0 => :1");
    }
}

#[test]
fn what_is_no_set() {
    let mut sim = Sim::new();
    sim.script(
        "
        set str v => +OK
        sadd s a => :1
        spop str abc => {value is out of range, must be positive}
        spop str -1 => {value is out of range, must be positive}
        spop str 1 2 => {syntax error}
        srandmember str abc => {value is not an integer or out of range}
        srandmember str 1 2 => {syntax error}
        smove nokey str a => :0
        sintercard 0 str => {numkeys should be greater than 0}
        sintercard 1 str limit -1 => {LIMIT can't be negative}
        sintercard 1 str foo => {syntax error}
        sscan str abc => {invalid cursor}
        ",
    );
    for request in [
        "sadd str a",
        "srem str a",
        "smembers str",
        "sismember str a",
        "smismember str a b",
        "scard str",
        "spop str",
        "spop str 0",
        "srandmember str",
        "srandmember str 1",
        "smove str nokey a",
        "smove str s a",
        "smove s str a",
        "smove s str none",
        "smove str str a",
        "sinter s str",
        "sinter nokey str",
        "sinter nokey s str",
        "sunion nokey str",
        "sdiff nokey str",
        "sdiff s nokey str",
        "sinterstore s nokey str",
        "sunionstore s nokey str",
        "sdiffstore s nokey str",
        "sintercard 2 nokey str",
        "sscan str 0",
        "sscan str 0 foo",
    ] {
        let reply = sim.run(request);
        assert!(reply.starts_with("-WRONGTYPE "), "{request}: {reply}");
    }
    sim.script("get str => $1 v\nsmembers s => *1 $1 a\nexists nokey => :0");
}

#[test]
fn random_members_are_taken() {
    for mut sim in all_forms() {
        sim.script(
            "
        spop nokey => $-1
        spop nokey 0 => *0
        spop nokey 3 => *0
        spop nokey -1 => {value is out of range, must be positive}
        spop nokey abc => {value is out of range, must be positive}
        spop nokey 9223372036854775808 => {value is out of range, must be positive}
        spop nokey 1 2 => {syntax error}
        sadd s 1 => :1
        spop s 0 => *0
        spop s => $1 1
        exists s => :0
        sadd s 1 => :1
        spop s 9223372036854775807 => *1 $1 1
        exists s => :0
            ",
        );
        for count in [1, 2, 5, 9, 10, 11] {
            let all = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
            sim.expect(&format!("sadd s {}", all.join(" ")), ":10");
            let reply = sim.run(&format!("spop s {count}"));
            let taken = strings(&reply);
            let wanted = count.min(10);
            assert!(reply.starts_with(&format!("*{wanted} ")), "{reply}");
            assert_eq!(taken.len(), wanted);
            let left: Vec<&str> = all.into_iter().filter(|m| !taken.contains(*m)).collect();
            expect_members(&mut sim, "smembers s", &left);
            sim.expect("exists s", if left.is_empty() { ":0" } else { ":1" });
            for nth in 0..left.len() {
                let reply = sim.run("spop s");
                assert!(left.contains(&&reply["$1 ".len()..]), "{reply}");
                sim.expect("scard s", &format!(":{}", left.len() - nth - 1));
            }
            sim.expect("exists s", ":0");
        }
    }
}

#[test]
fn random_members_are_picked() {
    for mut sim in all_forms() {
        sim.script(
            "
        srandmember nokey => $-1
        srandmember nokey 3 => *0
        srandmember nokey -3 => *0
        srandmember nokey abc => {value is not an integer or out of range}
        srandmember nokey 1 2 => {syntax error}
        srandmember nokey abc 2 => {syntax error}
        srandmember nokey -9223372036854775807 => *0
        sadd s 1 => :1
        srandmember s => $1 1
        srandmember s 0 => *0
        srandmember s 5 => *1 $1 1
        srandmember s -3 => *3 $1 1 $1 1 $1 1
        srandmember s 9223372036854775807 => *1 $1 1
        srandmember s 9223372036854775808 => {value is not an integer or out of range}
            srandmember s -9223372036854775807 => {value is out of range}
            srandmember s -16777217 => {value is out of range}
            sadd s 2 3 4 => :3
            ",
        );
        for key in ["s", "nokey"] {
            sim.expect(
                &format!("srandmember {key} -9223372036854775808"),
                "-ERR value is out of range, value must between -9223372036854775807 and \
                 9223372036854775807",
            );
        }
        for _ in 0..20 {
            let reply = sim.run("srandmember s 2");
            assert!(reply.starts_with("*2 ") && strings(&reply).len() == 2);
            let reply = sim.run("srandmember s -50");
            assert!(reply.starts_with("*50 ") && strings(&reply).len() == 4);
        }
        expect_members(&mut sim, "srandmember s 4", &["1", "2", "3", "4"]);
        expect_members(&mut sim, "smembers s", &["1", "2", "3", "4"]);
    }
}

#[test]
fn members_move() {
    for mut sim in all_forms() {
        sim.script(
            "
        sadd a 1 2 => :2
        smove a b 1 => :1
        smove a b 1 => :0
        smove a b 5 => :0
        smove nokey b 1 => :0
        smove a a 2 => :1
        smove a a 5 => :0
        smembers a => *1 $1 2
        smembers b => *1 $1 1
        smove a b 2 => :1
        exists a => :0
        scard b => :2
        sadd a 1 => :1
        smove a b 1 => :1
        exists a => :0
        scard b => :2
        exists nokey => :0
            ",
        );
    }
}

#[test]
fn sets_are_combined() {
    for mut sim in all_forms() {
        sim.script(
            "
        sadd a 1 2 3 4 => :4
        sadd b 3 4 5 => :3
        sadd c 4 9 => :2
        sinter a b c => *1 $1 4
        sinter c b a => *1 $1 4
        sinter a nokey => *0
        sinter nokey => *0
        sinter nokey a => *0
        sdiff nokey a => *0
        sdiff a a => *0
        sunion nokey => *0
        sunion nokey nokey => *0
        sintercard 1 a => :4
        sintercard 2 a b => :2
        sintercard 3 a b c => :1
        sintercard 2 a nokey => :0
        sintercard 2 a b limit 1 => :1
        sintercard 2 a b LIMIT 0 => :2
        sintercard 2 a b limit 99 => :2
        sintercard 1 a limit 1 limit 3 => :3
        sintercard 0 a => {numkeys should be greater than 0}
        sintercard -1 a => {numkeys should be greater than 0}
        sintercard abc a => {numkeys should be greater than 0}
        sintercard 9223372036854775808 a => {numkeys should be greater than 0}
        sintercard 2 a => {Number of keys can't be greater than number of args}
        sintercard 2147483648 a => {Number of keys can't be greater than number of args}
        sintercard 1 a b => {syntax error}
        sintercard 1 a foo 1 => {syntax error}
        sintercard 1 a limit => {syntax error}
        sintercard 1 a limit -1 => {LIMIT can't be negative}
        sintercard 1 a limit abc => {LIMIT can't be negative}
        sintercard 1 a limit abc foo => {LIMIT can't be negative}
        sintercard 1 => {wrong number of arguments for 'sintercard' command}
            ",
        );
        expect_members(&mut sim, "sinter a b", &["3", "4"]);
        expect_members(&mut sim, "sinter a", &["1", "2", "3", "4"]);
        expect_members(&mut sim, "sinter a a a", &["1", "2", "3", "4"]);
        expect_members(&mut sim, "sunion a b c", &["1", "2", "3", "4", "5", "9"]);
        expect_members(&mut sim, "sunion a nokey a", &["1", "2", "3", "4"]);
        expect_members(&mut sim, "sdiff a b", &["1", "2"]);
        expect_members(&mut sim, "sdiff a nokey c", &["1", "2", "3"]);
        expect_members(&mut sim, "sdiff a", &["1", "2", "3", "4"]);
        // Enough others for the members to be struck off instead of looked up.
        let others = " c".repeat(20);
        expect_members(&mut sim, &format!("sdiff a{others}"), &["1", "2", "3"]);
        expect_members(&mut sim, &format!("sdiff a{others} a"), &[]);
    }
}

#[test]
fn combinations_are_stored() {
    for mut sim in all_forms() {
        sim.script(
            "
        sadd a 1 2 3 => :3
        sadd b 2 3 4 => :3
        sinterstore d a b => :2
        sinterstore d a nokey => :0
        exists d => :0
        sunionstore d a b => :4
        scard d => :4
        sdiffstore d a b => :1
        smembers d => *1 $1 1
        sdiffstore d a a => :0
        exists d => :0
        sdiffstore nokey a a => :0
        set str v => +OK
        sunionstore str a => :3
        type str => +set
        sinterstore str a nokey => :0
        exists str => :0
        set str v => +OK
        sdiffstore d str a => -WRONGTYPE Operation against a key holding the wrong kind of value
        sinterstore b a b => :2
        scard b => :2
        sunionstore a a b nokey => :3
        scard a => :3
            ",
        );
        expect_members(&mut sim, "smembers b", &["2", "3"]);
        expect_members(&mut sim, "smembers a", &["1", "2", "3"]);
    }
}

#[test]
fn a_small_set_is_scanned_at_once() {
    let mut sim = Sim::new();
    sim.script(
        "
        sadd s one two three => :3
        sscan s 0 => *2 $1 0 *3 $3 one $3 two $5 three
        sscan s 7 => *2 $1 0 *3 $3 one $3 two $5 three
        sscan s 0 match t* => *2 $1 0 *2 $3 two $5 three
        sscan s 0 match x count 2 match o* count 3 => *2 $1 0 *1 $3 one
        sscan nokey 0 => *2 $1 0 *0
        sscan nokey 5 foo => *2 $1 0 *0
        sscan nokey abc => {invalid cursor}
        sscan s -1 => {invalid cursor}
        sscan s 18446744073709551616 => {invalid cursor}
        sscan s 0 count 0 => {syntax error}
        sscan s 0 count abc => {value is not an integer or out of range}
        sscan s 0 count => {syntax error}
        sscan s 0 type set => {syntax error}
        sscan s 0 novalues => {NOVALUES option can only be used in HSCAN}
        sadd i 3 1 2 => :3
        sscan i 0 count 1 => *2 $1 0 *3 $1 1 $1 2 $1 3
        sscan i 5 match [12] => *2 $1 0 *2 $1 1 $1 2
        ",
    );
}

#[test]
fn a_table_is_scanned_in_steps() {
    let mut sim = Sim::new();
    for i in 0..3_000 {
        sim.expect(&format!("sadd s m{i}"), ":1");
    }
    for options in ["", " match m*7", " count 9223372036854775807"] {
        let mut seen = BTreeSet::new();
        let mut cursor = "0".to_owned();
        let mut steps = 0;
        loop {
            let reply = sim.run(&format!("sscan s {cursor}{options}"));
            let words: Vec<&str> = reply.split(' ').collect();
            words[2].clone_into(&mut cursor);
            seen.extend(strings(&words[3..].join(" ")));
            steps += 1;
            // More may be added and removed meanwhile.
            sim.script("sadd s other => :1\nsrem s other => :1");
            if cursor == "0" {
                break;
            }
        }
        let wanted = if options.contains("match") {
            300
        } else {
            3_000
        };
        assert_eq!(seen.len(), wanted, "{options}");
        assert_eq!(
            steps == 1,
            options.contains("count"),
            "{options}: {steps} steps"
        );
    }
}

#[test]
fn in_resp3_sets_are_marked() {
    for mut sim in all_forms() {
        sim.run("hello 3");
        sim.script(
            "
        sadd a 1 => :1
        smembers a => ~1 $1 1
        smembers nokey => ~0
        sinter a a => ~1 $1 1
        sinter nokey => ~0
        sunion a => ~1 $1 1
        sunion nokey => ~0
        sdiff a => ~1 $1 1
        sdiff a a => ~0
        smismember a 1 9 => *2 :1 :0
        sismember a 1 => :1
        srandmember a => $1 1
        srandmember a 2 => *1 $1 1
        srandmember a -2 => *2 $1 1 $1 1
        srandmember nokey => _
        srandmember nokey 1 => *0
        sscan a 0 => *2 $1 0 *1 $1 1
        spop a 0 => ~0
        spop nokey 0 => ~0
        spop nokey => _
        spop a 100 => ~1 $1 1
        sadd a 1 => :1
        spop a => $1 1
            ",
        );
        sim.expect("sadd a 1 2", ":2");
        let reply = sim.run("spop a 1");
        assert!(["~1 $1 1", "~1 $1 2"].contains(&reply.as_str()), "{reply}");
    }
}

#[test]
fn a_set_changes_its_form_where_that_of_redis_does() {
    let mut sim = Sim::new();
    sim.expect(SMALL, "+OK");
    sim.script(
        "
        config set set-max-intset-entries 4 => +OK
        config set set-max-listpack-entries 8 => +OK
        config set set-max-listpack-value 5 => +OK
        sadd a 1 2 => :2
        sadd a 1 2 1 2 => :0
        object encoding a => $6 intset
        sadd a 1 2 1 2 1 => :0
        object encoding a => $9 hashtable
        scard a => :2
        sadd b 1 1 1 1 1 => :1
        object encoding b => $8 listpack
        sadd c 1 1 1 1 1 1 1 1 1 => :1
        object encoding c => $9 hashtable
        sadd d a => :1
        sadd d a a a a a a a a => :0
        object encoding d => $8 listpack
        sadd d a a a a a a a a a => :0
        object encoding d => $9 hashtable
        sadd e 1 2 3 => :3
        sadd e a => :1
        object encoding e => $8 listpack
        smembers e => *4 $1 1 $1 2 $1 3 $1 a
        sadd f 1 2 3 4 => :4
        object encoding f => $6 intset
        sadd f 5 => :1
        object encoding f => $9 hashtable
        scard f => :5
        sadd g 1 2 3 4 => :4
        sadd g a => :1
        object encoding g => $8 listpack
        srem g a => :1
        object encoding g => $8 listpack
        sadd h 1 2 3 4 a => :5
        object encoding h => $8 listpack
        sadd i a 1 2 3 4 5 6 7 => :8
        object encoding i => $8 listpack
        sadd i 8 => :1
        object encoding i => $9 hashtable
        sadd j 123456 7 => :2
        object encoding j => $6 intset
        sadd j a => :1
        object encoding j => $9 hashtable
        sadd k abcde => :1
        object encoding k => $8 listpack
        sadd k abcdef => :1
        object encoding k => $9 hashtable
        smove k l abcdef => :1
        object encoding l => $9 hashtable
        smove f m 1 => :1
        object encoding m => $6 intset
        smove d m a => :1
        object encoding m => $8 listpack
        smembers m => *2 $1 1 $1 a
        ",
    );
}

#[test]
fn a_stored_set_has_the_form_that_redis_gives_it() {
    let mut sim = Sim::new();
    sim.expect(SMALL, "+OK");
    sim.script(
        "
        config set set-max-intset-entries 4 => +OK
        config set set-max-listpack-entries 8 => +OK
        config set set-max-listpack-value 5 => +OK
        sadd integers 1 2 => :2
        sadd mixed 1 2 3 a b => :5
        sadd letters a b c d e => :5
        sadd big 1 2 3 a b c d e f => :9
        sunionstore d integers => :2
        object encoding d => $6 intset
        sunionstore d integers letters => :7
        object encoding d => $8 listpack
        sunionstore d mixed integers => :5
        object encoding d => $8 listpack
        sinterstore d mixed integers => :2
        object encoding d => $6 intset
        sinterstore d mixed letters => :2
        object encoding d => $8 listpack
        sdiffstore d mixed letters => :3
        object encoding d => $6 intset
        sdiffstore d mixed integers => :3
        object encoding d => $8 listpack
        sunionstore d big => :9
        object encoding d => $9 hashtable
        sinterstore d big integers => :2
        object encoding d => $6 intset
        sinterstore d big letters => :5
        object encoding d => $8 listpack
        sinterstore d big big => :9
        object encoding d => $9 hashtable
        sdiffstore d big letters => :4
        object encoding d => $8 listpack
        sadd some 1 2 3 4 => :4
        sadd more 5 6 7 => :3
        sunionstore d some more => :7
        object encoding d => $9 hashtable
        ",
    );
}

#[test]
fn small_sets_outgrow_their_entry() {
    let mut sim = Sim::new();
    sim.expect(
        "config set set-max-intset-entries 100000 set-max-listpack-entries 100000 \
         set-max-listpack-value 100000",
        "+OK",
    );
    let numbers: Vec<String> = (0..9_000).map(|i| (i * 7).to_string()).collect();
    for chunk in numbers.chunks(100) {
        sim.expect(&format!("sadd numbers {}", chunk.join(" ")), ":100");
    }
    sim.script("object encoding numbers => $9 hashtable\nscard numbers => :9000");
    let (one, other) = ("a".repeat(9_000), "b".repeat(9_000));
    sim.expect(&format!("sadd wide {one}"), ":1");
    sim.script("object encoding wide => $8 listpack");
    sim.expect(&format!("sadd wide {other}"), ":1");
    sim.script("object encoding wide => $9 hashtable");
    sim.expect(&format!("smismember wide {one} {other} a"), "*3 :1 :1 :0");
    // A member of one megabyte goes in and out whole.
    let huge = "c".repeat(1 << 20);
    assert_eq!(sim.ask(&[b"sadd", b"huge", huge.as_bytes()]), b":1\r\n");
    let member = format!("$1048576 {huge}");
    sim.expect("smembers huge", &format!("*1 {member}"));
    sim.expect("sunion huge nokey", &format!("*1 {member}"));
    sim.expect("srandmember huge", &member);
    sim.expect("spop huge", &member);
    sim.expect("exists huge", ":0");
}

#[test]
fn many_are_taken_from_a_large_set_of_any_form() {
    let limits = [
        "config set set-max-intset-entries 100000",
        "config set set-max-intset-entries 0 set-max-listpack-entries 100000",
        "config set set-max-intset-entries 0",
    ];
    for limit in limits {
        for count in [1, 100, 1_500, 1_999, 2_000, 5_000] {
            let mut sim = Sim::new();
            sim.expect(limit, "+OK");
            let all: Vec<String> = (1_000..3_000).map(|i| i.to_string()).collect();
            for chunk in all.chunks(500) {
                sim.expect(&format!("sadd s {}", chunk.join(" ")), ":500");
            }
            let taken = strings(&sim.run(&format!("spop s {count}")));
            assert_eq!(taken.len(), count.min(2_000));
            let left = strings(&sim.run("smembers s"));
            assert_eq!(left.len(), 2_000 - taken.len());
            assert!(taken.is_disjoint(&left));
            sim.expect("scard s", &format!(":{}", left.len()));
            if let Some(member) = left.first() {
                sim.expect(&format!("srem s {member} {member}"), ":1");
                sim.expect(&format!("sadd s {member} 1000 1000"), {
                    let is_gone = taken.contains("1000") && member != "1000";
                    if is_gone { ":2" } else { ":1" }
                });
            }
        }
    }
}

#[test]
fn edits_keep_the_deadline_and_storing_drops_it() {
    for mut sim in all_forms() {
        sim.script(
            "sadd a 1 2 3 4 5 => :5
            sadd b 1 2 9 => :3
            pexpire a 1000 => :1
            pexpire b 2000 => :1
            sadd a 6 x => :2
            srem a 1 => :1
            smove a b 2 => :1
            smove b a 9 => :1
            pttl a => :1000
            pttl b => :2000",
        );
        sim.run("spop a");
        sim.run("spop a 2");
        sim.script(
            "pttl a => :1000
            sunionstore a a b => :5
            ttl a => :-1
            pexpire a 1000 => :1
            sinterstore a a a => :5
            ttl a => :-1
            pexpire a 1000 => :1
            sdiffstore a a b nokey => :3
            ttl a => :-1
            pttl b => :2000",
        );
    }
    for mut sim in all_forms() {
        sim.script(
            "sadd s 1 2 => :2
            pexpire s 1000 => :1
            srem s 1 2 => :2
            exists s => :0
            sadd s 1 => :1
            pttl s => :-1
            pexpire s 1000 => :1
            spop s => $1 1
            sadd s 1 => :1
            pttl s => :-1
            pexpire s 1000 => :1
            sadd t 1 2 => :2
            pexpire t 1000 => :1
            +999
            sismember s 1 => :1
            sinter s t => *1 $1 1
            +1
            scard s => :0
            smembers s => *0
            sinter s t => *0
            sunion s t => *0
            smove s u 1 => :0
            sunionstore u s t => :0
            exists u => :0
            spop s => $-1
            srandmember s => $-1
            srem s 1 => :0
            sadd s 7 => :1
            smove s t 7 => :1
            ttl t => :-1
            smembers t => *1 $1 7",
        );
    }
}

#[test]
fn events_of_sets() {
    let mut sim = notifying();
    sim.expect("config set notify-keyspace-events KEAnoc", "+OK");
    for (request, events) in [
        ("sadd s a b", "new s, sadd s"),
        ("sadd s a b", ""),
        ("srem s x", ""),
        ("srem s a", "srem s"),
        ("srem s b", "srem s, del s"),
        ("sadd s a b c", "new s, sadd s"),
        ("spop s", "spop s"),
        ("spop s 0", ""),
        ("spop s 2", "spop s, del s"),
        ("spop s", ""),
        ("spop s 3", ""),
        ("sadd s a", "new s, sadd s"),
        ("spop s", "spop s, del s"),
        ("sadd s a b c", "new s, sadd s"),
        ("spop s 99", "spop s, del s"),
        ("sadd s a b", "new s, sadd s"),
        ("smove s t a", "srem s, new t, sadd t"),
        ("smove s t x", ""),
        ("smove s t b", "srem s, del s, sadd t"),
        ("sadd u a b c", "new u, sadd u"),
        ("smove u t b", "srem u"),
        ("smove u u a", ""),
        ("smove u v a", "srem u, new v, sadd v"),
        ("smove u t c", "srem u, del u, sadd t"),
        ("sadd a 1 2 3", "new a, sadd a"),
        ("sadd b 2 3 4", "new b, sadd b"),
        ("sinterstore d a b", "new d, sinterstore d"),
        ("sinterstore d a b", "overwritten d, sinterstore d"),
        ("set d str", "overwritten d, type_changed d, set d"),
        (
            "sunionstore d a b",
            "overwritten d, type_changed d, sunionstore d",
        ),
        ("sdiffstore d a a", "del d"),
        ("sdiffstore d a a", ""),
        ("sdiffstore d a b", "new d, sdiffstore d"),
        ("sinterstore a a b", "overwritten a, sinterstore a"),
        ("sinterstore a a none", "del a"),
        (
            "rename d b",
            "new b, rename_from d, rename_to b, overwritten b",
        ),
        ("set x v", "new x, set x"),
        (
            "copy b x replace",
            "new x, copy_to x, overwritten x, type_changed x",
        ),
        ("getset y v", "new y, set y"),
        (
            "rename y x",
            "new x, rename_from y, rename_to x, overwritten x, type_changed x",
        ),
        ("srandmember b", ""),
        ("sscan b 0", ""),
    ] {
        events_of(&mut sim, &[request], events);
    }
}

/// The members come in the order of the source's pieces, so that all of them go to one side of the
/// first splits.
#[test]
fn a_set_made_in_the_order_of_another_is_scanned_whole() {
    let mut sim = Sim::new();
    let members: Vec<String> = (0..6_000).map(|n| format!("m{n}")).collect();
    for some in members.chunks(500) {
        let added = format!(":{}", some.len());
        sim.expect(&format!("sadd s {}", some.join(" ")), &added);
    }
    sim.expect("sunionstore t s", ":6000");
    sim.engine.keyspace.check();
    let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
    loop {
        let reply = sim.run(&format!("sscan t {cursor}"));
        let words: Vec<&str> = reply.split(' ').collect();
        // The cursor, then the members.
        seen.extend(
            words[4..]
                .iter()
                .skip(1)
                .step_by(2)
                .map(|it| it.to_string()),
        );
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 6_000);
}
