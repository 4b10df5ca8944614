// A problem in the JSON output.
import { z } from 'zod';

/** `line` and `column` count from 1. */
export const JSON_PROBLEM = z.strictObject({
  code: z.string(),
  severity: z.enum(['error', 'warning', 'note']),
  message: z.string(),
  hint: z.string().nullable(),
  file: z.string().optional(),
  line: z.int().optional(),
  column: z.int().optional(),
  path: z.string().optional().describe('path of the key in svc.yaml: tables.todos.fields[2].type'),
});

export type JsonProblem = Readonly<z.infer<typeof JSON_PROBLEM>>;
