// Realtime as a feature of the server: channels over sockets, and broadcasts over HTTP.
import type { Feature } from '../http/feature.ts';
import { ANON } from '../identity/caller.ts';
import type { Metrics } from '../log/metrics.ts';
import { Problem } from '../problem/problem.ts';
import type { Changes } from './changes/changes.ts';
import { resolveCaller } from './channel/token.ts';
import { RealtimeCounters } from './counters.ts';
import type { InspectRequest } from './gateway/channel-inspector.ts';
import type { UpgradeRequest } from './gateway/gateway.ts';
import { registerBroadcast } from './http/broadcast.ts';
import { measureRealtime, type RealtimeGauges } from './metrics.ts';
import { RealtimeParts, type Inspection, type RealtimeOptions } from './parts.ts';
import { cannotSend, realtimeFormat, starting, switchedOff } from './problem.ts';
import type { Broadcast, RoomName } from './protocol/room-message.ts';
import type { RealtimeReport } from './report.ts';

/** Path of the socket below the prefix of the feature. */
export const SOCKET_PATH = '/websocket';

/** State in the response of `/ready`. */
export type RealtimeState = Changes['state'];

export class Realtime {
  readonly #options: RealtimeOptions;
  readonly #counters = new RealtimeCounters();
  #parts: RealtimeParts | undefined;

  constructor(options: RealtimeOptions) {
    this.#options = options;
  }

  readonly feature: Feature = (context) => {
    const parts = new RealtimeParts(context, this.#options, this.#counters);
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

  /** Registers the metrics of realtime. */
  measure(metrics: Metrics): void {
    measureRealtime(metrics, this.#counters, () => this.#parts?.gauges ?? INITIAL_GAUGES);
  }

  /** Returns the reports of all instances that respond. */
  async report(): Promise<RealtimeReport> {
    return await this.#running().report();
  }

  /** Joins a channel without a socket, for the dashboard. */
  watch(request: InspectRequest): Inspection {
    return this.#running().inspect(request);
  }

  /**
   * Sends a broadcast as the caller of the token. Without a token, sends as the publishable key. Returns the number of
   * receivers at this instance.
   */
  async send(token: string | undefined, name: RoomName, broadcast: Broadcast): Promise<number> {
    const { services } = this.#running();
    const caller = await resolveCaller(token, ANON, services.context.credentials);
    const probed = { caller, headers: {}, address: undefined };
    const canWrite = !name.isPrivate || (await services.rights.canWrite(name.topic, 'broadcast', probed));
    if (!canWrite) throw cannotSend(name.topic);
    return services.hub.broadcast(name, broadcast);
  }

  #running(): RealtimeParts {
    if (!this.#parts) throw starting();
    if (!this.#parts.services.settings().enabled) throw switchedOff();
    return this.#parts;
  }

  async upgrade(request: UpgradeRequest): Promise<void> {
    await this.#parts?.gateway.upgrade(request);
  }

  /** Checks which sessions still exist. Called after sessions have ended. */
  sessionsEnded(): void {
    void this.#parts?.services.sessions.sweep();
  }

  signingKeysChanged(): void {
    this.#parts?.verifyAgain();
  }

  /** Closes all sockets within that time, in milliseconds. */
  async drain(withinMs: number): Promise<void> {
    await this.#parts?.gateway.drain(withinMs);
  }

  async close(): Promise<void> {
    await this.#parts?.close();
  }
}

const INITIAL_GAUGES: RealtimeGauges = {
  state: 'off',
  sockets: 0,
  channels: { public: 0, private: 0 },
  present: 0,
  skipped: 0,
  lagMs: 0,
  peers: 0,
};
