// From a configuration to the snapshot that requests see: the steps of a start and of every reload, one at a time. A
// reload must not overtake another one, nor may a new reading of the catalog put an older file back.
import { introspect } from '../catalog/introspect.ts';
import type { Config } from '../config/config.ts';
import type { Functions } from '../functions/functions.ts';
import type { Snapshot } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import type { Log } from '../log/log.ts';
import { readSchemaVersion } from '../migrate/state/applied-state.ts';
import { readRenames } from '../migrate/state/former-names.ts';
import type { Listener } from '../postgres/listen.ts';
import { syncBuckets } from '../storage/objects/bucket.ts';
import type { Databases } from './databases.ts';
import { RetryUntilDone } from './retry-until-done.ts';

export type ServedConfigOptions = {
  readonly databases: Databases;
  readonly functions: Functions;
  readonly log: Log;
  /** Throws when the files of this project are not where its database says. */
  readonly verifyStorage: (config: Config) => Promise<void>;
  /** Makes the database follow the file, or reports what is pending. */
  readonly migrate: (config: Config) => Promise<void>;
  /** Called at the first `follow`: the caller reports changes of the schema with `schemaChanged` from then on. */
  readonly listen: () => Promise<Listener>;
  /** How often the version of the schema is compared, in milliseconds. Default: 30 s. */
  readonly compareEveryMs?: number | undefined;
};

/** A notification can be missed: by a listener that is gone without knowing it, above all. */
const COMPARE_EVERY_MS = 30_000;

export class ServedConfig {
  readonly #options: ServedConfigOptions;
  readonly #queue = new SerialQueue();
  readonly #refresh: RetryUntilDone;
  #snapshot: Snapshot | undefined;
  #listener: Listener | undefined;
  /** Changes heard of, and how many of them the last reading of the catalog has seen. */
  #changes = 0;
  #changesSeen = 0;
  /** Of the catalog that was read last. */
  #versionSeen: string | undefined;
  #compareTimer: NodeJS.Timeout | undefined;
  #fault: string | undefined;
  /** `performance.now()` when the catalog was last known to be the database's. */
  #knownAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  constructor(options: ServedConfigOptions) {
    this.#options = options;
    // A database that has just come back may fail the first who asks.
    this.#refresh = new RetryUntilDone(
      () => this.#queue.run(() => this.#readAgain()),
      (error) => {
        this.#fault = error instanceof Error ? error.message : String(error);
        options.log.error(
          { err: error, job: 'catalog' },
          'could not read the catalog again; trying until it succeeds',
        );
      },
    );
  }

  get snapshot(): Snapshot {
    return must(this.#snapshot, 'the snapshot');
  }

  /** Undefined until the first `follow` has ended. */
  get config(): Config | undefined {
    return this.#snapshot?.config;
  }

  /** Why requests are answered from an older catalog than the database has, as far as that is known. */
  get catalogFault(): string | undefined {
    return this.#changesSeen < this.#changes ? this.#fault : undefined;
  }

  /** How long ago the catalog was last known to be the database's. */
  get catalogAgeMs(): number {
    return performance.now() - this.#knownAt;
  }

  /** Changes of the schema are heard of at once. */
  get isListening(): boolean {
    return this.#listener?.isConnected === true;
  }

  /** When a step fails, the former snapshot stays. */
  follow(config: Config): Promise<void> {
    const { databases, functions, migrate, verifyStorage } = this.#options;
    return this.#queue.run(async () => {
      await functions.check(config);
      await verifyStorage(config);
      await migrate(config);
      await syncBuckets(databases.owner, config);
      await functions.reload(config);
      await this.#hearChanges();
      await this.#readCatalog(config);
    });
  }

  /** Somebody may have changed the schema: the catalog is read again, unless that happens anyway. */
  schemaChanged(): void {
    this.#changes += 1;
    this.#refresh.ask();
  }

  /**
   * The snapshot after this version, once the catalog is read again if the schema has changed; undefined: it has not. For
   * statements that came between a change and its announcement.
   */
  async after(version: number): Promise<Snapshot | undefined> {
    // A look that had begun before may have come too early.
    for (let looks = 0; looks < 2 && this.snapshot.version === version; looks++) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined;
      });
      await this.#looking.catch(() => {
        // Then the first error is the answer: nobody knows of a change.
      });
    }
    return this.snapshot.version === version ? undefined : this.snapshot;
  }

  async close(): Promise<void> {
    this.#refresh.close();
    clearInterval(this.#compareTimer);
    await this.#listener?.close();
  }

  /**
   * Before the catalog is read, so that no later change is missed. Everything announced so far is heard of first: the
   * reading that follows has seen it, our own migration above all.
   */
  async #hearChanges(): Promise<void> {
    if (this.#listener) await this.#listener.caughtUp();
    else {
      this.#listener = await this.#options.listen();
      const { compareEveryMs = COMPARE_EVERY_MS } = this.#options;
      this.#compareTimer = setInterval(() => void this.#compareVersion(), compareEveryMs);
      this.#compareTimer.unref();
    }
  }

  async #compareVersion(): Promise<void> {
    const seen = this.#versionSeen;
    const askedAt = performance.now();
    // While the database is away, the next time tells; and whoever has read it meanwhile has seen it.
    const version = await readSchemaVersion(this.#options.databases.catalog).catch(() => undefined);
    if (version === undefined || this.#versionSeen !== seen) return;
    if (version === seen) this.#knownAt = askedAt;
    else this.schemaChanged();
  }

  async #readAgain(): Promise<void> {
    if (this.#changesSeen < this.#changes) await this.#readCatalog(this.snapshot.config);
  }

  /** Not one of the queue, which a reload may hold until its migration is done: what it has renamed is gone at once. */
  async #look(): Promise<void> {
    const before = this.snapshot;
    const version = await readSchemaVersion(this.#options.databases.catalog);
    if (version === this.#versionSeen) return;
    const swap = await this.#read(before.config);
    if (this.#snapshot === before) swap();
  }

  async #readCatalog(config: Config): Promise<void> {
    const swap = await this.#read(config);
    swap();
  }

  async #read(config: Config): Promise<() => void> {
    const changes = this.#changes;
    const readAt = performance.now();
    const { catalog: database } = this.#options.databases;
    // Before the catalog: a change that comes between the two is seen again.
    const version = await readSchemaVersion(database);
    const catalog = await introspect(database, exposedSchemas(config));
    const renames = await readRenames(database);
    return () => {
      this.#versionSeen = version;
      this.#fault = undefined;
      this.#changesSeen = changes;
      this.#knownAt = readAt;
      this.#snapshot = {
        config,
        catalog: { ...catalog, renames },
        version: (this.#snapshot?.version ?? 0) + 1,
      };
    };
  }
}

function exposedSchemas(config: Config): string[] {
  const { relations, routines } = config.expose;
  const others = new Set(
    [...config.tables, ...config.views, ...relations, ...routines].map((one) => one.schema),
  );
  others.delete('public');
  return ['public', ...[...others].sort()];
}
