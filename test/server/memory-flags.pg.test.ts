// The launcher restarts Node in the same process with a flag that limits its young heap. Reading the file takes little
// memory.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { svcFile } from '../../bench/startup/large-file-text.ts';
import { restartFlags, runtimeFlags, YOUNG_HEAP_LIMIT } from '../../bin/memory-flags.js';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { processesBelow } from '../support/process-environment.ts';
import { runSvc, startSvc } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

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
  ['any machine', {}, true],
  ['a size on the command line', { execArgv: ['--max-semi-space-size=32'] }, false],
  ['a size in NODE_OPTIONS', { env: { NODE_OPTIONS: '--x --max_semi_space_size=32' } }, false],
  ['a debugger', { execArgv: ['--inspect-brk=0'] }, false],
])('the young heap is limited: %s', (_name, given, expected) => {
  expect(restartFlags({ env: {}, execArgv: [], ...given })).toEqual(expected ? [YOUNG_HEAP_LIMIT] : []);
});

const commandLine = (pid: number | undefined): string => readFileSync(`/proc/${pid}/cmdline`, 'latin1');

test.runIf(process.platform === 'linux')(
  'the restarted process keeps its id, its signals and its exit codes',
  async () => {
    const env = { ...KEYS, SVC_DATABASE_URL: database.url };
    const svc = await startSvc({
      command: 'serve',
      config: project.config,
      env,
      arguments: ['--migrate'],
    });
    const shown = processesBelow(svc.child.pid ?? 0);
    expect(commandLine(svc.child.pid)).toContain(YOUNG_HEAP_LIMIT);
    // Code functions run in separate processes.
    expect(shown.filter(({ command }) => command.includes(' serve '))).toHaveLength(1);
    const exit = once(svc.child, 'exit');
    svc.child.kill('SIGTERM');
    expect(await exit).toEqual([0, null]);
    expect(svc.output()).not.toContain('Warning');
    const refused = await runSvc(['serve', '--config', '/nowhere.yaml'], { env });
    expect(refused.code).toBe(78);
  },
);

test.runIf(process.platform === 'linux')('SVC_NO_REEXEC=1 prevents the restart', async () => {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url, SVC_NO_REEXEC: '1' };
  const svc = await startSvc({ command: 'serve', config: project.config, env, arguments: ['--migrate'] });
  try {
    expect(commandLine(svc.child.pid)).not.toContain(YOUNG_HEAP_LIMIT);
  } finally {
    await svc.stop();
  }
});

/** Prints the peak memory of the process itself. The counters of the system include its parent. */
const PRINT_PEAK = `import { readFileSync } from 'node:fs'; process.on('exit', () =>
  process.stderr.write('peak ' + /VmHWM:\\s+(\\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))[1]));`;

test.runIf(process.platform === 'linux')(
  'a file of a thousand tables is read in less than 200 MB',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-large-file-'));
    try {
      const config = join(folder, 'svc.yaml');
      writeFileSync(config, svcFile(1000, 1));
      const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(PRINT_PEAK)}` };
      const { code, output } = await runSvc(['validate', '--config', config], { env });
      expect(code, output).toBe(0);
      const kilobytes = Number(/peak (\d+)/.exec(output)?.[1]);
      // A smaller value than that of Node itself would mean that nothing was measured.
      expect(kilobytes).toBeGreaterThan(50_000);
      expect(kilobytes).toBeLessThan(200_000);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

/** The size of the young heap in kB, before and after the start has ended, each after much garbage. */
const YOUNG_HEAPS = `
  import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
  import { freeStartupMemory } from '${new URL('../../src/lib/memory/free-startup-memory.ts', import.meta.url).href}';
  function youngHeap() {
    let kept = [];
    for (let i = 0; i < 2e6; i++) {
      kept.push({ i });
      if (kept.length > 1e5) kept = [];
    }
    return getHeapSpaceStatistics().find((space) => space.space_name === 'new_space').space_size / 1024;
  }
  for (const flag of process.argv.slice(1)) setFlagsFromString(flag);
  const before = youngHeap();
  freeStartupMemory();
  console.log(JSON.stringify([before, youngHeap()]));`;

test('the young heap grows for requests, not for the start', () => {
  const args = ['--input-type=module', '-e', YOUNG_HEAPS, '--', ...runtimeFlags('serve')];
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8' });
  const [before = 0, after = 0] = (JSON.parse(printed) as unknown[]).map(Number);
  expect(before).toBeGreaterThan(0);
  expect(after).toBeGreaterThan(4 * before);
});
