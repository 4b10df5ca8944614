// `svc schedules` with --json, and what adoption and backups do with the tables of the engine.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { reportShape } from '../../src/cli/report/reporting.ts';
import { schedulesCommand } from '../../src/cli/schedules/schedules.ts';
import { must } from '../../src/lib/assert.ts';
import { readSchemas } from '../../src/migrate/commands/adoption/project-schemas.ts';
import { sql } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { runSvc } from '../support/svc-process.ts';

const YAML = `version: 1
rpc:
  work:
    expose: false
    execute: [service_role]
    returns: { type: void }
    body: begin raise exception 'no luck'; end
schedules:
  yearly: { cron: "0 0 1 1 *", rpc: work }
  off: { cron: "@daily", rpc: work, enabled: false }
`;

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(YAML);
  writeFileSync(join(world.directory, 'svc.yaml'), YAML);
});
afterAll(() => world?.close());

async function run(...args: string[]): Promise<{ code: number | null; result: Record<string, unknown> }> {
  const { code, output } = await runSvc(['schedules', ...args, '--json'], {
    cwd: world.directory,
    env: { SVC_DATABASE_URL: world.databaseUrl },
  });
  const result = JSON.parse(output) as Record<string, unknown>;
  const group = schedulesCommand({
    color: false,
    print() {},
    printError() {},
    style: (_style, text) => text,
  });
  const command = group.commands.find((subcommand) => subcommand.name() === args[0]);
  const checked = reportShape(must(command, 'the command'))?.safeParse(result);
  expect(checked?.error?.message).toBeUndefined();
  return { code, result };
}

test('a schedule is listed, run, paused and resumed', async () => {
  expect(await run('run', 'yearly')).toMatchObject({ code: 0, result: { data: { name: 'yearly' } } });
  await expect
    .poll(() => world.owner.query(sql`select state from svc_events.delivery`))
    .toEqual([{ state: 'dead' }]);
  expect((await run('runs', 'yearly')).result).toMatchObject({
    ok: true,
    data: {
      runs: [
        {
          state: 'dead',
          reason: 'P0001: no luck',
          attempts: [{ attempt: 1, outcome: 'failed', error: 'P0001: no luck', ms: expect.any(Number) }],
        },
      ],
    },
  });
  expect((await run('pause', 'yearly')).result).toMatchObject({ data: { paused: true, changed: true } });
  expect((await run('pause', 'yearly')).result).toMatchObject({ data: { paused: true, changed: false } });
  expect((await run('list')).result).toMatchObject({
    data: {
      schedules: [
        {
          name: 'yearly',
          times: 'UTC 0 0 1 1 *',
          target: 'rpc work',
          state: 'paused',
          next_at: null,
          last_state: 'dead',
        },
        { name: 'off', state: 'disabled', next_at: null },
      ],
    },
  });
  expect((await run('resume', 'yearly')).result).toMatchObject({ data: { paused: false, changed: true } });
  // The running service is notified, and computes the next time.
  await expect
    .poll(() =>
      world.owner.query(sql`select from svc_events.schedule where name = 'yearly' and next_at > now()`),
    )
    .toHaveLength(1);
});

test('an unknown schedule is refused with a suggestion', async () => {
  const { code, result } = await run('run', 'yearli');
  expect(code).toBe(2);
  expect(result).toMatchObject({
    ok: false,
    problems: [{ message: 'there is no schedule yearli', hint: 'Did you mean yearly?' }],
  });
});

test('the schema of the engine does not belong to the project', async () => {
  const { read, omitted } = await readSchemas(world.owner);
  expect(read).not.toContain('svc_events');
  expect(omitted).toEqual([]);
  const pulled = await runSvc(['migrate', 'pull'], {
    cwd: world.directory,
    env: { SVC_DATABASE_URL: world.databaseUrl },
  });
  expect(pulled.output).toContain('version: 1');
  expect(pulled.output).not.toContain('svc_events');
});
