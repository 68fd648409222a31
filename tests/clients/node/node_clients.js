// Node's client libraries, and programs that use them, against a running mayfly.
//
//     npm ci && node node_clients.js [SERVER [TEXT]]
//
// Starts the server on a free port of 127.0.0.1 and stops it at the end; each check finds it empty. SERVER
// may be another server, so that the checks can be tried there; with TEXT only the checks run whose name has
// it. Not tried, as Mayfly has no client-side caching yet: node-redis's cache.
//
// Prints a line for each check; exit code 1 if one failed.

import Redis from 'ioredis';
import { checks, inTime, Server } from './harness.js';
import './ioredis.js';
import './node_redis.js';
import './connect_redis.js';
import './locks.js';
import './bee_queue.js';
import './bullmq.js';
import './socket_io.js';

const [path = new URL('../../../target/release/mayfly', import.meta.url).pathname, text = ''] = process.argv.slice(2);
const counts = { passed: 0, failed: 0 };
const server = await Server.start(path);
const client = new Redis({ port: server.port });
try {
  for (const { name, run } of checks.filter((one) => one.name.includes(text))) {
    let outcome = 'passed';
    let why = '';
    await client.flushall();
    try {
      await inTime(run(server));
    } catch (error) {
      outcome = 'failed';
      why = `\n${error.stack}`;
    }
    counts[outcome] += 1;
    console.log(`${outcome}  ${name}${why}`);
  }
} finally {
  client.disconnect();
  await server.stop();
}
console.log(Object.entries(counts).map(([outcome, count]) => `${count} ${outcome}`).join(', '));
process.exit(counts.failed > 0 ? 1 : 0);
