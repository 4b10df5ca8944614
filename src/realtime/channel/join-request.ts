// What a client asks for when it joins a channel. Read leniently: a part that cannot be read is as if it were absent,
// because clients of all ages join again and again until they succeed.
import { isObject } from '../gateway/message.ts';

/** A part of the changes of tables, in the words of the client, which compares them with the answer. */
export type RequestedBinding = {
  /** As it came; echoed with `id` beside it. */
  readonly echo: Readonly<Record<string, unknown>>;
  readonly event: string;
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly filter: string | undefined;
  readonly select: readonly string[] | undefined;
};

export type JoinRequest = {
  readonly broadcast: {
    /** Each broadcast is answered. */
    readonly ack: boolean;
    /** The sender receives its own broadcasts. */
    readonly self: boolean;
    readonly replay: Replay | undefined;
    /** Tells when messages from the database will come. */
    readonly replicationReady: boolean;
  };
  readonly presence: {
    /** Empty: one is made up. */
    readonly key: string;
    readonly enabled: boolean;
  };
  readonly changes: readonly RequestedBinding[];
  /** How long to wait until they come, in milliseconds; the join is refused if they do not. Undefined: nobody asked for that. */
  readonly waitForChangesMs: number | undefined;
  readonly private: boolean;
  readonly token: string | undefined;
};

/** Stored broadcasts asked for; undefined what is no usable number. */
export type Replay = {
  /** Milliseconds since 1970. */
  readonly since: number | undefined;
  readonly limit: number | undefined;
  /** Something was given that cannot be meant. */
  readonly isBroken: boolean;
};

export const MOST_REPLAYED = 25;
/** As the library documents them. */
const WAIT_MS = { usual: 15_000, most: 20_000 };

export function readJoin(payload: Readonly<Record<string, unknown>>): JoinRequest {
  const config = objectAt(payload, 'config');
  const broadcast = objectAt(config, 'broadcast');
  const presence = objectAt(config, 'presence');
  return {
    broadcast: {
      ack: flag(broadcast['ack']),
      self: flag(broadcast['self']),
      replay: readReplay(broadcast['replay']),
      replicationReady: flag(broadcast['replication_ready']),
    },
    presence: { key: text(presence['key']) ?? '', enabled: flag(presence['enabled']) },
    changes: readBindings(config['postgres_changes']),
    waitForChangesMs: readWait(objectAt(config, 'postgres_changes_options')),
    private: flag(config['private']),
    token: text(payload['access_token']) ?? text(payload['user_token']),
  };
}

function readBindings(value: unknown): RequestedBinding[] {
  if (!Array.isArray(value)) return [];
  return (value as unknown[]).filter(isObject).map((echo) => ({
    echo,
    event: text(echo['event']) ?? '*',
    schema: text(echo['schema']),
    table: text(echo['table']),
    filter: text(echo['filter']),
    select: readNames(echo['select']),
  }));
}

function readWait(options: Readonly<Record<string, unknown>>): number | undefined {
  if (!flag(options['wait'])) return undefined;
  return Math.min(integer(options['timeout']) ?? WAIT_MS.usual, WAIT_MS.most);
}

function readNames(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const names = (value as unknown[]).filter((name) => typeof name === 'string');
  return names.length > 0 ? names : undefined;
}

function readReplay(value: unknown): Replay | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) return { since: undefined, limit: undefined, isBroken: true };
  const since = integer(value['since']);
  const limit = integer(value['limit']);
  const asked = value['limit'];
  return {
    since,
    limit,
    isBroken:
      since === undefined || (asked !== undefined && asked !== null && (limit === undefined || limit < 1)),
  };
}

function objectAt(value: Readonly<Record<string, unknown>>, key: string): Record<string, unknown> {
  const found = value[key];
  return isObject(found) ? found : {};
}

/** Some clients send their booleans as words. */
function flag(value: unknown): boolean {
  return value === true || value === 'true';
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function integer(value: unknown): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}
