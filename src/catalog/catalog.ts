// The database as the data API needs it: an immutable snapshot, replaced as a whole after a change.

export type Catalog = {
  /** Exposed schemas, `public` first. */
  readonly schemas: readonly string[];
  /** Keyed by `schema.name`. */
  readonly relations: ReadonlyMap<string, Relation>;
  /** Functions of the same name, keyed by `schema.name`. */
  readonly routines: ReadonlyMap<string, readonly Routine[]>;
  /** PostgreSQL's `server_version_num`, for example 180004. */
  readonly serverVersion: number;
  /** True if the schema `extensions` has extensions. It is then part of the search path of requests. */
  readonly hasExtensions: boolean;
  /** PostGIS can write rows as GeoJSON, in a schema that requests find. Absent: no. */
  readonly hasGeoJson?: boolean;
  /** Request settings that SQL in the database mentions. Others are not sent. */
  readonly usedSettings: ReadonlySet<RequestSetting>;
  /** Earlier names in the applied file. Default: none. */
  readonly renames?: readonly Rename[];
};

/** A single `renamed_from` of the applied file. */
export type Rename = {
  readonly schema: string;
  /** The table of a column, the function of an argument; null when the relation or the function itself was renamed. */
  readonly of: string | null;
  readonly kind: 'relation' | 'routine';
  readonly from: string;
  readonly to: string;
};

export const REQUEST_SETTINGS = [
  'request.headers',
  'request.cookies',
  'request.method',
  'request.path',
  'response.headers',
  'response.status',
] as const;
export type RequestSetting = (typeof REQUEST_SETTINGS)[number];

export type Relation = {
  readonly schema: string;
  readonly name: string;
  readonly kind: 'table' | 'view' | 'materialized-view' | 'foreign-table' | 'partitioned-table';
  readonly comment: string | null;
  /** Columns in table order. */
  readonly columns: readonly Column[];
  /** Primary key columns; empty without one. */
  readonly primaryKey: readonly string[];
  /** Column sets of PRIMARY KEY and UNIQUE constraints. */
  readonly uniqueKeys: readonly (readonly string[])[];
  readonly foreignKeys: readonly ForeignKey[];
  readonly insertable: boolean;
  readonly updatable: boolean;
  readonly deletable: boolean;
  readonly rowSecurity: boolean;
  /** The columns of a view that are plain columns of another relation. */
  readonly origins: Readonly<Record<string, ColumnOrigin>>;
  /** `pg_class.reltuples`: -1 when never analysed. */
  readonly estimatedRows: number;
};

export type ColumnOrigin = { readonly schema: string; readonly name: string; readonly column: string };

export type Column = {
  readonly name: string;
  /** The type as `format_type` prints it, with its modifier: `character varying(20)`, `integer[]`. */
  readonly type: string;
  /** `pg_type.typname` of the base type behind domains: `int4`, `_text`, `jsonb`. */
  readonly baseType: string;
  /** A letter of `pg_type.typcategory`: `A` array, `S` string, `N` numeric, `C` composite … */
  readonly category: string;
  readonly notNull: boolean;
  /** The default expression of the column or of its domain, or null. Identity columns have `identity`. */
  readonly default: string | null;
  /** `always` columns cannot be written. */
  readonly generated: 'always' | 'by-default' | 'stored' | null;
  /** Labels of an enum type, or of an array of one. */
  readonly enumLabels: readonly string[] | null;
  readonly comment: string | null;
  /** Roles that may read this column and not the whole relation. Absent: none. */
  readonly readableBy?: readonly string[] | null;
};

export type ForeignKey = {
  readonly constraint: string;
  readonly columns: readonly string[];
  readonly targetSchema: string;
  readonly targetName: string;
  readonly targetColumns: readonly string[];
};

export type Routine = {
  readonly schema: string;
  readonly name: string;
  readonly comment: string | null;
  readonly volatility: 'volatile' | 'stable' | 'immutable';
  readonly args: readonly RoutineArg[];
  readonly returns: RoutineResult;
  readonly isSetOf: boolean;
  /** Declared with ROWS 1: the set has at most one row. */
  readonly isSingleRow: boolean;
};

export type RoutineArg = {
  readonly name: string;
  readonly type: string;
  readonly baseType: string;
  readonly hasDefault: boolean;
  readonly variadic: boolean;
  /** `schema.name` when the argument is a row of a relation. */
  readonly relation: string | null;
};

export type RoutineResult =
  | { readonly kind: 'void' }
  | { readonly kind: 'scalar'; readonly type: string; readonly baseType: string }
  /** A row of a table or a composite type; `relation` is `schema.name` when it is a relation's row type. */
  | { readonly kind: 'composite'; readonly type: string; readonly relation: string | null }
  /** OUT parameters or TABLE(...). */
  | {
      readonly kind: 'columns';
      readonly columns: ReadonlyArray<{
        readonly name: string;
        readonly type: string;
        readonly baseType: string;
      }>;
    }
  /** `record` without a column list. */
  | { readonly kind: 'record' };

export function relationKey(schema: string, name: string): string {
  return `${schema}.${name}`;
}

export function qualifiedKey({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return relationKey(schema, name);
}
