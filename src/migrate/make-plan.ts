// From a model to a plan that is known to work: read, normalise, compare, dry-run the statements, check the rows.
// Changes nothing; whatever it tries is rolled back.
import type { Queryable } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import { changedKeys, hashDeclarations, type Hashes, normalise } from './normalise/normalise.ts';
import type { Change } from './diff/change.ts';
import {
  type Dependants,
  findDependants,
  foreignDependants,
  retiredInTheWay,
  strangersInTheWay,
} from './plan/dependants.ts';
import { type TypeResolver, typeResolver } from './schema/column-types.ts';
import type { Desired } from './schema/desired.ts';
import { toDesired } from './schema/to-desired.ts';
import { diff, type Difference } from './diff/diff.ts';
import type { Unmanaged } from './diff/table-diff.ts';
import { backfillsOf, findBegunBackfills, preludeOf, readRowFacts } from './checks/table-facts.ts';
import { refuseHazards } from './checks/hazards.ts';
import type { HazardPolicy } from './plan/hazard-policy.ts';
import { type StateAfter, stateAfter } from './state-after.ts';
import {
  type AppliedState,
  digestModel,
  ENGINE_VERSION,
  hashModel,
  readCatalogFingerprint,
  readManagedSchemas,
} from './state/applied-state.ts';
import { type DeclaredRow, type ManagedObjects, readObjects } from './state/managed-objects.ts';
import { readLive } from './schema/live/read-live.ts';
import { renameHints, renamedByHand } from './diff/rename-hints.ts';
import { EXTENSIONS_SCHEMA } from './schema/sql/extension-sql.ts';
import { keyOf, type SchemaModel } from './schema/model.ts';
import { RelatedDeclarations } from './normalise/related.ts';
import { chooseOnline, type OnlineTypeChanges, readMayQuiet } from './plan/types/online-type-change.ts';
import { dryRun } from './checks/dry-run.ts';
import type { Ownership } from './schema/managed.ts';
import { planSteps } from './plan/plan.ts';
import { type LongFillings, longFillings, swappedViews } from './plan/materialized.ts';
import { readStrangers, tablesInRings } from './schema/rights/policy-rings.ts';
import { checkRows } from './checks/row-checks.ts';
import { strangersOfReplacedTypes } from './plan/types/type-dependants.ts';
import { type MigrationProblem, MigrationRefused } from './problem.ts';
import { planRenames, type Renames, underNewNames } from './plan/rename.ts';
import { countRemoved } from './plan/removal.ts';
import { incompatibleReferences, missingTypes, readOutsideTypes } from './checks/reference-types.ts';
import { adoptStableForms } from './normalise/stable-form.ts';
import { type Scope, scopeOf } from './normalise/scope.ts';
import type { LockSettings } from './locks.ts';
import type { PlanSettings, TableFacts } from './plan/step-list.ts';
import { isAfterMetadata, type Step } from './plan/step.ts';
import { noteUsersWithoutRow } from './checks/new-users.ts';
import { type ExtensionFacts, readExtensionFacts } from './checks/extensions.ts';
import { unknownHosts } from './checks/statement-hosts.ts';
import { missingRoles } from './checks/policy-roles.ts';
import { checkDomains, fixedTypes } from './checks/type-definitions.ts';
import { beyondServer } from './checks/server-version.ts';
import {
  type ForeignObject,
  ownershipProblems,
  type OwnershipTaker,
  readForeignObjects,
} from './checks/ownership.ts';
import { textFaults } from './checks/text-faults.ts';
import { refusePartitioning } from './checks/partitions.ts';
import { notePublished, refusePublished } from './checks/publication.ts';
import { checkViews } from './checks/view-checks.ts';

export type PlanOptions = PlanSettings & HazardPolicy & LockSettings;

/**
 * `full` compares everything. `incremental` compares only what the file changes and what depends on it, provided that
 * the catalog is as the last verified run left it.
 */
export type PlanMode = 'incremental' | 'full';

export type MigrationPlan = StateAfter & {
  readonly schemaHash: string;
  readonly parentHash: string | null;
  readonly serverVersion: number;
  /** Of the catalog that this was planned for. */
  readonly catalogFingerprint: string;
  /** Declared objects of other roles, which must be svc's before the steps can run. */
  readonly foreign: readonly ForeignObject[];
  readonly steps: readonly Step[];
  readonly problems: readonly MigrationProblem[];
  readonly hints: readonly MigrationProblem[];
  readonly notes: readonly string[];
  readonly unmanaged: readonly Unmanaged[];
  /** Declarations in scope. */
  readonly desired: Desired;
  /** Null: everything was compared. */
  readonly scope: Scope | null;
  readonly schemas: readonly string[];
  readonly searchPath: string;
};

/**
 * Throws MigrationRefused for mistakes that leave nothing to plan; what a run would be refused for is in `problems`. Where
 * something belongs to another role, the plan is made over the connection that can take it, as if it had been.
 */
export async function makePlan(
  session: Queryable,
  model: SchemaModel,
  state: AppliedState | null,
  options: PlanOptions,
  mode: PlanMode = 'full',
  ownership?: OwnershipTaker,
): Promise<MigrationPlan> {
  const foreign = await readForeignObjects(session, model);
  if (foreign.length === 0) return { ...(await planOwn(session, model, state, options, mode)), foreign };
  const barred = ownership ? await ownership.refused(foreign) : foreign;
  if (!ownership || barred.length > 0) throw new MigrationRefused(ownershipProblems(barred));
  return ownership.session(async (other) => ({
    ...(await planOwn(other, model, state, options, 'full')),
    foreign,
  }));
}

async function planOwn(
  session: Queryable,
  model: SchemaModel,
  state: AppliedState | null,
  options: PlanOptions,
  mode: PlanMode,
): Promise<OwnPlan> {
  const source = await readSource(session, model, state);
  for (let next = source.isProven ? mode : 'full'; ; next = 'full') {
    const scope = next === 'full' ? null : scopeOf(model, source.changed, source.owned, source.related);
    const round = await compare(session, source, scope, options);
    if (round === 'out-of-scope') continue;
    const assessed = await assess(session, source, round, options);
    return assemble(source, round, assessed, options);
  }
}

/** As if everything were svc's. */
type OwnPlan = Omit<MigrationPlan, 'foreign'>;

/** The model, and what the database and the migration state say about it. */
type Source = {
  readonly model: SchemaModel;
  readonly state: AppliedState | null;
  readonly objects: ManagedObjects;
  readonly owned: Ownership;
  readonly schemas: readonly string[];
  readonly searchPath: string;
  readonly serverVersion: number;
  readonly catalogFingerprint: string;
  readonly resolve: TypeResolver;
  readonly related: RelatedDeclarations;
  readonly inRings: ReadonlySet<string>;
  readonly hashes: Hashes;
  /** Declarations whose normal forms are known. */
  readonly recorded: ReadonlyMap<string, DeclaredRow>;
  /** Keys of those that are not. */
  readonly changed: ReadonlySet<string>;
  /** The catalog is as the last verified run left it. */
  readonly isProven: boolean;
  readonly extensions: ExtensionFacts;
};

async function readSource(
  session: Queryable,
  model: SchemaModel,
  state: AppliedState | null,
): Promise<Source> {
  const objects = await readObjects(session);
  const owned = objects.ownership;
  const schemas = await readManagedSchemas(session, digestModel(model));
  const { searchPath, serverVersion } = await readServer(session);
  const catalogFingerprint = await readCatalogFingerprint(session, digestModel(model));
  const resolve = typeResolver(model, await readOutsideTypes(session, model));
  const inRings = tablesInRings(model, await readStrangers(session, model, schemas, owned));
  const hashes = hashDeclarations(model, resolve, inRings);
  const isUsable = state !== null && readsAlike(state, serverVersion);
  const recorded = isUsable ? objects.declared : NOTHING_RECORDED;
  const changed = changedKeys(model, hashes, recorded);
  refuse(textFaults(model, changed));
  refuse(unknownHosts(model));
  refuse(await missingRoles(session, model));
  refuse(beyondServer(model, serverVersion));
  const extensions = await readExtensionFacts(session, model);
  refuse(extensions.problems);
  return {
    model,
    state,
    objects,
    owned,
    schemas,
    extensions,
    searchPath: extensions.declared.some(({ schema }) => schema === EXTENSIONS_SCHEMA)
      ? WITH_EXTENSIONS
      : searchPath,
    serverVersion,
    catalogFingerprint,
    resolve,
    related: new RelatedDeclarations(model),
    inRings,
    hashes,
    recorded,
    changed,
    isProven: isUsable && state.complete && state.catalogFingerprint === catalogFingerprint,
  };
}

const NOTHING_RECORDED: ReadonlyMap<string, DeclaredRow> = new Map();

type Comparison = {
  readonly scope: Scope | null;
  readonly renames: Renames;
  readonly desired: Desired;
  readonly difference: Difference;
  /** Of the difference, and of what is retired and in their way. */
  readonly changes: readonly Change[];
  readonly holding: Dependants['holding'];
};

/** `out-of-scope`: an incremental comparison met a rename or a dependant that it cannot judge within its scope. */
async function compare(
  session: Queryable,
  source: Source,
  scope: Scope | null,
  options: PlanOptions,
): Promise<Comparison | 'out-of-scope'> {
  const { model, schemas, resolve, hashes } = source;
  const before = await readLive(session, schemas, scope);
  const renames = await planRenames(session, model, before, source.owned, schemas, options);
  const isRenaming = renames.steps.length > 0;
  if (scope !== null && isRenaming) return 'out-of-scope';
  const { live, owned } = renames;
  const declared = {
    ...toDesired(model, resolve, source.inRings, scope),
    extensions: source.extensions.declared,
  };
  refuse(missingTypes(declared));
  // Normal forms name tables and columns, so none of those that are recorded survives a rename.
  const recorded = isRenaming ? NOTHING_RECORDED : source.recorded;
  const changed = isRenaming ? changedKeys(model, hashes, recorded) : source.changed;
  const normalised = await normalise(
    session,
    declared,
    schemas,
    recorded,
    changed,
    source.related,
    live.tables,
  );
  refuse(await incompatibleReferences(session, normalised, resolve, source.searchPath));
  refuse(fixedTypes(normalised, live.types));
  const desired = await adoptStableForms(session, normalised, live, schemas);

  const first = diff(desired, live, owned);
  refuse(renamedByHand(first.changes, live, owned));
  const renamed = <T>(read: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, read);
  const { rebuild, tables, holding } = await renamed(() => findDependants(session, first.changes));
  if (scope !== null && [...tables].some((table) => !scope.has(table))) return 'out-of-scope';
  const difference = rebuild.size > 0 ? diff(desired, live, owned, rebuild) : first;
  const retired = await renamed(() => retiredInTheWay(session, desired, difference.changes, owned));
  const changes = [...difference.changes, ...retired];
  return { scope, renames, desired, difference, changes, holding };
}

type Assessment = {
  readonly online: OnlineTypeChanges;
  readonly fillings: LongFillings;
  readonly facts: TableFacts;
  /** Rows and values that removals would drop, by identity. */
  readonly removed: ReadonlyMap<string, number>;
  readonly problems: readonly MigrationProblem[];
  readonly notes: readonly string[];
  readonly hints: readonly MigrationProblem[];
  /** What is not ours and depends on what changes. */
  readonly inTheWay: readonly MigrationProblem[];
};

/** Asks the server what the changes would do, and the rows whether they allow them. */
async function assess(
  session: Queryable,
  { model, searchPath, serverVersion, recorded, extensions }: Source,
  { renames, desired, changes, holding }: Comparison,
  options: PlanOptions,
): Promise<Assessment> {
  const { live, owned } = renames;
  const renamed = <T>(read: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, read);
  const prelude = preludeOf(renames.steps, extensions.missing);
  const tried = await dryRun(session, changes, searchPath, renames.steps, extensions.missing);
  const begunBackfills = findBegunBackfills(desired, owned);
  const mayQuiet = await readMayQuiet(session);
  const fillings = longFillings(changes, desired, live, options);
  const swapped = swappedViews(fillings, changes, desired);
  const online = await renamed(() =>
    chooseOnline(session, changes, live.tables, tried.rewriting, options, mayQuiet, swapped),
  );
  const views = await checkViews(
    session,
    model,
    { desired, live, owned, recorded, changes, fillings, swapped },
    options,
  );
  const rowFacts = await readRowFacts(session, changes, prelude);
  const drops = options.drop === 'drop';
  const removed = drops ? await renamed(() => countRemoved(session, changes)) : new Map<string, number>();
  const rows = await checkRows(session, changes, searchPath, prelude, new Set(begunBackfills.keys()));
  const isOnline = (column: string): boolean => online.columns.has(column) || online.inTheWay.has(column);
  const accepted = new Map(
    [...rows.losses].filter(([, column]) => options.allow.includes(`data_loss=${column}`)),
  );
  return {
    online,
    fillings,
    facts: {
      ...rowFacts,
      rewriting: tried.rewriting,
      begunBackfills,
      mayQuiet,
      drops,
      searchPath,
      serverVersion,
      losing: new Set(accepted.values()),
    },
    removed,
    hints: views.hints,
    problems: [
      ...refusePublished(desired, live),
      ...refusePartitioning(desired, live, owned),
      ...tried.problems,
      ...views.problems,
      ...rows.problems.filter((one) => !accepted.has(one)),
    ],
    notes: [
      ...extensions.notes,
      ...renames.notes,
      ...rows.notes,
      ...(await noteUsersWithoutRow(session, changes)),
      ...notePublished(changes),
    ],
    inTheWay: [
      ...(await renamed(() => foreignDependants(session, changes, isOnline))),
      ...(await checkDomains(session, changes, live, { searchPath, renames: renames.steps })),
      ...strangersInTheWay(holding, changes),
      ...(await renamed(() => strangersOfReplacedTypes(session, desired, live.types, owned))),
    ],
  };
}

function assemble(
  source: Source,
  { scope, renames, desired, difference, changes }: Comparison,
  { online, fillings, facts, removed, problems, hints, notes, inTheWay }: Assessment,
  options: PlanOptions,
): OwnPlan {
  const { model, state, objects, hashes } = source;
  const { owned } = renames;
  const steps = [...renames.steps, ...planSteps(changes, facts, online, options, fillings)];
  const refused = [
    ...problems,
    ...refuseHazards(
      steps,
      changes,
      online.inTheWay,
      { removed, serverVersion: source.serverVersion },
      options,
    ),
    ...inTheWay,
  ];
  return {
    schemaHash: hashModel(model),
    parentHash: state?.schemaHash ?? null,
    serverVersion: source.serverVersion,
    catalogFingerprint: source.catalogFingerprint,
    steps,
    problems: hintAtRetired(owned, changes, refused),
    hints: [...renameHints(changes), ...hints],
    notes,
    unmanaged: difference.unmanaged,
    desired,
    scope,
    schemas: source.schemas,
    searchPath: source.searchPath,
    ...stateAfter({
      model,
      desired,
      hashes,
      difference,
      objects,
      owned,
      renamedAway: renames.forgotten,
      backfills: backfillsOf(steps),
      isLong: steps.some((step) => isAfterMetadata(step.lane)),
      drops: facts.drops,
    }),
  };
}

const WITH_EXTENSIONS = `public, ${EXTENSIONS_SCHEMA}`;

function refuse(problems: readonly MigrationProblem[]): void {
  if (problems.length > 0) throw new MigrationRefused(problems);
}

/** A declaration that has the name of something retired gets that back with its data; a hint says so. */
function hintAtRetired(
  owned: Ownership,
  changes: readonly Change[],
  problems: readonly MigrationProblem[],
): MigrationProblem[] {
  const back = new Set<string>();
  for (const change of changes) {
    if (!('table' in change) || !('column' in change)) continue;
    const key = keyOf(change.table);
    if (owned.retiredTables.has(key) || owned.retiredColumns.has(`${key}.${change.column.name}`))
      back.add(change.column.at);
  }
  return problems.map((one) => {
    const column = one.at.replace(/\.\w+$/, '');
    if (!back.has(column) && !back.has(one.at)) return one;
    const hint = `An earlier file had this name and its data was kept: svc migrate prune ${column} drops it.`;
    return { ...one, hint: one.hint === null ? hint : `${one.hint} ${hint}` };
  });
}

async function readServer(session: Queryable): Promise<{ searchPath: string; serverVersion: number }> {
  const [row] = await session.query<{ extensions: boolean; version: number }>(
    raw(
      `select to_regnamespace('extensions') is not null as extensions, current_setting('server_version_num')::int as version`,
    ),
  );
  return {
    searchPath: row?.extensions ? WITH_EXTENSIONS : 'public',
    serverVersion: row?.version ?? 0,
  };
}

/** Whether what was recorded under `state` is what this engine and this server would read. */
function readsAlike(state: AppliedState, serverVersion: number): boolean {
  return (
    state.engineVersion === ENGINE_VERSION &&
    Math.floor(state.serverVersion / 10_000) === Math.floor(serverVersion / 10_000)
  );
}
