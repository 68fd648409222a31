"""What Debian has packages of: phpredis, Predis, Symfony, Laravel, redis-rb, Sidekiq, Redis.pm."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import EARLY_S, PATIENCE_S, check, program, same, until

SCRIPTS = Path(__file__).parent / "debian"


def run(interpreter, script, *args, **variables):
    """Runs a script to its end, which must be a good one."""
    done = subprocess.run(
        [interpreter, SCRIPTS / script, *map(str, args)], timeout=PATIENCE_S, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **variables})
    assert done.returncode == 0, f"{script}: {done.stdout}"


@check("phpredis: scripts")
def phpredis_scripts(client, server):
    run("php", "scripts.php", server.port)


@check("PHP: sessions that are locked")
def php_sessions(client, server):
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: run("php", "session.php", server.port, 20), range(3)))
    same(client.get("PHPREDIS_SESSION:shared"), "number|i:60;")
    same(client.keys("*"), ["PHPREDIS_SESSION:shared"])


@check("Predis: pipelines, transactions, scripts, messages, sessions")
def predis(client, server):
    run("php", "predis.php", server.port)
    same(client.dbsize(), 1002)


@check("Symfony: Messenger over streams, locks, caches with tags")
def symfony(client, server):
    run("php", "symfony.php", server.port)
    same((client.xlen("orders"), client.xpending("orders", "workers")["pending"]), (0, 0))


@check("Laravel: cache, locks, limiters, a queue")
def laravel(client, server):
    run("php", "laravel.php", server.port)
    same(client.keys("*queues*"), [])


@check("redis-rb: a lock that threads fight for")
def redis_rb_lock(client, server):
    run("ruby", "lock.rb", server.port)
    same((client.get("number"), client.exists("door")), ("100", 0))


@check("Redis.pm: a lock, scripts")
def redis_pm_lock(client, server):
    run("perl", "lock.pl", server.port)


@check("Sidekiq: jobs that wait for their time, retries")
def sidekiq_jobs(client, server):
    url = f"redis://127.0.0.1:{server.port}"
    asked = time.time()
    run("ruby", "sidekiq_ask.rb", REDIS_URL=url)
    jobs = str(SCRIPTS / "sidekiq_jobs.rb")
    with program("sidekiq", "--require", jobs, "--concurrency", "2", REDIS_URL=url):
        until(lambda: client.llen("late") == 1 and client.llen("stubborn") == 3, PATIENCE_S)
        until(lambda: client.zcard("retry") == 0)
    times = {key: [float(at) for at in client.lrange(key, 0, -1)]
             for key in ("soon", "late", "never", "stubborn")}
    same([len(at) for at in times.values()], [1, 1, 0, 3])
    assert times["soon"][0] < times["late"][0], f"ran at {times}"
    assert times["late"][0] - asked >= 1 - EARLY_S, f"ran at {times}, asked at {asked}"
    assert times["stubborn"][2] - times["stubborn"][0] >= 2 - 2 * EARLY_S, f"ran at {times}"
    same(client.zcard("schedule"), 1)
