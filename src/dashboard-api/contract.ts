// What passes between the page at /dashboard and the server, all of it JSON under `/dashboard/api`. Types only:
// the page imports them too. Dates are ISO text, sizes bytes, times milliseconds.
//
// Every route but `GET /session`, `POST /session` and `POST /session/local` needs the session cookie. Every method
// but GET and HEAD also needs the header `x-svc-csrf` with the token of `GET /session`. Routes marked (write) are
// refused with 403 `dashboard_read_only` unless the mode is `readwrite`.

export type DashboardMode = 'readwrite' | 'readonly';

/** The body of every refusal. */
export type ApiError = {
  code: string;
  message: string;
  details: string | null;
  hint: string | null;
  /** With `config_refused`: one for each mistake the file would have. With `plan_refused`: one for each problem. */
  mistakes?: FileMistake[];
};

/**
 * `GET /session` → Session · `POST /session` {secret_key} → Session · `POST /session/local` → Session (only under
 * `svc dev`, only on this machine) · `DELETE /session` → 204.
 */
export type Session = {
  signedIn: boolean;
  /** Whether `POST /session/local` would sign in without a key. */
  localSignIn: boolean;
  mode: DashboardMode;
  /** Empty when nobody is signed in. */
  csrf: string;
  /** Null until signed in. */
  project: { name: string; dev: boolean } | null;
};

/** `GET /overview` */
export type Overview = {
  project: { name: string; description: string | null; file: string };
  /** Public base URL of the APIs. */
  url: string;
  dev: boolean;
  mode: DashboardMode;
  publishableKey: string;
  versions: { svc: string; node: string; postgres: string };
  health: {
    database: 'ok' | 'unreachable';
    databaseMs: number | null;
    uptimeMs: number;
    memoryBytes: number;
  };
  counts: { tables: number; buckets: number; sqlFunctions: number; codeFunctions: number; users: number };
  databaseBytes: number;
  /** Tables without an `rls` key: open to every key holder. */
  openTables: string[];
};

/** `GET /pending`: what the file says and the database does not have yet. */
export type Pending =
  | { kind: 'in-sync' }
  /** Another instance has migrated to a newer file. */
  | { kind: 'superseded' }
  | { kind: 'pending'; steps: string[]; problems: PlanProblem[] };

/** `POST /keys/secret` → the secret key, for the copy button. */
export type SecretKey = { secretKey: string };

/** As whom rows are read and functions called. In paths: `service`, `anon`, or `user:<uuid>`. */
export type CallerName = 'service' | 'anon' | `user:${string}`;

// `/as/<caller>/rest/v1/…`, `/as/<caller>/auth/v1/…`, `/as/<caller>/storage/v1/…`, `/as/<caller>/functions/v1/…`:
// the APIs themselves, any method, headers, query and body as in the APIs' own documentation, called with the keys
// and token of that caller, which the page never sees. In `readonly` only GET and HEAD, no functions, and of POST only
// the lists of storage (`/object/list/<bucket>`).

/** `GET /tables` */
export type TableList = { tables: TableInfo[] };

export type TableInfo = {
  schema: string;
  name: string;
  kind: 'table' | 'view' | 'materialized-view' | 'foreign-table' | 'partitioned-table';
  /** Managed by svc.yaml; false for what `expose:` serves. */
  managed: boolean;
  comment: string | null;
  columns: ColumnInfo[];
  /** Empty when there is none: rows can then be read but not edited in place. */
  primaryKey: string[];
  uniqueKeys: string[][];
  foreignKeys: Array<{
    name: string;
    columns: string[];
    target: { schema: string; table: string; columns: string[] };
  }>;
  indexes: Array<{ name: string; definition: string; unique: boolean }>;
  rowSecurity: boolean;
  policies: PolicyInfo[];
  /** -1 when PostgreSQL has not counted yet. */
  estimatedRows: number;
  totalBytes: number;
  insertable: boolean;
  updatable: boolean;
  deletable: boolean;
};

export type ColumnInfo = {
  name: string;
  type: string;
  /** One letter of `pg_type.typcategory`: `N` numeric, `B` boolean, `D` date and time, `A` array, `S` string … */
  category: string;
  notNull: boolean;
  default: string | null;
  generated: 'always' | 'by-default' | 'stored' | null;
  enumLabels: string[] | null;
  comment: string | null;
};

export type PolicyInfo = {
  name: string;
  /** As PostgreSQL has it; `all` stands for every operation. */
  operation: 'select' | 'insert' | 'update' | 'delete' | 'all';
  permissive: boolean;
  roles: string[];
  using: string | null;
  withCheck: string | null;
};

/** `POST /policies/explain`: which policy lets this row through for this caller, and which hides it. */
export type ExplainPoliciesRequest = {
  schema: string;
  table: string;
  caller: CallerName;
  /** Primary key columns and their values as text. */
  key: Record<string, string>;
};

export type ExplainPolicies = {
  /** The role and claims the caller comes with. */
  role: string;
  claims: Record<string, unknown>;
  rowSecurity: boolean;
  /** The row as the service sees it. */
  row: Record<string, unknown>;
  operations: OperationVerdict[];
};

export type OperationVerdict = {
  operation: 'select' | 'insert' | 'update' | 'delete';
  allowed: boolean;
  /** In one sentence, why. */
  reason: string;
  /** False when the role has no privilege on the table at all: no policy is asked then. */
  granted: boolean;
  policies: PolicyVerdict[];
};

export type PolicyVerdict = {
  name: string;
  permissive: boolean;
  /** Whether it speaks for this role. */
  applies: boolean;
  using: { sql: string; outcome: PolicyOutcome } | null;
  withCheck: { sql: string; outcome: PolicyOutcome } | null;
};

/** `null`: the expression was NULL, which counts as false. `error`: it failed, with PostgreSQL's words. */
export type PolicyOutcome = { kind: 'true' | 'false' | 'null' } | { kind: 'error'; message: string };

/** `GET /sql-functions`. They are run through `/as/<caller>/rest/v1/rpc/<name>`. */
export type SqlFunctionList = { functions: SqlFunctionInfo[] };

export type SqlFunctionInfo = {
  schema: string;
  name: string;
  managed: boolean;
  args: Array<{ name: string; type: string; category: string; hasDefault: boolean }>;
  returns: string;
  isSetOf: boolean;
  volatility: 'volatile' | 'stable' | 'immutable';
  authRequired: boolean;
  /** The body as in svc.yaml, null for functions the file does not manage. */
  sql: string | null;
};

/** `GET /functions` */
export type CodeFunctionList = {
  functions: CodeFunctionInfo[];
  workers: Array<{ pid: number | null; state: string; inFlight: number; readyMs: number | null }>;
  /** Sources can be read here: a local file, and not a bundle. */
  readable: boolean;
  /** And changed: one instance is running, the one that has them. */
  editable: boolean;
  /** How many run on this database. */
  instances: number;
};

export type CodeFunctionInfo = {
  name: string;
  /** Path from svc.yaml. */
  file: string;
  authRequired: boolean;
  timeoutMs: number;
  url: string;
  /** Names only: values may be secret. */
  env: string[];
  /** Null while it loads; otherwise what loading it said. */
  error: string | null;
};

/** `POST /functions` (write): a starter function, declared in svc.yaml. */
export type NewFunction = { name: string; language: 'js' | 'ts'; authRequired: boolean };
export type NewFunctionMade = { files: string[] } & Taken;

/** How this instance took what was written. */
export type Taken = {
  /** False where `svc dev` takes it a moment later. */
  taken: boolean;
  /** What loading the function said; null when it loads. */
  error: string | null;
};

/** `GET /functions/<name>/source` → Source · `PUT /functions/<name>/source` (write) {text, version} → FunctionSaved. */
export type FunctionSource = {
  file: string;
  text: string;
  /** Names this content; a save with another than the file has now is refused with 409 `file_changed`. */
  version: string;
};

/** `GET /auth`: the settings as configured, secrets left out. */
export type AuthSettings = {
  jwtExpirySeconds: number;
  refreshTokenExpirySeconds: number;
  allowSignup: boolean;
  allowAnonymous: boolean;
  redirectUrls: string[];
  email: { enabled: boolean; verifyEmail: boolean; provider: string | null; from: string | null };
  oauth: Array<{ name: string; enabled: boolean; clientId: string | null; callbackUrl: string }>;
  templates: MailTemplateInfo[];
  signingKeys: Array<{ kid: string; alg: string; state: string; createdAt: string }>;
};

export type MailTemplateInfo = {
  kind: string;
  /** Its name below `auth.email.templates`: the file may have it under another one of its names. */
  name: string;
  /** Whether svc.yaml has one; otherwise the built-in text is sent. */
  custom: boolean;
  subject: string;
  body: string;
  /** What `{{ … }}` may name. */
  variables: string[];
};

/** `POST /auth/templates/preview` {kind, subject, body, locale?} → MailPreview, with invented values. */
export type MailPreviewRequest = { kind: string; subject: string; body: string; locale?: string };
export type MailPreview =
  | { ok: true; subject: string; html: string | null; text: string }
  | { ok: false; error: string };

/**
 * `POST /auth/templates/page` {html} → MailPage: the HTML of a preview as a sandboxed page at `path`. Refused with
 * 413 `preview_too_large` when it does not fit into an address.
 */
export type MailPage = { path: string };

/** `GET /users?search=&page=1&per_page=50` (search: part of an address, a phone number or an id). */
export type UserList = { users: UserRow[]; total: number };

export type UserRow = {
  id: string;
  email: string | null;
  phone: string | null;
  createdAt: string;
  lastSignInAt: string | null;
  confirmedAt: string | null;
  bannedUntil: string | null;
  anonymous: boolean;
  providers: string[];
};

/**
 * `GET /users/<id>`. Users are made, changed, banned and deleted through `/as/service/auth/v1/admin/users`;
 * `DELETE /users/<id>/sessions/<session>` and `DELETE /users/<id>/sessions` (write) sign them out.
 */
export type UserDetail = UserRow & {
  userMetadata: Record<string, unknown>;
  appMetadata: Record<string, unknown>;
  identities: Array<{ id: string; provider: string; email: string | null; createdAt: string }>;
  sessions: Array<{
    id: string;
    createdAt: string;
    refreshedAt: string | null;
    aal: string;
    userAgent: string | null;
    ip: string | null;
  }>;
  factors: Array<{ id: string; type: string; name: string | null; status: string; createdAt: string }>;
};

/** `GET /mail?to=&limit=50`. `GET /mail/<id>/html` is the mail as a page of its own, sandboxed. */
export type MailList = {
  /** Mail is kept here instead of being sent: no provider is configured under `svc dev`. */
  caught: boolean;
  mails: MailRow[];
};

export type MailRow = {
  id: string;
  kind: string;
  to: string;
  subject: string;
  state: 'pending' | 'sending' | 'sent' | 'failed' | 'uncertain' | 'caught';
  attempts: number;
  lastError: string | null;
  createdAt: string;
  sentAt: string | null;
  /** Only of caught mail: elsewhere it is the recipient's. */
  text: string | null;
  hasHtml: boolean;
};

/**
 * `GET /logs?after=<seq>&level=&source=` (that level and the graver ones) → LogPage · `GET /logs/stream?after=<seq>` → server-sent events, each a
 * LogLine with its `seq` as event id. The last lines of this instance, kept in memory for this page only.
 */
export type LogPage = { lines: LogLine[] };

export type LogLine = {
  seq: number;
  time: string;
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  /** `request` for answered requests, `function` for what code functions log, `service` for the rest. */
  source: 'request' | 'function' | 'service';
  message: string;
  /** Name of the code function, for `function`. */
  functionName: string | null;
  fields: Record<string, unknown>;
};

export type FunctionSaved = FunctionSource & Taken;

/** `GET /config`: svc.yaml as written, `${VAR}` references unsubstituted. */
export type ConfigFile = {
  name: string;
  text: string;
  version: string;
  /** False for a remote file, and where other instances have files of their own: it can only be read. */
  editable: boolean;
  instances: number;
};

/** Both read and write use the same body; `version` is the one the change was made against. */
export type ConfigChange = { version: string } & ({ edits: ConfigEditRequest[] } | { text: string });

export type ConfigEditRequest =
  | { kind: 'set'; path: Array<string | number>; value: unknown }
  | { kind: 'append'; path: Array<string | number>; value: unknown }
  | { kind: 'delete'; path: Array<string | number> }
  | { kind: 'rename'; path: Array<string | number>; name: string };

/** `POST /config/plan` {ConfigChange}: what the change would do. Changes nothing. */
export type ConfigPlan = {
  /** The file as it would be. */
  text: string;
  /** Unified lines for display: `' '`, `'+'`, `'-'`. */
  diff: Array<{ sign: ' ' | '+' | '-'; text: string; line: number }>;
  warnings: FileMistake[];
  steps: PlanStep[];
  problems: PlanProblem[];
  hints: PlanProblem[];
};

/**
 * `POST /config/apply` (write) {ConfigChange} → ConfigApplied. 409 `file_changed` when svc.yaml is not what it was,
 * 422 `config_refused` with `mistakes`, 422 `plan_refused` when the migration would not go through. The service
 * takes the file as it takes any other change of it.
 */
export type ConfigApplied = {
  version: string;
  text: string;
  /** What the database still lacks once the service took the file; null where `svc dev` takes it a moment later. */
  pending: Pending | null;
};

export type FileMistake = {
  path: string;
  line: number | null;
  column: number | null;
  message: string;
  hint: string | null;
};

export type PlanStep = {
  sign: '+' | '~' | '-';
  at: string;
  summary: string;
  sql: string;
  lock: string;
  rewrites: boolean;
  hazards: string[];
};

export type PlanProblem = { code: string; at: string; message: string; hint: string | null };
