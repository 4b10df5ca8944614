// The source that the file and the server allow: the write-ahead log, or triggers where it cannot be read.
import type { Config } from '../../config/config.ts';
import type { ConnectionSettings } from '../../postgres/connection.ts';
import type { ChangeSource, SourceOptions, SourceState } from './change-source.ts';
import { TriggerSource } from './trigger-source.ts';
import { isReadLately, stopRecording } from './triggers.ts';
import { WalSource } from './wal-source.ts';

const CLEAN_EVERY_MS = 60_000;
/** A reader shows itself each five seconds. */
const READS_NO_MORE_MS = 30_000;

export type ChosenSourceOptions = SourceOptions & {
  readonly settings: ConnectionSettings;
  readonly which: () => Config['realtime']['source'];
};

export class ChosenSource implements ChangeSource {
  readonly #options: ChosenSourceOptions;
  #now: ChangeSource | undefined;
  #cleaning: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #ended: Array<Promise<void>> = [];

  constructor(options: ChosenSourceOptions) {
    this.#options = options;
  }

  get state(): SourceState {
    return this.#now?.state ?? 'connecting';
  }

  get awayMs(): number {
    return this.#now?.awayMs ?? 0;
  }

  get wasLive(): boolean {
    return this.#now?.wasLive === true;
  }

  start(): void {
    const which = this.#options.which();
    if (which === 'triggers') this.#readTriggers();
    else if (which !== 'none') this.#readLog();
    this.#cleaning = setInterval(() => void this.#clean(), CLEAN_EVERY_MS).unref();
    if (which === 'none' || which === 'wal') void this.#clean();
  }

  pause(): void {
    this.#now?.pause();
  }

  resume(): void {
    this.#now?.resume();
  }

  drop(why: string): void {
    this.#now?.drop(why);
  }

  async heldBytes(): Promise<bigint> {
    return (await this.#now?.heldBytes()) ?? 0n;
  }

  async position(): Promise<bigint> {
    return (await this.#now?.position()) ?? 0n;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#cleaning);
    await Promise.all([this.#now?.close(), ...this.#ended]);
  }

  #readLog(): void {
    const { settings } = this.#options;
    this.#become(
      (options) =>
        new WalSource({
          ...options,
          settings,
          ...(this.#options.which() === 'auto' && { onImpossible: () => this.#readTriggers() }),
        }),
    );
  }

  #readTriggers(): void {
    const isFree = this.#options.which() === 'auto';
    this.#become(
      (options) => new TriggerSource({ ...options, ...(isFree && { onLog: () => this.#readLog() }) }),
    );
  }

  #become(create: (options: SourceOptions) => ChangeSource): void {
    if (this.#isClosed) return;
    const before = this.#now;
    const { context, onChange, onGap } = this.#options;
    const mine = create({ context, onChange, onGap, isSecond: before?.wasLive === true });
    this.#now = mine;
    if (before) this.#ended.push(before.close());
    mine.start();
  }

  /** Triggers that an earlier way left, unless another instance reads by them. */
  async #clean(): Promise<void> {
    const { context, which } = this.#options;
    const needsNone = which() === 'none' || which() === 'wal' || this.state === 'live';
    if (!needsNone) return;
    try {
      if (!(await isReadLately(context, READS_NO_MORE_MS))) await stopRecording(context, 'all');
    } catch {
      // Tried again.
    }
  }
}
