// node-redis in both protocols: types, transactions, messages, events of keys that expire, waiting, iterators.

import assert from 'node:assert/strict';
import { createClient, createClientPool, WatchError } from 'redis';
import { check, EARLY_MS, inTime, until, WAIT_MS } from './harness.js';

// A check that is given a client and a function that makes more of them, all closed at its end.
function withClient(name, run, protocols = [2, 3]) {
  for (const RESP of protocols) {
    check(`node-redis: ${name}, RESP${RESP}`, async (server) => {
      const made = [];
      const make = async (options = {}) => {
        const client = createClient({ socket: { port: server.port, host: '127.0.0.1' }, RESP, ...options });
        client.on('error', () => undefined);
        made.push(client);
        return client.connect();
      };
      try {
        await run(await make(), make, server);
      } finally {
        for (const client of made) if (client.isOpen) client.destroy();
      }
    });
  }
}

// What there is, without the prototypes of replies.
const plain = (reply) => JSON.parse(JSON.stringify(reply));

withClient('basic types', async (client) => {
  assert.equal(await client.set('k', 'v', { expiration: { type: 'EX', value: 100 } }), 'OK');
  assert.deepEqual([await client.get('k'), await client.ttl('k'), await client.get('no')], ['v', 100, null]);
  assert.deepEqual([await client.set('k', 'w', { condition: 'NX' }), await client.getEx('k', { type: 'PERSIST' })], [null, 'v']);
  assert.deepEqual([await client.ttl('k'), await client.pExpire('k', 5000, 'NX'), await client.expire('k', 1, 'GT')], [-1, 1, 0]);
  assert.deepEqual(await client.mGet(['k', 'no']), ['v', null]);
  assert.deepEqual([await client.incrBy('n', 5), Number(await client.incrByFloat('n', 0.5))], [5, 5.5]);
  assert.equal(await client.hSet('h', { f: 1, g: 'x' }), 2);
  assert.deepEqual(plain([await client.hGetAll('h'), await client.hGetAll('no')]), [{ f: '1', g: 'x' }, {}]);
  assert.equal(await client.rPush('l', ['a', 'b', 'c']), 3);
  assert.deepEqual([await client.lRange('l', 0, -1), await client.lPopCount('l', 2)], [['a', 'b', 'c'], ['a', 'b']]);
  assert.equal(await client.sAdd('s', ['1', '2', '3']), 3);
  assert.deepEqual([[...await client.sMembers('s')].sort(), await client.sIsMember('s', '2')], [['1', '2', '3'], 1]);
  const scored = [{ value: 'a', score: 1 }, { value: 'b', score: 2.5 }, { value: 'c', score: Infinity }];
  assert.equal(await client.zAdd('z', scored), 3);
  assert.deepEqual((await client.zRangeWithScores('z', 0, -1)).map(({ value, score }) => ({ value, score })), scored);
  assert.deepEqual([await client.zScore('z', 'b'), await client.zRank('z', 'c'), await client.zScore('z', 'no')], [2.5, 2, null]);
  assert.deepEqual(await client.zRange('z', '2', '0', { BY: 'SCORE', REV: true, LIMIT: { offset: 0, count: 5 } }), ['a']);
  assert.deepEqual(plain(await client.zPopMin('z')), { value: 'a', score: 1 });
  await assert.rejects(client.incr('l'), /WRONGTYPE/);
  await assert.rejects(client.sendCommand(['NOSUCH']), /ERR unknown command/);
  assert.deepEqual([await client.expire('k', -1), await client.exists('k'), await client.del(['l', 's'])], [1, 0, 2]);
});

withClient('deadlines of fields', async (client) => {
  await client.hSet('h', { f: 1, g: 2 });
  assert.deepEqual(await client.hpExpire('h', 'f', 30), [1]);
  await until(async () => (await client.hLen('h')) === 1);
  assert.deepEqual(plain([await client.hGetAll('h'), await client.hGet('h', 'f')]), [{ g: '2' }, null]);
  assert.deepEqual([await client.hExpire('h', ['g', 'no'], 100, 'NX'), await client.hTTL('h', 'g')], [[1, -2], [100]]);
  assert.deepEqual([await client.hExpire('h', 'g', 50, 'GT'), await client.hPersist('h', 'g'), await client.hpTTL('h', 'g')], [[0], [1], [-1]]);
  assert.deepEqual([await client.hpExpireAt('h', 'g', 2e12), await client.hExpireAt('h', 'no', new Date(2e12))], [[1], [-2]]);
  assert.deepEqual([await client.hpExpireTime('h', 'g'), await client.hExpireTime('h', ['g', 'no'])], [[2e12], [2e9, -2]]);
  const soon = { expiration: { type: 'EX', value: 100 } };
  assert.deepEqual([await client.hSetEx('h', { f: 3, i: 4 }, soon), await client.hTTL('h', 'f')], [1, [100]]);
  assert.equal(await client.hSetEx('h', { f: 5 }, { expiration: 'KEEPTTL', mode: 'FNX' }), 0);
  assert.deepEqual(await client.hGetEx('h', ['f', 'no'], { expiration: 'PERSIST' }), ['3', null]);
  assert.deepEqual([await client.hTTL('h', ['f', 'i']), await client.hGetDel('h', ['f', 'no'])], [[-1, 100], ['3', null]]);
  assert.deepEqual([await client.hExpire('h', ['g', 'i'], 0), await client.exists('h')], [[2, 2], 0]);
  assert.deepEqual([await client.hTTL('h', 'f'), await client.hGetEx('h', 'f', soon)], [[-2], [null]]);
  await assert.rejects(client.hExpire('h', 'f', -1), /invalid expire time/);
});

withClient('pipelines and transactions', async (client, make) => {
  const sums = await Promise.all(Array.from({ length: 2000 }, () => client.incr('sum')));
  assert.deepEqual(sums, Array.from({ length: 2000 }, (_, i) => i + 1));
  assert.deepEqual(plain(await client.multi().set('a', 1).incr('a').hGetAll('no').exec()), ['OK', 2, {}]);
  assert.deepEqual(await client.multi().incr('b').incr('b').execAsPipeline(), [1, 2]);
  await assert.rejects(client.multi().set('a', 9).addCommand(['NOSUCH']).exec(), /unknown command/);
  assert.equal(await client.get('a'), '2');
  await client.watch('a');
  await (await make()).set('a', 5);
  await assert.rejects(client.multi().incr('a').exec(), WatchError);
});

withClient('pools', async (client, make, server) => {
  const pool = createClientPool({ socket: { port: server.port, host: '127.0.0.1' } }, { maximum: 4 });
  await pool.connect();
  await Promise.all(Array.from({ length: 100 }, () => pool.execute((one) => one.incr('n'))));
  assert.equal(await client.get('n'), '100');
  await pool.close();
});

withClient('messages', async (client, make) => {
  const subscriber = await make();
  const got = [];
  await subscriber.subscribe(['c', 'd'], (text, channel) => got.push(`${channel} ${text}`));
  await subscriber.pSubscribe('c*', (text, channel) => got.push(`pattern ${channel} ${text}`));
  assert.deepEqual([await client.publish('c', 'hi'), await client.publish('e', 'x')], [2, 0]);
  await until(() => got.length === 2);
  assert.deepEqual(got.sort(), ['c hi', 'pattern c hi']);
  assert.deepEqual(plain(await client.pubSubNumSub(['c', 'e'])), { c: 1, e: 0 });
  await subscriber.unsubscribe();
  await subscriber.pUnsubscribe();
  assert.deepEqual([await client.publish('c', 'x'), String(await subscriber.set('k', 'usable again'))], [0, 'OK']);
  await subscriber.sSubscribe('c', (text) => got.push(text));
  assert.deepEqual([await client.publish('c', 'x'), await client.sPublish('c', 'y')], [0, 1]);
  await until(() => got.length === 3);
  await subscriber.sUnsubscribe('c');
});

withClient('one connection for messages and requests', async (client) => {
  const got = [];
  await client.subscribe('c', (text) => got.push(text));
  assert.equal(await client.set('k', 'v'), 'OK');
  assert.deepEqual([await client.publish('c', 'to myself'), await client.get('k')], [1, 'v']);
  await until(() => got.length === 1);
}, [3]);

withClient('events of keys that expire', async (client, make) => {
  const subscriber = await make();
  const got = [];
  await client.configSet('notify-keyspace-events', 'Ex');
  await subscriber.subscribe('__keyevent@0__:expired', (key) => got.push([key, performance.now()]));
  const start = performance.now();
  await client.set('k', 'v', { expiration: { type: 'PX', value: 50 } });
  await until(() => got.length === 1);
  assert.equal(got[0][0], 'k');
  assert.ok(got[0][1] - start >= 50 - EARLY_MS, `after ${got[0][1] - start} ms`);
  await client.configSet('notify-keyspace-events', '');
});

withClient('waiting', async (client, make) => {
  const start = performance.now();
  assert.equal(await client.blPop('no', 0.05), null);
  assert.equal(await client.bzPopMin('no', 0.05), null);
  assert.equal(await client.blMove('no', 'l', 'LEFT', 'RIGHT', 0.05), null);
  assert.ok(performance.now() - start >= 150 - 3 * EARLY_MS);
  const waiter = await make();
  const popped = waiter.brPop(['no', 'queue'], WAIT_MS / 1000);
  await until(async () => /blocked_clients:1\r/.test(await client.info('clients')));
  await client.lPush('queue', 'job');
  assert.deepEqual(plain(await inTime(popped)), { key: 'queue', element: 'job' });
  const lowest = waiter.bzPopMin('delayed', WAIT_MS / 1000);
  await client.zAdd('delayed', [{ score: 7, value: 'b' }, { score: 3, value: 'a' }]);
  assert.deepEqual(plain(await inTime(lowest)), { key: 'delayed', value: 'a', score: 3 });
});

withClient('iterators', async (client) => {
  await client.mSet(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`key:${i}`, String(i)])));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: 'key:*', COUNT: 50, TYPE: 'string' })) {
    keys.forEach((key) => found.add(key));
  }
  assert.equal(found.size, 1000);
  await client.hSet('h', Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`f${i}`, String(i)])));
  const fields = {};
  for await (const pairs of client.hScanIterator('h')) pairs.forEach(({ field, value }) => { fields[field] = value; });
  assert.deepEqual([Object.keys(fields).length, fields.f77], [2000, '77']);
  await client.zAdd('z', Array.from({ length: 2000 }, (_, i) => ({ score: i, value: `m${i}` })));
  let sum = 0;
  for await (const members of client.zScanIterator('z')) members.forEach(({ score }) => { sum += score; });
  assert.equal(sum, 1_999_000);
});

withClient('connections', async (client, make) => {
  const named = await make({ name: 'worker', database: 3 });
  const info = await named.clientInfo();
  assert.deepEqual([info.name, info.db, info.libName], ['worker', 3, 'node-redis']);
  await named.set('k', 'in 3');
  assert.equal(await client.exists('k'), 0);
  assert.equal(await client.clientKill({ filter: 'ID', id: info.id }), 1);
  await until(() => named.isReady && named.get('k').catch(() => null));
  const again = await named.clientInfo();
  assert.deepEqual([again.name, again.db, again.id === info.id], ['worker', 3, false]);
  await named.close();
});
