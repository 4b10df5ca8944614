// Tables, columns and partitions that the file no longer declares. They are retired with their data, or dropped if the
// settings allow it.
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { detachPartitionSql, retirePartitionSql } from '../schema/partitions.ts';
import { unpublishSql } from '../schema/publication.ts';
import { parseTriggerFunction } from '../schema/row-triggers.ts';
import type { Stage } from './step.ts';
import { alterColumn, type Planners, type StepList } from './step-list.ts';

/** How one kind of removal is planned and described. */
type RemovalRule<C> = {
  readonly describe: (change: C) => RemovalTexts;
  readonly dropSql: (change: C) => string;
  readonly retireSql: (change: C) => string;
  readonly stage: Stage;
  /** The rows or values that DROP loses: an argument of `count` and its table. */
  readonly counted: (change: C) => { readonly expression: string; readonly table: Named };
  readonly targets?: (steps: StepList, change: C) => readonly string[];
};

type Named = { readonly schema: string; readonly name: string };

type RemovalTexts = {
  readonly table: Named;
  readonly identity: string;
  readonly at: string;
  readonly what: string;
};

type RemovalKind = 'retire-table' | 'retire-column' | 'retire-partition';

export type Removal = ChangeOf<RemovalKind>;

const RULES: { readonly [Kind in RemovalKind]: RemovalRule<ChangeOf<Kind>> } = {
  'retire-table': {
    describe: ({ live }) => {
      const identity = `tables.${live.name}`;
      return { table: live, identity, at: identity, what: `table ${live.name}` };
    },
    dropSql: ({ live }) => {
      const functions = live.triggers.flatMap(({ definition }) => parseTriggerFunction(definition) ?? []);
      return [
        `drop table ${quoteName(live)}`,
        ...functions.map((fn) => `drop function if exists ${fn}()`),
      ].join('; ');
    },
    retireSql: ({ live }) => {
      const name = quoteName(live);
      // Foreign keys are dropped: hidden rows would prevent deletes in other tables.
      const drops = live.foreignKeys.map(
        ({ label }) => `; alter table ${name} drop constraint if exists ${quoteIdent(label)}`,
      );
      const unpublish = live.published === 'no' ? '' : `${unpublishSql(live)}; `;
      return `${unpublish}revoke all on ${name} from anon, authenticated, service_role, public${drops.join('')}`;
    },
    stage: 'retire',
    counted: ({ live }) => ({ expression: '*', table: live }),
    // Dropping a foreign key locks both tables.
    targets: (steps, { live }) => [
      ...new Set(live.foreignKeys.flatMap((foreignKey) => steps.targetsOf(foreignKey, objectKey(live)))),
    ],
  },
  'retire-column': {
    describe: ({ table, liveColumn: { name } }) => ({
      table,
      identity: `${table.at}.fields.${name}`,
      at: table.at,
      what: `column ${name}`,
    }),
    dropSql: ({ table, liveColumn }) =>
      `alter table ${quoteName(table)} drop column ${quoteIdent(liveColumn.name)}`,
    retireSql: ({ table, liveColumn }) => {
      const { notNull, serial, default: value } = liveColumn;
      const blocksInserts = notNull && value === null && !serial;
      return blocksInserts ? `${alterColumn(table, liveColumn)} drop not null` : 'select';
    },
    stage: 'retire',
    counted: ({ table, liveColumn }) => ({ expression: quoteIdent(liveColumn.name), table }),
  },
  'retire-partition': {
    describe: ({ table, partition: { name } }) => ({
      table,
      identity: `${table.at}.partitions.${name}`,
      at: table.at,
      what: `partition ${name}`,
    }),
    dropSql: ({ table, partition }) =>
      `${detachPartitionSql(table, partition)}; drop table ${quoteName(partition)}`,
    retireSql: ({ table, partition }) => retirePartitionSql(table, partition),
    // Another partition may take its range in the same run.
    stage: 'columns',
    counted: ({ partition }) => ({ expression: '*', table: partition }),
  },
};

function ruleOf(change: Removal): RemovalRule<Removal> {
  return RULES[change.kind] as RemovalRule<Removal>;
}

export const REMOVALS = {
  'retire-table': remove,
  'retire-column': remove,
  'retire-partition': remove,
  'drop-retired': dropRetired,
} satisfies Partial<Planners>;

function remove(steps: StepList, change: Removal): void {
  const { dropSql, retireSql, stage, targets } = ruleOf(change);
  const { table, identity, at, what } = removalOf(change);
  const { drops } = steps.facts;
  steps.add({
    identity,
    at,
    table: objectKey(table),
    otherTables: targets?.(steps, change) ?? [],
    sql: drops ? dropSql(change) : retireSql(change),
    stage,
    sign: '-',
    summary: drops ? `${what} dropped` : `${what} retired, data kept`,
    hazards: drops ? ['DATA_LOSS', 'BREAKS_OLD_CODE'] : ['BREAKS_OLD_CODE'],
  });
}

function dropRetired(steps: StepList, { what, home, label }: ChangeOf<'drop-retired'>): void {
  const name = quoteName(home);
  const base = {
    identity: `tables.${home.name}`,
    table: objectKey(home),
    sign: '-',
    summary: `${what} ${label} of ${home.name}, in the way of a change`,
  } as const;
  if (what === 'default') {
    const alter = alterColumn(home, { name: label });
    steps.add({ ...base, sql: `${alter} drop default`, stage: 'drop-dependants' });
    // Without a default, a required column would reject every new row.
    steps.add({ ...base, sql: `${alter} drop not null`, stage: 'retire' });
    return;
  }
  const sql = {
    policy: `drop policy ${quoteIdent(label)} on ${name}`,
    check: `alter table ${name} drop constraint ${quoteIdent(label)}`,
    'foreign key': `alter table ${name} drop constraint ${quoteIdent(label)}`,
    trigger: `drop trigger ${quoteIdent(label)} on ${name}`,
    index: `drop index ${quoteIdent(home.schema)}.${quoteIdent(label)}`,
  }[what];
  steps.add({ ...base, sql, stage: 'drop-dependants' });
}

export function removals(changes: readonly Change[]): Removal[] {
  return ofKind(changes, 'retire-table', 'retire-column', 'retire-partition');
}

export function removalOf(change: Removal): RemovalTexts {
  return ruleOf(change).describe(change);
}

/** Returns the number of rows of removed tables and of values of removed columns, by identity. */
export async function countRemoved(
  session: Queryable,
  changes: readonly Change[],
): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (const change of removals(changes)) {
    const { expression, table } = ruleOf(change).counted(change);
    const [row] = await session.query<{ values: string }>(
      raw(`select count(${expression})::text as values from ${quoteName(table)}`),
    );
    values.set(removalOf(change).identity, Number(row?.values ?? 0));
  }
  return values;
}
