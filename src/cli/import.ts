// `svc import supabase`: moves a Supabase project into the database of SVC_DATABASE_URL, stage by stage.
import { Command } from 'commander';
import { environmentSecrets, Keyring } from '../identity/keyring.ts';
import { openBoxes } from '../auth/auth-context.ts';
import { copy } from '../import/copy.ts';
import { readSourceKeys } from '../import/encrypted-value.ts';
import type { Secrets } from '../import/users.ts';
import type { Changes } from '../import/write-users.ts';
import { makeReport, readTargetFacts, type Line, type Report } from '../import/report.ts';
import { inOneTransaction, readSource } from '../import/source.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { databaseAddresses } from '../postgres/address/database-addresses.ts';
import { parseAddress } from '../postgres/address/parse-address.ts';
import { requireDatabase, requireKeys, type Environment } from './environment.ts';
import { EXIT, failure } from './exit.ts';
import { withOwner } from './migrate/database.ts';
import type { Terminal } from './terminal.ts';

type SourceOptions = { from?: string; json?: boolean };

const SOURCE_VARIABLE = 'SVC_IMPORT_SOURCE_URL';
/** Where the operator of the source has switched encryption in its database on. */
const KEYS_VARIABLE = 'SVC_IMPORT_ENCRYPTION_KEYS';

/** `environment` is read when a command runs. */
export function importCommand(terminal: Terminal, environment: () => Environment): Command {
  const supabase = new Command('supabase').description('move a Supabase project into SVC_DATABASE_URL');
  supabase.addCommand(
    withSource('report', 'what would move, what stays behind and why; changes nothing')
      .option('--json', 'as JSON')
      .action(async (options: SourceOptions) => {
        const env = environment();
        const report = await readReport(sourceAddress(options, env), databaseAddresses(env)?.direct);
        terminal.print(options.json ? JSON.stringify(report, undefined, 2) : describeReport(report));
      }),
    { isDefault: true },
  );
  supabase.addCommand(
    withSource('copy', 'take over what differs from the source; repeat it as often as you like').action(
      async (options: SourceOptions) => {
        const env = environment();
        const source = sourceAddress(options, env);
        requireDatabase(env);
        const changes = await withTarget(env, (target, secrets) => copy({ source, target, secrets }));
        terminal.print(changes.map(describeChanges).join('\n'));
      },
    ),
  );
  return new Command('import').description('move a project of another product here').addCommand(supabase);
}

function withSource(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--from <address>', `database of the project, without its password; else ${SOURCE_VARIABLE}`);
}

async function withTarget<T>(
  env: Environment,
  work: (target: DatabaseAddress, secrets: Secrets) => Promise<T>,
): Promise<T> {
  const keys = env[KEYS_VARIABLE];
  const sourceKeys = keys ? readSourceKeys(keys, KEYS_VARIABLE) : new Map<string, Buffer>();
  const options = { applicationName: 'svc-import', max: 2 };
  return await withOwner(env, process.cwd(), options, async (owner, _admin, own) => {
    const keyring = await Keyring.open(owner, environmentSecrets(requireKeys(env).secret, env));
    return await work(own, { sourceKeys, boxes: openBoxes(keyring) });
  });
}

function describeChanges({ kind, added, changed, removed }: Changes): string {
  const name = NAMES[kind] ?? kind;
  if (added + changed + removed === 0) return `${name}: nothing new`;
  return `${name}: ${added} added, ${changed} changed, ${removed} removed`;
}

const NAMES: Readonly<Record<string, string>> = {
  user: 'users',
  password: 'passwords',
  identity: 'identities',
  factor: 'second factors',
  session: 'sessions',
  method: 'how sessions were opened',
  sequence: 'sequences',
};

/** Arguments are seen by everybody on the machine, so the password comes from the environment. */
function sourceAddress({ from }: SourceOptions, env: Environment): DatabaseAddress {
  const text = from ?? env[SOURCE_VARIABLE];
  if (!text) {
    throw failure(
      EXIT.misuse,
      'Which project is meant?',
      `Put its connection string into ${SOURCE_VARIABLE}: Supabase shows it under Connect → Session pooler.`,
    );
  }
  if (from !== undefined && /:\/\/[^/@]*:[^/@]+@|password\s*=/.test(from)) {
    throw failure(
      EXIT.misuse,
      '--from has a password, which other users of this machine can read',
      `Put the whole address into ${SOURCE_VARIABLE}, or the password into PGPASSWORD.`,
    );
  }
  return parseAddress(text, { name: from === undefined ? SOURCE_VARIABLE : '--from', env });
}

async function readReport(source: DatabaseAddress, target: DatabaseAddress | undefined): Promise<Report> {
  const facts = target && (await inOneTransaction(target, 'read only', readTargetFacts));
  return await readSource(source, (database) => makeReport(database, facts));
}

function describeReport({ moves, decide, stays }: Report): string {
  return [
    section('Moves', moves),
    section('To decide', decide),
    section('Stays behind', stays),
    'Nothing was changed.',
  ]
    .filter((text) => text !== '')
    .join('\n\n');
}

function section(title: string, lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  return [title, ...lines.map(describeLine)].join('\n');
}

function describeLine({ what, count, why }: Line): string {
  return `  ${count === undefined ? '' : `${count} `}${what}${why === undefined ? '' : `: ${why}`}`;
}
