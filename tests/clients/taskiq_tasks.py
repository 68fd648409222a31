"""Tasks of taskiq over streams, as its workers import them; REDIS_URL says where the server is."""

import asyncio
import os

from redis.asyncio import Redis
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

URL = os.environ["REDIS_URL"]
# What a worker has left for so long goes to another.
IDLE_MS = 1000
broker = RedisStreamBroker(
    URL, consumer_id="0", xread_block=100, idle_timeout=IDLE_MS, unacknowledged_lock_timeout=1,
).with_result_backend(RedisAsyncResultBackend(URL, result_ex_time=100))


@broker.task
async def add(a, b):
    """A task with a result."""
    return a + b


@broker.task
async def stuck_at_first(name):
    """A task whose first worker never gets done."""
    async with Redis.from_url(URL) as client:
        if await client.incr(f"tries:{name}") == 1:
            await asyncio.sleep(3600)
        return name
