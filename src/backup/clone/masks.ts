// Replacement values of masked columns in a clone: `--mask orders.note=text`. Masked values never leave the source.
import { closest } from '../../lib/text/closest-word.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { ident, literal, raw, sql, type Sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';

export const MASK_WAYS = ['null', 'hash', 'email', 'text'] as const;
export type MaskWay = (typeof MASK_WAYS)[number];

/** `table` with its schema. */
export type Mask = { readonly table: string; readonly column: string; readonly way: MaskWay };

/** `orders.note=text`, `billing.orders.note=null`. */
export function parseMask(text: string): Mask {
  const [, table = '', column = '', way = ''] = /^(.+)\.([^.=]+)=(\w+)$/.exec(text) ?? [];
  const known = MASK_WAYS.find((candidate) => candidate === way);
  if (known === undefined)
    throw new Problem('bad_clone_choice', 400, `--mask ${text} is not understood`, {
      hint: `Use <table>.<column>=<how>, where <how> is ${MASK_WAYS.join(', ')}.`,
    });
  return { table: withSchema(table), column, way: known };
}

/** `orders` is `public.orders`. */
export function withSchema(table: string): string {
  return table.includes('.') ? table : `public.${table}`;
}

/**
 * Salt of the hashes: equal values become equal texts within a clone, and different texts in another clone.
 */
export type Salt = string;

type Column = {
  readonly name: string;
  readonly type: string;
  readonly category: string;
  readonly required: boolean;
  readonly generated: boolean;
};

/**
 * Returns the replacement expressions, keyed by table and column. Throws for an unknown column, or one that the mask
 * does not fit.
 */
export async function maskedValues(
  source: Queryable,
  masks: readonly Mask[],
  salt: Salt,
): Promise<ReadonlyMap<string, ReadonlyMap<string, Sql>>> {
  const values = new Map<string, Map<string, Sql>>();
  for (const { table, column: name, way } of masks) {
    const columns = await readColumns(source, table);
    const column = columns.find((candidate) => candidate.name === name);
    if (!column)
      throw refused(
        `there is no column ${table}.${name} to mask`,
        suggestionHint(
          name,
          columns.map((column) => column.name),
        ),
      );
    const of = values.get(table) ?? new Map<string, Sql>();
    values.set(table, of.set(name, maskedValue(table, column, way, salt)));
  }
  return values;
}

async function readColumns(source: Queryable, table: string): Promise<Column[]> {
  const dot = table.indexOf('.');
  return await source.query<Column>(sql`
    select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, t.typcategory as category,
      a.attnotnull as required, a.attgenerated <> '' as generated
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_type t on t.oid = a.atttypid
    where n.nspname = ${table.slice(0, dot)} and c.relname = ${table.slice(dot + 1)} and c.relkind in ('r', 'p')
      and a.attnum > 0 and not a.attisdropped`);
}

function maskedValue(table: string, column: Column, way: MaskWay, salt: Salt): Sql {
  const { name, type, category, required, generated } = column;
  const at = `${table}.${name}`;
  if (generated) throw refused(`${at} is generated`, 'Mask the columns that it is made of.');
  if (way === 'null') {
    if (required) throw refused(`${at} must have a value`, 'Mask it with hash, email or text.');
    return raw('null');
  }
  // The text of a type comes from PostgreSQL itself.
  const cast = raw(`::${type}`);
  const value = ident(name);
  if (way === 'hash' && type === 'uuid') return sql`md5(${literal(salt)} || ${value}::text)${cast}`;
  if (category !== 'S')
    throw refused(
      `${at} is ${type}, which ${way} does not mask`,
      required ? 'It works on text.' : 'Use null for it.',
    );
  return sql`(${maskText(value, way, salt)})${cast}`;
}

/** Masks a text expression. Null stays null. */
export function maskText(value: Sql, way: MaskWay, salt: Salt): Sql {
  if (way === 'null') return raw('null::text');
  if (way === 'text') return sql`regexp_replace(${value}::text, '\\S', 'x', 'g')`;
  // Addresses are compared without case.
  const hashed = sql`encode(sha256(convert_to(${literal(salt)} || ${way === 'email' ? sql`lower(${value}::text)` : sql`${value}::text`}, 'UTF8')), 'hex')`;
  return way === 'hash'
    ? hashed
    : sql`case when ${value}::text = '' then '' else 'user-' || left(${hashed}, 16) || '@example.invalid' end`;
}

export function refused(reason: string, hint: string): Problem {
  return new Problem('bad_clone_choice', 400, `The clone was not begun: ${reason}`, { hint });
}

export function suggestionHint(word: string, known: readonly string[]): string {
  const near = closest(word, known);
  if (near !== undefined) return `Did you mean ${near}?`;
  return known.length === 0
    ? 'Name tables as svc.yaml does.'
    : `There are: ${known.slice(0, 20).join(', ')}.`;
}
