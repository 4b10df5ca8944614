// `svc.<mode>.yaml`: one file served in two modes, an overlay that is added while it is served, and the combined text
// that instances share.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const SVC_YAML = `version: 1
include: tables.yaml
auth: { allow_signup: true, jwt_expiry: 1h }
providers: { email: { type: resend, api_key: "\${MAIL_KEY}", default_from_email: a@example.com } }
`;
const TABLES =
  'tables: { notes: { fields: [{ name: id, type: bigint, primary_key: true }], ' +
  'rls: [{ operations: [select], using: "true" }] } }\n';

const folder = mkdtempSync(join(tmpdir(), 'svc-overlay-'));
const config = join(folder, 'svc.yaml');
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
let database: TestDatabase;
let dev: SvcProcess | undefined;
let serving: SvcProcess | undefined;

beforeAll(async () => {
  write('svc.yaml', SVC_YAML);
  write('tables.yaml', TABLES);
  // A developer's machine does not have the key of the provider.
  write('svc.development.yaml', 'providers: { email: null }\n');
  write('svc.staging.yaml', 'providers: { email: null }\nauth: { allow_signup: false }\n');
  database = await createDatabase();
});
afterAll(async () => {
  await dev?.stop();
  await serving?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

const environment = () => ({ ...KEYS, SVC_DATABASE_URL: database.url });
const svc = (...args: string[]) => runSvc(args, { env: environment(), cwd: folder });

async function isSignupClosed(at: SvcProcess | undefined): Promise<unknown> {
  const answer = await fetch(`${at?.url}/auth/v1/settings`, {
    headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY },
  });
  return Reflect.get(Object(await answer.json()), 'disable_signup');
}

test('one file is served in two modes with their overlays, and is refused without one', async () => {
  dev = await startSvc({ command: 'dev', config, env: environment() });
  expect(dev.output()).toContain('svc.development.yaml');
  const staging = ['--mode', 'staging'];
  serving = await startSvc({ command: 'serve', config, env: environment(), arguments: staging });
  expect([await isSignupClosed(dev), await isSignupClosed(serving)]).toEqual([false, true]);
  const production = await svc('serve', '--port', '0');
  expect([production.code, production.output]).toEqual([78, expect.stringContaining('no variable MAIL_KEY')]);
});

test('an overlay is watched: a mistake is reported with its place, and a valid one is served', async () => {
  write('svc.development.yaml', 'providers: { email: null }\ntables: {}\n');
  await expect
    .poll(() => dev?.output())
    .toMatch(/svc\.development\.yaml:2:1 error tables[\s\S]*an overlay cannot change tables/);
  write('svc.development.yaml', 'providers: { email: null }\nauth: { allow_signup: false }\n');
  await expect.poll(() => isSignupClosed(dev)).toBe(true);
  // A deleted overlay no longer applies.
  write('svc.yaml', SVC_YAML.replace(/providers.*\n/, ''));
  rmSync(join(folder, 'svc.development.yaml'));
  await expect.poll(() => isSignupClosed(dev)).toBe(false);
});

test('instances share the file, its included files and the overlay of the mode as one text', async () => {
  write('svc.yaml', SVC_YAML.replace(/providers.*\n/, ''));
  const pushed = await svc('config', 'push', 'svc.yaml', '--mode', 'staging');
  expect(pushed).toMatchObject({ code: 0 });
  const { output } = await svc('config', 'pull', '-');
  expect(output).toContain('allow_signup: false');
  expect(output).toContain('notes:');
  expect(output).not.toContain('include');
  const beside = await svc('config', 'pull', 'svc.yaml');
  expect(beside.output).toContain(
    'note: in staging, svc.staging.yaml overrides providers.email, auth.allow_signup',
  );
  expect(beside.output).not.toContain('in production');
  write('svc.yaml', SVC_YAML.replace(/providers.*\n/, ''));
  expect((await svc('config', 'diff', 'svc.yaml', '--mode', 'staging')).output).toContain('no difference');
  expect((await svc('config', 'diff', 'svc.yaml')).output).toContain('-');
});

test('validate reads all overlays, or only the one of --mode', async () => {
  write('svc.staging.yaml', 'auth: { jwt_expiri: 5m }\n');
  const all = await svc('validate');
  expect([all.code, all.output]).toEqual([
    1,
    expect.stringMatching(/svc\.staging\.yaml:1:9 error[^]*1 mistake in svc\.staging\.yaml/),
  ]);
  expect(await svc('validate', '--mode', 'production')).toMatchObject({ code: 0 });
  expect(await svc('validate', '--mode', 'staging')).toMatchObject({ code: 1 });
  write('svc.staging.yaml', 'auth: { jwt_expiry: 5m }\n');
  expect((await svc('validate')).output).toContain('svc.yaml is valid, also in staging');
});

test('config print shows the origin of each value, and masks secrets in the file', async () => {
  write('svc.staging.yaml', 'auth: { jwt_expiry: 5m }\nproviders: { email: { api_key: re_hunter2 } }\n');
  write('svc.yaml', SVC_YAML);
  const printed = await svc('config', 'print', '--mode', 'staging', '--origins');
  expect(printed.output).toContain('jwt_expiry: 5m # svc.staging.yaml:1');
  expect(printed.output).toContain('allow_signup: true # svc.yaml:3');
  expect(printed.output).toContain('# tables.yaml:1');
  expect(printed.output).toContain('masked here: providers.email.api_key');
  expect(printed.output).not.toContain('hunter2');
  const shown = await svc('config', 'print', '--mode', 'staging', '--show-secrets');
  expect(shown.output).toContain('api_key: re_hunter2');
});
