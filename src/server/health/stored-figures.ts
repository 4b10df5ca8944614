// Metrics that are stored in the database. They are read when the metrics are requested, and are equal on all
// instances.
import type { Metrics, Reading } from '../../log/metrics.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** Minimum time between two reads. */
const READ_INTERVAL_MS = 10_000;
/** Maximum wait for the database. Late values are part of the next response. */
const MAX_WAIT_MS = 1_000;
/** Maximum age of a value. Older values are omitted, because a gap is noticed and an old value is not. */
const MAX_AGE_MS = 60_000;
/** Upper bound of a count, which limits the cost of counting. */
const MAX_COUNT = 100_000;
const MAIL_STATES = ['pending', 'sending', 'failed', 'uncertain'] as const;

type Figures = {
  readonly mail: Readonly<Record<string, number>>;
  readonly deletions: number;
  readonly uploads: number;
  readonly backups: ReadonlyArray<{
    readonly target: string;
    readonly taken: number;
    readonly bytes: number;
    readonly verified: number | null;
  }>;
};

export class StoredFigures {
  readonly #db: OwnerDatabase;
  #figures: Figures | undefined;
  #startedAt = Number.NEGATIVE_INFINITY;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(db: OwnerDatabase) {
    this.#db = db;
  }

  /** Reads the values. Resolves when they are available, or after a maximum wait. */
  async refresh(): Promise<void> {
    const now = performance.now();
    if (!this.#reading && now - this.#startedAt >= READ_INTERVAL_MS) {
      this.#startedAt = now;
      this.#reading = this.#read().finally(() => {
        this.#reading = undefined;
      });
    }
    if (!this.#reading) return;
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, MAX_WAIT_MS);
    });
    await Promise.race([this.#reading, over]);
    clearTimeout(timer);
  }

  measure(metrics: Metrics): void {
    const read = (name: string, help: string, select: (figures: Figures) => number | Reading[]): void =>
      metrics.read(name, 'gauge', help, () => {
        const figures = performance.now() - this.#readAt < MAX_AGE_MS ? this.#figures : undefined;
        return figures ? select(figures) : [];
      });
    read('svc_mail_outbox', 'Mails that are queued, or were not sent.', ({ mail }) =>
      MAIL_STATES.map((state) => ({ labels: { state }, value: mail[state] ?? 0 })),
    );
    read(
      'svc_storage_deletions_pending',
      'Stored files that are queued for deletion.',
      ({ deletions }) => deletions,
    );
    read('svc_storage_uploads_open', 'Resumable uploads that are not complete.', ({ uploads }) => uploads);
    const perBackup =
      (value: (backup: Figures['backups'][number]) => number | null) =>
      ({ backups }: Figures): Reading[] =>
        backups.flatMap((backup) => {
          const found = value(backup);
          return found === null ? [] : [{ labels: { target: backup.target }, value: found }];
        });
    read(
      'svc_backup_last_success_timestamp_seconds',
      'Time of the last complete backup.',
      perBackup(({ taken }) => taken),
    );
    read(
      'svc_backup_last_bytes',
      'Size of the last complete backup.',
      perBackup(({ bytes }) => bytes),
    );
    read(
      'svc_backup_last_verified_timestamp_seconds',
      'Time when the last complete backup was verified.',
      perBackup(({ verified }) => verified),
    );
  }

  /** Reads the values. Ignores errors: the same failure is logged for requests. */
  async #read(): Promise<void> {
    try {
      const [row] = await this.#db.query<Figures>(sql`
        select
          (select coalesce(json_object_agg(state, n), '{}') from (
            select state, count(*)::int as n from auth.mail_outbox
            where state = any (${MAIL_STATES}) group by state) mails) as mail,
          (select count(*)::int from (select from storage.blob_gc limit ${MAX_COUNT}) waiting) as deletions,
          (select count(*)::int from (
            select from storage.resumable_uploads where completed_at is null limit ${MAX_COUNT}) open) as uploads,
          (select coalesce(json_agg(json_build_object('target', target, 'taken', extract(epoch from taken_at),
            'bytes', bytes, 'verified', extract(epoch from verified_at)) order by target), '[]')
            from svc_meta.backup) as backups`);
      this.#figures = row;
      this.#readAt = performance.now();
    } catch {
      // The readings are left out once they are old.
    }
  }
}
