/** Does this error of the operating system carry one of these codes (`ENOENT`, …)? */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
