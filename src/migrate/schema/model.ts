// What svc.yaml declares about the database, as plain JSON: every run stores it, and `down` plans from a stored one.
// Expressions are text as the user wrote it.
import { quoteIdent } from '../../postgres/sql.ts';
import type { StatementModel } from './statements.ts';

export type SchemaModel = {
  /** Absent: none. */
  readonly extensions?: readonly ExtensionModel[];
  /** Absent without any. */
  readonly types?: readonly TypeModel[];
  /** Absent without any. */
  readonly sequences?: readonly SequenceModel[];
  /** Absent without any. */
  readonly statements?: readonly StatementModel[];
  readonly tables: readonly TableModel[];
  readonly functions: readonly FunctionModel[];
  readonly buckets: readonly BucketModel[];
  /** Of private channels; absent: none. */
  readonly channels?: readonly PolicyModel[];
  /** Triggers of auth.users. */
  readonly userTriggers?: readonly TriggerModel[];
  /** Absent: none. */
  readonly views?: readonly ViewModel[];
  /** Absent: none. */
  readonly dataSteps?: readonly DataStepModel[];
};

export type DataStepModel = {
  readonly name: string;
  readonly sql: string;
  /** Null: it is written in svc.yaml itself. */
  readonly file: string | null;
  readonly after: 'start' | 'expand' | 'contract';
  readonly onEmpty: 'skip' | 'run';
  readonly timeoutMs: number;
  /** Absent: it is one transaction. The table is written as SQL finds it in `public`. */
  readonly batch?: { readonly table: string; readonly size: number };
  /** What takes it back; absent: nothing does. */
  readonly undo?: Pick<DataStepModel, 'sql' | 'file'>;
  readonly at: string;
};

/** What is not said is absent. */
export type TypeModel = {
  readonly schema: string;
  readonly name: string;
  readonly comment?: string;
  readonly renamedFrom?: string;
  readonly at: string;
} & (EnumModel | DomainModel | CompositeModel);

export type EnumModel = {
  readonly kind: 'enum';
  readonly values: readonly string[];
  /** New names by old ones. */
  readonly renamedValues?: Readonly<Record<string, string>>;
};

export type DomainModel = {
  readonly kind: 'domain';
  readonly base: string;
  readonly checks?: readonly string[];
  readonly notNull?: true;
  readonly default?: DefaultModel;
  readonly collate?: string;
};

export type CompositeModel = { readonly kind: 'composite'; readonly attributes: readonly Attribute[] };

export type Attribute = { readonly name: string; readonly type: string };

/** A sequence that belongs to no column, with every number that PostgreSQL would put in. What is not said is absent. */
export type SequenceModel = {
  readonly schema: string;
  readonly name: string;
  readonly numbers: SequenceForm;
  /** Roles that may take numbers; absent: the API roles. */
  readonly usage?: readonly string[];
  readonly comment?: string;
  readonly renamedFrom?: string;
  readonly at: string;
};

/** Digits as text: a JavaScript number would round the largest. */
export type SequenceForm = {
  readonly type: string;
  readonly increment: string;
  readonly min: string;
  readonly max: string;
  readonly start: string;
  readonly cache: string;
  readonly cycle: boolean;
};

export type ExtensionModel = {
  readonly name: string;
  /** Null: `extensions`, unless it must be in another. */
  readonly schema: string | null;
  /** Null: what the server has. */
  readonly version: string | null;
  readonly cascade: boolean;
  readonly at: string;
};

/** By role: `select`, `all`, and `update title` for one column. Sorted, each once, none that another covers. */
export type Grants = Readonly<Record<string, readonly string[]>>;

export type TableModel = {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom: string | null;
  readonly protect: boolean;
  /** `absent`: no `rls` key. `off`: `rls: false`. A list, even an empty one, turns row-level security on. */
  readonly rls: 'absent' | 'off' | readonly PolicyModel[];
  readonly columns: readonly ColumnModel[];
  readonly indexes: readonly IndexModel[];
  /** By role; absent: what the API roles have by default. */
  readonly grants?: Grants;
  /** Absent: none. */
  readonly constraints?: readonly ConstraintModel[];
  /** What a new user's row here is made of. */
  readonly onNewUser?: NewUserModel;
  readonly comment?: string;
  readonly triggers?: readonly TriggerModel[];
  /** A crash empties it. */
  readonly unlogged?: true;
  /** Storage parameters. */
  readonly with?: Readonly<Record<string, string>>;
  /** Absent: it holds its rows itself, or is partitioned by somebody else. */
  readonly partitioning?: PartitioningModel;
  /** It tells of its changes; which of them, and to whom, is no business of the database. */
  readonly realtime?: RealtimeModel;
  /** Path in the file, for messages: `tables.todos`. */
  readonly at: string;
};

export type PartitioningModel = {
  readonly key: PartitionKeyModel;
  /** `kept`: made and taken out by time, outside of migrations; absent: the file lists none. */
  readonly partitions: readonly PartitionModel[] | KeptModel | null;
};

/** Columns and expressions. */
export type PartitionKeyModel = {
  readonly strategy: 'range' | 'list' | 'hash';
  readonly keys: readonly string[];
};

export type PartitionModel = {
  readonly name: string;
  /** `from (…) to (…)` */
  readonly values: string;
  /** Absent: it holds rows itself. */
  readonly by?: PartitionKeyModel;
  readonly partitions?: readonly PartitionModel[];
  readonly at: string;
};

export type Span = { readonly count: number; readonly unit: 'hour' | 'day' | 'week' | 'month' | 'year' };

export type KeptModel = {
  readonly every: Span;
  readonly ahead: number;
  readonly keep: Span | null;
  /** `2024-01-01`; null: from now on. */
  readonly from: string | null;
};

/** `old`: what is known of a row before its change. */
export type RealtimeModel = { readonly old: 'key' | 'full' };

export type ColumnModel = {
  readonly name: string;
  /** Null: the type of the referenced column. */
  readonly type: string | null;
  readonly primaryKey: boolean;
  readonly required: boolean;
  readonly unique: boolean;
  readonly default: DefaultModel | null;
  readonly enum: readonly string[] | null;
  readonly pattern: string | null;
  /** Digits as written: a JavaScript number would round `9007199254740993`. */
  readonly min: string | null;
  readonly max: string | null;
  readonly check: string | null;
  readonly foreignKey: ReferenceModel | null;
  readonly ref: { readonly bucket: string; readonly cascade: boolean } | null;
  readonly renamedFrom: string | null;
  readonly backfill: string | null;
  readonly using: string | null;
  /** What each update of the row gives it. */
  readonly onUpdate?: string;
  /** Its value is computed of the others. */
  readonly generated?: { readonly sql: string; readonly virtual: boolean };
  readonly identity?: IdentityKind;
  readonly collate?: string;
  readonly comment?: string;
  readonly at: string;
};

/** `always`: a value of one's own is refused. */
export type IdentityKind = 'always' | 'by_default';

export type NewUserModel = {
  /** Expressions by column. */
  readonly set: Readonly<Record<string, string>>;
  readonly when: string | null;
  readonly at: string;
};

export type TriggerModel = {
  readonly name: string | null;
  /** `instead_of`: of a view. */
  readonly timing: 'before' | 'after' | 'instead_of';
  /** In the order of PostgreSQL's documentation. */
  readonly events: ReadonlyArray<'insert' | 'update' | 'delete' | 'truncate'>;
  /** Columns, with `update`. */
  readonly of?: readonly string[];
  /** Absent: each row. */
  readonly each?: 'statement';
  readonly when: string | null;
  readonly call: { readonly schema: string; readonly name: string };
  readonly args?: readonly string[];
  readonly oldTable?: string;
  readonly newTable?: string;
  /** Of a constraint trigger: whether it may be put off. */
  readonly constraint?: 'no' | 'immediate' | 'deferred';
  /** Absent: it fires, but not for rows that replication writes. */
  readonly enabled?: 'disabled' | 'replica' | 'always';
  readonly at: string;
};

export type DefaultModel =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[]; readonly json: string }
  | { readonly kind: 'json'; readonly text: string }
  | { readonly kind: 'sql'; readonly text: string };

/** What is not said is absent. */
export type ConstraintModel = { readonly name?: string; readonly at: string } & (
  | {
      readonly kind: 'unique';
      readonly columns: readonly string[];
      readonly nullsNotDistinct?: true;
      readonly deferrable?: Deferrable;
    }
  | {
      readonly kind: 'foreign_key';
      readonly columns: readonly string[];
      readonly target: {
        readonly schema: string;
        readonly table: string;
        readonly columns: readonly string[];
      };
      readonly onDelete: ReferenceAction;
      readonly onUpdate?: ReferenceAction;
      readonly onDeleteColumns?: readonly string[];
      readonly deferrable?: Deferrable;
      readonly matchFull?: true;
      readonly notValid?: true;
    }
  | ExclusionModel
  | { readonly kind: 'check'; readonly sql: string; readonly notValid?: true }
);

export type ExclusionModel = {
  readonly kind: 'exclude';
  readonly parts: ReadonlyArray<IndexPartModel & { readonly with: string }>;
  /** Kind of its index. */
  readonly using: string;
  readonly where?: string;
  readonly deferrable?: Deferrable;
};

export type ReferenceAction = 'cascade' | 'restrict' | 'set_null' | 'set_default' | 'no_action';

/** `immediate`: checked at once, unless the transaction says otherwise. */
export type Deferrable = 'immediate' | 'deferred';

export type ReferenceModel = {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly onDelete: ReferenceAction;
  /** Absent: `restrict`. */
  readonly onUpdate?: ReferenceAction;
  readonly deferrable?: Deferrable;
};

export type IndexModel = {
  readonly name: string | null;
  readonly columns: readonly IndexPart[];
  readonly unique: boolean;
  readonly where: string | null;
  /** Absent: btree. */
  readonly using?: string;
  readonly include?: readonly string[];
  readonly with?: Readonly<Record<string, string>>;
  readonly nullsNotDistinct?: true;
  readonly at: string;
};

/** A column of which nothing else is said is only its name. */
export type IndexPart = string | IndexPartModel;

/** Either a column or an expression. What is the server's default is absent. */
export type IndexPartModel = {
  readonly column?: string;
  readonly expression?: string;
  readonly order?: 'desc';
  readonly nulls?: 'first' | 'last';
  readonly opclass?: string;
  readonly opclassOptions?: Readonly<Record<string, string>>;
  readonly collate?: string;
};

export type Operation = 'select' | 'insert' | 'update' | 'delete';

export type PolicyModel = {
  readonly name: string | null;
  readonly operations: readonly Operation[];
  /** Sorted, each once. Absent: the callers, `anon` and `authenticated`. */
  readonly to?: readonly string[];
  readonly permissive: boolean;
  readonly using: string | null;
  readonly withCheck: string | null;
  readonly check: string | null;
  readonly at: string;
};

export type FunctionModel = {
  readonly schema: string;
  readonly name: string;
  /** Its key under `rpc`; absent where that is its name. */
  readonly key?: string;
  readonly renamedFrom: string | null;
  readonly language: 'sql' | 'plpgsql';
  readonly volatility: 'volatile' | 'stable' | 'immutable';
  readonly definer: boolean;
  readonly args: readonly ArgumentModel[];
  /** As SQL writes it; empty where the arguments say it. */
  readonly returns: string;
  readonly kind?: 'procedure';
  readonly strict?: boolean;
  readonly parallel?: 'restricted' | 'safe';
  readonly cost?: number;
  readonly rows?: number;
  readonly body: string;
  /** The server reads the body when the function is made: `return …`, or what is between BEGIN ATOMIC and END. */
  readonly atomic?: true;
  /** Roles that may run it, sorted. Absent: the three API roles. */
  readonly execute?: readonly string[];
  /** Its schema must let the API roles in, because the API serves it. */
  readonly opensSchema?: true;
  readonly settings?: Readonly<Record<string, string>>;
  readonly at: string;
};

/** What PostgreSQL takes without a word; rows only of what returns a set. */
export const USUAL_COST = 100;
export const USUAL_ROWS = 1000;

export type ArgumentModel = {
  /** Empty where it has none. */
  readonly name: string;
  /** Absent: `in`. */
  readonly mode?: 'out' | 'inout' | 'variadic';
  readonly type: string;
  readonly required: boolean;
  readonly default: DefaultModel | null;
  readonly renamedFrom?: string;
};

export type ViewModel = {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom: string | null;
  readonly query: string;
  /** It reads with the rights of its owner, as every materialized one does. */
  readonly definer: boolean;
  readonly exposed: boolean;
  readonly materialized?: true;
  /** Absent: none. */
  readonly indexes?: readonly IndexModel[];
  /** Absent: none. */
  readonly triggers?: readonly TriggerModel[];
  readonly barrier?: true;
  readonly checkOption?: 'local' | 'cascaded';
  readonly comment?: string;
  /** Privileges by role, in the order of the roles' names. */
  readonly grants?: Readonly<Record<string, readonly string[]>>;
  readonly at: string;
};

export type BucketModel = {
  readonly name: string;
  readonly policies: readonly PolicyModel[];
  readonly at: string;
};

export const EMPTY_MODEL: SchemaModel = { tables: [], functions: [], buckets: [] };

export function viewsOf(model: SchemaModel): readonly ViewModel[] {
  return model.views ?? [];
}

export function tableKey(schema: string, name: string): string {
  return `${schema}.${name}`;
}

export function keyOf(named: { readonly schema: string; readonly name: string }): string {
  return tableKey(named.schema, named.name);
}

/** Where the migration state keeps a function: no two of a file have one, as they may have one name. */
export function functionKey({ schema, name, key = name }: FunctionModel): string {
  return tableKey(schema, key);
}

/** How SQL names it: quoted, with its schema. */
export function nameOf({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(schema)}.${quoteIdent(name)}`;
}
