// Converts triggers to entries of `triggers`, by parsing their definitions as printed by the server.
import type { LiveTrigger } from '../schema/triggers.ts';
import { triggerLabel } from '../schema/label.ts';

type Node = Record<string, unknown>;

const NAME = String.raw`(?:"(?:[^"]|"")+"|[^\s"(),.]+)`;
const PRINT = new RegExp(
  [
    String.raw`^CREATE (?<constraint>CONSTRAINT )?TRIGGER ${NAME} (?<timing>BEFORE|AFTER|INSTEAD OF) (?<events>.+?)`,
    String.raw` ON ${NAME}\.${NAME}(?<wait>(?: NOT)? DEFERRABLE INITIALLY (?:IMMEDIATE|DEFERRED))?`,
    String.raw`(?: REFERENCING(?: OLD TABLE AS (?<old>${NAME}))?(?: NEW TABLE AS (?<new>${NAME}))?)?`,
    String.raw` FOR EACH (?<each>ROW|STATEMENT)(?: WHEN \((?<when>.*)\))?`,
    String.raw` EXECUTE FUNCTION (?:(?<schema>${NAME})\.)?(?<fn>${NAME})\((?<args>.*)\)$`,
  ].join(''),
  's',
);
const EVENTS = ['insert', 'update', 'delete', 'truncate'] as const;
const ENABLED = { O: undefined, D: false, R: 'replica', A: 'always' } as const;

/**
 * Returns the key `triggers`. `isDeclared` returns true for functions (`schema.name`) that the file declares under
 * `rpc`. `strip` removes the parentheses around a condition. Triggers that the file cannot express are added to
 * `notes`.
 */
export function triggersKey(
  triggers: readonly LiveTrigger[],
  table: string,
  isDeclared: (fn: string) => boolean,
  strip: (text: string) => string,
  notes: string[],
): Node {
  const entries = triggers
    .filter(({ label }) => !/^~?svc_/.test(label))
    .flatMap((trigger): Node[] => {
      const entry = toEntry(trigger, table, isDeclared, strip);
      if (entry === null) notes.push(`trigger ${trigger.label}: ${trigger.definition}`);
      return entry === null ? [] : [entry];
    });
  return entries.length === 0 ? {} : { triggers: entries };
}

function toEntry(
  { label, definition, state }: LiveTrigger,
  table: string,
  isDeclared: (fn: string) => boolean,
  strip: (text: string) => string,
): Node | null {
  const parts = PRINT.exec(definition)?.groups;
  if (parts === undefined) return null;
  const part = (name: string): string => parts[name] ?? '';
  const columns = parseNames(
    /UPDATE OF (.+?)(?= OR (?:INSERT|DELETE|TRUNCATE)|$)/s.exec(part('events'))?.[1] ?? '',
  );
  const kinds = part('events').replace(/ OF .+?(?= OR (?:INSERT|DELETE|TRUNCATE)|$)/s, '');
  const args = parseLiterals(part('args'));
  const schema = unquote(parts['schema'] ?? 'pg_catalog');
  const fn = unquote(part('fn'));
  // The file separates schema and name by a dot.
  if (args === null || schema.includes('.')) return null;
  const timing = part('timing').toLowerCase().replace(' ', '_');
  const events = EVENTS.filter((event) => kinds.split(' OR ').includes(event.toUpperCase()));
  return {
    ...(label === triggerLabel(table, timing, events, fn) ? {} : { name: label }),
    timing,
    events,
    ...(columns.length === 0 ? {} : { of: columns }),
    ...(part('each') === 'STATEMENT' ? { each: 'statement' } : {}),
    ...(parts['when'] === undefined ? {} : { when: strip(parts['when']) }),
    ...(parts['old'] === undefined ? {} : { old_table: unquote(parts['old']) }),
    ...(parts['new'] === undefined ? {} : { new_table: unquote(parts['new']) }),
    ...(parts['constraint'] === undefined ? {} : { constraint: constraintNode(part('wait')) }),
    // A name without a schema refers to `public`.
    call: schema === 'public' && isDeclared(`${schema}.${fn}`) ? fn : `${schema}.${fn}`,
    ...(args.length === 0 ? {} : { args }),
    ...(ENABLED[state] === undefined ? {} : { enabled: ENABLED[state] }),
  };
}

function constraintNode(printed: string): Node {
  if (printed.startsWith(' NOT')) return {};
  return { deferrable: printed.endsWith('DEFERRED') ? 'deferred' : 'immediate' };
}

function parseNames(list: string): string[] {
  return [...list.matchAll(new RegExp(NAME, 'g'))].map(([name]) => unquote(name));
}

function unquote(printed: string): string {
  return printed.startsWith('"') ? printed.slice(1, -1).replaceAll('""', '"') : printed;
}

/**
 * Parses a list of string literals. Returns null if a literal contains a backslash, which PostgreSQL prints
 * differently.
 */
function parseLiterals(list: string): string[] | null {
  if (!/^(?:'(?:[^'\\]|'')*'(?:, )?)*$/.test(list)) return null;
  return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, text]) => (text ?? '').replaceAll("''", "'"));
}
