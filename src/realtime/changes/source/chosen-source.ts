// Chooses the source that the configuration and the server allow: the write-ahead log, or triggers.
import type { Config } from '../../../config/config.ts';
import type { ConnectionSettings } from '../../../postgres/connection.ts';
import type { ChangeSource, SourceOptions, SourceState } from './change-source.ts';
import { TriggerSource } from './trigger-source.ts';
import { hasActiveReader, stopRecording } from './triggers.ts';
import { WalSource } from './wal-source.ts';

const CLEANUP_INTERVAL_MS = 60_000;
/** Readers send a heartbeat every five seconds. */
const READER_TIMEOUT_MS = 30_000;

export type ChosenSourceOptions = SourceOptions & {
  readonly settings: ConnectionSettings;
  readonly configured: () => Config['realtime']['source'];
};

export class ChosenSource implements ChangeSource {
  readonly #options: ChosenSourceOptions;
  #current: ChangeSource | undefined;
  #cleaning: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #closing: Array<Promise<void>> = [];

  constructor(options: ChosenSourceOptions) {
    this.#options = options;
  }

  get state(): SourceState {
    return this.#current?.state ?? 'connecting';
  }

  get outageMs(): number {
    return this.#current?.outageMs ?? 0;
  }

  get wasLive(): boolean {
    return this.#current?.wasLive === true;
  }

  start(): void {
    const configured = this.#options.configured();
    if (configured === 'triggers') this.#readTriggers();
    else if (configured !== 'none') this.#readLog();
    this.#cleaning = setInterval(() => void this.#removeTriggers(), CLEANUP_INTERVAL_MS).unref();
    if (configured === 'none' || configured === 'wal') void this.#removeTriggers();
  }

  pause(): void {
    this.#current?.pause();
  }

  resume(): void {
    this.#current?.resume();
  }

  drop(why: string): void {
    this.#current?.drop(why);
  }

  async retainedWalBytes(): Promise<bigint> {
    return (await this.#current?.retainedWalBytes()) ?? 0n;
  }

  async position(): Promise<bigint> {
    return (await this.#current?.position()) ?? 0n;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#cleaning);
    await Promise.all([this.#current?.close(), ...this.#closing]);
  }

  #readLog(): void {
    const { settings } = this.#options;
    this.#switchTo(
      (options) =>
        new WalSource({
          ...options,
          settings,
          ...(this.#options.configured() === 'auto' && { onImpossible: () => this.#readTriggers() }),
        }),
    );
  }

  #readTriggers(): void {
    const isFree = this.#options.configured() === 'auto';
    this.#switchTo(
      (options) =>
        new TriggerSource({ ...options, ...(isFree && { onWalAvailable: () => this.#readLog() }) }),
    );
  }

  #switchTo(create: (options: SourceOptions) => ChangeSource): void {
    if (this.#isClosed) return;
    const previous = this.#current;
    const { context, onChange, onGap, hasListeners } = this.#options;
    const next = create({ context, onChange, onGap, hasListeners, isSecond: previous?.wasLive === true });
    this.#current = next;
    if (previous) this.#closing.push(previous.close());
    next.start();
  }

  /** Removes triggers that an earlier source created, unless another instance reads from them. */
  async #removeTriggers(): Promise<void> {
    const { context, configured } = this.#options;
    const needsNone = configured() === 'none' || configured() === 'wal' || this.state === 'live';
    if (!needsNone) return;
    try {
      if (!(await hasActiveReader(context, READER_TIMEOUT_MS))) await stopRecording(context, 'all');
    } catch {
      // The next interval tries again.
    }
  }
}
