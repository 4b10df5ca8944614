// `svc schema`: prints the JSON Schema of svc.yaml for editors, or the schema of a command's `--json` output.
import { Command } from 'commander';
import { z } from 'zod';
import { toCommonJsonSchema } from '../../config/schema/common-keys.ts';
import { toJsonSchema } from '../../config/schema/schema.ts';
import { EXIT, failure } from '../exit.ts';
import { commandName, reportShape } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

export function schemaCommand(terminal: Terminal, every: () => Promise<readonly Command[]>): Command {
  return new Command('schema')
    .description('print the JSON Schema of svc.yaml, for editors')
    .option('--part', 'print the schema of an included file')
    .option('--common', 'print a short schema with the common keys only; it accepts the other keys')
    .option('--of <command>', 'print the schema of the --json output of a command, such as "migrate status"')
    .addHelpText('after', '\nExample:\n  svc schema > svc.schema.json')
    .action(async ({ common, part, of }: { common?: boolean; part?: boolean; of?: string }) => {
      if (of !== undefined) return terminal.print(JSON.stringify(outputSchema(of, await every()), null, 2));
      const schema = common ? toCommonJsonSchema() : toJsonSchema();
      // Only the root file has to contain the format version.
      const { required: _required, ...partial } = schema;
      terminal.print(JSON.stringify(part ? partial : schema, null, 2));
    });
}

function outputSchema(name: string, commands: readonly Command[]): object {
  const known = commands.filter((command) => reportShape(command) !== undefined);
  const shape = known.map((command) => (commandName(command) === name ? reportShape(command) : undefined));
  const found = shape.find((candidate) => candidate !== undefined);
  if (found) return z.toJSONSchema(found, { io: 'output' });
  throw failure(
    EXIT.misuse,
    `there is no command ${name} with --json`,
    `Commands with --json: ${known.map(commandName).join(', ')}.`,
  );
}
