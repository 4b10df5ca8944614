// A worker that sends what the server cannot read. A stub takes the place of Node and of the worker.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { createLog } from '../../log/log.ts';
import { Problem } from '../../problem/problem.ts';
import { FROM_WORKER, toJson, withHead } from '../worker/protocol.ts';
import { PendingCall } from './call.ts';
import { WorkerProcess } from './worker-process.ts';

const PROTOCOL = fileURLToPath(new URL('../worker/protocol.ts', import.meta.url));

/** Is ready when configured, and answers each request or load with the given frame. */
const stub = (type: number, payload: string): string => `
import { Socket } from 'node:net';
import { FrameReader, FrameWriter, FROM_WORKER, TO_WORKER } from ${JSON.stringify(PROTOCOL)};
const socket = new Socket({ fd: 3 });
const writer = new FrameWriter(socket);
const reader = new FrameReader((type, id) => {
  if (type === TO_WORKER.configure) writer.send(FROM_WORKER.ready, 0);
  if (type === TO_WORKER.request || type === TO_WORKER.load)
    writer.send(${type}, id, Buffer.from(${JSON.stringify(payload)}, 'latin1'));
});
socket.on('data', (chunk) => reader.push(chunk));
socket.on('end', () => process.exit());
`;

const log = createLog({ level: 'silent' });
let folder: string;
let worker: WorkerProcess | undefined;
afterEach(() => {
  worker?.kill();
  rmSync(folder, { recursive: true, force: true });
});

function start(type: number, payload: Buffer): Promise<WorkerProcess> {
  folder = mkdtempSync(join(tmpdir(), 'svc-worker-'));
  const module = join(folder, 'stub.ts');
  writeFileSync(module, stub(type, payload.toString('latin1')));
  const runtime = join(folder, 'runtime');
  writeFileSync(runtime, `#!/bin/sh\nexec "${process.execPath}" "${module}"\n`);
  chmodSync(runtime, 0o755);
  return new Promise((resolve) => {
    const started: WorkerProcess = new WorkerProcess(
      {
        runtime,
        memoryMb: 64,
        env: process.env,
        settings: { root: folder, functions: [], url: '', publishableKey: '' },
        log,
        redact: (text) => text,
        showErrors: false,
        serviceToken: () => Promise.resolve(''),
      },
      {
        onReady: () => resolve(started),
        onExit: () => {},
        onDegraded: () => {},
        onFree: () => {},
        onUnread: () => {},
      },
    );
    worker = started;
  });
}

function call(): PendingCall {
  return new PendingCall({
    functionName: 'f',
    requestId: 'r',
    caller: 'c',
    head: '{}',
    body: Buffer.alloc(0),
    serviceRole: false,
    timeoutMs: 60_000,
  });
}

const makeAnswer = (head: unknown): Buffer => Buffer.concat(withHead(toJson(head), Buffer.from('body')));

test.each([
  ['an answer without a status', FROM_WORKER.answer, makeAnswer({ headers: [] })],
  ['an answer with broken headers', FROM_WORKER.answer, makeAnswer({ status: 200, headers: [[1]] })],
  ['an answer that is not JSON', FROM_WORKER.answer, Buffer.from('\x02\0\0\0no')],
  ['an answer that is too short', FROM_WORKER.answer, Buffer.from('x')],
  ['the head of a stream', FROM_WORKER.head, toJson({ status: 7, headers: [] })],
  ['a failure that is null', FROM_WORKER.failed, toJson(null)],
  ['a failure of an unknown kind', FROM_WORKER.failed, toJson({ kind: 'other', message: 'm' })],
])('a call ends with 502 when its worker sends %s', async (_name, type, payload) => {
  const started = await start(type, payload);
  const pending = call();
  started.run(pending);
  const error: unknown = await pending.answer.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Problem);
  expect(error).toMatchObject({ code: 'worker_died', status: 502 });
  expect(started.inFlight).toBe(0);
  expect(started.state).toBe('dead');
});

test.each([
  ['null', toJson(null)],
  ['a failure without a kind', toJson({ name: 'f', ms: 1, failure: {} })],
])('a function is not loaded when its worker sends %s', async (_name, payload) => {
  const started = await start(FROM_WORKER.loaded, payload);
  expect(await started.load('f')).toMatchObject({ name: 'f', failure: { kind: 'load' } });
});
