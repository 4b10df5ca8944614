// Replaces the temporary names of the real schemas in texts and in the catalog of the shadow.
import { plainOrQuoted } from '../../../postgres/sql.ts';
import type { Live, LiveFunction, LiveTable, LiveType } from '../../schema/live/live-schema.ts';
import type { LiveView } from '../../schema/views.ts';
import type { ShadowNames } from './shadow-names.ts';
import type { Shadow } from './shadow.ts';

export function createCleaner({ temporary }: ShadowNames): (text: string) => string {
  const names = [...temporary].map(([schema, name]) => [`${name}.`, `${plainOrQuoted(schema)}.`] as const);
  return (text) => names.reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

/** Also replaces the names of copies of materialized views and of tables of svc. */
export function createMessageCleaner(views: Shadow['views'], names: ShadowNames): (text: string) => string {
  const clean = createCleaner(names);
  const copy = `${names.copies}.`;
  return (text) =>
    clean(text)
      .replaceAll(new RegExp(`${copy}view_(\\d+)`, 'g'), (_, n: string) => views[Number(n)]?.name ?? '')
      .replaceAll(copy, '');
}

// Names of objects outside the shadow are printed with the temporary names of the real schemas.
export function cleanNames(live: Live, names: ShadowNames): Pick<Live, 'types' | 'tables' | 'functions'> {
  const clean = createCleaner(names);
  const maybe = (text: string | null): string | null => (text === null ? null : clean(text));
  const tables = [...live.tables].map(([key, table]): [string, LiveTable] => [
    key,
    {
      ...table,
      columns: new Map(
        [...table.columns].map(([name, column]) => [
          name,
          {
            ...column,
            type: clean(column.type),
            default: maybe(column.default),
            collation: maybe(column.collation),
          },
        ]),
      ),
      checks: table.checks.map((check) => ({ ...check, expression: clean(check.expression) })),
      indexes: table.indexes.map((index) => ({
        ...index,
        predicate: maybe(index.predicate),
        definition: clean(index.definition),
      })),
      exclusions: table.exclusions.map((exclusion) => ({
        ...exclusion,
        definition: clean(exclusion.definition),
      })),
      policies: table.policies.map((policy) => ({
        ...policy,
        using: maybe(policy.using),
        check: maybe(policy.check),
      })),
      triggers: table.triggers.map((trigger) => ({ ...trigger, definition: clean(trigger.definition) })),
      partitioning: table.partitioning && {
        ...table.partitioning,
        key: clean(table.partitioning.key),
        partitions: table.partitioning.partitions.map((partition) => ({
          ...partition,
          bound: clean(partition.bound),
          by: partition.by && { ...partition.by, key: clean(partition.by.key) },
        })),
      },
    },
  ]);
  const functions = [...live.functions].map(([key, group]): [string, LiveFunction[]] => [
    key,
    group.map((fn) => ({
      ...fn,
      body: fn.atomic ? clean(fn.body) : fn.body,
      arguments: clean(fn.arguments),
      argumentTypes: fn.argumentTypes.map(clean),
      result: clean(fn.result),
      outputs: fn.outputs?.map(clean),
    })),
  ]);
  const types = [...live.types].map(([key, type]): [string, LiveType] => [
    key,
    {
      ...type,
      domain: type.domain && {
        ...type.domain,
        base: clean(type.domain.base),
        default: maybe(type.domain.default),
        collation: maybe(type.domain.collation),
        checks: type.domain.checks.map((check) => ({ ...check, expression: clean(check.expression) })),
      },
      attributes: type.attributes.map((attribute) => ({ ...attribute, type: clean(attribute.type) })),
    },
  ]);
  return { types: new Map(types), tables: new Map(tables), functions: new Map(functions) };
}

export function cleanViews(live: Live, names: ShadowNames): Live['views'] {
  const clean = createCleaner(names);
  const real = new Map([...names.temporary].map(([schema, name]) => [`${name}.`, `${schema}.`]));
  const cleanKey = (key: string): string => {
    const schema = key.slice(0, key.indexOf('.') + 1);
    return `${real.get(schema) ?? schema}${key.slice(schema.length)}`;
  };
  return new Map(
    [...live.views].map(([key, view]): [string, LiveView] => [
      key,
      {
        ...view,
        definition: clean(view.definition),
        columns: view.columns.map((column) => ({ ...column, type: clean(column.type) })),
        reads: view.reads.map(cleanKey),
        triggers: view.triggers.map((trigger) => ({ ...trigger, definition: clean(trigger.definition) })),
      },
    ]),
  );
}
