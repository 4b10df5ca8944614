// Two expressions are equal when their second prints are: a few print differently once more after the first time.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import { sameSignature, schemasOf } from '../diff/diff.ts';
import { type ShadowResult, readThroughShadow, type ShadowTable } from './shadow-schema.ts';
import type { Live, LiveTable } from '../schema/live-schema.ts';
import { keyOf, tableKey } from '../schema/model.ts';
import { MigrationRefused } from '../problem.ts';
import { wordsOf } from '../schema/sql-text.ts';

/**
 * A few expressions print differently once more after their first print, for example after a dump and restore.
 * Where first prints differ, the second ones of both sides decide; the live text is then taken as the declared one's.
 */
export async function adoptStableForms(
  session: Queryable,
  desired: Desired,
  live: Live,
  schemas: readonly string[],
): Promise<Desired> {
  const unsettled = functionsWithOtherSignature(desired, live);
  const suspects = desired.tables.filter((table) => {
    const found = live.tables.get(tableKey(table.schema, table.name));
    return found !== undefined && hasOtherText(table, found);
  });
  if (suspects.length === 0) return desired;
  const again = await printQuietly(session, suspects.map(reprintable), desired, schemas);
  const pairs = suspects
    .map((table) => live.tables.get(tableKey(table.schema, table.name)))
    .filter((table) => table !== undefined);
  const liveAgain = await printQuietly(session, pairs.map(shadowOfLive), desired, schemas);
  if (again === null || liveAgain === null) return desired;
  return {
    ...desired,
    tables: desired.tables.map((table) => {
      const key = tableKey(table.schema, table.name);
      const found = live.tables.get(key);
      const second = again.tables.get(key);
      const liveSecond = liveAgain.tables.get(key);
      return found && second && liveSecond ? adopt(table, found, second, liveSecond, unsettled) : table;
    }),
  };
}

// What calls one of these is printed here as a call of the new one, which the live text is not.
function functionsWithOtherSignature(desired: Desired, live: Live): ReadonlySet<string> {
  return new Set(
    desired.functions
      .filter((fn) => !(live.functions.get(keyOf(fn)) ?? []).some((one) => sameSignature(fn, one)))
      .map((fn) => fn.name),
  );
}

function hasOtherText(table: DesiredTable, live: LiveTable): boolean {
  const checks = table.checks.some((check) => {
    const found = live.checks.find((one) => one.label === check.label);
    return found !== undefined && found.expression !== check.expression.normal;
  });
  return (
    checks ||
    table.columns.some((column) => {
      const found = live.columns.get(column.name);
      return (
        column.default !== null &&
        found?.default !== undefined &&
        found.default !== null &&
        found.type === column.type &&
        found.default !== column.default.normal
      );
    })
  );
}

async function printQuietly(
  session: Queryable,
  tables: readonly ShadowTable[],
  desired: Desired,
  schemas: readonly string[],
): Promise<ShadowResult | null> {
  try {
    return await readThroughShadow(session, { tables, functions: desired.functions, storagePolicies: [] }, [
      ...new Set([...schemas, ...schemasOf(desired)]),
    ]);
  } catch (error) {
    // What cannot be read back alone stays a difference.
    if (error instanceof MigrationRefused) return null;
    throw error;
  }
}

function piece(text: string): { sql: string; written: string; at: string } {
  return { sql: text, written: text, at: '' };
}

function reprintable(table: DesiredTable): ShadowTable {
  return {
    schema: table.schema,
    name: table.name,
    primaryKey: table.keys.find((key) => key.kind === 'primary')?.columns ?? [],
    at: table.at,
    columns: table.columns.map((column) => ({
      name: column.name,
      type: column.type,
      default: column.default && piece(column.default.normal),
      at: column.at,
    })),
    checks: table.checks.map((check) => ({
      label: check.label,
      expression: piece(check.expression.normal),
    })),
    indexes: [],
    policies: [],
  };
}

function shadowOfLive(table: LiveTable): ShadowTable {
  return {
    schema: table.schema,
    name: table.name,
    primaryKey: table.keys.find((key) => key.kind === 'primary')?.columns ?? [],
    at: table.name,
    columns: [...table.columns.values()].map((column) => ({
      name: column.name,
      type: column.type,
      default: column.default === null || column.generated ? null : piece(column.default),
      at: column.name,
    })),
    checks: table.checks.map((check) => ({ label: check.label, expression: piece(check.expression) })),
    indexes: [],
    policies: [],
  };
}

function adopt(
  table: DesiredTable,
  live: LiveTable,
  second: LiveTable,
  liveSecond: LiveTable,
  unsettled: ReadonlySet<string>,
): DesiredTable {
  const isSettled = (text: string): boolean => ![...wordsOf(text)].some((word) => unsettled.has(word));
  return {
    ...table,
    columns: table.columns.map((column) => {
      const text = live.columns.get(column.name)?.default;
      const same =
        text !== undefined &&
        text !== null &&
        isSettled(text) &&
        second.columns.get(column.name)?.default === liveSecond.columns.get(column.name)?.default;
      return column.default && same ? { ...column, default: { ...column.default, normal: text } } : column;
    }),
    checks: table.checks.map((check) => {
      const find = (one: LiveTable): string | undefined =>
        one.checks.find((found) => found.label === check.label)?.expression;
      const text = find(live);
      const same = text !== undefined && isSettled(text) && find(second) === find(liveSecond);
      return same ? { ...check, expression: { ...check.expression, normal: text } } : check;
    }),
  };
}
