// One channel of one socket: joining → joined → closed. What it receives is worked on one after another, so that
// broadcasts leave in the order in which they came, also where the first has to ask the database for its right.
import { ANON, type Caller } from '../../identity/caller.ts';
import { ReadLease } from '../access/read-lease.ts';
import type { ChangesSubscription } from '../changes/changes.ts';
import {
  fitsBinaryHead,
  isObject,
  jsonText,
  writeText,
  type BroadcastContent,
  type ClientMessage,
} from '../gateway/message.ts';
import type { Version } from '../gateway/message.ts';
import type { Writer } from '../gateway/writer.ts';
import { nextRef } from '../hub/presence.ts';
import type { Broadcast, Member, Room, RoomName } from '../hub/room.ts';
import {
  badToken,
  cannotReplay,
  JoinRefused,
  mayNotRead,
  privateOnly,
  SYSTEM,
  tooManyBindings,
  topicRequired,
  topicTooLong,
} from '../problem.ts';
import type { Services } from '../services.ts';
import { MOST_REPLAYED, readJoin, type JoinRequest } from './join-request.ts';
import { callerOf, endOf } from './token.ts';

/** The socket, as its channels see it. */
export type Host = {
  readonly version: Version;
  readonly writer: Writer;
  /** Of the key that the socket was opened with. */
  readonly caller: Caller;
  /** `x-…` headers of the upgrade, for policies. */
  readonly headers: Readonly<Record<string, string>>;
  /** One more broadcast is within the limit of the socket. */
  takeMessage(): boolean;
  takePresence(): boolean;
  /** A number for a binding, unique on the socket and never 0. */
  nextBindingId(): number;
  /** How long the answer to a refused join waits, in milliseconds. */
  refusalDelay(): number;
  forget(channel: Channel): void;
};

type Rights = { readonly broadcast: boolean; readonly presence: boolean };

const ALL: Rights = { broadcast: true, presence: true };
/** More than anybody sends while the database answers one question. */
const MOST_WAITING = 500;
const MOST_BINDINGS = 100;
/** The difference between clocks that the end of a token allows for: the client does not come back by itself. */
const GRACE_MS = 30_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const REPLICATION_READY_WITHIN_MS = 60_000;

export class Channel implements Member {
  // What each delivery looks at stands first and together.
  readonly version: Version;
  readonly writer: Writer;
  #rights: Rights = ALL;
  /** Of a private channel. */
  #lease: ReadLease | undefined;
  readonly #services: Services;
  readonly #host: Host;
  /** With `realtime:`. */
  readonly topic: string;
  readonly joinRef: string | null;
  readonly #request: JoinRequest;
  readonly name: RoomName;
  #state: 'joining' | 'joined' | 'closed' = 'joining';
  #caller: Caller;
  /** Asked at the first use, and again after a while. */
  readonly #mayWrite = new Map<'broadcast' | 'presence', { isAllowed: boolean; askedAt: number }>();
  #room: Room | undefined;
  #subscription: ChangesSubscription | undefined;
  #knowsPresence = false;
  readonly #presenceKey: string;
  /** Of stored broadcasts that it has had. */
  readonly #replayed = new Set<string>();
  #isRefused = false;
  #isWorking = false;
  readonly #waiting: ClientMessage[] = [];
  /** What comes before the join is answered. */
  #held: Array<() => void> | undefined = [];
  #expiry: NodeJS.Timeout | undefined;

  constructor(services: Services, host: Host, message: ClientMessage) {
    this.version = host.version;
    this.writer = host.writer;
    this.#services = services;
    this.#host = host;
    this.topic = message.topic;
    this.joinRef = message.joinRef ?? message.ref;
    this.#request = readJoin(message.payload);
    this.name = { topic: message.topic.replace(/^realtime:/, ''), isPrivate: this.#request.private };
    this.#caller = host.caller;
    this.#presenceKey = this.#request.presence.key || nextRef();
  }

  get hearsBroadcasts(): boolean {
    return this.#rights.broadcast;
  }

  get hearsPresence(): boolean {
    return this.#rights.presence && (!this.name.isPrivate || this.#knowsPresence);
  }

  hear(frame: Buffer): void {
    if (this.#lease) this.#lease.hear(() => this.writer.writeOrSkip(frame));
    else this.writer.writeOrSkip(frame);
  }

  get isJoined(): boolean {
    return this.#state === 'joined';
  }

  /** It is told so after a while. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  get hasChanges(): boolean {
    return this.#request.changes.length > 0;
  }

  /** Whose changes it listens for: `schema.table`, or `schema.*`. */
  get tables(): readonly string[] {
    return this.#request.changes.map(({ schema = 'public', table = '*' }) => `${schema}.${table}`);
  }

  get caller(): Caller {
    return this.#caller;
  }

  /** Answers `ref`. Never throws. */
  async join(ref: string | null, admit: () => void): Promise<void> {
    this.#isWorking = true;
    try {
      admit();
      await this.#admit();
      if (this.#state !== 'joining') return;
      await this.#enter(ref);
    } catch (error) {
      await this.#refuse(ref, error);
    } finally {
      this.#workOn();
    }
  }

  /** Throws `JoinRefused`. */
  async #admit(): Promise<void> {
    const { topic, isPrivate } = this.name;
    if (topic === '') throw topicRequired();
    if (!fitsBinaryHead(this.topic)) throw topicTooLong();
    const { replay } = this.#request.broadcast;
    if (replay?.isBroken === true)
      throw cannotReplay('`since` is milliseconds since 1970, `limit` a number from 1 to 25');
    if (replay && !isPrivate) throw cannotReplay('Only private channels keep messages');
    if (!isPrivate && this.#services.settings().privateOnly) throw privateOnly();
    if (this.#request.changes.length > MOST_BINDINGS) throw tooManyBindings(MOST_BINDINGS);
    const caller = await this.#verified(this.#request.token);
    // From here on it hears of it when the session or the signing key ends.
    this.#caller = caller;
    await this.#services.sessions.assertAlive(caller);
    this.#assertStill(caller);
    if (isPrivate) {
      this.#rights = await this.#services.rights.mayRead(topic, caller, this.#host.headers);
      this.#assertStill(caller);
      if (!this.#rights.broadcast && !this.#rights.presence) throw mayNotRead(topic);
      this.#lease = new ReadLease({
        lengthMs: () => this.#services.rights.leaseMs,
        ask: async () => await this.checkRights(),
      });
      this.#services.rights.watched += 1;
    }
  }

  /**
   * Whom a token stands for now; without one whoever opened the socket, which may have been done with a token as well.
   * Throws `JoinRefused`.
   */
  async #verified(token: string | undefined): Promise<Caller> {
    const { caller } = this.#host;
    return await callerOf(token ?? caller.token ?? undefined, caller, this.#services.context.credentials);
  }

  /** Throws `JoinRefused` when the session or the token ended while something was asked in its name. */
  #assertStill(caller: Caller): void {
    if (caller !== this.#caller) throw badToken('Session has ended');
    const end = endOf(caller);
    const late = end === undefined ? 0 : this.#services.context.now().getTime() - end;
    if (late >= GRACE_MS) throw badToken(SYSTEM.expired(Math.round(late / 1000)));
  }

  async #enter(ref: string | null): Promise<void> {
    const { changes, broadcast, presence, waitForChangesMs } = this.#request;
    const caller = this.#caller;
    const bindings = changes.map((binding) => ({ ...binding, id: this.#host.nextBindingId() }));
    if (bindings.length > 0) {
      const subscription = await this.#services.changes.subscribe({
        channel: this.name.topic,
        bindings,
        caller,
        waitMs: waitForChangesMs,
        deliver: (payload) =>
          this.#whenAnswered(() => {
            this.#services.tally.deliveries.add('change');
            if (this.#room) this.#room.delivered += 1;
            this.#push('postgres_changes', payload);
          }),
        tell: (status, message) =>
          this.#whenAnswered(() => this.#system('postgres_changes', status, message)),
        lost: () => this.fail(),
      });
      if (this.#state !== 'joining') {
        subscription.close();
        return;
      }
      this.#subscription = subscription;
      this.#assertStill(caller);
    }
    // What is sent from here on is heard; what was stored before is read after it, so that nothing lies between.
    this.#room = this.#services.hub.enter(this.name, this);
    const stored = await this.#readStored();
    if (this.#state !== 'joining') return;
    this.#assertStill(caller);
    const echoes = jsonText({ postgres_changes: bindings.map(({ id, echo }) => ({ ...echo, id })) });
    this.#state = 'joined';
    this.#watchExpiry();
    this.#services.tally.joins.add('joined');
    this.#reply(ref, 'ok', echoes);
    for (const message of stored) {
      this.#replayed.add(message.id);
      this.#room.replay(this, message.broadcast);
    }
    if (presence.enabled && this.#rights.presence) this.#sendPresence();
    if (broadcast.replicationReady) this.#tellReplicationReady();
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const send of held) send();
  }

  async #readStored(): Promise<ReadonlyArray<{ id: string; broadcast: Broadcast }>> {
    const { replay } = this.#request.broadcast;
    if (replay?.since === undefined || !this.#rights.broadcast) return [];
    const limit = Math.min(replay.limit ?? MOST_REPLAYED, MOST_REPLAYED);
    const stored = await this.#services.replay(this.#caller, this.name.topic, new Date(replay.since), limit);
    return stored.map((message) => ({
      id: message.id,
      broadcast: {
        event: message.event,
        content: message.content,
        meta: JSON.stringify({ id: message.id, replayed: true }),
      },
    }));
  }

  /** It has had the stored message with this id already. */
  hasHad(id: string): boolean {
    return this.#replayed.has(id);
  }

  async #refuse(ref: string | null, error: unknown): Promise<void> {
    if (this.#state === 'closed') return;
    this.#isRefused = true;
    const { reason, code } = this.#services.refusalOf(error);
    this.#services.tally.joins.add(code);
    // Clients ask again for ever.
    await new Promise((resolve) => setTimeout(resolve, this.#host.refusalDelay()));
    if (this.#state !== 'joining') return;
    this.#reply(ref, 'error', JSON.stringify({ reason }));
    this.#end();
  }

  receive(message: ClientMessage): void {
    if (this.#state === 'closed') return;
    if (message.event === 'phx_leave' && this.#state === 'joining') {
      this.#leave(message);
    } else if (this.#isWorking) {
      if (this.#waiting.length >= MOST_WAITING) this.close('error', SYSTEM.tooManyMessages);
      else this.#waiting.push(message);
    } else this.#work(message);
  }

  #work(message: ClientMessage): void {
    let pending: Promise<void> | undefined;
    try {
      pending = this.#handle(message);
    } catch (error) {
      this.#sayFailed(message, error);
    }
    if (!pending) return;
    this.#isWorking = true;
    pending
      .catch((error: unknown) => this.#sayFailed(message, error))
      .then(
        () => this.#workOn(),
        () => this.fail(),
      );
  }

  #sayFailed(message: ClientMessage, error: unknown): void {
    const { reason } = this.#services.refusalOf(error);
    if (this.#answers(message)) this.#reply(message.ref, 'error', JSON.stringify({ reason }));
  }

  #workOn(): void {
    this.#isWorking = false;
    while (!this.#isWorking && this.#state !== 'closed') {
      const next = this.#waiting.shift();
      if (!next) return;
      this.#work(next);
    }
  }

  #answers(message: ClientMessage): boolean {
    return message.event !== 'broadcast' || this.#request.broadcast.ack;
  }

  /** What no channel knows is not answered. */
  #handle(message: ClientMessage): Promise<void> | undefined {
    switch (message.event) {
      case 'broadcast':
        return this.#broadcast(message);
      case 'presence':
        return this.#presence(message);
      case 'access_token':
        return this.#refresh(message.payload['access_token']);
      case 'phx_leave':
        this.#leave(message);
        return undefined;
      default:
        return undefined;
    }
  }

  #broadcast(message: ClientMessage): Promise<void> | undefined {
    const { ack, self } = this.#request.broadcast;
    if (!this.#host.takeMessage()) {
      this.close('error', SYSTEM.tooManyMessages);
      return undefined;
    }
    const read = readBroadcast(message, this.#services.settings().limits.payload);
    if (typeof read === 'string') {
      if (ack) this.#reply(message.ref, 'error', JSON.stringify({ reason: read }));
      return undefined;
    }
    const send = (isAllowed: boolean): void => {
      if (this.#state !== 'joined') return;
      if (isAllowed) this.#services.hub.broadcast(this.name, read, self ? undefined : this);
      if (!ack) return;
      if (isAllowed) this.#reply(message.ref, 'ok', '{}');
      else this.#reply(message.ref, 'error', '{"reason":"Unauthorized"}');
    };
    return this.#ifAllowed('broadcast', send);
  }

  #presence(message: ClientMessage): Promise<void> | undefined {
    if (!this.#host.takePresence()) {
      this.close('error', SYSTEM.tooManyPresence);
      return undefined;
    }
    const { event, payload } = message.payload;
    const action = typeof event === 'string' ? event.toLowerCase() : '';
    if (action === 'untrack') {
      if (this.#room) this.#services.hub.untrack(this.#room, this);
      this.#reply(message.ref, 'ok', '{}');
      return undefined;
    }
    if (action !== 'track' || !isObject(payload ?? {})) {
      this.#reply(message.ref, 'error', '{"reason":"A payload of presence is an object"}');
      return undefined;
    }
    const text = jsonText(payload ?? {});
    if (Buffer.byteLength(text) > this.#services.settings().limits.payload) {
      this.close('error', SYSTEM.presenceTooLarge);
      return undefined;
    }
    return this.#ifAllowed('presence', (isAllowed) => {
      if (this.#state !== 'joined' || !this.#room) return;
      if (!isAllowed) {
        this.#reply(message.ref, 'error', '{"reason":"Unauthorized"}');
        return;
      }
      this.#reply(message.ref, 'ok', '{}');
      // Whoever tracks without having asked for presence would get differences to a state that it does not know.
      if (!this.#knowsPresence && this.#rights.presence) this.#sendPresence();
      this.#services.hub.track(this.#room, this, this.#presenceKey, text);
    });
  }

  /** At once where no policy has to be asked. */
  #ifAllowed(
    extension: 'broadcast' | 'presence',
    then: (isAllowed: boolean) => void,
  ): Promise<void> | undefined {
    const { rights } = this.#services;
    const known = this.#mayWrite.get(extension);
    const isFresh = known !== undefined && performance.now() - known.askedAt < rights.leaseMs;
    if (!this.name.isPrivate || isFresh) {
      then(known?.isAllowed ?? true);
      return undefined;
    }
    const caller = this.#caller;
    const askedAt = performance.now();
    return rights.mayWrite(this.name.topic, extension, caller, this.#host.headers).then((isAllowed) => {
      if (caller === this.#caller) this.#mayWrite.set(extension, { isAllowed, askedAt });
      then(isAllowed);
    });
  }

  /** A new token of the same socket. It is not answered. */
  async #refresh(token: unknown): Promise<void> {
    if (typeof token !== 'string' || token === '' || token === this.#caller.token) return;
    let caller: Caller;
    try {
      caller = await this.#verified(token);
      // A key says nothing about a user: clients send theirs when they have no session yet.
      if (caller.token === null) return;
      await this.#services.sessions.assertAlive(caller);
    } catch (error) {
      if (!(error instanceof JoinRefused)) throw error;
      this.close('error', error.reason);
      return;
    }
    await this.actFor(caller);
  }

  /** From now on. Closes when it may no longer read. */
  async actFor(caller: Caller): Promise<void> {
    if (this.#state === 'closed') return;
    this.#caller = caller;
    this.#mayWrite.clear();
    this.#watchExpiry();
    // The join notices it, and is refused.
    if (this.#state === 'joining') return;
    if (!(await this.checkRights())) return;
    await this.#subscription?.changeCaller(caller);
  }

  /** The user has signed out somewhere, was banned or deleted: what is left is the key of the socket. */
  async sessionEnded(): Promise<void> {
    const ended = this.#caller;
    try {
      const caller = await this.#verified(undefined);
      await this.#services.sessions.assertAlive(caller);
      // A token of another session may have come meanwhile.
      if (ended === this.#caller) await this.actFor(caller);
    } catch (error) {
      if (ended === this.#caller) this.#loseToken(error);
    }
  }

  /** Keys that sign tokens have changed: a token that does not verify any more has ended. */
  async verifyAgain(): Promise<void> {
    const caller = this.#caller;
    if (caller.token === null) return;
    try {
      await this.#verified(caller.token);
    } catch (error) {
      if (caller === this.#caller) this.#loseToken(error);
    }
  }

  #loseToken(error: unknown): void {
    if (!(error instanceof JoinRefused)) this.fail();
    // The join notices it, and is refused.
    else if (this.#state === 'joining') this.#caller = ANON;
    else this.close('error', error.reason);
  }

  /** Asks again what policies say. False when the channel had to be closed. */
  async checkRights(): Promise<boolean> {
    if (!this.name.isPrivate) return this.#state === 'joined';
    const { topic } = this.name;
    const caller = this.#caller;
    const rights = await this.#services.rights.mayRead(topic, caller, this.#host.headers);
    if (this.#state === 'closed' || caller !== this.#caller) return false;
    const before = this.#rights;
    const hasLost = (before.broadcast && !rights.broadcast) || (before.presence && !rights.presence);
    this.#rights = rights;
    if (hasLost) this.close('error', SYSTEM.mayNoLongerRead(topic));
    return !hasLost;
  }

  #watchExpiry(): void {
    clearTimeout(this.#expiry);
    const end = endOf(this.#caller);
    if (end === undefined) return;
    const left = end + GRACE_MS - this.#services.context.now().getTime();
    this.#expiry = setTimeout(
      () => {
        const late = Math.round((this.#services.context.now().getTime() - end) / 1000);
        if (left > LONGEST_TIMER_MS) this.#watchExpiry();
        else this.close('error', SYSTEM.expired(late));
      },
      Math.min(Math.max(left, 0), LONGEST_TIMER_MS),
    );
    this.#expiry.unref();
  }

  #leave(message: ClientMessage): void {
    this.#reply(message.ref, 'ok', '{}');
    this.close();
  }

  /** For good: the client does not join again by itself. */
  close(status?: 'ok' | 'error', why?: string): void {
    if (this.#state === 'closed') return;
    if (status !== undefined && why !== undefined) this.#system('system', status, why);
    this.#end();
    this.#sendFrame('phx_close', '{}', this.joinRef);
  }

  /** A fault: the client joins again in a second. */
  fail(): void {
    if (this.#state === 'closed') return;
    this.#end();
    this.#sendFrame('phx_error', '{}', this.joinRef);
  }

  /** Without a word: the socket has ended, or another channel takes its place. */
  end(): void {
    if (this.#state !== 'closed') this.#end();
  }

  #end(): void {
    this.#state = 'closed';
    this.#waiting.length = 0;
    this.#held = undefined;
    clearTimeout(this.#expiry);
    if (this.#lease) {
      this.#lease.close();
      this.#services.rights.watched -= 1;
    }
    this.#subscription?.close();
    if (this.#room) this.#services.hub.leave(this.#room, this);
    this.#host.forget(this);
  }

  /** The socket is told everything again after it was too slow. */
  caughtUp(): void {
    if (this.#state === 'joined' && this.#knowsPresence) this.#sendPresence();
  }

  tellSkipping(): void {
    if (this.#state === 'joined') this.#system('system', 'error', SYSTEM.skipping);
  }

  tellDraining(): void {
    if (this.#state === 'joined') this.#system('system', 'ok', SYSTEM.draining);
  }

  #sendPresence(): void {
    this.#knowsPresence = true;
    const send = (): void => this.#room?.sendState(this);
    if (this.#lease) this.#lease.hear(send);
    else send();
  }

  #tellReplicationReady(): void {
    void this.#services.whenLive(REPLICATION_READY_WITHIN_MS).then((isLive) => {
      if (this.#state !== 'joined') return;
      if (isLive) this.#system('system', 'ok', SYSTEM.replicationReady);
      else this.close('error', SYSTEM.replicationLate);
    });
  }

  #whenAnswered(send: () => void): void {
    if (this.#held) this.#held.push(send);
    else if (this.#state === 'joined') send();
  }

  #system(extension: 'system' | 'postgres_changes', status: 'ok' | 'error', message: string): void {
    this.#push('system', JSON.stringify({ channel: this.name.topic, extension, status, message }));
  }

  #reply(ref: string | null, status: 'ok' | 'error', response: string): void {
    this.#sendFrame('phx_reply', `{"status":"${status}","response":${response}}`, ref);
  }

  #push(event: string, payload: string): void {
    this.#sendFrame(event, payload, null);
  }

  #sendFrame(event: string, payload: string, ref: string | null): void {
    const message = { joinRef: this.joinRef, ref, topic: this.topic, event, payload };
    this.writer.send(writeText(message, this.version));
  }
}

/** Text says why it is none. */
function readBroadcast(message: ClientMessage, mostBytes: number): Broadcast | string {
  const { binary, payload } = message;
  const event = binary ? binary.event : payload['event'];
  if (typeof event !== 'string') return 'A broadcast names its `event`';
  if (!fitsBinaryHead(event)) return 'The name of an event has at most 255 bytes';
  const content: BroadcastContent = binary?.content ?? { json: jsonText(payload['payload'] ?? {}) };
  const bytes = 'json' in content ? Buffer.byteLength(content.json) : content.bytes.length;
  if (bytes > mostBytes) return `The payload is larger than ${mostBytes} bytes`;
  return { event, content };
}
