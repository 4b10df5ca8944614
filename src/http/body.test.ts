import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { readBody } from './body.ts';

/** A body without a declared length, in two chunks. */
const chunked = (bytes: number): Readable => Readable.from([Buffer.alloc(3), Buffer.alloc(bytes - 3)]);

test('a body of exactly the limit is read', async () => {
  expect(await readBody(chunked(8), 8)).toHaveLength(8);
  expect(await readBody(chunked(8), 8, '8')).toHaveLength(8);
});

test.each([undefined, '9'])(
  'a body one byte above the limit is refused, declared length %s',
  async (length) => {
    await expect(readBody(chunked(9), 8, length)).rejects.toMatchObject({
      code: 'body_too_large',
      status: 413,
    });
  },
);
