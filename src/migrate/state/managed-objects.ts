// Reads and writes `svc_meta.object`: the objects that the engine owns and the declarations that created them.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { type Host, HOSTED_OBJECTS, HOSTS, perHost } from '../schema/rights/hosts.ts';
import { isStatementForm } from '../schema/statements.ts';
import { type OwnedFunction, type OwnedTable, type Ownership, viewTriggerKey } from '../schema/managed.ts';

/** Identity of the triggers of auth.users. */
export const USER_TRIGGERS = 'user triggers';

type ObjectRow = {
  identity: string;
  kind:
    | 'type'
    | 'table'
    | 'column'
    | 'function'
    | (typeof HOSTED_OBJECTS)[Host]['kind']
    | 'user_triggers'
    | 'extension'
    | 'sequence'
    | 'statement'
    | 'view';
  state: 'managed' | 'retired';
  declared_hash: string | null;
  definition: unknown;
};

export type ManagedObjects = {
  readonly ownership: Ownership;
  readonly declared: ReadonlyMap<string, DeclaredRow>;
};

export type DeclaredRow = {
  readonly hash: string;
  /** Stored value. Null or an older format means that the normal form must be read again. */
  readonly normalForms: unknown;
};

export async function readObjects(session: Queryable): Promise<ManagedObjects> {
  const rows = await session.query<ObjectRow>(
    raw('select identity, kind, state, declared_hash, definition from svc_meta.object'),
  );
  const types = new Set<string>();
  const retiredTypes = new Set<string>();
  const tables = new Map<string, OwnedTable>();
  const retiredTables = new Map<string, OwnedTable>();
  const retiredColumns = new Set<string>();
  const functions = new Map<string, OwnedFunction>();
  const retiredFunctions = new Set<string>();
  const hosted = perHost(() => new Set<string>());
  const userTriggers = new Set<string>();
  const extensions = new Set<string>();
  const retiredExtensions = new Set<string>();
  const sequences = new Set<string>();
  const retiredSequences = new Set<string>();
  const statements = new Map<string, 'managed' | 'retired'>();
  const views = new Set<string>();
  const viewTriggers = new Set<string>();
  const declared = new Map<string, DeclaredRow>();
  for (const row of rows) {
    const name = row.identity.slice(row.identity.indexOf(' ') + 1);
    const definition = isRecord(row.definition) ? row.definition : {};
    if (row.declared_hash !== null && row.state === 'managed') {
      declared.set(row.identity, { hash: row.declared_hash, normalForms: definition['canonical'] });
    }
    if (row.kind === 'type') (row.state === 'managed' ? types : retiredTypes).add(name);
    if (row.kind === 'table' && row.state === 'managed') tables.set(name, toOwnedTable(definition));
    if (row.kind === 'table' && row.state === 'retired') retiredTables.set(name, toOwnedTable(definition));
    if (row.kind === 'column' && row.state === 'retired') retiredColumns.add(name);
    if (row.kind === 'function' && row.state === 'managed')
      functions.set(name, toOwnedFunction(name, definition));
    if (row.kind === 'function' && row.state === 'retired') retiredFunctions.add(name);
    if (row.kind === 'extension') (row.state === 'managed' ? extensions : retiredExtensions).add(name);
    if (row.kind === 'sequence') (row.state === 'managed' ? sequences : retiredSequences).add(name);
    // Keyed by the created object: the name of a statement in the file is only a label.
    if (row.kind === 'statement' && isStatementForm(definition['canonical']))
      statements.set(definition['canonical'].identity, row.state);
    if (row.kind === 'view') {
      views.add(name);
      for (const label of [...strings(definition['triggers']), ...strings(definition['leaving'])])
        viewTriggers.add(viewTriggerKey(name, label));
    }
    for (const host of HOSTS)
      if (row.kind === HOSTED_OBJECTS[host].kind)
        for (const label of [...strings(definition['labels']), ...strings(definition['leaving'])])
          hosted[host].add(label);
    if (row.kind === 'user_triggers')
      for (const label of [...strings(definition['labels']), ...strings(definition['leaving'])])
        userTriggers.add(label);
  }
  return {
    ownership: {
      types,
      retiredTypes,
      tables,
      retiredTables,
      retiredColumns,
      functions,
      retiredFunctions,
      hosted,
      userTriggers,
      extensions,
      retiredExtensions,
      sequences,
      retiredSequences,
      statements,
      views,
      viewTriggers,
    },
    declared,
  };
}

function toOwnedFunction(key: string, definition: Record<string, unknown>): OwnedFunction {
  const dot = key.indexOf('.');
  const name = definition['name'];
  const canonical = definition['canonical'];
  return {
    schema: key.slice(0, dot),
    name: typeof name === 'string' ? name : key.slice(dot + 1),
    argumentTypes: isRecord(canonical) ? strings(canonical['argumentTypes']) : null,
    ...(definition['hidden'] === true ? { hidden: true } : {}),
  };
}

function toOwnedTable(definition: Record<string, unknown>): OwnedTable {
  // Objects that an interrupted run should have removed are still owned.
  const leaving = isRecord(definition['leaving']) ? definition['leaving'] : {};
  const labels = (of: string): string[] => [
    ...new Set([...strings(definition[of]), ...strings(leaving[of])]),
  ];
  const asFound = strings(definition['asFound']);
  const attributes = strings(definition['attributes']);
  const triggers = labels('triggers');
  const partitions = strings(definition['partitions']);
  return {
    columns: strings(definition['columns']),
    constraints: labels('constraints'),
    indexes: labels('indexes'),
    policies: labels('policies'),
    closed: definition['closed'] === true,
    ...(asFound.length > 0 ? { asFound } : {}),
    ...(attributes.length > 0 ? { attributes } : {}),
    ...(triggers.length > 0 ? { triggers } : {}),
    ...(partitions.length > 0 ? { partitions } : {}),
    ...(isRecord(definition['fills']) ? { fills: texts(definition['fills']) } : {}),
  };
}

function texts(record: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

/** Removes the records of backfills that are done. */
export async function clearBackfills(session: Queryable, identities: readonly string[]): Promise<void> {
  await session.query(
    sql`update svc_meta.object set definition = definition - 'fills' where identity = any (${[...identities]})`,
  );
}

/** Deletes the records of objects that the run has removed. */
export async function settleObjects(session: Queryable, forgotten: readonly string[]): Promise<void> {
  await session.query(
    raw(`update svc_meta.object set definition = definition - 'leaving' where definition ? 'leaving'`),
  );
  if (forgotten.length > 0)
    await session.query(sql`delete from svc_meta.object where identity = any (${[...forgotten]})`);
}

/** Records a detached partition, which keeps its rows, as retired. */
export async function recordRetiredPartition(transaction: Queryable, key: string): Promise<void> {
  await transaction.query(sql`
    insert into svc_meta.object (identity, kind, state, definition) values (${`table ${key}`}, 'table', 'retired', '{}')
    on conflict (identity) do update set state = 'retired', declared_hash = null, changed_at = now()`);
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((candidate) => typeof candidate === 'string') : [];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

export type ObjectWrite = Readonly<Omit<ObjectRow, 'declared_hash'>> & {
  readonly declaredHash: string | null;
};

export async function writeObjects(
  session: Queryable,
  runId: string,
  writes: readonly ObjectWrite[],
  forgotten: readonly string[],
): Promise<void> {
  if (forgotten.length > 0) {
    await session.query(sql`delete from svc_meta.object where identity = any (${[...forgotten]})`);
  }
  if (writes.length === 0) return;
  await session.query(sql`
    insert into svc_meta.object (identity, kind, state, declared_hash, definition, run_id)
    select x.identity, x.kind, x.state, x."declaredHash", x.definition, ${runId}::bigint
    from jsonb_to_recordset(${JSON.stringify(writes)}::jsonb)
      as x (identity text, kind text, state text, "declaredHash" text, definition jsonb)
    on conflict (identity) do update set kind = excluded.kind, state = excluded.state,
      declared_hash = excluded.declared_hash, definition = excluded.definition, run_id = excluded.run_id,
      changed_at = case when svc_meta.object.state = excluded.state then svc_meta.object.changed_at else now() end`);
}
