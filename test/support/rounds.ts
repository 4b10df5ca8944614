/** Set by `npm run test:slow`: repeating tests run all their rounds. */
const LONG = process.env['SVC_TEST_LONG'] === '1';

/**
 * Rounds of a repeating test: `usual` in `npm test`, `long` in the long run. The test's environment variable, if it has
 * one, overrides both.
 */
export function rounds(usual: number, long: number, variable?: string): number {
  const given = variable === undefined ? undefined : process.env[variable];
  return given === undefined ? (LONG ? long : usual) : Number(given);
}
