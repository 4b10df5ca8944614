// Views of a database as the file says them: with the rights they have, never more and never less.
import { API_ROLES } from '../schema/rights/roles.ts';
import { sameList } from '../schema/relation.ts';
import { triggersKey } from './declared-triggers.ts';
import { toIndex } from './pulled-index.ts';
import { grantsOf, type LiveView, PUBLIC_GRANTEE } from '../schema/views.ts';

type Node = Record<string, unknown>;

/** `notes`: what the file cannot say. */
export function toView(
  view: LiveView,
  isDeclared: (fn: string) => boolean,
  strip: (text: string) => string,
  notes: string[],
): Node {
  const grants = new Map(API_ROLES.map((role) => [role, privilegesOf(view, role)]));
  const exposed = ['anon', 'authenticated'].some((role) => privilegesOf(view, role).length > 0);
  const usual = grantsOf({ definer: view.definer, exposed, materialized: view.materialized });
  const indexes = view.indexes.flatMap((index) => {
    const said = toIndex(index, strip);
    if (said === null) notes.push(`index ${index.label}: ${index.definition}`);
    return said === null ? [] : [said];
  });
  const other = [...grants].filter(([role, found]) => !sameList(found, usual.get(role) ?? []));
  return {
    ...(view.schema === 'public' ? {} : { schema: view.schema }),
    query: view.definition.trim(),
    ...(view.materialized ? { materialized: true } : {}),
    ...(indexes.length === 0 ? {} : { indexes }),
    ...triggersKey(view.triggers, view.name, isDeclared, strip, notes),
    ...(view.definer && !view.materialized ? { security: 'definer' } : {}),
    ...(view.barrier ? { barrier: true } : {}),
    ...(view.checkOption === null ? {} : { check_option: view.checkOption }),
    ...(view.comment === null ? {} : { comment: view.comment }),
    ...(exposed === !view.materialized ? {} : { expose: exposed }),
    ...(other.length === 0
      ? {}
      : {
          grants: Object.fromEntries(
            other.map(([role, found]) => [role, found.map((one) => one.toLowerCase())]),
          ),
        }),
  };
}

/** What PUBLIC has, everybody has. */
function privilegesOf({ grants }: LiveView, role: string): string[] {
  return [...new Set([...(grants[role] ?? []), ...(grants[PUBLIC_GRANTEE] ?? [])])].sort();
}
