// What `svc_meta.object` must hold once a plan has run: what is owned, the declarations with their normal forms, and
// what was retired. Pure.
import type { Hashes } from './normalise/normalise.ts';
import type { Change } from './diff/change.ts';
import type { Desired, DesiredFunction, DesiredTable } from './schema/desired.ts';
import type { Signature } from './schema/relation.ts';
import type { ViewForm } from './schema/views.ts';
import type { Difference } from './diff/diff.ts';
import { type ManagedObjects, type ObjectWrite, USER_TRIGGERS } from './state/managed-objects.ts';
import {
  isHostedNormalForms,
  isSignature,
  isNormalForms,
  isTypeForm,
  isViewForm,
  normalFormsOf,
  policyNormalForms,
  sameNormalForms,
  sameTypeForm,
  triggerNormalForms,
} from './normalise/normal-forms.ts';
import { mayStay } from './diff/objects/statements.ts';
import { isStatementForm, sameForm as sameStatement, statementKey } from './schema/statements.ts';
import { functionKey, keyOf, type SchemaModel, viewsOf } from './schema/model.ts';
import { type Host, HOSTED_OBJECTS, HOSTS, perHost, type PerHost } from './schema/rights/hosts.ts';
import {
  NO_OWNED_TABLE,
  type OwnedFunction,
  type OwnedTable,
  type Ownership,
  viewTriggerKey,
} from './schema/managed.ts';

export type StateAfter = {
  readonly writes: readonly ObjectWrite[];
  /** Identities of rows to delete with the transaction. */
  readonly forgotten: readonly string[];
  /** The same, once the long steps have removed what they are about. */
  readonly forgottenLater: readonly string[];
  /** Ownership once the plan has run. */
  readonly owned: Ownership;
};

export type StateChange = {
  readonly model: SchemaModel;
  /** Declarations in scope. */
  readonly desired: Desired;
  readonly hashes: Hashes;
  readonly difference: Difference;
  /** What is recorded now. */
  readonly objects: ManagedObjects;
  /** Ownership once the declared renames are done. */
  readonly owned: Ownership;
  /** Identities that the renames made obsolete. */
  readonly renamedAway: readonly string[];
  /** Backfills that go on after the transaction: values by column, by table. */
  readonly backfills: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Steps follow the transaction; what they are to remove stays owned until they are done. */
  readonly isLong: boolean;
  /** Removed tables and columns are dropped, not retired. */
  readonly drops: boolean;
};

export function stateAfter(run: StateChange): StateAfter {
  const { difference, objects, owned, isLong } = run;
  const leaving = leavingOf(isLong ? difference.changes : []);
  const tables = tablesAfter(run);
  const retired = retiredAfter(run);
  const declaredFunctions = new Map(
    run.desired.functions.map((fn) => [functionKey(fn.model), ownedFunction(fn)]),
  );
  const writes = [
    ...typeWrites(run),
    ...tableWrites(run, leaving),
    ...retired.writes,
    ...functionWrites(run),
    ...viewWrites(run),
    ...HOSTS.flatMap((host) => hostedWrites(host, run, leaving)),
    ...userTriggerWrites(run, leaving),
    ...extensionWrites(run),
    ...sequenceWrites(run),
    ...statementWrites(run),
  ];
  const statements = statementsAfter(run);
  const declaredViews = new Set(viewsOf(run.model).map(keyOf));
  const removed = [
    ...[...owned.functions.keys()]
      .filter((key) => !declaredFunctions.has(key))
      .map((key) => `function ${key}`),
    ...[...owned.views].filter((key) => !declaredViews.has(key)).map((key) => `view ${key}`),
    ...removedStatements(run),
  ];
  const forgotten = new Set([
    ...run.renamedAway,
    ...retired.forgotten,
    // Owned, but neither declared nor in the database any more. What this run retires is written.
    ...[...owned.tables.keys()].filter((key) => !tables.has(key)).map((key) => `table ${key}`),
    ...droppedTypes(run).map((key) => `type ${key}`),
    ...(isLong ? [] : removed),
  ]);
  for (const write of writes) forgotten.delete(write.identity);
  return {
    writes,
    forgotten: [...forgotten],
    forgottenLater: isLong ? removed : [],
    owned: {
      ...objects.ownership,
      types: new Set(run.desired.types.map(keyOf)),
      retiredTypes: retiredTypesAfter(run),
      tables,
      retiredTables: retired.tables,
      retiredColumns: retired.columns,
      functions: declaredFunctions,
      views: declaredViews,
      hosted: perHost((host) => new Set([...difference.hostedClaims[host]].sort())),
      viewTriggers: new Set(
        run.desired.views.flatMap((view) =>
          view.triggers.map(({ label }) => viewTriggerKey(keyOf(view), label)),
        ),
      ),
      userTriggers: new Set(difference.userClaims),
      extensions: new Set(run.desired.extensions.map(({ name }) => name)),
      sequences: new Set(run.desired.sequences.map(keyOf)),
      statements,
    },
  };
}

type Leaving = {
  readonly tables: ReadonlyMap<string, Labels>;
  readonly hosted: PerHost<readonly string[]>;
  readonly users: readonly string[];
};
type Labels = {
  readonly constraints: string[];
  readonly indexes: string[];
  readonly policies: string[];
  readonly triggers: string[];
};

/** Labels of what the run removes: should it be interrupted, the next one must know that these are the file's. */
function leavingOf(changes: readonly Change[]): Leaving {
  const tables = new Map<string, Labels>();
  const hosted = perHost((): string[] => []);
  const users: string[] = [];
  const of = (table: DesiredTable): Labels => {
    const found = tables.get(keyOf(table)) ?? { constraints: [], indexes: [], policies: [], triggers: [] };
    tables.set(keyOf(table), found);
    return found;
  };
  for (const change of changes) {
    if (change.kind === 'drop-key') of(change.table).constraints.push(change.key.label);
    if (change.kind === 'drop-check') of(change.table).constraints.push(change.check.label);
    if (change.kind === 'add-check' && change.replaces)
      of(change.table).constraints.push(change.replaces.label);
    if (change.kind === 'drop-exclusion') of(change.table).constraints.push(change.exclusion.label);
    if (change.kind === 'drop-foreign-key') of(change.table).constraints.push(change.foreignKey.label);
    if (change.kind === 'drop-index') of(change.table).indexes.push(change.index.label);
    if (change.kind === 'drop-policy') of(change.table).policies.push(change.policy.label);
    if (change.kind === 'drop-trigger') of(change.table).triggers.push(change.trigger.label);
    if (change.kind === 'drop-user-trigger') users.push(change.trigger.label);
    if (change.kind === 'drop-hosted-policy') hosted[change.host].push(change.policy.label);
  }
  return { tables, hosted, users };
}

/** Tables out of scope keep what they had. */
function tablesAfter({ model, desired, difference, owned }: StateChange): Map<string, OwnedTable> {
  const kept = model.tables.flatMap((table) => {
    const before = owned.tables.get(keyOf(table));
    return before ? [[keyOf(table), before] as const] : [];
  });
  const claimed = desired.tables.map(
    (table) => [keyOf(table), difference.claims.get(keyOf(table)) ?? NO_OWNED_TABLE] as const,
  );
  return new Map([...kept, ...claimed]);
}

function typeWrites({ desired, hashes, objects, owned, difference }: StateChange): ObjectWrite[] {
  const managed = desired.types.flatMap((type): ObjectWrite[] => {
    const key = keyOf(type);
    const hash = hashes.types.get(key) ?? null;
    const former = objects.declared.get(`type ${key}`);
    const isSame =
      former?.hash === hash &&
      owned.types.has(key) &&
      isTypeForm(former.normalForms) &&
      sameTypeForm(former.normalForms, type.normal);
    return isSame ? [] : [managedRow(`type ${key}`, 'type', hash, { canonical: type.normal })];
  });
  const retired = [...retiredTypesAfter({ desired, owned, difference })]
    .filter((key) => !objects.ownership.retiredTypes.has(key))
    .map((key) => retiredRow('type', key, {}));
  return [...managed, ...retired];
}

/** What was used when it left the file may be there still. */
function retiredTypesAfter({
  desired,
  owned,
  difference,
}: Pick<StateChange, 'desired' | 'owned' | 'difference'>): Set<string> {
  const kept = new Set(owned.retiredTypes);
  for (const type of desired.types) kept.delete(keyOf(type));
  for (const change of difference.changes)
    if (change.kind === 'drop-type') kept[change.live.used ? 'add' : 'delete'](keyOf(change.live));
  return kept;
}

/** Owned, but neither declared nor kept. */
function droppedTypes(run: StateChange): string[] {
  const kept = retiredTypesAfter(run);
  const declared = new Set(run.desired.types.map(keyOf));
  const { types, retiredTypes } = run.objects.ownership;
  return [...types, ...retiredTypes].filter((key) => !declared.has(key) && !kept.has(key));
}

function tableWrites(run: StateChange, leaving: Leaving): ObjectWrite[] {
  const { desired, hashes, difference, objects, owned, backfills } = run;
  return desired.tables.flatMap((table): ObjectWrite[] => {
    const key = keyOf(table);
    const claim = difference.claims.get(key) ?? NO_OWNED_TABLE;
    const hash = hashes.tables.get(key) ?? null;
    const former = objects.declared.get(`table ${key}`);
    const before = owned.tables.get(key);
    const filling = backfills.get(key);
    const gone = leaving.tables.get(key);
    const forms = normalFormsOf(table);
    const isSame =
      filling === undefined &&
      gone === undefined &&
      former?.hash === hash &&
      isNormalForms(former.normalForms) &&
      sameNormalForms(former.normalForms, forms) &&
      before !== undefined &&
      JSON.stringify(before) === JSON.stringify(claim);
    // A rename gives every table a new row.
    if (isSame && owned.tables === objects.ownership.tables) return [];
    const definition = {
      ...claim,
      canonical: forms,
      ...(filling ? { fills: filling } : {}),
      ...(gone ? { leaving: gone } : {}),
    };
    return [managedRow(`table ${key}`, 'table', hash, definition)];
  });
}

/** What comes back is no longer retired, what left the file is, and what is retired follows the renames. */
function retiredAfter({ desired, difference, objects, owned, drops }: StateChange): {
  readonly tables: Map<string, OwnedTable>;
  readonly columns: Set<string>;
  readonly writes: readonly ObjectWrite[];
  readonly forgotten: readonly string[];
} {
  const tables = new Map(owned.retiredTables);
  const columns = new Set(owned.retiredColumns);
  const writes: ObjectWrite[] = [];
  const forgotten: string[] = [];
  for (const table of desired.tables) {
    const key = keyOf(table);
    tables.delete(key);
    for (const column of difference.claims.get(key)?.columns ?? []) {
      if (columns.delete(`${key}.${column}`)) forgotten.push(`column ${key}.${column}`);
    }
  }
  for (const change of difference.changes) {
    if (change.kind !== 'add-partition' || change.back === null) continue;
    const key = keyOf(change.partition);
    if (tables.delete(key)) forgotten.push(`table ${key}`);
  }
  for (const change of drops ? [] : difference.changes) {
    if (change.kind === 'retire-table') {
      const key = keyOf(change.live);
      const kept = owned.tables.get(key) ?? NO_OWNED_TABLE;
      tables.set(key, kept);
      writes.push(retiredRow('table', key, kept));
    }
    if (change.kind === 'retire-partition') {
      const key = keyOf(change.partition);
      tables.set(key, NO_OWNED_TABLE);
      writes.push(retiredRow('table', key, {}));
    }
    if (change.kind === 'retire-column') {
      const key = `${keyOf(change.table)}.${change.liveColumn.name}`;
      columns.add(key);
      writes.push(retiredRow('column', key, change.liveColumn));
    }
  }
  for (const key of owned.retiredColumns) {
    if (!objects.ownership.retiredColumns.has(key)) writes.push(retiredRow('column', key, {}));
  }
  return { tables, columns, writes, forgotten };
}

function managedRow(
  identity: string,
  kind: ObjectWrite['kind'],
  declaredHash: string | null,
  definition: unknown,
): ObjectWrite {
  return { identity, kind, state: 'managed', declaredHash, definition };
}

function retiredRow(kind: 'type' | 'table' | 'column', key: string, definition: unknown): ObjectWrite {
  return { identity: `${kind} ${key}`, kind, state: 'retired', declaredHash: null, definition };
}

function ownedFunction({ schema, name, normal }: DesiredFunction): OwnedFunction {
  return { schema, name, argumentTypes: normal?.argumentTypes ?? null };
}

function functionWrites({ desired, hashes, objects }: StateChange): ObjectWrite[] {
  return desired.functions.flatMap((fn): ObjectWrite[] => {
    const key = functionKey(fn.model);
    const hash = hashes.functions.get(key) ?? null;
    const former = objects.declared.get(`function ${key}`);
    const isSame = former?.hash === hash && sameFunction(former.normalForms, fn.normal);
    if (isSame && objects.ownership.functions.has(key)) return [];
    const name = key === keyOf(fn) ? {} : { name: fn.name };
    return [managedRow(`function ${key}`, 'function', hash, { canonical: fn.normal, ...name })];
  });
}

function viewWrites({ desired, hashes, objects, difference, isLong }: StateChange): ObjectWrite[] {
  return desired.views.flatMap((view): ObjectWrite[] => {
    const key = keyOf(view);
    const hash = hashes.views.get(key) ?? null;
    const former = objects.declared.get(`view ${key}`);
    const isSame = former?.hash === hash && sameForm(former.normalForms, view.normal);
    const leaving = difference.changes.flatMap((change) =>
      isLong && change.kind === 'drop-view-trigger' && change.next === null && keyOf(change.live) === key
        ? [change.trigger.label]
        : [],
    );
    if (isSame && leaving.length === 0 && objects.ownership.views.has(key)) return [];
    const triggers = view.triggers.map(({ label }) => label);
    return [
      managedRow(`view ${key}`, 'view', hash, {
        canonical: view.normal,
        ...(triggers.length === 0 ? {} : { triggers }),
        ...(leaving.length === 0 ? {} : { leaving }),
      }),
    ];
  });
}

function sameForm(former: unknown, now: ViewForm | null): boolean {
  if (now === null || !isViewForm(former)) return false;
  // jsonb keeps its keys in an order of its own.
  const parts = ({ definition, columns, reads, indexes, triggers }: ViewForm): string =>
    JSON.stringify([
      definition,
      indexes,
      triggers,
      columns.map(({ name, type, collation }) => [name, type, collation]),
      reads,
    ]);
  return parts(former) === parts(now);
}

// The normal form of an unchanged declaration changes when a function that its defaults call takes other arguments.
function sameFunction(former: unknown, now: Signature | null): boolean {
  if (now === null || !isSignature(former)) return false;
  const parts = (one: Signature): string =>
    JSON.stringify([
      one.arguments,
      one.argumentTypes,
      one.argumentNames,
      one.defaults,
      one.result,
      one.outputs ?? [],
      one.settings,
      one.atomicBody,
    ]);
  return parts(former) === parts(now);
}

function userTriggerWrites(
  { desired, hashes, objects, owned, difference }: StateChange,
  leaving: Leaving,
): ObjectWrite[] {
  const canonical = triggerNormalForms(desired.userTriggers);
  const former = objects.declared.get(USER_TRIGGERS);
  const labels = [...difference.userClaims].sort();
  const isSame =
    hashes.users === (former?.hash ?? null) &&
    (former === undefined || JSON.stringify(former.normalForms) === JSON.stringify(canonical)) &&
    labels.join() === [...owned.userTriggers].sort().join();
  if (isSame && leaving.users.length === 0) return [];
  const definition = { labels, canonical, ...(leaving.users.length > 0 ? { leaving: leaving.users } : {}) };
  return [managedRow(USER_TRIGGERS, 'user_triggers', hashes.users, definition)];
}

/** One that left the file stays installed, as something retired. */
function extensionWrites({ desired, owned }: StateChange): ObjectWrite[] {
  const declared = new Set(desired.extensions.map(({ name }) => name));
  const row = (name: string, state: ObjectWrite['state']): ObjectWrite => {
    return { identity: `extension ${name}`, kind: 'extension', state, declaredHash: null, definition: {} };
  };
  return [
    ...[...declared].filter((name) => !owned.extensions.has(name)).map((name) => row(name, 'managed')),
    ...[...owned.extensions].filter((name) => !declared.has(name)).map((name) => row(name, 'retired')),
  ];
}

/** One that left the file stays, as something retired. */
function sequenceWrites({ desired, objects, owned }: StateChange): ObjectWrite[] {
  const declared = new Set(desired.sequences.map(keyOf));
  const row = (key: string, state: ObjectWrite['state']): ObjectWrite => {
    return { identity: `sequence ${key}`, kind: 'sequence', state, declaredHash: null, definition: {} };
  };
  return [
    ...[...declared].filter((key) => !objects.ownership.sequences.has(key)).map((key) => row(key, 'managed')),
    ...[...owned.sequences].filter((key) => !declared.has(key)).map((key) => row(key, 'retired')),
  ];
}

/** Those that are there, and those that something kept may go on using. */
function statementsAfter({ desired, owned, difference }: StateChange): Map<string, 'managed' | 'retired'> {
  const managed = desired.statements.flatMap(({ normal }) =>
    normal === null ? [] : [[normal.identity, 'managed'] as const],
  );
  const dropped = new Map(
    difference.changes.flatMap((change) =>
      change.kind === 'drop-statement' ? [[change.live.identity, change.live] as const] : [],
    ),
  );
  const retired = [...owned.statements].flatMap(([identity, state]) => {
    const live = dropped.get(identity);
    const stays = live === undefined ? state === 'retired' : live.used && mayStay(live);
    return stays ? [[identity, 'retired'] as const] : [];
  });
  return new Map([...retired, ...managed]);
}

/** What is retired has the name that it has in the database: nothing in the file is called so. */
function statementWrites(run: StateChange): ObjectWrite[] {
  const { desired, hashes, objects } = run;
  const managed = desired.statements.flatMap((statement): ObjectWrite[] => {
    const { normal, model, schema } = statement;
    const key = statementKey(model);
    const hash = hashes.statements.get(key) ?? null;
    const former = objects.declared.get(key);
    const isSame =
      normal !== null &&
      former?.hash === hash &&
      isStatementForm(former.normalForms) &&
      sameStatement(former.normalForms, normal);
    return isSame ? [] : [managedRow(key, 'statement', hash, { canonical: normal, schema })];
  });
  const retired = run.difference.changes.flatMap((change): ObjectWrite[] => {
    if (change.kind !== 'drop-statement' || !mayStay(change.live) || !change.live.used) return [];
    const { identity, definition, schema } = change.live;
    return [
      {
        identity: `statement retired ${identity}`,
        kind: 'statement',
        state: 'retired',
        declaredHash: null,
        definition: { canonical: { identity, definition }, schema },
      },
    ];
  });
  return [...managed, ...retired];
}

/** Rows of what no file has any more. */
function removedStatements(run: StateChange): string[] {
  const declared = new Set(run.desired.statements.map(({ model }) => statementKey(model)));
  const after = statementsAfter(run);
  const named = [...run.objects.declared.keys()].filter(
    (key) => key.startsWith('statement ') && !declared.has(key),
  );
  const retired = [...run.owned.statements]
    .filter(([identity, state]) => state === 'retired' && after.get(identity) !== 'retired')
    .map(([identity]) => `statement retired ${identity}`);
  return [...named, ...retired];
}

function hostedWrites(
  host: Host,
  { desired, hashes, objects, owned, difference }: StateChange,
  { hosted }: Leaving,
): ObjectWrite[] {
  const { identity, kind } = HOSTED_OBJECTS[host];
  const labels = [...difference.hostedClaims[host]].sort();
  const leaving = hosted[host];
  const policies = policyNormalForms(desired.hosted[host]);
  const former = objects.declared.get(identity);
  const isSame =
    hashes.hosted[host] === (former?.hash ?? null) &&
    (former === undefined ||
      (isHostedNormalForms(former.normalForms) &&
        JSON.stringify(former.normalForms.policies) === JSON.stringify(policies)));
  const sameLabels = labels.join() === [...owned.hosted[host]].sort().join();
  if (isSame && leaving.length === 0 && sameLabels) return [];
  const definition = {
    labels,
    canonical: { policies },
    ...(leaving.length > 0 ? { leaving } : {}),
  };
  return [managedRow(identity, kind, hashes.hosted[host], definition)];
}
