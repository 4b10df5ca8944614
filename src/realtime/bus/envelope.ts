// Signs the notifications of the bus, because any SQL session can send notifications. The signature covers the channel,
// the name of the instance, the number of the notification and its time, so that a notification cannot be replayed.
import type { MacKeys } from '../../identity/keyring.ts';
import { Cache } from '../../lib/cache.ts';

/** Clocks of instances may differ by this much. */
const MAX_AGE_MS = 120_000;
const MAX_SENDERS = 10_000;
/** SHA-256 in base64url. */
const MAC_LENGTH = 43;
const TAIL_LENGTH = ',""]'.length + MAC_LENGTH;
/** Bytes around the messages, at most. */
export const ENVELOPE_BYTES = 150;

export type Envelope = {
  /** Name of the instance, which changes with each start. */
  readonly from: string;
  /** Counts the notifications of the instance on the channel. */
  readonly number: number;
  readonly messages: readonly unknown[];
};

export class Envelopes {
  readonly #keys: MacKeys;
  readonly #now: () => number;
  /** Number of the last notification, keyed by instance and channel. */
  readonly #last = new Cache<string, number>(MAX_SENDERS);

  /** `now` in milliseconds since 1970. */
  constructor(keys: MacKeys, now: () => number = () => Date.now()) {
    this.#keys = keys;
    this.#now = now;
  }

  /** `messages`: JSON texts. */
  seal(channel: string, from: string, number: number, messages: readonly string[]): string {
    const head = `[${JSON.stringify(from)},${number},[${messages.join(',')}],${this.#now()}`;
    return `${head},"${this.#keys.sign(signed(channel, head)).toString('base64url')}"]`;
  }

  /** Returns undefined for a notification that is not signed by an instance, is too old, or is a replay. */
  open(channel: string, payload: string): Envelope | undefined {
    const head = payload.slice(0, -TAIL_LENGTH);
    const mac = Buffer.from(payload.slice(-TAIL_LENGTH + 2, -2), 'base64url');
    if (!this.#keys.verify(signed(channel, head), mac)) return undefined;
    const [from, number, messages, at] = JSON.parse(`${head}]`) as [string, number, unknown[], number];
    if (Math.abs(this.#now() - at) > MAX_AGE_MS) return undefined;
    const key = `${channel} ${from}`;
    if (number <= (this.#last.get(key) ?? 0)) return undefined;
    this.#last.set(key, number);
    return { from, number, messages };
  }
}

function signed(channel: string, head: string): string {
  return `${channel} ${head}`;
}
