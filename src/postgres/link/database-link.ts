// Collects the measurements of all connections to one address.
import type pg from 'pg';
import type { Log } from '../../log/log.ts';
import { measureLink, type LinkState } from './measure-link.ts';
import type { SessionParameters } from './session-parameters.ts';

export class DatabaseLink {
  readonly #log: Log | undefined;
  #state: LinkState | undefined;
  #takesOptions = true;

  /** `log`: receives the first state and each change. */
  constructor(log?: Log) {
    this.#log = log;
  }

  /** State of the latest connection; undefined before the first one. */
  get state(): LinkState | undefined {
    return this.#state;
  }

  /** The state as text for operators. */
  get description(): string | undefined {
    return this.#state && describe(this.#state);
  }

  /** Whether connections send their parameters in the start-up message. */
  get takesOptions(): boolean {
    return this.#takesOptions;
  }

  /** Measures an unused connection. */
  async measure(client: pg.ClientBase, parameters: SessionParameters, withinMs: number): Promise<LinkState> {
    const state = await measureLink(client, parameters, withinMs);
    const before = this.#state;
    this.#state = state;
    if (state.verdict === 'direct' && before && before.verdict !== 'direct') this.#takesOptions = true;
    if (describe(state) !== (before && describe(before))) this.#logState(state);
    return state;
  }

  /** Opens a connection. If its parameters are rejected, tries once more without them. */
  async connecting<T>(parameters: SessionParameters, open: () => Promise<T>): Promise<T> {
    const asks = this.#takesOptions;
    try {
      return await open();
    } catch (error) {
      if (!asks || !isParameterRefusal(parameters, error)) throw error;
      this.#takesOptions = false;
      return await open();
    }
  }

  #logState(state: LinkState): void {
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
  return (
    'pooled, names not tracked: statements are planned each time; ' +
    `PgBouncer 1.21 or newer with max_prepared_statements saves that${parameters}`
  );
}

/**
 * Recognises a rejected start-up parameter. A pooler mentions the start-up message; PostgreSQL names the parameter.
 */
function isParameterRefusal(parameters: SessionParameters, error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { message } = error;
  return /startup parameter/i.test(message) || parameters.some(([name]) => message.includes(`"${name}"`));
}
