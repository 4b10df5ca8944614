// The NOTIFY channels of a backend, and the action for each notification.
import type { EndedSessions } from '../../identity/ended-sessions.ts';
import { SESSIONS_CHANNEL } from '../../identity/session-ends.ts';
import { SIGNING_KEYS_CHANNEL } from '../../identity/signing-keys.ts';
import { SCHEMA_CHANNEL } from '../../migrate/state/applied-state.ts';
import type { ListenHandlers } from '../../postgres/listen.ts';
import { IMPORT_CHANNEL } from '../../provision/import-state.ts';
import type { Deliveries } from '../../deliveries/deliveries.ts';
import { DELIVERIES_CHANNEL } from '../../deliveries/tables.ts';
import type { Realtime } from '../../realtime/realtime.ts';
import type { ImportState } from '../import-state.ts';
import type { RetryUntilDone } from '../retry-until-done.ts';
import type { ServedConfig } from '../served-config.ts';

type Subscription = {
  readonly onNotification: () => void;
  /** Called after a reconnection, which may have missed notifications. Default: `onNotification`. */
  readonly onReconnect?: () => void;
};

/** Keyed by channel. */
export type Subscriptions = Readonly<Record<string, Subscription>>;

export type Notified = {
  readonly served: ServedConfig;
  readonly keysReload: RetryUntilDone;
  readonly imports: ImportState | undefined;
  readonly ended: EndedSessions;
  readonly realtime: Realtime;
  readonly deliveries: Deliveries;
};

export function subscriptions(
  { served, keysReload, imports, ended, realtime, deliveries }: Notified,
  extra: Readonly<Record<string, () => void>>,
): Subscriptions {
  return {
    ...Object.fromEntries(
      Object.entries(extra).map(([channel, onNotification]) => [channel, { onNotification }]),
    ),
    [SCHEMA_CHANNEL]: { onNotification: () => served.schemaChanged() },
    [SIGNING_KEYS_CHANNEL]: { onNotification: () => keysReload.request() },
    [IMPORT_CHANNEL]: { onNotification: () => imports?.onNotification() },
    [DELIVERIES_CHANNEL]: { onNotification: () => deliveries.onNotification() },
    [SESSIONS_CHANNEL]: {
      onNotification() {
        ended.wake();
        realtime.sessionsEnded();
      },
      onReconnect() {
        ended.reload();
        realtime.sessionsEnded();
      },
    },
  };
}

export function handlers(table: Subscriptions): ListenHandlers {
  return {
    onNotification: (channel) => table[channel]?.onNotification(),
    onReconnect() {
      for (const { onNotification, onReconnect = onNotification } of Object.values(table)) onReconnect();
    },
  };
}
