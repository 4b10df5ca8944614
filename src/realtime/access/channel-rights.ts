// Reads the rights that policies on `realtime.messages` give a caller in a private channel. The read or write is tried
// in a transaction that is rolled back. Its rows go to an unlogged partition, which logical decoding never reads.
import { randomUUID } from 'node:crypto';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { Cache } from '../../lib/cache.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import type { RealtimeCounters } from '../counters.ts';
import { CallerTurns } from './caller-turns.ts';
import { PROBE_TIME } from '../../provision/steps/realtime.ts';

export type Extension = 'broadcast' | 'presence';
export type ReadRights = { readonly [Key in Extension]: boolean };
/** `x-…` headers of the request that opened the socket. */
export type PolicyHeaders = Readonly<Record<string, string>>;

const MAX_CACHED_ANSWERS = 10_000;
/** Answers are reused for this time. */
const CACHE_MS = 100;
/** Maximum age of an answer, while the number of channels allows checks at this interval. */
const LEASE_MS = 900;
const MAX_CHECKS_PER_SECOND = 250;
/** Requests use the remaining connections. One caller cannot use all probes. */
const MAX_PROBES = 4;
const MAX_PROBES_PER_CALLER = 3;

/** Caller whose rights are probed. */
export type ProbedCaller = {
  readonly caller: Caller;
  readonly headers: PolicyHeaders;
  /** The client's address. Undefined for channels that svc opens itself. */
  readonly address: string | undefined;
};

export const ALL_RIGHTS: ReadRights = { broadcast: true, presence: true };

export class ChannelRights {
  readonly #context: FeatureContext;
  readonly #counters: RealtimeCounters;
  /** Keyed by topic, caller and headers. Checks that arrive in the meantime wait for the same answer. */
  readonly #reads = new Cache<string, CachedAnswer<ReadRights>>(MAX_CACHED_ANSWERS);
  readonly #writes = new Cache<string, CachedAnswer<boolean>>(MAX_CACHED_ANSWERS);
  #version = 0;
  readonly #turns = new CallerTurns(MAX_PROBES, MAX_PROBES_PER_CALLER);
  /** Number of joined private channels. */
  watched = 0;

  constructor(context: FeatureContext, counters: RealtimeCounters) {
    this.#context = context;
    this.#counters = counters;
  }

  /** Validity of an answer in milliseconds. It grows with the number of private channels. */
  get leaseMs(): number {
    return Math.max(LEASE_MS, (this.watched / MAX_CHECKS_PER_SECOND) * 1_000);
  }

  /** Returns the read rights of both extensions. `topic` has no prefix `realtime:`. */
  async readRights(topic: string, probed: ProbedCaller): Promise<ReadRights> {
    const { caller, headers } = probed;
    if (caller.role === 'service_role') return ALL_RIGHTS;
    return await this.#cached(this.#reads, cacheKey(topic, caller, headers), probed, () =>
      this.#probeRead(topic, caller, headers),
    );
  }

  async canWrite(topic: string, extension: Extension, probed: ProbedCaller): Promise<boolean> {
    const { caller, headers } = probed;
    if (caller.role === 'service_role') return true;
    return await this.#cached(this.#writes, `${extension} ${cacheKey(topic, caller, headers)}`, probed, () =>
      this.#probeWrite(topic, extension, caller, headers),
    );
  }

  /** Caches answers until the file or the schema changes. Failures are not cached. */
  async #cached<T>(
    cache: Cache<string, CachedAnswer<T>>,
    key: string,
    { caller, address }: ProbedCaller,
    ask: () => Promise<T>,
  ): Promise<T> {
    const { version } = this.#context.snapshot();
    if (version !== this.#version) {
      this.#version = version;
      this.#reads.clear();
      this.#writes.clear();
    }
    const known = cache.get(key);
    if (known && performance.now() - known.at < CACHE_MS) return await known.answer;
    const probe = async (): Promise<T> => await this.#counters.timed('probe', ask);
    const answer = this.#turns.run(callerKey(caller, address), probe);
    const entry = { at: performance.now(), answer };
    cache.set(key, entry);
    try {
      return await entry.answer;
    } catch (error) {
      if (cache.get(key) === entry) cache.delete(key);
      throw error;
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

type CachedAnswer<T> = { readonly at: number; readonly answer: Promise<T> };

function cacheKey(topic: string, { role, claims }: Caller, headers: PolicyHeaders): string {
  return JSON.stringify([topic, role, claims, headers]);
}

/** Returns the caller with the settings that policies can read: the topic and the headers. */
export function withSettings(caller: Caller, topic: string, headers: PolicyHeaders = {}): Caller {
  return {
    ...caller,
    extra: [
      ['realtime.topic', topic],
      ['request.headers', JSON.stringify(headers)],
    ],
  };
}
