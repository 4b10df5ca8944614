// What a changed type would do to the rows that have it, and what cannot be changed while columns have it.
import { quoteIdent, quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change } from '../diff/change.ts';
import { canFollow } from '../diff/types.ts';
import type { Desired, DesiredType } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import type { Step } from '../plan/step.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { countWhere, formatCount, sampleKeys, sampleValues } from './samples.ts';

export function fixedTypes({ types }: Desired, live: Live['types']): MigrationProblem[] {
  return types.flatMap((type) => {
    const found = live.get(keyOf(type));
    if (!found?.used || canFollow(type, found)) return [];
    const what =
      type.model.kind === 'domain'
        ? `the type below it is ${found.domain?.base ?? ''}${found.domain?.collation ? ` collate ${found.domain.collation}` : ''}`
        : `its attributes are ${found.attributes.map((one) => `${one.name} ${one.type}`).join(', ')}`;
    return [
      problem(
        'MIG-207',
        type.at,
        `${type.name} is in use, and ${what}`,
        type.model.kind === 'domain'
          ? 'Declare a second domain, and give the fields its type.'
          : 'Attributes can be added at the end. For anything else declare a second type, and give the fields its type.',
      ),
    ];
  });
}

/** Rows against new checks and NOT NULL of domains, under the names that the declared renames will give. */
export async function checkDomains(
  session: Queryable,
  changes: readonly Change[],
  live: Live,
  prepare: Prepare,
): Promise<MigrationProblem[]> {
  const found: MigrationProblem[] = [];
  for (const change of changes) {
    if (change.kind === 'add-domain-check' || change.kind === 'validate-domain-check') {
      const { sql: text, written, at } = change.check.expression;
      const told = `against the check ${written}`;
      found.push(
        ...(await rowsAgainst(session, change.type, live, prepare, { text, told, at, code: 'MIG-204' })),
      );
    }
    if (change.kind === 'set-domain-not-null' && change.notNull) {
      const at = `${change.type.at}.not_null`;
      const text = 'value is not null';
      found.push(
        ...(await rowsAgainst(session, change.type, live, prepare, {
          text,
          told: 'NULL',
          at,
          code: 'MIG-201',
        })),
      );
    }
  }
  return found;
}

type Prepare = { readonly searchPath: string; readonly renames: readonly Step[] };

type Rule = {
  /** On `value`. */
  readonly text: string;
  readonly told: string;
  readonly at: string;
  readonly code: 'MIG-201' | 'MIG-204';
};

async function rowsAgainst(
  session: Queryable,
  type: DesiredType,
  live: Live,
  { searchPath, renames }: Prepare,
  { text, told, at, code }: Rule,
): Promise<MigrationProblem[]> {
  const base = live.types.get(keyOf(type))?.domain?.base;
  if (base === undefined) return [];
  const found: MigrationProblem[] = [];
  try {
    await inDiscardedTransaction(session, { search_path: raw(searchPath) }, async () => {
      for (const step of renames) await session.query(raw(step.sql));
      const columns = await session.query<{ schema: string; name: string; column: string }>(sql`
        select n.nspname as schema, c.relname as name, a.attname as column
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        where a.atttypid = to_regtype(${nameOf(type)}) and c.relkind in ('r', 'p') and not c.relispartition and not a.attisdropped
        order by 1, 2, 3`);
      const holders = await session.query<{ what: string }>(sql`
        select pg_describe_object('pg_class'::regclass, c.oid, a.attnum) as what
        from pg_type t join pg_attribute a on not a.attisdropped and a.attnum > 0
          and (a.atttypid = t.typarray or a.atttypid in (
            select p.reltype from pg_attribute i join pg_class p on p.oid = i.attrelid where i.atttypid in (t.oid, t.typarray)))
        join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'm')
        where t.oid = to_regtype(${nameOf(type)}) order by 1`);
      found.push(
        ...holders.map(({ what }) =>
          problem(
            'MIG-304',
            at,
            `${what} holds values of ${type.name} in an array or a row, where PostgreSQL does not check them`,
            'Declare a second domain for the other columns, or give this one another type first.',
          ),
        ),
      );
      // The condition speaks of `value`, as the parameter is called.
      await session.query(
        raw(
          `create function pg_temp.svc_holds("value" ${base}) returns boolean language sql as ${quoteLiteral(`select (\n${text}\n) is not false`)}`,
        ),
      );
      for (const { column, ...table } of columns) {
        const name = quoteIdent(column);
        const bad = `not pg_temp.svc_holds(${name}::${base})`;
        const count = await countWhere(session, nameOf(table), bad);
        if (count === 0) continue;
        const { values, more } = await sampleValues(session, nameOf(table), name, bad);
        const liveTable = live.tables.get(keyOf(table));
        const keys = liveTable ? await sampleKeys(session, table, liveTable, bad) : '';
        const shown = code === 'MIG-204' ? `: ${values.map((value) => `"${value}"`).join(', ')}${more}` : '';
        found.push(
          problem(
            code,
            at,
            `${formatCount(count)} rows of ${table.name}.${column} are ${told}${shown}${keys}`,
            `Update these rows first: update ${nameOf(table)} set ${name} = … where …;`,
          ),
        );
      }
    });
  } catch (error) {
    // What only this run creates, such as a function, is left to the step itself.
    if (!isDatabaseError(error, 'syntax_error_or_access_rule_violation')) throw error;
  }
  return found;
}
