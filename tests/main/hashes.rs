//! Hashes: every command, option and error in both forms, as Redis 8.2.3 answers them.

use crate::sim::Sim;
use crate::transcripts::{events_of, notifying};

/// Packed hashes of up to three fields of five bytes.
const SMALL: &str = "config set hash-max-listpack-entries 3 hash-max-listpack-value 5";

/// A server, and one whose hashes are all tables.
fn both_forms() -> [Sim; 2] {
    let mut big = Sim::new();
    big.expect("config set hash-max-listpack-entries 0", "+OK");
    [Sim::new(), big]
}

/// The words of a reply, sorted: a table has no order.
fn sorted(reply: &str) -> Vec<String> {
    let mut words: Vec<String> = reply.split(' ').map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn fields_are_set_and_read() {
    for mut sim in both_forms() {
        sim.script(
            r#"
        hset h a 1 b 2 => :2
        hset h a 3 c 4 => :1
        hset h a 3 => :0
        hsetnx h a 5 => :0
        hsetnx h d 6 => :1
        hmset h e 7 a 8 => +OK
        hget h a => $1 8
        hget h nofield => $-1
        hget nokey a => $-1
        hmget h a nofield c a => *4 $1 8 $-1 $1 4 $1 8
        hmget nokey a b => *2 $-1 $-1
        hlen h => :5
        hexists h e => :1
        hexists h nofield => :0
        hexists nokey e => :0
        hset h "" empty f "" => :2
        hget h "" => $5 empty
        hstrlen h "" => :5
        hstrlen h f => :0
        hstrlen h nofield => :0
        hstrlen nokey a => :0
        hdel h a nofield a => :1
        hdel nokey a => :0
        hlen h => :6
        hgetall nokey => *0
        hkeys nokey => *0
        hvals nokey => *0
        hlen nokey => :0
        type h => +hash
        "#,
        );
        sim.script("del h => :1\nhset h a 8 b 2 c 4 d 6 e 7 => :5");
        let all = sim.run("hgetall h");
        let wanted = "*10 $1 a $1 8 $1 b $1 2 $1 c $1 4 $1 d $1 6 $1 e $1 7";
        assert_eq!(sorted(&all), sorted(wanted));
        let fields = sim.run("hkeys h");
        assert_eq!(sorted(&fields), sorted("*5 $1 a $1 b $1 c $1 d $1 e"));
        let values = sim.run("hvals h");
        assert_eq!(sorted(&values), sorted("*5 $1 8 $1 2 $1 4 $1 6 $1 7"));
    }
}

#[test]
fn a_packed_hash_keeps_the_order() {
    Sim::new().script(
        "
        hset h b 1 a 2 c 3 => :3
        hset h b 4 => :0
        hdel h a => :1
        hset h a 5 => :1
        hgetall h => *6 $1 b $1 4 $1 c $1 3 $1 a $1 5
        hkeys h => *3 $1 b $1 c $1 a
        hvals h => *3 $1 4 $1 3 $1 5
        object encoding h => $8 listpack
        ",
    );
}

#[test]
fn what_is_no_hash() {
    let mut sim = Sim::new();
    sim.script(
        "
        set str v => +OK
        hset h f => {wrong number of arguments for 'hset' command}
        hset h f v g => {wrong number of arguments for 'hset' command}
        hmset h f => {wrong number of arguments for 'hmset' command}
        hmset h f v g => {wrong number of arguments for 'hmset' command}
        hset str f => {wrong number of arguments for 'hset' command}
        hincrby str f abc => {value is not an integer or out of range}
        hincrbyfloat str f abc => {value is not a valid float}
        hincrbyfloat str f inf => {value is NaN or Infinity}
        hrandfield str abc => {value is not an integer or out of range}
        hrandfield str 1 foo => {syntax error}
        hrandfield str -9223372036854775807 withvalues => {value is out of range}
        hscan str abc => {invalid cursor}
        ",
    );
    for request in [
        "hset str f v",
        "hmset str f v",
        "hsetnx str f v",
        "hget str f",
        "hmget str f",
        "hgetall str",
        "hkeys str",
        "hvals str",
        "hlen str",
        "hexists str f",
        "hstrlen str f",
        "hdel str f",
        "hincrby str f 1",
        "hincrbyfloat str f 1",
        "hrandfield str",
        "hrandfield str 1",
        "hrandfield str -99999999999 withvalues",
        "hscan str 0",
        "hscan str 0 foo",
    ] {
        let reply = sim.run(request);
        assert!(reply.starts_with("-WRONGTYPE "), "{request}: {reply}");
    }
    sim.script(
        "get str => $1 v\nhset h a 1 => :1\nappend h x => -WRONGTYPE Operation against a key \
                holding the wrong kind of value\nexists nokey => :0",
    );
}

#[test]
fn numbers_in_fields() {
    for mut sim in both_forms() {
        sim.script(
            "
        hincrby h n 5 => :5
        hincrby h n -7 => :-2
        hget h n => $2 -2
        hset h max 9223372036854775807 min -9223372036854775808 word abc float 1.5 => :4
        hincrby h max 1 => {increment or decrement would overflow}
        hincrby h min -1 => {increment or decrement would overflow}
        hincrby h word 1 => {hash value is not an integer}
        hincrby h word x => {value is not an integer or out of range}
        hincrby h float 1 => {hash value is not an integer}
        hincrby h n 1.5 => {value is not an integer or out of range}
        hincrby h n 9223372036854775808 => {value is not an integer or out of range}
        hincrby h max -7 => :9223372036854775800
        hincrbyfloat h float 0.1 => $3 1.6
        hincrbyfloat h n 1e2 => $2 98
        hincrbyfloat h new 3.0e3 => $4 3000
        hincrbyfloat h zero -0 => $1 0
        hincrbyfloat h word 1 => {hash value is not a float}
        hincrbyfloat h n abc => {value is not a valid float}
        hincrbyfloat h n nan => {value is not a valid float}
        hincrbyfloat h n inf => {value is NaN or Infinity}
        hincrbyfloat h n 1e5000 => {value is not a valid float}
        hset h huge 1.1e4932 endless inf => :2
        hincrbyfloat h huge 1.1e4932 => {increment would produce NaN or Infinity}
        hincrbyfloat h endless 1 => {increment would produce NaN or Infinity}
        hget h huge => $8 1.1e4932
        hget h word => $3 abc
        hlen h => :9
        hincrbyfloat nokey f abc => {value is not a valid float}
        hincrbyfloat nokey f -inf => {value is NaN or Infinity}
        hincrby nokey f abc => {value is not an integer or out of range}
        exists nokey => :0
            ",
        );
    }
}

#[test]
fn random_fields() {
    for mut sim in both_forms() {
        sim.script(
            "
        hset h a 1 => :1
        hrandfield h => $1 a
        hrandfield nokey => $-1
        hrandfield h 0 => *0
        hrandfield h 5 => *1 $1 a
        hrandfield h -3 => *3 $1 a $1 a $1 a
        hrandfield h 5 withvalues => *2 $1 a $1 1
        hrandfield h -2 WITHVALUES => *4 $1 a $1 1 $1 a $1 1
        hrandfield nokey 2 => *0
        hrandfield nokey -2 withvalues => *0
        hrandfield h 9223372036854775807 => *1 $1 a
        hrandfield h 4611686018427387903 withvalues => *2 $1 a $1 1
        hrandfield h 4611686018427387904 withvalues => {value is out of range}
        hrandfield h -4611686018427387904 withvalues => {value is out of range}
        hrandfield nokey -9223372036854775807 => *0
        hrandfield nokey -9223372036854775807 withvalues => {value is out of range}
        hrandfield h 9223372036854775808 => {value is not an integer or out of range}
        hrandfield h abc => {value is not an integer or out of range}
        hrandfield h 1 foo => {syntax error}
        hrandfield h 1 withvalues foo => {syntax error}
        hrandfield nokey 1 foo => {syntax error}
            ",
        );
        let range = "-ERR value is out of range, value must between -9223372036854775807 and \
                     9223372036854775807";
        sim.expect("hrandfield h -9223372036854775808", range);
        sim.expect("hrandfield nokey -9223372036854775808 foo", range);
        // More draws than memory has room for.
        sim.script(
            "hrandfield h -9223372036854775807 => {value is out of range}
            hrandfield h -16777217 => {value is out of range}",
        );
        sim.expect("hset h b 2 c 3 d 4", ":3");
        for _ in 0..20 {
            let reply = sim.run("hrandfield h 2 withvalues");
            let words: Vec<&str> = reply.split(' ').collect();
            assert_eq!((words[0], words.len()), ("*4", 9));
            assert_ne!(words[2], words[6], "drawn twice");
            for pair in words[1..].chunks(4) {
                let value = (pair[1].as_bytes()[0] - b'a' + 1).to_string();
                assert_eq!(pair[3], value);
            }
            let reply = sim.run("hrandfield h -50");
            let words: Vec<&str> = reply.split(' ').collect();
            assert_eq!((words[0], words.len()), ("*50", 101));
            for field in ["a", "b", "c", "d"] {
                assert!(words.contains(&field), "never drawn: {field}");
            }
        }
        let all = sim.run("hrandfield h 4");
        assert_eq!(sorted(&all), sorted("*4 $1 a $1 b $1 c $1 d"));
    }
}

#[test]
fn a_packed_hash_is_scanned_at_once() {
    Sim::new().script(
        "
        hset h one 1 two 2 three 3 => :3
        hscan h 0 => *2 $1 0 *6 $3 one $1 1 $3 two $1 2 $5 three $1 3
        hscan h 7 => *2 $1 0 *6 $3 one $1 1 $3 two $1 2 $5 three $1 3
        hscan h 0 match t* => *2 $1 0 *4 $3 two $1 2 $5 three $1 3
        hscan h 0 match t* novalues => *2 $1 0 *2 $3 two $5 three
        hscan h 0 novalues NOVALUES count 1 => *2 $1 0 *3 $3 one $3 two $5 three
        hscan h 0 match x count 2 match o* count 3 => *2 $1 0 *2 $3 one $1 1
        hscan nokey 0 => *2 $1 0 *0
        hscan nokey 5 foo => *2 $1 0 *0
        hscan nokey abc => {invalid cursor}
        hscan h -1 => {invalid cursor}
        hscan h 18446744073709551616 => {invalid cursor}
        hscan h 18446744073709551615 match o* => *2 $1 0 *2 $3 one $1 1
        hscan h 0 count 0 => {syntax error}
        hscan h 0 count -1 => {syntax error}
        hscan h 0 count abc => {value is not an integer or out of range}
        hscan h 0 count => {syntax error}
        hscan h 0 match => {syntax error}
        hscan h 0 foo => {syntax error}
        hscan h 0 type hash => {syntax error}
        hscan h 0 novalues count => {syntax error}
        scan 0 novalues => {NOVALUES option can only be used in HSCAN}
        ",
    );
}

#[test]
fn a_table_is_scanned_in_steps() {
    let mut sim = Sim::new();
    for i in 0..3_000 {
        sim.expect(&format!("hset h f{i} v{i}"), ":1");
    }
    for options in [
        "",
        " count 100",
        " count 9223372036854775807",
        " novalues count 1",
    ] {
        let mut seen = std::collections::BTreeSet::new();
        let mut cursor = "0".to_owned();
        let mut steps = 0;
        loop {
            let reply = sim.run(&format!("hscan h {cursor}{options}"));
            let words: Vec<&str> = reply.split(' ').collect();
            words[2].clone_into(&mut cursor);
            let found: Vec<&str> = words[4..].chunks_exact(2).map(|pair| pair[1]).collect();
            assert_eq!(words[3], format!("*{}", found.len()));
            let has_values = !options.contains("novalues");
            let step = if has_values { 2 } else { 1 };
            for chunk in found.chunks_exact(step) {
                assert!(chunk[0].starts_with('f'));
                assert!(!has_values || chunk[0][1..] == chunk[1][1..]);
                seen.insert(chunk[0].to_owned());
            }
            steps += 1;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 3_000, "{options}");
        let is_whole = options.contains("9223372036854775807");
        assert_eq!(steps == 1, is_whole, "{options}: {steps} steps");
    }
    // A cursor that was never given.
    sim.expect("hscan h 18446744073709551615 match none", "*2 $1 0 *0");
}

#[test]
fn in_resp3_pairs_are_maps_or_arrays() {
    for mut sim in both_forms() {
        sim.run("hello 3");
        sim.script(
            "
        hset h a 1 => :1
        hgetall h => %1 $1 a $1 1
        hgetall nokey => %0
        hkeys h => *1 $1 a
        hvals h => *1 $1 1
        hget h none => _
        hmget h a none => *2 $1 1 _
        hrandfield h => $1 a
        hrandfield nokey => _
        hrandfield h 2 => *1 $1 a
        hrandfield h 2 withvalues => *1 *2 $1 a $1 1
        hrandfield h -2 withvalues => *2 *2 $1 a $1 1 *2 $1 a $1 1
        hrandfield nokey 2 withvalues => *0
        hscan h 0 => *2 $1 0 *2 $1 a $1 1
        hscan h 0 novalues => *2 $1 0 *1 $1 a
        hincrbyfloat h a 1.5 => $3 2.5
            ",
        );
    }
}

#[test]
fn a_hash_becomes_a_table_where_that_of_redis_does() {
    let mut sim = Sim::new();
    sim.expect(SMALL, "+OK");
    sim.script(
        "
        config set hash-max-listpack-entries 3 hash-max-listpack-value 5 => +OK
        hset a 1 1 2 2 3 3 => :3
        object encoding a => $8 listpack
        hset a 1 2 => :0
        object encoding a => $8 listpack
        hset a 4 4 => :1
        object encoding a => $9 hashtable
        hdel a 2 3 4 => :3
        object encoding a => $9 hashtable
        hset b a 1 => :1
        hset b a 1 a 2 a 3 a 4 => :0
        object encoding b => $9 hashtable
        hget b a => $1 4
        hset c a 1 => :1
        hsetnx c a 123456 => :0
        object encoding c => $8 listpack
        hsetnx c 123456 1 => :1
        object encoding c => $9 hashtable
        hset d a 12345 => :1
        object encoding d => $8 listpack
        hset d a 123456 => :0
        object encoding d => $9 hashtable
        hset e a 1 => :1
        hincrby e a 1234567 => :1234568
        object encoding e => $9 hashtable
        hset f a 1 => :1
        hincrbyfloat f a 0.1234567 => $9 1.1234567
        object encoding f => $9 hashtable
        hmset g a 1 b 2 c 3 d 4 => +OK
        object encoding g => $9 hashtable
        hset i a 1 b 2 c 3 => :3
        hincrby i d 1 => :1
        object encoding i => $9 hashtable
        hmget i a b c d e => *5 $1 1 $1 2 $1 3 $1 1 $-1
        hset j a 1 => :1
        hget j 1234567 => $-1
        hdel j 1234567 => :0
        object encoding j => $8 listpack
        ",
    );
    // One that outgrows its entry.
    sim.expect(
        "config set hash-max-listpack-entries 100000 hash-max-listpack-value 100000",
        "+OK",
    );
    let value = "v".repeat(8_000);
    for field in ["a", "b", "c"] {
        sim.expect(&format!("hset wide {field} {value}"), ":1");
    }
    sim.expect("object encoding wide", "$9 hashtable");
    for field in ["a", "b", "c"] {
        sim.expect(&format!("hget wide {field}"), &format!("$8000 {value}"));
    }
    // Values of one megabyte are handed out whole.
    let huge = "w".repeat(1 << 20);
    let reply = sim.ask(&[b"hset", b"wide", b"a", huge.as_bytes()]);
    assert_eq!(reply, b":0\r\n");
    sim.expect("hstrlen wide a", ":1048576");
    sim.expect("hget wide a", &format!("$1048576 {huge}"));
    sim.expect("hdel wide a b c", ":3");
    sim.expect("exists wide", ":0");
}

#[test]
fn edits_keep_the_deadline_and_the_last_removal_ends_it() {
    for mut sim in both_forms() {
        sim.script(
            "hset h a 1 => :1
            pexpire h 1000 => :1
            hset h a 2 b 3 => :1
            hsetnx h c 1 => :1
            hmset h d 1 => +OK
            hincrby h a 1 => :3
            hincrbyfloat h a 1 => $1 4
            hdel h b => :1
            pttl h => :1000",
        );
    }
    for mut sim in both_forms() {
        sim.script(
            "hset h a 1 b 2 => :2
            pexpire h 1000 => :1
            hdel h a b nofield => :2
            exists h => :0
            hset h a 1 => :1
            pttl h => :-1
            pexpire h 1000 => :1
            +999
            hget h a => $1 1
            hlen h => :1
            +1
            hget h a => $-1
            hlen h => :0
            hgetall h => *0
            hscan h 0 => *2 $1 0 *0
            hdel h a => :0
            hincrby h b 2 => :2
            hgetall h => *2 $1 b $1 2
            ttl h => :-1",
        );
    }
}

#[test]
fn events_of_hashes() {
    let mut sim = notifying();
    sim.expect("config set notify-keyspace-events KEAn", "+OK");
    for (request, events) in [
        ("hset h a 1 b 2", "new h, hset h"),
        ("hset h a 1", "hset h"),
        ("hsetnx h a 2", ""),
        ("hsetnx h c 2", "hset h"),
        ("hmset h c 3", "hset h"),
        ("hincrby h n 0", "hincrby h"),
        ("hincrby h n x", ""),
        ("hincrbyfloat h n 0", "hincrbyfloat h"),
        ("hincrbyfloat h n x", ""),
        ("hdel h z", ""),
        ("hdel h a b", "hdel h"),
        ("hdel h c n x", "hdel h, del h"),
        ("hdel h a", ""),
        ("hincrby h n 1", "new h, hincrby h"),
        ("hrandfield h", ""),
        ("hscan h 0", ""),
    ] {
        events_of(&mut sim, &[request], events);
    }
}

#[test]
fn a_failed_increment_leaves_no_hash_behind() {
    let mut sim = Sim::new();
    for request in [
        "hincrby h f x",
        "hincrbyfloat h f x",
        "hincrbyfloat h f inf",
    ] {
        assert!(sim.run(request).starts_with("-ERR"));
        sim.expect("exists h", ":0");
    }
    let dirty = sim.engine.keyspace.changes.dirty();
    assert_eq!(dirty, 0);
}

#[test]
fn debug_object_tells_the_bytes_of_all_elements() {
    let mut sim = Sim::new();
    sim.engine.config.debug_command = mayfly::config::Permission::Yes;
    sim.script("hset h f1 v1 f2 v22=>:2\nrpush l abc de=>:2\nsadd s 1 22 333=>:3");
    sim.script("config set hash-max-listpack-entries 1=>+OK\nhset big f1 v1 f2 v22=>:2");
    for (key, bytes) in [("h", 9), ("l", 5), ("s", 6), ("big", 9)] {
        let reply = sim.run(&format!("debug object {key}"));
        assert!(
            reply.contains(&format!("serializedlength:{bytes} ")),
            "{reply}"
        );
    }
}
