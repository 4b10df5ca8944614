// From a model to a plan that is known to work: read, elaborate, compare, ask the server, probe the rows. Changes
// nothing; everything it tries is rolled back.
import type { Queryable } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import { changedKeys, normalise, hashDeclarations, type Hashes } from './normalise/normalise.ts';
import type { Change } from './diff/change.ts';
import {
  findDependants,
  foreignDependants,
  retiredInTheWay,
  strangersInTheWay,
  unmanagedInTheWay,
} from './plan/dependants.ts';
import { typeResolver } from './schema/column-types.ts';
import type { Desired } from './schema/desired.ts';
import { toDesired } from './schema/to-desired.ts';
import { diff } from './diff/diff.ts';
import type { Unmanaged } from './diff/table-diff.ts';
import type { Live } from './schema/live-schema.ts';
import { fillsOf, findBegunFills, look, preludeOf } from './checks/table-facts.ts';
import { refuseHazards } from './checks/hazards.ts';
import type { HazardPolicy } from './plan/hazard-policy.ts';
import { type LedgerAfter, ledgerAfter } from './state-after.ts';
import {
  type DeclaredRow,
  ENGINE_VERSION,
  hashModel,
  readCatalogStamp,
  readObjects,
  type Stamp,
} from './state/state.ts';
import { readLive } from './schema/read-live.ts';
import { renameHints, renamedByHand } from './diff/rename-hints.ts';
import { keyOf, type SchemaModel, tableKey } from './schema/model.ts';
import { RelatedDeclarations } from './normalise/related.ts';
import { chooseOnline, readMayQuiet } from './plan/online-type-change.ts';
import { foretell } from './checks/dry-run.ts';
import type { Ownership } from './schema/managed.ts';
import { planSteps } from './plan/plan.ts';
import { readStrangers, tablesInRings } from './schema/policy-rings.ts';
import { isLoss, probe } from './checks/row-checks.ts';
import { type MigrationProblem, MigrationRefused } from './problem.ts';
import { planRenames, underNewNames } from './plan/rename.ts';
import { countRemoved } from './plan/removal.ts';
import { incompatibleReferences, missingTypes, readOutsideTypes } from './checks/reference-types.ts';
import { adoptStableForms } from './normalise/stable-form.ts';
import { type Scope, scopeOf } from './normalise/scope.ts';
import type { LockSettings } from './locks.ts';
import type { PlanSettings } from './plan/step-list.ts';
import type { Step } from './plan/step.ts';
import { textFaults } from './checks/text-faults.ts';

export type PlanOptions = PlanSettings & HazardPolicy & LockSettings;

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
  /** Of what was looked at. */
  readonly desired: Desired;
  /** Identities of new declarations that the server has not read yet. */
  readonly unprinted: ReadonlySet<string>;
  readonly hashes: Hashes;
  /** What was looked at; null: everything. */
  readonly scope: Scope | null;
  readonly schemas: readonly string[];
  readonly searchPath: string;
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
  const again = (less: Partial<Trust>): Promise<MigrationPlan> =>
    prepare(session, model, stamp, options, { ...trust, ...less });
  const objects = await readObjects(session);
  const schemas = managedSchemas(model, objects.ownership);
  const { searchPath, serverVersion } = await readServer(session);
  const catalogStamp = await readCatalogStamp(session, schemas);
  const resolve = typeResolver(model, await readOutsideTypes(session, model));
  const neighbourhood = new RelatedDeclarations(model);
  const inRings = tablesInRings(model, await readStrangers(session, model, schemas, objects.ownership));
  const hashes = hashDeclarations(model, resolve, inRings);
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
  if (scope !== null && isRenaming) return again({ stamp: false });
  const { live, owned } = renames;
  const declared = toDesired(model, resolve, inRings, scope);
  const untyped = missingTypes(declared);
  if (untyped.length > 0) throw new MigrationRefused(untyped);
  const known = isRenaming ? new Map<string, DeclaredRow>() : recorded;
  const changed = isRenaming ? changedKeys(hashes, known) : news;
  const fresh = trust.fresh ? findFresh(declared, live, owned) : new Set<string>();
  const elaborated = await normalise(session, declared, schemas, known, changed, fresh, neighbourhood);
  const { unread: unprinted } = elaborated;
  const incompatible = await incompatibleReferences(session, elaborated.desired, resolve, searchPath);
  if (incompatible.length > 0) {
    // What the server has not read yet may be wrong too, and is to be said first.
    if (unprinted.size > 0) return again({ fresh: false });
    throw new MigrationRefused(incompatible);
  }
  const desired = await adoptStableForms(session, elaborated.desired, live, schemas);

  let difference = diff(desired, live, owned);
  const renamed = <T>(look: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, look);
  const first = difference.changes;
  const byHand = renamedByHand(first, live, owned);
  if (byHand.length > 0) throw new MigrationRefused(byHand);
  const { rebuild, tables, holding } = await renamed(() => findDependants(session, first));
  if (scope !== null && [...tables].some((table) => !scope.has(table))) return again({ stamp: false });
  if (rebuild.size > 0) difference = diff(desired, live, owned, rebuild);
  const retired = await renamed(() => retiredInTheWay(session, desired, difference.changes, owned));
  const changes = [...difference.changes, ...retired];

  const prelude = preludeOf(renames.steps);
  const foretold = await foretell(session, changes, searchPath);
  const begunFills = findBegunFills(desired, owned);
  const mayQuiet = await readMayQuiet(session);
  const online = await renamed(() =>
    chooseOnline(session, changes, live.tables, foretold.rewriting, options, mayQuiet),
  );
  // What waits for the columns beside is built long after the rest, so it is read in advance.
  if (online.columns.size > 0 && unprinted.size > 0) return again({ fresh: false });
  const seen = await look(session, changes, prelude);
  const isBeside = (column: string): boolean => online.columns.has(column) || online.inTheWay.has(column);
  const drops = options.drop === 'drop';
  const held = drops ? await renamed(() => countRemoved(session, changes)) : new Map<string, number>();
  const probed = await probe(session, changes, searchPath, prelude, new Set(begunFills.keys()));
  const foresight = {
    ...seen,
    rewriting: foretold.rewriting,
    begunBackfills: begunFills,
    mayQuiet,
    drops,
    searchPath,
    losing: new Set(probed.problems.filter((one) => isAcceptedLoss(one, options)).map(columnOf)),
  };
  const steps = [...renames.steps, ...planSteps(changes, foresight, online, options)];
  const lost = probed.problems.filter((one) => !isAcceptedLoss(one, options));
  const problems = aboutKept(owned, changes, [
    ...foretold.problems,
    ...lost,
    ...refuseHazards(steps, changes, online.inTheWay, held, options, options),
    ...unmanagedInTheWay(await renamed(() => foreignDependants(session, changes, isBeside))),
    ...strangersInTheWay(holding, changes),
  ]);
  return {
    schemaHash: hashModel(model),
    parentHash: stamp?.schemaHash ?? null,
    serverVersion,
    catalogStamp,
    steps,
    problems,
    hints: renameHints(changes),
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
      isLong: steps.some((step) => step.lane !== 'metadata'),
      drops,
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
  const ofTables = [...owned.tables.keys(), ...owned.retiredTables.keys()].map((key) =>
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

function columnOf(one: MigrationProblem): string {
  return one.at.replace(/\.type$/, '');
}

function isAcceptedLoss(one: MigrationProblem, options: HazardPolicy): boolean {
  return isLoss(one) && options.allow.includes(`data_loss=${columnOf(one)}`);
}
