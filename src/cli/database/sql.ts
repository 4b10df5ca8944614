// `svc sql`: runs a statement as the owner, or as any caller with that caller's policies.
import { text as readAll } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { readTextFile } from '../../lib/text/text-file.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { runStatement } from '../../postgres/one-statement.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadServed } from '../project/served-project.ts';
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

const MAX_ROWS = 10_000;

const ANSWERED = z.strictObject({
  command: z.string(),
  affected: z.int().nullable(),
  more: z.boolean(),
  rows: z.array(z.record(z.string(), z.unknown())),
});

export function sqlCommand(terminal: Terminal): Command {
  const command = new Command('sql')
    .description('run a statement as the owner or as any caller; read-only without --write')
    .argument('[statement]', 'the statement; - reads it from standard input')
    .option('-c, --config <file>', 'the configuration file')
    .option(
      '-f, --file <file>',
      'read the statement from a file; with --write the file may have several, which run in one transaction',
    )
    .option('--as <caller>', 'owner, anon, service_role, or a user by address or id', 'owner')
    .option('--write', 'allow the statement to change data')
    .option('-y, --yes', 'do not ask before changing a database other than that of svc dev')
    .option('--explain', 'print the plan instead of the rows')
    .addOption(new Option('--format <format>', 'output format').choices(FORMATS).default('table'))
    .option('--limit <rows>', 'maximum number of rows', parseCount, 200)
    .option('--timeout <seconds>', 'statement timeout', parseCount, 30)
    .addHelpText(
      'after',
      "\nExamples:\n  svc sql 'select count(*) from notes'\n" +
        "  svc sql --as ada@example.com 'select * from notes'\n  svc sql --write -f mend.sql",
    );
  return reporting(command, terminal, ANSWERED, (out, argument: string | undefined, options: Options) =>
    sql(argument, options, out),
  );
}

function parseCount(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count > 0 && count <= MAX_ROWS) return count;
  throw new InvalidArgumentError(`expected a number from 1 to ${MAX_ROWS}.`);
}

async function sql(
  argument: string | undefined,
  options: Options,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof ANSWERED>>> {
  const statement = await readStatement(argument, options);
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

async function readStatement(argument: string | undefined, { file }: Options): Promise<string> {
  if ((argument === undefined) === (file === undefined))
    throw failure(EXIT.misuse, 'pass one statement, or a file with -f', "For example: svc sql 'select 1'");
  const read = argument ?? readStatementFile(file ?? '');
  const statement = read === '-' ? await readAll(process.stdin) : read;
  if (statement.trim() === '') throw failure(EXIT.misuse, 'the statement is empty');
  return statement;
}

function readStatementFile(file: string): string {
  if (file === '-') return file;
  try {
    return readTextFile(file);
  } catch (error) {
    throw failure(
      EXIT.misuse,
      `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Builds the message for an error of the server: the text, the place, and a hint. */
function explainRefusal(error: unknown, statement: string, { write, explain, as }: Options): unknown {
  if (!isDatabaseError(error)) return error;
  const { code, message, detail, hint, position } = error;
  const at =
    position === undefined ? [] : pointAt(statement, Number(position) - (explain ? 'explain '.length : 0));
  const help = isDatabaseError(error, 'read_only_sql_transaction')
    ? 'Statements are read-only. Use --write to allow changes.'
    : isDatabaseError(error, 'query_canceled')
      ? 'The statement timed out. Use --timeout to allow more seconds.'
      : /multiple commands/.test(message)
        ? `Pass one statement${write ? '' : ', or use --write to run several'}.`
        : isDatabaseError(error, 'insufficient_privilege') && as !== 'owner'
          ? `${as} gets the same error. Check the grants and policies in svc.yaml.`
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

/**
 * Returns the line of the statement, and a marker under the position. `position` counts characters from 1.
 */
function pointAt(statement: string, position: number): string[] {
  const before = Array.from(statement)
    .slice(0, Math.max(0, position - 1))
    .join('');
  const start = before.lastIndexOf('\n') + 1;
  const line = statement.slice(start).split('\n', 1)[0] ?? '';
  return [line, `${' '.repeat(before.length - start)}^`];
}
