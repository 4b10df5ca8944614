// Sequences of no column: made, changed where they stand, opened to those who may take numbers. One that left the file
// stays: it knows which numbers were given.
import type { Live } from '../../schema/live/live-schema.ts';
import { keyOf, type SequenceForm, type SequenceModel } from '../../schema/model.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import { type LiveSequence, liveUsersOf, usersOf } from '../../schema/sequences.ts';
import type { SequenceChange } from '../change.ts';

export function diffSequences(declared: readonly SequenceModel[], live: Live['sequences']): SequenceChange[] {
  return declared.flatMap((sequence): SequenceChange[] => {
    const found = live.get(keyOf(sequence));
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

function sameNumbers(wanted: SequenceForm, found: SequenceForm): boolean {
  return (Object.keys(wanted) as Array<keyof SequenceForm>).every((key) => wanted[key] === found[key]);
}

/** Roles of others that the file does not name keep what they have. */
function isGranted(sequence: SequenceModel, live: LiveSequence): boolean {
  const wanted = usersOf(sequence);
  const have = liveUsersOf(live);
  const ours: readonly string[] = API_ROLES;
  return (
    wanted.every((role) => have.includes(role)) &&
    have.every((role) => wanted.includes(role) || !ours.includes(role))
  );
}
