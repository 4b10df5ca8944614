// Converts sequences without a column to the key `sequences`.
import { sequenceBounds, type SequenceNumbers } from '../../../config/schema/sequence-bounds.ts';
import type { Live } from '../../schema/live/live-schema.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import { type LiveSequence, liveUsageRoles } from '../../schema/sequences.ts';

type Node = Record<string, unknown>;

/**
 * Converts the sequences. `taken` contains the names of tables and views in the file. `omitted` lists omitted
 * sequences.
 */
export function pulledSequences(
  sequences: Live['sequences'],
  taken: ReadonlySet<string>,
): { sequences: Record<string, Node>; omitted: string[] } {
  const declared: Record<string, Node> = {};
  const omitted: string[] = [];
  for (const [key, sequence] of sequences) {
    if (Object.hasOwn(declared, sequence.name) || taken.has(sequence.name))
      omitted.push(`sequence ${key}: an object of another schema has this name`);
    else declared[sequence.name] = toNode(sequence);
  }
  return { sequences: declared, omitted };
}

/** Returns only keys that differ from their defaults. */
function toNode(sequence: LiveSequence): Node {
  const { schema, numbers, comment } = sequence;
  const { type, increment, cache, cycle } = numbers;
  const usual = sequenceBounds({ type: type as SequenceNumbers['type'], increment });
  const given = usual.increment < 0n ? numbers.max : numbers.min;
  return {
    ...(schema === 'public' ? {} : { schema }),
    ...(type === 'bigint' ? {} : { type }),
    ...(numbers.start === given ? {} : { start: numeral(numbers.start) }),
    ...(increment === '1' ? {} : { increment: numeral(increment) }),
    ...(numbers.min === String(usual.min) ? {} : { min: numeral(numbers.min) }),
    ...(numbers.max === String(usual.max) ? {} : { max: numeral(numbers.max) }),
    ...(cache === '1' ? {} : { cache: Number(cache) }),
    ...(cycle ? { cycle } : {}),
    ...usageKey(sequence),
    ...(comment === null ? {} : { comment }),
  };
}

/** Returns a number if JavaScript can represent it exactly. */
function numeral(digits: string): number | string {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : digits;
}

function usageKey(sequence: LiveSequence): Node {
  const roles = liveUsageRoles(sequence).toSorted();
  const isUsual = roles.length === API_ROLES.length && API_ROLES.every((role) => roles.includes(role));
  return isUsual ? {} : { usage: roles };
}
