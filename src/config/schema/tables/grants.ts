// Privileges of roles on a table, which PostgreSQL checks before policies.
import { z } from 'zod';

/** Privileges that can be limited to columns. */
const COLUMN_PRIVILEGES = ['select', 'insert', 'update', 'references'] as const;
const PRIVILEGES = ['select', 'insert', 'update', 'delete', 'references', 'trigger', 'truncate'] as const;

const columns = z.array(z.string().min(1, 'must not be empty')).min(1, 'must name at least one column');

const privilege = z.union([
  z.enum([...PRIVILEGES, 'all']),
  z
    .partialRecord(z.enum(COLUMN_PRIVILEGES), columns)
    .refine((named) => Object.keys(named).length > 0, 'must name a privilege and its columns'),
]);

export const grants = z
  .record(z.string().min(1, 'must not be empty'), z.array(privilege))
  .meta({
    description:
      'Privileges of database roles on the table: `select`, `insert`, `update`, `delete`, `references`, ' +
      '`trigger`, `truncate`, `all`, or `{ update: [columns] }`. A listed role has exactly these. By ' +
      'default, `anon` and `authenticated` have the first four and `service_role` all; other roles keep ' +
      'their privileges',
    examples: [{ anon: [], authenticated: ['select', { update: ['title'] }] }],
  })
  .optional();
