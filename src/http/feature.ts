// The context of a feature. A feature is a Fastify plugin made from it; it owns its routes and its error format, and
// shares only this context with other features.
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

/** The file with the matching database catalog. A reload replaces it as a whole, so read it once per request. */
export type Snapshot = {
  readonly config: Config;
  readonly catalog: Catalog;
  /** Increases with every replacement; part of the keys of dependent caches. */
  readonly version: number;
};

export type FeatureContext = {
  readonly snapshot: () => Snapshot;
  /**
   * Returns the next snapshot if the schema has changed since `version`. Used after a statement that failed on a
   * name.
   */
  readonly snapshotAfter?: (version: number) => Promise<Snapshot | undefined>;
  /** Statements on behalf of callers. */
  readonly callers: CallerPool;
  /** Routes reads to replicas, if there are any. */
  readonly reads?: ReplicaReads | undefined;
  /** The product's own statements. */
  readonly owner: OwnerDatabase;
  readonly credentials: CredentialReader;
  readonly signingKeys: SigningKeys;
  /** Encrypts secrets in the database. */
  readonly keyring: Keyring;
  /** The process environment, for the SVC_* variables a feature documents. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  readonly now: () => Date;
  /** Public base URL without a trailing slash; undefined if only the request determines it (loopback development). */
  readonly baseUrl: () => string | undefined;
  /** Background work waits for this until file and database are ready; if unset, it starts at once. */
  readonly whenServing?: (work: () => void) => void;
  /** Id of this instance in the result of `readInstancesAlive`. */
  readonly instance?: string;
  /** Reasons why this instance works only partly; `/ready` shows them. */
  readonly degraded?: Degraded;
  /** Calls a code function on behalf of svc itself. Undefined if there are no code functions. */
  readonly callFunction?: ((call: FunctionCall) => Promise<FunctionOutcome>) | undefined;
  /** True under `svc dev`, which shows more details to the developer. */
  readonly dev: boolean;
};

export type FunctionCall = {
  readonly name: string;
  /** JSON text. */
  readonly body: string;
  /** Key of the caller whose share of the workers it uses. */
  readonly caller: string;
  readonly clientAddress: string;
  readonly requestId: string | undefined;
  readonly timeoutMs: number;
  /** Maximum size of the answer. */
  readonly maxBytes: number;
};

export type FunctionOutcome =
  | { readonly kind: 'answer'; readonly status: number; readonly text: string }
  /** `busy`: no worker can take the call now. */
  | { readonly kind: 'timeout' | 'too-large' | 'busy' }
  /** `why` is for the log. */
  | { readonly kind: 'failed'; readonly why: string };

export type Feature = (context: FeatureContext) => FastifyPluginAsync;

/** The place of a feature's routes. */
export type Mount = {
  readonly prefix: string;
  readonly feature: Feature;
  /** Format of rejections under the prefix that reach no route. Default: the general one. */
  readonly format?: RefusalFormat | undefined;
};
