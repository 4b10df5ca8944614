// Saves the rows of a snapshot, table by table. This backup needs no external program.
import { PassThrough, pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { type SchemaModel } from '../../migrate/schema/model.ts';
import { copyOut } from '../../postgres/bulk/copy.ts';
import type { Connected } from '../../postgres/bulk/one-transaction.ts';
import { readSequences } from '../../postgres/bulk/sequences.ts';
import { ident, join as list, raw, sql, type Sql } from '../../postgres/sql.ts';
import type { WriteFile } from '../write-file.ts';
import {
  OWN_SEQUENCES_APART,
  type SavedDatabase,
  type SavedPartition,
  type SavedTable,
  SCHEMA,
} from './saved-database.ts';
import { reportProgress } from '../../lib/progress.ts';

/** svc's own tables whose rows have no meaning in another database, or are recreated there. */
const NOT_SAVED = [
  'storage.pending_blobs',
  'storage.blob_gc',
  'storage.resumable_uploads',
  'storage.settings',
  'storage.deletion_hold',
  'svc_meta.run',
  'svc_meta.step',
  'svc_meta.object',
  'svc_meta.stamp',
  'svc_meta.provision_step',
  'svc_meta.instance_state',
  'svc_meta.dashboard_sessions',
  'svc_meta.backup',
  'svc_meta.restore',
];

/** Part of a table to save. */
export type Choice = {
  /** Written instead of the column. */
  readonly values?: ReadonlyMap<string, Sql>;
  /** Restricts the rows to save. */
  readonly where?: Sql;
};

type Found = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Null: it holds its rows itself. */
  readonly partitions: readonly SavedPartition[] | null;
};

/**
 * Writes the parts, and answers how many rows each table has. `choose`, of `schema.table`: undefined leaves the table
 * out.
 */
export async function saveRows(
  snapshot: Connected,
  model: SchemaModel,
  write: WriteFile,
  choose: (table: string) => Choice | undefined = () => ({}),
): Promise<Readonly<Record<string, number>>> {
  const tables: SavedTable[] = [];
  const tablesFound = await readFound(snapshot, model);
  for (const [index, found] of tablesFound.entries()) {
    const { schema, name, columns, partitions } = found;
    reportProgress(`saving ${schema}.${name}`, index + 1, tablesFound.length);
    const choice = choose(`${schema}.${name}`);
    if (choice === undefined) continue;
    const file = `data/${String(index + 1).padStart(4, '0')}.copy.gz`;
    const rows = await saveTable(snapshot, found, choice, (source) => write(file, source));
    tables.push({ schema, name, columns, file, rows, ...(partitions ? { partitions } : {}) });
  }
  const sequences = (await readSequences(snapshot, OWN_SEQUENCES_APART)).map(({ key, last }) => ({
    key,
    last,
  }));
  const saved: SavedDatabase = { model, tables, sequences };
  await write(SCHEMA, Readable.from([Buffer.from(JSON.stringify(saved))]));
  return Object.fromEntries(tables.map(({ schema, name, rows }) => [`${schema}.${name}`, rows]));
}

/** Returns the tables of the model and of svc, with their writable columns. */
async function readFound(snapshot: Connected, model: SchemaModel): Promise<Found[]> {
  const declared = new Map(
    model.tables.map(({ schema, name, columns }) => [
      `${schema}.${name}`,
      new Set(columns.map((column) => column.name)),
    ]),
  );
  const found = await snapshot.query<Found & { own: boolean }>(sql`
    select n.nspname as schema, c.relname as name, n.nspname in ('auth', 'storage', 'svc_meta') as own,
      (select coalesce(json_agg(a.attname order by a.attnum), '[]') from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
      case when c.relkind = 'p' then ${PARTITIONS} end as partitions
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition and (c.relpersistence = 'p'
      and n.nspname in ('auth', 'storage', 'svc_meta')
      or n.nspname || '.' || c.relname = any (${[...declared.keys()]}))
      and n.nspname || '.' || c.relname <> all (${NOT_SAVED})
    order by 1, 2`);
  return found.map(({ schema, name, own, columns, partitions }) => ({
    schema,
    name,
    partitions,
    columns: columns.filter((column) => own || declared.get(`${schema}.${name}`)?.has(column)),
  }));
}

/** The partitions of `c`, in the form of `SavedPartition`. */
const PARTITIONS = raw(`(select coalesce(json_agg(json_build_object('schema', pn.nspname, 'name', p.relname,
      'of', json_build_array(un.nspname, u.relname),
      'bound', pg_get_expr(p.relpartbound, p.oid), 'by', pg_get_partkeydef(p.oid))
      order by t.level, pn.nspname, p.relname), '[]')
    from pg_partition_tree(c.oid) t join pg_class p on p.oid = t.relid join pg_namespace pn on pn.oid = p.relnamespace
    join pg_class u on u.oid = t.parentrelid join pg_namespace un on un.oid = u.relnamespace where t.level > 0)`);

async function saveTable(
  { client }: Connected,
  { schema, name, columns, partitions }: Found,
  { values, where }: Choice,
  write: (source: Readable) => Promise<unknown>,
): Promise<number> {
  const table = ident(schema, name);
  const { text } =
    values === undefined && where === undefined && partitions === null
      ? sql`copy ${table} (${list(columns.map((column) => ident(column)))}) to stdout`.compile()
      : sql`copy (select ${list(columns.map((column) => values?.get(column) ?? ident(column)))}
        from ${raw(partitions ? '' : 'only')} ${table} where ${where ?? raw('true')}) to stdout`.compile();
  const plain = new PassThrough();
  const packed = createGzip({ level: 3 });
  pipeline(plain, packed, () => {});
  const written = write(packed);
  written.catch(() => {});
  const rows = await copyOut({ client, statement: text }, plain).finally(() => plain.end());
  await written;
  return rows;
}
