// Runs the code blocks of the docs unchanged: commands, programs and statements. Addresses, keys and omitted names
// are filled in. A block that cannot run has a comment with the reason above it; their number is counted.
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { parseAst } from 'rolldown/parseAst';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadSqlParser, parseSql } from '../src/config/sql/parser.ts';
import { freePort } from '../src/lib/free-port.ts';
import { createTypicalProject, type SupabaseProject } from './import/supabase-project.ts';
import { s3Server, s3ServerAvailable } from './storage/conformance/s3-server.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { readBlocks, PAGES, ROOT, type Block } from './support/documentation/blocks.ts';
import { LAUNCHER, NODE, runSvc, startSvc, type SvcProcess } from './support/svc-process.ts';

const BLOCKS = PAGES.flatMap((page) => readBlocks(page));
const RUNNABLE = new Set(['sh', 'js', 'ts', 'jsx', 'sql']);
const isNotRun = ({ comment }: Block): boolean => comment?.startsWith('not run: ') ?? false;
/** Number of blocks that are not run. It may only decrease, and the test requires the exact number. */
const NOT_RUN = 11;

/** Pages whose blocks are run by a separate test. */
const SEPARATELY_TESTED_PAGES: Readonly<Record<string, string>> = {
  'docs/tutorial.md': 'tutorials/from-an-empty-folder.slow.test.ts',
  'docs/from-pocketbase.md': 'tutorials/coming-from.pg.test.ts',
  'docs/from-firebase.md': 'tutorials/coming-from.pg.test.ts',
  'docs/from-postgrest.md': 'tutorials/coming-from.pg.test.ts',
  'docs/chat.md': 'documentation.test.ts',
  'docs/documents.md': 'documentation.test.ts',
  'docs/shop.md': 'documentation.test.ts',
  'docs/how-to/avatars.md': 'how-to/files.pg.test.ts',
  'docs/how-to/bulk-writes.md': 'how-to/data.pg.test.ts',
  'docs/how-to/call-a-service.md': 'how-to/functions.pg.test.ts',
  'docs/how-to/cron.md': 'how-to/schedules.pg.test.ts',
  'docs/how-to/csv.md': 'how-to/data.pg.test.ts',
  'docs/how-to/full-text-search.md': 'how-to/data.pg.test.ts',
  'docs/how-to/invitations.md': 'how-to/tenants.pg.test.ts',
  'docs/how-to/live-list.md': 'how-to/functions.pg.test.ts',
  'docs/how-to/magic-link.md': 'how-to/people.pg.test.ts',
  'docs/how-to/multi-tenant.md': 'how-to/tenants.pg.test.ts',
  'docs/how-to/pagination.md': 'how-to/data.pg.test.ts',
  'docs/how-to/payment-webhook.md': 'how-to/functions.pg.test.ts',
  'docs/how-to/private-files.md': 'how-to/files.pg.test.ts',
  'docs/how-to/profiles.md': 'how-to/people.pg.test.ts',
  'docs/how-to/roles.md': 'how-to/people.pg.test.ts',
  'docs/how-to/custom-claims.md': 'how-to/people.pg.test.ts',
  'docs/how-to/second-factor.md': 'how-to/people.pg.test.ts',
  'docs/how-to/share-link.md': 'how-to/people.pg.test.ts',
  'docs/how-to/soft-delete.md': 'how-to/data.pg.test.ts',
  'docs/how-to/test-policies.md': 'how-to/testing.pg.test.ts',
  'docs/how-to/typescript.md': 'how-to/testing.pg.test.ts',
};

/** Blocks that a separate test runs, by their first words: they need a release, or another version. */
const SEPARATELY_TESTED_BLOCKS: Readonly<Record<string, string>> = {
  'npm create svcyaml my-app': 'package/published.slow.test.ts',
  'npm install svcyaml': 'package/published.slow.test.ts',
  'svc db upgrade': 'versions/upgrade.pg.test.ts',
  'create extension pg_stat_statements': 'dashboard/statements.pg.test.ts',
  'pg_dump --format=custom --file=project.dump "$SVC_IMPORT_SOURCE_URL"': 'import/restored-dump.pg.test.ts',
  'svc import supabase report --from project.dump': 'import/restored-dump.pg.test.ts',
  'svc import supabase forget project.dump': 'import/restored-dump.pg.test.ts',
};

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const OWN = '[{ operations: [all], to: authenticated, check: "true" }]';
const PROJECT = `version: 1
auth: { email: {} }
tables:
  notes: { fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text },
      { name: done, type: boolean }], rls: ${OWN} }
  lists: { fields: [{ name: id, type: bigserial, primary_key: true }, { name: title, type: text }], rls: ${OWN} }
  todos: { fields: [{ name: id, type: bigserial, primary_key: true }, { name: title, type: text },
      { name: status, type: text }, { name: list_id, foreign_key: { references: lists.id } }], rls: ${OWN} }
  orders: { fields: [{ name: id, type: bigserial, primary_key: true }], rls: ${OWN} }
  order_items: { fields: [{ name: id, type: bigserial, primary_key: true },
      { name: order_id, foreign_key: { references: orders.id } }, { name: price, type: numeric }], rls: ${OWN} }
  messages: { realtime: true,
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }], rls: ${OWN} }
  people: { fields: [{ name: id, type: bigserial, primary_key: true }, { name: name, type: text },
      { name: first, type: text }, { name: last, type: text }], rls: ${OWN} }
  profiles: { fields: [{ name: id, type: uuid, primary_key: true }, { name: full_name, type: text }], rls: ${OWN} }
storage:
  documents: { rls: ${OWN} }
functions:
  handler: { runtime: node, file: handler.js }
  ticks: { runtime: node, file: ticks.js }
  webhook: { runtime: node, file: webhook.js, env: { WEBHOOK_SECRET: of the webhook } }
`;

let folder: string;
let database: TestDatabase;
let svc: SvcProcess;

/** How to run a block, by its first words. Each must occur in a page. */
const RUNS: Readonly<Record<string, (code: string) => Promise<void> | void>> = {
  "curl 'http://localhost:8080/rest/v1/todos": (code) => expect(JSON.parse(sh(code))).toEqual([]),
  'curl -H "apikey: $SVC_PUBLISHABLE_KEY" http://localhost:8080/openapi.json': (code) => {
    sh(code);
    expect(readFileSync(join(folder, 'openapi.json'), 'utf8')).toContain('/auth/v1/signup');
  },
  'curl -H "apikey: $SVC_SECRET_KEY"': (code) => expect(JSON.parse(sh(code))).toBeDefined(),
  'svc sql ': async (code) => {
    await signUp('ada@example.com');
    writeFileSync(join(folder, 'mend.sql'), "insert into notes (body) values ('a'); delete from notes;");
    // svc asks for confirmation on a server that is not part of `svc dev`.
    sh(code.replace('--write', '--write --yes'));
  },
  'source <(svc complete bash)': (code) => expect(sh(`${code}\ncomplete -p svc`)).toContain('svc'),
  'svc validate --format': (code) => void sh(code),
  'svc doctor': (code) => expect(sh(code)).toMatch(/database/),
  'svc keys list': (code) => {
    writeFileSync(join(folder, 'old-jwt-secret.txt'), 'a secret of at least thirty-two characters');
    const kid = (): string => sh('svc keys list').split(/\s/, 1)[0] ?? '';
    for (const line of code.trim().split('\n')) sh(line.replace('<kid>', kid()));
    expect(sh('svc keys list')).toMatch(/HS256/);
  },
  'svc keys alias add': (code) => {
    writeFileSync(join(folder, 'old-anon-key.txt'), 'sb_publishable_cccccccccccccccccccccc');
    const [add = '', list = '', remove = ''] = code.trim().split('\n');
    sh(add);
    const id = sh(list).split(/\s/, 1)[0] ?? '';
    sh(remove.replace('<id>', id));
    expect(sh(list)).not.toContain(id);
  },
  'export SVC_DATABASE_URL=postgres://postgres:…@db.internal/app\nsvc migrate pull': async (code) => {
    const database = await createDatabase();
    await query('create table films (id bigint primary key, title text)', database.url);
    const empty = mkdtempSync(join(folder, 'empty-'));
    sh(code.replace('postgres://postgres:…@db.internal/app', database.url), empty);
    expect(readFileSync(join(empty, 'svc.yaml'), 'utf8')).toContain('films');
    await database.drop();
  },
  'svc functions new hello': async (code) => {
    const database = await createDatabase();
    const made = mkdtempSync(join(folder, 'functions-'));
    writeFileSync(join(made, 'svc.yaml'), 'version: 1\n');
    const [begin = '', dev, ask = ''] = code.trim().split('\n');
    expect(dev).toBe('svc dev');
    sh(begin, made);
    const running = await startSvc({
      command: 'dev',
      config: join(made, 'svc.yaml'),
      cwd: made,
      env: { SVC_DATABASE_URL: database.url },
    });
    expect(sh(ask.replace('http://localhost:8080', running.url))).toMatch(/hello/i);
    await running.stop();
    await database.drop();
  },
  // Its packages are already installed.
  'npm install && npm run dev': (code) =>
    inNewProject(async (_, url) =>
      serves(code.replace('npm install && npm run dev', 'npm run dev --'), makeClone(), url),
    ),
  'npm run dev -- --config examples/': (code) =>
    inNewProject(async (_, url) => {
      const clone = makeClone();
      const [backend = '', page = ''] = code.trim().split('\n');
      await serves(backend, clone, url, () => serves(page, clone, url));
    }),
  'svc dev  ': async (code) => {
    const [first = '', second = ''] = code.trim().split('\n');
    await inNewProject(async (directory, url) => {
      await serves(first, directory, url);
      mkdirSync(join(directory, 'path/to'), { recursive: true });
      writeFileSync(join(directory, 'path/to/svc.yaml'), 'version: 1\n');
      await serves(second, directory, url);
    });
  },
  'SVC_DATABASE_URL=postgres://postgres:…@db.internal/app svc migrate plan': (code) =>
    inNewProject(async (directory, url) => {
      copyProject(directory);
      const [plan = '', serve = ''] = code
        .replaceAll('postgres://postgres:…@db.internal/app', url)
        .trim()
        .split('\n');
      expect(sh(plan, directory, url)).toContain('notes');
      await serves(serve, directory, url, () => query('select from notes', url));
    }),
  'SVC_DATABASE_URL=postgres://… SVC_PUBLISHABLE_KEY=… SVC_SECRET_KEY=… svc serve': (code) =>
    inNewProject(async (directory, url) => {
      const [, , rest = ''] = /^(.*) (svc serve.*)$/s.exec(code.trim()) ?? [];
      const { SVC_PUBLISHABLE_KEY: publishable, SVC_SECRET_KEY: secret } = KEYS;
      const own = `SVC_DATABASE_URL=${url} SVC_PUBLISHABLE_KEY=${publishable} SVC_SECRET_KEY=${secret}`;
      await serves(`${own} ${rest}`, directory, url);
    }),
  'SVC_SECRET_KEY=svc_secret_new… SVC_SECRET_KEY_PREVIOUS': (code) =>
    inNewProject(async (directory, url) => {
      await serves('svc serve --migrate', directory, url);
      const changed = code
        .replace('svc_secret_new…', 'svc_secret_nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn')
        .replace('svc_secret_old…', KEYS.SVC_SECRET_KEY);
      await serves(changed, directory, url);
    }),
  'svc config push svc.yaml --note': (code) =>
    inNewProject(async (directory, url) => {
      const [push = '', serve = ''] = code.trim().split('\n');
      sh(push, directory, url);
      await serves(serve, directory, url);
    }),
  'createdb app_restored': async (code) => {
    const [, restore = '', serve = ''] = code.trim().split('\n');
    const backups = join(folder, 'to-restore');
    sh(`svc backup --to ${backups}`);
    await inNewProject(async (directory, url) => {
      const here = (line: string): string =>
        line.replace('postgres://…/app_restored', url).replace('/var/backups/svc', backups);
      copyProject(directory);
      sh(here(restore), directory);
      await serves(here(serve), directory, url);
      await query('select from notes', url);
    });
  },
  'mkdir -p /var/backups/svc': (code) => {
    const [backups, table] = [join(folder, 'nightly'), join(folder, 'svc-backup')];
    sh(
      code
        .replaceAll('/var/backups/svc', backups)
        .replace('/etc/cron.d/svc-backup', table)
        .replace('svc:svc', '$(id -u):$(id -g)'),
    );
    // The first five fields are the schedule, the sixth is the user.
    const [, nightly = ''] = /^(?:\S+ ){5}svc (.*)$/m.exec(readFileSync(table, 'utf8')) ?? [];
    sh(onThisMachine(nightly, folder, database.url));
    expect(sh(`svc backup list --to ${backups}`)).toMatch(/\d/);
  },
  'cd /srv/app && set -a': async (code) => {
    const backups = join(folder, 'to-move');
    sh(`svc backup --to ${backups}`);
    await inNewProject(async (directory, url) => {
      copyProject(directory);
      sh(onThisMachine(code, directory, url).replace('/var/backups/svc', backups), directory);
      await query('select from notes', url);
    });
  },
  'export SVC_DEPLOY_TOKEN=': (code) =>
    inNewProject(async (directory, url) => serves(received(code, directory, url), directory, url)),
  'SVC_DEPLOY_TOKEN=… svc deploy': (code) =>
    inNewProject(async (directory, url) => {
      const [receive = ''] = CODE.filter((block) => block.code.includes('svc receive --dir')).map(
        (block) => block.code,
      );
      const token = 'a-token-that-both-sides-of-this-test-know';
      const server = received(receive, directory, url).replace('$(openssl rand -hex 32)', token);
      await serves(server, directory, url, (address) => {
        sh(code.replace('…', token).replace('https://api.example.com', address), directory, url);
        return Promise.resolve();
      });
      expect(readFileSync(join(directory, 'svc.yaml'), 'utf8')).toContain('project_id');
    }),

  // These blocks follow the order of their page: each continues where the previous one ended.
  'svc import supabase report': async (code) => expect(await moving(code)).toMatch(/users/),
  'svc import supabase prepare': async (code) => {
    await moving(code);
    await query('select from visits', (await theMove()).target.url);
  },
  'svc import supabase copy': async (code) => expect(await moving(code)).toContain('users: 3 added'),

  'SVC_IMPORT_API_KEY=': async (code) => {
    const { source, target, directory } = await theMove();
    await source.query(`insert into storage.objects (bucket_id, name, metadata, version)
      values ('pictures', 'a.txt', '{"size": 6, "mimetype": "text/plain"}', gen_random_uuid())`);
    const api = createServer((_request, response) => response.end('a file')).listen(0, 'localhost');
    await once(api, 'listening');
    const own = `http://localhost:${(api.address() as AddressInfo).port}`;
    const command =
      `export SVC_IMPORT_SOURCE_URL='${source.url}'\n` +
      code.replace('…', 'of_the_source').replace('https://<project>.supabase.co', own);
    // Unlike the others it runs asynchronously, because this process serves the API of the source at the same time.
    const { stdout } = await promisify(execFile)('bash', ['-e', '-c', command], {
      cwd: directory,
      env: environment(target.url),
    });
    api.close();
    expect(stdout).toContain('1 copied');
  },
  'svc import supabase changes': async (code) => {
    await moving('svc import supabase cut-over --yes --uncarried-factors drop');
    const { target, directory } = await theMove();
    await query("insert into visits (page) values ('of this side')", target.url);
    await moving(code);
    expect(readFileSync(join(directory, 'back/public.visits.inserted.csv'), 'utf8')).toContain(
      'of this side',
    );
  },

  'svc bundle  ': async (code) => {
    const [local = '', remote = ''] = code.trim().split('\n');
    const made = mkdtempSync(join(folder, 'bundle-'));
    copyProject(made);
    mkdirSync(join(made, 'functions'));
    writeFileSync(join(made, 'functions/package.json'), '{}');
    const nothing = JSON.stringify({ lockfileVersion: 3, packages: { '': {} } });
    writeFileSync(join(made, 'functions/package-lock.json'), nothing);
    sh(local, made);
    expect(existsSync(join(made, 'dist/functions.tgz'))).toBe(true);
    if (!s3ServerAvailable()) return;
    const store = await s3Server();
    const bucket = `releases-${database.name.replaceAll('_', '-')}`;
    await store.createBucket(bucket);
    const access =
      `export AWS_ENDPOINT_URL_S3=${store.endpoint} AWS_REGION=us-east-1 ` +
      `AWS_ACCESS_KEY_ID=${store.accessKeyId} AWS_SECRET_ACCESS_KEY=${store.secretAccessKey}`;
    sh(`${access}\n${remote.replace('s3://releases', `s3://${bucket}`)}`, made);
    expect(readFileSync(join(made, 'svc.yaml'), 'utf8')).toContain(`s3://${bucket}/todo/functions.tgz#`);
  },
  'npm install --prefix functions': (code) => {
    const made = mkdtempSync(join(folder, 'installs-'));
    mkdirSync(join(made, 'functions'));
    // Use the library of this clone, so that no registry is needed.
    const library = join(ROOT, 'node_modules/@supabase/supabase-js');
    sh(code.replace(/@supabase\/supabase-js@\S+/, library), made);
    expect(readFileSync(join(made, 'functions/package.json'), 'utf8')).toContain('"@supabase/supabase-js"');
  },
  'svc clone --from': async (code) => {
    const backups = join(folder, 'to-clone');
    sh(`svc backup --to ${backups} --engine copy`);
    // The database of svc dev runs as another user than root.
    chmodSync(folder, 0o755);
    await inNewProject(async (directory) => {
      chmodSync(directory, 0o755);
      const cloned = sh(`unset SVC_DATABASE_URL\n${code.replace('/var/backups/svc', backups)}`, directory);
      expect(cloned).toMatch(/^cloned backup .*users, 0 files/);
    });
  },
  'svc backup --to': (code) => void sh(code.replace('/var/backups/svc', join(folder, 'backups'))),

  'import { createClient }': async (code) => {
    const printed = runJs(code.includes('data') ? `${code}\nconsole.log(JSON.stringify(data));` : code);
    if (code.includes('insert')) expect(JSON.parse(printed)).toMatchObject([{ body: 'hello' }]);
  },
  "const { data, error } = await client.storage.from('documents')": (code) => {
    const file = "const file = new Blob(['a report'], { type: 'application/pdf' });";
    const out = runJs(
      `${SIGNED_IN}${file}\n${code}\nconsole.log(JSON.stringify([error, list.length, link.signedUrl]));`,
    );
    expect(JSON.parse(out)).toEqual([null, 1, expect.stringContaining('report.pdf')]);
  },
  'const upload = new tus.Upload': (code) => {
    const before = `import * as tus from 'tus-js-client';
const file = Buffer.from('a film');
const url = '${svc.url}';
const accessToken = (await client.auth.getSession()).data.session.access_token;\n`;
    const made = code.replace(
      'metadata:',
      'onSuccess: () => console.log("done"), onError: (error) => { throw error; }, metadata:',
    );
    expect(runJs(`${SIGNED_IN}${before}${made}\nupload.start();`)).toBe('done\n');
  },
  'const room = supabase': (code) => {
    const before = `const supabase = client;
const show = () => {}, list = () => {};
const add = ({ body }) => { console.log(body); process.exit(0); };
const load = () => setTimeout(() => client.from('messages').insert({ body: 'received' }).then(() => {}), 1000);\n`;
    expect(runJs(`${SIGNED_IN}${before}${code}`)).toBe('received\n');
  },
  'await client.realtime.setAuth();': (code) => {
    const before = `const { log } = console;\nconsole.log = ({ body }) => { log(body); process.exit(0); };
setTimeout(() => client.from('messages').insert({ body: 'received' }).then(() => {}), 1000);\n`;
    expect(runJs(`${SIGNED_IN}${before}${code}`)).toBe('received\n');
  },
  "supabase.from('orders')": (code) => {
    expect(
      runJs(
        `${SIGNED_IN}const supabase = client;\nconsole.log((await ${code.trim().replace(/;$/, '')}).status);`,
      ),
    ).toBe('200\n');
  },

  'export default async function (req, ctx)': async (code) => {
    writeFileSync(join(folder, 'handler.js'), code);
    const answer = await called('handler?name=Ann', (response) => response.headers.get('x-made-by') === 'me');
    expect(await answer.json()).toEqual({ hello: 'Ann' });
  },
  "const CORS = {\n  'access-control-allow-origin'": async (code) => {
    const handler = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as {
      default: (request: { method: string }) => Promise<{ status?: number; headers: Record<string, string> }>;
    };
    const preflight = await handler.default({ method: 'OPTIONS' });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-origin']).toBe('*');
    expect((await handler.default({ method: 'POST' })).headers).toEqual(preflight.headers);
  },
  'export default async (req, ctx) =>\n  new Response(': async (code) => {
    writeFileSync(join(folder, 'ticks.js'), code);
    const answer = await called(
      'ticks',
      (response) => response.headers.get('content-type') === 'text/event-stream',
    );
    const reader = answer.body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('data: tick\n\n');
    await reader?.cancel();
  },
  'import { createHmac, timingSafeEqual }': async (code) => {
    writeFileSync(join(folder, 'webhook.js'), code);
    await called('webhook', (response) => response.status === 401);
    const { createHmac } = await import('node:crypto');
    const signature = createHmac('sha256', 'of the webhook').update('paid').digest('hex');
    const send = async (body: string): Promise<number> =>
      (
        await fetch(`${svc.url}/functions/v1/webhook`, {
          method: 'POST',
          body,
          headers: { 'x-signature': signature },
        })
      ).status;
    expect([await send('paid'), await send('unpaid')]).toEqual([204, 401]);
  },
  "import { defineFunction } from 'svcyaml'": (code) => void typed(code),
  "import assert from 'node:assert'": (code) => {
    execFileSync(NODE, [typed(code)], { stdio: 'pipe' });
  },

  'grant select on monthly_totals': (code) =>
    inTransaction(`create view monthly_totals as select 1 as total; ${code}`),
  'update people set first': (code) => inTransaction(`insert into people (name) values ('Ann Lee'); ${code}`),
  'create role app_admin login': async (code) => {
    const [role, name] = [`admin_${database.name}`, `app_${database.name}`];
    const own = code
      .replaceAll('app_admin', role)
      .replace('create database app ', `create database ${name} `);
    try {
      for (const statement of own.split(';').filter((text) => text.trim() !== '')) await query(statement);
    } finally {
      await query(`drop database if exists ${name}`);
      await query(`drop role if exists ${role}`);
    }
  },
  // The roles already exist, so create them under other names.
  'create role svc_owner bypassrls': (code) => {
    const roles = /\b(?:svc_owner|anon|authenticated|service_role|authenticator|app_admin)\b/g;
    return inTransaction(`create role app_admin_2; ${code.replaceAll(roles, '$&_2')}`);
  },
  'create role pgbouncer login': (code) => inTransaction(code),
  'select application_name': (code) => inTransaction(code),
  '-- sql/new_user.sql': (code) => inTransaction(code),
  '-- sql/prices.sql': (code) => inTransaction(`create table addresses (city text, postcode text); ${code}`),
  '-- svc: renamed_from': (code) => inTransaction(code),
};

/** Type-checks the block strictly, like a project that has installed the package. */
function typed(code: string): string {
  const file = join(folder, 'defined.mts');
  // Map the package name to its source.
  writeFileSync(file, code.replace("'svcyaml'", `'${join(ROOT, 'src/functions/package/index.ts')}'`));
  const options =
    '--noEmit --ignoreConfig --strict --skipLibCheck --allowImportingTsExtensions --target esnext ' +
    '--lib esnext --module nodenext --types node';
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const types = join(ROOT, 'node_modules/@types');
  const { status, stdout } = spawnSync(NODE, [tsc, ...options.split(' '), '--typeRoots', types, file], {
    encoding: 'utf8',
  });
  expect(status, stdout).toBe(0);
  return file;
}

const findRun = (code: string) => Object.entries(RUNS).find(([begin]) => code.startsWith(begin))?.[1];
/** Environment variables of the docs, with chosen values for omitted ones. */
const isSettings = (code: string): boolean =>
  code
    .trim()
    .split('\n')
    .every((line) => /^[A-Z_]+=\S+(?: +#.*)?$/.test(line));

const CODE = BLOCKS.filter(({ language }) => RUNNABLE.has(language));
const OWNED = CODE.filter((block) => SEPARATELY_TESTED_PAGES[block.page] !== undefined && !isNotRun(block));
/** Beginnings of the example pages, which have a separate test. */
const isStart = ({ code }: Block): boolean => code.startsWith('npm run dev -- --config examples/');
const isElsewhere = ({ code }: Block): boolean =>
  Object.keys(SEPARATELY_TESTED_BLOCKS).some((begin) => code.startsWith(begin));
const TO_RUN = CODE.filter(
  (block) =>
    !isNotRun(block) &&
    !isElsewhere(block) &&
    (SEPARATELY_TESTED_PAGES[block.page] === undefined || isStart(block)),
);
const name = ({ page, line }: Block): string => `${page}:${line}`;

beforeAll(async () => {
  await loadSqlParser();
  folder = mkdtempSync(join(tmpdir(), 'svc-blocks-'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'svc.yaml'), PROJECT);
  for (const file of ['handler', 'ticks', 'webhook'])
    writeFileSync(join(folder, `${file}.js`), 'export default () => ({ status: 500 });');
  mkdirSync(join(folder, 'bin'));
  const launcher = join(folder, 'bin/svc');
  writeFileSync(launcher, `#!/bin/sh\nexec '${NODE}' '${LAUNCHER}' "$@"\n`);
  chmodSync(launcher, 0o755);
  database = await createDatabase();
  svc = await startSvc({
    command: 'dev',
    config: join(folder, 'svc.yaml'),
    cwd: folder,
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  // Start the five processes of the store early, because they are slow on a busy machine.
  if (s3ServerAvailable()) await s3Server();
});
afterAll(async () => {
  await svc?.stop();
  await database?.drop();
  const moved = await move;
  await moved?.target.drop();
  await moved?.source.drop();
  rmSync(folder, { recursive: true, force: true });
});

describe('runnable blocks', () => {
  test.each(TO_RUN.map((block) => [name(block), block] as const))('%s', async (_, { code }) => {
    if (isSettings(code)) return void sh(code);
    const run = findRun(code);
    expect(run, `add it to RUNS, or write <!-- not run: why --> above it:\n${code}`).toBeDefined();
    await run?.(code);
  });

  test('each entry of RUNS matches a block', () => {
    expect(Object.keys(RUNS).filter((begin) => !CODE.some(({ code }) => code.startsWith(begin)))).toEqual([]);
  });

  test('separate tests use blocks of the page', () => {
    for (const [page, file] of Object.entries(SEPARATELY_TESTED_PAGES))
      expect(readFileSync(join(ROOT, 'test', file), 'utf8')).toContain(
        page.replace(/^docs\/(chat|documents|shop)\.md$/, "'$1'"),
      );
    expect(OWNED.length).toBeGreaterThan(0);
    for (const [begin, file] of Object.entries(SEPARATELY_TESTED_BLOCKS)) {
      expect(CODE.filter(({ code }) => code.startsWith(begin))).toHaveLength(1);
      expect(readFileSync(join(ROOT, 'test', file), 'utf8')).toContain(`'${begin}'`);
    }
  });
});

test('blocks that are not run have a reason, and their number does not grow', () => {
  const marked = BLOCKS.filter(isNotRun);
  for (const { comment } of marked) expect(comment).toMatch(/^not run: \w+ \w+/);
  expect(marked).toHaveLength(NOT_RUN);
});

describe('commands of svc', () => {
  const lines = BLOCKS.filter(({ language }) => language === 'sh').flatMap((block) =>
    block.code
      .replaceAll(/\\\n/g, ' ')
      .split('\n')
      // This word is the user in a crontab.
      .filter((line) => !line.includes('* * *'))
      .flatMap((line) =>
        [...line.matchAll(/(?:^|[\s(|&])(?:npx )?svc +((?:[a-z-][^#|&)>]*|))/g)].map(
          ([, words = '']) => [name(block), words.trim()] as const,
        ),
      )
      .filter(([, words]) => /^[a-z]/.test(words)),
  );

  test.each(lines)('%s: svc %s', async (_, words) => {
    expect(await unknownIn(words)).toEqual([]);
  });

  test('an unknown command is found', async () => {
    expect(await unknownIn('migrate aply')).toEqual(['aply']);
    expect(await unknownIn('serve --migrat')).toEqual(['--migrat']);
    expect(lines.length).toBeGreaterThan(40);
  });
});

describe('other blocks are well formed', () => {
  test.each(
    CODE.filter(({ language }) => language === 'sh').map((block) => [name(block), block.code] as const),
  )('%s', (_, code) => {
    const { status, stderr } = spawnSync('bash', ['-n', '-c', code.replaceAll(/<(\w+)>/g, '$1')], {
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
  });

  test.each(
    CODE.filter(({ language }) => /^(?:js|ts|jsx)$/.test(language)).map(
      (block) => [name(block), block] as const,
    ),
  )('%s', (_, { page, code, language }) => {
    // Blocks of the example pages are parts of files: of functions, and of literals.
    if (/^docs\/(?:chat|documents|shop)\.md$/.test(page)) return;
    parseAst(code, { lang: language === 'ts' ? 'ts' : 'jsx' });
  });

  test.each(
    CODE.filter(({ language }) => language === 'sql').map((block) => [name(block), block.code] as const),
  )('%s', (_, code) => {
    expect(parseSql(code)).toMatchObject({ ok: true });
  });
});

const helps = new Map<string, Promise<string>>();

/** Returns the help text of a command, read once. */
function readHelp(command: string): Promise<string> {
  const known =
    helps.get(command) ??
    runSvc([...command.split(' ').filter(Boolean), '--help']).then(({ output }) => output);
  helps.set(command, known);
  return known;
}

/** Returns words of a command line that are not commands, and options that the command does not have. */
async function unknownIn(words: string): Promise<string[]> {
  let command = '';
  const unknown: string[] = [];
  for (const word of words.replaceAll(/'[^']*'|"[^"]*"/g, 'TEXT').split(/\s+/)) {
    const help = await readHelp(command);
    if (word.startsWith('-')) {
      const [option = ''] = word.split('=');
      if (!new RegExp(`^ +(?:-\\w, )?${option}\\b`, 'm').test(help)) unknown.push(option);
    } else if (
      new RegExp(`^  ${word.replaceAll(/[^\w-]/g, '.')}(?: |$)`, 'm').test(help.split('Commands:')[1] ?? '')
    ) {
      command = `${command} ${word}`;
    } else if (/^Usage: .*\[command\]$/m.test(help) && /^[a-z-]+$/.test(word)) unknown.push(word);
  }
  return unknown;
}

/** Runs with a folder that has a small svc.yaml, and an empty database. */
async function inNewProject(use: (directory: string, url: string) => Promise<void>): Promise<void> {
  const database = await createDatabase();
  const directory = mkdtempSync(join(folder, 'project-'));
  writeFileSync(join(directory, 'svc.yaml'), 'version: 1\n');
  try {
    await use(directory, database.url);
  } finally {
    await database.drop();
  }
}

function copyProject(directory: string): void {
  for (const file of ['svc.yaml', 'handler.js', 'ticks.js', 'webhook.js'])
    writeFileSync(join(directory, file), readFileSync(join(folder, file)));
}

/** A copy of this repository whose examples are writable. */
function makeClone(): string {
  const clone = mkdtempSync(join(folder, 'clone-'));
  for (const name of ['package.json', 'bin', 'node_modules'])
    symlinkSync(join(ROOT, name), join(clone, name));
  const isOurs = (path: string): boolean => !/[\\/](?:node_modules|\.svc|\.env)$/.test(path);
  cpSync(join(ROOT, 'examples'), join(clone, 'examples'), { recursive: true, filter: isOurs });
  return clone;
}

/** Environment of the docs: a project in /srv/app and its environment in /etc/svc/env. */
function onThisMachine(code: string, directory: string, url: string): string {
  const env = join(directory, 'environment');
  const settings = Object.entries({ ...KEYS, SVC_DATABASE_URL: url });
  writeFileSync(env, settings.map(([key, value]) => `${key}='${value}'\n`).join(''), { mode: 0o600 });
  return code.replaceAll('/srv/app', directory).replaceAll('/etc/svc/env', env);
}

/** Runs the block that starts `svc receive` with a separate folder, database and keys. */
function received(code: string, directory: string, url: string): string {
  return code
    .replace('postgres://…', url)
    .replace('SVC_PUBLISHABLE_KEY=…', `SVC_PUBLISHABLE_KEY=${KEYS.SVC_PUBLISHABLE_KEY}`)
    .replace('SVC_SECRET_KEY=…', `SVC_SECRET_KEY=${KEYS.SVC_SECRET_KEY}`)
    .replace('/var/lib/svc', join(directory, 'received'));
}

type Move = { readonly source: SupabaseProject; readonly target: TestDatabase; readonly directory: string };
let move: Promise<Move> | undefined;

/** A project to import, with an empty database and folder for it. */
function theMove(): Promise<Move> {
  move ??= (async () => ({
    source: await createTypicalProject(),
    target: await createDatabase(),
    directory: mkdtempSync(join(folder, 'move-')),
  }))();
  return move;
}

async function moving(code: string): Promise<string> {
  const { source, target, directory } = await theMove();
  return sh(`export SVC_IMPORT_SOURCE_URL='${source.url}'\n${code}`, directory, target.url);
}

/** Runs a long-running command: waits until it responds, calls `use`, then stops it. */
async function serves(
  line: string,
  cwd: string,
  url: string,
  use: (address: string) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const port = await freePort();
  // A comment at its end would hide the port.
  const code = `${line
    .trim()
    .replace(/ +#.*$/, '')
    .replace(/ --port \d+/, '')} --port ${port}`;
  const child = spawn('bash', ['-c', code], { cwd, env: environment(url), detached: true, stdio: 'pipe' });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const ended = once(child, 'exit');
  const answers = async (): Promise<boolean> =>
    await fetch(`http://localhost:${port}/health`).then(
      // Before its first release `svc receive` has no health endpoint.
      ({ ok }) => ok || code.includes('svc receive'),
      () => false,
    );
  try {
    await expect
      .poll(async () => child.exitCode !== null || (await answers()), { timeout: 40_000 })
      .toBe(true);
    // Another process has taken the port since it was found free.
    if (said.includes(`Port ${port} is already in use`)) return await serves(line, cwd, url, use);
    expect(child.exitCode, said).toBeNull();
    await use(`http://localhost:${port}`);
  } finally {
    if (child.exitCode === null) process.kill(-(child.pid ?? 0), 'SIGTERM');
    await ended;
  }
}

function environment(url: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    ...KEYS,
    SVC_DATABASE_URL: url,
    NO_COLOR: '1',
    PATH: `${join(folder, 'bin')}:${dirname(NODE)}:${process.env['PATH']}`,
  };
}

function sh(code: string, cwd = folder, url = database.url): string {
  const text = code.replaceAll('http://localhost:8080', svc.url);
  return execFileSync('bash', ['-e', '-c', text], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment(url),
  });
}

const SIGNED_IN = `import { createClient } from '@supabase/supabase-js';
const client = createClient('http://localhost:8080', 'svc_publishable_…', { auth: { persistSession: false } });
await client.auth.signUp({ email: crypto.randomUUID() + '@example.com', password: 'correct horse battery' });
`;

function runJs(code: string): string {
  const file = join(folder, `${crypto.randomUUID()}.mjs`);
  writeFileSync(
    file,
    code
      .replaceAll('http://localhost:8080', svc.url)
      .replaceAll('svc_publishable_…', KEYS.SVC_PUBLISHABLE_KEY),
  );
  return execFileSync(NODE, [file], { cwd: folder, encoding: 'utf8', timeout: 30_000 });
}

/** Returns the response of a function once its new file is loaded. */
async function called(path: string, isNew: (answer: Response) => boolean): Promise<Response> {
  const ask = async (): Promise<Response> => await fetch(`${svc.url}/functions/v1/${path}`);
  let answer = await ask();
  await expect
    .poll(async () => {
      if (!isNew(answer)) {
        await answer.body?.cancel();
        answer = await ask();
      }
      return isNew(answer);
    })
    .toBe(true);
  return answer;
}

async function signUp(email: string): Promise<void> {
  const client = createClient(svc.url, KEYS.SVC_PUBLISHABLE_KEY, { auth: { persistSession: false } });
  await client.auth.signUp({ email, password: 'correct horse battery' });
}

async function query(text: string, url = database.url): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

async function inTransaction(text: string): Promise<void> {
  await query(`begin; ${text}; rollback`);
}
