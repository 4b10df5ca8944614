// Schemas of the --json output of `svc migrate`.
import { z } from 'zod';
import type { JsonProblem } from '../report/json-problem.ts';
import type { MigrationProblem } from '../../migrate/problem.ts';

const OWNED = z.strictObject({ what: z.string(), name: z.string(), owner: z.string() });
const FIRST_HASH = z.string().nullable();

export const PLANNED = z.strictObject({
  format: z.literal(1),
  server: z.int(),
  stamp: z.string(),
  from: FIRST_HASH,
  to: z.string(),
  fingerprint: z.string(),
  ownership: z.array(z.string()).readonly(),
  steps: z
    .array(
      z.strictObject({
        sql: z.string(),
        lane: z.string(),
        identity: z.string(),
        place: z.string().nullable(),
        lock: z.string(),
        tables: z.array(z.string()).readonly(),
        rewrites: z.boolean(),
        scans: z.boolean(),
        estimateMs: z.number(),
        hazards: z.array(z.string()).readonly(),
      }),
    )
    .readonly(),
  problems: z.array(z.unknown()).readonly(),
});

/** `run` is null if there was nothing to do. */
export const APPLIED = z.strictObject({
  run: z.string().nullable(),
  statements: z.int(),
  taken: z.array(OWNED),
});

export const STATUS = z.strictObject({
  applied: z.strictObject({ hash: z.string(), at: z.iso.datetime(), complete: z.boolean() }).nullable(),
  file: z.string(),
  superseded: z.string().nullable(),
  pending: z.int(),
  foreign: z.array(OWNED),
  unmanaged: z.array(z.strictObject({ what: z.string(), name: z.string(), open: z.boolean() })),
  retired: z.array(
    z.strictObject({
      name: z.string(),
      kind: z.string(),
      since: z.iso.datetime(),
      values: z.number(),
      bytes: z.number(),
    }),
  ),
});

export const DRIFTED = z.strictObject({
  applied: z.boolean(),
  steps: z.array(z.strictObject({ at: z.string(), summary: z.string(), sql: z.string() })).optional(),
  unmanaged: z
    .array(
      z.strictObject({
        what: z.string(),
        name: z.string(),
        table: z.string().optional(),
        open: z.boolean().optional(),
      }),
    )
    .optional(),
  foreign: z.array(OWNED).optional(),
});

export const WENT_BACK = z.strictObject({
  target: z.string(),
  run: z.string().nullable(),
  statements: z.int(),
  data_steps: z.array(z.strictObject({ name: z.string(), undone: z.boolean() })),
});

export const PRUNED = z.strictObject({ dropped: z.array(z.string()) });

export const RUNS = z.strictObject({
  runs: z.array(
    z.strictObject({
      id: z.string(),
      kind: z.string(),
      status: z.string(),
      started_at: z.iso.datetime(),
      finished_at: z.iso.datetime().nullable(),
      from: FIRST_HASH,
      to: z.string(),
      statements: z.int(),
      instance: z.string(),
      error: z.string().nullable(),
    }),
  ),
});

export const RENAMED = z.strictObject({ path: z.string(), name: z.string(), files: z.array(z.string()) });

/** `file` is null if the text was printed. */
export const PULLED = z.strictObject({ file: z.string().nullable(), text: z.string(), written: z.boolean() });

/** `text` is the root file, `files` are all written files. `left`: objects that the file cannot contain. */
export const ADOPTED = PULLED.extend({
  files: z.array(z.string()),
  left: z.array(z.string()).readonly(),
  decide: z.array(z.string()).readonly(),
  verified: z.boolean(),
});

export const asJsonProblems = (problems: readonly MigrationProblem[]): JsonProblem[] =>
  problems.map(({ code, message, hint, at }) => ({ code, severity: 'error', message, hint, path: at }));
