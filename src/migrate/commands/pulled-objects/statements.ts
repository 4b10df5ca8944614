// Converts objects without a key in the file to the key `statements`, with the statements that create them.
import type { Live } from '../../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../../schema/rights/roles.ts';
import { sortByKind, type LiveStatement } from '../../schema/statements.ts';

type Node = Record<string, unknown>;

/** Converts the statements. `isSelected` selects tables and views by `schema.name`. `omitted` lists omitted objects. */
export function pulledStatements(
  statements: Live['statements'],
  isSelected: (key: string) => boolean,
): { statements: Record<string, Node>; omitted: string[] } {
  const declared: Record<string, Node> = {};
  const omitted: string[] = [];
  for (const statement of sortByKind([...statements.values()])) {
    const { identity, unsupported, host } = statement;
    if (host !== null && !isSelected(host)) continue;
    if (unsupported !== null) omitted.push(`${identity}: ${unsupported}`);
    else declared[identity.replace('public.', '')] = toNode(statement);
  }
  return { statements: declared, omitted };
}

function toNode({ kind, definition: [create = '', ...alter], callers, comment }: LiveStatement): Node {
  const roles = callers.includes(PUBLIC) ? API_ROLES : API_ROLES.filter((role) => callers.includes(role));
  return {
    create,
    ...(alter.length === 0 ? {} : { alter }),
    ...(kind === 'aggregate' && roles.length > 0 ? { execute: [...roles] } : {}),
    ...(comment === null ? {} : { comment }),
  };
}
