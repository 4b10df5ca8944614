// Tests the output of the first commands of a new user. None of them needs a database.
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test, vi } from 'vitest';
import { CommandFailure } from './exit.ts';
import { functionsCommand } from './functions/functions.ts';
import { initCommand } from './init/init.ts';
import { ensureKeys } from './dev/keys-file.ts';
import { publishRunningServer } from './dev/running-server.ts';
import type { Terminal } from './terminal.ts';
import { validateCommand } from './validate/validate.ts';

const root = mkdtempSync(join(tmpdir(), 'svc-first-steps-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folder: string;
let printed: string[];
const terminal: Terminal = {
  color: false,
  print: (text) => void printed.push(text),
  printError: (text) => void printed.push(text),
  style: (_style, text) => text,
};
beforeEach(() => {
  folder = mkdtempSync(join(root, 'p-'));
  printed = [];
  // Clears variables of the machine that runs the tests.
  vi.stubEnv('npm_command', undefined);
  vi.stubEnv('npm_lifecycle_event', undefined);
  vi.stubEnv('SVC_PORT', undefined);
  vi.stubEnv('CI', undefined);
  vi.stubEnv('GITHUB_ACTIONS', undefined);
});

const output = (): string => printed.join('\n');
const init = (): Promise<unknown> => initCommand(terminal).parseAsync([folder], { from: 'user' });
const functions = (...args: string[]): Promise<unknown> =>
  functionsCommand(terminal).parseAsync([...args, '--config', join(folder, 'svc.yaml')], { from: 'user' });
const validate = (): Promise<unknown> =>
  validateCommand(terminal).parseAsync(['--config', join(folder, 'svc.yaml')], { from: 'user' });

test('init prints the next command so that it can be typed', async () => {
  await init();
  expect(output()).toMatch(/&& svc dev$/);
  printed = [];
  folder = mkdtempSync(join(root, 'p-'));
  vi.stubEnv('npm_command', 'exec');
  await init();
  expect(output()).toMatch(/&& npx svc dev$/);
});

test('init in an npm script prints a command that works outside of the script', async () => {
  vi.stubEnv('npm_command', 'run-script');
  vi.stubEnv('npm_lifecycle_event', 'setup');
  await init();
  expect(output()).toMatch(/&& npx svc dev$/);
});

test('the first file is valid and refers only to existing files', async () => {
  await init();
  expect(readFileSync(join(folder, 'svc.yaml'), 'utf8')).not.toMatch(/docs\/|\.md\b/);
  printed = [];
  await validate();
  expect(output()).toMatch(/^✓ .* is valid: 1 table,[^\n]*$/);
});

test('functions new prints the URL of the running svc dev', async () => {
  await init();
  const withdraw = publishRunningServer(folder, 'http://localhost:4711');
  await functions('new', 'hello');
  expect(output()).toContain('curl http://localhost:4711/functions/v1/hello');
  withdraw();
  await functions('new', 'later');
  expect(output()).toContain('curl http://localhost:8080/functions/v1/later');
});

test('the URL of a killed svc dev is not printed', async () => {
  await init();
  publishRunningServer(folder, 'http://localhost:4711');
  // No process has this id: it is above the largest that Linux allows.
  writeFileSync(
    join(folder, '.svc/running.json'),
    JSON.stringify({ url: 'http://localhost:4711', pid: 4_194_305 }),
  );
  await functions('new', 'hello');
  expect(output()).toContain('curl http://localhost:8080/functions/v1/hello');
});

test('functions list reports that there are none, or lists them', async () => {
  await init();
  printed = [];
  await functions('list');
  expect(output()).toContain('svc functions new');
  mkdirSync(join(folder, 'functions'));
  writeFileSync(join(folder, 'functions/hello.js'), 'export default async () => ({});\n');
  writeFileSync(
    join(folder, 'svc.yaml'),
    'version: 1\nfunctions:\n  hello: { runtime: node, file: functions/hello.js }\n',
  );
  printed = [];
  await functions('list');
  expect(output()).toMatch(/^hello +public +30s +functions\/hello\.js$/);
});

test.each([
  ['nothing', '', undefined, 8080],
  ['the file', 'server: { port: 7777 }\n', undefined, 7777],
  ['the environment over the file', 'server: { port: 7777 }\n', '9999', 9999],
])('functions new prints the port that %s declares', async (_what, server, variable, port) => {
  writeFileSync(join(folder, 'svc.yaml'), `version: 1\n${server}`);
  vi.stubEnv('SVC_PORT', variable);
  await functions('new', 'hello');
  expect(output()).toContain(`curl http://localhost:${port}/functions/v1/hello`);
});

const GITHUB =
  'auth: { oauth: { github: { client_id: "${ID}", client_secret: "${SECRET}", redirect_url: "${BACK}" } } }\n';

test('validate warns about unset variables of keys of any type', async () => {
  writeFileSync(
    join(folder, 'svc.yaml'),
    `version: 1\nserver: { port: "\${MY_PORT}", timeouts: { request: "\${TIME}" } }\n${GITHUB}`,
  );
  await validate();
  expect(output().match(/ warning .*/g)).toHaveLength(5);
  expect(output()).toMatch(/has no variable TIME[^]*✓ .* is valid/);
});

test('a mistake is found although a variable is not set', async () => {
  writeFileSync(join(folder, 'svc.yaml'), `version: 1\n${GITHUB}project: { nmae: x }\n`);
  const failure: unknown = await validate().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(CommandFailure);
  const report = failure instanceof CommandFailure ? failure.report : '';
  expect(report).toMatch(/error project\.nmae/);
  expect(report.match(/ warning auth\.oauth/g)).toHaveLength(3);
  expect(report).toMatch(/\n1 mistake in /);
});

test('validate reports invalid lines of an environment file without their content', async () => {
  await init();
  writeFileSync(join(folder, '.env'), 'A=1\nhunter2\n');
  printed = [];
  await validate();
  expect(output()).toContain('.env:2 sets nothing');
  expect(output()).not.toContain('hunter2');
});

test.skipIf(process.platform === 'win32')(
  'an environment file that receives the secret key is readable only by its owner',
  () => {
    const file = join(folder, '.env');
    writeFileSync(file, 'A=1');
    chmodSync(file, 0o644);
    const { secret } = ensureKeys(file, {}, terminal);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).toMatch(
      new RegExp(`^A=1\nSVC_PUBLISHABLE_KEY=.*\nSVC_SECRET_KEY=${secret}\n$`),
    );
    expect(output()).toContain('only you can read it');
    expect(output()).not.toContain(secret);
  },
);

test('an environment file with keys is not changed', () => {
  const file = join(folder, '.env');
  const keys = ensureKeys(file, {}, terminal);
  printed = [];
  const env = { SVC_PUBLISHABLE_KEY: keys.publishable, SVC_SECRET_KEY: keys.secret };
  expect(ensureKeys(file, env, terminal)).toEqual(keys);
  expect(printed).toEqual([]);
});
