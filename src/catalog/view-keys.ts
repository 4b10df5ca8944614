// Keys of views. A view has no constraints, but constraints of a table also apply to the view's plain columns of that
// table. If a view has all columns of a key, the key can be used for embedding.
import { qualifiedKey, type Catalog, type ColumnOrigin, type ForeignKey, type Relation } from './catalog.ts';

/** Returns a view with the keys of the tables behind it; returns tables unchanged. */
export function withKeys(relation: Relation, catalog: Catalog): Relation {
  if (!isView(relation)) return relation;
  const foreignKeys: ForeignKey[] = [];
  const uniqueKeys: Array<readonly string[]> = [];
  let primaryKey: readonly string[] = [];
  for (const [base, shown] of shownColumns(relation, catalog)) {
    const translate = (columns: readonly string[]): readonly string[] | undefined => {
      const names = columns.flatMap((column) => shown.get(column) ?? []);
      return columns.length > 0 && names.length === columns.length ? names : undefined;
    };
    for (const key of base.foreignKeys) {
      const columns = translate(key.columns);
      if (columns) foreignKeys.push({ ...key, columns });
    }
    // A join repeats rows, so only a view of a single table keeps its unique keys.
    if (new Set(Object.values(relation.origins).map(qualifiedKey)).size > 1) continue;
    for (const key of base.uniqueKeys) {
      const columns = translate(key);
      if (columns) uniqueKeys.push(columns);
    }
    primaryKey = translate(base.primaryKey) ?? primaryKey;
  }
  return { ...relation, foreignKeys, uniqueKeys, primaryKey };
}

/** Returns the tables behind a view, each with its columns by their names in the view. */
export function shownColumns(relation: Relation, catalog: Catalog): Map<Relation, Map<string, string>> {
  const shown = new Map<Relation, Map<string, string>>();
  for (const name of Object.keys(relation.origins)) {
    const origin = findBaseColumn(relation, name, catalog);
    if (!origin) continue;
    const columns = shown.get(origin.base) ?? new Map<string, string>();
    // A duplicate column has its first name.
    if (!columns.has(origin.column)) columns.set(origin.column, name);
    shown.set(origin.base, columns);
  }
  return shown;
}

/** The table column behind a view's column, through any number of views. */
function findBaseColumn(
  relation: Relation,
  column: string,
  catalog: Catalog,
): { readonly base: Relation; readonly column: string } | undefined {
  let at: ColumnOrigin | undefined = relation.origins[column];
  for (let depth = 0; at && depth < 32; depth++) {
    const base = catalog.relations.get(qualifiedKey(at));
    if (!base) return undefined;
    const next: ColumnOrigin | undefined = base.origins[at.column];
    if (!next) return isView(base) ? undefined : { base, column: at.column };
    at = next;
  }
  return undefined;
}

function isView({ kind }: Relation): boolean {
  return kind === 'view' || kind === 'materialized-view';
}
