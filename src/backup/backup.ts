// Creates a backup: a snapshot of the database, then every stored file that the snapshot refers to. Stored files are
// never modified and their deletion is held back, so a backup needs no downtime.
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import type { Config } from '../config/config.ts';
import { packageVersion } from '../lib/package-files.ts';
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
  digesting,
  backupFolder,
  hashFile,
  computeKeyCheck,
  listBackups,
  type Manifest,
  MANIFEST,
  PLAIN_FORMAT,
  PRIVATE,
  readBlobs,
  readManifest,
  SEALED_FORMAT,
} from './manifest.ts';
import { findTool, pipeTool, type PgTool } from '../postgres/pg-tools.ts';
import { waitForPruning } from './prune.ts';
import { assertNothingBeside, assertUnchanged, readSchema } from './rows/saved-schema.ts';
import { saveRows } from './rows/save-rows.ts';
import { SEALED, storeFor, type Seal } from './seal.ts';
import type { Target } from './target/target.ts';
import { PartWriter, type WriteFile } from './write-file.ts';
import { reportProgress } from '../lib/progress.ts';

export type BackupOptions = {
  readonly target: Target;
  readonly owner: OwnerDatabase;
  /** Connection that creates the dump. Its role must be able to read every row. */
  readonly address: DatabaseAddress;
  /** Connection of the owner. */
  readonly ownAddress: DatabaseAddress;
  /** `auto` uses PostgreSQL's program if it is installed. */
  readonly engine: 'auto' | 'pg_dump' | 'copy';
  /** Object store to copy files from. Undefined leaves the files out. */
  readonly backend: Backend | undefined;
  /** The configuration that is being served. */
  readonly config: Config;
  /** Secret that encrypts values in the database. */
  readonly secret: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Lists objects without bytes in the manifest instead of failing the backup. */
  readonly skipMissing: boolean;
  /** Things in the database that only a dump would save are named in the manifest instead of ending the backup. */
  readonly allowMissing: boolean;
  /** Encrypts the backup for recipients. Undefined writes it unencrypted. */
  readonly seal?: Seal | undefined;
};

export type BackupResult = {
  readonly id: string;
  /** Path relative to the target. */
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
  const { seal } = options;
  const store = storeFor(seal?.recipients ?? []);
  const previous = await knownBlobs(target, store);
  const id = `${new Date().toISOString().replaceAll(':', '').replace(/\.\d+/, '')}-${randomBytes(3).toString('hex')}`;
  const folder = backupFolder(id);
  const saver = await chooseSaver(options);
  await target.write(`${folder}/${BEGUN}`, text(''));
  await waitForPruning(target);
  return await whileHeld(owner, () =>
    oneTransaction({ address, access: 'read only', applicationName: 'svc-backup' }, async (session) => {
      const { server, ...snapshot } = await createSnapshot(session);
      const writer = new PartWriter(target, folder, seal);
      reportProgress(saver.engine === 'pg_dump' ? 'running pg_dump' : 'saving rows');
      const rows = await saver.save(session, snapshot.name, writer.write);
      const { entries, copied, missing } = await copyBlobs(session, options, previous);
      await writer.writePlain(BLOBS, text(entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')));
      await writer.write(CONFIG, text(options.config.source.text));
      const hidden = { rows: { ...rows }, beside: [...saver.beside], missing };
      if (seal !== undefined) await writer.write(PRIVATE, text(JSON.stringify(hidden)));
      const shown = seal === undefined ? hidden : { rows: {}, beside: [], missing: [] };
      const manifest: Manifest = {
        format: seal === undefined ? PLAIN_FORMAT : SEALED_FORMAT,
        version: packageVersion(),
        takenAt: snapshot.at,
        postgres: server,
        engine: saver.engine,
        beside: shown.beside,
        parts: writer.parts,
        rows: shown.rows,
        blobs: {
          count: entries.length,
          bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
          missing: shown.missing,
        },
        recipients: [...(seal?.recipients ?? [])],
        store,
        keyCheck: computeKeyCheck(options.secret),
      };
      await target.write(`${folder}/${MANIFEST}`, text(`${JSON.stringify(manifest, null, 2)}\n`));
      const whole = { ...manifest, ...hidden, blobs: { ...manifest.blobs, missing } };
      return { id, folder, manifest: whole, copied };
    }),
  ).catch(async (error: unknown) => {
    // A later prune removes files that cannot be deleted now.
    await target.removeFolder(folder).catch(() => {});
    throw error;
  });
}

/** File that announces a backup in progress to a concurrent prune. */
const BEGUN = 'begun';

function text(content: string): Readable {
  return Readable.from([Buffer.from(content)]);
}

/** Writes the database as a snapshot has it. */
type Saver = {
  readonly engine: Manifest['engine'];
  readonly beside: readonly string[];
  /** Answers how many rows each table has. */
  save(session: Connected, snapshot: string, write: WriteFile): Promise<Readonly<Record<string, number>>>;
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
      async save(session, snapshot, write) {
        const args = [
          '--format=custom',
          '--no-subscriptions',
          // Each start revokes rights on functions of PostgreSQL, which only a superuser could restore.
          '--exclude-schema=pg_catalog',
          `--snapshot=${snapshot}`,
        ];
        await pipeTool(tool, args, address, async ({ stdout }) => await write(DATABASE, stdout));
        return await countRows(session, { wholly: false });
      },
    };
  const schema = await readSchema(owner, config);
  if (!allowMissing) assertNothingBeside(schema);
  return {
    engine: 'copy',
    beside: schema.beside,
    async save(session, _snapshot, write) {
      await assertUnchanged(session, schema);
      return await saveRows(session, schema.model, write);
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

async function createSnapshot(
  session: Queryable,
): Promise<{ readonly name: string; readonly at: string; readonly server: number }> {
  const [row] = await session.query<{ name: string; at: string; server: number }>(
    raw(`select pg_export_snapshot() as name, to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as at,
      current_setting('server_version_num')::int as server`),
  );
  if (!row) throw new Error('the server took no snapshot');
  return row;
}

/** `wholly`: also of tables that are not logged, and of partitioned ones, whose rows are those of their partitions. */
export async function countRows(
  session: Queryable,
  { wholly }: { readonly wholly: boolean },
): Promise<Record<string, number>> {
  const tables = await session.query<{ schema: string; name: string }>(
    raw(`select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r'${wholly ? ", 'p'" : ''}) and n.nspname !~ '^pg_'
        and n.nspname <> 'information_schema' and c.relpersistence in ('p'${wholly ? ", 'u'" : ''})
        and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
          and d.deptype = 'e')
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

/** Returns the hashes that earlier backups of this target recorded. */
async function knownBlobs(target: Target, store: string): Promise<ReadonlyMap<string, BlobEntry>> {
  const known = new Map<string, BlobEntry>();
  for (const id of (await listBackups(target)).toReversed()) {
    const folder = backupFolder(id);
    if ((await readManifest(target, folder)).store !== store) continue;
    for await (const entry of readBlobs(target, folder)) known.set(entry.version, entry);
    break;
  }
  return known;
}

type Copied = { readonly entries: BlobEntry[]; readonly copied: number; readonly missing: string[] };

async function copyBlobs(
  session: Queryable,
  { target, backend, skipMissing, seal }: BackupOptions,
  previous: ReadonlyMap<string, BlobEntry>,
): Promise<Copied> {
  if (!backend) return { entries: [], copied: 0, missing: [] };
  const entries: BlobEntry[] = [];
  const missing: string[] = [];
  let copied = 0;
  let done = 0;
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
        done += 1;
        reportProgress('copying files', done);
        try {
          const place =
            blobPath(storeFor(seal?.recipients ?? []), version) + (seal === undefined ? '' : SEALED);
          const had = await asKept(target, place, { version, size }, previous.get(version), seal);
          if (!had) copied += 1;
          entries.push(had ?? (await copyBlob(backend, target, place, { version, size }, seal)));
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

/**
 * Returns the entry of a file that the target already has. Targets write files atomically, so equal sizes suffice.
 */
async function asKept(
  target: Target,
  path: string,
  { version, size }: StoredBlob,
  known: BlobEntry | undefined,
  seal: Seal | undefined,
): Promise<BlobEntry | undefined> {
  const bytes = await target.readSize(path);
  if (bytes === undefined || (seal === undefined && bytes !== size)) return undefined;
  if (known?.bytes === bytes) return known;
  return { version, ...(await hashFile(target, path)), ...(seal === undefined ? {} : { size }) };
}

type StoredBlob = { readonly version: string; readonly size: number };

/** Upper bound of the growth through encryption. */
const SEALED_MORE = 1.1;

async function copyBlob(
  backend: Backend,
  target: Target,
  path: string,
  { version, size }: StoredBlob,
  seal: Seal | undefined,
): Promise<BlobEntry> {
  const found = await backend.read(version, size);
  const stored = Buffer.isBuffer(found) ? Readable.from([found]) : found;
  const sealed = seal === undefined ? undefined : await seal.wrap(whole(stored, version, size));
  const { passed, digest } = digesting(sealed ?? whole(stored, version, size));
  await target.write(path, passed, Math.ceil(size * SEALED_MORE) + 1_000);
  return { version, ...digest(), ...(seal === undefined ? {} : { size }) };
}

/**
 * Passes a file through and throws at its end if the size differs from the row, so that no wrong content is kept.
 */
function whole(source: AsyncIterable<Buffer>, version: string, size: number): Readable {
  return Readable.from(
    (async function* () {
      let read = 0;
      for await (const chunk of source) {
        read += chunk.length;
        yield chunk;
      }
      if (read === size) return;
      throw new Problem(
        'backup_blob_size',
        500,
        `A stored file has ${read} bytes instead of the recorded ${size}`,
        { details: version },
      );
    })(),
    { objectMode: false },
  );
}
