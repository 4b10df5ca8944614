// Schedules with code functions and SQL functions, in a complete backend.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient } from '@supabase/supabase-js';
import { sql } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
auth: { email: {} }
tables:
  notes:
    fields:
      - { name: id, type: bigint, primary_key: true, identity: always }
      - { name: body, type: jsonb }
    rls: []
rpc:
  note:
    expose: false
    execute: [service_role]
    args: [{ name: word, type: text, required: true }, { name: numbers, type: "integer[]" }]
    returns: { type: void }
    body: |
      begin
        insert into notes (body)
          values (jsonb_build_object('word', word, 'numbers', numbers, 'role', current_user));
      end
  fail:
    expose: false
    execute: [service_role]
    returns: { type: void }
    body: begin raise exception 'no luck' using errcode = 'P0001'; end
functions:
  digest: { runtime: node, file: functions/digest.js, http: false }
  broken: { runtime: node, file: functions/broken.js, http: false }
  refused: { runtime: node, file: functions/refused.js, http: false }
  crash: { runtime: node, file: functions/crash.js, http: false }
schedules:
  digests: { cron: "0 0 1 1 *", function: digest, payload: { kind: daily } }
  notes: { cron: "0 0 1 1 *", timezone: Europe/Berlin, rpc: note, payload: { word: hello, numbers: [1, 2] } }
  failing: { cron: "0 0 1 1 *", rpc: fail }
  broken: { cron: "0 0 1 1 *", function: broken, retries: 2 }
  refused: { cron: "0 0 1 1 *", function: refused, retries: 5 }
  crash: { cron: "0 0 1 1 *", function: crash }
  off: { cron: "0 0 1 1 *", rpc: note, payload: { word: never }, enabled: false }
`;

const FILES = {
  'functions/package.json': '{"type":"module"}',
  'functions/digest.js': `import { renameSync, writeFileSync } from 'node:fs';
export default (req, ctx) => {
  writeFileSync('seen', JSON.stringify({ event: ctx.event, req: req.body, claims: ctx.claims }));
  renameSync('seen', 'seen.json');
};`,
  'functions/broken.js': `export default (req, ctx) => {
  throw new Error('a broken pipe in attempt ' + ctx.event.attempt);
};`,
  'functions/crash.js': `export default (req, ctx) => {
  if (ctx.event.attempt === 1) process.kill(process.pid, 'SIGKILL');
};`,
  'functions/refused.js': `export default () => ({ status: 422, body: 'never' });`,
};

const METRICS_TOKEN = 'm'.repeat(32);

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(YAML, { files: FILES, env: { SVC_METRICS_TOKEN: METRICS_TOKEN } });
});
afterAll(() => world?.close());

/** Makes the latest first of January due. The times are rare, so that no other one is due during the test. */
async function makeDue(name: string): Promise<void> {
  await expect
    .poll(() =>
      world.owner.query(
        sql`update svc_events.schedule set next_at = now() - interval '1 year'
          where name = ${name} and next_at is not null returning 1`,
      ),
    )
    .toHaveLength(1);
  await world.owner.query(sql`select pg_notify('svc_deliveries', '')`);
}

type Delivery = {
  id: string;
  event_id: string;
  state: string;
  attempts: number;
  reason: string | null;
  body: { scheduled_for: string; missed: number };
};

async function deliveries(name: string): Promise<Delivery[]> {
  return await world.owner.query<Delivery>(
    sql`select id::text, event_id, state, attempts, reason, body
      from svc_events.delivery where name = ${name} order by id`,
  );
}

async function runs(name: string): Promise<unknown[]> {
  return await world.owner.query(sql`
    select attempt, outcome, status, error from svc_events.run join svc_events.delivery d on d.id = delivery_id
    where d.name = ${name} order by d.id, attempt`);
}

async function notes(): Promise<unknown[]> {
  return (await world.owner.query<{ body: unknown }>(sql`select body from notes order by id`)).map(
    ({ body }) => body,
  );
}

test('an SQL function runs as service_role with its payload', async () => {
  await makeDue('notes');
  await expect.poll(() => deliveries('notes')).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(await notes()).toEqual([{ word: 'hello', numbers: [1, 2], role: 'service_role' }]);
  expect(await runs('notes')).toEqual([{ attempt: 1, outcome: 'done', status: null, error: null }]);
});

test('a code function gets the event and its payload', async () => {
  await makeDue('digests');
  await expect.poll(() => deliveries('digests')).toMatchObject([{ state: 'done', attempts: 1 }]);
  const [delivery] = await deliveries('digests');
  expect(JSON.parse(readFileSync(join(world.directory, 'seen.json'), 'utf8'))).toEqual({
    event: {
      id: delivery?.event_id,
      name: 'digests',
      kind: 'schedule',
      attempt: 1,
      last: true,
      at: delivery?.body.scheduled_for,
    },
    req: { scheduled_for: delivery?.body.scheduled_for, payload: { kind: 'daily' }, missed: 0 },
    claims: null,
  });
  expect(Number(new Date(delivery?.body.scheduled_for ?? '')) % 3_600_000).toBe(0);
});

test('a failure without retries is dead, and its error is recorded', async () => {
  await makeDue('failing');
  await expect.poll(() => deliveries('failing')).toMatchObject([{ state: 'dead', reason: 'P0001: no luck' }]);
  expect(await runs('failing')).toEqual([
    { attempt: 1, outcome: 'failed', status: null, error: 'P0001: no luck' },
  ]);
});

test('a failure is retried after a pause, up to the number in the file', async () => {
  await makeDue('broken');
  for (const attempts of [1, 2]) {
    await expect.poll(() => deliveries('broken')).toMatchObject([{ state: 'waiting', attempts }]);
    const [row] = await world.owner.query<{ pauses: boolean }>(
      sql`update svc_events.delivery set run_at = now()
        where name = 'broken' and run_at > now() returning true as pauses`,
    );
    expect(row?.pauses).toBe(true);
    await world.owner.query(sql`select pg_notify('svc_deliveries', '')`);
  }
  await expect.poll(() => deliveries('broken')).toMatchObject([{ state: 'dead', attempts: 3 }]);
  expect(await runs('broken')).toMatchObject(
    [1, 2, 3].map((attempt) => ({
      attempt,
      outcome: 'failed',
      status: 500,
      error: expect.stringContaining(`a broken pipe in attempt ${attempt}`),
    })),
  );
});

test('422 ends the delivery without a retry', async () => {
  await makeDue('refused');
  await expect.poll(() => deliveries('refused')).toMatchObject([{ state: 'dead', attempts: 1 }]);
  expect(await runs('refused')).toMatchObject([{ outcome: 'rejected', status: 422, error: 'never' }]);
});

test('a run whose worker is killed is repeated, also without retries', async () => {
  await makeDue('crash');
  await expect.poll(() => deliveries('crash')).toMatchObject([{ state: 'done', attempts: 2 }]);
  expect(await runs('crash')).toMatchObject([
    { attempt: 1, outcome: 'lost' },
    { attempt: 2, outcome: 'done' },
  ]);
});

test('the metrics count the attempts', async () => {
  const text = await (
    await fetch(`${world.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })
  ).text();
  expect(text).toContain('svc_deliveries_running 0');
  expect(text).toMatch(/svc_delivery_attempts_total\{kind="schedule",name="broken",outcome="failed"\} 3/);
  expect(text).toMatch(/svc_deliveries_oldest_due_seconds \d/);
});

test('a disabled schedule has no due time', async () => {
  expect(await world.owner.query(sql`select from svc_events.schedule where name = 'off'`)).toEqual([]);
});

test('clients can neither call the function nor read or start a delivery', async () => {
  const token = await world.token({ sub: '00000000-0000-4000-8000-000000000001', role: 'authenticated' });
  const call = await fetch(`${world.url}/functions/v1/digest`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{"event":{"kind":"schedule"}}',
  });
  expect(call.status).toBe(404);
  for (const key of [world.keys.publishable, world.keys.secret]) {
    const client = createClient(world.url, key, { auth: { persistSession: false } });
    for (const schema of ['svc_events', 'public'] as const) {
      const { error } = await client
        .schema(schema as never)
        .from('delivery')
        .select();
      expect(error?.code).toMatch(/^(PGRST106|PGRST205)$/);
    }
    expect((await client.rpc('note', { word: 'mine' })).error?.code).toBe('PGRST202');
  }
  const openapi = await (
    await fetch(`${world.url}/openapi.json`, { headers: { apikey: world.keys.secret } })
  ).text();
  expect(openapi).not.toContain('/functions/v1/digest');
  expect(openapi).not.toContain('svc_events');
  const grants = await world.owner.query(sql`
    select r.rolname, c.relname from pg_class c, pg_roles r
    where c.relnamespace = 'svc_events'::regnamespace and c.relkind = 'r'
      and r.rolname in ('anon', 'authenticated', 'service_role', 'authenticator')
      and (has_table_privilege(r.oid, c.oid, 'select, insert, update, delete, truncate')
        or has_schema_privilege(r.oid, 'svc_events', 'usage'))`);
  expect(grants).toEqual([]);
});

test('an event in a request is ignored', async () => {
  const yaml = `version: 1\nfunctions: { show: { runtime: node, file: functions/show.js } }\n`;
  const plain = await startBackendWorld(yaml, {
    files: {
      'functions/package.json': '{"type":"module"}',
      'functions/show.js': 'export default (req, ctx) => ({ body: { event: ctx.event } });',
    },
  });
  try {
    const answer = await fetch(`${plain.url}/functions/v1/show?event=1`, {
      method: 'POST',
      headers: { 'x-svc-event': '{"id":"1"}', event: '1', 'content-type': 'application/json' },
      body: '{"event":{"id":"1"}}',
    });
    expect(await answer.json()).toEqual({ event: null });
    // A file without the key makes no object.
    expect(await plain.owner.query(sql`select to_regnamespace('svc_events') as schema`)).toEqual([
      { schema: null },
    ]);
  } finally {
    await plain.close();
  }
});
