// The database at one moment, then every stored file that this moment names. Files are never changed under their names, and
// deletions wait, so nothing has to stop for it.
import { createHash, randomBytes } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Config } from '../config/config.ts';
import { packageVersion } from '../lib/own-files.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { type Connected, oneTransaction } from '../postgres/bulk/one-transaction.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { ident, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { BlobMissing, type Backend } from '../storage/backend/backend.ts';
import { whileHeld } from './deletion-hold.ts';
import {
  type BlobEntry,
  BLOBS,
  blobPath,
  CONFIG,
  DATABASE,
  FORMAT,
  hashFile,
  keyCheckOf,
  listBackups,
  type Manifest,
  MANIFEST,
  readBlobs,
} from './manifest.ts';
import { findTool, runTool, type PgTool } from './pg-tools.ts';
import { assertNothingBeside, assertUnchanged, readSchema } from './rows/saved-schema.ts';
import { saveRows } from './rows/save-rows.ts';

export type BackupOptions = {
  /** A folder. */
  readonly target: string;
  readonly owner: OwnerDatabase;
  /** What a dump is made as: it must be able to read everything. */
  readonly address: DatabaseAddress;
  /** Of the owner. */
  readonly ownAddress: DatabaseAddress;
  /** `auto`: PostgreSQL's program where there is one. */
  readonly engine: 'auto' | 'pg_dump' | 'copy';
  /** Without it the files stay out. */
  readonly backend: Backend | undefined;
  /** As it is served. */
  readonly config: Config;
  /** What the secrets in the database are sealed with. */
  readonly secret: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Objects whose bytes are gone are named in the manifest instead of ending the backup. */
  readonly skipMissing: boolean;
  /** Things in the database that only a dump would save are named in the manifest instead of ending the backup. */
  readonly allowMissing: boolean;
};

export type BackupResult = {
  readonly id: string;
  readonly folder: string;
  readonly manifest: Manifest;
  /** Files that the target did not have yet. */
  readonly copied: number;
};

const AT_ONCE = 8;
const BATCH = 1000;

/** Throws a Problem, and leaves no manifest behind, when anything cannot be read. */
export async function makeBackup(options: BackupOptions): Promise<BackupResult> {
  const { target, owner, ownAddress: address } = options;
  await mkdir(join(target, 'backups'), { recursive: true, mode: 0o700 });
  const previous = await knownBlobs(target);
  const id = `${new Date().toISOString().replaceAll(':', '').replace(/\.\d+/, '')}-${randomBytes(3).toString('hex')}`;
  const folder = join(target, 'backups', id);
  const saver = await chooseSaver(options);
  await mkdir(folder, { mode: 0o700 });
  return await whileHeld(owner, () =>
    oneTransaction({ address, access: 'read only', applicationName: 'svc-backup' }, async (session) => {
      const { server, ...snapshot } = await takeSnapshot(session);
      const saved = await saver.save(session, snapshot.name, folder);
      const { entries, copied, missing } = await copyBlobs(session, options, previous);
      await writeFile(join(folder, BLOBS), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''), {
        mode: 0o600,
      });
      await writeFile(join(folder, CONFIG), options.config.source.text, { mode: 0o600 });
      const parts: Record<string, { bytes: number; sha256: string }> = {};
      for (const name of [...saved.parts, BLOBS, CONFIG]) parts[name] = await hashFile(join(folder, name));
      const manifest: Manifest = {
        format: FORMAT,
        version: packageVersion(),
        takenAt: snapshot.at,
        postgres: server,
        engine: saver.engine,
        beside: [...saver.beside],
        parts,
        rows: { ...saved.rows },
        blobs: {
          count: entries.length,
          bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
          missing,
        },
        keyCheck: keyCheckOf(options.secret),
      };
      await writeDurably(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
      return { id, folder, manifest, copied };
    }),
  ).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
}

type Saved = { readonly parts: readonly string[]; readonly rows: Readonly<Record<string, number>> };

/** Writes the database as a snapshot has it. */
type Saver = {
  readonly engine: Manifest['engine'];
  readonly beside: readonly string[];
  save(session: Connected, snapshot: string, folder: string): Promise<Saved>;
};

async function chooseSaver({
  owner,
  address,
  config,
  engine,
  env,
  allowMissing,
}: BackupOptions): Promise<Saver> {
  const tool = engine === 'copy' ? undefined : await findDump(owner, env, engine);
  if (tool)
    return {
      engine: 'pg_dump',
      beside: [],
      async save(session, snapshot, folder) {
        const dump = join(folder, DATABASE);
        const args = ['--format=custom', '--no-subscriptions', `--snapshot=${snapshot}`, `--file=${dump}`];
        await runTool(tool, args, address);
        return { parts: [DATABASE], rows: await countRows(session) };
      },
    };
  const schema = await readSchema(owner, config);
  if (!allowMissing) assertNothingBeside(schema);
  return {
    engine: 'copy',
    beside: schema.beside,
    async save(session, _snapshot, folder) {
      await assertUnchanged(session, schema);
      return await saveRows(session, schema.model, folder);
    },
  };
}

async function findDump(
  owner: OwnerDatabase,
  env: BackupOptions['env'],
  engine: 'auto' | 'pg_dump',
): Promise<PgTool | undefined> {
  const [row] = await owner.query<{ major: number }>(
    raw(`select current_setting('server_version_num')::int / 10000 as major`),
  );
  const found = findTool('pg_dump', row?.major ?? 0, env);
  return await (engine === 'auto' ? found.catch(() => undefined) : found);
}

async function takeSnapshot(
  session: Queryable,
): Promise<{ readonly name: string; readonly at: string; readonly server: number }> {
  const [row] = await session.query<{ name: string; at: string; server: number }>(
    raw(`select pg_export_snapshot() as name, to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as at,
      current_setting('server_version_num')::int as server`),
  );
  if (!row) throw new Error('the server took no snapshot');
  return row;
}

/** Of all tables that are dumped with their rows. */
export async function countRows(session: Queryable): Promise<Record<string, number>> {
  const tables = await session.query<{ schema: string; name: string }>(
    raw(`select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relpersistence = 'p'
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      order by 1, 2`),
  );
  const counts: Record<string, number> = {};
  for (const { schema, name } of tables) {
    const [row] = await session.query<{ n: number }>(
      sql`select count(*)::float8 as n from ${ident(schema, name)}`,
    );
    counts[`${schema}.${name}`] = row?.n ?? 0;
  }
  return counts;
}

/** Hashes of what earlier backups of this target have. */
async function knownBlobs(target: string): Promise<ReadonlyMap<string, BlobEntry>> {
  const known = new Map<string, BlobEntry>();
  const last = (await listBackups(target)).at(-1);
  if (last !== undefined)
    for await (const entry of readBlobs(join(target, 'backups', last))) known.set(entry.version, entry);
  return known;
}

type Copied = { readonly entries: BlobEntry[]; readonly copied: number; readonly missing: string[] };

async function copyBlobs(
  session: Queryable,
  { target, backend, skipMissing }: BackupOptions,
  previous: ReadonlyMap<string, BlobEntry>,
): Promise<Copied> {
  if (!backend) return { entries: [], copied: 0, missing: [] };
  const entries: BlobEntry[] = [];
  const missing: string[] = [];
  let copied = 0;
  let after = '';
  for (;;) {
    const rows = await session.query<{ version: string; size: number; path: string }>(sql`
      select version, coalesce((metadata ->> 'size')::float8, 0) as size, bucket_id || '/' || name as path
      from storage.objects where version > ${after} order by version limit ${BATCH}`);
    after = rows.at(-1)?.version ?? '';
    const waiting = [...rows];
    const work = async (): Promise<void> => {
      for (let next = waiting.pop(); next; next = waiting.pop()) {
        const { version, size, path } = next;
        try {
          const had = await asKept(target, version, size, previous.get(version));
          if (!had) copied += 1;
          entries.push(had ?? (await copyBlob(backend, target, version, size)));
        } catch (error) {
          if (!(error instanceof BlobMissing)) throw error;
          missing.push(path);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (rows.length < BATCH) break;
  }
  missing.sort();
  if (missing.length > 0 && !skipMissing)
    throw new Problem('backup_blob_missing', 500, `${missing.length} stored files have no bytes`, {
      details: missing.slice(0, 10).join('\n'),
      hint: 'Delete or replace them, or go on without them: --skip-missing.',
    });
  entries.sort((a, b) => (a.version < b.version ? -1 : 1));
  return { entries, copied, missing };
}

/** What is in the target already: files there are written whole or not at all. */
async function asKept(
  target: string,
  version: string,
  size: number,
  known: BlobEntry | undefined,
): Promise<BlobEntry | undefined> {
  const path = blobPath(target, version);
  const stats = await stat(path).catch(() => undefined);
  if (stats?.size !== size) return undefined;
  return known?.bytes === size ? known : { version, ...(await hashFile(path)) };
}

async function copyBlob(backend: Backend, target: string, version: string, size: number): Promise<BlobEntry> {
  const path = blobPath(target, version);
  await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
  const found = await backend.read(version, size);
  const staged = `${path}.${randomBytes(4).toString('hex')}`;
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    await pipeline(
      Buffer.isBuffer(found) ? Readable.from([found]) : found,
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          hash.update(chunk);
          bytes += chunk.length;
          yield chunk;
        }
      },
      createWriteStream(staged, { mode: 0o600, flush: true }),
    );
    if (bytes !== size)
      throw new Problem(
        'backup_blob_size',
        500,
        `A stored file has ${bytes} bytes, and its row says ${size}`,
        {
          details: version,
        },
      );
    await rename(staged, path);
  } finally {
    if (existsSync(staged)) await rm(staged, { force: true });
  }
  return { version, bytes, sha256: hash.digest('hex') };
}

async function writeDurably(path: string, text: string): Promise<void> {
  const staged = `${path}.part`;
  const file = await open(staged, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(staged, path);
}
