// Everything that deletes bytes. Versions that lost their object wait in `blob_gc`; uploads that were given up
// are moved there when they expire; references that asked for it take their object with them. Any instance may
// do any of it: rows are claimed with SKIP LOCKED, and deleting twice is the same as deleting once.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Backend } from '../backend/backend.ts';

export type CleanupOptions = {
  readonly owner: OwnerDatabase;
  readonly backend: () => Backend;
  readonly log: Log;
  /** Bytes outlive their object this long, for downloads that found the row just before it went. */
  readonly graceMs?: number | undefined;
  readonly pollMs?: number | undefined;
};

const BATCH = 100;
const DEFAULT_GRACE_MS = 60_000;
const DEFAULT_POLL_MS = 5_000;
/** After this many failures a deletion is only tried once an hour and reported as an error. */
const ALERT_ATTEMPTS = 10;

type Job = { version: string; attempts: number; reason: string };

export class Cleanup {
  readonly #options: CleanupOptions;
  readonly #graceMs: number;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #hurried = false;
  #stopped = false;

  constructor(options: CleanupOptions) {
    this.#options = options;
    this.#graceMs = options.graceMs ?? DEFAULT_GRACE_MS;
  }

  start(): void {
    this.#timer = setInterval(() => this.nudge(), this.#options.pollMs ?? DEFAULT_POLL_MS);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** There may be something to do. */
  nudge(): void {
    if (this.#stopped) return;
    if (this.#running) {
      this.#again = true;
      return;
    }
    const graceMs = this.#hurried ? 0 : this.#graceMs;
    this.#hurried = false;
    this.#running = this.drain(graceMs)
      .then(() => {})
      .catch((error: unknown) => {
        if (!this.#stopped)
          this.#options.log.warn(
            { err: error, job: 'storage cleanup' },
            'storage cleanup failed; it will be tried again',
          );
      })
      .finally(() => {
        this.#running = undefined;
        if (this.#again) {
          this.#again = false;
          this.nudge();
        }
      });
  }

  /**
   * Room is needed: what is deleted goes without its grace. A download that had just found the row finds the object
   * gone, as it is.
   */
  hurry(): void {
    this.#hurried = true;
    this.nudge();
  }

  /** Everything at once, behind what already runs. */
  async sweep(): Promise<number> {
    // Rows claimed by the running turn would be skipped, not waited for.
    while (this.#running) await this.#running;
    return await this.drain(0);
  }

  /** Does everything that is due; returns how many blobs were deleted. */
  async drain(graceMs: number = this.#graceMs): Promise<number> {
    while ((await this.#followReferences()) === BATCH) if (this.#stopped) return 0;
    await this.#expirePending();
    let deleted = 0;
    for (;;) {
      const batch = await this.#deleteBatch(graceMs);
      deleted += batch;
      if (batch < BATCH || this.#stopped) return deleted;
    }
  }

  /** Rows went away whose column asked to take the object along. */
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
        // The rights of whoever wrote the reference, taken then and for what was there then; rows of the project itself
        // mean whatever has the name. An object that came later counts as the writer's if they own it.
        const same =
          job.writer_sub === null ||
          job.object_id === null ||
          (job.object_id === object.id && job.object_owner === object.owner_id);
        if (!(job.granted && same) && (job.writer_sub === null || job.writer_sub !== object.owner_id)) {
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

  async #expirePending(): Promise<void> {
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
      const jobs = await transaction.query<Job>(sql`
        select version, attempts, reason from storage.blob_gc
        where queued_at <= now() - make_interval(secs => ${graceMs / 1000}) and retry_at <= now()
        order by retry_at limit ${BATCH} for update skip locked`);
      if (jobs.length === 0) return 0;
      // A version that an object points at again (rows restored by hand) is no longer to be deleted.
      const live = new Set(
        (
          await transaction.query<{ version: string }>(
            sql`select version from storage.objects where version = any (${jobs.map((job) => job.version)})`,
          )
        ).map((row) => row.version),
      );
      const doomed = jobs.filter((job) => !live.has(job.version));
      const failures = await backend().remove(
        doomed.map(({ version, reason }) => ({ version, staged: reason === 'abandoned' })),
      );
      const done = jobs.filter((job) => !failures.has(job.version)).map((job) => job.version);
      await transaction.query(sql`delete from storage.blob_gc where version = any (${done})`);
      for (const [version, error] of failures) {
        const attempts = (doomed.find((job) => job.version === version)?.attempts ?? 0) + 1;
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
      return jobs.length;
    });
  }
}
