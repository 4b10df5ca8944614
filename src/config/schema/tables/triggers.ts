// Triggers of tables, views and users.
import { z } from 'zod';
import { asWritten, choice, sqlExpression, text, oneOrMore } from '../kinds.ts';

const EVENTS = ['insert', 'update', 'delete', 'truncate'] as const;

const call = text(
  'Function: a name under `rpc` that returns `trigger`, or `schema.function` for an existing function of the database',
  'index_todo',
  'extensions.moddatetime',
);

const shape = {
  name: text(
    'Name in the database; default: built from table, event and function. Triggers of the same event run in ' +
      'the order of their names',
  ).optional(),
  timing: z.enum(['before', 'after']).meta({
    description: '`before` the row is written, so that the trigger can change or reject it, or `after`',
  }),
  events: oneOrMore(z.enum(EVENTS), 'event').meta({
    description: 'Events: `insert`, `update`, `delete`, `truncate`',
    examples: [['insert', 'update']],
  }),
  of: oneOrMore(z.string().min(1, 'must not be empty'), 'column')
    .meta({ description: 'With `update`: only when one of these columns is assigned', examples: [['title']] })
    .optional(),
  when: sqlExpression('SQL condition over `old` and `new`; the trigger runs only if it is true').optional(),
  call,
  args: z
    .array(asWritten())
    .meta({ description: 'Arguments that the function reads from `TG_ARGV`', examples: [['updated_at']] })
    .optional(),
  enabled: z
    .enum(['true', 'false', 'replica', 'always'])
    .meta({
      type: ['boolean', 'string'],
      enum: [true, false, 'replica', 'always'],
      description:
        '`false`: exists but does not run. `replica`: runs only for rows that replication writes. `always`: ' +
        'runs for all rows',
      default: true,
    })
    .optional(),
};

/** A list with one entry can be written without brackets. */
export const tableTrigger = z
  .strictObject({
    ...shape,
    each: choice('Run once per row, or once per statement', ['row', 'statement']),
    old_table: text('Name of the relation with all old rows').optional(),
    new_table: text('Name of the relation with all new rows').optional(),
    constraint: z
      .strictObject({
        deferrable: z.enum(['no', 'immediate', 'deferred']).default('no').meta({
          description:
            '`deferred`: runs at the end of the transaction. `immediate`: a transaction can defer it',
        }),
      })
      .meta({ description: 'Constraint trigger: runs after each row, or later' })
      .optional(),
  })
  .meta({ description: 'A trigger of the table' })
  .transform(({ old_table: oldTable, new_table: newTable, ...same }) => ({ ...same, oldTable, newTable }));

export const viewTrigger = z
  .strictObject({
    name: shape.name,
    timing: z.enum(['instead_of', 'before', 'after']).meta({
      description:
        '`instead_of`: once per row, instead of writing it. `before` and `after`: once per statement, with ' +
        '`each: statement`',
    }),
    events: oneOrMore(z.enum(['insert', 'update', 'delete']), 'event').meta({
      description: 'Events: `insert`, `update`, `delete`',
      examples: [['insert', 'update']],
    }),
    of: shape.of,
    each: choice('Run once per row, or once per statement', ['row', 'statement']),
    when: sqlExpression(
      'With `each: statement`: SQL condition; the trigger runs only if it is true',
    ).optional(),
    call: shape.call,
    args: shape.args,
  })
  .meta({ description: 'A trigger of the view' });

export const userTrigger = z
  .strictObject({
    ...shape,
    events: oneOrMore(z.enum(['insert', 'update', 'delete']), 'event').meta({
      description: 'Events, once for each user: `insert`, `update`, `delete`',
      examples: [['insert']],
    }),
  })
  .meta({ description: 'A trigger of auth.users' });

export type RawTableTrigger = z.infer<typeof tableTrigger>;
export type RawViewTrigger = z.infer<typeof viewTrigger>;
export type RawUserTrigger = z.infer<typeof userTrigger>;
