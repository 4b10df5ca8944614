// Schema of the benchmark: any number of identical tables, and a version with one changed table.
import type { ColumnModel, SchemaModel, TableModel } from '../../src/migrate/schema/model.ts';

function column(name: string, type: string | null, more: Partial<ColumnModel>, at: string): ColumnModel {
  return {
    name,
    type,
    primaryKey: false,
    required: false,
    unique: false,
    default: null,
    enum: null,
    pattern: null,
    min: null,
    max: null,
    check: null,
    foreignKey: null,
    ref: null,
    renamedFrom: null,
    backfill: null,
    using: null,
    at: `${at}.fields.${name}`,
    ...more,
  };
}

// Each table has twelve columns, a primary key, a unique key, two foreign keys, four checks, two indexes and four
// policies.
function table(n: number): TableModel {
  const name = `bench_${n}`;
  const at = `tables.${name}`;
  const reference = (to: number): Partial<ColumnModel> => ({
    foreignKey: { schema: 'public', table: `bench_${Math.max(0, to)}`, column: 'id', onDelete: 'cascade' },
  });
  const policy = (operation: 'select' | 'insert' | 'update' | 'delete', using: string) =>
    ({
      name: null,
      operations: [operation],
      permissive: true,
      using,
      withCheck: null,
      check: null,
      at: `${at}.rls`,
    }) as const;
  return {
    schema: 'public',
    name,
    renamedFrom: null,
    protect: false,
    columns: [
      column('id', 'bigserial', { primaryKey: true }, at),
      column('slug', 'text', { unique: true, pattern: '^[a-z-]+$' }, at),
      column('owner', 'uuid', { required: true }, at),
      column('title', 'varchar(200)', { required: true, default: { kind: 'literal', text: 'untitled' } }, at),
      column('status', 'text', { enum: ['open', 'done', 'archived'] }, at),
      column('amount', 'numeric(12,2)', { min: '0', max: '1000000' }, at),
      column('parent', null, reference(n - 1), at),
      column('other', null, reference(n - 2), at),
      column('due', 'timestamptz', { default: { kind: 'literal', text: 'now()' } }, at),
      column('meta', 'jsonb', { default: { kind: 'literal', text: '{}' } }, at),
      column('score', 'integer', { check: 'score between 0 and 100' }, at),
      column('done', 'boolean', { default: { kind: 'literal', text: 'false' } }, at),
    ],
    indexes: [
      { name: null, columns: ['owner', 'status'], unique: false, where: null, at: `${at}.indexes[0]` },
      { name: null, columns: ['due'], unique: false, where: "status <> 'done'", at: `${at}.indexes[1]` },
    ],
    rls: [
      policy('select', `owner = auth.uid() or status = 'open'`),
      policy('insert', 'owner = auth.uid()'),
      policy('update', `owner = auth.uid() and status <> 'archived'`),
      policy('delete', 'owner = auth.uid() and not done'),
    ],
    at,
  };
}

export function model(tables: number): SchemaModel {
  return {
    tables: Array.from({ length: tables }, (_, n) => table(n)),
    functions: Array.from({ length: Math.ceil(tables / 10) }, (_, n) => ({
      schema: 'public',
      name: `bench_fn_${n}`,
      renamedFrom: null,
      language: 'sql',
      volatility: 'stable',
      definer: false,
      args: [{ name: 'who', type: 'uuid', required: true, default: null }],
      returns: `setof bench_${n}`,
      body: `select * from bench_${n} where owner = who`,
      at: `rpc.bench_fn_${n}`,
    })),
    buckets: [],
  };
}

export function changed(from: SchemaModel, round: number): SchemaModel {
  const [first, ...rest] = from.tables;
  if (!first || typeof first.rls === 'string') return from;
  const columns = [
    ...first.columns,
    ...Array.from({ length: round }, (_, n) => column(`extra_${n}`, 'integer', {}, first.at)),
  ];
  const rls = first.rls.map((policy, n) =>
    n === 0 ? { ...policy, using: `owner = auth.uid() or score > ${round}` } : policy,
  );
  return { ...from, tables: [{ ...first, columns, rls }, ...rest] };
}
