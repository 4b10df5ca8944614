// The rooms of this instance, and what it exchanges with others about them. Where nobody of this instance is in a room
// it is not kept, except for those of other instances who are present there.
import type { Bus, BusMessage } from '../bus/bus.ts';
import { Room, type Broadcast, type Member, type RoomName } from './room.ts';
import type { Meta, PresenceChange } from './presence.ts';
import type { Tally } from '../tally.ts';

export class Hub {
  readonly #rooms = new Map<string, Room>();
  readonly #bus: Bus;
  readonly #tally: Tally;

  constructor(bus: Bus, tally: Tally) {
    this.#bus = bus;
    this.#tally = tally;
    bus.onMessage((message) => this.#receive(message));
    bus.onPeerGone((instance) => this.#forget(instance));
    bus.state(() => this.#presentHere());
  }

  get rooms(): Iterable<Room> {
    return this.#rooms.values();
  }

  /** Entries of members of this instance. */
  get present(): number {
    let count = 0;
    for (const { present } of this.#rooms.values()) count += present.size;
    return count;
  }

  enter(name: RoomName, member: Member): Room {
    const room = this.#open(name);
    room.members.add(member);
    return room;
  }

  leave(room: Room, member: Member): void {
    room.members.delete(member);
    const change = room.present.untrack(member);
    if (change) this.#tell(room, change);
    this.#closeIfIdle(room);
  }

  /** Returns how many of this instance heard it. Others hear it a moment later. */
  broadcast(name: RoomName, broadcast: Broadcast, sender?: Member): number {
    this.#tally.received.add('broadcast');
    this.#bus.publish({ kind: 'broadcast', room: name, broadcast });
    return this.deliver(name, broadcast, sender);
  }

  /** To members of this instance only. */
  deliver(name: RoomName, broadcast: Broadcast, sender?: Member): number {
    const count = this.#rooms.get(keyOf(name))?.broadcast(broadcast, sender) ?? 0;
    this.#tally.deliveries.add('broadcast', count);
    return count;
  }

  /** False when it says the same as before. */
  track(room: Room, member: Member, key: string, payload: string): boolean {
    this.#tally.received.add('presence');
    const change = room.present.track(member, key, payload);
    if (change) this.#tell(room, change);
    return change !== undefined;
  }

  untrack(room: Room, member: Member): void {
    this.#tally.received.add('presence');
    const change = room.present.untrack(member);
    if (change) this.#tell(room, change);
  }

  #tell(room: Room, change: PresenceChange): void {
    this.#delivered(room.tellPresence(change));
    this.#bus.publish({ kind: 'presence', room: room.name, change });
  }

  #receive(message: BusMessage): void {
    switch (message.kind) {
      case 'broadcast':
        this.deliver(message.room, message.broadcast);
        break;
      case 'presence': {
        const room = this.#open(message.room);
        this.#delivered(room.changeElsewhere(message.from, message.change));
        this.#closeIfIdle(room);
        break;
      }
      case 'state': {
        const told = new Set(message.rooms.map(({ room }) => keyOf(room)));
        for (const { room: name, metas } of message.rooms) {
          this.#delivered(this.#open(name).replaceElsewhere(message.from, metas));
        }
        for (const [key, room] of this.#rooms) {
          if (told.has(key)) continue;
          this.#delivered(room.replaceElsewhere(message.from, []));
          this.#closeIfIdle(room);
        }
        break;
      }
    }
  }

  #forget(instance: string): void {
    for (const room of this.#rooms.values()) {
      this.#delivered(room.replaceElsewhere(instance, []));
      this.#closeIfIdle(room);
    }
  }

  #delivered(presences: number): void {
    this.#tally.deliveries.add('presence', presences);
  }

  #presentHere(): Array<{ room: RoomName; metas: readonly Meta[] }> {
    const rooms = [...this.#rooms.values()].filter((room) => room.present.size > 0);
    return rooms.map((room) => ({ room: room.name, metas: [...room.present.metas()] }));
  }

  #open(name: RoomName): Room {
    const key = keyOf(name);
    const known = this.#rooms.get(key);
    if (known) return known;
    const room = new Room(name);
    this.#rooms.set(key, room);
    return room;
  }

  #closeIfIdle(room: Room): void {
    if (room.isEmpty && !room.hasPresent) this.#rooms.delete(keyOf(room.name));
  }
}

export function keyOf({ topic, isPrivate }: RoomName): string {
  return `${isPrivate ? 'private' : 'public'}:${topic}`;
}
