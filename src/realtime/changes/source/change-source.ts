// Source of the changes of tables: connecting → live → lost → connecting.
import type { FeatureContext } from '../../../http/feature.ts';
import type { Begin, Relation, RowChange } from '../../../postgres/replication/pgoutput.ts';

export type SourceChange = {
  /** `lsn` is only comparable with values that `position` returned. */
  readonly transaction: Begin;
  readonly relation: Relation;
  readonly change: RowChange;
};

/**
 * `triggers`: live without the write-ahead log. `impossible`: the server must be configured before changes can be read.
 */
export type SourceState = 'connecting' | 'live' | 'triggers' | 'impossible';

export interface ChangeSource {
  readonly state: SourceState;
  /** Time since the source was last live, in milliseconds. 0 while it is live. */
  readonly outageMs: number;
  readonly wasLive: boolean;
  start(): void;
  pause(): void;
  resume(): void;
  /** Drops the changes that are not read yet and connects again. Causes a gap. */
  drop(why: string): void;
  /** Returns the size of the WAL that the server retains because this source has not read it. */
  retainedWalBytes(): Promise<bigint>;
  /** Returns a position. Changes that commit after the call have that position or a later one. */
  position(): Promise<bigint>;
  close(): Promise<void>;
}

export type SourceOptions = {
  readonly context: FeatureContext;
  readonly onChange: (change: SourceChange) => void;
  /** Called when the source is live again after changes may have been missed. */
  readonly onGap: () => void;
  /** True while a client of this instance can receive changes. */
  readonly hasListeners: () => boolean;
  /** True if another source was live before, so the start of this source causes a gap. */
  readonly isSecond?: boolean;
};

/** Resolves early when the signal aborts. */
export async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds).unref();
    signal.addEventListener('abort', end);
  });
}
