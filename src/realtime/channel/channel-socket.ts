// The socket as its channels use it.
import type { Caller } from '../../identity/caller.ts';
import type { Version } from '../protocol/message.ts';
import type { Writer } from '../protocol/writer.ts';

export type ChannelSocket = {
  readonly version: Version;
  readonly writer: Writer;
  /** Caller of the API key that the socket was opened with. */
  readonly caller: Caller;
  /** The client's address. Undefined for sockets that svc opens itself. */
  readonly address: string | undefined;
  /** `x-…` headers of the upgrade request. Policies can read them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Counts a broadcast. Returns false when the socket exceeds its limit. */
  tryConsumeMessage(): boolean;
  /** Counts a presence message. Returns false when the socket exceeds its limit. */
  tryConsumePresence(): boolean;
  /** Returns the id of a new binding. It is unique on the socket and never 0. */
  nextBindingId(): number;
  /** Waits until the join limits admit the caller. Throws `JoinRefused`. */
  waitForTurn(caller: Caller): Promise<void>;
  /** Returns the delay before the reply to a rejected join, in milliseconds. */
  refusalDelay(): number;
  /** Removes a closed channel. `topic` has the prefix `realtime:`. */
  onClosed(channel: { readonly topic: string }): void;
};
