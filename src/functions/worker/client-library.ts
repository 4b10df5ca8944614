// The project's own copy of the client library, loaded on the first use of `ctx.client` or `ctx.serviceClient`. Both
// send the publishable key as `apikey`; the bearer token decides the caller. The secret key never reaches a worker.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { hasCode } from '../../lib/error-code.ts';
import type { WorkerSettings } from './protocol.ts';

const PACKAGE = '@supabase/supabase-js';

export type TraceHeaders = Readonly<Record<string, string>>;

type CreateClient = (url: string, key: string, options: object) => unknown;

export class ClientLibrary {
  readonly #settings: WorkerSettings;
  #createClient: CreateClient | undefined;

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  /** Acts as the caller; without a token, as anon. `trace`: headers that name the trace of the call. */
  asCaller(token: string | undefined, trace: TraceHeaders): unknown {
    return this.#create({
      headers: token === undefined ? trace : { ...trace, Authorization: `Bearer ${token}` },
    });
  }

  /** Acts as `service_role`. Fetches the token for each request, because a handler may outlive one. */
  asService(token: () => Promise<string>, trace: TraceHeaders): unknown {
    return this.#create({
      headers: trace,
      fetch: async (input: string | URL | Request, init: RequestInit = {}) => {
        const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
        headers.set('authorization', `Bearer ${await token()}`);
        return await fetch(input, { ...init, headers });
      },
    });
  }

  #create(global: object): unknown {
    this.#createClient ??= this.#load();
    const { url, publishableKey } = this.#settings;
    return this.#createClient(url, publishableKey, {
      global,
      auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    });
  }

  #load(): CreateClient {
    const manifest = join(this.#settings.root, 'functions', 'package.json');
    let loaded: unknown;
    try {
      loaded = createRequire(manifest)(PACKAGE);
    } catch (cause) {
      if (!hasCode(cause, 'MODULE_NOT_FOUND')) throw cause;
      throw new Error(
        `ctx.client and ctx.serviceClient need ${PACKAGE}, which functions/node_modules does not have. ` +
          `Add it with: npm install --prefix functions ${PACKAGE}@^2.107.0`,
        { cause },
      );
    }
    if (typeof loaded === 'object' && loaded !== null && 'createClient' in loaded) {
      const { createClient } = loaded;
      if (typeof createClient === 'function')
        return (...args) => Reflect.apply(createClient, undefined, args);
    }
    throw new Error(`${PACKAGE} in functions/node_modules has no createClient; is it version 2?`);
  }
}
