// Serves the HTML of a mail as a separate page. Its content is not trusted: the page has its own origin (CSP
// sandbox), runs no scripts, and opens links without a referrer. A frame with `srcdoc` would inherit the dashboard's
// policy, which blocks the styles of the mail.
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { readJson } from '../request.ts';
import type { DashboardRoutes } from './route.ts';
import type { MailPage } from '../contract.ts';
import { Problem } from '../../problem/problem.ts';
import { notFound } from '../problem.ts';

const MAIL_CSP = [
  // Popups leave the sandbox, because sign-in pages need scripts.
  'sandbox allow-popups allow-popups-to-escape-sandbox',
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src https: data:',
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

export function sendMailPage(reply: FastifyReply, html: string): FastifyReply {
  return (
    reply
      .headers({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': MAIL_CSP,
        'x-frame-options': 'SAMEORIGIN',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        // Required for a sandboxed page in its own window.
        'cross-origin-opener-policy': 'unsafe-none',
        'cache-control': 'no-store',
      })
      // Insert the base element before the mail's HTML, because the first <base> applies.
      .send(`<!doctype html><base target="_blank">${html}`)
  );
}

const Body = z.strictObject({ html: z.string() });
/** Node accepts 64 KB of request line and headers. */
const MAX_TOKEN_LENGTH = 48 * 1024;
const PURPOSE = 'dashboard mail preview';

/**
 * Routes for previews of templates. The encrypted content is in the URL: any instance can serve it, and only svc can
 * create a preview.
 */
export const mailPageRoutes: DashboardRoutes = ({ keyring }) => {
  const box = keyring.box(PURPOSE);

  const sealInAddress = async (request: FastifyRequest): Promise<MailPage> => {
    const { html } = await readJson(request, Body);
    const token = box.seal(deflateRawSync(html), '').toString('base64url');
    if (token.length > MAX_TOKEN_LENGTH) {
      throw new Problem('preview_too_large', 413, 'This mail is too large for a preview', {
        hint: 'Send it to yourself instead, and link images instead of embedding them.',
      });
    }
    return { path: `/auth/templates/page?token=${token}` };
  };

  const show = ({ query }: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { token } = query as { readonly token?: unknown };
    const opened = box.open(Buffer.from(typeof token === 'string' ? token : '', 'base64url'), '');
    if (opened === undefined) throw notFound('There is no such preview');
    return sendMailPage(reply, inflateRawSync(opened).toString('utf8'));
  };

  return [
    ['POST', '/auth/templates/page', 'read', sealInAddress],
    ['GET', '/auth/templates/page', 'read', show],
  ];
};
