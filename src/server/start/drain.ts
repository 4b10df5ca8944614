// Ends requests, functions and sockets when a process shuts down.
import type { Functions } from '../../functions/functions.ts';
import type { Log } from '../../log/log.ts';
import type { Realtime } from '../../realtime/realtime.ts';
import type { App } from '../app.ts';

export type DrainOptions = {
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly windowMs: number;
  readonly replaced: boolean;
  readonly dev: boolean;
  readonly log: Log;
};

/** Sockets are closed over some seconds, so that their clients do not all reconnect in one. */
const CLOSE_SOCKETS_WITHIN_MS = 10_000;

/**
 * Closes the port, lets requests, functions and sockets end, and cuts off the rest after `windowMs`. With
 * `replaced`,
 * another process answers the requests that functions send while they end.
 */
export async function drain(
  app: App,
  { functions, realtime, windowMs, replaced, dev, log }: DrainOptions,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      log.warn(
        { requests: app.inFlight.size },
        'the shutdown window is over; closing the remaining connections',
      );
      for (const scope of app.inFlight) scope.abort('shutdown');
      app.server.server.closeAllConnections();
      resolve();
    }, windowMs);
  });
  const sockets = realtime.drain(dev ? 0 : Math.min(CLOSE_SOCKETS_WITHIN_MS, windowMs / 2));
  let sweep: NodeJS.Timeout | undefined;
  const close = async (): Promise<void> => {
    // Busy connections become idle one by one after the close has begun. The sweep must not start before: while the
    // port is open, a new connection counts as idle until its request is read.
    sweep = setInterval(() => app.server.server.closeIdleConnections(), 50);
    await app.server.close();
  };
  // Code functions may call this server while they end, so they end first, unless another process answers
  // them.
  const ended = replaced ? close().then(() => functions.drain()) : functions.drain().then(close);
  await Promise.race([Promise.all([ended, sockets]), deadline]);
  await functions.stop();
  clearInterval(sweep);
  clearTimeout(timer);
}
