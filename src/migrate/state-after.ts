// Computes the rows of `svc_meta.object` after a plan has run: owned objects, declarations with their normal forms, and
// retired objects. Without side effects.
import type { Hashes } from './normalise/normalise.ts';
import type { RemovedObject } from './change/trait-types.ts';
import { removes } from './change/traits.ts';
import type { Change } from './diff/change.ts';
import { ofKind } from './diff/change-kinds.ts';
import type { Desired, DesiredFunction } from './schema/desired.ts';
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
  extractNormalForms,
  policyNormalForms,
  sameNormalForms,
  sameTypeForm,
  triggerNormalForms,
} from './normalise/normal-forms.ts';
import { canKeepStatement } from './diff/objects/statements.ts';
import { isStatementForm, sameForm as sameStatement, statementKey } from './schema/statements.ts';
import { functionKey, objectKey, type SchemaModel, declaredViews } from './schema/model.ts';
import { type Host, HOSTED_OBJECTS, HOSTS, perHost, type PerHost } from './schema/rights/hosts.ts';
import { USERS } from './schema/triggers.ts';
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
  /** Identities of rows to delete after the long steps have removed their objects. */
  readonly forgottenLater: readonly string[];
  /** Ownership after the plan has run. */
  readonly owned: Ownership;
};

export type StateChange = {
  readonly model: SchemaModel;
  /** Declarations in scope. */
  readonly desired: Desired;
  readonly hashes: Hashes;
  readonly difference: Difference;
  /** Current records. */
  readonly objects: ManagedObjects;
  /** Ownership after the declared renames. */
  readonly owned: Ownership;
  /** Identities that renames have made obsolete. */
  readonly renamedAway: readonly string[];
  /** Backfills that continue after the transaction, as values by column, by table. */
  readonly backfills: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Steps follow the transaction. The objects that they remove stay owned until these steps are done. */
  readonly isLong: boolean;
  /** Drop removed tables and columns instead of retiring them. */
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
  const viewKeys = new Set(declaredViews(run.model).map(objectKey));
  const removed = [
    ...[...owned.functions.keys()]
      .filter((key) => !declaredFunctions.has(key))
      .map((key) => `function ${key}`),
    ...[...owned.views].filter((key) => !viewKeys.has(key)).map((key) => `view ${key}`),
    ...removedStatements(run),
  ];
  const forgotten = new Set([
    ...run.renamedAway,
    ...retired.forgotten,
    // Owned tables that are neither declared nor in the database. Tables that this run retires are written instead.
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
      types: new Set(run.desired.types.map(objectKey)),
      retiredTypes: retiredTypesAfter(run),
      tables,
      retiredTables: retired.tables,
      retiredColumns: retired.columns,
      functions: declaredFunctions,
      views: viewKeys,
      hosted: perHost((host) => new Set([...difference.hostedClaims[host]].sort())),
      viewTriggers: new Set(
        run.desired.views.flatMap((view) =>
          view.triggers.map(({ label }) => viewTriggerKey(objectKey(view), label)),
        ),
      ),
      userTriggers: new Set(difference.userClaims),
      extensions: new Set(run.desired.extensions.map(({ name }) => name)),
      sequences: new Set(run.desired.sequences.map(objectKey)),
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

const LABELS: Readonly<Partial<Record<RemovedObject['kind'], keyof Labels>>> = {
  key: 'constraints',
  check: 'constraints',
  exclusion: 'constraints',
  'foreign key': 'constraints',
  index: 'indexes',
  policy: 'policies',
  trigger: 'triggers',
};

/** Labels that the run removes. After an interruption the next run needs them to know that svc owns these objects. */
function leavingOf(changes: readonly Change[]): Leaving {
  const tables = new Map<string, Labels>();
  for (const { kind, table, label } of changes.flatMap(removes)) {
    const list = LABELS[kind];
    if (list === undefined) continue;
    const labels = tables.get(table) ?? { constraints: [], indexes: [], policies: [], triggers: [] };
    tables.set(table, labels);
    labels[list].push(label);
  }
  return {
    tables,
    hosted: perHost((host) => tables.get(host)?.policies ?? []),
    users: tables.get(USERS)?.triggers ?? [],
  };
}

/** Returns the owned tables. Tables outside the scope keep their records. */
function tablesAfter({ model, desired, difference, owned }: StateChange): Map<string, OwnedTable> {
  const kept = model.tables.flatMap((table) => {
    const before = owned.tables.get(objectKey(table));
    return before ? [[objectKey(table), before] as const] : [];
  });
  const claimed = desired.tables.map(
    (table) => [objectKey(table), difference.claims.get(objectKey(table)) ?? NO_OWNED_TABLE] as const,
  );
  return new Map([...kept, ...claimed]);
}

function typeWrites({ desired, hashes, objects, owned, difference }: StateChange): ObjectWrite[] {
  const managed = desired.types.flatMap((type): ObjectWrite[] => {
    const key = objectKey(type);
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

/** Returns the retired types. A type that was in use when it left the file may still exist. */
function retiredTypesAfter({
  desired,
  owned,
  difference,
}: Pick<StateChange, 'desired' | 'owned' | 'difference'>): Set<string> {
  const kept = new Set(owned.retiredTypes);
  for (const type of desired.types) kept.delete(objectKey(type));
  for (const { live } of ofKind(difference.changes, 'drop-type'))
    kept[live.used ? 'add' : 'delete'](objectKey(live));
  return kept;
}

/** Returns owned types that are neither declared nor retired. */
function droppedTypes(run: StateChange): string[] {
  const kept = retiredTypesAfter(run);
  const declared = new Set(run.desired.types.map(objectKey));
  const { types, retiredTypes } = run.objects.ownership;
  return [...types, ...retiredTypes].filter((key) => !declared.has(key) && !kept.has(key));
}

function tableWrites(run: StateChange, leaving: Leaving): ObjectWrite[] {
  const { desired, hashes, difference, objects, owned, backfills } = run;
  return desired.tables.flatMap((table): ObjectWrite[] => {
    const key = objectKey(table);
    const claim = difference.claims.get(key) ?? NO_OWNED_TABLE;
    const hash = hashes.tables.get(key) ?? null;
    const former = objects.declared.get(`table ${key}`);
    const before = owned.tables.get(key);
    const filling = backfills.get(key);
    const gone = leaving.tables.get(key);
    const forms = extractNormalForms(table);
    const isSame =
      filling === undefined &&
      gone === undefined &&
      former?.hash === hash &&
      isNormalForms(former.normalForms) &&
      sameNormalForms(former.normalForms, forms) &&
      before !== undefined &&
      JSON.stringify(before) === JSON.stringify(claim);
    // After a rename every table is written again.
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

/** Returns retired tables and columns: removed declarations are added, returning ones dropped, and renames followed. */
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
    const key = objectKey(table);
    tables.delete(key);
    for (const column of difference.claims.get(key)?.columns ?? []) {
      if (columns.delete(`${key}.${column}`)) forgotten.push(`column ${key}.${column}`);
    }
  }
  for (const { partition, back } of ofKind(difference.changes, 'add-partition')) {
    const key = objectKey(partition);
    if (back !== null && tables.delete(key)) forgotten.push(`table ${key}`);
  }
  for (const change of drops ? [] : difference.changes) {
    if (change.kind === 'retire-table') {
      const key = objectKey(change.live);
      const kept = owned.tables.get(key) ?? NO_OWNED_TABLE;
      tables.set(key, kept);
      writes.push(retiredRow('table', key, kept));
    }
    if (change.kind === 'retire-partition') {
      const key = objectKey(change.partition);
      tables.set(key, NO_OWNED_TABLE);
      writes.push(retiredRow('table', key, {}));
    }
    if (change.kind === 'retire-column') {
      const key = `${objectKey(change.table)}.${change.liveColumn.name}`;
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

function ownedFunction({ schema, name, normal, model }: DesiredFunction): OwnedFunction {
  return {
    schema,
    name,
    argumentTypes: normal?.argumentTypes ?? null,
    ...(model.hidden ? { hidden: true } : {}),
  };
}

function functionWrites({ desired, hashes, objects }: StateChange): ObjectWrite[] {
  return desired.functions.flatMap((fn): ObjectWrite[] => {
    const key = functionKey(fn.model);
    const hash = hashes.functions.get(key) ?? null;
    const former = objects.declared.get(`function ${key}`);
    const isSame = former?.hash === hash && sameFunction(former.normalForms, fn.normal);
    if (isSame && objects.ownership.functions.has(key)) return [];
    const name = key === objectKey(fn) ? {} : { name: fn.name };
    const hidden = fn.model.hidden ? { hidden: true } : {};
    return [managedRow(`function ${key}`, 'function', hash, { canonical: fn.normal, ...name, ...hidden })];
  });
}

function viewWrites({ desired, hashes, objects, difference, isLong }: StateChange): ObjectWrite[] {
  return desired.views.flatMap((view): ObjectWrite[] => {
    const key = objectKey(view);
    const hash = hashes.views.get(key) ?? null;
    const former = objects.declared.get(`view ${key}`);
    const isSame = former?.hash === hash && sameForm(former.normalForms, view.normal);
    const leaving = ofKind(isLong ? difference.changes : [], 'drop-view-trigger')
      .filter(({ live, next }) => next === null && objectKey(live) === key)
      .map(({ trigger }) => trigger.label);
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
  // The order of keys in jsonb differs from the order in the model.
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

// The normal form of an unchanged declaration changes when a function in its defaults gets other arguments.
function sameFunction(former: unknown, now: Signature | null): boolean {
  if (now === null || !isSignature(former)) return false;
  const parts = (signature: Signature): string =>
    JSON.stringify([
      signature.arguments,
      signature.argumentTypes,
      signature.argumentNames,
      signature.defaults,
      signature.result,
      signature.outputs ?? [],
      signature.settings,
      signature.atomicBody,
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

/** An extension that leaves the file stays installed and is recorded as retired. */
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

/** A sequence that leaves the file is kept and recorded as retired. */
function sequenceWrites({ desired, objects, owned }: StateChange): ObjectWrite[] {
  const declared = new Set(desired.sequences.map(objectKey));
  const row = (key: string, state: ObjectWrite['state']): ObjectWrite => {
    return { identity: `sequence ${key}`, kind: 'sequence', state, declaredHash: null, definition: {} };
  };
  return [
    ...[...declared].filter((key) => !objects.ownership.sequences.has(key)).map((key) => row(key, 'managed')),
    ...[...owned.sequences].filter((key) => !declared.has(key)).map((key) => row(key, 'retired')),
  ];
}

/** Returns the objects of declared statements, and retired objects that kept objects may still use. */
function statementsAfter({ desired, owned, difference }: StateChange): Map<string, 'managed' | 'retired'> {
  const managed = desired.statements.flatMap(({ normal }) =>
    normal === null ? [] : [[normal.identity, 'managed'] as const],
  );
  const dropped = new Map(
    ofKind(difference.changes, 'drop-statement').map(({ live }) => [live.identity, live] as const),
  );
  const retired = [...owned.statements].flatMap(([identity, state]) => {
    const live = dropped.get(identity);
    const stays = live === undefined ? state === 'retired' : live.used && canKeepStatement(live);
    return stays ? [[identity, 'retired'] as const] : [];
  });
  return new Map([...retired, ...managed]);
}

/**
 * Retired statements are recorded under the identity of their database object, because the file no longer names them.
 */
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
  const retired = ofKind(run.difference.changes, 'drop-statement').flatMap(({ live }): ObjectWrite[] => {
    if (!canKeepStatement(live) || !live.used) return [];
    const { identity, definition, schema } = live;
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

/** Returns the identities of statements that the file no longer has. */
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
