// Runs one data step. Its statements and its record in the ledger are one transaction. For a step in batches, each
// batch and the record of its progress are one transaction.
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { type DatabaseError, isDatabaseError } from '../../postgres/pg-error.ts';
import { literal, raw, sql } from '../../postgres/sql.ts';
import { MigrationRefused, problem } from '../problem.ts';
import type { DataStepModel, SchemaModel } from '../schema/model.ts';
import { digestModel, readCatalogFingerprint } from '../state/applied-state.ts';
import { forgetDataSteps, readProgress, recordDataStep, recordProgress } from '../state/data-steps.ts';

export async function runDataStep(
  session: Queryable,
  step: DataStepModel,
  model: SchemaModel,
  record: () => Promise<void> = () => recordDataStep(session, step, 'done'),
): Promise<void> {
  const settings = {
    search_path: raw('public, extensions'),
    timezone: 'UTC',
    statement_timeout: step.timeoutMs,
    row_security: 'off',
    client_min_messages: 'error',
  };
  try {
    const run = async (statement: string): Promise<void> => {
      const before = await readCatalogFingerprint(session, digestModel(model));
      await session.query(raw(statement));
      if ((await readCatalogFingerprint(session, digestModel(model))) !== before)
        throw notForSteps(step, 'it changes the schema');
    };
    let isDone = false;
    while (!isDone)
      isDone = await inTransaction(session, settings, async () => {
        const batch = step.batch && (await nextBatch(session, step, step.batch));
        if (batch) {
          await run(asOneStatement(step.sql, [batch.first, batch.last], batch.type));
          await recordProgress(session, step, batch.last);
          return false;
        }
        if (!step.batch) await run(asOneStatement(step.sql));
        await record();
        return true;
      });
  } catch (error) {
    if (!isDatabaseError(error) || isDatabaseError(error, 'connection_exception')) throw error;
    throw refusal(step, error);
  }
}

/** Runs the undo statements of a step and removes the step from the ledger. */
export async function undoDataStep(
  session: Queryable,
  { undo, ...step }: DataStepModel,
  model: SchemaModel,
): Promise<void> {
  if (!undo) return;
  // The ledger keeps the progress of a batched undo under this name, which no declared step can have.
  const back = { ...step, ...undo, name: `undo ${step.name}` };
  await runDataStep(session, back, model, () => forgetDataSteps(session, [step.name, back.name]));
}

type Batch = { readonly first: string; readonly last: string; readonly type: string };

/** Returns the primary key range of the next batch, as text. Returns null if no rows remain. */
async function nextBatch(
  session: Queryable,
  step: DataStepModel,
  { table, size }: NonNullable<DataStepModel['batch']>,
): Promise<Batch | null> {
  const [key] = await session.query<{ relation: string; column: string; type: string }>(sql`
    select format('%I.%I', n.nspname, c.relname) as relation, quote_ident(a.attname) as column,
      format_type(a.atttypid, a.atttypmod) as type
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
    where c.oid = to_regclass(${table}) and i.indisprimary and i.indnkeyatts = 1`);
  if (key === undefined)
    throw new MigrationRefused([
      problem(
        'MIG-601',
        step.at,
        `there is no table ${table} with a primary key of one column`,
        'Name another table under batch, or leave batch out.',
      ),
    ]);
  const { relation, column, type } = key;
  const done = await readProgress(session, step);
  const rest = done === null ? '' : `where ${column} > ${quoted(done)}::${type}`;
  const [batch] = await session.query<{ first: string | null; last: string | null }>(
    raw(`select (array_agg(key order by key))[1]::text as first,
        (array_agg(key order by key desc))[1]::text as last
      from (select ${column} as key from ${relation} ${rest} order by ${column} limit ${size}) as next`),
  );
  if (!batch || batch.first === null || batch.last === null) return null;
  return { first: batch.first, last: batch.last, type };
}

/** Wraps the text in one DO statement, so that it cannot end its transaction. */
function asOneStatement(text: string, values: readonly string[] = [], type = ''): string {
  const using = values.map((value) => `${quoted(value)}::${type}`).join(', ');
  return `do ${quoted(`begin execute ${quoted(text)}${using === '' ? '' : ` using ${using}`}; end`)}`;
}

function quoted(value: string): string {
  return literal(value).compile().text;
}

function refusal(step: DataStepModel, error: DatabaseError): MigrationRefused {
  if (isDatabaseError(error, 'feature_not_supported') && /transaction commands/.test(error.message))
    return notForSteps(step, 'it begins or ends a transaction');
  const detail = error.detail === undefined ? '' : ` (${error.detail})`;
  const failure = step.batch
    ? 'a batch of the step failed; the earlier batches are done'
    : 'the step failed and was rolled back';
  return new MigrationRefused([
    problem(
      'MIG-601',
      step.at,
      `${failure}: ${errorPlace(step, error)}${error.message}${detail}`,
      'Correct the step or the rows; the next run tries it again.',
    ),
  ]);
}

function notForSteps(step: DataStepModel, why: string): MigrationRefused {
  return new MigrationRefused([
    problem(
      'MIG-603',
      step.at,
      `a data step may only change rows, but ${why}`,
      'Declare the schema in svc.yaml. Each step is one transaction.',
    ),
  ]);
}

function errorPlace(
  { file, sql }: DataStepModel,
  { internalPosition, internalQuery }: DatabaseError,
): string {
  if (internalPosition === undefined || internalQuery !== sql) return file === null ? '' : `${file}: `;
  const line = sql.slice(0, Number(internalPosition)).split('\n').length;
  return `${file ?? 'line '}${file === null ? '' : ':'}${line}: `;
}
