// Changes of svc.yaml through the dashboard: planned without side effects, applied completely or not at all, and
// never over a concurrent change.
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { configRoutes } from '../../src/dashboard-api/routes/config-change.ts';
import type { ConfigApplied, ConfigFile, ConfigPlan } from '../../src/dashboard-api/contract.ts';
import type { DashboardContext } from '../../src/dashboard-api/dashboard-context.ts';
import { raw } from '../../src/postgres/sql.ts';
import {
  startRoutesWorld,
  type RoutesReply,
  type RoutesWorld,
} from '../support/dashboard/dashboard-routes-world.ts';

const CANARY = 'canary-value-of-a-variable';
const YAML = `# The shop's backend.
version: 1

auth:
  oauth:
    google:
      client_id: public-id
      client_secret: \${SVC_GOOGLE_SECRET}   # from the vault
      redirect_url: https://api.example.com/auth/v1/callback/google

tables:
  # What is to be done.
  todos:
    rls: false
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: title, type: text }   # in one line
`;
const ENV = { SVC_GOOGLE_SECRET: CANARY, SVC_NUMBER: `${CANARY}'s sibling` };
const ADD_FIELD = {
  kind: 'append',
  path: ['tables', 'todos', 'fields'],
  value: { name: 'done', type: 'boolean' },
} as const;

let world: RoutesWorld;
let answers: string[];

async function start(context: Partial<DashboardContext> = {}, dev = true): Promise<void> {
  world = await startRoutesWorld({
    yaml: YAML,
    routes: [configRoutes],
    env: ENV,
    dev,
    context: () => context,
  });
}
beforeEach(() => {
  answers = [];
});
afterEach(() => {
  for (const answer of answers) expect(answer).not.toContain('canary');
});

async function send(method: string, path: string, body?: unknown): Promise<RoutesReply> {
  const answer = await world.call(method, path, body);
  answers.push(answer.text);
  return answer;
}
const read = async (): Promise<ConfigFile> => (await send('GET', '/config')).json as ConfigFile;
const onDisk = (): string => readFileSync(world.file, 'utf8');
const columns = async (): Promise<string[]> =>
  (
    await world.owner.query<{ name: string }>(
      raw(
        `select attname as name from pg_attribute where attrelid = 'todos'::regclass and attnum > 0 order by attnum`,
      ),
    )
  ).map(({ name }) => name);

describe('reading and planning', () => {
  beforeAll(async () => await start());
  afterAll(async () => await world.close());

  test('the file is shown as written, with variables by name', async () => {
    const file = await read();
    expect(file).toMatchObject({ name: 'svc.yaml', text: YAML, editable: true });
    expect(file.version).toMatch(/^[0-9a-f]{64}$/);
  });

  test('a plan lists what would change in the file and the database, and changes neither', async () => {
    const { version } = await read();
    const plan = (await send('POST', '/config/plan', { version, edits: [ADD_FIELD] })).json as ConfigPlan;
    expect(plan.text).toContain('# in one line');
    expect(plan.diff.filter(({ sign }) => sign !== ' ')).toEqual([
      { sign: '+', text: '      - { name: done, type: boolean }', line: 18 },
    ]);
    expect(plan.steps).toMatchObject([
      { sign: '+', at: 'tables.todos.fields.done', sql: expect.stringContaining('add column') as string },
    ]);
    expect(plan).toMatchObject({ warnings: [], problems: [], hints: [] });
    expect(onDisk()).toBe(YAML);
    expect(await columns()).toEqual(['id', 'title']);
  });

  test('mistakes have locations, and contain no value of a variable', async () => {
    const { version } = await read();
    const edits = [
      { kind: 'set', path: ['server', 'port'], value: '${SVC_NUMBER}' },
      { kind: 'set', path: ['tables', 'todos', 'fields', 1, 'type'], value: 5 },
    ];
    for (const path of ['/config/plan', '/config/apply']) {
      const answer = await send('POST', path, { version, edits });
      expect([answer.status, answer.json.code]).toEqual([422, 'config_refused']);
      expect(answer.json.mistakes).toContainEqual({
        path: 'server.port',
        file: null,
        line: expect.any(Number) as number,
        column: expect.any(Number) as number,
        message: 'expected a number, found "${SVC_NUMBER}"',
        hint: 'port: Listen port; SVC_PORT and --port take precedence.',
      });
      // The missing `rls` is only a warning.
      expect(answer.json.mistakes).toHaveLength(2);
    }
    expect(onDisk()).toBe(YAML);
  });

  test('a plan names variables, but does not show their values', async () => {
    const { version } = await read();
    const field = {
      name: 'kept',
      type: 'text',
      default: '${SVC_NUMBER}',
      check: "kept <> '${SVC_GOOGLE_SECRET}'",
    };
    const plan = (await send('POST', '/config/plan', { version, edits: [{ ...ADD_FIELD, value: field }] }))
      .json as ConfigPlan;
    const statements = plan.steps.map((step) => step.sql).join('\n');
    expect(statements).toContain("'${SVC_NUMBER}'");
    expect(statements).toContain("'${SVC_GOOGLE_SECRET}'");
  });

  test.each([
    ['no edits', { edits: [] }, 400, 'bad_body'],
    ['both forms at once', { edits: [ADD_FIELD], text: YAML }, 400, 'bad_body'],
    ['an unknown kind', { edits: [{ kind: 'truncate', path: ['tables'] }] }, 400, 'bad_body'],
    ['text that is not valid Unicode', { text: 'version: 1 # \ud800' }, 400, 'bad_body'],
    [
      'a place that is not there',
      { edits: [{ kind: 'delete', path: ['tables', 'x'] }] },
      404,
      'no_such_place',
    ],
    [
      "an object's own machinery",
      { edits: [{ kind: 'set', path: ['__proto__', 'polluted'], value: 1 }] },
      404,
      'no_such_place',
    ],
    ['no YAML', { text: 'a: [' }, 422, 'config_refused'],
    ['an empty file', { text: '' }, 422, 'config_refused'],
  ])('%s is refused', async (_what, change, status, code) => {
    const { version } = await read();
    for (const path of ['/config/plan', '/config/apply']) {
      const answer = await send('POST', path, { version, ...change });
      expect([answer.status, answer.json.code]).toEqual([status, code]);
    }
    expect(onDisk()).toBe(YAML);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });
});

describe('changes', () => {
  beforeEach(async () => await start());
  afterEach(async () => await world.close());

  test('applying writes the planned text, keeps comments and order, and the reload migrates the database', async () => {
    const { version } = await read();
    chmodSync(world.file, 0o640);
    const applied = (await send('POST', '/config/apply', { version, edits: [ADD_FIELD] }))
      .json as ConfigApplied;
    expect(onDisk()).toBe(applied.text);
    expect(
      onDisk()
        .split('\n')
        .filter((line) => !YAML.includes(line)),
    ).toEqual(['      - { name: done, type: boolean }']);
    expect(await read()).toMatchObject({ version: applied.version, text: applied.text });
    expect(statSync(world.file).mode & 0o777).toBe(0o640);
    expect(readdirSync(world.directory)).toEqual(['svc.yaml']);
    // Under svc dev the watcher reloads the file.
    expect(applied.pending).toBeNull();
    await world.reload();
    expect(await columns()).toEqual(['id', 'title', 'done']);
  });

  test('a complete text is accepted as well as edits', async () => {
    const { version } = await read();
    const text = YAML.replace('- { name: title, type: text }', '- { name: title, type: text, unique: true }');
    const plan = (await send('POST', '/config/plan', { version, text })).json as ConfigPlan;
    expect(plan.diff.map(({ sign }) => sign).join('')).toMatch(/^ +-\+$/);
    expect((await send('POST', '/config/apply', { version, text })).status).toBe(200);
    expect(onDisk()).toBe(text);
  });

  test('a change against an outdated version is refused and changes nothing', async () => {
    const { version } = await read();
    const theirs = YAML.replace('to be done', 'left to do');
    writeFileSync(world.file, theirs);
    for (const path of ['/config/plan', '/config/apply']) {
      const answer = await send('POST', path, { version, edits: [ADD_FIELD] });
      expect([answer.status, answer.json.code]).toEqual([409, 'file_changed']);
    }
    expect(onDisk()).toBe(theirs);
  });

  test('of many concurrent changes one is applied, and the others are refused', async () => {
    const { version } = await read();
    const all = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        send('POST', '/config/apply', {
          version,
          edits: [{ ...ADD_FIELD, value: { name: `field_${index}`, type: 'text' } }],
        }),
      ),
    );
    expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(all.filter(({ json }) => json.code === 'file_changed')).toHaveLength(5);
    expect(onDisk().match(/field_\d/g)).toHaveLength(1);
  });

  test('a change that cannot be migrated is shown by the plan and refused by apply', async () => {
    await world.owner.query(raw(`insert into todos values (1, 'no number')`));
    const { version } = await read();
    const edits = [{ kind: 'set', path: ['tables', 'todos', 'fields', 1, 'type'], value: 'integer' }];
    const plan = (await send('POST', '/config/plan', { version, edits })).json as ConfigPlan;
    expect(plan.problems).not.toEqual([]);
    const answer = await send('POST', '/config/apply', { version, edits });
    expect([answer.status, answer.json.code]).toEqual([422, 'plan_refused']);
    expect(answer.json.mistakes).toMatchObject(
      plan.problems.map(({ at, message, hint }) => ({ path: at, message, hint })),
    );
    expect(onDisk()).toBe(YAML);
  });

  test('a symbolic link to the file stays a link', async () => {
    const elsewhere = join(world.directory, 'elsewhere');
    mkdirSync(elsewhere);
    renameSync(world.file, join(elsewhere, 'shared.yaml'));
    symlinkSync(join('elsewhere', 'shared.yaml'), world.file);
    const { version } = await read();
    expect((await send('POST', '/config/apply', { version, edits: [ADD_FIELD] })).status).toBe(200);
    expect(lstatSync(world.file).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(elsewhere, 'shared.yaml'), 'utf8')).toContain('name: done');
    expect(readdirSync(elsewhere)).toEqual(['shared.yaml']);
  });

  test('a missing file is reported', async () => {
    renameSync(world.file, `${world.file}.away`);
    const answer = await send('GET', '/config');
    expect([answer.status, answer.json.code]).toEqual([409, 'file_unreadable']);
  });
});

describe('with its own file or reload', () => {
  afterEach(async () => await world.close());

  test('a file that changes while the plan is made is not overwritten', async () => {
    const theirs = YAML.replace('to be done', 'left to do');
    let asked = 0;
    await start({
      following: {
        // Called during the change: after the version check and before the write.
        variables: () => {
          asked += 1;
          writeFileSync(world.file, theirs);
          return ENV;
        },
      },
    });
    const { version } = await read();
    const answer = await send('POST', '/config/apply', { version, edits: [ADD_FIELD] });
    expect(asked).toBeGreaterThan(0);
    expect([answer.status, answer.json.code]).toEqual([409, 'file_changed']);
    expect(onDisk()).toBe(theirs);
    expect(readdirSync(world.directory)).toEqual(['svc.yaml']);
  });

  test('a remote file is read-only', async () => {
    await start();
    const snapshot = world.context.snapshot();
    const source = { name: 'https://example.com/svc.yaml', directory: undefined, text: YAML };
    await world.close();
    await start({ snapshot: () => ({ ...snapshot, config: { ...snapshot.config, source } }) });
    const file = await read();
    expect(file).toMatchObject({ name: source.name, text: YAML, editable: false });
    const answer = await send('POST', '/config/apply', { version: file.version, edits: [ADD_FIELD] });
    expect([answer.status, answer.json.code]).toEqual([409, 'not_editable']);
  });

  test('with a reload function, the file is loaded at once and pending steps are returned', async () => {
    const reloads: string[] = [];
    await start(
      { following: { reload: () => Promise.resolve(void reloads.push(onDisk())), strict: true } },
      false,
    );
    const { version } = await read();
    const applied = (await send('POST', '/config/apply', { version, edits: [ADD_FIELD] }))
      .json as ConfigApplied;
    expect(reloads).toEqual([applied.text]);
    expect(applied.pending).toMatchObject({
      kind: 'pending',
      steps: [expect.stringContaining('tables.todos.fields.done')],
      problems: [],
    });
    // `--strict` applies to these changes too.
    const open = await send('POST', '/config/plan', {
      version: applied.version,
      edits: [{ kind: 'delete', path: ['tables', 'todos', 'rls'] }],
    });
    expect([open.status, open.json.mistakes?.[0]?.path]).toEqual([422, 'tables.todos']);
  });

  test('a failed reload is reported without internals', async () => {
    await start({ following: { reload: () => Promise.reject(new Error(`${CANARY} in a stack`)) } });
    const { version } = await read();
    const answer = await send('POST', '/config/apply', { version, edits: [ADD_FIELD] });
    expect([answer.status, answer.json.code]).toEqual([500, 'config_not_taken']);
  });

  test('a save can be reverted unless another instance serves a newer file', async () => {
    await start({}, false);
    const first = await read();
    await send('POST', '/config/apply', { version: first.version, edits: [ADD_FIELD] });
    await world.reload();
    const { version } = await read();
    const undo = (await send('POST', '/config/plan', { version, text: YAML })).json as ConfigPlan;
    expect(undo.problems).toEqual([]);
    await world.owner.query(
      raw(`insert into svc_meta.run (kind, status, schema_hash, engine_version, model, instance, backend_pid)
        values ('apply', 'done', 'c3d4e5f6', 1, '{}', 'elsewhere', 0)`),
    );
    const plan = (await send('POST', '/config/plan', { version, text: YAML })).json as ConfigPlan;
    expect(plan.problems).toMatchObject([
      { code: 'MIG-403', hint: expect.stringContaining('--allow-rollback') as string },
    ]);
    expect((await send('POST', '/config/apply', { version, text: YAML })).json.code).toBe('plan_refused');
  });
});
