// References to tables, columns and objects of the database, as the file writes them.
import type { ReferenceAction } from './field-keys.ts';
import type { RawField } from './tables.ts';

export type QualifiedName = { readonly schema: string; readonly name: string };

export type ForeignKey = {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly onDelete: ReferenceAction;
  /** Undefined means `restrict`. */
  readonly onUpdate?: Exclude<ReferenceAction, 'restrict'>;
  readonly deferrable?: 'immediate' | 'deferred';
};

/** `table.column` or `schema.table.column`. */
export function toForeignKey(foreignKey: NonNullable<RawField['foreignKey']>): ForeignKey {
  const parts = foreignKey.references.split('.');
  const [schema = 'public', table = '', column = ''] = parts.length === 2 ? ['public', ...parts] : parts;
  const { onDelete, onUpdate, deferrable } = foreignKey;
  return {
    schema,
    table,
    column,
    onDelete,
    ...(onUpdate === 'restrict' ? {} : { onUpdate }),
    ...(deferrable === undefined ? {} : { deferrable }),
  };
}

/** Parses `table(a, b)` or `schema.table(a, b)` with optional quotes. Returns undefined for any other text. */
export function toReferenced(
  written: string,
): { readonly schema: string; readonly table: string; readonly columns: readonly string[] } | undefined {
  const parts = REFERENCE.exec(written);
  if (parts === null) return undefined;
  const [, schema = 'public', table = '', list = ''] = parts;
  const columns = [...list.matchAll(NAMES)].map(([name]) => unquoted(name));
  return { schema: unquoted(schema), table: unquoted(table), columns };
}

/** Quotes a name that contains a dot, a comma, a parenthesis or a quote. */
export function quotedReference(name: string): string {
  return /[.,()"]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
}

const NAME = String.raw`(?:"(?:[^"]|"")+"|[^.,()"]*[^.,()"\s])`;
const NAMES = new RegExp(NAME, 'g');
const REFERENCE = new RegExp(
  String.raw`^\s*(?:(${NAME})\s*\.\s*)?(${NAME})\s*\((\s*${NAME}\s*(?:,\s*${NAME}\s*)*)\)\s*$`,
);

function unquoted(name: string): string {
  const text = name.trim();
  return text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text;
}

/** An unqualified name is in `public`. Only the first dot separates, because names of objects may contain dots. */
export function toQualified(written: string): QualifiedName {
  const dot = written.indexOf('.');
  if (dot < 0) return { schema: 'public', name: written };
  return { schema: written.slice(0, dot), name: written.slice(dot + 1) };
}
