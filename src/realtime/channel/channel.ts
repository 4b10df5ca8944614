// One channel as its socket uses it. Messages of the client are processed in their order, so that broadcasts leave in
// the order in which they arrived.
import type { Caller } from '../../identity/caller.ts';
import { SYSTEM } from '../problem.ts';
import type { ClientMessage } from '../protocol/message.ts';
import type { RoomName } from '../protocol/room-message.ts';
import { ChannelMember } from './channel-member.ts';
import type { ChannelSocket } from './channel-socket.ts';
import { handleLeave, handleMessage, replyFailure } from './client-messages.ts';
import { Inbox, type InboxHandlers } from './inbox.ts';
import { joinChannel, refuseJoin } from './join.ts';
import type { Services } from './services.ts';

const HANDLERS: InboxHandlers<ChannelMember> = {
  isOpen: ({ state }) => state !== 'closed',
  handle: handleMessage,
  onError: replyFailure,
  onFault: (member) => member.fail(),
};

export class Channel {
  readonly #member: ChannelMember;
  readonly #inbox: Inbox<ChannelMember>;
  #isRefused = false;

  /** `message`: the `phx_join` of the client. */
  constructor(services: Services, socket: ChannelSocket, message: ClientMessage) {
    const member = new ChannelMember(services, socket, message, () => socket.onClosed(this));
    this.#member = member;
    this.#inbox = new Inbox(member, HANDLERS);
  }

  /** Includes the prefix `realtime:`. */
  get topic(): string {
    return this.#member.frames.topic;
  }

  get name(): RoomName {
    return this.#member.name;
  }

  get joinRef(): string | null {
    return this.#member.frames.joinRef;
  }

  get caller(): Caller {
    return this.#member.caller.current;
  }

  get isJoined(): boolean {
    return this.#member.state === 'joined';
  }

  /** True after a rejected join. The reply is delayed by `refusalDelay()`. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Tables whose changes the channel requested: `schema.table`, or `schema.*`. */
  get tables(): readonly string[] {
    const { changes } = this.#member.request;
    return changes.map(({ schema = 'public', table = '*' }) => `${schema}.${table}`);
  }

  /** Joins the channel and replies to `ref`. `admit` throws `JoinRefused`. Never throws. */
  async join(ref: string | null, admit: () => void): Promise<void> {
    this.#inbox.pause();
    try {
      admit();
      await joinChannel(this.#member, ref);
    } catch (error) {
      if (this.#member.state === 'closed') return;
      this.#isRefused = true;
      await refuseJoin(this.#member, ref, error);
    } finally {
      this.#inbox.resume();
    }
  }

  receive(message: ClientMessage): void {
    const member = this.#member;
    if (member.state === 'closed') return;
    if (message.event === 'phx_leave' && member.state === 'joining') handleLeave(member, message);
    else if (!this.#inbox.push(message)) member.close('error', SYSTEM.tooManyMessages);
  }

  /** Falls back to the socket's caller after the user has signed out, was banned or deleted. */
  async sessionEnded(): Promise<void> {
    await this.#member.caller.sessionEnded();
  }

  /** Verifies the token again after the signing keys have changed. */
  async verifyAgain(): Promise<void> {
    await this.#member.caller.verifyAgain();
  }

  /** Closes the channel when its caller may not read it any more. */
  async checkRights(): Promise<void> {
    await this.#member.checkRights();
  }

  /** Closes the channel for good. The client does not join again by itself. */
  close(): void {
    this.#member.close();
  }

  /** Closes the channel after a fault. The client joins again a second later. */
  fail(): void {
    this.#member.fail();
  }

  /** Closes the channel without a message, because its socket has closed. */
  end(): void {
    this.#member.end();
  }

  /** Sends the presence state again after messages were skipped. */
  caughtUp(): void {
    if (this.isJoined && this.#member.hasPresenceState) this.#member.sendPresenceState();
  }

  warnSkippedMessages(): void {
    if (this.isJoined) this.#member.frames.system('system', 'error', SYSTEM.skipping);
  }

  notifyDraining(): void {
    if (this.isJoined) this.#member.frames.system('system', 'ok', SYSTEM.draining);
  }
}
