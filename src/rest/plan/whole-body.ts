// A function with a single unnamed argument receives the body of a call as its value.
import { WHOLE_BODY_TYPES } from '../../config/schema/functions.ts';
import type { RoutineArg } from '../../catalog/catalog.ts';
import type { Payload } from '../request/body.ts';
import type { ExposedRoutine } from './relation.ts';

export function wholeBodyArgument(routine: ExposedRoutine | undefined): RoutineArg | undefined {
  const [only, ...more] = routine?.args ?? [];
  const isWhole = only?.name === '' && more.length === 0 && WHOLE_BODY_TYPES.includes(only.baseType);
  return isWhole ? only : undefined;
}

/**
 * Whether a JSON object contains the argument under its empty name, as in `{"": "x"}`. An argument of type JSON
 * always gets the whole body.
 */
export function isByEmptyName(
  { baseType }: RoutineArg,
  { keys, fields }: Pick<Payload, 'keys' | 'fields'>,
): boolean {
  return (
    baseType !== 'json' && baseType !== 'jsonb' && fields.length > 0 && keys.length === 1 && keys[0] === ''
  );
}
