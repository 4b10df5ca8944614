// Three instances share the runs of a schedule. Some are killed in the middle of runs, and no run is lost.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { scaled } from '../support/run/scaled.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
tables:
  effects:
    fields: [{ name: id, type: bigint, primary_key: true, identity: always }]
    rls: []
rpc:
  work:
    expose: false
    execute: [service_role]
    returns: { type: void }
    body: |
      begin
        perform pg_sleep(1);
        insert into effects default values;
      end
schedules:
  often: { every: 10s, rpc: work, missed: all, overlap: allow }
`;

const folder = mkdtempSync(join(tmpdir(), 'svc-schedules-'));
const config = join(folder, 'svc.yaml');
let database: TestDatabase;
let client: pg.Client;
const instances: SvcProcess[] = [];

beforeAll(async () => {
  writeFileSync(config, YAML);
  database = await createDatabase();
  client = new pg.Client(database.url);
  await client.connect();
});
afterEach(async () => {
  await Promise.all(instances.splice(0).map((instance) => instance.stop('SIGKILL')));
});
afterAll(async () => {
  await client?.end();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

async function ask<T>(text: string): Promise<T[]> {
  return (await client.query<T & pg.QueryResultRow>(text)).rows;
}

async function start(): Promise<SvcProcess> {
  const instance = await startSvc({
    command: 'serve',
    config,
    arguments: ['--migrate'],
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  instances.push(instance);
  return instance;
}

const LOST = `select count(*)::int as lost from svc_events.run where outcome = 'lost'`;

/** Returns the number of deliveries that have not ended. */
async function countOpen(): Promise<number> {
  return (await ask(`select from svc_events.delivery where state in ('waiting', 'running')`)).length;
}

/** Makes the due times of the last `seconds` due, and waits until their deliveries exist. */
async function makeDue(seconds: number): Promise<void> {
  const [before] = await ask<{ count: number }>('select count(*)::int as count from svc_events.delivery');
  await ask(
    `update svc_events.schedule set next_at = to_timestamp(floor(extract(epoch from now()) / 10) * 10 - ${seconds})`,
  );
  await ask(`select pg_notify('svc_deliveries', '')`);
  await expect
    .poll(
      async () =>
        (await ask<{ count: number }>('select count(*)::int as count from svc_events.delivery'))[0]?.count,
      {
        timeout: scaled(30_000),
      },
    )
    .toBeGreaterThanOrEqual((before?.count ?? 0) + seconds / 10 + 1);
}

test(
  'each due time has one run that is done, although instances are killed',
  { timeout: scaled(300_000) },
  async () => {
    await start();
    await Promise.all([start(), start()]);
    await expect
      .poll(() => ask(`select from svc_events.schedule where next_at is not null`), {
        timeout: scaled(30_000),
      })
      .toHaveLength(1);
    for (let kill = 1; kill <= 3; kill++) {
      await makeDue(900);
      const [busy] = await ask<{ instance: string }>(
        `select instance from svc_events.delivery where state = 'running' limit 1`,
      );
      expect(busy).toBeDefined();
      // All but one, so that whichever instance is busy loses its runs.
      await Promise.all(instances.splice(0, 2).map((instance) => instance.stop('SIGKILL')));
      await Promise.all([start(), start()]);
      await expect.poll(countOpen, { timeout: scaled(90_000), interval: 200 }).toBe(0);
    }
    const [result] = await ask<Record<string, number>>(`
    select count(*)::int as deliveries,
      count(*) filter (where state = 'done')::int as done,
      (select count(*)::int from svc_events.run where outcome = 'done') as runs,
      (select count(distinct delivery_id)::int from svc_events.run where outcome = 'done') as ended,
      (select count(*)::int from svc_events.run where outcome = 'lost') as lost,
      (select count(*)::int from effects) as effects
    from svc_events.delivery`);
    expect(result?.['deliveries']).toBeGreaterThanOrEqual(3 * 91);
    expect(result).toMatchObject({
      done: result?.['deliveries'],
      runs: result?.['deliveries'],
      ended: result?.['deliveries'],
    });
    expect(result?.['lost']).toBeGreaterThan(0);
    // A lost run may have had its effect.
    expect(result?.['effects']).toBeGreaterThanOrEqual(result?.['deliveries'] ?? Infinity);
  },
);

test('a stop hands runs over without an attempt', { timeout: scaled(180_000) }, async () => {
  const first = await start();
  // The previous instances were killed.
  await expect.poll(countOpen, { timeout: scaled(90_000), interval: 200 }).toBe(0);
  const [before] = await ask<{ lost: number }>(LOST);
  await makeDue(300);
  await expect
    .poll(() => ask(`select from svc_events.delivery where state = 'running'`), { timeout: scaled(30_000) })
    .not.toEqual([]);
  await first.stop();
  expect(await ask(`select from svc_events.delivery where state = 'running'`)).toEqual([]);
  expect(await countOpen()).toBeGreaterThan(0);
  await start();
  await expect.poll(countOpen, { timeout: scaled(90_000), interval: 200 }).toBe(0);
  expect(await ask(LOST)).toEqual([before]);
});
