// Types: made, changed, described, dropped. What an enum cannot do, such as losing a value, happened before: see
// `plan/type-renames.ts`. What a domain or a composite type cannot do while columns have it is refused.
import type { TypeDefinitionChange } from './change.ts';
import type { DesiredType } from '../schema/desired.ts';
import type { Live, LiveTable, LiveType } from '../schema/live/live-schema.ts';
import { isReplacedType } from '../schema/label.ts';
import type { Ownership } from '../schema/managed.ts';
import { keyOf } from '../schema/model.ts';
import { plainOrQuoted } from '../../postgres/sql.ts';
import { domainChecks, domainDefaultSql, inOrderOfUse } from '../schema/types.ts';

export function diffTypes(
  desired: readonly DesiredType[],
  { types, tables }: Pick<Live, 'types' | 'tables'>,
): TypeDefinitionChange[] {
  return inOrderOfUse(desired).flatMap((type): TypeDefinitionChange[] => {
    const found = types.get(keyOf(type));
    const { comment = null } = type.model;
    const describe = { kind: 'comment-type', type } as const;
    const users = found ? usersOf(found, tables) : [];
    if (!found || !canFollow(type, found))
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

/** Whether the type of the database can become the declared one where it is. */
export function canFollow({ normal }: DesiredType, { domain, attributes }: LiveType): boolean {
  if (normal?.kind === 'domain') return normal.base === domain?.base && normal.collation === domain.collation;
  if (normal?.kind === 'composite')
    return attributes.every((one, n) => {
      const wanted = normal.attributes[n];
      return wanted?.name === one.name && wanted.type === one.type;
    });
  return true;
}

/** After everything that may use them. */
export function diffRemovedTypes(
  desired: readonly DesiredType[],
  live: Live['types'],
  owned: Ownership,
): TypeDefinitionChange[] {
  const declared = new Set(desired.map(keyOf));
  return [...live].flatMap(([key, found]): TypeDefinitionChange[] => {
    if (declared.has(key)) return [];
    // What still used it when it left the file may have been pruned since.
    const isLeft = owned.retiredTypes.has(key) ? !found.used : owned.types.has(key) || isReplacedType(key);
    return isLeft ? [{ kind: 'drop-type', live: found }] : [];
  });
}

function diffEnum(type: DesiredType, live: LiveType): TypeDefinitionChange[] {
  if (type.model.kind !== 'enum') return [];
  const { values } = type.model;
  const known = new Set(live.values);
  const added = values.flatMap((value, n) =>
    known.has(value) ? [] : [{ value, before: values.slice(n + 1).find((one) => known.has(one)) ?? null }],
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
    const found = domain.checks.find((one) => one.expression === check.expression.normal);
    if (found?.validated) return [];
    const named = found ? { ...check, label: found.label } : check;
    return [{ kind: found ? 'validate-domain-check' : 'add-domain-check', type, check: named, users }];
  });
  const wanted = new Set(checks.map((check) => check.expression.normal));
  return [
    ...missing,
    ...domain.checks
      .filter((one) => !wanted.has(one.expression))
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

function usersOf({ schema, name }: LiveType, tables: Live['tables']): LiveTable[] {
  const printed = `${plainOrQuoted(schema)}.${plainOrQuoted(name)}`;
  return [...tables.values()].filter((table) =>
    [...table.columns.values()].some(({ type }) => type.replace(/(\[\])+$/, '') === printed),
  );
}
