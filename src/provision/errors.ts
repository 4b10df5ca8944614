// What PostgreSQL's refusals mean to provisioning.
import { isDatabaseError } from '../postgres/pg-error.ts';

/** Another database of the cluster changed the same roles or grants at the same moment. */
export function isRace(error: unknown): boolean {
  if (isDatabaseError(error, 'duplicate_object', 'unique_violation')) return true;
  // `tuple concurrently updated` has no code of its own.
  return isDatabaseError(error, 'internal_error') && /concurrently/.test(error.message);
}

export async function pauseOnRace(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40));
}
