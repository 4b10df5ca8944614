// `svc psql`: opens PostgreSQL's psql on the project's database, as its owner or as any caller.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { toolFolders, libpqVariables } from '../../postgres/pg-tools.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadServed } from '../project/served-project.ts';
import type { Terminal } from '../terminal.ts';
import { callerNamed } from './caller.ts';

type Options = { config?: string; as: string };

export function psqlCommand(terminal: Terminal): Command {
  return new Command('psql')
    .description("open PostgreSQL's psql on the database, as the owner or as any caller")
    .argument('[arguments...]', 'arguments for psql, after --')
    .option('-c, --config <file>', 'the configuration file')
    .option('--as <caller>', 'owner, anon, service_role, or a user by address or id', 'owner')
    .addHelpText(
      'after',
      '\nExamples:\n  svc psql\n  svc psql --as ada@example.com\n' +
        "  svc psql -- -c 'select count(*) from notes'\n\n" +
        '--as shows what a caller sees. It is not a security boundary: psql can switch back to the owner. ' +
        'svc sql needs no psql.',
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
      return await run(program, args, psqlVariables(address, caller));
    },
  );
}

function findPsql(env: Environment): string {
  const name = process.platform === 'win32' ? 'psql.exe' : 'psql';
  // Folders are listed with the newest version last. A psql in PATH comes after them, because the user chose
  // it.
  const found = toolFolders(env)
    .map((folder) => join(folder, name))
    .filter((path) => existsSync(path));
  const program = found.at(-1);
  if (program !== undefined) return program;
  throw failure(
    EXIT.badConfiguration,
    'psql was not found',
    'Install the PostgreSQL client programs (Debian: postgresql-client), set SVC_PG_BIN to their folder, ' +
      'or use svc sql.',
  );
}

/**
 * Returns the environment of psql. Only this environment has the password: no process list and no file
 * contains it.
 */
function psqlVariables(address: DatabaseAddress, caller: CallerSettings | undefined): Record<string, string> {
  const variables = { ...libpqVariables(address), PGAPPNAME: 'svc-psql' };
  if (caller === undefined) return variables;
  const settings = { role: caller.role, 'request.jwt.claims': caller.claims };
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${escaped(value)}`);
  return { ...variables, PGOPTIONS: options.join(' ') };
}

/** Escapes a value for libpq, which splits at spaces. */
function escaped(value: string): string {
  return value.replaceAll(/[\\\s]/g, (character) => `\\${character}`);
}

/** Runs psql. Ignores Ctrl-C, because psql cancels a statement with it. */
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

/** Removes the keys of the service, which programs that psql starts do not need. */
function withoutSecrets(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(?:SVC_|AWS_|PG)/.test(name)));
}
