// The JSON API under `/dashboard/api`, as types shared by server and page. Dates are ISO text, sizes are in bytes,
// durations in milliseconds.
//
// Every route except `GET /session`, `POST /session` and `POST /session/local` needs the session cookie. Every method
// except GET and HEAD also needs the header `x-svc-csrf` with the token of `GET /session`. Routes marked (write) are
// rejected with 403 `dashboard_read_only` unless the mode is `readwrite`.

export type DashboardMode = 'readwrite' | 'readonly';

/** The body of every error response. */
export type ApiError = {
  code: string;
  message: string;
  details: string | null;
  hint: string | null;
  /** Mistakes in the changed file for `config_refused`, problems of the migration for `plan_refused`. */
  mistakes?: FileMistake[];
};

/**
 * `GET /session` → Session · `POST /session` {secret_key} → Session · `POST /session/local` → Session (only under
 * `svc dev`, from the same machine) · `DELETE /session` → 204.
 */
export type Session = {
  signedIn: boolean;
  /** Whether `POST /session/local` would sign in without a key. */
  localSignIn: boolean;
  mode: DashboardMode;
  /** Empty without a session. */
  csrf: string;
  /** Null without a session. */
  project: { name: string; dev: boolean } | null;
  /** Reason why the database follows a different file than this instance. Null otherwise, and without a session. */
  superseded: { message: string; hint: string; differs: readonly string[] } | null;
};

/**
 * Figures of one process, when several serve the file on this machine. Process 0 is their parent and serves no
 * requests.
 */
export type ProcessFigures = {
  process: number;
  pid: number;
  ready: boolean;
  memoryBytes: number;
  connections: number;
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
    /** Sum over all processes. */
    memoryBytes: number;
    /** Empty with a single process. */
    processes: ProcessFigures[];
  };
  counts: { tables: number; buckets: number; sqlFunctions: number; codeFunctions: number; users: number };
  databaseBytes: number;
  /** Tables without an `rls` key: open to every key holder. */
  openTables: string[];
};

/** `GET /pending`: migration steps from the schema of the database to the schema of the file. */
export type Pending =
  | { kind: 'in-sync' }
  /** Another instance has already migrated to a newer file. */
  | { kind: 'superseded' }
  | { kind: 'pending'; steps: string[]; problems: PlanProblem[] };

/** `POST /keys/secret` → the secret key, for the copy button. */
export type SecretKey = { secretKey: string };

/** The caller whose rights apply to the request. */
export type CallerName = 'service' | 'anon' | `user:${string}`;

// `/as/<caller>/rest/v1/…`, `/as/<caller>/auth/v1/…`, `/as/<caller>/storage/v1/…`, `/as/<caller>/functions/v1/…`: the
// APIs themselves, with any method, header, query and body that they accept. The server adds the keys and the token
// of that caller; the page never sees them. In `readonly` mode only GET, HEAD and the POST that lists objects
// (`/object/list/<bucket>`) are allowed, and no functions.

/** `GET /tables` */
export type TableList = { tables: TableInfo[] };

export type TableInfo = {
  schema: string;
  name: string;
  kind: 'table' | 'view' | 'materialized-view' | 'foreign-table' | 'partitioned-table';
  /** Managed by svc.yaml; false for relations under `expose:`. */
  managed: boolean;
  comment: string | null;
  columns: ColumnInfo[];
  /** Empty without a primary key: rows can then be read but not edited in place. */
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
  /** -1 before the first ANALYZE. */
  estimatedRows: number;
  /** Exact count of a small table; null if only the estimate is known. */
  countedRows: number | null;
  totalBytes: number;
  insertable: boolean;
  updatable: boolean;
  deletable: boolean;
};

export type ColumnInfo = {
  name: string;
  type: string;
  /** `pg_type.typcategory`: `N` numeric, `B` boolean, `D` date and time, `A` array, `S` string … */
  category: string;
  notNull: boolean;
  default: string | null;
  generated: 'always' | 'by-default' | 'stored' | null;
  enumLabels: string[] | null;
  comment: string | null;
};

export type PolicyInfo = {
  name: string;
  /** PostgreSQL's operation; `all` means every operation. */
  operation: 'select' | 'insert' | 'update' | 'delete' | 'all';
  permissive: boolean;
  roles: string[];
  /** Text of the file if it declares this policy, otherwise PostgreSQL's text. */
  using: string | null;
  withCheck: string | null;
};

/** `POST /policies/explain`: which policies allow or hide this row for this caller. */
export type ExplainPoliciesRequest = {
  schema: string;
  table: string;
  caller: CallerName;
  /** Primary key columns and their values as text. */
  key: Record<string, string>;
};

export type ExplainPolicies = {
  /** The caller's role and claims. */
  role: string;
  claims: Record<string, unknown>;
  rowSecurity: boolean;
  /** The row as the database owner sees it. */
  row: Record<string, unknown>;
  operations: OperationVerdict[];
};

export type OperationVerdict = {
  operation: 'select' | 'insert' | 'update' | 'delete';
  allowed: boolean;
  /** The reason, in one sentence. */
  reason: string;
  /** False without the table privilege; policies are then not evaluated. */
  granted: boolean;
  policies: PolicyVerdict[];
};

export type PolicyVerdict = {
  name: string;
  permissive: boolean;
  /** True if the policy applies to this role. */
  applies: boolean;
  using: { sql: string; outcome: PolicyOutcome } | null;
  withCheck: { sql: string; outcome: PolicyOutcome } | null;
};

/**
 * `null`: the expression evaluated to NULL, which counts as false. `error`: evaluation failed with PostgreSQL's
 * message.
 */
export type PolicyOutcome = { kind: 'true' | 'false' | 'null' } | { kind: 'error'; message: string };

/** `GET /sql-functions`. Called through `/as/<caller>/rest/v1/rpc/<name>`. */
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
  /** The body as in svc.yaml; null for functions that svc.yaml does not manage. */
  sql: string | null;
};

/** `GET /functions` */
export type CodeFunctionList = {
  functions: CodeFunctionInfo[];
  workers: Array<{ pid: number | null; state: string; inFlight: number; readyMs: number | null }>;
  /** True if the sources can be read: the configuration is local and no bundle is used. */
  readable: boolean;
  /** True if the sources can also be changed: this is the only instance. */
  editable: boolean;
  /** Number of instances that use this database. */
  instances: number;
};

export type CodeFunctionInfo = {
  name: string;
  /** Relative to svc.yaml. */
  file: string;
  authRequired: boolean;
  timeoutMs: number;
  url: string;
  /** Names only: values may be secret. */
  env: string[];
  /** Error of the last attempt to load the function; null if it loaded. */
  error: string | null;
};

/** `POST /functions` (write): a starter function, declared in svc.yaml. */
export type NewFunction = { name: string; language: 'js' | 'ts'; authRequired: boolean };
export type CreatedFunction = { files: string[] } & LoadOutcome;

/** Whether this instance has loaded a written file. */
export type LoadOutcome = {
  /** False under `svc dev`, whose file watcher loads it a moment later. */
  loaded: boolean;
  /** Error of the last attempt to load the function; null if it loaded. */
  error: string | null;
};

/** `GET /functions/<name>/source` → Source · `PUT /functions/<name>/source` (write) {text, version} → FunctionSaved. */
export type FunctionSource = {
  file: string;
  text: string;
  /** Hash of the content. A save against a different version is rejected with 409 `file_changed`. */
  version: string;
};

/** `GET /auth`: the settings, without secrets. */
export type AuthSettings = {
  jwtExpirySeconds: number;
  refreshTokenExpirySeconds: number;
  /** When the data APIs reject tokens of ended sessions. */
  revocation: 'immediate' | 'expiry';
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
  /** Name under `auth.email.templates`, which may be an alias of the kind. */
  name: string;
  /** True if svc.yaml overrides the built-in text. */
  custom: boolean;
  subject: string;
  body: string;
  /** Variables for `{{ … }}`. */
  variables: string[];
};

/** `POST /auth/templates/preview` {kind, subject, body, locale?} → MailPreview, with example values. */
export type MailPreviewRequest = { kind: string; subject: string; body: string; locale?: string };
export type MailPreview =
  | { ok: true; subject: string; html: string | null; text: string }
  | { ok: false; error: string };

/**
 * `POST /auth/templates/page` {html} → MailPage: the HTML of a preview as a sandboxed page at `path`. Returns 413
 * `preview_too_large` if it does not fit into a URL.
 */
export type MailPage = { path: string };

/** `GET /users?search=&page=1&per_page=50` (search: part of an email address, phone number or id). */
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
 * `GET /users/<id>`. Users are created, changed, banned and deleted through `/as/service/auth/v1/admin/users`;
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

/** `GET /mail?to=&limit=50`. `GET /mail/<id>/html` returns the HTML of the mail as a sandboxed page. */
export type MailList = {
  /** True if mail is stored instead of sent: `svc dev` without a mail provider. */
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
  /** Only for caught mail: sent mail is private to its recipient. */
  text: string | null;
  hasHtml: boolean;
};

/**
 * `GET /logs?after=<seq>&level=&source=` (`level` is the minimum) → LogPage. `GET /logs/stream?after=<seq>` →
 * server-sent events, each a LogLine with its `seq` as event id. Returns the latest lines of this instance, kept in
 * memory.
 */
export type LogPage = { lines: LogLine[] };

export type LogLine = {
  seq: number;
  time: string;
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  /** `request` for completed requests, `function` for output of code functions, `service` for everything else. */
  source: 'request' | 'function' | 'service';
  message: string;
  /** Name of the code function, for `function`. */
  functionName: string | null;
  fields: Record<string, unknown>;
};

/** `GET /statements`: cost of SQL statements, sorted by total time in descending order. */
export type StatementList = {
  /** `own`: counted by this process. */
  source: 'pg_stat_statements' | 'own';
  /** Reason why the extension is not used; null if it is. */
  missing: ExtensionMissing | null;
  since: string | null;
  /** Pid of the process that counted, if several serve the file. Null with a single process or with the extension. */
  process: number | null;
  statements: StatementFigures[];
  /** Number of unlisted statements. With `own`: number of evictions from the counter. */
  more: number;
};

export type ExtensionMissing = {
  /**
   * `not_installed`: not in this database. `not_loaded`: not by the server. `unreadable`: PostgreSQL returned an
   * error.
   */
  reason: 'not_installed' | 'not_loaded' | 'unreadable';
  /** Error message of PostgreSQL. */
  message: string | null;
};

export type StatementFigures = {
  /** Stable across requests; empty without a text. */
  id: string;
  role: string;
  /** Text with `$1` in place of values; null if the owner must not read it. */
  sql: string | null;
  calls: number;
  meanMs: number;
  totalMs: number;
  /** Share of the time of all counted statements, listed or not: from 0 to 1. */
  share: number;
  /** Number of rows that all calls together returned or changed. */
  rows: number;
};

export type FunctionSaved = FunctionSource & LoadOutcome;

/** `GET /config`: svc.yaml as written, with `${VAR}` references. */
export type ConfigFile = {
  name: string;
  text: string;
  /**
   * Included files, relative to the directory of svc.yaml. Form edits can change them; the text editor changes only
   * svc.yaml.
   */
  includes: string[];
  /** Overlay of the served mode, as a relative path. The dashboard never changes it. */
  overlay: string | null;
  version: string;
  /** False for a remote or read-only file, and if other instances have their own files. */
  editable: boolean;
  instances: number;
  /**
   * If all instances share the file: `3 of 4 instances serve 17`, then one line with a reason for each instance that
   * does not. Null if each instance has its own file.
   */
  shared: string[] | null;
};

/** Body of plan and apply. `version`: the version that the change was made against. */
export type ConfigChange = { version: string } & ({ edits: ConfigEditRequest[] } | { text: string });

export type ConfigEditRequest =
  | { kind: 'set' | 'append'; path: Array<string | number>; value: unknown }
  | { kind: 'delete'; path: Array<string | number> }
  | { kind: 'rename'; path: Array<string | number>; name: string };

/** `POST /config/plan` {ConfigChange}: previews the change. */
export type ConfigPlan = {
  /** svc.yaml after the change. */
  text: string;
  /** A line diff. The diff of an included file starts with a line that contains its path. */
  diff: Array<{ sign: ' ' | '+' | '-'; text: string; line: number }>;
  warnings: FileMistake[];
  steps: PlanStep[];
  problems: PlanProblem[];
  hints: PlanProblem[];
};

/**
 * `POST /config/apply` (write) {ConfigChange} → ConfigApplied. The service then reloads the file. Errors: 409
 * `file_changed` if svc.yaml has a different version, 409 `not_alone` if other instances have their own files, 422
 * `config_refused` with `mistakes`, 422 `plan_refused` if the migration is not possible.
 */
export type ConfigApplied = {
  version: string;
  text: string;
  /** Pending migration steps after the reload; null under `svc dev`, whose watcher reloads a moment later. */
  pending: Pending | null;
};

export type FileMistake = {
  path: string;
  /** Path of the included file with the mistake; null for svc.yaml itself. */
  file: string | null;
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

/** `GET /realtime` */
export type RealtimeLive = {
  /** `realtime.enabled` of svc.yaml. */
  enabled: boolean;
  privateOnly: boolean;
  hasPolicies: boolean;
  /** Tables that publish their changes, as `schema.table`. */
  published: string[];
  /** The instance that serves this request comes first. Counters start with the instance. */
  instances: Array<{
    state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
    sockets: number;
    lagMs: number;
    delivered: number;
    skipped: number;
    refused: number;
  }>;
  /** Number of instances that did not answer. Their channels are missing. */
  silent: number;
  /** Channels of all instances that answered, sorted by member count in descending order. */
  channels: RealtimeChannelInfo[];
  /** Number of unlisted channels. */
  more: number;
};

export type RealtimeChannelInfo = {
  /** Topic, without the prefix `realtime:`. */
  topic: string;
  private: boolean;
  members: number;
  /** Number of instances with a member. */
  instances: number;
  /** Messages sent to members since the channel was opened. */
  delivered: number;
  /** Subscribed tables: `schema.table` or `schema.*`. */
  tables: string[];
  /** First keys of the presence state. */
  present: string[];
  presentCount: number;
};

/**
 * `GET /realtime/watch?caller=&topic=&private=&table=` → an event stream of WatchedFrame: messages that this caller
 * receives after joining. `table` is `schema.table` or `schema.*` and may be repeated. The stream ends when the
 * channel closes.
 */
export type WatchedFrame = {
  /** Protocol event: `phx_reply` (of the join), `broadcast`, `presence_state`, `postgres_changes`, `system` … */
  event: string;
  payload: unknown;
  bytes: number;
  time: string;
};

/** `POST /realtime/send` (write): sends a broadcast as that caller → RealtimeSent. 403 if the policies reject it. */
export type RealtimeSend = {
  caller: CallerName;
  topic: string;
  private: boolean;
  event: string;
  /** Any JSON value. */
  payload: unknown;
};

export type RealtimeSent = {
  /** Number of recipients on this instance. Recipients on other instances are not counted. */
  heard: number;
};
