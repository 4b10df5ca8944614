// LISTEN on a connection of its own. Notifications sent while the connection was lost are gone, so a listener must also
// look for changes after each reconnect.
import type pg from 'pg';
import type { Log } from '../log/log.ts';
import { cutOff, endClient, openClient, type ConnectionSettings } from './connection.ts';
import { quoteIdent } from './sql.ts';

export type Listener = {
  /** Resolves when the handlers have had every notification sent before the call. */
  caughtUp(): Promise<void>;
  /** Whether notifications are heard now. */
  readonly isConnected: boolean;
  close(): Promise<void>;
};

export type ListenHandlers = {
  readonly onNotification: (channel: string, payload: string) => void;
  /** Connected again after a loss: notifications may have been missed. */
  readonly onReconnect: () => void;
};

const SHORTEST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
/** How often the connection is asked for a sign of life, and how long that may take, in milliseconds. */
const BEAT = { everyMs: 10_000, withinMs: 5_000 };

/**
 * Resolves once the channels are listened to: what is read afterwards and changes later is then announced. When the
 * server cannot be reached it resolves too, keeps trying, and calls `onReconnect` once connected.
 */
export async function listen(
  settings: ConnectionSettings,
  channels: readonly string[],
  handlers: ListenHandlers,
  log: Log,
  heartbeat: typeof BEAT = BEAT,
): Promise<Listener> {
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let beat: NodeJS.Timeout | undefined;
  let closed = false;
  let lost = false;
  let pause = SHORTEST_PAUSE_MS;

  const connect = async (): Promise<void> => {
    const next = await openClient(settings);
    next.on('notification', (message) => handlers.onNotification(message.channel, message.payload ?? ''));
    next.on('end', () => {
      if (client === next) client = undefined;
      if (!closed) again();
    });
    client = next;
    nextBeat();
    for (const channel of channels) await next.query(`listen ${quoteIdent(channel)}`);
    pause = SHORTEST_PAUSE_MS;
    if (lost) handlers.onReconnect();
    lost = false;
    if (closed) await next.end();
  };

  // A listener sends nothing, so it would never notice a host that vanished: hence a regular `select 1`.
  const nextBeat = (): void => {
    clearTimeout(beat);
    beat = setTimeout(() => {
      const asked = client;
      if (!asked) return;
      const silent = setTimeout(() => cutOff(asked), heartbeat.withinMs);
      asked
        .query('select 1')
        .then(nextBeat, () => cutOff(asked))
        .finally(() => clearTimeout(silent));
    }, heartbeat.everyMs);
    beat.unref();
  };

  const tryConnect = async (): Promise<void> => {
    try {
      await connect();
    } catch (error) {
      log.debug({ err: error }, 'cannot listen for database notifications yet');
      again();
    }
  };

  const again = (): void => {
    if (closed || retry) return;
    lost = true;
    retry = setTimeout(() => {
      retry = undefined;
      void tryConnect();
    }, pause);
    retry.unref();
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  };

  await tryConnect();

  return {
    get isConnected() {
      return client !== undefined;
    },
    async caughtUp() {
      // The server sends what is pending before it ends a statement. A lost connection reports `onReconnect` instead.
      await client?.query('select 1').catch(() => {});
    },
    async close() {
      closed = true;
      clearTimeout(retry);
      clearTimeout(beat);
      if (client) await endClient(client);
    },
  };
}
