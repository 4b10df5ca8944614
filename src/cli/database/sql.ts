// `svc sql`: a statement as its owner, or as any caller, with the policies that bind that one.
import { readFileSync } from 'node:fs';
import { text as readAll } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { runStatement } from '../../postgres/one-statement.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadServed } from '../served-project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { callerNamed } from './caller.ts';
import { confirm } from './confirm.ts';
import { asObject, type Format, FORMATS, renderAnswer } from './statement-output.ts';

type Options = {
  config?: string;
  file?: string;
  as: string;
  write?: boolean;
  yes?: boolean;
  explain?: boolean;
  format: Format;
  limit: number;
  timeout: number;
};

const MOST_ROWS = 10_000;

const ANSWERED = z.strictObject({
  command: z.string(),
  affected: z.int().nullable(),
  more: z.boolean(),
  rows: z.array(z.record(z.string(), z.unknown())),
});

export function sqlCommand(terminal: Terminal): Command {
  const command = new Command('sql')
    .description('run a statement as the owner or as any caller; read-only unless --write')
    .argument('[statement]', 'the statement; - reads it from the standard input')
    .option('-c, --config <file>', 'the configuration file')
    .option(
      '-f, --file <file>',
      'read it from a file; with --write it may have several statements, which are one transaction',
    )
    .option('--as <caller>', 'owner, anon, service_role, or a user by address or id', 'owner')
    .option('--write', 'let it change things')
    .option('-y, --yes', 'do not ask before a change of a database that is not that of svc dev')
    .option('--explain', 'the plan instead of the rows')
    .addOption(new Option('--format <format>', 'how to print the rows').choices(FORMATS).default('table'))
    .option('--limit <rows>', 'print at most so many rows', parseCount, 200)
    .option('--timeout <seconds>', 'give up after so long', parseCount, 30)
    .addHelpText(
      'after',
      "\nExamples:\n  svc sql 'select count(*) from notes'\n  svc sql --as ada@example.com 'select * from notes'\n  svc sql --write -f mend.sql",
    );
  return reporting(command, terminal, ANSWERED, (out, said: string | undefined, options: Options) =>
    sql(said, options, out),
  );
}

function parseCount(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count > 0 && count <= MOST_ROWS) return count;
  throw new InvalidArgumentError(`expected a number from 1 to ${MOST_ROWS}.`);
}

async function sql(
  said: string | undefined,
  options: Options,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof ANSWERED>>> {
  const statement = await statementOf(said, options);
  const { env, directory } = await loadServed(options, terminal);
  const write = options.write === true;
  const addresses = databaseAddresses(env);
  if (write && addresses) await confirm(`This may change ${addresses.direct.describe()}.`, options.yes);
  const answered = await withOwner(
    env,
    directory,
    { applicationName: 'svc-sql', max: 1 },
    async (owner, _admin, roles) => {
      const caller = options.as === 'owner' ? undefined : await callerNamed(options.as, owner);
      try {
        return await runStatement(options.explain ? `explain ${statement}` : statement, {
          address: caller ? roles.authenticator.direct : roles.owner.direct,
          applicationName: 'svc-sql',
          caller,
          write,
          timeoutMs: options.timeout * 1000,
          limit: options.limit,
        });
      } catch (error) {
        throw explainRefusal(error, statement, options);
      }
    },
  );
  terminal.print(renderAnswer(answered, options.format));
  return { data: asObject(answered) };
}

async function statementOf(said: string | undefined, { file }: Options): Promise<string> {
  if ((said === undefined) === (file === undefined))
    throw failure(EXIT.misuse, 'say one statement, or name a file with -f', "svc sql 'select 1'");
  const read = said ?? readSaid(file ?? '');
  const statement = read === '-' ? await readAll(process.stdin) : read;
  if (statement.trim() === '') throw failure(EXIT.misuse, 'the statement is empty');
  return statement;
}

function readSaid(file: string): string {
  if (file === '-') return file;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw failure(
      EXIT.misuse,
      `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** What the server says, where, and what would help. */
function explainRefusal(error: unknown, statement: string, { write, explain, as }: Options): unknown {
  if (!isDatabaseError(error)) return error;
  const { code, message, detail, hint, position } = error;
  const at =
    position === undefined ? [] : pointAt(statement, Number(position) - (explain ? 'explain '.length : 0));
  const help = isDatabaseError(error, 'read_only_sql_transaction')
    ? 'Statements are read-only; --write lets this one change things.'
    : isDatabaseError(error, 'query_canceled')
      ? 'It took too long: --timeout gives it more seconds.'
      : /multiple commands/.test(message)
        ? `One statement at a time${write ? '' : '; several are run with --write'}.`
        : isDatabaseError(error, 'insufficient_privilege') && as !== 'owner'
          ? `That is what ${as} is told, too: grants and policies are in svc.yaml.`
          : hint;
  return new CommandFailure(
    EXIT.problem,
    [
      `error: ${message} (${code})`,
      ...at.map((line) => `  ${line}`),
      ...(detail === undefined ? [] : [`  ${detail}`]),
      ...(help === undefined ? [] : [`  → ${help}`]),
    ].join('\n'),
    undefined,
    [{ code: code ?? 'command_failed', severity: 'error', message, hint: help ?? null }],
  );
}

/** The line of the statement, and a mark under the place; `position` counts characters from 1. */
function pointAt(statement: string, position: number): string[] {
  const before = Array.from(statement)
    .slice(0, Math.max(0, position - 1))
    .join('');
  const start = before.lastIndexOf('\n') + 1;
  const line = statement.slice(start).split('\n', 1)[0] ?? '';
  return [line, `${' '.repeat(before.length - start)}^`];
}
