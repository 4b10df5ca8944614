// Stable forms: some expressions change again when their printed form is parsed and printed a second time, for example
// after a dump and restore. If the first printed forms differ but the second ones are equal, the expressions are equal.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Expression } from '../schema/expression.ts';
import { sameSignature } from '../diff/functions.ts';
import { requiredSchemas } from '../diff/diff.ts';
import { extractNormalForms, withNormalForms } from './normal-forms.ts';
import type { Piece } from './shadow/shadow-errors.ts';
import { readThroughShadow } from './shadow/read-through-shadow.ts';
import type { ShadowResult, ShadowTable } from './shadow/shadow.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { perHost } from '../schema/rights/hosts.ts';
import { objectKey } from '../schema/model.ts';
import { MigrationRefused } from '../problem.ts';
import type { Check, Column } from '../schema/relation.ts';
import { statementPhase } from '../schema/statements.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';

/** Uses the live text as the normal form of a declaration if their second printed forms are equal. */
export async function adoptStableForms(
  session: Queryable,
  desired: Desired,
  live: Live,
  schemas: readonly string[],
): Promise<Desired> {
  const changedFunctions = functionsWithNewSignature(desired, live);
  const suspects = desired.tables.filter((table) => {
    const found = live.tables.get(objectKey(table));
    return found !== undefined && hasOtherText(table, found);
  });
  if (suspects.length === 0) return desired;
  const declared = suspects.map((table) => toShadowTable(table, table.columns, ({ normal }) => normal));
  const secondForms = await readAgain(session, declared, desired, schemas);
  const pairs = suspects
    .map((table) => live.tables.get(objectKey(table)))
    .filter((table) => table !== undefined);
  const liveSecondForms = await readAgain(session, pairs.map(liveToShadowTable), desired, schemas);
  if (secondForms === null || liveSecondForms === null) return desired;
  return {
    ...desired,
    tables: desired.tables.map((table) => {
      const key = objectKey(table);
      const found = live.tables.get(key);
      const second = secondForms.tables.get(key);
      const liveSecond = liveSecondForms.tables.get(key);
      return found && second && liveSecond
        ? adopt(table, found, second, liveSecond, changedFunctions)
        : table;
    }),
  };
}

// A call of one of these functions resolves to the new function in the shadow, unlike in the live text.
function functionsWithNewSignature(desired: Desired, live: Live): ReadonlySet<string> {
  return new Set(
    desired.functions
      .filter(
        (fn) =>
          !(live.functions.get(objectKey(fn)) ?? []).some((liveFunction) => sameSignature(fn, liveFunction)),
      )
      .map((fn) => fn.name),
  );
}

function hasOtherText(table: DesiredTable, live: LiveTable): boolean {
  const hasOther = (printed: string | null | undefined, { normal }: Expression): boolean =>
    typeof printed === 'string' && printed !== normal;
  return (
    table.checks.some(({ label, expression }) =>
      hasOther(live.checks.find((liveCheck) => liveCheck.label === label)?.expression, expression),
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
        statements: desired.statements.filter((statement) => statementPhase(statement) !== 'last'),
        types: desired.types,
        tables,
        functions: desired.functions,
        hosted: perHost(() => []),
        views: [],
        newUsers: [],
        userTriggers: [],
      },
      [...new Set([...schemas, ...requiredSchemas(desired).all])],
    );
  } catch (error) {
    // Expressions that cannot be parsed in this reduced shadow stay different.
    if (error instanceof MigrationRefused) return null;
    throw error;
  }
}

function liveToShadowTable(table: LiveTable): ShadowTable {
  return toShadowTable(table, [...table.columns.values()], (text) => text);
}

/** Returns the table without indexes and policies, with its expressions in their printed form. */
function toShadowTable<Text>(
  table: Pick<ShadowTable, 'schema' | 'name' | 'keys'> & { readonly checks: readonly Check<Text>[] },
  columns: readonly Column<Text>[],
  print: (expression: Text) => string,
): ShadowTable {
  const piece = (expression: Text): Piece => ({ sql: print(expression), written: '', at: '' });
  return {
    schema: table.schema,
    name: table.name,
    keys: table.keys,
    columns: columns.map((column) => ({
      name: column.name,
      typeSql: column.type,
      collateSql: '',
      generated: column.generated,
      callsDeclaredFunction: true,
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

function adopt(
  table: DesiredTable,
  live: LiveTable,
  second: LiveTable,
  liveSecond: LiveTable,
  changedFunctions: ReadonlySet<string>,
): DesiredTable {
  const isSettled = (text: string): boolean =>
    ![...sqlWords(text)].some((word) => changedFunctions.has(word));
  const adopted = (read: (from: LiveTable) => string | null | undefined): string | null => {
    const text = read(live);
    const isSame = typeof text === 'string' && isSettled(text) && read(second) === read(liveSecond);
    return isSame ? text : null;
  };
  const forms = extractNormalForms(table);
  return withNormalForms(table, {
    ...forms,
    columns: forms.columns.map(([type, text, ...collation], n) => {
      const name = table.columns[n]?.name ?? '';
      return [type, adopted((from) => from.columns.get(name)?.default) ?? text, ...collation];
    }),
    checks: forms.checks.map((text, n) => {
      const label = table.checks[n]?.label;
      return (
        adopted((from) => from.checks.find((liveCheck) => liveCheck.label === label)?.expression) ?? text
      );
    }),
  });
}
