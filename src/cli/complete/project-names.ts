// Reads the names in svc.yaml for completion. Reads the file without a check and without a database, because the user
// waits at the prompt. Skips names in included files.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { explainedCodes } from '../docs/documentation.ts';
import type { ProjectNames } from './candidates.ts';

type Names = (options: ReadonlyMap<string, string>) => readonly string[];

const PLACES: Readonly<Record<string, Names>> = {
  'sql --as': () => ['owner', 'anon', 'service_role'],
  'explain <code>': () => [...new Set(explainedCodes().map(({ code }) => code))],
  'refresh <names>': (options) => listKeys(readFile(options)['views']),
  'seed <names>': (options) => listKeys(readFile(options)['seed']),
  ...Object.fromEntries(
    ['run', 'pause', 'resume', 'runs'].map((command): [string, Names] => [
      `schedules ${command} <name>`,
      (options) => listKeys(readFile(options)['schedules']),
    ]),
  ),
  'migrate rename <path>': (options) => {
    const { tables } = readFile(options);
    return Object.entries(isMap(tables) ? tables : {}).flatMap(([table, declared]) => [
      table,
      ...listKeys(isMap(declared) ? declared['fields'] : undefined).map((field) => `${table}.${field}`),
    ]);
  },
  'backup verify <id>': (options) => {
    const target = options.get('--to') ?? process.env['SVC_BACKUP_TARGET'];
    if (!target) return [];
    const entries = readdirSync(join(target, 'backups'), { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  },
};

/**
 * Names that are plain words. The file may come from anyone, and a shell could interpret other characters.
 */
const PLAIN = /^[\p{L}\p{N}_.-]+$/u;

/** Returns the names. A missing or invalid file has none. */
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

/** Returns the keys of a map, or the `name` of each entry of a list. */
function listKeys(value: unknown): string[] {
  if (isMap(value)) return Object.keys(value);
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry: unknown) =>
    isMap(entry) && typeof entry['name'] === 'string' ? [entry['name']] : [],
  );
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
