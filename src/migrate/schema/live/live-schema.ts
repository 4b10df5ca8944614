// The live schema: the structure of the database as the catalog shows it. Expressions are printed by the server.
import type { LiveIndex } from '../indexes.ts';
import type { PerHost } from '../rights/hosts.ts';
import type { Attribute, Deferrable, IdentityKind } from '../model.ts';
import type { LivePartitioning } from '../partitions.ts';
import type { LivePublication, ReplicaIdentity } from '../publication.ts';
import type { LiveSequence } from '../sequences.ts';
import type { LiveStatement } from '../statements.ts';
import type { TableAttributes } from '../sql/table-attributes.ts';
import type { LiveTrigger } from '../triggers.ts';
import type { LiveView } from '../views.ts';
import type { Check, Column, ForeignKey, Key, Policy, Signature } from '../relation.ts';

export type Live = {
  /** Types that belong to no table and no extension. */
  readonly types: ReadonlyMap<string, LiveType>;
  readonly tables: ReadonlyMap<string, LiveTable>;
  readonly functions: ReadonlyMap<string, readonly LiveFunction[]>;
  readonly views: ReadonlyMap<string, LiveView>;
  readonly schemas: ReadonlyMap<string, LiveSchema>;
  /** All policies on the tables of svc. svc changes only its own policies. */
  readonly hosted: PerHost<readonly LivePolicy[]>;
  /** Triggers on `auth.users` that svc created for `on_new_user`. */
  readonly newUsers: readonly LiveTrigger[];
  /** All other triggers on `auth.users`. */
  readonly userTriggers: readonly LiveTrigger[];
  /** The publication of realtime, or null if it does not exist. */
  readonly publication: LivePublication | null;
  /** Installed extensions except `plpgsql`. */
  readonly extensions: readonly LiveExtension[];
  /** Sequences that belong to no column and no extension. */
  readonly sequences: ReadonlyMap<string, LiveSequence>;
  /** Objects of the kinds that the file declares under `statements`, keyed by identity. */
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
  /** Labels of an enum in their order. */
  readonly values: readonly string[];
  readonly domain: LiveDomain | null;
  /** Attributes of a composite type in their order. */
  readonly attributes: readonly Attribute[];
  readonly comment: string | null;
  /** Another object depends on the type. */
  readonly used: boolean;
  /** Current names of the type and its values, if the renames of this run change them. */
  readonly former?: { readonly name: string; readonly values: ReadonlyMap<string, string> };
};

export type LiveDomain = {
  readonly base: string;
  readonly notNull: boolean;
  readonly default: string | null;
  /** Null if it is the collation of the base type. */
  readonly collation: string | null;
  readonly checks: ReadonlyArray<{
    readonly label: string;
    readonly expression: string;
    readonly validated: boolean;
  }>;
};

export type LiveTable = TableAttributes & {
  readonly oid: string;
  readonly schema: string;
  readonly name: string;
  /** Null if the table is not partitioned. */
  readonly partitioning: LivePartitioning | null;
  readonly rowSecurity: boolean;
  /** FORCE ROW LEVEL SECURITY. The file cannot declare it, because svc works as the owner of the tables. */
  readonly rowSecurityForced: boolean;
  /** `api`: the API roles have exactly their default privileges, and PUBLIC has none. */
  readonly granted: 'api' | 'none' | 'other';
  /** Privileges by role, without the owner. Privileges on columns are stored with the columns. */
  readonly grants: Readonly<Record<string, readonly string[]>>;
  /** A role other than the owner and the API roles has a privilege on the table or on one of its columns. */
  readonly grantedToOthers: boolean;
  /** Membership in the publication of realtime. `part`: only some columns or rows. */
  readonly published: 'whole' | 'part' | 'no';
  /** Membership in the publication of Supabase, or null. */
  readonly supabasePublication: { readonly whole: boolean; readonly events: readonly string[] } | null;
  readonly replicaIdentity: ReplicaIdentity;
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
  /** All triggers except those of a running type change. */
  readonly triggers: readonly LiveTrigger[];
};

export type LiveColumn = Column<string> & {
  readonly number: number;
  readonly category: string;
  readonly identity: IdentityKind | null;
  /** Collation if it differs from that of the type: `"C"`, `public.nocase`. */
  readonly collation: string | null;
  readonly comment: string | null;
  readonly sequence: string | null;
  /** API roles that may use and read its sequence. */
  readonly sequenceUsers: readonly string[];
  /** Privileges on this column by role, or null if none are granted. */
  readonly grants: Readonly<Record<string, readonly string[]>> | null;
};

export type LiveKey = Key;

export type LiveForeignKey = ForeignKey & {
  readonly validated: boolean;
  /** False if its triggers are disabled or it is NOT ENFORCED. Rows are then not checked. */
  readonly enforced: boolean;
};

export type LiveExclusion = {
  readonly label: string;
  readonly definition: string;
  /** Elements that are plain columns. */
  readonly columns: readonly string[];
  /** Printed elements without their options. `operators` has the same order. */
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
  /** Body of the function. The body of an atomic function is printed by the server, without BEGIN ATOMIC and END. */
  readonly body: string;
  /** The server parsed the body when the function was created and records its dependencies. */
  readonly atomic: boolean;
  /** Roles with EXECUTE, without the owner. May contain `public`. */
  readonly callers: readonly string[];
};
