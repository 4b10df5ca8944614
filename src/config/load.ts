// svc.yaml → Config, or every mistake in it at once. Each stage hands on a value with a name:
// text → parts (a document each) → tree (values and places of all, the overlay laid over them) → checked file → Config.
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
  /** An open table is an error instead of a warning. */
  readonly strict?: boolean | undefined;
  /** SQL and handlers are parsed, too; `loadSqlParser` must have been awaited. */
  readonly syntax?: boolean | undefined;
  /** Unset variables of the mail provider are errors in development, too. */
  readonly requireVariables?: boolean | undefined;
};

export type Loaded =
  | {
      readonly ok: true;
      readonly config: Config;
      /** The tables as the schema gave them. */
      readonly tables: SvcFile['tables'];
      readonly warnings: readonly Mistake[];
      /** What texts of the file stand in, relative to its directory. */
      readonly files: readonly string[];
      readonly included: Included;
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[]; readonly included: Included };

export type Included = {
  /** The files that svc.yaml includes or takes statements from. */
  readonly parts: readonly IncludedPart[];
  /** What is laid over all of them. */
  readonly overlay: IncludedPart | undefined;
  /** Their texts, by their names in messages. */
  readonly texts: ReadonlyMap<string, string>;
  /** Those files, and the folders in which a new one may become one, relative to its directory. */
  readonly watched: readonly string[];
};

export type IncludedPart = {
  /** As messages name it. */
  readonly name: string;
  /** Relative to the directory of svc.yaml. */
  readonly path: string;
  readonly text: string;
  /** What it says as YAML, where that is not its text. */
  readonly yaml?: string | undefined;
};

/** `prepareToRead` must have been awaited for this source. */
export function loadConfig(source: Source, options: LoadOptions): Loaded {
  const read = readText(source, options.variables);
  if (!read.ok) return read;
  const { included } = read;
  const isLenient = source.mode === 'development' && options.requireVariables !== true;
  const tree = isLenient ? withoutUnsetMail(read.tree) : read.tree;
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

/** Development captures mail, so a mail provider whose variables are not set is left out with warnings. */
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

/** The same with the files that it consists of. Its text is made when somebody asks: a start does not. */
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

/** As YAML, svc.yaml first. */
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
  // Without their nodes: those of a large file are many, and not needed any more.
  const withoutNodes = ({ name, path, text, yaml }: Part): IncludedPart => ({ name, path, text, yaml });
  const others = parts.slice(1).map(withoutNodes);
  const included: Included = {
    parts: others,
    overlay: overlay && withoutNodes(overlay),
    texts,
    watched: [...others.map(({ path }) => path), ...watched],
  };
  // What an unread file declares, the others refer to.
  if (mistakes.some(({ severity }) => severity === 'error'))
    return { ok: false, mistakes: inOrder(mistakes), included };
  const tree = readTree(parts, variables, overlay);
  // With the structure in doubt, every other check would be guessing.
  const isInDoubt = tree.mistakes.some((mistake) => mistake.code === 'yaml');
  return isInDoubt
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
