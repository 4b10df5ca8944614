// Settings of the service. The program reads the results of these transformations.
import { z } from 'zod';
import {
  choice,
  COMMON,
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

export const project = section('Description of the project', {
  name: text('Display name').meta(COMMON).optional(),
  description: text('One sentence that describes the project').optional(),
  cloud: section('Managed cloud', {
    project_id: text('Written by `svc deploy`; do not edit it').optional(),
  }),
}).transform(({ name, description, cloud }) => ({ name, description, cloudProjectId: cloud.project_id }));

export const sqlFiles = oneOrMore(z.string().min(1, 'must not be empty'), 'file')
  .meta({
    description:
      'SQL files that declare functions, triggers, views, types, aggregates and more, as paths or patterns ' +
      'relative to svc.yaml; svc keeps the database equal to them',
    examples: [['database/*.sql']],
  })
  .optional();

export const include = oneOrMore(z.string().min(1, 'must not be empty'), 'file')
  .meta({
    description: 'Additional files, as paths or patterns relative to svc.yaml; maps are merged by their keys',
    examples: [['tables/*.yaml', 'auth.yaml']],
    ...COMMON,
  })
  .optional();

/** Default places in the queue per connection. */
const QUEUE_PER_CONNECTION = 50;

export const database = section('Database access; the connection string is SVC_DATABASE_URL', {
  pool: section('Connection pool of each instance', {
    max: count('Maximum number of connections for requests', { absent: 20, least: 1, most: 10_000 }).meta(
      COMMON,
    ),
    min: count('Connections kept open when idle', { absent: 5, least: 0, most: 10_000 }),
    owner: count(
      'Connections for statements of svc itself, in addition to `max`: five of eight for accounts, three for files',
      { absent: 8, least: 2, most: 1_000 },
    ),
    idle_timeout: timer('Time after which an idle connection above `min` is closed', '300s'),
    queue: z
      .number()
      .int('must be a whole number')
      .min(1, 'must be at least 1')
      .max(1_000_000, 'must be at most 1000000')
      .meta({
        description:
          'Maximum number of requests that wait for a connection; one caller can use half of them. Default: ' +
          '50 per connection of `max`',
      })
      .optional(),
  }).transform(({ max, min, owner, idle_timeout: idleTimeoutMs, queue = QUEUE_PER_CONNECTION * max }) => ({
    max,
    min,
    owner,
    idleTimeoutMs,
    queue,
  })),
  failover_wait: duration(
    'Time that a request is held while the database is unreachable, such as during a failover; must be less ' +
      'than `server.timeouts.request`',
    '5s',
    { least: 0, most: 20_000 },
  ).meta(COMMON),
  replicas: section('Reads from the replicas of SVC_DATABASE_READ_URL', {
    reads: choice(
      'Consistency of reads from replicas: `fresh` includes every write acknowledged before the read, ' +
        '`bounded` can lack the last `max_staleness`, `off` reads only from the primary',
      ['fresh', 'bounded', 'off'],
    ),
    max_staleness: duration('With `bounded`: maximum age of a response', '1s', { least: 100, most: 300_000 }),
    wait: duration(
      'With `fresh`: time that a read waits for a replica before the primary answers it',
      '20ms',
      {
        least: 0,
        most: 1_000,
      },
    ),
    without_primary: choice(
      'Reads while the primary is unreachable: answered by a replica of any age (`serve`), or rejected (`fail`)',
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
  port: count('Listen port; SVC_PORT and --port take precedence', {
    absent: 8080,
    least: 0,
    most: 65_535,
  }).meta(COMMON),
  processes: z
    .string()
    .regex(/^(auto|[1-9]|[1-5]\d|6[0-4])$/, 'is neither a number from 1 to 64 nor `auto`')
    .meta({ type: ['number', 'string'] })
    .transform((written) => (written === 'auto' ? written : Number(written)))
    .prefault('1')
    .meta({
      description:
        'Number of processes that share the port, or `auto`: number of processors minus one; SVC_PROCESSES ' +
        'and --processes take precedence',
      examples: [1, 'auto'],
    }),
  max_body_size: size('Maximum size of a request body, except uploads', '1MB').meta(COMMON),
  max_response_size: size('Maximum size of a response of the data API; larger ones return an error', '100MB'),
  response_budget: size(
    'Maximum number of response bytes per process that clients have not read yet; one caller can use half ' +
      'of them. Above it, the largest responses get 503',
    '256MB',
  ),
  max_in_flight: count(
    'Maximum number of requests in flight per process; further ones get 503. One client network gets at ' +
      'most three quarters of them',
    { absent: 1_000, least: 1 },
  ),
  max_limit: count('Accepted for compatibility; not enforced on REST queries', { absent: 100, least: 0 }),
  cors: section('Cross-origin access', {
    origins: list('Origins of web pages that can call the APIs; `["*"]` allows all', text('Origin'), [
      ['https://app.example.com'],
    ]).meta(COMMON),
  }),
  trusted_proxies: z
    .array(text('Address, range, `loopback` or `private`'))
    .max(256, 'has more than 256 entries')
    .meta({
      description:
        'Proxies whose X-Forwarded-For, Forwarded and X-Forwarded-Proto headers are trusted; default: those ' +
        'of SVC_TRUSTED_PROXIES',
      examples: [['10.0.0.0/8', '2001:db8::/32', 'loopback']],
      ...COMMON,
    })
    .optional(),
  listen_early: flag(
    'Open the port before migrations, for probes; use `false` for balancers that only check for an open port',
    true,
  ),
  timeouts: section('Deadlines', {
    request: timer('Deadline of a request', '30s').meta(COMMON),
    db_query: timer('Deadline of a statement in the database', '10s').meta(COMMON),
    upload: timer('Deadline of an upload', '5m'),
    header: timer('Deadline of the head of a request', '15s'),
    body_idle: timer('Maximum pause within a request body; then the request ends with 408', '10s'),
    response_idle: timer(
      'Maximum time without progress while a client reads a response; then the connection closes, after ' +
        'twice that time at the latest',
      '10s',
    ),
    drain_delay: duration(
      'Time that the port stays open at shutdown after `/ready` returns 503, if clients check it',
      '5s',
      { least: 0, most: 3_600_000 },
    ),
    shutdown: timer('Time that requests in flight have to finish after that', '30s'),
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
    bucket: text('Bucket of the store').meta(COMMON),
    region: text('Region').meta(COMMON).optional(),
    access_key_id: secret('Credentials; usually `${…}`').optional(),
    secret_access_key: secret('Credentials; usually `${…}`').optional(),
    endpoint: text('URL of an S3-compatible store').meta(COMMON).optional(),
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

export const providers = section('External services', {
  email: z
    .strictObject({
      type: z
        .enum(['resend', 'ses', 'smtp'])
        .meta({ description: 'Provider that sends the mail', ...COMMON }),
      api_key: secret('Key of the provider; usually `${…}`').meta(COMMON).optional(),
      default_from_email: text('Sender address', 'App <no-reply@example.com>').meta(COMMON),
      url: secret('With `smtp`: `smtp://user:password@host:587`; usually `${…}`').meta(COMMON).optional(),
      region: text('With `ses`: AWS region').optional(),
    })
    .transform(({ api_key: apiKey, default_from_email: defaultFromEmail, ...same }) => ({
      ...same,
      apiKey,
      defaultFromEmail,
    }))
    .nullable()
    .meta({ description: 'Outgoing mail; without it, or with `null`, svc sends none' })
    .optional(),
  storage: z
    .strictObject({
      type: z.enum(['local', 's3']).meta({ description: 'Kind of object store', ...COMMON }),
      local: z
        .strictObject({
          path: text('Directory')
            .meta({ description: 'Directory', default: '.svc/storage', ...COMMON })
            .optional(),
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
    'Effect of removing a table or column from the file: it is retired, refused, or dropped (data only if ' +
      'allowed by name)',
    ['retire', 'refuse', 'drop'],
  ).meta(COMMON),
  prune_after: duration('Retired objects younger than this are not pruned unless named', '7d', { least: 0 }),
  lock_timeout: timer('Time that a step waits for a lock before it releases its place and retries', '300ms'),
  lock_budget: timer('Total time of these retries', '60s'),
  boot_budget: timer(
    'Time that a start waits for work that blocks no session, such as unique indexes; then the work ' +
      'continues in the background',
    '60s',
  ),
  max_write_block: timer('Maximum time that a step blocks writes; longer steps run online', '100ms'),
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
