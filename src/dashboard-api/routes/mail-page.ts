// The HTML of a mail as a page of its own. It is somebody else's words: it gets an origin of its own (CSP sandbox),
// runs no script, and its links open elsewhere without knowing from where. A frame's `srcdoc` would inherit the
// dashboard's policy, and lose the styles of the mail.
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { readJson } from '../json-body.ts';
import type { MailPage } from '../contract.ts';
import type { DashboardRoutes } from '../dashboard-context.ts';
import { Problem } from '../../problem/problem.ts';
import { notFound } from '../problem.ts';

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
/** Of a request line with all headers, Node takes 64 KB. */
const LONGEST_TOKEN = 48 * 1024;
const PURPOSE = 'dashboard mail preview';

/**
 * Previews of templates. What is shown is in the address itself, sealed: any instance can answer, and nobody else
 * can put words there.
 */
export const mailPageRoutes: DashboardRoutes = (app, context) => {
  const box = context.keyring.box(PURPOSE);

  const sealInAddress = async (request: FastifyRequest): Promise<MailPage> => {
    const { html } = await readJson(request, Body);
    const token = box.seal(deflateRawSync(html), '').toString('base64url');
    if (token.length > LONGEST_TOKEN) {
      throw new Problem('preview_too_large', 413, 'This mail is too large for a preview', {
        hint: 'Send it to yourself instead, and keep pictures out of the text.',
      });
    }
    return { path: `/auth/templates/page?token=${token}` };
  };

  app.post('/auth/templates/page', (request) => sealInAddress(request));

  app.get<{ Querystring: { token?: unknown } }>('/auth/templates/page', async ({ query }, reply) => {
    const sealed = Buffer.from(typeof query.token === 'string' ? query.token : '', 'base64url');
    const opened = box.open(sealed, '');
    if (opened === undefined) throw notFound('There is no such preview');
    return await sendMailPage(reply, inflateRawSync(opened).toString('utf8'));
  });
};
