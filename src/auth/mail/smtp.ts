// Any SMTP server, by URL: `smtp://user:password@host:587`, `smtps://…:465`.
import type { Transporter } from 'nodemailer';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

export type SmtpOptions = {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Without it, an attacker on the path can strip STARTTLS and read the password and the links. */
  readonly requireTLS: boolean;
  readonly auth?: { readonly user: string; readonly pass: string };
};

/** Undefined when the text is no SMTP URL. Gives no reason: the text may hold a password. */
export function readSmtpUrl(text: string): SmtpOptions | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const secure = url.protocol === 'smtps:';
  if ((!secure && url.protocol !== 'smtp:') || url.hostname === '') return undefined;
  const credentials = readCredentials(url);
  if (!credentials) return undefined;
  const { user, pass } = credentials;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const asked = url.searchParams.get('requireTLS');
  const isNear = host === 'localhost' || host === '::1' || host.startsWith('127.');
  return {
    host,
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    requireTLS: !secure && (asked === null ? user !== '' && !isNear : asked !== 'false'),
    ...(user === '' ? {} : { auth: { user, pass } }),
  };
}

function readCredentials(url: URL): { readonly user: string; readonly pass: string } | undefined {
  try {
    return { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) };
  } catch {
    // A percent sign that is no escape.
    return undefined;
  }
}

export function smtpTransport(url: string): MailTransport {
  const options = readSmtpUrl(url);
  const open = async (): Promise<Transporter> => {
    if (!options) {
      throw new MailFailure(
        'rejected',
        'SMTP: providers.email.url must look like smtp://user:password@host:587, with special characters percent-encoded',
      );
    }
    // Loaded at the first mail: most installations use another provider.
    const { createTransport } = await import('nodemailer');
    return createTransport({
      ...options,
      connectionTimeout: SEND_TIMEOUT_MS,
      greetingTimeout: SEND_TIMEOUT_MS,
      socketTimeout: SEND_TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
  let opened: Promise<Transporter> | undefined;
  return {
    name: 'smtp',
    isIdempotent: false,
    async send({ idempotencyKey, from, mail }) {
      try {
        const transport = await (opened ??= open());
        const domain =
          from
            .split('@')
            .at(-1)
            ?.replace(/[^\w.-]/g, '') ?? 'localhost';
        const sent = await transport.sendMail({
          from,
          // An object, because a string would be parsed as a list.
          to: { name: '', address: mail.to },
          subject: mail.subject,
          text: mail.text,
          ...(mail.html === undefined ? {} : { html: mail.html }),
          // The same id for every attempt: servers and mail programs drop the duplicate.
          messageId: `<${idempotencyKey}@${domain}>`,
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
        return sent.messageId;
      } catch (error) {
        throw toFailure(error);
      }
    },
    close() {
      opened?.then(
        (transport) => transport.close(),
        () => {},
      );
    },
  };
}

function toFailure(error: unknown): MailFailure {
  if (error instanceof MailFailure) return error;
  const message = `SMTP: ${error instanceof Error ? error.message : String(error)}`;
  if (wasNeverConnected(error)) return new MailFailure('retry', message, error);
  const { responseCode, command } = detailsOf(error);
  // The server answered: 4xx is temporary, 5xx is not (RFC 5321, 4.2.1).
  if (responseCode !== undefined)
    return new MailFailure(responseCode < 500 ? 'retry' : 'rejected', message, error);
  // No answer: only a connection lost after DATA can have delivered the mail.
  const mayBeAccepted = command === undefined || command === 'DATA';
  return new MailFailure(mayBeAccepted ? 'uncertain' : 'retry', message, error);
}

function detailsOf(error: unknown): { responseCode: number | undefined; command: string | undefined } {
  if (typeof error !== 'object' || error === null) return { responseCode: undefined, command: undefined };
  return {
    responseCode:
      'responseCode' in error && typeof error.responseCode === 'number' ? error.responseCode : undefined,
    command: 'command' in error && typeof error.command === 'string' ? error.command : undefined,
  };
}
