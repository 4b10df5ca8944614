// The numbers of realtime in `/metrics`.
import type { Metrics, Reading } from '../log/metrics.ts';
import type { Counts, Tally } from './tally.ts';

/** How it is at this moment. */
export type RealtimeGauges = {
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  readonly sockets: number;
  /** Joined at this instance. */
  readonly channels: { readonly public: number; readonly private: number };
  /** Entries of members of this instance. */
  readonly present: number;
  /** Of open sockets. */
  readonly skipped: number;
  /** Age in milliseconds of the oldest change that is still to be sent; 0 when there is none. */
  readonly lagMs: number;
  /** Other instances. */
  readonly peers: number;
};

const STATES = ['live', 'triggers', 'connecting', 'degraded', 'off'] as const;
/** In seconds. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function measureRealtime(metrics: Metrics, tally: Tally, gauges: () => RealtimeGauges): void {
  const gauge = (name: string, help: string, read: () => number | Reading[]): void =>
    metrics.read(`svc_realtime_${name}`, 'gauge', help, read);
  const counter = (name: string, help: string, read: () => number | Reading[]): void =>
    metrics.read(`svc_realtime_${name}`, 'counter', help, read);

  gauge('sockets', 'Open sockets.', () => gauges().sockets);
  gauge('channels', 'Channels that sockets have joined.', () =>
    Object.entries(gauges().channels).map(([access, value]) => ({ labels: { access }, value })),
  );
  gauge('present', 'Members who are present.', () => gauges().present);
  gauge('peers', 'Other instances that are heard.', () => gauges().peers);
  gauge('source_state', '1 for how changes of tables come.', () => {
    const { state } = gauges();
    return STATES.map((name) => ({ labels: { state: name }, value: name === state ? 1 : 0 }));
  });
  gauge('lag_seconds', 'Age of the oldest change that is still to be sent.', () => gauges().lagMs / 1_000);

  counter('deliveries_total', 'Messages for members of this instance.', () => by('kind', tally.deliveries));
  counter('received_total', 'Messages of clients.', () => by('kind', tally.received));
  counter('skipped_total', 'Messages that slow readers did not get.', () => tally.skipped + gauges().skipped);
  counter('joins_total', 'Answered joins.', () => by('result', tally.joins));
  counter('refused_sockets_total', 'Sockets that were not opened.', () => by('reason', tally.refusedSockets));
  counter('closed_sockets_total', 'Sockets that have ended.', () => by('code', tally.closed));
  counter('changes_total', 'Changes that somebody listens for.', () => by('table', tally.changes));
  counter('gaps_total', 'Times that clients were told of a gap.', () => by('reason', tally.gaps));
  counter('bus_sent_total', 'Notifications to other instances.', () => tally.bus.get('sent'));
  counter('bus_overflow_total', 'Messages too large for one.', () => tally.bus.get('overflow'));
  counter('bus_holes_total', 'Times that something of another instance was lost.', () =>
    tally.bus.get('holes'),
  );

  tally.times.change = metrics.histogram(
    'svc_realtime_change_delay_seconds',
    'From the commit of a change until it is sent.',
    BOUNDS,
  );
  tally.times.visibility = metrics.histogram(
    'svc_realtime_visibility_seconds',
    'Duration of asking who may see changed rows.',
    BOUNDS,
  );
  tally.times.probe = metrics.histogram(
    'svc_realtime_probe_seconds',
    'Duration of asking what policies of a private channel allow.',
    BOUNDS,
  );
}

function by(label: string, counts: Counts): Reading[] {
  return [...counts.all].map(([key, value]) => ({ labels: { [label]: key }, value }));
}
