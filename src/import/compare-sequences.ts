// Compares the positions of the project's sequences on both sides.
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { readSequences, differingSequences, type SequencePosition } from '../postgres/bulk/sequences.ts';
import { EXCLUDED_SCHEMAS } from './tables.ts';

/** Returns the target's sequences whose position differs from the source. */
export async function compareSequences(
  source: Connected,
  target: Connected,
): Promise<readonly SequencePosition[]> {
  return differingSequences(
    await readSequences(source, EXCLUDED_SCHEMAS),
    await readSequences(target, EXCLUDED_SCHEMAS),
  );
}
