// `svc explain`: what a code means and what to do, from the documentation that comes with svc.
import { Command } from 'commander';
import { closest } from '../../lib/closest-word.ts';
import { asObject, explainedCodes, type Line } from './documentation.ts';
import { EXIT, failure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

export function explainCommand(terminal: Terminal): Command {
  return new Command('explain')
    .description('say what an error code means and what to do')
    .argument('<code>', 'as in a message or an answer: PGRST205, MIG-202, otp_expired')
    .option('--json', 'print the lines as JSON')
    .addHelpText('after', '\nExample:\n  svc explain PGRST205')
    .action((code: string, { json }: { json?: boolean }) => {
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
      if (json) terminal.print(JSON.stringify(found.map(asObject), null, 2));
      else terminal.print(found.map((line) => render(line, terminal)).join('\n\n'));
    });
}

function render(line: Line, terminal: Terminal): string {
  const { code, where, status, means, repair } = asObject(line);
  const head = `${terminal.style('bold', code ?? '')}  ${where ?? ''}${status === undefined ? '' : `, ${status}`}`;
  return [head, `  ${means}`, ...(repair === undefined ? [] : [`  → ${repair}`])].join('\n');
}
