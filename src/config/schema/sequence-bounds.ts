// Numbers of a sequence, with the defaults of PostgreSQL.

export type SequenceNumbers = {
  readonly type: 'bigint' | 'integer' | 'smallint';
  readonly start?: string | undefined;
  readonly increment: string;
  readonly min?: string | undefined;
  readonly max?: string | undefined;
};

/** `least` and `greatest`: limits of the type. */
export type SequenceBounds = Record<'least' | 'greatest' | 'increment' | 'min' | 'max' | 'start', bigint>;

const BITS = { bigint: 63n, integer: 31n, smallint: 15n } as const;

export function sequenceBounds(numbers: SequenceNumbers): SequenceBounds {
  const greatest = 2n ** BITS[numbers.type] - 1n;
  const least = -greatest - 1n;
  const increment = BigInt(numbers.increment);
  const isUp = increment >= 0n;
  const min = numbers.min === undefined ? (isUp ? 1n : least) : BigInt(numbers.min);
  const max = numbers.max === undefined ? (isUp ? greatest : -1n) : BigInt(numbers.max);
  const start = numbers.start === undefined ? (isUp ? min : max) : BigInt(numbers.start);
  return { least, greatest, increment, min, max, start };
}
