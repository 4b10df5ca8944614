// The systemd units of deploy/, as far as they can be tested without systemd as the first process. Without
// systemd-analyze and strace (Debian packages) the tests are skipped; SVC_TEST_PROXIES=required fails instead.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { LAUNCHER, NODE } from '../support/svc-process.ts';
import { scaled } from '../support/run/scaled.ts';

const DEPLOY = join(import.meta.dirname, '../../deploy');
const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

const isHere = [['systemd-analyze', '--version'] as const, ['strace', '-V'] as const].every(
  ([program, word]) => {
    const found = spawnSync(program, [word]).status === 0;
    if (!found && process.env['SVC_TEST_PROXIES'] === 'required')
      throw new Error(`${program} is not installed`);
    return found;
  },
);

/** Names of the system calls of the groups. */
function systemCalls(...groups: readonly string[]): Set<string> {
  const { stdout } = spawnSync('systemd-analyze', ['syscall-filter', ...groups], { encoding: 'utf8' });
  const calls = new Set<string>();
  for (const line of stdout.split('\n')) {
    const [, name = ''] = /^ {4}(@?[a-z][\w-]*)$/.exec(line) ?? [];
    if (name.startsWith('@')) for (const one of systemCalls(name)) calls.add(one);
    else if (name !== '') calls.add(name);
  }
  return calls;
}

describe.skipIf(!isHere)('units of deploy/', () => {
  let folder: string;
  let database: TestDatabase;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-unit-'));
    database = await createDatabase();
  });
  afterAll(async () => {
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  const copyUnit = (name: string): string => {
    const copy = join(folder, name);
    const unit = readFileSync(join(DEPLOY, name), 'utf8');
    writeFileSync(copy, unit.replaceAll('/usr/local/bin/svc', process.execPath));
    return copy;
  };
  const complaintsAbout = (copy: string): string[] =>
    spawnSync('systemd-analyze', ['verify', copy], { encoding: 'utf8' })
      .stderr.split('\n')
      .filter((line) => line.includes('svc'));

  test('the timer starts the unit of its name', () => {
    copyUnit('svc-backup.service');
    expect(complaintsAbout(copyUnit('svc-backup.timer'))).toEqual([]);
  });

  test.each(['svc.service', 'svc-backup.service'])('%s is valid and leaves little open', (name) => {
    const copy = copyUnit(name);
    expect(complaintsAbout(copy)).toEqual([]);
    const { stdout, status } = spawnSync(
      'systemd-analyze',
      ['security', '--offline=true', '--threshold=15', copy],
      { encoding: 'utf8' },
    );
    expect(status, stdout.split('\n').slice(-3).join('\n')).toBe(0);
  });

  test('forbids no system call that a whole life of the service needs', async () => {
    writeFileSync(
      join(folder, 'svc.yaml'),
      `version: 1
tables: { notes: { fields: [{ name: id, type: bigserial, primary_key: true }],
    rls: [{ operations: [select, insert], check: 'true' }] } }
storage: { files: { public: true, rls: [{ operations: [select, insert], check: 'true' }] } }
functions: { hello: { runtime: node, file: hello.js } }
`,
    );
    writeFileSync(join(folder, 'hello.js'), 'export default () => ({ body: "hello" });\n');
    const port = await freePort();
    const trace = join(folder, 'calls');
    const child = spawn(
      'strace',
      [
        '-f',
        '-qq',
        '-c',
        '-o',
        trace,
        NODE,
        LAUNCHER,
        'serve',
        '--migrate',
        '--config',
        join(folder, 'svc.yaml'),
        '--port',
        String(port),
      ],
      { env: { ...process.env, ...KEYS, SVC_DATABASE_URL: database.url }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const url = `http://127.0.0.1:${port}`;
    const isReady = (): Promise<boolean> =>
      fetch(`${url}/ready`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(isReady, { timeout: scaled(60_000), message: output }).toBe(true);
    const app = createClient(url, KEYS.SVC_PUBLISHABLE_KEY, { auth: { persistSession: false } });
    expect(
      (await app.auth.signUp({ email: 'ann@example.com', password: 'correct horse battery' })).error,
    ).toBeNull();
    expect((await app.from('notes').insert({})).error).toBeNull();
    const picture = Buffer.from(
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      'base64',
    );
    expect(
      (await app.storage.from('files').upload('a.png', picture, { contentType: 'image/png' })).error,
    ).toBeNull();
    const small = await fetch(`${url}/storage/v1/render/image/public/files/a.png?width=1`);
    expect([200, 400]).toContain(small.status);
    expect(await (await fetch(`${url}/functions/v1/hello`)).text()).toBe('hello');
    const ended = once(child, 'exit');
    const { stdout } = spawnSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' });
    process.kill(Number(stdout.trim().split('\n')[0]), 'SIGTERM');
    await ended;

    const used = [
      ...readFileSync(trace, 'utf8').matchAll(/^\s*[\d.]+\s+[\d.]+\s+\d+\s+\d+\s+(?:\d+\s+)?(\w+)$/gm),
    ].map(([, name = '']) => name);
    expect(used.length).toBeGreaterThan(40);
    const allowed = systemCalls('@system-service');
    const refused = systemCalls('@privileged', '@resources');
    expect(used.filter((name) => name !== 'total' && (!allowed.has(name) || refused.has(name)))).toEqual([]);
  });
});
