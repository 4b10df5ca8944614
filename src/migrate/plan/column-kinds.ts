// Statements for identity columns, generated columns and comments.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import { columnDefinitionSql, identitySql } from '../schema/sql/column-sql.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import {
  alterColumn,
  onColumn,
  type Planners,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type StepList,
} from './step-list.ts';

export const COLUMN_KINDS = {
  'make-identity': makeIdentity,
  'set-identity': setIdentity,
  'set-expression': (steps, { table, live, column }) =>
    steps.add({
      ...onColumn(table, column),
      sql: `${alterColumn(table, column)} set expression as (\n${column.default?.sql ?? ''}\n)`,
      stage: 'columns-with-default',
      sign: '~',
      summary: `column ${column.name} generated as ${column.default?.written ?? ''}`,
      rewrites: true,
      estimateMs: steps.estimate(live, REWRITE_ROWS_PER_MS),
    }),
  'drop-expression': dropExpression,
  'remake-column': remakeColumn,
  'set-comment': setComment,
} satisfies Partial<Planners>;

/** Continues after the highest existing number. */
function makeIdentity(steps: StepList, { table, live, column, liveColumn }: ChangeOf<'make-identity'>): void {
  const { identity = 'by_default' } = column.model;
  const name = quoteLiteral(quoteName(table));
  const highest = `(select max(${quoteIdent(column.name)}) from ${quoteName(table)})`;
  const isRequired = liveColumn.notNull || steps.isSmall(live, SCAN_ROWS_PER_MS);
  steps.add({
    ...onColumn(table, column),
    sql: [
      `${alterColumn(table, column)} add ${identitySql(identity)}`,
      `select setval(pg_get_serial_sequence(${name}, ${quoteLiteral(column.name)}), coalesce(${highest}, 0) + 1, false)`,
    ].join('; '),
    // An identity column must be NOT NULL. On a large table it becomes NOT NULL online.
    lane: isRequired ? 'metadata' : 'online',
    stage: 'identity',
    sign: '~',
    summary: `column ${column.name} numbered, ${identity.replace('_', ' ')}`,
  });
}

function setIdentity(steps: StepList, { table, column, liveColumn }: ChangeOf<'set-identity'>): void {
  const { identity = 'by_default' } = column.model;
  const alter = alterColumn(table, column);
  const sequence = `pg_get_serial_sequence(${quoteLiteral(quoteName(table))}, ${quoteLiteral(column.name)})`;
  // The sequence of a serial column is dropped with its default. The new sequence continues its numbers.
  const replace = `declare last bigint; called boolean; begin
    select last_value, is_called into last, called from ${liveColumn.sequence ?? ''};
    ${alter} drop default;
    drop sequence ${liveColumn.sequence ?? ''};
    ${alter} add ${identitySql(identity)};
    perform setval(${sequence}, last, called);
  end`;
  steps.add({
    ...onColumn(table, column),
    sql:
      liveColumn.identity === null
        ? `do ${quoteLiteral(replace)}`
        : `${alter} set generated ${identity === 'always' ? 'always' : 'by default'}`,
    stage: 'identity',
    sign: '~',
    summary: `column ${column.name} numbered, ${identity.replace('_', ' ')}`,
    hazards: identity === 'always' ? ['BREAKS_OLD_CODE'] : [],
  });
}

/** Turns a generated column into a plain column and keeps its values. */
function dropExpression(
  steps: StepList,
  { table, live, column, liveColumn }: ChangeOf<'drop-expression'>,
): void {
  const name = quoteIdent(column.name);
  const isVirtual = liveColumn.generated === 'virtual';
  // A virtual column has no stored values, so they are stored first.
  const store = `alter table ${quoteName(table)} drop column ${name}, add column ${name} ${column.typeSql}${column.collateSql} generated always as (${liveColumn.default ?? ''}) stored`;
  steps.add({
    ...onColumn(table, column),
    sql: [...(isVirtual ? [store] : []), `${alterColumn(table, column)} drop expression`].join('; '),
    stage: 'types',
    sign: '~',
    summary: `column ${column.name} no longer generated, its values stay`,
    rewrites: isVirtual,
    estimateMs: isVirtual ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
  });
}

function remakeColumn(steps: StepList, { table, live, column }: ChangeOf<'remake-column'>): void {
  const name = quoteIdent(column.name);
  const isStored = column.generated === 'stored';
  const value = column.generated === null ? '' : ` generated as ${column.default?.written ?? ''}`;
  steps.add({
    ...onColumn(table, column),
    sql: `alter table ${quoteName(table)} drop column ${name}, add column ${name} ${columnDefinitionSql(column)}${column.notNull ? ' not null' : ''}`,
    stage: 'columns-with-default',
    sign: '~',
    summary: `column ${column.name} recreated${value}`,
    rewrites: isStored,
    estimateMs: isStored ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
    hazards: ['DATA_DEPENDENT'],
  });
}

function setComment(steps: StepList, { table, commented, comment }: ChangeOf<'set-comment'>): void {
  const on =
    commented === null
      ? `table ${quoteName(table)}`
      : `column ${quoteName(table)}.${quoteIdent(commented.name)}`;
  steps.add({
    identity: `${(commented ?? table).at}.comment`,
    table: objectKey(table),
    sql: `comment on ${on} is ${comment === null ? 'null' : quoteLiteral(comment)}`,
    stage: 'comments',
    sign: comment === null ? '-' : '~',
    summary: `comment of ${commented === null ? `table ${table.name}` : `column ${commented.name}`}`,
    lock: 'ShareUpdateExclusive',
  });
}
