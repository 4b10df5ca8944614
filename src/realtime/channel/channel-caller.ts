// The caller that a channel acts for: its token, the end of the token, and the events that replace or end the caller.
import { ANON, type Caller } from '../../identity/caller.ts';
import { badToken, JoinRefused, SYSTEM } from '../problem.ts';
import type { Services } from './services.ts';
import { resolveCaller, tokenExpiryMs } from './token.ts';

/** Allowed difference between clocks. A client whose token has expired does not join again by itself. */
const EXPIRY_GRACE_MS = 30_000;
/** Longest delay of `setTimeout`. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The channel that acts for the caller. */
export type CallerOwner = {
  readonly state: 'joining' | 'joined' | 'closed';
  changeCaller(caller: Caller): Promise<void>;
  /** Called when the token is not valid any more. */
  close(status: 'error', reason: string): void;
  /** Called when the token could not be checked. */
  fail(): void;
};

export class ChannelCaller {
  readonly #services: Services;
  readonly #socketCaller: Caller;
  readonly #owner: CallerOwner;
  #current: Caller;
  #expiry: NodeJS.Timeout | undefined;

  /** `socketCaller`: caller of the API key that the socket was opened with. */
  constructor(services: Services, socketCaller: Caller, owner: CallerOwner) {
    this.#services = services;
    this.#socketCaller = socketCaller;
    this.#owner = owner;
    this.#current = socketCaller;
  }

  get current(): Caller {
    return this.#current;
  }

  set(caller: Caller): void {
    this.#current = caller;
  }

  close(): void {
    clearTimeout(this.#expiry);
  }

  /** Resolves a token to its caller. Without a token, verifies the socket's caller again. Throws `JoinRefused`. */
  async verify(token: string | undefined): Promise<Caller> {
    const { context } = this.#services;
    const caller = this.#socketCaller;
    return await resolveCaller(token ?? caller.token ?? undefined, caller, context.credentials);
  }

  /** Throws `JoinRefused` when the session or the token ended while a step of the join ran as the caller. */
  assertCurrent(caller: Caller): void {
    if (caller !== this.#current) throw badToken('Session has ended');
    const end = tokenExpiryMs(caller);
    const late = end === undefined ? 0 : this.#services.context.now().getTime() - end;
    if (late >= EXPIRY_GRACE_MS) throw badToken(SYSTEM.expired(Math.round(late / 1000)));
  }

  /** Ends the channel when the token of the current caller expires. */
  watchExpiry(): void {
    clearTimeout(this.#expiry);
    const end = tokenExpiryMs(this.#current);
    if (end === undefined) return;
    const left = end + EXPIRY_GRACE_MS - this.#services.context.now().getTime();
    this.#expiry = setTimeout(
      () => {
        const late = Math.round((this.#services.context.now().getTime() - end) / 1000);
        if (left > MAX_TIMER_MS) this.watchExpiry();
        else this.#owner.close('error', SYSTEM.expired(late));
      },
      Math.min(Math.max(left, 0), MAX_TIMER_MS),
    );
    this.#expiry.unref();
  }

  /** Handles a new token from the client. Clients get no reply. */
  async refresh(token: unknown): Promise<void> {
    if (typeof token !== 'string' || token === '' || token === this.#current.token) return;
    let caller: Caller;
    try {
      caller = await this.verify(token);
      // Clients send their API key while they have no session. It does not replace a user.
      if (caller.token === null) return;
      await this.#services.sessions.assertAlive(caller);
    } catch (error) {
      if (!(error instanceof JoinRefused)) throw error;
      this.#owner.close('error', error.reason);
      return;
    }
    await this.#owner.changeCaller(caller);
  }

  /** Falls back to the socket's caller after the user has signed out, was banned or deleted. */
  async sessionEnded(): Promise<void> {
    const ended = this.#current;
    try {
      const caller = await this.verify(undefined);
      await this.#services.sessions.assertAlive(caller);
      // The client may have sent a token of another session in the meantime.
      if (ended === this.#current) await this.#owner.changeCaller(caller);
    } catch (error) {
      if (ended === this.#current) this.#lose(error);
    }
  }

  /** Verifies the token again after the signing keys have changed. */
  async verifyAgain(): Promise<void> {
    const caller = this.#current;
    if (caller.token === null) return;
    try {
      await this.verify(caller.token);
    } catch (error) {
      if (caller === this.#current) this.#lose(error);
    }
  }

  #lose(error: unknown): void {
    if (!(error instanceof JoinRefused)) this.#owner.fail();
    // `assertCurrent` then rejects the join.
    else if (this.#owner.state === 'joining') this.#current = ANON;
    else this.#owner.close('error', error.reason);
  }
}
