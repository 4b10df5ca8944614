// How instances talk to each other about rooms. PostgreSQL is the only one there is; another would be a file beside
// notify-bus.ts. At most once; what one instance sends about one topic arrives in order.
import type { Meta, PresenceChange } from '../hub/presence.ts';
import type { Broadcast, RoomName } from '../hub/room.ts';

export type Outgoing =
  | { readonly kind: 'broadcast'; readonly room: RoomName; readonly broadcast: Broadcast }
  | { readonly kind: 'presence'; readonly room: RoomName; readonly change: PresenceChange };

export type RoomState = { readonly room: RoomName; readonly metas: readonly Meta[] };

/** `from` names the instance, and another one after each of its starts. */
export type BusMessage = { readonly from: string } & (
  | Outgoing
  /** Everybody who is present at that instance. */
  | { readonly kind: 'state'; readonly rooms: readonly RoomState[] }
);

/** What an instance says of itself when it is asked. */
export type InstanceReport = {
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  readonly sockets: number;
  readonly lagMs: number;
  /** Messages since its start: sent to members, and left out because they read slowly. */
  readonly delivered: number;
  readonly skipped: number;
  /** Joins since its start. */
  readonly refused: number;
  /** Not all where there are many. */
  readonly rooms: readonly RoomReport[];
  readonly more: number;
};

export type RoomReport = RoomName & {
  readonly members: number;
  /** Messages since the first of them came. */
  readonly delivered: number;
  /** Whose changes are listened for. */
  readonly tables: readonly string[];
};

export interface Bus {
  /** How many other instances are heard. */
  readonly peers: number;
  publish(message: Outgoing): void;
  onMessage(receive: (message: BusMessage) => void): void;
  /** An instance has ended, or was silent for too long: whoever was present there has left. */
  onPeerGone(forget: (instance: string) => void): void;
  /** Messages of others may have been missed. */
  onLost(lost: () => void): void;
  /** What a newcomer is told. */
  state(read: () => readonly RoomState[]): void;
  /** What other instances say of themselves within that time, in milliseconds, and how many say nothing. */
  ask(withinMs: number): Promise<{ readonly answers: readonly InstanceReport[]; readonly silent: number }>;
  /** What this one answers. */
  report(read: () => InstanceReport): void;
  /** Resolves when everything that others send from now on is heard. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Of an instance that is the only one. */
export function localBus(): Bus {
  const nothing = (): void => {};
  return {
    peers: 0,
    publish: nothing,
    onMessage: nothing,
    onPeerGone: nothing,
    onLost: nothing,
    state: nothing,
    ask: () => Promise.resolve({ answers: [], silent: 0 }),
    report: nothing,
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
