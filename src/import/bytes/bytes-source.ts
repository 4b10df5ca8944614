// Reads the bytes of the source's files.
import { Problem } from '../../problem/problem.ts';

export type WantedFile = {
  readonly bucket: string;
  readonly name: string;
  /** Version of the file in the source's store. Null in projects older than versions. */
  readonly version: string | null;
};

/** Reason why a file cannot be read. `isFinal`: a retry would not help. */
export type Refusal = { readonly why: string; readonly isFinal: boolean };

export type BytesSource = {
  /** The bytes from `start` on. Throws a Problem where no file can be read at all. */
  open(file: WantedFile, start: number): Promise<AsyncIterable<Uint8Array> | Refusal>;
  close(): void;
};

export const GONE: Refusal = { why: 'the source does not have its bytes', isFinal: true };
/** The source cannot resume a transfer. The file is transferred again from the beginning. */
export const NOT_IN_PARTS: Refusal = { why: 'the transfer broke off', isFinal: false };
export const AWAY: Refusal = { why: 'the source cannot be reached', isFinal: false };

export const answered = (status: number): Refusal => ({
  why: `the source answers ${status}`,
  isFinal: status < 500 && status !== 429,
});

/** Returns the Problem for a failure that would affect every file. */
export const unreadable = (message: string, hint: string): Problem =>
  new Problem('IMP-409', 500, message, { hint });
