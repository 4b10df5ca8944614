// The normalised configuration: defaults are set, durations are in milliseconds, sizes in bytes. Only `load.ts` creates
// one, after all checks that do not need a database. Settings have the types of their schema; the types below describe
// the results of normalise.ts.
import type { Position } from './mistakes/mistake.ts';
import type { Source } from './read/source.ts';
import type { RawOAuthProvider, RawTemplate } from './schema/auth.ts';
import type { RawDataStep } from './schema/data-steps.ts';
import type { RawCodeFunction, RawSqlFunction } from './schema/functions.ts';
import type { NoticeKind } from './schema/names.ts';
import type { RawConstraint } from './schema/tables/constraints.ts';
import type { ForeignKey, QualifiedName } from './schema/tables/reference.ts';
import type { SvcFile } from './schema/schema.ts';
import type { RawSchedule } from './schema/events/schedules.ts';
import type { RawSeedEntry } from './schema/seed.ts';
import type { RawSequence } from './schema/sequences.ts';
import type { RawStatement } from './schema/statements.ts';
import type { RawS3Store } from './schema/settings.ts';
import type { RawType } from './schema/types.ts';
import type { KeptPartitions, RawPartition } from './schema/tables/partitions.ts';
import type { RawPolicy } from './schema/tables/policies.ts';
import type { RawBucket, RawField, RawIndex, RawTable } from './schema/tables/tables.ts';
import type { RawTableTrigger, RawUserTrigger, RawViewTrigger } from './schema/tables/triggers.ts';
import type { RawView } from './schema/tables/views.ts';

type Immutable<T> = unknown extends T ? T : { readonly [Key in keyof T]: Immutable<T[Key]> };

/** An entry of a list or map, with the position of its declaration. */
type Declared<T> = Immutable<T> & { readonly position: Position };

export type Config = {
  readonly project: Immutable<SvcFile['project']>;
  readonly database: Immutable<SvcFile['database']>;
  readonly server: Immutable<SvcFile['server']>;
  readonly providers: {
    /** Undefined if absent or null. Mail is then not sent. */
    readonly email: EmailProvider | undefined;
    readonly storage: StorageProvider;
  };
  readonly auth: AuthConfig;
  readonly extensions: readonly Extension[];
  /** Lists keep the order of the file. */
  readonly types: readonly DeclaredType[];
  readonly sequences: readonly Sequence[];
  readonly tables: readonly Table[];
  readonly views: readonly View[];
  readonly statements: readonly Statement[];
  readonly storage: readonly Bucket[];
  readonly realtime: RealtimeConfig;
  readonly rpc: readonly SqlFunction[];
  readonly functions: readonly CodeFunction[];
  /** Database objects that are served without being managed. */
  readonly expose: {
    readonly relations: ReadonlyArray<QualifiedName & { readonly columns?: readonly string[] | undefined }>;
    readonly routines: ReadonlyArray<QualifiedName & { readonly authRequired: boolean }>;
  };
  readonly functionsBundle: string | undefined;
  readonly schedules: readonly Schedule[];
  readonly seed: readonly SeedEntry[];
  readonly migrations: Immutable<Omit<SvcFile['migrations'], 'steps'>> & {
    readonly steps: readonly DataStep[];
  };
  readonly source: Source;
};

export type DataStep = Declared<
  Omit<RawDataStep, 'run' | 'sql' | 'undo'> & {
    /** Undefined if the SQL is written in svc.yaml. */
    readonly file: string | undefined;
    readonly sql: string;
    readonly undo?: { readonly file: string | undefined; readonly sql: string } | undefined;
  }
>;

export type Extension = Declared<{
  readonly name: string;
  readonly schema?: string | undefined;
  readonly version?: string | undefined;
  readonly cascade: boolean;
}>;

export type EmailProvider = Immutable<NonNullable<SvcFile['providers']['email']>>;

export type StorageProvider =
  /** A relative path starts at the directory of the file, or at `dataDirectory` of the source. */
  { readonly type: 'local'; readonly path: string } | ({ readonly type: 's3' } & Immutable<RawS3Store>);

export type AuthConfig = {
  readonly jwtExpirySeconds: number;
  readonly refreshTokenExpirySeconds: number;
  readonly allowSignup: boolean;
  readonly allowAnonymous: boolean;
  readonly redirectUrls: readonly string[];
  readonly sessions: Immutable<SvcFile['auth']['sessions']>;
  /** Undefined without an `auth.email` block. The one-time-password endpoint is then not mounted. */
  readonly email: EmailConfig | undefined;
  readonly oauth: readonly OAuthProvider[];
  readonly triggers: readonly UserTrigger[];
  /** Absent if the file has no hooks. */
  readonly hooks?: AuthHooks;
};

export type AuthHooks = Readonly<Partial<Record<'custom_access_token', AuthHook>>>;

/** The SQL function or code function that a hook calls. */
export type AuthHook = { readonly timeoutMs: number } & (
  | { readonly rpc: QualifiedName }
  | { readonly function: string }
);

/** Optional properties are set for every file. An absent property means false. */
export type EmailConfig = {
  readonly verifyEmail: boolean;
  readonly confirmAtSignup?: boolean;
  readonly confirmExpiryMs?: number;
  readonly notices?: boolean | readonly NoticeKind[];
  readonly templates: readonly EmailTemplate[];
};

/** The body is inline, or read from `body_file`. */
export type EmailTemplate = Declared<Omit<RawTemplate, 'body_file'> & { name: string }>;

/** `name`: a built-in provider such as `google`, or any name with an `issuer`. */
export type OAuthProvider = Declared<RawOAuthProvider & { name: string }>;

/** A database type that the file declares. */
export type DeclaredType = Declared<Omit<RawType, 'default'> & { name: string }> & {
  readonly default: Default | undefined;
};

/** A sequence without an owning column. */
export type Sequence = Declared<RawSequence & { name: string }>;

/** An object that is declared with its SQL statement, such as an aggregate. */
export type Statement = Declared<RawStatement & { name: string }>;

export type Table = Declared<
  Omit<RawTable, 'fields' | 'indexes' | 'constraints' | 'rls' | 'onNewUser' | 'triggers' | 'partitions'> & {
    name: string;
  }
> & {
  readonly onNewUser: Declared<NonNullable<RawTable['onNewUser']>> | undefined;
  readonly fields: readonly Field[];
  /** Names of the `primary_key` fields, in order. */
  readonly primaryKey: readonly string[];
  readonly indexes: readonly Index[];
  readonly constraints: readonly Constraint[];
  readonly triggers: readonly TableTrigger[];
  readonly partitions: readonly Partition[] | KeptPartitions | undefined;
  /** `absent`: no `rls` key, the table is open. `off`: `rls: false`, open on purpose. A list turns security on. */
  readonly rls: 'absent' | 'off' | readonly Policy[];
};

/** A field without a `type` has the type of the referenced column. */
export type Field = Declared<
  Omit<RawField, 'default' | 'foreignKey' | 'ref' | 'onDelete' | 'min' | 'max'>
> & {
  readonly default: Default | undefined;
  /** Decimal digits as text: a JavaScript number would round `9007199254740993`. Hexadecimal is converted. */
  readonly min: string | undefined;
  readonly max: string | undefined;
  readonly foreignKey: ForeignKey | undefined;
  readonly ref: StorageRef | undefined;
};

/** A default as written. The migration engine interprets it according to the type of the column. */
export type Default =
  /** `text`: source text, so that `1.10` stays `1.10`. `quoted`: distinguishes `"1"` from `1`. */
  | {
      readonly kind: 'scalar';
      readonly text: string;
      readonly type: 'string' | 'number' | 'boolean';
      readonly quoted: boolean;
    }
  | { readonly kind: 'list'; readonly items: readonly string[]; readonly json: string }
  | { readonly kind: 'map'; readonly json: string }
  /** `{ sql: … }`: an expression. */
  | { readonly kind: 'sql'; readonly text: string };

export type StorageRef = { readonly bucket: string; readonly onDelete: 'cascade' | 'keep' };

export type Partition = Declared<RawPartition>;
export type { KeptPartitions };
export type TableTrigger = Declared<RawTableTrigger>;
export type ViewTrigger = Declared<RawViewTrigger>;
/** A trigger on auth.users. */
export type UserTrigger = Declared<RawUserTrigger>;
export type Constraint = Declared<RawConstraint>;

export type Index = Declared<RawIndex>;
export type Policy = Declared<RawPolicy>;

/** The query is inline or read from a file, without a final semicolon. */
export type View = Declared<
  Omit<RawView, 'query' | 'indexes' | 'triggers'> & { name: string; query: string }
> & {
  readonly indexes: readonly Index[];
  readonly triggers: readonly ViewTrigger[];
};

export type Bucket = Declared<Omit<RawBucket, 'rls'> & { name: string }> & {
  readonly rls: readonly Policy[];
};

export type RealtimeConfig = Immutable<Omit<SvcFile['realtime'], 'rls'>> & {
  /** Policies on receiving (`select`) and sending (`insert`). */
  readonly rls: readonly Policy[];
};

/** `returns` as written: a scalar type, `record`, `setof <table>`, `void` or `trigger`. */
export type SqlFunction = Declared<
  Omit<RawSqlFunction, 'args' | 'body' | 'bodyFile' | 'expose'> & { name: string }
> & {
  /** Key under `rpc`. `name` is the SQL name, which overloads share. */
  readonly key: string;
  readonly body: string;
  /** True if the data API serves the function. */
  readonly expose: boolean;
  readonly args: readonly SqlFunctionArg[];
};

export type SqlFunctionArg = Declared<Omit<RawSqlFunction['args'][number], 'default'>> & {
  readonly default: Default | undefined;
};

export type CodeFunction = Declared<RawCodeFunction & { name: string }>;

/** Exactly one of `cron` and `everyMs`, and of `function` and `rpc`, is set. */
export type Schedule = Declared<Omit<RawSchedule, 'payload'> & { name: string }> & {
  /** JSON text. */
  readonly payload: string;
};

export type SeedEntry = Declared<Omit<RawSeedEntry, 'rows' | 'objects'>> & {
  readonly rows: readonly SeedTable[];
  readonly objects: ReadonlyArray<{ readonly bucket: string; readonly folder: string }>;
};

/** Rows from svc.yaml, or from a file. */
export type SeedTable = {
  readonly schema: string;
  readonly table: string;
  readonly primaryKey: readonly string[];
  readonly rows: readonly SeedRow[];
  readonly file: string | undefined;
};

export type SeedRow = { readonly values: ReadonlyMap<string, SeedValue>; readonly position: Position };

/** JSON with the original digits of numbers, or a seed user that is replaced by its id. */
export type SeedValue = { readonly json: string } | { readonly user: string };
