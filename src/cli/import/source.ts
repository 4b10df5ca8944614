// Both databases of an import: the project or a dump of it, and the database of SVC_DATABASE_URL.
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { openBoxes } from '../../auth/auth-context.ts';
import { environmentSecrets, Keyring } from '../../identity/keyring.ts';
import type { CopyOptions } from '../../import/copy.ts';
import { type DumpOptions, restoreDump } from '../../import/dump.ts';
import { readSourceKeys, type SourceKeys } from '../../import/encrypted-value.ts';
import { checkSource } from '../../import/source.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { parseAddress } from '../../postgres/address/parse-address.ts';
import { requireDatabase, requireKeys, type Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import type { Terminal } from '../terminal.ts';
import { describeRestored } from './describe.ts';

export type SourceOptions = { from?: string };

/** Input of each command. The environment is read when the command runs. */
export type ImportContext = { readonly terminal: Terminal; readonly environment: () => Environment };

const SOURCE_VARIABLE = 'SVC_IMPORT_SOURCE_URL';
/** Encryption keys of the source, for projects whose operator encrypts values in the database. */
const KEYS_VARIABLE = 'SVC_IMPORT_ENCRYPTION_KEYS';

export const OWNER = { applicationName: 'svc-import', max: 2 };

export function withSource(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option(
      '--from <address>',
      `database of the project, without its password, or a dump (default: ${SOURCE_VARIABLE})`,
    );
}

/** Opens both ends and runs `work` between them. */
export async function onBoth<T>(
  options: SourceOptions,
  env: Environment,
  terminal: Terminal,
  work: (both: CopyOptions) => Promise<T>,
): Promise<T> {
  const source = await sourceAddress(options, env, terminal);
  requireDatabase(env);
  const sourceKeys = readKeys(env);
  await checkSource(source);
  return await withOwner(env, process.cwd(), OWNER, async (owner, _admin, { owner: { direct: target } }) => {
    const keyring = await Keyring.open(owner, environmentSecrets(requireKeys(env).secret, env));
    return await work({ source, target, secrets: { sourceKeys, boxes: openBoxes(keyring) } });
  });
}

export function readKeys(env: Environment): SourceKeys {
  const keys = env[KEYS_VARIABLE];
  return keys ? readSourceKeys(keys, KEYS_VARIABLE) : new Map<string, Buffer>();
}

export function requireYes({ yes }: { readonly yes?: boolean }, consequence: string): void {
  if (yes !== true) throw failure(EXIT.misuse, consequence, 'Add --yes to do it.');
}

/**
 * Returns the address of the source. Restores a dump first. Rejects a password in an argument, because other
 * users of the machine can read arguments.
 */
export async function sourceAddress(
  { from }: SourceOptions,
  env: Environment,
  terminal: Terminal,
): Promise<DatabaseAddress> {
  const text = from ?? env[SOURCE_VARIABLE];
  if (!text) {
    throw failure(
      EXIT.misuse,
      'the source project is missing',
      `Set ${SOURCE_VARIABLE} to its connection string, ` +
        'which Supabase shows under Connect → Session pooler. For a dump: --from project.dump',
    );
  }
  if (existsSync(text)) {
    const { address, refused } = await restoreDump(text, dumpOptions(env));
    if (refused) terminal.printError(`${describeRestored(text, address, refused)}\n`);
    return address;
  }
  if (from !== undefined && /:\/\/[^/@]*:[^/@]+@|password\s*=/.test(from)) {
    throw failure(
      EXIT.misuse,
      '--from contains a password, which other users of this machine can read',
      `Set ${SOURCE_VARIABLE} to the whole address, or PGPASSWORD to the password.`,
    );
  }
  const name = from === undefined ? SOURCE_VARIABLE : '--from';
  const address = parseAddress(text, { name, env });
  // This text is the end of a password with a slash, so messages must not show it.
  if (address.database.includes('@'))
    throw failure(
      EXIT.misuse,
      `${name} has an @ in the name of its database`,
      'Write @ : / ? # in a password as %40 %3A %2F %3F %23.',
    );
  return address;
}

export function dumpOptions(env: Environment): DumpOptions {
  return { server: requireDatabase(env).direct, env };
}
