// `options` of an address: settings for its sessions, added to those of the product. What the product depends on cannot
// be set there.
import { UnreadableAddress } from './conninfo.ts';

/** A name and its value, as `-c name=value`. */
export type SessionOption = readonly [name: string, value: string];

/** Who a session is, how long it may work, and in which form it writes and reads values. */
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
  'Take it out. Deadlines are server.timeouts in svc.yaml; other settings may go with the database: alter database … set name = value;';

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
    // As the server reads it.
    const known = name.replaceAll('-', '_').toLowerCase();
    if (OURS.has(known))
      throw new UnreadableAddress(`sets ${known} in options, which requests depend on`, HINT);
    options.push([known, value]);
  }
  return options;
}

/** At white space; a backslash keeps the character after it. */
function splitWords(text: string): string[] {
  return [...text.matchAll(/(?:\\[\s\S]|[^\s\\])+/g)].map(([word]) => word.replaceAll(/\\([\s\S])/g, '$1'));
}

/** The start-up parameter; what comes later wins. */
export function writeOptions(options: readonly SessionOption[]): string {
  return options
    .map(([name, value]) => `-c ${name}=${value.replaceAll(/[\s\\]/g, String.raw`\$&`)}`)
    .join(' ');
}
