// What the server says when a step fails, as a refusal where the rows, the text or the limits of the server are the reason.
import { isDatabaseError, type DatabaseError } from '../../postgres/pg-error.ts';
import { unknownTypeHint } from '../normalise/unknown-type.ts';
import type { Step } from '../plan/step.ts';
import { MigrationRefused, problem, type MigrationCode } from '../problem.ts';

const VIOLATIONS: Record<string, MigrationCode> = {
  '23502': 'MIG-201',
  '23505': 'MIG-202',
  '23503': 'MIG-203',
  '23514': 'MIG-204',
  '23P01': 'MIG-202',
};

/** Anything else is a fault, and returned as it is. */
export function refuseStep(step: Step, error: DatabaseError): unknown {
  const text = `${error.message}${error.detail === undefined ? '' : ` (${error.detail})`}`;
  const hint = error.hint ?? null;
  const refusal = (code: MigrationCode, message: string, advice: string | null): MigrationRefused =>
    new MigrationRefused([problem(code, step.at, message, advice)]);
  const violation = VIOLATIONS[error.code] ?? (isDatabaseError(error, 'data_exception') ? 'MIG-208' : null);
  if (violation) return refusal(violation, text, hint);
  if (isDatabaseError(error, 'dependent_objects_still_exist'))
    return refusal('MIG-304', text, 'Drop or change what depends on it first.');
  if (isDatabaseError(error, 'out_of_memory'))
    return refusal('MIG-401', error.message, 'Raise max_locks_per_transaction on the server.');
  if (isDatabaseError(error, 'syntax_error_or_access_rule_violation'))
    return refusal('MIG-101', text, hint ?? unknownTypeHint(error) ?? wholeRowHint(error));
  return error;
}

/** `*` means the columns of the file, and a row has also those that left it. */
function wholeRowHint({ message, detail = '' }: DatabaseError): string | null {
  const rows = /^return type mismatch in function declared to return (?!record$)(\S+)$/.exec(message)?.[1];
  if (rows === undefined || !detail.includes('returns too few columns')) return null;
  return `A row of ${rows} has all columns of the database, also those that left the file and are kept. Return it as a whole: select ${rows} from ${rows}, without *.`;
}
