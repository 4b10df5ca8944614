// The outbox, and caught mail as pages: somebody's HTML, with links that sign people in.
import { Fields, isUuid } from '../../auth/fields.ts';
import { listOutbox, type OutboxEntry } from '../../auth/mail/outbox.ts';
import { readAuthSettings } from '../../auth/settings.ts';
import { Problem } from '../../problem/problem.ts';
import type { MailList, MailRow } from '../contract.ts';
import type { DashboardRoutes } from '../dashboard-context.ts';
import { sendMailPage } from './mail-page.ts';

const DEFAULT_LIMIT = 50;
const MOST = 500;

export const mailRoutes: DashboardRoutes = (app, context) => {
  const { owner, keyring } = context;
  const box = keyring.box('mail');

  app.get<{ Querystring: Record<string, unknown> }>('/mail', async ({ query }): Promise<MailList> => {
    const fields = new Fields(query);
    const limit = Math.min(Math.max(1, fields.count('limit') ?? DEFAULT_LIMIT), MOST);
    const { mail } = readAuthSettings(context.snapshot().config, context.env, context.dev);
    const entries = await listOutbox(owner, { limit, to: fields.filled('to'), box });
    return { caught: mail?.type === 'catch', mails: entries.map(toMail) };
  });

  app.get<{ Params: { id: string } }>('/mail/:id/html', async ({ params: { id } }, reply) => {
    const [entry] = isUuid(id) ? await listOutbox(owner, { limit: 1, id, box }) : [];
    if (entry?.html === undefined) {
      throw new Problem('mail_not_found', 404, 'There is no HTML of such a mail', {
        hint: 'Only mail that svc dev caught instead of sending can be read here.',
      });
    }
    return await sendMailPage(reply, entry.html);
  });
};

function toMail(entry: OutboxEntry): MailRow {
  return {
    id: entry.id,
    kind: entry.kind,
    to: entry.to,
    subject: entry.subject,
    state: entry.state,
    attempts: entry.attempts,
    lastError: entry.last_error,
    createdAt: entry.created_at.toISOString(),
    sentAt: entry.sent_at?.toISOString() ?? null,
    text: entry.text ?? null,
    hasHtml: entry.html !== undefined,
  };
}
