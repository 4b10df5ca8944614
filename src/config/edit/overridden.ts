// Finds edits without effect, because an overlay sets the same keys.
import type { LoadOptions } from '../load.ts';
import { renderPath } from '../mistakes/mistake.ts';
import { valueAt } from '../check/validate.ts';
import { readTree } from '../read/read-tree.ts';
import { readParts } from '../read/read-parts.ts';
import type { Source } from '../read/source.ts';

export type Overridden = {
  /** Name of the overlay in messages. */
  readonly overlay: string;
  /** Rendered paths, such as `server.port`. */
  readonly paths: readonly string[];
};

/** Returns undefined if every difference between the two sources takes effect. */
export function overriddenChanges(
  before: Source,
  after: Source,
  { variables }: Pick<LoadOptions, 'variables'>,
): Overridden | undefined {
  const former = readParts(before);
  const next = readParts(after);
  const { overlay } = next;
  if (!overlay) return undefined;
  const [was, is] = [former, next].map(({ parts }) => readTree(parts, variables).value);
  const { changed } = readTree(next.parts, variables, overlay);
  const paths = changed.filter(
    (path) => JSON.stringify(valueAt(was, path)) !== JSON.stringify(valueAt(is, path)),
  );
  return paths.length === 0 ? undefined : { overlay: overlay.name, paths: paths.map(renderPath) };
}

/** Returns everything that the overlay of the source's mode sets or removes, or undefined without an overlay. */
export function overriddenKeys(
  source: Source,
  { variables }: Pick<LoadOptions, 'variables'>,
): Overridden | undefined {
  const { parts, overlay } = readParts(source);
  if (!overlay) return undefined;
  return { overlay: overlay.name, paths: readTree(parts, variables, overlay).changed.map(renderPath) };
}
