// Prints the findings of a command as text, or with `--json` as one object whose shape is declared with the
// command.
import type { Command } from 'commander';
import { z } from 'zod';
import { CommandFailure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import { JSON_PROBLEM } from './json-problem.ts';
import { asJson, type JsonFindings } from './json-report.ts';
import { printProgress } from './progress.ts';

export type Findings<Data> = JsonFindings<Data> & {
  /** Text that explains an exit code other than 0, if it is not printed yet. */
  readonly report?: string;
};

const SHAPES = new WeakMap<Command, z.ZodType>();

/**
 * Adds `--json` and the action to a command. Output of `work` is for people, and is suppressed with
 * `--json`.
 */
export function reporting<Shape extends z.ZodType, Args extends readonly unknown[]>(
  command: Command,
  terminal: Terminal,
  shape: Shape,
  work: (terminal: Terminal, ...args: Args) => Promise<Findings<z.input<Shape>>>,
): Command {
  return describesJson(command, shape)
    .option('--json', 'print the result as one JSON object')
    .action(async (...args: [...Args]) => {
      if (command.optsWithGlobals()['json'] === true) {
        const silent = { ...terminal, print: () => {} };
        return await asJson(commandName(command), terminal, () =>
          printProgress(terminal, () => work(silent, ...args)),
        );
      }
      const { exitCode = 0, report = '' } = await printProgress(terminal, () => work(terminal, ...args));
      if (exitCode !== 0) throw new CommandFailure(exitCode, report);
    });
}

/** Declares the shape of `data` for a command that prints its object itself. */
export function describesJson(command: Command, shape: z.ZodType): Command {
  SHAPES.set(command, shape);
  return command;
}

/** Returns the full name, such as `migrate plan`. */
export function commandName(command: Command): string {
  const names: string[] = [];
  for (let next: Command | null = command; next !== null; next = next.parent) names.unshift(next.name());
  return names.filter((name, at) => at > 0 || name !== 'svc').join(' ');
}

/** Returns the shape of the whole JSON output, or undefined if the command has none. */
export function reportShape(command: Command): z.ZodType | undefined {
  const data = SHAPES.get(command);
  return (
    data &&
    z.strictObject({
      ok: z.boolean(),
      command: z.literal(commandName(command)),
      version: z.string(),
      data: data.nullable().describe('null if the command failed before it had a result'),
      problems: z.array(JSON_PROBLEM),
    })
  );
}
