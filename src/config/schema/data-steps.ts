// `migrations.steps`: SQL of the project that fills or corrects rows once, between changes of the schema.
import { z } from 'zod';
import { choice, count, list, sqlBody, text, timer } from './kinds.ts';

const dataStep = z
  .strictObject({
    name: text('Name under which the database records the step; never reuse it', 'split-names'),
    run: text('SQL file, relative to svc.yaml; or `sql`', 'steps/split-names.sql').optional(),
    sql: sqlBody('The statements themselves, instead of `run`').optional(),
    after: choice(
      'Time of the step: `expand` after the additions of the file and before its requirements and removals, ' +
        '`start` before any change, `contract` after all changes',
      ['expand', 'start', 'contract'],
    ),
    on_empty: choice('Whether the step runs on a database that this file creates', ['skip', 'run']),
    timeout: timer('Deadline of the step, or of each of its batches', '5m'),
    batch: z
      .strictObject({
        table: text('Table with a primary key of one column', 'people'),
        size: count('Number of rows in one batch', { absent: 5_000, least: 1 }),
      })
      .meta({
        description:
          'Run the statements once per batch of rows, each in a transaction: `$1` is the first key of the ' +
          'batch, `$2` the last',
      })
      .optional(),
    undo: z
      .union([
        sqlBody('Statements that revert the step'),
        z.strictObject({ file: text('SQL file, relative to svc.yaml', 'steps/join-names.sql') }),
      ])
      .meta({
        description:
          'Statements that `svc migrate down` runs to revert the step, or `{ file: <path> }`. Without it, ' +
          'the rows stay as the step left them',
        examples: ["update people set name = first || ' ' || last", { file: 'steps/join-names.sql' }],
      })
      .optional(),
  })
  .transform(({ on_empty: onEmpty, timeout: timeoutMs, ...same }) => ({ ...same, onEmpty, timeoutMs }));

export const dataSteps = list(
  'SQL steps that change rows; each runs once per database, in this order',
  dataStep,
);

export type RawDataStep = z.infer<typeof dataStep>;
