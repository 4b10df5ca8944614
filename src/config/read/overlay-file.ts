// Where the overlay of a configuration stands: `svc.<mode>.yaml` beside `svc.yaml`.
import { basename } from 'node:path';
import { MODES, type Mode } from '../mode.ts';

/** Paths relative to the directory of the file, which is called `name`; the first is the usual one. */
export function overlayPaths(name: string, mode: Mode): readonly string[] {
  const stem = basename(name).replace(/\.ya?ml$/, '');
  return [`${stem}.${mode}.yaml`, `${stem}.${mode}.yml`];
}

/** No pattern of `include` takes an overlay up, of whichever mode. */
export function isOverlay(path: string, name: string): boolean {
  return MODES.some((mode) => overlayPaths(name, mode).includes(path));
}
