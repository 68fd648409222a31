// Node's client libraries against a running mayfly: ioredis, node-redis (RESP2, RESP3), connect-redis.
//
//     npm ci && node node_clients.js [SERVER [TEXT]]
//
// Starts the server on a free port of 127.0.0.1 and stops it at the end; each check finds it empty. SERVER
// may be another server, so that the checks can be tried there; with TEXT only the checks run whose name has
// it. Not tried, as Mayfly has no scripts or client-side caching yet: commands that ioredis makes of scripts,
// node-redis's cache.
//
// Prints a line for each check; exit code 1 if one failed.

import Redis from 'ioredis';
import { checks, inTime, Server } from './harness.js';
import './ioredis.js';
import './node_redis.js';
import './connect_redis.js';

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
