// The bus connects the instances: broadcasts and presence of rooms. Messages are delivered at most once. Messages of
// one instance about one topic arrive in order. notify-bus.ts is the only implementation.
import type { Broadcast, Meta, PresenceChange, RoomName } from '../protocol/room-message.ts';

export type Outgoing =
  | { readonly kind: 'broadcast'; readonly room: RoomName; readonly broadcast: Broadcast }
  | { readonly kind: 'presence'; readonly room: RoomName; readonly change: PresenceChange };

export type RoomState = { readonly room: RoomName; readonly metas: readonly Meta[] };

/** `from`: name of the instance, which changes with each start. */
export type BusMessage = { readonly from: string } & (
  | Outgoing
  /** All presence entries of that instance. */
  | { readonly kind: 'state'; readonly rooms: readonly RoomState[] }
);

/** Report of an instance on request. */
export type InstanceReport = {
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  readonly sockets: number;
  readonly lagMs: number;
  /** Messages since its start: sent to members, and skipped because members read slowly. */
  readonly delivered: number;
  readonly skipped: number;
  /** Rejected joins since its start. */
  readonly refused: number;
  /** The rooms with the most members. `more` counts the others. */
  readonly rooms: readonly RoomReport[];
  readonly more: number;
};

export type RoomReport = RoomName & {
  readonly members: number;
  /** Messages since the first member joined. */
  readonly delivered: number;
  /** Tables whose changes the members requested. */
  readonly tables: readonly string[];
};

export interface Bus {
  /** Number of other instances. */
  readonly peers: number;
  publish(message: Outgoing): void;
  onMessage(receive: (message: BusMessage) => void): void;
  /** Called when an instance has ended or was silent for too long. Its presence entries are removed. */
  onPeerGone(forget: (instance: string) => void): void;
  /** Called when messages of other instances may have been lost. */
  onLost(lost: () => void): void;
  /** Sets the function that reads the state for new instances. */
  state(read: () => readonly RoomState[]): void;
  /** Collects the reports of other instances, and counts those that do not respond in time. */
  collectReports(
    timeoutMs: number,
  ): Promise<{ readonly answers: readonly InstanceReport[]; readonly silent: number }>;
  /** Sets the function that reads the report of this instance. */
  report(read: () => InstanceReport): void;
  /** Resolves when all later messages of other instances are received. */
  start(): Promise<void>;
  close(): Promise<void>;
}
