// The replicas of a backend: one pool for each host of SVC_DATABASE_READ_URL.
import type { Log } from '../../log/log.ts';
import { describeTarget, type DatabaseAddress } from '../../postgres/address/database-address.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import { DatabaseLink } from '../../postgres/link/database-link.ts';
import { CallerPool, type CallerPoolOptions } from '../../postgres/pool/caller-pool.ts';
import { sessionName } from '../../postgres/instances.ts';
import { ReplicaReads, type ReplicaRules } from '../../postgres/replicas/replica-reads.ts';
import { Replica } from '../../postgres/replicas/replica.ts';
import { Problem } from '../../problem/problem.ts';
import { requestSessionCheck } from '../../provision/request-session.ts';

const MAX_REPLICAS = 8;
/** Connection timeout. The primary serves reads in the meantime. */
const CONNECT_MS = 2_000;

export type ReplicasOptions = {
  readonly rules: ReplicaRules;
  readonly primary: CallerPool;
  readonly instance: string;
  /** Connection to the primary that reads its position. */
  readonly position: ConnectionSettings;
  /** Settings of the request connections to the primary. */
  readonly requests: Pick<ConnectionSettings, 'statementTimeoutMs'>;
  /** Limits of each pool. */
  readonly limits: Pick<
    CallerPoolOptions,
    'max' | 'maxReading' | 'minIdle' | 'idleTimeoutMs' | 'queue' | 'slow' | 'count'
  >;
  readonly log: Log;
};

export function openReplicas(address: DatabaseAddress, options: ReplicasOptions): ReplicaReads {
  const { rules, primary, position, log } = options;
  const { targets, isShuffled } = address;
  if (targets.length > MAX_REPLICAS) {
    throw new Problem('bad_database_url', 500, `${address.variable} contains ${targets.length} hosts`, {
      hint: `List at most ${MAX_REPLICAS} hosts, or a load balancer in front of them.`,
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
    // The role of the host is checked repeatedly instead.
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
