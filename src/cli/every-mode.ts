// The file as each of its modes reads it: once without an overlay, where a mode has none, and once with each that is there.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Mistake } from '../config/mistakes/mistake.ts';
import { MODES, type Mode } from '../config/mode.ts';
import { overlayPaths } from '../config/read/overlay-file.ts';
import type { Source } from '../config/read/source.ts';
import { readProject, type ProjectOptions, type ReadProject } from './project.ts';

/** With what is wrong in any of them, each thing once. */
export async function readEveryMode(options: Omit<ProjectOptions, 'mode'>): Promise<ReadProject> {
  const first = await readProject({ ...options, mode: MODES[0] });
  const reads = [];
  for (const mode of modesToRead(first.source))
    reads.push(mode === MODES[0] ? first : await readProject({ ...options, source: first.source, mode }));
  return reads.reduce(together);
}

/** Never none: without any overlay, the first one. */
export function modesToRead(source: Source): readonly Mode[] {
  const others = MODES.filter((mode) => !hasOverlay(source, mode));
  return [...others.slice(0, 1), ...MODES.filter((mode) => hasOverlay(source, mode))];
}

function hasOverlay({ name, directory }: Source, mode: Mode): boolean {
  return (
    directory !== undefined && overlayPaths(name, mode).some((path) => existsSync(join(directory, path)))
  );
}

function together(one: ReadProject, other: ReadProject): ReadProject {
  const included = {
    ...one.loaded.included,
    texts: new Map([...one.loaded.included.texts, ...other.loaded.included.texts]),
  };
  const unset = distinct([...one.unset, ...other.unset]);
  if (one.loaded.ok && other.loaded.ok) {
    const warnings = distinct([...one.loaded.warnings, ...other.loaded.warnings]);
    return { ...one, unset, loaded: { ...one.loaded, warnings, included } };
  }
  const mistakes = distinct([one, other].flatMap(foundIn));
  return { ...one, unset: [], loaded: { ok: false, mistakes, included } };
}

/** Mistakes, warnings and notes. */
export function foundIn({ loaded, unset }: ReadProject): readonly Mistake[] {
  return loaded.ok ? [...unset, ...loaded.warnings] : loaded.mistakes;
}

function distinct(mistakes: readonly Mistake[]): readonly Mistake[] {
  const key = ({ code, message, position: { file, line, column } }: Mistake): string =>
    JSON.stringify([code, message, file, line, column]);
  return [...new Map(mistakes.map((one) => [key(one), one])).values()];
}
