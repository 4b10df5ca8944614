// Finds objects that a pulled file cannot express, independent of other objects. `omitDependants` starts from them.
import type { Live } from '../../schema/live/live-schema.ts';
import { isPulled } from '../pulled-functions.ts';
import { functionLabel, type Omission, statementKey } from './omit-dependants.ts';
import type { Use } from './read-uses.ts';

/** Functions of svc that exist in every project. */
const PROVIDED_FUNCTIONS: ReadonlySet<string> = new Set([
  'auth.email',
  'auth.is_anonymous',
  'auth.is_authenticated',
  'auth.jwt',
  'auth.role',
  'auth.uid',
  'realtime.broadcast_changes',
  'realtime.send',
  'realtime.topic',
  'storage.extension',
  'storage.filename',
  'storage.foldername',
  'storage.operation',
]);
const PROVIDED_RELATION =
  /^(relation|column|index|constraint) (auth\.users|storage\.(objects|buckets)|realtime\.messages)(?: |$)/;

export type PullSelection = {
  /** Selects tables and views by `schema.name`. */
  readonly isSelected: (key: string) => boolean;
  /** Returns true for names of types that the file can express. */
  readonly isExpressible: (type: string) => boolean;
};

/** Returns objects that the file cannot express. Other modules report their reasons. */
export function findOmissions(live: Live, { isSelected, isExpressible }: PullSelection): Omission[] {
  const names = new Set<string>();
  const relations = [...live.tables, ...live.views].flatMap(([key, { name }]): Omission[] => {
    const isFree = isSelected(key) && !names.has(name);
    if (isFree) names.add(name);
    return isFree
      ? []
      : [{ key: `relation ${key}`, label: `${live.views.has(key) ? 'view' : 'table'} ${key}` }];
  });
  const ofTypes = new Set<string>();
  const types = [...live.types].flatMap(([key, { name, kind, values }]): Omission[] => {
    const isFree = !ofTypes.has(name) && isExpressible(name) && (kind !== 'enum' || values.length > 0);
    ofTypes.add(name);
    return isFree ? [] : [{ key: `type ${key}`, label: `type ${key}` }];
  });
  return [
    ...relations,
    ...types,
    ...[...live.functions.values()]
      .flat()
      .filter((fn) => !isPulled(fn))
      .map((fn) => ({ key: `function ${fn.oid}`, label: functionLabel(fn) })),
    ...[...live.statements.values()]
      .filter(({ unsupported }) => unsupported !== null)
      .map((statement) => ({ key: statementKey(statement), label: statement.identity })),
  ];
}

/** Returns used objects that the pull does not read and that belong neither to svc nor to a declared extension. */
export function findOutsideOmissions(live: Live, uses: readonly Use[]): Omission[] {
  const extensions = new Set(live.extensions.map(({ name }) => name));
  const partitions = new Set(
    [...live.tables.values()].flatMap(({ partitioning }) =>
      (partitioning?.partitions ?? []).map(({ schema, name }) => `${schema}.${name}`),
    ),
  );
  const isMissing = ({ uses: key, name, schema, extension }: Use): boolean => {
    if (extension !== null) return extension !== 'plpgsql' && !extensions.has(extension);
    if (PROVIDED_RELATION.test(key) || PROVIDED_FUNCTIONS.has(name)) return false;
    if (key.startsWith('operator class ')) return true;
    if (schema === 'pg_catalog' || schema === 'information_schema' || schema === '') return false;
    if (!live.schemas.has(schema)) return /^(relation|function|type|sequence) /.test(key);
    const [, kind, relation = ''] = /^(relation|type) (.+)$/.exec(key) ?? [];
    if (kind === 'relation')
      return !live.tables.has(relation) && !live.views.has(relation) && !partitions.has(relation);
    const isStatement = [...live.statements.values()].some((statement) => statementKey(statement) === key);
    return kind === 'type' && !live.types.has(relation) && !isStatement;
  };
  const missing = new Map(
    uses.filter(isMissing).map((use): [string, string] => {
      const label = use.name === '' ? use.uses.replace(/^relation /, 'table ') : `function ${use.name}`;
      const of = use.extension === null ? '' : ` of the extension ${use.extension}`;
      return [use.uses, `${label}${of}, which is not in the file`];
    }),
  );
  return [...missing].map(([key, label]) => ({ key, label }));
}

/** Sorts objects of `public` first, because the file contains the first of two objects with the same name. */
export function publicFirst(live: Live): Live {
  const sorted = <T extends { readonly schema: string }>(map: ReadonlyMap<string, T>): Map<string, T> =>
    new Map([...map].toSorted(([, a], [, b]) => schemaRank(a) - schemaRank(b)));
  return {
    ...live,
    types: sorted(live.types),
    tables: sorted(live.tables),
    views: sorted(live.views),
    sequences: sorted(live.sequences),
  };
}

function schemaRank({ schema }: { readonly schema: string }): number {
  return schema === 'public' ? 0 : 1;
}
