// Mail is queued in a table, in the transaction that creates its link. So a failing provider loses nothing, and a
// rolled-back request sends nothing. If the provider cannot detect duplicates, delivery is at most once: a mail that
// may have been accepted is marked uncertain and not sent again.
import type { SecretBox } from '../../lib/secret-box.ts';
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { randomUUID } from 'node:crypto';
import { isJsonObject } from '../fields.ts';
import { wireAddress } from '../users/email-address.ts';
import { isCaptured, type MailSettings } from '../settings.ts';
import { CapturedMails } from './captured-mails.ts';
import type { Mail } from './compose.ts';
import { makeTransport } from './make-transport.ts';
import { MailFailure, type MailTransport } from './transport.ts';

export type OutboxState = 'pending' | 'sending' | 'sent' | 'failed' | 'uncertain' | 'caught';

type OutboxRow = {
  id: string;
  kind: string;
  recipient: string;
  subject: string;
  content: Buffer | null;
  attempts: number;
  created_at: Date;
};

export type OutboxOptions = {
  readonly db: OwnerDatabase;
  readonly box: SecretBox;
  readonly settings: () => MailSettings | undefined;
  readonly now: () => Date;
  readonly log: Log;
  /** Replaces the transport in tests. */
  readonly transport?: ((settings: MailSettings) => MailTransport) | undefined;
};

const LEASE_MS = 60_000;
const BATCH = 10;
/** Interval of the check for due retries and for mail that other instances left unfinished. */
const POLL_MS = 5_000;
const RETRY_AFTER_MS = [5_000, 20_000, 60_000, 180_000, 420_000, 900_000, 1_200_000];
/** Maximum age of a mail. Its links are valid this long, so a later delivery would only confuse. */
const MAIL_LIFETIME_MS = 3_600_000;

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #captured: CapturedMails;
  #transport: { readonly key: string; readonly transport: MailTransport } | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #poll: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.#captured = new CapturedMails(options.db, options.log);
  }

  start(): void {
    this.#poll = setInterval(() => this.wake(), POLL_MS);
    this.#poll.unref();
  }

  /** Queues a mail. Call `wake` after the transaction has committed. */
  async enqueue(db: Queryable, mail: Mail, userId: string | null, now: Date): Promise<void> {
    const settings = this.#options.settings();
    if (!settings) throw new Error('a mail was queued, but no provider is configured');
    const captured = isCaptured(settings, mail.to);
    const id = randomUUID();
    const content = this.#options.box.seal(
      Buffer.from(JSON.stringify({ html: mail.html, text: mail.text })),
      id,
    );
    await db.query(sql`
      insert into auth.mail_outbox (id, kind, user_id, recipient, subject, content, state, next_attempt_at, created_at)
      values (${id}, ${mail.kind}, ${userId}, ${mail.to}, ${mail.subject}, ${content},
        ${captured ? 'caught' : 'pending'}, ${now}, ${now})`);
    if (captured) this.#captured.add(id, mail);
  }

  /** Starts to deliver due mail in the background. */
  wake(): void {
    if (this.#closed) return;
    this.#again = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  /** Resolves when the current delivery has ended. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#poll);
    await this.#running;
    this.#transport?.transport.close();
  }

  async #run(): Promise<void> {
    while (this.#again && !this.#closed) {
      this.#again = false;
      try {
        await this.#captured.log();
        while ((await this.deliverDue()) === BATCH && !this.#closed);
      } catch (error) {
        this.#options.log.warn({ err: error, job: 'mail outbox' }, 'cannot read the mail outbox');
      }
    }
  }

  /** Delivers one batch. Returns the number of its mails. */
  async deliverDue(): Promise<number> {
    const settings = this.#options.settings();
    if (!settings || settings.type === 'catch') return 0;
    const transport = this.#transportFor(settings);
    const { db, now, log } = this.#options;
    const started = now();
    if (!transport.isIdempotent) {
      const lost = await db.query<{ id: string }>(sql`
        update auth.mail_outbox set state = 'uncertain', lease_until = null, content = null,
          last_error = 'The process ended while sending the mail; it may have arrived.'
        where state = 'sending' and lease_until <= ${started} returning id`);
      for (const { id } of lost) log.warn({ mail: id }, 'a mail may have been sent, or not');
    }
    const rows = await db.query<OutboxRow>(sql`
      update auth.mail_outbox set state = 'sending', attempts = attempts + 1, transport = ${transport.name},
        lease_until = ${new Date(started.getTime() + LEASE_MS)}
      where id in (
        select id from auth.mail_outbox
        where (state = 'pending' and next_attempt_at <= ${started}) or (state = 'sending' and lease_until <= ${started})
        order by next_attempt_at limit ${BATCH} for update skip locked)
      returning id, kind, recipient, subject, content, attempts, created_at`);
    await Promise.all(rows.map((row) => this.#deliver(row, transport, settings)));
    return rows.length;
  }

  async #deliver(row: OutboxRow, transport: MailTransport, settings: MailSettings): Promise<void> {
    const { db, now, log } = this.#options;
    // An instance with other settings queued this mail, such as the instance whose database was copied.
    if (isCaptured(settings, row.recipient)) {
      await db.query(
        sql`update auth.mail_outbox set state = 'caught', lease_until = null where id = ${row.id}`,
      );
      return;
    }
    const content = openContent(this.#options.box, row);
    if (!content)
      return await this.#settle(
        row.id,
        'failed',
        'The mail was sealed with a keyring that no longer exists.',
      );
    if (now().getTime() - row.created_at.getTime() > MAIL_LIFETIME_MS)
      return await this.#settle(row.id, 'failed', 'Not delivered before its link expired.');
    const mail = {
      to: wireAddress(row.recipient),
      subject: row.subject,
      ...content,
    };
    try {
      const messageId = await transport.send({ idempotencyKey: row.id, from: settings.from, mail });
      await db.query(sql`
        update auth.mail_outbox set state = 'sent', sent_at = ${now()}, message_id = ${messageId}, content = null,
          lease_until = null, last_error = null
        where id = ${row.id}`);
    } catch (error) {
      const failure =
        error instanceof MailFailure ? error : new MailFailure('uncertain', String(error), error);
      const canRetry =
        failure.outcome === 'retry' || (failure.outcome === 'uncertain' && transport.isIdempotent);
      const pause = RETRY_AFTER_MS[row.attempts - 1];
      log.warn(
        { mail: row.id, kind: row.kind, attempt: row.attempts, error: failure.message },
        'a mail was not sent',
      );
      if (!canRetry || pause === undefined) {
        const state = failure.outcome === 'uncertain' ? 'uncertain' : 'failed';
        return await this.#settle(row.id, state, failure.message);
      }
      await db.query(sql`
        update auth.mail_outbox set state = 'pending', next_attempt_at = ${new Date(now().getTime() + pause)},
          lease_until = null, last_error = ${failure.message.slice(0, 1000)}
        where id = ${row.id}`);
    }
  }

  async #settle(id: string, state: 'failed' | 'uncertain', error: string): Promise<void> {
    await this.#options.db.query(sql`
      update auth.mail_outbox set state = ${state}, last_error = ${error.slice(0, 1000)}, content = null,
        lease_until = null
      where id = ${id}`);
  }

  #transportFor(settings: MailSettings): MailTransport {
    const key = JSON.stringify(settings);
    if (this.#transport?.key === key) return this.#transport.transport;
    this.#transport?.transport.close();
    const transport = (this.#options.transport ?? makeTransport)(settings);
    this.#transport = { key, transport };
    return transport;
  }
}

function openContent(
  box: SecretBox,
  row: Pick<OutboxRow, 'id' | 'content'>,
): Pick<Mail, 'html' | 'text'> | undefined {
  const opened = row.content ? box.open(row.content, row.id) : undefined;
  if (!opened) return undefined;
  const content: unknown = JSON.parse(opened.toString('utf8'));
  if (!isJsonObject(content) || typeof content['text'] !== 'string') return undefined;
  return { text: content['text'], html: typeof content['html'] === 'string' ? content['html'] : undefined };
}

/**
 * A mail as the CLI and the dashboard show it. Only captured mail has content; other content is for the
 * recipient.
 */
export type OutboxEntry = {
  id: string;
  kind: string;
  to: string;
  subject: string;
  state: OutboxState;
  attempts: number;
  last_error: string | null;
  created_at: Date;
  sent_at: Date | null;
  html?: string | undefined;
  text?: string | undefined;
};

export async function listOutbox(
  db: Queryable,
  options: {
    readonly limit: number;
    readonly to?: string | undefined;
    readonly id?: string | undefined;
    readonly box?: SecretBox | undefined;
  },
): Promise<OutboxEntry[]> {
  const { to = null, id = null } = options;
  const rows = await db.query<OutboxEntry & { content: Buffer | null }>(sql`
    select id, kind, recipient as "to", subject, state, attempts, last_error, created_at, sent_at, content
    from auth.mail_outbox where (${to}::text is null or recipient = ${to}) and (${id}::uuid is null or id = ${id})
    order by created_at desc, id limit ${options.limit}`);
  return rows.map(({ content, ...entry }) => {
    if (!options.box || entry.state !== 'caught') return entry;
    return { ...entry, ...openContent(options.box, { id: entry.id, content }) };
  });
}
