// Content of an entry of `seed`: rows as JSON with their positions, the files of its folders, and a hash over
// everything.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import type { SeedEntry, SeedTable, SeedValue } from '../config/config.ts';
import { readCsv } from '../lib/text/csv.ts';
import { decodeText } from '../lib/text/text-file.ts';
import { Problem } from '../problem/problem.ts';

export type SourceRow = {
  readonly values: ReadonlyMap<string, SeedValue>;
  /** `svc.yaml:12`, or `seed/todos.csv, row 3`. */
  readonly place: string;
};

export type SourceTable = Omit<SeedTable, 'rows' | 'file'> & {
  readonly rows: readonly SourceRow[];
  /** The values are texts without types, as in CSV: the text for a json column is JSON. */
  readonly isText: boolean;
};

export type SourceObject = { readonly bucket: string; readonly name: string; readonly path: string };

export type SeedSources = {
  readonly tables: readonly SourceTable[];
  readonly objects: readonly SourceObject[];
  readonly sql: string | undefined;
  /** Hash of the entry and everything that it names. It changes with every edit. */
  readonly hash: string;
};

/** More belongs into a dump. */
const MAX_BYTES = 100 * 1024 * 1024;

export function readSources(entry: SeedEntry, directory: string, configName: string): SeedSources {
  const hash = createHash('sha256');
  const { rows, objects } = entry;
  // Passwords are set once. They are not part of the hash, so that a change does not repeat the seed and no digest is
  // stored.
  const users = entry.users.map(({ password: _password, ...user }) => user);
  hash.update(JSON.stringify([entry.name, entry.onConflict, users]));
  const tables = rows.map(({ file, ...table }): SourceTable => {
    if (file === undefined) {
      const inline = table.rows.map(({ values, position }) => ({
        values,
        place: `${position.file ?? configName}:${position.line}`,
      }));
      hash.update(JSON.stringify([table.schema, table.table, inline.map(({ values }) => [...values])]));
      return { ...table, rows: inline, isText: false };
    }
    const bytes = readWhole(directory, file);
    hash.update(JSON.stringify([table.schema, table.table])).update(bytes);
    return { ...table, ...readRows(file, decodeText(bytes)) };
  });
  const found = objects.flatMap(({ bucket, folder }) => listFolder(directory, bucket, folder));
  for (const { bucket, name, path } of found)
    hash
      .update(JSON.stringify([bucket, name]))
      .update(createHash('sha256').update(readFileSync(path)).digest());
  const sql = entry.sql === undefined ? undefined : decodeText(readWhole(directory, entry.sql));
  hash.update(JSON.stringify(sql ?? null));
  return { tables, objects: found, sql, hash: hash.digest('hex') };
}

function readWhole(directory: string, file: string): Buffer {
  const bytes = readFileSync(join(directory, file));
  if (bytes.length <= MAX_BYTES) return bytes;
  throw new Problem('seed_too_large', 500, `${file} is larger than 100MB`, {
    hint: 'Load that much with psql, after svc seed.',
  });
}

function readRows(file: string, text: string): Pick<SourceTable, 'rows' | 'isText'> {
  const isText = extname(file).toLowerCase() === '.csv';
  try {
    const rows = isText ? csvRows(text) : jsonRows(file, text);
    return {
      isText,
      rows: rows.map((row, index) => {
        const values = row.map(([column, value]) => [column, { json: JSON.stringify(value) }] as const);
        return { values: new Map(values), place: `${file}, row ${index + 1}` };
      }),
    };
  } catch (cause) {
    const { message, hint } = cause as Partial<Problem>;
    throw new Problem('bad_seed_file', 500, `${file} cannot be read: ${message}`, {
      cause,
      hint: hint ?? 'CSV with a header line, a JSON list of objects, or one JSON object a line.',
    });
  }
}

type Fields = ReadonlyArray<readonly [column: string, value: unknown]>;

function csvRows(text: string): Fields[] {
  const { names, rows } = readCsv(text);
  return rows.map((cells) => names.map((name, index) => [name, cells[index] ?? null]));
}

function jsonRows(file: string, text: string): Fields[] {
  const rows = parseJson(file.toLowerCase().endsWith('.ndjson') ? linesToArray(text) : text);
  if (!Array.isArray(rows)) throw new Error('it is not a list of rows');
  return rows.map((row: unknown, index) => {
    if (typeof row === 'object' && row !== null && !Array.isArray(row)) return Object.entries(row);
    throw new Error(`row ${index + 1} is not an object`);
  });
}

/** The message of JSON.parse would repeat a part of the file. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('it is empty or not valid JSON');
  }
}

function linesToArray(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return `[${lines.join(',')}]`;
}

/**
 * Files whose names begin with a dot are the machine's own. What a link leads to outside of the project stays there.
 */
function listFolder(directory: string, bucket: string, folder: string): SourceObject[] {
  const root = join(directory, folder);
  const project = realpathSync(directory);
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .map((entry) => ({ entry, path: join(entry.parentPath, entry.name) }))
    .filter(({ entry, path }) => {
      if (
        relative(root, path)
          .split(sep)
          .some((part) => part.startsWith('.'))
      )
        return false;
      return entry.isFile() || (entry.isSymbolicLink() && realpathSync(path).startsWith(project + sep));
    })
    .map(({ path }) => ({ bucket, name: relative(root, path).split(sep).join('/'), path }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
