// Finds the table columns behind the columns of views.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { Relation } from './catalog.ts';
import { viewTargets } from './view-targets.ts';

type NumberedRelation = Pick<Relation, 'schema' | 'name'> & {
  readonly oid: number;
  readonly kind: string;
  readonly columns: readonly { readonly number: number; readonly name: string }[] | null;
};

/**
 * Origins keyed by the view's oid. The trees of a thousand views can have tens of megabytes, so they are read as
 * plain text, and only if there are views.
 */
export async function columnOrigins(
  db: Queryable,
  relations: readonly NumberedRelation[],
): Promise<ReadonlyMap<number, Relation['origins']>> {
  const byOid = new Map(relations.map((relation) => [relation.oid, relation]));
  const views = relations.filter(({ kind }) => kind === 'v' || kind === 'm').map(({ oid }) => oid);
  if (views.length === 0) return new Map();
  const trees = await db.query<{ view: number; tree: string }>(
    sql`select ev_class as view, ev_action::text as tree from pg_rewrite
      where ev_class = any (${views}::oid[]) and rulename = '_RETURN'`,
  );
  return new Map(trees.map(({ view, tree }) => [view, readOrigins(tree, byOid.get(view), byOid)]));
}

function readOrigins(
  tree: string,
  view: NumberedRelation | undefined,
  byOid: ReadonlyMap<number, NumberedRelation>,
): Relation['origins'] {
  return Object.fromEntries(
    viewTargets(tree).flatMap(({ position, table, column }) => {
      const base = byOid.get(table);
      const shown = columnAt(view, position);
      const source = columnAt(base, column);
      if (!base || shown === undefined || source === undefined) return [];
      return [[shown, { schema: base.schema, name: base.name, column: source }]];
    }),
  );
}

function columnAt(relation: NumberedRelation | undefined, number: number): string | undefined {
  return relation?.columns?.find((column) => column.number === number)?.name;
}
