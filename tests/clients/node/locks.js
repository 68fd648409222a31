// Scripts of ioredis and node-redis, and what stands on them: redlock, rate-limiter-flexible.

import assert from 'node:assert/strict';
import Redis from 'ioredis';
import { RateLimiterQueue, RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient, defineScript } from 'redis';
import Redlock from 'redlock';
import { check, EARLY_MS, until, WAIT_MS } from './harness.js';

// A check that is given a client of ioredis and a function that makes more of them.
function withClient(name, run) {
  check(name, async (server) => {
    const made = [];
    const make = (options = {}) => {
      made.push(new Redis({ port: server.port, commandTimeout: WAIT_MS, ...options }));
      return made.at(-1);
    };
    try {
      await run(make(), make, server);
    } finally {
      for (const client of made) client.disconnect();
    }
  });
}

// How long a promise took.
async function timed(promise) {
  const start = performance.now();
  await promise;
  return performance.now() - start;
}

const SPEND = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
  return {redis.call('DEL', KEYS[1]), redis.call('PTTL', KEYS[1])}
`;

withClient('ioredis: commands made of scripts', async (client) => {
  client.defineCommand('spend', { numberOfKeys: 1, lua: SPEND });
  await client.set('code', '493817', 'PX', 100_000);
  const [spent, left] = await client.spend('code', '1');
  assert.equal(spent, 0);
  assert.ok(left > 90_000 && left <= 100_000, `${left} ms are left`);
  assert.deepEqual(await client.spend('code', '493817'), [1, -2]);
  // The server has forgotten it: it is sent once more.
  await client.script('FLUSH');
  await client.set('code', 'again');
  const replies = await client.pipeline().get('code').spend('code', 'again').exec();
  assert.deepEqual(replies, [[null, 'again'], [null, [1, -2]]]);
  assert.equal(await client.exists('code'), 0);
  const multi = await client.multi().set('code', 'x').spend('code', 'x').exec();
  assert.deepEqual(multi, [[null, 'OK'], [null, [1, -2]]]);
  const wrong = client.eval("return redis.call('INCR', KEYS[1], 'x')", 1, 'n');
  await assert.rejects(wrong, /Wrong number of args/);
});

check('node-redis: scripts and functions', async (server) => {
  const spend = defineScript({
    SCRIPT: SPEND,
    NUMBER_OF_KEYS: 1,
    parseCommand: (parser, key, code) => { parser.pushKey(key); parser.push(code); },
    transformReply: ([spent]) => spent === 1,
  });
  const socket = { port: server.port, host: '127.0.0.1' };
  const client = await createClient({ socket, scripts: { spend } }).connect();
  try {
    await client.set('code', '493817');
    assert.equal(await client.spend('code', '1'), false);
    assert.equal(await client.spend('code', '493817'), true);
    await client.scriptFlush();
    await client.set('code', 'again');
    assert.deepEqual([await client.spend('code', 'again'), await client.exists('code')], [true, 0]);
    assert.deepEqual(await client.multi().set('code', 'x').spend('code', 'x').exec(), ['OK', true]);
    await client.functionFlush();
    const code = `#!lua name=sums
      redis.register_function('sum', function(keys, args) return args[1] + args[2] end)`;
    assert.equal(await client.functionLoad(code), 'sums');
    assert.equal(await client.fCall('sum', { keys: [], arguments: ['3', '4'] }), 7);
    const libraries = await client.functionList();
    assert.deepEqual(libraries.map((library) => library.library_name), ['sums']);
    await client.functionFlush();
  } finally {
    client.destroy();
  }
});

withClient('redlock: a lock on three databases', async (client, make) => {
  const clients = [client, make({ db: 1 }), make({ db: 2 })];
  const held = () => Promise.all(clients.map((one) => one.exists('door')));
  const locks = new Redlock(clients, { retryCount: 0 });
  const lock = await locks.lock('door', 100_000);
  assert.deepEqual(await held(), [1, 1, 1]);
  await assert.rejects(locks.lock('door', 100_000), /Exceeded 0 attempts/);
  await lock.extend(200_000);
  assert.ok((await client.pttl('door')) > 150_000);
  await lock.unlock();
  assert.deepEqual(await held(), [0, 0, 0]);
  // Whoever waits gets it when its time is over, and it is no longer the former one's.
  const late = await locks.lock('door', 200);
  const patient = new Redlock(clients, { retryCount: -1, retryDelay: 5, retryJitter: 0 });
  const took = await timed(patient.lock('door', 100_000));
  assert.ok(took >= 150, `after ${took} ms`);
  await assert.rejects(late.unlock(), /Unable to fully release/);
  assert.deepEqual(await held(), [1, 1, 1]);
});

withClient('redlock: many that fight for a lock', async (client, make) => {
  const locks = new Redlock([make()], { retryCount: -1, retryDelay: 2, retryJitter: 1 });
  const add = async () => {
    const lock = await locks.lock('door', WAIT_MS);
    const number = Number(await client.get('number'));
    await client.set('number', number + 1);
    await lock.unlock();
  };
  await Promise.all(Array.from({ length: 50 }, add));
  assert.deepEqual([await client.get('number'), await client.exists('door')], ['50', 0]);
});

withClient('rate-limiter-flexible: points, windows, blocks', async (client, make) => {
  const options = { storeClient: client, points: 3, duration: 1 };
  const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'login' });
  const start = performance.now();
  const left = [];
  for (let i = 0; i < 3; i += 1) left.push((await limiter.consume('alice')).remainingPoints);
  assert.deepEqual(left, [2, 1, 0]);
  const refused = await limiter.consume('alice').catch((refusal) => refusal);
  assert.deepEqual([refused.remainingPoints, refused.consumedPoints], [0, 4]);
  assert.ok(refused.msBeforeNext > 0 && refused.msBeforeNext <= 1000);
  assert.equal((await limiter.consume('bob', 2)).remainingPoints, 1);
  await until(() => limiter.consume('alice').then(() => true, () => false));
  assert.ok(performance.now() - start >= 1000 - EARLY_MS);

  // Many at once, through two clients: no more than there are.
  const hourly = { points: 50, duration: 3600 };
  const limiterOf = (storeClient) => new RateLimiterRedis({ storeClient, ...hourly });
  const many = [client, make()].map(limiterOf);
  const ask = (_, i) => many[i % 2].consume('all').then(() => 1, () => 0);
  const asked = Array.from({ length: 120 }, ask);
  assert.equal((await Promise.all(asked)).reduce((sum, one) => sum + one), 50);

  const hard = { keyPrefix: 'strict', points: 1, blockDuration: 100 };
  const strict = new RateLimiterRedis({ ...options, ...hard });
  await strict.consume('eve');
  await assert.rejects(strict.consume('eve'), ({ msBeforeNext }) => msBeforeNext > 50_000);
  const ttl = await client.ttl('strict:eve');
  assert.ok(ttl > 90 && ttl <= 100, `blocked for ${ttl} s`);
  assert.equal(await strict.delete('eve'), true);
  assert.equal(await strict.get('eve'), null);
});

withClient('rate-limiter-flexible: a queue of what has to wait', async (client) => {
  const options = { storeClient: client, points: 2, duration: 1, keyPrefix: 'slow' };
  const queue = new RateLimiterQueue(new RateLimiterRedis(options));
  const start = performance.now();
  for (let i = 0; i < 3; i += 1) await queue.removeTokens(1, 'mail');
  assert.ok(performance.now() - start >= 1000 - EARLY_MS);
});
