// Any SMTP server, by URL: `smtp://user:password@host:587`, `smtps://…:465`.
import type { Transporter } from 'nodemailer';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

export type SmtpOptions = {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Without it a line in between can take STARTTLS out of the conversation and read password and links. */
  readonly requireTLS: boolean;
  readonly auth?: { readonly user: string; readonly pass: string };
};

/** Undefined when the text is no address of a mail server. Says nothing of why: the text may hold a password. */
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
    // A lone percent sign.
    return undefined;
  }
}

export function smtpTransport(url: string): MailTransport {
  const options = readSmtpUrl(url);
  const open = async (): Promise<Transporter> => {
    if (!options) {
      throw new MailFailure(
        'rejected',
        'SMTP: providers.email.url is not like smtp://user:password@host:587; signs in the password must be percent-encoded',
      );
    }
    // Loaded at the first mail: most servers send theirs another way.
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
        opened ??= open();
        const sent = await (
          await opened
        ).sendMail({
          from,
          // As an address, not as a list to be parsed.
          to: { name: '', address: mail.to },
          subject: mail.subject,
          text: mail.text,
          ...(mail.html === undefined ? {} : { html: mail.html }),
          // One message id for all attempts: servers and readers that see both drop one.
          messageId: `<${idempotencyKey}@${
            from
              .split('@')
              .at(-1)
              ?.replace(/[^\w.-]/g, '') ?? 'localhost'
          }>`,
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
  // A reply of the server says what happened: 4xx passes, 5xx does not (RFC 5321, 4.2.1).
  if (responseCode !== undefined)
    return new MailFailure(responseCode < 500 ? 'retry' : 'rejected', message, error);
  // Without a reply, only what was lost after the message began can have been accepted.
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
