// Statements for the triggers of `on_update` and `on_new_user`.
import type { LiveTrigger } from '../schema/triggers.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { bodyLiteral } from '../schema/sql/function-sql.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { parseTriggerFunction, type RowTrigger } from '../schema/row-triggers.ts';
import { onTable, type Planners } from './step-list.ts';

const USERS = 'auth.users';

export const ROW_TRIGGERS = {
  'set-on-update': (steps, { table, live, trigger }) => {
    const found = live?.triggers.find((one) => one.label === trigger.label);
    // The name of the function contains the name of the table, which may have changed.
    const former = found ? parseTriggerFunction(found.definition) : null;
    const isLeft = former !== null && former !== trigger.fn;
    steps.add({
      ...onTable(table),
      table: live ? objectKey(table) : null,
      sql: `${createSql(trigger, quoteName(table))}${isLeft ? `; drop function if exists ${former}()` : ''}`,
      stage: 'references',
      sign: found ? '~' : '+',
      summary: `on each update: ${trigger.values.map((one) => `${one.column} = ${one.expression.written}`).join(', ')}`,
      lock: live ? 'ShareRowExclusive' : 'none',
    });
  },
  'drop-on-update': (steps, { table, trigger }) =>
    steps.add({
      ...onTable(table),
      sql: dropSql(trigger, quoteName(table)),
      stage: 'drop-dependants',
      sign: '-',
      summary: 'no column follows the updates any more',
    }),
  'set-new-user': (steps, { trigger, isNew }) =>
    steps.add({
      identity: trigger.at,
      table: USERS,
      sql: createSql(trigger, USERS),
      stage: 'references',
      sign: isNew ? '+' : '~',
      summary: `a row for each new user: ${trigger.values.map((one) => `${one.column} = ${one.expression.written}`).join(', ')}`,
      lock: 'ShareRowExclusive',
    }),
  'drop-new-user': (steps, { trigger }) =>
    steps.add({
      identity: 'auth.users',
      table: USERS,
      sql: dropSql(trigger, USERS),
      stage: 'drop-dependants',
      sign: '-',
      summary: `trigger ${trigger.label}: no row for new users any more`,
    }),
} satisfies Partial<Planners>;

function createSql(trigger: RowTrigger, relation: string): string {
  const label = quoteIdent(trigger.label);
  return [
    `create or replace function ${trigger.fn}() ${trigger.attributes} as ${bodyLiteral(trigger.body)}`,
    `revoke all on function ${trigger.fn}() from public`,
    `comment on function ${trigger.fn}() is ${quoteLiteral(trigger.comment)}`,
    `create or replace trigger ${label} ${trigger.head} execute function ${trigger.fn}()`,
    `alter table ${relation} enable trigger ${label}`,
  ].join('; ');
}

function dropSql({ label, definition }: LiveTrigger, relation: string): string {
  const fn = parseTriggerFunction(definition);
  const drop = `drop trigger ${quoteIdent(label)} on ${relation}`;
  return fn === null ? drop : `${drop}; drop function if exists ${fn}()`;
}
