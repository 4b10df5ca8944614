// Row-level security policies, of tables, buckets and channels.
import { z } from 'zod';
import { choice, COMMON, list, sqlExpression, text } from '../kinds.ts';

export const OPERATIONS = ['select', 'insert', 'update', 'delete'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** Roles of clients with a key. A policy without roles applies to them. */
export const CALLERS: readonly string[] = ['anon', 'authenticated'];

const roleName = z.string().min(1, 'must not be empty');

export const policy = z
  .strictObject({
    name: text(
      'Name of the policy in the database; default: built from table, number and operation',
    ).optional(),
    operations: z
      .array(z.enum([...OPERATIONS, 'all']))
      .min(1, 'must name at least one operation')
      .meta({
        description: 'Operations of the policy; `all` means all four',
        examples: [['select', 'update']],
        ...COMMON,
      })
      .transform((named) =>
        named.includes('all') ? OPERATIONS : named.filter((operation) => operation !== 'all'),
      ),
    to: z
      .union([roleName, z.array(roleName).min(1, 'must name at least one role')])
      .meta({
        description:
          'Database roles of the policy; default: the callers `anon` and `authenticated`. `public` means every role',
        examples: [['authenticated'], 'reporting'],
        ...COMMON,
      })
      .transform((named) => (typeof named === 'string' ? [named] : named))
      .optional(),
    type: choice('Permissive policies are combined with OR; every restrictive one must also allow the row', [
      'permissive',
      'restrictive',
    ]),
    using: sqlExpression('SQL condition on rows that a statement reads or changes').meta(COMMON).optional(),
    with_check: sqlExpression('SQL condition on new rows').meta(COMMON).optional(),
    check: sqlExpression(
      'Default for `using` (select, delete), `with_check` (insert) or both (update)',
    ).optional(),
  })
  .meta({ description: 'One row-level security policy' })
  .transform(({ with_check: withCheck, ...same }) => ({ ...same, withCheck }));

export type RawPolicy = z.infer<typeof policy>;

export function policies(description: string): z.ZodPrefault<z.ZodArray<typeof policy>> {
  return list(description, policy);
}
