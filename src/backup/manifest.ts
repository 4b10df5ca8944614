// Description of a backup. It is written last: a folder without a manifest is not a complete backup.
import { createHash, createHmac, hkdfSync } from 'node:crypto';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { Problem } from '../problem/problem.ts';
import type { OpenFile } from './seal.ts';
import { FileMissing, type Target } from './target/target.ts';

/** Newest supported format. Format 2 is encrypted. */
export const FORMAT = 2;
export const SEALED_FORMAT = 2;
export const PLAIN_FORMAT = 1;
/** File with the part of the manifest that is encrypted. */
export const PRIVATE = 'private.json';
export const MANIFEST = 'manifest.json';
export const DATABASE = 'database.dump';
export const BLOBS = 'blobs.jsonl';
export const CONFIG = 'svc.yaml';

const PART = z.object({ bytes: z.number(), sha256: z.string() });

const SCHEMA = z.object({
  format: z.number(),
  /** Version of svc. */
  version: z.string(),
  /** Time of the snapshot. */
  takenAt: z.string(),
  postgres: z.number(),
  /** The program that read the database: `pg_dump`, or svc itself, which copies the rows. */
  engine: z.enum(['pg_dump', 'copy']).default('pg_dump'),
  /** Database objects that the backup does not contain. Only with `copy`. */
  beside: z.array(z.string()).default([]),
  /** Keyed by file name. */
  parts: z.record(z.string(), PART),
  /** Rows by `schema.table`, at the snapshot. */
  rows: z.record(z.string(), z.number()),
  blobs: z.object({ count: z.number(), bytes: z.number(), missing: z.array(z.string()) }),
  /** Public keys that everything but this and the list of files is encrypted to. */
  recipients: z.array(z.string()).default([]),
  /** Name of the folder with the stored files, next to `backups`. */
  store: z.string().default('blobs'),
  /** Proves whether a secret can decrypt the values in the database, without revealing the secret. */
  keyCheck: z.string(),
});

export type Manifest = z.infer<typeof SCHEMA>;

/** A file that was stored, at the snapshot. */
export type BlobEntry = {
  readonly version: string;
  /** Size in the target. */
  readonly bytes: number;
  readonly sha256: string;
  /** Size before encryption. Absent without encryption. */
  readonly size?: number;
};

const BACKUPS = 'backups';

/** Returns the path relative to the target. */
export function backupFolder(id: string): string {
  return `${BACKUPS}/${id}`;
}

export type BackupFolder = { readonly id: string; readonly isWhole: boolean; readonly changedAt: Date };

/** Returns all folders, also incomplete ones. The oldest is first, because names begin with the time. */
export async function listFolders(target: Target): Promise<BackupFolder[]> {
  const found = new Map<string, BackupFolder>();
  for await (const { path, modifiedAt } of target.list(BACKUPS)) {
    const [, id = '', name] = path.split('/');
    const { isWhole = false, changedAt = modifiedAt } = found.get(id) ?? {};
    found.set(id, {
      id,
      isWhole: isWhole || name === MANIFEST,
      changedAt: changedAt > modifiedAt ? changedAt : modifiedAt,
    });
  }
  return [...found.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** Returns the complete backups, oldest first. */
export async function listBackups(target: Target): Promise<string[]> {
  return (await listFolders(target)).filter(({ isWhole }) => isWhole).map(({ id }) => id);
}

export async function readManifest(target: Target, folder: string): Promise<Manifest> {
  const source = await target.read(`${folder}/${MANIFEST}`).catch((cause: unknown) => {
    if (!(cause instanceof FileMissing)) throw cause;
    throw new Problem('no_backup', 500, `There is no whole backup in ${target.name}/${folder}`, {
      hint: 'svc backup list --to <place> names those that are whole.',
      cause,
    });
  });
  const said: unknown = JSON.parse(await text(source));
  const { data, error } = SCHEMA.safeParse(said);
  if (!data) throw new Problem('bad_backup', 500, `${folder} has no valid manifest`, { cause: error });
  if (data.format > FORMAT)
    throw new Problem('backup_too_new', 500, `${folder} was made by a newer svc (${data.version})`, {
      hint: 'Restore it with that version.',
    });
  return data;
}

const PRIVATE_PART = SCHEMA.pick({ rows: true, beside: true }).extend({ missing: z.array(z.string()) });

/** Returns the manifest including its encrypted part. */
export async function readWholeManifest(target: Target, folder: string, open: OpenFile): Promise<Manifest> {
  const manifest = await readManifest(target, folder);
  if (manifest.recipients.length === 0) return manifest;
  const said: unknown = JSON.parse(await text(await open(`${folder}/${PRIVATE}`)));
  const { rows, beside, missing } = PRIVATE_PART.parse(said);
  return { ...manifest, rows, beside, blobs: { ...manifest.blobs, missing } };
}

export type Digest = { readonly bytes: number; readonly sha256: string };

/** Passes a stream through and computes its digest, which is available after the stream has ended. */
export function digesting(source: AsyncIterable<Uint8Array>): {
  readonly passed: AsyncIterable<Uint8Array>;
  readonly digest: () => Digest;
} {
  const hash = createHash('sha256');
  let bytes = 0;
  async function* pass(): AsyncIterable<Uint8Array> {
    for await (const chunk of source) {
      hash.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  return { passed: pass(), digest: () => ({ bytes, sha256: hash.digest('hex') }) };
}

export async function hashFile(target: Target, path: string): Promise<Digest> {
  const { passed, digest } = digesting(await target.read(path));
  for await (const _ of passed);
  return digest();
}

export function computeKeyCheck(secret: string): string {
  const key = Buffer.from(hkdfSync('sha256', secret, 'svc backup', 'key check', 32));
  return createHmac('sha256', key).update('svc backup').digest('base64url');
}

export async function* readBlobs(target: Target, folder: string): AsyncGenerator<BlobEntry> {
  const input = await target.read(`${folder}/${BLOBS}`);
  for await (const line of createInterface({ input, crlfDelay: Infinity }))
    if (line !== '') yield JSON.parse(line) as BlobEntry;
}

/** Returns the path without the suffix of encrypted files. */
export function blobPath(store: string, version: string): string {
  return `${store}/${version.slice(0, 2)}/${version}`;
}
