// The HTML of a mail as a page of its own. It is somebody else's words: it gets an origin of its own (CSP sandbox),
// runs no script, and its links open elsewhere without knowing from where. A frame's `srcdoc` would inherit the
// dashboard's policy, and lose the styles of the mail.
import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { readJson } from './json-body.ts';
import type { MailPage } from './contract.ts';
import type { DashboardRoutes } from './dashboard-context.ts';
import { notFound } from './problem.ts';

const MAIL_CSP = [
  // Popups leave the sandbox: a sign-in page that may not run scripts would be of no use.
  'sandbox allow-popups allow-popups-to-escape-sandbox',
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src https: data:',
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

export async function sendMailPage(reply: FastifyReply, html: string): Promise<FastifyReply> {
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
    .send(`<!doctype html><base target="_blank">${html}`);
}

const Body = z.strictObject({ html: z.string() });
/** A page asks for the preview it just made; more are kept for those who type fast, or share the dashboard. */
const MOST_KEPT = 20;

/** Previews of templates: kept by this instance, until the next ones push them out. */
export const mailPageRoutes: DashboardRoutes = (app) => {
  const kept = new Map<string, string>();

  const keep = async (request: FastifyRequest): Promise<MailPage> => {
    const { html } = await readJson(request, Body);
    const id = randomUUID();
    kept.set(id, html);
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
    return { path: `/auth/templates/page/${id}` };
  };

  app.post('/auth/templates/page', (request) => keep(request));

  app.get<{ Params: { id: string } }>('/auth/templates/page/:id', async ({ params }, reply) => {
    const html = kept.get(params.id);
    if (html === undefined) throw notFound('This preview is not kept any more');
    return await sendMailPage(reply, html);
  });
};
