// Settings of the service itself. What a section becomes here is what the rest of the program reads.
import { z } from 'zod';
import {
  choice,
  count,
  duration,
  flag,
  list,
  oneOrMore,
  secret,
  section,
  size,
  text,
  timer,
} from './kinds.ts';
import { dataSteps } from './data-steps.ts';

export const project = section('About the project', {
  name: text('Display name').optional(),
  description: text('A sentence about the project').optional(),
  cloud: section('Managed cloud', {
    project_id: text('Written by `svc deploy`; not for editing by hand').optional(),
  }),
}).transform(({ name, description, cloud }) => ({ name, description, cloudProjectId: cloud.project_id }));

export const sqlFiles = oneOrMore(z.string().min(1, 'must not be empty'), 'file')
  .meta({
    description:
      'SQL files with statements that make functions, triggers, views, types, aggregates and more, as paths or patterns relative to svc.yaml: svc keeps the database as they say, like everything else',
    examples: [['database/*.sql']],
  })
  .optional();

export const include = oneOrMore(z.string().min(1, 'must not be empty'), 'file')
  .meta({
    description:
      'Files that belong to this one, as paths or patterns relative to svc.yaml: maps are put together by their keys',
    examples: [['tables/*.yaml', 'auth.yaml']],
  })
  .optional();

/** Places in the queue for each connection. */
const QUEUE_FOR_EACH = 50;

export const database = section('Database access; the connection string is SVC_DATABASE_URL', {
  pool: section('Connection pool of each instance', {
    max: count('Most connections for requests', { absent: 20, least: 1, most: 10_000 }),
    min: count('Connections kept open when idle', { absent: 5, least: 0, most: 10_000 }),
    owner: count(
      'Connections for the own statements of svc, beside `max`: five of eight for accounts, three for files',
      { absent: 8, least: 2, most: 1_000 },
    ),
    idle_timeout: timer('After this an idle connection above `min` is closed', '300s'),
    queue: z
      .number()
      .int('must be a whole number')
      .min(1, 'must be at least 1')
      .max(1_000_000, 'must be at most 1000000')
      .meta({
        description:
          'Most requests that wait for a connection; one caller may hold half of them. Default: 50 for each connection of `max`',
      })
      .optional(),
  }).transform(({ max, min, owner, idle_timeout: idleTimeoutMs, queue = QUEUE_FOR_EACH * max }) => ({
    max,
    min,
    owner,
    idleTimeoutMs,
    queue,
  })),
  failover_wait: duration(
    'How long a request is held while the database cannot be reached, as in a failover; less than `server.timeouts.request`',
    '5s',
    { least: 0, most: 20_000 },
  ),
  replicas: section('Reads from replicas, where SVC_DATABASE_READ_URL names some', {
    reads: choice(
      'What a read from a replica sees: with `fresh` everything acknowledged before it came, with `bounded` all but the last `max_staleness`; `off` reads from the primary alone',
      ['fresh', 'bounded', 'off'],
    ),
    max_staleness: duration('With `bounded`, how old an answer may be', '1s', { least: 100, most: 300_000 }),
    wait: duration(
      'With `fresh`, how long a read waits for a replica before the primary answers it',
      '20ms',
      {
        least: 0,
        most: 1_000,
      },
    ),
    without_primary: choice(
      'What becomes of reads while the primary cannot be reached: answered by a replica however old, or refused',
      ['serve', 'fail'],
    ),
  }).transform(({ reads, max_staleness, wait, without_primary }) => ({
    reads,
    maxStalenessMs: max_staleness,
    waitMs: wait,
    withoutPrimary: without_primary,
  })),
}).transform(({ failover_wait: failoverWaitMs, ...same }) => ({ ...same, failoverWaitMs }));

export const server = section('HTTP server', {
  port: count('Listen port; SVC_PORT and --port win', { absent: 8080, least: 0, most: 65_535 }),
  processes: z
    .string()
    .regex(/^(auto|[1-9]|[1-5]\d|6[0-4])$/, 'is neither a number from 1 to 64 nor `auto`')
    .meta({ type: ['number', 'string'] })
    .transform((written) => (written === 'auto' ? written : Number(written)))
    .prefault('1')
    .meta({
      description:
        'Processes that share the port, or `auto`: one less than there are processors; SVC_PROCESSES and --processes win',
      examples: [1, 'auto'],
    }),
  max_body_size: size('Largest request body that is no upload', '1MB'),
  max_response_size: size(
    'Largest answer of the data API; one that would be larger ends in an error',
    '100MB',
  ),
  response_budget: size(
    'Most bytes of answers of a process that are built and not yet taken by their clients; one caller may hold half of them. Beyond: 503 for the largest',
    '256MB',
  ),
  max_in_flight: count('Most requests of a process that are answered at once; more get 503', {
    absent: 1_000,
    least: 1,
  }),
  max_limit: count('Accepted for compatibility; not enforced on REST queries', { absent: 100, least: 0 }),
  cors: section('Cross-origin access', {
    origins: list('Origins that browsers may call from; `["*"]` allows all', text('Origin'), [
      ['https://app.example.com'],
    ]),
  }),
  trusted_proxies: z
    .array(text('Address, range, `loopback` or `private`'))
    .max(256, 'has more than 256 entries')
    .meta({
      description:
        'Proxies whose X-Forwarded-For, Forwarded and X-Forwarded-Proto are believed; when absent, those of SVC_TRUSTED_PROXIES',
      examples: [['10.0.0.0/8', '2001:db8::/32', 'loopback']],
    })
    .optional(),
  listen_early: flag(
    'Open the port before migrations, for the probes; `false` for balancers that only try to connect',
    true,
  ),
  timeouts: section('Deadlines', {
    request: timer('Deadline of a request', '30s'),
    db_query: timer('Deadline of a statement in the database', '10s'),
    upload: timer('Deadline of an upload', '5m'),
    header: timer('Deadline of the head of a request', '15s'),
    body_idle: timer('A request whose body stops coming for this long is ended with 408', '10s'),
    response_idle: timer(
      'A connection whose client takes nothing of an answer for this long is ended; noticed after twice that at the latest',
      '10s',
    ),
    drain_delay: duration(
      'How long the port stays open after `/ready` has turned 503 at shutdown, where somebody asks for it',
      '5s',
      { least: 0, most: 3_600_000 },
    ),
    shutdown: timer('How long requests in flight get to end after that', '30s'),
  }).transform(({ request, db_query, upload, header, body_idle, response_idle, drain_delay, shutdown }) => ({
    requestMs: request,
    dbQueryMs: db_query,
    uploadMs: upload,
    headerMs: header,
    bodyIdleMs: body_idle,
    responseIdleMs: response_idle,
    drainDelayMs: drain_delay,
    shutdownMs: shutdown,
  })),
}).transform(
  ({
    max_body_size,
    max_response_size,
    response_budget,
    max_in_flight,
    max_limit,
    trusted_proxies,
    listen_early,
    ...same
  }) => ({
    ...same,
    trustedProxies: trusted_proxies,
    listenEarly: listen_early,
    maxInFlight: max_in_flight,
    maxBodyBytes: max_body_size,
    maxResponseBytes: max_response_size,
    responseBudgetBytes: response_budget,
    maxLimit: max_limit,
  }),
);

const s3Store = z
  .strictObject({
    bucket: text('Bucket of the store'),
    region: text('Region').optional(),
    access_key_id: secret('Credentials; usually `${…}`').optional(),
    secret_access_key: secret('Credentials; usually `${…}`').optional(),
    endpoint: text('URL of an S3-compatible store').optional(),
  })
  .meta({ description: 'With `type: s3`' })
  .transform(({ bucket, region, access_key_id, secret_access_key, endpoint }) => ({
    bucket,
    region,
    accessKeyId: access_key_id,
    secretAccessKey: secret_access_key,
    endpoint,
  }));

export type RawS3Store = z.infer<typeof s3Store>;

export const providers = section('Outside services', {
  email: z
    .strictObject({
      type: z.enum(['resend', 'ses', 'smtp']).meta({ description: 'Who sends the mail' }),
      api_key: secret('Key of the provider; usually `${…}`').optional(),
      default_from_email: text('Sender address', 'App <no-reply@example.com>'),
      url: secret('With `smtp`: `smtp://user:password@host:587`; usually `${…}`').optional(),
      region: text('With `ses`: AWS region').optional(),
    })
    .transform(({ api_key: apiKey, default_from_email: defaultFromEmail, ...same }) => ({
      ...same,
      apiKey,
      defaultFromEmail,
    }))
    .nullable()
    .meta({ description: 'Outgoing mail; `null` or absent sends none' })
    .optional(),
  storage: z
    .strictObject({
      type: z.enum(['local', 's3']).meta({ description: 'Where objects are kept' }),
      local: z
        .strictObject({
          path: text('Directory').meta({ description: 'Directory', default: '.svc/storage' }).optional(),
        })
        .meta({ description: 'With `type: local`' })
        .optional(),
      s3: s3Store.optional(),
    })
    .meta({ description: 'Object store; a local directory when absent' })
    .optional(),
});

export const migrations = section('How schema changes are applied', {
  drop: choice(
    'What removing a table or column from this file does: it is kept out of sight, refused, or dropped (what holds values only when allowed by name)',
    ['retire', 'refuse', 'drop'],
  ),
  prune_after: duration('Retired objects younger than this are not pruned unless named', '7d', { least: 0 }),
  lock_timeout: timer('How long a step waits for a lock before it steps back and tries again', '300ms'),
  lock_budget: timer('How long it tries in all', '60s'),
  boot_budget: timer(
    'How long a start waits for work that blocks nobody, such as unique indexes; then that goes on in the background',
    '60s',
  ),
  max_write_block: timer('Steps that would block writes longer run online instead', '100ms'),
  steps: dataSteps,
}).transform(({ drop, prune_after, lock_timeout, lock_budget, boot_budget, max_write_block, steps }) => ({
  drop,
  steps,
  pruneAfterMs: prune_after,
  lockTimeoutMs: lock_timeout,
  lockBudgetMs: lock_budget,
  bootBudgetMs: boot_budget,
  maxWriteBlockMs: max_write_block,
}));
