// One look at one thing: what was found, how bad it is, and the command or line that repairs it.
import { Problem } from '../../problem/problem.ts';
import { CommandFailure } from '../exit.ts';

export type Level = 'ok' | 'warning' | 'error';

export type Finding = {
  /** What was looked at. */
  readonly id: string;
  readonly level: Level;
  /** One line. */
  readonly says: string;
  readonly repair?: string | undefined;
};

type Found = Omit<Finding, 'id'> & {
  /** Repairs it, where that touches nothing but modes of files and what git ignores. */
  readonly fix?: (() => void) | undefined;
};

export type Look = () => Promise<Found> | Found;

export const ok = (says: string): Omit<Finding, 'id'> => ({ level: 'ok', says });
export const warning = (says: string, repair?: string): Omit<Finding, 'id'> => ({
  level: 'warning',
  says,
  repair,
});
export const bad = (says: string, repair?: string): Omit<Finding, 'id'> => ({ level: 'error', says, repair });

const LONGEST_MS = 10_000;

/** What is thrown is a finding, too; so is a look that takes too long. `fixes`: what can be repaired here is, and looked at again. */
export async function look(id: string, work: Look, fixes = false): Promise<Finding> {
  const { fix, ...found } = await lookOnce(work);
  if (!fixes || fix === undefined) return { id, ...found };
  try {
    fix();
  } catch (error) {
    return { id, ...asFinding(error), repair: found.repair };
  }
  const { fix: _done, ...after } = await lookOnce(work);
  return { id, ...after, says: `${after.says}; repaired: ${found.says}` };
}

async function lookOnce(work: Look): Promise<Found> {
  const clock = Promise.withResolvers<Found>();
  const timer = setTimeout(
    () => clock.resolve(bad(`no answer within ${LONGEST_MS / 1000} seconds`)),
    LONGEST_MS,
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
