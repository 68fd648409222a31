// bee-queue: jobs with results, retries and delays, and those whose worker has died.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import Queue from 'bee-queue';
import Redis from 'ioredis';
import { check, EARLY_MS, inTime, until } from './harness.js';

// Runs with queues of one name that work, or not; all of them are closed at the end.
async function withQueues(server, run) {
  const made = [];
  const make = async (options = {}) => {
    const redis = { host: '127.0.0.1', port: server.port };
    const queue = new Queue('jobs', { redis, ...options });
    made.push(queue);
    await queue.ready();
    return queue;
  };
  try {
    await run(make);
  } finally {
    await Promise.all(made.map((queue) => queue.close(1000)));
  }
}

// What comes of a job: its result or the message of its error.
async function outcome(job) {
  return inTime(new Promise((done) => {
    job.on('succeeded', (result) => done(result));
    job.on('failed', (error) => done(error.message));
  }));
}

check('bee-queue: jobs with results and retries', (server) => withQueues(server, async (make) => {
  const asking = await make({ isWorker: false });
  const working = await make({ activateDelayedJobs: true, removeOnSuccess: true });
  const tries = {};
  working.process(4, async ({ data }) => {
    tries[data.name] = (tries[data.name] ?? 0) + 1;
    if (data.fails >= tries[data.name]) throw new Error(`try ${tries[data.name]}`);
    return data.a + data.b;
  });
  const sum = (_, i) => asking.createJob({ name: `sum ${i}`, a: i, b: 1 });
  const jobs = Array.from({ length: 50 }, sum);
  const sums = jobs.map(outcome);
  await Promise.all(jobs.map((job) => job.save()));
  assert.deepEqual(await Promise.all(sums), jobs.map((_, i) => i + 1));

  const stubborn = asking.createJob({ name: 'stubborn', a: 1, b: 1, fails: 2 });
  stubborn.retries(3).backoff('fixed', 200);
  const start = performance.now();
  const result = outcome(stubborn);
  await stubborn.save();
  assert.equal(await result, 2);
  assert.equal(tries.stubborn, 3);
  assert.ok(performance.now() - start >= 400 - 2 * EARLY_MS);

  const hopeless = asking.createJob({ name: 'hopeless', fails: 9 }).retries(1);
  const error = outcome(hopeless);
  await hopeless.save();
  assert.equal(await error, 'try 2');
  await until(async () => (await asking.checkHealth()).failed === 1);
  const { waiting, active, delayed } = await asking.checkHealth();
  assert.deepEqual([waiting, active, delayed], [0, 0, 0]);
}));

check('bee-queue: jobs that wait for their time', (server) => withQueues(server, async (make) => {
  const asking = await make({ isWorker: false });
  const working = await make({ activateDelayedJobs: true });
  const seen = [];
  working.process(async ({ data }) => { seen.push([data, performance.now()]); });
  const start = performance.now();
  await asking.createJob('late').delayUntil(Date.now() + 700).save();
  await asking.createJob('never').delayUntil(Date.now() + 3_600_000).save();
  await asking.createJob('soon').save();
  await until(() => seen.length === 2);
  assert.deepEqual(seen.map(([word]) => word), ['soon', 'late']);
  assert.ok(seen[1][1] - start >= 700 - EARLY_MS, `after ${seen[1][1] - start} ms`);
  assert.equal((await asking.checkHealth()).delayed, 1);
}));

check('bee-queue: a job whose worker has died', (server) => withQueues(server, async (make) => {
  const client = new Redis({ port: server.port });
  try {
    const asking = await make({ isWorker: false });
    const job = await asking.createJob('left behind').save();
    const done = outcome(job);
    // A worker takes it as bee-queue does, and is never heard of again.
    assert.equal(await client.rpoplpush('bq:jobs:waiting', 'bq:jobs:active'), job.id);
    const heir = await make({ stallInterval: 200 });
    const stalled = once(heir, 'stalled');
    heir.process(async ({ data }) => data.toUpperCase());
    await heir.checkStalledJobs(100);
    assert.equal((await inTime(stalled))[0], job.id);
    assert.equal(await done, 'LEFT BEHIND');
  } finally {
    client.disconnect();
  }
}));
