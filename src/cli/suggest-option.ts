// Suggests the option of a command for an option that other programs have under another name.
import type { Command } from 'commander';

/** Groups of names for the same thing. A command has at most one option of each group. */
const ALIKE: readonly (readonly string[])[] = [
  ['--to', '--out', '--output', '--target', '--destination', '--dest', '--dir', '--directory'],
  ['--from', '--source', '--input', '--in'],
  ['--config', '--file'],
  ['--allow', '--accept'],
];

const UNKNOWN = /^error: unknown option '(--[\w-]+)'\n$/;

/** Adds the suggestion if commander finds no similar spelling. */
export function suggestOptions(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => {
      const near = alike(UNKNOWN.exec(text)?.[1], command);
      write(near === undefined ? text : `${text}(Did you mean ${near}?)\n`);
    },
  });
}

function alike(unknown: string | undefined, command: Command): string | undefined {
  const group = ALIKE.find((names) => names.some((name) => name === unknown));
  return command.options.flatMap(({ long }) => long ?? []).find((long) => group?.includes(long));
}
