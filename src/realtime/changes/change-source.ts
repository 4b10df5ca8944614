// Where changes of tables come from: connecting → live → lost → connecting.
import type { FeatureContext } from '../../http/feature.ts';
import type { Begin, Relation, RowChange } from '../../postgres/replication/pgoutput.ts';

export type SourceChange = {
  /** `lsn` is compared with what `position` returned, and with nothing else. */
  readonly transaction: Begin;
  readonly relation: Relation;
  readonly change: RowChange;
};

/** `triggers`: live too, without the write-ahead log. `impossible`: nothing but an operator changes it. */
export type SourceState = 'connecting' | 'live' | 'triggers' | 'impossible';

export interface ChangeSource {
  readonly state: SourceState;
  /** How long it has not been live, in milliseconds. */
  readonly awayMs: number;
  readonly wasLive: boolean;
  start(): void;
  pause(): void;
  resume(): void;
  /** Gives up what it has not read yet, and begins anew: a gap. */
  drop(why: string): void;
  /** How much of its log the server keeps because this has not read it yet. */
  heldBytes(): Promise<bigint>;
  /** Whatever is committed after the call comes with that position or a later one. */
  position(): Promise<bigint>;
  close(): Promise<void>;
}

export type SourceOptions = {
  readonly context: FeatureContext;
  readonly onChange: (change: SourceChange) => void;
  /** Live again after changes may have been missed. */
  readonly onGap: () => void;
  /** Another source was live before: to be live is a gap. */
  readonly isSecond?: boolean;
};

/** Ends early with the signal. */
export async function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
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
