// The types of handlers.

/** The request that a handler receives. Header names are in lower case. */
export type Request = {
  readonly method: string;
  readonly path: string;
  /** First value of each key. */
  readonly query: Record<string, string>;
  readonly queryAll: Record<string, string[]>;
  /** The text behind `?`. */
  readonly rawQuery: string;
  readonly headers: Record<string, string>;
  readonly headersAll: Record<string, string[]>;
  /** Parsed where the content type is JSON, else the text; undefined when empty. */
  readonly body: unknown;
  /** The exact bytes, for signatures and uploads. */
  readonly rawBody: Buffer;
};

export type Claims = {
  readonly sub: string;
  readonly role: string;
  readonly email?: string;
  /** The caller's access token. */
  readonly jwt: string;
};

/** The run of a schedule. `req.body` is `{ scheduled_for, payload, missed }`. */
export type FunctionEvent = {
  /** The same for all attempts: use it to detect repetitions. */
  readonly id: string;
  /** Name of the schedule. */
  readonly name: string;
  readonly kind: 'schedule';
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** No attempt follows if this one fails. */
  readonly last: boolean;
  /** Time of the event, in ISO 8601. */
  readonly at: string;
};

type Write = (message: unknown, fields?: unknown) => void;

/** `Client`: the type of the client library that the project uses, `SupabaseClient` for example. */
export type Context<Env extends string = string, Client = unknown> = {
  /** Acts as the caller: row-level security applies. */
  readonly client: Client;
  /** Acts as `service_role`: row-level security does not apply. Only with `auth_required: true`. */
  readonly serviceClient: Client;
  /** Null for anonymous callers. */
  readonly claims: Claims | null;
  /** Set if svc itself calls the function; null for every request over HTTP. */
  readonly event: FunctionEvent | null;
  readonly clientAddress: string;
  readonly env: Readonly<Record<Env, string>>;
  readonly log: { readonly debug: Write; readonly info: Write; readonly warn: Write; readonly error: Write };
  /** Aborted when the caller leaves or the timeout passes. */
  readonly signal: AbortSignal;
};

export type HeaderValue = string | number | readonly string[];

export type Response =
  | {
      /** 200 by default. */
      readonly status?: number;
      readonly headers?:
        | Readonly<Record<string, HeaderValue>>
        | Headers
        | ReadonlyArray<readonly [string, string]>;
      /** A text as it is, bytes, a stream or async generator piece by piece, anything else as JSON. */
      readonly body?: unknown;
    }
  | globalThis.Response;

export type Handler<Env extends string = string, Client = unknown> = (
  request: Request,
  context: Context<Env, Client>,
) => Response | Promise<Response>;

/** Returns its argument. It gives a handler its types; one that never imports this package works as well. */
export function defineFunction<Env extends string = string, Client = unknown>(
  handler: Handler<Env, Client>,
): Handler<Env, Client> {
  return handler;
}
