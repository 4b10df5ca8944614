// svc.yaml → Config, or all mistakes at once. The stages are: text → parts (one document each) → tree (values and
// places of all parts, with the overlay applied) → checked file → Config.
import { join } from 'node:path';
import { readTextFile } from '../lib/text/text-file.ts';
import { check } from './check/check.ts';
import type { Config } from './config.ts';
import type { Source } from './read/source.ts';
import { mergedText, type NamedText } from './read/merged-text.ts';
import { readParts, type Part } from './read/read-parts.ts';
import type { Variables } from './read/interpolate.ts';
import { inOrder, renderPath, type Mistake } from './mistakes/mistake.ts';
import { normalise } from './normalise.ts';
import type { SvcFile } from './schema/schema.ts';
import { toRecord } from './read/merge-parts.ts';
import { readTree } from './read/read-tree.ts';
import type { Tree } from './read/tree.ts';
import { BrokenPaths, usablePart, withoutMissingTwins } from './check/tables/usable-part.ts';
import { validate } from './check/validate.ts';

export type LoadOptions = {
  /** Values of `${VAR}` references. */
  readonly variables: Variables;
  /** Reports an open table as an error instead of a warning. */
  readonly strict?: boolean | undefined;
  /** Also parses SQL and handlers. `loadSqlParser` must have finished. */
  readonly syntax?: boolean | undefined;
  /** Reports unset variables of the mail provider as errors in development, too. */
  readonly requireVariables?: boolean | undefined;
};

export type Loaded =
  | {
      readonly ok: true;
      readonly config: Config;
      /** Tables as the schema parsed them. */
      readonly tables: SvcFile['tables'];
      readonly warnings: readonly Mistake[];
      /** Referenced files that contain texts of the configuration, relative to its directory. */
      readonly files: readonly string[];
      readonly included: Included;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[]; readonly included: Included };

export type Included = {
  /** Files that svc.yaml includes, and SQL files. */
  readonly parts: readonly IncludedPart[];
  /** The overlay, which is applied to all parts. */
  readonly overlay: IncludedPart | undefined;
  /** Texts of the files, by their names in messages. */
  readonly texts: ReadonlyMap<string, string>;
  /** These files, and the folders in which new ones would be included, relative to the directory of svc.yaml. */
  readonly watched: readonly string[];
};

export type IncludedPart = {
  /** Name in messages. */
  readonly name: string;
  /** Relative to the directory of svc.yaml. */
  readonly path: string;
  readonly text: string;
  /** YAML form of a file that is not YAML, such as an SQL file. */
  readonly yaml?: string | undefined;
};

/** Requires a finished `prepareToRead` for this source. */
export function loadConfig(source: Source, options: LoadOptions): Loaded {
  const read = readText(source, options.variables);
  if (!read.ok) return read;
  const { included } = read;
  const isLenient = source.mode === 'development' && options.requireVariables !== true;
  const tree = isLenient ? withoutUnsetMail(read.tree) : read.tree;
  const validated = validate(tree);
  // Report a value with an unset variable once, and not also as missing or wrong.
  const known = new Set(tree.mistakes.map((mistake) => renderPath(mistake.path)));
  const shape = withoutMissingTwins(
    validated.mistakes.filter((mistake) => !known.has(renderPath(mistake.path))),
  );
  // Cross-checks also run on a file with mistakes. They need parts that match the schema.
  const left = tree.mistakes.filter(({ code }) => code.endsWith('-variable')).map(({ path }) => path);
  const part =
    validated.file && left.length === 0
      ? { file: validated.file, broken: new BrokenPaths() }
      : usablePart(tree, left);
  const { directory } = source;
  const cross = part
    ? check(tree, part, {
        directory,
        mode: source.mode,
        strict: options.strict ?? false,
        syntax: options.syntax,
      })
    : [];
  const all = [...read.mistakes, ...tree.mistakes, ...shape, ...cross];
  if (!validated.file || all.some((mistake) => mistake.severity === 'error'))
    return { ok: false, mistakes: inOrder(all), included };

  const bodyFiles = readBodyFiles(validated.file, directory);
  return {
    ok: true,
    config: normalise(tree, validated.file, { source: withParts(source, included), bodyFiles }),
    tables: validated.file.tables,
    warnings: inOrder(all),
    files: [...bodyFiles.keys(), ...seedFiles(validated.file)],
    included,
  };
}

/** Removes a mail provider with unset variables and reports warnings. Development captures mail. */
function withoutUnsetMail(tree: Tree): Tree {
  const isUnset = ({ code, path }: Mistake): boolean =>
    code === 'missing-variable' && path[0] === 'providers' && path[1] === 'email';
  if (!tree.mistakes.some(isUnset)) return tree;
  const mistakes = tree.mistakes.map((mistake) =>
    isUnset(mistake) ? { ...mistake, severity: 'warning' as const } : mistake,
  );
  const value = toRecord(tree.value);
  const { email: _email, ...providers } = toRecord(value['providers']);
  return { ...tree, value: { ...value, providers }, mistakes };
}

/** Adds the files of the configuration. The merged text is computed on demand, because a start does not need it. */
export function withParts(source: Source, { parts, overlay }: Pick<Included, 'parts' | 'overlay'>): Source {
  if (parts.length === 0 && !overlay) return source;
  let whole: string | undefined;
  return {
    name: source.name,
    directory: source.directory,
    dataDirectory: source.dataDirectory,
    modifiedAt: source.modifiedAt,
    mode: source.mode,
    parts: parts.map(({ path }) => path),
    overlay: overlay?.path,
    get text() {
      return (whole ??= mergedText(yamlTexts(source, { parts }), overlay));
    },
  };
}

/** Returns all parts as YAML, beginning with svc.yaml. */
export function yamlTexts(source: Source, { parts }: Pick<Included, 'parts'>): NamedText[] {
  return [source, ...parts.map(({ name, text, yaml }) => ({ name, text: yaml ?? text }))];
}

type ReadText = {
  readonly ok: true;
  readonly tree: Tree;
  readonly mistakes: readonly Mistake[];
  readonly included: Included;
};

function readText(source: Source, variables: Variables): ReadText | Extract<Loaded, { ok: false }> {
  const { parts, overlay, texts, mistakes, watched } = readParts(source);
  // Drop the nodes, which use much memory in a large file and are not needed any more.
  const withoutNodes = ({ name, path, text, yaml }: Part): IncludedPart => ({ name, path, text, yaml });
  const includedParts = parts.slice(1).map(withoutNodes);
  const included: Included = {
    parts: includedParts,
    overlay: overlay && withoutNodes(overlay),
    texts,
    watched: [...includedParts.map(({ path }) => path), ...watched],
  };
  // Other files may refer to declarations in a file that could not be read.
  if (mistakes.some(({ severity }) => severity === 'error'))
    return { ok: false, mistakes: inOrder(mistakes), included };
  const tree = readTree(parts, variables, overlay);
  // Further checks would be unreliable after a syntax error.
  const hasSyntaxError = tree.mistakes.some((mistake) => mistake.code === 'yaml');
  return hasSyntaxError
    ? { ok: false, mistakes: inOrder(tree.mistakes), included }
    : { ok: true, tree, mistakes, included };
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
      bodies.set(template.body_file, readTextFile(join(directory, template.body_file)));
  }
  for (const { bodyFile } of Object.values(file.rpc)) {
    if (bodyFile !== undefined) bodies.set(bodyFile, readTextFile(join(directory, bodyFile)));
  }
  for (const { query } of Object.values(file.views)) {
    if (typeof query !== 'string') bodies.set(query.file, readTextFile(join(directory, query.file)));
  }
  for (const { run, undo } of file.migrations.steps) {
    const files = [run, typeof undo === 'object' ? undo.file : undefined];
    for (const path of files) if (path !== undefined) bodies.set(path, readTextFile(join(directory, path)));
  }
  return bodies;
}
