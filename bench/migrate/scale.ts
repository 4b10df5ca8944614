// Measures the migration engine at 10, 100 and 1,000 tables: node bench/migrate/scale.ts [tables …]
// Uses SVC_DATABASE_URL of a server on which it can create databases, or starts the embedded PostgreSQL. Prints each
// figure with its target. There is no pass criterion, because machines differ.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { readLive } from '../../src/migrate/schema/live/read-live.ts';
import { planModel } from '../../src/migrate/commands/plan.ts';
import { migrateModel, type MigrateOptions } from '../../src/migrate/migrate.ts';
import type { SchemaModel } from '../../src/migrate/schema/model.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { raw } from '../../src/postgres/sql.ts';
import { provisionAt } from '../../test/support/provision.ts';
import { changed, model } from './bench-model.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

const SIZES = process.argv.slice(2).map(Number);
const REPEATS = 5;

/** Targets for 10, 100 and 1,000 tables, in milliseconds. */
const AIMS: Record<string, readonly [string, string, string]> = {
  'apply from an empty database': ['50', '637', '6,500'],
  'start, nothing changed': ['11', '14', '73'],
  'full introspection': ['11', '38', '390'],
  'plan, one table changed': ['–', '169 whole run', '250'],
  'apply, one table changed': ['–', '169 whole run', '250'],
  'plan, everything elaborated again': ['48', '393', '4,900'],
};

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
  const { ownerUrl } = await provisionAt(url.href);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc-bench',
    max: 3,
    idleTimeoutMs: 60_000,
  });
  const figures = new Map<string, number>();
  try {
    const options: MigrateOptions = {
      owner,
      config: {
        types: [],
        sequences: [],
        statements: [],
        extensions: [],
        tables: [],
        views: [],
        storage: [],
        rpc: [],
        auth: { triggers: [] },
        source: { name: 'bench', directory: undefined, text: '' },
      },
      log: silentLog,
      policy: { allowRollback: true },
    };
    const full = model(tables);
    const run = async (desired: SchemaModel): Promise<void> => {
      const outcome = await migrateModel(desired, () => null, options);
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
  const rows = Object.entries(AIMS).map(([name, aims]) => {
    const cells = sizes.map((size) => {
      const aim = aims[[10, 100, 1_000].indexOf(size)] ?? '–';
      return `${Math.round(results.get(size)?.get(name) ?? 0).toLocaleString('en-US')} (${aim})`.padStart(24);
    });
    return `${name.padEnd(36)}${cells.join('')}`;
  });
  console.log(`milliseconds, in brackets the aim; RSS ${Math.round(process.memoryUsage.rss() / 1e6)} MB`);
  console.log(`${''.padEnd(36)}${sizes.map((size) => `${size} tables`.padStart(24)).join('')}`);
  console.log(rows.join('\n'));
} finally {
  await embedded?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
}
