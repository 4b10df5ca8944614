// The interface of mail providers and their failures. A failure states whether the mail was certainly not accepted, so
// that it can be sent again, or may have been accepted.
import type { Mail } from './compose.ts';

export type Delivery = {
  /** The same for all attempts to send one mail. */
  readonly idempotencyKey: string;
  readonly from: string;
  readonly mail: Pick<Mail, 'to' | 'subject' | 'html' | 'text'>;
};

export interface MailTransport {
  readonly name: string;
  /** True if a second attempt with the same key cannot send a second mail. */
  readonly isIdempotent: boolean;
  /** Returns the provider's id of the mail. Throws a `MailFailure`. */
  send(delivery: Delivery): Promise<string>;
  close(): void;
}

export class MailFailure extends Error {
  /**
   * `rejected`: the provider will never accept this mail. `retry`: not accepted now, try again.
   * `uncertain`: there was no response, so the mail may have been accepted.
   */
  readonly outcome: 'rejected' | 'retry' | 'uncertain';

  constructor(outcome: MailFailure['outcome'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'MailFailure';
    this.outcome = outcome;
  }
}

export const SEND_TIMEOUT_MS = 10_000;

/** Returns whether the connection failed. Then nothing was delivered. */
export function wasNeverConnected(error: unknown): boolean {
  const codes = [
    'ECONNREFUSED',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'UND_ERR_CONNECT_TIMEOUT',
  ];
  for (let current = error; current instanceof Error; current = current.cause) {
    if ('code' in current && typeof current.code === 'string' && codes.includes(current.code)) return true;
    if (current instanceof AggregateError) return current.errors.every((cause) => wasNeverConnected(cause));
  }
  return false;
}
