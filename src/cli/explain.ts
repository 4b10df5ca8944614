// `svc explain`: what a code means and what to do, from the documentation that comes with svc.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { closest } from '../lib/closest-word.ts';
import { ownFile } from '../lib/own-files.ts';
import { EXIT, failure } from './exit.ts';
import type { Terminal } from './terminal.ts';

/** In their order: a code that has a line in two of them is explained by both. */
const PAGES = ['errors.md', 'migrations.md', 'from-supabase.md'];

type Line = { readonly code: string; readonly where: string; readonly cells: readonly string[] };

export function explainCommand(terminal: Terminal): Command {
  return new Command('explain')
    .description('say what an error code means and what to do')
    .argument('<code>', 'as in a message or an answer: PGRST205, MIG-202, otp_expired')
    .option('--json', 'print the lines as JSON')
    .addHelpText('after', '\nExample:\n  svc explain PGRST205')
    .action((code: string, { json }: { json?: boolean }) => {
      const all = PAGES.flatMap(linesOf);
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

/** Rows of tables that begin with a code, with the heading they stand under. */
function linesOf(page: string): Line[] {
  let where = '';
  return readFileSync(ownFile(join('docs', page)), 'utf8')
    .split('\n')
    .flatMap((text): Line[] => {
      where = /^##+ (.+)$/.exec(text)?.[1] ?? where;
      const [, code] = /^\| `?([A-Za-z][\w-]*|\d{5})`? \|/.exec(text) ?? [];
      if (code === undefined || code === 'Code') return [];
      const cells = text.split(/(?<!\\)\|/).slice(2, -1);
      return [{ code, where: plain(where), cells: cells.map(plain) }];
    });
}

/** Without the marks of Markdown. */
function plain(text: string): string {
  return text
    .replaceAll('\\|', '|')
    .replaceAll('`', '')
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .trim();
}

function asObject({ code, where, cells }: Line): Record<string, string> {
  if (cells.length === 1) return { code, where, means: cells[0] ?? '' };
  const [status = '', means = '', repair = ''] = cells;
  return { code, where, ...(status === '' ? {} : { status }), means, repair };
}

function render(line: Line, terminal: Terminal): string {
  const { code, where, status, means, repair } = asObject(line);
  const head = `${terminal.style('bold', code ?? '')}  ${where ?? ''}${status === undefined ? '' : `, ${status}`}`;
  return [head, `  ${means}`, ...(repair === undefined ? [] : [`  → ${repair}`])].join('\n');
}
