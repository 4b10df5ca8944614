// The output of commands. Uses colour only on a terminal without NO_COLOR (https://no-color.org).
import { inspect } from 'node:util';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

export type Terminal = {
  readonly color: boolean;
  readonly print: (text: string) => void;
  readonly printError: (text: string) => void;
  readonly style: (style: Style, text: string) => string;
};

export function processTerminal(env: NodeJS.ProcessEnv): Terminal {
  const color = (process.stdout.isTTY || Boolean(env['FORCE_COLOR'])) && !env['NO_COLOR'];
  return {
    color,
    print: (text) => void process.stdout.write(`${text}\n`),
    printError: (text) => void process.stderr.write(`${text}\n`),
    style: (style, text) => {
      const codes = inspect.colors[style];
      return color && codes ? `\u001b[${codes[0]}m${text}\u001b[${codes[1]}m` : text;
    },
  };
}
