// Tests the machine-readable output and the exit codes of commands that need no database.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { packageVersion } from '../../lib/package-files.ts';
import { EXIT, explain } from '../exit.ts';
import { functionsCommand } from '../functions/functions.ts';
import { initCommand } from '../init/init.ts';
import type { Terminal } from '../terminal.ts';
import { validateCommand } from '../validate/validate.ts';

const root = mkdtempSync(join(tmpdir(), 'svc-formats-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let folder: string;
let file: string;
let out: string[];
let errors: string[];
const terminal: Terminal = {
  color: false,
  print: (text) => void out.push(text),
  printError: (text) => void errors.push(text),
  style: (_style, text) => text,
};
beforeEach(() => {
  folder = mkdtempSync(join(root, 'p-'));
  file = join(folder, 'svc.yaml');
  [out, errors] = [[], []];
  vi.stubEnv('CI', undefined);
  vi.stubEnv('GITHUB_ACTIONS', undefined);
});

/** Returns the exit code. The report goes to the errors, as on the command line. */
async function code(run: Promise<unknown>): Promise<number> {
  const [outcome] = await Promise.allSettled([run]);
  if (outcome.status === 'fulfilled') return 0;
  const { exitCode, report } = explain(outcome.reason);
  if (report !== '') errors.push(report);
  return exitCode;
}

const validate = (...args: string[]): Promise<number> =>
  code(validateCommand(terminal).parseAsync(['--config', file, ...args], { from: 'user' }));
const functions = (...args: string[]): Promise<number> =>
  code(functionsCommand(terminal).parseAsync([...args, '--config', file], { from: 'user' }));
const object = (): Record<string, unknown> => JSON.parse(out.join('\n')) as Record<string, unknown>;

const NEEDS =
  'version: 1\nproviders: { email: { type: resend, api_key: "${MAIL_KEY}", default_from_email: a@b.c } }\n';
const WRONG = 'version: 1\nproject:\n  nmae: "100% x"\n';

describe('a variable that is not set', () => {
  test.each([
    ['is a warning', [], undefined, 0, 'warning'],
    ['is a note with --no-secrets', ['--no-secrets'], undefined, 0, 'note'],
    ['is a note in CI', [], 'true', 0, 'note'],
    ['is an error with --require-env', ['--require-env'], undefined, 1, 'error'],
    ['is an error in CI with --require-env', ['--require-env'], 'true', 1, 'error'],
  ] as const)('%s', async (_what, args, ci, exitCode, severity) => {
    vi.stubEnv('CI', ci);
    writeFileSync(file, NEEDS);
    expect(await validate('--json', ...args)).toBe(exitCode);
    expect(object()).toMatchObject({
      ok: exitCode === 0,
      problems: [{ code: 'missing-variable', severity, line: 2, path: 'providers.email.api_key' }],
    });
    out = [];
    expect(await validate(...args)).toBe(exitCode);
    expect(errors.join('\n')).toContain(`:2:47 ${severity} providers.email.api_key`);
  });

  test('is a GitHub notice, which does not block a pull request', async () => {
    writeFileSync(file, NEEDS);
    expect(await validate('--format', 'github', '--no-secrets')).toBe(0);
    expect(out[0]).toMatch(/^::notice file=.*svc\.yaml,line=2,col=47,title=providers\.email\.api_key::/);
  });
});

describe('--json', () => {
  test('counts the objects of a valid file', async () => {
    writeFileSync(
      file,
      'version: 1\ntables: { t: { fields: [{ name: id, type: uuid, primary_key: true }], rls: [] } }\n',
    );
    expect(await validate('--json')).toBe(0);
    expect(object()).toEqual({
      ok: true,
      command: 'validate',
      version: packageVersion(),
      data: { file: expect.stringMatching(/svc\.yaml$/), tables: 1, buckets: 0, rpc: 0, functions: 0 },
      problems: [],
    });
    expect(errors).toEqual([]);
  });

  test('contains each mistake of a file with its place, and prints nothing else', async () => {
    writeFileSync(file, WRONG);
    expect(await validate('--format', 'json')).toBe(1);
    expect(object()).toMatchObject({
      ok: false,
      problems: [{ code: 'unknown-key', severity: 'error', line: 3, column: 3, path: 'project.nmae' }],
    });
    expect(errors).toEqual([]);
  });

  test('is one object for a missing file, too', async () => {
    expect(await validate('--json')).toBe(78);
    expect(object()).toMatchObject({ ok: false, data: null, problems: [{ severity: 'error' }] });
  });

  test('contains the functions of functions list', async () => {
    mkdirSync(join(folder, 'functions'));
    writeFileSync(join(folder, 'functions/hello.js'), 'export default async () => ({});\n');
    writeFileSync(file, 'version: 1\nfunctions: { hello: { runtime: node, file: functions/hello.js } }\n');
    expect(await functions('list', '--json')).toBe(0);
    const hello = { name: 'hello', file: 'functions/hello.js', auth_required: false, timeout_ms: 30_000 };
    expect(object()).toMatchObject({ ok: true, command: 'functions list', data: { functions: [hello] } });
    out = [];
    writeFileSync(file, WRONG);
    expect(await functions('list', '--json')).toBe(78);
    expect(object()).toMatchObject({ ok: false, problems: [{ code: 'unknown-key' }] });
  });
});

test('--format sarif contains each mistake with its rule and its region', async () => {
  writeFileSync(file, WRONG);
  expect(await validate('--format', 'sarif')).toBe(1);
  expect(object()).toMatchObject({
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'svc', rules: [{ id: 'unknown-key' }] } },
        results: [
          {
            ruleId: 'unknown-key',
            ruleIndex: 0,
            level: 'error',
            locations: [
              {
                physicalLocation: {
                  artifactLocation: { uri: expect.stringMatching(/svc\.yaml$/) },
                  region: { startLine: 3, startColumn: 3, endColumn: 7 },
                },
              },
            ],
          },
        ],
      },
    ],
  });
  out = [];
  writeFileSync(file, 'version: 1\n');
  expect(await validate('--format', 'sarif')).toBe(0);
  expect(object()).toMatchObject({ runs: [{ results: [] }] });
});

describe('a mistake of the command line has another exit code than a mistake of the project', () => {
  test.each(['Bad Name', 'a/b', ''])('functions new %j', async (name) => {
    writeFileSync(file, 'version: 1\n');
    expect(await functions('new', name)).toBe(EXIT.misuse);
    expect(errors.join('\n')).toMatch(/is not a function name/);
    expect(existsSync(join(folder, 'functions'))).toBe(false);
  });

  test('functions new with an existing name', async () => {
    writeFileSync(file, 'version: 1\n');
    expect(await functions('new', 'hello')).toBe(0);
    expect(await functions('new', 'hello')).toBe(EXIT.misuse);
  });

  test('init does not overwrite a file', async () => {
    writeFileSync(file, WRONG);
    const init = initCommand(terminal).parseAsync([folder], { from: 'user' });
    expect(await code(init)).toBe(EXIT.misuse);
    expect(readFileSync(file, 'utf8')).toBe(WRONG);
  });
});
