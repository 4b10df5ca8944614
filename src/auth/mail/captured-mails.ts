// Logs each mail that `svc dev` captures, with the code and the link that a developer needs next. The line is logged
// after the transaction of the mail has committed, because codes of a rolled-back transaction do not work.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { Mail } from './compose.ts';

/** A transaction that has not committed after this time was rolled back. */
const MAX_WAIT_MS = 60_000;

type Captured = { readonly fields: Readonly<Record<string, unknown>>; readonly since: number };

export class CapturedMails {
  readonly #db: OwnerDatabase;
  readonly #log: Log;
  readonly #waiting = new Map<string, Captured>();

  constructor(db: OwnerDatabase, log: Log) {
    this.#db = db;
    this.#log = log;
  }

  add(id: string, { kind, to, code, link }: Mail): void {
    this.#waiting.set(id, { fields: { kind, to, code, link }, since: performance.now() });
  }

  /** Logs the mails whose transaction has committed. */
  async log(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const ids = [...this.#waiting.keys()];
    const rows = await this.#db.query<{ id: string }>(
      sql`select id from auth.mail_outbox where id = any(${ids}::uuid[])`,
    );
    for (const { id } of rows) {
      this.#log.info(this.#waiting.get(id)?.fields, 'mail captured; /dashboard/mail shows it');
      this.#waiting.delete(id);
    }
    for (const [id, { since }] of this.#waiting)
      if (performance.now() - since > MAX_WAIT_MS) this.#waiting.delete(id);
  }
}
