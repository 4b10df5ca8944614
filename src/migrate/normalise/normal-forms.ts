// Normal forms: the expressions of a declaration as printed by the server. The migration state stores them with the
// hash of the declaration, so an unchanged declaration is not sent to the server again.
import type { LiveTrigger } from '../schema/triggers.ts';
import type { DesiredIndex } from '../schema/indexes.ts';
import { createHash } from 'node:crypto';
import type { TypeResolver } from '../schema/column-types.ts';
import type { DesiredPolicy, DesiredTable, TypeForm } from '../schema/desired.ts';
import type { Expression } from '../schema/expression.ts';
import type { LivePolicy, LiveTable } from '../schema/live/live-schema.ts';
import type {
  BucketModel,
  FunctionModel,
  PolicyModel,
  TableModel,
  TriggerModel,
  TypeModel,
  ViewModel,
} from '../schema/model.ts';
import type { StatementModel } from '../schema/statements.ts';
import type { DesiredPartitioning, LivePartitioning, PartitioningForm } from '../schema/partitions.ts';
import type { DesiredTrigger } from '../schema/triggers.ts';
import type { ViewForm } from '../schema/views.ts';
import type { Signature } from '../schema/relation.ts';

/**
 * Returns a hash of everything that the normal forms of a table depend on: the declaration, the types of referenced
 * columns, and whether its policies are part of a cycle.
 */
export function hashTable(table: TableModel, resolve: TypeResolver, inCycle: boolean): string {
  return sha256([table, table.columns.map(resolve), inCycle]);
}

export function hashType(type: TypeModel): string {
  return sha256(type);
}

export function hashFunction(fn: FunctionModel): string {
  return sha256(fn);
}

export function hashStatement({ kind, schema, name, create, alter }: StatementModel): string {
  return sha256([kind, schema, name, create, alter]);
}

export function hashView(view: ViewModel): string {
  return sha256(view);
}

export function hashBuckets(buckets: readonly BucketModel[], inCycle: boolean): string {
  return sha256([buckets, inCycle]);
}

export function hashChannels(policies: readonly PolicyModel[]): string {
  return sha256(policies);
}

export function hashTriggers(triggers: readonly TriggerModel[]): string {
  return sha256(triggers);
}

function sha256(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** Normal forms of a table. Lists have the order of the declarations. */
export type NormalForms = {
  /** Type and default, and the collation if the file sets one. */
  readonly columns: ReadonlyArray<readonly [string, string | null, (string | null)?]>;
  readonly checks: readonly string[];
  /** Predicate of a plain index, or the whole printed index. */
  readonly indexes: ReadonlyArray<string | null>;
  readonly policies: PolicyNormalForms;
  /** Whole printed constraints. */
  readonly exclusions?: readonly string[];
  readonly triggers?: TriggerNormalForms;
  readonly partitioning?: PartitioningForm;
};

/** Whole printed triggers. */
export type TriggerNormalForms = readonly string[];

/** USING and WITH CHECK. */
type PolicyNormalForms = ReadonlyArray<readonly [string | null, string | null]>;

/** Normal forms of all policies on a table of svc, which the state stores as one object. */
export type HostedNormalForms = { readonly policies: PolicyNormalForms };

export function extractNormalForms(table: DesiredTable): NormalForms {
  return {
    columns: table.columns.map(({ type, default: value, collateSql, collation }) =>
      columnForm(type, value?.normal ?? null, collateSql, collation),
    ),
    checks: table.checks.map((check) => check.expression.normal),
    indexes: table.indexes.map((index) => (index.plain ? index.predicate?.normal : index.definition) ?? null),
    policies: policyNormalForms(table.policies),
    ...(table.exclusions.length > 0
      ? { exclusions: table.exclusions.map(({ definition }) => definition) }
      : {}),
    ...(table.triggers.length > 0 ? { triggers: triggerNormalForms(table.triggers) } : {}),
    ...(table.partitioning === null ? {} : { partitioning: partitioningForm(table.partitioning) }),
  };
}

function partitioningForm({ normal, partitions }: DesiredPartitioning): PartitioningForm {
  return {
    key: normal,
    partitions: partitions.map(({ values, by }) => [values.normal, by?.normal ?? null]),
  };
}

function readPartitioningForm(
  { partitions }: DesiredPartitioning,
  built: LivePartitioning | null,
): PartitioningForm {
  const found = new Map(built?.partitions.map((livePartition) => [livePartition.name, livePartition]));
  return {
    key: built?.key ?? '',
    partitions: partitions.map(({ name }) => {
      const livePartition = found.get(name);
      return [livePartition?.bound ?? '', livePartition?.by?.key ?? null];
    }),
  };
}

function withPartitioningForm(
  partitioning: DesiredPartitioning,
  form: PartitioningForm | undefined,
): DesiredPartitioning {
  return {
    ...partitioning,
    normal: form?.key ?? '',
    partitions: partitioning.partitions.map((partition, n) => {
      const [bound, key] = form?.partitions[n] ?? ['', null];
      return {
        ...partition,
        values: withNormal(partition.values, bound),
        by: partition.by && { ...partition.by, normal: key ?? '' },
      };
    }),
  };
}

function columnForm(
  type: string,
  value: string | null,
  collateSql: string,
  collation: string | null,
): NormalForms['columns'][number] {
  return collateSql === '' ? [type, value] : [type, value, collation];
}

export function policyNormalForms(policies: readonly DesiredPolicy[]): PolicyNormalForms {
  return policies.map((policy) => [policy.using?.normal ?? null, policy.check?.normal ?? null]);
}

/** Labels of the indexes, exclusions and policies in the shadow schema. */
export type BuiltLabels = {
  readonly index: (index: DesiredIndex, position: number) => string;
  readonly exclusions: readonly string[];
  readonly policies: readonly string[];
};

/** Reads the normal forms of a declared table from the table in the shadow schema. */
export function readNormalForms(table: DesiredTable, built: LiveTable, labels: BuiltLabels): NormalForms {
  const indexes = new Map(built.indexes.map((index) => [index.label, index]));
  const checks = new Map(built.checks.map((check) => [check.label, check]));
  return {
    columns: table.columns.map(({ name, collateSql }) => {
      const column = built.columns.get(name);
      return columnForm(column?.type ?? '', column?.default ?? null, collateSql, column?.collation ?? null);
    }),
    checks: table.checks.map(({ label }) => checks.get(label)?.expression ?? ''),
    indexes: table.indexes.map((index, n) => {
      const found = indexes.get(labels.index(index, n));
      return (index.plain ? found?.predicate : found?.definition) ?? null;
    }),
    policies: readPolicyNormalForms(built.policies, labels.policies),
    ...(table.exclusions.length > 0
      ? {
          exclusions: labels.exclusions.map(
            (label) => built.exclusions.find((exclusion) => exclusion.label === label)?.definition ?? '',
          ),
        }
      : {}),
    ...(table.triggers.length > 0
      ? { triggers: readTriggerNormalForms(table.triggers, built.triggers) }
      : {}),
    ...(table.partitioning === null
      ? {}
      : { partitioning: readPartitioningForm(table.partitioning, built.partitioning) }),
  };
}

export function readPolicyNormalForms(
  built: readonly LivePolicy[],
  labels: readonly string[],
): PolicyNormalForms {
  const policies = new Map(built.map((policy) => [policy.label, policy]));
  return labels.map((label) => {
    const policy = policies.get(label);
    return [policy?.using ?? null, policy?.check ?? null];
  });
}

export function withNormalForms(table: DesiredTable, forms: NormalForms): DesiredTable {
  return {
    ...table,
    columns: table.columns.map((column, n) => {
      const [type, text, collation = null] = forms.columns[n] ?? ['', undefined];
      return { ...column, type, collation, default: withStored(column.default, text) };
    }),
    checks: table.checks.map((check, n) => ({
      ...check,
      expression: withNormal(check.expression, forms.checks[n]),
    })),
    indexes: table.indexes.map((index, n) =>
      index.plain
        ? { ...index, predicate: withStored(index.predicate, forms.indexes[n]) }
        : { ...index, definition: forms.indexes[n] ?? null },
    ),
    policies: withPolicyNormalForms(table.policies, forms.policies),
    exclusions: table.exclusions.map((exclusion, n) => ({
      ...exclusion,
      definition: forms.exclusions?.[n] ?? '',
    })),
    triggers: withTriggerNormalForms(table.triggers, forms.triggers ?? []),
    partitioning: table.partitioning && withPartitioningForm(table.partitioning, forms.partitioning),
  };
}

export function withPolicyNormalForms<P extends DesiredPolicy>(
  policies: readonly P[],
  forms: PolicyNormalForms,
): P[] {
  return policies.map((policy, n) => {
    const [using, check] = forms[n] ?? [null, null];
    return {
      ...policy,
      using: policy.using && withNormal(policy.using, using),
      check: policy.check && withNormal(policy.check, check),
    };
  });
}

export function triggerNormalForms(triggers: readonly DesiredTrigger[]): TriggerNormalForms {
  return triggers.map((trigger) => trigger.definition);
}

export function readTriggerNormalForms(
  triggers: readonly DesiredTrigger[],
  built: readonly LiveTrigger[],
): TriggerNormalForms {
  return triggers.map(({ label }) => built.find((trigger) => trigger.label === label)?.definition ?? '');
}

export function withTriggerNormalForms(
  triggers: readonly DesiredTrigger[],
  forms: TriggerNormalForms,
): DesiredTrigger[] {
  return triggers.map((trigger, n) => ({ ...trigger, definition: forms[n] ?? '' }));
}

/**
 * Returns null where the server stores nothing for the expression: a default that is a null constant, a predicate that
 * is always true.
 */
function withStored(expression: Expression | null, text: string | null | undefined): Expression | null {
  return text === null ? null : expression && withNormal(expression, text);
}

function withNormal(expression: Expression, text: string | null | undefined): Expression {
  return { ...expression, normal: text ?? '' };
}

export function sameNormalForms(a: NormalForms, b: NormalForms): boolean {
  return (
    ['columns', 'checks', 'exclusions', 'indexes', 'partitioning', 'policies', 'triggers'] as const
  ).every((part) => JSON.stringify(a[part]) === JSON.stringify(b[part]));
}

// The type guards below check values that an earlier version may have stored.

export function isNormalForms(value: unknown): value is NormalForms {
  return isHostedNormalForms(value) && 'columns' in value;
}

export function isHostedNormalForms(value: unknown): value is HostedNormalForms {
  return typeof value === 'object' && value !== null && 'policies' in value;
}

export function isTriggerNormalForms(value: unknown): value is TriggerNormalForms {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

export function isViewForm(value: unknown): value is ViewForm {
  return typeof value === 'object' && value !== null && 'definition' in value && 'reads' in value;
}

export function sameTypeForm(a: TypeForm, b: TypeForm | null): boolean {
  const parts = (form: TypeForm | null): unknown => {
    if (form?.kind === 'domain') return [form.base, form.default, form.collation, form.checks];
    return form?.kind === 'composite' ? form.attributes.map(({ name, type }) => [name, type]) : [];
  };
  return a.kind === b?.kind && JSON.stringify(parts(a)) === JSON.stringify(parts(b));
}

export function isTypeForm(value: unknown): value is TypeForm {
  return typeof value === 'object' && value !== null && 'kind' in value;
}

export function isSignature(value: unknown): value is Signature {
  return typeof value === 'object' && value !== null && 'argumentTypes' in value && 'result' in value;
}
