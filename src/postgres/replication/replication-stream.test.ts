import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Message } from './pgoutput.ts';
import { plainStream } from '../wire/byte-stream.ts';
import { ReplicationStream } from './replication-stream.ts';

let server: Duplex;
let stream: ReplicationStream;
const received: bigint[] = [];
let pauseAt: bigint | undefined;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
  received.length = 0;
  pauseAt = undefined;
  server = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  stream = new ReplicationStream(plainStream(server), 'slot', 'publication', {
    onMessage: (message: Message) => {
      if (message.kind !== 'commit') return;
      received.push(message.lsn);
      if (message.lsn === pauseAt) stream.pause();
    },
    onLost: () => {},
  });
});

afterEach(() => {
  server.destroy();
  vi.useRealTimers();
});

/** Sends each commit in its own chunk, as a server sends small consecutive transactions. */
async function commit(from: number, to: number): Promise<void> {
  for (let lsn = from; lsn <= to; lsn++) {
    server.push(commitMessage(BigInt(lsn)));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Returns CopyData with XLogData with Commit. */
function commitMessage(lsn: bigint): Buffer {
  const bytes = Buffer.alloc(5 + 25 + 26);
  bytes.write('d');
  bytes.writeUInt32BE(bytes.length - 1, 1);
  bytes.write('w', 5);
  bytes.write('C', 30);
  bytes.writeBigUInt64BE(lsn, 32);
  bytes.writeBigUInt64BE(lsn, 40);
  return bytes;
}

const upTo = (last: number): bigint[] => Array.from({ length: last }, (_, at) => BigInt(at + 1));

test('small transactions that arrive during the pause are read together', async () => {
  await commit(1, 100);
  // The first arrived right after the start, so the rest waits for the pause.
  expect(received).toEqual(upTo(1));
  await vi.advanceTimersByTimeAsync(5);
  expect(received).toEqual(upTo(100));
});

test('a stream that is paused during its short pause is read after resume, and not before', async () => {
  await commit(1, 10);
  stream.pause();
  await vi.advanceTimersByTimeAsync(50);
  await commit(11, 20);
  expect(received).toEqual(upTo(1));
  stream.resume();
  expect(received).toEqual(upTo(20));
});

test('a reader that pauses in the middle of a chunk receives nothing more until resume', async () => {
  pauseAt = 5n;
  await commit(1, 10);
  await vi.advanceTimersByTimeAsync(5);
  await commit(11, 20);
  // The rest of the chunk was emitted already.
  expect(received).toEqual(upTo(10));
  stream.resume();
  expect(received).toEqual(upTo(20));
});
