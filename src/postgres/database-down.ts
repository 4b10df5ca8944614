// Whether a statement failed because there is no database to ask: the same request may go through in a moment.

export function isDatabaseDown(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (
    /^(?:08|53|57P|57014|55P03|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/.test(code)
  )
    return true;
  return /Connection terminated|timeout expired|fallen silent|timeout exceeded when trying to connect|Cannot use a pool after/.test(
    error.message,
  );
}
