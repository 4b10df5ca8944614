// kill -9 during uploads, overwrites, moves, copies and deletions. Afterwards every object is complete and was
// uploaded under its name, no acknowledged write is lost, and after the sweep the store contains only bytes of
// objects. SVC_TEST_CRASH_ROUNDS sets the number of rounds.
import { createHash, randomInt } from 'node:crypto';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { S3Backend } from '../../../src/storage/backend/s3.ts';
import { until } from '../conformance/http.ts';
import { storedFiles } from '../conformance/stored-files.ts';
import { s3Server, s3ServerAvailable } from '../conformance/s3-server.ts';
import { rounds } from '../../support/rounds.ts';
import type { SvcProcess } from '../../support/svc-process.ts';
import { createStorageProject, type StorageProject } from './project.ts';
import { scaled } from '../../support/run/scaled.ts';

const ROUNDS = rounds(1, 5, 'SVC_TEST_CRASH_ROUNDS');
const WRITERS = 8;
const NAMES_PER_WRITER = 6;

/** Returns recognisable bytes: the first line determines the rest. */
function content(seed: string): Buffer {
  const bytes = Number.parseInt(createHash('md5').update(seed).digest('hex').slice(0, 5), 16) % 200_000;
  const pattern = createHash('sha512').update(seed).digest();
  const body = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at += pattern.length) pattern.copy(body, at);
  return Buffer.concat([Buffer.from(`${seed}\n`), body]);
}

/** Returns the seed of a body if every byte matches it. */
function recognise(body: Buffer): string | undefined {
  const seed = body.subarray(0, Math.max(0, body.indexOf(10))).toString();
  return body.equals(content(seed)) ? seed : undefined;
}

/** Possible contents of a name: seeds, and null for none. Several only after a request without a response. */
type Ledger = Map<string, Set<string | null>>;

function possible(ledger: Ledger, name: string): Set<string | null> {
  return ledger.get(name) ?? new Set([null]);
}

async function work(
  svc: SvcProcess,
  writer: number,
  round: number,
  ledger: Ledger,
  onAnswer: () => void,
): Promise<number> {
  const headers = { apikey: svc.secretKey, authorization: `Bearer ${svc.secretKey}` };
  const names = Array.from({ length: NAMES_PER_WRITER }, (_, n) => `w${writer}/n${n}`);
  const pick = (): string => names[randomInt(names.length)] ?? '';
  const json = { ...headers, 'content-type': 'application/json' };
  for (let done = 0; ; done++) {
    const name = pick();
    const otherName = pick();
    const before = possible(ledger, name);
    const kind = randomInt(10);
    let url = `${svc.url}/storage/v1/object/work/${name}`;
    let request: RequestInit;
    /** Contents if the request succeeded. */
    let after: Array<[string, Set<string | null>]>;
    if (kind < 6) {
      const seed = `${round}.${writer}.${done}`;
      request = {
        method: 'POST',
        headers: { ...headers, 'x-upsert': 'true' },
        body: new Uint8Array(content(seed)),
      };
      after = [[name, new Set([seed])]];
    } else if (kind < 8) {
      request = { method: 'DELETE', headers };
      after = [[name, new Set([null])]];
    } else {
      url = `${svc.url}/storage/v1/object/${kind === 8 ? 'move' : 'copy'}`;
      request = {
        method: 'POST',
        headers: { ...json, 'x-upsert': 'true' },
        body: JSON.stringify({ bucketId: 'work', sourceKey: name, destinationKey: otherName }),
      };
      const moved: Array<[string, Set<string | null>]> = [[otherName, before]];
      if (kind === 8 && name !== otherName) moved.push([name, new Set([null])]);
      after = moved;
    }
    const status = await fetch(url, request).then(
      async (response) => {
        await response.arrayBuffer();
        return response.status;
      },
      () => 0,
    );
    if (status === 0) {
      // Without a response, the request may or may not have been executed.
      for (const [changed, then] of after)
        ledger.set(changed, new Set([...possible(ledger, changed), ...then]));
      return done;
    }
    onAnswer();
    if (status === 200) for (const [changed, then] of after) ledger.set(changed, new Set(then));
    else if (status !== 400) throw new Error(`status ${status}`);
  }
}

async function verify(project: StorageProject, svc: SvcProcess, ledger: Ledger): Promise<void> {
  const client = new pg.Client({ connectionString: project.databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>('select name from storage.objects');
    const stored = new Map<string, string | null>();
    for (const { name } of rows) {
      const response = await fetch(`${svc.url}/storage/v1/object/work/${name}`, {
        headers: { apikey: svc.secretKey },
      });
      expect(response.status, name).toBe(200);
      const seed = recognise(Buffer.from(await response.arrayBuffer()));
      expect(seed, `${name} contains bytes that were never uploaded`).toBeDefined();
      stored.set(name, seed ?? null);
    }
    for (const [name, seeds] of ledger) {
      expect([...seeds], name).toContain(stored.get(name) ?? null);
      ledger.set(name, new Set([stored.get(name) ?? null]));
    }
  } finally {
    await client.end();
  }
}

/** Simulates that the deadline of every upload and every grace period has passed. */
async function sweep(project: StorageProject): Promise<Set<string>> {
  const client = new pg.Client({ connectionString: project.databaseUrl });
  await client.connect();
  try {
    await client.query("update storage.pending_blobs set expires_at = 'epoch'");
    await expect
      .poll(
        async () => {
          await client.query("update storage.blob_gc set queued_at = 'epoch', retry_at = 'epoch'");
          const { rows } = await client.query<{ left: number }>(
            'select ((select count(*) from storage.pending_blobs) + ' +
              '(select count(*) from storage.blob_gc))::int as left',
          );
          return rows[0]?.left;
        },
        { interval: 200 },
      )
      .toBe(0);
    const { rows } = await client.query<{ version: string }>('select version from storage.objects');
    return new Set(rows.map((row) => row.version));
  } finally {
    await client.end();
  }
}

async function killRepeatedly(project: StorageProject, listBlobs: () => Promise<string[]>): Promise<void> {
  const ledger: Ledger = new Map();
  let svc = await project.start();
  let requests = 0;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const server = svc;
      let answered = 0;
      const working = Promise.all(
        Array.from({ length: WRITERS }, (_, writer) =>
          work(server, writer, round, ledger, () => (answered += 1)),
        ),
      );
      const enough = 20 + randomInt(60);
      await until(() => answered >= enough, 'enough answers', 60_000);
      server.child.kill('SIGKILL');
      requests += (await working).reduce((sum, done) => sum + done, 0);
      await server.stop('SIGKILL');
      svc = await project.start();
      await verify(project, svc, ledger);
    }
    expect(requests).toBeGreaterThan(ROUNDS * 10);
    const versions = await sweep(project);
    expect((await listBlobs()).sort()).toEqual([...versions].sort());
    await verify(project, svc, ledger);
    console.info(`${ROUNDS} kills in ${requests} requests`);
  } finally {
    await svc.stop('SIGKILL');
  }
}

const TIMEOUT_MS = scaled(60_000 + ROUNDS * 30_000);

test('killed on a local directory', { timeout: TIMEOUT_MS }, async () => {
  const project = await createStorageProject();
  try {
    await killRepeatedly(project, () => storedFiles(join(project.directory, 'files')));
  } finally {
    await project.remove();
  }
});

describe.skipIf(!s3ServerAvailable())('killed on an S3-compatible store', () => {
  test('killed', { timeout: TIMEOUT_MS }, async () => {
    const server = await s3Server();
    await server.createBucket('crash');
    const { endpoint, accessKeyId, secretAccessKey } = server;
    const project = await createStorageProject({ server, bucket: 'crash' });
    const backend = new S3Backend({
      bucket: 'crash',
      region: undefined,
      endpoint,
      accessKeyId,
      secretAccessKey,
    });
    try {
      await killRepeatedly(project, async () => {
        const blobs: string[] = [];
        for await (const blob of backend.list()) blobs.push(blob.version);
        return blobs;
      });
    } finally {
      backend.close();
      await project.remove();
    }
  });
});
