// The `ctx` of one call. Clients and signal are created on first use.
import type { ClientLibrary, TraceHeaders } from './client-library.ts';
import type { CallerClaims, FunctionEvent, LogLevel, RequestHead } from './protocol.ts';

export type WriteLog = (level: LogLevel, message: unknown, fields?: unknown) => void;

export type FunctionLog = Readonly<Record<LogLevel, (message: unknown, fields?: unknown) => void>>;

export type ContextParts = {
  readonly head: RequestHead;
  readonly library: () => ClientLibrary;
  readonly signal: () => AbortSignal;
  readonly writeLog: WriteLog;
  readonly serviceToken: () => Promise<string>;
};

export class FunctionContext {
  readonly claims: CallerClaims | null;
  readonly event: FunctionEvent | null;
  readonly clientAddress: string;
  readonly env: Readonly<Record<string, string>>;
  readonly log: FunctionLog;
  readonly #parts: ContextParts;
  #client: unknown;
  #serviceClient: unknown;

  constructor(parts: ContextParts) {
    const { head, writeLog } = parts;
    this.#parts = parts;
    this.claims = head.claims;
    this.event = head.event ?? null;
    this.clientAddress = head.clientAddress;
    this.env = head.env;
    this.log = {
      debug: (message, fields) => writeLog('debug', message, fields),
      info: (message, fields) => writeLog('info', message, fields),
      warn: (message, fields) => writeLog('warn', message, fields),
      error: (message, fields) => writeLog('error', message, fields),
    };
  }

  get client(): unknown {
    this.#client ??= this.#parts.library().asCaller(this.claims?.jwt, readTrace(this.#parts.head));
    return this.#client;
  }

  get serviceClient(): unknown {
    const { head, library, serviceToken } = this.#parts;
    if (!head.serviceRole) {
      // Anyone can call a public function, so it must not act with all rights.
      throw new Error(
        `the function ${head.functionName} may not use ctx.serviceClient: ` +
          'declare it with auth_required: true, or use ctx.client',
      );
    }
    this.#serviceClient ??= library().asService(serviceToken, readTrace(head));
    return this.#serviceClient;
  }

  get signal(): AbortSignal {
    return this.#parts.signal();
  }
}

/** Only a valid trace reaches a worker. */
function readTrace({ rawHeaders }: RequestHead): TraceHeaders {
  const trace: Record<string, string> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? '';
    if (name === 'traceparent' || name === 'tracestate') trace[name] = rawHeaders[at + 1] ?? '';
  }
  return trace;
}
