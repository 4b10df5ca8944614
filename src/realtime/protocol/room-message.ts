// Broadcasts and presence changes, as channels, rooms and instances exchange them.
import type { BroadcastContent } from './message.ts';

export type RoomName = {
  /** Has no prefix `realtime:`. */
  readonly topic: string;
  readonly isPrivate: boolean;
};

export type Broadcast = {
  readonly event: string;
  readonly content: BroadcastContent;
  /** Text of a JSON object. */
  readonly meta?: string | undefined;
  /** Id of a stored broadcast. */
  readonly id?: string | undefined;
};

export type Meta = {
  readonly key: string;
  /** Unique across instances. */
  readonly ref: string;
  /** Text of the JSON object that the member tracks. */
  readonly payload: string;
  /** `ref` of the entry that this entry replaces. */
  readonly previous?: string | undefined;
};

export type PresenceChange = { readonly joins: readonly Meta[]; readonly leaves: readonly Meta[] };
