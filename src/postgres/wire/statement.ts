// The parts of one batch.
import type { WireValue } from './frames.ts';

/** The body of a DataRow message, from `start` to before `end`; the bytes are only valid during the call. */
export type OnRow = (bytes: Buffer, start: number, end: number) => void;

/** A single Parse/Bind/Execute. A named statement is prepared once per connection and reused. */
export type WireStatement = {
  readonly text: string;
  /** Text-format parameters. */
  readonly values: readonly WireValue[];
  readonly name?: string | undefined;
  /** Ask for column names too; not needed where the caller knows the shape of the row. */
  readonly describe?: boolean | undefined;
  /** Receives each DataRow on arrival instead of collecting them. */
  readonly onRow?: OnRow | undefined;
  /** Marks the statement that sets the settings of its batch. */
  readonly isSettings?: boolean | undefined;
  /** Translates the server's error when this statement fails. */
  readonly asError?: ((error: Error) => Error) | undefined;
  /** Maximum bytes of a row. A larger row is skipped, and the batch fails with `RowTooLarge`. */
  readonly maxRowBytes?: number | undefined;
  /**
   * Called before memory is allocated for a large row. If it returns false, the row is skipped and the batch fails
   * with `RowRefused`.
   */
  readonly admitRow?: ((bytes: number) => boolean) | undefined;
  /** An explicit COMMIT, which takes effect before its own CommandComplete. */
  readonly commits?: boolean | undefined;
};
