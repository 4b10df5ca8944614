// Checks changed types: rows that violate a new check of a domain, and changes that are impossible while a type is in
// use.
import { quoteIdent, quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change } from '../diff/change.ts';
import { canAlterType } from '../diff/types.ts';
import type { Desired, DesiredType } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import type { Step } from '../plan/step.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { countWhere, findRowsSql, formatCount, keyNote, updateRowsSql } from './samples.ts';
import { isWithheld, withholdValues } from './rows/withheld-values.ts';

export function unalterableTypes({ types }: Desired, live: Live['types']): MigrationProblem[] {
  return types.flatMap((type) => {
    const found = live.get(objectKey(type));
    if (!found?.used || canAlterType(type, found)) return [];
    const { domain } = found;
    const attributes = found.attributes.map(({ name, type: attributeType }) => `${name} ${attributeType}`);
    const definition =
      type.model.kind === 'domain'
        ? `its base type is ${domain?.base ?? ''}${domain?.collation ? ` collate ${domain.collation}` : ''}`
        : `its attributes are ${attributes.join(', ')}`;
    return [
      problem(
        'MIG-207',
        type.at,
        `${type.name} is in use, and ${definition}`,
        type.model.kind === 'domain'
          ? 'Declare a second domain, and give the fields its type.'
          : 'Attributes can be added at the end. For other changes, declare a second type for the fields.',
      ),
    ];
  });
}

/** Checks rows against new checks and NOT NULL of domains, with the declared renames applied. */
export async function checkDomains(
  session: Queryable,
  changes: readonly Change[],
  live: Live,
  prepare: DomainContext,
): Promise<MigrationProblem[]> {
  const found: MigrationProblem[] = [];
  for (const change of changes) {
    if (change.kind === 'add-domain-check' || change.kind === 'validate-domain-check') {
      const { sql: text, written, at } = change.check.expression;
      const description = `violate the check ${written}`;
      found.push(
        ...(await findViolations(session, change.type, live, prepare, {
          text,
          description,
          at,
          code: 'MIG-204',
        })),
      );
    }
    if (change.kind === 'set-domain-not-null' && change.notNull) {
      const at = `${change.type.at}.not_null`;
      const text = 'value is not null';
      found.push(
        ...(await findViolations(session, change.type, live, prepare, {
          text,
          description: 'are NULL',
          at,
          code: 'MIG-201',
        })),
      );
    }
  }
  return found;
}

type DomainContext = { readonly searchPath: string; readonly renames: readonly Step[] };

type DomainRule = {
  /** Condition on `value`. */
  readonly text: string;
  /** Verb phrase for violating rows. */
  readonly description: string;
  readonly at: string;
  readonly code: 'MIG-201' | 'MIG-204';
};

async function findViolations(
  owner: Queryable,
  type: DesiredType,
  live: Live,
  { searchPath, renames }: DomainContext,
  { text, description, at, code }: DomainRule,
): Promise<MigrationProblem[]> {
  const base = live.types.get(objectKey(type))?.domain?.base;
  if (base === undefined) return [];
  const session = withholdValues(owner);
  const found: MigrationProblem[] = [];
  try {
    await inDiscardedTransaction(session, { search_path: raw(searchPath) }, async () => {
      for (const step of renames) await session.query(raw(step.sql));
      const columns = await session.query<{ schema: string; name: string; column: string }>(sql`
        select n.nspname as schema, c.relname as name, a.attname as column
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        where a.atttypid = to_regtype(${quoteName(type)}) and c.relkind in ('r', 'p') and not c.relispartition
          and not a.attisdropped
        order by 1, 2, 3`);
      const holders = await session.query<{ what: string }>(sql`
        select pg_describe_object('pg_class'::regclass, c.oid, a.attnum) as what
        from pg_type t join pg_attribute a on not a.attisdropped and a.attnum > 0
          and (a.atttypid = t.typarray or a.atttypid in (
            select p.reltype from pg_attribute i join pg_class p on p.oid = i.attrelid
              where i.atttypid in (t.oid, t.typarray)))
        join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'm')
        where t.oid = to_regtype(${quoteName(type)}) order by 1`);
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
      // The condition refers to `value`, the name of the parameter.
      await session.query(
        raw(
          `create function pg_temp.svc_holds("value" ${base}) returns boolean language sql as
            ${quoteLiteral(`select (\n${text}\n) is not false`)}`,
        ),
      );
      for (const { column, ...table } of columns) {
        const name = quoteIdent(column);
        const bad = `not pg_temp.svc_holds(${name}::${base})`;
        const count = await countWhere(session, quoteName(table), bad);
        if (count === 0) continue;
        const liveTable = live.tables.get(objectKey(table));
        const keys = liveTable ? keyNote(liveTable) : '';
        // The function `svc_holds` does not exist in the user's session.
        const where = `(select (\n${text}\n) is false from (select ${name}::${base} as value) svc_value)`;
        const isRequired = code === 'MIG-201' || liveTable?.columns.get(column)?.notNull === true;
        const update = updateRowsSql(table, { name: column, type: base, notNull: isRequired }, { where });
        found.push(
          problem(
            code,
            at,
            `${formatCount(count)} rows of ${table.name}.${column} ${description}${keys}`,
            `Update these rows first: ${update} Find them: ${findRowsSql(quoteName(table), where)}`,
          ),
        );
      }
    });
  } catch (error) {
    // The check needs an object that this run creates, such as a function. The step itself reports a violation.
    if (isDatabaseError(error, 'syntax_error_or_access_rule_violation')) return found;
    if (!isWithheld(error)) throw error;
    found.push(
      problem('MIG-208', at, `the expression fails on rows: ${error.message}`, 'Correct the expression.'),
    );
  }
  return found;
}
