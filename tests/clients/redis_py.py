"""redis-py in both protocols: every family of commands, waiting, pipelines, messages, connections, asyncio."""

import asyncio
import datetime
import threading
import time

import redis
import redis.asyncio
from redis.commands.core import HashDataPersistOptions

from harness import EARLY_S, WAIT_S, both, check, fails, listed, near, same, until


@both("strings")
def strings(client, _):
    same(client.set("k", "v"), True)
    same((client.get("k"), client.get("no")), ("v", None))
    same((client.set("k", "w", nx=True), client.set("no", "w", xx=True)), (None, None))
    same(client.set("k", "w", get=True), "v")
    same((client.setnx("n", 1), client.setnx("n", 2)), (True, False))
    same((client.incr("n"), client.incrby("n", 5), client.decr("n"), client.decrby("n", 2)), (2, 7, 6, 4))
    same(client.incrbyfloat("n", 0.1), 4.1)
    same((client.append("a", "abc"), client.append("a", "def"), client.strlen("a")), (3, 6, 6))
    same((client.setrange("a", 2, "XY"), client.getrange("a", 1, -2)), (6, "bXYe"))
    same(client.mset({"x": 1, "y": 2}), True)
    same(client.mget("x", "no", "y"), ["1", None, "2"])
    same(client.msetnx({"x": 1, "z": 2}), False)
    same((client.getset("x", 5), client.getdel("x"), client.getdel("x")), ("1", "5", None))
    same(client.mset({"l": "ohmytext", "m": "mynewtext"}), True)
    same((client.lcs("l", "m"), client.lcs("l", "m", len=True)), ("mytext", 6))
    fails(redis.ResponseError, "not an integer", client.incr, "a")
    fails(redis.ResponseError, "wrong number of arguments", client.execute_command, "GET")


@both("values of any bytes and of a megabyte")
def values(client, server):
    raw = server.client(protocol=client.connection_pool.connection_kwargs["protocol"], decode_responses=False)
    for value in [b"", bytes(range(256)), b"\r\n$3\r\n", b"x" * (1 << 20)]:
        same(raw.set(value[:300], value), True)
        same(raw.get(value[:300]), value)
    same(raw.rpush("l", b"\x00\xff", b""), 2)
    same(raw.lrange("l", 0, -1), [b"\x00\xff", b""])
    raw.close()


@both("deadlines of keys")
def deadlines(client, _):
    now = time.time()
    for options, seconds in [({"ex": 100}, 100), ({"px": 100_000}, 100), ({"exat": int(now) + 100}, 100),
                             ({"pxat": int(now * 1000) + 100_000}, 100), ({"ex": datetime.timedelta(minutes=2)}, 120)]:
        same(client.set("k", "v", **options), True)
        near(client.pttl("k"), seconds * 1000 + 1, 2000)
        same(client.getex("k"), "v")
        near(client.ttl("k"), seconds + 1, 3)
    same((client.set("k", "w", keepttl=True), client.ttl("k") > 0), (True, True))
    same((client.persist("k"), client.persist("k"), client.ttl("k"), client.ttl("no")), (True, False, -1, -2))
    same((client.expire("k", 10, gt=True), client.expire("k", 10, nx=True)), (False, True))
    same((client.expire("k", 5, gt=True), client.expire("k", 20, xx=True), client.expire("k", 30, lt=True)), (False, True, False))
    same(client.expireat("k", datetime.datetime.fromtimestamp(2_000_000_000)), True)
    same((client.expiretime("k"), client.pexpiretime("k")), (2_000_000_000, 2_000_000_000_000))
    same((client.getex("k", persist=True), client.ttl("k")), ("w", -1))
    same((client.execute_command("SETEX", "s", 10, "v"), client.execute_command("PSETEX", "p", 10_000, "v")), (True, True))
    same((client.ttl("s"), client.ttl("p")), (10, 10))
    same((client.expire("k", -1), client.exists("k")), (True, 0))
    fails(redis.ResponseError, "invalid expire time", client.set, "k", "v", ex=0)
    same(client.set("k", "v", px=30), True)
    start = time.monotonic()
    until(lambda: client.get("k") is None)
    assert 0.030 - EARLY_S <= time.monotonic() - start < 1
    same(client.dbsize(), 2)


@both("keys, iterators over them")
def keys(client, server):
    client.mset({f"key:{i}": i for i in range(1000)})
    client.rpush("list", 1)
    same(len(set(client.scan_iter(match="key:*", count=50))), 1000)
    same(sorted(client.scan_iter(match="key:99?")), [f"key:99{i}" for i in range(10)])
    same(list(client.scan_iter(_type="list")), ["list"])
    same((client.dbsize(), len(client.keys("*1"))), (1001, 100))
    same((client.type("list"), client.type("key:1"), client.type("no")), ("list", "string", "none"))
    same((client.rename("key:1", "new"), client.renamenx("new", "key:2"), client.copy("new", "copy")), (True, False, True))
    same((client.exists("new", "new", "key:1"), client.touch("new", "copy"), client.unlink("new", "copy")), (2, 2, 2))
    fails(redis.ResponseError, "no such key", client.rename, "no", "new")
    same((client.object("encoding", "key:5"), client.object("refcount", "key:5") > 0), ("int", True))
    assert client.randomkey() and client.memory_usage("key:7") > 0
    with server.client(db=1) as other:
        same((other.dbsize(), client.move("list", 1), other.lrange("list", 0, -1)), (0, True, ["1"]))
        same((other.flushdb(), other.dbsize(), client.dbsize()), (True, 0, 999))
    same((client.delete("key:3", "no"), client.flushall(), client.dbsize()), (1, True, 0))


@both("hashes")
def hashes(client, _):
    same((client.hset("h", "f", 1), client.hset("h", mapping={"g": 2, "h": 3})), (1, 2))
    same(client.hgetall("h"), {"f": "1", "g": "2", "h": "3"})
    same(client.hgetall("no"), {})
    same((client.hget("h", "f"), client.hmget("h", "f", "no", "g")), ("1", ["1", None, "2"]))
    same((client.hlen("h"), client.hkeys("h"), client.hvals("h")), (3, ["f", "g", "h"], ["1", "2", "3"]))
    same((client.hexists("h", "f"), client.hexists("h", "no"), client.hstrlen("h", "f")), (True, False, 1))
    same((client.hincrby("h", "f", 5), client.hincrbyfloat("h", "f", 0.5), client.hsetnx("h", "f", 1)), (6, 6.5, 0))
    same(client.hdel("h", "f", "no"), 1)
    client.hset("big", mapping={f"field:{i}": i for i in range(2000)})
    same(dict(client.hscan_iter("big", count=100)), {f"field:{i}": str(i) for i in range(2000)})
    assert client.hrandfield("big") and len(client.hrandfield("big", 5)) == 5


@both("deadlines of fields")
def fields(client, _):
    client.hset("h", mapping={"f": 1, "g": 2})
    same((client.hpexpire("h", 30, "f"), client.httl("h", "g", "no")), ([1], [-1, -2]))
    until(lambda: client.hgetall("h") == {"g": "2"})
    # Redis counts a dead field until it is removed.
    until(lambda: client.hlen("h") == 1)
    same((client.hlen("h"), client.hexists("h", "f"), client.hsetnx("h", "f", 3), client.hpttl("h", "f")), (1, False, True, [-1]))
    same((client.hexpire("h", 100, "f", "no"), client.httl("h", "f")), ([1, -2], [100]))
    same((client.hexpire("h", 10, "f", "g", nx=True), client.hexpire("h", 200, "f", gt=True)), ([0, 1], [1]))
    same((client.hexpire("h", 300, "f", lt=True), client.hpexpire("h", 5000, "f", xx=True), client.httl("h", "g")), ([0], [1], [10]))
    near(client.hpttl("h", "f")[0], 5000, 2000)
    same(client.hexpireat("h", datetime.datetime.fromtimestamp(2_000_000_000), "f"), [1])
    same((client.hexpiretime("h", "f"), client.hpexpireat("h", 2_000_000_000_123, "g")), ([2_000_000_000], [1]))
    same((client.hpexpiretime("h", "g", "no"), client.hexpiretime("h", "g")), ([2_000_000_000_123, -2], [2_000_000_001]))
    same((client.hpersist("h", "f", "f", "no"), client.hset("h", "g", 5), client.hpexpiretime("h", "f", "g")), ([1, -1, -2], 0, [-1, -1]))
    same((client.hexpire("h", 0, "f", "f"), client.hpexpireat("h", 1, "g"), client.exists("h")), ([2, -2], [2], 0))
    same((client.hexpire("h", 10, "f"), client.httl("h", "f"), client.hpersist("h", "f")), ([-2], [-2], [-2]))
    fails(redis.ResponseError, "invalid expire time", client.hexpire, "h", -1, "f")
    client.set("s", "v")
    fails(redis.ResponseError, "WRONGTYPE", client.httl, "s", "f")


@both("fields that are set, read and taken with their deadlines")
def fields_with_values(client, _):
    same((client.hsetex("h", "f", 1, ex=100), client.httl("h", "f")), (1, [100]))
    same(client.hsetex("h", mapping={"f": 2, "g": 3}, keepttl=True), 1)
    same((client.hget("h", "f"), client.httl("h", "f", "g")), ("2", [100, -1]))
    same((client.hsetex("h", items=["f", 4, "i", 5], px=50_000, data_persist_option=HashDataPersistOptions.FXX), client.hexists("h", "i")), (0, False))
    same(client.hsetex("h", "i", 5, pxat=2_000_000_000_000, data_persist_option=HashDataPersistOptions.FNX), 1)
    same((client.hpexpiretime("h", "i"), client.hsetex("h", "i", 6), client.httl("h", "i")), ([2_000_000_000_000], 1, [-1]))
    same((client.hgetex("h", "f", "no", "g"), client.httl("h", "f", "g")), (["2", None, "3"], [100, -1]))
    same((client.hgetex("h", "f", "g", exat=2_000_000_000), client.hexpiretime("h", "f", "g")), (["2", "3"], [2_000_000_000] * 2))
    same((client.hgetex("h", "f", persist=True), client.hgetex("h", "g", ex=datetime.timedelta(minutes=2))), (["2"], ["3"]))
    same(client.httl("h", "f", "g"), [-1, 120])
    same((client.hgetdel("h", "f", "no"), client.hgetdel("no", "f"), client.hgetall("h")), (["2", None], [None], {"g": "3", "i": "6"}))
    same((client.hgetdel("h", "g", "i"), client.exists("h")), (["3", "6"], 0))
    same((client.hsetex("h", "f", 1, px=30), client.hget("h", "f")), (1, "1"))
    until(lambda: not client.exists("h"))


@check("redis-py: events of fields that expire", protocols=(2, 3))
def field_events(client, _):
    client.config_set("notify-keyspace-events", "Khg")
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe("__keyspace@0__:h")
    client.hset("h", "f", 1)
    client.hpexpire("h", 30, "f")
    seen = []
    for _ in range(4):
        seen.append(until(lambda: pubsub.get_message(timeout=0.01))["data"])
    same(seen, ["hset", "hexpire", "hexpired", "del"])
    pubsub.close()
    client.config_set("notify-keyspace-events", "")


@both("lists")
def lists(client, _):
    same((client.rpush("l", *"abc"), client.lpush("l", "z"), client.lpushx("no", 1)), (3, 4, 0))
    same((client.lrange("l", 0, -1), client.llen("l"), client.lindex("l", -1)), (list("zabc"), 4, "c"))
    same((client.linsert("l", "before", "a", "y"), client.lset("l", 0, "x"), client.lrem("l", 1, "b")), (5, True, 1))
    same((client.lpop("l"), client.rpop("l"), client.lpop("l", 5), client.lpop("l"), client.rpop("l", 2)), ("x", "c", ["y", "a"], None, None))
    same(client.rpush("l", *"abcabc"), 6)
    same((client.lpos("l", "b", rank=2), client.lpos("l", "c", count=0), client.lpos("l", "no")), (4, [2, 5], None))
    same((client.ltrim("l", 1, 3), client.lmove("l", "m", "LEFT", "RIGHT"), client.rpoplpush("l", "m")), (True, "b", "a"))
    same((client.lrange("m", 0, -1), client.lmpop(2, "no", "m", direction="LEFT", count=2)), (["a", "b"], ["m", ["a", "b"]]))
    same((client.rpush("n", 3, 10, 1), client.sort("n", desc=True), client.sort("n", alpha=True, store="o")), (3, ["10", "3", "1"], 3))
    fails(redis.ResponseError, "WRONGTYPE", client.get, "n")


@both("sets")
def sets(client, _):
    same((client.sadd("s", 1, 2, 3), client.sadd("t", 3, 4), client.srem("s", 1, 9)), (3, 2, 1))
    same((client.smembers("s"), client.scard("s"), client.sismember("s", 2), client.sismember("s", 9)), ({"2", "3"}, 2, 1, 0))
    same((client.smismember("s", [2, 9]), client.sinter("s", "t"), client.sunion("s", "t")), ([1, 0], {"3"}, {"2", "3", "4"}))
    same((client.sdiff("s", "t"), client.sintercard(2, ["s", "t"]), client.sunionstore("u", "s", "t")), ({"2"}, 1, 3))
    same((client.smove("s", "t", 2), client.spop("s"), client.spop("s"), sorted(client.spop("u", 9))), (True, "3", None, ["2", "3", "4"]))
    client.sadd("big", *range(3000))
    same(sorted(map(int, client.sscan_iter("big"))), list(range(3000)))
    assert len(set(client.srandmember("big", 10))) == 10 and client.srandmember("big")


@both("sorted sets")
def sorted_sets(client, _):
    same((client.zadd("z", {"a": 1, "b": 2, "c": 3}), client.zadd("z", {"a": 5}, nx=True), client.zadd("z", {"a": 1.5}, ch=True)), (3, 0, 1))
    same((client.zadd("z", {"a": 1}, incr=True), client.zadd("z", {"c": 1}, gt=True)), (2.5, 0))
    same(client.zrange("z", 0, -1, withscores=True), [("b", 2.0), ("a", 2.5), ("c", 3.0)])
    same((client.zscore("z", "a"), client.zscore("z", "no"), client.zmscore("z", ["a", "no"])), (2.5, None, [2.5, None]))
    same((client.zrank("z", "c"), client.zrevrank("z", "c"), client.zcard("z"), client.zcount("z", 2, "(3")), (2, 0, 3, 2))
    same(client.zrank("z", "a", withscore=True), [1, 2.5])
    same(client.zrange("z", "+inf", 2.5, byscore=True, desc=True, offset=0, num=1), ["c"])
    same((client.zrangebyscore("z", "-inf", 2.5), client.zrevrange("z", 0, 0)), (["b", "a"], ["c"]))
    same((client.zincrby("z", 10, "b"), client.zrem("z", "a", "no")), (12.0, 1))
    # RESP3 has no list around a single pair.
    assert listed(client.zpopmin("z")) in ([["c", 3.0]], ["c", 3.0])
    same(client.zpopmax("z", 5), [("b", 12.0)])
    same((client.zadd("x", {"a": 1, "b": 2}), client.zadd("y", {"b": 3, "c": float("inf")})), (2, 2))
    same((client.zunion(["x", "y"]), client.zinter(["x", "y"]), client.zdiff(["x", "y"])), (["a", "b", "c"], ["b"], ["a"]))
    same((client.zinterstore("i", {"x": 2, "y": 1}), client.zscore("i", "b"), client.zunionstore("u", ["x", "y"], aggregate="MAX")), (1, 7.0, 3))
    same((client.zscore("u", "c"), client.zrangestore("r", "u", 0, 1), client.zremrangebyrank("u", 0, 0)), (float("inf"), 2, 1))
    key, popped = client.zmpop(1, ["r"], min=True)
    same((key, [[member, float(score)] for member, score in popped]), ("r", [["a", 1.0]]))
    client.zadd("lex", dict.fromkeys("abcd", 0))
    same((client.zrangebylex("lex", "[b", "(d"), client.zlexcount("lex", "-", "+"), client.zremrangebylex("lex", "-", "[b")), (["b", "c"], 4, 2))
    client.zadd("big", {f"m{i}": i for i in range(3000)})
    same(dict(client.zscan_iter("big")), {f"m{i}": float(i) for i in range(3000)})


# redis-py: waiting

@both("pops that wait in vain")
def waits_in_vain(client, _):
    for function, args in [(client.blpop, ("k", 0.05)), (client.brpop, (["k", "l"], 0.05)), (client.blmove, ("k", "l", 0.05)),
                           (client.brpoplpush, ("k", "l", 0.05)), (lambda *args: client.blmpop(*args, direction="LEFT"), (0.05, 2, "k", "l")),
                           (client.bzpopmin, ("k", 0.05)), (client.bzpopmax, ("k", 0.05)), (lambda *args: client.bzmpop(*args, min=True), (0.05, 1, ["k"]))]:
        start = time.monotonic()
        same(function(*args), None)
        assert 0.05 - EARLY_S <= time.monotonic() - start < 2, function


@both("pops that are woken")
def waits(client, server):
    with server.client(protocol=client.connection_pool.connection_kwargs["protocol"]) as other:
        cases = [(lambda: other.blpop(["no", "k"], WAIT_S), lambda: client.rpush("k", "v", "w"), ["k", "v"]),
                 (lambda: other.brpop("k", WAIT_S), lambda: client.rpush("k", "v", "w"), ["k", "w"]),
                 (lambda: other.blmove("k", "l", WAIT_S), lambda: client.lpush("k", "v"), "v"),
                 (lambda: other.brpoplpush("k", "l", WAIT_S), lambda: client.lpush("k", "v"), "v"),
                 (lambda: other.blmpop(WAIT_S, 1, "k", direction="RIGHT", count=3), lambda: client.rpush("k", *"abcd"), ["k", ["d", "c", "b"]]),
                 (lambda: other.bzpopmin("k", WAIT_S), lambda: client.zadd("k", {"a": 2, "b": 1}), ["k", "b", 1.0]),
                 (lambda: other.bzpopmax("k", WAIT_S), lambda: client.zadd("k", {"a": 2, "b": 1}), ["k", "a", 2.0]),
                 (lambda: other.bzmpop(WAIT_S, 1, ["k"], min=True), lambda: client.zadd("k", {"a": 2.5}), ["k", [["a", 2.5]]])]
        for pop, push, expected in cases:
            client.flushall()
            got = []
            thread = threading.Thread(target=lambda pop=pop, got=got: got.append(pop()))
            thread.start()
            until(lambda: client.info("clients")["blocked_clients"] == 1)
            push()
            thread.join(WAIT_S)
            assert got, "nobody was woken"
            # Scores of BZMPOP come as text in RESP2.
            assert listed(got[0]) in (expected, ["k", [["a", "2.5"]]]), got


# redis-py: many commands at once

@both("pipelines")
def pipelines(client, _):
    pipe = client.pipeline(transaction=False)
    for i in range(5000):
        pipe.set(f"k{i}", i, ex=100).get(f"k{i}")
    same(pipe.execute(), [item for i in range(5000) for item in (True, str(i))])
    pipe = client.pipeline(transaction=False)
    pipe.lpush("k1", 1).get("k1").hgetall("no")
    replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[0], redis.ResponseError) and replies[1:] == ["1", {}], replies
    pipe = client.pipeline(transaction=False)
    pipe.lpush("k1", 1).set("k2", 7)
    fails(redis.ResponseError, "WRONGTYPE", pipe.execute)
    same(client.get("k2"), "7")


@both("transactions")
def transactions(client, server):
    pipe = client.pipeline()
    same(pipe.set("a", 1).incr("a").zadd("z", {"m": 1}).zscore("z", "m").execute(), [True, 2, 1, 1.0])
    pipe.incr("z").incr("a")
    replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[0], redis.ResponseError) and replies[1] == 3, replies
    pipe.set("a", 1).execute_command("NOSUCH")
    fails(redis.ResponseError, "unknown command", pipe.execute)
    same(client.get("a"), "3")
    pipe.watch("a")
    client.set("a", 9)
    pipe.multi()
    fails(redis.WatchError, "", pipe.get("a").execute)
    client.set("a", 0, px=20)
    pipe.watch("a")
    until(lambda: not client.exists("a"))
    pipe.multi()
    fails(redis.WatchError, "", pipe.set("a", 1).execute)

    def add_one():
        with server.client() as other:
            for _ in range(50):
                other.transaction(lambda pipe: (value := int(pipe.get("sum") or 0), pipe.multi(), pipe.set("sum", value + 1)), "sum")

    threads = [threading.Thread(target=add_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(client.get("sum"), "200")


# redis-py: messages

def message(pubsub):
    """The next message: its kind, pattern, channel and text."""
    found = until(lambda: pubsub.get_message(timeout=0.1))
    return found["type"], found["pattern"], found["channel"], found["data"]


@both("messages")
def messages(client, _):
    with client.pubsub() as pubsub:
        pubsub.subscribe("c", "d")
        pubsub.psubscribe("c*")
        same([message(pubsub) for _ in range(3)], [("subscribe", None, "c", 1), ("subscribe", None, "d", 2), ("psubscribe", None, "c*", 3)])
        same((client.publish("c", "hi"), client.publish("d", "x"), client.publish("e", "x")), (2, 1, 0))
        same([message(pubsub) for _ in range(3)], [("message", None, "c", "hi"), ("pmessage", "c*", "c", "hi"), ("message", None, "d", "x")])
        same((sorted(client.pubsub_channels()), client.pubsub_numpat(), client.pubsub_numsub("c", "e")), (["c", "d"], 1, [("c", 1), ("e", 0)]))
        pubsub.ping("are you there")
        # RESP3 answers as outside of subscriptions.
        assert until(lambda: pubsub.parse_response(timeout=0.1)) in (["pong", "are you there"], "are you there")
        pubsub.unsubscribe("c")
        pubsub.punsubscribe()
        same([message(pubsub)[0] for _ in range(2)], ["unsubscribe", "punsubscribe"])
        same((client.publish("c", "hi"), client.publish("d", "still")), (0, 1))
        same(message(pubsub), ("message", None, "d", "still"))
    until(lambda: client.pubsub_channels() == [])
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        got = []
        pubsub.subscribe(**{"c": got.append})
        thread = pubsub.run_in_thread(sleep_time=0.01)
        until(lambda: client.publish("c", "to a thread"))
        until(lambda: got)
        thread.stop()
        thread.join()
        same(got[0]["data"], "to a thread")


@both("messages of one shard")
def shard_messages(client, _):
    with client.pubsub() as pubsub:
        pubsub.ssubscribe("c")
        same(until(lambda: pubsub.get_sharded_message(timeout=0.1))["type"], "ssubscribe")
        same((client.spublish("c", "hi"), client.publish("c", "hi")), (1, 0))
        same(until(lambda: pubsub.get_sharded_message(timeout=0.1))["data"], "hi")


@both("events of keys that expire")
def events(client, _):
    client.config_set("notify-keyspace-events", "Exg")
    with client.pubsub() as pubsub, client.pubsub() as every:
        pubsub.subscribe("__keyevent@0__:expired")
        every.psubscribe("__keyevent@*__:*")
        message(pubsub), message(every)
        start = time.monotonic()
        client.set("second", "v", px=150)
        client.set("first", "v", px=50)
        client.hset("third", "f", "v")
        client.pexpire("third", 250)
        for name, seconds in [("first", 0.05), ("second", 0.15), ("third", 0.25)]:
            same(message(pubsub), ("message", None, "__keyevent@0__:expired", name))
            assert time.monotonic() - start >= seconds - EARLY_S, name
        expected = [("expire", name) for name in ("second", "first", "third")] + [("expired", name) for name in ("first", "second", "third")]
        same([(channel.split(":")[1], key) for _, _, channel, key in (message(every) for _ in expected)], expected)
    client.config_set("notify-keyspace-events", "")


# redis-py: connections

@both("clients and their names")
def clients(client, server):
    with server.client(client_name="a-worker", protocol=client.connection_pool.connection_kwargs["protocol"]) as named:
        same((named.client_getname(), named.client_info()["name"]), ("a-worker", "a-worker"))
        info = named.client_info()
        same((info["lib-name"], info["lib-ver"], info["db"]), ("redis-py", redis.__version__, 0))
        same(int(info["resp"]), int(client.connection_pool.connection_kwargs["protocol"]))
        found = [other["id"] for other in client.client_list() if other["name"] == "a-worker"]
        same(found, [str(named.client_id())])
        same(client.client_kill_filter(_id=found[0]), 1)
        # It connects again by itself, under the same name.
        same((named.ping(), named.client_getname(), named.client_id() != int(found[0])), (True, "a-worker", True))
    same((client.client_setname("x"), client.echo("hello"), client.ping()), (True, "hello", True))
    seconds, micros = client.time()
    assert abs(seconds + micros / 1e6 - time.time()) < 5


@both("pools of connections")
def pools(client, server):
    protocol = client.connection_pool.connection_kwargs["protocol"]
    pool = redis.BlockingConnectionPool(port=server.port, max_connections=3, timeout=WAIT_S, protocol=protocol, health_check_interval=1)
    threads = [threading.Thread(target=lambda: [redis.Redis(connection_pool=pool).incr("n") for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(client.get("n"), "400")
    pool.disconnect()
    url = redis.Redis.from_url(f"redis://127.0.0.1:{server.port}/2?protocol={protocol}", decode_responses=True)
    same((url.set("k", "v"), url.client_info()["db"], client.exists("k")), (True, 2, 0))
    url.close()


@both("what the server tells of itself")
def about(client, _):
    info = client.info()
    assert info["redis_version"] and info["connected_clients"] >= 1 and info["used_memory"] > 0, info
    client.set("k", "v", ex=100)
    same({name: client.info("keyspace")["db0"][name] for name in ("keys", "expires")}, {"keys": 1, "expires": 1})
    same((client.config_set("hz", 20), client.config_get("hz")), (True, {"hz": "20"}))
    same(client.config_set("hz", 10), True)
    assert client.command_count() > 100 and "get" in client.command()
    same((client.command_getkeys("MSET", "a", 1, "b", 2), client.role()[0]), (["a", "b"], "master"))
    assert client.bgsave() and client.config_resetstat()
    until(lambda: not client.info("persistence")["rdb_bgsave_in_progress"])
    assert abs(client.lastsave() - datetime.datetime.now()).total_seconds() < 3600


# redis-py: asyncio

async def talk(client):
    """What asyncio's client can do."""
    same((await client.set("k", "v", ex=10), await client.get("k"), await client.ttl("k")), (True, "v", 10))
    async with client.pipeline(transaction=True) as pipe:
        same(await pipe.incr("n").incr("n").hset("h", mapping={"f": "v"}).hgetall("h").execute(), [1, 2, 1, {"f": "v"}])
    async with client.pipeline() as pipe:
        await pipe.watch("n")
        await client.incr("n")
        pipe.multi()
        pipe.incr("n")
        try:
            await pipe.execute()
            raise AssertionError("WATCH did not notice")
        except redis.WatchError:
            pass
    same(sorted(await asyncio.gather(*[client.incr("m") for _ in range(100)])), list(range(1, 101)))
    same(sorted([key async for key in client.scan_iter(match="?")]), ["h", "k", "m", "n"])
    popped = asyncio.create_task(client.blpop("queue", timeout=WAIT_S))
    while (await client.info("clients"))["blocked_clients"] != 1:
        await asyncio.sleep(0.002)
    await client.rpush("queue", "job")
    same(list(await popped), ["queue", "job"])
    same(await client.blpop("queue", timeout=0.03), None)
    await client.config_set("notify-keyspace-events", "Ex")
    async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe("__keyevent@0__:expired", "c")
        await pubsub.get_message(timeout=1)
        await client.set("e", "v", px=20)
        async for found in pubsub.listen():
            if found["type"] == "message":
                same((found["channel"], found["data"]), ("__keyevent@0__:expired", "e"))
                break
    await client.config_set("notify-keyspace-events", "")


@check("redis-py: asyncio", protocols=(2, 3))
def asynchronous(client, server):
    async def run():
        protocol = client.connection_pool.connection_kwargs["protocol"]
        async with redis.asyncio.Redis(port=server.port, protocol=protocol, decode_responses=True) as other:
            await asyncio.wait_for(talk(other), WAIT_S)
    asyncio.run(run())
