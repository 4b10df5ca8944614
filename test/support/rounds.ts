/** Set by `npm run test:slow`: tests that repeat themselves take all their rounds. */
const LONG = process.env['SVC_TEST_LONG'] === '1';

/**
 * How often a test that repeats itself does so: `usual` times in `npm test`, `long` times in the long run. A variable of
 * the environment, where the test has one, decides over both.
 */
export function rounds(usual: number, long: number, variable?: string): number {
  const given = variable === undefined ? undefined : process.env[variable];
  return given === undefined ? (LONG ? long : usual) : Number(given);
}
