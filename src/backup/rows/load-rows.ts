// Loads the rows of a backup into the tables that a migration has created.
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
import { withoutForeignKeys, withoutTriggers } from '../../postgres/bulk/disable-triggers.ts';
import { moveSequences, readSequences, differingSequences } from '../../postgres/bulk/sequences.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { ident, join as list, raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { OpenFile } from '../seal.ts';
import { OWN_SEQUENCES_APART, readSaved, type SavedTable } from './saved-database.ts';
import { reportProgress } from '../../lib/progress.ts';

/** Loaded before the migration, which must not repeat completed steps. */
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
  reportProgress('creating tables');
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
    const remaining = tables.filter((table) => !isDoneSteps(table));
    await makePartitions(database, remaining);
    await withoutTriggers(database, remaining, () =>
      withoutForeignKeys(database, remaining, () => fill(database, remaining, folder, open)),
    );
    const here = await readSequences(database, OWN_SEQUENCES_APART);
    await moveSequences(database, differingSequences(sequences, here));
  });
  await owner.session(refreshAll);
}

/**
 * Creates the partitions that the migration did not create: past periods, and partitions that svc does not manage.
 */
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
  for (const [index, { schema, name, columns, file, rows }] of tables.entries()) {
    reportProgress(`restoring ${schema}.${name}`, index + 1, tables.length);
    const { text } =
      sql`copy ${ident(schema, name)} (${list(columns.map((column) => ident(column)))}) from stdin`.compile();
    const plain = createGunzip();
    pipeline(await open(`${folder}/${file}`), plain, () => {});
    const written = await copyIn({ client, statement: text }, plain);
    if (written !== rows)
      throw new Problem('restore_incomplete', 500, `${schema}.${name} got ${written} of ${rows} rows`);
  }
}
