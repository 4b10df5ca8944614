// The state of one channel, joining → joined → closed, and its membership in a room.
import type { Caller } from '../../identity/caller.ts';
import type { AccessLease } from '../access/access-lease.ts';
import { ALL_RIGHTS, type Extension, type ProbedCaller, type ReadRights } from '../access/channel-rights.ts';
import type { ChangesSubscription } from '../changes/changes.ts';
import { nextRef } from '../hub/presence.ts';
import type { Member, Room } from '../hub/room.ts';
import { SYSTEM } from '../problem.ts';
import type { ClientMessage, Version } from '../protocol/message.ts';
import type { RoomName } from '../protocol/room-message.ts';
import type { Writer } from '../protocol/writer.ts';
import { ChannelCaller } from './channel-caller.ts';
import { ChannelFrames, type ReplyStatus } from './channel-frames.ts';
import type { ChannelSocket } from './channel-socket.ts';
import { JoinBuffer } from './join-buffer.ts';
import { readJoin, type JoinRequest } from './join-request.ts';
import { hasLostRight, WriteRights } from './rights.ts';
import type { Services } from './services.ts';

export class ChannelMember implements Member {
  // Every delivery reads the first four fields.
  readonly version: Version;
  readonly writer: Writer;
  #rights: ReadRights = ALL_RIGHTS;
  /** Undefined for public channels. */
  lease: AccessLease | undefined;
  readonly services: Services;
  readonly socket: ChannelSocket;
  readonly frames: ChannelFrames;
  readonly request: JoinRequest;
  readonly name: RoomName;
  readonly caller: ChannelCaller;
  readonly buffer = new JoinBuffer();
  state: 'joining' | 'joined' | 'closed' = 'joining';
  room: Room | undefined;
  subscription: ChangesSubscription | undefined;
  readonly presenceKey: string;
  /** Ids of the stored broadcasts that were replayed. */
  replayed: ReadonlySet<string> | undefined;
  /** True after the client was sent the presence state, which later changes refer to. */
  #hasPresenceState = false;
  /** Undefined for public channels. */
  readonly #writeRights: WriteRights | undefined;
  readonly #onClosed: () => void;

  constructor(services: Services, socket: ChannelSocket, message: ClientMessage, onClosed: () => void) {
    this.version = socket.version;
    this.writer = socket.writer;
    this.services = services;
    this.socket = socket;
    const { topic, joinRef, ref, payload } = message;
    this.frames = new ChannelFrames(socket, { topic, joinRef: joinRef ?? ref });
    this.request = readJoin(payload);
    this.name = { topic: topic.replace(/^realtime:/, ''), isPrivate: this.request.private };
    this.caller = new ChannelCaller(services, socket.caller, this);
    this.presenceKey = this.request.presence.key || nextRef();
    this.#writeRights = this.name.isPrivate ? new WriteRights(services, this.name.topic) : undefined;
    this.#onClosed = onClosed;
  }

  get canReceiveBroadcasts(): boolean {
    return this.#rights.broadcast;
  }

  get canReceivePresence(): boolean {
    return this.#rights.presence && (!this.name.isPrivate || this.#hasPresenceState);
  }

  deliver(frame: Buffer): void {
    if (this.lease) this.lease.deliver(() => this.writer.writeOrSkip(frame));
    else this.writer.writeOrSkip(frame);
  }

  hasReceived(id: string): boolean {
    return this.replayed?.has(id) === true;
  }

  get rights(): ReadRights {
    return this.#rights;
  }

  /** Reads the rights of a caller who joins. */
  async readRights(): Promise<void> {
    this.#rights = await this.services.rights.readRights(this.name.topic, this.#probedCaller());
  }

  /** Checks the read rights again. Returns false when the channel is not joined any more. */
  async checkRights(): Promise<boolean> {
    if (!this.name.isPrivate) return this.state === 'joined';
    const { topic } = this.name;
    const caller = this.caller.current;
    const rights = await this.services.rights.readRights(topic, this.#probedCaller());
    if (this.state === 'closed' || caller !== this.caller.current) return false;
    const hasLost = hasLostRight(this.#rights, rights);
    this.#rights = rights;
    if (hasLost) this.close('error', SYSTEM.readRightLost(topic));
    return !hasLost;
  }

  /** Calls `then` with the write right: at once where it is known, otherwise after the database has answered. */
  ifAllowed(extension: Extension, then: (isAllowed: boolean) => void): Promise<void> | undefined {
    if (this.#writeRights) return this.#writeRights.check(extension, this.#probedCaller(), then);
    then(true);
    return undefined;
  }

  #probedCaller(): ProbedCaller {
    const { headers, address } = this.socket;
    return { caller: this.caller.current, headers, address };
  }

  /** Closes the channel when the new caller may not read. */
  async changeCaller(caller: Caller): Promise<void> {
    if (this.state === 'closed') return;
    this.caller.set(caller);
    this.#writeRights?.clear();
    this.caller.watchExpiry();
    // `assertCurrent` then rejects the join.
    if (this.state === 'joining') return;
    if (!(await this.checkRights())) return;
    await this.subscription?.changeCaller(caller);
  }

  sendPresenceState(): void {
    this.#hasPresenceState = true;
    const send = (): void => this.room?.sendState(this);
    if (this.lease) this.lease.deliver(send);
    else send();
  }

  get hasPresenceState(): boolean {
    return this.#hasPresenceState;
  }

  /** Closes the channel for good. The client does not join again by itself. */
  close(status?: ReplyStatus, why?: string): void {
    if (this.state === 'closed') return;
    if (status !== undefined && why !== undefined) this.frames.system('system', status, why);
    this.#end();
    this.frames.end('phx_close');
  }

  /** Closes the channel after a fault. The client joins again a second later. */
  fail(): void {
    if (this.state === 'closed') return;
    this.#end();
    this.frames.end('phx_error');
  }

  /** Closes the channel without a message. */
  end(): void {
    if (this.state !== 'closed') this.#end();
  }

  #end(): void {
    this.state = 'closed';
    this.buffer.discard();
    this.caller.close();
    if (this.lease) {
      this.lease.close();
      this.services.rights.watched -= 1;
    }
    this.subscription?.close();
    if (this.room) this.services.hub.leave(this.room, this);
    this.#onClosed();
  }
}
