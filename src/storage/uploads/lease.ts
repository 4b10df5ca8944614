// The lease on a resumable upload: only the process that holds the lease writes, whichever process receives a
// request. A holder renews it while it works, and stops as soon as another request asks for it. The lease of a dead
// process expires.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { findResumable, toUpload, type ResumableUpload, type UploadRow } from './resumable-upload.ts';
import { lockedUpload, unknownUpload } from './tus.ts';

const LEASE_SECONDS = 15;
const RENEW_MS = 1_000;
/** Time without a renewal after which the holder stops writing, well before the lease expires for others. */
const TRUSTED_MS = 10_000;
const WAIT_MS = 5_000;
const POLL_MS = 100;

export type Lease = {
  readonly upload: ResumableUpload;
  readonly id: string;
  /** Aborts when another request asks for the lease. */
  readonly signal: AbortSignal;
  /** False once the lease may have expired. */
  readonly isValid: () => boolean;
};

export class UploadLeases {
  readonly #owner: Queryable;
  /** Stops a holder in this process at once; one in another process learns at its next renewal. */
  readonly #holders = new Map<string, () => void>();

  constructor(owner: Queryable) {
    this.#owner = owner;
  }

  async hold<T>(version: string, work: (lease: Lease) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const upload = await this.#acquire(version, id);
    const stop = new AbortController();
    // Monotonic: a changed system clock must not extend a lease.
    let renewedAt = performance.now();
    this.#holders.set(version, () => stop.abort());
    const renewal = setInterval(() => {
      this.#renew(version, id).then(
        (renewed) => {
          if (renewed) renewedAt = performance.now();
          else stop.abort();
        },
        () => {},
      );
    }, RENEW_MS);
    try {
      const isValid = (): boolean => performance.now() - renewedAt < TRUSTED_MS;
      return await work({ upload, id, signal: stop.signal, isValid });
    } finally {
      clearInterval(renewal);
      this.#holders.delete(version);
      await this.#release(version, id).catch(() => {});
    }
  }

  async #acquire(version: string, id: string): Promise<ResumableUpload> {
    const deadline = performance.now() + WAIT_MS;
    for (;;) {
      const upload = await this.#tryAcquire(version, id);
      if (upload) return upload;
      if (!(await findResumable(this.#owner, version))) throw unknownUpload();
      if (performance.now() > deadline) throw lockedUpload();
      this.#holders.get(version)?.();
      await delay(POLL_MS);
    }
  }

  /** Undefined while another request holds the lease, which is then asked to stop. */
  async #tryAcquire(version: string, id: string): Promise<ResumableUpload | undefined> {
    const [row] = await this.#owner.query<UploadRow>(sql`
      update storage.resumable_uploads
      set writer = ${id}, writer_until = now() + make_interval(secs => ${LEASE_SECONDS}), wanted_by = null
      where version = ${version} and (writer is null or writer_until < now())
      returning *`);
    if (row) return toUpload(row);
    await this.#owner.query(
      sql`update storage.resumable_uploads set wanted_by = ${id} where version = ${version} and writer is not null`,
    );
    return undefined;
  }

  /** False when the lease is gone or wanted. */
  async #renew(version: string, id: string): Promise<boolean> {
    const [row] = await this.#owner.query<{ wanted_by: string | null }>(sql`
      update storage.resumable_uploads set writer_until = now() + make_interval(secs => ${LEASE_SECONDS})
      where version = ${version} and writer = ${id} returning wanted_by`);
    return row !== undefined && row.wanted_by === null;
  }

  async #release(version: string, id: string): Promise<void> {
    await this.#owner.query(sql`
      update storage.resumable_uploads set writer = null, writer_until = null
      where version = ${version} and writer = ${id}`);
  }
}
