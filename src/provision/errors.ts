// What PostgreSQL's refusals mean to provisioning.

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

export function isDenied(error: unknown): error is Error {
  return codeOf(error) === '42501';
}

export function isLockTimeout(error: unknown): error is Error {
  return codeOf(error) === '55P03' || codeOf(error) === '40P01';
}

/** Another database of the cluster changed the same roles or grants at the same moment. */
export function isRace(error: unknown): boolean {
  const code = codeOf(error);
  // Duplicate object, unique violation in a shared catalog, and `tuple concurrently updated`, which has no code of its own.
  if (code === '42710' || code === '23505') return true;
  return code === 'XX000' && error instanceof Error && /concurrently/.test(error.message);
}

export async function pauseOnRace(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40));
}
