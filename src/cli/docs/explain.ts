// `svc explain`: explains a code with the documentation that is part of the package.
import { Command } from 'commander';
import { z } from 'zod';
import { closest } from '../../lib/text/closest-word.ts';
import { asObject, explainedCodes, type Line, codePage } from './documentation.ts';
import { EXIT, failure } from '../exit.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const EXPLAINED = z.strictObject({
  codes: z.array(
    z.strictObject({
      code: z.string(),
      page: z.string().describe('page on the documentation site'),
      where: z.string(),
      status: z.string().optional(),
      means: z.string(),
      repair: z.string().optional(),
    }),
  ),
});

export function explainCommand(terminal: Terminal): Command {
  const command = new Command('explain')
    .description('explain an error code and what to do')
    .argument('<code>', 'code from a message or a response, such as PGRST205, MIG-202, otp_expired')
    .addHelpText('after', '\nExample:\n  svc explain PGRST205');
  return reporting(command, terminal, EXPLAINED, async (out, code: string) => {
    const all = explainedCodes();
    const found = all.filter((line) => line.code.toLowerCase() === code.toLowerCase());
    if (found.length === 0) {
      const near = closest(code, [...new Set(all.map((line) => line.code))]);
      throw failure(
        EXIT.problem,
        `there is no code ${code}`,
        near === undefined ? 'docs/errors.md lists all of them.' : `Did you mean ${near}?`,
      );
    }
    out.print([...found.map((line) => render(line, out)), `On the site: ${codePage(code)}`].join('\n\n'));
    return { data: { codes: found.map(asObject) } };
  });
}

function render(line: Line, terminal: Terminal): string {
  const { code, where, status, means, repair } = asObject(line);
  const head = `${terminal.style('bold', code ?? '')}  ${where ?? ''}${status === undefined ? '' : `, ${status}`}`;
  return [head, `  ${means}`, ...(repair === undefined ? [] : [`  → ${repair}`])].join('\n');
}
