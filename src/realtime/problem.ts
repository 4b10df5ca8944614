// Messages of realtime: refusals of joins, `system` messages and HTTP problems. Clients match the code before the
// colon.
import type { RefusalFormat } from '../http/refusal-format.ts';
import { SESSION_RESTRICTED } from '../identity/caller.ts';
import { Problem } from '../problem/problem.ts';

/** Reason for rejecting a join. Clients repeat the join by themselves. */
export class JoinRefused extends Error {
  readonly code: JoinCode;
  /** Text for the client: `Code: text`. */
  readonly reason: string;

  constructor(code: JoinCode, text: string) {
    super(`${code}: ${text}`);
    this.name = 'JoinRefused';
    this.code = code;
    this.reason = `${code}: ${text}`;
  }
}

type JoinCode =
  | 'TopicNameRequired'
  | 'TopicNameTooLong'
  | 'InvalidJWTToken'
  | 'MalformedJWT'
  | 'JwtSignatureError'
  | 'Unauthorized'
  | 'PrivateOnly'
  | 'ChannelRateLimitReached'
  | 'ClientJoinRateLimitReached'
  | 'JoinTooLarge'
  | 'TooManyBindings'
  | 'UnableToReplayMessages'
  | 'InitializingProjectConnection'
  | 'PostgresChangesSubscribeTimeout'
  | 'RealtimeDisabledForConfiguration'
  | 'UnableToConnectToProject'
  | 'UnknownError';

export const topicRequired = (): JoinRefused =>
  new JoinRefused('TopicNameRequired', 'You must provide a topic name');
export const topicTooLong = (): JoinRefused =>
  new JoinRefused('TopicNameTooLong', 'The name of a topic has at most 255 bytes');
export const badToken = (text: string): JoinRefused => new JoinRefused('InvalidJWTToken', text);
export const cannotRead = (topic: string): JoinRefused =>
  new JoinRefused('Unauthorized', cannotReadText(topic));
export const privateOnly = (): JoinRefused =>
  new JoinRefused('PrivateOnly', 'This project only allows private channels');
export const tooManyChannels = (): JoinRefused =>
  new JoinRefused('ChannelRateLimitReached', 'Too many channels');
export const tooManyJoins = (): JoinRefused =>
  new JoinRefused('ClientJoinRateLimitReached', 'Too many joins per second');
export const joinTooLarge = (bytes: number): JoinRefused =>
  new JoinRefused('JoinTooLarge', `A join has at most ${bytes} bytes`);
export const tooManyBindings = (max: number): JoinRefused =>
  new JoinRefused('TooManyBindings', `A channel has at most ${max} bindings to changes of tables`);
export const unreadable = (why: string): JoinRefused =>
  new JoinRefused('UnknownError', `The message is ${why}`);
export const cannotReplay = (text: string): JoinRefused => new JoinRefused('UnableToReplayMessages', text);
export const notReady = (text: string): JoinRefused => new JoinRefused('InitializingProjectConnection', text);
export const subscribeTimedOut = (text: string): JoinRefused =>
  new JoinRefused('PostgresChangesSubscribeTimeout', text);
export const cannotSubscribe = (text: string): JoinRefused =>
  new JoinRefused('RealtimeDisabledForConfiguration', text);

/** The database does not respond or has no free connection. Clients repeat the join by themselves. */
export const databaseRefusal = (text: string): JoinRefused =>
  new JoinRefused('UnableToConnectToProject', text);

const cannotReadText = (topic: string): string =>
  `You do not have permissions to read from this Channel topic: ${topic}`;

/** Texts of `system` messages. */
export const SYSTEM = {
  subscribed: 'Subscribed to PostgreSQL',
  cannot: (why: string): string =>
    `Unable to subscribe to changes with given parameters. ${why[0]?.toUpperCase()}${why.slice(1)}`,
  replicationReady: 'Replication connection established',
  replicationLate: 'Replication connection was not established in time',
  tooManyMessages: 'Too many messages per second',
  tooManyPresence: 'Too many presence messages per second',
  presenceTooLarge: 'Track message size exceeded',
  draining: 'Server requested disconnect',
  skipping: 'The connection is too slow: broadcasts and presence are skipped until it has caught up',
  expired: (seconds: number): string => `Token has expired ${seconds} seconds ago`,
  readRightLost: (topic: string): string =>
    `You no longer have permission to read from this Channel topic: ${topic}`,
} as const;

export const switchedOff = (): Problem =>
  new Problem('realtime_off', 403, 'Realtime is switched off in svc.yaml', {
    hint: 'Remove `enabled: false` under `realtime`.',
  });
export const noKey = (): Problem =>
  new Problem('no_api_key', 401, 'No API key found in request', {
    hint: 'Send the publishable key as `apikey`.',
  });
export const badKey = (): Problem =>
  new Problem('invalid_api_key', 401, 'Invalid API key', {
    hint: 'Send the publishable key of this project as `apikey`.',
  });
export const unknownVersion = (): Problem =>
  new Problem('unknown_version', 400, 'Unknown version of the protocol', {
    hint: '`vsn` is 1.0.0 or 2.0.0.',
  });
export const badOrigin = (): Problem =>
  new Problem('origin_not_allowed', 403, 'Pages of this origin may not connect', {
    hint: 'Add it to server.cors.origins in svc.yaml.',
  });
export const starting = (): Problem =>
  new Problem('starting', 503, 'The service is starting', {
    hint: 'Try again in a moment.',
    headers: { 'retry-after': '1' },
  });
export const tooManyConnections = (): Problem =>
  new Problem('too_many_connections', 429, 'Too many connections', {
    hint: 'realtime.limits.connections in svc.yaml is the limit of one instance.',
  });

/** Has the same code, because clients handle both cases the same way. */
export const tooManyOfNetwork = (): Problem =>
  new Problem('too_many_connections', 429, 'Too many connections from this network', {
    hint:
      'One network has an eighth of realtime.limits.connections. ' +
      'Behind a proxy, name it in server.trusted_proxies.',
  });

export const tooManyInspectors = (): Problem =>
  new Problem('too_many_watchers', 429, 'Too many pages inspect channels of this instance', {
    hint: 'Close some of these pages.',
  });

export const invalidKey = (): Problem => new Problem('invalid_credentials', 401, 'Unauthorized');
export const sessionRestricted = (): Problem => new Problem('insufficient_aal', 403, SESSION_RESTRICTED);
export const badBody = (): Problem => new Problem('invalid_json', 422, 'The body is not JSON');
export const badMessages = (text: string): Problem => new Problem('invalid_message', 422, text);
export const unsupportedType = (type: string): Problem =>
  new Problem('unsupported_media_type', 415, `Unsupported content type ${type}`, {
    hint: 'Send application/json or application/octet-stream.',
  });
export const cannotSend = (topic: string): Problem =>
  new Problem('not_allowed', 403, `You do not have permissions to write to this Channel topic: ${topic}`);
export const tooManyRequests = (): Problem =>
  new Problem('too_many_requests', 429, 'Too many messages per second', {
    headers: { 'retry-after': '1' },
    hint: 'realtime.limits.messages in svc.yaml is the limit of one socket; over HTTP it is ten times as much.',
  });

/** Clients read `error` or `message`, depending on their version. */
export const realtimeFormat: RefusalFormat = ({ status, message, code, details, hint, headers }) => ({
  status,
  headers,
  body: JSON.stringify({
    error: message,
    message,
    code,
    ...(details === undefined ? {} : { details }),
    ...(hint === undefined ? {} : { hint }),
    ...(status === 422 ? { errors: { message: [message] } } : {}),
  }),
});
