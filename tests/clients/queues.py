"""Queues of jobs, RQ and huey, with workers that run real ones."""

import datetime
import logging
import signal
import sys
import time

import huey
import redis
import rq
from huey.consumer import Consumer
from huey.exceptions import TaskLockedException
from rq.exceptions import DuplicateJobError
from rq.scheduler import RQScheduler

import jobs
from harness import EARLY_S, PATIENCE_S, WAIT_S, check, fails, near, program, same, until


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


@check("RQ: unique jobs")
def rq_unique(client, server):
    connection = redis.Redis(port=server.port)
    queue = rq.Queue(connection=connection)

    def once():
        options = {"job_id": "a", "unique": True, "result_ttl": 0}
        return queue.enqueue(jobs.note, server.port, "seen", "x", **options)

    once()
    fails(DuplicateJobError, "already exists", once)
    work(queue)
    same((client.lrange("seen", 0, -1), once().id, queue.count), (["x"], "a", 1))
    connection.close()


@check("RQ: jobs that wait for their time, with the worker's scheduler")
def rq_scheduler(client, server):
    connection = redis.Redis(port=server.port)
    queue = rq.Queue(connection=connection)
    asked = time.time()
    late, never = datetime.timedelta(seconds=1), datetime.timedelta(hours=1)
    queue.enqueue_in(late, jobs.note_time, server.port, "late", result_ttl=0)
    queue.enqueue_in(never, jobs.note_time, server.port, "never", result_ttl=0)
    same((queue.count, queue.scheduled_job_registry.count), (0, 2))
    url = f"redis://127.0.0.1:{server.port}"
    with program(sys.executable, "-m", "rq.cli", "worker", "--url", url, "--with-scheduler"):
        until(lambda: client.llen("late"), PATIENCE_S)
        near(client.ttl("rq:scheduler-lock:default"), 61, 5)
        # A second scheduler gets no lock.
        other = RQScheduler([queue], connection=connection, logging_level="CRITICAL")
        same(other.acquire_locks(), set())
    took = float(client.lindex("late", 0)) - asked
    assert took >= 1 - EARLY_S, f"ran after {took} s"
    same((client.llen("late"), client.exists("never")), (1, 0))
    # The scheduler gives up its lock when it stops.
    same((queue.scheduled_job_registry.count, client.keys("rq:scheduler-lock:*")), (1, []))
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


@check("huey: tasks that wait for their time, and retries that do")
def huey_delayed(client, server):
    queue = huey.RedisHuey("later", port=server.port, store_intermediate_errors=False)
    seen, tries = [], []

    @queue.task()
    def note(word):
        seen.append((word, time.monotonic()))

    @queue.task(retries=1, retry_delay=1)
    def stubborn():
        tries.append(time.monotonic())
        if len(tries) < 2:
            raise ValueError("once more")
        return "done"

    def run():
        asked = time.monotonic()
        note.schedule(("late",), delay=1)
        note.schedule(("never",), delay=3600)
        note("soon")
        same(stubborn().get(blocking=True, timeout=WAIT_S), "done")
        until(lambda: len(seen) == 2)
        same([word for word, _ in seen], ["soon", "late"])
        # huey cuts the time of a task to whole seconds of the scheduler's.
        assert seen[1][1] - asked >= 1 - EARLY_S, f"ran after {seen[1][1] - asked} s"
        assert tries[1] - tries[0] >= 1 - EARLY_S, f"tried at {tries}"

    consume(queue, run)
    same((queue.scheduled_count(), client.zcard("huey.schedule.later")), (1, 1))


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
