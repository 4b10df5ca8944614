// SQL functions, code functions, and served objects that svc does not manage.
import { z } from 'zod';
import {
  anyDefault,
  asWritten,
  choice,
  COMMON,
  flag,
  list,
  named,
  section,
  functionBody,
  text,
  timer,
} from './kinds.ts';

const MODES = ['in', 'out', 'inout', 'variadic'] as const;

const column = z.strictObject({ name: text('Column name'), type: text('PostgreSQL type') });

const sqlFunction = z
  .strictObject({
    description: text('Shown in the API description').optional(),
    auth_required: flag('Reject callers who are not signed in').meta(COMMON),
    language: z
      .enum(['sql', 'plpgsql'])
      .default('plpgsql')
      .meta({ description: 'Language of the body', ...COMMON }),
    volatility: choice('Volatility; stable and immutable functions can also be called by GET', [
      'volatile',
      'stable',
      'immutable',
    ]),
    security: choice('`definer` runs with the owner’s rights and bypasses row-level security', [
      'invoker',
      'definer',
    ]).meta(COMMON),
    schema: text('PostgreSQL schema').default('public'),
    name: text(
      'Name in SQL and at /rest/v1/rpc; default: the key. Several functions can have the same name: the ' +
        'names of the arguments select one',
    ).optional(),
    kind: z
      .enum(['function', 'procedure'])
      .meta({
        description: 'Kind; a procedure is called from SQL with CALL, has no result and is never served',
        default: 'function',
      })
      .optional(),
    args: list(
      'Arguments, called by name',
      z
        .strictObject({
          name: text(
            'Argument name. Optional with `expose: false`, because the API passes arguments by name, and ' +
              'for a single argument of type `json`, `jsonb`, `text` or `bytea`, which receives the whole ' +
              'body of a call',
          ).optional(),
          type: text('PostgreSQL type'),
          mode: z
            .enum(MODES)
            .meta({
              description:
                '`out` and `inout` are columns of the result; `variadic` accepts any number of values as an array',
              default: 'in',
            })
            .optional(),
          required: flag('A call without the argument returns 400'),
          default: anyDefault,
          renamed_from: text('Earlier name of the argument, which calls can still use').optional(),
        })
        .transform(({ renamed_from: renamedFrom, ...same }) => ({ ...same, renamedFrom })),
    ).meta(COMMON),
    returns: z
      .strictObject({
        type: text(
          'A type, `record`, `setof <table>`, `void`, or `trigger` for trigger functions',
          'integer',
          'setof todos',
          'void',
          'trigger',
        ).optional(),
        table: z
          .array(column)
          .min(1, 'must name at least one column')
          .meta({ description: 'Columns of the returned rows, instead of `type`' })
          .optional(),
      })
      .refine(({ type, table }) => (type === undefined) !== (table === undefined), 'has either type or table')
      .meta({
        description: 'Result; omit it if arguments with the mode `out` or `inout` are the result',
        ...COMMON,
      })
      .optional(),
    strict: z
      .boolean()
      .meta({
        description: 'Return null for a null argument without running the function',
        default: false,
      })
      .optional(),
    parallel: z
      .enum(['unsafe', 'restricted', 'safe'])
      .meta({ description: 'Whether parallel plans can run the function', default: 'unsafe' })
      .optional(),
    cost: z
      .number()
      .positive('must be positive')
      .meta({ description: 'Estimated cost of a call, in units of `cpu_operator_cost`', default: 100 })
      .optional(),
    rows: z
      .number()
      .positive('must be positive')
      .meta({ description: 'Estimated number of returned rows', default: 1000 })
      .optional(),
    body: functionBody('Function body: the text between the dollar quotes').meta(COMMON).optional(),
    body_file: text(
      'File with the body, relative to svc.yaml; instead of `body`',
      'sql/new_user.sql',
    ).optional(),
    atomic: z
      .boolean()
      .meta({
        description:
          'With `language: sql`: PostgreSQL parses the body when it creates the function, and tracks the ' +
          'objects that the body uses. The body is `return <expression>`, or the text between BEGIN ATOMIC ' +
          'and END',
        default: false,
      })
      .optional(),
    expose: z
      .boolean()
      .meta({
        description:
          '`false`: not served, and API roles can run the function only if `execute` lists them. A function ' +
          'that returns `trigger` is never served',
        default: true,
      })
      .optional(),
    execute: z
      .union([z.string().min(1, 'must not be empty'), z.array(z.string().min(1, 'must not be empty'))])
      .meta({
        description:
          'Roles that can run the function; default: the three API roles, or none of them with `expose: ' +
          'false`. Functions in policies and defaults run with the caller’s rights',
        examples: [['authenticated']],
      })
      .transform((named) => (typeof named === 'string' ? [named] : named))
      .optional(),
    settings: z
      .record(z.string().regex(/^[a-z_][a-z0-9_.]*$/i, 'is not the name of a setting'), asWritten())
      .meta({
        description:
          'PostgreSQL settings during the call. With `search_path: ""`, every name in the body needs its schema',
        examples: [{ search_path: '' }],
      })
      .optional(),
    renamed_from: text('Earlier name of the function').optional(),
  })
  .transform(({ auth_required, renamed_from, returns, body_file, ...same }) => ({
    ...same,
    bodyFile: body_file,
    authRequired: auth_required,
    renamedFrom: renamed_from,
    returns: toResult(returns),
  }));

/** Returns the result type in SQL. Empty if the arguments determine it. */
function toResult(
  returns: {
    readonly type?: string | undefined;
    readonly table?: ReadonlyArray<z.infer<typeof column>> | undefined;
  } = {},
): string {
  const { type = '', table } = returns;
  return table
    ? `table(${table.map((entry) => `${quoteIdent(entry.name)} ${entry.type}`).join(', ')})`
    : type;
}

function quoteIdent(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

const codeFunction = z
  .strictObject({
    runtime: z.enum(['node']).meta({ description: 'The only runtime' }),
    file: text('Handler, relative to svc.yaml', 'functions/hello.js').meta(COMMON),
    auth_required: flag('Return 401 to callers who are not signed in, before the handler runs').meta(COMMON),
    http: flag(
      '`false`: not served at /functions/v1/<name>, only called by schedules and hooks; implies `auth_required: true`',
      true,
    ),
    timeout: timer('Deadline of one request', '30s'),
    env: z
      .record(
        z.string().regex(/^[A-Za-z_]\w*$/, 'is not a variable name'),
        z.union([z.string(), z.number(), z.boolean()]),
      )
      .prefault({})
      .meta({ description: 'Values of `ctx.env`: literals or `${SVC_ENV_NAME}` references', ...COMMON }),
  })
  .transform(({ auth_required: authRequired, timeout: timeoutMs, env, ...same }) => ({
    ...same,
    // Clients cannot call it, so it can use the service client.
    authRequired: authRequired || !same.http,
    timeoutMs,
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)])),
  }));

const objectName = z.string().min(1, 'must not be empty');

export const expose = section(
  'Existing objects of the database to serve; svc never creates or changes them. Permissions are the grants ' +
    'of the database',
  {
    relations: list(
      'Views, and tables of other tools, by `name` or `schema.name`',
      z.union([
        objectName,
        z.strictObject({
          name: text('`name` or `schema.name`'),
          columns: z
            .array(z.string())
            .min(1, 'must name at least one column')
            .meta({ description: 'Served columns; default: all' })
            .optional(),
        }),
      ]),
      [['monthly_totals', 'reporting.invoices']],
    ),
    functions: list(
      'SQL functions, by `name` or `schema.name`',
      z.union([
        objectName,
        z.strictObject({
          name: text('`name` or `schema.name`'),
          auth_required: flag('Reject callers who are not signed in'),
        }),
      ]),
    ),
  },
);

export const rpc = named('SQL functions by name, at /rest/v1/rpc/<name>', sqlFunction);
export const functions = named('Code functions by name, at /functions/v1/<name>', codeFunction);

export const functionsBundle = z
  .string()
  .regex(/^(s3:\/\/[^/]+\/.+|[^:]+)#[0-9a-f]{64}$/, 'must look like s3://<bucket>/<key>#<sha256>')
  .meta({ description: 'Built code functions, written by `svc bundle`' })
  .optional();

export type RawSqlFunction = z.infer<typeof sqlFunction>;

/** Trigger functions are only called by triggers, and procedures only from SQL. */
export function isServed({
  kind,
  expose,
  returns,
}: Pick<RawSqlFunction, 'kind' | 'expose' | 'returns'>): boolean {
  return returnsTrigger(returns) || kind === 'procedure' ? false : (expose ?? true);
}

export function returnsTrigger(returns: string): boolean {
  return returns.trim().toLowerCase() === 'trigger';
}

/** An entry of `rpc` with its SQL name. */
export type NamedFunction = { readonly key: string; readonly name: string; readonly fn: RawSqlFunction };

export function listFunctions(rpc: Readonly<Record<string, RawSqlFunction>>): NamedFunction[] {
  return Object.entries(rpc).map(([key, fn]) => ({ key, name: fn.name ?? key, fn }));
}

export type RawCodeFunction = z.infer<typeof codeFunction>;

/** Types of a single unnamed argument that receives the whole request body. */
export const WHOLE_BODY_TYPES: readonly string[] = ['json', 'jsonb', 'text', 'bytea'];

/** True if the argument is also a column of the result. */
export function isOutput({ mode = 'in' }: { readonly mode?: (typeof MODES)[number] | undefined }): boolean {
  return mode === 'out' || mode === 'inout';
}
