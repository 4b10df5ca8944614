// The stable form: a few expressions change once more when their print is read and printed again, for example after a
// dump and restore. Where first prints differ, equal second prints decide.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Expression } from '../schema/expression.ts';
import { sameSignature } from '../diff/functions.ts';
import { schemasOf } from '../diff/diff.ts';
import { normalFormsOf, withNormalForms } from './normal-forms.ts';
import type { Piece } from './shadow-errors.ts';
import { readThroughShadow, type ShadowResult, type ShadowTable } from './shadow-schema.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { perHost } from '../schema/rights/hosts.ts';
import { keyOf } from '../schema/model.ts';
import { MigrationRefused } from '../problem.ts';
import type { Check, Column } from '../schema/relation.ts';
import { phaseOf } from '../schema/statements.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';

/** Takes the live text as the normal form of a declaration whose second print equals the live one's. */
export async function adoptStableForms(
  session: Queryable,
  desired: Desired,
  live: Live,
  schemas: readonly string[],
): Promise<Desired> {
  const unsettled = functionsWithOtherSignature(desired, live);
  const suspects = desired.tables.filter((table) => {
    const found = live.tables.get(keyOf(table));
    return found !== undefined && hasOtherText(table, found);
  });
  if (suspects.length === 0) return desired;
  const declared = suspects.map((table) => respelled(table, table.columns, ({ normal }) => normal));
  const again = await readAgain(session, declared, desired, schemas);
  const pairs = suspects.map((table) => live.tables.get(keyOf(table))).filter((table) => table !== undefined);
  const liveAgain = await readAgain(session, pairs.map(respelledLive), desired, schemas);
  if (again === null || liveAgain === null) return desired;
  return {
    ...desired,
    tables: desired.tables.map((table) => {
      const key = keyOf(table);
      const found = live.tables.get(key);
      const second = again.tables.get(key);
      const liveSecond = liveAgain.tables.get(key);
      return found && second && liveSecond ? adopt(table, found, second, liveSecond, unsettled) : table;
    }),
  };
}

// A call of one of these prints here as a call of the new function, which the live text does not mean.
function functionsWithOtherSignature(desired: Desired, live: Live): ReadonlySet<string> {
  return new Set(
    desired.functions
      .filter((fn) => !(live.functions.get(keyOf(fn)) ?? []).some((one) => sameSignature(fn, one)))
      .map((fn) => fn.name),
  );
}

function hasOtherText(table: DesiredTable, live: LiveTable): boolean {
  const hasOther = (printed: string | null | undefined, { normal }: Expression): boolean =>
    typeof printed === 'string' && printed !== normal;
  return (
    table.checks.some(({ label, expression }) =>
      hasOther(live.checks.find((one) => one.label === label)?.expression, expression),
    ) ||
    table.columns.some((column) => {
      const found = live.columns.get(column.name);
      return column.default && found?.type === column.type && hasOther(found.default, column.default);
    })
  );
}

async function readAgain(
  session: Queryable,
  tables: readonly ShadowTable[],
  desired: Desired,
  schemas: readonly string[],
): Promise<ShadowResult | null> {
  try {
    return await readThroughShadow(
      session,
      {
        extensions: desired.extensions,
        sequences: desired.sequences,
        statements: desired.statements.filter((one) => phaseOf(one) !== 'last'),
        types: desired.types,
        tables,
        functions: desired.functions,
        hosted: perHost(() => []),
        views: [],
        newUsers: [],
        userTriggers: [],
      },
      [...new Set([...schemas, ...schemasOf(desired).all])],
    );
  } catch (error) {
    // What cannot be read on its own stays a difference.
    if (error instanceof MigrationRefused) return null;
    throw error;
  }
}

function respelledLive(table: LiveTable): ShadowTable {
  return respelled(table, [...table.columns.values()], (text) => text);
}

/** The table without its indexes and policies, its expressions as the server printed them. */
function respelled<Text>(
  table: Pick<ShadowTable, 'schema' | 'name' | 'keys'> & { readonly checks: readonly Check<Text>[] },
  columns: readonly Column<Text>[],
  printOf: (expression: Text) => string,
): ShadowTable {
  const piece = (expression: Text): Piece => ({ sql: printOf(expression), written: '', at: '' });
  return {
    schema: table.schema,
    name: table.name,
    keys: table.keys,
    columns: columns.map((column) => ({
      name: column.name,
      typeSql: column.type,
      collateSql: '',
      generated: column.generated,
      callsOwn: true,
      default: column.default === null ? null : piece(column.default),
    })),
    checks: table.checks.map(({ label, expression }) => ({ label, expression: piece(expression) })),
    exclusions: [],
    indexes: [],
    policies: [],
    onUpdate: null,
    triggers: [],
    partitioning: null,
    options: undefined,
    at: '',
  };
}

/** The live text is taken as the declared one's normal form where the second prints are equal. */
function adopt(
  table: DesiredTable,
  live: LiveTable,
  second: LiveTable,
  liveSecond: LiveTable,
  unsettled: ReadonlySet<string>,
): DesiredTable {
  const isSettled = (text: string): boolean => ![...wordsOf(text)].some((word) => unsettled.has(word));
  const adopted = (read: (from: LiveTable) => string | null | undefined): string | null => {
    const text = read(live);
    const isSame = typeof text === 'string' && isSettled(text) && read(second) === read(liveSecond);
    return isSame ? text : null;
  };
  const forms = normalFormsOf(table);
  return withNormalForms(table, {
    ...forms,
    columns: forms.columns.map(([type, text, ...collation], n) => {
      const name = table.columns[n]?.name ?? '';
      return [type, adopted((from) => from.columns.get(name)?.default) ?? text, ...collation];
    }),
    checks: forms.checks.map((text, n) => {
      const label = table.checks[n]?.label;
      return adopted((from) => from.checks.find((one) => one.label === label)?.expression) ?? text;
    }),
  });
}
