// From a model to a plan that is known to work: read, elaborate, compare, ask the server, probe the rows. Changes
// nothing; everything it tries is rolled back.
import { quoteIdent, raw, sql } from '../postgres/sql.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { changedKeys, elaborate, hashDeclarations, keyOf, type Hashes } from './canonical.ts';
import type { Change } from './change.ts';
import {
  columnKey,
  outsideReferences,
  toDesired,
  typeResolver,
  type Desired,
  type DesiredTable,
} from './desired.ts';
import { diff, rebuildKey, schemasOf, type Difference, type Rebuild, type Unmanaged } from './diff.ts';
import { isDatabaseError, printShadow, type Printed, type ShadowTable } from './elaborate.ts';
import type { Live, LiveTable } from './facts.ts';
import { gate, type Allowance } from './gate.ts';
import {
  ENGINE_VERSION,
  hashModel,
  readCatalogStamp,
  readObjects,
  type DeclaredRow,
  type LedgerObjects,
  type ObjectWrite,
  type Stamp,
} from './ledger.ts';
import { isKept, keep, sameKept } from './kept.ts';
import { readLive } from './live.ts';
import { tableKey, type SchemaModel } from './model.ts';
import { Neighbourhood } from './neighbourhood.ts';
import type { OwnedTable, Ownership } from './ownership.ts';
import { foretell } from './oracle.ts';
import { planSteps, type Foresight, type PlanSettings } from './plan.ts';
import { isFilled, probe } from './probe.ts';
import { MigrationRefused, problem, type MigrationProblem } from './problem.ts';
import { planRenames } from './rename.ts';
import type { LockSettings } from './session.ts';
import { scopeOf, type Scope } from './scope.ts';
import { expressionFault } from './sql-text.ts';
import type { Step } from './step.ts';

export type PlanOptions = PlanSettings & Allowance & LockSettings;

export type MigrationPlan = {
  readonly schemaHash: string;
  readonly parentHash: string | null;
  readonly serverVersion: number;
  /** What the catalog was when this was planned. */
  readonly catalogStamp: string;
  readonly steps: readonly Step[];
  readonly problems: readonly MigrationProblem[];
  readonly hints: readonly MigrationProblem[];
  readonly notes: readonly string[];
  readonly unmanaged: readonly Unmanaged[];
  /** Of what was looked at. */
  readonly desired: Desired;
  /** Identities of new declarations that the server has not read yet. */
  readonly unprinted: ReadonlySet<string>;
  readonly hashes: Hashes;
  /** What was looked at; null: everything. */
  readonly scope: Scope | null;
  readonly schemas: readonly string[];
  readonly searchPath: string;
  readonly writes: readonly ObjectWrite[];
  readonly forgotten: readonly string[];
  /** Ownership once the plan has run. */
  readonly owned: Ownership;
};

/** How much of what the last run proved may be taken as read. */
export type Trust = {
  /** Compare only what changed, if the catalog is as the last verified run left it. */
  readonly stamp: boolean;
  /** Have the server read new declarations when they are built, not in advance. */
  readonly fresh: boolean;
};

export const THOROUGH: Trust = { stamp: false, fresh: false };

export async function prepare(
  session: Queryable,
  model: SchemaModel,
  stamp: Stamp | null,
  options: PlanOptions,
  trust: Trust = THOROUGH,
): Promise<MigrationPlan> {
  const objects = await readObjects(session);
  const schemas = managedSchemas(model, objects.ownership);
  const { searchPath, serverVersion } = await readServer(session);
  const catalogStamp = await readCatalogStamp(session, schemas);
  const resolve = typeResolver(model, await readOutsideTypes(session, model));
  const neighbourhood = new Neighbourhood(model);
  const hashes = hashDeclarations(model, resolve);
  const usable = isUsable(stamp, serverVersion);
  const recorded = usable ? objects.declared : new Map<string, DeclaredRow>();
  const news = changedKeys(hashes, recorded);
  const faults = textFaults(model, news);
  if (faults.length > 0) throw new MigrationRefused(faults);
  const isProven = usable && stamp?.complete === true && stamp.catalogStamp === catalogStamp;
  const scope = trust.stamp && isProven ? scopeOf(model, news, objects.ownership, neighbourhood) : null;
  const before = await readLive(session, schemas, scope);
  const renames = await planRenames(session, model, before, objects.ownership, schemas, options);
  if (renames.problems.length > 0) throw new MigrationRefused(renames.problems);
  const isRenaming = renames.steps.length > 0;
  if (scope !== null && isRenaming)
    return prepare(session, model, stamp, options, { ...trust, stamp: false });
  const { live, owned } = renames;
  const declared = toDesired(model, resolve, scope);
  const untyped = missingTypes(declared);
  if (untyped.length > 0) throw new MigrationRefused(untyped);
  const known = isRenaming ? new Map<string, DeclaredRow>() : recorded;
  const changed = isRenaming ? changedKeys(hashes, known) : news;
  const fresh = trust.fresh ? findFresh(declared, live, owned) : new Set<string>();
  const elaborated = await elaborate(session, declared, schemas, known, changed, fresh, neighbourhood);
  const desired = await reconcile(session, elaborated.desired, live, schemas);

  let difference = diff(desired, live, owned);
  const rebuild = await findDependants(session, difference.changes);
  if (scope !== null && rebuild.tables.some((table) => !scope.has(table)))
    return prepare(session, model, stamp, options, { ...trust, stamp: false });
  if (rebuild.keys.size > 0) difference = diff(desired, live, owned, rebuild.keys);
  const { changes } = difference;

  const prelude = preludeOf(renames.steps);
  const foretold = await foretell(session, changes, searchPath);
  const begunFills = findBegunFills(desired, owned);
  const foresight = await look(session, changes, foretold.rewriting, prelude, begunFills);
  const probed = await probe(session, changes, searchPath, prelude, new Set(begunFills.keys()));
  const steps = [...renames.steps, ...planSteps(changes, foresight, options)];
  const lost = probed.problems.filter((one) => !isAcceptedLoss(one, options));
  const problems = aboutKept(owned, changes, [
    ...foretold.problems,
    ...lost,
    ...gate(steps, changes, options, options),
    ...unmanagedInTheWay(await foreignDependants(session, changes)),
  ]);
  const { unprinted } = elaborated;
  return {
    schemaHash: hashModel(model),
    parentHash: stamp?.schemaHash ?? null,
    serverVersion,
    catalogStamp,
    steps,
    problems,
    hints: lookAlikes(changes),
    notes: probed.notes,
    unmanaged: difference.unmanaged,
    desired,
    unprinted,
    hashes,
    scope,
    schemas,
    searchPath,
    ...ledgerAfter({
      model,
      desired,
      unprinted,
      hashes,
      difference,
      objects,
      owned,
      renamedAway: renames.forgotten,
      fills: fillsOf(steps),
    }),
  };
}

// What the database has nothing for. Not beside a removal: there the types tell whether it was meant as a rename.
function findFresh(declared: Desired, live: Live, owned: Ownership): Set<string> {
  const wanted = new Set(declared.tables.map(keyOf));
  if ([...owned.tables.keys()].some((key) => !wanted.has(key) && live.tables.has(key))) return new Set();
  const keys = [...declared.tables, ...declared.functions].map(keyOf);
  return new Set(keys.filter((key) => !live.tables.has(key) && !live.functions.has(key)));
}

/** A declaration under the name of something retired gets that back, with its data; say so when they do not fit. */
function aboutKept(
  owned: Ownership,
  changes: readonly Change[],
  problems: readonly MigrationProblem[],
): MigrationProblem[] {
  const kept = new Set<string>();
  for (const change of changes) {
    if (!('table' in change) || !('column' in change)) continue;
    const key = tableKey(change.table.schema, change.table.name);
    if (owned.retiredTables.has(key)) kept.add(change.column.at);
    if (owned.retiredColumns.has(`${key}.${change.column.name}`)) kept.add(change.column.at);
  }
  return problems.map((one) => {
    const column = one.at.replace(/\.\w+$/, '');
    if (!kept.has(column) && !kept.has(one.at)) return one;
    const hint = `An earlier file had this name and its data was kept: svc migrate prune ${column} drops it.`;
    return { ...one, hint: one.hint === null ? hint : `${one.hint} ${hint}` };
  });
}

export function managedSchemas(model: SchemaModel, owned: Ownership): string[] {
  const ofTables = [...owned.tables.keys(), ...owned.retiredTables].map((key) =>
    key.slice(0, key.indexOf('.')),
  );
  return [...new Set(['public', ...model.tables.map((table) => table.schema), ...ofTables])];
}

async function readServer(session: Queryable): Promise<{ searchPath: string; serverVersion: number }> {
  const [row] = await session.query<{ extensions: boolean; version: number }>(
    raw(
      `select to_regnamespace('extensions') is not null as extensions, current_setting('server_version_num')::int as version`,
    ),
  );
  return {
    searchPath: row?.extensions ? 'public, extensions' : 'public',
    serverVersion: row?.version ?? 0,
  };
}

function isUsable(stamp: Stamp | null, serverVersion: number): boolean {
  return (
    stamp !== null &&
    stamp.engineVersion === ENGINE_VERSION &&
    Math.floor(stamp.serverVersion / 10_000) === Math.floor(serverVersion / 10_000)
  );
}

/** What could not even be sent, of the tables and functions asked for and all else. */
function textFaults(model: SchemaModel, asked: ReadonlySet<string>): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const check = (text: string | null, at: string): void => {
    const fault = text === null ? null : expressionFault(text);
    if (fault !== null) problems.push(problem('MIG-101', at, fault));
  };
  for (const table of model.tables) {
    if (!asked.has(keyOf(table))) continue;
    for (const column of table.columns) {
      check(column.type, `${column.at}.type`);
      check(column.check, `${column.at}.check`);
      check(column.backfill, `${column.at}.backfill`);
      check(column.using, `${column.at}.using`);
      if (column.default?.kind === 'sql') check(column.default.text, `${column.at}.default`);
      if (column.ref && !table.columns.some((one) => one.primaryKey)) {
        problems.push(
          problem(
            'MIG-101',
            `${column.at}.ref`,
            'a table with a storage reference needs a primary key',
            'Mark a field with primary_key: true.',
          ),
        );
      }
    }
    for (const index of table.indexes) check(index.where, `${index.at}.where`);
    if (typeof table.rls === 'string') continue;
    for (const policy of table.rls) checkPolicy(policy, check);
  }
  for (const bucket of model.buckets) for (const policy of bucket.policies) checkPolicy(policy, check);
  for (const fn of model.functions) {
    if (!asked.has(keyOf(fn))) continue;
    check(fn.returns, `${fn.at}.returns`);
    for (const arg of fn.args) {
      check(arg.type, `${fn.at}.args`);
      if (arg.default?.kind === 'sql') check(arg.default.text, `${fn.at}.args`);
    }
  }
  return problems;
}

function checkPolicy(
  policy: {
    readonly using: string | null;
    readonly withCheck: string | null;
    readonly check: string | null;
    readonly at: string;
  },
  check: (text: string | null, at: string) => void,
): void {
  check(policy.using, `${policy.at}.using`);
  check(policy.withCheck, `${policy.at}.with_check`);
  check(policy.check, `${policy.at}.check`);
}

async function readOutsideTypes(session: Queryable, model: SchemaModel): Promise<Map<string, string>> {
  const wanted = outsideReferences(model);
  const types = new Map<string, string>();
  if (wanted.length === 0) return types;
  const rows = await session.query<{ schema: string; table: string; column: string; type: string }>(sql`
    select n.nspname as schema, c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and (n.nspname, c.relname) in
      (select w.schema, w.table from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb) as w (schema text, "table" text))`);
  for (const row of rows) types.set(columnKey(row.schema, row.table, row.column), row.type);
  return types;
}

function missingTypes(desired: Desired): MigrationProblem[] {
  return desired.tables.flatMap((table) =>
    table.columns
      .filter((column) => column.typeSql === '')
      .map((column) => {
        const target = column.model.foreignKey;
        const name = target ? `${target.schema}.${target.table}.${target.column}` : '';
        return problem(
          'MIG-101',
          column.at,
          `the referenced column ${name} does not exist`,
          'Give the field a type, or correct the reference.',
        );
      }),
  );
}

/**
 * A few expressions print differently once more after their first print, for example after a dump and restore.
 * Where first prints differ, the second ones of both sides decide; the live text is then taken as the declared one's.
 */
async function reconcile(
  session: Queryable,
  desired: Desired,
  live: Live,
  schemas: readonly string[],
): Promise<Desired> {
  const suspects = desired.tables.filter((table) => {
    const found = live.tables.get(tableKey(table.schema, table.name));
    return found !== undefined && hasOtherText(table, found);
  });
  if (suspects.length === 0) return desired;
  const again = await printQuietly(session, suspects.map(reprintable), desired, schemas);
  const pairs = suspects
    .map((table) => live.tables.get(tableKey(table.schema, table.name)))
    .filter((table) => table !== undefined);
  const liveAgain = await printQuietly(session, pairs.map(shadowOfLive), desired, schemas);
  if (again === null || liveAgain === null) return desired;
  return {
    ...desired,
    tables: desired.tables.map((table) => {
      const key = tableKey(table.schema, table.name);
      const found = live.tables.get(key);
      const second = again.tables.get(key);
      const liveSecond = liveAgain.tables.get(key);
      return found && second && liveSecond ? adopt(table, found, second, liveSecond) : table;
    }),
  };
}

function hasOtherText(table: DesiredTable, live: LiveTable): boolean {
  const checks = table.checks.some((check) => {
    const found = live.checks.find((one) => one.label === check.label);
    return found !== undefined && found.expression !== check.expression.canonical;
  });
  return (
    checks ||
    table.columns.some((column) => {
      const found = live.columns.get(column.name);
      return (
        column.default !== null &&
        found?.default !== undefined &&
        found.default !== null &&
        found.type === column.type &&
        found.default !== column.default.canonical
      );
    })
  );
}

async function printQuietly(
  session: Queryable,
  tables: readonly ShadowTable[],
  desired: Desired,
  schemas: readonly string[],
): Promise<Printed | null> {
  try {
    return await printShadow(session, { tables, functions: desired.functions, storagePolicies: [] }, [
      ...new Set([...schemas, ...schemasOf(desired)]),
    ]);
  } catch (error) {
    // What cannot be read back alone stays a difference.
    if (error instanceof MigrationRefused) return null;
    throw error;
  }
}

function piece(text: string): { sql: string; written: string; at: string } {
  return { sql: text, written: text, at: '' };
}

function reprintable(table: DesiredTable): ShadowTable {
  return {
    schema: table.schema,
    name: table.name,
    at: table.at,
    columns: table.columns.map((column) => ({
      name: column.name,
      type: column.type,
      default: column.default && piece(column.default.canonical),
      at: column.at,
    })),
    checks: table.checks.map((check) => ({
      label: check.label,
      expression: piece(check.expression.canonical),
    })),
    indexes: [],
    policies: [],
  };
}

function shadowOfLive(table: LiveTable): ShadowTable {
  return {
    schema: table.schema,
    name: table.name,
    at: table.name,
    columns: [...table.columns.values()].map((column) => ({
      name: column.name,
      type: column.type,
      default: column.default === null || column.generated ? null : piece(column.default),
      at: column.name,
    })),
    checks: table.checks.map((check) => ({ label: check.label, expression: piece(check.expression) })),
    indexes: [],
    policies: [],
  };
}

function adopt(table: DesiredTable, live: LiveTable, second: LiveTable, liveSecond: LiveTable): DesiredTable {
  return {
    ...table,
    columns: table.columns.map((column) => {
      const text = live.columns.get(column.name)?.default;
      const same =
        text !== undefined &&
        text !== null &&
        second.columns.get(column.name)?.default === liveSecond.columns.get(column.name)?.default;
      return column.default && same ? { ...column, default: { ...column.default, canonical: text } } : column;
    }),
    checks: table.checks.map((check) => {
      const find = (one: LiveTable): string | undefined =>
        one.checks.find((found) => found.label === check.label)?.expression;
      const text = find(live);
      const same = text !== undefined && find(second) === find(liveSecond);
      return same ? { ...check, expression: { ...check.expression, canonical: text } } : check;
    }),
  };
}

/** Policies, checks, partial indexes and defaults that must step aside while what they stand on changes. */
async function findDependants(
  session: Queryable,
  changes: readonly Change[],
): Promise<{ readonly keys: Rebuild; readonly tables: readonly string[] }> {
  const columns = changes.flatMap((change) =>
    change.kind === 'retype' && change.live
      ? [{ oid: change.live.oid, number: change.liveColumn.number }]
      : [],
  );
  const functions = changes.flatMap((change) =>
    change.kind === 'recreate-function' && change.live ? [change.live.oid] : [],
  );
  if (columns.length === 0 && functions.length === 0) return { keys: new Set(), tables: [] };
  const rows = await session.query<{
    kind: 'policy' | 'check' | 'index' | 'default';
    table: string;
    label: string;
  }>(sql`
    with below as (
      select 'pg_class'::regclass as class, w.oid::oid as object, w.number as part
      from jsonb_to_recordset(${JSON.stringify(columns)}::jsonb) as w (oid text, number int)
      union all select 'pg_proc'::regclass, unnest(${functions}::text[])::oid, 0
    ), above as (
      select distinct d.classid, d.objid from pg_depend d join below b
        on d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = b.part
    )
    select 'policy' as kind, n.nspname || '.' || c.relname as table, p.polname as label
      from above a join pg_policy p on a.classid = 'pg_policy'::regclass and p.oid = a.objid
      join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'check', n.nspname || '.' || c.relname, k.conname
      from above a join pg_constraint k on a.classid = 'pg_constraint'::regclass and k.oid = a.objid and k.contype = 'c'
      join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'default', n.nspname || '.' || c.relname, t.attname
      from above a join pg_attrdef f on a.classid = 'pg_attrdef'::regclass and f.oid = a.objid
      join pg_attribute t on t.attrelid = f.adrelid and t.attnum = f.adnum
      join pg_class c on c.oid = f.adrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'index', n.nspname || '.' || c.relname, ic.relname
      from above a join pg_index i on a.classid = 'pg_class'::regclass and i.indexrelid = a.objid and i.indpred is not null
      join pg_class ic on ic.oid = i.indexrelid join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace`);
  return {
    keys: new Set(rows.map((row) => rebuildKey(row.kind, row.table, row.label))),
    tables: rows.map((row) => row.table),
  };
}

type Dependant = { readonly at: string; readonly what: string; readonly on: string };

/** Views and the like over a column whose type changes; not ours to drop. */
async function foreignDependants(session: Queryable, changes: readonly Change[]): Promise<Dependant[]> {
  const found: Dependant[] = [];
  for (const change of changes) {
    if (change.kind !== 'retype' || !change.live) continue;
    const rows = await session.query<{ what: string }>(sql`
      select distinct pg_describe_object('pg_class'::regclass, r.ev_class, 0) as what
      from pg_depend d join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
      where d.refclassid = 'pg_class'::regclass and d.refobjid = ${change.live.oid}::oid and d.refobjsubid = ${change.liveColumn.number}`);
    for (const row of rows)
      found.push({ at: `${change.column.at}.type`, what: row.what, on: change.column.name });
  }
  return found;
}

function unmanagedInTheWay(dependants: readonly Dependant[]): MigrationProblem[] {
  return dependants.map((one) =>
    problem('MIG-304', one.at, `${one.what} uses ${one.on}`, 'Drop it first and create it again afterwards.'),
  );
}

function findBegunFills(desired: Desired, owned: Ownership): Map<string, string> {
  const begun = new Map<string, string>();
  for (const table of desired.tables) {
    const fills = owned.tables.get(tableKey(table.schema, table.name))?.fills ?? {};
    for (const column of table.columns) {
      const value = fills[column.name];
      if (value !== undefined) begun.set(column.at, value);
    }
  }
  return begun;
}

/** What goes on after the transaction must be known to whoever has to finish it. */
function fillsOf(steps: readonly Step[]): Map<string, Record<string, string>> {
  const fills = new Map<string, Record<string, string>>();
  for (const { action, lane } of steps) {
    if (action.kind !== 'fill' || lane === 'metadata') continue;
    const key = tableKey(action.schema, action.table);
    fills.set(key, { ...fills.get(key), [action.column]: action.value });
  }
  return fills;
}

export type Prelude = (schema: string, table: string) => string;

// A table about to be renamed is looked at under its new names; the look is rolled back like everything here.
function preludeOf(steps: readonly Step[]): Prelude {
  if (steps.length === 0) return () => '';
  const text = steps.map((step) => step.sql).join('; ');
  return (schema, table) =>
    text.includes(`${quoteIdent(schema)}.${quoteIdent(table)}`) ||
    text.includes(` rename to ${quoteIdent(table)}`)
      ? text
      : '';
}

async function look(
  session: Queryable,
  changes: readonly Change[],
  rewriting: ReadonlySet<string>,
  prelude: Prelude,
  begunFills: ReadonlyMap<string, string>,
): Promise<Foresight> {
  const nonEmpty = new Set<string>();
  const toFill = new Set<string>();
  for (const change of changes) {
    if (change.kind !== 'add-column' && change.kind !== 'set-not-null') continue;
    if (!change.live) continue;
    const { table } = change;
    await session.query(raw('begin'));
    try {
      const first = prelude(table.schema, table.name);
      if (first !== '') await session.query(raw(first));
      if (await isFilled(session, table)) nonEmpty.add(tableKey(table.schema, table.name));
      if (change.kind === 'set-not-null' && change.column.model.backfill !== null)
        toFill.add(change.column.at);
    } catch (error) {
      if (!isDatabaseError(error)) throw error;
      nonEmpty.add(tableKey(table.schema, table.name));
    } finally {
      await session.query(raw('rollback'));
    }
  }
  return { rewriting, nonEmpty, toFill, begunFills };
}

function isAcceptedLoss(one: MigrationProblem, options: Allowance): boolean {
  const column = one.at.replace(/\.type$/, '');
  return (
    one.code === 'MIG-208' &&
    one.message.includes('would lose') &&
    options.allow.includes(`data_loss=${column}`)
  );
}

/** A column gone and one come with the same type in one table: perhaps a rename nobody declared. */
function lookAlikes(changes: readonly Change[]): MigrationProblem[] {
  const hints: MigrationProblem[] = [];
  for (const gone of changes) {
    if (gone.kind !== 'retire-column') continue;
    for (const come of changes) {
      if (
        come.kind !== 'add-column' ||
        come.table !== gone.table ||
        come.column.type !== gone.liveColumn.type
      )
        continue;
      hints.push(
        problem(
          'MIG-206',
          come.column.at,
          `new column ${come.column.name} has the type of removed column ${gone.liveColumn.name}`,
          `If this is a rename, add renamed_from: ${gone.liveColumn.name}. (${gone.liveColumn.name} is kept, nothing was deleted)`,
        ),
      );
    }
  }
  for (const gone of changes) {
    if (gone.kind !== 'retire-table') continue;
    const columns = [...gone.live.columns.values()]
      .map((column) => `${column.name} ${column.type}`)
      .sort()
      .join();
    for (const come of changes) {
      if (
        come.kind !== 'create-table' ||
        come.table.columns
          .map((column) => `${column.name} ${column.type}`)
          .sort()
          .join() !== columns
      )
        continue;
      hints.push(
        problem(
          'MIG-206',
          come.table.at,
          `new table ${come.table.name} has the columns of removed table ${gone.live.name}`,
          `If this is a rename, add renamed_from: ${gone.live.name}. (${gone.live.name} is kept, nothing was deleted)`,
        ),
      );
    }
  }
  return hints;
}

type LedgerChange = {
  readonly model: SchemaModel;
  /** Of what was looked at. */
  readonly desired: Desired;
  readonly unprinted: ReadonlySet<string>;
  readonly hashes: Hashes;
  readonly difference: Difference;
  readonly objects: LedgerObjects;
  readonly owned: Ownership;
  readonly renamedAway: readonly string[];
  readonly fills: ReadonlyMap<string, Readonly<Record<string, string>>>;
};

function ledgerAfter({
  model,
  desired,
  unprinted,
  hashes,
  difference,
  objects,
  owned,
  renamedAway,
  fills,
}: LedgerChange): Pick<MigrationPlan, 'writes' | 'forgotten' | 'owned'> {
  const writes: ObjectWrite[] = [];
  const forgotten = new Set(renamedAway);
  const tables = new Map<string, OwnedTable>();
  for (const table of model.tables) {
    const before = owned.tables.get(keyOf(table));
    if (before) tables.set(keyOf(table), before);
  }
  const retiredTables = new Set(owned.retiredTables);
  const retiredColumns = new Set(owned.retiredColumns);
  const functions = new Set(desired.functions.map((fn) => tableKey(fn.schema, fn.name)));
  for (const table of desired.tables) {
    const key = tableKey(table.schema, table.name);
    const claim = difference.claims.get(key) ?? { columns: [], constraints: [], indexes: [], policies: [] };
    tables.set(key, claim);
    retiredTables.delete(key);
    // Without a print it is as good as unknown, should the run end here.
    const hash = unprinted.has(`table ${key}`) ? null : (hashes.tables.get(key) ?? null);
    const former = objects.declared.get(`table ${key}`);
    const before = owned.tables.get(key);
    const filling = fills.get(key);
    const same =
      filling === undefined &&
      former?.hash === hash &&
      isKept(former.canonical) &&
      sameKept(former.canonical, keep(table)) &&
      before !== undefined &&
      JSON.stringify(before) === JSON.stringify(claim);
    if (!same || owned.tables !== objects.ownership.tables) {
      writes.push({
        identity: `table ${key}`,
        kind: 'table',
        state: 'managed',
        declaredHash: hash,
        definition: { ...claim, canonical: keep(table), ...(filling ? { fills: filling } : {}) },
      });
    }
    for (const column of claim.columns) {
      if (retiredColumns.delete(`${key}.${column}`)) forgotten.add(`column ${key}.${column}`);
    }
  }
  for (const change of difference.changes) {
    if (change.kind === 'retire-table') {
      const key = tableKey(change.live.schema, change.live.name);
      retiredTables.add(key);
      writes.push({
        identity: `table ${key}`,
        kind: 'table',
        state: 'retired',
        declaredHash: null,
        definition: owned.tables.get(key) ?? {},
      });
    }
    if (change.kind === 'retire-column') {
      const key = `${tableKey(change.table.schema, change.table.name)}.${change.liveColumn.name}`;
      retiredColumns.add(key);
      writes.push({
        identity: `column ${key}`,
        kind: 'column',
        state: 'retired',
        declaredHash: null,
        definition: change.liveColumn,
      });
    }
    if (change.kind === 'drop-function')
      forgotten.add(`function ${tableKey(change.live.schema, change.live.name)}`);
  }
  for (const key of owned.retiredColumns) {
    if (!objects.ownership.retiredColumns.has(key))
      writes.push({
        identity: `column ${key}`,
        kind: 'column',
        state: 'retired',
        declaredHash: null,
        definition: {},
      });
  }
  for (const fn of desired.functions) {
    const key = keyOf(fn);
    const hash = unprinted.has(`function ${key}`) ? null : (hashes.functions.get(key) ?? null);
    if (objects.ownership.functions.has(key) && objects.declared.get(`function ${key}`)?.hash === hash)
      continue;
    writes.push({
      identity: `function ${key}`,
      kind: 'function',
      state: 'managed',
      declaredHash: hash,
      definition: { canonical: fn.canonical },
    });
  }
  // Owned by the ledger but gone from both file and database. What is retired by this run is written again below.
  for (const key of owned.tables.keys()) if (!tables.has(key)) forgotten.add(`table ${key}`);
  for (const key of owned.functions) if (!functions.has(key)) forgotten.add(`function ${key}`);
  const storage = [...difference.storageClaims].sort();
  if (storage.join() !== [...owned.storagePolicies].sort().join()) {
    writes.push({
      identity: 'storage policies',
      kind: 'storage_policies',
      state: 'managed',
      declaredHash: null,
      definition: { labels: storage },
    });
  }
  for (const write of writes) forgotten.delete(write.identity);
  return {
    writes,
    forgotten: [...forgotten],
    owned: {
      tables,
      retiredTables,
      retiredColumns,
      functions,
      retiredFunctions: owned.retiredFunctions,
      storagePolicies: new Set(storage),
    },
  };
}
