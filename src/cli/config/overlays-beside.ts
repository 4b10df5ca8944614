// A file that is written from the database has overlays beside it, which nothing took along and which count again.
import { overlaidKeys } from '../../config/edit/overlaid.ts';
import type { Mode } from '../../config/mode.ts';
import { prepareToRead } from '../../config/read/read-parts.ts';
import { readSource } from '../../config/read/source.ts';
import { modesToRead } from '../every-mode.ts';

export type OverlayBeside = { readonly mode: Mode; readonly overlay: string; readonly keys: string[] };

/** What each overlay beside the file says otherwise. */
export async function overlaysBeside(file: string): Promise<OverlayBeside[]> {
  const source = await readSource(file, process.cwd());
  await prepareToRead(source);
  return modesToRead(source).flatMap((mode) => {
    const found = overlaidKeys({ ...source, mode }, { variables: {} });
    if (found === undefined || found.paths.length === 0) return [];
    return [{ mode, overlay: found.overlay, keys: [...found.paths] }];
  });
}
