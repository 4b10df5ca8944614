// Finds the overlays next to a file that was written from the database. They apply again, and the database
// has none.
import { overriddenKeys } from '../../config/edit/overridden.ts';
import type { Mode } from '../../config/mode.ts';
import { prepareToRead } from '../../config/read/read-parts.ts';
import { readSource } from '../../config/read/source.ts';
import { modesToRead } from '../project/all-modes.ts';

export type FoundOverlay = { readonly mode: Mode; readonly overlay: string; readonly keys: string[] };

/** Returns each overlay next to the file, with the keys that it overrides. */
export async function findOverlays(file: string): Promise<FoundOverlay[]> {
  const source = await readSource(file, process.cwd());
  await prepareToRead(source);
  return modesToRead(source).flatMap((mode) => {
    const found = overriddenKeys({ ...source, mode }, { variables: {} });
    if (found === undefined || found.paths.length === 0) return [];
    return [{ mode, overlay: found.overlay, keys: [...found.paths] }];
  });
}
