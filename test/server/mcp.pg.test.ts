// `svc mcp` with the protocol's own client library: what it reveals about a project, and that no statement of an
// assistant changes anything.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { LAUNCHER, NODE, runSvc } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid }
      - { name: text, type: text }
    rls: [{ operations: [select], using: owner = auth.uid() }]
rpc:
  sneak:
    security: definer
    returns: { type: integer }
    body: begin delete from notes; return 1; end
functions: { hello: { runtime: node, file: hello.js } }
`;
const ANN = '6f1c1f0e-7a52-4b7e-9d1a-000000000001';

type Answer = { readonly text: string; readonly isError: boolean };

describe('svc mcp', () => {
  let folder: string;
  let database: TestDatabase;
  let admin: pg.Client;
  const clients: Client[] = [];

  const connect = async (...args: readonly string[]): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(
      new StdioClientTransport({
        command: NODE,
        args: [LAUNCHER, 'mcp', '--config', join(folder, 'svc.yaml'), ...args],
        env: { PATH: process.env['PATH'] ?? '', ...KEYS, SVC_DATABASE_URL: database.url },
      }),
    );
    clients.push(client);
    return client;
  };
  const call = async (client: Client, name: string, input: Record<string, unknown> = {}): Promise<Answer> => {
    const { content, isError } = (await client.callTool({ name, arguments: input })) as {
      content: Array<{ text: string }>;
      isError?: boolean;
    };
    return { text: content.map(({ text }) => text).join(''), isError: isError === true };
  };

  let open: Client;
  let withoutRows: Client;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-mcp-'));
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    writeFileSync(join(folder, 'hello.js'), 'export default () => ({ body: "hello" });\n');
    database = await createDatabase();
    const applied = await runSvc(['migrate', 'apply', '--config', join(folder, 'svc.yaml')], {
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    expect(applied.code, applied.output).toBe(0);
    admin = new pg.Client(database.url);
    await admin.connect();
    await admin.query(
      `insert into auth.users (id, email, encrypted_password, aud)
        values ('${ANN}', 'ann@example.com', 'hash-of-ann', 'authenticated')`,
    );
    await admin.query(`insert into notes (owner, text) values ('${ANN}', 'of ann'), (null, 'of no user')`);
    open = await connect('--data', 'all');
    withoutRows = await connect('--data', 'none');
  });
  afterAll(async () => {
    for (const client of clients) await client.close();
    await admin?.end();
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('every tool declares that it only reads', async () => {
    const { tools } = await open.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      'read_config',
      'validate_config',
      'plan_change',
      'list_tables',
      'list_functions',
      'read_function',
      'describe_table',
      'query',
      'doctor',
      'search_docs',
      'read_doc',
      'explain_code',
    ]);
    expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
  });

  test('it returns the file, its tables and functions, and checks a draft', async () => {
    expect((await call(open, 'read_config')).text).toBe(YAML);
    expect(JSON.parse((await call(open, 'list_tables')).text)).toMatchObject({
      tables: [{ name: 'notes', rls: '1 policies' }],
    });
    expect((await call(open, 'describe_table', { name: 'notes' })).text).toContain('owner = auth.uid()');
    expect((await call(open, 'read_function', { name: 'hello' })).text).toContain('export default');
    const wrong = await call(open, 'validate_config', { text: YAML.replace('primary_key', 'primary_kei') });
    expect(JSON.parse(wrong.text)).toMatchObject({ valid: false, mistakes: [{ line: 5 }] });
    const draft = YAML.replace(
      '- { name: text, type: text }',
      '- { name: text, type: text }\n      - { name: title, type: text }',
    );
    const plan = await call(open, 'plan_change', { text: draft });
    expect(plan.text).toContain('add column');
    const { rows } = await admin.query(
      `select 1 from information_schema.columns where column_name = 'title' and table_name = 'notes'`,
    );
    expect(rows).toEqual([]);
  });

  test('the documentation is available offline', async () => {
    expect((await call(open, 'explain_code', { code: 'PGRST205' })).text).toContain('no such table');
    expect((await call(open, 'search_docs', { words: 'materialized refresh' })).text).toContain(
      'migrations.md',
    );
    expect((await call(open, 'search_docs', { words: 'infinite scroll' })).text).toContain('pagination.md');
    expect((await call(open, 'read_doc', { page: 'rest.md' })).text).toMatch(/^# /);
    expect((await call(open, 'read_doc', { page: '../package.json' })).isError).toBe(true);
    expect((await call(open, 'doctor')).text).toContain('"id": "migrations"');
  });

  test('the file, the types and the pages are resources, too', async () => {
    const { resources } = await open.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(
      expect.arrayContaining(['svc://config', 'svc://types', 'svc://docs/operations/backup.md']),
    );
    const read = async (uri: string): Promise<unknown> => (await open.readResource({ uri })).contents[0];
    expect(await read('svc://config')).toMatchObject({ text: YAML });
    expect(await read('svc://types')).toMatchObject({ text: expect.stringContaining('notes: {') });
    expect(await read('svc://docs/operations/backup.md')).toMatchObject({
      mimeType: 'text/markdown',
      text: expect.stringMatching(/^# /),
    });
    await expect(read('svc://docs/../package.json')).rejects.toThrow();
  });

  test.each(['claude', 'cursor', 'vscode'])(
    'install prints what %s needs, and writes nothing',
    async (name) => {
      const { code, output } = await runSvc(['mcp', 'install', name], { cwd: folder });
      expect(code).toBe(0);
      expect(output).toMatch(/"--no-install",\s+"svc",\s+"mcp"/);
      expect(readdirSync(folder).filter((file) => /mcp|cursor|vscode/.test(file))).toEqual([]);
    },
  );

  test('statements are logged in the project with their number of rows', async () => {
    const file = join(folder, '.svc', 'mcp.log');
    const asked = [
      { sql: `select id from notes where text <> 'kept'`, rows: 2 },
      { sql: 'select id from notes', as: 'ann@example.com', rows: 1 },
      { sql: 'delete from notes', error: expect.stringContaining('read-only') as unknown },
    ];
    rmSync(file, { force: true });
    for (const { sql, as } of asked) await call(open, 'query', { sql, ...(as === undefined ? {} : { as }) });
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject(asked);
    expect(readFileSync(file, 'utf8')).not.toContain('of ann');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    // A full log is renamed.
    writeFileSync(file, 'x'.repeat(1024 * 1024 + 1));
    await call(open, 'query', { sql: 'select 1' });
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ sql: 'select 1', rows: 1 });
    expect(statSync(`${file}.1`).size).toBe(1024 * 1024 + 1);
  });

  test('rows, as the reader and as callers', async () => {
    const count = 'select count(*)::int as n from notes';
    expect(JSON.parse((await call(open, 'query', { sql: count })).text)).toMatchObject({ rows: [{ n: 2 }] });
    expect(JSON.parse((await call(open, 'query', { sql: count, as: 'ann@example.com' })).text)).toMatchObject(
      { rows: [{ n: 1 }] },
    );
    expect(JSON.parse((await call(open, 'query', { sql: count, as: 'anon' })).text)).toMatchObject({
      rows: [{ n: 0 }],
    });
    const users = await call(open, 'query', { sql: 'select email from auth.users' });
    expect(users.text).toContain('ann@example.com');
    for (const sql of [
      'select encrypted_password from auth.users',
      'select * from auth.refresh_tokens',
      'select * from auth.signing_keys',
      'select * from pg_authid',
    ])
      expect(await call(open, 'query', { sql }), sql).toMatchObject({
        isError: true,
        text: expect.stringMatching(/permission denied/),
      });
    const together = await Promise.all(Array.from({ length: 8 }, () => call(open, 'query', { sql: count })));
    expect(together.filter(({ isError }) => isError)).toEqual([]);
    const many = await call(open, 'query', {
      sql: "select repeat('x', 1000) as x from generate_series(1, 1000000)",
    });
    expect(many.text.length).toBeLessThan(70_000);
    // Read no further than that, so that it still is JSON.
    expect(JSON.parse(many.text)).toMatchObject({ more: true });
  });

  test('it does not wait for a lock that the app holds', async () => {
    await admin.query('begin; lock table notes in access exclusive mode');
    const answer = await call(open, 'query', { sql: 'select * from notes' });
    await admin.query('rollback');
    expect(answer).toMatchObject({ isError: true, text: expect.stringMatching(/lock timeout/) });
  });

  test('rows of another database than that of svc dev are not read without --data all', async () => {
    const closed = await connect();
    expect(await call(closed, 'query', { sql: 'select 1' })).toMatchObject({
      isError: true,
      text: expect.stringContaining('--data all'),
    });
    expect((await call(closed, 'list_tables')).isError).toBe(false);
  });

  const FIELDS = '      - { name: text, type: text }';
  const READ_HASHES = `query_to_xml('select email, encrypted_password, id from auth.users', true, true, '')::text`;
  const RAISE = `  leak:
    volatility: immutable
    returns: { type: integer }
    body: |
      begin
        execute 'select "' || (select encrypted_password || email from auth.users limit 1) || '" from notes';
        return 1;
      end
`;
  const PROBES: readonly (readonly [name: string, draft: string])[] = [
    ['a check', YAML.replace(FIELDS, `      - { name: text, type: text, check: "${READ_HASHES}::int > 0" }`)],
    ['unique', YAML.replace(FIELDS, '      - { name: text, type: text, unique: true }')],
    ['a type', YAML.replace(FIELDS, '      - { name: text, type: integer, using: "text::integer" }')],
    [
      'the value of a type change',
      YAML.replace(FIELDS, `      - { name: text, type: varchar(3), using: "${READ_HASHES}" }`),
    ],
    [
      'a backfill',
      YAML.replace(
        FIELDS,
        `${FIELDS}\n      - { name: n, type: integer, required: true, backfill: "${READ_HASHES}::int" }`,
      ),
    ],
    [
      'a default',
      YAML.replace(
        FIELDS,
        `${FIELDS}\n      - { name: n, type: integer, default: { sql: "${READ_HASHES}::int" } }`,
      ),
    ],
    [
      'a function that raises what it reads',
      YAML.replace(FIELDS, `      - { name: text, type: text, check: "leak() > 0" }`).replace(
        'rpc:\n',
        `rpc:\n${RAISE}`,
      ),
    ],
    [
      'a function in an index',
      YAML.replace('    rls:', `    indexes: [{ columns: [{ expression: "(leak())" }] }]\n    rls:`).replace(
        'rpc:\n',
        `rpc:\n${RAISE}`,
      ),
    ],
  ];
  test.each(PROBES)('without rows a plan answers with no value of a row: %s', async (_name, draft) => {
    await admin.query(`insert into notes (id, text) values (77, 'of ann') on conflict do nothing`);
    const path = join(folder, 'svc.yaml');
    try {
      const planned = await call(withoutRows, 'plan_change', { text: draft });
      writeFileSync(path, draft);
      const examined = await call(withoutRows, 'doctor');
      for (const { text } of [planned, examined])
        expect(text).not.toMatch(/of ann|of no user|hash-of-ann|ann@example\.com|bad_config/);
    } finally {
      writeFileSync(path, YAML);
      await admin.query('delete from notes where id = 77');
    }
  });

  const READ_USERS = `table_to_xml('auth.users', true, true, '')::text`;
  /** Drafts whose plan could depend on whether a hidden row has a text. */
  const ORACLES: readonly (readonly [name: string, draft: (text: string) => string])[] = [
    [
      'a default',
      (text) =>
        YAML.replace(
          FIELDS,
          `${FIELDS}\n      - { name: n, type: integer, default: { sql: "1 / (${READ_USERS} ~ '${text}')::int" } }`,
        ),
    ],
    [
      'a domain',
      (text) =>
        YAML.replace(
          'tables:',
          `types: { d: { domain: integer, check: "${READ_USERS} ~ '${text}'" } }\ntables:`,
        ).replace(FIELDS, `${FIELDS}\n      - { name: n, type: d, default: 1 }`),
    ],
    [
      'a bound',
      (text) =>
        YAML.replace(
          'tables:',
          'tables:\n  parts:\n    rls: []\n' +
            '    fields: [{ name: id, type: text, primary_key: true }]\n' +
            '    partition_by: { list: [id] }\n' +
            '    partitions: ' +
            `[{ name: a, values: "in (('x' || (${READ_USERS} ~ '${text}')))" }, ` +
            "{ name: b, values: in ('xtrue') }]",
        ),
    ],
    [
      'a bound of a domain',
      (text) =>
        YAML.replace(
          'tables:',
          `types: { d: { domain: text, check: "${READ_USERS} ~ '${text}'" } }\ntables:\n  parts:\n` +
            '    rls: []\n    fields: [{ name: id, type: d, primary_key: true }]\n' +
            "    partition_by: { list: [id] }\n    partitions: [{ name: a, values: in ('x') }]",
        ),
    ],
    [
      'the value of a bound',
      () =>
        YAML.replace(
          'tables:',
          'tables:\n  parts:\n    rls: []\n' +
            '    fields: [{ name: id, type: text, primary_key: true }]\n' +
            '    partition_by: { list: [id] }\n' +
            `    partitions: [{ name: a, values: "in ((${READ_USERS}))" }]`,
        ),
    ],
    [
      'a function',
      (text) =>
        YAML.replace(
          FIELDS,
          '      - { name: text, type: text }\n' +
            `      - { name: n, type: integer, default: { sql: "1 / leak('${text}')" } }`,
        ).replace(
          'rpc:\n',
          'rpc:\n  leak: { language: sql, volatility: immutable, args: [{ name: t, type: text }], ' +
            'returns: { type: integer }, ' +
            'body: "select count(*)::int from auth.users where email ~ t" }\n',
        ),
    ],
    [
      'a function in an index',
      (text) =>
        YAML.replace(
          '    rls:',
          `    indexes: [{ columns: [{ expression: "(1 / leak('${text}'))" }] }]\n    rls:`,
        ).replace(
          'rpc:\n',
          'rpc:\n  leak: { language: sql, volatility: immutable, args: [{ name: t, type: text }], ' +
            'returns: { type: integer }, ' +
            'body: "select count(*)::int from auth.users where email ~ t" }\n',
        ),
    ],
  ];
  test.each(ORACLES)('without rows a plan does not depend on rows: %s', async (_name, draft) => {
    const planDraft = async (text: string): Promise<string> =>
      (await call(withoutRows, 'plan_change', { text: draft(text) })).text
        .replaceAll(text, 'TEXT')
        // Names that are hashes of the text.
        .replaceAll(/(?<=_)[0-9a-f]{6}(?=_)/g, 'HASH');
    const [present, absent] = [await planDraft('ann@example.com'), await planDraft('bob@example.com')];
    expect(present).toEqual(absent);
    expect(present).not.toMatch(/hash-of-ann/);
  });

  test('without rows a plan has the steps, the mistakes of the text and a note', async () => {
    const draft = YAML.replace(FIELDS, '      - { name: text, type: text, required: true }');
    const planned = JSON.parse((await call(withoutRows, 'plan_change', { text: draft })).text) as {
      steps: unknown[];
    };
    expect(planned).toMatchObject({ refused: [], notes: [expect.stringContaining('does not read rows')] });
    expect(planned.steps).not.toEqual([]);
    const wrong = YAML.replace(FIELDS, '      - { name: text, type: text, check: "nope > 0" }');
    expect((await call(withoutRows, 'plan_change', { text: wrong })).text).toContain(
      '\\"nope\\" does not exist',
    );
    writeFileSync(join(folder, 'unique.yaml'), YAML.replace(FIELDS, PROBES[1]?.[1].split('\n')[6] ?? ''));
    const { output } = await runSvc(
      ['migrate', 'plan', '--data', 'none', '--config', join(folder, 'unique.yaml')],
      { env: { ...KEYS, SVC_DATABASE_URL: database.url } },
    );
    expect(output).toContain('does not read rows');
  });

  const HOSTILE = [
    'delete from notes',
    'select sneak()',
    "select nextval('notes_id_seq')",
    'commit; delete from notes',
    'set role svc_owner',
    'set role service_role',
    "select set_config('role', 'svc_owner', true), query_to_xml('select * from auth.signing_keys', true, true, '')",
    'set transaction read write; delete from notes',
    "select set_config('transaction_read_only', 'off', true), sneak()",
    'explain analyze delete from notes',
    'create table mine (id int)',
    'create temporary table mine (id int)',
    'select * into mine from notes',
    "select pg_read_file('/etc/passwd')",
    "copy notes to program 'true'",
    "copy (select 1) to '/tmp/svc-mcp-written'",
    "select lo_import('/etc/passwd')",
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`,
    'do $$ begin delete from notes; end $$',
    'alter role svc_reader superuser',
    'drop table notes',
    'select pg_sleep(60)',
  ];
  test.each(HOSTILE)('%s', async (sql) => {
    for (const as of [undefined, 'service_role']) {
      // Runs as a caller who can write, so that only the transaction prevents it.
      const answer = await call(open, 'query', { sql, ...(as === undefined ? {} : { as }) });
      if (!/set role|set_config\('role'/.test(sql))
        expect(answer, `${as} ${answer.text}`).toMatchObject({ isError: true });
    }
    const { rows } = await admin.query(
      `select (select count(*)::int from notes) as notes, to_regclass('mine') as mine,
        (select is_called from notes_id_seq) as called, (select last_value::int from notes_id_seq) as last,
        (select rolsuper from pg_roles where rolname = 'svc_reader') as super`,
    );
    expect(rows).toEqual([{ notes: 2, mine: null, called: true, last: 2, super: false }]);
  });

  test('locks of a statement are released with it', async () => {
    await call(open, 'query', { sql: 'select pg_advisory_lock(42)' });
    await call(open, 'query', { sql: 'lock table notes in access exclusive mode', as: 'service_role' });
    const { rows } = await admin.query(
      `select 1 from pg_locks
        where (locktype = 'advisory' and objid = 42)
        or (mode = 'AccessExclusiveLock' and relation = 'notes'::regclass)`,
    );
    expect(rows).toEqual([]);
  });
});
