//! Any bytes through the decoders of scripts: `cjson`, `cmsgpack`, `struct`. What was decoded is
//! encoded and decoded again; JSON must come out as long as before (the order of a table's pairs
//! is nobody's).

#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::resp::output::Output;
use mayfly::resp::reply::Protocol;
use mayfly::script::{
    Arguments, Host, Interpreter, LogLevel, ScriptId, Settings, Verdict, Words, open,
};
use std::cell::RefCell;

const MEMORY_BYTES: usize = 64 << 20;

/// Fails if JSON changes on its way through the codec and back. `cmsgpack` packs what is nested too
/// deep as nil, which makes maps of arrays and fewer pairs of maps, so its bytes may differ.
const BODY: &[u8] = b"\
    local data, split = ARGV[1], tonumber(ARGV[2]) \
    local ok, value = pcall(cjson.decode, data) \
    if ok then \
        local ok, text = pcall(cjson.encode, value) \
        if ok then assert(#cjson.encode(cjson.decode(text)) == #text, 'cjson') end \
    end \
    local ok, value = pcall(cmsgpack.unpack, data) \
    if ok then \
        local bytes = cmsgpack.pack(value) \
        local ok, again = pcall(cmsgpack.unpack, bytes) \
        if ok then cmsgpack.pack(again) end \
    end \
    pcall(cmsgpack.unpack_one, data, split) \
    pcall(cmsgpack.unpack_limit, data, split, split) \
    local format, rest = data:sub(1, split), data:sub(split + 1) \
    local values = {pcall(struct.unpack, format, rest)} \
    if values[1] and #values < 200 then pcall(struct.pack, format, unpack(values, 2)) end \
    pcall(struct.size, format) \
    return 1";

struct FuzzHost;

impl Host for FuzzHost {
    fn call(&mut self, _: &Words, _: Protocol, reply: &mut Output) {
        reply.extend(b"+OK\r\n");
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn pause(&mut self) -> Verdict {
        Verdict::Continue
    }

    fn is_allowed(&mut self, _: &Words) -> Option<bool> {
        None
    }

    fn set_replication(&mut self, _: u8) {}
}

thread_local! {
    static LUA: RefCell<(Box<dyn Interpreter>, ScriptId)> = RefCell::new({
        let mut lua = open(Settings {
            memory_bytes_limit: MEMORY_BYTES,
            version: "7.4.0".into(),
            version_number: 0x0007_0400,
        })
        .expect("the feature is on");
        let id = lua.compile(b"sha", BODY).expect("it is Lua");
        (lua, id)
    });
}

fuzz_target!(|data: &[u8]| {
    LUA.with_borrow_mut(|(lua, id)| {
        let split = data.first().map_or(0, |byte| *byte % 32).to_string();
        let args = [data.get(1..).unwrap_or_default(), split.as_bytes()];
        let arguments = Arguments {
            all: &|at| args[at],
            len: 2,
            keys: 0,
            protocol: Protocol::Resp2,
        };
        let mut out = Output::default();
        if let Err(failure) = lua.run(*id, arguments, &mut FuzzHost, &mut out) {
            panic!("{}", failure.line.escape_ascii());
        }
        lua.collect_step();
    });
});
