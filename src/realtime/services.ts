// What the channels of all sockets share.
import type { Config } from '../config/config.ts';

import type { FeatureContext } from '../http/feature.ts';
import type { Caller } from '../identity/caller.ts';
import type { ChannelRights } from './access/channel-rights.ts';
import type { Changes } from './changes/changes.ts';
import type { Rate } from './channel/rate.ts';
import type { Hub } from './hub/hub.ts';
import type { BroadcastContent } from './gateway/message.ts';
import type { JoinRefused } from './problem.ts';
import type { SessionWatch } from './access/session-watch.ts';
import type { Tally } from './tally.ts';

export type RealtimeSettings = Config['realtime'];

export type Stored = { readonly id: string; readonly event: string; readonly content: BroadcastContent };

export type Services = {
  readonly context: FeatureContext;
  /** Of the file as it is now. */
  readonly settings: () => RealtimeSettings;
  readonly hub: Hub;
  readonly changes: Changes;
  readonly rights: ChannelRights;
  readonly sessions: SessionWatch;
  readonly tally: Tally;
  /** Joins of all sockets. */
  readonly joins: Rate;
  /** The newest `limit` stored broadcasts of a private topic that the caller may read, oldest first. */
  readonly replay: (caller: Caller, topic: string, since: Date, limit: number) => Promise<readonly Stored[]>;
  /** False when changes do not come within that time, in milliseconds. */
  readonly whenLive: (withinMs: number) => Promise<boolean>;
  /** What a client is told of an error. Logs what is a fault. */
  readonly refusalOf: (error: unknown) => JoinRefused;
};
