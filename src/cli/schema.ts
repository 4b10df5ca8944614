// `svc schema`: the JSON Schema of svc.yaml, for editors.
import { Command } from 'commander';
import { toJsonSchema } from '../config/schema/schema.ts';
import type { Terminal } from './terminal.ts';

export function schemaCommand(terminal: Terminal): Command {
  return new Command('schema')
    .description('print the JSON Schema of svc.yaml, for editors')
    .option('--part', 'of a file that svc.yaml includes')
    .addHelpText('after', '\nExample:\n  svc schema > svc.schema.json')
    .action(({ part }: { part?: boolean }) => {
      // Only the first file has to say which version of the format this is.
      const { required: _required, ...partial } = toJsonSchema();
      terminal.print(JSON.stringify(part ? partial : toJsonSchema(), null, 2));
    });
}
