// Parses a text as a YAML document and checks its syntax. Rejects texts that are too large or nested too deeply.
// read-tree.ts reads values and variables from it.
import { isMap, isScalar, LineCounter, parseAllDocuments, type YAMLMap } from 'yaml';
import { countLines } from './line-starts.ts';
import { formatBytes } from '../../lib/bytes.ts';
import { readFastPath } from './fast-path.ts';
import { NodeTable } from './node-table.ts';
import { makeMistake, positionIn, type Mistake, type MistakeCode } from '../mistakes/mistake.ts';

/** Far more than people write by hand. */
export const MAX_BYTES = 5 * 1024 * 1024;
/** Far deeper than the schema, and shallow enough for recursive functions not to overflow the stack. */
export const MAX_DEPTH = 100;

export type SvcDocument = {
  readonly text: string;
  readonly contents: Contents;
  readonly lines: LineCounter;
};

/** A table for common YAML, and a node of the library for everything else. */
export type Contents = NodeTable | YAMLMap;

export type ReadDocument =
  | { readonly ok: true; readonly document: SvcDocument }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

export function readDocument(text: string): ReadDocument {
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) {
    const message = `the file has ${bytes} bytes; the maximum is ${formatBytes(MAX_BYTES)}`;
    return failed(text, 0, 'too-large', message, 'Check that this is the right file.');
  }
  const nul = text.indexOf('\0');
  if (nul >= 0)
    return failed(text, nul, 'yaml', 'the file contains a NUL character', 'Save it as plain UTF-8 text.');
  const deep = firstTooDeep(text);
  if (deep !== undefined) return tooDeep(text, deep);

  const table = readFastPath(text);
  if (!table) return readByLibrary(text);
  return { ok: true, document: { text, contents: table, lines: countLines(text) } };
}

/** Parses any YAML with the library. */
export function readByLibrary(text: string): ReadDocument {
  const lines = new LineCounter();
  // read-tree.ts finds duplicate keys: the parser's own check takes quadratic time.
  const options = { lineCounter: lines, uniqueKeys: false, prettyErrors: false, logLevel: 'silent' } as const;
  let documents: ReturnType<typeof parseAllDocuments>;
  try {
    documents = parseAllDocuments(text, options);
  } catch (error) {
    if (error instanceof RangeError) return tooDeep(text, 0);
    throw error;
  }
  const [yaml, second] = 'empty' in documents ? [] : documents;
  if (!yaml)
    return failed(
      text,
      0,
      'not-a-map',
      'the file is empty',
      'Begin the file with `version: 1`, or run `svc init` to create one.',
    );
  if (second) {
    return failed(
      text,
      second.range?.[0] ?? 0,
      'yaml',
      'a second YAML document begins here',
      'Write everything in one document: remove the `---` line.',
    );
  }
  // Report only the first syntax error. The parser guesses after it.
  const [error] = yaml.errors;
  if (error) {
    if (error.message.includes('call stack')) return tooDeep(text, error.pos[0]);
    const [start, end] = error.pos;
    const open = lastUnclosed(text, start);
    if (open !== undefined && FLOW_ERRORS.has(error.code)) {
      const [bracket, closing] = text[open] === '{' ? ['{', '}'] : ['[', ']'];
      return failed(text, open, 'yaml', `this ${bracket} is not closed`, `Add the missing ${closing}.`);
    }
    const hint = hintFor(error.code, text, start);
    return failed(text, start, 'yaml', plain(error.message), hint, end - start);
  }
  if (!isMap(yaml.contents)) {
    return failed(
      text,
      0,
      'not-a-map',
      'the file is not a map of keys',
      'Begin the file with `version: 1`. `svc schema` lists the keys.',
    );
  }
  return { ok: true, document: { text, contents: yaml.contents, lines } };
}

/** Returns the value of a key at the top. `depth`: levels of children that the caller needs. */
export function topValue(contents: Contents, key: string, depth = Infinity): unknown {
  if (!(contents instanceof NodeTable))
    return contents.items.find((pair) => isScalar(pair.key) && pair.key.value === key)?.value;
  const index = contents.child(0, key);
  return index === undefined ? undefined : contents.toNode(index, depth);
}

/** Errors whose position may be several lines after an unclosed bracket. */
const FLOW_ERRORS: ReadonlySet<string> = new Set([
  'BAD_INDENT',
  'BLOCK_IN_FLOW',
  'MISSING_CHAR',
  'UNEXPECTED_TOKEN',
  'MULTILINE_IMPLICIT_KEY',
  'BLOCK_AS_IMPLICIT_KEY',
]);

/** Returns the last open bracket before `end` if it is on an earlier line. Skips quoted texts and comments. */
function lastUnclosed(text: string, end: number): number | undefined {
  const open: number[] = [];
  const token = /"(?:\\.|[^"\\])*"|(?<=[\s[{,:])'(?:[^']|'')*'|(?<=^|\s)#[^\n]*|\$\{[^}\n]*\}|[[\]{}]/gm;
  for (const { 0: found, index } of text.slice(0, end).matchAll(token)) {
    if (found === '{' || found === '[') open.push(index);
    else if (found === '}' || found === ']') open.pop();
  }
  const last = open.at(-1);
  return last !== undefined && text.slice(last, end).includes('\n') ? last : undefined;
}

function failed(
  text: string,
  offset: number,
  code: MistakeCode,
  message: string,
  hint: string,
  length = 1,
): ReadDocument {
  const place = { text, position: positionIn(text, offset), offset, length };
  return { ok: false, mistakes: [makeMistake(place, { code, path: [], message, hint })] };
}

function tooDeep(text: string, offset: number): ReadDocument {
  const message = `values are nested more than ${MAX_DEPTH} levels deep`;
  return failed(text, offset, 'yaml', message, 'Close open brackets, or check that this is the right file.');
}

/**
 * Returns the offset at which nesting is too deep to parse, or undefined. Brackets inside texts count too, so this
 * limit is far above MAX_DEPTH, which read-tree.ts enforces.
 */
function firstTooDeep(text: string): number | undefined {
  const limit = MAX_DEPTH * 5;
  const dashes = new RegExp(`(?:[-?][ \\t]+){${limit}}`).exec(text);
  if (dashes) return dashes.index;
  let depth = 0;
  const bracket = /[[\]{}]/g;
  while (bracket.test(text)) {
    const at = bracket.lastIndex - 1;
    if (text[at] === '[' || text[at] === '{') depth += 1;
    else if (depth > 0) depth -= 1;
    if (depth > limit) return at;
  }
  return undefined;
}

function plain(message: string): string {
  const [line = message] = message.split('\n');
  return line.replace(/^\w/, (letter) => letter.toLowerCase());
}

function hintFor(code: string, text: string, offset: number): string {
  if (text[offset - 1] === '$' || text.startsWith('${', offset)) {
    return 'Inside { … } and [ … ] a reference needs quotes: "${NAME}".';
  }
  switch (code) {
    case 'TAB_AS_INDENT':
      return 'Indent with spaces: YAML does not allow tabs.';
    case 'BAD_INDENT':
    case 'BLOCK_AS_IMPLICIT_KEY':
      return 'Start all lines of a map in the same column, and quote values that contain `: `.';
    case 'BAD_ALIAS':
      return 'Quote a value that starts with * or &, unless it is an alias.';
    default:
      return 'Quote values that contain : # { } [ ] , & * ! | > % or @.';
  }
}
