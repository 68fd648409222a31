//! Scripts and functions among other commands and other clients.

use std::io::Write;
use std::sync::mpsc;

use mayfly::command::dispatch::run_ready;
use mayfly::engine::session::SessionKey;

use crate::process::{Server, ask, expect, wait_for};
use crate::sim::{Sim, TempDir};

/// Runs for about half a second of a clock that moves a millisecond whenever it is read.
const LONG: &str = "local n = 0 for i = 1, 2500000 do n = n + 1 end return n";

fn eval(sim: &mut Sim, script: &str, args: &[&str]) -> String {
    let mut request: Vec<&[u8]> = vec![b"eval", script.as_bytes(), b"0"];
    request.extend(args.iter().map(|arg| arg.as_bytes()));
    let reply = sim.ask(&request);
    String::from_utf8_lossy(&reply).replace("\r\n", " ")
}

/// A server that is busy after 10 ms of a script, on a clock that moves as it is read.
fn slow() -> Sim {
    let mut sim = Sim::new();
    sim.engine.config.busy_reply_threshold_ms = 10;
    sim.clock.cost_us = 1_000;
    sim
}

/// Runs a script while these requests of another client lie there.
fn eval_beside(sim: &mut Sim, script: &str, other: SessionKey, requests: &[&str]) -> String {
    let len = script.len();
    let request = format!("*3\r\n$4\r\neval\r\n${len}\r\n{script}\r\n$1\r\n0\r\n");
    sim.engine.feed(sim.client, request.as_bytes());
    for request in requests {
        send(sim, other, request);
    }
    run_ready(&mut sim.engine, &mut sim.clock);
    sim.received(sim.client)
}

/// Puts a request where it is found when the server attends to its clients.
fn send(sim: &mut Sim, client: SessionKey, request: &str) {
    sim.engine.feed(client, format!("{request}\r\n").as_bytes());
}

#[test]
fn time_stands_still_in_a_script() {
    let mut sim = slow();
    sim.expect("set short v px 100", "+OK");
    sim.expect("set long v px 100000", "+OK");
    let script = "local first = redis.call('time')
        local n = 0 for i = 1, 2500000 do n = n + 1 end
        local last = redis.call('time')
        return {first[1] == last[1] and first[2] == last[2], redis.call('get', 'short'),
            redis.call('pttl', 'long') > 99000}";
    assert_eq!(eval(&mut sim, script, &[]), "*3 :1 $1 v :1 ");
    sim.script("get short=>$-1\nget long=>$1 v");
    sim.expect("set gone v px 50", "+OK");
    sim.clock.advance_ms(50);
    let script = "return {redis.call('exists', 'gone'), redis.call('ttl', 'gone')}";
    assert_eq!(eval(&mut sim, script, &[]), "*2 :0 :-2 ");
}

#[test]
fn others_are_told_that_a_script_runs_and_may_end_it() {
    let mut sim = slow();
    let other = sim.connect();
    let requests = [
        "get k",
        "ping",
        "function kill",
        "function stats",
        "script kill",
        "get k",
    ];
    let reply = eval_beside(&mut sim, LONG, other, &requests);
    let killed = "-ERR Error running script (user_script): Script killed by user with SCRIPT KILL. \
                  script: ";
    assert!(reply.starts_with(killed), "{reply}");
    assert!(reply.ends_with(", on @user_script:1."), "{reply}");
    let told = sim.received(other);
    let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                NOSAVE. ";
    let rest = told
        .strip_prefix(&busy.repeat(3))
        .unwrap_or_else(|| panic!("{told}"));
    assert!(rest.contains(" $7 command *3 $4 eval "), "{told}");
    assert!(rest.contains(" $11 duration_ms :"), "{told}");
    assert!(rest.contains(" +OK"), "{told}");
    sim.expect("script kill", "-NOTBUSY No scripts in execution right now.");
    sim.run_as(other, "set k v");
    sim.expect("get k", "$1 v");
}

#[test]
fn a_script_that_has_written_cannot_be_killed() {
    let mut sim = slow();
    let other = sim.connect();
    let script = "redis.call('set', 'k', 'v') local n = 0 for i = 1, 2500000 do n = n + 1 end
        return n";
    assert_eq!(
        eval_beside(&mut sim, script, other, &["script kill"]),
        ":2500000"
    );
    let told = sim.received(other);
    assert!(
        told.starts_with("-UNKILLABLE Sorry the script already"),
        "{told}"
    );
    // But the server can be told to end.
    let reply = eval_beside(&mut sim, script, other, &["shutdown nosave"]);
    assert_eq!(sim.engine.exit, Some(0), "{reply}");
}

#[test]
fn a_script_cannot_catch_its_end() {
    let scripts = [
        "while true do pcall(function() while true do end end) end",
        "local function f() while true do end end while true do xpcall(f, f) end",
        "local function f() while true do end end
            while true do coroutine.wrap(function() pcall(f) end)() end",
        "while true do pcall(string.gsub, 'x', 'x', function() while true do end end) end",
        "while true do pcall(table.sort, {1, 2, 3}, function() while true do end end) end",
        "setmetatable({}, {__index = function() while true do pcall(error) end end}).x()",
        "while true do pcall(redis.call, 'get', 'k') end",
    ];
    for script in scripts {
        let mut sim = slow();
        let other = sim.connect();
        let reply = eval_beside(&mut sim, script, other, &["script kill"]);
        assert!(reply.contains("Script killed by user"), "{script}: {reply}");
        assert_eq!(eval(&mut sim, "return 1", &[]), ":1 ");
    }
}

#[test]
fn a_function_is_killed_by_its_own_command() {
    let mut sim = slow();
    let code = format!("#!lua name=lib\nredis.register_function('f', function() {LONG} end)");
    assert_eq!(
        sim.ask(&[b"function", b"load", code.as_bytes()]),
        b"$3\r\nlib\r\n"
    );
    let other = sim.connect();
    let client = sim.client;
    send(&mut sim, client, "fcall f 0");
    send(&mut sim, other, "script kill");
    send(&mut sim, other, "function kill");
    run_ready(&mut sim.engine, &mut sim.clock);
    let reply = sim.received(sim.client);
    assert!(
        reply.contains("Script killed by user with FUNCTION KILL."),
        "{reply}"
    );
    assert_eq!(
        sim.received(other),
        "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
         NOSAVE. +OK"
    );
}

#[test]
fn what_comes_behind_a_script_waits_for_it() {
    let mut sim = slow();
    let client = sim.client;
    send(&mut sim, client, "set k 1");
    sim.engine.feed(
        client,
        format!(
            "*3\r\n$4\r\neval\r\n${}\r\n{LONG}\r\n$1\r\n0\r\n",
            LONG.len()
        )
        .as_bytes(),
    );
    send(&mut sim, client, "incr k");
    run_ready(&mut sim.engine, &mut sim.clock);
    run_ready(&mut sim.engine, &mut sim.clock);
    assert_eq!(sim.received(client), "+OK :2500000 :2");
    // A client that leaves meanwhile leaves no trace.
    let other = sim.connect();
    assert_eq!(
        eval_beside(&mut sim, LONG, other, &["get k", "quit"]),
        ":2500000"
    );
    assert!(sim.received(other).starts_with("-BUSY "));
}

#[test]
fn scripts_in_transactions() {
    let mut sim = Sim::new();
    let other = sim.connect();
    sim.script("set k 1=>+OK\nwatch k=>+OK");
    sim.run_as(other, "eval \"return redis.call('get','k')\" 0");
    sim.script("multi=>+OK\nget k=>+QUEUED\nexec=>*1 $1 1\nwatch k=>+OK");
    sim.run_as(other, "eval \"return redis.call('incr','k')\" 0");
    sim.script("multi=>+OK\nget k=>+QUEUED\nexec=>*-1");
    sim.script("multi=>+OK");
    assert_eq!(
        eval(&mut sim, "return redis.call('incr','k')", &[]),
        "+QUEUED "
    );
    assert_eq!(
        eval(&mut sim, "return redis.call('get','k') .. 'x'", &[]),
        "+QUEUED "
    );
    sim.expect("exec", "*2 :3 $2 3x");
    // A script neither begins nor watches.
    for command in [
        "multi",
        "exec",
        "watch k",
        "eval x 0",
        "script load x",
        "subscribe c",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = eval(&mut sim, "return redis.pcall(unpack(ARGV))", &words);
        assert_eq!(
            reply, "-ERR This Redis command is not allowed from script ",
            "{command}"
        );
    }
}

#[test]
fn a_script_does_not_wait() {
    let mut sim = Sim::new();
    let script = "return {redis.call('blpop', 'l', 0), redis.call('bzpopmin', 'z', 0)}";
    assert_eq!(eval(&mut sim, script, &[]), "*2 $-1 $-1 ");
    let waiting = sim.connect();
    sim.run_as(waiting, "blpop l 0");
    // Who waits is served after the script, with what it has left.
    let script = "redis.call('rpush', 'l', 'a', 'b', 'c') return redis.call('blpop', 'l', 0)";
    assert_eq!(eval(&mut sim, script, &[]), "*2 $1 l $1 a ");
    assert_eq!(sim.received(waiting), "*2 $1 l $1 b");
}

#[test]
fn replies_that_nobody_wants() {
    let mut sim = Sim::new();
    assert_eq!(sim.run("client reply off"), "");
    assert_eq!(eval(&mut sim, "return redis.call('incr','k')", &[]), "");
    assert_eq!(eval(&mut sim, "return redis.call('nothing')", &[]), "");
    sim.expect("client reply on", "+OK");
    assert_eq!(sim.run("client reply skip"), "");
    assert_eq!(eval(&mut sim, "return redis.call('incr','k')", &[]), "");
    sim.expect("get k", "$1 2");
    let reply = eval(
        &mut sim,
        "return redis.pcall('client', 'reply', 'off')",
        &[],
    );
    assert!(reply.starts_with("-ERR "), "{reply}");
    sim.expect("ping", "+PONG");
}

#[test]
fn scripts_wait_while_clients_are_paused() {
    let mut sim = Sim::new();
    sim.expect("set k 1", "+OK");
    sim.expect("client pause 100 write", "+OK");
    assert_eq!(eval(&mut sim, "return redis.call('incr','k')", &[]), "");
    sim.advance(101);
    assert_eq!(sim.received(sim.client), ":2");
}

#[test]
fn ten_thousand_scripts_leave_memory_as_it_was() {
    let mut sim = Sim::new();
    let bytes =
        |sim: &Sim| sim.engine.scripts.interpreter_bytes() + sim.engine.scripts.cached_bytes();
    let fill = |sim: &mut Sim, from: usize| {
        for i in from..from + 10_000 {
            assert_eq!(eval(sim, &format!("return {i}"), &[]), format!(":{i} "));
        }
        (0..2_000).for_each(|_| sim.engine.scripts.collect_step());
    };
    sim.ask(&[b"script", b"load", b"return 'kept'"]);
    fill(&mut sim, 0);
    let before = bytes(&sim);
    fill(&mut sim, 10_000);
    let grown = bytes(&sim).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} bytes");
    assert_eq!(sim.engine.scripts.len(), 501);
    assert!(sim.run("info stats").contains(" evicted_scripts:19500 "));
    assert_eq!(eval(&mut sim, "return 'kept'", &[]), "$4 kept ");
    assert!(sim.run("info stats").contains(" evicted_scripts:19500 "));
}

#[test]
fn as_many_scripts_may_be_loaded_as_one_likes() {
    let mut sim = Sim::new();
    for i in 0..9_000 {
        let text = format!("return {i}");
        assert!(
            sim.ask(&[b"script", b"load", text.as_bytes()])
                .starts_with(b"$40\r\n")
        );
    }
    assert_eq!(eval(&mut sim, "return 8999", &[]), ":8999 ");
    assert_eq!(eval(&mut sim, "return ARGV[1]", &["x"]), "$1 x ");
    sim.expect("script flush", "+OK");
    assert_eq!(eval(&mut sim, "return 0", &[]), ":0 ");
}

#[test]
fn tables_of_many_strings() {
    let mut sim = Sim::new();
    let begin = "local t = {} for i = 1, 20000 do t['k' .. i] = 'v' .. i end ";
    let json = format!(
        "{begin} local n = 0 for _ in pairs(cjson.decode(cjson.encode(t))) do n = n + 1 end
        return n"
    );
    assert_eq!(eval(&mut sim, &json, &[]), ":20000 ");
    let packed = format!(
        "{begin} local n = 0
        for _ in pairs(cmsgpack.unpack(cmsgpack.pack(t))) do n = n + 1 end return n"
    );
    assert_eq!(eval(&mut sim, &packed, &[]), ":20000 ");
    let reply = eval(&mut sim, &format!("{begin} return {{map = t}}"), &[]);
    assert!(reply.starts_with("*40000 $"), "{}", &reply[..40]);
    let mut request: Vec<&[u8]> = vec![b"eval", b"return #ARGV", b"0"];
    request.resize(10_003, b"\xff");
    assert_eq!(sim.ask(&request), b":10000\r\n");
    let many = "local t = {} for i = 1, 7990 do t[i] = 'k' .. i end
        return #redis.call('mget', unpack(t))";
    assert_eq!(eval(&mut sim, many, &[]), ":7990 ");
}

#[test]
fn errors_with_code_words_of_any_bytes_are_counted() {
    let mut sim = Sim::new();
    assert_eq!(
        sim.ask(&[b"eval", b"return {err = '\\233\\251 x'}", b"0"]),
        b"-\xe9\xfb x\r\n"
    );
    eval(&mut sim, "error({err = 'A:1\\r\\nfake:1 x'})", &[]);
    eval(&mut sim, "return {err = string.rep('E', 1000)}", &[]);
    let info = sim.run("info errorstats");
    let long = format!(" errorstat_{}:count=1", "E".repeat(64));
    for line in [
        " errorstat___:count=1",
        " errorstat_A_1__fake_1:count=1",
        &long,
    ] {
        assert!(info.contains(line), "{info}");
    }
}

#[test]
fn a_script_gets_sets_in_order_from_sort() {
    let mut sim = Sim::new();
    sim.expect("sadd s z aa b a", ":4");
    let script = "return redis.call('sort', 's', 'by', 'nosort')";
    assert_eq!(eval(&mut sim, script, &[]), "*4 $1 a $2 aa $1 b $1 z ");
}

#[test]
fn first_lines_are_read_as_redis_reads_them() {
    let mut sim = Sim::new();
    for (script, reply) in [
        ("#!lua flags=\"no-writes\"\nreturn 1", ":1 "),
        ("#!\"lua\" flags=\nreturn 1", ":1 "),
        (
            "#!lua flags=no-writes,\nreturn 1",
            "-ERR Unexpected flag in script shebang:  ",
        ),
        (
            "#!lua \"\nreturn 1",
            "-ERR Invalid engine in script shebang ",
        ),
        (
            "#! lua\nreturn 1",
            "-ERR Unexpected engine in script shebang: #! ",
        ),
    ] {
        assert_eq!(eval(&mut sim, script, &[]), reply, "{script}");
    }
    let register = "redis.register_function('f', function() return 1 end)";
    for (line, reply) in [
        ("#!lua name=\"a\"", "$1 a"),
        ("#!lua 'name=b'", "-ERR Function f already exists"),
        ("#!lua name=\"a", "-ERR Invalid library metadata"),
        ("#! name=c", "-ERR Engine '' not found"),
    ] {
        let code = format!("{line}\n{register}");
        let got = sim.ask(&[b"function", b"load", code.as_bytes()]);
        assert_eq!(
            String::from_utf8_lossy(&got)
                .replace("\r\n", " ")
                .trim_end(),
            reply,
            "{line}"
        );
    }
    sim.script(
        "fcall F 0=>:1
        fcall f x=>{Bad number of keys provided}
        fcall f -1=>{Number of keys can't be negative}
        fcall g x=>{Function not found}",
    );
    for (request, name) in [
        ("function flush x y", "flush"),
        ("function restore x replace y", "restore"),
    ] {
        let text = "unknown subcommand or wrong number of arguments for";
        sim.expect(
            request,
            &format!("-ERR {text} '{name}'. Try FUNCTION HELP."),
        );
    }
    let code = "#!lua name=d\nredis.register_function('F', function() end)";
    assert_eq!(
        sim.ask(&[b"function", b"load", code.as_bytes()]),
        b"-ERR Function F already exists\r\n"
    );
    // Two that differ in case only: the last one is found.
    let code = "#!lua name=a\nredis.register_function('g', function() return 'g' end)
        redis.register_function('G', function() return 'G' end)";
    assert_eq!(
        sim.ask(&[b"function", b"load", b"replace", code.as_bytes()]),
        b"$1\r\na\r\n"
    );
    sim.script(
        "fcall g 0=>$1 G
        fcall f 0=>{Function not found}
        function delete a=>+OK
        fcall g 0=>{Function not found}",
    );
}

#[test]
fn errors_say_where_they_arose() {
    let mut sim = Sim::new();
    for (script, error) in [
        (
            "\nreturn redis.call('nothing')",
            "Unknown Redis command called from script script: ",
        ),
        (
            "\n('x'):find('[')",
            "user_script:2: malformed pattern (missing ']') script: ",
        ),
        (
            "local ok, e = pcall(function() ('x'):gsub('.', '%2') end)\nerror(e, 0)",
            "user_script:1: invalid capture index script: ",
        ),
    ] {
        let reply = eval(&mut sim, script, &[]);
        assert!(reply.starts_with(&format!("-ERR {error}")), "{reply}");
        assert!(reply.ends_with(", on @user_script:2. "), "{reply}");
    }
    // The text of the chunk, which stands in the message, means nothing there.
    let reply = eval(
        &mut sim,
        "local f = loadstring(\"('x'):gsub('.', '%2')\") f()",
        &[],
    );
    let error = "-ERR [string \"('x'):gsub('.', '%2')\"]:1: invalid capture index script: ";
    assert!(reply.starts_with(error), "{reply}");
}

#[test]
fn formats_of_struct_and_bits_are_checked_as_in_redis() {
    let mut sim = Sim::new();
    for (script, reply) in [
        ("return struct.size('i4\\0y')", ":4 "),
        ("return #struct.pack('i2\\0i9', 1)", ":2 "),
        (
            "return {struct.unpack('dc0', struct.pack('d', 1e300) .. 'a')}",
            "*2 $0  :9 ",
        ),
        (
            "return {struct.unpack('', 'a', 0x7fffffff)}",
            "*1 :2147483647 ",
        ),
        ("return {pcall(struct.unpack, '!7', 'a', 99)}", "*2 :0 "),
        ("return {pcall(struct.size, '<%')}", "*2 :0 "),
    ] {
        let got = eval(&mut sim, script, &[]);
        let shown = got.replace("*2 $-1", "*2 :0");
        assert!(shown.starts_with(reply.trim_end()), "{script}: {got}");
    }
    let reply = eval(&mut sim, "return bit.band(1, 'x', 'y')", &[]);
    assert!(reply.contains("bad argument #3 to 'band'"), "{reply}");
    let reply = sim.ask(&[b"eval", b"return struct.size('\\226')", b"0"]);
    let text = b"bad argument #1 to 'size' (invalid format option '\xe2')";
    assert!(
        reply.windows(text.len()).any(|part| part == text),
        "{}",
        reply.escape_ascii()
    );
}

#[test]
fn fifty_clients_come_and_go_while_a_script_runs() {
    let dir = TempDir::new();
    let server = Server::start_with(&dir, &["--busy-reply-threshold", "50"]);
    let mut runner = server.connect();
    let script = "local n = 0 while true do n = n + 1 end";
    let request = format!(
        "*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\nPING\r\n",
        script.len()
    );
    runner.write_all(request.as_bytes()).expect("a connection");
    let (done, all_done) = mpsc::channel();
    std::thread::scope(|scope| {
        for i in 0..50 {
            let (server, done) = (&server, done.clone());
            scope.spawn(move || {
                for _ in 0..20 {
                    let mut client = server.connect();
                    let reply = ask(&mut client, "GET k\r\n", 1);
                    let is_busy = reply.is_some_and(|text| text.starts_with("-BUSY "));
                    // Before the threshold, a client waits and is told later.
                    assert!(is_busy, "client {i}");
                    // Half of them leave with a request unread.
                    if i % 2 == 0 {
                        client.write_all(b"GET k\r\nGET").expect("a connection");
                    }
                }
                done.send(()).expect("somebody counts");
            });
        }
    });
    assert_eq!(all_done.try_iter().count(), 50);
    let mut other = server.connect();
    expect(&mut other, "SCRIPT KILL", "+OK");
    let reply = wait_for("the end of the script", || ask(&mut runner, "", 2));
    assert!(reply.contains("killed by user"), "{reply}");
    assert!(reply.contains("+PONG"), "{reply}");
    expect(&mut other, "SET k v", "+OK");
}

#[test]
fn values_of_every_type_reach_scripts() {
    let mut sim = Sim::new();
    sim.engine.config.debug_command = mayfly::config::Permission::Yes;
    let refused = "This Redis command is not allowed from script";
    assert!(
        sim.run("eval \"return redis.call('debug','protocol','map')\" 0")
            .contains(refused)
    );
    sim.expect("debug set-disable-deny-scripts 1", "+OK");
    for (kind, expected) in [
        ("string", "$11 Hello World"),
        ("double", ",3.141"),
        ("null", "_"),
        ("set", "~3 :0 :1 :2"),
        ("map", "%3 :0 #f :1 #t :2 #f"),
        ("true", "#t"),
        ("bignum", "(1234567999999999999999999999999999999"),
        ("verbatim", "=29 txt:This is a verbatim\nstring"),
    ] {
        sim.run("hello 3");
        sim.expect(&format!("debug protocol {kind}"), expected);
    }
    let call = "eval \"redis.setresp(3) return redis.call('debug','protocol','bignum')\" 0";
    sim.expect(call, "(1234567999999999999999999999999999999");
    sim.run("hello 2");
    sim.script(
        "debug protocol map  => *6 :0 :0 :1 :1 :2 :0
        debug protocol push => {RESP2 is not supported by this command}
        debug error MYERR   => -MYERR
        debug set-disable-deny-scripts 0 => +OK",
    );
}

#[test]
fn a_script_does_not_wait_for_a_stream_and_wakes_those_who_do() {
    let mut sim = Sim::new();
    sim.script("xadd s 1-1 n 1=>$3 1-1\nxgroup create s g $=>+OK");
    for request in [
        "'xread','block','0','streams','s','$'",
        "'xreadgroup','group','g','a','block','0','streams','s','>'",
    ] {
        let script = format!("return redis.call({request})");
        assert_eq!(eval(&mut sim, &script, &[]), "$-1 ", "{request}");
    }
    let reader = sim.connect();
    let worker = sim.connect();
    sim.run_as(reader, "xread block 0 streams s $");
    sim.run_as(worker, "xreadgroup group g b block 0 streams s >");
    let script = "redis.call('xadd','s','2-1','n','2') redis.call('xadd','s','3-1','n','3') \
                  redis.call('xdel','s','2-1') return redis.call('xlen','s')";
    assert_eq!(eval(&mut sim, script, &[]), ":2 ");
    let entry = "*1 *2 $1 s *1 *2 $3 3-1 *2 $1 n $1 3";
    assert_eq!(sim.received(reader), entry);
    assert_eq!(sim.received(worker), entry);
    sim.run_as(worker, "xreadgroup group g b block 0 streams s >");
    assert_eq!(
        eval(
            &mut sim,
            "return redis.call('xgroup','destroy','s','g')",
            &[]
        ),
        ":1 "
    );
    let told = sim.received(worker);
    assert!(
        told.starts_with("-NOGROUP No such key 's' or consumer group 'g'"),
        "{told}"
    );
}

/// As Redis 8.2.3: whoever answers with an error has failed, whether it raised it or handed it on.
#[test]
fn a_script_that_answers_with_an_error_has_failed() {
    for script in [
        "return redis.call('select', 99)",
        "return redis.pcall('select', 99)",
    ] {
        let mut sim = Sim::new();
        let reply = sim.ask(&[b"eval", script.as_bytes(), b"0"]);
        assert!(reply.starts_with(b"-ERR DB index is out of range"));
        let stats = sim.run("info commandstats");
        for name in ["eval", "select"] {
            let line = stats
                .split(' ')
                .find(|line| line.starts_with(&format!("cmdstat_{name}:")));
            let line = line.expect("the command's line");
            assert!(line.ends_with("rejected_calls=0,failed_calls=1"), "{line}");
        }
        let errors = sim.run("info errorstats");
        assert!(errors.contains("errorstat_ERR:count=1"), "{errors}");
    }
    let mut sim = Sim::new();
    sim.ask(&[b"eval", b"redis.pcall('select', 99) return 1", b"0"]);
    assert!(
        sim.run("info commandstats")
            .contains("cmdstat_eval:calls=1")
    );
    let stats = sim.run("info commandstats");
    let line = stats
        .split(' ')
        .find(|line| line.starts_with("cmdstat_eval:"));
    assert!(line.is_some_and(|line| line.ends_with("failed_calls=0")));
}
