// A topic and everyone who has joined it at this instance. A private and a public channel of one name are two rooms:
// nothing crosses from one to the other.
import { toFrame } from '../gateway/frame.ts';
import {
  fitsBinaryHead,
  writeBinaryBroadcast,
  writeText,
  type BroadcastContent,
  type Version,
} from '../gateway/message.ts';
import type { Writer } from '../gateway/writer.ts';
import { changeText, Presence, stateText, type Meta, type PresenceChange } from './presence.ts';

export type RoomName = {
  /** Without `realtime:`. */
  readonly topic: string;
  readonly isPrivate: boolean;
};

export type Member = {
  readonly version: Version;
  readonly writer: Writer;
  /** Of a private channel, whether policies let it; of a public one always. */
  readonly hearsBroadcasts: boolean;
  readonly hearsPresence: boolean;
  /** Sends what it may do without when it is slow, as soon as it is known that it may still hear it. */
  hear(frame: Buffer): void;
  /** It was sent the stored broadcast with this id before. */
  hasHad(id: string): boolean;
};

export type Broadcast = {
  readonly event: string;
  readonly content: BroadcastContent;
  /** The text of a JSON object. */
  readonly meta?: string | undefined;
  /** Of one that the database keeps. */
  readonly id?: string | undefined;
};

export class Room {
  readonly name: RoomName;
  readonly members = new Set<Member>();
  /** Messages for members of this instance, of all kinds. */
  delivered = 0;
  /** Of this instance's members. */
  readonly present = new Presence<Member>();
  /** By instance, then by ref. */
  readonly #elsewhere = new Map<string, Map<string, Meta>>();
  readonly #topic: string;

  constructor(name: RoomName) {
    this.name = name;
    this.#topic = `realtime:${name.topic}`;
  }

  get isEmpty(): boolean {
    return this.members.size === 0;
  }

  /** To everybody here but `sender`. Returns how many it was written to. */
  broadcast(broadcast: Broadcast, sender?: Member): number {
    const frames = this.#framesOf(broadcast);
    let count = 0;
    for (const member of this.members) {
      if (member === sender || !member.hearsBroadcasts) continue;
      if (broadcast.id !== undefined && member.hasHad(broadcast.id)) continue;
      const frame = frames.for(member.version);
      if (!frame) continue;
      member.hear(frame);
      count += 1;
    }
    this.delivered += count;
    return count;
  }

  /** To one of them, whatever waits for it. */
  replay(member: Member, broadcast: Broadcast): void {
    const frame = this.#framesOf(broadcast).for(member.version);
    if (frame) member.writer.write(frame);
  }

  /** Returns how many it was written to. */
  tellPresence(change: PresenceChange): number {
    let count = 0;
    const frames = new Frames((version) => this.#frame('presence_diff', changeText(change), version));
    for (const member of this.members) {
      if (!member.hearsPresence) continue;
      const frame = frames.for(member.version);
      if (!frame) continue;
      member.hear(frame);
      count += 1;
    }
    this.delivered += count;
    return count;
  }

  sendState(member: Member): void {
    member.writer.write(this.#frame('presence_state', this.stateText(), member.version));
  }

  stateText(): string {
    return stateText(this.everybody());
  }

  *everybody(): Iterable<Meta> {
    yield* this.present.metas();
    for (const metas of this.#elsewhere.values()) yield* metas.values();
  }

  /** What another instance tells of its members. Returns how many here were told. */
  changeElsewhere(instance: string, { joins, leaves }: PresenceChange): number {
    const metas = this.#elsewhere.get(instance) ?? new Map<string, Meta>();
    const left = leaves.filter(({ ref }) => metas.delete(ref));
    const joined = joins.filter(({ ref }) => !metas.has(ref));
    for (const meta of joined) metas.set(meta.ref, meta);
    if (metas.size > 0) this.#elsewhere.set(instance, metas);
    else this.#elsewhere.delete(instance);
    if (left.length + joined.length === 0) return 0;
    return this.tellPresence({ joins: joined, leaves: left });
  }

  /** All that another instance has: whatever was known of it and is not among them has left. */
  replaceElsewhere(instance: string, metas: readonly Meta[]): number {
    const refs = new Set(metas.map(({ ref }) => ref));
    const leaves = [...(this.#elsewhere.get(instance)?.values() ?? [])].filter(({ ref }) => !refs.has(ref));
    return this.changeElsewhere(instance, { joins: metas, leaves });
  }

  /** Here or elsewhere. */
  get hasPresent(): boolean {
    return this.present.size > 0 || this.#elsewhere.size > 0;
  }

  #framesOf({ event, content, meta }: Broadcast): Frames {
    if ('bytes' in content) {
      // What a statement sends may have a name that no frame can tell.
      const fits = fitsBinaryHead(event);
      return new Frames((version) =>
        version === 1 || !fits
          ? undefined
          : toFrame(writeBinaryBroadcast(this.#topic, event, content.bytes, meta)),
      );
    }
    const more = meta === undefined ? '' : `,"meta":${meta}`;
    const payload = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":${content.json}${more}}`;
    return new Frames((version) => this.#frame('broadcast', payload, version));
  }

  #frame(event: string, payload: string, version: Version): Buffer {
    return toFrame(writeText({ topic: this.#topic, event, payload }, version));
  }
}

/** One message as each version of the protocol has it, made when the first member asks for it. */
class Frames {
  readonly #make: (version: Version) => Buffer | undefined;
  #first: Buffer | undefined;
  #second: Buffer | undefined;

  constructor(make: (version: Version) => Buffer | undefined) {
    this.#make = make;
  }

  /** Undefined where a version has no form for it. */
  for(version: Version): Buffer | undefined {
    if (version === 2) return (this.#second ??= this.#make(2));
    return (this.#first ??= this.#make(1));
  }
}
