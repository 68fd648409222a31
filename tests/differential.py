"""Random commands to Mayfly and to Debian's redis-server 7.0, reply for reply.

    python tests/differential.py [--count N] [--seed S] [--protocol 2|3]

Both servers are started on free ports of 127.0.0.1 and stopped at the end. Replies may differ only
as the rules in `equal` say: remaining times within a tolerance, KEYS and SCAN as sets, DBSIZE
(Redis counts dead keys), OBJECT ENCODING of integers (Mayfly derives it from the value). Prints
the seed, so that a run can be repeated. Needs redis-py, for its connection and parser.
"""

import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

KEYS = ["a", "b", "c", "d", "e"]
VALUES = ["", "1", "-5", "10.5", "hello", "abc" * 30, "9223372036854775807", "007", "3.0e3", " 1"]
NUMBERS = ["0", "1", "-1", "100", "5000", "-9223372036854775808", "9223372036854775807", "abc", "1.5", ""]
TTLS = [["EX", "1000"], ["PX", "1000000"], ["EXAT", "99999999999"], ["PXAT", "99999999999999"],
        ["EX", "0"], ["PX", "abc"], ["KEEPTTL"], [], ["EX"], ["EX", "100", "PX", "100000"], ["EXAT", "1"]]
CONDITIONS = [[], ["NX"], ["XX"], ["GT"], ["LT"], ["NX", "GT"], ["GT", "LT"], ["FOO"], ["XX", "GT"]]
TTL_TOLERANCE = 200
TTL_COMMANDS = {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}


def commands(rng):
    """A list of functions, each of which makes a random command."""
    key, value, number = (lambda: rng.choice(KEYS)), (lambda: rng.choice(VALUES)), (lambda: rng.choice(NUMBERS))
    one = rng.choice
    strings = [
        lambda: ["SET", key(), value()] + one(TTLS) + one([[], ["NX"], ["XX"], ["GET"], ["NX", "GET"], ["NX", "XX"]]),
        lambda: ["GET", key()], lambda: ["GETEX", key()] + one(TTLS + [["PERSIST"]]),
        lambda: ["GETSET", key(), value()], lambda: ["GETDEL", key()], lambda: ["SETNX", key(), value()],
        lambda: ["SETEX", key(), one(["1000", "0", "x", "-4"]), value()],
        lambda: ["PSETEX", key(), one(["100000", "0", "x"]), value()],
        lambda: ["MGET", key(), key()], lambda: ["MSET", key(), value(), key(), value()],
        lambda: ["MSET", key(), value(), key()], lambda: ["MSETNX", key(), value(), key(), value()],
        lambda: ["APPEND", key(), value()], lambda: ["STRLEN", key()],
        lambda: ["SETRANGE", key(), one(["0", "3", "50", "-1", "x"]), value()],
        lambda: ["GETRANGE", key(), number(), number()], lambda: ["SUBSTR", key(), "0", "-1"],
        lambda: ["INCR", key()], lambda: ["DECR", key()], lambda: ["INCRBY", key(), number()],
        lambda: ["DECRBY", key(), number()],
        lambda: ["INCRBYFLOAT", key(), one(["0.1", "3e-10", "abc", "1e300", "-2", "inf"])],
    ]
    keys = [
        lambda: ["DEL", key(), key()], lambda: ["UNLINK", key()], lambda: ["EXISTS", key(), key()],
        lambda: ["TYPE", key()], lambda: ["RENAME", key(), key()], lambda: ["RENAMENX", key(), key()],
        lambda: ["COPY", key(), key()] + one([[], ["REPLACE"], ["DB", "1"], ["DB", "99"], ["FOO"]]),
        lambda: ["MOVE", key(), one(["1", "0", "99", "x"])], lambda: ["SWAPDB", "0", "1"],
        lambda: ["TOUCH", key(), key()], lambda: ["KEYS", "*"], lambda: ["DBSIZE"],
        lambda: ["SCAN", "0", "COUNT", "1000"], lambda: ["SCAN", "x"], lambda: ["OBJECT", "ENCODING", key()],
        lambda: ["FLUSHDB"] if rng.random() < 0.05 else ["PING"],
    ]
    deadlines = [
        lambda: [one(["EXPIRE", "PEXPIRE"]), key(), one(["100000", "200000", "-1", "0", "x", "9223372036854775807"])]
        + one(CONDITIONS),
        lambda: [one(["EXPIREAT", "PEXPIREAT"]), key(), one(["99999999999", "1", "99999999999999", "-5"])],
        lambda: [one(sorted(TTL_COMMANDS)), key()], lambda: ["PERSIST", key()],
    ]
    others = [
        lambda: ["SELECT", one(["0", "0", "1", "77", "x"])], lambda: ["FOO", "x y"], lambda: ["GET"],
        lambda: ["MULTI"], lambda: ["EXEC"], lambda: ["EXEC"], lambda: ["DISCARD"],
        lambda: ["WATCH", key()], lambda: ["UNWATCH"],
    ]
    return strings + keys + deadlines * 2 + others


def equal(command, ours, theirs):
    """Whether two replies to one command are equivalent."""
    name = command[0]
    if ours == theirs:
        return True
    if name == "KEYS" and isinstance(ours, list) and isinstance(theirs, list):
        return sorted(ours) == sorted(theirs)
    if name == "SCAN" and isinstance(ours, list) and isinstance(theirs, list):
        return sorted(ours[1]) == sorted(theirs[1])
    if name in TTL_COMMANDS and isinstance(ours, int) and isinstance(theirs, int):
        return min(ours, theirs) > 50 and abs(ours - theirs) <= TTL_TOLERANCE
    if name == "DBSIZE" and isinstance(ours, int) and isinstance(theirs, int):
        return ours <= theirs
    if name == "OBJECT" and ours == b"int":
        return theirs in (b"embstr", b"raw")
    return False


class Server:
    """A server of its own on a free port."""

    def __init__(self, path):
        self.dir = tempfile.mkdtemp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [path, "--port", str(self.port), "--save", "", "--dir", self.dir],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def connect(self, protocol):
        """A connection, as soon as the server takes one."""
        until = time.monotonic() + 10
        while True:
            try:
                return redis.Redis(port=self.port, protocol=protocol).connection_pool.get_connection()
            except redis.ConnectionError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise

    def stop(self):
        """Stops it and removes its directory."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def ask(connection, command):
    """One reply; an error as its text."""
    connection.send_command(*command)
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return "error: " + str(error)


def unpack(reply):
    """Errors inside an EXEC as text."""
    if isinstance(reply, list):
        return ["error: " + str(item) if isinstance(item, Exception) else item for item in reply]
    return reply


def equal_exec(queued, ours, theirs):
    """Whether two replies of EXEC are equivalent, member for member."""
    ours, theirs = unpack(ours), unpack(theirs)
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return ours == theirs
    return len(ours) == len(theirs) == len(queued) and all(map(equal, queued, ours, theirs))


def run(ours, theirs, rng, count):
    """Sends `count` commands to both; the number of differences."""
    makers = commands(rng)
    differences = 0
    queued = None
    for step in range(count):
        command = rng.choice(makers)()
        mine, other = ask(ours, command), ask(theirs, command)
        if command[0] == "EXEC" and queued is not None:
            same = equal_exec(queued, mine, other)
        else:
            same = equal(command, mine, other)
        if mine == b"QUEUED" and queued is not None:
            queued.append(command)
        elif command[0] == "MULTI" and mine == b"OK":
            queued = []
        elif command[0] in ("EXEC", "DISCARD"):
            queued = None
        if not same:
            differences += 1
            print(f"step {step}: {command}\n  mayfly: {mine!r}\n  redis:  {other!r}")
    return differences


def main():
    """Runs and reports; exit code 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--mayfly", default=str(root / "target/release/mayfly"))
    parser.add_argument("--oracle", default="redis-server")
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--protocol", type=int, default=2, choices=(2, 3))
    options = parser.parse_args()
    print(f"seed {options.seed}, protocol {options.protocol}")
    servers = [Server(options.mayfly), Server(options.oracle)]
    try:
        connections = [server.connect(options.protocol) for server in servers]
        failed = run(*connections, random.Random(options.seed), options.count)
    finally:
        for server in servers:
            server.stop()
    print(f"{options.count - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
