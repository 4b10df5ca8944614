// The database's structure as the catalog shows it. Every expression is the server's own print.
import type { LiveIndex } from '../indexes.ts';
import type { PerHost } from '../rights/hosts.ts';
import type { Attribute, Deferrable, IdentityKind } from '../model.ts';
import type { LivePartitioning } from '../partitions.ts';
import type { LivePublication, ReplicaIdentity } from '../publication.ts';
import type { LiveSequence } from '../sequences.ts';
import type { LiveStatement } from '../statements.ts';
import type { LiveTrigger } from '../triggers.ts';
import type { LiveView } from '../views.ts';
import type { Check, Column, ForeignKey, Key, Policy, Signature } from '../relation.ts';

export type Live = {
  /** Those that are no tables, and of no extension. */
  readonly types: ReadonlyMap<string, LiveType>;
  readonly tables: ReadonlyMap<string, LiveTable>;
  readonly functions: ReadonlyMap<string, readonly LiveFunction[]>;
  readonly views: ReadonlyMap<string, LiveView>;
  readonly schemas: ReadonlyMap<string, LiveSchema>;
  /** All policies of those tables; the engine touches only its own. */
  readonly hosted: PerHost<readonly LivePolicy[]>;
  /** Triggers of svc on `auth.users`. */
  readonly newUsers: readonly LiveTrigger[];
  /** All others on `auth.users`. */
  readonly userTriggers: readonly LiveTrigger[];
  /** That of realtime; null where somebody dropped it. */
  readonly publication: LivePublication | null;
  /** All but those that come with every database. */
  readonly extensions: readonly LiveExtension[];
  /** Those that belong to no column and no extension. */
  readonly sequences: ReadonlyMap<string, LiveSequence>;
  /** What no key makes, by identity. */
  readonly statements: ReadonlyMap<string, LiveStatement>;
  readonly serverVersion: number;
};

export type LiveExtension = {
  readonly name: string;
  readonly schema: string;
  readonly version: string;
};

export type LiveSchema = { readonly name: string; readonly usageGranted: boolean };

export type LiveType = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly kind: 'enum' | 'domain' | 'composite';
  /** Of an enum, in their order. */
  readonly values: readonly string[];
  readonly domain: LiveDomain | null;
  /** Of a composite type, in their order. */
  readonly attributes: readonly Attribute[];
  readonly comment: string | null;
  /** Something else names it. */
  readonly used: boolean;
  /** What it and its values are called until the renames of the run; absent where these do not concern it. */
  readonly former?: { readonly name: string; readonly values: ReadonlyMap<string, string> };
};

export type LiveDomain = {
  readonly base: string;
  readonly notNull: boolean;
  readonly default: string | null;
  /** Where it is not that of the base. */
  readonly collation: string | null;
  readonly checks: ReadonlyArray<{
    readonly label: string;
    readonly expression: string;
    readonly validated: boolean;
  }>;
};

export type LiveTable = {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** Null: it holds its rows itself. */
  readonly partitioning: LivePartitioning | null;
  readonly rowSecurity: boolean;
  /** The policies bind the owner too. The file cannot ask for that, and svc works as the owner. */
  readonly rowSecurityForced: boolean;
  /** The three API roles have exactly what they should, and PUBLIC nothing. */
  readonly granted: 'api' | 'none' | 'other';
  /** By role, its owner left out: `select`, or `all`. Those on columns are with the columns. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
  /** A role besides the owner and the three API roles has a privilege on it or on one of its columns. */
  readonly grantedToOthers: boolean;
  /** In the publication of realtime; `part`: only some of its columns or rows. */
  readonly published: 'whole' | 'part' | 'no';
  /** In that of Supabase; null where it is not. */
  readonly publishedThere: { readonly whole: boolean; readonly events: readonly string[] } | null;
  readonly replicaIdentity: ReplicaIdentity;
  /** A crash empties it, and the write-ahead log has nothing of it. */
  readonly unlogged: boolean;
  /** Storage parameters, as they were set. */
  readonly with: Readonly<Record<string, string>>;
  readonly estimatedRows: number;
  readonly bytes: number;
  readonly comment: string | null;
  readonly columns: ReadonlyMap<string, LiveColumn>;
  readonly keys: readonly LiveKey[];
  readonly foreignKeys: readonly LiveForeignKey[];
  readonly checks: readonly LiveCheck[];
  readonly exclusions: readonly LiveExclusion[];
  readonly indexes: readonly LiveIndex[];
  readonly policies: readonly LivePolicy[];
  /** All but those that a type change needs. */
  readonly triggers: readonly LiveTrigger[];
};

export type LiveColumn = Column<string> & {
  readonly number: number;
  readonly category: string;
  readonly identity: IdentityKind | null;
  /** Where it is not that of its type: `"C"`, `public.nocase`. */
  readonly collation: string | null;
  readonly comment: string | null;
  readonly sequence: string | null;
  readonly sequenceGranted: boolean;
  /** By role; null where nothing is granted on the column by itself. */
  readonly grants: Readonly<Record<string, readonly string[]>> | null;
};

export type LiveKey = Key;

export type LiveForeignKey = ForeignKey & {
  readonly validated: boolean;
  /** False when its triggers are disabled or it is NOT ENFORCED: no row is checked. */
  readonly enforced: boolean;
};

export type LiveExclusion = {
  readonly label: string;
  /** The server's print. */
  readonly definition: string;
  /** Columns that are entries by themselves. */
  readonly columns: readonly string[];
  /** The prints of its entries, without what follows them, and their operators. */
  readonly keys: readonly string[];
  readonly operators: readonly string[];
  readonly where: string | null;
  readonly deferrable: Deferrable | null;
};

export type LiveCheck = Check<string> & { readonly validated: boolean; readonly enforced: boolean };

export type LivePolicy = Policy<string> & { readonly label: string };

export type LiveFunction = Signature & {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  readonly identityArguments: string;
  readonly isProcedure: boolean;
  readonly language: string;
  /** All arguments, in order; modes as in `pg_proc.proargmodes`. */
  readonly parameters: ReadonlyArray<{
    readonly name: string;
    readonly mode: string;
    readonly type: string;
    readonly default: string | null;
  }>;
  readonly volatility: string;
  readonly strict: boolean;
  /** `u`, `r` or `s`. */
  readonly parallel: string;
  readonly cost: number;
  readonly rows: number;
  readonly definer: boolean;
  readonly settings: readonly string[];
  /** Of an atomic one as the server prints it, without BEGIN ATOMIC and END around it. */
  readonly body: string;
  /** The server read the body when the function was made, and knows what it uses. */
  readonly atomic: boolean;
  /** Roles that may run it besides its owner, `public` among them. */
  readonly callers: readonly string[];
};
