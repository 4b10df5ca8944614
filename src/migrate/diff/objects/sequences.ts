// Compares sequences that belong to no column. A sequence that left the file is kept, because it records which numbers
// were used.
import type { Live } from '../../schema/live/live-schema.ts';
import { objectKey, type SequenceForm, type SequenceModel } from '../../schema/model.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import { type LiveSequence, liveUsageRoles, usageRoles } from '../../schema/sequences.ts';
import type { SequenceChange } from '../change.ts';

export function diffSequences(declared: readonly SequenceModel[], live: Live['sequences']): SequenceChange[] {
  return declared.flatMap((sequence): SequenceChange[] => {
    const found = live.get(objectKey(sequence));
    const changes: SequenceChange[] = [];
    if (!found) changes.push({ kind: 'create-sequence', sequence });
    else if (!sameNumbers(sequence.numbers, found.numbers))
      changes.push({ kind: 'alter-sequence', sequence, live: found });
    if (!found || !isGranted(sequence, found)) changes.push({ kind: 'grant-free-sequence', sequence });
    if ((sequence.comment ?? null) !== (found?.comment ?? null))
      changes.push({ kind: 'comment-sequence', sequence });
    return changes;
  });
}

function sameNumbers(required: SequenceForm, found: SequenceForm): boolean {
  return (Object.keys(required) as Array<keyof SequenceForm>).every((key) => required[key] === found[key]);
}

/** Returns whether the grants are as declared. Grants to other roles than the API roles are kept. */
function isGranted(sequence: SequenceModel, live: LiveSequence): boolean {
  const required = usageRoles(sequence);
  const have = liveUsageRoles(live);
  const managedRoles: readonly string[] = API_ROLES;
  return (
    required.every((role) => have.includes(role)) &&
    have.every((role) => required.includes(role) || !managedRoles.includes(role))
  );
}
