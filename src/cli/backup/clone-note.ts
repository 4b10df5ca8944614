// What `svc dev` says of a database that is a clone: where its rows come from, and what of them is masked.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

type CloneNote = { readonly source: string; readonly masked: readonly string[] };

const fileIn = (state: string): string => join(state, 'clone.json');

export async function writeCloneNote(state: string, note: CloneNote): Promise<void> {
  await writeFile(fileIn(state), `${JSON.stringify(note, null, 2)}\n`);
}

/** Undefined where the database is no clone. */
export async function readCloneNote(state: string): Promise<string | undefined> {
  const text = await readFile(fileIn(state), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const { source, masked } = JSON.parse(text) as CloneNote;
  return `clone of ${source}, ${masked.length === 0 ? 'nothing masked' : `masked: ${masked.join(', ')}`}`;
}
