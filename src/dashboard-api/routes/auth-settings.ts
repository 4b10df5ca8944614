// GET /auth returns the settings without secrets. POST /auth/templates/preview renders a mail template like the real
// mail, with example values.
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { composeMail, findOverride } from '../../auth/mail/compose.ts';
import { defaultTexts } from '../../auth/mail/kinds.ts';
import { parseTemplate, TemplateError, type TemplateValues } from '../../auth/mail/template.ts';
import { readAuthSettings } from '../../auth/settings.ts';
import { MAIL_KINDS, MAIL_TEMPLATES, NOTICE_KINDS, type MailKind } from '../../config/schema/names.ts';
import { Problem } from '../../problem/problem.ts';
import { readJson } from '../request.ts';
import type { AuthSettings, MailPreview, MailTemplateInfo } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import type { DashboardRoutes } from './route.ts';

const PREVIEW = z.object({
  kind: z.string(),
  subject: z.string().max(2_000),
  body: z.string(),
  locale: z.string().max(35).optional(),
});

export const authSettingsRoutes: DashboardRoutes = (context) => [
  ['GET', '/auth', 'read', () => readSettings(context)],
  ['POST', '/auth/templates/preview', 'read', previewTemplate],
];

async function readSettings(context: DashboardContext): Promise<AuthSettings> {
  const { config } = context.snapshot();
  const settings = readAuthSettings(config, context.env, context.dev);
  const keys = await context.signingKeys.list();
  return {
    jwtExpirySeconds: settings.jwtExpirySeconds,
    refreshTokenExpirySeconds: settings.refreshTokenExpirySeconds,
    revocation: settings.sessions.revocation,
    allowSignup: settings.allowSignup,
    allowAnonymous: settings.allowAnonymous,
    redirectUrls: [...settings.redirectUrls],
    email: {
      enabled: settings.emailBlock,
      verifyEmail: settings.verifyEmail,
      provider: settings.mail?.type ?? null,
      from: settings.mail?.from ?? null,
    },
    oauth: config.auth.oauth.map(({ name, clientId, redirectUrl: callbackUrl }) => {
      return { name, enabled: true, clientId, callbackUrl };
    }),
    templates: MAIL_KINDS.map((kind): MailTemplateInfo => {
      const override = findOverride(kind, settings.templates);
      const ours = defaultTexts(kind, undefined);
      return {
        kind,
        name: Object.keys(settings.templates).find((name) => MAIL_TEMPLATES.get(name) === kind) ?? kind,
        custom: override !== undefined,
        subject: override?.subject ?? ours.subject,
        body: override?.body ?? ours.body,
        variables: Object.keys(exampleValues(kind, undefined)).flatMap((variable) =>
          variable === 'Data' ? ['.Data.<key>'] : [`.${variable}`],
        ),
      };
    }),
    signingKeys: keys.map(({ kid, alg, state, created_at }) => {
      return { kid, alg, state, createdAt: created_at.toISOString() };
    }),
  };
}

async function previewTemplate(request: FastifyRequest): Promise<MailPreview> {
  const { kind: name, subject, body, locale } = await readJson(request, PREVIEW);
  const kind = MAIL_TEMPLATES.get(name);
  if (!kind) {
    throw new Problem('unknown_mail', 404, `There is no mail kind ${name.slice(0, 100)}`, {
      hint: `One of ${MAIL_KINDS.join(', ')}.`,
    });
  }
  const texts = { subject, body };
  for (const part of ['subject', 'body'] as const) {
    const error = findTemplateError(texts[part]);
    if (error)
      return {
        ok: false,
        error: `${part}, ${describePosition(texts[part], error.offset)}: ${error.message}`,
      };
  }
  const values = exampleValues(kind, locale);
  const mail = composeMail(kind, 'ada@example.com', values, { [kind]: texts });
  return { ok: true, subject: mail.subject, html: mail.html ?? null, text: mail.text };
}

function findTemplateError(source: string): TemplateError | undefined {
  try {
    parseTemplate(source);
    return undefined;
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
}

function describePosition(text: string, offset: number): string {
  const before = text.slice(0, offset);
  return `line ${before.split('\n').length}, column ${before.length - before.lastIndexOf('\n')}`;
}

const NOTICE_VALUES: TemplateValues = {
  SiteURL: 'https://app.example.com',
  Email: 'ada@example.com',
  OldEmail: 'ada.old@example.com',
  SendingTo: 'ada@example.com',
  Time: '2026-05-03 12:00 UTC',
  Device: 'Mozilla/5.0',
  Provider: 'google',
  FactorType: 'totp',
  PasswordRemoved: true,
};

/** Returns example values for the variables of real mails. */
function exampleValues(kind: MailKind, locale: string | undefined): TemplateValues {
  const data = { name: 'Ada', full_name: 'Ada Example', ...(locale === undefined ? {} : { locale }) };
  if (NOTICE_KINDS.some((notice) => notice === kind)) return { ...NOTICE_VALUES, Data: data };
  const link = 'https://api.example.com/auth/v1/verify?token=example-token&type=example';
  return {
    ...(kind === 'reauthentication'
      ? {}
      : { ConfirmationURL: link, TokenHash: 'example-token', RedirectTo: 'https://app.example.com/welcome' }),
    Token: '123456',
    SiteURL: 'https://app.example.com',
    Email: 'ada@example.com',
    NewEmail: kind === 'email_change' ? 'ada.new@example.com' : '',
    SendingTo: kind === 'email_change' ? 'ada.new@example.com' : 'ada@example.com',
    Data: data,
  };
}
