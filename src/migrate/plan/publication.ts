// Statements for published tables. PostgreSQL rejects updates and deletes of a published table without a replica
// identity. So the whole row identifies rows while the primary key is rebuilt concurrently.
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { objectKey } from '../schema/model.ts';
import {
  createPublicationSql,
  PUBLICATION,
  PUBLISH_GENERATED,
  publishSql,
  replicaIdentitySql,
  unpublishSql,
} from '../schema/publication.ts';
import { primaryKeyColumns } from '../schema/relation.ts';
import type { Draft, Planners, StepList } from './step-list.ts';

export const PUBLICATIONS = {
  'create-publication': (steps, { serverVersion }) =>
    steps.add({
      sql: createPublicationSql(serverVersion),
      stage: 'schemas',
      identity: 'realtime',
      summary: `publication ${PUBLICATION}`,
    }),
  'publish-generated': (steps) =>
    steps.add({
      sql: PUBLISH_GENERATED,
      stage: 'schemas',
      identity: 'realtime',
      sign: '~',
      summary: `publication ${PUBLICATION} has generated columns`,
    }),
  publish: (steps, change) =>
    steps.add({
      ...base(change),
      ...afterKey(steps, change.table),
      sql: publishSql(change.table),
      stage: 'publication',
      summary: 'changes are published',
      lock: 'ShareUpdateExclusive',
    }),
  unpublish: (steps, change) =>
    steps.add({
      ...base(change),
      sql: unpublishSql(change.table),
      stage: 'drop-dependants',
      sign: '-',
      summary: change.isPart
        ? `not only some columns or rows are in the publication`
        : 'changes are no longer published',
      lock: 'ShareUpdateExclusive',
      hazards: change.isPart ? [] : ['BREAKS_OLD_CODE'],
    }),
  'set-replica-identity': (steps, change) => {
    const late = change.identity === 'default' ? afterKey(steps, change.table) : {};
    addIdentity(steps, change, { ...late, stage: 'publication' });
  },
  'keep-replica-identity': (steps, { table, live }) => {
    const late = afterKey(steps, table);
    if (late.lane === undefined && !steps.isDeferring && !isFilled(steps, table)) return;
    steps.atOnce(() => addIdentity(steps, { table, live, identity: 'full' }, { stage: 'drop-dependants' }));
    addIdentity(steps, { table, live, identity: 'default' }, { ...late, stage: 'publication' });
  },
} satisfies Partial<Planners>;

/** Returns whether the run updates rows while the table has no key. */
function isFilled(steps: StepList, table: DesiredTable): boolean {
  const hasRows = steps.facts.nonEmpty.has(objectKey(table));
  return hasRows && table.columns.some(({ model }) => model.backfill !== null);
}

function addIdentity(
  steps: StepList,
  change: Pick<ChangeOf<'set-replica-identity'>, 'table' | 'live' | 'identity'>,
  when: Pick<Draft, 'stage' | 'lane' | 'hazards'>,
): void {
  steps.add({
    ...base(change),
    ...when,
    sql: replicaIdentitySql(change.table, change.identity),
    sign: '~',
    summary:
      change.identity === 'full'
        ? 'the whole row is logged with each update and delete'
        : 'only the key of a row is logged with updates and deletes',
  });
}

function base({ table, live }: Pick<ChangeOf<'publish'>, 'table' | 'live'>): {
  identity: string;
  table: string | null;
} {
  return { identity: `${table.at}.realtime`, table: live ? objectKey(table) : null };
}

/** Delays a step until a primary key that is built concurrently exists. */
function afterKey(steps: StepList, table: DesiredTable): Pick<Draft, 'lane' | 'hazards'> {
  const isLate = steps.laneOfKey(objectKey(table), primaryKeyColumns(table)) === 'concurrent';
  return isLate ? { lane: 'concurrent', hazards: ['NON_TX'] } : {};
}
