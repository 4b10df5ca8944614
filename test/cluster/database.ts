// The PostgreSQL cluster of the rig: finds the primary, switches over, kills servers, and reads rows without
// svc.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import {
  machineAddress,
  DATABASE_MACHINES,
  healNetwork,
  killAllOn,
  moveName,
  processesOn,
  type DatabaseMachine,
} from './machines.ts';
import { until } from './until.ts';

const ADMINISTRATOR = { user: 'postgres', password: 'postgres-password' };
const SCRIPTS = fileURLToPath(new URL('.', import.meta.url));

type Member = { name: DatabaseMachine; role: string; state: string; lag?: number | string };

/** How svc connects to the database `name`: directly, through the balancer, or through the pooler. */
export type Way = 'balancer' | 'pooler' | 'replicas' | DatabaseMachine | readonly DatabaseMachine[] | 'name';

export function databaseUrl(name: string, way: Way = 'balancer', parameters = ''): string {
  const { user, password } = ADMINISTRATOR;
  return `postgres://${user}:${password}@${databaseHosts(way)}/${name}${parameters}`;
}

function databaseHosts(way: Way): string {
  if (typeof way !== 'string') return way.map((machine) => `${machineAddress(machine)}:5432`).join(',');
  if (way === 'balancer') return `${machineAddress('lb')}:5000`;
  if (way === 'replicas') return `${machineAddress('lb')}:5001`;
  if (way === 'pooler') return `${machineAddress('lb')}:6432`;
  return way === 'name' ? 'primary.db:5432' : `${machineAddress(way)}:5432`;
}

/** Patroni's API of one machine; undefined when it does not answer. */
async function patroni(
  machine: DatabaseMachine,
  path: string,
  init: RequestInit = {},
  limit = 1_000,
): Promise<Response | undefined> {
  return await fetch(`http://${machineAddress(machine)}:8008${path}`, {
    ...init,
    signal: AbortSignal.timeout(limit),
  }).catch(() => undefined);
}

async function members(): Promise<readonly Member[]> {
  for (const machine of DATABASE_MACHINES) {
    const answer = await patroni(machine, '/cluster');
    if (answer?.ok) return ((await answer.json()) as { members: Member[] }).members;
  }
  return [];
}

/** The machine that Patroni calls primary now. */
export async function primary(): Promise<DatabaseMachine | undefined> {
  for (const machine of DATABASE_MACHINES) {
    const answer = await patroni(machine, '/primary');
    if (answer?.ok) return machine;
  }
  return undefined;
}

/** Starts a primary and two replicas. With `synchronous`, one replica must confirm each commit. */
export async function settled(synchronous = false): Promise<DatabaseMachine> {
  return await until(
    `a primary and two replicas${synchronous ? ', one of them synchronous' : ''}`,
    90_000,
    async () => {
      const all = await members();
      const fine =
        all.length === 3 &&
        all.every(({ state, role, lag }) => state === 'running' && (role === 'leader' || lag === 0));
      const leader = all.find(({ role }) => role === 'leader')?.name;
      const following = all.some(({ role }) => role === 'sync_standby') === synchronous;
      if (!fine || leader === undefined || !following) return undefined;
      return (await isFollowed(leader)) ? leader : undefined;
    },
  );
}

/**
 * Asks PostgreSQL itself whether the primary accepts writes and has its replicas. Patroni's state of a machine may be
 * older than its end, and Patroni calls a restarted server primary before it accepts writes.
 */
async function isFollowed(leader: DatabaseMachine): Promise<boolean> {
  const [answer] = await query<{ fine: boolean }>(
    'postgres',
    `select not pg_is_in_recovery() and 2 = (
       -- Instances of svc read the log as well, as another role.
       select count(*) from pg_stat_replication where state = 'streaming' and usename = 'replicator'
     ) as fine`,
    [],
    leader,
  ).catch(() => []);
  return answer?.fine === true;
}

export async function setSynchronous(on: boolean): Promise<DatabaseMachine> {
  const leader = (await settled(!on).catch(() => undefined)) ?? (await primary());
  if (leader === undefined) throw new Error('there is no primary to configure');
  await patroni(
    leader,
    '/config',
    { method: 'PATCH', body: JSON.stringify({ synchronous_mode: on }) },
    5_000,
  );
  return await settled(on);
}

/** Switches over: Patroni stops the primary and promotes another. Returns when Patroni reports success. */
export async function switchover(leader: DatabaseMachine): Promise<void> {
  const answer = await patroni(
    leader,
    '/switchover',
    { method: 'POST', body: JSON.stringify({ leader }) },
    60_000,
  );
  if (!answer?.ok) throw new Error(`Patroni refused the switchover: ${await answer?.text()}`);
}

/** Kills the processes of a machine. The network then resets connections to it. */
export const killNode = (machine: DatabaseMachine): void => killAllOn(machine);

export function startNode(machine: DatabaseMachine): void {
  const { status } = spawnSync(`${SCRIPTS}start.sh`, [machine], { stdio: 'inherit' });
  if (status !== 0) throw new Error(`${machine} could not be started`);
}

/** When a write on one of these machines first succeeded, past svc and everything else. */
export async function firstWriteAt(
  machines: readonly DatabaseMachine[],
  signal: AbortSignal,
): Promise<number> {
  while (!signal.aborted) {
    for (const machine of machines) {
      const client = clientFor('postgres', machine, 1_000);
      try {
        await client.connect();
        const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby');
        if (rows[0]?.standby === false) return Date.now();
      } catch {
        // Not yet.
      } finally {
        await client.end().catch(() => undefined);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return Number.NaN;
}

function clientFor(database: string, machine: DatabaseMachine, limit: number): pg.Client {
  const client = new pg.Client({
    ...ADMINISTRATOR,
    host: machineAddress(machine),
    database,
    connectionTimeoutMillis: limit,
    query_timeout: limit,
    application_name: 'rig',
  });
  // An unused connection may be cut, which is not a fault of the rig.
  client.on('error', () => undefined);
  return client;
}

/** Rows of a statement run on the primary, or on a machine of choice. */
export async function query<Row extends pg.QueryResultRow>(
  database: string,
  text: string,
  values: readonly unknown[] = [],
  at?: DatabaseMachine,
): Promise<Row[]> {
  const machine = at ?? (await primary());
  if (machine === undefined) throw new Error('there is no primary');
  const client = clientFor(database, machine, 60_000);
  await client.connect();
  try {
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

export async function createDatabase(name: string): Promise<void> {
  await query('postgres', `drop database if exists "${name}" with (force)`);
  await query('postgres', `create database "${name}"`);
}

/** Restores the state after up.sh, after any scenario. */
export async function restoreCluster(): Promise<void> {
  healNetwork();
  for (const machine of DATABASE_MACHINES) {
    if ((await patroni(machine, '/liveness')) === undefined && !(await isStarting(machine)))
      startNode(machine);
  }
  const leader = await until('a primary', 90_000, primary);
  const config = (await (await patroni(leader, '/config'))?.json()) as
    | { synchronous_mode?: boolean }
    | undefined;
  if (config?.synchronous_mode === true) {
    await patroni(leader, '/config', { method: 'PATCH', body: '{"synchronous_mode": false}' }, 5_000);
  }
  moveName(await settled());
}

/** The port of Patroni opens shortly after its process has started. */
async function isStarting(machine: DatabaseMachine): Promise<boolean> {
  if (processesOn(machine).length === 0) return false;
  for (let waited = 0; waited < 50; waited++) {
    if ((await patroni(machine, '/liveness')) !== undefined) return true;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  killAllOn(machine);
  return false;
}
