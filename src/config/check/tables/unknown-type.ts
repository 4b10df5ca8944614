// Types that neither PostgreSQL nor the file nor its extensions provide. `svc validate` reports them. Other commands
// leave the decision to the database, which may have undeclared types.
import { closest } from '../../../lib/text/closest-word.ts';
import type { KeyPath } from '../../mistakes/mistake.ts';
import { declaredType } from '../../schema/declared-type.ts';
import type { CheckContext } from '../context.ts';
import { findExtension, canProvide } from './extension-types.ts';
import { foreignType, isOfPostgres } from './type-family.ts';

/** Type names of SQL with several words. */
const MULTI_WORD_TYPES = new RegExp(
  `^(${[
    'double precision',
    '(character|char|bit|national character|national char|nchar) varying',
    'national (character|char)',
    '(time|timestamp) with(out)? time zone',
    'interval (year|month|day|hour|minute|second)( to (month|hour|minute|second))?',
  ].join('|')})$`,
);

/** Suggested names. Rarer names are too similar to each other. */
const COMMON_TYPES = (
  'text varchar boolean smallint integer bigint numeric real uuid date time timestamp timestamptz interval ' +
  'json jsonb ' +
  'bytea inet cidr bigserial serial point tsvector daterange tstzrange'
).split(' ');

/** Reports each type of the file without a declaration. */
export function checkUnknownTypes(context: CheckContext): void {
  const { tables, rpc, types } = context.file;
  for (const [table, { fields }] of Object.entries(tables))
    for (const [index, { type }] of fields.entries())
      checkKnownType(context, ['tables', table, 'fields', index, 'type'], type);
  for (const [name, { args, returns }] of Object.entries(rpc)) {
    for (const [index, { type }] of args.entries())
      checkKnownType(context, ['rpc', name, 'args', index, 'type'], type);
    const result = ['rpc', name, 'returns'];
    if (context.scalar([...result, 'type'])) checkKnownType(context, [...result, 'type'], returns);
    for (let index = 0; ; index++) {
      const path = [...result, 'table', index, 'type'];
      const column = context.scalar(path);
      if (column === undefined) break;
      checkKnownType(context, path, column.text);
    }
  }
  for (const [name, { domain, composite }] of Object.entries(types)) {
    checkKnownType(context, ['types', name, 'domain'], domain);
    for (const [attribute, type] of Object.entries(composite ?? {}))
      checkKnownType(context, ['types', name, 'composite', attribute], type);
  }
}

function checkKnownType(context: CheckContext, path: KeyPath, written: string | undefined): void {
  if (written === undefined || context.isFull) return;
  const name = unqualifiedName(written);
  // A variable can contain any type. Other checks report unknown tables in `setof`.
  if (name === undefined || context.scalar(path)?.substituted === true || /^setof\s/i.test(written)) return;
  // The check of fields has a more precise message for these.
  if (path.at(-1) === 'type' && path[0] === 'tables' && foreignType(written) !== undefined) return;
  if (MULTI_WORD_TYPES.test(name) || isOfPostgres(name) || isOfFile(context, written)) return;
  const message = `neither PostgreSQL nor this file has a type ${context.quote(path, written)}`;
  context.report({ code: 'unknown-reference', path, message, hint: () => remedyFor(context, name) });
}

function remedyFor({ file }: CheckContext, name: string): string {
  const extension = findExtension(name);
  if (extension !== undefined) return `An extension provides this type: write extensions: [${extension}].`;
  const meant = foreignType(name) ?? closest(name, [...Object.keys(file.types), ...COMMON_TYPES]);
  const elsewhere = `For a type that only exists in the database write its schema: public.${name}.`;
  return meant === undefined
    ? `Declare it under types:, or list its extension under extensions:. ${elsewhere}`
    : `Did you mean ${meant}?`;
}

/** Returns true if a key, an SQL statement or an extension of the file provides the type. */
export function isOfFile({ file, broken }: CheckContext, written: string): boolean {
  const name = unqualifiedName(written);
  if (name === undefined || declaredType(written, file.types) !== undefined) return true;
  if (Object.hasOwn(file.tables, name) || Object.hasOwn(file.views, name)) return true;
  if (broken.covers(['tables', name]) || broken.covers(['views', name])) return true;
  if (broken.touches(['types']) || broken.touches(['extensions']) || broken.touches(['statements']))
    return true;
  if (file.extensions.some((extension) => canProvide(extension.name, name))) return true;
  const range = name.replace('multirange', 'range').replace(/_multirange$/, '');
  const canCreate = (sql: string): boolean =>
    /\bcreate\s/i.test(sql) && [name, range].some((type) => sql.toLowerCase().includes(type.toLowerCase()));
  return (
    Object.values(file.statements).some(({ create }) => canCreate(create)) ||
    // Files of steps are not read here, so they may create the type.
    file.migrations.steps.some(({ sql }) => sql === undefined || canCreate(sql))
  );
}

/** `Name` for `"Name"[]`, `varchar` for `VARCHAR(20)`; undefined for a name with a schema. */
function unqualifiedName(written: string): string | undefined {
  const bare = written
    .replace(/((\s*\[\d*\])+|\s+array(\s*\[\d*\])?)\s*$/i, '')
    .replace(/\s*\([^)]*\)/, '')
    .trim();
  const quoted = /^"((?:[^"]|"")+)"$/.exec(bare)?.[1];
  if (quoted !== undefined) return quoted.replaceAll('""', '"');
  return /[".%]/.test(bare) ? undefined : bare.toLowerCase().replaceAll(/\s+/g, ' ');
}
