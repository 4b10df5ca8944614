// Sequences of the file: from the configuration to the model, and as SQL.
import type { Sequence } from '../../config/config.ts';
import { boundsOf } from '../../config/schema/sequence-bounds.ts';
import { nameOf, type SequenceForm, type SequenceModel } from './model.ts';
import { API_ROLES, PUBLIC } from './rights/roles.ts';

/** One of the database that belongs to no column. Where it stands is no part of it. */
export type LiveSequence = {
  readonly schema: string;
  readonly name: string;
  readonly numbers: SequenceForm;
  /** Roles that may take numbers, the owner aside; `public` among them. */
  readonly usage: readonly string[];
  readonly comment: string | null;
};

export function toSequenceModel(sequence: Sequence): SequenceModel {
  const { name, schema, type, cache, cycle, usage, comment, renamedFrom } = sequence;
  const { increment, min, max, start } = boundsOf(sequence);
  return {
    schema,
    name,
    numbers: {
      type,
      increment: String(increment),
      min: String(min),
      max: String(max),
      start: String(start),
      cache: String(cache),
      cycle,
    },
    ...(usage === undefined ? {} : { usage: usage.toSorted() }),
    ...(comment === undefined ? {} : { comment }),
    ...(renamedFrom === undefined ? {} : { renamedFrom }),
    at: `sequences.${name}`,
  };
}

export function createSequenceSql(sequence: SequenceModel): string {
  return `create sequence ${nameOf(sequence)} ${numbersSql(sequence.numbers)}`;
}

/** The whole of it, for CREATE and ALTER; never RESTART. */
export function numbersSql({ type, increment, min, max, start, cache, cycle }: SequenceForm): string {
  const numbers = `increment ${increment} minvalue ${min} maxvalue ${max} start ${start} cache ${cache}`;
  return `as ${type} ${numbers} ${cycle ? 'cycle' : 'no cycle'}`;
}

export function sequencesOf({
  sequences = [],
}: {
  readonly sequences?: readonly SequenceModel[];
}): readonly SequenceModel[] {
  return sequences;
}

export function usersOf({ usage }: Pick<SequenceModel, 'usage'>): readonly string[] {
  return usage ?? API_ROLES;
}

/** What PUBLIC may, the API roles may, for whom alone a file speaks. */
export function liveUsersOf({ usage }: Pick<LiveSequence, 'usage'>): readonly string[] {
  if (!usage.includes(PUBLIC)) return usage;
  return [...new Set([...API_ROLES, ...usage])].filter((role) => role !== PUBLIC);
}
