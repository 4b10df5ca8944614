// Sequences: unique names, and numbers within the limits of PostgreSQL.
import type { KeyPath } from '../mistakes/mistake.ts';
import { sequenceBounds } from '../schema/sequence-bounds.ts';
import type { RawSequence } from '../schema/sequences.ts';
import type { CheckContext } from './context.ts';
import { checkObjectName, checkRenames, checkRoles, checkSchema } from './name.ts';

export function checkSequences(context: CheckContext): void {
  const entries = Object.entries(context.file.sequences);
  for (const [name, sequence] of entries) {
    const path = ['sequences', name];
    checkObjectName(context, path, name);
    checkSchema(context, [...path, 'schema'], sequence.schema);
    checkFree(context, path, name, sequence);
    checkRoles(context, [...path, 'usage'], sequence.usage ?? []);
    if (!context.broken.touches(path)) checkNumbers(context, path, sequence);
  }
  checkRenames(
    context,
    entries.map(([name, { renamedFrom }]) => ({ path: ['sequences', name], name, from: renamedFrom })),
  );
}

function checkFree(context: CheckContext, path: KeyPath, name: string, { schema }: RawSequence): void {
  const { tables, views } = context.file;
  const kind = tables[name]?.schema === schema ? 'table' : views[name]?.schema === schema ? 'view' : null;
  if (kind === null) return;
  context.report({
    code: 'duplicate',
    path,
    message: `${name} is already a ${kind} of this file`,
    hint: 'Give the sequence another name.',
    part: 'key',
  });
}

function checkNumbers(context: CheckContext, path: KeyPath, sequence: RawSequence): void {
  const { least, greatest, min, max, start, increment } = sequenceBounds(sequence);
  const range = `${sequence.type} ranges from ${least} to ${greatest}`;
  for (const [key, value] of Object.entries({ increment, min, max, start }))
    if (value < least || value > greatest)
      return context.badValue([...path, key], `${range}, and ${key} is ${value}`, 'Choose another number.');
  if (increment === 0n)
    return context.badValue(
      [...path, 'increment'],
      'an increment of 0 would always return the same value',
      'Write 1, or another increment.',
    );
  const at = (...keys: string[]): KeyPath => {
    const written = keys.find((key) => context.isWritten([...path, key]));
    return written === undefined ? path : [...path, written];
  };
  if (min >= max)
    context.conflict(
      at('min', 'max'),
      `min (${min}) must be less than max (${max})`,
      'Correct one of the two.',
    );
  else if (start < min || start > max)
    context.conflict(
      at('start', 'min', 'max'),
      `start (${start}) must be between ${min} and ${max}`,
      'Correct start, min or max.',
    );
}
