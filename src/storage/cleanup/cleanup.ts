// The worker that deletes bytes. `blob_gc` lists pending deletions: versions whose object was replaced or deleted,
// abandoned uploads once they expire, and objects deleted with a row that refers to them. Every instance runs one:
// rows are claimed with SKIP LOCKED, and deletions are idempotent.
import { parseDuration } from '../../lib/duration.ts';
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { Backend } from '../backend/backend.ts';

export type CleanupOptions = {
  readonly owner: OwnerDatabase;
  readonly backend: () => Backend;
  readonly log: Log;
  /** False while the bytes may be elsewhere: nothing is deleted then. */
  readonly usable?: (() => Promise<boolean>) | undefined;
  /** How long bytes outlive their object, for downloads that have just found its row; also when the storage is full. */
  readonly graceMs?: number | undefined;
  readonly pollMs?: number | undefined;
};

const BATCH = 100;
const DEFAULT_GRACE_MS = 60_000;
const DEFAULT_POLL_MS = 5_000;
/** Number of failures after which a deletion is logged as an error. */
const ALERT_ATTEMPTS = 10;

/** SVC_BLOB_GRACE; undefined where it is not set. */
export function blobGrace(env: Readonly<Record<string, string | undefined>>): number | undefined {
  const text = env['SVC_BLOB_GRACE'] ?? '';
  if (text === '') return undefined;
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new Problem('bad_blob_grace', 500, `SVC_BLOB_GRACE is ${JSON.stringify(text)}`, {
    hint: 'It is a duration, such as 7d: how long the bytes of a deleted file are kept.',
  });
}

type PendingDeletion = { version: string; attempts: number; reason: string };

export class Cleanup {
  readonly #options: CleanupOptions;
  readonly #graceMs: number;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #wokenAgain = false;
  #withoutGrace = false;
  #stopped = false;

  constructor(options: CleanupOptions) {
    this.#options = options;
    this.#graceMs = options.graceMs ?? DEFAULT_GRACE_MS;
  }

  start(): void {
    this.#timer = setInterval(() => this.wake(), this.#options.pollMs ?? DEFAULT_POLL_MS);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** There may be something to do. */
  wake(): void {
    if (this.#stopped) return;
    this.#wokenAgain = this.#running !== undefined;
    if (!this.#running) this.#running = this.#run();
  }

  /** The storage is full: deletes without the grace. A download that has just found the row gets a 404. */
  makeRoom(): void {
    // A configured grace period may be the only way to recover a file.
    this.#withoutGrace = this.#options.graceMs === undefined;
    this.wake();
  }

  async #run(): Promise<void> {
    try {
      const graceMs = this.#withoutGrace ? 0 : this.#graceMs;
      this.#withoutGrace = false;
      if ((await this.#options.usable?.()) !== false) await this.#drain(graceMs);
    } catch (err) {
      if (!this.#stopped)
        this.#options.log.warn(
          { err, job: 'storage cleanup' },
          'storage cleanup failed; it will be tried again',
        );
    } finally {
      this.#running = undefined;
      if (this.#wokenAgain) this.wake();
    }
  }

  /** Deletes everything pending without the grace, after the current run, which has claimed rows. */
  async sweep(): Promise<number> {
    while (this.#running) await this.#running;
    return await this.#drain(0);
  }

  /** Does everything that is due; returns the number of pending deletions dealt with. */
  async #drain(graceMs: number): Promise<number> {
    while ((await this.#followReferences()) === BATCH) if (this.#stopped) return 0;
    await this.#expireUploads();
    let deleted = 0;
    for (;;) {
      const batch = await this.#deleteBatch(graceMs);
      deleted += batch;
      if (batch < BATCH || this.#stopped) return deleted;
    }
  }

  /** Deletes objects whose referring row was deleted (`on_delete: cascade`). */
  async #followReferences(): Promise<number> {
    const { owner, log } = this.#options;
    return await owner.transaction(async (transaction) => {
      const jobs = await transaction.query<{
        id: string;
        bucket_id: string;
        object_key: string;
        granted: boolean;
        writer_sub: string | null;
        object_id: string | null;
        object_owner: string | null;
        rel: string | null;
      }>(sql`
        select id, bucket_id, object_key, granted, writer_sub, object_id, object_owner, rel from storage.ref_deletions
        order by id limit ${BATCH} for update skip locked`);
      for (const job of jobs) {
        const [object] = await transaction.query<{ id: string; owner_id: string | null; name: string }>(sql`
          select id, owner_id, name from storage.objects
          where id = storage.ref_object_id(${job.bucket_id}, ${job.object_key}) for update`);
        if (!object) continue;
        // Permission was checked when the reference was written, for the object of that time; a reference without a
        // writer is for any object of the name. An object that came later is deleted if the writer owns it.
        const isSameObject =
          job.writer_sub === null ||
          job.object_id === null ||
          (job.object_id === object.id && job.object_owner === object.owner_id);
        if (
          !(job.granted && isSameObject) &&
          (job.writer_sub === null || job.writer_sub !== object.owner_id)
        ) {
          log.warn({ bucket: job.bucket_id, table: job.rel }, 'ref.cascade.refused');
          continue;
        }
        await transaction.query(sql`
          delete from storage.objects o where o.id = ${object.id} and not exists (
            select from storage.object_refs r
            where r.bucket_id = ${job.bucket_id} and r.object_key in (${object.name}, ${object.id}))`);
      }
      if (jobs.length > 0)
        await transaction.query(
          sql`delete from storage.ref_deletions where id = any (${jobs.map((job) => job.id)}::bigint[])`,
        );
      return jobs.length;
    });
  }

  async #expireUploads(): Promise<void> {
    await this.#options.owner.query(sql`
      with expired as (
        delete from storage.pending_blobs where version in (
          select version from storage.pending_blobs where expires_at < now() limit 1000 for update skip locked)
        returning *
      )
      insert into storage.blob_gc (version, bucket_id, name, reason, queued_at)
      select version, bucket_id, name, 'abandoned', 'epoch' from expired
      on conflict (version) do nothing`);
    await this.#options.owner.query(
      sql`delete from storage.resumable_uploads where expires_at < now() - make_interval(days => 1)`,
    );
  }

  async #deleteBatch(graceMs: number): Promise<number> {
    const { owner, backend, log } = this.#options;
    return await owner.transaction(async (transaction) => {
      const pending = await transaction.query<PendingDeletion>(sql`
        select version, attempts, reason from storage.blob_gc
        where queued_at <= now() - make_interval(secs => ${graceMs / 1000}) and retry_at <= now()
          and not exists (select from storage.deletion_hold where expires_at > now())
        order by retry_at limit ${BATCH} for update skip locked`);
      if (pending.length === 0) return 0;
      // An object may refer to the version again, if rows were restored by hand.
      const versions = pending.map(({ version }) => version);
      const inUse = await transaction.query<{ version: string }>(
        sql`select version from storage.objects where version = any (${versions})`,
      );
      const live = new Set(inUse.map(({ version }) => version));
      const failures = await backend().remove(
        pending
          .filter(({ version }) => !live.has(version))
          .map(({ version, reason }) => ({ version, staged: reason === 'abandoned' })),
      );
      const done = versions.filter((version) => !failures.has(version));
      await transaction.query(sql`delete from storage.blob_gc where version = any (${done})`);
      for (const { version, attempts: before } of pending) {
        const error = failures.get(version);
        if (!error) continue;
        const attempts = before + 1;
        log[attempts < ALERT_ATTEMPTS ? 'warn' : 'error'](
          { err: error, version, attempts },
          'a blob could not be deleted',
        );
        const delaySeconds = Math.min(3600, 2 ** Math.min(attempts, 12));
        await transaction.query(sql`
          update storage.blob_gc set attempts = ${attempts}, last_error = ${error.message.slice(0, 500)},
            retry_at = now() + make_interval(secs => ${delaySeconds})
          where version = ${version}`);
      }
      return pending.length;
    });
  }
}
