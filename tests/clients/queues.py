"""Queues of jobs, RQ and huey, with workers that run real ones."""

import logging
import signal
import time

import huey
import redis
import rq
from huey.consumer import Consumer
from huey.exceptions import TaskLockedException

import jobs
from harness import EARLY_S, WAIT_S, check, fails, near, same, until


def work(queue):
    """A worker that does what is waiting, in this process."""
    worker = rq.SimpleWorker([queue], connection=queue.connection)
    worker.log.setLevel(logging.CRITICAL)
    worker.work(burst=True, logging_level="CRITICAL")


@check("RQ: jobs that are run")
def rq_jobs(client, server):
    connection = redis.Redis(port=server.port)
    queue = rq.Queue(connection=connection)
    first = queue.enqueue(jobs.note, server.port, "seen", "first", result_ttl=0)
    queue.enqueue(jobs.note, server.port, "seen", "second", result_ttl=0, depends_on=first)
    queue.enqueue(jobs.note, server.port, "seen", "urgent", result_ttl=0, at_front=True)
    gone = queue.enqueue(jobs.note, server.port, "seen", "never", ttl=1)
    gone.cancel()
    same((queue.count, first.get_status().value, queue.deferred_job_registry.count), (2, "queued", 1))
    work(queue)
    same((client.lrange("seen", 0, -1), queue.count), (["urgent", "first", "second"], 0))
    same((queue.canceled_job_registry.count, queue.deferred_job_registry.count), (1, 0))
    connection.close()


def consume(queue, run, workers=2):
    """Runs a consumer with threads while `run` runs."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    consumer = Consumer(queue, workers=workers, periodic=False, initial_delay=0.01, max_delay=0.05, scheduler_interval=1)
    consumer.start()
    try:
        run()
    finally:
        consumer.stop(graceful=True)
        for number, handler in handlers.items():
            signal.signal(number, handler)


@check("huey: tasks, retries, results")
def huey_tasks(client, server):
    # Else the error of the first try would be what the first `get` finds.
    queue = huey.RedisHuey("plain", port=server.port, store_intermediate_errors=False)
    seen = []

    @queue.task(retries=2)
    def add(a, b):
        seen.append((a, b))
        if len(seen) == 1:
            raise ValueError("once")
        return a + b

    def run():
        same(add(1, 2).get(blocking=True, timeout=WAIT_S), 3)
        same(add.map([(1, 1), (2, 2)]).get(blocking=True, timeout=WAIT_S), [2, 4])
        same(seen[:2], [(1, 2), (1, 2)])
        revoked = add(5, 5)
        revoked.revoke()

    consume(queue, run)
    same((queue.pending_count(), client.llen("huey.redis.plain")), (0, 0))


@check("huey: results that expire")
def huey_expire(client, server):
    queue = huey.RedisExpireHuey("expiring", port=server.port, expire_time=50)
    add = queue.task()(lambda a, b: a + b)

    def run():
        result = add(1, 2)
        same(result.get(blocking=True, timeout=WAIT_S), 3)
        near(client.ttl(f"huey.r.expiring.{result.id}"), 50, 3)

    consume(queue, run)


@check("huey: a lock that is given up when its time is over")
def huey_lock(client, server):
    # It takes a server of version 7.4 to have deadlines of fields, or refuses.
    queue = huey.RedisHuey("locks", port=server.port)
    first, second = queue.lock_task("door", ttl=1), queue.lock_task("door", ttl=1)
    start = time.monotonic()
    first.acquire()
    fails(TaskLockedException, "unable to acquire", second.acquire)
    near(client.hpttl("huey.results.locks", "locks.lock.door")[0], 1000, 900)
    until(lambda: not second.is_locked())
    assert 1 - EARLY_S <= time.monotonic() - start < 3
    same((second.acquire(), first.is_locked(), second.release(), first.is_locked()), (True, True, True, False))


@check("huey: tasks with priorities")
def huey_priorities(client, server):
    queue = huey.PriorityRedisHuey("ranked", port=server.port)
    seen = []
    note = queue.task()(seen.append)
    for value, priority in [("low", 1), ("high", 9), ("middle", 5)]:
        queue.enqueue(note.s(value, priority=priority))
    same(client.zcard("huey.redis.ranked"), 3)
    consume(queue, lambda: until(lambda: len(seen) == 3), workers=1)
    same(seen, ["high", "middle", "low"])
