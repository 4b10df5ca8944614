// Whether the sessions behind tokens still exist. A request lives for seconds and may trust its token; a channel lives for
// days, so it ends being a user's when the user signs out, is banned or deleted. Auth announces it; what an announcement
// that got lost would have said is asked once a minute.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { sql } from '../../postgres/sql.ts';
import { badToken } from '../problem.ts';

const SWEEP_EVERY_MS = 60_000;

export class SessionWatch {
  readonly #context: FeatureContext;
  readonly #open: () => Iterable<string>;
  readonly #ended: (sessions: ReadonlySet<string>) => void;
  /** What those who asked in this tick wait for. */
  #reading: { readonly ids: Set<string>; readonly alive: Promise<ReadonlySet<string>> } | undefined;
  #sweeping: Promise<void> | undefined;
  #sweepsAgain = false;
  #timer: NodeJS.Timeout | undefined;

  /** `open`: the sessions that channels act for now. `ended` is called with those of them that are gone. */
  constructor(
    context: FeatureContext,
    open: () => Iterable<string>,
    ended: (sessions: ReadonlySet<string>) => void,
  ) {
    this.#context = context;
    this.#open = open;
    this.#ended = ended;
  }

  start(): void {
    this.#timer = setInterval(() => void this.sweep(), SWEEP_EVERY_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Throws `JoinRefused` when the session of the token has ended. Tokens without one live until they expire. */
  async assertAlive({ user }: Caller): Promise<void> {
    const id = user?.sessionId ?? undefined;
    if (id !== undefined && !(await this.#ask(id))) throw badToken('Session has ended');
  }

  /** Looks at all of them. Who asks meanwhile is answered by one more look. */
  async sweep(): Promise<void> {
    this.#sweepsAgain = this.#sweeping !== undefined;
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined;
      if (this.#sweepsAgain) void this.sweep();
    });
    await this.#sweeping;
  }

  /** A database that does not answer says nothing about sessions. */
  async #sweep(): Promise<void> {
    const open = [...new Set(this.#open())];
    if (open.length === 0) return;
    try {
      const alive = await this.#read(open);
      const gone = new Set(open.filter((id) => !alive.has(id)));
      if (gone.size > 0) this.#ended(gone);
    } catch (error) {
      this.#context.log.debug({ err: error }, 'could not look for ended sessions');
    }
  }

  /** Those who ask in one tick are answered by one statement. */
  async #ask(id: string): Promise<boolean> {
    if (!this.#reading) {
      const ids = new Set<string>();
      const alive = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
        this.#reading = undefined;
        return await this.#read([...ids]);
      });
      this.#reading = { ids, alive };
    }
    const { ids, alive } = this.#reading;
    ids.add(id);
    return (await alive).has(id);
  }

  async #read(ids: readonly string[]): Promise<Set<string>> {
    const now = this.#context.now();
    const rows = await this.#context.owner.query<{ id: string }>(sql`
      select s.id from auth.sessions s join auth.users u on u.id = s.user_id
      where s.id::text = any(${ids}::text[]) and (s.not_after is null or s.not_after > ${now})
        and (u.banned_until is null or u.banned_until <= ${now})`);
    return new Set(rows.map(({ id }) => id));
  }
}
