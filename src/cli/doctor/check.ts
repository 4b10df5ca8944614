// One check of `svc doctor`: its finding, the severity, and the command or line that repairs it.
import { Problem } from '../../problem/problem.ts';
import { CommandFailure } from '../exit.ts';

export type Level = 'ok' | 'warning' | 'error';

export type Finding = {
  /** Name of the check. */
  readonly id: string;
  readonly level: Level;
  /** Text of the finding, on one line. */
  readonly message: string;
  readonly repair?: string | undefined;
};

type Found = Omit<Finding, 'id'> & {
  /** Repairs the problem. Set only if the repair changes nothing except file modes and what git ignores. */
  readonly fix?: (() => void) | undefined;
};

export type Check = () => Promise<Found> | Found;

export const ok = (message: string): Omit<Finding, 'id'> => ({ level: 'ok', message });
export const warning = (message: string, repair?: string): Omit<Finding, 'id'> => ({
  level: 'warning',
  message,
  repair,
});
export const bad = (message: string, repair?: string): Omit<Finding, 'id'> => ({
  level: 'error',
  message,
  repair,
});

const MAX_CHECK_MS = 10_000;

/**
 * Runs a check. An exception or a timeout becomes a finding. With `fixes`, repairs what can be repaired and
 * checks again.
 */
export async function runCheck(id: string, work: Check, fixes = false): Promise<Finding> {
  const { fix, ...found } = await runOnce(work);
  if (!fixes || fix === undefined) return { id, ...found };
  try {
    fix();
  } catch (error) {
    return { id, ...asFinding(error), repair: found.repair };
  }
  const { fix: _done, ...after } = await runOnce(work);
  return { id, ...after, message: `${after.message}; repaired: ${found.message}` };
}

async function runOnce(work: Check): Promise<Found> {
  const clock = Promise.withResolvers<Found>();
  const timer = setTimeout(
    () => clock.resolve(bad(`no answer within ${MAX_CHECK_MS / 1000} seconds`)),
    MAX_CHECK_MS,
  );
  try {
    return await Promise.race([work(), clock.promise]);
  } catch (error) {
    return asFinding(error);
  } finally {
    clearTimeout(timer);
  }
}

function asFinding(error: unknown): Omit<Finding, 'id'> {
  if (error instanceof Problem) return bad([error.message, error.details ?? ''].join(' ').trim(), error.hint);
  if (error instanceof CommandFailure) {
    const [first = '', ...rest] = error.report.split('\n').map((line) => line.trim());
    return bad(first.replace(/^error: /, ''), rest.find((line) => line.startsWith('→'))?.slice(2));
  }
  return bad(error instanceof Error ? error.message : String(error));
}
