// BullMQ: jobs with results, retries, delays, priorities, repetition, and flows.

import assert from 'node:assert/strict';
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import { check, EARLY_MS, inTime, until } from './harness.js';

// Runs with a queue, its events and a worker, all of which are closed at the end.
async function withQueue(server, run) {
  const connection = { host: '127.0.0.1', port: server.port, maxRetriesPerRequest: null };
  const tries = {};
  const work = async ({ name, data }) => {
    tries[name] = (tries[name] ?? 0) + 1;
    if ((data.fails ?? 0) >= tries[name]) throw new Error(`try ${tries[name]}`);
    return data.n * 2;
  };
  const queue = new Queue('jobs', { connection });
  const events = new QueueEvents('jobs', { connection });
  const worker = new Worker('jobs', work, { connection, concurrency: 5 });
  const flows = new FlowProducer({ connection });
  const made = [worker, flows, events, queue];
  made.forEach((one) => one.setMaxListeners(0));
  try {
    await inTime(Promise.all([events.waitUntilReady(), worker.waitUntilReady()]));
    await run({ queue, events, flows, tries });
  } finally {
    await Promise.all(made.map((one) => one.close()));
  }
}

const result = (job, events) => inTime(job.waitUntilFinished(events));

check('BullMQ: jobs with results, retries and delays', (server) => withQueue(
  server,
  async ({ queue, events, tries }) => {
    const numbers = Array.from({ length: 200 }, (_, n) => n);
    const jobs = await queue.addBulk(numbers.map((n) => ({ name: 'bulk', data: { n } })));
    const results = await Promise.all(jobs.map((job) => result(job, events)));
    assert.deepEqual(results, numbers.map((n) => n * 2));

    const start = performance.now();
    const options = { attempts: 3, backoff: { type: 'fixed', delay: 100 } };
    const stubborn = await queue.add('stubborn', { n: 21, fails: 2 }, options);
    assert.equal(await result(stubborn, events), 42);
    assert.equal(tries.stubborn, 3);
    assert.ok(performance.now() - start >= 200 - 2 * EARLY_MS);

    const hopeless = await queue.add('hopeless', { n: 1, fails: 9 });
    await assert.rejects(result(hopeless, events), /try 1/);

    const asked = performance.now();
    const delayed = await queue.add('delayed', { n: 1 }, { delay: 300 });
    assert.equal(await result(delayed, events), 2);
    assert.ok(performance.now() - asked >= 300 - EARLY_MS);
    const { completed, failed, waiting, active } = await queue.getJobCounts();
    assert.deepEqual([completed, failed, waiting, active], [202, 1, 0, 0]);
  },
));

check('BullMQ: jobs that repeat, and flows of jobs', (server) => withQueue(
  server,
  async ({ queue, events, flows, tries }) => {
    await queue.upsertJobScheduler('every', { every: 100 }, { name: 'repeated', data: { n: 1 } });
    await until(() => tries.repeated >= 3);
    assert.ok(await queue.removeJobScheduler('every'));

    const child = (n) => ({ name: 'child', queueName: 'jobs', data: { n } });
    const parent = { name: 'parent', queueName: 'jobs', data: { n: 1 } };
    const flow = await flows.add({ ...parent, children: [child(2), child(3)] });
    assert.equal(await result(flow.job, events), 2);
    assert.deepEqual(Object.values(await flow.job.getChildrenValues()).sort(), [4, 6]);
    await queue.obliterate({ force: true });
    assert.equal((await queue.getJobs()).length, 0);
  },
));
