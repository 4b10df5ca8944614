// Compares the desired with the live schema and returns the changes. It reads nothing from the database. Whether a
// change is safe is checked later.
import type { Change } from './change.ts';
import { columnKey, type Desired, type DesiredTable } from '../schema/desired.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { perHost, type PerHost } from '../schema/rights/hosts.ts';
import { objectKey } from '../schema/model.ts';
import { plainOrQuoted } from '../../postgres/sql.ts';
import { usageRoles } from '../schema/sequences.ts';
import { NO_OWNED_TABLE, ownedTable, type OwnedTable, type Ownership } from '../schema/managed.ts';
import { declaredAttributes, diffComments, diffAttributes } from './attributes.ts';
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
import { diffHostedPolicies, diffPolicies, assignLabels } from './policies.ts';
import { diffPartitions, listsPartitions, newTablePartitions } from './partitions.ts';
import { diffPublication, diffPublished } from './publication.ts';
import { diffReferences } from './references.ts';
import { diffSequences } from './objects/sequences.ts';
import { diffStatements, insertTypeChanges } from './objects/statements.ts';
import { diffTriggers, diffUserTriggers } from './triggers.ts';
import { diffNewUsers, diffOnUpdate } from './row-triggers.ts';
import { diffRemovedTypes, diffTypes } from './types.ts';
import { diffViews } from './views.ts';
import type { Claim, Rebuild, TableDiff, Unmanaged } from './table-diff.ts';

export type Difference = {
  readonly changes: readonly Change[];
  readonly unmanaged: readonly Unmanaged[];
  /** Keyed by `schema.table`. */
  readonly claims: ReadonlyMap<string, OwnedTable>;
  /** Labels of the file's policies on tables of svc. */
  readonly hostedClaims: PerHost<readonly string[]>;
  /** Labels of the file's triggers on auth.users. */
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
  const { all, open } = requiredSchemas(desired);
  for (const schema of all) {
    const found = live.schemas.get(schema);
    if (!found) changes.push({ kind: 'create-schema', schema });
    if (open.has(schema) && !found?.usageGranted) changes.push({ kind: 'grant-schema', schema });
  }
  const statements = diffStatements(desired.statements, live, owned, rebuild);
  const made = statements.filter(({ kind }) => kind !== 'drop-statement');
  changes.push(...insertTypeChanges(made, diffTypes(desired.types, live)));
  changes.push(...diffSequences(desired.sequences, live.sequences));
  changes.push(...diffPublication(desired, live));
  const changingColumns = findChangingColumns(desired, live);
  const enums = enumTypeNames(desired);
  for (const table of desired.tables) {
    const key = objectKey(table);
    const found = live.tables.get(key);
    const claim = found ? emptyClaim(table) : newTableClaim(table);
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
        owned: ownedTable(owned, key),
        ownership: owned,
        rebuild,
        serverVersion: live.serverVersion,
        changingColumns,
        enums,
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

/**
 * Returns all declared schemas. `open`: schemas on which the API roles need USAGE. Functions that only policies and
 * triggers call do not count.
 */
export function requiredSchemas({ types, sequences, statements, tables, views, functions }: Desired): {
  readonly all: ReadonlySet<string>;
  readonly open: ReadonlySet<string>;
} {
  const served = functions.filter(({ model }) => model.opensSchema);
  const usable = sequences.filter((sequence) => usageRoles(sequence).length > 0);
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

function enumTypeNames({ types }: Desired): ReadonlySet<string> {
  const enums = types.filter(({ model }) => model.kind === 'enum');
  return new Set(enums.map(({ schema, name }) => `${plainOrQuoted(schema)}.${plainOrQuoted(name)}`));
}

/**
 * Returns the columns that change their type or lose their key, as `schema.table.column`. Foreign keys on these columns
 * are dropped and added again.
 */
function findChangingColumns(desired: Desired, live: Live): ReadonlySet<string> {
  const columns = new Set<string>();
  for (const table of desired.tables) {
    const found = live.tables.get(objectKey(table));
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

function newTableClaim(table: DesiredTable): Claim {
  const attributes = declaredAttributes(table);
  return {
    ...emptyClaim(table),
    constraints: [...table.keys, ...table.checks, ...table.exclusions, ...table.foreignKeys].map(
      (constraint) => constraint.label,
    ),
    indexes: table.indexes.map((index) => index.label),
    policies: assignLabels(table, [], table.policies).map((policy) => policy.label),
    ...(attributes ? { attributes } : {}),
    ...(table.triggers.length > 0 ? { triggers: table.triggers.map((trigger) => trigger.label) } : {}),
    ...(listsPartitions(table)
      ? { partitions: table.partitioning?.partitions.map(({ name }) => name) ?? [] }
      : {}),
  };
}

function newTable(table: DesiredTable): Change[] {
  const base = { table, live: null };
  const { onUpdate } = table;
  return [
    { kind: 'create-table', table },
    ...newTablePartitions(table),
    ...table.keys.map((key): Change => ({ kind: 'add-key', ...base, key })),
    ...table.checks.map((check): Change => ({ kind: 'add-check', ...base, check, replaces: null })),
    ...table.exclusions.map((exclusion): Change => ({ kind: 'add-exclusion', ...base, exclusion })),
    ...table.foreignKeys.map((foreignKey): Change => ({ kind: 'add-foreign-key', ...base, foreignKey })),
    ...table.indexes
      .filter((index) => !repeatsKey(index, table.keys))
      .map((index): Change => ({ kind: 'add-index', ...base, index, holder: null })),
    ...assignLabels(table, [], table.policies).map((labelledPolicy): Change => ({
      kind: 'create-policy',
      ...base,
      ...labelledPolicy,
      replaces: null,
    })),
    ...(table.rowSecurity ? [{ kind: 'enable-rls', ...base } as const] : []),
    { kind: 'grant-table', ...base, opens: [] },
    ...table.references.map((reference): Change => ({ kind: 'add-reference', ...base, reference })),
    ...table.triggers.map((trigger): Change => ({
      kind: 'set-trigger',
      ...base,
      trigger,
      found: null,
      isRemade: false,
    })),
    ...(onUpdate ? [{ kind: 'set-on-update', ...base, trigger: onUpdate } as const] : []),
    ...newTableComments(table),
    ...diffPublished(table, null, NO_OWNED_TABLE),
  ];
}

function newTableComments(table: DesiredTable): Change[] {
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
  const attributes = declaredAttributes(context.table);
  if (attributes) context.claim.attributes = attributes;
  diffReferences(context);
  diffOnUpdate(context);
  diffComments(context);
  diffAttributes(context);
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
