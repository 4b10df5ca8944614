// Desired against live: what must change. Pure: it reads nothing, and whether a change is safe is decided later.
import type { Change } from './change.ts';
import { columnKey, type Desired, type DesiredTable } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { perHost, type PerHost } from '../schema/rights/hosts.ts';
import { keyOf } from '../schema/model.ts';
import { usersOf } from '../schema/sequences.ts';
import { NO_OWNED_TABLE, ownedOf, type OwnedTable, type Ownership } from '../schema/managed.ts';
import { attributesOf, diffComments, diffStorage } from './attributes.ts';
import { diffColumns } from './columns.ts';
import {
  diffChecks,
  diffExclusions,
  diffForeignKeys,
  diffIndexes,
  diffKeys,
  keysNotDeclared,
  repeatsKey,
} from './constraints.ts';
import { diffExtensions } from './objects/extensions.ts';
import { diffGrants } from './grants.ts';
import { diffFunctions } from './functions.ts';
import { diffHostedPolicies, diffPolicies, labelled } from './policies.ts';
import { diffPartitions, listsPartitions, partitionsOfNew } from './partitions.ts';
import { diffPublication, diffPublished } from './publication.ts';
import { diffReferences } from './references.ts';
import { diffSequences } from './objects/sequences.ts';
import { diffStatements, withTypes } from './objects/statements.ts';
import { diffTriggers, diffUserTriggers } from './triggers.ts';
import { diffNewUsers, diffOnUpdate } from './row-triggers.ts';
import { diffRemovedTypes, diffTypes } from './types.ts';
import { diffViews } from './views.ts';
import type { Claim, Rebuild, TableDiff, Unmanaged } from './table-diff.ts';

export type Difference = {
  readonly changes: readonly Change[];
  readonly unmanaged: readonly Unmanaged[];
  /** By `schema.table`. */
  readonly claims: ReadonlyMap<string, OwnedTable>;
  /** Labels of policies on tables of svc that are the file's. */
  readonly hostedClaims: PerHost<readonly string[]>;
  /** Labels of triggers on auth.users that are the file's. */
  readonly userClaims: readonly string[];
};

export function diff(
  desired: Desired,
  live: Live,
  owned: Ownership,
  rebuild: Rebuild = new Set(),
): Difference {
  const changes: Change[] = [];
  const unmanaged: Unmanaged[] = [];
  const claims = new Map<string, Claim>();
  changes.push(...diffExtensions(desired.extensions, live.extensions));
  const { all, open } = schemasOf(desired);
  for (const schema of all) {
    const found = live.schemas.get(schema);
    if (!found) changes.push({ kind: 'create-schema', schema });
    if (open.has(schema) && !found?.usageGranted) changes.push({ kind: 'grant-schema', schema });
  }
  const statements = diffStatements(desired.statements, live, owned, rebuild);
  const made = statements.filter(({ kind }) => kind !== 'drop-statement');
  changes.push(...withTypes(made, diffTypes(desired.types, live)));
  changes.push(...diffSequences(desired.sequences, live.sequences));
  changes.push(...diffPublication(desired, live));
  const unsettled = unsettledColumns(desired, live);
  for (const table of desired.tables) {
    const key = keyOf(table);
    const found = live.tables.get(key);
    const claim = found ? emptyClaim(table) : claimOfNew(table);
    claims.set(key, claim);
    if (!found) {
      changes.push(...newTable(table));
      continue;
    }
    diffTable(
      {
        table,
        live: found,
        key,
        owned: ownedOf(owned, key),
        ownership: owned,
        rebuild,
        serverVersion: live.serverVersion,
        unsettled,
        changes,
        unmanaged,
        claim,
      },
      live.tables,
    );
  }
  for (const key of owned.tables.keys()) {
    const found = live.tables.get(key);
    if (found && !claims.has(key)) changes.push({ kind: 'retire-table', live: found });
  }
  changes.push(...statements.filter(({ kind }) => kind === 'drop-statement'));
  changes.push(...diffRemovedTypes(desired.types, live.types, owned));
  diffFunctions(desired.functions, live.functions, owned, rebuild, changes, unmanaged);
  diffViews(desired.views, live.views, owned, rebuild, changes);
  const hostedClaims = perHost((host) => diffHostedPolicies(host, desired, live, owned, rebuild, changes));
  diffNewUsers(desired.newUsers, live.newUsers, changes);
  const userClaims = diffUserTriggers(desired.userTriggers, live.userTriggers, owned, rebuild, changes);
  return { changes, unmanaged, claims, hostedClaims, userClaims };
}

/** `open`: those in which the API roles find something. Functions that only policies and triggers call need no such right. */
export function schemasOf({ types, sequences, statements, tables, views, functions }: Desired): {
  readonly all: ReadonlySet<string>;
  readonly open: ReadonlySet<string>;
} {
  const served = functions.filter(({ model }) => model.opensSchema);
  const usable = sequences.filter((sequence) => usersOf(sequence).length > 0);
  const open = [
    'public',
    ...[...types, ...usable, ...tables, ...views, ...served].map(({ schema }) => schema),
  ];
  return {
    all: new Set(
      [...open, ...[...sequences, ...statements, ...functions].map(({ schema }) => schema)].filter(
        (schema) => schema !== '',
      ),
    ),
    open: new Set(open),
  };
}

/** A foreign key must be dropped while the type of a column at either end changes, or the key it refers to goes. */
function unsettledColumns(desired: Desired, live: Live): ReadonlySet<string> {
  const columns = new Set<string>();
  for (const table of desired.tables) {
    const found = live.tables.get(keyOf(table));
    if (!found) continue;
    const names = [
      ...table.columns.filter(({ name, type }) => (found.columns.get(name)?.type ?? type) !== type),
      ...keysNotDeclared(table, found).flatMap((key) => key.columns.map((name) => ({ name }))),
    ];
    for (const { name } of names) columns.add(columnKey(table.schema, table.name, name));
  }
  return columns;
}

function emptyClaim(table: DesiredTable): Claim {
  return {
    columns: table.columns.map((column) => column.name),
    constraints: [],
    indexes: [],
    policies: [],
    closed: false,
  };
}

function claimOfNew(table: DesiredTable): Claim {
  const attributes = attributesOf(table);
  return {
    ...emptyClaim(table),
    constraints: [...table.keys, ...table.checks, ...table.exclusions, ...table.foreignKeys].map(
      (one) => one.label,
    ),
    indexes: table.indexes.map((one) => one.label),
    policies: labelled(table, [], table.policies).map((one) => one.label),
    ...(attributes ? { attributes } : {}),
    ...(table.triggers.length > 0 ? { triggers: table.triggers.map((one) => one.label) } : {}),
    ...(listsPartitions(table)
      ? { partitions: table.partitioning?.partitions.map(({ name }) => name) ?? [] }
      : {}),
  };
}

function newTable(table: DesiredTable): Change[] {
  const on = { table, live: null };
  const { onUpdate } = table;
  return [
    { kind: 'create-table', table },
    ...partitionsOfNew(table),
    ...table.keys.map((key): Change => ({ kind: 'add-key', ...on, key })),
    ...table.checks.map((check): Change => ({ kind: 'add-check', ...on, check, replaces: null })),
    ...table.exclusions.map((exclusion): Change => ({ kind: 'add-exclusion', ...on, exclusion })),
    ...table.foreignKeys.map((foreignKey): Change => ({ kind: 'add-foreign-key', ...on, foreignKey })),
    ...table.indexes
      .filter((index) => !repeatsKey(index, table.keys))
      .map((index): Change => ({ kind: 'add-index', ...on, index, holder: null })),
    ...labelled(table, [], table.policies).map((one): Change => ({
      kind: 'create-policy',
      ...on,
      ...one,
      replaces: null,
    })),
    ...(table.rowSecurity ? [{ kind: 'enable-rls', ...on } as const] : []),
    { kind: 'grant-table', ...on, opens: [] },
    ...table.references.map((reference): Change => ({ kind: 'add-reference', ...on, reference })),
    ...table.triggers.map((trigger): Change => ({
      kind: 'set-trigger',
      ...on,
      trigger,
      found: null,
      isRemade: false,
    })),
    ...(onUpdate ? [{ kind: 'set-on-update', ...on, trigger: onUpdate } as const] : []),
    ...commentsOfNew(table),
    ...diffPublished(table, null, NO_OWNED_TABLE),
  ];
}

function commentsOfNew(table: DesiredTable): Change[] {
  return [null, ...table.columns].flatMap((commented): Change[] => {
    const { comment } = (commented ?? table).model;
    return comment === undefined ? [] : [{ kind: 'set-comment', table, live: null, commented, comment }];
  });
}

function diffTable(context: TableDiff, tables: Live['tables']): void {
  diffPartitions(context, tables);
  diffColumns(context);
  diffKeys(context);
  diffChecks(context);
  diffExclusions(context);
  diffForeignKeys(context);
  diffIndexes(context);
  diffPolicies(context);
  const attributes = attributesOf(context.table);
  if (attributes) context.claim.attributes = attributes;
  diffReferences(context);
  diffOnUpdate(context);
  diffComments(context);
  diffStorage(context);
  diffTriggers(context);
  const { table, live, changes } = context;
  if (table.rowSecurity && !live.rowSecurity) changes.push({ kind: 'enable-rls', table, live });
  if (!table.rowSecurity && live.rowSecurity) changes.push({ kind: 'disable-rls', table, live });
  if (live.rowSecurityForced) changes.push({ kind: 'unforce-rls', table, live });
  diffGrants(context);
  const isRekeyed = changes.some(
    (change) => change.kind === 'add-key' && change.table === table && change.key.kind === 'primary',
  );
  changes.push(...diffPublished(table, live, context.owned, isRekeyed));
}
