// How the engine behaves at 10, 100 and 1,000 tables: node bench/migrate/scale.ts [tables …]
// Takes SVC_DATABASE_URL of a server where databases may be created, or starts the embedded PostgreSQL. Prints
// beside each figure what the design aims at; nothing here is a gate, machines differ.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { readLive } from '../../src/migrate/live.ts';
import { migrateModel, planModel, type MigrateOptions } from '../../src/migrate/migrate.ts';
import type { ColumnModel, SchemaModel, TableModel } from '../../src/migrate/model.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { raw } from '../../src/postgres/sql.ts';
import { provision } from '../../src/provision/provision.ts';

const SIZES = process.argv.slice(2).map(Number);
const REPEATS = 5;

/** Aims at 10, 100 and 1,000 tables, in milliseconds. */
const AIMS: Record<string, readonly [string, string, string]> = {
  'apply from an empty database': ['50', '637', '6,500'],
  'start, nothing changed': ['11', '14', '73'],
  'full introspection': ['11', '38', '390'],
  'plan, one table changed': ['–', '169 whole run', '250'],
  'apply, one table changed': ['–', '169 whole run', '250'],
  'plan, everything elaborated again': ['48', '393', '4,900'],
};

function column(name: string, type: string | null, more: Partial<ColumnModel>, at: string): ColumnModel {
  return {
    name,
    type,
    primaryKey: false,
    required: false,
    unique: false,
    default: null,
    enum: null,
    pattern: null,
    min: null,
    max: null,
    check: null,
    foreignKey: null,
    ref: null,
    renamedFrom: null,
    backfill: null,
    using: null,
    at: `${at}.fields.${name}`,
    ...more,
  };
}

// Twelve columns, a key, a unique, two foreign keys, four checks, two indexes, four policies.
function table(n: number): TableModel {
  const name = `bench_${n}`;
  const at = `tables.${name}`;
  const reference = (to: number): Partial<ColumnModel> => ({
    foreignKey: { schema: 'public', table: `bench_${Math.max(0, to)}`, column: 'id', onDelete: 'cascade' },
  });
  const policy = (operation: 'select' | 'insert' | 'update' | 'delete', using: string) =>
    ({
      name: null,
      operations: [operation],
      permissive: true,
      using,
      withCheck: null,
      check: null,
      at: `${at}.rls`,
    }) as const;
  return {
    schema: 'public',
    name,
    renamedFrom: null,
    protect: false,
    columns: [
      column('id', 'bigserial', { primaryKey: true }, at),
      column('slug', 'text', { unique: true, pattern: '^[a-z-]+$' }, at),
      column('owner', 'uuid', { required: true }, at),
      column('title', 'varchar(200)', { required: true, default: { kind: 'literal', text: 'untitled' } }, at),
      column('status', 'text', { enum: ['open', 'done', 'archived'] }, at),
      column('amount', 'numeric(12,2)', { min: '0', max: '1000000' }, at),
      column('parent', null, reference(n - 1), at),
      column('other', null, reference(n - 2), at),
      column('due', 'timestamptz', { default: { kind: 'literal', text: 'now()' } }, at),
      column('meta', 'jsonb', { default: { kind: 'literal', text: '{}' } }, at),
      column('score', 'integer', { check: 'score between 0 and 100' }, at),
      column('done', 'boolean', { default: { kind: 'literal', text: 'false' } }, at),
    ],
    indexes: [
      { name: null, columns: ['owner', 'status'], unique: false, where: null, at: `${at}.indexes[0]` },
      { name: null, columns: ['due'], unique: false, where: "status <> 'done'", at: `${at}.indexes[1]` },
    ],
    rls: [
      policy('select', `owner = auth.uid() or status = 'open'`),
      policy('insert', 'owner = auth.uid()'),
      policy('update', `owner = auth.uid() and status <> 'archived'`),
      policy('delete', 'owner = auth.uid() and not done'),
    ],
    at,
  };
}

function model(tables: number): SchemaModel {
  return {
    tables: Array.from({ length: tables }, (_, n) => table(n)),
    functions: Array.from({ length: Math.ceil(tables / 10) }, (_, n) => ({
      schema: 'public',
      name: `bench_fn_${n}`,
      renamedFrom: null,
      language: 'sql',
      volatility: 'stable',
      definer: false,
      args: [{ name: 'who', type: 'uuid', required: true, default: null }],
      returns: `setof bench_${n}`,
      body: `select * from bench_${n} where owner = who`,
      at: `rpc.bench_fn_${n}`,
    })),
    buckets: [],
  };
}

function changed(from: SchemaModel, round: number): SchemaModel {
  const [first, ...rest] = from.tables;
  if (!first || typeof first.rls === 'string') return from;
  const columns = [
    ...first.columns,
    ...Array.from({ length: round }, (_, n) => column(`extra_${n}`, 'integer', {}, first.at)),
  ];
  const rls = first.rls.map((policy, n) =>
    n === 0 ? { ...policy, using: `owner = auth.uid() or score > ${round}` } : policy,
  );
  return { ...from, tables: [{ ...first, columns, rls }, ...rest] };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

async function measure(serverUrl: string, tables: number): Promise<Map<string, number>> {
  const name = `svc_bench_${process.pid}_${tables}`;
  const server = new pg.Client(serverUrl);
  await server.connect();
  await server.query(`create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const { ownerUrl } = await provision(url.href);
  const owner = new OwnerDatabase({
    url: ownerUrl,
    applicationName: 'svc-bench',
    max: 3,
    idleTimeoutMs: 60_000,
  });
  const figures = new Map<string, number>();
  try {
    const options: MigrateOptions = {
      owner,
      config: { tables: [], storage: [], rpc: [], source: { name: 'bench', directory: undefined, text: '' } },
      log: silentLog,
      policy: { allowRollback: true },
    };
    const full = model(tables);
    const run = async (one: SchemaModel): Promise<void> => {
      const outcome = await migrateModel(one, () => null, options);
      if (outcome.kind === 'refused')
        throw new Error(outcome.problems.map((problem) => problem.message).join('\n'));
      if (outcome.kind === 'applied') await outcome.background;
    };
    figures.set('apply from an empty database', await timed(() => run(full)));
    const again: number[] = [];
    const introspect: number[] = [];
    const planning: number[] = [];
    const applying: number[] = [];
    for (let round = 1; round <= REPEATS; round += 1) {
      const before = changed(full, round - 1);
      await run(before);
      again.push(await timed(() => run(before)));
      introspect.push(await timed(() => owner.session((session) => readLive(session, ['public']))));
      const after = changed(full, round);
      planning.push(await timed(() => planModel(after, () => null, options)));
      applying.push(await timed(() => run(after)));
    }
    figures.set('start, nothing changed', median(again));
    figures.set('full introspection', median(introspect));
    figures.set('plan, one table changed', median(planning));
    figures.set('apply, one table changed', median(applying));
    await owner.query(raw('truncate svc_meta.stamp'));
    figures.set('plan, everything elaborated again', await timed(() => planModel(full, () => null, options)));
  } finally {
    await owner.close();
    await server.query(`drop database ${name} with (force)`);
    await server.end();
  }
  return figures;
}

const given = process.env['SVC_DATABASE_URL'];
const folder = given ? undefined : await mkdtemp(join(tmpdir(), 'svc-bench-'));
const embedded = folder
  ? await startEmbeddedPostgres({ dir: join(folder, '.svc'), log: silentLog })
  : undefined;
try {
  const sizes = SIZES.length > 0 ? SIZES : [10, 100, 1_000];
  const results = new Map<number, Map<string, number>>();
  for (const size of sizes) results.set(size, await measure(given ?? embedded?.url ?? '', size));
  const rows = Object.entries(AIMS).map(([what, aims]) => {
    const cells = sizes.map((size) => {
      const aim = aims[[10, 100, 1_000].indexOf(size)] ?? '–';
      return `${Math.round(results.get(size)?.get(what) ?? 0).toLocaleString('en-US')} (${aim})`.padStart(24);
    });
    return `${what.padEnd(36)}${cells.join('')}`;
  });
  console.log(`milliseconds, in brackets the aim; RSS ${Math.round(process.memoryUsage.rss() / 1e6)} MB`);
  console.log(`${''.padEnd(36)}${sizes.map((size) => `${size} tables`.padStart(24)).join('')}`);
  console.log(rows.join('\n'));
} finally {
  await embedded?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
}
