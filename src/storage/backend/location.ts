// Which place the bytes of this database are in, recorded at the first start. Another place would make every object a
// row without bytes, and its orphan scan would delete blobs that belong to others; two instances with a directory each
// would do that to one another.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { BlobMissing, unusable, type Backend, type S3Place } from './backend.ts';
import { MARK_FILE, StoreMark } from './store-mark.ts';

/** `storage.settings`, key `location`. Versions before the mark wrote one word: `local`, or `s3:<store>/<bucket>`. */
export type Location = S3Place | { readonly kind: 'local'; readonly id: string };

/** Input of `decide`. */
export type Situation = {
  readonly recorded: Location | string | undefined;
  readonly found: S3Place | { readonly kind: 'local'; readonly mark: string | undefined };
  /** True if rows exist that refer to bytes. */
  readonly stored: boolean;
  /** Bytes of this database were found in the directory. */
  readonly holdsBytes: boolean;
  /** True for a development instance, whose data does not justify an error. */
  readonly dev: boolean;
};

export type Decision =
  | { readonly kind: 'same' }
  /** Record the place. A directory gets the mark `id`, or a new one. */
  | { readonly kind: 'record'; readonly id?: string | undefined }
  /** The recorded directory without its mark, which is written again. */
  | { readonly kind: 'mark'; readonly id: string }
  | { readonly kind: 'elsewhere' };

export function decide({ recorded, found, stored, holdsBytes, dev }: Situation): Decision {
  if (found.kind === 's3') {
    if (recorded === undefined || recorded === wordFor(found)) return { kind: 'record' };
    if (typeof recorded === 'object' && recorded.kind === 's3' && samePlace(recorded, found))
      return { kind: 'same' };
    return stored ? { kind: 'elsewhere' } : { kind: 'record' };
  }
  const { mark } = found;
  if (typeof recorded === 'object' && recorded.kind === 'local') {
    if (mark === recorded.id) return { kind: 'same' };
    if (mark === undefined && holdsBytes) return { kind: 'mark', id: recorded.id };
    // Reject even without objects: otherwise another instance with its own directory would start, and its uploads
    // would be lost.
    return dev && !stored ? { kind: 'record', id: mark } : { kind: 'elsewhere' };
  }
  const wasLocal = recorded === undefined || recorded === 'local';
  return !stored || (wasLocal && holdsBytes) ? { kind: 'record', id: mark } : { kind: 'elsewhere' };
}

/** A few turns suffice: each lost race means that another instance has recorded something. */
const ATTEMPTS = 5;

/**
 * Checks that the place is the recorded one and records it the first time. Throws `storage_elsewhere`, and
 * `storage_directory` when the mark can be neither read nor written.
 */
export async function verifyLocation(
  owner: OwnerDatabase,
  backend: Backend,
  { dev = false }: { dev?: boolean } = {},
): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) if (await settle(owner, backend, dev)) return;
  throw new Error('other instances keep changing where the files are stored');
}

/** False when another instance was faster and all has to be looked at again. */
async function settle(owner: OwnerDatabase, backend: Backend, dev: boolean): Promise<boolean> {
  const { place } = backend;
  const recorded = await readRecorded(owner);
  const found =
    place instanceof StoreMark
      ? ({ kind: 'local', mark: await aboutDirectory(place.read()) } as const)
      : place;
  const { stored, versions } = await readStored(owner);
  const holdsBytes = found.kind === 'local' && stored && (await holdsAny(backend, versions));
  const decision = decide({ recorded, found, stored, holdsBytes, dev });
  if (decision.kind === 'elsewhere') throw await elsewhere(backend, recorded, found);
  if (!(place instanceof StoreMark))
    return decision.kind === 'same' || (await record(owner, recorded, place));
  const id = found.kind === 'local' ? found.mark : undefined;
  if (decision.kind === 'same') {
    if (id !== undefined) place.trust(id);
    return true;
  }
  const marked = id ?? (await aboutDirectory(place.create(decision.id)));
  if (decision.kind === 'mark') return marked === decision.id && (place.trust(marked), true);
  if (!(await record(owner, recorded, { kind: 'local', id: marked }))) return false;
  place.trust(marked);
  return true;
}

async function readRecorded(owner: OwnerDatabase): Promise<Location | string | undefined> {
  const [row] = await owner.query<{ value: Location | string }>(
    sql`select value from storage.settings where key = 'location'`,
  );
  return row?.value;
}

/** Returns false if another instance has recorded a place in the meantime. */
async function record(
  owner: OwnerDatabase,
  before: Location | string | undefined,
  location: Location,
): Promise<boolean> {
  const value = JSON.stringify(location);
  const rows =
    before === undefined
      ? await owner.query(sql`insert into storage.settings (key, value) values ('location', ${value}::jsonb)
          on conflict do nothing returning key`)
      : await owner.query(sql`update storage.settings set value = ${value}::jsonb
          where key = 'location' and value = ${JSON.stringify(before)}::jsonb returning key`);
  return rows.length > 0;
}

async function readStored(
  owner: OwnerDatabase,
): Promise<{ readonly stored: boolean; readonly versions: readonly string[] }> {
  const [row] = await owner.query<{ stored: boolean; versions: string[] }>(sql`
    select exists (select from storage.objects) or exists (select from storage.blob_gc) as stored,
      array(select version from storage.objects order by version limit 3) as versions`);
  return row ?? { stored: false, versions: [] };
}

async function holdsAny(backend: Backend, versions: readonly string[]): Promise<boolean> {
  for (const version of versions) {
    const isHere = await backend.read(version, 0).then(
      () => true,
      (error: unknown) => {
        if (error instanceof BlobMissing) return false;
        throw error;
      },
    );
    if (isHere) return true;
  }
  return false;
}

async function elsewhere(
  backend: Backend,
  recorded: Location | string | undefined,
  found: Situation['found'],
): Promise<Problem> {
  const { place } = backend;
  const where = place instanceof StoreMark ? `the directory ${place.directory}` : wordFor(place);
  if (typeof recorded !== 'object' || recorded.kind !== 'local' || !(place instanceof StoreMark)) {
    const old =
      typeof recorded === 'object'
        ? recorded.kind === 's3'
          ? wordFor(recorded)
          : `a directory with the mark ${recorded.id}`
        : recorded === undefined || recorded === 'local'
          ? 'another directory'
          : recorded;
    return new Problem('storage_elsewhere', 503, `The files of this project are in ${old}, not in ${where}`, {
      details: `${where} holds none of them.`,
      hint:
        'Copy blobs/ there first. Then let svc detect the location again: ' +
        "delete from storage.settings where key = 'location';",
    });
  }
  const mark = found.kind === 'local' ? found.mark : undefined;
  const this_ =
    mark !== undefined ? `has the mark ${mark}` : (await isEmpty(backend)) ? 'is empty' : 'has no mark';
  return new Problem(
    'storage_elsewhere',
    503,
    `The files are in a directory with the mark ${recorded.id}, this one ${this_}`,
    {
      details: `This one is ${place.directory} (providers.storage).`,
      hint:
        'Mount that one on every instance, or use S3. If this is to take its place: copy the files, ' +
        `then write {"id":"${recorded.id}"} to ${MARK_FILE} in it.`,
    },
  );
}

async function isEmpty(backend: Backend): Promise<boolean> {
  for await (const _blob of backend.list()) return false;
  return true;
}

async function aboutDirectory<T>(work: Promise<T>): Promise<T> {
  return await work.catch((cause: unknown) => {
    throw unusable(
      'storage_directory',
      'The storage directory',
      'providers.storage.local.path in svc.yaml must be a writable directory on one file system.',
      cause,
    );
  });
}

function samePlace(a: S3Place, b: S3Place): boolean {
  return a.endpoint === b.endpoint && a.bucket === b.bucket && a.prefix === b.prefix;
}

function wordFor({ endpoint, bucket }: S3Place): string {
  return `s3:${endpoint}/${bucket}`;
}
