// Extensions of the file: installed before the tables that use them, updated, taken as found, retired and pruned.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { exitCodeOf } from '../../src/cli/migrate/exit.ts';
import { prune, readRetired, type Pruned } from '../../src/migrate/commands/prune.ts';
import { EMPTY_MODEL } from '../../src/migrate/schema/model.ts';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.sql(`drop extension if exists citext, pg_trgm, earthdistance, cube, dblink cascade;
    drop schema if exists extensions cascade`);
  await world.empty();
});

const file = (extensions: string, fields = ''): string => `extensions: ${extensions}
tables:
  notes:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
${fields}`;
const one = async (query: string): Promise<unknown> => Object.values((await world.sql(query))[0] ?? {})[0];
const installed = (): Promise<unknown> =>
  one(`select string_agg(extname || ' in ' || nspname, ', ' order by extname) from pg_extension e
    join pg_namespace n on n.oid = e.extnamespace where extname <> 'plpgsql'`);
const pruneNamed = (name: string): Promise<Pruned> =>
  world.owner.session((session) =>
    prune(session, {
      names: [name],
      allow: [],
      pruneAfterMs: 0,
      now: new Date(),
      model: EMPTY_MODEL,
      locks: { lockTimeoutMs: 1_000, lockBudgetMs: 1_000 },
    }),
  );

const CITEXT =
  `      - { name: email, type: citext, required: true, unique: true, default: Nobody, check: "email <> ''" }
    indexes: [{ columns: [{ column: email, opclass: gin_trgm_ops }], using: gin }]
`
    .replace('email, opclass', 'title, opclass')
    .replace('    indexes', '      - { name: title, type: text }\n    indexes');

describe('extensions', () => {
  test('are made with the tables that use their types, functions and operator classes', async () => {
    const yaml = file('[citext, pg_trgm]', CITEXT);
    await world.settle(yaml);
    expect(await installed()).toBe('citext in extensions, pg_trgm in extensions');
    expect(await one(`select has_schema_privilege('anon', 'extensions', 'usage')`)).toBe(true);
    await world.sql(`insert into notes (id, email) values (1, 'Ann@example.com')`);
    await expect(world.sql(`insert into notes (id, email) values (2, 'ann@example.com')`)).rejects.toThrow(
      /duplicate/,
    );
    const declared = await pulled(world);
    expect(declared).toContain('extensions:\n  - citext\n  - pg_trgm\n');
    await world.sql('truncate svc_meta.stamp, svc_meta.object');
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.settle(declared);
  });

  test('come to a column that changes its type to one of theirs', async () => {
    const email = (type: string): string => `      - { name: email, type: ${type} }\n`;
    await world.settle(file('[]', email('text')));
    await world.sql(`insert into notes values (1, 'Ann')`);
    await world.settle(file('[citext]', email('citext')));
    expect(await one(`select count(*)::int from notes where email = 'ANN'::extensions.citext`)).toBe(0);
    expect(
      await one(
        `select format_type(atttypid, null) from pg_attribute where attrelid = 'notes'::regclass and attname = 'email'`,
      ),
    ).toBe('extensions.citext');
  });

  test('may come into another schema', async () => {
    const yaml = file(
      '[{ name: citext, schema: public }, { name: cube, schema: geo }]',
      '      - { name: email, type: public.citext }\n',
    );
    await world.settle(yaml);
    expect(await installed()).toBe('citext in public, cube in geo');
    expect(await pulled(world)).toContain('name: citext\n    schema: public');
  });

  test('bring what they need where the file says cascade', async () => {
    const outcome = await world.apply(file('[{ name: earthdistance, cascade: true }]'));
    if (outcome.kind !== 'refused') throw new Error(outcome.kind);
    await world.sql(/run once: (.*)$/.exec(outcome.problems[0]?.hint ?? '')?.[1] ?? '');
    expect(await installed()).toBe('cube in extensions, earthdistance in extensions');
    await world.settle(file('[{ name: earthdistance, cascade: true }]'));
  });

  test('that are there already are taken as they are, with a note', async () => {
    await world.sql('create extension citext schema public');
    const plan = await world.plan(file('[citext]', '      - { name: email, type: citext }\n'));
    expect(plan.steps.map((step) => step.stage)).not.toContain('extensions');
    expect(plan.notes).toEqual([
      'extension citext is in the schema public, not in extensions, and stays there',
    ]);
    await world.settle(file('[citext]', '      - { name: email, type: citext }\n'));
  });

  test('are updated to the version of the file', async () => {
    await world.settle(file('[{ name: pg_trgm, version: "1.5" }]'));
    const plan = await world.plan(file('[{ name: pg_trgm, version: "1.6" }]'));
    expect(plan.steps.map((step) => step.summary)).toEqual(['extension pg_trgm 1.5 → 1.6']);
    await world.settle(file('[{ name: pg_trgm, version: "1.6" }]'));
    expect((await world.plan(file('[pg_trgm]'))).steps).toEqual([]);
    expect(await world.refusal(file('[{ name: pg_trgm, version: "0.1" }]'))).toEqual([
      expect.stringMatching(/^MIG-112 .*no version 0.1 of pg_trgm/),
    ]);
  });

  test('one that the server does not have is refused with the nearest name', async () => {
    const outcome = await world.apply(file('[citxet]'));
    expect(outcome).toMatchObject({
      kind: 'refused',
      problems: [{ code: 'MIG-112', place: 'svc.yaml:2:14', hint: 'Did you mean citext?' }],
    });
  });

  test('one that is not trusted is refused with the statement for an administrator, who then runs it', async () => {
    const outcome = await world.apply(file('[dblink]'));
    if (outcome.kind !== 'refused') throw new Error(outcome.kind);
    const [problem] = outcome.problems;
    expect(problem).toMatchObject({ code: 'MIG-118', at: 'extensions.dblink' });
    expect(exitCodeOf(outcome.problems)).toBe(8);
    expect(await one(`select to_regclass('notes') is null`)).toBe(true);
    await world.sql(/run once: (.*)$/.exec(problem?.hint ?? '')?.[1] ?? '');
    await world.settle(file('[dblink]'));
    expect(await installed()).toBe('dblink in extensions');
  });

  test('one that somebody dropped is drift, and comes back', async () => {
    await world.settle(file('[citext]'));
    await world.sql('drop extension citext');
    expect((await world.apply(file('[citext]'))).kind).toBe('applied');
    expect(await installed()).toBe('citext in extensions');
  });

  test('one that leaves the file stays, is retired, and is pruned when nothing uses it', async () => {
    await world.settle(file('[citext]', '      - { name: email, type: citext }\n'));
    await world.settle(file('[]', '      - { name: email, type: citext }\n'));
    expect(await installed()).toBe('citext in extensions');
    const retired = await world.owner.session(readRetired);
    expect(retired).toMatchObject([{ identity: 'extensions.citext', kind: 'extension' }]);
    const refused = await pruneNamed('extensions.citext');
    expect(refused.problems).toMatchObject([
      { code: 'MIG-304', message: expect.stringContaining('column email of table notes') },
    ]);
    expect(await installed()).toBe('citext in extensions');
    await world.settle(file('[]', '      - { name: email, type: text }\n'));
    expect((await pruneNamed('extensions.citext')).dropped).toHaveLength(1);
    expect(await installed()).toBeNull();
    expect(await world.owner.session(readRetired)).toEqual([]);
  });
});
