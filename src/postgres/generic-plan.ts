// Returns the generic plan of a statement under its caller's role, for the analysis of slow statements. Uses a
// dedicated connection and never runs the statement.
import type { DatabaseAddress } from './address/database-address.ts';
import { endClient, openSession } from './connection.ts';
import { DatabaseLink } from './link/database-link.ts';
import type { DatabaseRole } from './pool/caller-pool.ts';

export type PlanRequest = {
  /** Address of `authenticator` without a pooler. */
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  readonly role: DatabaseRole;
  readonly searchPath?: string | undefined;
  /** A single statement with placeholders `$1`, `$2` … */
  readonly text: string;
};

const TIMEOUT_MS = 2_000;
const LOCK_TIMEOUT_MS = 500;
/** First server version where EXPLAIN accepts parameters without values. */
const EXPLAINS_PARAMETERS = 160_000;

/** Returns the lines of EXPLAIN, with `$1` as placeholders. Throws the error of the server. */
export async function genericPlan(request: PlanRequest): Promise<string[]> {
  const { address, applicationName, role, searchPath, text } = request;
  const { client, state } = await openSession({
    address,
    applicationName,
    statementTimeoutMs: TIMEOUT_MS,
    link: new DatabaseLink(),
  });
  // The running statement reports a broken connection.
  client.on('error', () => {});
  try {
    await client.query(`begin read only; set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const settings = [
      ['role', role],
      // Policies may read this setting during planning. Other claims are omitted, because the log does not have them.
      ['request.jwt.claims', JSON.stringify({ role })],
      ...(searchPath === undefined ? [] : [['search_path', searchPath]]),
    ];
    for (const setting of settings) await client.query('select set_config($1, $2, true)', setting);
    const { rows } = await client.query<{ version: number }>(
      `select current_setting('server_version_num')::int as version`,
    );
    const isOld = (rows[0]?.version ?? 0) < EXPLAINS_PARAMETERS;
    // A pooler would pass the prepared statement on to the next client.
    if (isOld && state?.verdict !== 'direct') throw new Error('behind a pooler, PostgreSQL 16 is needed');
    const explain = isOld ? explainPrepared(text) : [`explain (generic_plan, costs off) ${text}`];
    let lines: ReadonlyArray<Record<string, string>> = [];
    for (const statement of explain)
      ({ rows: lines } = await client.query<Record<string, string>>(statement));
    return lines.map((line) => line['QUERY PLAN'] ?? '');
  } finally {
    await endClient(client);
  }
}

/** EXECUTE requires values. A custom plan would fold comparisons with null to false, so a generic plan is forced. */
function explainPrepared(text: string): string[] {
  const numbers = [...text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number));
  const nulls = Array.from({ length: Math.max(0, ...numbers) }, () => 'null');
  const values = nulls.length === 0 ? '' : `(${nulls.join()})`;
  return [
    `prepare svc_slow as ${text}`,
    'set local plan_cache_mode = force_generic_plan',
    `explain (costs off) execute svc_slow${values}`,
  ];
}
