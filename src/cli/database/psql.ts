// `svc psql`: PostgreSQL's own shell on the database of the project, as its owner or as any caller.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { foldersOf, libpqVariables } from '../../postgres/pg-tools.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';
import { callerNamed } from './caller.ts';

type Options = { config?: string; as: string };

export function psqlCommand(terminal: Terminal): Command {
  return new Command('psql')
    .description("open PostgreSQL's psql on the database, as the owner or as any caller")
    .argument('[arguments...]', 'for psql, after --')
    .option('-c, --config <file>', 'the configuration file')
    .option('--as <caller>', 'owner, anon, service_role, or a user by address or id', 'owner')
    .addHelpText(
      'after',
      "\nExamples:\n  svc psql\n  svc psql --as ada@example.com\n  svc psql -- -c 'select count(*) from notes'\n\nWhoever types there can become the owner again: --as shows what a caller sees, and is no wall. svc sql needs no psql.",
    )
    .action(async (args: readonly string[], options: Options) => {
      process.exitCode = await psql(args, options, terminal);
    });
}

async function psql(args: readonly string[], options: Options, terminal: Terminal): Promise<number> {
  const { env, directory } = await loadServed(options, terminal);
  const program = findPsql(env);
  return await withOwner(
    env,
    directory,
    { applicationName: 'svc-psql', max: 1 },
    async (owner, _admin, roles) => {
      const caller = options.as === 'owner' ? undefined : await callerNamed(options.as, owner);
      const address = caller ? roles.authenticator.direct : roles.owner.direct;
      terminal.printError(`${address.describe()}${caller ? `, acting as ${options.as}` : ''}\n`);
      return await run(program, args, variablesOf(address, caller));
    },
  );
}

function findPsql(env: Environment): string {
  const name = process.platform === 'win32' ? 'psql.exe' : 'psql';
  // The newest of the usual folders comes last; the one of PATH is what somebody chose.
  const found = foldersOf(env)
    .map((folder) => join(folder, name))
    .filter((path) => existsSync(path));
  const program = found.at(-1);
  if (program !== undefined) return program;
  throw failure(
    EXIT.badConfiguration,
    'there is no psql on this machine',
    'Install the client programs of PostgreSQL (Debian: postgresql-client), name their folder with SVC_PG_BIN, or take svc sql.',
  );
}

/** The password is in the environment of psql alone: not in the list of processes, and in no file. */
function variablesOf(address: DatabaseAddress, caller: CallerSettings | undefined): Record<string, string> {
  const variables = { ...libpqVariables(address), PGAPPNAME: 'svc-psql' };
  if (caller === undefined) return variables;
  const settings = { role: caller.role, 'request.jwt.claims': caller.claims };
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${escaped(value)}`);
  return { ...variables, PGOPTIONS: options.join(' ') };
}

/** For libpq, which splits at spaces. */
function escaped(value: string): string {
  return value.replaceAll(/[\\\s]/g, (character) => `\\${character}`);
}

/** Ctrl-C is for psql, which cancels a statement with it. */
async function run(
  program: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
): Promise<number> {
  const ignore = (): void => {};
  process.on('SIGINT', ignore);
  try {
    const child = spawn(program, args, {
      env: { ...withoutSecrets(process.env), ...variables },
      stdio: 'inherit',
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    return code ?? EXIT.problem;
  } finally {
    process.off('SIGINT', ignore);
  }
}

/** Programs that psql starts have no use for the keys of the service. */
function withoutSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(?:SVC_|AWS_|PG)/.test(name)));
}
