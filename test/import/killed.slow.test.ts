// kill -9 of an import during rows, files and the cut-over. The same command again completes the import, without
// duplicates.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { LAUNCHER, NODE, runSvc } from '../support/svc-process.ts';
import { createTypicalProject, IDS, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
tables:
  many:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: text, type: text }]
    rls: [{ operations: [select], using: "true" }]
  visits:
    fields: [{ name: page, type: text }, { name: at, type: timestamptz }]
    rls: []
storage: { pictures: { public: true } }
`;
const KEY = 'sb_secret_of_the_source';
const ROWS = 30_000;
const FILES = 20;
/** The storage API sends half of this file and then stalls. It was uploaded in odd parts. */
const STALLING = 'file 7.bin';

let project: SupabaseProject;
let world: BackendWorld;
let api: Server;
let stalled: PromiseWithResolvers<void> | undefined;

const fileContent = (name: string): Buffer => Buffer.alloc(200_000, name);

beforeAll(async () => {
  project = await createTypicalProject();
  await project.query(`
    create table public.many (id bigint primary key, text text);
    insert into public.many select n, 'text ' || n from generate_series(1, ${ROWS}) n`);
  for (let number = 1; number <= FILES; number += 1) await addFile(`file ${number}.bin`);
  api = createServer((request, response) => {
    const name =
      decodeURIComponent(request.url ?? '')
        .split('/')
        .at(-1) ?? '';
    const content = fileContent(name);
    response.writeHead(200, { 'content-length': content.length });
    if (name !== STALLING || stalled === undefined) response.end(content);
    else response.write(content.subarray(0, content.length / 2), () => stalled?.resolve());
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  world = await startBackendWorld(FILE, { files: { 'note.txt': '' } });
});
afterAll(async () => {
  await world?.close();
  await project?.drop();
  api?.closeAllConnections();
  api?.close();
});

async function addFile(name: string): Promise<void> {
  const content = fileContent(name);
  const parts = name === STALLING ? '-9' : '';
  const eTag = `"${createHash('md5').update(content).digest('hex')}${parts}"`;
  await project.query(
    `insert into storage.objects (bucket_id, name, owner_id, metadata, version)
     values ('pictures', $1, $2, $3, gen_random_uuid())`,
    [name, IDS.ann, JSON.stringify({ eTag, size: content.length, mimetype: 'image/png' })],
  );
}

const env = () => ({
  SVC_DATABASE_URL: world.databaseUrl,
  SVC_IMPORT_SOURCE_URL: project.url,
  SVC_IMPORT_API_KEY: KEY,
  SVC_SECRET_KEY: world.keys.secret,
  SVC_PUBLISHABLE_KEY: world.keys.publishable,
});

const svc = async (...args: string[]) =>
  await runSvc(['import', 'supabase', ...args], { env: env(), cwd: world.directory });

/** Starts a command and kills it once `isInTheMiddle` returns true. */
async function killed(args: readonly string[], isInTheMiddle: () => Promise<void>): Promise<void> {
  const child = spawn(NODE, [LAUNCHER, 'import', 'supabase', ...args], {
    env: { ...process.env, ...env() },
    cwd: world.directory,
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  try {
    const early = ended.then(() => Promise.reject(new Error('it ended before it was in the middle')));
    await Promise.race([isInTheMiddle(), early]);
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** Kills a command while the import's statement waits for a row that another session is inserting. */
async function killedAtRow(id: number, statement: RegExp, ...args: string[]): Promise<void> {
  const blocker = new pg.Client({ connectionString: world.databaseUrl });
  await blocker.connect();
  await blocker.query(`begin; insert into public.many values (${id}, 'of another session')`);
  try {
    await killed(args, async () => {
      await expect
        .poll(async () => {
          const waiting = await world.owner.query<{ query: string }>(
            raw(`select query from pg_stat_activity where datname = current_database()
              and application_name = 'svc-import' and wait_event_type = 'Lock'`),
          );
          return waiting.map(({ query }) => query).join();
        })
        .toMatch(statement);
    });
  } finally {
    await blocker.query('rollback');
    await blocker.end();
  }
}

/** Returns counts and checksums of both sides. */
async function expectEqualSides(): Promise<void> {
  for (const table of ['public.many', 'public.visits']) {
    const query = `select count(*)::int as rows, md5(string_agg(t::text, ',' order by t::text collate "C")) as sum
      from (select to_jsonb(t) from ${table} t) t`;
    expect(await world.owner.query(raw(query))).toEqual((await project.query(query)).rows);
  }
  const users = 'select id, email from auth.users order by id';
  expect(await world.owner.query(raw(users))).toEqual((await project.query(users)).rows);
}

const stateOfImport = async () => await world.owner.query(raw('select state from svc_meta.import'));

const restStatus = async (): Promise<number> => {
  const response = await fetch(`${world.url}/rest/v1/many?limit=1`, {
    headers: { apikey: world.keys.publishable },
  });
  return response.status;
};

test('an import killed during the rows completes on the next run', async () => {
  await killedAtRow(ROWS / 2, /^copy .*"many"/i, 'copy');
  const [left] = await world.owner.query(
    raw(`select (select count(*)::int from public.many) as rows, (select count(*)::int from auth.users) as users,
      (select count(*)::int from svc_meta.import) as imports`),
  );
  expect(left).toEqual({ rows: 0, users: 0, imports: 0 });
  const again = await svc('copy');
  expect(again.output).toContain(`public.many: ${ROWS} added, 0 changed, 0 removed`);
  await expectEqualSides();
  expect((await svc('copy')).output).not.toMatch(/public\.\w+:/);
});

test('an import killed during a file completes on the next run', async () => {
  const files = ['files', '--api', `http://127.0.0.1:${(api.address() as AddressInfo).port}`];
  const countFiles = async () =>
    await world.owner.query(raw('select count(*)::int as files from storage.objects'));
  stalled = Promise.withResolvers();
  await killed(files, async () => {
    await stalled?.promise;
    await expect.poll(countFiles).toEqual([{ files: FILES - 1 }]);
  });
  stalled = undefined;
  // The upload is recorded, so the leftover is deleted later.
  const pending = raw('select name from storage.pending_blobs');
  expect(await world.owner.query(pending)).toEqual([{ name: STALLING }]);
  const again = await svc(...files);
  expect(again.output).toContain(`files: 1 copied, ${FILES - 1} unchanged, 0 removed`);
  expect(again.output).toMatch(/^1 of them were compared only by size, .*\n {2}pictures\/file 7\.bin$/m);
  expect(again.code).toBe(0);
  const names = `select id, name, metadata ->> 'eTag' as tag, metadata ->> 'size' as size
    from storage.objects order by name`;
  expect(await world.owner.query(raw(names))).toEqual((await project.query(names)).rows);
  expect((await svc('verify')).output).toBe('Both sides are equal.\n');
});

test('after a kill during the cut-over nothing is open until a cut-over completes', async () => {
  await project.query(`
    insert into public.many values (${ROWS + 1}, 'late');
    update public.many set text = 'changed' where id = 5;
    delete from public.many where id = 6;
    delete from auth.users where id = '${IDS.cat}'`);
  await killedAtRow(ROWS + 1, /insert into "public"\."many"/, 'cut-over', '--yes');
  await expect.poll(stateOfImport).toEqual([{ state: 'ready' }]);
  expect(await restStatus()).toBe(503);
  expect(await world.owner.query(raw('select text from public.many where id = 5'))).toEqual([
    { text: 'text 5' },
  ]);
  const again = await svc('cut-over', '--yes');
  expect(again.output).toContain('public.many: 1 added, 1 changed, 1 removed');
  expect(again.output).toContain('The database is open for requests.');
  await expectEqualSides();
  expect(await stateOfImport()).toEqual([{ state: 'cut over' }]);
  await expect.poll(restStatus).toBe(200);
  const files = await fetch(`${world.url}/storage/v1/object/public/pictures/${encodeURIComponent(STALLING)}`);
  expect(Buffer.from(await files.arrayBuffer()).equals(fileContent(STALLING))).toBe(true);
});
