// Tests policies of private channels. Like policies of tables they are dropped and created again around changes.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

type Found = { name: string; roles: string; command: string; permissive: boolean; text: string };

async function policies(): Promise<Found[]> {
  const rows = await world.sql(
    `select policyname as name, array_to_string(roles, ',') as roles, lower(cmd) as command,
      permissive = 'PERMISSIVE' as permissive,
       coalesce(qual, with_check) as text
     from pg_policies where schemaname = 'realtime' and tablename = 'messages' order by policyname`,
  );
  return rows as Found[];
}

const names = async (): Promise<string[]> => (await policies()).map(({ name }) => name);

const rooms = (type = 'integer'): string =>
  'tables:\n  rooms: ' +
  `{ rls: [], fields: [{ name: id, type: ${type}, primary_key: true }, ` +
  '{ name: name, type: text }] }\n';
const channels = (...rls: string[]): string =>
  `realtime:\n  rls:\n${rls.map((rule) => `    - ${rule}\n`).join('')}`;
const member =
  '{ operations: [select, insert], ' +
  `check: "exists (select from rooms r where r.id > 0 and 'room:' || r.name = realtime.topic())" }`;

describe('realtime.rls', () => {
  test('creates one policy per operation for the API roles, with the declared expressions', async () => {
    await world.settle(
      rooms() +
        channels(
          `{ operations: [select, insert], check: "realtime.topic() = 'room:' || auth.uid()" }`,
          `{ operations: [insert], type: restrictive, with_check: "extension = 'broadcast'" }`,
          `{ name: reporters, operations: [select], to: authenticated, using: "topic = 'news'" }`,
        ),
    );
    expect(await policies()).toEqual([
      expect.objectContaining({ name: 'reporters', roles: 'authenticated', command: 'select' }),
      expect.objectContaining({
        name: 'svc_channels_p1_insert',
        roles: 'anon,authenticated',
        command: 'insert',
        permissive: true,
        // The text of the file, not `( SELECT auth.uid() AS uid)`.
        text: expect.stringMatching(/\|\| \(?auth\.uid\(\)/),
      }),
      expect.objectContaining({ name: 'svc_channels_p1_select', command: 'select' }),
      expect.objectContaining({ name: 'svc_channels_p2_insert', permissive: false }),
    ]);
  });

  test('can be changed, removed and added again', async () => {
    await world.settle(rooms() + channels(member));
    await world.settle(rooms() + channels(member.replace('r.id > 0', 'r.id > 1')));
    expect((await policies()).map(({ text }) => text)).toEqual([
      expect.stringContaining('r.id > 1'),
      expect.stringContaining('r.id > 1'),
    ]);
    await world.settle(rooms());
    expect(await names()).toEqual([]);
    await world.settle(rooms() + channels(member));
    expect(await names()).toHaveLength(2);
  });

  test('is planned as a change of access, with its position in the file', async () => {
    const { steps } = await world.plan(rooms() + channels(member));
    const ours = steps.filter(({ sql }) => sql.includes('realtime.messages'));
    expect(ours).toHaveLength(2);
    for (const step of ours)
      expect(step).toMatchObject({
        identity: 'realtime.rls',
        at: 'realtime.rls[0]',
        hazards: ['AUTHZ_CHANGE'],
        stage: 'policies',
      });
  });

  test('restores policies that were dropped or changed manually', async () => {
    await world.settle(rooms() + channels(member));
    await world.sql('drop policy svc_channels_p1_select on realtime.messages');
    await world.sql('alter policy svc_channels_p1_insert on realtime.messages with check (true)');
    await world.settle(rooms() + channels(member));
    expect(await names()).toHaveLength(2);
    expect((await policies()).map(({ text }) => text)).not.toContain('true');
  });

  test('does not change an undeclared policy, even one with the same name', async () => {
    await world.sql(`create policy news on realtime.messages for select using (topic = 'x')`);
    const file = rooms() + channels(`{ name: news, operations: [select], using: "topic = 'news'" }`);
    await world.settle(file);
    expect(await names()).toEqual(['news', 'svc_channels_p2_select']);
    await world.settle(rooms());
    expect(await policies()).toEqual([
      expect.objectContaining({ name: 'news', text: "(topic = 'x'::text)" }),
    ]);
  });

  test('does not affect policies of buckets', async () => {
    const bucket = `storage:\n  channels:\n    rls: [{ operations: [select], using: "name = 'a'" }]\n`;
    const read = `{ operations: [select], using: "topic = 'a'" }`;
    await world.settle(rooms() + bucket + channels(read));
    await world.settle(rooms() + bucket);
    expect(await names()).toEqual([]);
    expect(
      await world.sql(`select policyname as name from pg_policies where schemaname = 'storage'`),
    ).toEqual([{ name: 'svc_channels_p1_select' }]);
    await world.settle(rooms() + channels(read));
    expect(await names()).toEqual(['svc_channels_p1_select']);
  });

  test.for([
    [
      'a missing column',
      `{ operations: [select], using: "room = 'a'" }`,
      /^MIG-101 svc\.yaml:\d+:\d+: column "room" does not exist/,
    ],
    [
      'a missing table',
      `{ operations: [select], using: "exists (select from romms)" }`,
      /^MIG-101 svc\.yaml:\d+:\d+: relation "romms" does not exist/,
    ],
    [
      'a missing role',
      `{ operations: [select], to: missing_role, using: "true" }`,
      /^MIG-114 svc\.yaml:\d+:\d+: there is no role missing_role/,
    ],
  ] as const)('reports the position of %s', async ([, policy, message]) => {
    expect(await world.refusal(rooms() + channels(policy))).toEqual([expect.stringMatching(message)]);
    expect(await names()).toEqual([]);
  });
});

describe('a channel policy follows a change of', () => {
  test('the type of a column, in place and online', async () => {
    await world.settle(rooms() + channels(member));
    await world.settle(rooms('bigint') + channels(member));
    await world.sql(`insert into rooms select n, 'f' from generate_series(1, 20) n`);
    await world.sql('analyze rooms');
    await world.settle(rooms('numeric') + channels(member), { maxWriteBlockMs: 0 });
    expect((await policies()).map(({ text }) => text)).toEqual([
      expect.stringContaining('(0)::numeric'),
      expect.stringContaining('(0)::numeric'),
    ]);
  });

  test('the name of the table', async () => {
    await world.settle(rooms() + channels(member));
    await world.settle(
      rooms().replace('rooms: {', 'places: { renamed_from: rooms,') +
        channels(member.replace('rooms', 'places')),
    );
    expect(await names()).toHaveLength(2);
  });

  test('a type that an undeclared policy uses, which blocks the change and is reported by name', async () => {
    await world.settle(rooms() + channels(member));
    await world.sql(
      `create policy by_hand on realtime.messages using (exists (select from rooms r where r.id = 1))`,
    );
    expect(await world.refusal(rooms('bigint') + channels(member))).toEqual([
      expect.stringMatching(
        /MIG-304 .*a policy that is not in the file uses what changes: realtime\.messages by_hand/,
      ),
    ]);
  });
});

test('only the service role can use a private channel until the file allows other callers', async () => {
  const send = async (role: string): Promise<string> => {
    try {
      await world.sql(`begin; set local role ${role}; set local "realtime.topic" = 'room:a';
        insert into realtime.messages (topic, extension, private) values ('room:a', 'broadcast', true); rollback`);
      return 'sent';
    } catch (error) {
      await world.sql('rollback');
      return String(error);
    }
  };
  await world.settle(rooms());
  expect(await send('authenticated')).toMatch(/row-level security/);
  expect(await send('service_role')).toBe('sent');
  await world.settle(
    rooms() + channels(`{ operations: [insert], to: authenticated, check: "realtime.topic() = 'room:a'" }`),
  );
  expect(await send('authenticated')).toBe('sent');
  expect(await send('anon')).toMatch(/row-level security/);
});
