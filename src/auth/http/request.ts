// The request that actions receive, and the responses that they return.
import type { Client } from '../../http/client.ts';
import type { Presented } from '../../identity/credentials.ts';
import type { AuthContext } from '../auth-context.ts';
import type { Fields } from '../fields.ts';
import type { AuthSettings } from '../settings.ts';

export type AuthRequest = {
  readonly auth: AuthContext;
  readonly settings: AuthSettings;
  readonly now: Date;
  readonly method: string;
  readonly query: Fields;
  readonly body: Fields;
  readonly path: Readonly<Record<string, string>>;
  readonly presented: Presented;
  readonly client: Client;
  readonly requestId: string;
  readonly userAgent: string | undefined;
  readonly header: (name: string) => string | undefined;
  /** The query parameters in their order, for those that are passed on to a provider. */
  readonly queryEntries: ReadonlyArray<readonly [string, string]>;
  /** `{base_url}/auth/v1`, the base of all links. */
  readonly authUrl: string;
  readonly isForm: boolean;
};

export type Answer = {
  readonly status: number;
  readonly body?: unknown;
  readonly html?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
};

export const json = (body: unknown, headers?: Readonly<Record<string, string>>): Answer => ({
  status: 200,
  body,
  headers,
});
export const EMPTY: Answer = { status: 200, body: {} };
export const NO_CONTENT: Answer = { status: 204 };
export const redirectTo = (status: 302 | 303 | 307, location: string): Answer => ({
  status,
  headers: { location, 'referrer-policy': 'no-referrer' },
});
