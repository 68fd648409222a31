"""Limits of rates: those of limits and Flask-Limiter, with windows that really limit."""

import time
from concurrent.futures import ThreadPoolExecutor

import flask
import limits
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from limits.storage import RedisStorage
from limits.strategies import (FixedWindowRateLimiter, MovingWindowRateLimiter,
                               SlidingWindowCounterRateLimiter)

from harness import EARLY_S, check, near, same, until

THREADS = 8


def storage(server):
    """Where limits keeps its counts."""
    return RedisStorage(f"redis://127.0.0.1:{server.port}")


def exactly(server, strategy):
    """Many threads ask for more than there is; each has a limiter of its own."""
    limit = limits.parse("50/hour")

    def ask(_):
        limiter = strategy(storage(server))
        return sum(limiter.hit(limit, "many") for _ in range(20))

    with ThreadPoolExecutor(THREADS) as threads:
        same(sum(threads.map(ask, range(THREADS))), 50)


@check("limits: a fixed window")
def fixed_window(client, server):
    exactly(server, FixedWindowRateLimiter)
    limiter, limit = FixedWindowRateLimiter(storage(server)), limits.parse("3/second")
    start = time.monotonic()
    same([limiter.hit(limit, "alice") for _ in range(3)], [True] * 3)
    same((limiter.test(limit, "alice"), limiter.hit(limit, "alice")), (False, False))
    same((limiter.hit(limit, "bob"), limiter.get_window_stats(limit, "bob").remaining), (True, 2))
    until(lambda: limiter.hit(limit, "alice"))
    assert 1 - EARLY_S <= time.monotonic() - start < 3
    # All of it is there again.
    same([limiter.hit(limit, "alice") for _ in range(3)], [True, True, False])


@check("limits: a moving window")
def moving_window(client, server):
    exactly(server, MovingWindowRateLimiter)
    limiter, limit = MovingWindowRateLimiter(storage(server)), limits.parse("2/second")

    def left():
        return limiter.get_window_stats(limit, "alice").remaining

    start = time.monotonic()
    same((limiter.hit(limit, "alice"), left()), (True, 1))
    until(lambda: time.monotonic() - start > 0.5)
    second = time.monotonic()
    same((limiter.hit(limit, "alice"), limiter.hit(limit, "alice")), (True, False))
    until(lambda: limiter.hit(limit, "alice"))
    assert 1 - EARLY_S <= time.monotonic() - start < 3
    # Only the first has left the window: no room until the second has too.
    same((limiter.hit(limit, "alice"), left()), (False, 0))
    until(lambda: limiter.hit(limit, "alice"))
    assert 1 - EARLY_S <= time.monotonic() - second < 3
    limiter.clear(limit, "alice")
    same(left(), 2)


@check("limits: a counter over a sliding window")
def sliding_window(client, server):
    exactly(server, SlidingWindowCounterRateLimiter)
    limiter, limit = SlidingWindowCounterRateLimiter(storage(server)), limits.parse("4/second")
    start = time.monotonic()
    same([limiter.hit(limit, "alice") for _ in range(5)], [True] * 4 + [False])
    until(lambda: limiter.hit(limit, "alice"))
    assert 1 - EARLY_S <= time.monotonic() - start < 4


@check("Flask-Limiter: pages that may be asked for so often")
def flask_limiter(client, server):
    app = flask.Flask("pages")
    url = f"redis://127.0.0.1:{server.port}"
    limiter = Limiter(get_remote_address, app=app, storage_uri=url, strategy="moving-window",
                      headers_enabled=True, default_limits=["100/hour"])

    @app.route("/code")
    @limiter.limit("3/second")
    def code():
        return "493817"

    @app.route("/news")
    def news():
        return "none"

    def ask(page, address="10.0.0.1"):
        return app.test_client().get(page, environ_base={"REMOTE_ADDR": address})

    start = time.monotonic()
    replies = [ask("/code") for _ in range(4)]
    same([reply.status_code for reply in replies], [200, 200, 200, 429])
    same([reply.headers["X-RateLimit-Remaining"] for reply in replies], ["2", "1", "0", "0"])
    same((ask("/code", "10.0.0.2").status_code, ask("/news").status_code), (200, 200))
    until(lambda: ask("/code").status_code == 200)
    assert 1 - EARLY_S <= time.monotonic() - start < 3
    same(ask("/news").headers["X-RateLimit-Remaining"], "98")
