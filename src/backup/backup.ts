// The database at one moment, then every stored file that this moment names. Files are never changed under their names, and
// deletions wait, so nothing has to stop for it.
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
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
  digesting,
  folderOf,
  hashFile,
  keyCheckOf,
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

export type BackupOptions = {
  readonly target: Target;
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
  /** With it nobody reads the backup but those it is encrypted to. */
  readonly seal?: Seal | undefined;
};

export type BackupResult = {
  readonly id: string;
  /** In its target. */
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
  const folder = folderOf(id);
  const saver = await chooseSaver(options);
  await target.write(`${folder}/${BEGUN}`, text(''));
  await waitForPruning(target);
  return await whileHeld(owner, () =>
    oneTransaction({ address, access: 'read only', applicationName: 'svc-backup' }, async (session) => {
      const { server, ...snapshot } = await takeSnapshot(session);
      const writer = new PartWriter(target, folder, seal);
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
        keyCheck: keyCheckOf(options.secret),
      };
      await target.write(`${folder}/${MANIFEST}`, text(`${JSON.stringify(manifest, null, 2)}\n`));
      const whole = { ...manifest, ...hidden, blobs: { ...manifest.blobs, missing } };
      return { id, folder, manifest: whole, copied };
    }),
  ).catch(async (error: unknown) => {
    // What cannot be removed now goes with a later prune.
    await target.removeFolder(folder).catch(() => {});
    throw error;
  });
}

/** So that whoever removes old backups sees that one is being made. */
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
        const args = ['--format=custom', '--no-subscriptions', `--snapshot=${snapshot}`];
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

/** `wholly`: also of tables that are not logged, and of partitioned ones, whose rows are those of their partitions. */
export async function countRows(
  session: Queryable,
  { wholly }: { readonly wholly: boolean },
): Promise<Record<string, number>> {
  const tables = await session.query<{ schema: string; name: string }>(
    raw(`select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r'${wholly ? ", 'p'" : ''}) and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relpersistence in ('p'${wholly ? ", 'u'" : ''})
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
async function knownBlobs(target: Target, store: string): Promise<ReadonlyMap<string, BlobEntry>> {
  const known = new Map<string, BlobEntry>();
  for (const id of (await listBackups(target)).toReversed()) {
    const folder = folderOf(id);
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

/** What is in the target already: files there are written whole or not at all. */
async function asKept(
  target: Target,
  path: string,
  { version, size }: StoredBlob,
  known: BlobEntry | undefined,
  seal: Seal | undefined,
): Promise<BlobEntry | undefined> {
  const bytes = await target.sizeOf(path);
  if (bytes === undefined || (seal === undefined && bytes !== size)) return undefined;
  if (known?.bytes === bytes) return known;
  return { version, ...(await hashFile(target, path)), ...(seal === undefined ? {} : { size }) };
}

type StoredBlob = { readonly version: string; readonly size: number };

/** What encryption adds to a file, and more. */
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

/** Throws at the end unless it is as long as its row says, so that nothing else is kept under its name. */
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
        `A stored file has ${read} bytes, and its row says ${size}`,
        { details: version },
      );
    })(),
    { objectMode: false },
  );
}
