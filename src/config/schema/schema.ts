// The one schema of svc.yaml. Validation, the editor's JSON Schema and docs/configuration.md all come from
// here; what needs more than one key to judge is in check/.
import { z } from 'zod';
import { parseBytes } from '../../lib/bytes.ts';
import { formatDuration, parseDuration } from '../../lib/duration.ts';
import { OPERATIONS } from '../config.ts';
import { toDecimal } from './scalar.ts';

/** Shown in the reference page and in editors; `default` is what an absent key means. */
type Meta = { description: string; default?: unknown; examples?: unknown[] };

/** Marks SQL text in the JSON Schema; `${…}` is read there with PostgreSQL's dollar quotes in mind. */
export const SQL_MEDIA_TYPE = 'application/sql';
/** Scalars that are taken as text the way they are written, so that `true` and `1.10` need no quotes. */
const AS_WRITTEN = { type: ['string', 'number', 'boolean'] };
/** Says of a text what it measures. Not `format`: there `duration` is the one of ISO 8601, and editors check it. */
export const UNIT = 'x-unit';
/** The longest a timer of Node can wait is 2^31 - 1 ms. */
const LONGEST_TIMER_MS = 24 * 86_400_000;
const LONGEST_DURATION_MS = 3650 * 86_400_000;

const text = (meta: Meta): z.ZodString => z.string().min(1, 'must not be empty').meta(meta);
const flag = (meta: Meta): z.ZodBoolean => z.boolean().meta(meta);
const name = (meta: Meta): z.ZodString => z.string().min(1, 'must not be empty').meta(meta);

/** What the file may say between, in words that fit behind the value. */
type Range = { least?: number; most?: number };

function duration(meta: Meta, { least = 1, most = LONGEST_DURATION_MS }: Range = {}): z.ZodString {
  return z
    .string()
    .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, {
      message: 'is not a duration such as 30s, 5m, 1h or 7d',
      abort: true,
    })
    .refine((value) => (parseDuration(value) ?? least) >= least, `must be at least ${formatDuration(least)}`)
    .refine((value) => (parseDuration(value) ?? most) <= most, `must be at most ${formatDuration(most)}`)
    .meta({ ...meta, [UNIT]: 'duration' });
}

const timer = (meta: Meta): z.ZodString => duration(meta, { most: LONGEST_TIMER_MS });

function size(meta: Meta): z.ZodString {
  return z
    .string()
    .regex(/^\d+(\.\d+)?\s*([KMGTkmgt]?[Bb])?$/, {
      message: 'is not a size such as 500KB, 5MB or 1GB',
      abort: true,
    })
    .refine((value) => (parseBytes(value) ?? 1) > 0, 'must be more than nothing')
    .refine((value) => Number.isSafeInteger(parseBytes(value) ?? 0), 'is more than any store holds')
    .meta({ ...meta, ...AS_WRITTEN, [UNIT]: 'size' });
}

function count(meta: Meta, least: number, most = 1_000_000): z.ZodNumber {
  return z
    .number()
    .int('must be a whole number')
    .min(least, `must be at least ${least}`)
    .max(most, `must be at most ${most}`)
    .meta(meta);
}

/** A condition may be `true`: the word is SQL too. */
const sqlExpression = (description: string): z.ZodString =>
  z
    .string()
    .regex(/\S/, 'must not be empty')
    .meta({ description, ...AS_WRITTEN, contentMediaType: SQL_MEDIA_TYPE });

const sqlBody = (description: string): z.ZodString =>
  z.string().regex(/\S/, 'must not be empty').meta({ description, contentMediaType: SQL_MEDIA_TYPE });

const secret = (description: string): z.ZodString =>
  z
    .string()
    .min(1, 'must not be empty')
    .meta({ description, ...AS_WRITTEN, writeOnly: true });

/** A literal, a list, a map, or `{ sql: expression }`. Which literals fit is the column type's affair. */
const anyDefault = z.unknown().meta({
  description:
    'Literal of the column’s type, `now()`, `current_date`, `current_time`, `uuid_v7()` or `uuid_v4()` (both become `gen_random_uuid()`), or `{ sql: <expression> }` for any other expression',
  examples: ['open', 0, true, 'now()', { sql: 'auth.uid()' }],
  properties: {
    sql: { ...AS_WRITTEN, contentMediaType: SQL_MEDIA_TYPE, description: 'Any SQL expression' },
  },
});

const bound = (description: string): z.ZodString =>
  z
    .string()
    .refine((value) => toDecimal(value) !== undefined, 'is not a number')
    .meta({ description, type: ['number', 'string'] });

const values = (): z.ZodString => z.string().meta(AS_WRITTEN);

const policy = z
  .strictObject({
    name: name({
      description: 'Label of the policy in the database; made from table, number and operation when absent',
    }).optional(),
    operations: z
      .array(z.enum(OPERATIONS))
      .min(1, 'must name at least one operation')
      .meta({ description: 'What the policy is about', examples: [['select', 'update']] }),
    type: z
      .enum(['permissive', 'restrictive'])
      .meta({
        description: 'Permissive policies are joined by OR; every restrictive one must hold as well',
        default: 'permissive',
      })
      .optional(),
    using: sqlExpression('SQL condition on rows that are seen or affected').optional(),
    with_check: sqlExpression('SQL condition on rows as they are written').optional(),
    check: sqlExpression(
      'Stands for `using` (select, delete), `with_check` (insert) or both (update) where those are absent',
    ).optional(),
  })
  .meta({ description: 'One row-level security policy' });

const field = z.strictObject({
  name: name({ description: 'Column name' }),
  type: text({
    description:
      'PostgreSQL type. May be left out beside `foreign_key`: the type then follows the referenced column',
    examples: ['text', 'uuid', 'timestamptz', 'bigserial', 'numeric(10,2)', 'text[]'],
  }).optional(),
  primary_key: flag({
    description: 'Part of the primary key; several make a composite one, in this order',
    default: false,
  }).optional(),
  required: flag({ description: 'NOT NULL', default: false }).optional(),
  unique: flag({ description: 'UNIQUE', default: false }).optional(),
  default: anyDefault.optional(),
  enum: z
    .array(values())
    .min(1, 'must list at least one value')
    .meta({ description: 'The only values allowed' })
    .optional(),
  pattern: text({ description: 'Regular expression (PostgreSQL’s) that text must match' }).optional(),
  min: bound('Least value allowed').optional(),
  max: bound('Greatest value allowed').optional(),
  check: sqlExpression('Any SQL condition on the row').optional(),
  foreign_key: z
    .strictObject({
      references: text({
        description: '`table.column` or `schema.table.column`',
        examples: ['lists.id', 'auth.users.id'],
      }),
      on_delete: z
        .enum(['cascade', 'restrict', 'set_null'])
        .meta({
          description: 'What happens to this row when the referenced one is deleted',
          default: 'restrict',
        })
        .optional(),
    })
    .meta({ description: 'Reference to another table' })
    .optional(),
  ref: text({
    description: 'The column holds the path of a stored object: `storage.<bucket>`',
    examples: ['storage.avatars'],
  }).optional(),
  on_delete: z
    .enum(['cascade', 'keep'])
    .meta({ description: 'Only with `ref`: whether the object is deleted with the row', default: 'keep' })
    .optional(),
  renamed_from: name({
    description: 'Earlier name of the column; its data is kept. Harmless once the rename is done',
  }).optional(),
  backfill: sqlExpression(
    'SQL value for existing rows, used once when the column becomes required',
  ).optional(),
  using: sqlExpression('SQL expression that converts existing values when the type changes').optional(),
});

const index = z.strictObject({
  columns: z
    .array(name({ description: 'Column name' }))
    .min(1, 'must name at least one column')
    .meta({ description: 'Columns, in order' }),
  unique: flag({ description: 'No two rows with equal values', default: false }).optional(),
  where: sqlExpression('SQL condition: only matching rows are indexed').optional(),
  name: name({ description: 'Label of the index; made from table and columns when absent' }).optional(),
});

const table = z.strictObject({
  schema: name({ description: 'PostgreSQL schema', default: 'public' }).optional(),
  fields: z
    .array(field)
    .min(1, 'must declare at least one column')
    .meta({ description: 'Columns. None is added by itself' }),
  indexes: z.array(index).meta({ description: 'Indexes beside those of keys', default: [] }).optional(),
  rls: z
    .union([z.literal(false), z.array(policy)])
    .meta({
      description:
        'Row-level security policies. An empty list closes the table; `false` leaves it open on purpose; without the key it is open and warned about',
    })
    .optional(),
  renamed_from: name({ description: 'Earlier name of the table; its data is kept' }).optional(),
  protect: flag({
    description: 'Never pruned and never rewritten, whatever is allowed elsewhere',
    default: false,
  }).optional(),
});

const bucket = z.strictObject({
  public: flag({ description: 'Anybody may download by URL', default: false }).optional(),
  max_size: size({ description: 'Largest upload', default: '50MB' }).optional(),
  types: z
    .array(z.string().regex(/^[\w.+-]+\/(\*|[\w.+-]+)$/, 'is not a MIME type such as image/png or image/*'))
    .meta({
      description: 'Allowed MIME types; an empty list allows all',
      default: [],
      examples: [['image/*', 'application/pdf']],
    })
    .optional(),
  rls: z
    .array(policy)
    .meta({
      description: 'Policies on the bucket’s objects; without any, only the secret key has access',
      default: [],
    })
    .optional(),
});

const sqlFunction = z.strictObject({
  description: text({ description: 'Shown in the API description' }).optional(),
  auth_required: flag({ description: 'Refuse callers who are not signed in', default: false }).optional(),
  language: z
    .enum(['sql', 'plpgsql'])
    .meta({ description: 'Language of the body', default: 'plpgsql' })
    .optional(),
  volatility: z
    .enum(['volatile', 'stable', 'immutable'])
    .meta({ description: 'Stable and immutable functions can be called by GET too', default: 'volatile' })
    .optional(),
  security: z
    .enum(['invoker', 'definer'])
    .meta({
      description: '`definer` runs with the owner’s rights, past row-level security',
      default: 'invoker',
    })
    .optional(),
  args: z
    .array(
      z.strictObject({
        name: name({ description: 'Argument name' }),
        type: text({ description: 'PostgreSQL type' }),
        required: flag({ description: 'A call without it is answered 400', default: false }).optional(),
        default: anyDefault.optional(),
      }),
    )
    .meta({ description: 'Arguments, called by name', default: [] })
    .optional(),
  returns: z
    .strictObject({
      type: text({
        description: 'A type, `record`, `setof <table>` or `void`',
        examples: ['integer', 'setof todos', 'void'],
      }),
    })
    .meta({ description: 'Result' }),
  body: sqlBody('Function body: what stands between the dollar quotes'),
  renamed_from: name({ description: 'Earlier name of the function' }).optional(),
});

const codeFunction = z.strictObject({
  runtime: z.enum(['node']).meta({ description: 'The only runtime' }),
  file: text({ description: 'Handler, relative to svc.yaml', examples: ['functions/hello.js'] }),
  auth_required: flag({
    description: 'Answer 401 to callers who are not signed in, before the handler runs',
    default: false,
  }).optional(),
  timeout: timer({ description: 'Deadline of one request', default: '30s' }).optional(),
  env: z
    .record(
      z.string().regex(/^[A-Za-z_]\w*$/, 'is not a variable name'),
      z.union([z.string(), z.number(), z.boolean()]),
    )
    .meta({ description: 'Values of `ctx.env`: literals or `${SVC_ENV_NAME}` references', default: {} })
    .optional(),
});

const oauthProvider = z.strictObject({
  client_id: z
    .string()
    .min(1, 'must not be empty')
    .meta({ description: 'From the provider', ...AS_WRITTEN }),
  client_secret: secret('From the provider; usually `${…}`'),
  redirect_url: text({
    description:
      'This service’s callback, registered at the provider: `{base_url}/auth/v1/callback/<provider>`',
    examples: ['https://api.example.com/auth/v1/callback/google'],
  }),
  issuer: text({ description: 'OIDC issuer, for a provider that is not built in' }).optional(),
  url: text({
    description: 'Base URL of a self-hosted or tenant-bound provider (gitlab, keycloak, azure, workos)',
  }).optional(),
  scopes: z.array(z.string()).meta({ description: 'Scopes asked for beside the built-in ones' }).optional(),
  email_optional: flag({
    description: 'Accounts without an address may sign in too; absent leaves it to the provider',
  }).optional(),
});

const template = z.strictObject({
  subject: text({ description: 'Subject line' }).optional(),
  body: text({ description: 'HTML or text body' }).optional(),
  body_file: text({ description: 'File with the body, relative to svc.yaml; instead of `body`' }).optional(),
});

export const svcSchema = z
  .strictObject({
    version: z.literal(1).meta({ description: 'Version of this file format' }),
    project: z
      .strictObject({
        name: text({ description: 'Display name' }).optional(),
        description: text({ description: 'A sentence about the project' }).optional(),
        cloud: z
          .strictObject({
            project_id: text({ description: 'Written by `svc deploy`; not for editing by hand' }).optional(),
          })
          .meta({ description: 'Managed cloud' })
          .optional(),
      })
      .meta({ description: 'About the project' })
      .optional(),
    database: z
      .strictObject({
        pool: z
          .strictObject({
            max: count({ description: 'Most connections for requests', default: 20 }, 1, 10_000).optional(),
            min: count({ description: 'Connections kept open when idle', default: 5 }, 0, 10_000).optional(),
            idle_timeout: timer({
              description: 'After this an idle connection above `min` is closed',
              default: '300s',
            }).optional(),
          })
          .meta({ description: 'Connection pool of each instance' })
          .optional(),
      })
      .meta({ description: 'Database access; the connection string is SVC_DATABASE_URL' })
      .optional(),
    server: z
      .strictObject({
        port: count(
          { description: 'Listen port; SVC_PORT and --port win', default: 8080 },
          0,
          65_535,
        ).optional(),
        max_body_size: size({
          description: 'Largest request body that is no upload',
          default: '1MB',
        }).optional(),
        max_response_size: size({
          description: 'Largest answer of the data API; one that would be larger ends in an error',
          default: '100MB',
        }).optional(),
        max_limit: count(
          { description: 'Accepted for compatibility; not enforced on REST queries', default: 100 },
          0,
        ).optional(),
        cors: z
          .strictObject({
            origins: z
              .array(text({ description: 'Origin' }))
              .meta({
                description: 'Origins that browsers may call from; `["*"]` allows all',
                default: [],
                examples: [['https://app.example.com']],
              })
              .optional(),
          })
          .meta({ description: 'Cross-origin access' })
          .optional(),
        timeouts: z
          .strictObject({
            request: timer({ description: 'Deadline of a request', default: '30s' }).optional(),
            db_query: timer({
              description: 'Deadline of a statement in the database',
              default: '10s',
            }).optional(),
            upload: timer({ description: 'Deadline of an upload', default: '5m' }).optional(),
            shutdown: timer({
              description: 'How long requests in flight get to end at shutdown',
              default: '30s',
            }).optional(),
          })
          .meta({ description: 'Deadlines' })
          .optional(),
      })
      .meta({ description: 'HTTP server' })
      .optional(),
    providers: z
      .strictObject({
        email: z
          .strictObject({
            type: z.enum(['resend', 'ses', 'smtp']).meta({ description: 'Who sends the mail' }),
            api_key: secret('Key of the provider; usually `${…}`').optional(),
            default_from_email: text({
              description: 'Sender address',
              examples: ['App <no-reply@example.com>'],
            }),
            url: secret('With `smtp`: `smtp://user:password@host:587`; usually `${…}`').optional(),
            region: text({ description: 'With `ses`: AWS region' }).optional(),
          })
          .nullable()
          .meta({ description: 'Outgoing mail; `null` or absent sends none' })
          .optional(),
        storage: z
          .strictObject({
            type: z.enum(['local', 's3']).meta({ description: 'Where objects are kept' }),
            local: z
              .strictObject({ path: text({ description: 'Directory', default: '.svc/storage' }).optional() })
              .meta({ description: 'With `type: local`' })
              .optional(),
            s3: z
              .strictObject({
                bucket: text({ description: 'Bucket of the store' }),
                region: text({ description: 'Region' }).optional(),
                access_key_id: secret('Credentials; usually `${…}`').optional(),
                secret_access_key: secret('Credentials; usually `${…}`').optional(),
                endpoint: text({ description: 'URL of an S3-compatible store' }).optional(),
              })
              .meta({ description: 'With `type: s3`' })
              .optional(),
          })
          .meta({ description: 'Object store; a local directory when absent' })
          .optional(),
      })
      .meta({ description: 'Outside services' })
      .optional(),
    auth: z
      .strictObject({
        jwt_expiry: duration({
          description: 'Lifetime of an access token; at least 2m',
          default: '15m',
        }).optional(),
        refresh_token_expiry: duration({
          description: 'Lifetime of a refresh token',
          default: '7d',
        }).optional(),
        refresh_tokens: z
          .boolean()
          .meta({ description: 'Ignored: refresh tokens are always issued', deprecated: true })
          .optional(),
        allow_signup: flag({
          description: 'Anybody may sign up; false means by invitation',
          default: true,
        }).optional(),
        allow_anonymous: flag({
          description: 'Anonymous sign-in; also off whenever sign-up is',
          default: true,
        }).optional(),
        redirect_urls: z
          .array(
            z
              .string()
              .regex(/^[A-Za-z][A-Za-z\d+.-]*:\/\/\S+$/, 'is not a URL such as https://app.example.com'),
          )
          .meta({
            description: 'Where a browser may be sent after sign-in; the server’s own origin always',
            default: [],
          })
          .optional(),
        email: z
          .strictObject({
            verify_email: flag({
              description: 'No session before the address is confirmed; needs `providers.email`',
              default: false,
            }).optional(),
            templates: z
              .record(z.string(), template)
              .meta({
                description:
                  'Mail templates by name: confirm, recovery, magic_link, invite, email_change, reauthentication',
                default: {},
              })
              .optional(),
          })
          .nullable()
          .meta({ description: 'Mail flows; magic link and one-time password exist only with this block' })
          .optional(),
        oauth: z
          .record(z.string(), oauthProvider)
          .meta({ description: 'Providers by name, for example google', default: {} })
          .optional(),
      })
      .meta({ description: 'Auth; always there, also without this block' })
      .optional(),
    tables: z.record(z.string(), table).nullable().meta({ description: 'Tables by name' }).optional(),
    storage: z
      .record(z.string(), bucket.nullable())
      .nullable()
      .meta({ description: 'Buckets by name; they exist only here' })
      .optional(),
    rpc: z
      .record(z.string(), sqlFunction)
      .nullable()
      .meta({ description: 'SQL functions by name, at /rest/v1/rpc/<name>' })
      .optional(),
    functions: z
      .record(z.string(), codeFunction)
      .nullable()
      .meta({ description: 'Code functions by name, at /functions/v1/<name>' })
      .optional(),
    expose: z
      .strictObject({
        relations: z
          .array(
            z.union([
              z.string().min(1, 'must not be empty'),
              z.strictObject({
                name: text({ description: '`name` or `schema.name`' }),
                columns: z
                  .array(z.string())
                  .min(1, 'must name at least one column')
                  .meta({ description: 'Only these columns; all when absent' })
                  .optional(),
              }),
            ]),
          )
          .meta({
            description: 'Views, and tables of others, by `name` or `schema.name`',
            examples: [['monthly_totals', 'reporting.invoices']],
            default: [],
          })
          .optional(),
        functions: z
          .array(
            z.union([
              z.string().min(1, 'must not be empty'),
              z.strictObject({
                name: text({ description: '`name` or `schema.name`' }),
                auth_required: flag({
                  description: 'Refuse callers who are not signed in',
                  default: false,
                }).optional(),
              }),
            ]),
          )
          .meta({ description: 'SQL functions, by `name` or `schema.name`', default: [] })
          .optional(),
      })
      .meta({
        description:
          'Objects that exist in the database already and are served as they are; svc never creates or changes them. Their rights are the database’s own grants',
      })
      .optional(),
    functions_bundle: z
      .string()
      .regex(/^(s3:\/\/[^/]+\/.+|[^:]+)#[0-9a-f]{64}$/, 'must look like s3://<bucket>/<key>#<sha256>')
      .meta({ description: 'Built code functions, written by `svc bundle`' })
      .optional(),
    migrations: z
      .strictObject({
        drop: z
          .enum(['retire', 'refuse', 'drop'])
          .meta({
            description:
              'What removing a table or column from this file does: it is kept out of sight, refused, or dropped (what holds values only when allowed by name)',
            default: 'retire',
          })
          .optional(),
        prune_after: duration(
          { description: 'Retired objects younger than this are not pruned unless named', default: '7d' },
          { least: 0 },
        ).optional(),
        lock_timeout: timer({
          description: 'How long a step waits for a lock before it steps back and tries again',
          default: '300ms',
        }).optional(),
        lock_budget: timer({ description: 'How long it tries in all', default: '60s' }).optional(),
        boot_budget: timer({
          description:
            'How long a start waits for work that blocks nobody, such as unique indexes; then that goes on in the background',
          default: '60s',
        }).optional(),
        max_write_block: timer({
          description: 'Steps that would block writes longer run online instead',
          default: '100ms',
        }).optional(),
      })
      .meta({ description: 'How schema changes are applied' })
      .optional(),
  })
  .meta({ title: 'svc.yaml', description: 'The whole backend in one file' });

export type SvcFile = z.infer<typeof svcSchema>;
export type RawTable = z.infer<typeof table>;
export type RawField = z.infer<typeof field>;
export type RawPolicy = z.infer<typeof policy>;
export type RawBucket = z.infer<typeof bucket>;
export type RawSqlFunction = z.infer<typeof sqlFunction>;
export type RawCodeFunction = z.infer<typeof codeFunction>;

/** JSON Schema, draft 2020-12, of the values as they are once variables are substituted. */
export function describeSchema(): Record<string, unknown> {
  return z.toJSONSchema(svcSchema, { target: 'draft-2020-12', io: 'input' });
}

/** For editors: the same, with a `${VAR}` accepted wherever a value stands. */
export function toJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(svcSchema, {
    target: 'draft-2020-12',
    io: 'input',
    // Keys are never substituted.
    override: ({ jsonSchema, path }) => {
      if (path.at(-1) !== 'propertyNames') acceptReferences(jsonSchema);
    },
  });
}

const REFERENCE = { type: 'string', pattern: '\\$\\{' } as const;

function acceptReferences(node: z.core.JSONSchema.BaseSchema): void {
  const { type, enum: options, pattern } = node;
  const isJudged = options !== undefined || pattern !== undefined;
  const isNumber = type === 'integer' || type === 'number' || type === 'boolean';
  if (node.const !== undefined || (!isNumber && !(isJudged && type !== 'object' && type !== 'array'))) return;
  const judgement: z.core.JSONSchema.BaseSchema = {};
  for (const key of Object.keys(node)) {
    if (SAID_OF_THE_KEY.has(key)) continue;
    judgement[key] = node[key];
    Reflect.deleteProperty(node, key);
  }
  node.anyOf = [judgement, REFERENCE];
}

/** What stays beside the alternatives instead of inside of one. */
const SAID_OF_THE_KEY: ReadonlySet<string> = new Set(['description', 'default', 'examples', 'deprecated']);
