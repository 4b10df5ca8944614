// Members of `pg` that are stable but missing from its type declarations. No other module accesses them.
import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type pg from 'pg';

type Internals = {
  readonly connection: EventEmitter & { readonly stream: Duplex };
  readonly connectionParameters: { options: string | undefined };
  /** BackendKeyData from the server or a pooler. */
  readonly processID: number;
  readonly secretKey: number | Buffer;
};

export function clientInternals(client: pg.ClientBase): Internals {
  return client as unknown as Internals;
}
