// The JSON API under `/dashboard/api`, as types that server and page share. Dates are ISO text, sizes bytes, durations
// milliseconds.
//
// Every route but `GET /session`, `POST /session` and `POST /session/local` needs the session cookie. Every method
// but GET and HEAD also needs the header `x-svc-csrf` with the token of `GET /session`. Routes marked (write) are
// refused with 403 `dashboard_read_only` unless the mode is `readwrite`.

export type DashboardMode = 'readwrite' | 'readonly';

/** The body of every error response. */
export type ApiError = {
  code: string;
  message: string;
  details: string | null;
  hint: string | null;
  /** With `config_refused`: the mistakes in the changed file. With `plan_refused`: the problems of the migration. */
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
  /** Empty when nobody is signed in. */
  csrf: string;
  /** Null until signed in. */
  project: { name: string; dev: boolean } | null;
  /** Why the database follows another file than this instance; null while it does not, and until signed in. */
  superseded: { message: string; hint: string; differs: readonly string[] } | null;
};

/** One of several processes that serve the file on this machine; number 0 is their parent, which serves nothing. */
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
    /** Of all processes together. */
    memoryBytes: number;
    /** Empty where there is one. */
    processes: ProcessFigures[];
  };
  counts: { tables: number; buckets: number; sqlFunctions: number; codeFunctions: number; users: number };
  databaseBytes: number;
  /** Tables without an `rls` key: open to every key holder. */
  openTables: string[];
};

/** `GET /pending`: migration steps from the database's schema to that of the file. */
export type Pending =
  | { kind: 'in-sync' }
  /** Another instance has already migrated to a newer file. */
  | { kind: 'superseded' }
  | { kind: 'pending'; steps: string[]; problems: PlanProblem[] };

/** `POST /keys/secret` → the secret key, for the copy button. */
export type SecretKey = { secretKey: string };

/** The caller that rows are read and functions called as. */
export type CallerName = 'service' | 'anon' | `user:${string}`;

// `/as/<caller>/rest/v1/…`, `/as/<caller>/auth/v1/…`, `/as/<caller>/storage/v1/…`, `/as/<caller>/functions/v1/…`:
// the APIs themselves, with any method, headers, query and body they accept, called with the keys and token of that
// caller, which the page never sees. In `readonly` mode only GET, HEAD and the POST that lists objects
// (`/object/list/<bucket>`), and no functions.

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
  /** -1 before the table was first analysed. */
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
  /** As in PostgreSQL; `all` means every operation. */
  operation: 'select' | 'insert' | 'update' | 'delete' | 'all';
  permissive: boolean;
  roles: string[];
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
  /** Whether it applies to this role. */
  applies: boolean;
  using: { sql: string; outcome: PolicyOutcome } | null;
  withCheck: { sql: string; outcome: PolicyOutcome } | null;
};

/** `null`: the expression was NULL, which counts as false. `error`: it failed, with PostgreSQL's message. */
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
  /** The body as in svc.yaml; null for functions not managed by it. */
  sql: string | null;
};

/** `GET /functions` */
export type CodeFunctionList = {
  functions: CodeFunctionInfo[];
  workers: Array<{ pid: number | null; state: string; inFlight: number; readyMs: number | null }>;
  /** The sources can be read: the configuration is local and no bundle is used. */
  readable: boolean;
  /** The sources can also be changed: this is the only instance. */
  editable: boolean;
  /** Number of instances on this database. */
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
  /** The error when it was last loaded; null if it loaded. */
  error: string | null;
};

/** `POST /functions` (write): a starter function, declared in svc.yaml. */
export type NewFunction = { name: string; language: 'js' | 'ts'; authRequired: boolean };
export type CreatedFunction = { files: string[] } & LoadOutcome;

/** What became of a written file in this instance. */
export type LoadOutcome = {
  /** False under `svc dev`, whose watcher loads it a moment later. */
  taken: boolean;
  /** The error when the function was last loaded; null if it loaded. */
  error: string | null;
};

/** `GET /functions/<name>/source` → Source · `PUT /functions/<name>/source` (write) {text, version} → FunctionSaved. */
export type FunctionSource = {
  file: string;
  text: string;
  /** Identifies this content. A save with another version than the file's is refused with 409 `file_changed`. */
  version: string;
};

/** `GET /auth`: the settings, without secrets. */
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
  /** Its name under `auth.email.templates`, which may be an alias of the kind. */
  name: string;
  /** Whether svc.yaml overrides the built-in text. */
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
 * `POST /auth/templates/page` {html} → MailPage: the HTML of a preview as a sandboxed page at `path`. Refused with
 * 413 `preview_too_large` if it does not fit into a URL.
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

/** `GET /mail?to=&limit=50`. `GET /mail/<id>/html` is the mail as a sandboxed page. */
export type MailList = {
  /** Mail is kept instead of sent: `svc dev` without a mail provider. */
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
 * `GET /logs?after=<seq>&level=&source=` (that level and above) → LogPage · `GET /logs/stream?after=<seq>` →
 * server-sent events, each a LogLine with its `seq` as event id. The latest lines of this instance, kept in memory.
 */
export type LogPage = { lines: LogLine[] };

export type LogLine = {
  seq: number;
  time: string;
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  /** `request` for answered requests, `function` for output of code functions, `service` for the rest. */
  source: 'request' | 'function' | 'service';
  message: string;
  /** Name of the code function, for `function`. */
  functionName: string | null;
  fields: Record<string, unknown>;
};

/** `GET /statements`: what statements cost the database, those that took the most time together first. */
export type StatementList = {
  /** The extension, or what this service counts itself. */
  source: 'pg_stat_statements' | 'own';
  /** Why the extension is not read; null where it is. */
  missing: ExtensionMissing | null;
  since: string | null;
  /** Where several processes serve the file: the one that counted, by its pid. Null where there is one, or the extension. */
  process: number | null;
  statements: StatementFigures[];
  /** How many are not listed; of svc's own those that made room for others, each time. */
  more: number;
};

export type ExtensionMissing = {
  /** `not_installed` in this database; `not_loaded` by the server; `unreadable`: PostgreSQL refused. */
  reason: 'not_installed' | 'not_loaded' | 'unreadable';
  /** What PostgreSQL said, if it said something. */
  message: string | null;
};

export type StatementFigures = {
  /** Its own in the list, and the same in the next one; empty without a text. */
  id: string;
  role: string;
  /** With `$1` where values were; null where the owner may not read it. */
  sql: string | null;
  calls: number;
  meanMs: number;
  totalMs: number;
  /** Of the time of all statements that are counted now, listed or not: from 0 to 1. */
  share: number;
  /** That all calls together returned or touched. */
  rows: number;
};

export type FunctionSaved = FunctionSource & LoadOutcome;

/** `GET /config`: svc.yaml as written, with `${VAR}` references. */
export type ConfigFile = {
  name: string;
  text: string;
  /** Files that it includes, relative to its directory. Forms change them, the text of the page does not. */
  includes: string[];
  /** What is laid over all of them in the mode that is served, relative as well. Nothing here changes it. */
  overlay: string | null;
  version: string;
  /** False for a remote or read-only file, and if there are other instances with files of their own. */
  editable: boolean;
  instances: number;
  /**
   * Where all instances share the file: `3 of 4 instances serve 17`, then a line for each that does not and why. Null
   * where each has its own.
   */
  shared: string[] | null;
};

/** The body of plan and apply. `version` is the version that the change was made against. */
export type ConfigChange = { version: string } & ({ edits: ConfigEditRequest[] } | { text: string });

export type ConfigEditRequest =
  | { kind: 'set' | 'append'; path: Array<string | number>; value: unknown }
  | { kind: 'delete'; path: Array<string | number> }
  | { kind: 'rename'; path: Array<string | number>; name: string };

/** `POST /config/plan` {ConfigChange}: what the change would do, without doing it. */
export type ConfigPlan = {
  /** svc.yaml after the change. */
  text: string;
  /** A line diff; that of an included file begins with a line of its name. */
  diff: Array<{ sign: ' ' | '+' | '-'; text: string; line: number }>;
  warnings: FileMistake[];
  steps: PlanStep[];
  problems: PlanProblem[];
  hints: PlanProblem[];
};

/**
 * `POST /config/apply` (write) {ConfigChange} → ConfigApplied. 409 `file_changed` if svc.yaml has another version,
 * 409 `not_alone` if other instances have files of their own,
 * 422 `config_refused` with `mistakes`, 422 `plan_refused` if the migration is not possible. The service then reloads
 * the file as after any other change.
 */
export type ConfigApplied = {
  version: string;
  text: string;
  /** Pending migration steps after the reload; null under `svc dev`, whose watcher reloads a moment later. */
  pending: Pending | null;
};

export type FileMistake = {
  path: string;
  /** The included file in which it stands; null for svc.yaml itself. */
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
  /** Under `realtime` of svc.yaml. */
  enabled: boolean;
  privateOnly: boolean;
  hasPolicies: boolean;
  /** Tables whose changes are told, as `schema.table`. */
  published: string[];
  /** The first is the one that the page talks to. Counters are since the start of each. */
  instances: Array<{
    state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
    sockets: number;
    lagMs: number;
    delivered: number;
    skipped: number;
    refused: number;
  }>;
  /** Other instances that did not answer: their channels are missing here. */
  silent: number;
  /** Of all instances that answered; those with the most members first. */
  channels: RealtimeChannelInfo[];
  /** How many channels are not listed. */
  more: number;
};

export type RealtimeChannelInfo = {
  /** Without `realtime:`. */
  topic: string;
  private: boolean;
  members: number;
  /** On how many instances they are. */
  instances: number;
  /** Messages for members since the channel was opened. */
  delivered: number;
  /** Whose changes its members listen for: `schema.table` or `schema.*`. */
  tables: string[];
  /** Keys of who is present, the first of them. */
  present: string[];
  presentCount: number;
};

/**
 * `GET /realtime/watch?caller=&topic=&private=&table=` → an event stream of WatchedFrame: what that caller would be sent
 * after joining. `table` is `schema.table` or `schema.*` and may be repeated. The stream ends with the channel.
 */
export type WatchedFrame = {
  /** Event of the protocol: `phx_reply` (of the join), `broadcast`, `presence_state`, `postgres_changes`, `system` … */
  event: string;
  payload: unknown;
  bytes: number;
  time: string;
};

/** `POST /realtime/send` (write): a broadcast as that caller → RealtimeSent; 403 when the policies do not let him. */
export type RealtimeSend = {
  caller: CallerName;
  topic: string;
  private: boolean;
  event: string;
  /** Any JSON. */
  payload: unknown;
};

export type RealtimeSent = {
  /** Members of this instance who were sent it; those of others are not known. */
  heard: number;
};
