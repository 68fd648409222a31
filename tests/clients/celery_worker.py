"""Celery with a server as its broker and for its results: a worker in processes of its own."""

import contextlib
import gc
import sys
import time

import celery
import celery.exceptions

import celery_tasks as tasks
from harness import EARLY_S, PATIENCE_S, check, fails, near, program, same


@contextlib.contextmanager
def worker(server):
    """A worker with two processes."""
    url = f"redis://127.0.0.1:{server.port}/0"
    tasks.app.conf.update(broker_url=url, result_backend=url)
    try:
        with program(sys.executable, "-m", "celery", "--app", "celery_tasks", "--broker", url,
                     "--result-backend", url, "worker", "--concurrency", "2", "--loglevel",
                     "WARNING"):
            yield
    finally:
        # A result that is thrown away later would look for its server, which is gone then.
        gc.collect()
        tasks.app.backend.result_consumer.stop()
        tasks.app.close()


@check("Celery: a worker, retries, countdown, a chord, revoked tasks")
def celery_jobs(client, server):
    with worker(server):
        run_jobs(client)
    # All tasks were acknowledged.
    same((client.hlen("unacked"), client.llen("celery")), (0, 0))


def run_jobs(client):
    """Has the worker do all that it can, and looks at what comes of it."""
    first = tasks.add.delay(1, 2)
    same((first.get(timeout=PATIENCE_S), first.state), (3, "SUCCESS"))
    near(client.ttl(f"celery-task-meta-{first.id}"), 86_400, 60)
    many = celery.group(tasks.add.s(n, n) for n in range(50))()
    same(many.get(timeout=PATIENCE_S), [2 * n for n in range(50)])
    fails(ValueError, "as it should", tasks.fail.delay().get, timeout=PATIENCE_S)

    asked = time.time()
    late = tasks.moment.apply_async(countdown=1)
    tries, took = tasks.stubborn.delay(time.time()).get(timeout=PATIENCE_S)
    same(tries, 3)
    assert took >= 1 - EARLY_S, f"retried within {took} s"
    waited = late.get(timeout=PATIENCE_S) - asked
    assert waited >= 1 - EARLY_S, f"ran after {waited} s"

    # The last task of the chord that is done starts the one that takes all results.
    chord = celery.chord((tasks.add.s(n, n) for n in range(20)), tasks.total.s())()
    same(chord.get(timeout=PATIENCE_S), 380)
    chain = celery.chain(tasks.add.s(1, 1), tasks.add.s(10), tasks.add.s(100))()
    same(chain.get(timeout=PATIENCE_S), 112)
    for result in (chord, chain):
        result.forget()
    same(client.exists(f"celery-task-meta-{chain.id}"), 0)

    revoked = tasks.add.apply_async((1, 1), countdown=1)
    revoked.revoke()
    fails(celery.exceptions.TaskRevokedError, "revoked", revoked.get, timeout=PATIENCE_S)
    pongs = tasks.app.control.ping(timeout=2)
    same([list(pong.values()) for pong in pongs], [[{"ok": "pong"}]])
