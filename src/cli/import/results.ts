// Schemas of the --json output of `svc import supabase`.
import { z } from 'zod';

const LINES = z.array(
  z.strictObject({ what: z.string(), count: z.number().optional(), why: z.string().optional() }),
);
export const REPORT = z.strictObject({ moves: LINES, decide: LINES, stays: LINES });
export const CHANGES = z.strictObject({
  changes: z.array(z.strictObject({ kind: z.string(), added: z.int(), changed: z.int(), removed: z.int() })),
});
/** `factorsLeft`: names of the second factors that were not copied. */
export const COPIED = CHANGES.extend({ factorsLeft: z.array(z.string()) });
export const FILES = z.strictObject({
  copied: z.int(),
  unchanged: z.int(),
  removed: z.int(),
  missing: z.array(z.strictObject({ name: z.string(), why: z.string() })),
  unproven: z.array(z.string()),
});
export const CONVERTED = z.strictObject({
  functions: z.array(z.strictObject({ name: z.string(), authRequired: z.boolean() })).readonly(),
  variables: z.array(z.string()).readonly(),
  byHand: z.array(z.strictObject({ name: z.string(), reasons: z.array(z.string()).readonly() })).readonly(),
  dependencies: z.record(z.string(), z.string()),
});
export const VERIFIED = z.strictObject({ differences: z.array(z.string()) });
export const ABANDONED = z.strictObject({ abandoned: z.boolean() });
export const FORGOTTEN = z.strictObject({ forgotten: z.boolean() });
export const CHANGED = z.strictObject({
  tables: z.array(
    z.strictObject({ table: z.string(), inserted: z.int(), updated: z.int(), deleted: z.int() }),
  ),
  directory: z.string().nullable(),
});
