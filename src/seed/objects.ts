// Files of a seed: their bytes go to the store before the transaction, their rows with it.
import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { must } from '../lib/assert.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import type { Backend } from '../storage/backend/backend.ts';
import { requireBucket, uploadRules } from '../storage/objects/bucket.ts';
import { abandonVersion, commitAsOwner, reserveVersion, type Commit } from '../storage/objects/commit.ts';
import { checkDeclaredType } from '../storage/objects/content-type.ts';
import { fileMetadata } from '../storage/objects/object.ts';
import { parseObjectPath } from '../storage/objects/object-path.ts';
import { mediaType } from './media-type.ts';
import type { SourceObject } from './seed-sources.ts';

/** Bytes that are stored and that nothing points at yet. */
export class StagedObjects {
  readonly #commits: Commit[] = [];
  readonly #owner: OwnerDatabase;

  constructor(owner: OwnerDatabase) {
    this.#owner = owner;
  }

  /** Stages a file, unless an object with the same bytes and type exists. */
  async stage(
    objects: readonly SourceObject[],
    { config, backend, now }: { readonly config: Config; readonly backend: Backend; readonly now: Date },
  ): Promise<void> {
    for (const { bucket, name, path } of objects) {
      const address = { bucket, name: parseObjectPath(name) };
      const bytes = readFileSync(path);
      const type = mediaType(name);
      const rules = uploadRules(requireBucket(config, bucket), name);
      if (bytes.length > rules.maxBytes) {
        throw new Problem('seed_refused', 500, `${path} is larger than bucket ${bucket} takes`, {
          hint: `Raise storage.${bucket}.max_size, or take the file out.`,
        });
      }
      checkDeclaredType(type, rules.types);
      const eTag = `"${createHash('md5').update(bytes).digest('hex')}"`;
      if (await this.#isThere(address, eTag, type)) continue;
      const version = randomUUID();
      await reserveVersion(this.#owner, version, address, new Date(now.getTime() + PENDING_MS));
      const metadata = fileMetadata(
        { contentType: type, cacheControl: 'max-age=3600' },
        bytes.length,
        eTag,
        now,
      );
      this.#commits.push({ ...address, version, ownerId: null, metadata, userMetadata: null });
      await backend.write(version, chunks(bytes), bytes.length);
    }
  }

  async commit(transaction: Queryable): Promise<number> {
    for (const commit of this.#commits) await commitAsOwner(transaction, commit);
    return this.#commits.length;
  }

  /** After a failure: the bytes are deleted by the next sweep. */
  async abandon(): Promise<void> {
    for (const { version } of this.#commits) await abandonVersion(this.#owner, version);
  }

  async #isThere(
    { bucket, name }: { bucket: string; name: string },
    eTag: string,
    type: string,
  ): Promise<boolean> {
    const row = must(
      await this.#owner.maybeOne<{ there: boolean }>(sql`
        select exists (select from storage.objects where bucket_id = ${bucket} and name = ${name}
          and metadata ->> 'eTag' = ${eTag} and metadata ->> 'mimetype' = ${type}) as there`),
      'a row',
    );
    return row.there;
  }
}

const PENDING_MS = 60 * 60_000;

// eslint-disable-next-line @typescript-eslint/require-await
async function* chunks(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
