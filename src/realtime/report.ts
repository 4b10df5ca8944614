// Which channels there are and who is in them: of this instance as it knows them, of others as they answer.
import type { Bus, InstanceReport, RoomReport } from './bus/bus.ts';
import type { Channel } from './channel/channel.ts';
import { keyOf, type Hub } from './hub/hub.ts';
import type { RealtimeGauges } from './metrics.ts';
import type { Tally } from './tally.ts';

/** Of one instance, those with the most members. */
const MOST_ROOMS = 200;
const MOST_KEYS = 50;
const ANSWERS_WITHIN_MS = 300;

export type RealtimeReport = {
  /** The first is the one that was asked. */
  readonly instances: readonly InstanceReport[];
  /** How many others did not answer. */
  readonly silent: number;
  /** Keys of who is present, of all instances, by `keyOf` of the room; the first of them. */
  readonly present: ReadonlyMap<string, { readonly keys: readonly string[]; readonly count: number }>;
};

export function reportOf(
  hub: Hub,
  channels: Iterable<Channel>,
  gauges: RealtimeGauges,
  tally: Tally,
): InstanceReport {
  const tables = new Map<string, Set<string>>();
  for (const { name, tables: some, isJoined } of channels) {
    if (!isJoined || some.length === 0) continue;
    const key = keyOf(name);
    const known = tables.get(key) ?? new Set();
    for (const table of some) known.add(table);
    tables.set(key, known);
  }
  const rooms: RoomReport[] = [];
  for (const { name, members, delivered } of hub.rooms) {
    if (members.size === 0) continue;
    const listened = [...(tables.get(keyOf(name)) ?? [])].sort();
    rooms.push({ ...name, members: members.size, delivered, tables: listened });
  }
  rooms.sort((a, b) => b.members - a.members);
  return {
    state: gauges.state,
    sockets: gauges.sockets,
    lagMs: gauges.lagMs,
    delivered: sum(tally.deliveries.all.values()),
    skipped: tally.skipped + gauges.skipped,
    refused: sum(tally.joins.all.values()) - tally.joins.get('joined'),
    rooms: rooms.slice(0, MOST_ROOMS),
    more: Math.max(0, rooms.length - MOST_ROOMS),
  };
}

export async function reportOfAll(own: InstanceReport, hub: Hub, bus: Bus): Promise<RealtimeReport> {
  const { answers, silent } = await bus.ask(ANSWERS_WITHIN_MS);
  const present = new Map<string, { keys: string[]; count: number }>();
  for (const room of hub.rooms) {
    const keys = new Set([...room.everybody()].map(({ key }) => key));
    if (keys.size === 0) continue;
    present.set(keyOf(room.name), { keys: [...keys].sort().slice(0, MOST_KEYS), count: keys.size });
  }
  return { instances: [own, ...answers], silent, present };
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, number) => total + number, 0);
}
