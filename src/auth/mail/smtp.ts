// Sends mail through any SMTP server, by URL: `smtp://user:password@host:587`, `smtps://…:465`.
import type { Transporter } from 'nodemailer';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

export type SmtpOptions = {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** Prevents an attacker on the network path from stripping STARTTLS to read the password and the links. */
  readonly requireTLS: boolean;
  readonly auth?: { readonly user: string; readonly pass: string };
};

/**
 * Returns undefined if the text is not an SMTP URL. Gives no reason, because the text may contain a
 * password.
 */
export function readSmtpUrl(text: string): SmtpOptions | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const secure = url.protocol === 'smtps:';
  if ((!secure && url.protocol !== 'smtp:') || url.hostname === '') return undefined;
  const credentials = readCredentials(url);
  if (!credentials) return undefined;
  const { user, pass } = credentials;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const requireTlsParameter = url.searchParams.get('requireTLS');
  const isLoopback = host === 'localhost' || host === '::1' || host.startsWith('127.');
  return {
    host,
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    requireTLS:
      !secure &&
      (requireTlsParameter === null ? user !== '' && !isLoopback : requireTlsParameter !== 'false'),
    ...(user === '' ? {} : { auth: { user, pass } }),
  };
}

function readCredentials(url: URL): { readonly user: string; readonly pass: string } | undefined {
  try {
    return { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) };
  } catch {
    // The percent sign does not begin a valid escape.
    return undefined;
  }
}

export function smtpTransport(url: string): MailTransport {
  const options = readSmtpUrl(url);
  const open = new Set<Transporter>();
  return {
    name: 'smtp',
    isIdempotent: false,
    async send({ idempotencyKey, from, mail }) {
      if (!options) {
        throw new MailFailure(
          'rejected',
          'SMTP: providers.email.url must look like smtp://user:password@host:587, ' +
            'with special characters percent-encoded',
        );
      }
      const progress = new SendProgress();
      const transport = await openTransport(options, progress);
      open.add(transport);
      try {
        const sent = await transport.sendMail({
          from,
          // An object, because a string would be parsed as a list.
          to: { name: '', address: mail.to },
          subject: mail.subject,
          text: mail.text,
          ...(mail.html === undefined ? {} : { html: mail.html }),
          // The same id for every attempt, so that servers and mail programs drop duplicates.
          messageId: `<${idempotencyKey}@${domain(from)}>`,
          headers: { 'Auto-Submitted': 'auto-generated' },
        });
        return sent.messageId;
      } catch (error) {
        throw toFailure(error, progress);
      } finally {
        open.delete(transport);
        transport.close();
      }
    },
    close() {
      for (const transport of open) transport.close();
    },
  };
}

/** Opens a transport for one mail, so that the log of its connection concerns only this mail. */
async function openTransport(options: SmtpOptions, progress: SendProgress): Promise<Transporter> {
  // Loaded with the first mail, because most projects use another provider.
  const { createTransport } = await import('nodemailer');
  return createTransport({
    ...options,
    logger: progress,
    connectionTimeout: SEND_TIMEOUT_MS,
    greetingTimeout: SEND_TIMEOUT_MS,
    socketTimeout: SEND_TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/**
 * Reads from nodemailer's log whether the whole message was sent. The error of a closed connection does not
 * contain this
 * fact, and a server that has the whole message may deliver it.
 */
class SendProgress {
  isMessageSent = false;

  level(): void {}
  trace(): void {}
  debug(): void {}
  warn(): void {}
  error(): void {}
  fatal(): void {}

  info(entry: unknown): void {
    const isMessage =
      typeof entry === 'object' && entry !== null && 'tnx' in entry && entry.tnx === 'message';
    if (isMessage) this.isMessageSent = true;
  }
}

function domain(address: string): string {
  return (
    address
      .split('@')
      .at(-1)
      ?.replace(/[^\w.-]/g, '') ?? 'localhost'
  );
}

function toFailure(error: unknown, { isMessageSent }: SendProgress): MailFailure {
  const message = `SMTP: ${error instanceof Error ? error.message : String(error)}`;
  if (wasNeverConnected(error)) return new MailFailure('retry', message, error);
  const responseCode = readResponseCode(error);
  // The server answered: 4xx is temporary, 5xx is not (RFC 5321, 4.2.1).
  if (responseCode !== undefined)
    return new MailFailure(responseCode < 500 ? 'retry' : 'rejected', message, error);
  return new MailFailure(isMessageSent ? 'uncertain' : 'retry', message, error);
}

function readResponseCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('responseCode' in error)) return undefined;
  return typeof error.responseCode === 'number' ? error.responseCode : undefined;
}
