// Changes of table attributes as statements.
import { quoteName } from '../schema/model.ts';
import { tableAttribute } from '../schema/sql/table-attributes.ts';
import { onTable, type Planners, REWRITE_ROWS_PER_MS } from './step-list.ts';

export const TABLE_ATTRIBUTES = {
  'set-attribute': (steps, { table, live, attribute, alteration: { actions, summary } }) => {
    const { lock, rewrites, stage } = tableAttribute(attribute);
    steps.add({
      ...onTable(table),
      identity: `${table.at}.${attribute}`,
      sql: actions.map((action) => `alter table ${quoteName(table)} ${action}`).join('; '),
      stage,
      sign: '~',
      summary: summary(table.name),
      lock,
      ...(rewrites
        ? { rewrites, estimateMs: steps.estimate(live, REWRITE_ROWS_PER_MS), hazards: ['REWRITE'] }
        : {}),
    });
  },
} satisfies Partial<Planners>;
