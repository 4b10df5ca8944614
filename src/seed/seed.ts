// Seeds: what a database begins with. An entry runs in one transaction, once for its content: an edited one runs again.
//
//   entry → sources (rows, files, hash) → passwords and bytes, ahead → transaction: users, rows, files, SQL, record
import type { Config, SeedEntry } from '../config/config.ts';
import type { Mode } from '../config/mode.ts';
import { must } from '../lib/assert.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { verifyLocation } from '../storage/backend/location.ts';
import { syncBuckets } from '../storage/objects/bucket.ts';
import { createBackend } from '../storage/storage.ts';
import { StagedObjects } from './objects.ts';
import { failedAt, parentsFirst, writeRows } from './rows.ts';
import { readSources, type SeedSources } from './seed-sources.ts';
import { hashPasswords, readIds, writeUsers } from './users.ts';

export type SeedOptions = {
  readonly owner: OwnerDatabase;
  readonly config: Config;
  readonly mode: Mode;
  /** All entries of the mode when absent. */
  readonly names?: readonly string[] | undefined;
  /** Also what has run already with the same content. */
  readonly again?: boolean | undefined;
};

/** How much was made or changed. */
export type SeedResult = {
  readonly name: string;
  readonly users: number;
  readonly rows: number;
  readonly objects: number;
};

/** Runs what is new or edited; entries are independent of each other, and the first failure ends it. */
export async function seed(options: SeedOptions): Promise<readonly SeedResult[]> {
  const { config, owner } = options;
  const directory = config.source.directory;
  const entries = chosen(options);
  if (directory === undefined || entries.length === 0) return [];
  const results: SeedResult[] = [];
  for (const entry of entries) {
    const sources = readSources(entry, directory, config.source.name);
    if (options.again !== true && (await isDone(owner, entry, sources))) continue;
    const result = await run(entry, sources, options);
    if (result) results.push(result);
  }
  return results;
}

function chosen({ config, mode, names }: SeedOptions): readonly SeedEntry[] {
  const fitting = config.seed.filter(({ modes }) => modes.includes(mode));
  if (names === undefined || names.length === 0) return fitting;
  return names.map((name) => {
    const entry = config.seed.find((entry) => entry.name === name);
    if (entry && fitting.includes(entry)) return entry;
    const known = fitting.map((entry) => entry.name).join(', ');
    throw new Problem(
      'unknown_seed',
      500,
      entry ? `The seed ${name} is not for ${mode}` : `There is no seed ${name} in ${config.source.name}`,
      {
        hint: entry
          ? `Its modes are ${entry.modes.join(', ')}.`
          : known === ''
            ? `None has the mode ${mode}.`
            : `There are: ${known}.`,
      },
    );
  });
}

/** Runs an entry. Returns undefined if another process has run it in the meantime. */
async function run(
  entry: SeedEntry,
  sources: SeedSources,
  { owner, config, again }: SeedOptions,
): Promise<SeedResult | undefined> {
  const { now } = must(await owner.maybeOne<{ now: Date }>(sql`select now() as now`), 'the time');
  const hashes = await hashPasswords(owner, entry.users);
  const staged = new StagedObjects(owner);
  try {
    if (sources.objects.length > 0) {
      const backend = createBackend(config);
      await verifyLocation(owner, backend);
      await backend.check();
      await syncBuckets(owner, config);
      await staged.stage(sources.objects, { config, backend, now });
    }
    const result = await owner.transaction(async (transaction) => {
      const before = await record(transaction, entry.name, sources.hash);
      if (before === sources.hash && again !== true) return undefined;
      const isFirstRun = before === undefined;
      const { ids, written } = await writeUsers(transaction, entry, hashes, now);
      const users = new Map([...(await readIds(transaction, config.seed)), ...ids]);
      let rows = 0;
      for (const table of parentsFirst(sources.tables, config))
        rows += await writeRows(transaction, table, { onConflict: entry.onConflict, isFirstRun, users });
      const objects = await staged.commit(transaction);
      if (sources.sql !== undefined) await runFile(transaction, entry.sql ?? '', sources.sql);
      return { name: entry.name, users: written, rows, objects };
    });
    if (result === undefined) await staged.abandon();
    return result;
  } catch (error) {
    await staged.abandon();
    throw error;
  }
}

/**
 * Answers the hash of the last run. First of all in the transaction: a second run of the same entry waits here until
 * this one has ended.
 */
async function record(transaction: Queryable, name: string, hash: string): Promise<string | undefined> {
  const made = await transaction.query(sql`
    insert into svc_meta.seed (name, hash) values (${name}, ${hash}) on conflict do nothing returning 1`);
  if (made.length > 0) return undefined;
  const [row] = await transaction.query<{ before: string }>(sql`
    select hash as before from svc_meta.seed where name = ${name} for update`);
  await transaction.query(sql`
    update svc_meta.seed set hash = ${hash}, applied_at = now() where name = ${name}`);
  return row?.before;
}

async function isDone(owner: OwnerDatabase, { name }: SeedEntry, { hash }: SeedSources): Promise<boolean> {
  const row = await owner.maybeOne(sql`select from svc_meta.seed where name = ${name} and hash = ${hash}`);
  return row !== undefined;
}

/** A file that ends the transaction would leave half of the entry behind. */
async function runFile(transaction: Queryable, file: string, text: string): Promise<void> {
  const current = sql`select pg_current_xact_id()::text as id`;
  const [before] = await transaction.query<{ id: string }>(current);
  try {
    await transaction.query(raw(text));
  } catch (error) {
    throw isDatabaseError(error) ? failedAt(file, error) : error;
  }
  const [after] = await transaction.query<{ id: string }>(current);
  if (before?.id !== after?.id) {
    throw new Problem('seed_failed', 500, `${file} ends the transaction that it runs in`, {
      hint: 'Take out begin, commit and rollback: an entry is done as a whole or not at all.',
    });
  }
}
