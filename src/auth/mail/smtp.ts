// Any SMTP server, by URL: `smtp://user:password@host:587`, `smtps://…:465`.
import type { Transporter } from 'nodemailer';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

export function smtpTransport(url: string): MailTransport {
  const address = new URL(url);
  const open = async (): Promise<Transporter> => {
    // Loaded at the first mail: most servers send theirs another way.
    const { createTransport } = await import('nodemailer');
    return createTransport({
      host: address.hostname,
      port: Number(address.port) || (address.protocol === 'smtps:' ? 465 : 587),
      secure: address.protocol === 'smtps:',
      ...(address.username === ''
        ? {}
        : {
            auth: { user: decodeURIComponent(address.username), pass: decodeURIComponent(address.password) },
          }),
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
          to: mail.to,
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
      void opened?.then((transport) => transport.close());
    },
  };
}

function toFailure(error: unknown): MailFailure {
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
