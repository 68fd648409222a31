"""Tasks that the workers of python_clients.py import by name."""

import redis


def note(port, key, value):
    """Appends to a list, so that it can be seen that the job ran, how often, and in what order."""
    with redis.Redis(port=port) as client:
        client.rpush(key, value)
    return value
