// The interface of mail providers, and what their failures mean: whether a mail was certainly not accepted, so that it can
// be sent again, or may already be on its way.
import type { Mail } from './compose.ts';

export type Delivery = {
  /** The same for every attempt of one mail. */
  readonly idempotencyKey: string;
  readonly from: string;
  readonly mail: Mail;
};

export interface MailTransport {
  readonly name: string;
  /** True when a second attempt with the same key cannot send a second mail. */
  readonly isIdempotent: boolean;
  /** The provider's id of the mail; throws a `MailFailure`. */
  send(delivery: Delivery): Promise<string>;
  close(): void;
}

export class MailFailure extends Error {
  /**
   * `rejected`: the provider will never take this mail. `retry`: not accepted now, try again.
   * `uncertain`: no answer came; it may have been accepted.
   */
  readonly outcome: 'rejected' | 'retry' | 'uncertain';

  constructor(outcome: MailFailure['outcome'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'MailFailure';
    this.outcome = outcome;
  }
}

export const SEND_TIMEOUT_MS = 10_000;

/** Without a connection nothing was delivered. */
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
    if (current instanceof AggregateError) return current.errors.every((one) => wasNeverConnected(one));
  }
  return false;
}
