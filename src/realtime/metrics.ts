// Registers the metrics of realtime.
import type { Metrics, Reading } from '../log/metrics.ts';
import type { Counts, RealtimeCounters } from './counters.ts';

/** Current state of an instance. */
export type RealtimeGauges = {
  readonly state: 'live' | 'triggers' | 'connecting' | 'degraded' | 'off';
  readonly sockets: number;
  /** Joined channels of this instance. */
  readonly channels: { readonly public: number; readonly private: number };
  /** Presence entries of members of this instance. */
  readonly present: number;
  /** Frames that open sockets have skipped. */
  readonly skipped: number;
  /** Age of the oldest change that is not sent yet, in milliseconds. 0 when all changes are sent. */
  readonly lagMs: number;
  /** Number of other instances. */
  readonly peers: number;
};

const STATES = ['live', 'triggers', 'connecting', 'degraded', 'off'] as const;
/** Bounds of the histograms in seconds. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function measureRealtime(
  metrics: Metrics,
  counters: RealtimeCounters,
  gauges: () => RealtimeGauges,
): void {
  const gauge = (name: string, help: string, read: () => number | Reading[]): void =>
    metrics.read(`svc_realtime_${name}`, 'gauge', help, read);
  const counter = (name: string, help: string, read: () => number | Reading[]): void =>
    metrics.read(`svc_realtime_${name}`, 'counter', help, read);

  gauge('sockets', 'Open sockets.', () => gauges().sockets);
  gauge('channels', 'Channels that sockets have joined.', () =>
    Object.entries(gauges().channels).map(([access, value]) => ({ labels: { access }, value })),
  );
  gauge('present', 'Members who are present.', () => gauges().present);
  gauge('peers', 'Connected other instances.', () => gauges().peers);
  gauge('source_state', '1 for the current source of table changes.', () => {
    const { state } = gauges();
    return STATES.map((name) => ({ labels: { state: name }, value: name === state ? 1 : 0 }));
  });
  gauge('lag_seconds', 'Age of the oldest change that is not sent yet.', () => gauges().lagMs / 1_000);

  counter('deliveries_total', 'Messages for members of this instance.', () =>
    by('kind', counters.deliveries),
  );
  counter('received_total', 'Messages from clients.', () => by('kind', counters.received));
  counter(
    'skipped_total',
    'Messages that were skipped for slow readers.',
    () => counters.skipped + gauges().skipped,
  );
  counter('joins_total', 'Answered joins.', () => by('result', counters.joins));
  counter('refused_sockets_total', 'Sockets that were not opened.', () =>
    by('reason', counters.refusedSockets),
  );
  counter('closed_sockets_total', 'Sockets that have ended.', () => by('code', counters.closed));
  counter('changes_total', 'Changes with subscribers.', () => by('table', counters.changes));
  counter('gaps_total', 'Gaps in the changes that clients were notified of.', () =>
    by('reason', counters.gaps),
  );
  counter('bus_sent_total', 'Notifications to other instances.', () => counters.bus.get('sent'));
  counter('bus_overflow_total', 'Messages too large for a notification.', () => counters.bus.get('overflow'));
  counter('bus_holes_total', 'Times that messages of another instance were lost.', () =>
    counters.bus.get('holes'),
  );
  counter('bus_unsigned_total', 'Dropped notifications without a valid signature.', () =>
    counters.bus.get('unsigned'),
  );

  counters.times.change = metrics.histogram(
    'svc_realtime_change_delay_seconds',
    'Time from the commit of a change until it is sent.',
    BOUNDS,
  );
  counters.times.visibility = metrics.histogram(
    'svc_realtime_visibility_seconds',
    'Duration of checks of who may select changed rows.',
    BOUNDS,
  );
  counters.times.probe = metrics.histogram(
    'svc_realtime_probe_seconds',
    'Duration of checks of the policies of a private channel.',
    BOUNDS,
  );
}

function by(label: string, counts: Counts): Reading[] {
  return [...counts.all].map(([key, value]) => ({ labels: { [label]: key }, value }));
}
