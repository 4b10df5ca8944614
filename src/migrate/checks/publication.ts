// Checks tables that realtime publishes: PostgreSQL cannot publish some tables, and rejects updates of others.
import type { Change } from '../diff/change.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { objectKey } from '../schema/model.ts';
import { PUBLISH_GENERATED_VERSION } from '../schema/publication.ts';

export function checkPublishedTables({ tables }: Desired, live: Live): MigrationProblem[] {
  return tables.flatMap((table) => {
    if (table.model.realtime === undefined) return [];
    const found = live.tables.get(objectKey(table));
    return findObstacles(table, found, live.serverVersion).map(([message, hint]) =>
      problem('MIG-304', `${table.at}.realtime`, message, hint),
    );
  });
}

function findObstacles(
  { columns, model, name }: DesiredTable,
  live: LiveTable | undefined,
  serverVersion: number,
): [string, string][] {
  const refusals: [string, string][] = [];
  const isFull = model.realtime?.old === 'full';
  if (model.unlogged ?? live?.unlogged === true) {
    refusals.push([
      `the table ${name} is unlogged: the write-ahead log does not contain its changes`,
      `Run alter table ${name} set logged first, or remove realtime.`,
    ]);
  }
  if (live?.keys.some(({ kind, deferrable }) => kind === 'primary' && deferrable !== null) === true) {
    refusals.push([
      `the primary key of ${name} is deferrable: PostgreSQL would refuse updates and deletes of the published table`,
      'Recreate the key without DEFERRABLE, or remove realtime.',
    ]);
  }
  if (((live?.partitioning ?? null) !== null || model.partitioning) && isFull) {
    refusals.push([
      `the table ${name} is partitioned: each partition has a separate replica identity`,
      'Set old: key.',
    ]);
  }
  const virtual = columns.find(({ generated }) => generated === 'virtual');
  if (virtual && isFull && serverVersion >= PUBLISH_GENERATED_VERSION) {
    refusals.push([
      `the column ${virtual.name} is generated and not stored: PostgreSQL would ` +
        'refuse updates and deletes of a table with old: full',
      'Set old: key, or store the column.',
    ]);
  }
  return refusals;
}

export function noteFullRows(changes: readonly Change[]): string[] {
  return changes.flatMap((change) =>
    change.kind === 'set-replica-identity' && change.identity === 'full'
      ? [
          `${change.table.at}.realtime: with old: full each update and delete ` +
            'writes the whole row to the write-ahead log',
        ]
      : [],
  );
}
