// Sequences: names that nothing else has, and numbers that PostgreSQL would take.
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
  const other = tables[name]?.schema === schema ? 'table' : views[name]?.schema === schema ? 'view' : null;
  if (other === null) return;
  context.report({
    code: 'duplicate',
    path,
    message: `${name} is a ${other} of this file already`,
    hint: 'Give the sequence another name.',
    part: 'key',
  });
}

function checkNumbers(context: CheckContext, path: KeyPath, sequence: RawSequence): void {
  const { least, greatest, min, max, start, increment } = sequenceBounds(sequence);
  const range = `${sequence.type} goes from ${least} to ${greatest}`;
  for (const [key, value] of Object.entries({ increment, min, max, start }))
    if (value < least || value > greatest)
      return context.badValue([...path, key], `${range}, and ${key} is ${value}`, 'Choose another number.');
  if (increment === 0n)
    return context.badValue(
      [...path, 'increment'],
      'with 0 it would never get on',
      'Write 1, or another step.',
    );
  const at = (...keys: string[]): KeyPath => {
    const written = keys.find((key) => context.isWritten([...path, key]));
    return written === undefined ? path : [...path, written];
  };
  if (min >= max)
    context.conflict(
      at('min', 'max'),
      `min is ${min}, which is not below max, ${max}`,
      'Correct one of the two.',
    );
  else if (start < min || start > max)
    context.conflict(
      at('start', 'min', 'max'),
      `start is ${start}, which is not between ${min} and ${max}`,
      'Correct it.',
    );
}
