// One request at a time writes a resumable upload, whichever process it came to: it holds a lease in the database,
// renews it while it works, and gives way when another one wants to write.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Queryable } from '../../postgres/owner-database.ts';
import { dropLease, findResumable, renewLease, takeLease, type ResumableUpload } from './resumable-upload.ts';
import { lockedUpload, unknownUpload } from './tus.ts';

const RENEW_MS = 1_000;
const WRITER_WAIT_MS = 5_000;
const WRITER_POLL_MS = 100;

export type Leases = {
  readonly owner: Queryable;
  /** Writers of this process, so that one that is in the way here need not wait for its next renewal. */
  readonly writers: Map<string, () => void>;
};

export type Held = {
  readonly upload: ResumableUpload;
  readonly writer: string;
  /** Fires when somebody else wants to write. */
  readonly signal: AbortSignal;
  /** False when the lease may have expired: nothing more must be written then. */
  readonly mayWrite: () => boolean;
};

export async function underLease(
  { owner, writers }: Leases,
  version: string,
  work: (held: Held) => Promise<ResumableUpload>,
): Promise<ResumableUpload> {
  const writer = randomUUID();
  const upload = await waitForLease({ owner, writers }, version, writer);
  const stop = new AbortController();
  let renewedAt = performance.now();
  writers.set(version, () => stop.abort());
  const renewal = setInterval(() => {
    renewLease(owner, version, writer).then(
      (wanted) => {
        if (wanted) renewedAt = performance.now();
        else stop.abort();
      },
      () => {},
    );
  }, RENEW_MS);
  try {
    return await work({
      upload,
      writer,
      signal: stop.signal,
      // Well before the lease ends for the others, counted by a clock that nobody sets.
      mayWrite: () => performance.now() - renewedAt < 10_000,
    });
  } finally {
    clearInterval(renewal);
    writers.delete(version);
    await dropLease(owner, version, writer).catch(() => {});
  }
}

async function waitForLease(
  { owner, writers }: Leases,
  version: string,
  writer: string,
): Promise<ResumableUpload> {
  const deadline = performance.now() + WRITER_WAIT_MS;
  for (;;) {
    const upload = await takeLease(owner, version, writer);
    if (upload) return upload;
    if (!(await findResumable(owner, version))) throw unknownUpload();
    if (performance.now() > deadline) throw lockedUpload();
    writers.get(version)?.();
    await delay(WRITER_POLL_MS);
  }
}
