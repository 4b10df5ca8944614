// The configuration as everything else reads it: defaults filled in, durations in milliseconds, sizes in bytes.
// Made from svc.yaml by `load.ts` and by nothing else; a value of this type has passed every check that needs
// no database.
import type { Position } from './mistakes/mistake.ts';
import type { Source } from './read/source.ts';
import type { ForeignKey } from './schema/reference.ts';

export type Config = {
  readonly project: Project;
  readonly database: { readonly pool: PoolSettings };
  readonly server: ServerSettings;
  readonly providers: Providers;
  readonly auth: AuthConfig;
  /** In file order, as are all lists below. */
  readonly tables: readonly Table[];
  readonly storage: readonly Bucket[];
  readonly rpc: readonly SqlFunction[];
  readonly functions: readonly CodeFunction[];
  /** Objects of the database that are served without being managed. */
  readonly expose: ExposedObjects;
  readonly functionsBundle: string | undefined;
  readonly migrations: MigrationSettings;
  readonly source: Source;
};

export type Project = {
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly cloudProjectId: string | undefined;
};

export type PoolSettings = { readonly max: number; readonly min: number; readonly idleTimeoutMs: number };

export type ServerSettings = {
  readonly port: number;
  /** Bytes a request that is no upload may carry. */
  readonly maxBodyBytes: number;
  /** Bytes an answer of the data API may have. */
  readonly maxResponseBytes: number;
  readonly maxLimit: number;
  readonly cors: { readonly origins: readonly string[] };
  readonly timeouts: {
    readonly requestMs: number;
    readonly dbQueryMs: number;
    readonly uploadMs: number;
    readonly shutdownMs: number;
  };
};

export type Providers = {
  /** Undefined when absent or null: no mail is sent. */
  readonly email: EmailProvider | undefined;
  readonly storage: StorageProvider;
};

export type EmailProvider = {
  readonly type: 'resend' | 'ses' | 'smtp';
  readonly apiKey: string | undefined;
  readonly defaultFromEmail: string;
  /** Only with `smtp`: `smtp://user:password@host:587`. */
  readonly url: string | undefined;
  /** Only with `ses`. */
  readonly region: string | undefined;
};

export type StorageProvider =
  | {
      readonly type: 'local';
      /** Directory; undefined takes `.svc/storage` beside the file. */
      readonly path: string | undefined;
    }
  | {
      readonly type: 's3';
      readonly bucket: string;
      readonly region: string | undefined;
      readonly accessKeyId: string | undefined;
      readonly secretAccessKey: string | undefined;
      readonly endpoint: string | undefined;
    };

export type AuthConfig = {
  readonly jwtExpirySeconds: number;
  readonly refreshTokenExpirySeconds: number;
  readonly allowSignup: boolean;
  readonly allowAnonymous: boolean;
  readonly redirectUrls: readonly string[];
  /** Undefined when there is no `auth.email` block: the one-time-password endpoint is then not mounted. */
  readonly email: AuthEmail | undefined;
  readonly oauth: readonly OAuthProvider[];
};

export type AuthEmail = {
  readonly verifyEmail: boolean;
  readonly templates: readonly EmailTemplate[];
};

export type EmailTemplate = {
  readonly name: string;
  readonly subject: string | undefined;
  /** Inline, or read from `body_file`. */
  readonly body: string | undefined;
  readonly position: Position;
};

export type OAuthProvider = {
  /** Keys the built-in implementation, for example `google`. */
  readonly name: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly redirectUrl: string;
  /** For providers that are not built in: the OIDC issuer. */
  readonly issuer: string | undefined;
  /** Base URL of a self-hosted or tenant-bound provider. */
  readonly url: string | undefined;
  readonly scopes: readonly string[] | undefined;
  /** Whether accounts without an address may sign in; undefined leaves it to the provider. */
  readonly emailOptional?: boolean | undefined;
  readonly position: Position;
};

export type Table = {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom: string | undefined;
  /** Never pruned, never rewritten, whatever is allowed on the command line. */
  readonly protect: boolean;
  readonly fields: readonly Field[];
  /** Names of the `primary_key` fields, in order. */
  readonly primaryKey: readonly string[];
  readonly indexes: readonly Index[];
  /** `absent`: no `rls` key, the table is open. `off`: `rls: false`, open on purpose. A list turns security on. */
  readonly rls: 'absent' | 'off' | readonly Policy[];
  readonly position: Position;
};

export type Field = {
  readonly name: string;
  /** As written; undefined follows the referenced column. */
  readonly type: string | undefined;
  readonly primaryKey: boolean;
  readonly required: boolean;
  readonly unique: boolean;
  readonly default: Default | undefined;
  readonly enum: readonly string[] | undefined;
  readonly pattern: string | undefined;
  /** Digits as written: a JavaScript number would round `9007199254740993`. Hexadecimal is written out. */
  readonly min: string | undefined;
  readonly max: string | undefined;
  readonly check: string | undefined;
  readonly foreignKey: ForeignKey | undefined;
  readonly ref: StorageRef | undefined;
  readonly renamedFrom: string | undefined;
  /** SQL expression that fills existing rows once. */
  readonly backfill: string | undefined;
  /** SQL cast expression for a type change. */
  readonly using: string | undefined;
  readonly position: Position;
};

/** A default as written. What it means in SQL depends on the column's type and is decided by the migration engine. */
export type Default =
  /** `text` is the scalar's source text, so `1.10` stays `1.10`; `quoted` tells `"1"` from `1`. */
  | {
      readonly kind: 'scalar';
      readonly text: string;
      readonly type: 'string' | 'number' | 'boolean';
      readonly quoted: boolean;
    }
  | { readonly kind: 'list'; readonly items: readonly string[]; readonly json: string }
  | { readonly kind: 'map'; readonly json: string }
  /** `{ sql: … }`: any expression. */
  | { readonly kind: 'sql'; readonly text: string };

export type StorageRef = { readonly bucket: string; readonly onDelete: 'cascade' | 'keep' };

export type Index = {
  readonly name: string | undefined;
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly where: string | undefined;
  readonly position: Position;
};

export const OPERATIONS = ['select', 'insert', 'update', 'delete'] as const;
export type Operation = (typeof OPERATIONS)[number];

export type Policy = {
  readonly name: string | undefined;
  readonly operations: readonly Operation[];
  readonly type: 'permissive' | 'restrictive';
  readonly using: string | undefined;
  readonly withCheck: string | undefined;
  readonly check: string | undefined;
  readonly position: Position;
};

export type Bucket = {
  readonly name: string;
  readonly public: boolean;
  readonly maxSizeBytes: number;
  /** Allowed MIME types, `image/*` included; empty allows all. */
  readonly types: readonly string[];
  readonly rls: readonly Policy[];
  readonly position: Position;
};

export type SqlFunction = {
  readonly name: string;
  readonly renamedFrom: string | undefined;
  readonly description: string | undefined;
  readonly authRequired: boolean;
  readonly language: 'sql' | 'plpgsql';
  readonly volatility: 'volatile' | 'stable' | 'immutable';
  readonly security: 'invoker' | 'definer';
  readonly args: readonly SqlFunctionArg[];
  /** As written: a scalar type, `record`, `setof <table>` or `void`. */
  readonly returns: string;
  readonly body: string;
  readonly position: Position;
};

export type SqlFunctionArg = {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly default: Default | undefined;
  readonly position: Position;
};

export type CodeFunction = {
  readonly name: string;
  readonly runtime: 'node';
  /** Path relative to the directory of the file. */
  readonly file: string;
  readonly authRequired: boolean;
  readonly timeoutMs: number;
  /** Values with their `${SVC_ENV_…}` references substituted. */
  readonly env: Readonly<Record<string, string>>;
  readonly position: Position;
};

export type ExposedObjects = {
  readonly relations: ReadonlyArray<{
    readonly schema: string;
    readonly name: string;
    /** Undefined: all of them. */
    readonly columns?: readonly string[] | undefined;
  }>;
  readonly routines: ReadonlyArray<{
    readonly schema: string;
    readonly name: string;
    readonly authRequired: boolean;
  }>;
};

export type MigrationSettings = {
  /** What a removed table or column becomes when nobody says otherwise. */
  readonly drop: 'retire' | 'refuse' | 'drop';
  /** Retired objects younger than this are not pruned unless named. */
  readonly pruneAfterMs: number;
  readonly lockTimeoutMs: number;
  readonly lockBudgetMs: number;
  readonly bootBudgetMs: number;
  readonly maxWriteBlockMs: number;
};
