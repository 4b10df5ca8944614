// What the ledger must say once a plan has run: ownership, declarations with their prints, what was retired.
import type { Hashes } from './normalise/normalise.ts';
import type { Change } from './diff/change.ts';
import type { Desired, DesiredTable } from './schema/desired.ts';
import type { Difference } from './diff/diff.ts';
import { type LedgerObjects, type ObjectWrite, STORAGE_POLICIES } from './state/state.ts';
import {
  isNormalForms,
  isSignature,
  isStorageNormalForms,
  normalFormsOf,
  policyNormalForms,
  sameNormalForms,
} from './normalise/normal-forms.ts';
import { keyOf, type SchemaModel, tableKey } from './schema/model.ts';
import type { OwnedTable, Ownership } from './schema/managed.ts';
import type { Signature } from './schema/relation.ts';

export type LedgerAfter = {
  readonly writes: readonly ObjectWrite[];
  readonly forgotten: readonly string[];
  /** Forgotten once the long steps are done, which take them away. */
  readonly forgottenLater: readonly string[];
  /** Ownership once the plan has run. */
  readonly owned: Ownership;
};

type Leaving = {
  readonly tables: ReadonlyMap<string, Pick<OwnedTable, 'constraints' | 'indexes' | 'policies'>>;
  readonly storage: readonly string[];
};

const NOTHING_LEAVES: Leaving = { tables: new Map(), storage: [] };

/** What the run takes away, by label. Should it end before, the next one must know that it is the file's to remove. */
function leavingOf(changes: readonly Change[]): Leaving {
  const tables = new Map<string, { constraints: string[]; indexes: string[]; policies: string[] }>();
  const storage: string[] = [];
  const of = (table: DesiredTable): { constraints: string[]; indexes: string[]; policies: string[] } => {
    const found = tables.get(keyOf(table)) ?? { constraints: [], indexes: [], policies: [] };
    tables.set(keyOf(table), found);
    return found;
  };
  for (const change of changes) {
    if (change.kind === 'drop-key') of(change.table).constraints.push(change.key.label);
    if (change.kind === 'drop-check') of(change.table).constraints.push(change.check.label);
    if (change.kind === 'add-check' && change.replaces)
      of(change.table).constraints.push(change.replaces.label);
    if (change.kind === 'drop-foreign-key') of(change.table).constraints.push(change.foreignKey.label);
    if (change.kind === 'drop-index') of(change.table).indexes.push(change.index.label);
    if (change.kind === 'drop-policy') of(change.table).policies.push(change.policy.label);
    if (change.kind === 'drop-storage-policy') storage.push(change.policy.label);
  }
  return { tables, storage };
}

export type LedgerChange = {
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
  /** Some steps follow the transaction that writes the ledger; what they are to take away is ours until they are done. */
  readonly isLong: boolean;
  /** Removed tables and columns are dropped, and nothing of them is left to remember. */
  readonly drops: boolean;
};

function sameSignature(former: unknown, now: Signature | null): boolean {
  if (now === null || !isSignature(former)) return false;
  const parts = (one: Signature): string =>
    JSON.stringify([one.arguments, one.argumentTypes, one.argumentNames, one.defaults, one.result]);
  return parts(former) === parts(now);
}

export function ledgerAfter({
  model,
  desired,
  unprinted,
  hashes,
  difference,
  objects,
  owned,
  renamedAway,
  fills,
  isLong,
  drops,
}: LedgerChange): LedgerAfter {
  const writes: ObjectWrite[] = [];
  const forgotten = new Set(renamedAway);
  const tables = new Map<string, OwnedTable>();
  for (const table of model.tables) {
    const before = owned.tables.get(keyOf(table));
    if (before) tables.set(keyOf(table), before);
  }
  const leaving = isLong ? leavingOf(difference.changes) : NOTHING_LEAVES;
  const retiredTables = new Map(owned.retiredTables);
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
    const gone = leaving.tables.get(key);
    const same =
      filling === undefined &&
      gone === undefined &&
      former?.hash === hash &&
      isNormalForms(former.canonical) &&
      sameNormalForms(former.canonical, normalFormsOf(table)) &&
      before !== undefined &&
      JSON.stringify(before) === JSON.stringify(claim);
    if (!same || owned.tables !== objects.ownership.tables) {
      writes.push({
        identity: `table ${key}`,
        kind: 'table',
        state: 'managed',
        declaredHash: hash,
        definition: {
          ...claim,
          canonical: normalFormsOf(table),
          ...(filling ? { fills: filling } : {}),
          ...(gone ? { leaving: gone } : {}),
        },
      });
    }
    for (const column of claim.columns) {
      if (retiredColumns.delete(`${key}.${column}`)) forgotten.add(`column ${key}.${column}`);
    }
  }
  for (const change of difference.changes) {
    if (change.kind === 'retire-table' && !drops) {
      const key = tableKey(change.live.schema, change.live.name);
      const kept = owned.tables.get(key) ?? { columns: [], constraints: [], indexes: [], policies: [] };
      retiredTables.set(key, kept);
      writes.push({
        identity: `table ${key}`,
        kind: 'table',
        state: 'retired',
        declaredHash: null,
        definition: kept,
      });
    }
    if (change.kind === 'retire-column' && !drops) {
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
    if (change.kind === 'drop-function' && !isLong)
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
    const former = objects.declared.get(`function ${key}`);
    // An unchanged one prints anew when a function that its defaults call takes other arguments.
    const same = former?.hash === hash && sameSignature(former.canonical, fn.normal);
    if (same && objects.ownership.functions.has(key)) continue;
    writes.push({
      identity: `function ${key}`,
      kind: 'function',
      state: 'managed',
      declaredHash: hash,
      definition: { canonical: fn.normal },
    });
  }
  // Owned by the ledger but gone from both file and database. What is retired by this run is written again below.
  for (const key of owned.tables.keys()) if (!tables.has(key)) forgotten.add(`table ${key}`);
  const forgottenLater = [...owned.functions]
    .filter((key) => isLong && !functions.has(key))
    .map((key) => `function ${key}`);
  if (!isLong) for (const key of owned.functions) if (!functions.has(key)) forgotten.add(`function ${key}`);
  const storage = [...difference.storageClaims].sort();
  const prints = policyNormalForms(desired.storagePolicies);
  const former = objects.declared.get(STORAGE_POLICIES);
  const samePrints =
    hashes.storage === (former?.hash ?? null) &&
    (former === undefined ||
      (isStorageNormalForms(former.canonical) &&
        JSON.stringify(former.canonical.policies) === JSON.stringify(prints)));
  if (
    !samePrints ||
    leaving.storage.length > 0 ||
    storage.join() !== [...owned.storagePolicies].sort().join()
  ) {
    writes.push({
      identity: STORAGE_POLICIES,
      kind: 'storage_policies',
      state: 'managed',
      declaredHash: hashes.storage,
      definition: {
        labels: storage,
        canonical: { policies: prints },
        ...(leaving.storage.length > 0 ? { leaving: leaving.storage } : {}),
      },
    });
  }
  for (const write of writes) forgotten.delete(write.identity);
  return {
    writes,
    forgotten: [...forgotten],
    forgottenLater,
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
