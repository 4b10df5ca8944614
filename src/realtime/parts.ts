// Creates and connects the parts of realtime, and starts and stops them.
import type { FeatureContext } from '../http/feature.ts';
import { databaseFailure } from '../postgres/pg-error.ts';
import type { ConnectionSettings } from '../postgres/connection.ts';
import { ChannelRights } from './access/channel-rights.ts';
import { SessionWatch } from './access/session-watch.ts';
import type { Bus, InstanceReport } from './bus/bus.ts';
import { NotifyBus } from './bus/notify-bus.ts';
import { ChangeStream } from './changes/change-stream.ts';
import type { Changes, StoredMessage } from './changes/changes.ts';
import type { Channel } from './channel/channel.ts';
import { JoinQueue } from './channel/join-queue.ts';
import type { Services } from './channel/services.ts';
import type { RealtimeCounters } from './counters.ts';
import { ChannelInspector, type InspectRequest } from './gateway/channel-inspector.ts';
import { CLOSE } from './gateway/connection.ts';
import { Gateway } from './gateway/gateway.ts';
import { Hub } from './hub/hub.ts';
import type { RealtimeGauges } from './metrics.ts';
import { databaseRefusal, JoinRefused, tooManyInspectors, unreadable } from './problem.ts';
import { UnreadableFrame } from './protocol/message.ts';
import { collectReports, describeInstance, type RealtimeReport } from './report.ts';
import { startMaintenance, type Maintenance } from './stored/maintenance.ts';
import { replay } from './stored/replay.ts';

export type RealtimeOptions = {
  /** Settings of connections that must not use a pooler: the listener and the reader of changes. */
  readonly direct: ConnectionSettings;
  /** Number of processes that share the limits of an instance. */
  readonly processes: number;
};

export type Inspection = {
  /** Sets a new token of the same caller. */
  readonly renew: (token: string) => void;
  readonly leave: () => void;
};

/** Rights are checked again within this time after a change of the file or the schema. */
const RIGHTS_CHECK_INTERVAL_MS = 5_000;
/** Channels that the dashboard inspects at the same time. */
const MAX_INSPECTORS = 50;
const LIVE_POLL_MS = 200;

export class RealtimeParts {
  readonly services: Services;
  readonly gateway: Gateway;
  readonly #context: FeatureContext;
  readonly #counters: RealtimeCounters;
  readonly #bus: Bus;
  readonly #hub: Hub;
  readonly #changes: Changes;
  readonly #sessions: SessionWatch;
  readonly #inspectors = new Set<ChannelInspector>();
  #rightsTimer: NodeJS.Timeout | undefined;
  #maintenance: Maintenance | undefined;
  /** Version of the snapshot that the rights were checked with. */
  #version = 0;

  constructor(context: FeatureContext, { direct, processes }: RealtimeOptions, counters: RealtimeCounters) {
    this.#context = context;
    this.#counters = counters;
    this.#bus = new NotifyBus({ context, listener: direct, counters });
    this.#hub = new Hub(this.#bus, counters);
    this.#changes = new ChangeStream({
      context,
      direct,
      counters,
      hasListeners: () => this.gateway.hasConnections || this.#inspectors.size > 0,
    });
    this.#sessions = new SessionWatch(
      context,
      () => sessionIds(this.#channels()),
      (ended) => this.#endSessions(ended),
    );
    this.services = this.#createServices();
    this.gateway = new Gateway(this.services, processes);
    this.#bus.onLost(() => {
      for (const channel of this.#channels()) channel.fail();
    });
    this.#bus.report(() => this.#describe());
    this.#changes.onStoredMessage((message) => deliverStored(this.#hub, message));
  }

  async start(): Promise<void> {
    this.#version = this.#context.snapshot().version;
    this.#rightsTimer = setInterval(() => void this.#checkRights(), RIGHTS_CHECK_INTERVAL_MS).unref();
    this.#sessions.start();
    this.#maintenance = startMaintenance(this.#context);
    this.#changes.start();
    await this.#bus.start();
    this.gateway.open();
  }

  async close(): Promise<void> {
    clearInterval(this.#rightsTimer);
    this.gateway.close();
    for (const { channel } of this.#inspectors) channel.end();
    this.#sessions.close();
    this.services.joins.close();
    await Promise.all([this.#bus.close(), this.#changes.close(), this.#maintenance?.close()]);
  }

  get gauges(): RealtimeGauges {
    return {
      ...this.gateway.figures,
      state: this.#changes.state,
      present: this.#hub.present,
      lagMs: this.#changes.lagMs,
      peers: this.#bus.peers,
    };
  }

  async report(): Promise<RealtimeReport> {
    return await collectReports(this.#describe(), this.#hub, this.#bus);
  }

  /** Joins a channel without a socket. Throws a Problem when too many channels are inspected. */
  inspect(request: InspectRequest): Inspection {
    if (this.#inspectors.size >= MAX_INSPECTORS) throw tooManyInspectors();
    const inspector = new ChannelInspector(this.services, {
      ...request,
      onEnd: () => {
        this.#inspectors.delete(inspector);
        request.onEnd();
      },
    });
    this.#inspectors.add(inspector);
    void inspector.join();
    return { renew: (token) => inspector.renew(token), leave: () => inspector.channel.end() };
  }

  /** Verifies the tokens of all channels after the signing keys have changed. */
  verifyAgain(): void {
    for (const channel of this.#channels()) void channel.verifyAgain();
  }

  #createServices(): Services {
    const context = this.#context;
    const services: Services = {
      context,
      settings: () => context.snapshot().config.realtime,
      hub: this.#hub,
      changes: this.#changes,
      rights: new ChannelRights(context, this.#counters),
      sessions: this.#sessions,
      counters: this.#counters,
      joins: new JoinQueue(() => services.settings().limits.joins),
      replay: async (...query) => await replay(context, ...query),
      whenLive: async (timeoutMs) => await waitUntilLive(this.#changes, timeoutMs),
      toRefusal: (error) => toRefusal(context, error),
    };
    return services;
  }

  *#channels(): Generator<Channel> {
    for (const { channels } of this.gateway.connections) yield* channels;
    for (const { channel } of this.#inspectors) yield channel;
  }

  #endSessions(ended: ReadonlySet<string>): void {
    for (const channel of this.#channels()) {
      const id = channel.caller.user?.sessionId ?? undefined;
      if (id !== undefined && ended.has(id)) void channel.sessionEnded();
    }
  }

  /** Policies may give other rights after a change of the file or the schema. */
  async #checkRights(): Promise<void> {
    const { version } = this.#context.snapshot();
    const hasChanged = this.#version !== version;
    this.#version = version;
    if (!this.services.settings().enabled) {
      this.gateway.closeAll(CLOSE.restart, 'Realtime was switched off');
      for (const { channel } of this.#inspectors) channel.close();
    }
    if (!hasChanged) return;
    for (const channel of this.#channels()) {
      if (channel.name.isPrivate) await channel.checkRights().catch(() => channel.fail());
    }
  }

  #describe(): InstanceReport {
    return describeInstance(this.#hub, this.#channels(), this.gauges, this.#counters);
  }
}

function* sessionIds(channels: Iterable<Channel>): Generator<string> {
  for (const { caller } of channels) {
    const id = caller.user?.sessionId ?? undefined;
    if (id !== undefined) yield id;
  }
}

function deliverStored(hub: Hub, message: StoredMessage): void {
  const { id, topic, event, payload, binary } = message;
  const content = binary ? { bytes: binary } : { json: payload ?? '{}' };
  const broadcast = { event, content, meta: JSON.stringify({ id }), id };
  hub.deliver({ topic, isPrivate: message.private }, broadcast);
}

async function waitUntilLive(changes: Changes, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (changes.state !== 'live' && changes.state !== 'triggers') {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, LIVE_POLL_MS).unref());
  }
  return true;
}

function toRefusal({ log }: FeatureContext, error: unknown): JoinRefused {
  if (error instanceof JoinRefused) return error;
  if (error instanceof UnreadableFrame) return unreadable(error.message);
  const failure = databaseFailure(error);
  if (failure) return databaseRefusal(failure.message);
  log.error({ err: error }, 'fault in a realtime channel');
  return new JoinRefused('UnknownError', 'Unknown Error on Channel');
}
