"""Programs that work with streams: a group of workers of which one is killed, taskiq's broker, RQ's results."""

import asyncio
import importlib
import os
import signal
import sys

import redis
import rq

import jobs
from harness import PATIENCE_S, check, program, same, until
from queues import work


def killed(process):
    """Ends a process as a crash would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@check("redis-py: a worker of a group is killed, another takes over what it left")
def group_takes_over(client, server):
    client.xgroup_create("jobs", "workers", mkstream=True)
    expected = set(range(300))
    for n in sorted(expected):
        client.xadd("jobs", {"n": n})
    script = [sys.executable, "group_worker.py", str(server.port)]
    with crashing(*script, "first", "60000") as first:
        until(lambda: client.llen("handled") > 25, PATIENCE_S)
        killed(first)
    left = client.xpending("jobs", "workers")
    same([consumer["name"] for consumer in left["consumers"]], ["first"])
    # What was read and not acknowledged, and no more, is left to be claimed.
    assert 1 <= left["pending"] <= 10, left
    with crashing(*script, "second", "200") as second:
        until(lambda: client.xinfo_groups("jobs")[0]["lag"] == 0 == client.xpending("jobs", "workers")["pending"], PATIENCE_S)
        killed(second)
    handled = [entry.split() for entry in client.lrange("handled", 0, -1)]
    same({int(n) for n, _ in handled}, expected)
    # At most one was handled and not yet acknowledged when its worker died.
    assert len(handled) <= len(expected) + 1, len(handled)
    same({name for _, name in handled}, {"first", "second"})


def crashing(*args, **variables):
    """A program that does not end in good order."""
    return program(*args, ends=-signal.SIGKILL, **variables)


@check("taskiq: tasks over streams, and one whose worker is killed")
def taskiq_stream(client, server):
    url = f"redis://127.0.0.1:{server.port}"
    os.environ["REDIS_URL"] = url
    tasks = importlib.import_module("taskiq_tasks")
    worker = [sys.executable, "-m", "taskiq", "worker", "--workers", "1", "--log-level", "ERROR", "taskiq_tasks:broker"]

    async def ask():
        await tasks.broker.startup()
        with crashing(*worker, REDIS_URL=url) as first:
            asked = [await tasks.add.kiq(n, 1) for n in range(100)]
            sums = [await task.wait_result(timeout=PATIENCE_S) for task in asked]
            same([result.return_value for result in sums], [n + 1 for n in range(100)])
            stuck = await tasks.stuck_at_first.kiq("a")
            until(lambda: client.get("tries:a") == "1", PATIENCE_S)
            killed(first)
        same(client.xpending("taskiq", "taskiq")["pending"], 1)
        with crashing(*worker, REDIS_URL=url) as second:
            # It looks for what was left behind each time it has got something new. That may still go to the
            # first one, whose connections need not be closed yet.
            while client.get("tries:a") != "2":
                await tasks.add.kiq(1, 1)
                await asyncio.sleep(0.1)
            result = await stuck.wait_result(timeout=PATIENCE_S)
            same((result.return_value, client.get("tries:a")), ("a", "2"))
            until(lambda: client.xpending("taskiq", "taskiq")["pending"] == 0)
            killed(second)
        await tasks.broker.shutdown()

    asyncio.run(ask())


@check("RQ: results, which are kept in streams, and retries")
def rq_results(client, server):
    connection = redis.Redis(port=server.port)
    queue = rq.Queue(connection=connection)
    noted = queue.enqueue(jobs.note, server.port, "seen", "first", result_ttl=100)
    stubborn = queue.enqueue(jobs.note_at_try, server.port, "tries", 3, retry=rq.Retry(max=3))
    hopeless = queue.enqueue(jobs.note_at_try, server.port, "more", 9, retry=rq.Retry(max=1))
    work(queue)
    same((noted.latest_result().return_value, noted.return_value()), ("first", "first"))
    same((stubborn.return_value(), client.get("tries")), (3, "3"))
    same((hopeless.get_status(refresh=True).value, client.get("more")), ("failed", "2"))
    assert "try 2" in hopeless.latest_result().exc_string
    same([client.type(f"rq:results:{job.id}") for job in (noted, stubborn, hopeless)], ["stream"] * 3)
    same(0 < client.ttl(f"rq:results:{noted.id}") <= 100, True)
    connection.close()
