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


def note_at_try(port, key, tries):
    """Fails until so many tries have been made; how many it took."""
    with redis.Redis(port=port) as client:
        made = client.incr(key)
    if made < tries:
        raise ValueError(f"try {made}")
    return made
