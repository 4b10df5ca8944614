// Turns a configuration into the snapshot that requests use: the steps of a start and of every reload, one at a time. A
// reload must not overtake another one, and a new read of the catalog must not restore an older file.
import { introspect } from '../catalog/introspect.ts';
import { readCatalogStamp } from '../catalog/stamp.ts';
import type { Config } from '../config/config.ts';
import type { Deliveries } from '../deliveries/deliveries.ts';
import type { Functions } from '../functions/functions.ts';
import type { Snapshot } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import { SerialQueue } from '../lib/limits/serial-queue.ts';
import type { Log } from '../log/log.ts';
import { readSchemaVersion } from '../migrate/state/applied-state.ts';
import { readRenames } from '../migrate/state/former-names.ts';
import type { Listener } from '../postgres/listen.ts';
import { syncBuckets } from '../storage/objects/bucket.ts';
import type { Databases } from './database/databases.ts';
import { RetryUntilDone } from './retry-until-done.ts';

export type ServedConfigOptions = {
  readonly databases: Databases;
  readonly functions: Functions;
  readonly deliveries: Deliveries;
  readonly log: Log;
  /** Throws if the files of this project are not in the place that its database records. */
  readonly verifyStorage: (config: Config) => Promise<void>;
  /** Migrates the database to the file, or reports pending changes. */
  readonly migrate: (config: Config) => Promise<void>;
  /**
   * Opens the listener at the first `follow`. From then on the caller reports schema changes with
   * `schemaChanged`.
   */
  readonly listen: () => Promise<Listener>;
  /** Interval at which the schema version is compared, in milliseconds. Default: 30 s. */
  readonly compareEveryMs?: number | undefined;
};

/** Finds changes whose notification was missed, mainly by a listener whose connection broke unnoticed. */
const COMPARE_EVERY_MS = 30_000;

/** Limits how often clients can make the server compare the stamp, by statements about names that do not exist. */
const MIN_STAMP_PAUSE_MS = 500;
const MAX_STAMP_PAUSE_MS = 30_000;

/** `migrated` changes with each migration of svc, `stamp` with any DDL. */
type SchemaVersion = { readonly migrated: string; readonly stamp: string };

export class ServedConfig {
  readonly #options: ServedConfigOptions;
  readonly #queue = new SerialQueue();
  readonly #refresh: RetryUntilDone;
  #snapshot: Snapshot | undefined;
  #listener: Listener | undefined;
  /** Number of announced changes, and the number that the last read of the catalog has seen. */
  #changes = 0;
  #changesRead = 0;
  /** Version of the catalog that was read last. */
  #seen: SchemaVersion | undefined;
  /** Pause between two comparisons of the stamp after failed statements, and the time of the next one. */
  #stampPauseMs = MIN_STAMP_PAUSE_MS;
  #nextStampAt = 0;
  #compareTimer: NodeJS.Timeout | undefined;
  #fault: string | undefined;
  /** `performance.now()` when the catalog was last known to match the database. */
  #matchedAt = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(options: ServedConfigOptions) {
    this.#options = options;
    // A database that has just recovered may reject the first statement.
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

  /** Reason why requests use an older catalog than the database has, if known. */
  get catalogFault(): string | undefined {
    return this.#isReadPending ? this.#fault : undefined;
  }

  /** Time since the catalog was last known to match the database. */
  get catalogAgeMs(): number {
    return performance.now() - this.#matchedAt;
  }

  /** Whether schema changes are announced to this instance. */
  get isListening(): boolean {
    return this.#listener?.isConnected === true;
  }

  /** Serves a new configuration. If a step fails, the previous snapshot stays. */
  follow(config: Config): Promise<void> {
    const { databases, deliveries, functions, migrate, verifyStorage } = this.#options;
    return this.#queue.run(async () => {
      await functions.check(config);
      await verifyStorage(config);
      await migrate(config);
      await syncBuckets(databases.owner, config);
      await functions.reload(config);
      await this.#subscribeToChanges();
      await this.#readCatalog(config);
      await deliveries.follow(config);
    });
  }

  /** Reads the catalog again, because the schema may have changed. */
  schemaChanged(): void {
    this.#changes += 1;
    this.#refresh.request();
  }

  /**
   * Returns the snapshot after `version`, after reading the catalog again if the schema has changed, or
   * undefined if it has
   * not. For statements that ran between a change and its announcement.
   */
  async after(version: number): Promise<Snapshot | undefined> {
    // A check that was already running may have read too early, so there are two.
    for (let checks = 0; checks < 2 && this.snapshot.version === version; checks++) {
      this.#checking ??= this.#checkForChange().finally(() => {
        this.#checking = undefined;
      });
      // The caller keeps its first error. The catalog is read with back-off, because a change is likely.
      await this.#checking.catch(() => this.schemaChanged());
    }
    return this.snapshot.version === version ? undefined : this.snapshot;
  }

  async close(): Promise<void> {
    this.#refresh.close();
    clearInterval(this.#compareTimer);
    await this.#listener?.close();
  }

  /**
   * Opens the listener before the catalog is read, so that no later change is missed. Waits for the changes
   * announced so
   * far: the following read includes them, above all our own migration.
   */
  async #subscribeToChanges(): Promise<void> {
    if (this.#listener) await this.#listener.caughtUp();
    else {
      this.#listener = await this.#options.listen();
      const { compareEveryMs = COMPARE_EVERY_MS } = this.#options;
      this.#compareTimer = setInterval(() => void this.#compareVersion(), compareEveryMs);
      this.#compareTimer.unref();
    }
  }

  async #compareVersion(): Promise<void> {
    const { config } = this;
    // Nothing to compare before the first catalog is read, and a pending read finds every change anyway.
    if (!config || this.#isReadPending) return;
    const seen = this.#seen;
    const askedAt = performance.now();
    // If the database does not respond, the next comparison decides. A read in between has found the change.
    const version = await this.#readVersion(config).catch(() => undefined);
    if (version === undefined || this.#seen !== seen || this.#isReadPending) return;
    if (isSame(version, seen)) this.#matchedAt = askedAt;
    else this.schemaChanged();
  }

  get #isReadPending(): boolean {
    return this.#changesRead < this.#changes;
  }

  async #readAgain(): Promise<void> {
    if (this.#isReadPending) await this.#readCatalog(this.snapshot.config);
  }

  /**
   * Reads the catalog outside the queue, because a reload may block the queue until its migration has
   * ended.
   */
  async #checkForChange(): Promise<void> {
    const before = this.snapshot;
    if (!(await this.#hasChanged(before.config))) return;
    const swap = await this.#read(before.config);
    if (this.#snapshot === before) swap();
  }

  async #hasChanged(config: Config): Promise<boolean> {
    const migrated = await readSchemaVersion(this.#options.databases.catalog);
    if (migrated !== this.#seen?.migrated) return true;
    const now = performance.now();
    if (now < this.#nextStampAt) return false;
    this.#nextStampAt = now + this.#stampPauseMs;
    const hasChanged = !isSame(await this.#readVersion(config), this.#seen);
    this.#stampPauseMs = hasChanged
      ? MIN_STAMP_PAUSE_MS
      : Math.min(this.#stampPauseMs * 2, MAX_STAMP_PAUSE_MS);
    return hasChanged;
  }

  async #readVersion(config: Config): Promise<SchemaVersion> {
    const { catalog: database } = this.#options.databases;
    const migrated = await readSchemaVersion(database);
    return { migrated, stamp: await readCatalogStamp(database, exposedSchemas(config)) };
  }

  async #readCatalog(config: Config): Promise<void> {
    const swap = await this.#read(config);
    swap();
  }

  async #read(config: Config): Promise<() => void> {
    const changes = this.#changes;
    const readAt = performance.now();
    const { catalog: database } = this.#options.databases;
    // Read before the catalog, so that a change in between is found again.
    const version = await this.#readVersion(config);
    const catalog = await introspect(database, exposedSchemas(config));
    const renames = await readRenames(database);
    return () => {
      this.#seen = version;
      this.#fault = undefined;
      this.#changesRead = changes;
      this.#matchedAt = readAt;
      this.#snapshot = {
        config,
        catalog: { ...catalog, renames },
        version: (this.#snapshot?.version ?? 0) + 1,
      };
    };
  }
}

function isSame(version: SchemaVersion, previous: SchemaVersion | undefined): boolean {
  return version.migrated === previous?.migrated && version.stamp === previous.stamp;
}

function exposedSchemas(config: Config): string[] {
  const { relations, routines } = config.expose;
  const schemas = new Set(
    [...config.tables, ...config.views, ...relations, ...routines].map(({ schema }) => schema),
  );
  schemas.delete('public');
  return ['public', ...[...schemas].sort()];
}
