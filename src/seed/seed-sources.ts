// What an entry of `seed` brings along: rows as JSON with the place of each, the files of its folders, and a hash over
// all of it.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import type { SeedEntry, SeedTable, SeedValue } from '../config/config.ts';
import { Problem } from '../problem/problem.ts';
import { readPayload } from '../rest/request/body.ts';

export type SourceRow = {
  readonly values: ReadonlyMap<string, SeedValue>;
  /** `svc.yaml:12`, or `seed/todos.csv, row 3`. */
  readonly place: string;
};

export type SourceTable = Omit<SeedTable, 'rows' | 'file'> & { readonly rows: readonly SourceRow[] };

export type SourceObject = { readonly bucket: string; readonly name: string; readonly path: string };

export type SeedSources = {
  readonly tables: readonly SourceTable[];
  readonly objects: readonly SourceObject[];
  readonly sql: string | undefined;
  /** Of the entry and everything that it names; another one means that something was edited. */
  readonly hash: string;
};

/** More belongs into a dump. */
const MOST_BYTES = 100 * 1024 * 1024;

export function readSources(entry: SeedEntry, directory: string, configName: string): SeedSources {
  const hash = createHash('sha256');
  const { rows, objects } = entry;
  // A password is set once and is no reason to run again, and no digest of it is kept.
  const users = entry.users.map(({ password: _password, ...user }) => user);
  hash.update(JSON.stringify([entry.name, entry.onConflict, users]));
  const tables = rows.map(({ file, ...table }): SourceTable => {
    if (file === undefined) {
      const inline = table.rows.map(({ values, position }) => ({
        values,
        place: `${position.file ?? configName}:${position.line}`,
      }));
      hash.update(JSON.stringify([table.schema, table.table, inline.map(({ values }) => [...values])]));
      return { ...table, rows: inline };
    }
    const bytes = readWhole(directory, file);
    hash.update(JSON.stringify([table.schema, table.table])).update(bytes);
    return { ...table, rows: readRows(file, bytes) };
  });
  const found = objects.flatMap(({ bucket, folder }) => listFolder(directory, bucket, folder));
  for (const { bucket, name, path } of found)
    hash
      .update(JSON.stringify([bucket, name]))
      .update(createHash('sha256').update(readFileSync(path)).digest());
  const sql = entry.sql === undefined ? undefined : readWhole(directory, entry.sql).toString('utf8');
  hash.update(JSON.stringify(sql ?? null));
  return { tables, objects: found, sql, hash: hash.digest('hex') };
}

function readWhole(directory: string, file: string): Buffer {
  const bytes = readFileSync(join(directory, file));
  if (bytes.length <= MOST_BYTES) return bytes;
  throw new Problem('seed_too_large', 500, `${file} is larger than 100MB`, {
    hint: 'Load that much with psql, after svc seed.',
  });
}

function readRows(file: string, bytes: Buffer): SourceRow[] {
  const extension = extname(file).toLowerCase();
  try {
    const { bytes: json } =
      extension === '.ndjson'
        ? readPayload(linesToArray(bytes), 'json')
        : readPayload(bytes, extension === '.csv' ? 'csv' : 'json');
    const rows: unknown = JSON.parse(json.toString('utf8'));
    if (!Array.isArray(rows)) throw new Error('it holds no list of rows');
    return rows.map((row: unknown, index) => {
      const place = `${file}, row ${index + 1}`;
      if (typeof row !== 'object' || row === null || Array.isArray(row))
        throw new Error(`row ${index + 1} is no object`);
      const values = Object.entries(row).map(
        ([column, value]) => [column, { json: JSON.stringify(value) }] as const,
      );
      return { values: new Map(values), place };
    });
  } catch (cause) {
    const { message, hint } = cause as Partial<Problem>;
    throw new Problem('bad_seed_file', 500, `${file} cannot be read: ${message}`, {
      cause,
      hint: hint ?? 'CSV with a header line, a JSON list of objects, or one JSON object a line.',
    });
  }
}

function linesToArray(bytes: Buffer): Buffer {
  const lines = bytes
    .toString('utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
  return Buffer.from(`[${lines.join(',')}]`);
}

/** Files whose names begin with a dot are the machine's own. What a link leads to outside of the project stays there. */
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
