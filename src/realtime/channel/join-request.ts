// Reads the join request of a client. Invalid parts are treated as missing, because clients of all versions repeat a
// rejected join without end.
import { isObject } from '../protocol/message.ts';

/** A requested binding to changes of tables. The client compares it with the reply. */
export type RequestedBinding = {
  /** The binding as the client sent it. The reply repeats it with `id`. */
  readonly echo: Readonly<Record<string, unknown>>;
  readonly event: string;
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly filter: string | undefined;
  readonly select: readonly string[] | undefined;
};

export type JoinRequest = {
  readonly broadcast: {
    /** The client gets a reply to each broadcast. */
    readonly ack: boolean;
    /** The sender receives its own broadcasts. */
    readonly self: boolean;
    readonly replay: Replay | undefined;
    /** The client is notified when messages from the database can be delivered. */
    readonly replicationReady: boolean;
  };
  readonly presence: {
    /** Empty if the server chooses the key. */
    readonly key: string;
    readonly enabled: boolean;
  };
  readonly changes: readonly RequestedBinding[];
  /**
   * Time to wait for changes in milliseconds, after which the join is rejected. Undefined if the client does not wait.
   */
  readonly waitForChangesMs: number | undefined;
  readonly private: boolean;
  readonly token: string | undefined;
};

/** Requested replay of stored broadcasts. Fields are undefined unless they are usable numbers. */
export type Replay = {
  /** Start of the replay in milliseconds since 1970. */
  readonly since: number | undefined;
  readonly limit: number | undefined;
  /** True if the request has an invalid value. */
  readonly isBroken: boolean;
};

export const MAX_REPLAYED = 25;
/** Latest time that `Date` can represent. */
const LATEST_DATE_MS = 8.64e15;
/** Documented by the client library. */
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
  const given = value['limit'];
  return {
    since,
    limit,
    isBroken:
      since === undefined ||
      since > LATEST_DATE_MS ||
      (given !== undefined && given !== null && (limit === undefined || limit < 1)),
  };
}

function objectAt(value: Readonly<Record<string, unknown>>, key: string): Record<string, unknown> {
  const found = value[key];
  return isObject(found) ? found : {};
}

/** Some clients send booleans as strings. */
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
