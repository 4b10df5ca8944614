// Numbers that only the database has: asked for when somebody reads the metrics, and the same on all instances.
import type { Metrics, Reading } from '../../log/metrics.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** However often the metrics are read. */
const ASK_EVERY_MS = 10_000;
/** A database that takes longer holds no reader up: the numbers come with the next text. */
const PATIENCE_MS = 1_000;
/** Older numbers are left out: a gap is seen, and an old number is believed. */
const LIVE_MS = 60_000;
/** Nobody needs to know how many more there are. */
const MOST_COUNTED = 100_000;
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
  #askedAt = Number.NEGATIVE_INFINITY;
  #readAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(db: OwnerDatabase) {
    this.#db = db;
  }

  /** Resolves when the numbers are there, or nobody should wait any longer. */
  async refresh(): Promise<void> {
    const now = performance.now();
    if (!this.#asking && now - this.#askedAt >= ASK_EVERY_MS) {
      this.#askedAt = now;
      this.#asking = this.#ask().finally(() => {
        this.#asking = undefined;
      });
    }
    if (!this.#asking) return;
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PATIENCE_MS);
    });
    await Promise.race([this.#asking, over]);
    clearTimeout(timer);
  }

  measure(metrics: Metrics): void {
    const read = (name: string, help: string, of: (figures: Figures) => number | Reading[]): void =>
      metrics.read(name, 'gauge', help, () => {
        const figures = performance.now() - this.#readAt < LIVE_MS ? this.#figures : undefined;
        return figures ? of(figures) : [];
      });
    read('svc_mail_outbox', 'Mails that were not sent yet, or not at all.', ({ mail }) =>
      MAIL_STATES.map((state) => ({ labels: { state }, value: mail[state] ?? 0 })),
    );
    read('svc_storage_deletions_pending', 'Stored files that wait to be deleted.', (one) => one.deletions);
    read('svc_storage_uploads_open', 'Resumable uploads that are not complete.', (one) => one.uploads);
    const ofBackups =
      (value: (backup: Figures['backups'][number]) => number | null) =>
      ({ backups }: Figures): Reading[] =>
        backups.flatMap((backup) => {
          const found = value(backup);
          return found === null ? [] : [{ labels: { target: backup.target }, value: found }];
        });
    read(
      'svc_backup_last_success_timestamp_seconds',
      'When the last whole backup was taken.',
      ofBackups(({ taken }) => taken),
    );
    read(
      'svc_backup_last_bytes',
      'Size of the last whole backup.',
      ofBackups(({ bytes }) => bytes),
    );
    read(
      'svc_backup_last_verified_timestamp_seconds',
      'When the last whole backup was verified.',
      ofBackups(({ verified }) => verified),
    );
  }

  /** What fails here fails for requests, too, and is told of there. */
  async #ask(): Promise<void> {
    try {
      const [row] = await this.#db.query<Figures>(sql`
        select
          (select coalesce(json_object_agg(state, n), '{}') from (
            select state, count(*)::int as n from auth.mail_outbox
            where state = any (${MAIL_STATES}) group by state) mails) as mail,
          (select count(*)::int from (select from storage.blob_gc limit ${MOST_COUNTED}) waiting) as deletions,
          (select count(*)::int from (
            select from storage.resumable_uploads where completed_at is null limit ${MOST_COUNTED}) open) as uploads,
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
