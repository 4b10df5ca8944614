// What is known of the way to the database at one address, from each connection that is opened there.
import type pg from 'pg';
import type { Log } from '../../log/log.ts';
import { measureLink, type LinkState } from './measure-link.ts';
import type { SessionParameters } from './session-parameters.ts';

export class DatabaseLink {
  readonly #log: Log | undefined;
  #state: LinkState | undefined;
  #takesOptions = true;

  /** With a log it says there what it finds, once, and again when that changes. */
  constructor(log?: Log) {
    this.#log = log;
  }

  /** Of the connection opened last; undefined before the first. */
  get state(): LinkState | undefined {
    return this.#state;
  }

  /** For operators. */
  get description(): string | undefined {
    return this.#state && describe(this.#state);
  }

  /** Whether connections ask for their parameters when they are opened. */
  get takesOptions(): boolean {
    return this.#takesOptions;
  }

  /** Measures a connection that nobody has used yet. */
  async measure(client: pg.ClientBase, parameters: SessionParameters, withinMs: number): Promise<LinkState> {
    const state = await measureLink(client, parameters, withinMs);
    const before = this.#state;
    this.#state = state;
    if (state.verdict === 'direct' && before && before.verdict !== 'direct') this.#takesOptions = true;
    if (describe(state) !== (before && describe(before))) this.#tell(state);
    return state;
  }

  /** Opens a connection; one that is refused for what it asks for is tried once more without. */
  async connecting<T>(parameters: SessionParameters, open: () => Promise<T>): Promise<T> {
    const asks = this.#takesOptions;
    try {
      return await open();
    } catch (error) {
      if (!asks || !isRefusalOf(parameters, error)) throw error;
      this.#takesOptions = false;
      return await open();
    }
  }

  #tell(state: LinkState): void {
    const text = `database link: ${describe(state)}`;
    if (state.verdict === 'direct' && state.lacking.length === 0) this.#log?.debug(text);
    else this.#log?.info(text);
  }
}

export function describe({ verdict, lacking }: LinkState): string {
  const parameters =
    lacking.length === 0
      ? ''
      : `; set in each batch because sessions do not have them: ${lacking.map(([name]) => name).join(', ')}`;
  if (verdict !== 'pooled') return verdict + parameters;
  return `pooled, names not tracked: statements are planned each time; PgBouncer 1.21 or newer with max_prepared_statements saves that${parameters}`;
}

/** A pooler names the start-up message, PostgreSQL itself a parameter that it does not take there. */
function isRefusalOf(parameters: SessionParameters, error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { message } = error;
  return /startup parameter/i.test(message) || parameters.some(([name]) => message.includes(`"${name}"`));
}
