// Declarations and their live schema without PostgreSQL. The normal form of an expression is its text.
import type { LiveTrigger } from '../../src/migrate/schema/triggers.ts';
import { wantedGrants } from '../../src/migrate/schema/rights/grants.ts';
import { parseConfig } from './parse-config.ts';
import { assignLabels } from '../../src/migrate/diff/policies.ts';
import { trackCall } from '../../src/migrate/diff/references.ts';
import { extractNormalForms, withNormalForms } from '../../src/migrate/normalise/normal-forms.ts';
import { typeResolver } from '../../src/migrate/schema/column-types.ts';
import { toModel } from '../../src/migrate/schema/declared.ts';
import type {
  Desired,
  DesiredFunction,
  DesiredPolicy,
  DesiredTable,
  DesiredType,
} from '../../src/migrate/schema/desired.ts';
import type { Expression } from '../../src/migrate/schema/expression.ts';
import { perHost } from '../../src/migrate/schema/rights/hosts.ts';
import { policyLabel, referenceTriggerLabels } from '../../src/migrate/schema/label.ts';
import { printedCall, type RowTrigger } from '../../src/migrate/schema/row-triggers.ts';
import type {
  Live,
  LiveFunction,
  LivePolicy,
  LiveTable,
  LiveType,
} from '../../src/migrate/schema/live/live-schema.ts';
import type { Ownership } from '../../src/migrate/schema/managed.ts';
import { objectKey } from '../../src/migrate/schema/model.ts';
import { usageRoles } from '../../src/migrate/schema/sequences.ts';
import { attributeValues } from '../../src/migrate/schema/sql/table-attributes.ts';
import { toDesired } from '../../src/migrate/schema/to-desired.ts';

/** Returns the normalised declarations of a file. */
export function declared(yaml: string): Desired {
  const model = toModel(parseConfig(yaml));
  const desired = toDesired(model, typeResolver(model, new Map()), new Set());
  return {
    types: desired.types,
    extensions: desired.extensions,
    sequences: desired.sequences,
    statements: desired.statements,
    tables: desired.tables.map((table) =>
      withNormalForms(table, {
        ...extractNormalForms(table),
        columns: table.columns.map((column) => [
          column.typeSql,
          column.default?.sql ?? null,
          column.model.collate ?? null,
        ]),
        checks: table.checks.map(({ expression }) => expression.sql),
        indexes: table.indexes.map(({ predicate }) => predicate?.sql ?? null),
        policies: table.policies.map(({ using, check }) => [using?.sql ?? null, check?.sql ?? null]),
      }),
    ),
    functions: desired.functions.map((fn) => ({ ...fn, normal: renderSignature(fn) })),
    hosted: perHost((host) =>
      desired.hosted[host].map((policy) => ({
        ...policy,
        using: normalised(policy.using),
        check: normalised(policy.check),
      })),
    ),
    views: desired.views,
    newUsers: desired.newUsers,
    userTriggers: desired.userTriggers,
  };
}

function normalised(expression: Expression | null): Expression | null {
  return expression && { ...expression, normal: expression.sql };
}

function renderSignature({ model }: DesiredFunction): NonNullable<DesiredFunction['normal']> {
  return {
    arguments: model.args.map((arg) => `${arg.name} ${arg.type}`).join(', '),
    argumentTypes: model.args.map((arg) => arg.type),
    argumentNames: model.args.map((arg) => arg.name),
    defaults: model.args.filter((arg) => arg.default !== null || !arg.required).length,
    result: model.returns,
  };
}

/** Returns the live schema after a run with these declarations, with `rows` rows in every table. */
export function liveDatabase(desired: Desired, rows = 0): Live {
  const numbers = new Map<string, number>();
  return {
    types: new Map(desired.types.map((type, n) => [objectKey(type), toLiveType(type, `${n + 2001}`)])),
    tables: new Map(
      desired.tables.map((table, n) => [objectKey(table), toLiveTable(table, rows, `${n + 1}`)]),
    ),
    functions: new Map(
      desired.functions.map((fn, n) => [objectKey(fn), [toLiveFunction(fn, `${n + 1001}`)]]),
    ),
    statements: new Map(),
    sequences: new Map(
      desired.sequences.map((sequence) => [
        objectKey(sequence),
        { ...sequence, usage: usageRoles(sequence), comment: sequence.comment ?? null },
      ]),
    ),
    schemas: new Map(
      ['public', ...desired.tables.map((table) => table.schema)].map((name) => [
        name,
        { name, usageGranted: true },
      ]),
    ),
    hosted: perHost((host) =>
      desired.hosted[host].map((policy) => {
        const kind = `${policy.stem} ${policy.command}`;
        const number = (numbers.get(kind) ?? 0) + 1;
        numbers.set(kind, number);
        return toLivePolicy(policy, policyLabel(policy.stem, number, policy.command));
      }),
    ),
    views: new Map(),
    newUsers: desired.newUsers.map(toLiveTrigger),
    userTriggers: [],
    publication: { generated: true },
    extensions: desired.extensions.map(({ name, schema, version }) => ({
      name,
      schema: schema ?? 'extensions',
      version: version ?? '1.0',
    })),
    serverVersion: 180_000,
  };
}

function toLiveType({ schema, name, model }: DesiredType, oid: string): LiveType {
  const { kind, comment = null } = model;
  const values = model.kind === 'enum' ? model.values : [];
  return { oid, schema, name, kind, values, domain: null, attributes: [], comment, used: true };
}

function toLiveTable(table: DesiredTable, rows: number, oid: string): LiveTable {
  const repeatsKey = (index: DesiredTable['indexes'][number]): boolean =>
    index.unique &&
    index.predicate === null &&
    table.keys.some((key) => key.kind === 'unique' && key.columns.join() === index.columns.join());
  return {
    oid,
    schema: table.schema,
    name: table.name,
    partitioning: null,
    rowSecurity: table.rowSecurity,
    rowSecurityForced: false,
    exclusions: [],
    published: table.model.realtime ? 'whole' : 'no',
    supabasePublication: null,
    replicaIdentity: table.model.realtime?.old === 'full' ? 'full' : 'default',
    ...attributeValues(table.model),
    granted: 'api',
    grants: wantedGrants(table.model.grants),
    grantedToOthers: false,
    estimatedRows: rows,
    bytes: rows * 100,
    comment: table.model.comment ?? null,
    columns: new Map(
      table.columns.map(({ name, type, notNull, serial, generated, collation, ...column }, n) => [
        name,
        {
          name,
          type,
          notNull,
          serial,
          default: column.default?.normal ?? null,
          number: n + 1,
          category: 'S',
          identity: column.model.identity ?? null,
          generated,
          collation,
          comment: column.model.comment ?? null,
          sequence: serial ? `${table.schema}.${table.name}_${name}_seq` : null,
          sequenceUsers: ['anon', 'authenticated', 'service_role'],
          grants: null,
        },
      ]),
    ),
    keys: [...table.keys],
    foreignKeys: table.foreignKeys.map((foreignKey) => ({
      ...foreignKey,
      validated: true,
      enforced: true,
    })),
    checks: table.checks.map(({ label, columns, expression }) => ({
      label,
      columns,
      expression: expression.normal,
      validated: true,
      enforced: true,
    })),
    indexes: table.indexes
      .filter((index) => !repeatsKey(index))
      .map(({ label, columns, plain, unique, predicate, definition }) => ({
        label,
        columns,
        plain,
        unique,
        predicate: predicate?.normal ?? null,
        valid: true,
        definition: definition ?? '',
        keys: null,
      })),
    policies: assignLabels(table, [], table.policies).map(({ policy, label }) => toLivePolicy(policy, label)),
    triggers: [
      ...(table.onUpdate ? [toLiveTrigger(table.onUpdate)] : []),
      ...table.references.flatMap((reference) => {
        const labels = referenceTriggerLabels(reference.column);
        const definition = `… execute function ${trackCall(table, reference)}`;
        return [
          { label: labels.row, definition, ...FIRES },
          { label: labels.truncate, definition: '', ...FIRES },
        ];
      }),
    ],
  };
}

const FIRES = { enabled: true, state: 'O', body: '', comment: null } as const;

function toLiveTrigger(trigger: RowTrigger): LiveTrigger {
  const { label, body, comment } = trigger;
  return { ...FIRES, label, definition: `… ${printedCall(trigger)}`, body, comment };
}

function toLivePolicy(
  { command, roles, permissive, using, check }: DesiredPolicy,
  label: string,
): LivePolicy {
  return {
    label,
    command,
    permissive,
    roles,
    using: using?.normal ?? null,
    check: check?.normal ?? null,
  };
}

function toLiveFunction(fn: DesiredFunction, oid: string): LiveFunction {
  const signature = renderSignature(fn);
  return {
    ...signature,
    oid,
    schema: fn.schema,
    name: fn.name,
    identityArguments: signature.arguments,
    isProcedure: fn.model.kind === 'procedure',
    language: fn.model.language,
    parameters: [],
    strict: fn.model.strict ?? false,
    parallel: 'u',
    cost: 100,
    rows: 0,
    atomic: false,
    volatility: { volatile: 'v', stable: 's', immutable: 'i' }[fn.model.volatility],
    definer: fn.model.definer,
    settings: fn.model.definer ? ['search_path=public, pg_temp'] : [],
    body: fn.body,
    callers: ['anon', 'authenticated', 'service_role'],
  };
}

/** Returns the ownership after a run with these declarations. */
export function ownedAfter(desired: Desired): Ownership {
  const live = liveDatabase(desired);
  return {
    ...NOTHING_OWNED,
    tables: new Map(
      [...live.tables].map(([key, table]) => [
        key,
        {
          columns: [...table.columns.keys()],
          constraints: [...table.keys, ...table.foreignKeys, ...table.checks].map((check) => check.label),
          indexes: table.indexes.map((index) => index.label),
          policies: table.policies.map((policy) => policy.label),
        },
      ]),
    ),
    types: new Set(live.types.keys()),
    functions: new Map(
      [...live.functions].flatMap(([key, [fn]]) => (fn === undefined ? [] : [[key, fn] as const])),
    ),
    extensions: new Set(live.extensions.map((extension) => extension.name)),
    hosted: perHost((host) => new Set(live.hosted[host].map((item) => item.label))),
    views: new Set(live.views.keys()),
  };
}

export const NOTHING_OWNED: Ownership = {
  types: new Set(),
  retiredTypes: new Set(),
  tables: new Map(),
  retiredTables: new Map(),
  retiredColumns: new Set(),
  functions: new Map(),
  retiredFunctions: new Set(),
  hosted: perHost(() => new Set()),
  userTriggers: new Set(),
  extensions: new Set(),
  retiredExtensions: new Set(),
  sequences: new Set(),
  statements: new Map(),
  retiredSequences: new Set(),
  views: new Set(),
};

/** Returns the same live schema with one changed table. */
export function withTable(live: Live, key: string, change: (table: LiveTable) => Partial<LiveTable>): Live {
  const table = live.tables.get(key);
  if (!table) throw new Error(`no table ${key}`);
  return { ...live, tables: new Map([...live.tables, [key, { ...table, ...change(table) }]]) };
}
