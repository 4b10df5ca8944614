// Gives every declaration its normal form, the server's print of its expressions: from the migration state where
// nothing changed, from the shadow schema where something did, and for what is new from the database once it is built.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { TypeResolver } from '../schema/column-types.ts';
import type { Desired, DesiredFunction, DesiredTable } from '../schema/desired.ts';
import { schemasOf } from '../diff/diff.ts';
import { labelled } from '../diff/policies.ts';
import type { Live } from '../schema/live-schema.ts';
import { type DeclaredRow, type ObjectWrite, STORAGE_POLICIES } from '../state/state.ts';
import { keyOf, type SchemaModel } from '../schema/model.ts';
import type { OwnedTable } from '../schema/managed.ts';
import { STORAGE_OBJECTS } from '../schema/policy-rings.ts';
import {
  hashBuckets,
  hashFunction,
  hashTable,
  isNormalForms,
  isSignature,
  isStorageNormalForms,
  normalFormsOf,
  readNormalForms,
  withNormalForms,
  withPolicyNormalForms,
} from './normal-forms.ts';
import type { RelatedDeclarations } from './related.ts';
import { normaliseInShadow, withSignature } from './shadow-schema.ts';

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

/** Keys of declarations whose normal form is not known. */
export function changedKeys(hashes: Hashes, known: ReadonlyMap<string, DeclaredRow>): Set<string> {
  const changed = new Set<string>();
  for (const [key, hash] of hashes.tables) {
    const row = known.get(`table ${key}`);
    if (row?.hash !== hash || !isNormalForms(row.canonical)) changed.add(key);
  }
  for (const [key, hash] of hashes.functions) {
    const row = known.get(`function ${key}`);
    if (row?.hash !== hash || !isSignature(row.canonical)) changed.add(key);
  }
  const storage = known.get(STORAGE_POLICIES);
  if (
    hashes.storage !== null &&
    (storage?.hash !== hashes.storage || !isStorageNormalForms(storage.canonical))
  )
    changed.add(STORAGE_OBJECTS);
  return changed;
}

export type Normalised = {
  readonly desired: Desired;
  /** Identities of new declarations the server has not read; `readNewNormalForms` completes them after the run. */
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
  related: RelatedDeclarations,
): Promise<Normalised> {
  const chosen = related.of(changed, fresh);
  const subset: Desired = {
    tables: declared.tables.filter((table) => chosen.has(keyOf(table))),
    functions: declared.functions.filter((fn) => chosen.has(keyOf(fn))),
    storagePolicies: chosen.has(STORAGE_OBJECTS) ? declared.storagePolicies : [],
  };
  const isNothing = subset.tables.length + subset.functions.length + subset.storagePolicies.length === 0;
  const all = [...new Set([...schemas, ...schemasOf(declared)])];
  const read = isNothing ? subset : await normaliseInShadow(session, subset, all);
  const tables = byKey(read.tables);
  const functions = byKey(read.functions);
  const unread = new Set<string>();
  const stored = (identity: string, key: string): unknown =>
    changed.has(key) ? undefined : known.get(identity)?.canonical;
  const storage = known.get(STORAGE_POLICIES)?.canonical;
  return {
    desired: {
      tables: declared.tables.map((table): DesiredTable => {
        const identity = `table ${keyOf(table)}`;
        const inShadow = tables.get(keyOf(table));
        if (inShadow) return inShadow;
        const forms = stored(identity, keyOf(table));
        if (isNormalForms(forms)) return withNormalForms(table, forms);
        unread.add(identity);
        return table;
      }),
      functions: declared.functions.map((fn): DesiredFunction => {
        const identity = `function ${keyOf(fn)}`;
        const inShadow = functions.get(keyOf(fn));
        if (inShadow) return inShadow;
        const signature = stored(identity, keyOf(fn));
        if (isSignature(signature)) return { ...fn, normal: signature };
        unread.add(identity);
        return fn;
      }),
      storagePolicies:
        !chosen.has(STORAGE_OBJECTS) && isStorageNormalForms(storage)
          ? withPolicyNormalForms(declared.storagePolicies, storage.policies)
          : read.storagePolicies,
    },
    unread,
  };
}

function byKey<T extends { readonly schema: string; readonly name: string }>(
  list: readonly T[],
): ReadonlyMap<string, T> {
  return new Map(list.map((one) => [keyOf(one), one]));
}

/** What was new has been built: its normal form is what the database shows now. */
export function readNewNormalForms(desired: Desired, unread: ReadonlySet<string>, live: Live): Desired {
  if (unread.size === 0) return desired;
  return {
    ...desired,
    tables: desired.tables.map((table) => {
      const built = live.tables.get(keyOf(table));
      if (!built || !unread.has(`table ${keyOf(table)}`)) return table;
      const labels = {
        index: ({ label }: { readonly label: string }) => label,
        policies: labelled(table, [], table.policies).map((one) => one.label),
      };
      return withNormalForms(table, readNormalForms(table, built, labels));
    }),
    functions: desired.functions.map((fn) =>
      unread.has(`function ${keyOf(fn)}`) ? withSignature(fn, live.functions) : fn,
    ),
  };
}

/** The rows of the migration state for what `readNewNormalForms` completed. */
export function writesOfNewNormalForms(
  desired: Desired,
  unread: ReadonlySet<string>,
  hashes: Hashes,
  owned: ReadonlyMap<string, OwnedTable>,
): ObjectWrite[] {
  const tables = desired.tables.flatMap((table): ObjectWrite[] => {
    const key = keyOf(table);
    const identity = `table ${key}`;
    if (!unread.has(identity)) return [];
    const definition = { ...owned.get(key), canonical: normalFormsOf(table) };
    const declared = hashes.tables.get(key) ?? null;
    return [{ identity, kind: 'table', state: 'managed', declaredHash: declared, definition }];
  });
  const functions = desired.functions.flatMap((fn): ObjectWrite[] => {
    const identity = `function ${keyOf(fn)}`;
    if (!unread.has(identity) || fn.normal === null) return [];
    const definition = { canonical: fn.normal };
    const declared = hashes.functions.get(keyOf(fn)) ?? null;
    return [{ identity, kind: 'function', state: 'managed', declaredHash: declared, definition }];
  });
  return [...tables, ...functions];
}
