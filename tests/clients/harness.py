"""The server, the checks and what they say of what they see."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from server import Server

# How long anything may take that has to come.
WAIT_S = 10
# The same, where processes are started that start others.
PATIENCE_S = 60
# What may be missing when a span of time is measured from outside: clients round, threads wake up late.
EARLY_S = 0.005
CHECKS = []


class Target(Server):
    """The server that the checks are made on, when it answers."""

    def __init__(self, path):
        super().__init__(path)
        until = time.monotonic() + WAIT_S
        while not self.answers():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError(f"{path} does not answer")

    def answers(self):
        """Whether it says PONG."""
        try:
            with self.client() as client:
                return client.ping()
        except redis.ConnectionError:
            return False

    def client(self, **options):
        """A client of redis-py that gives text."""
        return redis.Redis(port=self.port, **{"decode_responses": True, "socket_timeout": WAIT_S, **options})


def check(name, protocols=(None,)):
    """Puts a function among the checks, once for each protocol."""
    def add(function):
        for protocol in protocols:
            CHECKS.append((f"{name}, RESP{protocol}" if protocol else name, protocol, function))
        return function
    return add


def both(name):
    """A check of redis-py in both protocols; it is given a client."""
    return check(f"redis-py: {name}", (2, 3))


def same(got, expected):
    """Two values that must be the same; a list or a tuple is no matter, which differs between the protocols."""
    got, expected = listed(got), listed(expected)
    assert got == expected, f"got {got!r}, expected {expected!r}"


def listed(item):
    """The same with each tuple as a list."""
    return [listed(inner) for inner in item] if isinstance(item, (list, tuple)) else item


def near(got, expected, tolerance):
    """A number that time has passed by."""
    assert expected - tolerance <= got <= expected, f"got {got!r}, expected {expected!r} at most {tolerance} less"


def fails(error, text, function, *args, **kwargs):
    """A call that must be refused with a text."""
    try:
        got = function(*args, **kwargs)
    except error as refusal:
        assert text in str(refusal), f"refused with {refusal}"
        return
    raise AssertionError(f"not refused: {got!r}")


def until(condition, wait_s=WAIT_S):
    """Waits for something that has to come about; what it is."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.002)
    raise AssertionError("waited in vain")


def in_threads(make, count=4, rounds=25):
    """Calls what `make` makes, so often in so many threads. Each makes its own."""
    end = time.monotonic() + 2 * WAIT_S

    def run(_):
        step = make()
        for _ in range(rounds):
            assert time.monotonic() < end, "took too long"
            step()

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(run, range(count)))


@contextlib.contextmanager
def program(*args, ends=0, **variables):
    """A program that runs beside the check, with these variables, and stops at its end, with this exit code."""
    with tempfile.TemporaryFile() as log:
        # A group of its own, so that none of the processes that it starts is left behind.
        process = subprocess.Popen(
            args, cwd=Path(__file__).parent, env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield process
            process.terminate()
            same(process.wait(PATIENCE_S), ends)
        except Exception as trouble:
            log.seek(0)
            trouble.add_note(f"{' '.join(args)} said: " + log.read().decode(errors="replace")[-4000:])
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
