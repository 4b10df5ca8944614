// Which of several functions of one name a call means. Only the names of its arguments tell, never their types.
import { ambiguousRoutine } from '../problem.ts';
import { argumentNamed } from './other-names.ts';
import type { ExposedRoutine } from './relation.ts';
import { wholeBodyArgument } from './whole-body.ts';

/**
 * `givenTo`: the names of what the call passes, if it is of this function. Of one that stands alone nothing is asked: what
 * does not fit it is told later.
 */
export function chooseRoutine(
  overloads: readonly ExposedRoutine[],
  givenTo: (routine: ExposedRoutine) => readonly string[],
): ExposedRoutine | undefined {
  if (overloads.length < 2) return overloads[0];
  const fitting = overloads.filter((routine) => fits(routine, givenTo(routine)));
  // Like PostgreSQL, rather one that is passed all than one with defaults.
  const whole = fitting.filter((routine) => givenTo(routine).length === routine.args.length);
  const chosen = whole.length === 1 ? whole : fitting;
  if (chosen.length > 1) throw ambiguousRoutine(chosen);
  return chosen[0] ?? overloads.find((routine) => wholeBodyArgument(routine));
}

function fits(routine: ExposedRoutine, given: readonly string[]): boolean {
  const named = given.map((name) => argumentNamed(routine, name));
  return (
    !wholeBodyArgument(routine) &&
    !named.includes(undefined) &&
    routine.args.every((arg) => arg.hasDefault || arg.variadic || named.includes(arg))
  );
}
