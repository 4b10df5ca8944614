// What policies on `realtime.messages` let a caller do in a private channel: found out by doing it, in a transaction that
// is rolled back. Rows for it go to a partition that is never logged and never decoded.
import { randomUUID } from 'node:crypto';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { Cache } from '../../lib/cache.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import type { Tally } from '../tally.ts';
import { PROBE_TIME } from '../../provision/steps/realtime.ts';

export type Extension = 'broadcast' | 'presence';
export type ReadRights = { readonly [Key in Extension]: boolean };
/** `x-…` headers of the request that opened the socket. */
export type PolicyHeaders = Readonly<Record<string, string>>;

const MOST_REMEMBERED = 10_000;
/** Whoever asks the same a moment later gets the same answer. */
const SAME_MS = 100;
/** How old an answer is at most, while so many channels can be asked about again that often. */
const LEASE_MS = 900;
const ASKED_PER_SECOND = 250;
/** Questions at once: the rest of the connections belongs to requests. */
const MOST_AT_ONCE = 4;
const EVERYTHING: ReadRights = { broadcast: true, presence: true };

export class ChannelRights {
  readonly #context: FeatureContext;
  readonly #tally: Tally;
  /** By what is asked and who asks; what is asked again meanwhile waits for the same answer. */
  readonly #reads = new Cache<string, Asked<ReadRights>>(MOST_REMEMBERED);
  readonly #writes = new Cache<string, Asked<boolean>>(MOST_REMEMBERED);
  #version = 0;
  #running = 0;
  readonly #waiting: Array<() => void> = [];
  /** Private channels that are joined. */
  watched = 0;

  constructor(context: FeatureContext, tally: Tally) {
    this.#context = context;
    this.#tally = tally;
  }

  /** How long an answer is trusted, in milliseconds: longer where there are many to ask about. */
  get leaseMs(): number {
    return Math.max(LEASE_MS, (this.watched / ASKED_PER_SECOND) * 1_000);
  }

  /** Both extensions at once. `topic` without `realtime:`. */
  async mayRead(topic: string, caller: Caller, headers: PolicyHeaders): Promise<ReadRights> {
    if (caller.role === 'service_role') return EVERYTHING;
    return await this.#remember(this.#reads, keyOf(topic, caller, headers), () =>
      this.#probeRead(topic, caller, headers),
    );
  }

  async mayWrite(
    topic: string,
    extension: Extension,
    caller: Caller,
    headers: PolicyHeaders,
  ): Promise<boolean> {
    if (caller.role === 'service_role') return true;
    return await this.#remember(this.#writes, `${extension} ${keyOf(topic, caller, headers)}`, () =>
      this.#probeWrite(topic, extension, caller, headers),
    );
  }

  /** With another file or schema, policies may say something else. What failed is asked again. */
  async #remember<T>(cache: Cache<string, Asked<T>>, key: string, ask: () => Promise<T>): Promise<T> {
    const { version } = this.#context.snapshot();
    if (version !== this.#version) {
      this.#version = version;
      this.#reads.clear();
      this.#writes.clear();
    }
    const known = cache.get(key);
    if (known && performance.now() - known.at < SAME_MS) return await known.answer;
    const asked = { at: performance.now(), answer: this.#inTurn(ask) };
    cache.set(key, asked);
    try {
      return await asked.answer;
    } catch (error) {
      if (cache.get(key) === asked) cache.delete(key);
      throw error;
    }
  }

  async #inTurn<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#running >= MOST_AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await this.#tally.timed('probe', ask);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  async #probeRead(topic: string, caller: Caller, headers: PolicyHeaders): Promise<ReadRights> {
    const broadcast = randomUUID();
    const presence = randomUUID();
    const [seen] = await this.#context.callers.run(
      withSettings(caller, topic, headers),
      [
        toWire(
          sql`select id from realtime.messages
            where inserted_at = ${PROBE_TIME}::timestamptz and id in (${broadcast}::uuid, ${presence}::uuid)`,
        ),
      ],
      {
        before: [toWire(sql`select realtime.begin_probe(${topic}, ${broadcast}::uuid, ${presence}::uuid)`)],
        rollback: true,
      },
    );
    const ids = new Set(seen?.rows.map(([id]) => id?.toString()));
    return { broadcast: ids.has(broadcast), presence: ids.has(presence) };
  }

  async #probeWrite(
    topic: string,
    extension: Extension,
    caller: Caller,
    headers: PolicyHeaders,
  ): Promise<boolean> {
    try {
      await this.#context.callers.run(
        withSettings(caller, topic, headers),
        [
          toWire(sql`insert into realtime.messages (topic, extension, event, private, inserted_at)
            values (${topic}, ${extension}, 'probe', true, ${PROBE_TIME}::timestamptz)`),
        ],
        { rollback: true },
      );
      return true;
    } catch (error) {
      if (isDatabaseError(error, 'insufficient_privilege')) return false;
      throw error;
    }
  }
}

type Asked<T> = { readonly at: number; readonly answer: Promise<T> };

function keyOf(topic: string, { role, claims }: Caller, headers: PolicyHeaders): string {
  return JSON.stringify([topic, role, claims, headers]);
}

/** The caller as policies see him: besides his claims they may ask for the topic and for headers. */
export function withSettings(caller: Caller, topic: string, headers: PolicyHeaders = {}): Caller {
  return {
    ...caller,
    extra: [
      ['realtime.topic', topic],
      ['request.headers', JSON.stringify(headers)],
    ],
  };
}
