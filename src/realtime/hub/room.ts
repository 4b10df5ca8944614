// A topic with the members who joined it at this instance. A private and a public channel with the same name are
// separate rooms.
import { toFrame } from '../protocol/frame.ts';
import { fitsBinaryHead, writeBinaryBroadcast, writeText, type Version } from '../protocol/message.ts';
import type { Writer } from '../protocol/writer.ts';
import type { Broadcast, Meta, PresenceChange, RoomName } from '../protocol/room-message.ts';
import { changeText, Presence, stateText } from './presence.ts';

export type Member = {
  readonly version: Version;
  readonly writer: Writer;
  /** Always true in public channels. In private channels, policies decide. */
  readonly canReceiveBroadcasts: boolean;
  readonly canReceivePresence: boolean;
  /** Sends the frame after the read right is confirmed. A slow reader skips it. */
  deliver(frame: Buffer): void;
  /** Returns true when the stored broadcast with this id was replayed to the member. */
  hasReceived(id: string): boolean;
};

export class Room {
  readonly name: RoomName;
  readonly members = new Set<Member>();
  /** Number of messages that were sent to members of this instance. */
  delivered = 0;
  /** Presence entries of members of this instance. */
  readonly present = new Presence<Member>();
  /** Presence entries of other instances, keyed by instance and ref. */
  readonly #remotePresence = new Map<string, Map<string, Meta>>();
  readonly #topic: string;

  constructor(name: RoomName) {
    this.name = name;
    this.#topic = `realtime:${name.topic}`;
  }

  get isEmpty(): boolean {
    return this.members.size === 0;
  }

  /** Sends to all members except `sender`. Returns the number of receivers. */
  broadcast(broadcast: Broadcast, sender?: Member): number {
    const frames = this.#broadcastFrames(broadcast);
    let count = 0;
    for (const member of this.members) {
      if (member === sender || !member.canReceiveBroadcasts) continue;
      if (broadcast.id !== undefined && member.hasReceived(broadcast.id)) continue;
      const frame = frames.for(member.version);
      if (!frame) continue;
      member.deliver(frame);
      count += 1;
    }
    this.delivered += count;
    return count;
  }

  /** Sends to one member, without the check of its read right. */
  replay(member: Member, broadcast: Broadcast): void {
    const frame = this.#broadcastFrames(broadcast).for(member.version);
    if (frame) member.writer.write(frame);
  }

  /** Sends a presence change to all members. Returns the number of receivers. */
  sendPresence(change: PresenceChange): number {
    let count = 0;
    const frames = new Frames((version) => this.#frame('presence_diff', changeText(change), version));
    for (const member of this.members) {
      if (!member.canReceivePresence) continue;
      const frame = frames.for(member.version);
      if (!frame) continue;
      member.deliver(frame);
      count += 1;
    }
    this.delivered += count;
    return count;
  }

  sendState(member: Member): void {
    member.writer.write(this.#frame('presence_state', this.stateText(), member.version));
  }

  stateText(): string {
    return stateText(this.presentMembers());
  }

  *presentMembers(): Iterable<Meta> {
    yield* this.present.metas();
    for (const metas of this.#remotePresence.values()) yield* metas.values();
  }

  /** Applies a presence change of another instance. Returns the number of receivers. */
  changeRemote(instance: string, { joins, leaves }: PresenceChange): number {
    const metas = this.#remotePresence.get(instance) ?? new Map<string, Meta>();
    const left = leaves.filter(({ ref }) => metas.delete(ref));
    const joined = joins.filter(({ ref }) => !metas.has(ref));
    for (const meta of joined) metas.set(meta.ref, meta);
    if (metas.size > 0) this.#remotePresence.set(instance, metas);
    else this.#remotePresence.delete(instance);
    if (left.length + joined.length === 0) return 0;
    return this.sendPresence({ joins: joined, leaves: left });
  }

  /** Replaces the presence entries of another instance. Returns the number of receivers. */
  replaceRemote(instance: string, metas: readonly Meta[]): number {
    const refs = new Set(metas.map(({ ref }) => ref));
    const leaves = [...(this.#remotePresence.get(instance)?.values() ?? [])].filter(
      ({ ref }) => !refs.has(ref),
    );
    return this.changeRemote(instance, { joins: metas, leaves });
  }

  /** True when this or another instance has presence entries. */
  get hasPresent(): boolean {
    return this.present.size > 0 || this.#remotePresence.size > 0;
  }

  #broadcastFrames({ event, content, meta }: Broadcast): Frames {
    if ('bytes' in content) {
      // A broadcast from SQL may have an event name that is too long for a binary frame.
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

/** Frames of one message by version of the protocol, created for the first member that needs them. */
class Frames {
  readonly #make: (version: Version) => Buffer | undefined;
  #first: Buffer | undefined;
  #second: Buffer | undefined;

  constructor(make: (version: Version) => Buffer | undefined) {
    this.#make = make;
  }

  /** Returns undefined when the version cannot encode the message. */
  for(version: Version): Buffer | undefined {
    if (version === 2) return (this.#second ??= this.#make(2));
    return (this.#first ??= this.#make(1));
  }
}
