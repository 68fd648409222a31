//! Any text as a script, with little memory and few instructions, on a host that answers whatever
//! the input ends with.
//!
//! Whatever a script does, the interpreter must be usable afterwards, and must not show the next
//! script anything of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::resp::output::Output;
use mayfly::resp::reply::Protocol;
use mayfly::script::{Arguments, Host, Interpreter, LogLevel, Settings, Verdict, Words, open};
use std::cell::RefCell;

/// Enough for the libraries and some work.
const MEMORY_BYTES: usize = 8 << 20;
/// How often a script is asked whether it goes on: 200,000 instructions.
const PAUSES_MAX: usize = 20;
/// Past this, replies are cut off: a table that holds itself stands for a long one.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

struct FuzzHost {
    pauses: usize,
}

impl Host for FuzzHost {
    fn call(&mut self, command: &Words, _: Protocol, reply: &mut Output) {
        // The bytes of the last argument are the reply, well-formed or not.
        reply.extend(command.iter().last().expect("there is a name at least"));
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn pause(&mut self) -> Verdict {
        self.pauses += 1;
        match self.pauses > PAUSES_MAX {
            true => Verdict::Kill(b"ERR ended".to_vec()),
            false => Verdict::Continue,
        }
    }

    fn is_allowed(&mut self, command: &Words) -> Option<bool> {
        Some(command.iter().count() > 1)
    }

    fn set_replication(&mut self, _: u8) {}
}

fn run(lua: &mut dyn Interpreter, body: &[u8], protocol: Protocol) -> Vec<u8> {
    let Ok(id) = lua.compile(b"sha", body) else {
        return Vec::new();
    };
    let mut out = Output::default();
    out.set_limit(OUTPUT_BYTES_MAX);
    let args = [b"key".as_slice(), b"1", b"value"];
    let arguments = Arguments {
        all: &|at| args[at],
        len: 3,
        keys: 1,
        protocol,
    };
    let mut host = FuzzHost { pauses: 0 };
    let _ = lua.run(id, arguments, &mut host, &mut out);
    lua.forget(id);
    out.take_all()
}

thread_local! {
    static LUA: RefCell<Box<dyn Interpreter>> = RefCell::new(
        open(Settings {
            memory_bytes_limit: MEMORY_BYTES,
            version: "7.4.0".into(),
            version_number: 0x0007_0400,
        })
        .expect("the feature is on"),
    );
}

/// What any script sees first.
const PROBE: &[u8] = b"local n = 0 for k, v in pairs(_G) do n = n + 1 \
    if type(v) == 'table' and v ~= _G then for _ in pairs(v) do n = n + 1 end end end \
    return {n, ('x'):upper(), type(redis.call), cjson.encode({1.5}), #KEYS, #ARGV}";

fuzz_target!(|data: &[u8]| {
    LUA.with_borrow_mut(|lua| {
        let before = run(lua.as_mut(), PROBE, Protocol::Resp2);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            run(lua.as_mut(), data, protocol);
        }
        let mut host = FuzzHost { pauses: 0 };
        if let Ok(functions) = lua.load(data, &mut host) {
            for function in functions {
                lua.forget(function.id);
            }
        }
        assert_eq!(run(lua.as_mut(), PROBE, Protocol::Resp2), before);
        while !lua.collect_step() {}
    });
});
