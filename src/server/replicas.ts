// The replicas of a backend: a pool for each host of SVC_DATABASE_READ_URL.
import type { Log } from '../log/log.ts';
import { describeTarget, type DatabaseAddress } from '../postgres/address/database-address.ts';
import type { ConnectionSettings } from '../postgres/connection.ts';
import { DatabaseLink } from '../postgres/link/database-link.ts';
import { CallerPool, type CallerPoolOptions } from '../postgres/pool/caller-pool.ts';
import { sessionName } from '../postgres/presence.ts';
import { ReplicaReads, type ReplicaRules } from '../postgres/replicas/replica-reads.ts';
import { Replica } from '../postgres/replicas/replica.ts';
import { Problem } from '../problem/problem.ts';
import { requestSessionCheck } from '../provision/request-session.ts';

const MOST_REPLICAS = 8;
/** The primary answers meanwhile. */
const CONNECT_MS = 2_000;

export type ReplicasOptions = {
  readonly rules: ReplicaRules;
  readonly primary: CallerPool;
  readonly instance: string;
  /** To the primary itself. */
  readonly position: ConnectionSettings;
  /** How requests connect to the primary. */
  readonly requests: Pick<ConnectionSettings, 'statementTimeoutMs'>;
  /** Of each pool. */
  readonly limits: Pick<
    CallerPoolOptions,
    'max' | 'maxReading' | 'minIdle' | 'idleTimeoutMs' | 'queue' | 'slow' | 'count'
  >;
  readonly log: Log;
};

export function openReplicas(address: DatabaseAddress, options: ReplicasOptions): ReplicaReads {
  const { rules, primary, position, log } = options;
  const { targets, isShuffled } = address;
  if (targets.length > MOST_REPLICAS) {
    throw new Problem('bad_database_url', 500, `${address.variable} names ${targets.length} hosts`, {
      hint: `Replicas are read from ${MOST_REPLICAS} hosts at most: name fewer, or a balancer before them.`,
    });
  }
  const replicas = targets.map((target) => openReplica(address.at(target), describeTarget(target), options));
  return new ReplicaReads({ ...rules, primary, replicas, isShuffled, position, log });
}

function openReplica(
  address: DatabaseAddress,
  target: string,
  { instance, requests, limits, log }: ReplicasOptions,
): Replica {
  const connection = {
    // What it is, is asked of it again and again.
    address: address.wanting('any'),
    applicationName: sessionName(instance, 'read'),
    statementTimeoutMs: requests.statementTimeoutMs,
    link: new DatabaseLink(log),
    connectTimeoutMs: Math.min(CONNECT_MS, address.connectTimeoutMs),
  };
  const pool = new CallerPool({
    ...connection,
    ...limits,
    check: requestSessionCheck(),
    failoverWaitMs: 0,
  });
  return new Replica({
    target,
    pool,
    connection: { ...connection, applicationName: sessionName(instance, 'position') },
    log,
  });
}
