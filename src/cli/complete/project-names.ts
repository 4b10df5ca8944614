// Names of svc.yaml for completion: read as they stand there, without a check and without a database, because somebody waits
// with a finger on the key. What files that svc.yaml includes declare is not among them.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { explainedCodes } from '../docs/documentation.ts';
import type { ProjectNames } from './candidates.ts';

type Names = (options: ReadonlyMap<string, string>) => readonly string[];

const PLACES: Readonly<Record<string, Names>> = {
  'sql --as': () => ['owner', 'anon', 'service_role'],
  'explain <code>': () => [...new Set(explainedCodes().map(({ code }) => code))],
  'refresh <names>': (options) => keysOf(readFile(options)['views']),
  'seed <names>': (options) => keysOf(readFile(options)['seed']),
  'migrate rename <path>': (options) => {
    const { tables } = readFile(options);
    return Object.entries(isMap(tables) ? tables : {}).flatMap(([table, declared]) => [
      table,
      ...keysOf(isMap(declared) ? declared['fields'] : undefined).map((field) => `${table}.${field}`),
    ]);
  },
  'backup verify <id>': (options) => {
    const target = options.get('--to') ?? process.env['SVC_BACKUP_TARGET'];
    if (!target) return [];
    const entries = readdirSync(join(target, 'backups'), { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  },
};

/** The file may be anybody's: what a shell would take for more than a word is not offered. */
const PLAIN = /^[\p{L}\p{N}_.-]+$/u;

/** A file that is not there or not YAML has no names. */
export const projectNames: ProjectNames = (place, options) => {
  const names = PLACES[place];
  if (!names) return undefined;
  try {
    return names(options).filter((name) => PLAIN.test(name));
  } catch {
    return [];
  }
};

function readFile(options: ReadonlyMap<string, string>): Record<string, unknown> {
  const file = options.get('--config') || 'svc.yaml';
  const read: unknown = parse(readFileSync(file, 'utf8'), { merge: true, logLevel: 'silent' });
  return isMap(read) ? read : {};
}

/** Of a map, or the `name` of each entry of a list. */
function keysOf(value: unknown): string[] {
  if (isMap(value)) return Object.keys(value);
  if (!Array.isArray(value)) return [];
  return value.flatMap((one: unknown) =>
    isMap(one) && typeof one['name'] === 'string' ? [one['name']] : [],
  );
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
