// Types of the file as statements.
import { quoteLiteral } from '../../postgres/sql.ts';
import { nameOf } from '../schema/model.ts';
import { createTypeSql } from '../schema/types.ts';
import type { Planners } from './step-list.ts';

export const TYPES = {
  'create-type': (steps, { type }) =>
    steps.add({
      identity: type.at,
      sql: createTypeSql(type),
      stage: 'new-types',
      summary: `type ${type.name}: ${type.model.values.join(', ')}`,
    }),
  'add-values': (steps, { type, live, values }) => {
    // Before the renames of this run.
    const name = nameOf({ schema: live.schema, name: live.former?.name ?? live.name });
    const formerOf = (value: string): string => live.former?.values.get(value) ?? value;
    for (const { value, before } of values)
      steps.add({
        identity: type.at,
        sql: `alter type ${name} add value ${quoteLiteral(value)}${before === null ? '' : ` before ${quoteLiteral(formerOf(before))}`}`,
        lane: 'values',
        stage: 'new-types',
        summary: `type ${type.name}: value ${value}${before === null ? '' : ` before ${before}`}`,
      });
  },
  'comment-type': (steps, { type }) => {
    const { comment } = type.model;
    steps.add({
      identity: type.at,
      sql: `comment on type ${nameOf(type)} is ${comment === undefined ? 'null' : quoteLiteral(comment)}`,
      stage: 'new-types',
      sign: '~',
      summary: `type ${type.name}: comment`,
    });
  },
  'drop-type': (steps, { live }) => {
    const drop = `drop type ${nameOf(live)}`;
    steps.add({
      identity: `types.${live.name}`,
      // What is retired, or not in the file, may still use it.
      sql: live.used
        ? `do ${quoteLiteral(`begin ${drop}; exception when dependent_objects_still_exist then null; end`)}`
        : drop,
      stage: 'retire',
      sign: '-',
      summary: `type ${live.name} dropped${live.used ? ', unless something that is kept uses it' : ''}`,
      hazards: ['BREAKS_OLD_CODE'],
    });
  },
} satisfies Partial<Planners>;
