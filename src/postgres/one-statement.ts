// One statement of a person at a terminal: on a connection of its own, in a transaction that is read-only unless asked
// otherwise, and with a deadline. The connection is closed afterwards, so nothing it took outlives it.
import pg from 'pg';
import type { DatabaseAddress } from './address/database-address.ts';
import { cutOff, endClient, openClient } from './connection.ts';
import { DatabaseLink } from './link/database-link.ts';
import type { CallerSettings } from './pool/caller-pool.ts';

export type StatementOptions = {
  /** That of `authenticator` where there is a caller. */
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  readonly caller?: CallerSettings | undefined;
  /** Whether it may change anything, and several statements may be said. They are one transaction. */
  readonly write: boolean;
  readonly timeoutMs: number;
  /** Rows that are answered; others are left where they are. */
  readonly limit: number;
  /** Characters of values that are answered; the row in which they are reached is the last. */
  readonly most?: number | undefined;
  /** How long it waits for a lock. */
  readonly lockTimeoutMs?: number | undefined;
};

export type Answered = {
  readonly columns: ReadonlyArray<{ readonly name: string; readonly type: number }>;
  /** As PostgreSQL writes them; null where there is no value. */
  readonly rows: ReadonlyArray<ReadonlyArray<string | null>>;
  /** There were more rows than are answered. */
  readonly more: boolean;
  /** `SELECT`, `UPDATE` … */
  readonly command: string;
  /** How many rows it touched; null where that means nothing. */
  readonly affected: number | null;
};

const LOCK_TIMEOUT_MS = 5_000;

/** Throws what the server says, and for several statements in a read-only transaction its 42601. */
export async function runStatement(text: string, options: StatementOptions): Promise<Answered> {
  const { address, applicationName, caller, write, timeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
  const client = await openClient({ address, applicationName, link: new DatabaseLink() });
  // A connection that breaks rejects the statement that runs on it.
  client.on('error', () => {});
  let closed = false;
  try {
    await client.query(write ? 'begin' : 'begin read only');
    await client.query(
      `set local statement_timeout = ${timeoutMs}; set local lock_timeout = ${lockTimeoutMs}`,
    );
    if (caller) {
      const settings = [
        ['role', caller.role],
        ['request.jwt.claims', caller.claims],
        ...(caller.extra ?? []),
      ];
      for (const setting of settings) await client.query('select set_config($1, $2, true)', [...setting]);
    }
    const answered = await run(client, text, options);
    closed = answered.more && !write;
    if (!closed) await client.query(write ? 'commit' : 'rollback');
    return answered;
  } finally {
    // Of a reader that has seen enough nothing is waited for.
    if (closed) cutOff(client);
    else await endClient(client);
  }
}

const asText = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig;

const fieldsOf = (result: { readonly fields?: readonly pg.FieldDef[] } | undefined): readonly pg.FieldDef[] =>
  result?.fields ?? [];

async function run(
  client: pg.Client,
  text: string,
  { write, limit, most = Infinity }: StatementOptions,
): Promise<Answered> {
  // Prepared, it can only be one: `commit; delete …` is refused by the server.
  const config = {
    text,
    rowMode: 'array' as const,
    types: asText,
    ...(write ? {} : { queryMode: 'extended' }),
  };
  const query = new pg.Query<Array<string | null>>(config);
  let rows: Array<Array<string | null>> = [];
  let columns: Answered['columns'] = [];
  let more = false;
  let read = 0;
  const done = new Promise<{ command: string; affected: number | null }>((resolve, reject) => {
    query.on('row', (row, result) => {
      const fields = fieldsOf(result).map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      // Of several statements the last one answers.
      if (fields.length !== columns.length || fields.some(({ name }, at) => name !== columns[at]?.name))
        [rows, read] = [[], 0];
      columns = fields;
      if (rows.length < limit && read < most) {
        rows.push(row);
        for (const value of row) read += value?.length ?? 0;
      } else {
        more = true;
        if (!write) resolve({ command: 'SELECT', affected: null });
      }
    });
    query.on('end', (result) => {
      const last = Array.isArray(result) ? result.at(-1) : result;
      columns = fieldsOf(last).map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      if (columns.length === 0) rows = [];
      resolve({ command: last?.command ?? '', affected: last?.rowCount ?? null });
    });
    query.on('error', reject);
  });
  client.query(query);
  return { ...(await done), columns, rows, more };
}
