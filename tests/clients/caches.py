"""Caches that keep what they hold in a server: cachelib, django-redis."""

import cachelib
import django.conf
from django_redis.cache import RedisCache
from redis.exceptions import LockNotOwnedError

from harness import WAIT_S, check, fails, in_threads, near, same


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


def django_cache(server):
    """A cache of django-redis, as Django would make it."""
    if not django.conf.settings.configured:
        django.conf.settings.configure()
    return RedisCache(f"redis://127.0.0.1:{server.port}", {})


@check("django-redis: numbers that threads add to, deadlines")
def django_redis_numbers(client, server):
    django_cache(server).set("number", 0, timeout=100)

    def make_incr():
        own = django_cache(server)
        return lambda: own.incr("number")

    in_threads(make_incr, rounds=100)
    cache = django_cache(server)
    same((cache.get("number"), cache.decr("number", 10), cache.incr("number", 1)), (400, 390, 391))
    near(client.ttl(":1:number"), 100, 5)
    fails(ValueError, "not found", cache.incr, "no")
    same((cache.incr("no", ignore_key_check=True), cache.ttl("no")), (1, None))
    cache.set_many({"a": [1], "b": {"c": None}}, timeout=50)
    found = {"a": [1], "b": {"c": None}, "no": 1}
    same((cache.get_many(["a", "b", "no", "none"]), cache.ttl("a")), (found, 50))
    same((cache.add("a", 2), cache.touch("a", 70), cache.ttl("a")), (False, True, 70))
    same((cache.delete_pattern("*"), client.dbsize()), (4, 0))


@check("django-redis: locks")
def django_redis_locks(client, server):
    cache = django_cache(server)

    def make():
        own = django_cache(server)

        def add():
            with own.lock("door", timeout=10 * WAIT_S, sleep=0.001, blocking_timeout=WAIT_S):
                own.set("sum", own.get("sum", 0) + 1)

        return add

    in_threads(make)
    same((cache.get("sum"), client.exists(":1:door")), (100, 0))
    lock, other = cache.lock("door", timeout=50), cache.lock("door", timeout=50)
    same((lock.acquire(), other.acquire(blocking=False), lock.extend(50)), (True, False, True))
    near(client.ttl(":1:door"), 100, 3)
    cache.delete("door")
    fails(LockNotOwnedError, "no longer owned", lock.release)
