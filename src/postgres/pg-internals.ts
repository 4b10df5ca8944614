// Members of `pg` that are stable but not in its type declarations: the one place that reaches in.
import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type pg from 'pg';

type Internals = {
  readonly connection: EventEmitter & { readonly stream: Duplex };
  readonly connectionParameters: { options: string | undefined };
  /** BackendKeyData, as the server or a pooler sent it. */
  readonly processID: number;
  readonly secretKey: number | Buffer;
};

export function internalsOf(client: pg.ClientBase): Internals {
  return client as unknown as Internals;
}
