// The location of files, and errors of it, are for operators and not for callers.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createLog } from '../../../src/log/log.ts';
import { call } from '../conformance/http.ts';
import { aBucket, createWorld } from '../conformance/world.ts';

test('an unusable location is in the log and in no response', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-secret-place-'));
  const file = join(directory, 'no-directory');
  await writeFile(file, '');
  let lines = '';
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString();
      done();
    },
  });
  const world = await createWorld({
    buckets: [aBucket('b', { public: true })],
    provider: { type: 'local', path: file },
    log: createLog({ level: 'info', destination }),
  });
  try {
    const answer = await call('GET', `${world.url}/object/public/b/x`);
    expect([answer.status, answer.json.code]).toEqual([500, 'storage_directory']);
    expect(answer.text).not.toContain('no-directory');
    expect(lines).toContain('no-directory');
  } finally {
    await world.stop();
    await rm(directory, { recursive: true });
  }
});
