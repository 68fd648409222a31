"""Python's client libraries and programs that use them, and some of PHP's, Ruby's and Perl's, against mayfly.

    python tests/clients/python_clients.py [--server PATH] [--only TEXT]

Starts the server on a free port of 127.0.0.1 and stops it at the end; each check finds it empty. `--server`
may name another server, so that the checks can be tried there. Not tried, as Mayfly has no client-side
caching yet: redis-py's cache.

Prints a line for each check; exit code 1 if one failed.
"""

import argparse
import logging
import sys
import traceback
from pathlib import Path

import redis_py  # Each of these registers its checks.
import locks
import rates
import celery_worker
import dramatiq_worker
import queues
import streams
import caches
import debian_programs
from harness import CHECKS, Target


def run_one(server, protocol, function):
    """Runs a check on the emptied server; what went wrong."""
    try:
        with server.client(protocol=protocol or 3) as client:
            client.flushall()
            function(client, server)
    except Exception:
        return traceback.format_exc()
    return None


def main():
    """Runs and reports."""
    root = Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(root / "target/release/mayfly"))
    parser.add_argument("--only", default="", help="run the checks whose name has this text")
    options = parser.parse_args()
    # They tell of tasks that fail and locks that are taken, as the checks want it.
    for name in ("dramatiq", "huey", "redis_lock"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    counts = {"passed": 0, "failed": 0}
    server = Target(options.server)
    try:
        for name, protocol, function in CHECKS:
            if options.only not in name:
                continue
            trouble = run_one(server, protocol, function)
            outcome = "failed" if trouble else "passed"
            counts[outcome] += 1
            print(f"{outcome}  {name}", flush=True)
            if trouble:
                print(trouble, flush=True)
    finally:
        server.stop()
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
