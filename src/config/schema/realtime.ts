// Channels, and what tables tell of their changes.
import { z } from 'zod';
import { choice, count, duration, flag, section, size } from './kinds.ts';
import { policies } from './tables/policies.ts';

const DAY_MS = 86_400_000;
/** A frame ends at 5,000,000 bytes, and a payload has a name around it. */
const LARGEST_PAYLOAD = '4MB';

export const realtime = section('Channels at `/realtime/v1`: broadcasts, presence and changes of tables', {
  enabled: flag('`false`: nobody may connect, and changes are not read', true),
  private_only: flag('Refuse public channels, which every holder of a key may join and send to'),
  source: choice(
    'Where changes and stored messages come from: `wal` is the write-ahead log, which needs `wal_level=logical` and a role with REPLICATION; `triggers` are made on the tables that tell of their changes, and make writing slower; `auto` takes triggers where the log cannot be read, and the log of svc says what is missing. `none` leaves broadcasts between clients and presence',
    ['auto', 'wal', 'triggers', 'none'],
  ),
  retention: duration('How long stored messages can be asked for again; `0s` keeps those of today', '3d', {
    least: 0,
    most: 30 * DAY_MS,
  }),
  rls: policies(
    'Policies of private channels: `select` receives, `insert` sends. Expressions see `realtime.topic()`, `topic` and `extension` (`broadcast` or `presence`). Without any, only the secret key may use them',
  ),
  limits: section('Limits; beyond them clients are told, and the channel is closed', {
    connections: count('Sockets of an instance; further ones get 429', { absent: 10_000, least: 1 }),
    channels: count('Channels of a socket', { absent: 100, least: 1 }),
    joins: count('Joins a second of an instance', { absent: 100, least: 1 }),
    messages: count('Broadcasts a second of a socket; three seconds’ worth may come at once', {
      absent: 20,
      least: 1,
    }),
    presence: count('Presence calls of a socket in ten seconds', { absent: 20, least: 1 }),
    payload: size('Largest broadcast, and what one member may tell of itself', '3MB', LARGEST_PAYLOAD),
    change: size('Largest change; of a larger one only small values are sent', '1MB'),
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
    .meta({ description: 'Which changes are told' }),
  old: choice(
    'What is known of a row before its change: `key` is its primary key, so that filters of other columns never match a DELETE; `full` is all of it, at the price of a larger write-ahead log, and shows earlier values to whoever sees the row now',
    ['key', 'full'],
  ),
  deletes: choice(
    'With row-level security nobody can be asked who was allowed to see a row that is gone: with `key` everybody learns the keys of deleted rows, with `none` nobody learns of deletions',
    ['key', 'none'],
  ),
});

const PUBLISHED = published.parse({});

export const tableRealtime = z
  .union([z.boolean(), published])
  .meta({
    description:
      'Changes of the rows are sent to whoever subscribes and may see them: `true`, or `{ events, old, deletes }`',
    examples: [true, { events: ['insert'], old: 'full' }],
  })
  .transform((value) => (value === true ? PUBLISHED : value === false ? undefined : value))
  .optional();
