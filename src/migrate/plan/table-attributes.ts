// How a table is stored, as statements.
import { quoteIdent } from '../../postgres/sql.ts';
import { nameOf } from '../schema/model.ts';
import { optionsSql } from '../schema/sql/index-sql.ts';
import { type ChangeOf, onTable, type Planners, REWRITE_ROWS_PER_MS, type StepList } from './step-list.ts';

export const TABLE_ATTRIBUTES = {
  'set-storage': setStorage,
  'set-logged': setLogged,
} satisfies Partial<Planners>;

function setStorage(steps: StepList, { table, set, reset }: ChangeOf<'set-storage'>): void {
  const alter = `alter table ${nameOf(table)}`;
  const statements = [
    ...(Object.keys(set).length > 0 ? [`${alter} set (${optionsSql(set)})`] : []),
    ...(reset.length > 0 ? [`${alter} reset (${reset.map(quoteIdent).join(', ')})`] : []),
  ];
  steps.add({
    ...onTable(table),
    identity: `${table.at}.with`,
    sql: statements.join('; '),
    stage: 'comments',
    sign: '~',
    summary: `storage parameters of ${table.name}: ${[...Object.entries(set).map(([name, value]) => `${name} ${value}`), ...reset.map((name) => `${name} as usual`)].join(', ')}`,
    lock: 'ShareUpdateExclusive',
  });
}

function setLogged(steps: StepList, { table, live, logged }: ChangeOf<'set-logged'>): void {
  steps.add({
    ...onTable(table),
    identity: `${table.at}.unlogged`,
    sql: `alter table ${nameOf(table)} set ${logged ? 'logged' : 'unlogged'}`,
    // Before others refer to it.
    stage: 'columns',
    sign: '~',
    summary: logged ? `${table.name} is logged` : `${table.name} is no longer logged: a crash empties it`,
    rewrites: true,
    estimateMs: steps.estimate(live, REWRITE_ROWS_PER_MS),
    hazards: ['REWRITE'],
  });
}
