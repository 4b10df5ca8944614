// Code functions cannot read the service's environment: not in their own process, and not through /proc of other
// processes.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { processesBelow } from '../../support/process-environment.ts';
import { runSvc, startSvc, type SvcProcess } from '../../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../../support/todo-project.ts';

const SECRETS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
  SVC_ENV_MINE: 'canary of the service',
  AWS_SECRET_ACCESS_KEY: 'canary of the store',
  NODE_AUTH_TOKEN: 'canary of the registry',
};

let project: TodoProject;
let database: TestDatabase;

beforeAll(async () => {
  database = await createDatabase();
  project = copyTodoProject();
  writeFileSync(
    join(project.directory, 'functions/hello.js'),
    `import { readFileSync } from 'node:fs';
     const read = (path) => { try { return readFileSync(path, 'latin1'); } catch (error) { return error.code; } };
     export default async () => ({ body: {
       parent: process.ppid,
       environ: read('/proc/' + process.ppid + '/environ'),
       cmdline: read('/proc/' + process.ppid + '/cmdline'),
     } });`,
  );
});
afterAll(async () => {
  project.remove();
  await database.drop();
});

const environmentFiles = (): string[] =>
  process.platform === 'linux'
    ? readdirSync('/dev/shm').filter((name) => name.startsWith('.svc-environment-'))
    : [];
/** Files left by earlier runs that were killed. */
const before = environmentFiles();

describe.runIf(process.platform === 'linux').each(['dev', 'serve'] as const)('svc %s', (command) => {
  let svc: SvcProcess;

  beforeAll(async () => {
    svc = await startSvc({
      command,
      config: project.config,
      env: { ...SECRETS, SVC_DATABASE_URL: database.url },
      arguments: command === 'serve' ? ['--migrate'] : [],
    });
  });
  afterAll(async () => await svc.stop());

  test('a function finds no secret in the process that started it', async () => {
    const response = await fetch(`${svc.url}/functions/v1/hello`);
    const shown = (await response.json()) as { parent: number; environ: string; cmdline: string };
    // The service has the process id that its supervisor started.
    expect(shown.parent).toBe(svc.child.pid);
    expect(shown.environ).toContain('PATH=');
    for (const secret of [...Object.values(SECRETS), database.url]) {
      expect(shown.environ).not.toContain(secret);
      expect(shown.cmdline).not.toContain(secret);
    }
  });

  test('no process of the service shows a secret in /proc', () => {
    const processes = processesBelow(svc.child.pid ?? 0);
    expect(processes.length).toBeGreaterThan(1);
    for (const { command: shown, environment } of processes) {
      for (const secret of Object.values(SECRETS)) {
        expect(environment, shown).not.toContain(secret);
        expect(shown).not.toContain(secret);
      }
    }
  });

  test('the service itself has all of its environment, and leaves no file of it', async () => {
    const headers = { apikey: SECRETS.SVC_SECRET_KEY };
    expect((await fetch(`${svc.url}/rest/v1/tips`, { headers })).status).toBe(200);
    // The svc of another test may have such a file briefly during its start. A file of this one would remain.
    await expect.poll(() => environmentFiles().filter((name) => !before.includes(name))).toEqual([]);
  });

  test('SIGTERM stops it gracefully', async () => {
    expect(await svc.stop('SIGTERM')).toBe(0);
  });
});

test.runIf(process.platform === 'linux')('a rejected start returns its exit code', async () => {
  const { code, output } = await runSvc(['serve', '--config', project.config], {
    env: { ...SECRETS, SVC_DATABASE_URL: undefined },
  });
  expect([code, output]).toEqual([78, expect.stringContaining('SVC_DATABASE_URL is not set')]);
});
