// `svc schema`: the JSON Schema of svc.yaml, for editors.
import { Command } from 'commander';
import { toJsonSchema } from '../config/schema/schema.ts';
import type { Terminal } from './terminal.ts';

export function schemaCommand(terminal: Terminal): Command {
  return new Command('schema')
    .description('print the JSON Schema of svc.yaml, for editors')
    .addHelpText('after', '\nExample:\n  svc schema > svc.schema.json')
    .action(() => terminal.print(JSON.stringify(toJsonSchema(), null, 2)));
}
