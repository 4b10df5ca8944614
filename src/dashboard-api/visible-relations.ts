// Relations that the dashboard shows: those of the data API except svc's own tables, even if the file exposes them.
// Their rows contain hashes and tokens.
import type { Snapshot } from '../http/feature.ts';
import { exposed } from '../rest/plan/exposed.ts';
import type { ExposedRelation } from '../rest/plan/relation.ts';

const OWN_SCHEMAS: ReadonlySet<string> = new Set(['auth', 'storage', 'realtime', 'svc_meta', 'svc_events']);

export function isVisible({ schema }: { readonly schema: string }): boolean {
  return !OWN_SCHEMAS.has(schema) && !schema.startsWith('pg_') && schema !== 'information_schema';
}

export function visibleRelations(snapshot: Snapshot): ExposedRelation[] {
  return [...exposed(snapshot).relations.values()].filter(isVisible);
}
