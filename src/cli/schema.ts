// `svc schema`: the JSON Schema of svc.yaml, for editors, or of what a command prints with `--json`.
import { Command } from 'commander';
import { z } from 'zod';
import { toJsonSchema } from '../config/schema/schema.ts';
import { EXIT, failure } from './exit.ts';
import { nameOf, reportShape } from './report/reporting.ts';
import type { Terminal } from './terminal.ts';

export function schemaCommand(terminal: Terminal, every: () => Promise<readonly Command[]>): Command {
  return new Command('schema')
    .description('print the JSON Schema of svc.yaml, for editors')
    .option('--part', 'of a file that svc.yaml includes')
    .option('--of <command>', 'of what a command prints with --json: "migrate status"')
    .addHelpText('after', '\nExample:\n  svc schema > svc.schema.json')
    .action(async ({ part, of }: { part?: boolean; of?: string }) => {
      if (of !== undefined) return terminal.print(JSON.stringify(schemaOf(of, await every()), null, 2));
      // Only the first file has to say which version of the format this is.
      const { required: _required, ...partial } = toJsonSchema();
      terminal.print(JSON.stringify(part ? partial : toJsonSchema(), null, 2));
    });
}

function schemaOf(name: string, commands: readonly Command[]): object {
  const known = commands.filter((command) => reportShape(command) !== undefined);
  const shape = known.map((command) => (nameOf(command) === name ? reportShape(command) : undefined));
  const found = shape.find((one) => one !== undefined);
  if (found) return z.toJSONSchema(found, { io: 'output' });
  throw failure(
    EXIT.misuse,
    `no command ${name} prints an object with --json`,
    `There are: ${known.map(nameOf).join(', ')}.`,
  );
}
