// `migrations.steps`: SQL of the project that fills or corrects rows once, between changes of the schema.
import { z } from 'zod';
import { choice, count, list, sqlBody, text, timer } from './kinds.ts';

const dataStep = z
  .strictObject({
    name: text('Under this name the database remembers that it ran; never used again', 'split-names'),
    run: text('SQL file, relative to svc.yaml; or `sql`', 'steps/split-names.sql').optional(),
    sql: sqlBody('The statements themselves, instead of `run`').optional(),
    after: choice(
      'When it runs: `expand` after what the file adds and before what it requires or removes, `start` before any change, `contract` after all of them',
      ['expand', 'start', 'contract'],
    ),
    on_empty: choice('Whether it runs on a database that this file builds from nothing', ['skip', 'run']),
    timeout: timer('Deadline of the step, or of each of its batches: of one transaction', '5m'),
    batch: z
      .strictObject({
        table: text('Table with a primary key of one column', 'people'),
        size: count('Rows of it in one batch', { absent: 5_000, least: 1 }),
      })
      .meta({
        description:
          'Runs the statements once for each batch of rows, in a transaction each: `$1` is the first key of the batch, `$2` the last',
      })
      .optional(),
    undo: z
      .union([
        sqlBody('The statements that take it back'),
        z.strictObject({ file: text('SQL file, relative to svc.yaml', 'steps/join-names.sql') }),
      ])
      .meta({
        description:
          'What `svc migrate down` runs to take it back: the statements, or `{ file: <path> }`. Without it the rows stay as the step left them',
        examples: ["update people set name = first || ' ' || last", { file: 'steps/join-names.sql' }],
      })
      .optional(),
  })
  .transform(({ on_empty: onEmpty, timeout: timeoutMs, ...same }) => ({ ...same, onEmpty, timeoutMs }));

export const dataSteps = list('SQL that changes rows, each once in a database, in this order', dataStep);

export type RawDataStep = z.infer<typeof dataStep>;
