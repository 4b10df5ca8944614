// Waits for a signal to stop. The first signal begins an orderly stop, a second one ends the process
// immediately.
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

type StopOptions = {
  /** Whether the end of standard input counts as a signal: the parent that kept the pipe open has died. */
  readonly stdin?: boolean;
  /**
   * Called for every later signal. Returns true if it could shorten the stop, so that the process need not
   * exit.
   */
  readonly again?: () => boolean;
};

/**
 * Resolves with the first signal. A later signal ends the process immediately, with the shell's exit code.
 */
export function untilStopped(
  signals: readonly NodeJS.Signals[] = SIGNALS,
  { stdin = false, again = () => false }: StopOptions = {},
): Promise<NodeJS.Signals | 'stdin'> {
  return new Promise((resolve) => {
    if (stdin) {
      process.stdin.resume().once('close', () => resolve('stdin'));
      // An open pipe must not keep the process running.
      process.stdin.unref();
    }
    let stopping = false;
    for (const signal of signals) {
      process.on(signal, () => {
        if (stopping && !again()) process.exit(130);
        stopping = true;
        resolve(signal);
      });
    }
  });
}
