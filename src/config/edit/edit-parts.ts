// Edits of a configuration in several files: each goes into the file in which most of its path is written.
import { isMap, isSeq, parseDocument } from 'yaml';
import { Problem } from '../../problem/problem.ts';
import type { Config } from '../config.ts';
import { loadConfig, type LoadOptions } from '../load.ts';
import { renderPath, type KeyPath, type Mistake } from '../mistakes/mistake.ts';
import { readYamlParts } from '../read/read-parts.ts';
import type { Source } from '../read/source.ts';
import { editText, type ConfigEdit } from './edit.ts';

/** Texts by path relative to svc.yaml's directory; svc.yaml itself is the empty path. */
export type Texts = ReadonlyMap<string, string>;

/** The texts that change. */
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
      /** The texts that change. */
      readonly texts: Texts;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** `source`: as it is read, before it is loaded. What it becomes, or the mistakes that it would then have. */
export function editConfig(source: Source, edits: readonly ConfigEdit[], options: LoadOptions): Edited {
  return replaceTexts(source, editParts(textsOfParts(source), edits), options);
}

/** The same with texts that are written already. */
export function replaceTexts(source: Source, texts: Texts, options: LoadOptions): Edited {
  const loaded = loadConfig(withTexts(source, texts), options);
  return loaded.ok ? { ...loaded, texts } : loaded;
}

/** What is to be read with these texts in its files. */
export function withTexts(source: Source, texts: Texts): Source {
  const drafts = new Map([...texts].filter(([path]) => path !== ''));
  return { ...source, text: texts.get('') ?? source.text, drafts };
}

/** Not of SQL files: what they say is changed in them. */
export function textsOfParts(source: Source): Texts {
  const parts = readYamlParts(source);
  return new Map([['', source.text], ...parts.map(({ path, text }) => [path, text] as const)]);
}

/** Of equally good ones the first, which is svc.yaml. */
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
      hint: 'This list stands in several files: change it by hand.',
    });
  return owner;
}
