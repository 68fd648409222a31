"""A worker of a consumer group that takes over what others left behind.

    python group_worker.py PORT NAME IDLE_MS

Handles the entries of the stream `jobs` as one of the group `workers`, one after another: notes each in the list
`handled`, with its own name. An entry may be handled twice if a worker dies between the note and the acknowledgment.
"""

import sys
import time

import redis

STREAM, GROUP = "jobs", "workers"


def handle(client, name, entries):
    """Does what entries ask for."""
    for id_, fields in entries:
        time.sleep(0.002)
        client.rpush("handled", f"{fields['n']} {name}")
        client.xack(STREAM, GROUP, id_)


def main():
    """Works until it is stopped."""
    port, name, idle_ms = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with redis.Redis(port=port, decode_responses=True) as client:
        while True:
            start = "0-0"
            while True:
                start, entries, _ = client.xautoclaim(STREAM, GROUP, name, idle_ms, start, count=10)
                handle(client, name, entries)
                if start == "0-0":
                    break
            for _, entries in client.xreadgroup(GROUP, name, {STREAM: ">"}, count=10, block=100):
                handle(client, name, entries)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
