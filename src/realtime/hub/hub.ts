// The rooms of this instance. It exchanges their broadcasts and presence with other instances. A room is removed when
// it has no members here and no presence entries of other instances.
import type { Bus, BusMessage } from '../bus/bus.ts';
import type { Broadcast, Meta, PresenceChange, RoomName } from '../protocol/room-message.ts';
import { Room, type Member } from './room.ts';
import type { RealtimeCounters } from '../counters.ts';

export class Hub {
  readonly #rooms = new Map<string, Room>();
  readonly #bus: Bus;
  readonly #counters: RealtimeCounters;

  constructor(bus: Bus, counters: RealtimeCounters) {
    this.#bus = bus;
    this.#counters = counters;
    bus.onMessage((message) => this.#receive(message));
    bus.onPeerGone((instance) => this.#forgetInstance(instance));
    bus.state(() => this.#localState());
  }

  get rooms(): Iterable<Room> {
    return this.#rooms.values();
  }

  /** Number of presence entries of this instance. */
  get present(): number {
    let count = 0;
    for (const { present } of this.#rooms.values()) count += present.size;
    return count;
  }

  enter(name: RoomName, member: Member): Room {
    const room = this.#openRoom(name);
    room.members.add(member);
    return room;
  }

  leave(room: Room, member: Member): void {
    room.members.delete(member);
    const change = room.present.untrack(member);
    if (change) this.#publishPresence(room, change);
    this.#closeIfIdle(room);
  }

  /** Sends to all instances. Returns the number of receivers at this instance. */
  broadcast(name: RoomName, broadcast: Broadcast, sender?: Member): number {
    this.#counters.received.add('broadcast');
    this.#bus.publish({ kind: 'broadcast', room: name, broadcast });
    return this.deliver(name, broadcast, sender);
  }

  /** Sends to the members of this instance. Returns the number of receivers. */
  deliver(name: RoomName, broadcast: Broadcast, sender?: Member): number {
    const count = this.#rooms.get(roomKey(name))?.broadcast(broadcast, sender) ?? 0;
    this.#counters.deliveries.add('broadcast', count);
    return count;
  }

  /** Returns false when the entry does not change. */
  track(room: Room, member: Member, key: string, payload: string): boolean {
    this.#counters.received.add('presence');
    const change = room.present.track(member, key, payload);
    if (change) this.#publishPresence(room, change);
    return change !== undefined;
  }

  untrack(room: Room, member: Member): void {
    this.#counters.received.add('presence');
    const change = room.present.untrack(member);
    if (change) this.#publishPresence(room, change);
  }

  #publishPresence(room: Room, change: PresenceChange): void {
    this.#countPresence(room.sendPresence(change));
    this.#bus.publish({ kind: 'presence', room: room.name, change });
  }

  #receive(message: BusMessage): void {
    switch (message.kind) {
      case 'broadcast':
        this.deliver(message.room, message.broadcast);
        break;
      case 'presence': {
        const room = this.#openRoom(message.room);
        this.#countPresence(room.changeRemote(message.from, message.change));
        this.#closeIfIdle(room);
        break;
      }
      case 'state': {
        const reported = new Set(message.rooms.map(({ room }) => roomKey(room)));
        for (const { room: name, metas } of message.rooms) {
          this.#countPresence(this.#openRoom(name).replaceRemote(message.from, metas));
        }
        for (const [key, room] of this.#rooms) {
          if (reported.has(key)) continue;
          this.#countPresence(room.replaceRemote(message.from, []));
          this.#closeIfIdle(room);
        }
        break;
      }
    }
  }

  #forgetInstance(instance: string): void {
    for (const room of this.#rooms.values()) {
      this.#countPresence(room.replaceRemote(instance, []));
      this.#closeIfIdle(room);
    }
  }

  #countPresence(presences: number): void {
    this.#counters.deliveries.add('presence', presences);
  }

  #localState(): Array<{ room: RoomName; metas: readonly Meta[] }> {
    const rooms = [...this.#rooms.values()].filter((room) => room.present.size > 0);
    return rooms.map((room) => ({ room: room.name, metas: [...room.present.metas()] }));
  }

  #openRoom(name: RoomName): Room {
    const key = roomKey(name);
    const known = this.#rooms.get(key);
    if (known) return known;
    const room = new Room(name);
    this.#rooms.set(key, room);
    return room;
  }

  #closeIfIdle(room: Room): void {
    if (room.isEmpty && !room.hasPresent) this.#rooms.delete(roomKey(room.name));
  }
}

export function roomKey({ topic, isPrivate }: RoomName): string {
  return `${isPrivate ? 'private' : 'public'}:${topic}`;
}
