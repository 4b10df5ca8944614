// Compares the objects declared under `statements`. Most differences cannot be altered, so the object is dropped and
// created again together with its dependants.
import type { Live } from '../../schema/live/live-schema.ts';
import type { Ownership } from '../../schema/managed.ts';
import { objectKey } from '../../schema/model.ts';
import { API_ROLES, PUBLIC } from '../../schema/rights/roles.ts';
import {
  type DesiredStatement,
  sortByKind,
  rangeTypeNames,
  type LiveStatement,
  statementPhase,
  sameForm,
} from '../../schema/statements.ts';
import { findTypesUsing } from '../../schema/types.ts';
import type { StatementChange, TypeDefinitionChange } from '../change.ts';
import { type Rebuild, rebuildKey } from '../table-diff.ts';

export function diffStatements(
  desired: readonly DesiredStatement[],
  { statements: live, tables }: Pick<Live, 'statements' | 'tables'>,
  owned: Ownership,
  rebuild: Rebuild,
): StatementChange[] {
  const lockedBy = (host: string | null): string | null => (host !== null && tables.has(host) ? host : null);
  const isForced = ({ address }: LiveStatement): boolean => rebuild.has(rebuildKey('statement', '', address));
  const changes = sortByKind(desired).flatMap((statement): StatementChange[] => {
    const { normal, model } = statement;
    if (normal === null) return [];
    const found = live.get(normal.identity) ?? null;
    const isSame = found !== null && sameForm(normal, found) && !isForced(found);
    if (found !== null && !isSame && !isForced(found) && isAlterable(statement, found))
      return [
        { kind: 'alter-statement', statement, live: found },
        ...(model.comment === found.comment ? [] : [{ kind: 'comment-statement', statement } as const]),
      ];
    const locked = lockedBy(model.host === null ? null : objectKey(model.host));
    const grant = { kind: 'grant-statement', statement } as const;
    const describe = { kind: 'comment-statement', statement } as const;
    if (!isSame)
      return [
        found === null
          ? { kind: 'create-statement', statement, live: null, locked }
          : { kind: 'recreate-statement', statement, live: found, locked },
        ...(statement.kind === 'aggregate' ? [grant] : []),
        ...(model.comment === null ? [] : [describe]),
      ];
    return [
      ...(isGranted(statement, found) ? [] : [grant]),
      ...(model.comment === found.comment ? [] : [describe]),
    ];
  });
  const declaredIdentities = new Set(
    desired.flatMap(({ normal }) => (normal === null ? [] : [normal.identity])),
  );
  const removed = [...live.values()]
    .filter(({ identity }) => !declaredIdentities.has(identity))
    .filter((found) => {
      const state = owned.statements.get(found.identity);
      // The objects that used it when it left the file may have been removed since.
      return state === 'managed' || (state === 'retired' && !found.used);
    });
  // Drop in reverse order of creation.
  return [
    ...changes,
    ...sortByKind(removed)
      .reverse()
      .map((found) => ({ kind: 'drop-statement', live: found, locked: lockedBy(found.host) }) as const),
  ];
}

/** Returns whether the object can be altered: only the mappings of a text search configuration can. */
function isAlterable({ kind, normal }: DesiredStatement, { definition }: LiveStatement): boolean {
  return kind === 'text search configuration' && normal?.definition[0] === definition[0];
}

/** Inserts the changes of types so that each change comes after the objects that it uses. */
export function insertTypeChanges(
  statements: readonly StatementChange[],
  types: readonly TypeDefinitionChange[],
): Array<StatementChange | TypeDefinitionChange> {
  const isRange = (change: StatementChange): boolean =>
    'statement' in change && change.statement.kind === 'type';
  const isBase = (change: StatementChange): boolean =>
    'statement' in change && statementPhase(change.statement) === 'base' && !isRange(change);
  const ranges = statements.filter(isRange);
  const names = new Set(
    ranges.flatMap((change) => ('statement' in change ? rangeTypeNames(change.statement) : [])),
  );
  const ofRanges = findTypesUsing(names, [
    ...new Set(types.flatMap((change) => ('type' in change ? [change.type] : []))),
  ]);
  const isOfRange = (change: TypeDefinitionChange): boolean => 'type' in change && ofRanges.has(change.type);
  return [
    ...statements.filter(isBase),
    ...types.filter((change) => !isOfRange(change)),
    ...ranges,
    ...types.filter(isOfRange),
    ...statements.filter((change) => !isBase(change) && !isRange(change)),
  ];
}

/** Returns whether the grants are as declared. Grants to other roles than the API roles are kept. */
function isGranted({ kind, model }: DesiredStatement, { callers }: LiveStatement): boolean {
  if (kind !== 'aggregate') return true;
  const managedRoles: readonly string[] = [...API_ROLES, PUBLIC];
  return (
    model.execute.every((role) => callers.includes(role)) &&
    callers.every((role) => model.execute.includes(role) || !managedRoles.includes(role))
  );
}

/** Returns whether kept objects, such as retired columns, may still use the object, so that it may have to stay. */
export function canKeepStatement({ kind }: LiveStatement): boolean {
  return statementPhase({ kind }) === 'base';
}
