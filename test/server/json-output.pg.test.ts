// The `--json` output of commands is one object and nothing else, and matches the schema of `svc schema
// --of`.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createCommands, everyCommand, type Commands } from '../../src/cli/commands.ts';
import { explain } from '../../src/cli/exit.ts';
import { commandName, reportShape } from '../../src/cli/report/reporting.ts';
import type { Terminal } from '../../src/cli/terminal.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const ENV = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
  NO_COLOR: '1',
  CI: '',
  GITHUB_ACTIONS: '',
};
const YAML = `version: 1
tables:
  notes: { fields: [{ name: id, type: bigint, primary_key: true }, { name: body, type: text }], rls: [] }
  tags: { fields: [{ name: id, type: bigint, primary_key: true }, { name: title, type: text }], rls: [] }
views: { counts: { materialized: true, query: select count(*) as n from public.notes } }
seed: [{ name: first, rows: { notes: [{ id: 1, body: hello }] } }]
`;

let folder: string;
let database: TestDatabase;
let printed: string[];
const terminal: Terminal = {
  color: false,
  print: (text) => void printed.push(text),
  printError: () => {},
  style: (_style, text) => text,
};
const commands: Commands = createCommands(() => []);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-json-output-'));
  writeFileSync(join(folder, 'svc.yaml'), YAML);
  database = await createDatabase();
  const places = { SVC_DATABASE_URL: database.url, SVC_BACKUP_TARGET: join(folder, 'backups') };
  for (const [name, value] of Object.entries({ ...ENV, ...places })) vi.stubEnv(name, value);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

type Report = {
  readonly ok: boolean;
  readonly data: unknown;
  readonly problems: ReadonlyArray<{ code: string }>;
};

/** Runs a command and validates its output against its schema. */
async function run(
  words: readonly string[],
): Promise<{ readonly exitCode: number; readonly report: Report }> {
  printed = [];
  const [name = '', ...rest] = words;
  const command = await commands[name]?.(terminal);
  const place = new Set(['keys', 'config']).has(name) ? [] : ['--config', join(folder, 'svc.yaml')];
  const own = ['init', 'explain'].includes(name) || words.includes('pull') ? [] : place;
  let exitCode = 0;
  try {
    await command?.parseAsync([...rest, ...own, '--json'], { from: 'user' });
  } catch (error) {
    exitCode = explain(error).exitCode;
  }
  expect(printed, words.join(' ')).toHaveLength(1);
  const report: unknown = JSON.parse(printed[0] ?? '');
  const called = nameOfWords(words, await everyCommand(commands, terminal));
  const checked = reportShape(called)?.safeParse(report);
  expect(checked?.error?.message, words.join(' ')).toBeUndefined();
  return { exitCode, report: report as Report };
}

/** The command with the longest name that the words begin with. */
function nameOfWords(words: readonly string[], all: readonly Command[]): Command {
  const text = `${words.join(' ')} `;
  const found = all
    .filter((command) => text.startsWith(`${commandName(command)} `))
    .toSorted((a, b) => commandName(b).length - commandName(a).length)[0];
  if (!found) throw new Error(`no command ${text}`);
  return found;
}

describe('in their order', () => {
  test.each<[command: string, exitCode: number, data: unknown]>([
    ['validate', 0, { tables: 2, functions: 0 }],
    ['migrate status', 0, { applied: null, pending: expect.any(Number) }],
    ['migrate plan', 0, { format: 1, from: null }],
    ['migrate plan --check', 2, { format: 1 }],
    ['migrate drift', 0, { applied: false }],
    ['migrate apply', 0, { run: expect.stringMatching(/^\d+$/), taken: [] }],
    ['migrate apply', 0, { run: null, statements: 0 }],
    ['migrate status', 0, { applied: { complete: true }, pending: 0, retired: [] }],
    ['migrate history', 0, { runs: [{ status: 'done', from: null }] }],
    ['migrate drift', 0, { applied: true, steps: [] }],
    ['migrate prune', 0, { dropped: [] }],
    ['migrate pull', 0, { file: null, text: expect.stringContaining('notes'), written: false }],
    ['seed', 0, { mode: 'development', seeded: [{ name: 'first', rows: 1 }] }],
    ['seed', 0, { seeded: [] }],
    ['refresh', 0, { refreshed: [{ name: 'counts' }] }],
    ['sql|select n from counts', 0, { command: 'SELECT', more: false, rows: [{ n: '1' }] }],
    ['schedules list', 0, { schedules: [] }],
    ['types', 0, { file: null, text: expect.stringContaining('notes') }],
    ['keys', 0, { publishable: expect.stringMatching(/^svc_publishable_/) }],
    ['keys list', 0, { keys: [{ state: 'in_use', imported: false }] }],
    ['keys rotate --now', 0, { signs_in_minutes: 0 }],
    ['keys list', 0, { keys: [{ state: 'previously_used' }, { state: 'in_use' }] }],
    ['keys alias list', 0, { aliases: [] }],
    ['functions new hello', 0, { name: 'hello', written: expect.arrayContaining(['functions/hello.js']) }],
    ['functions list', 0, { functions: [{ name: 'hello', auth_required: false }] }],
    ['explain PGRST205', 0, { codes: [{ status: '404' }] }],
    ['doctor', 0, { findings: expect.arrayContaining([expect.objectContaining({ id: 'database' })]) }],
    ['backup', 0, { copied: 0, pruned: null, backup: { rows: expect.any(Number), files: 0, missing: [] } }],
    ['backup list', 0, { backups: [{ postgres: expect.any(Number), recipients: [] }] }],
    ['backup verify', 0, { restored: false, backup: { id: expect.any(String) } }],
    ['backup prune --keep 7d', 0, { removed: [], kept: [expect.any(String)], busy: false }],
    [
      'migrate rename tags.title name',
      0,
      { path: 'tags.title', files: [expect.stringMatching(/svc\.yaml$/)] },
    ],
    ['migrate apply', 0, { statements: expect.any(Number) }],
    ['migrate down', 0, { target: '1', data_steps: [] }],
  ])('%s', async (command, exitCode, data) => {
    const words = command.includes('|') ? command.split('|') : command.split(' ');
    const { exitCode: ended, report } = await run(words);
    expect([ended, report]).toMatchObject([exitCode, { ok: exitCode === 0, data }]);
  });
});

describe('failures', () => {
  test.each<[words: readonly string[], exitCode: number, code: string]>([
    [['sql', 'select nothing_there'], 1, '42703'],
    [['sql', 'delete from notes'], 1, '25006'],
    [['explain', 'no-such-code'], 1, 'command_failed'],
    [['functions', 'new', 'Bad Name'], 2, 'command_failed'],
    [['init', '.'], 2, 'command_failed'],
    [['keys', 'revoke', 'nobody'], 78, 'no_such_key'],
    [['config', 'status'], 1, 'command_failed'],
    [['backup', 'verify', 'not-one-of-them'], 1, 'no_backup'],
    [['restore'], 1, 'restore_not_empty'],
    [['clone', '--to', 'nowhere'], 2, 'command_failed'],
    [['migrate', 'down', '99'], 3, 'command_failed'],
  ])('%j', async (words, exitCode, code) => {
    const named = words.map((word) => (word === '.' ? folder : word));
    const { exitCode: ended, report } = await run(named);
    expect([ended, report.ok, report.data, report.problems.map((problem) => problem.code)]).toEqual([
      exitCode,
      false,
      null,
      [code],
    ]);
  });

  test('a file with mistakes: each of them', async () => {
    writeFileSync(join(folder, 'svc.yaml'), `${YAML}projekt: {}\nservr: {}\n`);
    const { exitCode, report } = await run(['migrate', 'status']);
    expect([exitCode, report]).toMatchObject([
      7,
      {
        problems: [
          { code: 'unknown-key', line: 7 },
          { code: 'unknown-key', line: 8 },
        ],
      },
    ]);
  });

  test('a change that is refused: each problem with its code and place', async () => {
    writeFileSync(
      join(folder, 'svc.yaml'),
      YAML.replace('{ name: body, type: text }', '{ name: body, type: bigint }'),
    );
    const { exitCode, report } = await run(['migrate', 'apply']);
    expect([exitCode > 0, report.data]).toEqual([true, null]);
    expect(report.problems).toMatchObject([
      { code: 'MIG-207', path: 'tables.notes.fields.body.type' },
      { code: 'MIG-208', path: 'tables.notes.fields.body.type' },
    ]);
  });
});

test('a stamp, last: it orders all migrations after it', async () => {
  expect(await run(['stamp'])).toMatchObject({
    exitCode: 0,
    report: { data: { file: '.svc/build.json', commit: null } },
  });
});
