// Adds the normal form to each declaration: from the migration state for unchanged declarations, otherwise through the
// shadow schema.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { TypeResolver } from '../schema/column-types.ts';
import type { Desired, DesiredFunction, DesiredTable, DesiredType } from '../schema/desired.ts';
import { requiredSchemas } from '../diff/diff.ts';
import { type DeclaredRow, USER_TRIGGERS } from '../state/managed-objects.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { functionKey, objectKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import {
  HOSTED_OBJECTS,
  HOSTS,
  perHost,
  type PerHost,
  REALTIME_MESSAGES,
  STORAGE_OBJECTS,
} from '../schema/rights/hosts.ts';
import { isStatementForm, statementKey, declaredStatements } from '../schema/statements.ts';
import { USERS } from '../schema/triggers.ts';
import {
  hashBuckets,
  hashChannels,
  hashFunction,
  hashStatement,
  hashTable,
  hashType,
  hashTriggers,
  hashView,
  isNormalForms,
  isSignature,
  isHostedNormalForms,
  isTriggerNormalForms,
  isViewForm,
  isTypeForm,
  withNormalForms,
  withPolicyNormalForms,
  withTriggerNormalForms,
} from './normal-forms.ts';
import type { RelatedDeclarations } from './related.ts';
import { normaliseInShadow } from './normalise-in-shadow.ts';

/** Hashes of declarations, keyed by `schema.name`, and functions by `functionKey`. */
export type Hashes = {
  readonly types: ReadonlyMap<string, string>;
  readonly tables: ReadonlyMap<string, string>;
  readonly functions: ReadonlyMap<string, string>;
  readonly views: ReadonlyMap<string, string>;
  /** Keyed by `statementKey`. */
  readonly statements: ReadonlyMap<string, string>;
  /** Hash of all policies on a table of svc, or null if there are none. */
  readonly hosted: PerHost<string | null>;
  /** Hash of the triggers on auth.users, or null if there are none. */
  readonly users: string | null;
};

export function hashDeclarations(
  model: SchemaModel,
  resolve: TypeResolver,
  inCycles: ReadonlySet<string>,
): Hashes {
  return {
    types: new Map((model.types ?? []).map((type) => [objectKey(type), hashType(type)])),
    tables: new Map(
      model.tables.map((table) => [
        objectKey(table),
        hashTable(table, resolve, inCycles.has(objectKey(table))),
      ]),
    ),
    functions: new Map(model.functions.map((fn) => [functionKey(fn), hashFunction(fn)])),
    views: new Map(declaredViews(model).map((view) => [objectKey(view), hashView(view)])),
    statements: new Map(
      declaredStatements(model).map((statement) => [statementKey(statement), hashStatement(statement)]),
    ),
    hosted: {
      [STORAGE_OBJECTS]: model.buckets.some((bucket) => bucket.policies.length > 0)
        ? hashBuckets(model.buckets, inCycles.has(STORAGE_OBJECTS))
        : null,
      [REALTIME_MESSAGES]: model.channels ? hashChannels(model.channels) : null,
    },
    users: model.userTriggers ? hashTriggers(model.userTriggers) : null,
  };
}

/**
 * Returns the keys of declarations without a stored normal form. Functions have the key `schema.name`, because all
 * overloads are read together.
 */
export function changedKeys(
  { functions }: SchemaModel,
  hashes: Hashes,
  known: ReadonlyMap<string, DeclaredRow>,
): Set<string> {
  const changed = new Set<string>();
  const isKnown = (identity: string, hash: string, isForm: (value: unknown) => boolean): boolean => {
    const row = known.get(identity);
    return row?.hash === hash && isForm(row.normalForms);
  };
  for (const [key, hash] of hashes.types) if (!isKnown(`type ${key}`, hash, isTypeForm)) changed.add(key);
  for (const [key, hash] of hashes.tables)
    if (!isKnown(`table ${key}`, hash, isNormalForms)) changed.add(key);
  for (const fn of functions) {
    const key = functionKey(fn);
    if (!isKnown(`function ${key}`, hashes.functions.get(key) ?? '', isSignature)) changed.add(objectKey(fn));
  }
  for (const [key, hash] of hashes.views) if (!isKnown(`view ${key}`, hash, isViewForm)) changed.add(key);
  for (const [key, hash] of hashes.statements) if (!isKnown(key, hash, isStatementForm)) changed.add(key);
  for (const host of HOSTS) {
    const hash = hashes.hosted[host];
    if (hash !== null && !isKnown(HOSTED_OBJECTS[host].identity, hash, isHostedNormalForms))
      changed.add(host);
  }
  if (hashes.users !== null && !isKnown(USER_TRIGGERS, hashes.users, isTriggerNormalForms))
    changed.add(USERS);
  return changed;
}

/** `live`: live tables, which determine the order of columns in `select *`. */
export async function normalise(
  session: Queryable,
  declared: Desired,
  schemas: readonly string[],
  known: ReadonlyMap<string, DeclaredRow>,
  changed: ReadonlySet<string>,
  related: RelatedDeclarations,
  live: ReadonlyMap<string, LiveTable>,
): Promise<Desired> {
  const chosen = related.expand(changed);
  const subset: Desired = {
    types: declared.types.filter((type) => chosen.has(objectKey(type))),
    extensions: declared.extensions,
    sequences: declared.sequences,
    statements: declared.statements.filter(({ model }) => chosen.has(statementKey(model))),
    tables: declared.tables.filter((table) => chosen.has(objectKey(table))),
    functions: declared.functions.filter((fn) => chosen.has(objectKey(fn))),
    hosted: perHost((host) => (chosen.has(host) ? declared.hosted[host] : [])),
    views: declared.views.filter((view) => chosen.has(objectKey(view))),
    newUsers: declared.newUsers.filter((trigger) => chosen.has(objectKey(trigger.table))),
    userTriggers: chosen.has(USERS) ? declared.userTriggers : [],
  };
  const isNothing = [
    subset.types,
    subset.tables,
    subset.functions,
    subset.views,
    subset.statements,
    ...Object.values(subset.hosted),
    subset.userTriggers,
  ].every((list) => list.length === 0);
  const all = [...new Set([...schemas, ...requiredSchemas(declared).all])];
  const read = isNothing ? subset : await normaliseInShadow(session, subset, all, live);
  const types = byKey(read.types);
  const tables = byKey(read.tables);
  const functions = new Map(read.functions.map((fn) => [functionKey(fn.model), fn]));
  const views = byKey(read.views);
  const statements = new Map(read.statements.map((statement) => [statementKey(statement.model), statement]));
  const users = known.get(USER_TRIGGERS)?.normalForms;
  return {
    types: declared.types.map((type): DesiredType => {
      const stored = known.get(`type ${objectKey(type)}`)?.normalForms;
      return types.get(objectKey(type)) ?? (isTypeForm(stored) ? { ...type, normal: stored } : type);
    }),
    extensions: declared.extensions,
    sequences: declared.sequences,
    statements: declared.statements.map((statement) => {
      const stored = known.get(statementKey(statement.model))?.normalForms;
      return (
        statements.get(statementKey(statement.model)) ??
        (isStatementForm(stored) ? { ...statement, normal: stored } : statement)
      );
    }),
    tables: declared.tables.map((table): DesiredTable => {
      const stored = known.get(`table ${objectKey(table)}`)?.normalForms;
      return tables.get(objectKey(table)) ?? (isNormalForms(stored) ? withNormalForms(table, stored) : table);
    }),
    functions: declared.functions.map((fn): DesiredFunction => {
      const key = functionKey(fn.model);
      const stored = known.get(`function ${key}`)?.normalForms;
      return functions.get(key) ?? (isSignature(stored) ? { ...fn, normal: stored } : fn);
    }),
    hosted: perHost((host) => {
      const stored = known.get(HOSTED_OBJECTS[host].identity)?.normalForms;
      return !chosen.has(host) && isHostedNormalForms(stored)
        ? withPolicyNormalForms(declared.hosted[host], stored.policies)
        : read.hosted[host];
    }),
    views: declared.views.map((view) => {
      const stored = known.get(`view ${objectKey(view)}`)?.normalForms;
      return views.get(objectKey(view)) ?? (isViewForm(stored) ? { ...view, normal: stored } : view);
    }),
    newUsers: declared.newUsers,
    userTriggers:
      !chosen.has(USERS) && isTriggerNormalForms(users)
        ? withTriggerNormalForms(declared.userTriggers, users)
        : read.userTriggers,
  };
}

function byKey<T extends { readonly schema: string; readonly name: string }>(
  list: readonly T[],
): ReadonlyMap<string, T> {
  return new Map(list.map((item) => [objectKey(item), item]));
}
