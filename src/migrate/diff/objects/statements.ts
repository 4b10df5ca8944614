// What the file makes by statements. None of these can be changed in every way where it stands, so one that differs is
// dropped and made again, with what depends on it.
import type { Live } from '../../schema/live/live-schema.ts';
import type { Ownership } from '../../schema/managed.ts';
import { keyOf } from '../../schema/model.ts';
import { API_ROLES, PUBLIC } from '../../schema/rights/roles.ts';
import {
  type DesiredStatement,
  inOrderOfKinds,
  namesOfRange,
  type LiveStatement,
  phaseOf,
  sameForm,
} from '../../schema/statements.ts';
import { typesOf } from '../../schema/types.ts';
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
  const changes = inOrderOfKinds(desired).flatMap((statement): StatementChange[] => {
    const { normal, model } = statement;
    if (normal === null) return [];
    const found = live.get(normal.identity) ?? null;
    const isSame = found !== null && sameForm(normal, found) && !isForced(found);
    if (found !== null && !isSame && !isForced(found) && isAlterable(statement, found))
      return [
        { kind: 'alter-statement', statement, live: found },
        ...(model.comment === found.comment ? [] : [{ kind: 'comment-statement', statement } as const]),
      ];
    const locked = lockedBy(model.host === null ? null : keyOf(model.host));
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
  const wanted = new Set(desired.flatMap(({ normal }) => (normal === null ? [] : [normal.identity])));
  const removed = [...live.values()]
    .filter(({ identity }) => !wanted.has(identity))
    .filter((found) => {
      const state = owned.statements.get(found.identity);
      // What still used it when it left the file may have gone since.
      return state === 'managed' || (state === 'retired' && !found.used);
    });
  // Those that others are made of last.
  return [
    ...changes,
    ...inOrderOfKinds(removed)
      .reverse()
      .map((found) => ({ kind: 'drop-statement', live: found, locked: lockedBy(found.host) }) as const),
  ];
}

/** Whatever reads by it goes on doing so by other mappings. */
function isAlterable({ kind, normal }: DesiredStatement, { definition }: LiveStatement): boolean {
  return kind === 'text search configuration' && normal?.definition[0] === definition[0];
}

/** With the changes of types in between, so that each can be made of what comes before it. */
export function withTypes(
  statements: readonly StatementChange[],
  types: readonly TypeDefinitionChange[],
): Array<StatementChange | TypeDefinitionChange> {
  const isRange = (change: StatementChange): boolean =>
    'statement' in change && change.statement.kind === 'type';
  const isBase = (change: StatementChange): boolean =>
    'statement' in change && phaseOf(change.statement) === 'base' && !isRange(change);
  const ranges = statements.filter(isRange);
  const names = new Set(ranges.flatMap((one) => ('statement' in one ? namesOfRange(one.statement) : [])));
  const ofRanges = typesOf(names, [...new Set(types.flatMap((one) => ('type' in one ? [one.type] : [])))]);
  const isOfRange = (change: TypeDefinitionChange): boolean => 'type' in change && ofRanges.has(change.type);
  return [
    ...statements.filter(isBase),
    ...types.filter((change) => !isOfRange(change)),
    ...ranges,
    ...types.filter(isOfRange),
    ...statements.filter((change) => !isBase(change) && !isRange(change)),
  ];
}

/** Roles of others that the file does not name keep what they have. */
function isGranted({ kind, model }: DesiredStatement, { callers }: LiveStatement): boolean {
  if (kind !== 'aggregate') return true;
  const ours: readonly string[] = [...API_ROLES, PUBLIC];
  return (
    model.execute.every((role) => callers.includes(role)) &&
    callers.every((role) => model.execute.includes(role) || !ours.includes(role))
  );
}

/** Something that is kept, such as a retired column, may go on using it. */
export function mayStay({ kind }: LiveStatement): boolean {
  return phaseOf({ kind }) === 'base';
}
