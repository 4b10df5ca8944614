// Realtime as a feature of the server: channels over sockets, broadcasts over HTTP. Composition only.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { ANON } from '../identity/caller.ts';
import { databaseFailure } from '../postgres/pg-error.ts';
import type { ConnectionSettings } from '../postgres/connection.ts';
import type { Metrics } from '../log/metrics.ts';
import { Problem } from '../problem/problem.ts';
import { ChannelRights } from './access/channel-rights.ts';
import { SessionWatch } from './access/session-watch.ts';
import type { Bus, InstanceReport } from './bus/bus.ts';
import { NotifyBus } from './bus/notify-bus.ts';
import type { Changes, StoredMessage } from './changes/changes.ts';
import { FeedOfChanges } from './changes/feed.ts';
import type { Channel } from './channel/channel.ts';
import { Rate } from './channel/rate.ts';
import { callerOf } from './channel/token.ts';
import { CLOSE } from './gateway/connection.ts';
import { Gateway } from './gateway/gateway.ts';
import { Watch, type WatchRequest } from './gateway/watch.ts';
import { Hub } from './hub/hub.ts';
import type { Broadcast, RoomName } from './hub/room.ts';
import { registerBroadcast } from './http/broadcast.ts';
import { UnreadableFrame } from './gateway/message.ts';
import { measureRealtime, type RealtimeGauges } from './metrics.ts';
import {
  databaseRefusal,
  JoinRefused,
  mayNotSend,
  realtimeFormat,
  starting,
  switchedOff,
  tooManyWatchers,
  unreadable,
} from './problem.ts';
import { reportOf, reportOfAll, type RealtimeReport } from './report.ts';
import type { Services, Stored } from './services.ts';
import { Tally } from './tally.ts';
import { startMaintenance, type Maintenance } from './stored/maintenance.ts';
import { replay } from './stored/replay.ts';

/** Where sockets are opened, below the prefix of the feature. */
export const SOCKET_PATH = '/websocket';

export type RealtimeOptions = {
  /** Past any pooler: what listens, and what reads the changes. */
  readonly direct: ConnectionSettings;
  /** How many processes share the limits of an instance. */
  readonly processes: number;
};

/** A new snapshot is noticed within that time. */
const CHECK_RIGHTS_EVERY_MS = 5_000;

/** Pages of the dashboard that watch at the same time. */
const MOST_WATCHERS = 50;

/** What `/ready` shows. */
export type RealtimeState = Changes['state'];

/** Answers instead of the switch to the protocol of sockets. */
export type Refuse = (problem: Problem) => void;

export class Realtime {
  readonly #options: RealtimeOptions;
  readonly #tally = new Tally();
  #parts: Parts | undefined;

  constructor(options: RealtimeOptions) {
    this.#options = options;
  }

  readonly feature: Feature = (context) => {
    const parts = createParts(context, this.#options, this.#tally);
    this.#parts = parts;
    context.whenServing?.(() => void parts.start());
    return async (app) => {
      app.addHook('onRequest', (_request, _reply, done) => {
        done(parts.services.settings().enabled ? undefined : switchedOff());
      });
      app.setErrorHandler((error, request, reply) => {
        const problem = error instanceof Problem ? error : undefined;
        if (!problem) throw error;
        const { status, headers, body } = realtimeFormat(problem, request.id);
        request.scope.refusal = problem;
        void reply.code(status).headers(headers).type('application/json; charset=utf-8').send(body);
      });
      registerBroadcast(app, parts.services);
    };
  };

  get state(): RealtimeState {
    return this.#parts?.services.changes.state ?? 'off';
  }

  /** Adds its numbers to those of the process. */
  measure(metrics: Metrics): void {
    measureRealtime(metrics, this.#tally, () => this.#parts?.gauges() ?? NOTHING_YET);
  }

  /** Of all instances that answer. */
  async report(): Promise<RealtimeReport> {
    return await this.#running().report();
  }

  /** Joins without a socket. Returns how to leave; `renew` takes a new token of the same caller. */
  watch(request: WatchRequest): { readonly renew: (token: string) => void; readonly leave: () => void } {
    return this.#running().watch(request);
  }

  /** As whoever has that token; undefined: the publishable key. Returns how many heard it at this instance. */
  async send(token: string | undefined, name: RoomName, broadcast: Broadcast): Promise<number> {
    const { services } = this.#running();
    const caller = await callerOf(token, ANON, services.context.credentials);
    const mayWrite = !name.isPrivate || (await services.rights.mayWrite(name.topic, 'broadcast', caller, {}));
    if (!mayWrite) throw mayNotSend(name.topic);
    return services.hub.broadcast(name, broadcast);
  }

  #running(): Parts {
    if (!this.#parts) throw starting();
    if (!this.#parts.services.settings().enabled) throw switchedOff();
    return this.#parts;
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, refuse: Refuse): Promise<void> {
    await this.#parts?.gateway.upgrade(request, socket, head, refuse);
  }

  /** Some sessions have ended. */
  sessionsEnded(): void {
    void this.#parts?.services.sessions.sweep();
  }

  /** Keys that sign tokens came or went. */
  signingKeysChanged(): void {
    this.#parts?.verifyAgain();
  }

  /** Closes all sockets within that time. */
  async drain(withinMs: number): Promise<void> {
    await this.#parts?.gateway.drain(withinMs);
  }

  async close(): Promise<void> {
    await this.#parts?.close();
  }
}

const NOTHING_YET: RealtimeGauges = {
  state: 'off',
  sockets: 0,
  channels: { public: 0, private: 0 },
  present: 0,
  skipped: 0,
  lagMs: 0,
  peers: 0,
};

type Parts = {
  readonly services: Services;
  readonly gateway: Gateway;
  readonly gauges: () => RealtimeGauges;
  readonly report: () => Promise<RealtimeReport>;
  readonly watch: Realtime['watch'];
  readonly verifyAgain: () => void;
  readonly start: () => Promise<void>;
  readonly close: () => Promise<void>;
};

function createParts(context: FeatureContext, { direct, processes }: RealtimeOptions, tally: Tally): Parts {
  const bus: Bus = new NotifyBus({ context, listener: direct, tally });
  const hub = new Hub(bus, tally);
  const changes = new FeedOfChanges(context, direct, tally);
  const watches = new Set<Watch>();
  function* allChannels(): Generator<Channel> {
    for (const { channels } of gateway.connections) yield* channels;
    for (const { channel } of watches) yield channel;
  }
  const sessions = new SessionWatch(
    context,
    () => sessionsOf(allChannels()),
    (ended) => {
      for (const channel of allChannels()) {
        const id = channel.caller.user?.sessionId ?? undefined;
        if (id !== undefined && ended.has(id)) void channel.sessionEnded();
      }
    },
  );
  const services: Services = {
    context,
    settings: () => context.snapshot().config.realtime,
    hub,
    changes,
    rights: new ChannelRights(context, tally),
    sessions,
    tally,
    joins: new Rate(),
    replay: async (...asked) => await replay(context, ...asked),
    whenLive: async (withinMs) => await untilLive(changes, withinMs),
    refusalOf: (error) => refusalOf(context, error),
  };
  const gateway = new Gateway(services, processes);
  bus.onLost(() => {
    for (const channel of allChannels()) channel.fail();
  });
  changes.onStoredMessage((message) => {
    const { id, event, content } = toStored(message);
    const broadcast = { event, content, meta: JSON.stringify({ id }), id };
    hub.deliver({ topic: message.topic, isPrivate: message.private }, broadcast);
  });
  let version = 0;
  /** With another file or schema policies may say something else. */
  const checkRights = async (): Promise<void> => {
    const now = context.snapshot().version;
    const hasChanged = version !== now;
    version = now;
    if (!services.settings().enabled) {
      gateway.closeAll(CLOSE.restart, 'Realtime was switched off');
      for (const { channel } of watches) channel.close();
    }
    if (!hasChanged) return;
    for (const channel of allChannels()) {
      if (channel.name.isPrivate) await channel.checkRights().catch(() => channel.fail());
    }
  };
  let watch: NodeJS.Timeout | undefined;
  let maintenance: Maintenance | undefined;
  const gauges = (): RealtimeGauges => ({
    ...gateway.figures,
    state: changes.state,
    present: hub.present,
    lagMs: changes.lagMs,
    peers: bus.peers,
  });
  const report = (): InstanceReport => reportOf(hub, allChannels(), gauges(), tally);
  bus.report(report);
  return {
    services,
    gateway,
    gauges,
    report: async () => await reportOfAll(report(), hub, bus),
    watch(request) {
      if (watches.size >= MOST_WATCHERS) throw tooManyWatchers();
      const watched = new Watch(services, {
        ...request,
        onEnd: () => {
          watches.delete(watched);
          request.onEnd();
        },
      });
      watches.add(watched);
      void watched.join();
      return { renew: (token) => watched.renew(token), leave: () => watched.channel.end() };
    },
    verifyAgain() {
      for (const channel of allChannels()) void channel.verifyAgain();
    },
    async start() {
      ({ version } = context.snapshot());
      watch = setInterval(() => void checkRights(), CHECK_RIGHTS_EVERY_MS).unref();
      sessions.start();
      maintenance = startMaintenance(context);
      changes.start();
      await bus.start();
      gateway.open();
    },
    async close() {
      clearInterval(watch);
      gateway.close();
      for (const { channel } of watches) channel.end();
      sessions.close();
      await Promise.all([bus.close(), changes.close(), maintenance?.close()]);
    },
  };
}

function* sessionsOf(channels: Iterable<Channel>): Generator<string> {
  for (const { caller } of channels) {
    const id = caller.user?.sessionId ?? undefined;
    if (id !== undefined) yield id;
  }
}

function toStored({ id, event, payload, binary }: StoredMessage): Stored {
  return { id, event, content: binary ? { bytes: binary } : { json: payload ?? '{}' } };
}

const LOOK_EVERY_MS = 200;

async function untilLive(changes: Changes, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (changes.state !== 'live' && changes.state !== 'triggers') {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS).unref());
  }
  return true;
}

function refusalOf({ log }: FeatureContext, error: unknown): JoinRefused {
  if (error instanceof JoinRefused) return error;
  if (error instanceof UnreadableFrame) return unreadable(error.message);
  const failure = databaseFailure(error);
  if (failure) return databaseRefusal(failure.message);
  log.error({ err: error }, 'fault in a realtime channel');
  return new JoinRefused('UnknownError', 'Unknown Error on Channel');
}
