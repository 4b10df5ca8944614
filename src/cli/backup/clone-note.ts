// The note that `svc dev` shows for a cloned database: the source of its rows, and what is masked.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

type CloneNote = { readonly source: string; readonly masked: readonly string[] };

const fileIn = (state: string): string => join(state, 'clone.json');

export async function writeCloneNote(state: string, note: CloneNote): Promise<void> {
  await writeFile(fileIn(state), `${JSON.stringify(note, null, 2)}\n`);
}

/** Returns the note, or undefined if the database is not a clone. */
export async function readCloneNote(state: string): Promise<string | undefined> {
  const text = await readFile(fileIn(state), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const { source, masked } = JSON.parse(text) as CloneNote;
  return `clone of ${source}, ${masked.length === 0 ? 'nothing masked' : `masked: ${masked.join(', ')}`}`;
}
