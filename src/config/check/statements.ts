// What only statements say. What one makes, and whether it can, the server knows.
import type { CheckContext } from './context.ts';
import { checkRoles } from './name.ts';

export function checkStatements(context: CheckContext): void {
  for (const [name, { create, execute }] of Object.entries(context.file.statements)) {
    const path = ['statements', name];
    if (execute === undefined) continue;
    if (/^\s*create\s+(or\s+replace\s+)?aggregate\b/i.test(create))
      checkRoles(context, [...path, 'execute'], execute);
    else
      context.conflict(
        [...path, 'execute'],
        'only an aggregate is run by somebody',
        'Remove execute.',
        'key',
      );
  }
}
