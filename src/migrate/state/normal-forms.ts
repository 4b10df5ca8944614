// What the ledger keeps of a declaration: its hash, and the server's print of its expressions, so that what did not
// change need not be read by the server again.
import { createHash } from 'node:crypto';
import type { FunctionNormalForm, DesiredPolicy, DesiredTable, TypeResolver } from '../schema/desired.ts';
import type { BucketModel, FunctionModel, TableModel } from '../schema/model.ts';

/**
 * Everything a table's print depends on: the declaration, the types it takes over from others, and whether the
 * policies of others lead back to it.
 */
export function hashTable(table: TableModel, resolve: TypeResolver, inRing: boolean): string {
  return sha256(JSON.stringify([table, table.columns.map(resolve), inRing]));
}

export function hashFunction(fn: FunctionModel): string {
  return sha256(JSON.stringify(fn));
}

export function hashBuckets(buckets: readonly BucketModel[], inRing: boolean): string {
  return sha256(JSON.stringify([buckets, inRing]));
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export type Kept = {
  readonly columns: ReadonlyArray<readonly [string, string | null]>;
  readonly checks: readonly string[];
  readonly indexes: ReadonlyArray<string | null>;
  readonly policies: KeptPolicies;
};

type KeptPolicies = ReadonlyArray<readonly [string | null, string | null]>;

export function keep(table: DesiredTable): Kept {
  return {
    columns: table.columns.map((column) => [column.type, column.default?.normal ?? null]),
    checks: table.checks.map((check) => check.expression.normal),
    indexes: table.indexes.map((index) => index.predicate?.normal ?? null),
    policies: keepPolicies(table.policies),
  };
}

export function keepPolicies(policies: readonly DesiredPolicy[]): KeptPolicies {
  return policies.map((policy) => [policy.using?.normal ?? null, policy.check?.normal ?? null]);
}

// An unchanged declaration prints anew when something it names changed, for example a function's signature.
export function sameKept(a: Kept, b: Kept): boolean {
  return (['columns', 'checks', 'indexes', 'policies'] as const).every(
    (part) => JSON.stringify(a[part]) === JSON.stringify(b[part]),
  );
}

export function isKept(value: unknown): value is Kept {
  return typeof value === 'object' && value !== null && 'columns' in value && 'policies' in value;
}

export function restore(table: DesiredTable, kept: Kept): DesiredTable {
  return {
    ...table,
    columns: table.columns.map((column, n) => {
      const [type, text] = kept.columns[n] ?? ['', null];
      return { ...column, type, default: column.default && { ...column.default, canonical: text ?? '' } };
    }),
    checks: table.checks.map((check, n) => ({
      ...check,
      expression: { ...check.expression, canonical: kept.checks[n] ?? '' },
    })),
    indexes: table.indexes.map((index, n) => ({
      ...index,
      where: index.predicate && { ...index.predicate, canonical: kept.indexes[n] ?? '' },
    })),
    policies: restorePolicies(table.policies, kept.policies),
  };
}

function restorePolicies<P extends DesiredPolicy>(policies: readonly P[], kept: KeptPolicies): P[] {
  return policies.map((policy, n) => {
    const [using, check] = kept[n] ?? [null, null];
    return {
      ...policy,
      using: policy.using && { ...policy.using, normal: using ?? '' },
      check: policy.check && { ...policy.check, normal: check ?? '' },
    };
  });
}

/** The policies of all buckets, which the ledger keeps as one. */
export type KeptStorage = { readonly policies: KeptPolicies };

export function isKeptStorage(value: unknown): value is KeptStorage {
  return typeof value === 'object' && value !== null && 'policies' in value;
}

export function restoreStorage<P extends DesiredPolicy>(policies: readonly P[], kept: KeptStorage): P[] {
  return restorePolicies(policies, kept.policies);
}

export function isCanonicalFunction(value: unknown): value is FunctionNormalForm {
  return typeof value === 'object' && value !== null && 'argumentTypes' in value && 'result' in value;
}
