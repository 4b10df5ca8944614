// Calls that wait for a worker. A stub takes the place of Node and of the worker.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../log/log.ts';
import type { PendingCall } from './call.ts';
import { WorkerPool } from './worker-pool.ts';

const PROTOCOL = fileURLToPath(new URL('../worker/protocol.ts', import.meta.url));
/** The share of one caller of the slots of one worker. */
const SHARE = 48;

/** The first process serves until its first request ends it. Later processes never become ready. */
const stub = (marker: string): string => `
import { existsSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { FrameReader, FrameWriter, FROM_WORKER, TO_WORKER } from ${JSON.stringify(PROTOCOL)};
const isFirst = !existsSync(${JSON.stringify(marker)});
writeFileSync(${JSON.stringify(marker)}, '');
const socket = new Socket({ fd: 3 });
const writer = new FrameWriter(socket);
const reader = new FrameReader((type) => {
  if (type === TO_WORKER.configure && isFirst) writer.send(FROM_WORKER.ready, 0);
  if (type === TO_WORKER.request) process.exit(1);
});
socket.on('data', (chunk) => reader.push(chunk));
socket.on('end', () => process.exit());
`;

let folder: string;
let pool: WorkerPool;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-pool-'));
  const module = join(folder, 'stub.ts');
  writeFileSync(module, stub(join(folder, 'started')));
  const runtime = join(folder, 'runtime');
  writeFileSync(runtime, `#!/bin/sh\nexec "${process.execPath}" "${module}"\n`);
  chmodSync(runtime, 0o755);
  pool = new WorkerPool();
  await pool.replace(
    {
      size: 1,
      log: silentLog,
      onLoaded: () => {},
      onReplaced: () => {},
      worker: {
        runtime,
        memoryMb: 64,
        env: process.env,
        settings: { root: folder, functions: [], url: '', publishableKey: '' },
        log: silentLog,
        redact: (text) => text,
        showErrors: false,
        serviceToken: () => Promise.resolve(''),
      },
    },
    () => {},
  );
  await expect(call(60_000).answer).rejects.toMatchObject({ code: 'worker_died' });
});
afterEach(async () => {
  for (const worker of pool.workers) worker.kill();
  await pool.stop();
  rmSync(folder, { recursive: true, force: true });
});

function call(timeoutMs: number): PendingCall {
  return pool.run({
    functionName: 'f',
    requestId: 'r',
    caller: 'c',
    head: '{}',
    body: Buffer.alloc(0),
    serviceRole: false,
    timeoutMs,
  });
}

test('a call that times out before a worker is ready returns its slot', async () => {
  const late = Array.from({ length: SHARE }, () => call(1).answer);
  for (const answer of late) await expect(answer).rejects.toMatchObject({ status: 504 });
  expect(() => pool.assertRoom('c')).not.toThrow();
});

test('a call whose client leaves before a worker is ready returns its slot', async () => {
  const waiting = Array.from({ length: SHARE }, () => call(60_000));
  expect(() => pool.assertRoom('c')).toThrow();
  for (const { answer, cancel } of waiting) {
    cancel('client-gone');
    await expect(answer).rejects.toMatchObject({ reason: 'client-gone' });
  }
  expect(() => pool.assertRoom('c')).not.toThrow();
});
