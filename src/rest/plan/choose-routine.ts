// Chooses among functions of the same name by the names of the passed arguments, never by their types.
import { ambiguousRoutine } from '../problem.ts';
import { argumentNamed } from './alternative-names.ts';
import type { ExposedRoutine } from './relation.ts';
import { wholeBodyArgument } from './whole-body.ts';

/**
 * `givenTo`: returns the names that the call passes if it means the given function. A single function is returned
 * without checks; later stages report arguments that do not fit.
 */
export function chooseRoutine(
  overloads: readonly ExposedRoutine[],
  givenTo: (routine: ExposedRoutine) => readonly string[],
): ExposedRoutine | undefined {
  if (overloads.length < 2) return overloads[0];
  const fitting = overloads.filter((routine) => fits(routine, givenTo(routine)));
  // Like PostgreSQL, prefers a function whose arguments are all passed to one with defaults.
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
    routine.args.every((arg) => arg.hasDefault || named.includes(arg))
  );
}
