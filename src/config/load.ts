// svc.yaml → Config, or every mistake in it at once. Each stage hands on a value with a name:
// text → document → tree (values and places) → checked file → Config.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { check } from './check/check.ts';
import type { Config } from './config.ts';
import type { Source } from './read/source.ts';
import { readDocument } from './read/document.ts';
import type { Variables } from './read/interpolate.ts';
import { renderPath, inOrder, type Mistake } from './mistakes/mistake.ts';
import { normalise } from './normalise.ts';
import type { SvcFile } from './schema/schema.ts';
import { readTree } from './read/read-tree.ts';
import type { Tree } from './read/tree.ts';
import { BrokenPaths, usablePart, withoutMissingTwins } from './check/tables/usable-part.ts';
import { validate } from './check/validate.ts';

export type LoadOptions = {
  /** Values of `${VAR}` references. */
  readonly variables: Variables;
  /** An open table is an error instead of a warning. */
  readonly strict?: boolean | undefined;
};

export type Loaded =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
      readonly files: readonly string[];
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

export function loadConfig(source: Source, options: LoadOptions): Loaded {
  const read = readText(source.text, options.variables);
  if (!read.ok) return read;
  const { tree } = read;
  const validated = validate(tree);
  // A value that could not be substituted is one mistake, not also a missing or a wrong one.
  const known = new Set(tree.mistakes.map((mistake) => renderPath(mistake.path)));
  const shape = withoutMissingTwins(
    validated.mistakes.filter((mistake) => !known.has(renderPath(mistake.path))),
  );
  // Cross-checks look at what is there even when other parts are wrong; they need the parts' shapes to hold.
  const left = tree.mistakes.filter(({ code }) => code.endsWith('-variable')).map(({ path }) => path);
  const part =
    validated.file && left.length === 0
      ? { file: validated.file, broken: new BrokenPaths() }
      : usablePart(tree, left);
  const { directory } = source;
  const cross = part ? check(tree, part, { directory, strict: options.strict ?? false }) : [];
  const all = [...tree.mistakes, ...shape, ...cross];
  if (!validated.file || all.some((mistake) => mistake.severity === 'error'))
    return { ok: false, mistakes: inOrder(all) };

  const bodyFiles = readBodyFiles(validated.file, directory);
  return {
    ok: true,
    config: normalise(tree, validated.file, { source, bodyFiles }),
    warnings: inOrder(all),
    files: [...bodyFiles.keys(), ...seedFiles(validated.file)],
  };
}

/** The document ends here: beside its tree it would be a third of the memory. */
function readText(
  text: string,
  variables: Variables,
): { readonly ok: true; readonly tree: Tree } | Extract<Loaded, { ok: false }> {
  const read = readDocument(text);
  if (!read.ok) return read;
  const tree = readTree(read.document, variables);
  // With the structure in doubt, every other check would be guessing.
  const isInDoubt = tree.mistakes.some((mistake) => mistake.code === 'yaml');
  return isInDoubt ? { ok: false, mistakes: inOrder(tree.mistakes) } : { ok: true, tree };
}

function seedFiles({ seed }: SvcFile): string[] {
  return seed.flatMap(({ rows, objects, sql }) => [
    ...Object.values(rows).flatMap((given) => (Array.isArray(given) ? [] : [given.file])),
    ...Object.values(objects),
    ...(sql === undefined ? [] : [sql]),
  ]);
}

function readBodyFiles(file: SvcFile, directory: string | undefined): Map<string, string> {
  const bodies = new Map<string, string>();
  if (directory === undefined) return bodies;
  for (const template of Object.values(file.auth.email?.templates ?? {})) {
    if (template.body_file !== undefined)
      bodies.set(template.body_file, readFileSync(join(directory, template.body_file), 'utf8'));
  }
  for (const { bodyFile } of Object.values(file.rpc)) {
    if (bodyFile !== undefined) bodies.set(bodyFile, readFileSync(join(directory, bodyFile), 'utf8'));
  }
  for (const { query } of Object.values(file.views)) {
    if (typeof query !== 'string') bodies.set(query.file, readFileSync(join(directory, query.file), 'utf8'));
  }
  return bodies;
}
