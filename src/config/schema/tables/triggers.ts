// Triggers: of a table, and of the users, which are no table of the file.
import { z } from 'zod';
import { asWritten, choice, sqlExpression, text, oneOrMore } from '../kinds.ts';

const EVENTS = ['insert', 'update', 'delete', 'truncate'] as const;

const call = text(
  'The function: a name under `rpc` that returns `trigger`, or `schema.function` for one that the database has',
  'index_todo',
  'extensions.moddatetime',
);

const shape = {
  name: text(
    'Label in the database; made from table, moment and function when absent. Triggers of one moment run in the order of their names',
  ).optional(),
  timing: z
    .enum(['before', 'after'])
    .meta({ description: 'Before the row is written, when it can still be changed or refused, or after' }),
  events: oneOrMore(z.enum(EVENTS), 'event').meta({
    description: 'What it runs at: `insert`, `update`, `delete`, `truncate`',
    examples: [['insert', 'update']],
  }),
  of: oneOrMore(z.string().min(1, 'must not be empty'), 'column')
    .meta({ description: 'With `update`: only when one of these columns is assigned', examples: [['title']] })
    .optional(),
  when: sqlExpression('SQL condition over `old` and `new`: otherwise it does not run').optional(),
  call,
  args: z
    .array(asWritten())
    .meta({ description: 'Texts that the function finds in `TG_ARGV`', examples: [['updated_at']] })
    .optional(),
  enabled: z
    .enum(['true', 'false', 'replica', 'always'])
    .meta({
      type: ['boolean', 'string'],
      enum: [true, false, 'replica', 'always'],
      description:
        '`false`: it is there and does not run. `replica`: it runs only for rows that replication writes. `always`: for these too',
      default: true,
    })
    .optional(),
};

/** A list of one may be written without brackets. */
export const tableTrigger = z
  .strictObject({
    ...shape,
    each: choice('Once for each row, or once for the whole statement', ['row', 'statement']),
    old_table: text('Name under which the function reads all rows as they were').optional(),
    new_table: text('Name under which the function reads all rows as they are now').optional(),
    constraint: z
      .strictObject({
        deferrable: z.enum(['no', 'immediate', 'deferred']).default('no').meta({
          description:
            '`deferred`: it runs at the end of the transaction. `immediate`: a transaction may put it off until then',
        }),
      })
      .meta({ description: 'A constraint trigger: after each row, and perhaps later' })
      .optional(),
  })
  .meta({ description: 'A trigger of the table' })
  .transform(({ old_table: oldTable, new_table: newTable, ...same }) => ({ ...same, oldTable, newTable }));

export const viewTrigger = z
  .strictObject({
    name: shape.name,
    timing: z.enum(['instead_of', 'before', 'after']).meta({
      description:
        '`instead_of`: once for each row, in place of writing it. `before` and `after`: once for the statement, with `each: statement`',
    }),
    events: oneOrMore(z.enum(['insert', 'update', 'delete']), 'event').meta({
      description: 'What it runs at: `insert`, `update`, `delete`',
      examples: [['insert', 'update']],
    }),
    of: shape.of,
    each: choice('Once for each row, or once for the whole statement', ['row', 'statement']),
    when: sqlExpression('SQL condition, with `each: statement`: otherwise it does not run').optional(),
    call: shape.call,
    args: shape.args,
  })
  .meta({ description: 'A trigger of the view' });

export const userTrigger = z
  .strictObject({
    ...shape,
    events: oneOrMore(z.enum(['insert', 'update', 'delete']), 'event').meta({
      description: 'What it runs at, once for each user: `insert`, `update`, `delete`',
      examples: [['insert']],
    }),
  })
  .meta({ description: 'A trigger of auth.users' });

export type RawTableTrigger = z.infer<typeof tableTrigger>;
export type RawViewTrigger = z.infer<typeof viewTrigger>;
export type RawUserTrigger = z.infer<typeof userTrigger>;
