// The server, the checks and what they say of what they see.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

// How long anything may take that has to come.
export const WAIT_MS = 10_000;
// What may be missing when a span of time is measured from outside: timers of Node come early.
export const EARLY_MS = 5;

// Puts checks among those to run.
export const checks = [];
export function check(name, run) {
  checks.push({ name, run });
}

// What the condition gives, as soon as it gives something.
export async function until(condition) {
  const end = performance.now() + WAIT_MS;
  while (performance.now() < end) {
    const found = await condition();
    if (found) return found;
    await sleep(2);
  }
  throw new Error('waited in vain');
}

// The promise, or an error if it takes too long.
export async function inTime(promise) {
  const late = new AbortController();
  const timer = sleep(WAIT_MS, undefined, { signal: late.signal }).then(
    () => { throw new Error('took too long'); },
    () => undefined,
  );
  try {
    return await Promise.race([promise, timer]);
  } finally {
    late.abort();
  }
}

// A port that is free at the moment.
async function freePort() {
  const probe = net.createServer();
  await new Promise((done) => probe.listen(0, '127.0.0.1', done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

// Whether the server says PONG.
function answers(port) {
  return new Promise((done) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.on('data', (data) => { socket.destroy(); done(data.toString().startsWith('+PONG')); });
    socket.on('error', () => done(false));
  });
}

// A server of its own on a free port.
export class Server {
  static async start(path) {
    const server = new Server();
    server.dir = mkdtempSync(join(tmpdir(), 'mayfly-clients-'));
    server.port = await freePort();
    const args = ['--port', String(server.port), '--save', '', '--dir', server.dir];
    server.process = spawn(path, args, { stdio: 'ignore' });
    server.exited = new Promise((done) => server.process.on('exit', done).on('error', done));
    await until(() => answers(server.port));
    return server;
  }

  async stop() {
    this.process.kill('SIGKILL');
    await this.exited;
    rmSync(this.dir, { recursive: true, force: true });
  }
}
