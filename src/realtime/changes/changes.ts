// Interface between channels and the changes of tables.
import type { Caller } from '../../identity/caller.ts';

/** Binding as the client requested it. svc assigns `id`. */
export type ChangeBinding = {
  /** Unique on the socket and never 0. */
  readonly id: number;
  /** `*`, `INSERT`, … in any case. Unknown values mean `*`. */
  readonly event: string;
  /** Undefined means `public`, `*` means all schemas. */
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly filter: string | undefined;
  readonly select: readonly string[] | undefined;
};

export type ChangesRequest = {
  /** Name of the channel for the log. */
  readonly channel: string;
  readonly bindings: readonly ChangeBinding[];
  readonly caller: Caller;
  /** The client's address. Undefined for channels that svc opens itself. */
  readonly address: string | undefined;
  /**
   * Time in milliseconds after which the subscription fails. If it is set, a binding that cannot receive changes is
   * rejected, instead of a system message.
   */
  readonly waitMs: number | undefined;
  /** Receives the payload of one `postgres_changes` message as JSON text, in the order of commits. */
  readonly deliver: (payload: string) => void;
  /** Receives the text of a `system` message. */
  readonly sendSystemMessage: (status: 'ok' | 'error', message: string) => void;
  /** Called after a gap. The subscription is closed, and the client has to join again. */
  readonly lost: () => void;
};

export type ChangesSubscription = {
  /** Takes effect with the next change. */
  changeCaller(caller: Caller): Promise<void>;
  close(): void;
};

export type StoredMessage = {
  readonly id: string;
  readonly topic: string;
  readonly event: string;
  readonly private: boolean;
  /** JSON text. */
  readonly payload: string | undefined;
  readonly binary: Uint8Array | undefined;
};

export type Changes = {
  /**
   * Resolves when changes are delivered, or after a system message if they cannot be delivered. Throws `JoinRefused`
   * while the database cannot be read, and with `waitMs` also if changes cannot be delivered.
   */
  subscribe(request: ChangesRequest): Promise<ChangesSubscription>;
  /**
   * `triggers`: live without the write-ahead log. `degraded`: the server does not allow reading changes. `off`:
   * disabled in svc.yaml.
   */
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  /** Age of the oldest change that is not sent yet, in milliseconds. 0 when all changes are sent. */
  readonly lagMs: number;
  /** The listener receives visible rows of `realtime.messages` in the order of commits. */
  onStoredMessage(listener: (message: StoredMessage) => void): void;
  start(): void;
  close(): Promise<void>;
};
