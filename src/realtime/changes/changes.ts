// What channels know of row changes.
import type { Caller } from '../../identity/caller.ts';

/** As the client asked for it; `id` is ours. */
export type ChangeBinding = {
  /** Not 0, unique on the socket. */
  readonly id: number;
  /** `*`, `INSERT`, … in any case; anything else is `*`. */
  readonly event: string;
  /** Absent: public; `*`: all. */
  readonly schema: string | undefined;
  readonly table: string | undefined;
  readonly filter: string | undefined;
  readonly select: readonly string[] | undefined;
};

export type ChangesRequest = {
  /** For the log. */
  readonly channel: string;
  readonly bindings: readonly ChangeBinding[];
  readonly caller: Caller;
  /** Instead of `tell`, whatever keeps a binding from hearing anything is a refusal, after so many milliseconds at the latest. */
  readonly waitMs: number | undefined;
  /** Payload of one `postgres_changes` message, JSON text; in the order of commits. */
  readonly deliver: (payload: string) => void;
  /** Text of a `system` message. */
  readonly tell: (status: 'ok' | 'error', message: string) => void;
  /** A gap: the subscription is closed already, and the client has to join again. */
  readonly lost: () => void;
};

export type ChangesSubscription = {
  /** With the next change. */
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
   * Resolves when changes are coming, or when they never will, which `tell` then says. Throws `JoinRefused` when the
   * database cannot be read yet, and with `waitMs` when they never will.
   */
  subscribe(request: ChangesRequest): Promise<ChangesSubscription>;
  /** `triggers`: live without the write-ahead log. `degraded`: the server does not let changes be read. `off`: the file does not want it. */
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  /** Age of the oldest change that is still to be sent, in milliseconds; 0 when there is none. */
  readonly lagMs: number;
  /** Rows of `realtime.messages`, once they are visible, in the order of commits. */
  onStoredMessage(listener: (message: StoredMessage) => void): void;
  start(): void;
  close(): Promise<void>;
};
