// ioredis: types, pipelines, transactions, messages, events of keys that expire, waiting, iterators.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import Redis from 'ioredis';
import { check, EARLY_MS, inTime, until, WAIT_MS } from './harness.js';

// A check that is given a client and a function that makes more of them, all closed at its end.
function withClient(name, run) {
  check(`ioredis: ${name}`, async (server) => {
    const made = [];
    const make = (options = {}) => {
      made.push(new Redis({ port: server.port, commandTimeout: WAIT_MS, ...options }));
      return made.at(-1);
    };
    try {
      await run(make(), make);
    } finally {
      for (const client of made) client.disconnect();
    }
  });
}

withClient('basic types', async (client) => {
  assert.equal(await client.set('k', 'v', 'EX', 100), 'OK');
  assert.deepEqual([await client.get('k'), await client.ttl('k'), await client.get('no')], ['v', 100, null]);
  assert.deepEqual([await client.set('k', 'w', 'NX'), await client.set('k', 'w', 'KEEPTTL', 'GET')], [null, 'v']);
  assert.equal(await client.getex('k', 'PERSIST'), 'w');
  assert.deepEqual([await client.ttl('k'), await client.pexpire('k', 5000, 'NX'), await client.expire('k', 1, 'GT')], [-1, 1, 0]);
  assert.deepEqual(await client.mget('k', 'no'), ['w', null]);
  assert.deepEqual([await client.incrby('n', 5), await client.incrbyfloat('n', 0.5)], [5, '5.5']);
  assert.deepEqual(await client.getBuffer('n'), Buffer.from('5.5'));
  assert.equal(await client.hset('h', { f: 1, g: 'x' }), 2);
  assert.deepEqual([await client.hgetall('h'), await client.hgetall('no')], [{ f: '1', g: 'x' }, {}]);
  assert.equal(await client.rpush('l', 'a', 'b', 'c'), 3);
  assert.deepEqual([await client.lrange('l', 0, -1), await client.lpop('l', 2)], [['a', 'b', 'c'], ['a', 'b']]);
  assert.equal(await client.sadd('s', 1, 2, 3), 3);
  assert.deepEqual([(await client.smembers('s')).sort(), await client.sismember('s', 2)], [['1', '2', '3'], 1]);
  assert.equal(await client.zadd('z', 1, 'a', 2.5, 'b', '+inf', 'c'), 3);
  assert.deepEqual(await client.zrange('z', 0, -1, 'WITHSCORES'), ['a', '1', 'b', '2.5', 'c', 'inf']);
  assert.deepEqual(await client.zrange('z', 2, 0, 'BYSCORE', 'REV', 'LIMIT', 0, 5), ['a']);
  assert.deepEqual([await client.zscore('z', 'b'), await client.zpopmin('z')], ['2.5', ['a', '1']]);
  await assert.rejects(client.incr('l'), /WRONGTYPE/);
  await assert.rejects(client.call('NOSUCH', 'x'), /ERR unknown command/);
  assert.deepEqual([await client.expire('k', -1), await client.exists('k'), await client.del('l', 's')], [1, 0, 2]);
});

withClient('deadlines of fields', async (client) => {
  await client.hset('h', { f: 1, g: 2 });
  assert.deepEqual(await client.hpexpire('h', 30, 'FIELDS', 1, 'f'), [1]);
  await until(async () => (await client.hlen('h')) === 1);
  assert.deepEqual([await client.hgetall('h'), await client.hget('h', 'f')], [{ g: '2' }, null]);
  assert.deepEqual([await client.hexpire('h', 100, 'NX', 'FIELDS', 2, 'g', 'no'), await client.httl('h', 'FIELDS', 1, 'g')], [[1, -2], [100]]);
  assert.deepEqual([await client.hexpire('h', 50, 'GT', 'FIELDS', 1, 'g'), await client.hpersist('h', 'FIELDS', 1, 'g')], [[0], [1]]);
  assert.deepEqual(await client.hpexpireat('h', 2e12, 'FIELDS', 1, 'g'), [1]);
  assert.deepEqual(await client.hexpiretime('h', 'FIELDS', 2, 'g', 'no'), [2e9, -2]);
  assert.deepEqual([await client.hsetex('h', 'EX', 100, 'FIELDS', 2, 'f', 3, 'i', 4), await client.httl('h', 'FIELDS', 1, 'f')], [1, [100]]);
  assert.equal(await client.hsetex('h', 'FNX', 'KEEPTTL', 'FIELDS', 1, 'f', 5), 0);
  assert.deepEqual(await client.hgetex('h', 'PERSIST', 'FIELDS', 2, 'f', 'no'), ['3', null]);
  assert.deepEqual([await client.httl('h', 'FIELDS', 2, 'f', 'i'), await client.hgetdel('h', 'FIELDS', 2, 'f', 'no')], [[-1, 100], ['3', null]]);
  assert.deepEqual([await client.hexpire('h', 0, 'FIELDS', 2, 'g', 'i'), await client.exists('h')], [[2, 2], 0]);
  await assert.rejects(client.hexpire('h', -1, 'FIELDS', 1, 'f'), /invalid expire time/);
});

withClient('pipelines and transactions', async (client, make) => {
  const pipeline = client.pipeline();
  for (let i = 0; i < 2000; i += 1) pipeline.set(`k${i}`, i).get(`k${i}`);
  const replies = await pipeline.exec();
  assert.equal(replies.length, 4000);
  replies.forEach(([error, reply], i) => assert.deepEqual([error, reply], [null, i % 2 ? String((i - 1) / 2) : 'OK']));
  const mixed = await client.pipeline().lpush('k1', 1).incr('k1').exec();
  assert.match(mixed[0][0].message, /WRONGTYPE/);
  assert.deepEqual(mixed[1], [null, 2]);
  assert.deepEqual(await client.multi().set('a', 1).incr('a').hgetall('no').exec(), [[null, 'OK'], [null, 2], [null, {}]]);
  await assert.rejects(client.multi().set('a', 9).call('NOSUCH').exec(), /EXECABORT/);
  assert.equal(await client.get('a'), '2');
  await client.watch('a');
  await make().set('a', 5);
  assert.equal(await client.multi().incr('a').exec(), null);
  // Many requests of one turn of the loop go out together.
  const auto = make({ enableAutoPipelining: true });
  const sums = await Promise.all(Array.from({ length: 500 }, () => auto.incr('sum')));
  assert.deepEqual(sums, Array.from({ length: 500 }, (_, i) => i + 1));
});

withClient('messages', async (client, make) => {
  const subscriber = make();
  const got = [];
  subscriber.on('message', (channel, text) => got.push([channel, text]));
  subscriber.on('pmessage', (pattern, channel, text) => got.push([pattern, channel, text]));
  assert.equal(await subscriber.subscribe('c', 'd'), 2);
  assert.equal(await subscriber.psubscribe('c*'), 3);
  assert.deepEqual([await client.publish('c', 'hi'), await client.publish('e', 'x')], [2, 0]);
  await until(() => got.length === 2);
  assert.deepEqual(got.sort((a, b) => a.length - b.length), [['c', 'hi'], ['c*', 'c', 'hi']]);
  assert.deepEqual(await client.pubsub('NUMSUB', 'c', 'e'), ['c', 1, 'e', 0]);
  assert.equal(await subscriber.unsubscribe('c'), 2);
  assert.equal(await subscriber.punsubscribe('c*'), 1);
  assert.equal(await subscriber.unsubscribe(), 0);
  assert.equal(await subscriber.set('k', 'usable again'), 'OK');
  const shard = make();
  shard.on('smessage', (channel, text) => got.push([channel, text]));
  await shard.ssubscribe('c');
  assert.deepEqual([await client.publish('c', 'x'), await client.spublish('c', 'y')], [0, 1]);
  await until(() => got.length === 3);
  assert.deepEqual(got[2], ['c', 'y']);
});

withClient('events of keys that expire', async (client, make) => {
  const subscriber = make();
  const got = [];
  subscriber.on('pmessage', (_, channel, key) => got.push([channel, key, performance.now()]));
  await client.config('SET', 'notify-keyspace-events', 'Ex');
  await subscriber.psubscribe('__keyevent@*__:expired');
  const start = performance.now();
  await client.set('k', 'v', 'PX', 50);
  await until(() => got.length === 1);
  assert.deepEqual(got[0].slice(0, 2), ['__keyevent@0__:expired', 'k']);
  assert.ok(got[0][2] - start >= 50 - EARLY_MS, `after ${got[0][2] - start} ms`);
  await client.config('SET', 'notify-keyspace-events', '');
});

withClient('waiting', async (client, make) => {
  const start = performance.now();
  assert.equal(await client.blpop('no', 0.05), null);
  assert.equal(await client.bzpopmin('no', 0.05), null);
  assert.equal(await client.blmove('no', 'l', 'LEFT', 'RIGHT', 0.05), null);
  assert.ok(performance.now() - start >= 150 - 3 * EARLY_MS);
  const waiter = make();
  const popped = waiter.brpop('no', 'queue', WAIT_MS / 1000);
  await until(async () => /blocked_clients:1\r/.test(await client.info('clients')));
  await client.lpush('queue', 'job');
  assert.deepEqual(await inTime(popped), ['queue', 'job']);
  const lowest = waiter.bzpopmin('delayed', WAIT_MS / 1000);
  await client.zadd('delayed', 7, 'b', 3, 'a');
  assert.deepEqual(await inTime(lowest), ['delayed', 'a', '3']);
});

withClient('iterators', async (client) => {
  await client.mset(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`key:${i}`, i])));
  const found = new Set();
  for await (const keys of client.scanStream({ match: 'key:*', count: 50 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
  await client.hset('h', Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`f${i}`, i])));
  const fields = {};
  for await (const words of client.hscanStream('h')) {
    for (let i = 0; i < words.length; i += 2) fields[words[i]] = words[i + 1];
  }
  assert.deepEqual([Object.keys(fields).length, fields.f77], [2000, '77']);
});

withClient('connections', async (client, make) => {
  const named = make({ connectionName: 'worker', db: 3 });
  assert.equal(await named.client('GETNAME'), 'worker');
  assert.match(await named.client('INFO'), / db=3 .*lib-name=ioredis/);
  await named.set('k', 'in 3');
  assert.equal(await client.exists('k'), 0);
  const id = await named.client('ID');
  const again = once(named, 'ready');
  assert.equal(await client.client('KILL', 'ID', id), 1);
  await inTime(again);
  assert.deepEqual([await named.client('GETNAME'), await named.get('k')], ['worker', 'in 3']);
  assert.equal(await named.quit(), 'OK');
});
