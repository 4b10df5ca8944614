// Triggers as entries of `triggers`, read from the server's print of them.
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
 * `isDeclared`: which functions, by `schema.name`, the file has under `rpc`. `strip` takes off the parentheses around a
 * condition. What cannot be said is left out and named in `notes`.
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
      const said = toEntry(trigger, table, isDeclared, strip);
      if (said === null) notes.push(`trigger ${trigger.label}: ${trigger.definition}`);
      return said === null ? [] : [said];
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
  const columns = namesOf(
    /UPDATE OF (.+?)(?= OR (?:INSERT|DELETE|TRUNCATE)|$)/s.exec(part('events'))?.[1] ?? '',
  );
  const kinds = part('events').replace(/ OF .+?(?= OR (?:INSERT|DELETE|TRUNCATE)|$)/s, '');
  const args = textsOf(part('args'));
  const schema = nameOf(parts['schema'] ?? 'pg_catalog');
  const fn = nameOf(part('fn'));
  // A dot parts the schema from the name.
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
    ...(parts['old'] === undefined ? {} : { old_table: nameOf(parts['old']) }),
    ...(parts['new'] === undefined ? {} : { new_table: nameOf(parts['new']) }),
    ...(parts['constraint'] === undefined ? {} : { constraint: waitOf(part('wait')) }),
    // Without its schema a name is one of public.
    call: schema === 'public' && isDeclared(`${schema}.${fn}`) ? fn : `${schema}.${fn}`,
    ...(args.length === 0 ? {} : { args }),
    ...(ENABLED[state] === undefined ? {} : { enabled: ENABLED[state] }),
  };
}

function waitOf(printed: string): Node {
  if (printed.startsWith(' NOT')) return {};
  return { deferrable: printed.endsWith('DEFERRED') ? 'deferred' : 'immediate' };
}

function namesOf(list: string): string[] {
  return [...list.matchAll(new RegExp(NAME, 'g'))].map(([name]) => nameOf(name));
}

function nameOf(printed: string): string {
  return printed.startsWith('"') ? printed.slice(1, -1).replaceAll('""', '"') : printed;
}

/** Null for a text with backslashes, which is printed otherwise. */
function textsOf(list: string): string[] | null {
  if (!/^(?:'(?:[^'\\]|'')*'(?:, )?)*$/.test(list)) return null;
  return [...list.matchAll(/'((?:[^']|'')*)'/g)].map(([, text]) => (text ?? '').replaceAll("''", "'"));
}
