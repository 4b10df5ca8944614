// Time limits of tests grow with the slowness of the machine, which `vitest.config.ts` measures once for each run.

const slowness = Number(process.env['SVC_TEST_SLOWNESS'] ?? 1);

/** Multiplies a time limit, in milliseconds on an idle machine, by the slowness of this machine. */
export function scaled(ms: number): number {
  return Math.round(ms * slowness);
}
