// A function with one argument that has no name takes the body of a call as its value.
import { WHOLE_BODY_TYPES } from '../../config/schema/functions.ts';
import type { RoutineArg } from '../../catalog/catalog.ts';
import type { ExposedRoutine } from './relation.ts';

export function wholeBodyArgument(routine: ExposedRoutine | undefined): RoutineArg | undefined {
  const [only, ...more] = routine?.args ?? [];
  const isWhole = only?.name === '' && more.length === 0 && WHOLE_BODY_TYPES.includes(only.baseType);
  return isWhole ? only : undefined;
}
