// Lists retired tables, columns, sequences and extensions with their sizes, and drops them on request.
import { tryLock, unlock } from '../../postgres/advisory-lock.ts';
import { inTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { quoteIdent, raw, sql } from '../../postgres/sql.ts';
import { announceSchema } from '../state/applied-state.ts';
import { IS_FREE_SEQUENCE, IS_USED_TYPE } from '../schema/live/live-queries.ts';
import { quoteName, tableKey, type SchemaModel } from '../schema/model.ts';
import { MigrationRefused, problem, type MigrationProblem } from '../problem.ts';
import { formatCount } from '../checks/samples.ts';
import { withLockRetries, type LockSettings } from '../locks.ts';

export type Retired = {
  /** Path in the file, such as `tables.todos.fields.notes`. */
  readonly identity: string;
  readonly kind: 'table' | 'column' | 'sequence' | 'extension';
  readonly schema: string;
  /** Name of the table, or of the extension or sequence. */
  readonly table: string;
  readonly column: string | null;
  readonly since: Date;
  /** Number of rows of a table, or of non-null values of a column. */
  readonly values: number;
  readonly bytes: number;
};

export async function readRetired(session: Queryable): Promise<Retired[]> {
  const rows = await session.query<{ identity: string; kind: Retired['kind']; changed_at: Date }>(
    raw(
      `select identity, kind, changed_at from svc_meta.object
       where state = 'retired' and kind in ('table', 'column', 'sequence', 'extension') order by identity`,
    ),
  );
  const found: Retired[] = [];
  for (const row of rows) {
    const name = row.identity.slice(row.identity.indexOf(' ') + 1);
    const located =
      row.kind === 'extension'
        ? await locateExtension(session, name)
        : row.kind === 'sequence'
          ? await locateSequence(session, name)
          : await locateObject(session, row.kind, name);
    if (located) found.push({ ...located, kind: row.kind, since: row.changed_at });
  }
  return found;
}

async function locateExtension(
  session: Queryable,
  name: string,
): Promise<Omit<Retired, 'kind' | 'since'> | null> {
  const [row] = await session.query<{ schema: string }>(
    sql`select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace
      where e.extname = ${name}`,
  );
  if (!row) return null;
  return {
    identity: `extensions.${name}`,
    schema: row.schema,
    table: name,
    column: null,
    values: 0,
    bytes: 0,
  };
}

async function locateSequence(
  session: Queryable,
  key: string,
): Promise<Omit<Retired, 'kind' | 'since'> | null> {
  const [row] = await session.query<{ schema: string; name: string }>(sql`
    select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname || '.' || c.relname = ${key} and ${IS_FREE_SEQUENCE}`);
  if (!row) return null;
  return {
    identity: `sequences.${row.name}`,
    schema: row.schema,
    table: row.name,
    column: null,
    values: 0,
    bytes: 0,
  };
}

async function locateObject(
  session: Queryable,
  kind: 'table' | 'column',
  name: string,
): Promise<Omit<Retired, 'kind' | 'since'> | null> {
  // Names may contain dots, so compare with the names of the catalog instead of splitting.
  const [row] = await session.query<{
    schema: string;
    table: string;
    column: string | null;
    bytes: string;
  }>(sql`
    select n.nspname as schema, c.relname as table, a.attname as column, pg_total_relation_size(c.oid)::text as bytes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    left join pg_attribute a on ${kind} = 'column' and a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind in ('r', 'p') and (n.nspname || '.' || c.relname || coalesce('.' || a.attname, '')) = ${name}`);
  if (!row) return null;
  const table = quoteName({ schema: row.schema, name: row.table });
  const counted = row.column === null ? 'count(*)' : `count(${quoteIdent(row.column)})`;
  const [values] = await session.query<{ values: string }>(
    raw(`select ${counted}::text as values from ${table}`),
  );
  return {
    identity: row.column === null ? `tables.${row.table}` : `tables.${row.table}.fields.${row.column}`,
    schema: row.schema,
    table: row.table,
    column: row.column,
    values: Number(values?.values ?? 0),
    bytes: Number(row.bytes),
  };
}

export type PruneRequest = {
  /** Identities to drop. If empty, all objects that are old enough are dropped. */
  readonly names: readonly string[];
  readonly allow: readonly string[];
  readonly pruneAfterMs: number;
  readonly now: Date;
  readonly model: SchemaModel;
  readonly locks: LockSettings;
};

export type Pruned = { readonly dropped: readonly Retired[]; readonly problems: readonly MigrationProblem[] };

export async function prune(session: Queryable, request: PruneRequest): Promise<Pruned> {
  if (!(await tryLock(session, 'migrate'))) {
    return {
      dropped: [],
      problems: [
        problem(
          'MIG-402',
          'database',
          'another instance is migrating',
          'Run the command again when the migration has finished.',
        ),
      ],
    };
  }
  try {
    const all = await readRetired(session);
    const { chosen, problems } = choose(all, request);
    if (problems.length > 0) return { dropped: [], problems };
    const relations = chosen.filter(isTableOrColumn);
    // Columns first, because dropping a table drops its columns. Sequences and extensions last, after their users.
    const order = ['column', 'table', 'sequence', 'extension'];
    await withLockRetries(
      session,
      relations.map((relation) => tableKey(relation.schema, relation.table)),
      request.locks,
      () =>
        inTransaction(session, { lock_timeout: request.locks.lockTimeoutMs }, async () => {
          for (const object of chosen.toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind)))
            await drop(session, object);
          await dropUnusedTypes(session);
          await announceSchema(session);
        }),
    );
    return { dropped: chosen, problems: [] };
  } catch (error) {
    if (error instanceof MigrationRefused) return { dropped: [], problems: error.problems };
    throw error;
  } finally {
    await unlock(session, 'migrate');
  }
}

function choose(
  all: readonly Retired[],
  request: PruneRequest,
): { chosen: Retired[]; problems: MigrationProblem[] } {
  const problems: MigrationProblem[] = [];
  for (const name of request.names) {
    if (!all.some((object) => object.identity === name))
      problems.push(
        problem('MIG-302', name, 'is not retired', 'Run svc migrate status to list retired objects.'),
      );
  }
  const oldest = request.now.getTime() - request.pruneAfterMs;
  // Without names, drop only tables and columns that are old enough and empty. Extensions and sequences must be named,
  // because other programs may use an extension and the current number of a sequence is not stored elsewhere.
  const chosen = all.filter((object) =>
    request.names.length === 0
      ? isTableOrColumn(object) && object.since.getTime() <= oldest && isHarmless(object, request)
      : request.names.includes(object.identity),
  );
  for (const object of chosen) {
    const table = request.model.tables.find(
      (model) => isTableOrColumn(object) && model.schema === object.schema && model.name === object.table,
    );
    if (table?.protect)
      problems.push(
        problem('MIG-302', object.identity, `${object.table} is protected`, 'Remove protect: true first.'),
      );
    if (isHarmless(object, request)) continue;
    const unit = object.column === null ? 'rows' : 'non-null values';
    problems.push(
      problem(
        'MIG-302',
        object.identity,
        `pruning it destroys ${formatCount(object.values)} ${unit}`,
        `To allow this, pass --allow data_loss=${object.identity}.`,
      ),
    );
  }
  return { chosen, problems };
}

function isTableOrColumn({ kind }: Retired): boolean {
  return kind === 'table' || kind === 'column';
}

function isHarmless(object: Retired, request: PruneRequest): boolean {
  return object.values === 0 || request.allow.includes(`data_loss=${object.identity}`);
}

/** Drops retired types that no remaining object uses. */
async function dropUnusedTypes(session: Queryable): Promise<void> {
  const rows = await session.query<{ identity: string; schema: string; name: string; used: boolean }>(sql`
    select o.identity, n.nspname as schema, t.typname as name, ${IS_USED_TYPE} as used
    from svc_meta.object o join pg_type t on true join pg_namespace n on n.oid = t.typnamespace
    where o.kind = 'type' and o.state = 'retired' and o.identity = 'type ' || n.nspname || '.' || t.typname`);
  for (const type of rows.filter(({ used }) => !used)) {
    await session.query(raw(`drop type ${quoteName(type)}`));
    await session.query(sql`delete from svc_meta.object where identity = ${type.identity}`);
  }
}

async function drop(session: Queryable, object: Retired): Promise<void> {
  const table = quoteName({ schema: object.schema, name: object.table });
  const statement =
    object.kind === 'extension'
      ? `drop extension ${quoteIdent(object.table)}`
      : object.kind === 'sequence'
        ? `drop sequence ${table}`
        : object.column === null
          ? `drop table ${table}`
          : `alter table ${table} drop column ${quoteIdent(object.column)}`;
  try {
    await session.query(raw(statement));
  } catch (error) {
    if (object.kind === 'extension' && isDatabaseError(error, 'insufficient_privilege'))
      throw new MigrationRefused([
        problem(
          'MIG-118',
          object.identity,
          error.message,
          `Run as the owner of the extension: ${statement};`,
        ),
      ]);
    if (!isDatabaseError(error, 'dependent_objects_still_exist')) throw error;
    const detail = 'detail' in error && typeof error.detail === 'string' ? error.detail : error.message;
    throw new MigrationRefused([
      problem('MIG-304', object.identity, detail, 'Drop or change these objects first.'),
    ]);
  }
  const key = tableKey(object.schema, object.table);
  if (!isTableOrColumn(object)) {
    const identity = object.kind === 'extension' ? `extension ${object.table}` : `sequence ${key}`;
    await session.query(sql`delete from svc_meta.object where identity = ${identity}`);
    return;
  }
  await session.query(
    object.column === null
      ? sql`delete from svc_meta.object where identity = ${`table ${key}`}
          or (kind = 'column' and starts_with(identity, ${`column ${key}.`}))`
      : sql`delete from svc_meta.object where identity = ${`column ${key}.${object.column}`}`,
  );
}
