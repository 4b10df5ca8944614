// Makes a verified plan from a model: read, normalise, compare, run the statements in a rolled-back transaction, check
// the rows. Changes nothing in the database.
import type { Queryable } from '../postgres/owner-database.ts';
import { raw } from '../postgres/sql.ts';
import { changedKeys, hashDeclarations, type Hashes, normalise } from './normalise/normalise.ts';
import type { Change } from './diff/change.ts';
import {
  type Dependants,
  findDependants,
  foreignDependants,
  blockingRetiredObjects,
  blockingUnmanagedObjects,
} from './plan/dependants.ts';
import { type TypeResolver, typeResolver } from './schema/column-types.ts';
import type { Desired } from './schema/desired.ts';
import { toDesired } from './schema/to-desired.ts';
import { diff, type Difference } from './diff/diff.ts';
import type { Unmanaged } from './diff/table-diff.ts';
import { collectBackfills, findStartedBackfills, createPrelude } from './checks/table-facts.ts';
import { checkHazards } from './checks/hazards.ts';
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
import { noteOrigins } from './state/origins.ts';
import { readLive } from './schema/live/read-live.ts';
import { renameHints, findManualRenames } from './diff/rename-hints.ts';
import { EXTENSIONS_SCHEMA } from './schema/sql/extension-sql.ts';
import { objectKey, type SchemaModel } from './schema/model.ts';
import { RelatedDeclarations } from './normalise/related.ts';
import { chooseOnline, type OnlineTypeChanges, readMayQuiet } from './plan/types/online-type-change.ts';
import { newObjectStatements } from './checks/dry-run/new-objects.ts';
import { dryRun } from './checks/dry-run/dry-run.ts';
import type { Ownership } from './schema/managed.ts';
import { planSteps } from './plan/plan.ts';
import { type LongFillings, longFillings, swappedViews } from './plan/materialized.ts';
import { readTablesWithUnmanagedPolicies, tablesInCycles } from './schema/rights/policy-cycles.ts';
import { findingsWithoutRows, readRowFindings, type RowFindings } from './checks/rows/row-findings.ts';
import { withholdValues } from './checks/rows/withheld-values.ts';
import { computedBounds, withStubs } from './checks/rows/without-evaluation.ts';
import { unmanagedUsersOfReplacedTypes } from './plan/types/type-dependants.ts';
import { type MigrationProblem, MigrationRefused } from './problem.ts';
import { planRenames, type Renames, underNewNames } from './plan/rename.ts';
import { incompatibleReferences, missingTypes, readOutsideTypes } from './checks/reference-types.ts';
import { adoptStableForms } from './normalise/stable-form.ts';
import { type Scope, determineScope } from './normalise/scope.ts';
import type { LockSettings } from './locks.ts';
import type { PlanSettings, TableFacts } from './plan/step-list.ts';
import { isAfterMetadata, type Step } from './plan/step.ts';
import { type ExtensionFacts, readExtensionFacts } from './checks/extensions.ts';
import { missingHosts } from './checks/statement-hosts.ts';
import { missingRoles } from './checks/policy-roles.ts';
import { unalterableTypes } from './checks/type-definitions.ts';
import { unsupportedFeatures } from './checks/server-version.ts';
import {
  type ForeignObject,
  ownershipProblems,
  type OwnershipTransfer,
  readForeignObjects,
} from './checks/ownership.ts';
import { checkExpressionTexts } from './checks/expression-texts.ts';
import { checkPartitioning } from './checks/partitions.ts';
import { noteFullRows, checkPublishedTables } from './checks/publication.ts';
import { checkViews } from './checks/view-checks.ts';

export type PlanOptions = PlanSettings &
  HazardPolicy &
  LockSettings & {
    /** If `none`, no check reads rows, and the text of errors that can contain values is withheld. Default: `all`. */
    readonly rows?: 'all' | 'none' | undefined;
  };

/**
 * `full` compares all declarations. `incremental` compares only changed declarations and their dependants, if the
 * catalog is unchanged since the last verified run.
 */
export type PlanMode = 'incremental' | 'full';

export type MigrationPlan = StateAfter & {
  readonly schemaHash: string;
  readonly parentHash: string | null;
  readonly serverVersion: number;
  /** Fingerprint of the catalog for which the plan was made. */
  readonly catalogFingerprint: string;
  /** Declared objects of other roles. svc must own them before the steps can run. */
  readonly foreign: readonly ForeignObject[];
  readonly steps: readonly Step[];
  readonly problems: readonly MigrationProblem[];
  readonly hints: readonly MigrationProblem[];
  readonly notes: readonly string[];
  readonly unmanaged: readonly Unmanaged[];
  /** Declarations in scope. */
  readonly desired: Desired;
  /** Null after a full comparison. */
  readonly scope: Scope | null;
  readonly schemas: readonly string[];
  readonly searchPath: string;
};

/**
 * Plans a migration to the model. Throws MigrationRefused for mistakes that prevent planning; other reasons to reject
 * the run are in `problems`. If objects belong to another role, or only another role can install an extension, the
 * plan is made over the connection of `ownership`, as if svc already owned these objects.
 */
export async function makePlan(
  session: Queryable,
  model: SchemaModel,
  state: AppliedState | null,
  options: PlanOptions,
  mode: PlanMode = 'full',
  ownership?: OwnershipTransfer,
): Promise<MigrationPlan> {
  const { restricted: extensions } = await readExtensionFacts(session, model);
  const foreign = [...extensions, ...(await readForeignObjects(session, model))];
  if (foreign.length === 0) return { ...(await planOwn(session, model, state, options, mode)), foreign };
  const barred = ownership ? await ownership.findUntransferable(foreign) : foreign;
  if (!ownership || barred.length > 0) throw new MigrationRefused(ownershipProblems(barred));
  return ownership.session(async (administrator) => {
    const plan = await planOwn(administrator, model, state, options, 'full');
    const installed = new Set(extensions.map(({ at }) => at));
    return { ...plan, steps: plan.steps.filter(({ identity }) => !installed.has(identity)), foreign };
  });
}

async function planOwn(
  opened: Queryable,
  model: SchemaModel,
  state: AppliedState | null,
  options: PlanOptions,
  mode: PlanMode,
): Promise<OwnPlan> {
  const session = options.rows === 'none' ? withholdValues(opened) : opened;
  const source = await readSource(session, model, state);
  for (let next = source.isProven ? mode : 'full'; ; next = 'full') {
    const scope =
      next === 'full' ? null : determineScope(model, source.changed, source.owned, source.related);
    const round = await compare(session, source, scope, options);
    if (round === 'out-of-scope') continue;
    const assessed = await assess(session, source, round, options);
    return assemble(source, round, assessed, options);
  }
}

/** A plan that assumes that svc owns all declared objects. */
type OwnPlan = Omit<MigrationPlan, 'foreign'>;

/** The model, with the facts about it from the database and the migration state. */
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
  readonly inCycles: ReadonlySet<string>;
  readonly hashes: Hashes;
  /** Declarations with a recorded normal form. */
  readonly recorded: ReadonlyMap<string, DeclaredRow>;
  /** Keys of declarations without a valid recorded normal form. */
  readonly changed: ReadonlySet<string>;
  /** True if the catalog is unchanged since the last verified run. */
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
  const inCycles = tablesInCycles(
    model,
    await readTablesWithUnmanagedPolicies(session, model, schemas, owned),
  );
  const hashes = hashDeclarations(model, resolve, inCycles);
  const isUsable = state !== null && readsAlike(state, serverVersion);
  const recorded = isUsable ? objects.declared : NOTHING_RECORDED;
  const changed = changedKeys(model, hashes, recorded);
  refuse(checkExpressionTexts(model, changed));
  refuse(missingHosts(model));
  refuse(await missingRoles(session, model));
  refuse(unsupportedFeatures(model, serverVersion));
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
    inCycles,
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
  /** Changes of the difference, and changes to retired objects that block them. */
  readonly changes: readonly Change[];
  readonly holding: Dependants['holding'];
};

/** Returns `out-of-scope` if an incremental comparison found a rename or a dependant outside its scope. */
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
  const written = toDesired(model, resolve, source.inCycles, scope);
  const readsRows = options.rows !== 'none';
  const declared = {
    ...written,
    functions: readsRows ? written.functions : withStubs(written.functions),
    extensions: source.extensions.declared,
  };
  refuse(missingTypes(declared));
  // Normal forms contain names of tables and columns, so a rename invalidates all recorded normal forms.
  const recorded = isRenaming ? NOTHING_RECORDED : source.recorded;
  const changed = isRenaming ? changedKeys(model, hashes, recorded) : source.changed;
  if (!readsRows) refuse(computedBounds(declared.tables, (table) => changed.has(objectKey(table))));
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
  refuse(unalterableTypes(normalised, live.types));
  const desired = await adoptStableForms(session, normalised, live, schemas);

  const first = diff(desired, live, owned);
  refuse(findManualRenames(first.changes, live, owned));
  const renamed = <T>(read: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, read);
  const { rebuild, tables, holding } = await renamed(() => findDependants(session, first.changes));
  if (scope !== null && [...tables].some((table) => !scope.has(table))) return 'out-of-scope';
  const difference = rebuild.size > 0 ? diff(desired, live, owned, rebuild) : first;
  const retired = await renamed(() => blockingRetiredObjects(session, desired, difference.changes, owned));
  const changes = [...difference.changes, ...retired];
  return { scope, renames, desired, difference, changes, holding };
}

type Assessment = {
  readonly online: OnlineTypeChanges;
  readonly fillings: LongFillings;
  readonly facts: TableFacts;
  readonly removed: RowFindings['removed'];
  readonly problems: readonly MigrationProblem[];
  readonly notes: readonly string[];
  readonly hints: readonly MigrationProblem[];
  /** Problems of undeclared objects that depend on changed objects. */
  readonly inTheWay: readonly MigrationProblem[];
};

/** Checks the effects of the changes on the server, and whether the existing rows allow them. */
async function assess(
  session: Queryable,
  { model, searchPath, serverVersion, recorded, extensions }: Source,
  { renames, desired, changes, holding }: Comparison,
  options: PlanOptions,
): Promise<Assessment> {
  const { live, owned } = renames;
  const renamed = <T>(read: () => Promise<T>): Promise<T> =>
    underNewNames(session, renames.steps, options, read);
  const newObjects = newObjectStatements(changes, searchPath);
  const prelude = createPrelude(renames.steps, extensions.missing, newObjects);
  const tried = await dryRun(session, changes, searchPath, {
    renames: renames.steps,
    extensions: extensions.missing,
    newObjects,
    evaluates: options.rows !== 'none',
  });
  const begunBackfills = findStartedBackfills(desired, owned);
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
  const drops = options.drop === 'drop';
  const filled = new Set(begunBackfills.keys());
  const reading = {
    live,
    searchPath,
    prelude,
    renames: renames.steps,
    filled,
    drops,
    underNewNames: renamed,
  };
  const found =
    options.rows === 'none'
      ? findingsWithoutRows(changes, drops)
      : await readRowFindings(session, changes, reading);
  const { checks: rows, removed } = found;
  const isOnline = (column: string): boolean => online.columns.has(column) || online.inTheWay.has(column);
  const accepted = new Map(
    [...rows.losses].filter(([, column]) => options.allow.includes(`data_loss=${column}`)),
  );
  return {
    online,
    fillings,
    facts: {
      ...found.facts,
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
      ...checkPublishedTables(desired, live),
      ...checkPartitioning(desired, live, owned),
      ...tried.problems,
      ...views.problems,
      ...rows.problems.filter((problem) => !accepted.has(problem)),
    ],
    notes: [
      ...extensions.notes,
      ...renames.notes,
      ...rows.notes,
      ...noteFullRows(changes),
      ...(await noteOrigins(session, changes)),
    ],
    inTheWay: [
      ...(await renamed(() => foreignDependants(session, changes, isOnline))),
      ...found.domains,
      ...blockingUnmanagedObjects(holding, changes),
      ...(await renamed(() => unmanagedUsersOfReplacedTypes(session, desired, live.types, owned))),
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
    ...checkHazards(
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
      backfills: collectBackfills(steps),
      isLong: steps.some((step) => isAfterMetadata(step.lane)),
      drops: facts.drops,
    }),
  };
}

const WITH_EXTENSIONS = `public, ${EXTENSIONS_SCHEMA}`;

function refuse(problems: readonly MigrationProblem[]): void {
  if (problems.length > 0) throw new MigrationRefused(problems);
}

/** Adds a hint to problems of declarations that restore a retired table or column with its data. */
function hintAtRetired(
  owned: Ownership,
  changes: readonly Change[],
  problems: readonly MigrationProblem[],
): MigrationProblem[] {
  const back = new Set<string>();
  for (const change of changes) {
    if (!('table' in change) || !('column' in change)) continue;
    const key = objectKey(change.table);
    if (owned.retiredTables.has(key) || owned.retiredColumns.has(`${key}.${change.column.name}`))
      back.add(change.column.at);
  }
  return problems.map((refusal) => {
    const column = refusal.at.replace(/\.\w+$/, '');
    if (!back.has(column) && !back.has(refusal.at)) return refusal;
    const hint = `An earlier file declared this name, and its data was kept: svc migrate prune ${column} drops it.`;
    return { ...refusal, hint: refusal.hint === null ? hint : `${refusal.hint} ${hint}` };
  });
}

async function readServer(session: Queryable): Promise<{ searchPath: string; serverVersion: number }> {
  const [row] = await session.query<{ extensions: boolean; version: number }>(
    raw(
      `select to_regnamespace('extensions') is not null as extensions,
         current_setting('server_version_num')::int as version`,
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
