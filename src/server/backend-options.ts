// Options of `startBackend`.
import type { Config } from '../config/config.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import type { ErrorReports } from '../log/error-reports.ts';
import type { Log } from '../log/log.ts';
import type { SupersededReport } from '../migrate/commands/superseded-watch.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import type { AdminAddress } from './health/admin-address.ts';
import type { DashboardOptions } from './mounts.ts';

export type BackendOptions = {
  readonly config: Config;
  readonly database: DatabaseAddresses;
  /** Maximum time to wait for a database that does not respond, in milliseconds. */
  readonly databaseWaitMs?: number | undefined;
  /** Ends the wait for the database. */
  readonly signal?: AbortSignal | undefined;
  readonly keys: ApiKeys;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly log: Log;
  readonly dev: boolean;
  /** Values of the SVC_* variables that features document. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Address for metrics and probes without a key. Undefined: no such port. */
  readonly admin?: AdminAddress | undefined;
  /** Sends errors to a collector. Its counts are part of the metrics. */
  readonly errorReports?: ErrorReports | undefined;
  /** Number of schema changes of the file that are not applied. Undefined: not known. */
  readonly pendingChanges?: (() => number | undefined) | undefined;
  /** Used when the file has no `server.trusted_proxies`. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Statements of requests that take at least this long are logged, in milliseconds. Undefined: none. */
  readonly slowMs?: number | undefined;
  /** How often the version of the schema is compared, in milliseconds. */
  readonly compareSchemaEveryMs?: number | undefined;
  /** Eight hexadecimal characters that several processes of one instance share; random when absent. */
  readonly instance?: string | undefined;
  /** Secret that authenticates the requests that `svc receive` forwards to this process. */
  readonly frontSecret?: string | undefined;
  /** Public base URL, for links that are mailed or registered elsewhere. */
  readonly baseUrl?: string | ((config: Config) => string | undefined) | undefined;
  readonly dashboard?: DashboardOptions | undefined;
  /** Report of a newer file that the database follows. Undefined if it follows this file. */
  readonly superseded?: (() => SupersededReport | undefined) | undefined;
  /**
   * Keyed by NOTIFY channel. Called for each notification, and after a reconnection, which may have missed
   * some.
   */
  readonly extraListeners?: Readonly<Record<string, () => void>> | undefined;
  /** Serves a database whose import has not been cut over. */
  readonly importPreview?: boolean | undefined;
  /** Number of processes of this machine that serve the file and divide its limits. Default: 1. */
  readonly processes?: number | undefined;
  /** False if another process listens on the port: this one opens it when it is ready. */
  readonly listenEarly?: boolean | undefined;
  /** Migrates the database, or checks what is pending. Called at the start and at each reload. */
  readonly migrate: (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;
};
