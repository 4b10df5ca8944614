// Keys of statements. What a statement creates is only known to the server.
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
        'execute is only valid for an aggregate',
        'Remove execute.',
        'key',
      );
  }
}
