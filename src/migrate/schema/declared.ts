// Converts the configuration to the model, and finds the position of each declaration in the file. The file is long,
// because it has one function per kind of declaration.
import type {
  Config,
  DataStep,
  Extension,
  Field,
  Index,
  KeptPartitions,
  Partition,
  Policy,
  SqlFunction,
  Table,
  TableTrigger,
  UserTrigger,
  View,
  ViewTrigger,
} from '../../config/config.ts';
import { isListed } from '../../config/schema/tables/partitions.ts';
import type { Position } from '../../config/mistakes/mistake.ts';
import { toGrants } from './rights/grants.ts';
import {
  type ColumnModel,
  type DataStepModel,
  type ExtensionModel,
  type FunctionModel,
  type IndexModel,
  type IndexPart,
  type PartitionSchedule,
  type PartitioningModel,
  type PartitionModel,
  type PolicyModel,
  type SchemaModel,
  type TableModel,
  type TriggerModel,
  type ViewModel,
  DEFAULT_COST,
  DEFAULT_ROWS,
} from './model.ts';
import { toConstraint } from './constraints.ts';
import { toDefaultModel } from './sql/default-sql.ts';
import { toSequenceModel } from './sequences.ts';
import { fileAttributes } from './sql/table-attributes.ts';
import { toStatementModel } from './statements.ts';
import { toTypeModel, typeNameResolver } from './types.ts';

type Declared = Pick<
  Config,
  'extensions' | 'types' | 'sequences' | 'statements' | 'tables' | 'views' | 'storage' | 'rpc'
> & {
  readonly auth: Pick<Config['auth'], 'triggers'>;
  readonly migrations?: Pick<Config['migrations'], 'steps'>;
  readonly realtime?: Pick<Config['realtime'], 'rls'>;
};

export type SchemaConfig = Declared & Pick<Config, 'source'>;

/** Returns the position of the nearest declaration that contains a path, such as `svc.yaml:41:9`, or null. */
export type Locate = (path: string) => string | null;

export function toModel(config: Declared): SchemaModel {
  const typeName = typeNameResolver(config.types);
  return {
    ...(config.extensions.length === 0 ? {} : { extensions: config.extensions.map(toExtension) }),
    ...(config.types.length === 0 ? {} : { types: config.types.map((type) => toTypeModel(type, typeName)) }),
    ...(config.sequences.length === 0 ? {} : { sequences: config.sequences.map(toSequenceModel) }),
    ...(config.statements.length === 0 ? {} : { statements: config.statements.map(toStatementModel) }),
    tables: config.tables.map((table) => toTable(table, typeName)),
    functions: config.rpc.map((fn) => toFunction(fn, typeName)),
    buckets: config.storage.map((bucket) => ({
      name: bucket.name,
      policies: bucket.rls.map((policy, index) => toPolicy(policy, `storage.${bucket.name}.rls[${index}]`)),
      at: `storage.${bucket.name}`,
    })),
    ...(channelPolicies(config).length === 0
      ? {}
      : { channels: channelPolicies(config).map(toChannelPolicy) }),
    ...(config.auth.triggers.length === 0
      ? {}
      : {
          userTriggers: config.auth.triggers.map((trigger, n) => toTrigger(trigger, `auth.triggers[${n}]`)),
        }),
    ...(config.views.length === 0 ? {} : { views: config.views.map(toView) }),
    ...(declaredSteps(config).length === 0 ? {} : { dataSteps: declaredSteps(config).map(toDataStep) }),
  };
}

export function createLocator(config: SchemaConfig): Locate {
  const positions = collectPositions(config);
  // Positions of a table are collected on demand, because a plan needs the positions of few tables.
  const pending = new Map(config.tables.map((table) => [tablePath(table), table]));
  const positionAt = (path: string): Position | undefined => {
    const table = pending.get(path);
    if (table && pending.delete(path)) addTablePositions(positions, table);
    return positions.get(path);
  };
  return (path) => {
    // Look up the longer prefix last: the shorter prefix collects the positions of its table, and the last hit is
    // nearest.
    let nearest: Position | undefined;
    for (let end = path.indexOf('.'); end >= 0; end = path.indexOf('.', end + 1))
      nearest = positionAt(path.slice(0, end)) ?? nearest;
    nearest = positionAt(path) ?? nearest;
    return nearest ? `${nearest.file ?? config.source.name}:${nearest.line}:${nearest.column}` : null;
  };
}

function addTablePositions(positions: Map<string, Position>, table: Table): void {
  const at = tablePath(table);
  positions.set(at, table.position);
  if (table.onNewUser) positions.set(`${at}.on_new_user`, table.onNewUser.position);
  for (const field of table.fields) positions.set(`${at}.fields.${field.name}`, field.position);
  table.triggers.forEach((trigger, n) => positions.set(`${at}.triggers[${n}]`, trigger.position));
  table.constraints.forEach((constraint, n) => positions.set(`${at}.constraints[${n}]`, constraint.position));
  table.indexes.forEach((index, n) => positions.set(`${at}.indexes[${n}]`, index.position));
  if (table.partitions && isListed<Partition>(table.partitions))
    table.partitions.forEach((partition, n) => positions.set(`${at}.partitions[${n}]`, partition.position));
  if (typeof table.rls === 'string') return;
  table.rls.forEach((policy, n) => positions.set(`${at}.rls[${n}]`, policy.position));
}

/** Returns the positions of all declarations except tables. */
function collectPositions(config: SchemaConfig): Map<string, Position> {
  const positions = new Map<string, Position>(
    config.types.map((type) => [`types.${type.name}`, type.position]),
  );
  for (const { name, position } of config.sequences) positions.set(`sequences.${name}`, position);
  for (const { name, position } of config.statements) positions.set(`statements.${name}`, position);
  for (const extension of config.extensions) positions.set(extensionPath(extension), extension.position);
  for (const bucket of config.storage) {
    positions.set(`storage.${bucket.name}`, bucket.position);
    bucket.rls.forEach((policy, n) => positions.set(`storage.${bucket.name}.rls[${n}]`, policy.position));
  }
  channelPolicies(config).forEach((policy, n) => positions.set(`realtime.rls[${n}]`, policy.position));
  config.auth.triggers.forEach((trigger, n) => positions.set(`auth.triggers[${n}]`, trigger.position));
  for (const step of declaredSteps(config)) positions.set(dataStepPath(step), step.position);
  for (const view of config.views) {
    positions.set(`views.${view.name}`, view.position);
    view.triggers.forEach((trigger, n) =>
      positions.set(`views.${view.name}.triggers[${n}]`, trigger.position),
    );
    view.indexes.forEach((index, n) => positions.set(`views.${view.name}.indexes[${n}]`, index.position));
  }
  for (const fn of config.rpc) positions.set(`rpc.${fn.key}`, fn.position);
  return positions;
}

function channelPolicies({ realtime }: Pick<Declared, 'realtime'>): readonly Policy[] {
  return realtime?.rls ?? [];
}

function toChannelPolicy(policy: Policy, index: number): PolicyModel {
  return toPolicy(policy, `realtime.rls[${index}]`);
}

function declaredSteps({ migrations }: Pick<Declared, 'migrations'>): readonly DataStep[] {
  return migrations?.steps ?? [];
}

function dataStepPath({ name }: DataStep): string {
  return `migrations.steps.${name}`;
}

function toDataStep(step: DataStep): DataStepModel {
  const { name, sql, file = null, after, onEmpty, timeoutMs, batch, undo } = step;
  const same = { name, sql, file, after, onEmpty, timeoutMs, at: dataStepPath(step) };
  return {
    ...same,
    ...(batch === undefined ? {} : { batch }),
    ...(undo === undefined ? {} : { undo: { sql: undo.sql, file: undo.file ?? null } }),
  };
}

function extensionPath({ name }: Extension): string {
  return `extensions.${name}`;
}

function toExtension(extension: Extension): ExtensionModel {
  const { name, schema = null, version = null, cascade } = extension;
  return { name, schema, version, cascade, at: extensionPath(extension) };
}

function tablePath(table: Table): string {
  return `tables.${table.name}`;
}

/** Returns the qualified name of a type. */
type TypeName = (written: string) => string;

function toTable(table: Table, typeName: TypeName): TableModel {
  const at = tablePath(table);
  return {
    schema: table.schema,
    name: table.name,
    renamedFrom: table.renamedFrom ?? null,
    protect: table.protect,
    rls:
      typeof table.rls === 'string'
        ? table.rls
        : table.rls.map((policy, n) => toPolicy(policy, `${at}.rls[${n}]`)),
    columns: table.fields.map((field) => toColumn(field, typeName, `${at}.fields.${field.name}`)),
    indexes: table.indexes.map((index, n) => toIndex(index, `${at}.indexes[${n}]`)),
    ...(table.grants === undefined ? {} : { grants: toGrants(table.grants) }),
    ...(table.onNewUser === undefined
      ? {}
      : {
          onNewUser: {
            set: table.onNewUser.set,
            when: table.onNewUser.when ?? null,
            at: `${at}.on_new_user`,
          },
        }),
    ...(table.comment === undefined ? {} : { comment: table.comment }),
    ...(table.constraints.length === 0
      ? {}
      : {
          constraints: table.constraints.map((constraint, n) =>
            toConstraint(constraint, `${at}.constraints[${n}]`),
          ),
        }),
    ...(table.triggers.length === 0
      ? {}
      : { triggers: table.triggers.map((trigger, n) => toTrigger(trigger, `${at}.triggers[${n}]`)) }),
    ...(table.realtime === undefined ? {} : { realtime: { old: table.realtime.old } }),
    ...fileAttributes(table),
    ...toPartitioning(table, at),
    at,
  };
}

function toPartitioning(
  { partitionBy, partitions }: Table,
  at: string,
): { readonly partitioning?: PartitioningModel } {
  if (partitionBy === undefined) return {};
  const toPartitions = (listed: Partitions): PartitioningModel['partitions'] => {
    if (listed === undefined) return null;
    return isListed<Partition>(listed)
      ? listed.map((partition, n) => toPartition(partition, `${at}.partitions[${n}]`))
      : toSchedule(listed);
  };
  return { partitioning: { key: partitionBy, partitions: toPartitions(partitions) } };
}

type Partitions = Table['partitions'];

function toPartition(partition: Omit<Partition, 'position'>, at: string): PartitionModel {
  const { name, values, partitionBy: by, partitions = [] } = partition;
  return {
    name,
    values: values.trim(),
    ...(by === undefined ? {} : { by }),
    ...(partitions.length === 0
      ? {}
      : {
          partitions: partitions.map((part, n) => ({
            name: part.name,
            values: part.values.trim(),
            at: `${at}.partitions[${n}]`,
          })),
        }),
    at,
  };
}

/** Returns the tables whose partitions svc creates on a schedule. */
export function scheduledTables(config: Pick<Declared, 'tables'>): ScheduledTable[] {
  return config.tables.flatMap(({ schema, name, partitions }) =>
    partitions === undefined || isListed<Partition>(partitions)
      ? []
      : [{ schema, name, schedule: toSchedule(partitions) }],
  );
}

export type ScheduledTable = {
  readonly schema: string;
  readonly name: string;
  readonly schedule: PartitionSchedule;
};

function toSchedule({ every, ahead, keep, from }: KeptPartitions): PartitionSchedule {
  return { every, ahead, keep: keep ?? null, from: from ?? null };
}

function toColumn(field: Field, typeName: TypeName, at: string): ColumnModel {
  return {
    name: field.name,
    type: field.type === undefined ? null : typeName(field.type),
    primaryKey: field.primaryKey,
    required: field.required,
    unique: field.unique,
    default: field.default === undefined ? null : toDefaultModel(field.default),
    enum: field.enum ?? null,
    pattern: field.pattern ?? null,
    min: field.min ?? null,
    max: field.max ?? null,
    check: field.check ?? null,
    foreignKey: field.foreignKey ?? null,
    ref: field.ref ? { bucket: field.ref.bucket, cascade: field.ref.onDelete === 'cascade' } : null,
    renamedFrom: field.renamedFrom ?? null,
    backfill: field.backfill ?? null,
    using: field.using ?? null,
    ...(field.onUpdate === undefined ? {} : { onUpdate: field.onUpdate }),
    ...(field.generated === undefined ? {} : { generated: field.generated }),
    ...(field.identity === undefined ? {} : { identity: field.identity }),
    ...(field.collate === undefined ? {} : { collate: field.collate }),
    ...(field.comment === undefined ? {} : { comment: field.comment }),
    at,
  };
}

function toIndex(index: Index, at: string): IndexModel {
  return {
    name: index.name ?? null,
    columns: index.columns.map(toIndexPart),
    unique: index.unique,
    where: index.where ?? null,
    ...(index.using === undefined || index.using === 'btree' ? {} : { using: index.using }),
    ...(index.include === undefined ? {} : { include: index.include }),
    ...(index.with === undefined ? {} : { with: index.with }),
    ...(index.nullsNotDistinct ? { nullsNotDistinct: true } : {}),
    at,
  };
}

function toIndexPart(part: Index['columns'][number]): IndexPart {
  if (typeof part === 'string') return part;
  const { order, nulls, ...rest } = part;
  // Without NULLS FIRST or NULLS LAST, a descending index puts nulls first.
  const defaultNulls = order === 'desc' ? 'first' : 'last';
  const more = {
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    ...(order === 'desc' ? { order } : {}),
    ...(nulls === undefined || nulls === defaultNulls ? {} : { nulls }),
  };
  return part.column !== undefined && Object.keys(more).length === 1 ? part.column : more;
}

const EVENTS = ['insert', 'update', 'delete', 'truncate'] as const;

function toTrigger(trigger: TableTrigger | UserTrigger | ViewTrigger, at: string): TriggerModel {
  const { name, timing, events, of, when, call, args } = trigger;
  const enabled = 'enabled' in trigger ? trigger.enabled : undefined;
  const named: readonly string[] = events;
  const more = 'oldTable' in trigger ? trigger : undefined;
  return {
    name: name ?? null,
    timing,
    events: EVENTS.filter((event) => named.includes(event)),
    ...(of === undefined ? {} : { of }),
    ...('each' in trigger && trigger.each === 'statement' ? { each: 'statement' } : {}),
    when: when ?? null,
    call: toCall(call),
    ...(args === undefined ? {} : { args }),
    ...(more?.oldTable === undefined ? {} : { oldTable: more.oldTable }),
    ...(more?.newTable === undefined ? {} : { newTable: more.newTable }),
    ...(more?.constraint === undefined ? {} : { constraint: more.constraint.deferrable }),
    ...(enabled === undefined || enabled === 'true'
      ? {}
      : { enabled: enabled === 'false' ? 'disabled' : enabled }),
    at,
  };
}

function toCall(call: string): TriggerModel['call'] {
  const dot = call.indexOf('.');
  return dot === -1
    ? { schema: 'public', name: call }
    : { schema: call.slice(0, dot), name: call.slice(dot + 1) };
}

function toPolicy(policy: Policy, at: string): PolicyModel {
  return {
    name: policy.name ?? null,
    operations: policy.operations,
    ...(policy.to === undefined ? {} : { to: [...new Set(policy.to)].sort() }),
    permissive: policy.type === 'permissive',
    using: policy.using ?? null,
    withCheck: policy.withCheck ?? null,
    check: policy.check ?? null,
    at,
  };
}

function toView(view: View): ViewModel {
  return {
    schema: view.schema,
    name: view.name,
    renamedFrom: view.renamedFrom ?? null,
    query: view.query,
    definer: view.security === 'definer' || view.materialized,
    exposed: view.expose,
    ...(view.materialized ? { materialized: true } : {}),
    ...(view.indexes.length === 0
      ? {}
      : { indexes: view.indexes.map((index, n) => toIndex(index, `views.${view.name}.indexes[${n}]`)) }),
    ...(view.triggers.length === 0
      ? {}
      : {
          triggers: view.triggers.map((trigger, n) =>
            toTrigger(trigger, `views.${view.name}.triggers[${n}]`),
          ),
        }),
    ...(view.barrier ? { barrier: true } : {}),
    ...(view.checkOption === undefined ? {} : { checkOption: view.checkOption }),
    ...(view.comment === undefined ? {} : { comment: view.comment }),
    ...(view.grants === undefined
      ? {}
      : {
          grants: Object.fromEntries(
            Object.entries(view.grants)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map(([role, privileges]) => [role, [...new Set(privileges)].sort()]),
          ),
        }),
    at: `views.${view.name}`,
  };
}

function toFunction(fn: SqlFunction, typeName: TypeName): FunctionModel {
  const execute = fn.execute?.toSorted() ?? (fn.expose ? undefined : []);
  return {
    schema: fn.schema,
    name: fn.name,
    ...(fn.key === fn.name ? {} : { key: fn.key }),
    renamedFrom: fn.renamedFrom ?? null,
    language: fn.language,
    volatility: fn.volatility,
    definer: fn.security === 'definer',
    args: fn.args.map((arg) => ({
      name: arg.name ?? '',
      type: typeName(arg.type),
      ...(arg.mode === undefined || arg.mode === 'in' ? {} : { mode: arg.mode }),
      required: arg.required,
      default: arg.default === undefined ? null : toDefaultModel(arg.default),
      ...(arg.renamedFrom === undefined ? {} : { renamedFrom: arg.renamedFrom }),
    })),
    returns: typeName(fn.returns),
    ...(fn.kind === 'procedure' ? { kind: fn.kind } : {}),
    ...(fn.strict === true ? { strict: true } : {}),
    ...(fn.parallel === undefined || fn.parallel === 'unsafe' ? {} : { parallel: fn.parallel }),
    ...(fn.cost === undefined || fn.cost === DEFAULT_COST ? {} : { cost: fn.cost }),
    ...(fn.rows === undefined || fn.rows === DEFAULT_ROWS ? {} : { rows: fn.rows }),
    body: fn.body,
    ...(fn.atomic === true ? { atomic: true } : {}),
    ...(execute === undefined ? {} : { execute }),
    ...(!fn.expose && execute !== undefined && execute.length > 0 ? { hidden: true } : {}),
    ...(fn.expose && fn.schema !== 'public' ? { opensSchema: true } : {}),
    ...(fn.settings === undefined ? {} : { settings: fn.settings }),
    at: `rpc.${fn.key}`,
  };
}
