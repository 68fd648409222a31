"""The server, the checks and what they say of what they see."""

import sys
import time
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from server import Server

# How long anything may take that has to come.
WAIT_S = 10
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


def until(condition):
    """Waits for something that has to come about; what it is."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.002)
    raise AssertionError("waited in vain")
