// Reads the file in each of its modes: once without an overlay if a mode has none, and once with each
// overlay.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Mistake } from '../../config/mistakes/mistake.ts';
import { MODES, type Mode } from '../../config/mode.ts';
import { overlayPaths } from '../../config/read/overlay-file.ts';
import type { Source } from '../../config/read/source.ts';
import { readProject, type ProjectOptions, type ReadProject } from './project.ts';

/** Reads all modes. The result has the mistakes of all of them, each one once. */
export async function loadAllModes(options: Omit<ProjectOptions, 'mode'>): Promise<ReadProject> {
  const first = await readProject({ ...options, mode: MODES[0] });
  const reads = [];
  for (const mode of modesToRead(first.source))
    reads.push(mode === MODES[0] ? first : await readProject({ ...options, source: first.source, mode }));
  return reads.reduce(merge);
}

/** Returns the modes to read. Without overlays this is the first mode. */
export function modesToRead(source: Source): readonly Mode[] {
  const withoutOverlay = MODES.filter((mode) => !hasOverlay(source, mode));
  return [...withoutOverlay.slice(0, 1), ...MODES.filter((mode) => hasOverlay(source, mode))];
}

function hasOverlay({ name, directory }: Source, mode: Mode): boolean {
  return (
    directory !== undefined && overlayPaths(name, mode).some((path) => existsSync(join(directory, path)))
  );
}

function merge(left: ReadProject, right: ReadProject): ReadProject {
  const included = {
    ...left.loaded.included,
    texts: new Map([...left.loaded.included.texts, ...right.loaded.included.texts]),
  };
  const unset = distinct([...left.unset, ...right.unset]);
  if (left.loaded.ok && right.loaded.ok) {
    const warnings = distinct([...left.loaded.warnings, ...right.loaded.warnings]);
    return { ...left, unset, loaded: { ...left.loaded, warnings, included } };
  }
  const mistakes = distinct([left, right].flatMap(foundIn));
  return { ...left, unset: [], loaded: { ok: false, mistakes, included } };
}

/** Returns mistakes, warnings and notes. */
export function foundIn({ loaded, unset }: ReadProject): readonly Mistake[] {
  return loaded.ok ? [...unset, ...loaded.warnings] : loaded.mistakes;
}

function distinct(mistakes: readonly Mistake[]): readonly Mistake[] {
  const key = ({ code, message, position: { file, line, column } }: Mistake): string =>
    JSON.stringify([code, message, file, line, column]);
  return [...new Map(mistakes.map((mistake) => [key(mistake), mistake])).values()];
}
