// Roles and grants belong to the cluster, our lock to one database: a project in another database may change the same
// roles at the same moment.
import { isDatabaseError } from '../postgres/pg-error.ts';

const MOST_ATTEMPTS = 40;

export function isRace(error: unknown): boolean {
  if (isDatabaseError(error, 'duplicate_object', 'unique_violation')) return true;
  // `tuple concurrently updated` has no code of its own.
  return isDatabaseError(error, 'internal_error') && /concurrently/.test(error.message);
}

/** Repeats `work`, which looks at what is left to do each time, until it wins or there was nothing to do. */
export async function untilNoRace(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isRace(error) || attempt >= MOST_ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40));
    }
  }
}
