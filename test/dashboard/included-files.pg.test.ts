// Changes of a configuration in several files through the dashboard: each edit is written to the file of its entry.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { configRoutes } from '../../src/dashboard-api/routes/config-change.ts';
import type { ConfigApplied, ConfigFile, ConfigPlan } from '../../src/dashboard-api/contract.ts';
import { startRoutesWorld, type RoutesWorld } from '../support/dashboard/dashboard-routes-world.ts';

const MAIN = `version: 1\ninclude: tables/*.yaml # one each\n`;
const TODOS = `# What is to be done.
tables:
  todos:
    rls: []
    fields:
      - { name: id, type: bigint, primary_key: true }
      - { name: title, type: text }   # in one line
`;
const OVERLAY = 'server: { port: 9090 }\n';
const ADD_FIELD = {
  kind: 'append',
  path: ['tables', 'todos', 'fields'],
  value: { name: 'done', type: 'boolean' },
} as const;

let world: RoutesWorld;

beforeAll(async () => {
  world = await startRoutesWorld({
    yaml: MAIN,
    files: { 'tables/todos.yaml': TODOS, 'svc.development.yaml': OVERLAY },
    routes: [configRoutes],
    dev: true,
  });
});
afterAll(async () => await world.close());

const part = (): string => join(dirname(world.file), 'tables/todos.yaml');
const read = async (): Promise<ConfigFile> => (await world.call('GET', '/config')).json as ConfigFile;

test('the page shows svc.yaml and names what it includes', async () => {
  expect(await read()).toMatchObject({ text: MAIN, includes: ['tables/todos.yaml'], editable: true });
  expect(await read()).toMatchObject({ overlay: 'svc.development.yaml' });
});

test('an edit of an included table is planned and written to its file, and svc.yaml does not change', async () => {
  const { version } = await read();
  const plan = (await world.call('POST', '/config/plan', { version, edits: [ADD_FIELD] })).json as ConfigPlan;
  expect(plan.diff[0]).toMatchObject({ text: '# tables/todos.yaml' });
  expect(plan.diff.filter(({ sign }) => sign !== ' ')).toEqual([
    { sign: '+', text: '      - { name: done, type: boolean }', line: 8 },
  ]);
  const applied = (await world.call('POST', '/config/apply', { version, edits: [ADD_FIELD] }))
    .json as ConfigApplied;
  expect(applied.version).not.toBe(version);
  expect(readFileSync(part(), 'utf8')).toBe(`${TODOS}      - { name: done, type: boolean }\n`);
  expect(readFileSync(world.file, 'utf8')).toBe(MAIN);
  expect((await read()).version).toBe(applied.version);
});

test('a new entry is written to svc.yaml', async () => {
  const { version } = await read();
  const edits = [{ kind: 'set', path: ['project', 'name'], value: 'Lists' }];
  await world.call('POST', '/config/apply', { version, edits });
  expect(readFileSync(world.file, 'utf8')).toContain('name: Lists');
});

test('a mistake names the included file and its line', async () => {
  const { version } = await read();
  const wrong = [{ kind: 'set', path: ['tables', 'todos', 'fields', 1, 'requird'], value: true }];
  const refused = await world.call('POST', '/config/plan', { version, edits: wrong });
  expect(refused.json.mistakes).toMatchObject([{ file: 'tables/todos.yaml', line: 7 }]);
});

test('a change against an outdated included file is refused', async () => {
  const { version } = await read();
  const now = readFileSync(part(), 'utf8').replace('# What', '# All that');
  writeFileSync(part(), now);
  const answer = await world.call('POST', '/config/apply', { version, edits: [ADD_FIELD] });
  expect([answer.status, answer.json.code]).toEqual([409, 'file_changed']);
  expect(readFileSync(part(), 'utf8')).toBe(now);
});

test('an overlay is never written: a change that it hides is written to svc.yaml with a hint', async () => {
  const { version } = await read();
  const edits = [
    { kind: 'set', path: ['server', 'port'], value: 7070 },
    { kind: 'set', path: ['server', 'max_limit'], value: 50 },
  ];
  const { hints } = (await world.call('POST', '/config/plan', { version, edits })).json as ConfigPlan;
  expect(hints.filter(({ code }) => code === 'overlay')).toMatchObject([
    { at: 'server.port', message: expect.stringContaining('svc.development.yaml sets another value') },
  ]);
  await world.call('POST', '/config/apply', { version, edits });
  expect(readFileSync(world.file, 'utf8')).toContain('port: 7070');
  expect(readFileSync(join(dirname(world.file), 'svc.development.yaml'), 'utf8')).toBe(OVERLAY);
});
