// Checks whether the sessions of tokens still exist. A channel lives for days, so it must lose its user when the user
// signs out, is banned or deleted. Auth announces ended sessions. A sweep once a minute covers lost announcements.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { sql } from '../../postgres/sql.ts';
import { badToken } from '../problem.ts';

const SWEEP_INTERVAL_MS = 60_000;

export class SessionWatch {
  readonly #context: FeatureContext;
  readonly #openSessions: () => Iterable<string>;
  readonly #onEnded: (sessions: ReadonlySet<string>) => void;
  /** The statement that answers the checks of this tick. */
  #reading: { readonly ids: Set<string>; readonly alive: Promise<ReadonlySet<string>> } | undefined;
  #sweeping: Promise<void> | undefined;
  #sweepsAgain = false;
  #timer: NodeJS.Timeout | undefined;

  /** `open` returns the sessions of the channels. `ended` is called with the sessions that have ended. */
  constructor(
    context: FeatureContext,
    open: () => Iterable<string>,
    ended: (sessions: ReadonlySet<string>) => void,
  ) {
    this.#context = context;
    this.#openSessions = open;
    this.#onEnded = ended;
  }

  start(): void {
    this.#timer = setInterval(() => void this.sweep(), SWEEP_INTERVAL_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Throws `JoinRefused` when the session of the token has ended. Tokens without a session are valid until they expire.
   */
  async assertAlive({ user }: Caller): Promise<void> {
    const id = user?.sessionId ?? undefined;
    if (id !== undefined && !(await this.#isAlive(id))) throw badToken('Session has ended');
  }

  /** Checks all sessions. Calls during a sweep cause one more sweep. */
  async sweep(): Promise<void> {
    this.#sweepsAgain = this.#sweeping !== undefined;
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined;
      if (this.#sweepsAgain) void this.sweep();
    });
    await this.#sweeping;
  }

  /** Ends no sessions while the database does not respond. */
  async #sweep(): Promise<void> {
    const open = [...new Set(this.#openSessions())];
    if (open.length === 0) return;
    try {
      const alive = await this.#readAlive(open);
      const gone = new Set(open.filter((id) => !alive.has(id)));
      if (gone.size > 0) this.#onEnded(gone);
    } catch (error) {
      this.#context.log.debug({ err: error }, 'ended sessions could not be read');
    }
  }

  /** Checks of one tick share a statement. */
  async #isAlive(id: string): Promise<boolean> {
    if (!this.#reading) {
      const ids = new Set<string>();
      const alive = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
        this.#reading = undefined;
        return await this.#readAlive([...ids]);
      });
      this.#reading = { ids, alive };
    }
    const { ids, alive } = this.#reading;
    ids.add(id);
    return (await alive).has(id);
  }

  async #readAlive(ids: readonly string[]): Promise<Set<string>> {
    const now = this.#context.now();
    const rows = await this.#context.owner.query<{ id: string }>(sql`
      select s.id from auth.sessions s join auth.users u on u.id = s.user_id
      where s.id::text = any(${ids}::text[]) and (s.not_after is null or s.not_after > ${now})
        and (u.banned_until is null or u.banned_until <= ${now})`);
    return new Set(rows.map(({ id }) => id));
  }
}
