"""Locks of redis-py, python-redis-lock, redlock-py, pottery; redis-py's scripts and functions."""

import asyncio
import threading
import time

import pottery
import redis
import redis_lock
from redis.exceptions import LockError, LockNotOwnedError
from redlock import Redlock

from harness import EARLY_S, WAIT_S, both, check, fails, in_threads, near, same, until

# Longer than any check waits: a lock that stays does not go by itself.
LONG_S = 10 * WAIT_S


def protocol_of(client):
    """The protocol that the check is run in."""
    return client.connection_pool.connection_kwargs["protocol"]


def add_in_threads(server, lock_of):
    """Adds by reading and writing, from many threads, each within the lock that `lock_of` makes.

    Without a lock some of the sums get lost.
    """
    def make():
        own = server.client()
        lock = lock_of(own)

        def add():
            with lock:
                number = int(own.get("number") or 0)
                time.sleep(0.0005)
                own.set("number", number + 1)

        return add

    in_threads(make)


@both("scripts")
def scripts(client, server):
    script = client.register_script("""
        local sum = redis.call('INCRBY', KEYS[1], ARGV[1])
        redis.call('PEXPIRE', KEYS[1], 100000)
        return {sum, {KEYS[2] or 'none', false, true, 2.9}, redis.call('TYPE', KEYS[1]).ok}
    """)
    same(script(keys=["n"], args=[5]), [5, ["none", None, 1, 2], "string"])
    same(script(keys=["n", "m"], args=[-2]), [3, ["m", None, 1, 2], "string"])
    near(client.ttl("n"), 100, 3)
    # Whoever does not find it loads it again, alone or in a pipeline.
    same((client.script_exists(script.sha), client.script_flush()), ([True], True))
    same(client.script_exists(script.sha), [False])
    same(script(keys=["n"], args=[1])[0], 4)
    client.script_flush()
    pipe = client.pipeline()
    pipe.set("n", 10)
    script(keys=["n"], args=[1], client=pipe)
    pipe.get("n")
    same(pipe.execute(), [True, [11, ["none", None, 1, 2], "string"], "11"])
    fails(redis.ResponseError, "not an integer", script, keys=["n"], args=["x"])
    client.rpush("list", 1)
    same(client.eval("return redis.pcall('INCR', KEYS[1]).err ~= nil", 1, "list"), 1)
    texts = "return {cjson.encode({1, 'a'}), #ARGV, ARGV[2]}"
    same(client.eval(texts, 0, "x", "y"), ['[1,"a"]', 2, "y"])
    fails(redis.exceptions.NoScriptError, "No matching script", client.evalsha, "0" * 40, 0)
    write = "return redis.call('SET', 'a', 1)"
    fails(redis.ResponseError, "Write commands are not allowed", client.eval_ro, write, 0)
    fails(redis.ResponseError, "MY own", client.eval, "return redis.error_reply('MY own')", 0)


@both("functions")
def functions(client, _):
    code = """#!lua name=codes
        redis.register_function('spend', function(keys, args)
            if redis.call('GET', keys[1]) ~= args[1] then return 0 end
            return redis.call('DEL', keys[1])
        end)
        redis.register_function{function_name='peek', flags={'no-writes'},
            callback=function(keys) return redis.call('GET', keys[1]) end}
    """
    client.function_flush()
    same(client.function_load(code), "codes")
    fails(redis.ResponseError, "already exists", client.function_load, code)
    client.set("otp", "493817")
    same((client.fcall_ro("peek", 1, "otp"), client.fcall("spend", 1, "otp", "1")), ("493817", 0))
    same((client.fcall("spend", 1, "otp", "493817"), client.exists("otp")), (1, 0))
    fails(redis.ResponseError, "with write flag", client.fcall_ro, "spend", 1, "otp", "1")
    same((client.function_delete("codes"), client.function_list()), (True, []))


@both("a lock that threads fight for")
def lock_contended(client, server):
    options = {"timeout": LONG_S, "sleep": 0.001, "blocking_timeout": WAIT_S}
    add_in_threads(server, lambda own: own.lock("door", **options))
    same((client.get("number"), client.exists("door")), ("100", 0))


@both("a lock: extend, reacquire, whose it is")
def lock_times(client, _):
    lock, other = client.lock("door", timeout=100), client.lock("door", timeout=100, blocking=False)
    same((lock.acquire(), other.acquire(), other.locked()), (True, False, True))
    same((lock.owned(), other.owned()), (True, False))
    near(client.pttl("door"), 100_000, 3000)
    same(lock.extend(50), True)
    near(client.pttl("door"), 150_000, 3000)
    same(lock.extend(30, replace_ttl=True), True)
    near(client.pttl("door"), 30_000, 3000)
    same(lock.reacquire(), True)
    near(client.pttl("door"), 100_000, 3000)
    fails(LockError, "unlocked", other.release)
    client.set("door", "another's", keepttl=True)
    fails(LockNotOwnedError, "no longer owned", lock.extend, 50)
    fails(LockNotOwnedError, "no longer owned", lock.reacquire)
    fails(LockNotOwnedError, "no longer owned", lock.release)
    same(client.get("door"), "another's")


@both("a lock whose time is over")
def lock_expires(client, _):
    first = client.lock("door", timeout=0.2)
    second = client.lock("door", timeout=100, sleep=0.001, blocking_timeout=WAIT_S)
    start = time.monotonic()
    same((first.acquire(), second.acquire()), (True, True))
    assert 0.2 - EARLY_S <= time.monotonic() - start < 3
    fails(LockNotOwnedError, "no longer owned", first.release)
    same((second.owned(), second.release(), second.locked()), (True, None, False))
    # The time is over while nobody else wants it.
    same(first.acquire(), True)
    until(lambda: not first.locked())
    fails(LockNotOwnedError, "no longer owned", first.reacquire)


@both("a lock in asyncio")
def lock_asyncio(client, server):
    options = {"timeout": LONG_S, "sleep": 0.001, "blocking_timeout": WAIT_S / 2}

    async def run():
        async with redis.asyncio.Redis(port=server.port, protocol=protocol_of(client)) as own:
            async def add():
                async with own.lock("door", **options):
                    number = int(await own.get("number") or 0)
                    await own.set("number", number + 1)

            await asyncio.gather(*(add() for _ in range(100)))

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
    same((client.get("number"), client.exists("door")), ("100", 0))


@check("python-redis-lock: threads that fight for it")
def redis_lock_contended(client, server):
    add_in_threads(server, lambda own: redis_lock.Lock(own, "door", expire=LONG_S))
    same((client.get("number"), client.exists("lock:door")), ("100", 0))


@check("python-redis-lock: extend, renewal, reset")
def redis_lock_times(client, _):
    lock = redis_lock.Lock(client, "door", expire=2)
    same((lock.acquire(blocking=False), lock.locked()), (True, True))
    lock.extend(50)
    near(client.ttl("lock:door"), 50, 3)
    other = redis_lock.Lock(client, "door", expire=2)
    same((other.acquire(blocking=False), other.get_owner_id() == lock.id), (False, True))
    # One that waits is woken up by the release.
    waiting = threading.Thread(target=other.acquire)
    waiting.start()
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    lock.release()
    waiting.join(WAIT_S)
    same((waiting.is_alive(), other.get_owner_id() == other.id), (False, True))
    fails(redis_lock.NotAcquired, "not acquired", lock.release)
    other.reset()
    same(client.exists("lock:door"), 0)
    renewed = redis_lock.Lock(client, "renewed", expire=1, auto_renewal=True)
    with renewed:
        left = []
        # It is renewed again and again: what is left grows, twice.
        until(lambda: left.append(client.pttl("lock:renewed")) or grown(left) == 2)
    same((renewed.locked(), client.exists("lock:renewed")), (False, 0))
    redis_lock.Lock(client, "a", expire=50).acquire()
    redis_lock.reset_all(client)
    same(client.keys("lock:*"), [])


def grown(numbers):
    """How often a number is greater than the one before."""
    return sum(before < after for before, after in zip(numbers, numbers[1:]))


@check("redlock-py: a lock on three databases")
def redlock_py(client, server):
    places = [server.client(db=number) for number in range(3)]
    locks = Redlock(places, retry_count=1)
    lock = locks.lock("door", 100_000)
    near(lock.validity, 100_000, 4000)
    same(locks.lock("door", 100_000), False)
    same([place.exists("door") for place in places], [1, 1, 1])
    # One of another's stays, the others go.
    places[2].set("door", "another's")
    locks.unlock(lock)
    same([place.exists("door") for place in places], [0, 0, 1])
    # Two of three are enough, and it is over in its time.
    short = locks.lock("door", 200)
    same((bool(short), places[2].get("door")), (True, "another's"))
    until(lambda: places[0].exists("door") + places[1].exists("door") == 0)
    for place in places:
        place.close()


@check("pottery: Redlock")
def pottery_redlock(client, server):
    def lock_of(own):
        options = {"auto_release_time": LONG_S, "context_manager_timeout": WAIT_S}
        return pottery.Redlock(key="door", masters={own}, **options)

    add_in_threads(server, lock_of)
    same((client.get("number"), client.exists("redlock:door")), ("100", 0))
    lock = pottery.Redlock(key="door", masters={client}, auto_release_time=50)
    other = pottery.Redlock(key="door", masters={client}, auto_release_time=50)
    same((lock.acquire(), other.acquire(blocking=False), other.locked()), (True, False, 0))
    near(lock.locked(), 50, 3)
    client.pexpire("redlock:door", 10_000)
    lock.extend()
    near(client.ttl("redlock:door"), 50, 3)
    client.delete("redlock:door")
    same(lock.locked(), 0)
    fails(pottery.ReleaseUnlockedLock, "door", lock.release)
