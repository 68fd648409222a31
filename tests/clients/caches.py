"""Caches that keep what they hold in a server: cachelib."""

import cachelib

from harness import check, near, same


@check("cachelib: a cache with timeouts")
def cachelib_cache(client, server):
    store = cachelib.RedisCache(host="127.0.0.1", port=server.port, key_prefix="cache:", default_timeout=100)
    same((store.set("k", {"a": [1, None]}), store.get("k"), store.get("no")), (True, {"a": [1, None]}, None))
    near(client.ttl("cache:k"), 100, 3)
    same((store.set("for ever", 1, timeout=0), client.ttl("cache:for ever")), (True, -1))
    same((store.add("k", 2), store.add("new", 2, timeout=50), client.ttl("cache:new")), (False, True, 50))
    store.set_many({"a": 1, "b": 2}, timeout=30)
    same((store.get_many("a", "no", "b"), store.get_dict("a", "b")), ([1, None, 2], {"a": 1, "b": 2}))
    near(client.ttl("cache:b"), 30, 3)
    same((store.inc("n"), store.inc("n", 4), store.dec("n")), (1, 5, 4))
    same((store.has("a"), store.delete("a"), store.has("a"), store.delete_many("b", "n")), (True, True, False, ["b", "n"]))
    client.set("other", "stays")
    same((store.clear(), client.keys("*")), (True, ["other"]))
