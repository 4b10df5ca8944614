// Notices: mails that report a change of an account to its mailbox. They contain no link and no code, and are queued in
// the transaction of the change.
import type { NoticeKind } from '../../config/schema/names.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import { recordAudit } from '../audit.ts';
import type { AuthRequest } from '../http/request.ts';
import type { UserRow } from '../users/user.ts';
import { composeMail } from './compose.ts';
import type { TemplateValues } from './template.ts';

/** Minimum time between two notices of one kind to one user. */
const NOTICE_GAP_MS = 600_000;
const MAX_DEVICE_LENGTH = 200;

export type Notice = {
  readonly kind: NoticeKind;
  readonly user: UserRow;
  /** The recipient. Defaults to the address of the user. */
  readonly to?: string | null;
  readonly values?: TemplateValues;
};

/**
 * Queues a notice. The caller wakes the outbox after the commit. A mail limit never fails the reported
 * change.
 */
export async function queueNotice(db: Queryable, request: AuthRequest, notice: Notice): Promise<void> {
  const { auth, settings, now } = request;
  const { kind, user, to = user.email, values } = notice;
  if (!settings.mail || !settings.notices.has(kind) || !to) return;
  if (await wasSent(db, { kind, userId: user.id, since: new Date(now.getTime() - NOTICE_GAP_MS) })) return;
  try {
    await auth.limiter.mailSent(db, request);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 429) throw error;
    await recordAudit(db, request, 'notice_dropped', user, { notice: kind });
    return;
  }
  const common = {
    SiteURL: settings.redirectUrls[0] ?? request.authUrl.replace(/\/auth\/v1$/, ''),
    Email: user.email ?? to,
    SendingTo: to,
    Time: `${now.toISOString().slice(0, 16).replace('T', ' ')} UTC`,
    Device: request.userAgent?.slice(0, MAX_DEVICE_LENGTH) ?? '',
    Data: user.raw_user_meta_data,
  };
  const mail = composeMail(kind, to, { ...common, ...values }, settings.templates, (error) => {
    auth.log.error({ mail: kind, error: error.message }, 'a mail template in svc.yaml cannot be read');
  });
  await auth.outbox.enqueue(db, mail, user.id, now);
}

async function wasSent(
  db: Queryable,
  { kind, userId, since }: { readonly kind: NoticeKind; readonly userId: string; readonly since: Date },
): Promise<boolean> {
  const [sent] = await db.query(sql`
    select 1 from auth.mail_outbox
    where created_at > ${since} and kind = ${kind} and user_id = ${userId} limit 1`);
  return sent !== undefined;
}
