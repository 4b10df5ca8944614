import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Message } from './pgoutput.ts';
import { plainStream } from '../wire/byte-stream.ts';
import { ReplicationStream } from './replication-stream.ts';

let server: Duplex;
let stream: ReplicationStream;
const heard: bigint[] = [];
let enoughAt: bigint | undefined;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
  heard.length = 0;
  enoughAt = undefined;
  server = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  stream = new ReplicationStream(plainStream(server), 'slot', 'publication', {
    onMessage: (message: Message) => {
      if (message.kind !== 'commit') return;
      heard.push(message.lsn);
      if (message.lsn === enoughAt) stream.pause();
    },
    onLost: () => {},
  });
});

afterEach(() => {
  server.destroy();
  vi.useRealTimers();
});

/** Each in a chunk of its own, as a server sends small transactions that come one after the other. */
async function commit(from: number, to: number): Promise<void> {
  for (let lsn = from; lsn <= to; lsn++) {
    server.push(commitAt(BigInt(lsn)));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** CopyData with XLogData with Commit. */
function commitAt(lsn: bigint): Buffer {
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

test('however many small transactions come while they are gathered, all are read together', async () => {
  await commit(1, 100);
  // It came as soon as somebody listened, so that the rest waits a moment.
  expect(heard).toEqual(upTo(1));
  await vi.advanceTimersByTimeAsync(5);
  expect(heard).toEqual(upTo(100));
});

test('what is paused while it gathers is read when it may go on, and not before', async () => {
  await commit(1, 10);
  stream.pause();
  await vi.advanceTimersByTimeAsync(50);
  await commit(11, 20);
  expect(heard).toEqual(upTo(1));
  stream.resume();
  expect(heard).toEqual(upTo(20));
});

test('who has enough of what was gathered is sent nothing more until it goes on', async () => {
  enoughAt = 5n;
  await commit(1, 10);
  await vi.advanceTimersByTimeAsync(5);
  await commit(11, 20);
  // What was read together with it has come already.
  expect(heard).toEqual(upTo(10));
  stream.resume();
  expect(heard).toEqual(upTo(20));
});
