// The plan of a statement without its values, as its caller's role has it: for a person who looks why it is slow. On a
// connection of its own, which is closed afterwards; nothing is run.
import type { DatabaseAddress } from './address/database-address.ts';
import { endClient, openSession } from './connection.ts';
import { DatabaseLink } from './link/database-link.ts';
import type { DatabaseRole } from './pool/caller-pool.ts';

export type PlanRequest = {
  /** That of `authenticator`, past a pooler. */
  readonly address: DatabaseAddress;
  readonly applicationName: string;
  readonly role: DatabaseRole;
  readonly searchPath?: string | undefined;
  /** One statement, with its values as `$1`, `$2` … */
  readonly text: string;
};

const TIMEOUT_MS = 2_000;
const LOCK_TIMEOUT_MS = 500;
/** From this version on EXPLAIN takes parameters that have no values. */
const EXPLAINS_PARAMETERS = 160_000;

/** Lines of EXPLAIN, with `$1` where a value was. Throws what the server says. */
export async function genericPlan(request: PlanRequest): Promise<string[]> {
  const { address, applicationName, role, searchPath, text } = request;
  const { client, state } = await openSession({
    address,
    applicationName,
    statementTimeoutMs: TIMEOUT_MS,
    link: new DatabaseLink(),
  });
  // A connection that breaks rejects the statement that runs on it.
  client.on('error', () => {});
  try {
    await client.query(`begin read only; set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const settings = [
      ['role', role],
      // Policies read it while the planner estimates; whose claims they were is not for the log.
      ['request.jwt.claims', JSON.stringify({ role })],
      ...(searchPath === undefined ? [] : [['search_path', searchPath]]),
    ];
    for (const setting of settings) await client.query('select set_config($1, $2, true)', setting);
    const { rows } = await client.query<{ version: number }>(
      `select current_setting('server_version_num')::int as version`,
    );
    const isOld = (rows[0]?.version ?? 0) < EXPLAINS_PARAMETERS;
    // What is prepared would be left to whoever gets the session next.
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

/** Values must be given here. Were the plan made for them, it would say that nothing equals null. */
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
