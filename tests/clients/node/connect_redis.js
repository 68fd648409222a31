// connect-redis: the sessions of express-session, without HTTP.

import assert from 'node:assert/strict';
import { promisify } from 'node:util';
import { RedisStore } from 'connect-redis';
import session from 'express-session';
import { createClient } from 'redis';
import { check, until } from './harness.js';

// A session with a cookie, as express-session hands it to its store.
function sessionOf(user, maxAge) {
  const made = { user, cookie: new session.Cookie({ maxAge }) };
  return JSON.parse(JSON.stringify(made));
}

check('connect-redis: a store of sessions', async (server) => {
  const client = await createClient({ socket: { port: server.port, host: '127.0.0.1' } }).connect();
  try {
    const store = new RedisStore({ client, prefix: 'sess:', ttl: 200 });
    assert.ok(store instanceof session.Store);
    const call = (name, ...args) => promisify(store[name].bind(store))(...args);

    await call('set', 'a', sessionOf('alice', 100_000));
    assert.equal(await client.ttl('sess:a'), 100);
    assert.equal((await call('get', 'a')).user, 'alice');
    assert.equal(await call('get', 'no'), null);

    await call('touch', 'a', sessionOf('alice', 300_000));
    assert.equal(await client.ttl('sess:a'), 300);
    // Without an age of the cookie's the store has its own.
    await call('set', 'b', { user: 'bob', cookie: {} });
    assert.equal(await client.ttl('sess:b'), 200);
    await call('touch', 'no', sessionOf('nobody', 1000));
    assert.equal(await client.exists('sess:no'), 0);

    await client.set('other', 'not a session');
    for (let i = 0; i < 300; i += 1) await call('set', `many${i}`, sessionOf(`user ${i}`, 60_000));
    assert.equal(await call('length'), 302);
    const users = (await call('all')).map(({ user }) => user);
    assert.deepEqual([users.length, users.includes('bob'), users.includes('user 299')], [302, true, true]);
    assert.ok((await call('ids')).includes('many7'));

    await call('set', 'short', sessionOf('carol', 1_000));
    await until(async () => (await call('get', 'short')) === null);
    assert.equal(await call('length'), 302);
    // A cookie that is over takes its session with it.
    await call('set', 'b', sessionOf('bob', -1000));
    await call('destroy', 'a');
    assert.deepEqual([await call('get', 'a'), await call('get', 'b'), await call('length')], [null, null, 300]);
    await call('clear');
    assert.deepEqual([await call('length'), await call('all'), await client.keys('*')], [0, [], ['other']]);
  } finally {
    client.destroy();
  }
});
