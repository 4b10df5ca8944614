// Where sequences of the project stand on either side.
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { readSequences, standingElsewhere, type Standing } from '../postgres/bulk/sequences.ts';
import { NOT_OF_THE_PROJECT } from './tables.ts';

/** Those here that stand elsewhere than at the source. */
export async function compareSequences(source: Connected, target: Connected): Promise<readonly Standing[]> {
  return standingElsewhere(
    await readSequences(source, NOT_OF_THE_PROJECT),
    await readSequences(target, NOT_OF_THE_PROJECT),
  );
}
