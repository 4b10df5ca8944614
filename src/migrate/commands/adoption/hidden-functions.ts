// Reads the functions that the applied file hides from the API although API roles may execute them. Grants do not show
// this.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql } from '../../../postgres/sql.ts';
import type { LiveFunction } from '../../schema/live/live-schema.ts';

/** Returns values of `functionIdentity`. Empty if svc is not set up or its state is not readable. */
export async function readHiddenFunctions(session: Queryable): Promise<ReadonlySet<string>> {
  const [state] = await session.query<{ readable: boolean }>(sql`
    select coalesce(has_schema_privilege('svc_meta', 'usage')
      and has_table_privilege(to_regclass('svc_meta.object'), 'select'), false) as readable
    where to_regclass('svc_meta.object') is not null`);
  if (state?.readable !== true) return new Set();
  const rows = await session.query<{ key: string; name: string | null; argumentTypes: string[] }>(sql`
    select substr(identity, length('function ') + 1) as key, definition ->> 'name' as name,
      array(select jsonb_array_elements_text(definition -> 'canonical' -> 'argumentTypes')) as "argumentTypes"
    from svc_meta.object where kind = 'function' and state = 'managed' and definition -> 'hidden' = 'true'
      and jsonb_typeof(definition -> 'canonical' -> 'argumentTypes') = 'array'`);
  return new Set(
    rows.map(({ key, name, argumentTypes }) => {
      const dot = key.indexOf('.');
      return functionIdentity({
        schema: key.slice(0, dot),
        name: name ?? key.slice(dot + 1),
        argumentTypes,
      });
    }),
  );
}

export function functionIdentity({
  schema,
  name,
  argumentTypes,
}: Pick<LiveFunction, 'schema' | 'name' | 'argumentTypes'>): string {
  return `${schema}.${name}(${argumentTypes.join(', ')})`;
}
