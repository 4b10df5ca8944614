// Compares types. Changes that ALTER TYPE cannot make to an enum, such as removing a value, are handled before: see
// `plan/types/type-renames.ts`. Impossible changes of domains and composite types in use are rejected.
import type { TypeDefinitionChange } from './change.ts';
import type { DesiredType } from '../schema/desired.ts';
import type { Live, LiveTable, LiveType } from '../schema/live/live-schema.ts';
import { isReplacedType } from '../schema/label.ts';
import type { Ownership } from '../schema/managed.ts';
import { objectKey } from '../schema/model.ts';
import { plainOrQuoted } from '../../postgres/sql.ts';
import { domainChecks, domainDefaultSql, sortTypesByUse } from '../schema/types.ts';

export function diffTypes(
  desired: readonly DesiredType[],
  { types, tables }: Pick<Live, 'types' | 'tables'>,
): TypeDefinitionChange[] {
  return sortTypesByUse(desired).flatMap((type): TypeDefinitionChange[] => {
    const found = types.get(objectKey(type));
    const { comment = null } = type.model;
    const describe = { kind: 'comment-type', type } as const;
    const users = found ? findTablesUsing(found, tables) : [];
    if (!found || !canAlterType(type, found))
      return [
        { kind: found ? 'recreate-type' : 'create-type', type },
        ...domainChecks(type).map((check) => ({ kind: 'add-domain-check', type, check, users: [] }) as const),
        ...(comment === null ? [] : [describe]),
      ];
    return [
      ...diffEnum(type, found),
      ...diffDomain(type, found, users),
      ...diffComposite(type, found),
      ...(comment === found.comment ? [] : [describe]),
    ];
  });
}

/** Returns whether ALTER statements can make the live type equal to the declared one. */
export function canAlterType({ normal }: DesiredType, { domain, attributes }: LiveType): boolean {
  if (normal?.kind === 'domain') return normal.base === domain?.base && normal.collation === domain.collation;
  if (normal?.kind === 'composite')
    return attributes.every((attribute, n) => {
      const wanted = normal.attributes[n];
      return wanted?.name === attribute.name && wanted.type === attribute.type;
    });
  return true;
}

/** Returns the changes that drop types. They come after the changes of all objects that may use the types. */
export function diffRemovedTypes(
  desired: readonly DesiredType[],
  live: Live['types'],
  owned: Ownership,
): TypeDefinitionChange[] {
  const declared = new Set(desired.map(objectKey));
  return [...live].flatMap(([key, found]): TypeDefinitionChange[] => {
    if (declared.has(key)) return [];
    // The objects that used it when it left the file may have been removed since.
    const isLeft = owned.retiredTypes.has(key) ? !found.used : owned.types.has(key) || isReplacedType(key);
    return isLeft ? [{ kind: 'drop-type', live: found }] : [];
  });
}

function diffEnum(type: DesiredType, live: LiveType): TypeDefinitionChange[] {
  if (type.model.kind !== 'enum') return [];
  const { values } = type.model;
  const known = new Set(live.values);
  const added = values.flatMap((value, n) =>
    known.has(value)
      ? []
      : [{ value, before: values.slice(n + 1).find((following) => known.has(following)) ?? null }],
  );
  return added.length === 0 ? [] : [{ kind: 'add-values', type, live, values: added }];
}

function diffDomain(
  type: DesiredType,
  { domain }: LiveType,
  users: readonly LiveTable[],
): TypeDefinitionChange[] {
  const { model, normal } = type;
  if (model.kind !== 'domain' || normal?.kind !== 'domain' || domain === null) return [];
  const notNull = model.notNull ?? false;
  const checks = domainChecks(type);
  const missing = checks.flatMap((check): TypeDefinitionChange[] => {
    const found = domain.checks.find((liveCheck) => liveCheck.expression === check.expression.normal);
    if (found?.validated) return [];
    const named = found ? { ...check, label: found.label } : check;
    return [{ kind: found ? 'validate-domain-check' : 'add-domain-check', type, check: named, users }];
  });
  const wanted = new Set(checks.map((check) => check.expression.normal));
  return [
    ...missing,
    ...domain.checks
      .filter((liveCheck) => !wanted.has(liveCheck.expression))
      .map(({ label }) => ({ kind: 'drop-domain-check', type, label }) as const),
    ...(normal.default === domain.default
      ? []
      : [{ kind: 'set-domain-default', type, value: domainDefaultSql(model) } as const]),
    ...(notNull === domain.notNull ? [] : [{ kind: 'set-domain-not-null', type, notNull, users } as const]),
  ];
}

function diffComposite(type: DesiredType, { attributes }: LiveType): TypeDefinitionChange[] {
  if (type.model.kind !== 'composite') return [];
  return type.model.attributes
    .slice(attributes.length)
    .map((attribute) => ({ kind: 'add-attribute', type, attribute }));
}

function findTablesUsing({ schema, name }: LiveType, tables: Live['tables']): LiveTable[] {
  const printed = `${plainOrQuoted(schema)}.${plainOrQuoted(name)}`;
  return [...tables.values()].filter((table) =>
    [...table.columns.values()].some(({ type }) => type.replace(/(\[\])+$/, '') === printed),
  );
}
