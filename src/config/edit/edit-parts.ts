// Edits of a configuration in several files. Each edit changes the file that contains most of its path.
import { isMap, isSeq, parseDocument } from 'yaml';
import { Problem } from '../../problem/problem.ts';
import type { Config } from '../config.ts';
import { loadConfig, type LoadOptions } from '../load.ts';
import { renderPath, type KeyPath, type Mistake } from '../mistakes/mistake.ts';
import { readYamlParts } from '../read/read-parts.ts';
import type { Source } from '../read/source.ts';
import { editText, type ConfigEdit } from './edit.ts';

/** Texts by path relative to the directory of svc.yaml, whose own path is empty. */
export type Texts = ReadonlyMap<string, string>;

/** Returns the changed texts. */
export function editParts(texts: Texts, edits: readonly ConfigEdit[]): Texts {
  const edited = new Map(texts);
  for (const edit of edits) {
    const owner = findOwner(edited, edit.path);
    edited.set(owner, editText(edited.get(owner) ?? '', [edit]));
  }
  return new Map([...edited].filter(([path, text]) => texts.get(path) !== text));
}

export type Edited =
  | {
      readonly ok: true;
      /** Changed texts. */
      readonly texts: Texts;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** Applies edits to `source`, which has not been loaded yet. Returns the new configuration, or its mistakes. */
export function editConfig(source: Source, edits: readonly ConfigEdit[], options: LoadOptions): Edited {
  return replaceTexts(source, editParts(textsOfParts(source), edits), options);
}

/** Loads the source with replaced texts. */
export function replaceTexts(source: Source, texts: Texts, options: LoadOptions): Edited {
  const loaded = loadConfig(withTexts(source, texts), options);
  return loaded.ok ? { ...loaded, texts } : loaded;
}

/** Returns the source with these texts as its files. */
export function withTexts(source: Source, texts: Texts): Source {
  const drafts = new Map([...texts].filter(([path]) => path !== ''));
  return { ...source, text: texts.get('') ?? source.text, drafts };
}

/** Returns the texts of svc.yaml and its includes. SQL files are edited separately. */
export function textsOfParts(source: Source): Texts {
  const parts = readYamlParts(source);
  return new Map([['', source.text], ...parts.map(({ path, text }) => [path, text] as const)]);
}

/** Returns the file with the longest match, and the first of equal matches. svc.yaml comes first. */
function findOwner(texts: Texts, path: KeyPath): string {
  if (texts.size === 1) return '';
  let owner = '';
  let furthest = 0;
  let lists = 0;
  for (const [file, text] of texts) {
    const root: unknown = parseDocument(text, { uniqueKeys: false, logLevel: 'silent' }).contents;
    let node = root;
    let depth = 0;
    for (const step of path) {
      const child: unknown = isMap(node) || isSeq(node) ? node.get(step, true) : undefined;
      if (child === undefined || child === null) break;
      node = child;
      depth += 1;
      if (isSeq(node) && typeof path[depth] === 'number') lists += 1;
    }
    if (depth > furthest) [owner, furthest] = [file, depth];
  }
  if (lists > 1)
    throw new Problem('config_not_editable', 409, `${renderPath(path)} cannot be edited here`, {
      hint: 'The list is split across several files: edit the files directly.',
    });
  return owner;
}
