// With little memory the launcher starts Node again, in the same process, with the flag that saves some.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { memoryFlags, SMALL_NURSERY } from '../../bin/small-memory.js';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { processesBelow } from '../support/process-environment.ts';
import { runSvc, startSvc } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const GB = 1024 ** 3;

let database: TestDatabase;
let project: TodoProject;
beforeAll(async () => {
  database = await createDatabase();
  project = copyTodoProject();
});
afterAll(async () => {
  project.remove();
  await database.drop();
});

test.each([
  ['a machine with little', { total: GB }, true],
  ['a container with little on a large machine', { limit: GB / 2, total: 64 * GB }, true],
  ['enough', { limit: 2 * GB, total: 64 * GB }, false],
  ['enough, but asked for', { total: 64 * GB, env: { SVC_SMALL_MEMORY: '1' } }, true],
  ['little, but not wanted', { total: GB, env: { SVC_SMALL_MEMORY: '0' } }, false],
  ['a flag of its own', { total: GB, execArgv: ['--max-semi-space-size=32'] }, false],
  ['the same in NODE_OPTIONS', { total: GB, env: { NODE_OPTIONS: '--x --max_semi_space_size=32' } }, false],
  ['a debugger', { total: GB, execArgv: ['--inspect-brk=0'] }, false],
])('memory: %s', (_name, machine, expected) => {
  const flags = memoryFlags({ env: {}, execArgv: [], limit: Infinity, ...machine });
  expect(flags).toEqual(expected ? [SMALL_NURSERY] : []);
});

const commandOf = (pid: number | undefined): string => readFileSync(`/proc/${pid}/cmdline`, 'latin1');

test.runIf(process.platform === 'linux')(
  'it is one process with the same id, and signals and exit codes are its own',
  async () => {
    const env = { ...KEYS, SVC_DATABASE_URL: database.url, SVC_SMALL_MEMORY: '1' };
    const svc = await startSvc({
      command: 'serve',
      config: project.config,
      env,
      arguments: ['--migrate'],
    });
    const shown = processesBelow(svc.child.pid ?? 0);
    expect(commandOf(svc.child.pid)).toContain(SMALL_NURSERY);
    // Code functions run in processes of their own.
    expect(shown.filter(({ command }) => command.includes(' serve '))).toHaveLength(1);
    const exit = once(svc.child, 'exit');
    svc.child.kill('SIGTERM');
    expect(await exit).toEqual([0, null]);
    expect(svc.output()).not.toContain('Warning');
    const refused = await runSvc(['serve', '--config', '/nowhere.yaml'], { env });
    expect(refused.code).toBe(78);
  },
);

test.runIf(process.platform === 'linux')('SVC_NO_REEXEC=1 starts nothing again', async () => {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url, SVC_SMALL_MEMORY: '1', SVC_NO_REEXEC: '1' };
  const svc = await startSvc({ command: 'serve', config: project.config, env, arguments: ['--migrate'] });
  try {
    expect(commandOf(svc.child.pid)).not.toContain(SMALL_NURSERY);
  } finally {
    await svc.stop();
  }
});
