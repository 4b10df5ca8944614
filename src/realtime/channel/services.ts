// Services that the channels of all sockets share.
import type { Config } from '../../config/config.ts';
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { ChannelRights } from '../access/channel-rights.ts';
import type { Changes } from '../changes/changes.ts';
import type { JoinQueue } from './join-queue.ts';
import type { Hub } from '../hub/hub.ts';
import type { BroadcastContent } from '../protocol/message.ts';
import type { JoinRefused } from '../problem.ts';
import type { SessionWatch } from '../access/session-watch.ts';
import type { RealtimeCounters } from '../counters.ts';

export type RealtimeSettings = Config['realtime'];

export type Stored = { readonly id: string; readonly event: string; readonly content: BroadcastContent };

export type Services = {
  readonly context: FeatureContext;
  /** Returns the current settings of svc.yaml. */
  readonly settings: () => RealtimeSettings;
  readonly hub: Hub;
  readonly changes: Changes;
  readonly rights: ChannelRights;
  readonly sessions: SessionWatch;
  readonly counters: RealtimeCounters;
  /** Limits the joins of all sockets. */
  readonly joins: JoinQueue;
  /** Returns the newest `limit` stored broadcasts of a private topic that the caller may read, oldest first. */
  readonly replay: (caller: Caller, topic: string, since: Date, limit: number) => Promise<readonly Stored[]>;
  /** Resolves to false when changes cannot be delivered within that time, in milliseconds. */
  readonly whenLive: (timeoutMs: number) => Promise<boolean>;
  /** Returns the refusal that a client is sent for an error. Logs unexpected errors. */
  readonly toRefusal: (error: unknown) => JoinRefused;
};
