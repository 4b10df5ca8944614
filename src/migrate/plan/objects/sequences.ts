// Statements for sequences without a column. They come before the tables whose defaults use them.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { quoteName, type SequenceForm } from '../../schema/model.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import { createSequenceSql, numbersSql, usageRoles } from '../../schema/sequences.ts';
import type { Planners } from '../step-list.ts';

export const SEQUENCES = {
  'create-sequence': (steps, { sequence }) =>
    steps.add({
      identity: sequence.at,
      sql: createSequenceSql(sequence),
      stage: 'new-types',
      summary: `sequence ${sequence.name}: ${describe(sequence.numbers)}`,
    }),
  'alter-sequence': (steps, { sequence, live }) =>
    steps.add({
      identity: sequence.at,
      sql: `alter sequence ${quoteName(sequence)} ${numbersSql(sequence.numbers)}`,
      stage: 'new-types',
      sign: '~',
      summary: `sequence ${sequence.name}: ${describe(sequence.numbers)} (was ${describe(live.numbers)})`,
    }),
  'grant-free-sequence': (steps, { sequence }) => {
    const name = quoteName(sequence);
    const users = usageRoles(sequence);
    const others = ['public', ...API_ROLES.filter((role) => !users.includes(role))];
    const revoke = `revoke all on sequence ${name} from ${others.join(', ')}`;
    steps.add({
      identity: sequence.at,
      sql:
        users.length === 0
          ? revoke
          : `${revoke}; grant usage, select on sequence ${name} to ${users.map(quoteIdent).join(', ')}`,
      stage: 'grants',
      summary: `sequence ${sequence.name}: for ${users.length === 0 ? 'no caller' : users.join(', ')}`,
    });
  },
  'comment-sequence': (steps, { sequence }) => {
    const { comment } = sequence;
    steps.add({
      identity: sequence.at,
      sql: `comment on sequence ${quoteName(sequence)} is ${comment === undefined ? 'null' : quoteLiteral(comment)}`,
      stage: 'comments',
      sign: '~',
      summary: `sequence ${sequence.name}: comment`,
    });
  },
} satisfies Partial<Planners>;

function describe({ type, start, increment, min, max, cycle }: SequenceForm): string {
  return `${type} from ${start} by ${increment}, ${min} to ${max}${cycle ? ', then anew' : ''}`;
}
