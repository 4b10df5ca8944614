// Parses `options` of an address: session settings in addition to those of the product. Settings that the product
// depends on are rejected.
import { UnreadableAddress } from './conninfo.ts';

/** A name and value of `-c name=value`. */
export type SessionOption = readonly [name: string, value: string];

/** Settings that svc controls: the role, deadlines, and the text format of values. */
const OURS: ReadonlySet<string> = new Set([
  'role',
  'session_authorization',
  'search_path',
  'statement_timeout',
  'timezone',
  'datestyle',
  'intervalstyle',
  'bytea_output',
  'client_encoding',
  'standard_conforming_strings',
]);

const HINT =
  'Remove it. Deadlines are server.timeouts in svc.yaml; other settings may go with the database: ' +
  'alter database … set name = value;';

export function readOptions(text: string): SessionOption[] {
  const words = splitWords(text);
  const options: SessionOption[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const said = word === '-c' ? words[++at] : /^(?:-c|--)(.+)$/s.exec(word)?.[1];
    const [, name, value] = /^([A-Za-z_][\w.-]*)=(.*)$/s.exec(said ?? '') ?? [];
    if (name === undefined || value === undefined) {
      throw new UnreadableAddress(
        'has options that are not -c name=value',
        'In a URL: options=-c%20work_mem%3D8MB.',
      );
    }
    // The server normalises names in this way.
    const known = name.replaceAll('-', '_').toLowerCase();
    if (OURS.has(known))
      throw new UnreadableAddress(`sets ${known} in options, which requests depend on`, HINT);
    options.push([known, value]);
  }
  return options;
}

/** Splits at white space. A backslash keeps the next character. */
function splitWords(text: string): string[] {
  return [...text.matchAll(/(?:\\[\s\S]|[^\s\\])+/g)].map(([word]) => word.replaceAll(/\\([\s\S])/g, '$1'));
}

/** Formats the start-up parameter. Later options take precedence. */
export function writeOptions(options: readonly SessionOption[]): string {
  return options
    .map(([name, value]) => `-c ${name}=${value.replaceAll(/[\s\\]/g, String.raw`\$&`)}`)
    .join(' ');
}
