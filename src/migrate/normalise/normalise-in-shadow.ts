// Reads the normal forms of declarations through the shadow schema.
import type { Queryable } from '../../postgres/owner-database.ts';
import type { Desired, DesiredFunction, DesiredTable, DesiredType, TypeForm } from '../schema/desired.ts';
import type { LiveTable, LiveType } from '../schema/live/live-schema.ts';
import { objectKey } from '../schema/model.ts';
import { perHost } from '../schema/rights/hosts.ts';
import type { DesiredView } from '../schema/views.ts';
import {
  readNormalForms,
  readPolicyNormalForms,
  readTriggerNormalForms,
  withNormalForms,
  withPolicyNormalForms,
  withTriggerNormalForms,
} from './normal-forms.ts';
import { rejectDuplicateOverloads } from './shadow/overloads.ts';
import { readThroughShadow } from './shadow/read-through-shadow.ts';
import {
  domainCheckName,
  exclusionLabel,
  indexLabel,
  policyLabel,
  viewIndexLabel,
} from './shadow/shadow-names.ts';
import type { ShadowResult } from './shadow/shadow.ts';

/** Returns the declarations with their normal forms. */
export async function normaliseInShadow(
  session: Queryable,
  desired: Desired,
  schemas: readonly string[],
  live: ReadonlyMap<string, LiveTable>,
): Promise<Desired> {
  const tables = desired.tables.map((table) => ({
    ...inLiveOrder(table, live.get(objectKey(table))),
    options: table.model.with,
  }));
  const result = await readThroughShadow(session, { ...desired, tables }, schemas);
  rejectDuplicateOverloads(desired.functions, result.marks);
  return {
    types: desired.types.map((type) => {
      const built = result.types.get(objectKey(type));
      return built ? { ...type, normal: toTypeForm(type, built) } : type;
    }),
    tables: desired.tables.map((table, number) => {
      const built = result.tables.get(objectKey(table));
      if (!built) return table;
      const labels = {
        index: (_index: unknown, position: number) => indexLabel(number, position),
        exclusions: table.exclusions.map((_one, position) => exclusionLabel(number, position)),
        policies: table.policies.map((_policy, index) => policyLabel(index)),
      };
      return withNormalForms(table, readNormalForms(table, built, labels));
    }),
    extensions: desired.extensions,
    sequences: desired.sequences,
    statements: desired.statements.map((statement, n) => ({
      ...statement,
      normal: result.statements.get(n) ?? null,
    })),
    functions: desired.functions.map((fn) => withSignature(fn, result)),
    views: desired.views.map((view, number) => withForm(view, number, result)),
    newUsers: desired.newUsers,
    userTriggers: withTriggerNormalForms(
      desired.userTriggers,
      readTriggerNormalForms(desired.userTriggers, result.userTriggers),
    ),
    hosted: perHost((host) => {
      const labels = desired.hosted[host].map((_policy, index) => policyLabel(index));
      return withPolicyNormalForms(desired.hosted[host], readPolicyNormalForms(result.hosted[host], labels));
    }),
  };
}

/** Sorts columns in the order of the database and of the plan, which determines `select *`. */
function inLiveOrder(table: DesiredTable, live: LiveTable | undefined): DesiredTable {
  if (!live) return table;
  const rank = ({ name, default: value }: DesiredTable['columns'][number]): number =>
    live.columns.get(name)?.number ?? (value === null ? 10_000 : 10_001);
  return { ...table, columns: table.columns.toSorted((a, b) => rank(a) - rank(b)) };
}

function withForm(view: DesiredView, number: number, { views, viewIndexes }: ShadowResult): DesiredView {
  const built = views.get(objectKey(view));
  if (!built) return view;
  const { definition, columns, reads } = built;
  const indexes = view.indexes.map(
    (_index, position) => viewIndexes.get(viewIndexLabel(number, position)) ?? '',
  );
  const triggers = readTriggerNormalForms(view.triggers, built.triggers);
  return {
    ...view,
    normal: {
      definition,
      columns,
      reads,
      ...(indexes.length === 0 ? {} : { indexes }),
      ...(triggers.length === 0 ? {} : { triggers }),
    },
  };
}

function toTypeForm({ model }: DesiredType, { domain, attributes }: LiveType): TypeForm {
  if (model.kind === 'composite') return { kind: 'composite', attributes };
  if (model.kind === 'enum' || domain === null) return { kind: 'enum' };
  const checks = (model.checks ?? []).map(
    (_text, n) => domain.checks.find(({ label }) => label === domainCheckName(n))?.expression ?? '',
  );
  return { kind: 'domain', base: domain.base, default: domain.default, collation: domain.collation, checks };
}

function withSignature(fn: DesiredFunction, { functions, marks }: ShadowResult): DesiredFunction {
  const overloads = functions.get(objectKey(fn)) ?? [];
  const found = overloads.find(({ oid }) => marks.get(oid) === fn.at) ?? overloads[0];
  if (!found) return fn;
  const { argumentTypes, argumentNames, defaults, result, outputs } = found;
  const settings = fn.model.settings ? { settings: found.settings } : {};
  return {
    ...fn,
    normal: {
      arguments: found.arguments,
      argumentTypes,
      argumentNames,
      defaults,
      result,
      ...(outputs ? { outputs } : {}),
      ...settings,
      ...(fn.model.atomic ? { atomicBody: found.body } : {}),
    },
  };
}
