"""dramatiq: actors, delays, retries, results, limits; with a worker in threads."""

import time

import dramatiq
import dramatiq.rate_limits
import dramatiq.rate_limits.backends
import dramatiq.results
import dramatiq.results.backends
from dramatiq.brokers.redis import RedisBroker

from harness import EARLY_S, WAIT_S, check, same, until


@check("dramatiq: messages, delays, retries, results, limits")
def dramatiq_jobs(client, server):
    url = f"redis://127.0.0.1:{server.port}"
    broker = RedisBroker(url=url)
    results = dramatiq.results.backends.RedisBackend(url=url)
    broker.add_middleware(dramatiq.results.Results(backend=results))
    seen, tries = [], []

    @dramatiq.actor(broker=broker, store_results=True)
    def add(a, b):
        return a + b

    @dramatiq.actor(broker=broker)
    def note(word):
        seen.append((word, time.monotonic()))

    @dramatiq.actor(broker=broker, max_retries=3, min_backoff=200, max_backoff=200)
    def stubborn():
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise ValueError("once more")

    @dramatiq.actor(broker=broker, max_retries=0)
    def hopeless():
        raise ValueError("never")

    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=4)
    worker.start()
    try:
        same(add.send(1, 2).get_result(backend=results, block=True, timeout=WAIT_S * 1000), 3)
        many = dramatiq.group((add.message(n, n) for n in range(50)), broker=broker).run()
        sums = list(many.get_results(block=True, timeout=WAIT_S * 1000))
        same(sums, [2 * n for n in range(50)])
        asked = time.monotonic()
        note.send_with_options(args=("late",), delay=700)
        note.send("soon")
        stubborn.send()
        hopeless.send()
        until(lambda: len(seen) == 2 and len(tries) == 3)
        same([word for word, _ in seen], ["soon", "late"])
        assert seen[1][1] - asked >= 0.7 - EARLY_S, f"ran after {seen[1][1] - asked} s"
        # At least half of the time between two tries is no matter of chance.
        assert tries[2] - tries[0] >= 0.2 - 2 * EARLY_S, f"tried at {tries}"
        broker.join("default", timeout=WAIT_S * 1000)
        # What cannot be done is laid aside, with its message.
        queue = "dramatiq:default"
        until(lambda: client.zcard(f"{queue}.XQ") == 1)
        same((client.hlen(f"{queue}.XQ.msgs"), client.hlen(f"{queue}.msgs")), (1, 0))
    finally:
        worker.stop(timeout=WAIT_S * 1000)
        broker.close()


@check("dramatiq: so many at a time, and so many in a window")
def dramatiq_limits(client, server):
    backend = dramatiq.rate_limits.backends.RedisBackend(url=f"redis://127.0.0.1:{server.port}")
    two = dramatiq.rate_limits.ConcurrentRateLimiter(backend, "two", limit=2, ttl=100_000)
    with two.acquire(), two.acquire():
        with two.acquire(raise_on_failure=False) as acquired:
            same(acquired, False)
    with two.acquire(raise_on_failure=False) as acquired:
        same(acquired, True)
    window = dramatiq.rate_limits.WindowRateLimiter(backend, "window", limit=3, window=2)

    def asked():
        with window.acquire(raise_on_failure=False) as acquired:
            return acquired

    start = time.monotonic()
    same([asked() for _ in range(4)], [True, True, True, False])
    until(asked)
    assert time.monotonic() - start < 5
