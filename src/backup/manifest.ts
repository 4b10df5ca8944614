// What a backup says of itself. It is written last: a folder without it is no backup.
import { createHash, createHmac, hkdfSync } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { hasCode } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';
import type { OpenFile } from './seal.ts';

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

/** Oldest first. */
export async function listBackups(target: string): Promise<string[]> {
  const names = await readdir(join(target, 'backups')).catch((error: unknown): string[] => {
    if (hasCode(error, 'ENOENT')) return [];
    throw error;
  });
  // Their names begin with the time.
  return names.toSorted(byText).filter((name) => existsSync(join(target, 'backups', name, MANIFEST)));
}

export async function readManifest(folder: string): Promise<Manifest> {
  const found = await readFile(join(folder, MANIFEST), 'utf8').catch((cause: unknown) => {
    throw new Problem('no_backup', 500, `There is no whole backup in ${folder}`, {
      hint: 'svc backup list --to <folder> names those that are whole.',
      cause,
    });
  });
  const said: unknown = JSON.parse(found);
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
export async function readWholeManifest(folder: string, open: OpenFile): Promise<Manifest> {
  const manifest = await readManifest(folder);
  if (manifest.recipients.length === 0) return manifest;
  const said: unknown = JSON.parse(await text(await open(join(folder, PRIVATE))));
  const { rows, beside, missing } = PRIVATE_PART.parse(said);
  return { ...manifest, rows, beside, blobs: { ...manifest.blobs, missing } };
}

export async function hashFile(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  return { bytes, sha256: hash.digest('hex') };
}

export function keyCheckOf(secret: string): string {
  const key = Buffer.from(hkdfSync('sha256', secret, 'svc backup', 'key check', 32));
  return createHmac('sha256', key).update('svc backup').digest('base64url');
}

export async function* readBlobs(folder: string): AsyncGenerator<BlobEntry> {
  const lines = await readFile(join(folder, BLOBS), 'utf8');
  for (const line of lines.split('\n')) if (line !== '') yield JSON.parse(line) as BlobEntry;
}

export function blobPath(target: string, store: string, version: string): string {
  return join(target, store, version.slice(0, 2), version);
}

function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
