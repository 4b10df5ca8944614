// Looks at the rows before anything is changed: whatever a step could fail on is counted here, with samples, and
// becomes a refusal that says which line to add. Reads only, in a transaction that is rolled back.
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import type { Change, TypeChange } from '../diff/change.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { nameOf } from '../schema/qualified-name.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { count, cut, probeDuplicates, SAMPLES } from './duplicates.ts';
import { probeFill } from './fill-checks.ts';
import { wordsOf } from '../schema/sql-text.ts';

const PROBE_TIMEOUT_MS = 30_000;

export type ProbeResult = {
  readonly problems: readonly MigrationProblem[];
  /** Sentences for the plan: `312 rows, 0 NULL`. */
  readonly notes: readonly string[];
};

export async function probe(
  session: Queryable,
  changes: readonly Change[],
  searchPath: string,
  /** Statements that give a table the names it will have when the plan runs. */
  prelude: (schema: string, table: string) => string,
  /** Columns whose nulls this very run fills. */
  filled: ReadonlySet<string>,
): Promise<ProbeResult> {
  const problems: MigrationProblem[] = [];
  const notes: string[] = [];
  const retypes = new Retypes(changes);
  const asked = changes.filter(
    (change) => isProbed(change) && !(change.kind === 'set-not-null' && filled.has(change.column.at)),
  );
  const settings = { statement_timeout: PROBE_TIMEOUT_MS, search_path: raw(searchPath), timezone: 'UTC' };
  for (const change of asked) {
    try {
      await inDiscardedTransaction(session, settings, async () => {
        if ('table' in change) {
          const first = prelude(change.table.schema, change.table.name);
          if (first !== '') await session.query(raw(first));
        }
        problems.push(...(await probeOne(session, change, retypes)));
      });
    } catch (error) {
      // Over budget: the online form validates instead, and new rows are guarded meanwhile.
      if (isDatabaseError(error, 'query_canceled'))
        notes.push(`${change.kind}: not probed within ${PROBE_TIMEOUT_MS / 1_000} s`);
      // What the rows cannot be asked about yet (a new function in a check), the step itself will find.
      else if (!isDatabaseError(error, 'syntax_error_or_access_rule_violation')) throw error;
    }
  }
  return { problems, notes };
}

const PROBED = new Set<Change['kind']>([
  'add-column',
  'set-not-null',
  'add-key',
  'add-index',
  'add-foreign-key',
  'add-check',
  'change-type',
]);

// A table of this very run has no rows to ask.
function isProbed(change: Change): boolean {
  return PROBED.has(change.kind) && 'live' in change && change.live !== null;
}

async function probeOne(
  session: Queryable,
  change: Change,
  retypes: Retypes,
): Promise<readonly MigrationProblem[]> {
  if (!('live' in change) || change.live === null || !('table' in change)) return [];
  const { table, live } = change;
  const exist = (columns: readonly string[]): boolean => columns.every((column) => live.columns.has(column));
  if (change.kind === 'add-column') return probeNewColumn(session, table, live, change.column);
  // What holds for the values of the new type is asked with the type itself.
  const isRetyped = (columns: readonly string[]): boolean =>
    columns.some((column) => retypes.has(table, column));
  if (change.kind === 'set-not-null' && !isRetyped([change.column.name]))
    return probeNulls(session, table, live, change.column);
  if (change.kind === 'add-key' && exist(change.key.columns)) {
    if (isRetyped(change.key.columns)) return [];
    return probeDuplicates(session, table, change.key.columns, null, change.key.at);
  }
  if (change.kind === 'add-index' && change.index.unique && exist(change.index.columns)) {
    if (isRetyped(change.index.columns)) return [];
    return probeDuplicates(
      session,
      table,
      change.index.columns,
      change.index.predicate?.sql ?? null,
      change.index.at,
    );
  }
  if (change.kind === 'add-foreign-key' && exist([change.foreignKey.column]))
    return probeOrphans(session, change, retypes);
  if (change.kind === 'add-check' && exist([change.check.column])) {
    if (isRetyped([change.check.column])) return [];
    return probeCheck(session, table, live, change.check);
  }
  if (change.kind === 'change-type') {
    const casts = await probeCast(session, table, live, change.column, change.liveColumn.type);
    if (casts.some((one) => !isLoss(one))) return casts;
    return [...casts, ...(await probeRetyped(session, change, retypes))];
  }
  return [];
}

export async function isFilled(
  session: Queryable,
  table: { readonly schema: string; readonly name: string },
): Promise<boolean> {
  const [row] = await session.query<{ filled: boolean }>(
    raw(`select exists (select from ${nameOf(table)}) as filled`),
  );
  return row?.filled ?? false;
}

async function countRows(
  session: Queryable,
  table: DesiredTable,
  where: string,
): Promise<{ bad: number; all: number }> {
  const [row] = await session.query<{ bad: string; all: string }>(
    raw(`select count(*) filter (where ${where})::text as bad, count(*)::text as all from ${nameOf(table)}`),
  );
  return { bad: Number(row?.bad ?? 0), all: Number(row?.all ?? 0) };
}

/** `id 4, 9, 17 …`: keys by which the rows can be found. */
async function sampleKeys(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  where: string,
): Promise<string> {
  const key = live.keys.find((one) => one.kind === 'primary')?.columns ?? [];
  if (key.length === 0) return '';
  const columns = key.map((column) => `${quoteIdent(column)}::text`).join(` || ', ' || `);
  const rows = await session.query<{ key: string }>(
    raw(
      `select ${columns} as key from ${nameOf(table)} where ${where} order by ${key.map(quoteIdent).join(', ')} limit ${SAMPLES + 1}`,
    ),
  );
  const shown = rows.slice(0, SAMPLES).map((row) => row.key);
  return ` (${key.join(', ')} ${shown.join(', ')}${rows.length > SAMPLES ? ' …' : ''})`;
}

async function probeNewColumn(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  if (column.model.backfill !== null) return probeFill(session, table, live, column);
  const hasValue = column.default !== null || column.serial;
  if (!column.notNull || hasValue) {
    const unique = table.keys.some((key) => key.columns.length === 1 && key.columns[0] === column.name);
    const constant =
      column.default !== null && /^\s*(?:E?'(?:[^']|'')*'|now\(\)|current_\w+)$/.test(column.default.sql);
    if (!unique || !constant) return [];
    const { all } = await countRows(session, table, 'false');
    if (all < 2) return [];
    return [
      problem(
        'MIG-202',
        `${column.at}.unique`,
        `unique, but ${count(all)} rows would all get the default ${column.default.written}`,
        'Drop the default, or give each row a value with backfill.',
      ),
    ];
  }
  const { all } = await countRows(session, table, 'false');
  if (all === 0) return [];
  return [
    problem(
      'MIG-205',
      `${column.at}.required`,
      `required, but ${count(all)} ${all === 1 ? 'row needs' : 'rows need'} a value`,
      `Add backfill: "${exampleValue(column.typeSql)}", a default, or required: false.`,
    ),
  ];
}

async function probeNulls(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const isNull = `${quoteIdent(column.name)} is null`;
  const { bad, all } = await countRows(session, table, isNull);
  if (bad === 0) return [];
  if (column.model.backfill !== null) return probeFill(session, table, live, column);
  const keys = await sampleKeys(session, table, live, isNull);
  return [
    problem(
      'MIG-201',
      `${column.at}.${column.model.primaryKey ? 'primary_key' : 'required'}`,
      `required, but ${count(bad)} of ${count(all)} rows are NULL${keys}`,
      `Add backfill: "${exampleValue(column.typeSql)}", or update these rows.`,
    ),
  ];
}

async function probeOrphans(
  session: Queryable,
  change: Extract<Change, { kind: 'add-foreign-key' }>,
  retypes: Retypes,
): Promise<MigrationProblem[]> {
  const { table, live, foreignKey } = change;
  const column = quoteIdent(foreignKey.column);
  const referred = { schema: foreignKey.targetSchema, name: foreignKey.targetTable };
  const target = nameOf(referred);
  const [exists] = await session.query<{ found: boolean }>(
    raw(`select to_regclass(${quoteLiteral(target)}) is not null as found`),
  );
  const missing = exists?.found
    ? `${column} is not null and not exists (select from ${retypes.rowsOf(referred)} svc_target where svc_target.${quoteIdent(foreignKey.targetColumn)} = svc_row.${column})`
    : `${column} is not null`;
  const from = `${retypes.rowsOf(table)} svc_row`;
  const [row] = await session.query<{ bad: string }>(
    raw(`select count(*)::text as bad from ${from} where ${missing}`),
  );
  const bad = Number(row?.bad ?? 0);
  if (bad === 0 || !live) return [];
  const samples = await session.query<{ value: string }>(
    raw(
      `select distinct ${column}::text as value from ${from} where ${missing} order by 1 limit ${SAMPLES + 1}`,
    ),
  );
  const shown = samples
    .slice(0, SAMPLES)
    .map((one) => cut(one.value))
    .join(', ');
  return [
    problem(
      'MIG-203',
      foreignKey.at,
      `${count(bad)} ${bad === 1 ? 'row points' : 'rows point'} to missing ${foreignKey.targetTable} (${foreignKey.column} ${shown}${samples.length > SAMPLES ? ' …' : ''})`,
      `Remove them, or clear the column: update ${nameOf(table)} svc_row set ${column} = null where ${missing};`,
    ),
  ];
}

async function probeCheck(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  check: Extract<Change, { kind: 'add-check' }>['check'],
): Promise<MigrationProblem[]> {
  const violated = `not coalesce((\n${check.expression.sql}\n), true)`;
  const { bad, all } = await countRows(session, table, violated);
  if (bad === 0) return [];
  const keys = await sampleKeys(session, table, live, violated);
  const name = quoteIdent(check.column);
  const values = await session.query<{ value: string; times: string }>(
    raw(
      `select ${name}::text as value, count(*)::text as times from ${nameOf(table)} where ${violated} group by 1 order by count(*) desc, 1 limit ${SAMPLES}`,
    ),
  );
  const shown = values.map((one) => `"${cut(one.value)}" (${count(Number(one.times))} rows)`).join(', ');
  const what = check.role === 'enum' ? 'not in the enum' : `against the ${check.role}`;
  const remedy =
    check.role === 'enum'
      ? 'Keep the value in the enum, or update these rows first'
      : 'Update these rows first';
  return [
    problem(
      'MIG-204',
      check.expression.at,
      `${count(bad)} of ${count(all)} rows are ${what} ${check.expression.written}: ${shown}${keys}`,
      `${remedy}: update ${nameOf(table)} set ${name} = … where ${violated.replaceAll('\n', '')};`,
    ),
  ];
}

async function probeCast(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
  from: string,
): Promise<MigrationProblem[]> {
  const name = quoteIdent(column.name);
  const using = column.model.using ?? `${name}::${column.typeSql}`;
  const at = `${column.at}.type`;
  await session.query(raw('savepoint svc_cast'));
  try {
    await session.query(raw(`select count((\n${using}\n)::${column.typeSql}) from ${nameOf(table)}`));
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    await session.query(raw('rollback to savepoint svc_cast'));
    if (!isDatabaseError(error, 'data_exception')) throw error;
    return [await failingCasts(session, table, column, from, using)];
  }
  const lost = column.model.using === null ? await probeLoss(session, table, live, column, from, at) : [];
  return lost.length > 0 ? lost : probeLength(session, table, live, column, from, using);
}

/** Whether values would lose something, which can be allowed by name. */
export function isLoss(one: MigrationProblem): boolean {
  return one.code === 'MIG-208' && one.message.includes('would lose');
}

// A cast cuts what does not fit, but what is stored must fit.
async function probeLength(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
  from: string,
  using: string,
): Promise<MigrationProblem[]> {
  const shape = /^(character|bit)(?: varying)?\(\d+\)((?:\[\])*)$/.exec(column.type);
  if (!shape) return [];
  const whole = `(\n${using}\n)::${shape[1] === 'bit' ? 'bit varying' : 'text'}${shape[2] ?? ''}`;
  const stored = `(\n${using}\n)::${column.typeSql}`;
  const name = quoteIdent(column.name);
  const tooLong = `rtrim((${whole})::text) is distinct from rtrim((${stored})::text)`;
  return unlessUnknown(session, async () => {
    const { bad } = await countRows(session, table, tooLong);
    if (bad === 0) return [];
    const values = await session.query<{ value: string }>(
      raw(
        `select distinct (${whole})::text as value from ${nameOf(table)} where ${tooLong} order by 1 limit ${SAMPLES}`,
      ),
    );
    const keys = await sampleKeys(session, table, live, tooLong);
    const shown = values.map((one) => `"${cut(one.value)}"`).join(', ');
    return [
      problem(
        'MIG-208',
        `${column.at}.${column.model.using === null ? 'type' : 'using'}`,
        `${from} → ${column.type}: ${count(bad)} ${bad === 1 ? 'value does' : 'values do'} not fit (${shown})${keys}`,
        column.model.using === null
          ? `If cutting them is meant: using: "${name.replaceAll('"', '')}::${column.typeSql}"`
          : `If cutting them is meant: using: "(${column.model.using})::${column.typeSql}"`,
      ),
    ];
  });
}

/** A question that cannot be asked yet (about a column or function of this very run) is left to the step itself. */
async function unlessUnknown(
  session: Queryable,
  ask: () => Promise<MigrationProblem[]>,
): Promise<MigrationProblem[]> {
  await session.query(raw('savepoint svc_ask'));
  try {
    return await ask();
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception', 'syntax_error_or_access_rule_violation')) throw error;
    await session.query(raw('rollback to savepoint svc_ask'));
    return [];
  }
}

/** The columns that change their type, and the rows as they are once they have. */
class Retypes {
  readonly #byTable = new Map<string, TypeChange[]>();

  constructor(changes: readonly Change[]) {
    for (const change of changes) {
      if (change.kind !== 'change-type') continue;
      const name = nameOf(change.table);
      this.#byTable.set(name, [...(this.#byTable.get(name) ?? []), change]);
    }
  }

  has(table: DesiredTable, column: string): boolean {
    return this.#of(table).some((one) => one.column.name === column);
  }

  /** Under the name of the table, so that expressions may use that. */
  rowsOf(table: { readonly schema: string; readonly name: string }): string {
    const retypes = this.#of(table);
    const live = retypes[0]?.live;
    if (!live) return nameOf(table);
    const columns = [...live.columns.keys()].map((name) => {
      const change = retypes.find((one) => one.column.name === name);
      return change ? `${valueAfter(change)} as ${quoteIdent(name)}` : quoteIdent(name);
    });
    return `(select ${columns.join(', ')} from ${nameOf(table)})`;
  }

  #of(table: { readonly schema: string; readonly name: string }): readonly TypeChange[] {
    return this.#byTable.get(nameOf(table)) ?? [];
  }
}

function valueAfter({ column, liveColumn }: TypeChange): string {
  const value = `(\n${column.model.using ?? quoteIdent(column.name)}\n)::${column.typeSql}`;
  // Only rows without a value get one, and only while the column becomes required.
  const { backfill } = column.model;
  if (backfill === null || !column.notNull || liveColumn.notNull) return value;
  return `coalesce(${value}, (\n${backfill}\n)::${column.typeSql})`;
}

// Equal afterwards only if equal before, and nothing that held ceases to hold.
const KINDRED = [/^(smallint|integer|bigint)$/, /^(text|character varying(\(\d+\))?)$/];

async function probeRetyped(
  session: Queryable,
  change: TypeChange,
  retypes: Retypes,
): Promise<MigrationProblem[]> {
  const { table, live, column, liveColumn } = change;
  if (live === null) return [];
  const isKindred =
    column.model.using === null &&
    KINDRED.some((types) => types.test(liveColumn.type) && types.test(column.type));
  const rows = `${retypes.rowsOf(table)} as ${quoteIdent(table.name)}`;
  const name = quoteIdent(column.name);
  const at = `${column.at}.${column.model.using === null ? 'type' : 'using'}`;
  const known = (columns: readonly string[]): boolean =>
    columns.includes(column.name) && columns.every((one) => live.columns.has(one));
  const countAfter = async (where: string): Promise<number> => {
    const [row] = await session.query<{ bad: string }>(
      raw(`select count(*)::text as bad from ${rows} where ${where}`),
    );
    return Number(row?.bad ?? 0);
  };
  const problems: MigrationProblem[] = [];
  const ask = async (question: () => Promise<MigrationProblem[]>): Promise<void> => {
    problems.push(...(await unlessUnknown(session, question)));
  };
  if (column.notNull && !(isKindred && liveColumn.notNull))
    await ask(async () => {
      const bad = await countAfter(`${name} is null`);
      if (bad === 0) return [];
      const rowsWould = bad === 1 ? 'row would' : 'rows would';
      return [
        problem(
          'MIG-201',
          liveColumn.notNull ? at : `${column.at}.required`,
          `required, but ${count(bad)} ${rowsWould} be NULL as ${column.type}`,
          liveColumn.notNull
            ? 'Make the expression give every row a value, for example with coalesce.'
            : `Add backfill: "${exampleValue(column.typeSql)}", or update these rows.`,
        ),
      ];
    });
  const isNewKey = (columns: readonly string[]): boolean =>
    ![...live.keys, ...live.indexes].some(
      (one) => ('kind' in one || one.unique) && one.columns.join() === columns.join(),
    );
  for (const { columns, predicate: where } of [
    ...table.keys.map((key) => ({ columns: key.columns, predicate: null })),
    ...table.indexes.filter((index) => index.unique),
  ]) {
    if (!known(columns) || (isKindred && !isNewKey(columns))) continue;
    await ask(() => probeDuplicates(session, table, columns, where?.sql ?? null, at, rows));
  }
  for (const check of table.checks) {
    const found = live.checks.find((one) => one.label === check.label);
    const isSame = found?.validated === true && found.expression === check.expression.normal;
    const concerns = check.column === column.name || wordsOf(check.expression.sql).has(column.name);
    if (!concerns || (isKindred && isSame)) continue;
    const violated = `not coalesce((\n${check.expression.sql}\n), true)`;
    await ask(async () => {
      const bad = await countAfter(violated);
      if (bad === 0) return [];
      const values = await session.query<{ value: string }>(
        raw(
          `select distinct ${name}::text as value from ${rows} where ${violated} order by 1 limit ${SAMPLES}`,
        ),
      );
      return [
        problem(
          'MIG-204',
          check.expression.at,
          `as ${column.type}, ${count(bad)} ${bad === 1 ? 'row is' : 'rows are'} ${check.role === 'enum' ? 'not in the enum' : `against the ${check.role}`} ${check.expression.written}: ${values.map((one) => `"${cut(one.value)}"`).join(', ')}`,
          'Update these rows first, or give them another value with using.',
        ),
      ];
    });
  }
  return problems;
}

async function failingCasts(
  session: Queryable,
  table: DesiredTable,
  column: DesiredColumn,
  from: string,
  using: string,
): Promise<MigrationProblem> {
  // One attempt per row, each in its own subtransaction: slower, but it names every value that stands in the way.
  const attempt = `pg_temp.svc_cast_fails(svc_row)`;
  await session.query(
    raw(
      `create function pg_temp.svc_cast_fails(r ${nameOf(table)}) returns boolean language plpgsql as ${quoteLiteral(
        `begin perform (\n${using}\n)::${column.typeSql} from (select (r).*) as ${quoteIdent(table.name)}; return false; exception when data_exception then return true; end`,
      )}`,
    ),
  );
  const name = quoteIdent(column.name);
  const [row] = await session.query<{ bad: string }>(
    raw(`select count(*)::text as bad from ${nameOf(table)} svc_row where ${attempt}`),
  );
  const values = await session.query<{ value: string }>(
    raw(
      `select distinct ${name}::text as value from ${nameOf(table)} svc_row where ${attempt} order by 1 limit ${SAMPLES + 1}`,
    ),
  );
  const bad = Number(row?.bad ?? 0);
  const shown = values
    .slice(0, SAMPLES)
    .map((one) => `"${cut(one.value)}"`)
    .join(', ');
  return problem(
    'MIG-208',
    `${column.at}.type`,
    `${from} → ${column.type}: ${count(bad)} ${bad === 1 ? 'row' : 'rows'} cannot be cast (${shown}${values.length > SAMPLES ? ' …' : ''})`,
    `Update these rows, or say how: using: "case when … then … end"`,
  );
}

// Casts that round or cut succeed silently. Where the value does not come back, something would be lost.
async function probeLoss(
  session: Queryable,
  table: DesiredTable,
  live: LiveTable,
  column: DesiredColumn,
  from: string,
  at: string,
): Promise<MigrationProblem[]> {
  const name = quoteIdent(column.name);
  const changed = `(${name}::${column.typeSql})::${from} is distinct from ${name}`;
  await session.query(raw('savepoint svc_loss'));
  try {
    const { bad } = await countRows(session, table, changed);
    if (bad === 0) return [];
    const values = await session.query<{ value: string; after: string }>(
      raw(
        `select distinct ${name}::text as value, (${name}::${column.typeSql})::text as after from ${nameOf(table)} where ${changed} order by 1 limit ${SAMPLES}`,
      ),
    );
    const keys = await sampleKeys(session, table, live, changed);
    const shown = values.map((one) => `"${cut(one.value)}" would become "${cut(one.after)}"`).join(', ');
    return [
      problem(
        'MIG-208',
        at,
        `${from} → ${column.type}: ${count(bad)} rows would lose something (${shown})${keys}`,
        `Say that it is meant: using: "${name.replaceAll('"', '')}::${column.typeSql}", or --allow data_loss=${column.at}`,
      ),
    ];
  } catch (error) {
    // No way back from the new type means no way to compare.
    if (!isDatabaseError(error)) throw error;
    await session.query(raw('rollback to savepoint svc_loss'));
    return [];
  }
}

const EXAMPLES: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(small|big)?int|^integer|^numeric|^decimal|^real|^double|^float/i, '0'],
  [/^bool/i, 'false'],
  [/^(timestamp|date)/i, 'now()'],
  [/^uuid/i, 'gen_random_uuid()'],
  [/^jsonb?/i, "'{}'"],
  [/\]$/, "'{}'"],
];

function exampleValue(type: string): string {
  return EXAMPLES.find(([pattern]) => pattern.test(type))?.[1] ?? "'…'";
}
