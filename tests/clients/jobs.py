"""Tasks that the workers of python_clients.py import by name."""

import time

import redis


def note(port, key, value):
    """Appends to a list, so that it can be seen that the job ran, how often, and in what order."""
    with redis.Redis(port=port) as client:
        client.rpush(key, value)
    return value


def note_time(port, key):
    """Notes when it ran, by the clock of the machine."""
    return note(port, key, time.time())
