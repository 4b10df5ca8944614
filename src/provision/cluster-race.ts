// Retries changes of roles and grants. They belong to the cluster, but the provisioning lock belongs to one database,
// so a project in another database may change the same roles concurrently.
import { isDatabaseError } from '../postgres/pg-error.ts';

const MAX_ATTEMPTS = 40;

export function isRace(error: unknown): boolean {
  if (isDatabaseError(error, 'duplicate_object', 'unique_violation')) return true;
  // `tuple concurrently updated` has no specific code.
  return isDatabaseError(error, 'internal_error') && /concurrently/.test(error.message);
}

/** Retries `work` after conflicts with concurrent changes. `work` must check its preconditions on each attempt. */
export async function untilNoRace(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isRace(error) || attempt >= MAX_ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40));
    }
  }
}
