//! Transcripts of the commands on streams, and of clients that wait for entries.

use mayfly::engine::session::SessionKey;

use crate::sim::{Sim, TempDir};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const INVALID_ID: &str = "-ERR Invalid stream ID specified as stream command argument";

/// A server that has a stream `s` of the entries 1-1 to 4-1.
fn filled() -> Sim {
    let mut sim = Sim::new();
    for id in 1..=4 {
        sim.expect(&format!("xadd s {id}-1 n {id}"), &format!("$3 {id}-1"));
    }
    sim
}

fn hello3(sim: &mut Sim) {
    sim.run("hello 3");
}

#[test]
fn ids_come_from_the_clock_and_never_go_back() {
    let mut sim = Sim::new();
    sim.script(
        "
        xadd s * f v        => $15 1700000000000-0
        xadd s * f v        => $15 1700000000000-1
        xadd s 1700000000000-* f v => $15 1700000000000-2
        xadd s 1800000000000-7 f v => $15 1800000000000-7
        xadd s * f v        => $15 1800000000000-8
        ",
    );
    sim.expect(
        "xadd s 5 f v",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
    );
    sim.expect(
        "xadd s 1800000000000-8 f v",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
    );
    sim.script(
        "
        xadd s 1800000000001-* f v => $15 1800000000001-0
        xadd s 0-0 f v      => -ERR The ID specified in XADD must be greater than 0-0
        xadd t 0-* f v      => $3 0-1
        ",
    );
    sim.expect(
        "xadd t 18446744073709551615-18446744073709551615 f v",
        "$41 18446744073709551615-18446744073709551615",
    );
    sim.expect(
        "xadd t * f v",
        "-ERR The stream has exhausted the last possible ID, unable to add more items",
    );
    sim.expect(
        "xadd t 5-* f v",
        "-ERR The stream has exhausted the last possible ID, unable to add more items",
    );
    sim.script(
        "
        xadd u 7-18446744073709551615 f v => $22 7-18446744073709551615
        ",
    );
    sim.expect(
        "xadd u 7-* f v",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
    );
    sim.script(
        "
        xadd u nomkstream 8 f v => $3 8-0
        xadd v nomkstream 8 f v => $-1
        exists v            => :0
        type u              => +stream
        object encoding u   => $6 stream
        ",
    );
    sim.advance(5);
    sim.run("del s");
    sim.expect("xadd s * f v", "$15 1700000000005-0");
}

#[test]
fn arguments_are_refused_in_redis_words() {
    let mut sim = filled();
    sim.expect("set text v", "+OK");
    for request in [
        "xadd text * f v",
        "xlen text",
        "xrange text - +",
        "xdel text 1-1",
        "xread streams text 0",
        "xread streams s text $ $",
        "xtrim text maxlen 1",
        "xsetid text 5-5",
    ] {
        sim.expect(request, WRONG_TYPE);
    }
    for request in [
        "xadd s x f v",
        "xadd s 9-x f v",
        "xadd s minid - * f v",
        "xdel s 1-1 +",
        "xrange s x +",
        "xrange s - (-",
        "xread streams s 5-*",
        "xsetid s -",
    ] {
        sim.expect(request, INVALID_ID);
    }
    sim.script(
        "
        xadd s * f          => -ERR wrong number of arguments for 'xadd' command
        xadd s * f v g      => -ERR wrong number of arguments for 'xadd' command
        xadd s maxlen -1 * f v => -ERR The MAXLEN argument must be >= 0.
        xadd s maxlen x * f v => -ERR value is not an integer or out of range
        ",
    );
    sim.expect(
        "xadd s maxlen 1 minid 1 * f v",
        "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
    );
    sim.expect(
        "xadd s maxlen 1 limit 5 * f v",
        "-ERR syntax error, LIMIT cannot be used without the special ~ option",
    );
    sim.expect(
        "xadd s limit 5 * f v",
        "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
    );
    sim.script(
        "
        xtrim s maxlen ~ 1 limit -1 => -ERR The LIMIT argument must be >= 0.
        xtrim s foo 1       => -ERR syntax error
        xrange s - + limit 1 => -ERR syntax error
        xrange s - + count x => -ERR value is not an integer or out of range
        ",
    );
    sim.expect(
        "xrange s (18446744073709551615-18446744073709551615 +",
        "-ERR invalid start ID for the interval",
    );
    sim.script(
        "
        xrange s - (0-0     => -ERR invalid end ID for the interval
        xread streams s     => -ERR wrong number of arguments for 'xread' command
        ",
    );
    sim.expect(
        "xread count 1 streams s",
        "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
    );
    sim.expect(
        "xread streams s >",
        "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
    );
    sim.script(
        "
        xread block -1 streams s 0 => -ERR timeout is negative
        xread block 1.5 streams s 0 => -ERR timeout is not an integer or out of range
        xsetid none 1       => -ERR no such key
        ",
    );
    sim.expect(
        "xsetid s 3-9",
        "-ERR The ID specified in XSETID is smaller than the target stream top item",
    );
    sim.expect(
        "xsetid s 9 entriesadded 2",
        "-ERR The entries_added specified in XSETID is smaller than the target stream length",
    );
    sim.script(
        "
        xsetid s 9 entriesadded -1 => -ERR entries_added must be positive
        ",
    );
    sim.expect(
        "xsetid s 9 maxdeletedid 9-1",
        "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
    );
    sim.script(
        "
        xlen s              => :4
        ",
    );
}

#[test]
fn ranges_are_read_from_either_end() {
    let mut sim = filled();
    sim.script(
        "
        xlen s              => :4
        xlen none           => :0
        xrange s 2 3        => *2 *2 $3 2-1 *2 $1 n $1 2 *2 $3 3-1 *2 $1 n $1 3
        xrange s (2-1 (4-1  => *1 *2 $3 3-1 *2 $1 n $1 3
        xrange s - + count 1 => *1 *2 $3 1-1 *2 $1 n $1 1
        xrange s - + count 0 => *-1
        xrange s - + count -5 => *-1
        xrange s 3-2 3-9    => *0
        xrange s 4 2        => *0
        xrange none - +     => *0
        xrange none - + count 0 => *0
        xrevrange s + - count 2 => *2 *2 $3 4-1 *2 $1 n $1 4 *2 $3 3-1 *2 $1 n $1 3
        xrevrange s 2 1     => *2 *2 $3 2-1 *2 $1 n $1 2 *2 $3 1-1 *2 $1 n $1 1
        xread streams s 3   => *1 *2 $1 s *2 *2 $3 3-1 *2 $1 n $1 3 *2 $3 4-1 *2 $1 n $1 4
        xread count 1 streams none s 0 2-1 => *1 *2 $1 s *1 *2 $3 3-1 *2 $1 n $1 3
        xread streams s +   => *1 *2 $1 s *1 *2 $3 4-1 *2 $1 n $1 4
        xread streams s $   => *-1
        xread streams none + => *-1
        xread count 0 streams s 3-1 => *1 *2 $1 s *1 *2 $3 4-1 *2 $1 n $1 4
        ",
    );
    hello3(&mut sim);
    sim.script(
        "
        xread streams s 3-1 => %1 $1 s *1 *2 $3 4-1 *2 $1 n $1 4
        xread streams s 9   => _
        xrange s - + count 0 => _
        xrange s 4 4        => *1 *2 $3 4-1 *2 $1 n $1 4
        ",
    );
}

#[test]
fn a_stream_outlives_its_entries() {
    let mut sim = filled();
    sim.script(
        "
        xdel s 1-1 1-1 9-9 4-1 => :2
        xdel none 1-1       => :0
        xread streams s +   => *1 *2 $1 s *1 *2 $3 3-1 *2 $1 n $1 3
        ",
    );
    sim.expect(
        "xadd s 4-1 f v",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
    );
    sim.expect(
        "xsetid s 3-5",
        "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
    );
    sim.script(
        "
        xtrim s maxlen 0    => :2
        xlen s              => :0
        exists s            => :1
        xrange s - +        => *0
        xread streams s +   => *-1
        xadd s 4-* f v      => $3 4-2
        ",
    );
    sim.expect(
        "xsetid s 3",
        "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
    );
    sim.script(
        "
        xsetid s 9-9 entriesadded 100 maxdeletedid 7-7 => +OK
        xadd s 9-* f v      => $4 9-10
        copy s t            => :1
        xdel s 9-10         => :1
        xlen t              => :2
        ",
    );
}

#[test]
fn what_is_trimmed_is_whole_chunks_or_exact() {
    let mut sim = Sim::new();
    sim.expect("config set stream-node-max-entries 10", "+OK");
    for id in 1..=100 {
        sim.run(&format!("xadd s {id} f v"));
    }
    sim.script(
        "
        xtrim s maxlen ~ 95 => :0
        xtrim s maxlen ~ 85 => :10
        xtrim s minid ~ 25  => :10
        xtrim s maxlen ~ 0 limit 25 => :20
        xtrim s maxlen 55   => :5
        xtrim s maxlen = 55 => :0
        xtrim s minid 50    => :4
        xadd s maxlen 3 101 f v => $5 101-0
        xrange s - + count 1 => *1 *2 $4 99-0 *2 $1 f $1 v
        xadd s maxlen ~ 0 limit 0 102 f v => $5 102-0
        xlen s              => :0
        xtrim none maxlen 3 => :0
        ",
    );
}

#[test]
fn each_change_has_its_event() {
    let mut sim = Sim::new();
    sim.expect("config set notify-keyspace-events KEA", "+OK");
    let listener = sim.connect();
    sim.run_as(listener, "psubscribe __keyevent*");
    sim.received(listener);
    let mut events = |request: &str| {
        sim.run(request);
        let text = sim.received(listener);
        let names = text.split("__keyevent@0__:").skip(1);
        names
            .filter_map(|name| name.split(' ').next())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(events("xadd s 1 f v"), "xadd");
    assert_eq!(events("xadd s maxlen 1 2 f v"), "xadd xtrim");
    assert_eq!(events("xadd s maxlen 5 3 f v"), "xadd");
    assert_eq!(events("xtrim s maxlen 1"), "xtrim");
    assert_eq!(events("xtrim s maxlen 1"), "");
    assert_eq!(events("xdel s 9"), "");
    assert_eq!(events("xdel s 3"), "xdel");
    assert_eq!(events("xsetid s 5"), "xsetid");
    assert_eq!(events("pexpire s 0"), "del");
}

#[test]
fn a_stream_is_a_key_like_any_other() {
    let mut sim = filled();
    sim.script(
        "
        pexpire s 5         => :1
        xadd s 5-1 n 5      => $3 5-1
        pttl s              => :5
        scan 0 type stream  => *2 $1 0 *1 $1 s
        ",
    );
    sim.advance(4);
    sim.expect("xlen s", ":5");
    sim.advance(1);
    sim.script("xlen s=>:0\nxadd s 1-1 f v=>$3 1-1\npttl s=>:-1\nrename s t=>+OK\nxlen t=>:1");
    let watching = sim.connect();
    sim.run_as(watching, "watch t");
    sim.run_as(watching, "multi");
    sim.run_as(watching, "xlen t");
    sim.expect("xdel t 1-1", ":1");
    assert_eq!(sim.run_as(watching, "exec"), "*-1");
}

/// A request that is not answered.
#[track_caller]
fn wait(sim: &mut Sim, request: &str) -> SessionKey {
    let client = sim.connect();
    assert_eq!(sim.run_as(client, request), "", "{request}");
    assert!(sim.engine.sessions[client].blocked.is_some(), "{request}");
    client
}

#[test]
fn who_waits_gets_what_comes() {
    let mut sim = filled();
    let new = wait(&mut sim, "xread block 0 streams s $");
    let any = wait(&mut sim, "xread block 0 streams none s 0 4-1");
    let both = wait(&mut sim, "xread block 0 count 1 streams none s + $");
    sim.expect("xadd s 5-1 n 5", "$3 5-1");
    let entry = "*1 *2 $1 s *1 *2 $3 5-1 *2 $1 n $1 5";
    for client in [new, any, both] {
        assert_eq!(sim.received(client), entry);
    }
    let new = wait(&mut sim, "xread block 0 streams s $");
    sim.script("multi=>+OK\nxadd s 6-1 n 6=>+QUEUED\nxadd s 7-1 n 7=>+QUEUED");
    sim.expect("exec", "*2 $3 6-1 $3 7-1");
    let entries = "*1 *2 $1 s *2 *2 $3 6-1 *2 $1 n $1 6 *2 $3 7-1 *2 $1 n $1 7";
    assert_eq!(sim.received(new), entries);
    // Nobody waits in a transaction.
    sim.script("multi=>+OK\nxread block 0 streams s $=>+QUEUED\nexec=>*1 *-1");
}

#[test]
fn a_wait_ends_with_its_time() {
    let mut sim = filled();
    let client = wait(&mut sim, "xread block 10 streams s $");
    sim.advance(9);
    assert_eq!(sim.received(client), "");
    sim.advance(1);
    assert_eq!(sim.received(client), "*-1");
    assert!(sim.engine.blocking.is_empty());
}

#[test]
fn who_waits_is_not_woken_by_what_it_does_not_wait_for() {
    let mut sim = filled();
    let client = wait(&mut sim, "xread block 0 streams s $");
    for request in ["xdel s 4-1", "del s", "set s text", "lpush other x"] {
        sim.run(request);
        assert_eq!(sim.received(client), "", "{request}");
    }
    // A new stream of that name has entries beyond the id only later.
    sim.script("del s=>:1\nxadd s 2-1 n 2=>$3 2-1");
    assert_eq!(sim.received(client), "");
    sim.run("xadd t 9-1 n 9");
    sim.expect("rename t s", "+OK");
    assert_eq!(sim.received(client), "*1 *2 $1 s *1 *2 $3 9-1 *2 $1 n $1 9");
    let client = wait(&mut sim, "xread block 0 streams s $");
    sim.script("select 1=>+OK\nxadd s 10-1 n 10=>$4 10-1\nswapdb 0 1=>+OK");
    assert_eq!(
        sim.received(client),
        "*1 *2 $1 s *1 *2 $4 10-1 *2 $1 n $2 10"
    );
}

/// A server that has a stream `s` of the entries 1-1 to 4-1 and a group `g` at its beginning.
fn grouped() -> Sim {
    let mut sim = filled();
    sim.expect("xgroup create s g 0", "+OK");
    sim
}

#[test]
fn a_group_delivers_each_entry_once() {
    let mut sim = grouped();
    sim.script(
        "
        xreadgroup group g a count 1 streams s > => *1 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1
        xreadgroup group g b count 1 streams s > => *1 *2 $1 s *1 *2 $3 2-1 *2 $1 n $1 2
        xreadgroup group g a count 1 noack streams s > => *1 *2 $1 s *1 *2 $3 3-1 *2 $1 n $1 3
        xreadgroup group g a streams s 0 => *1 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1
        xreadgroup group g c streams s 0 => *1 *2 $1 s *0
        xpending s g        => *4 :2 $3 1-1 $3 2-1 *2 *2 $1 a $1 1 *2 $1 b $1 1
        xack s g 1-1 1-1 3-1 => :1
        xdel s 2-1          => :1
        xreadgroup group g b streams s 0 => *1 *2 $1 s *1 *2 $3 2-1 *-1
        xreadgroup group g b streams s > => *1 *2 $1 s *1 *2 $3 4-1 *2 $1 n $1 4
        xreadgroup group g b streams s > => *-1
        xgroup delconsumer s g b => :2
        xpending s g        => *4 :0 $-1 $-1 *-1
        xpending s none     => -NOGROUP No such key 's' or consumer group 'none'
        xgroup setid s g 3-1 => +OK
        xreadgroup group g b streams s > => *1 *2 $1 s *1 *2 $3 4-1 *2 $1 n $1 4
        xgroup destroy s g  => :1
        xgroup destroy s g  => :0
        ",
    );
}

#[test]
fn pending_entries_change_hands() {
    let mut sim = grouped();
    sim.run("xreadgroup group g a streams s >");
    sim.advance(10);
    sim.script(
        "
        xpending s g - + 2  => *2 *4 $3 1-1 $1 a :10 :1 *4 $3 2-1 $1 a :10 :1
        xpending s g idle 11 - + 9 => *0
        xpending s g idle 10 (3-1 + 9 a => *1 *4 $3 4-1 $1 a :10 :1
        xpending s g - + 9 b => *0
        xclaim s g b 11 1-1 => *0
        xclaim s g b 10 1-1 => *1 *2 $3 1-1 *2 $1 n $1 1
        xclaim s g b 10 1-1 => *0
        xclaim s g b 0 2-1 9-9 justid => *1 $3 2-1
        xclaim s g b 0 3-1 idle 7 retrycount 5 => *1 *2 $3 3-1 *2 $1 n $1 3
        xpending s g - 3-1 9 => *3 *4 $3 1-1 $1 b :0 :2 *4 $3 2-1 $1 b :0 :1 *4 $3 3-1 $1 b :7 :5
        xdel s 2-1          => :1
        xautoclaim s g c 0 2-1 count 2 => *3 $3 4-1 *1 *2 $3 3-1 *2 $1 n $1 3 *1 $3 2-1
        xautoclaim s g c 5 0 justid => *3 $3 0-0 *1 $3 4-1 *0
        xautoclaim s g c 0 0 count 0 => -ERR COUNT must be > 0
        xclaim s g c 0 4-1 time 99999999999999 => *1 *2 $3 4-1 *2 $1 n $1 4
        xclaim s g c 0 4-1 time 5 justid => *1 $3 4-1
        xclaim s g c 0 9-9 force => *0
        xpending s g 4-1 4-1 1 => *1 *4 $3 4-1 $1 c :1700000000005 :2
        ",
    );
}

#[test]
fn what_is_deleted_may_depend_on_groups() {
    let mut sim = grouped();
    sim.run("xgroup create s h 0");
    sim.run("xreadgroup group g a streams s >");
    sim.run("xreadgroup group h a count 2 streams s >");
    sim.script(
        "
        xdelex s ids 2 1-1 9-9 => *2 :1 :-1
        xdelex s acked ids 1 2-1 => *1 :2
        xackdel s g acked ids 2 2-1 3-1 => *2 :2 :2
        xackdel s h acked ids 2 2-1 3-1 => *2 :1 :-1
        xpending s g - + 9  => *2 *4 $3 1-1 $1 a :0 :1 *4 $3 4-1 $1 a :0 :1
        xdelex s delref ids 1 1-1 => *1 :-1
        xpending s g - + 9  => *1 *4 $3 4-1 $1 a :0 :1
        xrange s - + count 1 => *1 *2 $3 3-1 *2 $1 n $1 3
        xtrim s maxlen 0 acked => :0
        xgroup setid s h $  => +OK
        xtrim s maxlen 0 acked => :1
        xadd s delref maxlen 1 5-1 n 5 => $3 5-1
        xpending s g        => *4 :0 $-1 $-1 *-1
        xackdel none g ids 1 1-1 => *1 :-1
        xdelex s acked delref ids 1 1-1 => -ERR syntax error
        xdelex s ids 0 1-1  => -ERR Number of IDs must be a positive integer
        xdelex s ids 2 1-1  => -ERR The `numids` parameter must match the number of arguments
        xlen s              => :1
        ",
    );
}

#[test]
fn a_stream_is_described() {
    let mut sim = grouped();
    sim.run("xreadgroup group g a count 1 streams s >");
    sim.run("xgroup createconsumer s g b");
    sim.advance(3);
    sim.expect(
        "xinfo stream s",
        "*20 $6 length :4 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 \
         $17 last-generated-id $3 4-1 $20 max-deleted-entry-id $3 0-0 $13 entries-added :4 \
         $23 recorded-first-entry-id $3 1-1 $6 groups :1 \
         $11 first-entry *2 $3 1-1 *2 $1 n $1 1 $10 last-entry *2 $3 4-1 *2 $1 n $1 4",
    );
    sim.expect(
        "xinfo groups s",
        "*1 *12 $4 name $1 g $9 consumers :2 $7 pending :1 $17 last-delivered-id $3 1-1 \
         $12 entries-read :1 $3 lag :3",
    );
    sim.expect(
        "xinfo consumers s g",
        "*2 *8 $4 name $1 a $7 pending :1 $4 idle :3 $8 inactive :3 \
         *8 $4 name $1 b $7 pending :0 $4 idle :3 $8 inactive :-1",
    );
    hello3(&mut sim);
    sim.expect(
        "xinfo stream s full count 1",
        "%9 $6 length :4 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 \
         $17 last-generated-id $3 4-1 $20 max-deleted-entry-id $3 0-0 $13 entries-added :4 \
         $23 recorded-first-entry-id $3 1-1 $7 entries *1 *2 $3 1-1 *2 $1 n $1 1 \
         $6 groups *1 %7 $4 name $1 g $17 last-delivered-id $3 1-1 $12 entries-read :1 $3 lag :3 \
         $9 pel-count :1 $7 pending *1 *4 $3 1-1 $1 a :1700000000000 :1 \
         $9 consumers *2 %5 $4 name $1 a $9 seen-time :1700000000000 \
         $11 active-time :1700000000000 $9 pel-count :1 \
         $7 pending *1 *3 $3 1-1 :1700000000000 :1 \
         %5 $4 name $1 b $9 seen-time :1700000000000 $11 active-time :-1 $9 pel-count :0 \
         $7 pending *0",
    );
}

#[test]
fn who_waits_for_a_group_is_told_of_its_end() {
    const NO_GROUP: &str = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with \
                            GROUP option";
    for (request, reply) in [
        ("xgroup destroy s g", NO_GROUP),
        ("del s", NO_GROUP),
        ("rename s t", NO_GROUP),
        ("rename other s", NO_GROUP),
        ("flushall", NO_GROUP),
        ("flushdb", NO_GROUP),
        ("swapdb 0 1", NO_GROUP),
        ("pexpire s 0", NO_GROUP),
        ("set s text", WRONG_TYPE),
        ("xadd s 9-1 n 9", "*1 *2 $1 s *1 *2 $3 9-1 *2 $1 n $1 9"),
    ] {
        let mut sim = grouped();
        sim.run("xadd other 1-1 f v");
        sim.run("xgroup setid s g $");
        let client = wait(&mut sim, "xreadgroup group g c block 0 streams s >");
        let other = wait(&mut sim, "xread block 0 streams s $");
        sim.run(request);
        assert_eq!(sim.received(client), reply, "{request}");
        assert_eq!(sim.received(other).is_empty(), reply.starts_with('-'));
    }
    let mut sim = grouped();
    sim.script("xgroup setid s g $=>+OK\npexpire s 5=>:1");
    let client = wait(&mut sim, "xreadgroup group g c block 0 streams s >");
    sim.advance(10);
    assert_eq!(sim.received(client), NO_GROUP);
}

#[test]
fn one_of_those_who_wait_for_a_group_gets_an_entry() {
    let mut sim = grouped();
    sim.run("xgroup setid s g $");
    let first = wait(&mut sim, "xreadgroup group g a block 0 streams s >");
    let second = wait(&mut sim, "xreadgroup group g b block 0 streams s >");
    sim.run("xadd s 5-1 n 5");
    let entry = "*1 *2 $1 s *1 *2 $3 5-1 *2 $1 n $1 5";
    assert_eq!(sim.received(first), entry);
    assert_eq!(sim.received(second), "");
    sim.expect("xpending s g - + 9", "*1 *4 $3 5-1 $1 a :0 :1");
    // What is asked for again is there, or is not, at once.
    sim.expect("xreadgroup group g b block 0 streams s 0", "*1 *2 $1 s *0");
    sim.script("multi=>+OK\nxreadgroup group g a block 0 streams s >=>+QUEUED\nexec=>*1 *-1");
}

#[test]
fn a_reader_takes_over_what_was_idle_for_long_and_reads_on() {
    let mut sim = grouped();
    sim.script(
        "xreadgroup group g a count 1 streams s > => *1 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1
        +30
        xreadgroup group g a count 1 streams s > => *1 *2 $1 s *1 *2 $3 2-1 *2 $1 n $1 2
        xclaim s g a 0 1-1 idle 30 justid => *1 $3 1-1
        +20
        xreadgroup group g b count 2 claim 51 streams s > => \
        *1 *2 $1 s *2 *4 $3 3-1 *2 $1 n $1 3 :0 :0 *4 $3 4-1 *2 $1 n $1 4 :0 :0
        xreadgroup group g b claim 51 streams s > => *-1
        xreadgroup group g b count 1 claim 20 streams s > => \
        *1 *2 $1 s *1 *4 $3 1-1 *2 $1 n $1 1 :50 :1
        xreadgroup group g b claim 20 streams s > => *1 *2 $1 s *1 *4 $3 2-1 *2 $1 n $1 2 :20 :1
        xreadgroup group g b claim 20 streams s > => *-1
        xpending s g - + 9 => *4 *4 $3 1-1 $1 b :0 :2 *4 $3 2-1 $1 b :0 :2 \
        *4 $3 3-1 $1 b :0 :1 *4 $3 4-1 $1 b :0 :1
        xack s g 2-1 3-1 4-1 => :3
        +9
        xreadgroup group g c claim 9 noack streams s > => *1 *2 $1 s *1 *4 $3 1-1 *2 $1 n $1 1 :9 :2
        xpending s g - + 9 => *1 *4 $3 1-1 $1 c :0 :3
        xreadgroup group g c claim 0 streams s 0 => *1 *2 $1 s *1 *2 $3 1-1 *2 $1 n $1 1
        xdel s 1-1 => :1
        xreadgroup group g c claim 0 streams s > => *-1
        xpending s g => *4 :0 $-1 $-1 *-1
        xreadgroup group g c claim -1 streams s > => {min-idle-time must be a positive integer}
        xreadgroup group g c claim x streams s > => {min-idle-time is not an integer}
        xreadgroup group g c claim streams s > => {min-idle-time is not an integer}
        xread claim 5 streams s 0 => \
        {The CLAIM option is only supported by XREADGROUP. You called XREAD instead.}",
    );
    sim.engine.keyspace.check();
}

#[test]
fn one_who_waits_takes_over_what_becomes_idle() {
    let mut sim = grouped();
    sim.run("xreadgroup group g a streams s >");
    let entry = |id: &str, n: u32, idle: u32| format!("*4 $3 {id} *2 $1 n $1 {n} :{idle} :1");
    sim.run("xack s g 2-1 3-1 4-1");
    let first = wait(
        &mut sim,
        "xreadgroup group g b block 0 claim 100 streams s >",
    );
    let second = wait(
        &mut sim,
        "xreadgroup group g c block 300 claim 150 streams s >",
    );
    sim.advance(99);
    assert_eq!(sim.received(first), "");
    assert_eq!(sim.engine.next_wakeup_ms(), Some(1));
    sim.advance(1);
    assert_eq!(
        sim.received(first),
        format!("*1 *2 $1 s *1 {}", entry("1-1", 1, 100))
    );
    // The second waits for the delivery to the first to be old enough.
    sim.advance(149);
    assert_eq!(sim.received(second), "");
    sim.advance(1);
    let reply = sim.received(second);
    assert_eq!(reply, "*1 *2 $1 s *1 *4 $3 1-1 *2 $1 n $1 1 :150 :2");
    assert_eq!(sim.engine.blocking.timeouts(), 0);
    // One whose time ends first gets nothing; one gets what is new at once; acknowledged is gone.
    let third = wait(
        &mut sim,
        "xreadgroup group g d block 99 claim 100 streams s >",
    );
    sim.advance(99);
    assert_eq!(sim.received(third), "*-1");
    let third = wait(
        &mut sim,
        "xreadgroup group g d block 0 claim 100 streams s >",
    );
    sim.run("xadd s 9-1 n 9");
    let reply = sim.received(third);
    // At 99 ms nothing is idle enough, only the new one is told.
    assert_eq!(reply, "*1 *2 $1 s *1 *4 $3 9-1 *2 $1 n $1 9 :0 :0");
    let third = wait(
        &mut sim,
        "xreadgroup group g e block 0 claim 100 streams s >",
    );
    sim.script("xack s g 1-1 9-1 => :2");
    sim.advance(500);
    assert_eq!(sim.received(third), "");
    assert_eq!(sim.engine.blocking.len(), 1);
}

#[test]
fn one_who_waits_for_idle_entries_sees_claims_with_a_time() {
    let mut sim = grouped();
    sim.run("xreadgroup group g a streams s >");
    sim.run("xack s g 2-1 3-1 4-1");
    let client = wait(
        &mut sim,
        "xreadgroup group g b block 0 claim 1000 streams s >",
    );
    sim.run("xclaim s g a 0 1-1 idle 990 justid");
    assert_eq!(sim.received(client), "");
    sim.advance(9);
    assert_eq!(sim.received(client), "");
    sim.advance(1);
    let reply = sim.received(client);
    assert_eq!(reply, "*1 *2 $1 s *1 *4 $3 1-1 *2 $1 n $1 1 :1000 :1");
    // WATCH is not concerned.
    sim.script("watch s => +OK\nmulti => +OK");
    let other = sim.connect();
    sim.run_as(other, "xclaim s g a 0 1-1 idle 5");
    sim.expect("exec", "*0");
}

#[test]
fn a_snapshot_keeps_groups() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    for id in 1..=500 {
        sim.run(&format!("xadd s {id} n {id}"));
    }
    sim.script("xgroup create s g 0=>+OK\nxgroup create s h 7 entriesread 7=>+OK");
    for consumer in ["b", "a", "gone", "c"] {
        sim.run(&format!(
            "xreadgroup group g {consumer} count 100 streams s >"
        ));
    }
    sim.run("xgroup delconsumer s g gone");
    sim.run("xreadgroup group g a count 7 streams s 0");
    let full = sim.run("xinfo stream s full count 0");
    sim.expect("save", "+OK");
    let mut other = Sim::saving_in(&dir, 2);
    other.engine.load_now().expect("it loads");
    assert_eq!(other.run("xinfo stream s full count 0"), full);
    other.expect(
        "xreadgroup group g d count 1 streams s >",
        "*1 *2 $1 s *1 *2 $5 401-0 *2 $1 n $3 401",
    );
}

#[test]
fn groups_go_piece_by_piece() {
    let mut sim = Sim::new();
    for id in 1..=3_000 {
        sim.run(&format!("xadd s {id} n {id}"));
    }
    sim.script("xgroup create s g 0=>+OK\nxgroup create s h 0=>+OK");
    sim.run("xreadgroup group g a streams s >");
    sim.run("xreadgroup group h a streams s >");
    sim.expect("xgroup destroy s g", ":1");
    assert_eq!(sim.engine.keyspace.graveyard.pending_values(), 1);
    sim.expect("del s", ":1");
    sim.advance(1_000);
    assert!(sim.engine.keyspace.graveyard.is_empty());
}

#[test]
fn a_snapshot_keeps_entries_and_what_is_remembered() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.expect("config set stream-node-max-entries 7", "+OK");
    for id in 1..=1_000 {
        sim.run(&format!("xadd s {id} n {id} m x{id}"));
    }
    sim.run("xdel s 7 1000");
    sim.run("xadd empty 3 n 3");
    sim.run("xtrim empty maxlen 0");
    sim.run("xsetid empty 8-8 entriesadded 70 maxdeletedid 6-6");
    let before = sim.run("debug digest");
    sim.expect("save", "+OK");
    let mut other = Sim::saving_in(&dir, 2);
    other.engine.load_now().expect("it loads");
    assert_eq!(other.run("debug digest"), before);
    other.script(
        "
        xlen s              => :998
        xadd s 1000-* f v   => $6 1000-1
        xlen empty          => :0
        ",
    );
    sim.expect(
        "xsetid empty 6-5",
        "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
    );
    sim.script(
        "
        xadd empty 8-* f v  => $3 8-9
        ",
    );
}

#[test]
fn a_big_stream_is_freed_piece_by_piece() {
    let mut sim = Sim::new();
    for id in 1..=5_000 {
        sim.run(&format!("xadd s {id} n {id}"));
    }
    sim.expect("xtrim s maxlen 1000", ":4000");
    assert_eq!(sim.engine.keyspace.graveyard.pending_values(), 1);
    sim.expect("del s", ":1");
    assert_eq!(sim.engine.keyspace.graveyard.pending_values(), 2);
    sim.advance(1_000);
    assert!(sim.engine.keyspace.graveyard.is_empty());
}
