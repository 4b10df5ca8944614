// Converts the database error of a failed step to a refusal if rows, the SQL text or a limit of the server caused it.
import { isDatabaseError, sqlstate, type DatabaseError } from '../../postgres/pg-error.ts';
import { unknownTypeHint } from '../normalise/shadow/unknown-type.ts';
import { canContainValues, describeCondition } from '../checks/rows/withheld-values.ts';
import type { Step } from '../plan/step.ts';
import { MigrationRefused, problem, type MigrationCode } from '../problem.ts';

const VIOLATIONS: Record<string, MigrationCode> = {
  '23502': 'MIG-201',
  '23505': 'MIG-202',
  '23503': 'MIG-203',
  '23514': 'MIG-204',
  '23P01': 'MIG-202',
};

/** Returns a refusal, or the error itself if it is a fault. */
export function refuseStep(step: Pick<Step, 'at'>, error: DatabaseError): unknown {
  const text = `${error.message}${error.detail === undefined ? '' : ` (${error.detail})`}`;
  const hint = error.hint ?? null;
  const refusal = (code: MigrationCode, message: string, advice: string | null): MigrationRefused =>
    new MigrationRefused([problem(code, step.at, message, advice)]);
  const violation =
    VIOLATIONS[sqlstate(error)] ?? (isDatabaseError(error, 'data_exception') ? 'MIG-208' : null);
  // The detail of a violated constraint contains a row or a key. The text of a failed conversion contains a value.
  if (violation === 'MIG-208') {
    const message = canContainValues(error) ? describeCondition(error.code) : error.message;
    return refusal(violation, message, hint);
  }
  if (violation) return refusal(violation, error.message, hint);
  if (isDatabaseError(error, 'dependent_objects_still_exist'))
    return refusal('MIG-304', text, 'Drop or change the dependent objects first.');
  if (isDatabaseError(error, 'out_of_memory'))
    return refusal('MIG-401', error.message, 'Raise max_locks_per_transaction on the server.');
  if (isDatabaseError(error, 'syntax_error_or_access_rule_violation'))
    return refusal('MIG-101', text, hint ?? unknownTypeHint(error) ?? wholeRowHint(error));
  return error;
}

/** Explains the error of `select *`: it selects the declared columns, but a row also contains retired columns. */
function wholeRowHint({ message, detail = '' }: DatabaseError): string | null {
  const rows = /^return type mismatch in function declared to return (?!record$)(\S+)$/.exec(message)?.[1];
  if (rows === undefined || !detail.includes('returns too few columns')) return null;
  return (
    `A row of ${rows} has all columns of the database, including retired columns that are no longer in the file. ` +
    `Return the whole row: select ${rows} from ${rows}, without *.`
  );
}
