// Paths of the overlay `svc.<mode>.yaml`, which is next to `svc.yaml`.
import { basename } from 'node:path';
import { MODES, type Mode } from '../mode.ts';

/** Returns paths relative to the directory of the file. The usual extension comes first. */
export function overlayPaths(name: string, mode: Mode): readonly string[] {
  const stem = basename(name).replace(/\.ya?ml$/, '');
  return [`${stem}.${mode}.yaml`, `${stem}.${mode}.yml`];
}

/** Returns true for an overlay of any mode. Patterns of `include` skip overlays. */
export function isOverlay(path: string, name: string): boolean {
  return MODES.some((mode) => overlayPaths(name, mode).includes(path));
}
