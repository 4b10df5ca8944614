// Names while a rename is rolled out. Instances with the file before it and with the file after it serve one database,
// and clients know one name or the other, so each instance understands both: `renamed_from` in its own file, or what
// the database remembers of a newer one. Looked up only for names that are not known otherwise.
import type { Catalog, Relation, Rename, Routine, RoutineArg } from '../../catalog/catalog.ts';
import { relationKey } from '../../catalog/catalog.ts';
import { foreignKeyLabel } from '../../migrate/schema/label.ts';
import type { ExposedRelation, ExposedRoutine, OtherNames } from './relation.ts';

type Declared = {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom?: string | undefined;
};

const NO_NAMES: ReadonlyMap<string, string> = new Map();
export const NO_OTHER_NAMES: OtherNames = { relation: [], columns: NO_NAMES, declared: NO_NAMES };

export class Renames {
  readonly #to = new Map<string, string>();

  constructor({ renames = [] }: Catalog) {
    for (const rename of renames) this.#to.set(key(rename), rename.to);
  }

  /** What is declared, as the database has it now. */
  find<T>(kind: Rename['kind'], declared: Declared, existing: ReadonlyMap<string, T>): T | undefined {
    const { schema, name, renamedFrom } = declared;
    const now = this.#to.get(key({ kind, schema, of: null, from: name }));
    return (
      existing.get(relationKey(schema, name)) ??
      (now === undefined ? undefined : existing.get(relationKey(schema, now))) ??
      (renamedFrom === undefined ? undefined : existing.get(relationKey(schema, renamedFrom)))
    );
  }

  /** The name in the database of a column or an argument; undefined when there is none. */
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
export function otherNamesOf({ name, renamedFrom }: Omit<Declared, 'schema'>, inDatabase: string): string[] {
  return [name, renamedFrom].filter((one) => one !== undefined).filter((one) => one !== inDatabase);
}

/** The columns of a table that the file declares, by their names in the database, and what else they are called. */
export function declaredColumns(
  relation: Relation,
  table: Declared & { readonly fields: ReadonlyArray<Omit<Declared, 'schema'>> },
  renames: Renames,
): { readonly declared: ReadonlySet<string>; readonly other: OtherNames } {
  const existing = new Set(relation.columns.map((column) => column.name));
  const declared = new Set<string>();
  const columns = new Map<string, string>();
  const shown = new Map<string, string>();
  for (const field of table.fields) {
    const name = renames.nameOf('relation', relation, field, (one) => existing.has(one));
    if (name === undefined) continue;
    declared.add(name);
    for (const other of otherNamesOf(field, name)) columns.set(other, name);
    if (name !== field.name) shown.set(name, field.name);
  }
  // A name that a column has is that column.
  for (const name of declared) columns.delete(name);
  return { declared, other: { relation: otherNamesOf(table, relation.name), columns, declared: shown } };
}

export function otherNamesOfRoutine(
  routine: Routine,
  declared: Declared & {
    readonly args: ReadonlyArray<{
      readonly name?: string | undefined;
      readonly renamedFrom?: string | undefined;
    }>;
  },
  renames: Renames,
): ExposedRoutine['other'] {
  const existing = new Set(routine.args.map((arg) => arg.name));
  const args = new Map<string, string>();
  for (const { name, renamedFrom } of declared.args) {
    if (name === undefined) continue;
    const arg = { name, renamedFrom };
    const found = renames.nameOf('routine', routine, arg, (one) => existing.has(one));
    if (found !== undefined) for (const other of otherNamesOf(arg, found)) args.set(other, found);
  }
  for (const name of existing) args.delete(name);
  return { routine: otherNamesOf(declared, routine.name), args };
}

/** What the database calls the column; the name itself when it is no other name of one. */
export function currentColumn({ column, other }: ExposedRelation, name: string): string {
  return column.has(name) ? name : (other.columns.get(name) ?? name);
}

export function argumentNamed({ args, other }: ExposedRoutine, name: string): RoutineArg | undefined {
  const found = args.find((arg) => arg.name === name);
  if (found || other.args.size === 0) return found;
  const current = other.args.get(name);
  return current === undefined ? undefined : args.find((arg) => arg.name === current);
}

/** Whether `label` is what svc called this foreign key when the table or its columns had other names. */
export function wasForeignKey(
  { name, other }: ExposedRelation,
  columns: readonly string[],
  label: string,
): boolean {
  if (other.relation.length === 0 && other.columns.size === 0) return false;
  const before = columns.map((column) => [...other.columns].find(([, now]) => now === column)?.[0] ?? column);
  return [name, ...other.relation].some(
    (table) => foreignKeyLabel(table, columns) === label || foreignKeyLabel(table, before) === label,
  );
}
