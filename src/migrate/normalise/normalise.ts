// Gives every declaration the server's print of its expressions: from the ledger where nothing changed, from the
// shadow where something did, and for what is new from the database itself, once it is there.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredFunction, DesiredTable, TypeResolver } from '../schema/desired.ts';
import { labelled, schemasOf } from '../diff/diff.ts';
import { readThroughShadow, shadowOfDesired, withNormalForms } from './shadow-schema.ts';
import type { Live } from '../schema/live-schema.ts';
import {
  hashBuckets,
  hashFunction,
  hashTable,
  isCanonicalFunction,
  isKept,
  isKeptStorage,
  keep,
  restore,
  restoreStorage,
} from '../state/normal-forms.ts';
import { type DeclaredRow, type ObjectWrite, STORAGE_POLICIES } from '../state/state.ts';
import { keyOf, type SchemaModel } from '../schema/model.ts';
import type { RelatedDeclarations } from './related.ts';
import type { OwnedTable } from '../schema/managed.ts';
import { STORAGE_OBJECTS } from '../schema/policy-rings.ts';

/** By `schema.name`; a table and a function may share one. */
export type Hashes = {
  readonly tables: ReadonlyMap<string, string>;
  readonly functions: ReadonlyMap<string, string>;
  /** Of the policies of all buckets; null when there are none. */
  readonly storage: string | null;
};

export function hashDeclarations(
  model: SchemaModel,
  resolve: TypeResolver,
  inRings: ReadonlySet<string>,
): Hashes {
  return {
    tables: new Map(
      model.tables.map((table) => [keyOf(table), hashTable(table, resolve, inRings.has(keyOf(table)))]),
    ),
    functions: new Map(model.functions.map((fn) => [keyOf(fn), hashFunction(fn)])),
    storage: model.buckets.some((bucket) => bucket.policies.length > 0)
      ? hashBuckets(model.buckets, inRings.has(STORAGE_OBJECTS))
      : null,
  };
}

/** Keys of declarations whose print is not known. */
export function changedKeys(hashes: Hashes, known: ReadonlyMap<string, DeclaredRow>): Set<string> {
  const changed = new Set<string>();
  for (const [key, hash] of hashes.tables) {
    const row = known.get(`table ${key}`);
    if (row?.hash !== hash || !isKept(row.canonical)) changed.add(key);
  }
  for (const [key, hash] of hashes.functions) {
    const row = known.get(`function ${key}`);
    if (row?.hash !== hash || !isCanonicalFunction(row.canonical)) changed.add(key);
  }
  const storage = known.get(STORAGE_POLICIES);
  if (hashes.storage !== null && (storage?.hash !== hashes.storage || !isKeptStorage(storage.canonical)))
    changed.add(STORAGE_OBJECTS);
  return changed;
}

export type Normalised = {
  readonly desired: Desired;
  /** Identities of what is new and was not read by the server; `printNew` completes it after the run. */
  readonly unread: ReadonlySet<string>;
};

/** `fresh`: declarations that the database has nothing for, so that there is nothing to compare them with. */
export async function normalise(
  session: Queryable,
  declared: Desired,
  schemas: readonly string[],
  known: ReadonlyMap<string, DeclaredRow>,
  changed: ReadonlySet<string>,
  fresh: ReadonlySet<string>,
  neighbourhood: RelatedDeclarations,
): Promise<Normalised> {
  const chosen = neighbourhood.of(changed, fresh);
  const subset: Desired = {
    tables: declared.tables.filter((table) => chosen.has(keyOf(table))),
    functions: declared.functions.filter((fn) => chosen.has(keyOf(fn))),
    storagePolicies: chosen.has(STORAGE_OBJECTS) ? declared.storagePolicies : [],
  };
  const isNothing = subset.tables.length + subset.functions.length + subset.storagePolicies.length === 0;
  const shadow = { ...subset, tables: subset.tables.map(shadowOfDesired) };
  const all = [...new Set([...schemas, ...schemasOf(declared)])];
  const filled = isNothing ? subset : withNormalForms(subset, await readThroughShadow(session, shadow, all));
  const tables = new Map(filled.tables.map((table) => [keyOf(table), table]));
  const functions = new Map(filled.functions.map((fn) => [keyOf(fn), fn]));
  const unprinted = new Set<string>();
  const table = (one: DesiredTable): DesiredTable => {
    const row = known.get(`table ${keyOf(one)}`);
    const printed = tables.get(keyOf(one));
    if (printed) return printed;
    if (!changed.has(keyOf(one)) && isKept(row?.canonical)) return restore(one, row.canonical);
    unprinted.add(`table ${keyOf(one)}`);
    return one;
  };
  const fn = (one: DesiredFunction): DesiredFunction => {
    const row = known.get(`function ${keyOf(one)}`);
    const printed = functions.get(keyOf(one));
    if (printed) return printed;
    if (!changed.has(keyOf(one)) && isCanonicalFunction(row?.canonical))
      return { ...one, normal: row.canonical };
    unprinted.add(`function ${keyOf(one)}`);
    return one;
  };
  const storage = known.get(STORAGE_POLICIES)?.canonical;
  return {
    desired: {
      tables: declared.tables.map(table),
      functions: declared.functions.map(fn),
      storagePolicies:
        !chosen.has(STORAGE_OBJECTS) && isKeptStorage(storage)
          ? restoreStorage(declared.storagePolicies, storage)
          : filled.storagePolicies,
    },
    unread: unprinted,
  };
}

/** What was new has been built: its print is what the database shows now. */
export function readNewNormalForms(desired: Desired, unprinted: ReadonlySet<string>, live: Live): Desired {
  if (unprinted.size === 0) return desired;
  const isNew = (kind: 'table' | 'function', one: { schema: string; name: string }): boolean =>
    unprinted.has(`${kind} ${keyOf(one)}`);
  const fresh: Desired = {
    tables: desired.tables.filter((table) => isNew('table', table)),
    functions: desired.functions.filter((fn) => isNew('function', fn)),
    storagePolicies: [],
  };
  const printed = withNormalForms(
    fresh,
    { tables: live.tables, functions: live.functions, storagePolicies: [] },
    {
      index: (_table, index) => index.label,
      policies: (table) => labelled(table, [], table.policies).map((one) => one.label),
    },
  );
  const tables = new Map(printed.tables.map((table) => [keyOf(table), table]));
  const functions = new Map(printed.functions.map((fn) => [keyOf(fn), fn]));
  return {
    ...desired,
    tables: desired.tables.map((table) => tables.get(keyOf(table)) ?? table),
    functions: desired.functions.map((fn) => functions.get(keyOf(fn)) ?? fn),
  };
}

/** The ledger's rows of what `printNew` completed. */
export function writesOfNewNormalForms(
  desired: Desired,
  unprinted: ReadonlySet<string>,
  hashes: Hashes,
  owned: ReadonlyMap<string, OwnedTable>,
): ObjectWrite[] {
  const tables = desired.tables.flatMap((table): ObjectWrite[] => {
    const key = keyOf(table);
    const identity = `table ${key}`;
    if (!unprinted.has(identity)) return [];
    const definition = { ...owned.get(key), canonical: keep(table) };
    const declared = hashes.tables.get(key) ?? null;
    return [{ identity, kind: 'table', state: 'managed', declaredHash: declared, definition }];
  });
  const functions = desired.functions.flatMap((fn): ObjectWrite[] => {
    const identity = `function ${keyOf(fn)}`;
    if (!unprinted.has(identity) || fn.normal === null) return [];
    const definition = { canonical: fn.normal };
    const declared = hashes.functions.get(keyOf(fn)) ?? null;
    return [{ identity, kind: 'function', state: 'managed', declaredHash: declared, definition }];
  });
  return [...tables, ...functions];
}
