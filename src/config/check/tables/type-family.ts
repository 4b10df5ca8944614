// Families of PostgreSQL types, derived from their names. Only the server validates types. This serves to detect early
// that a key such as `min` is not valid for text.

import { Cache } from '../../../lib/cache.ts';
import { POSTGRES_TYPE_NAMES } from './postgres-type-names.ts';

export type TypeFamily = 'text' | 'number' | 'boolean' | 'uuid' | 'time' | 'json' | 'array';

const MAX_REMEMBERED_TYPES = 200;

const FAMILIES: ReadonlyArray<readonly [TypeFamily, RegExp]> = [
  ['text', /^(text|citext|varchar|character varying|char|character|bpchar|name)$/],
  ['number', /^(smallint|int|integer|bigint|int[248]|(small|big)?serial|serial[248])$/],
  ['number', /^(numeric|decimal|dec|real|float|float[48]|double precision)$/],
  ['boolean', /^bool(ean)?$/],
  ['uuid', /^uuid$/],
  ['time', /^(date|time|timetz|timestamp|timestamptz|(time|timestamp) with(out)? time zone)$/],
  ['json', /^jsonb?$/],
];

/** Returns undefined for types of extensions or of the file, and for families without checks. */
export function typeFamily(type: string): TypeFamily | undefined {
  const known = families.get(type);
  if (known !== undefined) return known ?? undefined;
  const family = readFamily(type);
  families.set(type, family ?? null);
  return family;
}

/** Caches families: every check of a column needs one, and files use few types. */
const families = new Cache<string, TypeFamily | null>(MAX_REMEMBERED_TYPES);

function readFamily(type: string): TypeFamily | undefined {
  const name = type
    .toLowerCase()
    .replace(/\s*\([^)]*\)/, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  if (/(\[\d*\]| array(\[\d*\])?)$/.test(name)) return 'array';
  return FAMILIES.find(([, pattern]) => pattern.test(name))?.[0];
}

/** PostgreSQL resolves these names before the types of any other schema. */
export function isOfPostgres(name: string): boolean {
  return POSTGRES_TYPE_NAMES.has(name);
}

export function isZoned(type: string): boolean {
  return /timestamptz|timestamp\s*(\([^)]*\)\s*)?with time zone/i.test(type);
}

/** Type names of other databases and languages. Only unqualified names are looked up. */
const FOREIGN_TYPES: ReadonlyMap<string, string> = new Map([
  ['string', 'text'],
  ['str', 'text'],
  ['tinytext', 'text'],
  ['mediumtext', 'text'],
  ['longtext', 'text'],
  ['nvarchar', 'varchar'],
  ['email', 'text'],
  ['url', 'text'],
  ['enum', 'text, with enum: [ … ] next to it'],
  ['datetime', 'timestamptz'],
  ['number', 'numeric'],
  ['double', 'double precision'],
  ['float32', 'real'],
  ['float64', 'double precision'],
  ['int16', 'smallint'],
  ['int32', 'integer'],
  ['int64', 'bigint'],
  ['long', 'bigint'],
  ['tinyint', 'smallint'],
  ['mediumint', 'integer'],
  ['autoincrement', 'bigserial'],
  ['object', 'jsonb'],
  ['array', 'a type with brackets, such as text[]'],
  ['map', 'jsonb'],
  ['blob', 'bytea'],
  ['binary', 'bytea'],
  ['guid', 'uuid'],
  ['objectid', 'uuid'],
  ['uniqueidentifier', 'uuid'],
  ['cuid', 'text'],
  ['ulid', 'text'],
  ['nanoid', 'text'],
  ['varchar2', 'varchar'],
  ['nvarchar2', 'varchar'],
  ['clob', 'text'],
  ['datetime2', 'timestamp'],
  ['datetimeoffset', 'timestamptz'],
  ['uint', 'bigint'],
  ['bson', 'jsonb'],
]);

/** Returns the PostgreSQL type for a type name of another product. */
export function foreignType(type: string): string | undefined {
  const name = type.toLowerCase().trim();
  return FOREIGN_TYPES.get(name.replace(/\s*\([^)]*\)/, '').replace(/\[\d*\]$/, ''));
}
