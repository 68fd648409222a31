// Socket.IO with its adapter over streams: two servers that are one, and clients that come back.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createAdapter } from '@socket.io/redis-streams-adapter';
import Redis from 'ioredis';
import { createClient } from 'redis';
import { Server } from 'socket.io';
import { io } from 'socket.io-client';
import { check, inTime, until } from './harness.js';

// Runs with two servers over one stream and a function that makes clients of them.
async function withServers(connect, run) {
  const servers = [];
  const sockets = [];
  const clients = [];
  const start = async () => {
    const http = createServer();
    const client = await connect();
    const server = new Server(http, {
      adapter: createAdapter(client, { blockTimeInMs: 200 }),
      connectionStateRecovery: { maxDisconnectionDuration: 60_000 },
    });
    servers.push(server);
    clients.push(client);
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    return server;
  };
  const make = async (server) => {
    const options = { transports: ['websocket'], reconnectionDelay: 20, reconnectionDelayMax: 20 };
    const socket = io(`http://127.0.0.1:${server.httpServer.address().port}`, { forceNew: true, ...options });
    socket.got = [];
    socket.on('news', (...args) => socket.got.push(args[0]));
    sockets.push(socket);
    await inTime(once(socket, 'connect'));
    return socket;
  };
  try {
    await run([await start(), await start()], make);
  } finally {
    sockets.forEach((socket) => socket.disconnect());
    await Promise.all(servers.map((server) => server.close()));
    // In good order: the adapters may still be saying goodbye.
    await Promise.all(clients.map((client) => client.quit()));
  }
}

// What has been broadcast until it crosses: adapters begin to read when they are ready.
async function crosses(server, socket) {
  await until(async () => {
    server.emit('news', 'is anybody there?');
    return socket.got.length > 0;
  });
}

const libraries = {
  ioredis: async ({ port }) => new Redis({ port }),
  'node-redis': async ({ port }) => createClient({ socket: { port, host: '127.0.0.1' } }).connect(),
};

for (const [library, connect] of Object.entries(libraries)) {
  check(`socket.io with ${library}: what one server says reaches the clients of the other`, (server) => withServers(
    () => connect(server),
    async ([one, other], make) => {
      const near = await make(one);
      const far = await make(other);
      await crosses(one, far);
      await crosses(other, near);
      for (let i = 0; i < 100; i += 1) (i % 2 ? one : other).emit('news', i);
      const numbers = ({ got }) => got.filter((item) => typeof item === 'number');
      await until(() => numbers(near).length === 100 && numbers(far).length === 100);
      assert.deepEqual(numbers(near).sort((a, b) => a - b), Array.from({ length: 100 }, (_, i) => i));
      assert.deepEqual(new Set(numbers(far)), new Set(numbers(near)));
      // Rooms, what is no text, and questions that the other server answers.
      await other.in(far.id).socketsJoin('room');
      await until(async () => (await one.in('room').fetchSockets()).length === 1);
      one.to('room').emit('news', Buffer.from([0, 255, 10]));
      await until(() => far.got.some((item) => item instanceof Uint8Array));
      assert.ok(!near.got.some((item) => item instanceof Uint8Array));
      assert.equal((await one.fetchSockets()).length, 2);
    },
  ));

  check(`socket.io with ${library}: a client that comes back gets what it has missed`, (server) => withServers(
    () => connect(server),
    async ([one, other], make) => {
      const client = await make(one);
      await crosses(other, client);
      const { id } = client;
      // As if the network had failed.
      client.io.engine.close();
      await until(() => !client.connected);
      for (let i = 0; i < 20; i += 1) other.emit('news', i);
      await inTime(once(client, 'connect'));
      await until(() => client.got.includes(19));
      assert.deepEqual([client.recovered, client.id], [true, id]);
      const missed = client.got.filter((item) => typeof item === 'number');
      assert.deepEqual(missed, Array.from({ length: 20 }, (_, i) => i));
    },
  ));
}
