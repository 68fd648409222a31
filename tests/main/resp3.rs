//! Transcripts in RESP3: what a client gets that has said HELLO 3, as redis-server 7.0 answers it.

use crate::sim::Sim;

/// A server whose first client speaks RESP3.
fn resp3() -> Sim {
    let mut sim = Sim::new();
    sim.run("hello 3");
    sim
}

#[test]
fn hello_answers_a_map_and_changes_the_protocol() {
    let mut sim = Sim::new();
    let fields = |protocol| {
        format!(
            "$6 server $5 redis $7 version $5 7.4.0 $5 proto :{protocol} $2 id :1 \
             $4 mode $10 standalone $4 role $6 master $7 modules *0"
        )
    };
    sim.expect("get none", "$-1");
    sim.expect("hello 3", &format!("%7 {}", fields(3)));
    sim.expect("get none", "_");
    sim.expect("hello", &format!("%7 {}", fields(3)));
    // An error changes nothing.
    sim.script(
        "hello 4 => -NOPROTO unsupported protocol version
        hello x => {Protocol version is not an integer or out of range}
        hello 2 foo => {Syntax error in HELLO option 'foo'}
        hello 2 setname => {Syntax error in HELLO option 'setname'}
        get none => _",
    );
    sim.expect("hello 3 setname bob", &format!("%7 {}", fields(3)));
    sim.expect("client getname", "$3 bob");
    sim.expect("hello 2", &format!("*14 {}", fields(2)));
    sim.expect("get none", "$-1");
    sim.run("hello 3");
    sim.script("reset=>+RESET\nget none=>$-1");
}

#[test]
fn null_has_a_form_of_its_own() {
    resp3().script(
        "
        set k v => +OK
        get none => _
        mget k none => *2 $1 v _
        set none v xx => _
        set k w nx => _
        set n v nx get => _
        getex none => _
        getdel none => _
        getset m v => _
        object encoding none => _
        memory usage none => _
        client getname => _
        watch k => +OK
        set k w => +OK
        multi => +OK
        get k => +QUEUED
        exec => _
        multi => +OK
        get none => +QUEUED
        incrbyfloat f 1.5 => +QUEUED
        exec => *2 _ $3 1.5
        del none => :0
        ttl none => :-2
        type none => +none
        scan 0 match x => *2 $1 0 *0
        time x => {wrong number of arguments for 'time' command}
        ",
    );
    let mut sim = resp3();
    sim.expect("randomkey", "_");
}

#[test]
fn maps_and_texts_are_marked_as_such() {
    let mut sim = resp3();
    sim.expect("config get hz", "%1 $2 hz $2 10");
    sim.expect("config get none*", "%0");
    sim.expect("command docs none", "%0");
    sim.expect(
        "command getkeysandflags set a b",
        "*1 *2 $1 a ~2 +OW +update",
    );
    assert!(sim.run("command docs get").starts_with("%1 $3 get %"));
    let info = sim.run("client info");
    assert!(
        info.starts_with('=') && info.contains(" txt:id=1 addr="),
        "{info}"
    );
    assert!(info.contains(" resp=3 "), "{info}");
    assert!(sim.run("client list").starts_with('='));
    assert!(sim.run("info server").starts_with('='));
    sim.expect("info none", "=4 txt:");
    sim.run("hello 2");
    sim.expect("config get hz", "*2 $2 hz $2 10");
    assert!(sim.run("client info").starts_with('$'));
    assert!(sim.run("info server").starts_with('$'));
}

#[test]
fn messages_are_pushes_and_other_commands_stay_allowed() {
    let mut sim = resp3();
    sim.script(
        "
        set k v => +OK
        subscribe c d => >3 $9 subscribe $1 c :1 >3 $9 subscribe $1 d :2
        get k => $1 v
        ping => +PONG
        ping x => $1 x
        psubscribe c* => >3 $10 psubscribe $2 c* :3
        ssubscribe s => >3 $10 ssubscribe $1 s :1
        pubsub numsub c s => *4 $1 c :1 $1 s :0
        pubsub shardnumsub s => *2 $1 s :1
        unsubscribe c => >3 $11 unsubscribe $1 c :2
        unsubscribe => >3 $11 unsubscribe $1 d :1
        unsubscribe => >3 $11 unsubscribe _ :1
        punsubscribe => >3 $12 punsubscribe $2 c* :0
        punsubscribe => >3 $12 punsubscribe _ :0
        sunsubscribe => >3 $12 sunsubscribe $1 s :0
        ",
    );
    let listener = sim.connect();
    sim.run_as(listener, "hello 3");
    sim.run_as(listener, "subscribe c");
    sim.run_as(listener, "psubscribe c*");
    sim.run_as(listener, "ssubscribe c");
    sim.script("publish c hi=>:2\nspublish c hi=>:1");
    assert_eq!(
        sim.received(listener),
        ">3 $7 message $1 c $2 hi >4 $8 pmessage $2 c* $1 c $2 hi >3 $8 smessage $1 c $2 hi"
    );
    // In RESP2 the same come as arrays.
    sim.run_as(listener, "hello 2");
    sim.expect("publish c hi", ":2");
    let text = sim.received(listener);
    assert!(
        text.starts_with("*3 $7 message $1 c $2 hi *4 $8 pmessage"),
        "{text}"
    );
    assert!(
        sim.run_as(listener, "get k")
            .starts_with("-ERR Can't execute 'get'")
    );
}
