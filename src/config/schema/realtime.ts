// Channels, and publication of table changes.
import { z } from 'zod';
import { choice, COMMON, count, duration, flag, section, size } from './kinds.ts';
import { policies } from './tables/policies.ts';

const DAY_MS = 86_400_000;
/** The maximum size of a frame is 5,000,000 bytes, and a payload is only a part of it. */
const MAX_PAYLOAD = '4MB';

export const realtime = section('Channels at `/realtime/v1`: broadcasts, presence and changes of tables', {
  enabled: flag('`false` rejects all connections and stops reading changes', true).meta(COMMON),
  private_only: flag('Reject public channels, which every client with a key can join and send to'),
  source: choice(
    'Source of changes and stored messages: `wal` is the write-ahead log, which needs `wal_level=logical` ' +
      'and a role with REPLICATION. `triggers` on published tables make writes slower. `auto` uses triggers ' +
      'if the log cannot be read; the log of svc names the missing setting. `none` supports only broadcasts ' +
      'between clients and presence',
    ['auto', 'wal', 'triggers', 'none'],
  ),
  retention: duration('Time that stored messages can be replayed; `0s` keeps those of today', '3d', {
    least: 0,
    most: 30 * DAY_MS,
  }),
  rls: policies(
    'Policies of private channels: `select` receives, `insert` sends. Expressions can use ' +
      '`realtime.topic()`, `topic` and `extension` (`broadcast` or `presence`). Without policies, only the ' +
      'secret key can use them',
  ).meta(COMMON),
  limits: section('Limits; above them, clients get a message and the channel is closed', {
    connections: count(
      'Sockets per instance; more sockets get 429. A network gets an eighth of them, and at least 32',
      { absent: 10_000, least: 1 },
    ),
    channels: count('Channels per socket', { absent: 100, least: 1 }),
    joins: count(
      'Joins per second and instance; more joins wait up to 5 seconds. A caller gets at most half of them',
      { absent: 100, least: 1 },
    ),
    messages: count('Broadcasts per second and socket; bursts of three seconds are allowed', {
      absent: 20,
      least: 1,
    }),
    presence: count('Presence calls per socket in ten seconds', { absent: 20, least: 1 }),
    payload: size('Maximum size of a broadcast, and of the presence data of a member', '3MB', MAX_PAYLOAD),
    change: size('Maximum size of a change; a larger change contains only short values', '1MB'),
  }),
}).transform(({ private_only: privateOnly, retention: retentionMs, ...same }) => ({
  ...same,
  privateOnly,
  retentionMs,
}));

export const EVENTS = ['insert', 'update', 'delete'] as const;

const published = z.strictObject({
  events: z
    .array(z.enum(EVENTS))
    .min(1, 'must name at least one event')
    .default([...EVENTS])
    .meta({ description: 'Published events' }),
  old: choice(
    'Old values in a change: `key` contains the primary key, so filters on other columns never match a ' +
      'DELETE; `full` contains the whole row, which enlarges the write-ahead log and shows earlier values to ' +
      'callers that can select the row now',
    ['key', 'full'],
  ),
  deletes: choice(
    'Deletes of tables with row-level security, which cannot be evaluated for a deleted row: `key` sends ' +
      'the key of deleted rows to all subscribers, `none` sends no deletes',
    ['key', 'none'],
  ),
});

const PUBLISHED = published.parse({});

export const tableRealtime = z
  .union([z.boolean(), published])
  .meta({
    description:
      'Publish changes of rows to subscribers that can select them: `true`, or `{ events, old, deletes }`',
    examples: [true, { events: ['insert'], old: 'full' }],
    ...COMMON,
  })
  .transform((value) => (value === true ? PUBLISHED : value === false ? undefined : value))
  .optional();
