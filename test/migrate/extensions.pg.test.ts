// Tests extensions: installed before the tables that use them, updated, adopted, retired and pruned.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { migrateExitCode } from '../../src/cli/migrate/exit.ts';
import { prune, readRetired, type Pruned } from '../../src/migrate/commands/prune.ts';
import { EMPTY_MODEL } from '../../src/migrate/schema/model.ts';
import { pulled } from './pulled.ts';
import { silentLog } from '../../src/log/log.ts';
import { migrationPolicy } from '../../src/migrate/apply/policy.ts';
import { ownershipTaker } from '../../src/migrate/apply/transfer-ownership.ts';
import { planMigration } from '../../src/migrate/commands/plan.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { parseConfig } from './parse-config.ts';
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
  `      - { name: email, type: citext, required: true, unique: true, default: Unknown, check: "email <> ''" }
    indexes: [{ columns: [{ column: email, opclass: gin_trgm_ops }], using: gin }]
`
    .replace('email, opclass', 'title, opclass')
    .replace('    indexes', '      - { name: title, type: text }\n    indexes');

describe('extensions', () => {
  test('are installed with the tables that use their types, functions and operator classes', async () => {
    const yaml = file('[citext, pg_trgm]', CITEXT);
    await world.settle(yaml);
    expect(await installed()).toBe('citext in extensions, pg_trgm in extensions');
    expect(await one(`select has_schema_privilege('anon', 'extensions', 'usage')`)).toBe(true);
    await world.sql(`insert into notes (id, email) values (1, 'Ann@example.com')`);
    await expect(world.sql(`insert into notes (id, email) values (2, 'ann@example.com')`)).rejects.toThrow(
      /duplicate/,
    );
    const declared = await pulled(world);
    expect(declared).toContain('extensions: [ citext, pg_trgm ]\n');
    await world.sql('truncate svc_meta.stamp, svc_meta.object');
    expect((await world.plan(declared)).steps).toEqual([]);
    await world.settle(declared);
  });

  test('are installed for a column that changes its type to one of their types', async () => {
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

  test('can be installed in another schema', async () => {
    const yaml = file(
      '[{ name: citext, schema: public }, { name: cube, schema: geo }]',
      '      - { name: email, type: public.citext }\n',
    );
    await world.settle(yaml);
    expect(await installed()).toBe('citext in public, cube in geo');
    expect(await pulled(world)).toContain('{ name: citext, schema: public }');
  });

  test('install their dependencies with cascade', async () => {
    const outcome = await world.apply(file('[{ name: earthdistance, cascade: true }]'));
    if (outcome.kind !== 'refused') throw new Error(outcome.kind);
    await world.sql(/run once: (.*)$/.exec(outcome.problems[0]?.hint ?? '')?.[1] ?? '');
    expect(await installed()).toBe('cube in extensions, earthdistance in extensions');
    await world.settle(file('[{ name: earthdistance, cascade: true }]'));
  });

  test('that already exist are adopted unchanged, with a note', async () => {
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

  test('an extension that the server does not have is refused with the nearest name', async () => {
    const outcome = await world.apply(file('[citxet]'));
    expect(outcome).toMatchObject({
      kind: 'refused',
      problems: [{ code: 'MIG-112', place: 'svc.yaml:2:14', hint: 'Did you mean citext?' }],
    });
  });

  test('an extension that the development server does not include needs another server', async () => {
    const outcome = await world.apply(file('[vector]'));
    expect(outcome).toMatchObject({
      kind: 'refused',
      problems: [
        {
          code: 'MIG-112',
          message: 'the development database does not include vector',
          hint: 'It includes only the extensions of PostgreSQL. Set SVC_DATABASE_URL to a server that has vector.',
        },
      ],
    });
  });

  test.each(['dblink', 'earthdistance'])('%s is installed over a connection with the right', async (name) => {
    const administrator = new OwnerDatabase({
      address: parseAddress(world.url),
      applicationName: 'svc-test',
      max: 1,
      idleTimeoutMs: 5_000,
    });
    const ownership = ownershipTaker(administrator, migrationPolicy());
    const yaml = file(`[{ name: ${name}, cascade: true }]`);
    try {
      const planned = await planMigration({
        owner: world.owner,
        config: parseConfig(yaml),
        log: silentLog,
        ownership,
      });
      if (planned.kind === 'refused') throw new Error(planned.problems[0]?.message);
      expect(planned.plan.foreign).toMatchObject([{ what: 'extension', name }]);
      expect(planned.plan.steps.map((step) => step.stage)).not.toContain('extensions');
      expect(await installed()).toBeNull();
      expect(await world.apply(yaml, {}, { ownership })).toMatchObject({ kind: 'applied' });
      expect(await installed()).toContain(`${name} in extensions`);
      expect(await one(`select has_schema_privilege('anon', 'extensions', 'usage')`)).toBe(true);
      expect((await world.plan(yaml)).steps).toEqual([]);
    } finally {
      await administrator.close();
    }
  });

  test('a connection without the right is refused with the statement', async () => {
    const ownership = ownershipTaker(world.owner, migrationPolicy());
    expect(await world.apply(file('[dblink]'), {}, { ownership })).toMatchObject({
      kind: 'refused',
      problems: [{ code: 'MIG-118', hint: expect.not.stringContaining("do '") }],
    });
  });

  test('an untrusted extension is refused with the statement for an administrator', async () => {
    const outcome = await world.apply(file('[dblink]'));
    if (outcome.kind !== 'refused') throw new Error(outcome.kind);
    const [problem] = outcome.problems;
    expect(problem).toMatchObject({ code: 'MIG-118', at: 'extensions.dblink' });
    expect(migrateExitCode(outcome.problems)).toBe(8);
    expect(await one(`select to_regclass('notes') is null`)).toBe(true);
    await world.sql(/run once: (.*)$/.exec(problem?.hint ?? '')?.[1] ?? '');
    await world.settle(file('[dblink]'));
    expect(await installed()).toBe('dblink in extensions');
  });

  test('a manually dropped extension is drift, and is installed again', async () => {
    await world.settle(file('[citext]'));
    await world.sql('drop extension citext');
    expect((await world.apply(file('[citext]'))).kind).toBe('applied');
    expect(await installed()).toBe('citext in extensions');
  });

  test('an extension that leaves the file is retired, and pruned when nothing uses it', async () => {
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
