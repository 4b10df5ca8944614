// Runs one statement for a user at a terminal: on a dedicated connection, in a transaction that is read-only by
// default, with a deadline. The connection is closed afterwards, so no session state remains.
import pg from 'pg';
import type { DatabaseAddress } from './address/database-address.ts';
import { cutOff, endClient, openClient } from './connection.ts';
import { DatabaseLink } from './link/database-link.ts';
import type { CallerSettings } from './pool/caller-pool.ts';

export type StatementOptions = {
  /** Address of `authenticator` if there is a caller. */
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  readonly caller?: CallerSettings | undefined;
  /** Allows writes and several statements, which form one transaction. */
  readonly write: boolean;
  readonly timeoutMs: number;
  /** Maximum number of rows in the result. */
  readonly limit: number;
  /** Maximum characters of all values. The row that reaches it is the last. */
  readonly most?: number | undefined;
  /** Lock timeout in milliseconds. */
  readonly lockTimeoutMs?: number | undefined;
};

export type Answered = {
  readonly columns: ReadonlyArray<{ readonly name: string; readonly type: number }>;
  /** Values as PostgreSQL formats them; null for SQL NULL. */
  readonly rows: ReadonlyArray<ReadonlyArray<string | null>>;
  /** There were more rows than are answered. */
  readonly more: boolean;
  /** `SELECT`, `UPDATE` … */
  readonly command: string;
  /** Number of changed rows; null for statements that change none. */
  readonly affected: number | null;
};

const LOCK_TIMEOUT_MS = 5_000;

/** Throws the error of the server. Several statements in a read-only transaction cause its error 42601. */
export async function runStatement(text: string, options: StatementOptions): Promise<Answered> {
  const { address, applicationName, caller, write, timeoutMs, lockTimeoutMs = LOCK_TIMEOUT_MS } = options;
  const client = await openClient({ address, applicationName, link: new DatabaseLink() });
  // The running statement reports a broken connection.
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
    // A reader that has enough rows does not wait for the rest.
    if (closed) cutOff(client);
    else await endClient(client);
  }
}

const asText = { getTypeParser: () => (text: string) => text } as unknown as pg.CustomTypesConfig;

const resultFields = (
  result: { readonly fields?: readonly pg.FieldDef[] } | undefined,
): readonly pg.FieldDef[] => result?.fields ?? [];

async function run(
  client: pg.Client,
  text: string,
  { write, limit, most = Infinity }: StatementOptions,
): Promise<Answered> {
  // A prepared statement can only be a single one: the server rejects `commit; delete …`.
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
      const fields = resultFields(result).map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      // The result is that of the last statement.
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
      columns = resultFields(last).map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      if (columns.length === 0) rows = [];
      resolve({ command: last?.command ?? '', affected: last?.rowCount ?? null });
    });
    query.on('error', reject);
  });
  client.query(query);
  return { ...(await done), columns, rows, more };
}
