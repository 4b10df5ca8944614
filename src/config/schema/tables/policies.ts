// Row-level security policies, of tables, buckets and channels.
import { z } from 'zod';
import { choice, list, sqlExpression, text } from '../kinds.ts';

export const OPERATIONS = ['select', 'insert', 'update', 'delete'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** The roles of those who hold a key, for whom a policy is that names none. */
export const CALLERS: readonly string[] = ['anon', 'authenticated'];

const roleName = z.string().min(1, 'must not be empty');

export const policy = z
  .strictObject({
    name: text(
      'Label of the policy in the database; made from table, number and operation when absent',
    ).optional(),
    operations: z
      .array(z.enum([...OPERATIONS, 'all']))
      .min(1, 'must name at least one operation')
      .meta({
        description: 'What the policy is about; `all` stands for the four',
        examples: [['select', 'update']],
      })
      .transform((named) => (named.includes('all') ? OPERATIONS : named.filter((one) => one !== 'all'))),
    to: z
      .union([roleName, z.array(roleName).min(1, 'must name at least one role')])
      .meta({
        description:
          'Roles of the database that the policy is for; absent, the callers: `anon` and `authenticated`. `public` is every role',
        examples: [['authenticated'], 'reporting'],
      })
      .transform((named) => (typeof named === 'string' ? [named] : named))
      .optional(),
    type: choice('Permissive policies are joined by OR; every restrictive one must hold as well', [
      'permissive',
      'restrictive',
    ]),
    using: sqlExpression('SQL condition on rows that are seen or affected').optional(),
    with_check: sqlExpression('SQL condition on rows as they are written').optional(),
    check: sqlExpression(
      'Stands for `using` (select, delete), `with_check` (insert) or both (update) where those are absent',
    ).optional(),
  })
  .meta({ description: 'One row-level security policy' })
  .transform(({ with_check: withCheck, ...same }) => ({ ...same, withCheck }));

export type RawPolicy = z.infer<typeof policy>;

export function policies(description: string): z.ZodPrefault<z.ZodArray<typeof policy>> {
  return list(description, policy);
}
