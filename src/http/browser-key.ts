// Warns when a web page uses the secret key. Everyone who opens such a page can read the key.
import type { IncomingHttpHeaders } from 'node:http';
import type { Log } from '../log/log.ts';

const SECRET_KEY = /(?:^|[ =])svc_secret_/;
/** Origins that are remembered. Further ones are not logged. */
const MAX_ORIGINS = 100;

/**
 * Whether a browser sent the request for a page of an origin. Servers may forward `Origin`, and `fetch` of Node sends
 * `Sec-Fetch-Mode`, but only browsers send `Sec-Fetch-Site`.
 */
function isOfPage({
  origin,
  'user-agent': agent = '',
  'sec-fetch-site': site,
}: IncomingHttpHeaders): boolean {
  return origin !== undefined && (site !== undefined || agent.startsWith('Mozilla/'));
}

export class BrowserKeyWatch {
  readonly #log: Log;
  readonly #origins = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Logs one warning for each origin. `query`: for keys in links and socket addresses. */
  check(headers: IncomingHttpHeaders, query: string): void {
    if (!isOfPage(headers)) return;
    const { origin = '', apikey, authorization = '' } = headers;
    if (![String(apikey), authorization, query].some((text) => SECRET_KEY.test(text))) return;
    if (this.#origins.has(origin) || this.#origins.size >= MAX_ORIGINS) return;
    this.#origins.add(origin);
    this.#log.warn(
      { origin },
      'a web page uses the secret key, which anyone can read there: use the publishable key, ' +
        'and replace the secret key',
    );
  }
}
