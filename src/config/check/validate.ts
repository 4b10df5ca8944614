// Converts schema issues into mistakes with a position, the expected value and a suggestion.
import type { z } from 'zod';
import { ELSEWHERE, ENTRY_FORMS, EXAMPLES, HOMES, KEY_ADVICE, LIST_FORMS, SYNONYMS } from './hints.ts';
import { findHome, isSecret, knownKeys, schemaAt } from '../schema/known-keys.ts';
import {
  MAX_MISTAKES,
  renderPath,
  type KeyPath,
  type Mistake,
  type MistakeCode,
} from '../mistakes/mistake.ts';
import { UNIT } from '../schema/kinds.ts';
import { svcSchema, type SvcFile } from '../schema/schema.ts';
import { closest } from '../../lib/text/closest-word.ts';
import { locate, mistakeAt, placeAt, quote, type Tree } from '../read/tree.ts';

type Issue = z.core.$ZodIssue;

export type Validated = {
  readonly file: SvcFile | undefined;
  readonly mistakes: readonly Mistake[];
};

export function validate(tree: Tree): Validated {
  const parsed = svcSchema.safeParse(tree.value);
  if (parsed.success) return { file: parsed.data, mistakes: [] };
  const mistakes: Mistake[] = [];
  for (const issue of leafIssues(parsed.error.issues)) {
    // Suggestions take time to compute.
    if (mistakes.length > MAX_MISTAKES) break;
    mistakes.push(...toMistakes(tree, issue));
  }
  return { file: undefined, mistakes };
}

export type LeafIssue = { readonly issue: Issue; readonly path: KeyPath };

/** Returns issues with complete paths. A union contributes the issues of the closest branch. */
export function leafIssues(issues: readonly Issue[], base: KeyPath = []): LeafIssue[] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path.filter((part) => typeof part !== 'symbol')];
    if (issue.code !== 'invalid_union') return [{ issue, path }];
    // The branch that matches furthest is probably the intended one.
    const [best] = [...issue.errors].sort((a, b) => depth(b) - depth(a) || a.length - b.length);
    return best && depth(best) > 0 ? leafIssues(best, path) : [{ issue, path }];
  });
}

function toMistakes(tree: Tree, { issue, path }: LeafIssue): Mistake[] {
  const value = valueAt(tree.value, path);
  const at = (code: MistakeCode, message: string, hint?: string): Mistake[] => [
    mistakeAt(tree, locate(tree, path), { code, path, message, hint: hint ?? adviceFor(path) }),
  ];
  // Absent, or written without a value.
  const isMissing = value === undefined || (value === null && issue.code !== 'unrecognized_keys');
  if (isMissing && path.length > 0 && !isEmptyValue(tree, path)) return [missing(tree, path)];
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.slice(0, MAX_MISTAKES + 1).map((key) => unknownKey(tree, path, key));
    case 'invalid_type':
      return at(
        'wrong-type',
        `expected ${TYPE_NAMES.get(issue.expected) ?? issue.expected}, found ${describe(tree, path, value)}`,
        hintForType(tree, issue.expected, path, value) ?? (value === null ? exampleFor(path) : undefined),
      );
    case 'invalid_value': {
      const values = issue.values.map(String);
      const synonym = typeof value === 'string' ? (closest(value, values) ?? SYNONYMS.get(value)) : undefined;
      const near = synonym !== undefined && values.includes(synonym) ? synonym : undefined;
      const rule = values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(', ')}`;
      const everything = path.at(-2) === 'operations' && value === '*';
      const hint = everything
        ? 'For all four operations write operations: [select, insert, update, delete].'
        : near && `Did you mean ${near}?`;
      return at('bad-value', `${describe(tree, path, value)} ${rule}`, hint);
    }
    case 'invalid_union':
      return at('wrong-type', `${describe(tree, path, value)} is not valid here`, exampleFor(path));
    case 'invalid_key':
    case 'invalid_element': {
      const [inner] = issue.issues;
      const message = `${JSON.stringify(String(path.at(-1)))} ${inner?.message ?? 'is not valid here'}`;
      const hint = adviceFor(path.slice(0, -1));
      return [mistakeAt(tree, locate(tree, path, 'key'), { code: 'bad-value', path, message, hint })];
    }
    default: {
      const isScalar = typeof value === 'string' || typeof value === 'number';
      const shown = isScalar ? `${describe(tree, path, value)} ` : '';
      return at('bad-value', `${shown}${issue.message}`, boundHint(path, issue.message));
    }
  }
}

/** True for a key without a value, which differs from an absent key. */
function isEmptyValue(tree: Tree, path: KeyPath): boolean {
  return placeAt(tree, path)?.scalar?.kind === 'null';
}

function missing(tree: Tree, path: KeyPath): Mistake {
  const isRemoved = tree.removed?.has(renderPath(path)) ?? false;
  return mistakeAt(tree, locate(tree, isRemoved ? path : path.slice(0, -1), 'key'), {
    code: 'missing-key',
    path,
    message: `${JSON.stringify(String(path.at(-1)))} is missing`,
    hint: adviceFor(path),
  });
}

function unknownKey(tree: Tree, path: KeyPath, key: string): Mistake {
  const known = knownKeys(path);
  const where = path.length === 0 ? 'at the top level' : 'here';
  const whole = [...path, key];
  return mistakeAt(tree, locate(tree, whole, 'key'), {
    code: 'unknown-key',
    path: whole,
    message: `there is no key ${JSON.stringify(key)} ${where}`,
    hint: hintForKey(path, key, known),
  });
}

function hintForKey(path: KeyPath, key: string, known: readonly string[]): string {
  const elsewhere = ELSEWHERE.get([...path, key].join('.'));
  if (elsewhere !== undefined) return elsewhere;
  const home = HOMES.get(path.join('.'));
  if (home !== undefined) return home(key);
  const advice = KEY_ADVICE.get(`${parentKey(path)}.${key}`);
  if (advice !== undefined) return advice;
  const synonym = SYNONYMS.get(key);
  const near =
    closest(key, known) ?? (synonym !== undefined && known.includes(synonym) ? synonym : undefined);
  if (near !== undefined) return `Did you mean ${near}?`;
  const place = findHome(key);
  if (place !== undefined) return `This key belongs elsewhere: ${place}.`;
  return `Known keys: ${known.join(', ')}.`;
}

/** `fields` for `tables.todos.fields[0]`, `tables` for `tables.todos`. */
function parentKey(path: KeyPath): string {
  return String(path.at(-2) ?? '');
}

const TYPE_NAMES: ReadonlyMap<string, string> = new Map([
  ['string', 'text'],
  ['number', 'a number'],
  ['int', 'a whole number'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'a map of keys'],
  ['record', 'a map of names'],
]);

function hintForType(tree: Tree, expected: string, path: KeyPath, value: unknown): string | undefined {
  const isScalar = value !== null && typeof value !== 'object';
  switch (expected) {
    case 'array':
      if (isScalar) return `Write a list: [${describe(tree, path, value)}].`;
      return LIST_FORMS.get(String(path.at(-1))) ?? 'Write a list: begin each entry with a dash.';
    case 'string':
      if (schemaAt(path)?.[UNIT] === 'duration') return 'Write a duration with a unit: 30s, 5m, 1h, 7d.';
      return isScalar ? `Put it in quotes: "${describe(tree, path, value)}".` : undefined;
    case 'boolean':
      if (typeof value !== 'string') return undefined;
      if (/^(yes|no|on|off)$/i.test(value)) return 'YAML 1.2 only accepts true and false.';
      return /^(true|false)$/i.test(value) ? 'Remove the quotes.' : undefined;
    case 'object':
    case 'record':
      if (Array.isArray(value) && EXAMPLES.has(String(path.at(-1)))) return exampleFor(path);
      return Array.isArray(value)
        ? 'The entries are keyed by name: remove the leading dashes and write name: { … }.'
        : isScalar
          ? entryFor(tree, path, value)
          : undefined;
    default:
      return undefined;
  }
}

function entryFor(tree: Tree, path: KeyPath, value: unknown): string | undefined {
  const written = describe(tree, path, value).replace(/^"(\w+)"$/, '$1');
  if (path.at(-1) === 'foreign_key')
    return `Write foreign_key: { references: ${written.replaceAll('"', '')} }.`;
  const form = typeof path.at(-1) === 'number' ? ENTRY_FORMS.get(parentKey(path)) : undefined;
  return form?.(written) ?? exampleFor(path);
}

function boundHint(path: KeyPath, message: string): string | undefined {
  const [, side, bound] = /^must be at (least|most) (\S+)$/.exec(message) ?? [];
  if (bound === undefined) return undefined;
  return `Write ${String(path.at(-1))}: ${bound} or ${side === 'least' ? 'more' : 'less'}.`;
}

/** Returns an example of the value, or its description from the schema. */
function adviceFor(path: KeyPath): string {
  const node = schemaAt(path);
  const key = String(path.at(-1) ?? 'svc.yaml');
  const example = exampleFor(path);
  if (example !== undefined) return example;
  if (node?.[UNIT] === 'duration')
    return `Write a number and a unit without a space, for example ${key}: 30s, 5m, 1h or 7d.`;
  if (node?.[UNIT] === 'size') return `Write a number and a unit, for example ${key}: 500KB, 5MB or 1GB.`;
  const [first] = Array.isArray(node?.['examples']) ? (node['examples'] as readonly unknown[]) : [];
  if (first !== undefined) return `For example ${key}: ${JSON.stringify(first)}.`;
  const described = node?.['description'] ?? schemaAt(path.slice(0, -1))?.['description'];
  if (typeof described === 'string')
    return `${typeof path.at(-1) === 'number' ? String(path.at(-2)) : key}: ${described}.`;
  return `\`svc schema\` describes ${key}.`;
}

function exampleFor(path: KeyPath): string | undefined {
  const values: unknown = schemaAt(path)?.['enum'];
  const key = String(path.at(-1));
  return (
    EXAMPLES.get(path.slice(-2).join('.')) ??
    EXAMPLES.get(key === 'type' && Array.isArray(values) ? '' : key) ??
    listValues(key, values)
  );
}

function listValues(key: string, values: unknown): string | undefined {
  return Array.isArray(values) ? `Write ${key}: ${values.join(' | ')}.` : undefined;
}

function describe(tree: Tree, path: KeyPath, value: unknown): string {
  if (isSecret(schemaAt(path))) return 'this value';
  if (value === null) return placeAt(tree, path)?.scalar?.substituted ? quote(tree, path, value) : 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  return quote(tree, path, value);
}

function depth(issues: readonly Issue[]): number {
  return Math.max(
    0,
    ...issues.map((issue) => issue.path.length + (issue.code === 'unrecognized_keys' ? 1 : 0)),
  );
}

export function valueAt(root: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((value, part) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    return Reflect.get(value, part);
  }, root);
}
