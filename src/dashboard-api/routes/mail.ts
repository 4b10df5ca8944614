// Lists the outbox and shows the HTML of mail that `svc dev` caught.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isUuid } from '../../auth/fields.ts';
import { listOutbox, type OutboxEntry } from '../../auth/mail/outbox.ts';
import { readAuthSettings } from '../../auth/settings.ts';
import { Problem } from '../../problem/problem.ts';
import type { MailList, MailRow } from '../contract.ts';
import { pathParameter, queryFields } from '../request.ts';
import { sendMailPage } from './mail-page.ts';
import type { DashboardRoutes } from './route.ts';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 500;

export const mailRoutes: DashboardRoutes = (context) => {
  const { owner, keyring } = context;
  const box = keyring.box('mail');

  const list = async (request: FastifyRequest): Promise<MailList> => {
    const fields = queryFields(request);
    const limit = Math.min(Math.max(1, fields.count('limit') ?? DEFAULT_LIMIT), MAX_LIMIT);
    const { mail } = readAuthSettings(context.snapshot().config, context.env, context.dev);
    const entries = await listOutbox(owner, { limit, to: fields.filled('to'), box });
    return { caught: mail?.type === 'catch', mails: entries.map(toMail) };
  };

  const show = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const id = pathParameter(request, 'id');
    const [entry] = isUuid(id) ? await listOutbox(owner, { limit: 1, id, box }) : [];
    if (entry?.html === undefined) {
      throw new Problem('mail_not_found', 404, 'There is no such mail, or it has no HTML', {
        hint: 'Only mail that svc dev caught instead of sending can be read here.',
      });
    }
    return sendMailPage(reply, entry.html);
  };

  return [
    ['GET', '/mail', 'read', list],
    ['GET', '/mail/:id/html', 'read', show],
  ];
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
