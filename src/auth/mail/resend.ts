// Sends mail through Resend's HTTP API. Its Idempotency-Key makes a retry harmless.
import { isJsonObject } from '../fields.ts';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

const DEFAULT_BASE_URL = 'https://api.resend.com';

export function resendTransport(apiKey: string, baseUrl: string = DEFAULT_BASE_URL): MailTransport {
  const endpoint = `${baseUrl.replace(/\/+$/, '')}/emails`;
  return {
    name: 'resend',
    isIdempotent: true,
    async send({ idempotencyKey, from, mail }) {
      const { to, subject, text, html } = mail;
      let response: Response;
      try {
        response = await fetch(endpoint, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${apiKey}`,
            'content-type': 'application/json',
            'idempotency-key': idempotencyKey,
          },
          body: JSON.stringify({ from, to: [to], subject, text, html }),
          redirect: 'error',
          signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
        });
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        throw new MailFailure(wasNeverConnected(error) ? 'retry' : 'uncertain', `Resend: ${message}`, error);
      }
      const answer: unknown = await response.json().catch(() => undefined);
      const fields = isJsonObject(answer) ? answer : {};
      if (response.ok) return typeof fields['id'] === 'string' ? fields['id'] : '';
      const reason = typeof fields['message'] === 'string' ? fields['message'] : '';
      const message = `Resend answered ${response.status}: ${reason}`;
      // 409: a request with the same key is in progress. 429: a quota. Both are temporary.
      const isTemporary = response.status >= 500 || response.status === 429 || response.status === 409;
      throw new MailFailure(isTemporary ? 'retry' : 'rejected', message);
    },
    close() {},
  };
}
