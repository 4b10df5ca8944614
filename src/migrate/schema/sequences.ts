// Converts declared sequences to the model and to SQL.
import type { Sequence } from '../../config/config.ts';
import { sequenceBounds } from '../../config/schema/sequence-bounds.ts';
import { quoteName, type SequenceForm, type SequenceModel } from './model.ts';
import { API_ROLES, PUBLIC } from './rights/roles.ts';

/** Sequence of the database that belongs to no column. Its current value is not compared. */
export type LiveSequence = {
  readonly schema: string;
  readonly name: string;
  readonly numbers: SequenceForm;
  /** Roles with USAGE, without the owner. May contain `public`. */
  readonly usage: readonly string[];
  readonly comment: string | null;
};

export function toSequenceModel(sequence: Sequence): SequenceModel {
  const { name, schema, type, cache, cycle, usage, comment, renamedFrom } = sequence;
  const { increment, min, max, start } = sequenceBounds(sequence);
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
  return `create sequence ${quoteName(sequence)} ${numbersSql(sequence.numbers)}`;
}

/** Returns all options for CREATE and ALTER. RESTART is never included. */
export function numbersSql({ type, increment, min, max, start, cache, cycle }: SequenceForm): string {
  const numbers = `increment ${increment} minvalue ${min} maxvalue ${max} start ${start} cache ${cache}`;
  return `as ${type} ${numbers} ${cycle ? 'cycle' : 'no cycle'}`;
}

export function declaredSequences({
  sequences = [],
}: {
  readonly sequences?: readonly SequenceModel[];
}): readonly SequenceModel[] {
  return sequences;
}

export function usageRoles({ usage }: Pick<SequenceModel, 'usage'>): readonly string[] {
  return usage ?? API_ROLES;
}

/** Returns the roles with USAGE. PUBLIC is expanded to the API roles. */
export function liveUsageRoles({ usage }: Pick<LiveSequence, 'usage'>): readonly string[] {
  if (!usage.includes(PUBLIC)) return usage;
  return [...new Set([...API_ROLES, ...usage])].filter((role) => role !== PUBLIC);
}
