// Runs one data step: its statements and the record that it ran are in one transaction, or neither is.
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { type DatabaseError, isDatabaseError } from '../../postgres/pg-error.ts';
import { literal, raw } from '../../postgres/sql.ts';
import { MigrationRefused, problem } from '../problem.ts';
import type { DataStepModel, SchemaModel } from '../schema/model.ts';
import { digestModel, readCatalogFingerprint } from '../state/applied-state.ts';
import { recordDataStep } from '../state/data-steps.ts';

export async function runDataStep(
  session: Queryable,
  step: DataStepModel,
  model: SchemaModel,
): Promise<void> {
  const settings = {
    search_path: raw('public, extensions'),
    timezone: 'UTC',
    statement_timeout: step.timeoutMs,
    row_security: 'off',
    client_min_messages: 'error',
  };
  try {
    await inTransaction(session, settings, async () => {
      const before = await readCatalogFingerprint(session, digestModel(model));
      await session.query(raw(asOneStatement(step.sql)));
      if ((await readCatalogFingerprint(session, digestModel(model))) !== before)
        throw notForSteps(step, 'it changes the schema');
      await recordDataStep(session, step, 'done');
    });
  } catch (error) {
    if (!isDatabaseError(error) || isDatabaseError(error, 'connection_exception')) throw error;
    throw refusal(step, error);
  }
}

/** As one statement it cannot end the transaction it runs in. */
function asOneStatement(text: string): string {
  const quoted = (value: string): string => literal(value).compile().text;
  return `do ${quoted(`begin execute ${quoted(text)}; end`)}`;
}

function refusal(step: DataStepModel, error: DatabaseError): MigrationRefused {
  if (isDatabaseError(error, 'feature_not_supported') && /transaction commands/.test(error.message))
    return notForSteps(step, 'it begins or ends a transaction');
  const detail = error.detail === undefined ? '' : ` (${error.detail})`;
  return new MigrationRefused([
    problem(
      'MIG-601',
      step.at,
      `the step failed, and nothing of it was kept: ${lineOf(step, error)}${error.message}${detail}`,
      'Correct the step or the rows; the next run tries it again.',
    ),
  ]);
}

function notForSteps(step: DataStepModel, why: string): MigrationRefused {
  return new MigrationRefused([
    problem(
      'MIG-603',
      step.at,
      `a step changes rows, but ${why}`,
      'Declare the schema in svc.yaml; each step is one transaction.',
    ),
  ]);
}

function lineOf({ file, sql }: DataStepModel, { internalPosition, internalQuery }: DatabaseError): string {
  if (internalPosition === undefined || internalQuery !== sql) return file === null ? '' : `${file}: `;
  const line = sql.slice(0, Number(internalPosition)).split('\n').length;
  return `${file ?? 'line '}${file === null ? '' : ':'}${line}: `;
}
