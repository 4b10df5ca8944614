// What a command found is told as text, or with `--json` as one object whose shape is declared beside the command.
import type { Command } from 'commander';
import { z } from 'zod';
import { CommandFailure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';
import { JSON_PROBLEM } from './json-problem.ts';
import { asJson, type JsonFindings } from './json-report.ts';

export type Findings<Data> = JsonFindings<Data> & {
  /** What explains an exit code other than 0 to people, where it is not said yet. */
  readonly report?: string;
};

const SHAPES = new WeakMap<Command, z.ZodType>();

/** Gives the command `--json` and its action. What `work` prints is for people, and is not printed with `--json`. */
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
        return await asJson(nameOf(command), terminal, () => work(silent, ...args));
      }
      const { exitCode = 0, report = '' } = await work(terminal, ...args);
      if (exitCode !== 0) throw new CommandFailure(exitCode, report);
    });
}

/** For a command that prints its object itself. `shape` is that of `data`. */
export function describesJson(command: Command, shape: z.ZodType): Command {
  SHAPES.set(command, shape);
  return command;
}

/** `migrate plan`. */
export function nameOf(command: Command): string {
  const names: string[] = [];
  for (let one: Command | null = command; one !== null; one = one.parent) names.unshift(one.name());
  return names.filter((name, at) => at > 0 || name !== 'svc').join(' ');
}

/** Of all that it prints with `--json`; undefined for a command that has none. */
export function reportShape(command: Command): z.ZodType | undefined {
  const data = SHAPES.get(command);
  return (
    data &&
    z.strictObject({
      ok: z.boolean(),
      command: z.literal(nameOf(command)),
      version: z.string(),
      data: data.nullable().describe('null where the command failed before it knew anything'),
      problems: z.array(JSON_PROBLEM),
    })
  );
}
