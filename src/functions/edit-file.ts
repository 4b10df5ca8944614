// Small edits of svc.yaml that leave every other byte of it alone: comments, order, quoting. The place is found
// with the YAML document; where the text there has an unusual form, the document is written anew.
import { isMap, isPair, isScalar, parseDocument, type Document, type YAMLMap } from 'yaml';
import { Problem } from '../problem/problem.ts';

/** Sets a top-level key to a text. */
export function setTopLevel(text: string, key: string, value: string): string {
  const document = read(text);
  const quoted = JSON.stringify(value);
  const pair = topLevel(document).items.find((item) => isScalar(item.key) && item.key.value === key);
  if (pair) {
    const node: unknown = pair.value;
    if (isScalar(node) && node.range && node.type !== 'BLOCK_LITERAL' && node.type !== 'BLOCK_FOLDED') {
      return checked(splice(text, node.range[0], node.range[1], quoted));
    }
    document.set(key, value);
    return rewritten(document);
  }
  return checked(`${withNewline(text)}${key}: ${quoted}\n`);
}

/** Adds `key: value` to a top-level map, which is made when it is not there. */
export function addToMap(
  text: string,
  map: string,
  key: string,
  value: Readonly<Record<string, unknown>>,
): string {
  const document = read(text);
  const pair = topLevel(document).items.find((item) => isScalar(item.key) && item.key.value === map);
  if (!pair) return checked(`${withNewline(text)}\n${map}:\n${entry('  ', key, value)}`);
  const node: unknown = pair.value;
  if (isScalar(node) && node.value === null && isScalar(pair.key) && pair.key.range) {
    // `functions:` with nothing, `~` or `null` behind it.
    const bare = node.range ? splice(text, node.range[0], node.range[1], '') : text;
    const end = lastLineEnd(bare, pair.key.range[1]);
    return checked(withNewline(bare.slice(0, end)) + entry('  ', key, value) + bare.slice(end));
  }
  if (!isMap(node) || node.flow || node.items.length === 0) {
    if (isMap(node)) node.flow = false;
    document.setIn([map, key], value);
    return rewritten(document);
  }
  if (node.has(key)) {
    throw new Problem('already_declared', 409, `${map}.${key} is in the file already`);
  }
  const [first] = node.items;
  const start = isPair(first) && isScalar(first.key) ? (first.key.range?.[0] ?? 0) : 0;
  const indent = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
  // Behind the last entry's own lines: a comment after it may belong to what follows.
  const end = lastLineEnd(text, lastValueEnd(node));
  return checked(`${withNewline(text.slice(0, end))}${entry(indent, key, value)}${text.slice(end)}`);
}

/** Sets `outer.middle.inner`, making what is missing. */
export function setIn(text: string, path: readonly string[], value: string): string {
  const document = read(text);
  if (document.getIn(path) === value) return text;
  const [top = '', ...rest] = path;
  if (!topLevel(document).has(top)) {
    const lines = [`${top}:`];
    rest.forEach((key, depth) => {
      const last = depth === rest.length - 1;
      lines.push(`${'  '.repeat(depth + 1)}${key}:${last ? ` ${JSON.stringify(value)}` : ''}`);
    });
    return checked(`${withNewline(text)}\n${lines.join('\n')}\n`);
  }
  const inner = document.getIn(path, true);
  if (isScalar(inner) && inner.range)
    return checked(splice(text, inner.range[0], inner.range[1], JSON.stringify(value)));
  document.setIn(path, value);
  return rewritten(document);
}

function entry(indent: string, key: string, value: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(value).map(
    ([name, one]) => `${indent}${indent || '  '}${name}: ${plain(one)}`,
  );
  return `${indent}${key}:\n${lines.join('\n')}\n`;
}

function plain(value: unknown): string {
  return typeof value === 'string' && /^[A-Za-z][\w./-]*$/.test(value) ? value : JSON.stringify(value);
}

function lastValueEnd(map: YAMLMap): number {
  const last = map.items.at(-1);
  const value: unknown = last?.value;
  if (isMap(value) && !value.flow && value.items.length > 0) return lastValueEnd(value);
  if (typeof value === 'object' && value !== null && 'range' in value && Array.isArray(value.range)) {
    return Number(value.range[1]);
  }
  const key: unknown = last?.key;
  return isScalar(key) && key.range ? key.range[1] : 0;
}

function lastLineEnd(text: string, at: number): number {
  if (text[at - 1] === '\n') return at;
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end + 1;
}

function splice(text: string, start: number, end: number, replacement: string): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

function withNewline(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

function read(text: string): Document {
  const document = parseDocument(text, { merge: true });
  if (document.errors.length > 0) {
    throw new Problem('unreadable_config', 500, 'svc.yaml has mistakes and is left alone', {
      hint: '`svc validate` names them.',
    });
  }
  return document;
}

function topLevel(document: Document): YAMLMap {
  if (isMap(document.contents)) return document.contents;
  throw new Problem('unreadable_config', 500, 'svc.yaml is not a map of keys and is left alone');
}

function rewritten(document: Document): string {
  return document.toString({ lineWidth: 0 });
}

/** An edit that made something unreadable must never be written. */
function checked(text: string): string {
  read(text);
  return text;
}
