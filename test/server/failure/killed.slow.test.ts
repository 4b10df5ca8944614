// kill -9 of all processes during writes: every write answered with 201 is there afterwards, and the next start needs
// no manual repair.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startSvc, type SvcProcess } from '../../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../../support/todo-project.ts';
import { scaled } from '../../support/run/scaled.ts';

let project: TodoProject;
let svc: SvcProcess | undefined;

beforeEach(() => {
  project = copyTodoProject();
});
afterEach(async () => {
  await svc?.stop();
  project.remove();
});

function postmasterPid(): number {
  const file = join(project.directory, '.svc', 'postgres', 'postmaster.pid');
  return Number(readFileSync(file, 'utf8').split('\n')[0]);
}

function isRunning(pid: number): boolean {
  // A zombie is not running, although kill -0 succeeds.
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)]);
  const state = stdout.toString().trim();
  return state !== '' && !state.startsWith('Z');
}

/** Writes until the server is gone; returns the acknowledged writes. */
async function writeUntilItEnds(server: SvcProcess): Promise<string[]> {
  const acknowledged: string[] = [];
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      for (let n = 0; ; n++) {
        const body = `tip ${writer}/${n}`;
        const status = await fetch(`${server.url}/rest/v1/tips`, {
          method: 'POST',
          headers: { apikey: server.secretKey, 'content-type': 'application/json' },
          body: JSON.stringify({ body }),
        }).then(
          (response) => response.status,
          () => 0,
        );
        if (status !== 201) return;
        acknowledged.push(body);
      }
    }),
  );
  return acknowledged;
}

async function storedTips(server: SvcProcess): Promise<Set<string>> {
  const response = await fetch(`${server.url}/rest/v1/tips?select=body&limit=100000`, {
    headers: { apikey: server.secretKey },
  });
  const rows = (await response.json()) as { body: string }[];
  return new Set(rows.map((row) => row.body));
}

test.each([
  ['svc alone', ['svc']],
  ['PostgreSQL alone', ['postgres']],
  ['svc and PostgreSQL', ['svc', 'postgres']],
])('%s killed in mid-write: committed rows are there after the next start', async (_what, victims) => {
  const first = await startSvc({ command: 'dev', config: project.config });
  svc = first;
  const postmaster = postmasterPid();
  const writing = writeUntilItEnds(first);
  await expect
    .poll(async () => (await storedTips(first)).size, { timeout: scaled(60_000) })
    .toBeGreaterThan(200);
  if (victims.includes('svc')) first.child.kill('SIGKILL');
  if (victims.includes('postgres')) process.kill(postmaster, 'SIGKILL');
  const acknowledged = await writing;
  await first.stop('SIGKILL');
  expect(acknowledged.length).toBeGreaterThan(200);

  const second = await startSvc({ command: 'dev', config: project.config });
  svc = second;
  const stored = await storedTips(second);
  expect(acknowledged.filter((body) => !stored.has(body))).toEqual([]);
  // The keys of the first start are still valid.
  expect(second.secretKey).toBe(first.secretKey);
});

test('a graceful stop also stops PostgreSQL', async () => {
  svc = await startSvc({ command: 'dev', config: project.config });
  const pid = postmasterPid();
  expect(isRunning(pid)).toBe(true);
  expect(await svc.stop('SIGINT')).toBe(0);
  expect(isRunning(pid)).toBe(false);
});
