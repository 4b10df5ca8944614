// Where the bytes of the source's files are read.
import { Problem } from '../../problem/problem.ts';

export type WantedFile = {
  readonly bucket: string;
  readonly name: string;
  /** Of the file, as the source's own store keeps it; null in projects that are older than versions. */
  readonly version: string | null;
};

/** One file is not to be had. `isFinal`: asking again would not help. */
export type Refusal = { readonly why: string; readonly isFinal: boolean };

export type BytesSource = {
  /** The bytes from `start` on. Throws a Problem where no file can be read at all. */
  open(file: WantedFile, start: number): Promise<AsyncIterable<Uint8Array> | Refusal>;
  close(): void;
};

export const GONE: Refusal = { why: 'the source does not have its bytes', isFinal: true };
/** A transfer cannot go on in the middle: it is begun anew. */
export const NOT_IN_PARTS: Refusal = { why: 'the transfer broke off', isFinal: false };
export const AWAY: Refusal = { why: 'the source cannot be reached', isFinal: false };

export const answered = (status: number): Refusal => ({
  why: `the source answers ${status}`,
  isFinal: status < 500 && status !== 429,
});

/** It would be the same with every file. */
export const unreadable = (message: string, hint: string): Problem =>
  new Problem('IMP-409', 500, message, { hint });
