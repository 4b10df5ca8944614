// `svc import supabase functions`: converts edge functions to code functions.
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { convertFunctions } from '../../import/edge/convert.ts';
import { EXIT, failure } from '../exit.ts';
import { reporting } from '../report/reporting.ts';
import { describeFunctions } from './describe.ts';
import { CONVERTED } from './results.ts';
import type { ImportContext } from './source.ts';

export function functionsCommand({ terminal }: ImportContext): Command {
  return reporting(
    new Command('functions')
      .description('convert edge functions to code functions under functions/, and declare them in svc.yaml')
      .argument('<directory>', 'folder supabase/functions of the project')
      .option('-c, --config <file>', 'the configuration file', 'svc.yaml'),
    terminal,
    CONVERTED,
    async (out, directory: string, { config }: { config: string }) => {
      if (!existsSync(config))
        throw failure(
          EXIT.misuse,
          `there is no file ${config}`,
          'Pass it with --config, or create one with svc init.',
        );
      const converted = convertFunctions({ from: directory, file: config });
      out.print(describeFunctions(converted));
      if (converted.byHand.length === 0) return { data: converted };
      const lines = converted.byHand.flatMap(({ name, reasons }) => [
        `${name}:`,
        ...reasons.map((reason) => `  ${reason}`),
      ]);
      const report = ['Rewrite by hand:', ...lines].join('\n');
      return { data: converted, exitCode: EXIT.problem, report };
    },
  );
}
