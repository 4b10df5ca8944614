// `grants:` of a table: valid roles and existing columns.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';

export function checkGrants(context: CheckContext, path: KeyPath, { grants, fields }: RawTable): void {
  const names = fields.map((field) => field.name);
  for (const [role, privileges] of Object.entries(grants ?? {})) {
    const at = [...path, 'grants', role];
    if (role === 'public') {
      context.badValue(
        at,
        'public includes every role of the database; svc does not grant it privileges',
        'Name the roles: anon, authenticated, or a role of your project.',
        'key',
      );
    }
    privileges.forEach((privilege, index) => {
      if (typeof privilege === 'string' || context.broken.touches([...path, 'fields'])) return;
      for (const [operation, columns] of Object.entries(privilege)) {
        (columns ?? []).forEach((column, number) => {
          if (names.includes(column)) return;
          context.report({
            code: 'unknown-reference',
            path: [...at, index, operation, number],
            message: `the table ${path[1]} has no column ${column}`,
            hint: () => didYouMean(column, names) ?? `Columns: ${names.slice(0, 20).join(', ')}.`,
          });
        });
      }
    });
  }
}
