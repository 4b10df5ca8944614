// The rows of a backup into tables that a migration has made.
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { migrateModel } from '../../migrate/migrate.ts';
import { renderProblems } from '../../migrate/problem.ts';
import { refreshAll } from '../../migrate/commands/refresh.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { copyIn } from '../../postgres/bulk/copy.ts';
import { type Connected, oneTransaction } from '../../postgres/bulk/one-transaction.ts';
import { withoutForeignKeys, withoutTriggers } from '../../postgres/bulk/quiet-tables.ts';
import { moveSequences, readSequences, standingElsewhere } from '../../postgres/bulk/sequences.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { ident, join as list, raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { OpenFile } from '../seal.ts';
import { OWN_SEQUENCES_APART, readSaved, type SavedTable } from './saved-database.ts';

/** Written before the migration: it must not run again what was run once. */
const DONE_STEPS = 'svc_meta.data_step';

/** May be repeated after it was interrupted. Foreign keys are checked at the end, over all rows. */
export async function loadRows(
  folder: string,
  owner: OwnerDatabase,
  address: DatabaseAddress,
  config: Config,
  open: OpenFile,
): Promise<void> {
  const { model, tables, sequences } = await readSaved(folder, open);
  const write = (work: (database: Connected) => Promise<void>): Promise<void> =>
    oneTransaction({ address, access: 'read write', applicationName: 'svc-restore' }, work);
  const isDoneSteps = ({ schema, name }: SavedTable): boolean => `${schema}.${name}` === DONE_STEPS;

  await write((database) => fill(database, tables.filter(isDoneSteps), folder, open));
  const outcome = await migrateModel(model, () => null, {
    owner,
    config,
    instance: 'svc restore',
    log: silentLog,
    policy: { allow: ['authz_open'], allowRollback: true },
  });
  if (outcome.kind === 'refused')
    throw new Problem('restore_schema_refused', 500, 'The schema of the backup cannot be made here', {
      details: renderProblems(outcome.problems).join('\n'),
    });
  if (outcome.kind === 'applied') await outcome.background;
  await write(async (database) => {
    const others = tables.filter((table) => !isDoneSteps(table));
    await makePartitions(database, others);
    await withoutTriggers(database, others, () =>
      withoutForeignKeys(database, others, () => fill(database, others, folder, open)),
    );
    const here = await readSequences(database, OWN_SEQUENCES_APART);
    await moveSequences(database, standingElsewhere(sequences, here));
  });
  await owner.session(refreshAll);
}

/** Those that the migration has not made: by time, of months that are over, or made by others. */
async function makePartitions(database: Connected, tables: readonly SavedTable[]): Promise<void> {
  await database.query(raw(`set local timezone = 'UTC'; set local datestyle = 'ISO'`));
  for (const { schema, name, of, bound, by } of tables.flatMap(({ partitions = [] }) => partitions)) {
    const partitioned = by === null ? raw('') : raw(` partition by ${by}`);
    await database.query(
      sql`create table if not exists ${ident(schema, name)} partition of ${ident(...of)} ${raw(bound)}${partitioned}`,
    );
  }
}

async function fill(
  { client, ...database }: Connected,
  tables: readonly SavedTable[],
  folder: string,
  open: OpenFile,
): Promise<void> {
  if (tables.length === 0) return;
  await database.query(sql`truncate ${list(tables.map(({ schema, name }) => ident(schema, name)))}`);
  for (const { schema, name, columns, file, rows } of tables) {
    const { text } =
      sql`copy ${ident(schema, name)} (${list(columns.map((column) => ident(column)))}) from stdin`.compile();
    const plain = createGunzip();
    pipeline(await open(`${folder}/${file}`), plain, () => {});
    const written = await copyIn({ client, statement: text }, plain);
    if (written !== rows)
      throw new Problem('restore_incomplete', 500, `${schema}.${name} got ${written} of ${rows} rows`);
  }
}
