// The outbox, and caught mail as pages. A caught mail is somebody's HTML with links that sign people in: it gets an
// origin of its own (CSP sandbox), runs no script, and its links open elsewhere without knowing from where.
import { Fields, isUuid } from '../auth/fields.ts';
import { listOutbox, type OutboxEntry } from '../auth/mail/outbox.ts';
import { readAuthSettings } from '../auth/settings.ts';
import { Problem } from '../problem/problem.ts';
import type { MailList, MailRow } from './contract.ts';
import type { DashboardRoutes } from './dashboard-context.ts';

const DEFAULT_LIMIT = 50;
const MOST = 500;

const MAIL_CSP = [
  // Popups leave the sandbox: a sign-in page that may not run scripts would be of no use.
  'sandbox allow-popups allow-popups-to-escape-sandbox',
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src https: data:',
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

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
    return await reply
      .headers({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': MAIL_CSP,
        'x-frame-options': 'SAMEORIGIN',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        // A sandboxed page of its own window may not ask for more.
        'cross-origin-opener-policy': 'unsafe-none',
        'cache-control': 'no-store',
      })
      // Ahead of the mail's own words: of several, the first base counts.
      .send(`<!doctype html><base target="_blank">${entry.html}`);
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
