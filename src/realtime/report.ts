// Reports the channels of all instances and their presence entries.
import type { Bus, InstanceReport, RoomReport } from './bus/bus.ts';
import type { Channel } from './channel/channel.ts';
import { roomKey, type Hub } from './hub/hub.ts';
import type { RealtimeGauges } from './metrics.ts';
import type { RealtimeCounters } from './counters.ts';

/** Rooms in the report of one instance: those with the most members. */
const MAX_ROOMS = 200;
const MAX_KEYS = 50;
const REPORT_TIMEOUT_MS = 300;

export type RealtimeReport = {
  /** The first report is from this instance. */
  readonly instances: readonly InstanceReport[];
  /** Number of instances that did not respond. */
  readonly silent: number;
  /** First presence keys and their number across instances, keyed by `roomKey`. */
  readonly present: ReadonlyMap<string, { readonly keys: readonly string[]; readonly count: number }>;
};

export function describeInstance(
  hub: Hub,
  channels: Iterable<Channel>,
  gauges: RealtimeGauges,
  counters: RealtimeCounters,
): InstanceReport {
  const tables = new Map<string, Set<string>>();
  for (const { name, tables: channelTables, isJoined } of channels) {
    if (!isJoined || channelTables.length === 0) continue;
    const key = roomKey(name);
    const known = tables.get(key) ?? new Set();
    for (const table of channelTables) known.add(table);
    tables.set(key, known);
  }
  const rooms: RoomReport[] = [];
  for (const { name, members, delivered } of hub.rooms) {
    if (members.size === 0) continue;
    const listened = [...(tables.get(roomKey(name)) ?? [])].sort();
    rooms.push({ ...name, members: members.size, delivered, tables: listened });
  }
  rooms.sort((a, b) => b.members - a.members);
  return {
    state: gauges.state,
    sockets: gauges.sockets,
    lagMs: gauges.lagMs,
    delivered: sum(counters.deliveries.all.values()),
    skipped: counters.skipped + gauges.skipped,
    refused: sum(counters.joins.all.values()) - counters.joins.get('joined'),
    rooms: rooms.slice(0, MAX_ROOMS),
    more: Math.max(0, rooms.length - MAX_ROOMS),
  };
}

export async function collectReports(own: InstanceReport, hub: Hub, bus: Bus): Promise<RealtimeReport> {
  const { answers, silent } = await bus.collectReports(REPORT_TIMEOUT_MS);
  const present = new Map<string, { keys: string[]; count: number }>();
  for (const room of hub.rooms) {
    const keys = new Set([...room.presentMembers()].map(({ key }) => key));
    if (keys.size === 0) continue;
    present.set(roomKey(room.name), { keys: [...keys].sort().slice(0, MAX_KEYS), count: keys.size });
  }
  return { instances: [own, ...answers], silent, present };
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, number) => total + number, 0);
}
