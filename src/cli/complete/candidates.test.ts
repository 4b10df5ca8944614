import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { afterAll, describe, expect, test } from 'vitest';
import { candidates } from './candidates.ts';
import { projectNames } from './project-names.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-complete-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, 'svc.yaml');
writeFileSync(
  file,
  `tables:
  todos: { fields: [{ name: id, type: uuid }, { name: title, type: text }] }
  "two words": { fields: [] }
  "$(id)": { fields: [] }
views: { recent: { materialized: true } }
seed: { demo: {} }
`,
);
mkdirSync(join(folder, 'backups/20260101T000000Z'), { recursive: true });

const config = (command: Command): Command => command.option('-c, --config <file>', 'the configuration file');
const COMMANDS: Readonly<Record<string, () => Command>> = {
  validate: () =>
    config(new Command('validate'))
      .addOption(new Option('--format <format>').choices(['text', 'json', 'github']))
      .option('--tag <tag...>')
      .option('--no-secrets', 'no\n  secrets')
      .addOption(new Option('--hidden').hideHelp())
      .argument('[directory]'),
  migrate: () => {
    const command = new Command('migrate');
    config(command.command('plan').description('show'));
    config(command.command('rename')).argument('<path>').argument('<name>');
    return command;
  },
  refresh: () => config(new Command('refresh')).argument('[names...]'),
  seed: () => config(new Command('seed')).argument('[names...]'),
  backup: () => {
    const command = new Command('backup');
    command.command('verify').argument('[id]').option('--to <folder>');
    return command;
  },
  keys: () => new Command('keys').addArgument(new Argument('<kind>').choices(['a', 'b'])),
};
const completion = {
  names: Object.keys(COMMANDS),
  load: (name: string) => Promise.resolve(Object.hasOwn(COMMANDS, name) ? COMMANDS[name]?.() : undefined),
  projectNames,
};

async function words(...typed: string[]): Promise<string[]> {
  const { found, files } = await candidates(typed, completion);
  return [...found.map(({ value }) => value), ...(files ? [':files'] : [])];
}

test.each<[string[], string[]]>([
  [[''], ['validate', 'migrate', 'refresh', 'seed', 'backup', 'keys', 'help']],
  [[], ['validate', 'migrate', 'refresh', 'seed', 'backup', 'keys', 'help']],
  [['mi'], ['migrate']],
  [['--v'], ['--version']],
  [['help', 'se'], ['seed']],
  [['nothing', ''], []],
  [
    ['validate', '--'],
    ['--config', '--format', '--tag', '--no-secrets', '--help'],
  ],
  [['validate', '--format', 'json', '--f'], []],
  [['validate', '--tag', 'a', '--t'], ['--tag']],
  [
    ['validate', '--format', ''],
    ['text', 'json', 'github'],
  ],
  [['validate', '--format', 'j'], ['json']],
  [['validate', '--format=j'], ['--format=json']],
  [['validate', '--format', '=', 'j'], ['json']],
  [
    ['validate', '--format', '='],
    ['text', 'json', 'github'],
  ],
  [['validate', '-c', ''], [':files']],
  [['validate', ''], [':files']],
  [['validate', '-c', 'a.yaml', 'src'], [':files']],
  [['validate', 'a', ''], []],
  [
    ['migrate', ''],
    ['plan', 'rename', 'help'],
  ],
  [['migrate', 'plan', '--c'], ['--config']],
  [
    ['migrate', 'rename', '-c', file, ''],
    ['todos', 'todos.id', 'todos.title'],
  ],
  [['migrate', 'rename', `--config=${file}`, 'todos.t'], ['todos.title']],
  [['migrate', 'rename', '-c', file, 'todos', ''], []],
  [['migrate', 'rename', '-c', '/nowhere', ''], []],
  [['refresh', '-c', file, ''], ['recent']],
  [['refresh', '-c', file, 'other', 'r'], ['recent']],
  [['seed', '-c', file, ''], ['demo']],
  [['backup', 'verify', '--to', folder, ''], ['20260101T000000Z']],
  [
    ['keys', ''],
    ['a', 'b'],
  ],
  [['keys', '--', '-'], []],
])('%j', async (typed, expected) => {
  expect(await words(...typed)).toEqual(expected);
});

describe('a description', () => {
  test('comes with the option or command it describes', async () => {
    const { found } = await candidates(['migrate', 'pl'], completion);
    expect(found).toEqual([{ value: 'plan', description: 'show' }]);
  });
});
