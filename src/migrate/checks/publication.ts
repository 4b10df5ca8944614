// Tables whose changes PostgreSQL could not tell, or whose updates it would refuse once they are told; and what a person
// should know before they are.
import type { Change } from '../diff/change.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { keyOf } from '../schema/model.ts';
import { PUBLISHES_GENERATED } from '../schema/publication.ts';

export function refusePublished({ tables }: Desired, live: Live): MigrationProblem[] {
  return tables.flatMap((table) => {
    if (table.model.realtime === undefined) return [];
    const found = live.tables.get(keyOf(table));
    return refusalsOf(table, found, live.serverVersion).map(([message, hint]) =>
      problem('MIG-304', `${table.at}.realtime`, message, hint),
    );
  });
}

function refusalsOf(
  { columns, model, name }: DesiredTable,
  live: LiveTable | undefined,
  serverVersion: number,
): [string, string][] {
  const refusals: [string, string][] = [];
  const isFull = model.realtime?.old === 'full';
  if (model.unlogged ?? live?.unlogged === true) {
    refusals.push([
      `the table ${name} is unlogged: the write-ahead log has nothing of its changes`,
      `Run alter table ${name} set logged first, or remove realtime.`,
    ]);
  }
  if (live?.keys.some(({ kind, deferrable }) => kind === 'primary' && deferrable !== null) === true) {
    refusals.push([
      `the primary key of ${name} is deferrable: PostgreSQL would refuse updates and deletes of the published table`,
      'Make the key again without DEFERRABLE, or remove realtime.',
    ]);
  }
  if (((live?.partitioning ?? null) !== null || model.partitioning) && isFull) {
    refusals.push([
      `the table ${name} is partitioned: each partition has a replica identity of its own`,
      'Write old: key.',
    ]);
  }
  const virtual = columns.find(({ generated }) => generated === 'virtual');
  if (virtual && isFull && serverVersion >= PUBLISHES_GENERATED) {
    refusals.push([
      `the column ${virtual.name} is generated and not stored: PostgreSQL would refuse updates and deletes of a table that tells of whole old rows`,
      'Write old: key, or store the column.',
    ]);
  }
  return refusals;
}

export function notePublished(changes: readonly Change[]): string[] {
  return changes.flatMap((change) =>
    change.kind === 'set-replica-identity' && change.identity === 'full'
      ? [
          `${change.table.at}.realtime: with old: full each update and delete writes the whole row to the write-ahead log`,
        ]
      : [],
  );
}
