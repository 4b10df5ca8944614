// COPY to a stream that takes its time.
import { createHash } from 'node:crypto';
import { Writable } from 'node:stream';
import pg from 'pg';
import { expect, inject, test } from 'vitest';
import { copyOut } from './copy.ts';

test('what a slow stream keeps is what the server sent', async () => {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    const rows = `select i, repeat(md5(i::text), 1 + i % 7) from generate_series(1, 60000) i`;
    const { rows: found } = await client.query<{ hash: string }>(
      `select md5(string_agg(i || E'\\t' || t || E'\\n', '' order by i)) as hash from (${rows}) as r (i, t)`,
    );
    const hash = createHash('md5');
    const slow = new Writable({
      highWaterMark: 200_000,
      writev(chunks, done) {
        setImmediate(() => {
          for (const { chunk } of chunks) hash.update(chunk as Buffer);
          done();
        });
      },
    });
    expect(await copyOut({ client, statement: `copy (${rows}) to stdout` }, slow)).toBe(60_000);
    await new Promise((resolve) => slow.end(resolve));
    expect(hash.digest('hex')).toBe(found[0]?.hash);
  } finally {
    await client.end();
  }
});
