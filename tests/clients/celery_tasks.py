"""Tasks of Celery. The worker that celery_worker.py starts imports them by name."""

import time

import celery

app = celery.Celery("mayfly")
app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


@app.task
def add(a, b):
    """A sum."""
    return a + b


@app.task
def total(numbers):
    """The sum of what other tasks gave."""
    return sum(numbers)


@app.task
def moment():
    """When it ran, by the clock of the machine."""
    return time.time()


@app.task
def fail():
    """Fails."""
    raise ValueError("as it should")


@app.task(bind=True, max_retries=3)
def stubborn(self, started):
    """Succeeds at the third try; how often it was tried, and how long that took."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.5)
    return self.request.retries + 1, time.time() - started
