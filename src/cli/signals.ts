// Waits for the signal to stop: the first one begins an orderly stop, a second one ends the process at once.
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Resolves with the first signal. A later one ends the process at once, with the shell's code for it. With
 * `stdin`, its end counts as a signal too: a parent that holds the other end has died.
 */
export function untilStopped(
  signals: readonly NodeJS.Signals[] = SIGNALS,
  { stdin = false } = {},
): Promise<NodeJS.Signals | 'stdin'> {
  return new Promise((resolve) => {
    if (stdin) {
      process.stdin.resume().once('close', () => resolve('stdin'));
      // An open pipe alone must not keep the process running.
      process.stdin.unref();
    }
    let stopping = false;
    for (const signal of signals) {
      process.on(signal, () => {
        if (stopping) process.exit(130);
        stopping = true;
        resolve(signal);
      });
    }
  });
}
