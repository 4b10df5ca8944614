// The model: the database declarations of svc.yaml as plain JSON. Each run stores its model, and `down` plans from a
// stored model. Expressions are text as written by the user. An optional property is absent if the file does not set
// it. All types are in one file, because together they describe one stored document.
import { quoteIdent } from '../../postgres/sql.ts';
import type { StatementModel } from './statements.ts';
import type { TableAttributes } from './sql/table-attributes.ts';

export type SchemaModel = {
  readonly extensions?: readonly ExtensionModel[];
  readonly types?: readonly TypeModel[];
  readonly sequences?: readonly SequenceModel[];
  readonly statements?: readonly StatementModel[];
  readonly tables: readonly TableModel[];
  readonly functions: readonly FunctionModel[];
  readonly buckets: readonly BucketModel[];
  /** Policies of private realtime channels. */
  readonly channels?: readonly PolicyModel[];
  /** Triggers of auth.users. */
  readonly userTriggers?: readonly TriggerModel[];
  readonly views?: readonly ViewModel[];
  readonly dataSteps?: readonly DataStepModel[];
};

export type DataStepModel = {
  readonly name: string;
  readonly sql: string;
  /** Null if the SQL is written in svc.yaml. */
  readonly file: string | null;
  readonly after: 'start' | 'expand' | 'contract';
  readonly onEmpty: 'skip' | 'run';
  readonly timeoutMs: number;
  /** Absent: the step runs in one transaction. `table` is a name as SQL resolves it from `public`. */
  readonly batch?: { readonly table: string; readonly size: number };
  /** Reverts the step. Absent: the step cannot be reverted. */
  readonly undo?: Pick<DataStepModel, 'sql' | 'file'>;
  readonly at: string;
};

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
  /** New labels, keyed by the old ones. */
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

/** Sequence that belongs to no column. `numbers` includes the defaults of PostgreSQL. */
export type SequenceModel = {
  readonly schema: string;
  readonly name: string;
  readonly numbers: SequenceForm;
  /** Roles with USAGE. Absent: the API roles. */
  readonly usage?: readonly string[];
  readonly comment?: string;
  readonly renamedFrom?: string;
  readonly at: string;
};

/** Numbers are decimal text, because a JavaScript number would round large values. */
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
  /** Null: the schema `extensions`, unless the extension determines its schema. */
  readonly schema: string | null;
  /** Null: the default version of the server. */
  readonly version: string | null;
  readonly cascade: boolean;
  readonly at: string;
};

/**
 * Privileges by role: `select`, `all`, or `update title` for one column. Sorted, without duplicates and covered
 * entries.
 */
export type Grants = Readonly<Record<string, readonly string[]>>;

export type TableModel = Partial<TableAttributes> & {
  readonly schema: string;
  readonly name: string;
  readonly renamedFrom: string | null;
  readonly protect: boolean;
  /** `absent`: no `rls` key. `off`: `rls: false`. A list, even an empty one, turns row-level security on. */
  readonly rls: 'absent' | 'off' | readonly PolicyModel[];
  readonly columns: readonly ColumnModel[];
  readonly indexes: readonly IndexModel[];
  /** Absent: the default privileges of the API roles. */
  readonly grants?: Grants;
  readonly constraints?: readonly ConstraintModel[];
  /** Values of the row that is inserted for each new user. */
  readonly onNewUser?: NewUserModel;
  readonly comment?: string;
  readonly triggers?: readonly TriggerModel[];
  /** Absent: the file does not partition the table. */
  readonly partitioning?: PartitioningModel;
  /** Set if realtime publishes the changes of the table. */
  readonly realtime?: RealtimeModel;
  /** Path in the file, for messages: `tables.todos`. */
  readonly at: string;
};

export type PartitioningModel = {
  readonly key: PartitionKeyModel;
  /** A schedule creates and retires partitions outside of migrations. Null: the file lists no partitions. */
  readonly partitions: readonly PartitionModel[] | PartitionSchedule | null;
};

export type PartitionKeyModel = {
  readonly strategy: 'range' | 'list' | 'hash';
  /** Columns and expressions. */
  readonly keys: readonly string[];
};

export type PartitionModel = {
  readonly name: string;
  /** `from (…) to (…)` */
  readonly values: string;
  /** Absent: the partition is not partitioned further. */
  readonly by?: PartitionKeyModel;
  readonly partitions?: readonly PartitionModel[];
  readonly at: string;
};

export type Span = { readonly count: number; readonly unit: 'hour' | 'day' | 'week' | 'month' | 'year' };

export type PartitionSchedule = {
  readonly every: Span;
  readonly ahead: number;
  readonly keep: Span | null;
  /** Start of the first partition, such as `2024-01-01`. Null: the current time. */
  readonly from: string | null;
};

/** `old`: columns of the old row that an update or delete event contains. */
export type RealtimeModel = { readonly old: 'key' | 'full' };

export type ColumnModel = {
  readonly name: string;
  /** Null: use the type of the referenced column. */
  readonly type: string | null;
  readonly primaryKey: boolean;
  readonly required: boolean;
  readonly unique: boolean;
  readonly default: DefaultModel | null;
  readonly enum: readonly string[] | null;
  readonly pattern: string | null;
  /** Decimal text, because a JavaScript number would round `9007199254740993`. */
  readonly min: string | null;
  readonly max: string | null;
  readonly check: string | null;
  readonly foreignKey: ReferenceModel | null;
  readonly ref: { readonly bucket: string; readonly cascade: boolean } | null;
  readonly renamedFrom: string | null;
  readonly backfill: string | null;
  readonly using: string | null;
  /** Expression that sets the column on each update of the row. */
  readonly onUpdate?: string;
  readonly generated?: { readonly sql: string; readonly virtual: boolean };
  readonly identity?: IdentityKind;
  readonly collate?: string;
  readonly comment?: string;
  readonly at: string;
};

/** `always`: the server rejects explicit values. */
export type IdentityKind = 'always' | 'by_default';

export type NewUserModel = {
  /** Expressions, keyed by column. */
  readonly set: Readonly<Record<string, string>>;
  readonly when: string | null;
  readonly at: string;
};

export type TriggerModel = {
  readonly name: string | null;
  /** `instead_of` is only valid for views. */
  readonly timing: 'before' | 'after' | 'instead_of';
  /** Events in the order of the PostgreSQL documentation. */
  readonly events: ReadonlyArray<'insert' | 'update' | 'delete' | 'truncate'>;
  /** Columns of an `update of` event. */
  readonly of?: readonly string[];
  /** Absent: for each row. */
  readonly each?: 'statement';
  readonly when: string | null;
  readonly call: { readonly schema: string; readonly name: string };
  readonly args?: readonly string[];
  readonly oldTable?: string;
  readonly newTable?: string;
  /** Set for a constraint trigger: whether it is deferrable, and its initial mode. */
  readonly constraint?: 'no' | 'immediate' | 'deferred';
  /** Absent: enabled, except for rows that replication writes. */
  readonly enabled?: 'disabled' | 'replica' | 'always';
  readonly at: string;
};

export type DefaultModel =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[]; readonly json: string }
  | { readonly kind: 'json'; readonly text: string }
  | { readonly kind: 'sql'; readonly text: string };

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
  /** Access method of the index. */
  readonly using: string;
  readonly where?: string;
  readonly deferrable?: Deferrable;
};

export type ReferenceAction = 'cascade' | 'restrict' | 'set_null' | 'set_default' | 'no_action';

/** Initial mode of a deferrable constraint. */
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
  /** Access method. Absent: `btree`. */
  readonly using?: string;
  readonly include?: readonly string[];
  readonly with?: Readonly<Record<string, string>>;
  readonly nullsNotDistinct?: true;
  readonly at: string;
};

/** The name of a column, or an element with options. */
export type IndexPart = string | IndexPartModel;

/** Either `column` or `expression` is set. Options that equal the server's defaults are absent. */
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
  /** Sorted, without duplicates. Absent: `anon` and `authenticated`. */
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
  /** Key under `rpc`. Absent if it equals the name. */
  readonly key?: string;
  readonly renamedFrom: string | null;
  readonly language: 'sql' | 'plpgsql';
  readonly volatility: 'volatile' | 'stable' | 'immutable';
  readonly definer: boolean;
  readonly args: readonly ArgumentModel[];
  /** Return type as SQL. Empty if output arguments define it. */
  readonly returns: string;
  readonly kind?: 'procedure';
  readonly strict?: boolean;
  readonly parallel?: 'restricted' | 'safe';
  readonly cost?: number;
  readonly rows?: number;
  readonly body: string;
  /** The body is `return …`, or the text between BEGIN ATOMIC and END, which the server parses on creation. */
  readonly atomic?: true;
  /** Roles with EXECUTE, sorted. Absent: the API roles. */
  readonly execute?: readonly string[];
  /** Roles have EXECUTE, but the API does not serve the function. */
  readonly hidden?: true;
  /** The API serves the function from a schema other than `public`, so the API roles need USAGE on the schema. */
  readonly opensSchema?: true;
  readonly settings?: Readonly<Record<string, string>>;
  readonly at: string;
};

/** Defaults of PostgreSQL. `rows` applies only to functions that return a set. */
export const DEFAULT_COST = 100;
export const DEFAULT_ROWS = 1000;

export type ArgumentModel = {
  /** Empty for an unnamed argument. */
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
  /** The view reads with the privileges of its owner. Always true for a materialized view. */
  readonly definer: boolean;
  readonly exposed: boolean;
  readonly materialized?: true;
  readonly indexes?: readonly IndexModel[];
  readonly triggers?: readonly TriggerModel[];
  readonly barrier?: true;
  readonly checkOption?: 'local' | 'cascaded';
  readonly comment?: string;
  /** Privileges by role. The roles are sorted. */
  readonly grants?: Readonly<Record<string, readonly string[]>>;
  readonly at: string;
};

export type BucketModel = {
  readonly name: string;
  readonly policies: readonly PolicyModel[];
  readonly at: string;
};

export const EMPTY_MODEL: SchemaModel = { tables: [], functions: [], buckets: [] };

export function declaredViews(model: SchemaModel): readonly ViewModel[] {
  return model.views ?? [];
}

export function tableKey(schema: string, name: string): string {
  return `${schema}.${name}`;
}

export function objectKey(named: { readonly schema: string; readonly name: string }): string {
  return tableKey(named.schema, named.name);
}

/** Returns the key of a function in the migration state. It is unique in a file, unlike the name of an overload. */
export function functionKey({ schema, name, key = name }: FunctionModel): string {
  return tableKey(schema, key);
}

/** Returns the quoted name with its schema. */
export function quoteName({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(schema)}.${quoteIdent(name)}`;
}
