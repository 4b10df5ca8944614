// Data steps: unique names, and one SQL text per step.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { RawDataStep } from '../schema/data-steps.ts';
import type { CheckContext } from './context.ts';
import { checkReferencedFile } from './referenced-file.ts';

export function checkDataSteps(context: CheckContext): void {
  const names = new Set<string>();
  context.file.migrations.steps.forEach((step, index) => {
    const path: KeyPath = ['migrations', 'steps', index];
    const { name } = step;
    if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name))
      context.badValue(
        [...path, 'name'],
        `${context.quote([...path, 'name'], name)} is not a valid step name`,
        'Use lower-case letters, digits and hyphens: split-names.',
      );
    if (names.has(name)) context.reportTwice([...path, 'name'], `the step ${name} is declared twice`);
    names.add(name);
    checkText(context, path, step);
    if (typeof step.undo === 'object') checkFile(context, [...path, 'undo', 'file'], step.undo.file);
  });
}

function checkText(context: CheckContext, path: KeyPath, { run, sql }: RawDataStep): void {
  if (run === undefined && sql === undefined)
    context.report({
      code: 'missing-key',
      path,
      message: '"run" is missing',
      hint: 'Name a file with the statements, run: steps/split-names.sql, or write the statements under sql.',
      part: 'key',
    });
  else if (run !== undefined && sql !== undefined)
    context.conflict([...path, 'sql'], 'a step has either run or sql', 'Remove one of the two.', 'key');
  else if (run !== undefined) checkFile(context, [...path, 'run'], run);
}

function checkFile(context: CheckContext, path: KeyPath, run: string): void {
  if (!run.endsWith('.sql'))
    context.badValue(
      path,
      `${context.quote(path, run)} is not an SQL file`,
      'Steps are .sql files; code (.ts, .js) cannot be a step yet.',
    );
  else if (context.options.directory === undefined)
    context.report({
      code: 'missing-file',
      path,
      message: 'a remote configuration cannot refer to files',
      hint: 'Write the statements inline: sql: ….',
    });
  else checkReferencedFile(context, path, run);
}
