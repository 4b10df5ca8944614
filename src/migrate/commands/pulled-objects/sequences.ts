// Sequences of no column as the key `sequences`.
import { boundsOf, type SequenceNumbers } from '../../../config/schema/sequence-bounds.ts';
import type { Live } from '../../schema/live/live-schema.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import { type LiveSequence, liveUsersOf } from '../../schema/sequences.ts';

type Node = Record<string, unknown>;

/** `taken`: names of the file's tables and views. `left`: what the file cannot say. */
export function pulledSequences(
  sequences: Live['sequences'],
  taken: ReadonlySet<string>,
): { sequences: Record<string, Node>; left: string[] } {
  const said: Record<string, Node> = {};
  const left: string[] = [];
  for (const [key, sequence] of sequences) {
    if (Object.hasOwn(said, sequence.name) || taken.has(sequence.name))
      left.push(`sequence ${key}: something of another schema has its name`);
    else said[sequence.name] = toNode(sequence);
  }
  return { sequences: said, left };
}

/** Only what is not usual. */
function toNode(sequence: LiveSequence): Node {
  const { schema, numbers, comment } = sequence;
  const { type, increment, cache, cycle } = numbers;
  const usual = boundsOf({ type: type as SequenceNumbers['type'], increment });
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

/** A number where JavaScript has it exactly. */
function numeral(digits: string): number | string {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : digits;
}

function usageKey(sequence: LiveSequence): Node {
  const roles = liveUsersOf(sequence).toSorted();
  const isUsual = roles.length === API_ROLES.length && API_ROLES.every((role) => roles.includes(role));
  return isUsual ? {} : { usage: roles };
}
