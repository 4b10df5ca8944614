// What no key makes, as the key `statements`: the statements that would make it again.
import type { Live } from '../../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../../schema/rights/roles.ts';
import { inOrderOfKinds, type LiveStatement } from '../../schema/statements.ts';

type Node = Record<string, unknown>;

/** `isTaken`: which tables and views, by `schema.name`. `left`: what the file cannot say. */
export function pulledStatements(
  statements: Live['statements'],
  isTaken: (key: string) => boolean,
): { statements: Record<string, Node>; left: string[] } {
  const said: Record<string, Node> = {};
  const left: string[] = [];
  for (const statement of inOrderOfKinds([...statements.values()])) {
    const { identity, beyond, host } = statement;
    if (host !== null && !isTaken(host)) continue;
    if (beyond !== null) left.push(`${identity}: ${beyond}`);
    else said[identity.replace('public.', '')] = toNode(statement);
  }
  return { statements: said, left };
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
