// Waits for the signal to stop: the first one begins an orderly stop, a second one ends the process at once.
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

type StopOptions = {
  /** Its end counts as a signal too: a parent that holds the other end has died. */
  readonly stdin?: boolean;
  /** Asked at every later signal: true when there was something to cut short, so that the process need not end yet. */
  readonly again?: () => boolean;
};

/** Resolves with the first signal. A later one ends the process at once, with the shell's code for it. */
export function untilStopped(
  signals: readonly NodeJS.Signals[] = SIGNALS,
  { stdin = false, again = () => false }: StopOptions = {},
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
        if (stopping && !again()) process.exit(130);
        stopping = true;
        resolve(signal);
      });
    }
  });
}
