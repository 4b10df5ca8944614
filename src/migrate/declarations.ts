// The file's declarations in the server's own words. What has not changed since it was last printed comes from the
// ledger; the rest, and whatever it names or is named by, is printed anew.
import { createHash } from 'node:crypto';
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import {
  type CanonicalFunction,
  columnKey,
  type Desired,
  type DesiredFunction,
  type DesiredTable,
  outsideReferences,
} from './desired.ts';
import { schemasOf } from './diff.ts';
import { printShadow, shadowOfDesired, withPrints } from './elaborate.ts';
import type { Live } from './facts.ts';
import { ENGINE_VERSION, type LedgerObjects, type Stamp } from './ledger.ts';
import { type SchemaModel, tableKey } from './model.ts';
import { type MigrationProblem, problem } from './problem.ts';
import { wordsOf } from './sql-text.ts';

export async function readOutsideTypes(session: Queryable, model: SchemaModel): Promise<Map<string, string>> {
  const wanted = outsideReferences(model);
  const types = new Map<string, string>();
  if (wanted.length === 0) return types;
  const rows = await session.query<{ schema: string; table: string; column: string; type: string }>(sql`
    select n.nspname as schema, c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and (n.nspname, c.relname) in
      (select w.schema, w.table from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) as w (schema text, "table" text))`);
  for (const row of rows) types.set(columnKey(row.schema, row.table, row.column), row.type);
  return types;
}

export function missingTypes(desired: Desired): MigrationProblem[] {
  return desired.tables.flatMap((table) =>
    table.columns
      .filter((column) => column.typeSql === '')
      .map((column) => {
        const target = column.model.foreignKey;
        const name = target ? `${target.schema}.${target.table}.${target.column}` : '';
        return problem(
          'MIG-101',
          column.at,
          `the referenced column ${name} does not exist`,
          'Give the field a type, or correct the reference.',
        );
      }),
  );
}

export function declaredHash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

export function usableDeclarations(
  objects: LedgerObjects,
  stamp: Stamp | null,
  live: Live,
  renaming: boolean,
): LedgerObjects['declared'] {
  const valid =
    stamp !== null &&
    !renaming &&
    stamp.engineVersion === ENGINE_VERSION &&
    Math.floor(stamp.serverVersion / 10_000) === Math.floor(live.serverVersion / 10_000);
  return valid ? objects.declared : new Map();
}

type Kept = {
  readonly columns: ReadonlyArray<readonly [string, string | null]>;
  readonly checks: readonly string[];
  readonly indexes: ReadonlyArray<string | null>;
  readonly policies: ReadonlyArray<readonly [string | null, string | null]>;
};

export function keep(table: DesiredTable): Kept {
  return {
    columns: table.columns.map((column) => [column.type, column.default?.canonical ?? null]),
    checks: table.checks.map((check) => check.expression.canonical),
    indexes: table.indexes.map((index) => index.where?.canonical ?? null),
    policies: table.policies.map((policy) => [
      policy.using?.canonical ?? null,
      policy.check?.canonical ?? null,
    ]),
  };
}

// An unchanged declaration prints anew when something it names changed, for example a function's signature.
export function sameKept(a: Kept, b: Kept): boolean {
  return (['columns', 'checks', 'indexes', 'policies'] as const).every(
    (part) => JSON.stringify(a[part]) === JSON.stringify(b[part]),
  );
}

export function isKept(value: unknown): value is Kept {
  return typeof value === 'object' && value !== null && 'columns' in value && 'policies' in value;
}

function restore(table: DesiredTable, kept: Kept): DesiredTable {
  return {
    ...table,
    columns: table.columns.map((column, n) => {
      const [type, text] = kept.columns[n] ?? ['', null];
      return { ...column, type, default: column.default && { ...column.default, canonical: text ?? '' } };
    }),
    checks: table.checks.map((check, n) => ({
      ...check,
      expression: { ...check.expression, canonical: kept.checks[n] ?? '' },
    })),
    indexes: table.indexes.map((index, n) => ({
      ...index,
      where: index.where && { ...index.where, canonical: kept.indexes[n] ?? '' },
    })),
    policies: table.policies.map((policy, n) => {
      const [using, check] = kept.policies[n] ?? [null, null];
      return {
        ...policy,
        using: policy.using && { ...policy.using, canonical: using ?? '' },
        check: policy.check && { ...policy.check, canonical: check ?? '' },
      };
    }),
  };
}

export async function elaborateDeclared(
  session: Queryable,
  declared: Desired,
  schemas: readonly string[],
  known: LedgerObjects['declared'],
): Promise<Desired> {
  const tables = new Map<string, DesiredTable>();
  for (const table of declared.tables) {
    const row = known.get(`table ${keyOf(table)}`);
    if (row?.hash === declaredHash(table) && isKept(row.canonical))
      tables.set(keyOf(table), restore(table, row.canonical));
  }
  const functions = new Map<string, DesiredFunction>();
  for (const fn of declared.functions) {
    const row = known.get(`function ${keyOf(fn)}`);
    if (row?.hash === declaredHash(fn) && isCanonicalFunction(row.canonical))
      functions.set(keyOf(fn), { ...fn, canonical: row.canonical });
  }
  const chosen = neighbourhood(declared, (key) => tables.has(key) || functions.has(key));
  const subset: Desired = {
    tables: declared.tables.filter((table) => chosen.has(keyOf(table))),
    functions: declared.functions.filter((fn) => chosen.has(keyOf(fn))),
    storagePolicies: declared.storagePolicies,
  };
  const isNothing = subset.tables.length + subset.functions.length + subset.storagePolicies.length === 0;
  const shadow = { ...subset, tables: subset.tables.map(shadowOfDesired) };
  const all = [...new Set([...schemas, ...schemasOf(declared)])];
  const filled = isNothing ? subset : withPrints(subset, await printShadow(session, shadow, all));
  for (const table of filled.tables) tables.set(keyOf(table), table);
  for (const fn of filled.functions) functions.set(keyOf(fn), fn);
  return {
    tables: declared.tables.map((table) => tables.get(keyOf(table)) ?? table),
    functions: declared.functions.map((fn) => functions.get(keyOf(fn)) ?? fn),
    storagePolicies: filled.storagePolicies,
  };
}

function keyOf(named: { readonly schema: string; readonly name: string }): string {
  return tableKey(named.schema, named.name);
}

function isCanonicalFunction(value: unknown): value is CanonicalFunction {
  return typeof value === 'object' && value !== null && 'argumentTypes' in value && 'result' in value;
}

// What changed, and whatever it names or is named by: what is not built here is still found in the live schema, but
// under `public.` only what is built can be found. Taking too much costs time, never truth.
function neighbourhood(declared: Desired, isKnown: (key: string) => boolean): ReadonlySet<string> {
  const items = [
    ...declared.tables.map((table) => ({ key: keyOf(table), name: table.name, text: () => textOf(table) })),
    ...declared.functions.map((fn) => ({
      key: keyOf(fn),
      name: fn.name,
      text: () => `${fn.head} ${fn.body}`,
    })),
  ];
  const chosen = new Set(items.filter((item) => !isKnown(item.key)).map((item) => item.key));
  if (chosen.size === 0 || chosen.size === items.length) return chosen;
  const words = new Map(items.map((item) => [item.key, wordsOf(item.text())]));
  const changed = new Set(items.filter((item) => chosen.has(item.key)).map((item) => item.name));
  for (const item of items) {
    for (const word of words.get(item.key) ?? []) if (changed.has(word)) chosen.add(item.key);
  }
  const byName = new Map(items.map((item) => [item.name, item.key]));
  const waiting = [...chosen];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    for (const word of words.get(key) ?? []) {
      const named = byName.get(word);
      if (named === undefined || chosen.has(named)) continue;
      chosen.add(named);
      waiting.push(named);
    }
  }
  return chosen;
}

function textOf(table: DesiredTable): string {
  const parts = [
    ...table.columns.flatMap((column) => [column.typeSql, column.default?.sql ?? '']),
    ...table.checks.filter((check) => check.role === 'check').map((check) => check.expression.sql),
    ...table.indexes.map((index) => index.where?.sql ?? ''),
    ...table.policies.flatMap((policy) => [policy.using?.sql ?? '', policy.check?.sql ?? '']),
  ];
  return parts.filter((part) => part !== '').join('\n;\n');
}
