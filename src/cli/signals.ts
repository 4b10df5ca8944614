// Waiting for the end. The first SIGINT or SIGTERM begins an orderly stop; a second one is impatience.
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Resolves with the first signal. A later one ends the process at once, with the shell's code for it. */
export function untilStopped(signals: readonly NodeJS.Signals[] = SIGNALS): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
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
