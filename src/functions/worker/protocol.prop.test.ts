import { PassThrough } from 'node:stream';
import { once } from 'node:events';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, FrameWriter, splitHead, withHead } from './protocol.ts';

type Frame = { type: number; id: number; payload: Buffer };

const frame = fc.record({
  type: fc.integer({ min: 1, max: 255 }),
  id: fc.integer({ min: 0, max: 0xffffffff }),
  payload: fc
    .oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.nat(200_000).map((size) => new Uint8Array(size).fill(size & 255)),
    )
    .map((bytes) => Buffer.from(bytes)),
});

test('frames survive any chunking of the stream', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(frame, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1, maxLength: 20 }),
      async (frames, cuts) => {
        const stream = new PassThrough({ highWaterMark: 1 << 30 });
        const writer = new FrameWriter(stream);
        for (const { type, id, payload } of frames) writer.send(type, id, payload);
        writer.flush();
        stream.end();
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        await once(stream, 'end');
        const bytes = Buffer.concat(chunks);
        const seen: Frame[] = [];
        const reader = new FrameReader((type, id, payload) =>
          seen.push({ type, id, payload: Buffer.from(payload) }),
        );
        for (let at = 0, n = 0; at < bytes.length; n++) {
          const size = cuts[n % cuts.length] ?? 1;
          reader.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(seen.length).toBe(frames.length);
        seen.forEach((message, n) => {
          expect([message.type, message.id]).toEqual([frames[n]?.type, frames[n]?.id]);
          expect(message.payload.equals(frames[n]?.payload ?? Buffer.alloc(0))).toBe(true);
        });
      },
    ),
    { numRuns: 60 },
  );
});

test('splitHead reverses withHead', () => {
  const [length, head, body] = withHead(Buffer.from('{"a":1}'), Buffer.from([0, 1, 2]));
  const split = splitHead(Buffer.concat([length!, head!, body!]));
  expect(split.head.toString()).toBe('{"a":1}');
  expect([...split.body]).toEqual([0, 1, 2]);
});
