// `svc sql`: what each caller can see and do, and that nothing changes without --write.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
      - { name: text, type: text }
    rls: [{ operations: [select, insert], check: owner = auth.uid() }]
rpc:
  sneak:
    security: definer
    returns: { type: integer }
    language: plpgsql
    body: begin delete from notes; return 1; end
`;

describe('svc sql', () => {
  let folder: string;
  let database: TestDatabase;
  let svc: SvcProcess;
  let ann: string;
  const sql = (...args: readonly string[]) =>
    runSvc(['sql', ...args, '--config', join(folder, 'svc.yaml')], {
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
  const selectRows = async (...args: readonly string[]): Promise<unknown> => {
    const { code, output } = await sql('--json', ...args);
    expect(code, output).toBe(0);
    return (JSON.parse(output) as { data: { rows: unknown } }).data.rows;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-sql-'));
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    database = await createDatabase();
    svc = await startSvc({
      command: 'serve',
      config: join(folder, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    for (const name of ['ann', 'bob']) {
      const client = createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
      const { data } = await client.auth.signUp({
        email: `${name}@example.com`,
        password: 'correct horse battery',
      });
      if (name === 'ann') ann = data.user?.id ?? '';
      await client.from('notes').insert({ text: `of ${name}` });
    }
  });
  afterAll(async () => {
    await svc?.stop();
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('each caller sees what the API would show', async () => {
    const texts = 'select text from notes order by id';
    expect(await selectRows(texts)).toEqual([{ text: 'of ann' }, { text: 'of bob' }]);
    expect(await selectRows('--as', 'service_role', texts)).toEqual([{ text: 'of ann' }, { text: 'of bob' }]);
    expect(await selectRows('--as', 'Ann@example.com', texts)).toEqual([{ text: 'of ann' }]);
    expect(await selectRows('--as', ann, 'select auth.uid() as id, auth.email() as email')).toEqual([
      { id: ann, email: 'ann@example.com' },
    ]);
    expect(await selectRows('--as', 'anon', texts)).toEqual([]);
    const stranger = await sql('--as', 'eve@example.com', texts);
    expect([stranger.code, stranger.output]).toEqual([1, expect.stringContaining('no user eve@example.com')]);
  });

  test.each([
    ['delete from notes', /are read-only\. Use --write/],
    ['select sneak()', /are read-only\. Use --write/],
    ["select nextval('notes_id_seq')", /are read-only\. Use --write/],
    ['commit; delete from notes', /Pass one statement/],
    ['set transaction read write; delete from notes', /Pass one statement/],
    ["select set_config('transaction_read_only', 'off', true), sneak()", /read-only|transaction/],
    ['explain analyze delete from notes', /are read-only\. Use --write/],
    ["copy notes to program 'true'", /error/],
    ['select pg_sleep(60)', /--timeout/],
  ])('%s changes nothing', async (statement, said) => {
    const { code, output } = await sql('--timeout', '1', statement);
    expect([code, output]).toEqual([1, expect.stringMatching(said)]);
    expect(await selectRows('select count(*)::int as notes from notes')).toEqual([{ notes: 2 }]);
  });

  test('with --write it changes what the caller may change, in one transaction', async () => {
    const unasked = await sql('--write', "update notes set text = 'x'");
    expect([unasked.code, unasked.output]).toEqual([2, expect.stringContaining('--yes')]);
    const refused = await sql(
      '--write',
      '--yes',
      '--as',
      'anon',
      "insert into notes (text) values ('of no user')",
    );
    expect([refused.code, refused.output]).toEqual([1, expect.stringMatching(/row-level security/)]);
    const half = join(folder, 'half.sql');
    writeFileSync(half, "insert into notes (text) values ('one');\ninsert into notes (nothing) values (1);");
    const failed = await sql('--write', '--yes', '-f', half);
    expect([failed.code, failed.output]).toEqual([
      1,
      expect.stringMatching(/column "nothing"[\s\S]*values \(1\);\n.*\^/),
    ]);
    expect(await selectRows('select count(*)::int as notes from notes')).toEqual([{ notes: 2 }]);
    const whole = join(folder, 'whole.sql');
    writeFileSync(
      whole,
      "insert into notes (text) values ('one');\ndelete from notes where text = 'one' returning text;",
    );
    const done = await sql('--write', '--yes', '-f', whole);
    expect([done.code, done.output]).toEqual([0, expect.stringMatching(/text\n-+\none\n\(1 row\)/)]);
  });

  test('answers are cut at the limit, and printed for people, programs and spreadsheets', async () => {
    const many = 'select g as n, null as nothing, \'a "b"\' as quoted from generate_series(1, 1000000) g';
    const table = await sql('--limit', '2', many);
    expect(table.output).toMatch(
      /n  nothing  quoted\n-+  -+  -+\n1  ∅        a "b"\n2  ∅        a "b"\n\(2 rows; more rows exist/,
    );
    const hostile = await sql('select e\'\\x1b]0;taken\\x07\\r\' as "\x1b[2J"');
    expect(hostile.output.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
    const csv = await sql('--limit', '1', '--format', 'csv', many);
    expect(csv.output).toContain('n,nothing,quoted\r\n1,,"a ""b"""');
    expect(
      await selectRows('select 1 as i, 9007199254740993 as big, true as yes, \'{"a": [1]}\'::jsonb as j'),
    ).toEqual([{ i: 1, big: '9007199254740993', yes: true, j: { a: [1] } }]);
    const plan = await sql('--explain', '--as', 'ann@example.com', 'select * from notes');
    expect(plan.output).toMatch(/Filter: .*owner/);
    const wrong = await sql('--explain', 'select *\nfrom nots');
    expect(wrong.output).toMatch(/"nots" does not exist \(42P01\)\n {2}from nots\n {7}\^/);
  });

  test('no connection of the command remains on the server', async () => {
    const admin = new pg.Client(database.url);
    await admin.connect();
    const { rows } = await admin.query(
      "select 1 from pg_stat_activity where application_name = 'svc-sql' and datname = current_database()",
    );
    await admin.end();
    expect(rows).toEqual([]);
  });
});
