// Alternative names during the rollout of a rename. Instances with the old and the new file share one database, and
// clients use either name, so each instance accepts both. It knows them from `renamed_from` in its file, or from the
// newer names that the database has recorded. They are used only for otherwise unknown names.
import type { Catalog, Relation, Rename, Routine, RoutineArg } from '../../catalog/catalog.ts';
import { relationKey } from '../../catalog/catalog.ts';
import { foreignKeyLabel } from '../../migrate/schema/label.ts';
import type { ExposedRelation, ExposedRoutine, AlternativeNames } from './relation.ts';

type Declared = {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom?: string | undefined;
};

const NO_NAMES: ReadonlyMap<string, string> = new Map();
export const NO_ALTERNATIVE_NAMES: AlternativeNames = { relation: [], columns: NO_NAMES, declared: NO_NAMES };

export class Renames {
  readonly #to = new Map<string, string>();

  constructor({ renames = [] }: Catalog) {
    for (const rename of renames) this.#to.set(key(rename), rename.to);
  }

  /** Returns the database object for a declaration, under its current name. */
  find<T>(kind: Rename['kind'], declared: Declared, existing: ReadonlyMap<string, T>): T | undefined {
    const { schema, name, renamedFrom } = declared;
    const now = this.#to.get(key({ kind, schema, of: null, from: name }));
    return (
      existing.get(relationKey(schema, name)) ??
      (now === undefined ? undefined : existing.get(relationKey(schema, now))) ??
      (renamedFrom === undefined ? undefined : existing.get(relationKey(schema, renamedFrom)))
    );
  }

  /** Returns the name of a column or an argument in the database; undefined if it does not exist. */
  nameOf(
    kind: Rename['kind'],
    of: { readonly schema: string; readonly name: string },
    declared: Omit<Declared, 'schema'>,
    exists: (name: string) => boolean,
  ): string | undefined {
    const { name, renamedFrom } = declared;
    if (exists(name)) return name;
    const now = this.#to.get(key({ kind, schema: of.schema, of: of.name, from: name }));
    if (now !== undefined && exists(now)) return now;
    return renamedFrom !== undefined && exists(renamedFrom) ? renamedFrom : undefined;
  }
}

function key({ kind, schema, of, from }: Omit<Rename, 'to'>): string {
  return JSON.stringify([kind, schema, of, from]);
}

/** All that something is called, except by the database. */
export function namesOutsideDatabase(
  { name, renamedFrom }: Omit<Declared, 'schema'>,
  inDatabase: string,
): string[] {
  return [name, renamedFrom].filter((label) => label !== undefined).filter((label) => label !== inDatabase);
}

/** Returns the declared columns of a table by their names in the database, with their other names. */
export function declaredColumns(
  relation: Relation,
  table: Declared & { readonly fields: ReadonlyArray<Omit<Declared, 'schema'>> },
  renames: Renames,
): { readonly declared: ReadonlySet<string>; readonly alternatives: AlternativeNames } {
  const existing = new Set(relation.columns.map((column) => column.name));
  const declared = new Set<string>();
  const columns = new Map<string, string>();
  const shown = new Map<string, string>();
  for (const field of table.fields) {
    const name = renames.nameOf('relation', relation, field, (label) => existing.has(label));
    if (name === undefined) continue;
    declared.add(name);
    for (const alternative of namesOutsideDatabase(field, name)) columns.set(alternative, name);
    if (name !== field.name) shown.set(name, field.name);
  }
  // A name that a column has is that column.
  for (const name of declared) columns.delete(name);
  return {
    declared,
    alternatives: { relation: namesOutsideDatabase(table, relation.name), columns, declared: shown },
  };
}

export function routineAlternatives(
  routine: Routine,
  declared: Declared & {
    readonly args: ReadonlyArray<{
      readonly name?: string | undefined;
      readonly renamedFrom?: string | undefined;
    }>;
  },
  renames: Renames,
): ExposedRoutine['alternatives'] {
  const existing = new Set(routine.args.map((arg) => arg.name));
  const args = new Map<string, string>();
  for (const { name, renamedFrom } of declared.args) {
    if (name === undefined) continue;
    const arg = { name, renamedFrom };
    const found = renames.nameOf('routine', routine, arg, (label) => existing.has(label));
    if (found !== undefined)
      for (const alternative of namesOutsideDatabase(arg, found)) args.set(alternative, found);
  }
  for (const name of existing) args.delete(name);
  return { routine: namesOutsideDatabase(declared, routine.name), args };
}

/** Returns the column's name in the database, or `name` if it is not an alternative name. */
export function currentColumn({ column, alternatives }: ExposedRelation, name: string): string {
  return column.has(name) ? name : (alternatives.columns.get(name) ?? name);
}

export function argumentNamed({ args, alternatives }: ExposedRoutine, name: string): RoutineArg | undefined {
  const found = args.find((arg) => arg.name === name);
  if (found || alternatives.args.size === 0) return found;
  const current = alternatives.args.get(name);
  return current === undefined ? undefined : args.find((arg) => arg.name === current);
}

/** Whether `label` is the name that svc gave this foreign key under former names of the table or its columns. */
export function wasForeignKey(
  { name, alternatives }: ExposedRelation,
  columns: readonly string[],
  label: string,
): boolean {
  if (alternatives.relation.length === 0 && alternatives.columns.size === 0) return false;
  const before = columns.map(
    (column) => [...alternatives.columns].find(([, now]) => now === column)?.[0] ?? column,
  );
  return [name, ...alternatives.relation].some(
    (table) => foreignKeyLabel(table, columns) === label || foreignKeyLabel(table, before) === label,
  );
}
