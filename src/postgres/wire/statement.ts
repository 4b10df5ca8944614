// What one batch of the wire consists of.
import type { WireValue } from './frames.ts';

/** The body of a DataRow message, from `start` to before `end`; the bytes are only valid during the call. */
export type OnRow = (bytes: Buffer, start: number, end: number) => void;

/** One Parse/Bind/Execute. With a name it is prepared once per connection and reused. */
export type WireStatement = {
  readonly text: string;
  /** Text-format parameters. */
  readonly values: readonly WireValue[];
  readonly name?: string | undefined;
  /** Ask for column names too; not needed where the caller knows the shape of the row. */
  readonly describe?: boolean | undefined;
  /** Takes each DataRow as it arrives instead of collecting them. */
  readonly onRow?: OnRow | undefined;
  /** Makes the settings of its batch: one place for all of them. */
  readonly isSettings?: boolean | undefined;
  /** What an error of the server means when this statement fails with it. */
  readonly asError?: ((error: Error) => Error) | undefined;
  /** A row with more bytes is skipped, and the batch fails with `RowTooLarge`. */
  readonly maxRowBytes?: number | undefined;
  /** Asked before memory is taken for a large row. When false the row is skipped, and the batch fails with `RowRefused`. */
  readonly admitRow?: ((bytes: number) => boolean) | undefined;
  /** An explicit COMMIT, which takes effect before its own CommandComplete. */
  readonly commits?: boolean | undefined;
};
