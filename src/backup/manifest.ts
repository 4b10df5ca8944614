// What a backup says of itself. It is written last: a folder without it is no backup.
import { createHash, createHmac, hkdfSync } from 'node:crypto';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { Problem } from '../problem/problem.ts';
import type { OpenFile } from './seal.ts';
import { FileMissing, type Target } from './target/target.ts';

/** The newest that is known here: 2 is encrypted. */
export const FORMAT = 2;
export const SEALED_FORMAT = 2;
export const PLAIN_FORMAT = 1;
/** What a manifest says of the contents, where those are encrypted. */
export const PRIVATE = 'private.json';
export const MANIFEST = 'manifest.json';
export const DATABASE = 'database.dump';
export const BLOBS = 'blobs.jsonl';
export const CONFIG = 'svc.yaml';

const PART = z.object({ bytes: z.number(), sha256: z.string() });

const SCHEMA = z.object({
  format: z.number(),
  /** Of svc. */
  version: z.string(),
  /** When the snapshot was taken: nothing later is in it. */
  takenAt: z.string(),
  postgres: z.number(),
  /** What wrote the database: PostgreSQL's program, or svc itself, row by row. */
  engine: z.enum(['pg_dump', 'copy']).default('pg_dump'),
  /** Of `copy`: what was in the database and is not here. */
  beside: z.array(z.string()).default([]),
  /** By file name. */
  parts: z.record(z.string(), PART),
  /** Rows by `schema.table`, at the snapshot. */
  rows: z.record(z.string(), z.number()),
  blobs: z.object({ count: z.number(), bytes: z.number(), missing: z.array(z.string()) }),
  /** Public keys that everything but this and the list of files is encrypted to. */
  recipients: z.array(z.string()).default([]),
  /** The folder of the files beside `backups`. */
  store: z.string().default('blobs'),
  /** Tells whether a secret opens what is sealed in the database; says nothing else about it. */
  keyCheck: z.string(),
});

export type Manifest = z.infer<typeof SCHEMA>;

/** A file that was stored, at the snapshot. */
export type BlobEntry = {
  readonly version: string;
  /** As it lies there. */
  readonly bytes: number;
  readonly sha256: string;
  /** Of what is encrypted in it. */
  readonly size?: number;
};

const BACKUPS = 'backups';

/** In its target. */
export function folderOf(id: string): string {
  return `${BACKUPS}/${id}`;
}

export type BackupFolder = { readonly id: string; readonly isWhole: boolean; readonly changedAt: Date };

/** Also those that are being made, or were given up. Oldest first: their names begin with the time. */
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

/** Whole ones, oldest first. */
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

/** With what is encrypted of it. */
export async function readWholeManifest(target: Target, folder: string, open: OpenFile): Promise<Manifest> {
  const manifest = await readManifest(target, folder);
  if (manifest.recipients.length === 0) return manifest;
  const said: unknown = JSON.parse(await text(await open(`${folder}/${PRIVATE}`)));
  const { rows, beside, missing } = PRIVATE_PART.parse(said);
  return { ...manifest, rows, beside, blobs: { ...manifest.blobs, missing } };
}

export type Digest = { readonly bytes: number; readonly sha256: string };

/** Hands on what passes, and says what it was once all has passed. */
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

export function keyCheckOf(secret: string): string {
  const key = Buffer.from(hkdfSync('sha256', secret, 'svc backup', 'key check', 32));
  return createHmac('sha256', key).update('svc backup').digest('base64url');
}

export async function* readBlobs(target: Target, folder: string): AsyncGenerator<BlobEntry> {
  const input = await target.read(`${folder}/${BLOBS}`);
  for await (const line of createInterface({ input, crlfDelay: Infinity }))
    if (line !== '') yield JSON.parse(line) as BlobEntry;
}

/** Without the ending of encrypted files. */
export function blobPath(store: string, version: string): string {
  return `${store}/${version.slice(0, 2)}/${version}`;
}
