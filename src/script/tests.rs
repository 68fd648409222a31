//! Scripts and what they answer: a table of cases that were asked of Redis 8.2.3 (`cases.txt`), and
//! what a script must not be able to do.

use std::collections::HashMap;

use super::*;

const MEMORY_BYTES: usize = 32 << 20;

/// A server with GET, SET and a few others.
#[derive(Default)]
struct FakeHost {
    data: HashMap<Vec<u8>, Vec<u8>>,
    log: Vec<(LogLevel, Vec<u8>)>,
    /// How many pauses a script may take; it is ended then.
    pauses_max: Option<usize>,
    replication: Option<u8>,
}

impl Host for FakeHost {
    fn call(&mut self, command: &Words, protocol: Protocol, reply: &mut Output) {
        let args: Vec<&[u8]> = command.iter().collect();
        let null: &[u8] = match protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        };
        let bulk =
            |text: &[u8]| [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat();
        let answer: Vec<u8> = match (&args[0].to_ascii_lowercase()[..], &args[1..]) {
            (b"ping", []) => b"+PONG\r\n".to_vec(),
            (b"echo", [text]) => bulk(text),
            (b"set", [key, value]) => {
                self.data.insert(key.to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            (b"set", _) => b"-ERR syntax error\r\n".to_vec(),
            (b"get", [key]) => self
                .data
                .get(*key)
                .map_or(null.to_vec(), |value| bulk(value)),
            (b"get", _) => {
                b"-ERR Wrong number of args calling Redis command from script\r\n".to_vec()
            }
            (b"incr", _) => b"-ERR value is not an integer or out of range\r\n".to_vec(),
            (b"eval" | b"multi" | b"debug", _) => {
                b"-ERR This Redis command is not allowed from script\r\n".to_vec()
            }
            (b"blpop", _) => match protocol {
                Protocol::Resp2 => b"*-1\r\n".to_vec(),
                Protocol::Resp3 => null.to_vec(),
            },
            (b"info", _) => bulk(b""),
            (b"raw", [bytes]) => bytes.to_vec(),
            _ => b"-ERR Unknown Redis command called from script\r\n".to_vec(),
        };
        reply.extend(&answer);
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.log.push((level, text.to_vec()));
    }

    fn pause(&mut self) -> Verdict {
        match &mut self.pauses_max {
            None => Verdict::Continue,
            Some(0) => Verdict::Kill(b"ERR killed".to_vec()),
            Some(left) => {
                *left -= 1;
                Verdict::Continue
            }
        }
    }

    fn is_allowed(&mut self, command: &Words) -> Option<bool> {
        (command.iter().next() != Some(b"nosuch")).then_some(true)
    }

    fn set_replication(&mut self, targets: u8) {
        self.replication = Some(targets);
    }
}

struct Bench {
    lua: Box<dyn Interpreter>,
    host: FakeHost,
}

impl Bench {
    fn new() -> Bench {
        let settings = Settings {
            memory_bytes_limit: MEMORY_BYTES,
            version: "8.2.3".into(),
            version_number: 0x0008_0203,
        };
        Bench {
            lua: open(settings).expect("the feature is on"),
            host: FakeHost::default(),
        }
    }

    /// The reply of a script, escaped.
    fn eval_in(&mut self, body: &[u8], protocol: Protocol) -> String {
        let mut out = Output::default();
        match self.lua.compile(b"sha", body) {
            Err(message) => {
                let line = [
                    &b"ERR Error compiling script (new function): "[..],
                    &message,
                ];
                out.extend(&[b"-", &line.concat()[..], b"\r\n"].concat());
            }
            Ok(id) => {
                let arguments = Arguments {
                    all: &|_| b"",
                    len: 0,
                    keys: 0,
                    protocol,
                };
                if let Err(failure) = self.lua.run(id, arguments, &mut self.host, &mut out) {
                    assert!(out.is_empty());
                    out.extend(&[b"-", &failure.line[..], b"\r\n"].concat());
                }
                self.lua.forget(id);
            }
        }
        out.take_all().escape_ascii().to_string()
    }

    fn eval(&mut self, body: &str) -> String {
        self.eval_in(body.as_bytes(), Protocol::Resp2)
    }
}

#[test]
fn scripts_answer_as_redis_does() {
    let mut bench = Bench::new();
    let mut failed = 0;
    // What comes first says what follows.
    let cases = include_str!("cases.txt").split_terminator("\n\n").skip(1);
    for case in cases {
        let lines: Vec<&str> = case.lines().collect();
        let (script, resp2) = (lines[0], lines[1]);
        let resp3 = lines.get(2).unwrap_or(&resp2);
        for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, *resp3)] {
            let answer = bench.eval_in(script.as_bytes(), protocol);
            if answer != *expected {
                failed += 1;
                eprintln!("{script}\n  {answer}\n  {expected}");
            }
        }
    }
    assert_eq!(failed, 0);
}

#[test]
fn replies_of_resp3_have_tables_of_their_own() {
    let mut bench = Bench::new();
    for (reply, script, expected) in [
        ("#t\r\n", "return r == true", ":1\\r\\n"),
        (",1.5\r\n", "return tostring(r.double)", "$3\\r\\n1.5\\r\\n"),
        (",nan\r\n", "return tostring(r.double)", "$3\\r\\nnan\\r\\n"),
        ("(12\r\n", "return r.big_number", "$2\\r\\n12\\r\\n"),
        (
            "%1\r\n+a\r\n:1\r\n",
            "return type(next(r.map))",
            "$5\\r\\ntable\\r\\n",
        ),
        ("%1\r\n$1\r\na\r\n:1\r\n", "return r.map.a", ":1\\r\\n"),
        ("~2\r\n:1\r\n:2\r\n", "return r.set[2]", ":1\\r\\n"),
        (
            "=5\r\ntxt:x\r\n",
            "return r.verbatim_string.string",
            "$1\\r\\nx\\r\\n",
        ),
        ("|1\r\n:1\r\n:2\r\n:3\r\n", "return r", ":3\\r\\n"),
        ("*2\r\n_\r\n:1\r\n", "return r[2]", ":1\\r\\n"),
        (
            "*3\r\n:1\r\n*1\r\n",
            "return r",
            "-ERR a command\\'s reply could not be read \
            script: sha, on @user_script:1.\\r\\n",
        ),
        ("%1\r\n_\r\n:1\r\n", "return next(r.map) == nil", ":1\\r\\n"),
    ] {
        bench.host.data.insert(b"r".to_vec(), reply.into());
        let script = format!(
            "local bytes = redis.call('get', 'r') redis.setresp(3) \
             local r = redis.call('raw', bytes) {script}"
        );
        assert_eq!(bench.eval(&script), expected, "{reply:?}");
    }
}

#[test]
fn nothing_a_script_does_is_seen_by_the_next() {
    let attempts = [
        "rawset(_G, 'leak', 1)",
        "rawset(string, 'leak', 1)",
        "rawset(getmetatable(''), '__index', {})",
        "getmetatable('').__index.leak = 1",
        "rawset(getmetatable('').__index, 'leak', 1)",
        "table.insert(redis, 1)",
        "table.insert(_G, 1, 1)",
        "setmetatable(_G, nil)",
        "setmetatable(string, {__index = {leak = 1}})",
        "getmetatable(_G).__index = nil",
        "for k, v in pairs(_G) do if type(v) == 'table' then v.leak = 1 end end",
        "for k, v in pairs(getmetatable('')) do v.leak = 1 end",
        "next(_G).leak = 1",
        "local k, v = next(getmetatable('')) rawset(v, 'leak', 1)",
        "string.gsub('a', 'a', setmetatable({}, {__index = function() _G.leak = 1 end}))",
        "table.foreach(_G, function(k, v) if type(v) == 'table' then v.leak = 1 end end)",
        "table.sort(redis)",
        "table.remove(redis)",
        "loadstring('leak = 1')()",
        "load(function() return nil end)() leak = 1",
        "coroutine.wrap(function() leak = 1 end)()",
        "KEYS.leak = 1 ARGV.leak = 1",
        "cjson.encode_max_depth(1) cjson.encode_number_precision(3)",
        "redis.setresp(3)",
        "collectgarbage('stop')",
        "__redis__err__handler({}) leak = 1",
        "local t = {} setmetatable(t, getmetatable('')) t.leak = 1",
        "local ok, e = pcall(error, redis) e.leak = 1",
        "xpcall(function() error(_G) end, function(e) rawset(e, 'leak', 1) end)",
    ];
    let state = "local found = {} \
        local function look(name, t) for k, v in pairs(t) do \
            if k == 'leak' or type(k) == 'number' then found[#found + 1] = name .. k end end end \
        look('_G', _G) for k, v in pairs(_G) do \
            if type(v) == 'table' and v ~= _G then look(k, v) end end \
        look('string metatable', getmetatable('')) \
        found[#found + 1] = ('x'):upper() \
        found[#found + 1] = cjson.encode({{1.23456}}) \
        found[#found + 1] = tostring(rawget(_G, 'leak')) \
        found[#found + 1] = type(redis.call('get', 'nokey')) return found";
    let mut bench = Bench::new();
    let before = bench.eval(state);
    for attempt in attempts {
        bench.eval(attempt);
        assert_eq!(bench.eval(state), before, "{attempt}");
    }
}

#[test]
fn a_script_that_passes_a_limit_ends_with_an_error() {
    let mut bench = Bench::new();
    bench.host.data.insert(b"k".to_vec(), b"v".to_vec());
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "return string.rep('x', 2^40)",
        "return ('x'):rep(1e300)",
        "return table.concat({string.rep('x', 2^24), string.rep('x', 2^24)})",
        "local function f() return 1 + f() end return f()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return (string.gsub('a', 'a', f)) end return f()",
        "return string.find(string.rep('a', 100000), string.rep('a?', 100000))",
        "return ('x'):match(string.rep('(', 100000))",
        "return unpack({}, 1, 1e6)",
        "return unpack({}, -2, 2147483647)",
        "return unpack({}, -1e300, 1e300)",
        "return loadstring('return ' .. string.rep('(', 10000) .. '1')()",
        "local t = {} t.t = t return cjson.encode(t)",
        "local t = 1 for i = 1, 2000 do t = {t} end return cjson.encode(t)",
        "cjson.encode_max_depth(2^31 - 1) local t = {} t.t = t return cjson.encode(t)",
        "cjson.decode_max_depth(2^31 - 1) return cjson.decode(string.rep('[', 1e6))",
        "cjson.encode_sparse_array(false, 0, 0) return cjson.encode({[2^31 - 1] = 1})",
        "local t = {string.rep('x', 1e5)} for i = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "return cmsgpack.unpack(string.rep('\\145', 1e6))",
        "return cmsgpack.unpack(string.rep('\\1', 1e5))",
        "return struct.unpack(string.rep('b', 1e5), string.rep('b', 1e5))",
        "local s = string.rep('x', 1e6) return struct.pack(string.rep('s', 200), \
            unpack((function() local t = {} for i = 1, 200 do t[i] = s end return t end)()))",
        "error(setmetatable({}, {__index = function() error('x') end}))",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "xpcall(function() local function f() f() end f() end, function(e) error(e) end) error('x')",
    ] {
        let answer = bench.eval(script);
        assert!(answer.starts_with('-'), "{script}: {answer}");
        let after = "return redis.call('get', 'k') .. string.rep('x', 3)";
        assert_eq!(bench.eval(after), "$4\\r\\nvxxx\\r\\n", "{script}");
    }
}

#[test]
fn a_reply_that_is_nested_without_end_ends() {
    let mut bench = Bench::new();
    let answer = bench.eval("local t = {} t[1] = t return t");
    assert!(answer.ends_with("-ERR reached lua stack limit\\r\\n"));
}

#[test]
fn a_script_cannot_avoid_its_end() {
    let mut bench = Bench::new();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) \
            end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local f = coroutine.wrap(function() while true do coroutine.yield() end end) \
            while true do f() end",
        "while true do string.gsub('a', 'a', function() while true do end end) end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "table.sort({1, 2, 3}, function() while true do end end)",
    ] {
        bench.host.pauses_max = Some(3);
        let answer = bench.eval(script);
        let expected = "-ERR killed script: sha";
        assert!(answer.starts_with(expected), "{script}: {answer}");
        bench.host.pauses_max = None;
        assert_eq!(
            bench.eval("local x = 0 for i = 1, 1e5 do x = i end return x"),
            ":100000\\r\\n"
        );
    }
}

#[test]
fn compiled_code_is_not_loaded() {
    let mut bench = Bench::new();
    let script = "local code = string.dump(function() return 1 end) \
        return {tostring(loadstring(code)), tostring(load(function() \
            local c = code code = nil return c end)), #code > 0}";
    let answer = bench.eval(script);
    assert!(answer.starts_with("*2\\r\\n$3\\r\\nnil\\r\\n$3\\r\\nnil") || answer.starts_with('-'));
    let answer = bench.eval_in(b"\x1bLua", Protocol::Resp2);
    assert!(answer.starts_with("-ERR Error compiling"), "{answer}");
}

#[test]
fn the_log_and_replication_reach_the_host() {
    let mut bench = Bench::new();
    bench.eval("redis.log(redis.LOG_WARNING, 'a', 1, {}, 'b') redis.set_repl(redis.REPL_AOF)");
    assert_eq!(bench.host.log, [(LogLevel::Warning, b"a 1 b".to_vec())]);
    assert_eq!(bench.host.replication, Some(REPL_AOF));
}

#[test]
fn keys_and_arguments_are_those_of_the_run() {
    let mut bench = Bench::new();
    let body = b"KEYS[3] = 'x' return {KEYS[1], ARGV[1], ARGV[2], #KEYS}";
    let id = bench.lua.compile(b"sha", body).expect("it is Lua");
    for _ in 0..2 {
        let all = [b"k".as_slice(), b"l", b"\0", b"b"];
        let arguments = Arguments {
            all: &|at| all[at],
            len: 4,
            keys: 2,
            protocol: Protocol::Resp2,
        };
        let mut out = Output::default();
        let result = bench.lua.run(id, arguments, &mut bench.host, &mut out);
        assert_eq!(result, Ok(()));
        let expected = b"*4\r\n$1\r\nk\r\n$1\r\n\0\r\n$1\r\nb\r\n:3\r\n";
        assert_eq!(out.take_all(), expected);
    }
}

fn load(bench: &mut Bench, body: &str) -> Result<Vec<Registered>, String> {
    let loaded = bench.lua.load(body.as_bytes(), &mut bench.host);
    loaded.map_err(|error| match error {
        LoadError::Compile(text) => format!("compile: {}", text.escape_ascii()),
        LoadError::Run(text) => format!("{}", text.escape_ascii()),
    })
}

#[test]
fn a_library_registers_functions() {
    let mut bench = Bench::new();
    let body = "#!lua name=lib\n\
        local n = 0\n\
        redis.register_function('count', function(keys, args) n = n + 1 \
            return {n, #keys, args[1]} end)\n\
        redis.register_function{function_name = 'fail', callback = function() \
            error('x') end, description = 'about', flags = {'no-writes', 'allow-oom'}}\n\
        redis.register_function('call', function() return redis.call('incr', 'a') end)\n\
        redis.register_function('keys', function() return KEYS end)\n\
        redis.register_function('late', function() return redis.register_function end)";
    let functions = load(&mut bench, body).expect("it is a library");
    let names: Vec<&[u8]> = functions.iter().map(|f| &f.name[..]).collect();
    assert_eq!(names, [&b"count"[..], b"fail", b"call", b"keys", b"late"]);
    assert_eq!(functions[1].description, Some(b"about".to_vec()));
    let flags: Vec<&str> = functions[1].flags.names().collect();
    assert_eq!(flags, ["no-writes", "allow-oom"]);
    let mut run = |at: usize| {
        let arguments = Arguments {
            all: &|at| [b"k".as_slice(), b"v"][at],
            len: 2,
            keys: 1,
            protocol: Protocol::Resp2,
        };
        let mut out = Output::default();
        let id = functions[at].id;
        match bench.lua.run(id, arguments, &mut bench.host, &mut out) {
            Ok(()) => out.take_all().escape_ascii().to_string(),
            Err(failure) => failure.line.escape_ascii().to_string(),
        }
    };
    assert_eq!(run(0), "*3\\r\\n:1\\r\\n:1\\r\\n$1\\r\\nv\\r\\n");
    assert_eq!(run(0), "*3\\r\\n:2\\r\\n:1\\r\\n$1\\r\\nv\\r\\n");
    assert_eq!(
        run(1),
        "ERR user_function:4: x script: fail, on @user_function:4."
    );
    assert_eq!(
        run(2),
        "ERR value is not an integer or out of range script: call, on @user_function:5."
    );
    assert_eq!(
        run(3),
        "ERR user_function:6: Script attempted to access nonexistent global variable \\'KEYS\\' \
         script: keys, on @user_function:6."
    );
    assert_eq!(run(4), "$-1\\r\\n");
}

#[test]
fn what_a_library_may_not_do() {
    let mut bench = Bench::new();
    let function = "function() end";
    let missing = |name: &str| {
        format!(
            "ERR user_function:1: Script attempted to access nonexistent global variable \
             \\'{name}\\'"
        )
    };
    let readonly = "ERR user_function:1: Attempt to modify a readonly table".to_string();
    for (body, error) in [
        ("x = 1".into(), readonly.clone()),
        ("redis.x = 1".into(), readonly.clone()),
        ("function foo() end".into(), readonly),
        ("redis.call('ping')".into(), missing("call")),
        ("local x = KEYS".into(), missing("KEYS")),
        ("local x = math".into(), missing("math")),
        ("local x = _G".into(), missing("_G")),
        (
            "local a = ;".into(),
            "compile: user_function:1: unexpected symbol near \\';\\'".into(),
        ),
        (
            "redis.register_function()".into(),
            "ERR wrong number of arguments to redis.register_function".into(),
        ),
        (
            "redis.register_function('f', 1)".into(),
            "ERR second argument to redis.register_function must be a function".into(),
        ),
        (
            format!("redis.register_function({{}}, {function})"),
            "ERR first argument to redis.register_function must be a string".into(),
        ),
        (
            format!(
                "redis.register_function('f', {function}) redis.register_function('f', {function})"
            ),
            "ERR Function already exists in the library".into(),
        ),
        (
            format!("redis.register_function('f-', {function})"),
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
             at least one character long"
                .into(),
        ),
        (
            format!(
                "redis.register_function{{function_name='f', callback={function}, flags={{'x'}}}}"
            ),
            "ERR unknown flag given".into(),
        ),
        (
            format!("redis.register_function{{function_name='f', callback={function}, x=1}}"),
            "ERR unknown argument given to redis.register_function".into(),
        ),
        (
            "redis.register_function{function_name='f'}".into(),
            "ERR redis.register_function must get a callback argument".into(),
        ),
        (
            format!("redis.register_function{{callback={function}}}"),
            "ERR redis.register_function must get a function name argument".into(),
        ),
    ] {
        assert_eq!(load(&mut bench, &body), Err(error), "{body}");
    }
    bench.host.pauses_max = Some(3);
    assert_eq!(
        load(&mut bench, "while true do end"),
        Err("ERR killed".into())
    );
    bench.host.pauses_max = None;
    // A script sees its own globals again.
    assert_eq!(
        bench.eval("return type(KEYS) .. type(redis.call)"),
        "$13\\r\\ntablefunction\\r\\n"
    );
}

#[test]
fn memory_is_given_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.lua.memory_bytes(), 0);
    bench.eval("return 1");
    while !bench.lua.collect_step() {}
    while !bench.lua.collect_step() {}
    let before = bench.lua.memory_bytes();
    bench.eval("local t = {} for i = 1, 10000 do t[i] = {} end return #t");
    assert!(bench.lua.memory_bytes() > before);
    while !bench.lua.collect_step() {}
    while !bench.lua.collect_step() {}
    assert!(bench.lua.memory_bytes() < before + 64 * 1024);
}
