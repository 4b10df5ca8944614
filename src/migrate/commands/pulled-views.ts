// Converts the views of a database to entries of `views`, with exactly the privileges that they have.
import { API_ROLES } from '../schema/rights/roles.ts';
import { sameList } from '../schema/relation.ts';
import { triggersKey } from './declared-triggers.ts';
import { toIndex } from './pulled-index.ts';
import { viewGrants, type LiveView, PUBLIC_GRANTEE } from '../schema/views.ts';

type Node = Record<string, unknown>;

/** Returns the entry. Parts that the file cannot express are added to `notes`. */
export function toView(
  view: LiveView,
  isDeclared: (fn: string) => boolean,
  strip: (text: string) => string,
  notes: string[],
): Node {
  const grants = new Map(API_ROLES.map((role) => [role, rolePrivileges(view, role)]));
  const exposed = ['anon', 'authenticated'].some((role) => rolePrivileges(view, role).length > 0);
  const usual = viewGrants({ definer: view.definer, exposed, materialized: view.materialized });
  const indexes = view.indexes.flatMap((index) => {
    const entry = toIndex(index, strip, view.name);
    if (entry === null) notes.push(`index ${index.label}: ${index.definition}`);
    return entry === null ? [] : [entry];
  });
  const unusual = [...grants].filter(([role, found]) => !sameList(found, usual.get(role) ?? []));
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
    ...(unusual.length === 0
      ? {}
      : {
          grants: Object.fromEntries(
            unusual.map(([role, found]) => [role, found.map((row) => row.toLowerCase())]),
          ),
        }),
  };
}

/** Returns the privileges of the role, including those of PUBLIC. */
function rolePrivileges({ grants }: LiveView, role: string): string[] {
  return [...new Set([...(grants[role] ?? []), ...(grants[PUBLIC_GRANTEE] ?? [])])].sort();
}
