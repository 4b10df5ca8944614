// What the server hands to each feature. A feature is a Fastify plugin made from this context; it owns its
// routes and its error dialect, and shares nothing with its neighbours but what is here.
import type { FastifyPluginAsync } from 'fastify';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import type { CredentialReader } from '../identity/credentials.ts';
import type { Keyring } from '../identity/keyring.ts';
import type { SigningKeys } from '../identity/signing-keys.ts';
import type { Degraded } from '../lib/degraded.ts';
import type { Log } from '../log/log.ts';
import type { CallerPool } from '../postgres/pool/caller-pool.ts';
import type { ReplicaReads } from '../postgres/replicas/replica-reads.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import type { RefusalFormat } from './refusal-format.ts';

/** The file and the database as they belong together. Swapped as a whole on a reload: read it once per request. */
export type Snapshot = {
  readonly config: Config;
  readonly catalog: Catalog;
  /** Grows by one with every swap; part of the key of whatever is cached by it. */
  readonly version: number;
};

export type FeatureContext = {
  readonly snapshot: () => Snapshot;
  /** For a statement that failed on a name: the snapshot after this one, if the schema has changed since. */
  readonly snapshotAfter?: (version: number) => Promise<Snapshot | undefined>;
  /** Statements on behalf of callers. */
  readonly callers: CallerPool;
  /** Where replicas may answer for the primary. */
  readonly reads?: ReplicaReads | undefined;
  /** The product's own statements. */
  readonly owner: OwnerDatabase;
  readonly credentials: CredentialReader;
  readonly signingKeys: SigningKeys;
  /** Seals what is secret in the database. */
  readonly keyring: Keyring;
  /** The process environment, for the SVC_* variables a feature documents. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  readonly now: () => Date;
  /** Public base URL without a trailing slash, or undefined when only the request can tell (loopback development). */
  readonly baseUrl: () => string | undefined;
  /** Background work begins once file and database are there; without this, at once. */
  readonly whenServing?: (work: () => void) => void;
  /** Names this instance among those that `readInstancesAlive` finds. */
  readonly instance?: string;
  /** What makes this instance serve worse than it should; shown by `/ready`. */
  readonly degraded?: Degraded;
  /** True under `svc dev`: more is shown to the person at the keyboard. */
  readonly dev: boolean;
};

export type Feature = (context: FeatureContext) => FastifyPluginAsync;

/** Where a feature is served. */
export type Mount = {
  readonly prefix: string;
  readonly feature: Feature;
  /** Of refusals under the prefix that reach no route. Default: the general one. */
  readonly format?: RefusalFormat | undefined;
};
