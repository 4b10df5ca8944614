// From a model to a plan that is known to work: read, elaborate, compare, ask the server, probe the rows. Changes
// nothing; everything it tries is rolled back.
import type { Queryable } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import type { Change } from './change.ts';
import { elaborateDeclared, missingTypes, readOutsideTypes, usableDeclarations } from './declarations.ts';
import { findDependants, foreignDependants, foreignPolicies, unmanagedInTheWay } from './dependants.ts';
import { type Desired, toDesired } from './desired.ts';
import { diff, type Unmanaged } from './diff.ts';
import { fillsOf, findBegunFills, look, preludeOf } from './foresight.ts';
import { type Allowance, gate } from './gate.ts';
import { type LedgerAfter, ledgerAfter } from './ledger-after.ts';
import { hashModel, readCatalogStamp, readObjects, type Stamp } from './ledger.ts';
import { readLive } from './live.ts';
import { lookAlikes } from './look-alike.ts';
import { type SchemaModel, tableKey } from './model.ts';
import { chooseOnline, readMayQuiet } from './online-retype.ts';
import { foretell } from './oracle.ts';
import type { Ownership } from './ownership.ts';
import { planSteps } from './plan.ts';
import { probe } from './probe.ts';
import { type MigrationProblem, MigrationRefused } from './problem.ts';
import { planRenames, underNewNames } from './rename.ts';
import { countRemoved } from './removal.ts';
import { incompatibleReferences } from './reference-types.ts';
import { reconcile } from './reprint.ts';
import type { LockSettings } from './session.ts';
import type { PlanSettings } from './step-list.ts';
import type { Step } from './step.ts';
import { textFaults } from './text-faults.ts';

export type PlanOptions = PlanSettings & Allowance & LockSettings;

export type MigrationPlan = LedgerAfter & {
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
  readonly desired: Desired;
  readonly schemas: readonly string[];
  readonly searchPath: string;
};

export async function prepare(
  session: Queryable,
  model: SchemaModel,
  stamp: Stamp | null,
  options: PlanOptions,
): Promise<MigrationPlan> {
  const faults = textFaults(model);
  if (faults.length > 0) throw new MigrationRefused(faults);
  const objects = await readObjects(session);
  const schemas = managedSchemas(model, objects.ownership);
  const searchPath = await readSearchPath(session);
  const catalogStamp = await readCatalogStamp(session, schemas);
  const before = await readLive(session, schemas);
  const renames = await planRenames(session, model, before, objects.ownership, schemas, options);
  if (renames.problems.length > 0) throw new MigrationRefused(renames.problems);
  const { live, owned } = renames;
  const outside = await readOutsideTypes(session, model);
  const declared = toDesired(model, outside);
  const untyped = missingTypes(declared);
  if (untyped.length > 0) throw new MigrationRefused(untyped);
  const known = usableDeclarations(objects, stamp, live, renames.steps.length > 0);
  let desired = await elaborateDeclared(session, declared, schemas, known);
  const incompatible = await incompatibleReferences(session, desired, outside);
  if (incompatible.length > 0) throw new MigrationRefused(incompatible);
  desired = await reconcile(session, desired, live, schemas);

  let difference = diff(desired, live, owned);
  const renamed = <T>(look: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, look);
  const first = difference.changes;
  const rebuild = await renamed(() => findDependants(session, first));
  if (rebuild.size > 0) difference = diff(desired, live, owned, rebuild);
  const { changes } = difference;

  const prelude = preludeOf(renames.steps);
  const foretold = await foretell(session, changes, searchPath);
  const begunFills = findBegunFills(desired, owned);
  const mayQuiet = await readMayQuiet(session);
  const online = await renamed(() =>
    chooseOnline(session, changes, live.tables, foretold.rewriting, options, mayQuiet),
  );
  const seen = await look(session, changes, prelude);
  const drops = options.drop === 'drop';
  const held = drops ? await renamed(() => countRemoved(session, changes)) : new Map<string, number>();
  const foresight = { ...seen, rewriting: foretold.rewriting, begunFills, mayQuiet, drops, searchPath };
  const probed = await probe(session, changes, searchPath, prelude, new Set(begunFills.keys()));
  const steps = [...renames.steps, ...planSteps(changes, foresight, online, options)];
  const lost = probed.problems.filter((one) => !isAcceptedLoss(one, options));
  const problems = aboutKept(owned, changes, [
    ...foretold.problems,
    ...lost,
    ...gate(steps, changes, online.inTheWay, held, options, options),
    ...unmanagedInTheWay(await renamed(() => foreignDependants(session, changes))),
    ...foreignPolicies(rebuild, changes),
  ]);
  return {
    schemaHash: hashModel(model),
    parentHash: stamp?.schemaHash ?? null,
    serverVersion: live.serverVersion,
    catalogStamp,
    steps,
    problems,
    hints: lookAlikes(changes),
    notes: probed.notes,
    unmanaged: difference.unmanaged,
    desired,
    schemas,
    searchPath,
    ...ledgerAfter(declared, desired, difference, objects, owned, renames.forgotten, fillsOf(steps), drops),
  };
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

async function readSearchPath(session: Queryable): Promise<string> {
  const [row] = await session.query<{ found: boolean }>(
    raw(`select to_regnamespace('extensions') is not null as found`),
  );
  return row?.found ? 'public, extensions' : 'public';
}

function isAcceptedLoss(one: MigrationProblem, options: Allowance): boolean {
  const column = one.at.replace(/\.type$/, '');
  return (
    one.code === 'MIG-208' &&
    one.message.includes('would lose') &&
    options.allow.includes(`data_loss=${column}`)
  );
}
