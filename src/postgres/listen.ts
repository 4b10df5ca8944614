// LISTEN on a dedicated connection. Notifications sent during an outage are lost, so a listener must also check for
// changes after each reconnect.
import type pg from 'pg';
import { Backoff } from '../lib/limits/backoff.ts';
import type { Log } from '../log/log.ts';
import { cutOff, endClient, openClient, type ConnectionSettings } from './connection.ts';
import { quoteIdent } from './sql.ts';

export type Listener = {
  /** Resolves when the handlers have had every notification sent before the call. */
  caughtUp(): Promise<void>;
  /** Whether notifications are received now. */
  readonly isConnected: boolean;
  close(): Promise<void>;
};

export type ListenHandlers = {
  readonly onNotification: (channel: string, payload: string) => void;
  /** Connected again after a loss: notifications may have been missed. */
  readonly onReconnect: () => void;
};

const PAUSE = { minMs: 250, maxMs: 15_000 };
/** Interval of the health check on the connection and its timeout, in milliseconds. */
const BEAT = { everyMs: 10_000, withinMs: 5_000 };

/**
 * Resolves once the channels are subscribed: later changes to data that is read afterwards are then announced. If the
 * server is unreachable, it resolves too, retries, and calls `onReconnect` once connected.
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
  let closed = false;
  let lost = false;
  const backoff = new Backoff(PAUSE);

  const connect = async (): Promise<void> => {
    const next = await openClient(settings);
    next.on('notification', (message) => handlers.onNotification(message.channel, message.payload ?? ''));
    const stopChecks = checkRegularly(next, heartbeat);
    next.on('end', () => {
      stopChecks();
      if (client === next) client = undefined;
      if (!closed) again();
    });
    client = next;
    for (const channel of channels) await next.query(`listen ${quoteIdent(channel)}`);
    backoff.reset();
    if (lost) handlers.onReconnect();
    lost = false;
    if (closed) await next.end();
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
    }, backoff.next());
    retry.unref();
  };

  await tryConnect();

  return {
    get isConnected() {
      // While reconnecting, the channels are not listened to yet.
      return client !== undefined && !lost;
    },
    async caughtUp() {
      // The server sends pending notifications before it completes a statement. For a lost connection, `onReconnect`
      // is called instead.
      await client?.query('select 1').catch(() => {});
    },
    async close() {
      closed = true;
      clearTimeout(retry);
      if (client) await endClient(client);
    },
  };
}

/**
 * A listener sends nothing, so it would not notice a host that vanished. A regular `select 1` detects it. Returns a
 * function that stops the checks.
 */
function checkRegularly(client: pg.Client, { everyMs, withinMs }: typeof BEAT): () => void {
  let timer: NodeJS.Timeout | undefined;
  const check = (): void => {
    const silent = setTimeout(() => cutOff(client), withinMs);
    client
      .query('select 1')
      .then(schedule, () => cutOff(client))
      .finally(() => clearTimeout(silent));
  };
  const schedule = (): void => {
    timer = setTimeout(check, everyMs);
    timer.unref();
  };
  schedule();
  return () => clearTimeout(timer);
}
