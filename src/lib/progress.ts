// Progress of long operations. An operation reports its state; the command that started it decides about the output.
import { AsyncLocalStorage } from 'node:async_hooks';

export type Progress = {
  /** The current step, for example `rows of public.orders`. */
  readonly step: string;
  readonly done?: number | undefined;
  readonly total?: number | undefined;
};

const listener = new AsyncLocalStorage<(progress: Progress) => void>();

/** Reports a step to the command that runs the operation. Does nothing outside of `trackProgress`. */
export function reportProgress(step: string, done?: number, total?: number): void {
  listener.getStore()?.({ step, done, total });
}

export async function trackProgress<T>(
  onProgress: (progress: Progress) => void,
  work: () => Promise<T>,
): Promise<T> {
  return await listener.run(onProgress, work);
}
