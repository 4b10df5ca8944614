// The numbers of a sequence with what PostgreSQL takes where nothing is said.

export type SequenceNumbers = {
  readonly type: 'bigint' | 'integer' | 'smallint';
  readonly start?: string | undefined;
  readonly increment: string;
  readonly min?: string | undefined;
  readonly max?: string | undefined;
};

/** `least` and `greatest`: of the type. */
export type SequenceBounds = Record<'least' | 'greatest' | 'increment' | 'min' | 'max' | 'start', bigint>;

const BITS = { bigint: 63n, integer: 31n, smallint: 15n } as const;

export function sequenceBounds(said: SequenceNumbers): SequenceBounds {
  const greatest = 2n ** BITS[said.type] - 1n;
  const least = -greatest - 1n;
  const increment = BigInt(said.increment);
  const isUp = increment >= 0n;
  const min = said.min === undefined ? (isUp ? 1n : least) : BigInt(said.min);
  const max = said.max === undefined ? (isUp ? greatest : -1n) : BigInt(said.max);
  const start = said.start === undefined ? (isUp ? min : max) : BigInt(said.start);
  return { least, greatest, increment, min, max, start };
}
