// POST /policies/explain: which policies allow one row for one caller. PostgreSQL evaluates the policy expressions as
// that caller; this file only combines the results.
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { relationKey } from '../../catalog/catalog.ts';
import type { Policy } from '../../config/config.ts';
import type { CallerTransaction } from '../../postgres/pool/caller-pool.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { ident, join, quoteIdent, raw, sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { ExposedRelation } from '../../rest/plan/relation.ts';
import { callerSettings, isCallerName } from '../session/caller.ts';
import type { ExplainPolicies, PolicyInfo, PolicyOutcome } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { policyText } from '../policy-text.ts';
import { baseUrlFor, readJson } from '../request.ts';
import type { DashboardRoutes } from './route.ts';
import { judge, type EvaluatedPolicy, type Situation } from './policy-verdict.ts';
import { badBody } from '../problem.ts';
import { visibleRelations } from '../visible-relations.ts';

const REQUEST = z.object({
  schema: z.string(),
  table: z.string(),
  caller: z.string().refine(isCallerName, 'must be service, anon or user:<uuid>'),
  key: z.record(z.string(), z.string()),
});

export const policiesRoutes: DashboardRoutes = (context) => [
  ['POST', '/policies/explain', 'read', (request) => explain(context, request)],
];

async function explain(context: DashboardContext, request: FastifyRequest): Promise<ExplainPolicies> {
  const { schema, table, caller: callerName, key } = await readJson(request, REQUEST);
  const relation = findRelation(context, schema, table);
  const row = await readRow(context, relation, key);
  const policies = await readPolicies(context, relation);
  const caller = await callerSettings(context, callerName, baseUrlFor(request, context));
  const situation = await context.callers.transaction(
    // Search path of the data API: functions look up names in the table's schema first.
    schema === 'public' ? caller : { ...caller, extra: [['search_path', `${quoteIdent(schema)}, public`]] },
    async (transaction) =>
      await readSituation(transaction, {
        relation,
        row,
        policies,
        written: writtenPolicies(context, relation),
        role: caller.role,
      }),
    { rollback: true },
  );
  return {
    role: caller.role,
    claims: z.record(z.string(), z.unknown()).parse(JSON.parse(caller.claims)),
    rowSecurity: row.rowSecurity,
    row: row.shown,
    operations: judge(situation),
  };
}

function findRelation(context: DashboardContext, schema: string, table: string): ExposedRelation {
  const relation = visibleRelations(context.snapshot()).find(
    (candidate) => candidate.schema === schema && candidate.name === table,
  );
  if (!relation)
    throw new Problem('relation_not_found', 404, `There is no table ${relationKey(schema, table)} here`);
  const isTable = relation.kind === 'table' || relation.kind === 'partitioned-table';
  if (isTable && relation.primaryKey.length > 0) return relation;
  throw new Problem('no_primary_key', 422, `Rows of ${relationKey(schema, table)} cannot be identified`, {
    details: isTable ? 'It has no primary key.' : `It is a ${relation.kind}; policies belong to tables.`,
  });
}

type TargetRow = {
  readonly shown: Record<string, unknown>;
  /** Text of the composite value. Unlike JSON, it loses nothing. */
  readonly composite: string;
  readonly rowSecurity: boolean;
};

async function readRow(
  { owner }: DashboardContext,
  relation: ExposedRelation,
  key: Readonly<Record<string, string>>,
): Promise<TargetRow> {
  const name = ident(relation.schema, relation.name);
  const missing = relation.primaryKey.filter((column) => !Object.hasOwn(key, column));
  const unknown = Object.keys(key).filter((column) => !relation.primaryKey.includes(column));
  if (missing.length > 0 || unknown.length > 0) {
    throw badBody(`key: must have the columns of the primary key, ${relation.primaryKey.join(', ')}.`);
  }
  const conditions = relation.primaryKey.map(
    // Convert each text to the type of its column.
    (column) =>
      sql`t.${ident(column)} = (jsonb_populate_record(null::${name}, ${JSON.stringify(key)}::jsonb)).${ident(column)}`,
  );
  const statement = sql`
    select t::text as composite, c.relrowsecurity as "rowSecurity", (
        select jsonb_object_agg(f.key, case
          -- Show a number that JavaScript would round as text.
          when jsonb_typeof(f.value) = 'number' and f.value::numeric <> f.value::float8::numeric
            then to_jsonb(f.value #>> '{}')
          else f.value end)
        from jsonb_each(to_jsonb(t)) as f where f.key = any (${relation.columns.map((column) => column.name)}::text[])
      ) as shown
    from ${name} as t, pg_class c
    where c.oid = ${relationName(relation)}::regclass and ${join(conditions, ' and ')}`;
  let row: TargetRow | undefined;
  try {
    row = await owner.maybeOne<TargetRow>(statement);
  } catch (error) {
    // Class 22: the text is not a valid value of the column's type.
    if (!isDatabaseError(error, 'data_exception')) throw error;
    throw badBody(`key: ${error.message}`);
  }
  if (row) return row;
  throw new Problem('row_not_found', 404, 'There is no such row', {
    hint: 'It may have been deleted since then.',
  });
}

function relationName({ schema, name }: ExposedRelation): string {
  return ident(schema, name).compile().text;
}

type PolicyRow = Omit<PolicyInfo, 'roles'>;

async function readPolicies({ owner }: DashboardContext, relation: ExposedRelation): Promise<PolicyRow[]> {
  // With an empty search path PostgreSQL prints every name with its schema.
  return await owner.transaction(
    (transaction) =>
      transaction.query<PolicyRow>(sql`
      select p.polname as name, p.polpermissive as permissive,
        case p.polcmd
          when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all'
        end as operation,
        pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as "withCheck"
      from pg_policy p where p.polrelid = ${relationName(relation)}::regclass
      order by p.polname`),
    { search_path: '' },
  );
}

type Question = {
  readonly relation: ExposedRelation;
  readonly row: TargetRow;
  readonly policies: readonly PolicyRow[];
  /** Policies that the file declares. */
  readonly written: readonly Policy[];
  readonly role: string;
};

async function readSituation(transaction: CallerTransaction, question: Question): Promise<Situation> {
  const { relation, row, policies, written, role } = question;
  const [rights] = await transaction.query(sql`
    select row_security_active(c.oid) as active,
      has_schema_privilege(c.relnamespace, 'usage') and (
        has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select')) as select,
      has_schema_privilege(c.relnamespace, 'usage') and (
        has_table_privilege(c.oid, 'insert') or has_any_column_privilege(c.oid, 'insert')) as insert,
      has_schema_privilege(c.relnamespace, 'usage') and (
        has_table_privilege(c.oid, 'update') or has_any_column_privilege(c.oid, 'update')) as update,
      has_schema_privilege(c.relnamespace, 'usage') and has_table_privilege(c.oid, 'delete') as delete
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = ${relation.schema} and c.relname = ${relation.name}`);
  const isGranted = (name: string): boolean => rights?.[name] === 't';
  const applying = await readApplying(transaction, relation);
  const evaluated: EvaluatedPolicy[] = [];
  for (const policy of policies) {
    evaluated.push({
      ...policy,
      applies: applying.has(policy.name),
      using: withFileText(await evaluate(transaction, relation, row, policy.using), written),
      withCheck: withFileText(await evaluate(transaction, relation, row, policy.withCheck), written),
    });
  }
  return {
    role,
    relation: relationKey(relation.schema, relation.name),
    granted: {
      select: isGranted('select'),
      insert: isGranted('insert'),
      update: isGranted('update'),
      delete: isGranted('delete'),
    },
    security: isGranted('active') ? 'on' : row.rowSecurity ? 'bypassed' : 'off',
    policies: evaluated,
  };
}

/** Returns the names of the policies that apply to the caller's role. */
async function readApplying(
  transaction: CallerTransaction,
  relation: ExposedRelation,
): Promise<ReadonlySet<string | null | undefined>> {
  const rows = await transaction.query(sql`
    select p.polname as name
    from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = ${relation.schema} and c.relname = ${relation.name} and exists (
      -- Role 0 is PUBLIC.
      select from unnest(p.polroles) as r (role)
      where case role when 0 then true else pg_has_role(role, 'usage') end)`);
  return new Set(rows.map((row) => row['name']));
}

function withFileText<T extends { readonly sql: string }>(
  evaluated: T | null,
  written: readonly Policy[],
): T | null {
  return evaluated && { ...evaluated, sql: policyText(evaluated.sql, written) };
}

function writtenPolicies(
  { snapshot }: DashboardContext,
  { schema, name }: ExposedRelation,
): readonly Policy[] {
  const rls = snapshot().config.tables.find((table) => table.schema === schema && table.name === name)?.rls;
  return rls === undefined || typeof rls === 'string' ? [] : rls;
}

async function evaluate(
  transaction: CallerTransaction,
  relation: ExposedRelation,
  row: TargetRow,
  expression: string | null,
): Promise<{ sql: string; outcome: PolicyOutcome } | null> {
  if (expression === null) return null;
  // A function in FROM gives the row the table's type and name, so that whole-row references work. The expression is
  // not user input: PostgreSQL printed it.
  const statement = sql`
    select (${raw(expression)})::boolean as outcome
    from jsonb_populate_record(${row.composite}::${ident(relation.schema, relation.name)}, '{}'::jsonb)
      as ${ident(relation.name)}`;
  await transaction.query(raw('savepoint policy'));
  try {
    const [answer] = await transaction.query(statement);
    const value = answer?.['outcome'];
    return { sql: expression, outcome: { kind: value === 't' ? 'true' : value === 'f' ? 'false' : 'null' } };
  } catch (error) {
    if (!isDatabaseError(error)) throw error;
    return { sql: expression, outcome: { kind: 'error', message: error.message } };
  } finally {
    // The rollback also reverts writes of a function in the expression.
    await transaction.query(raw('rollback to savepoint policy'));
  }
}
