// `svc keys`: creates a pair of API keys, prints it once and stores it nowhere; the operator keeps it. The sub-commands
// manage the keys that sign access tokens. Those are stored in the database, so all running instances follow a change.
import { readFile } from 'node:fs/promises';
import { Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { generateApiKeys } from '../../identity/api-key.ts';
import { isDatabaseRole } from '../../identity/claims.ts';
import { KeyAliases } from '../../identity/key-aliases.ts';
import { environmentSecrets, Keyring, type KeyringSecrets } from '../../identity/keyring.ts';
import { SigningKeys, STANDBY_MINUTES } from '../../identity/signing-keys.ts';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { requireKeys, type Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const PAIR = z.strictObject({ publishable: z.string(), secret: z.string() });
const NEXT_KEY = z.strictObject({ kid: z.string(), signs_in_minutes: z.int() });
const KEYS = z.strictObject({
  keys: z.array(
    z.strictObject({
      kid: z.string(),
      alg: z.string(),
      state: z.string(),
      imported: z.boolean(),
      roles: z.array(z.string()).nullable(),
      created_at: z.iso.datetime(),
    }),
  ),
});
const KID = z.strictObject({ kid: z.string() });
const ACCEPTED = z.strictObject({ kid: z.string(), roles: z.array(z.string()) });
const ALIAS = z.strictObject({ id: z.string(), accept_until: z.iso.datetime() });
const ALIASES = z.strictObject({
  aliases: z.array(
    z.strictObject({
      id: z.string(),
      accept_until: z.iso.datetime(),
      is_over: z.boolean(),
      last_used_on: z.string().nullable(),
    }),
  ),
});
const REMOVED = z.strictObject({ id: z.string() });
const RESET = z.strictObject({ reset: z.boolean() });

/** Returns the command. `environment` reads the process environment and the env file when a command runs. */
export function keysCommand(terminal: Terminal, environment: () => Environment): Command {
  const command = new Command('keys')
    .description('create a pair of API keys; the sub-commands manage the keys that sign tokens')
    .addHelpText(
      'after',
      '\nExample:\n  svc keys >> .production.env\n\n' +
        'The publishable key can be used in a browser. ' +
        'The secret key bypasses row-level security: keep it on servers.',
    );
  reporting(command, terminal, PAIR, async (out) => {
    const { publishable, secret } = generateApiKeys();
    out.print(`SVC_PUBLISHABLE_KEY=${publishable}\nSVC_SECRET_KEY=${secret}`);
    return { data: { publishable, secret } };
  });
  for (const child of keyringCommands(terminal, environment)) command.addCommand(child);
  return command;
}

function keyringCommands(terminal: Terminal, environment: () => Environment): Command[] {
  return [rotateCommand, listCommand, revokeCommand, importCommand, aliasCommand, resetCommand].map(
    (command) => command(terminal, environment),
  );
}

function rotateCommand(terminal: Terminal, environment: () => Environment): Command {
  return reporting(
    new Command('rotate')
      .description('create the next signing key; all users stay signed in')
      .option('--now', 'sign with it immediately, before other services have cached it'),
    terminal,
    NEXT_KEY,
    async (out, options: { now?: boolean }) =>
      await withKeys(environment(), async (keys) => {
        const kid = await keys.rotate(options.now ? 'now' : 'after-standby');
        out.print(
          options.now
            ? `Key ${kid} signs from now on. Tokens of the earlier key stay valid until they expire.`
            : `Key ${kid} is published and signs in ${STANDBY_MINUTES} minutes. ` +
                'Tokens of the earlier key stay valid until they expire.',
        );
        return { data: { kid, signs_in_minutes: options.now ? 0 : STANDBY_MINUTES } };
      }),
  );
}

function listCommand(terminal: Terminal, environment: () => Environment): Command {
  return reporting(
    new Command('list').description('show the signing keys'),
    terminal,
    KEYS,
    async (out) =>
      await withKeys(environment(), async (keys) => {
        const all = await keys.list();
        for (const key of all) {
          const origin = key.imported ? `, imported for ${(key.roles ?? ['users']).join(' and ')}` : '';
          out.print(`${key.kid}  ${key.alg}  ${key.state}${origin}, created ${key.created_at.toISOString()}`);
        }
        const listed = all.map(({ kid, alg, state, imported, roles, created_at: at }) => ({
          kid,
          alg,
          state,
          imported,
          roles: roles && [...roles],
          created_at: at.toISOString(),
        }));
        return { data: { keys: listed } };
      }),
  );
}

function revokeCommand(terminal: Terminal, environment: () => Environment): Command {
  return reporting(
    new Command('revoke')
      .description(
        'revoke a signing key immediately: its tokens stop working, and sessions continue after a refresh',
      )
      .argument('<kid>'),
    terminal,
    KID,
    async (out, kid: string) => {
      await withKeys(environment(), async (keys) => await keys.revoke(kid));
      out.print(`Key ${kid} is revoked.`);
      return { data: { kid } };
    },
  );
}

function importCommand(terminal: Terminal, environment: () => Environment): Command {
  const importKey = new Command('import')
    .description('accept the tokens of another product, by its shared secret (HS256) or its public JWK')
    .option('--secret-file <path>', 'file with the shared secret')
    .option('--jwk-file <path>', 'file with the public key as a JWK')
    .option(
      '--roles <list>',
      'roles that its tokens may have; service_role bypasses all policies',
      'authenticated,anon',
    );
  return reporting(
    importKey,
    terminal,
    ACCEPTED,
    async (out, options: { secretFile?: string; jwkFile?: string; roles: string }) => {
      const { secretFile, jwkFile } = options;
      const file = secretFile ?? jwkFile;
      if (file === undefined || (secretFile !== undefined && jwkFile !== undefined)) {
        throw failure(EXIT.misuse, 'use either --secret-file or --jwk-file');
      }
      const text = (await readFile(file, 'utf8')).trim();
      const imported = secretFile === undefined ? { jwk: parseJwk(text, file) } : { sharedSecret: text };
      return await withKeys(environment(), async (keys) => {
        const roles = parseRoles(options.roles);
        const kid = await keys.importKey(imported, roles);
        out.print(`Key ${kid} is accepted for ${roles.join(' and ')} until you revoke it.`);
        return { data: { kid, roles } };
      });
    },
  );
}

const ALIAS_DAYS = 90;
const MAX_ALIAS_DAYS = 366;

/** `svc keys alias`: accepts publishable keys of a previous product, for clients that are not updated yet. */
function aliasCommand(terminal: Terminal, environment: () => Environment): Command {
  const alias = new Command('alias').description(
    'accept the publishable key of a previous product in addition to your own, for a limited time',
  );
  const withAliases = async <T>(work: (aliases: KeyAliases) => Promise<T>): Promise<T> =>
    await withDatabase(environment(), (db) => work(new KeyAliases(db)));
  const add = alias
    .command('add')
    .description(
      'accept the anon key or sb_publishable_ key of a Supabase project; run it again to change the end',
    )
    .requiredOption('--key-file <path>', 'file with the key')
    .option('--days <number>', 'number of days', parseDays, ALIAS_DAYS);
  reporting(add, terminal, ALIAS, async (out, options: { keyFile: string; days: number }) => {
    const key = (await readFile(options.keyFile, 'utf8')).trim();
    return await withAliases(async (aliases) => {
      const { id, accept_until: until } = await aliases.add(key, options.days);
      out.print(`Alias ${id} is accepted as the publishable key until ${until.toISOString()}.`);
      return { data: { id, accept_until: until.toISOString() } };
    });
  });
  const list = alias
    .command('list', { isDefault: true })
    .description('show the aliases and when each was last used');
  reporting(
    list,
    terminal,
    ALIASES,
    async (out) =>
      await withAliases(async (aliases) => {
        const all = await aliases.list();
        for (const { id, accept_until: until, is_over: isOver, last_used_on: day } of all) {
          const used = day === null ? 'never used' : `last used on ${day}`;
          out.print(`${id}  ${isOver ? 'ended' : 'accepted until'} ${until.toISOString()}, ${used}`);
        }
        const listed = all.map(({ id, accept_until: until, is_over: isOver, last_used_on: day }) => ({
          id,
          accept_until: until.toISOString(),
          is_over: isOver,
          last_used_on: day,
        }));
        return { data: { aliases: listed } };
      }),
  );
  const remove = alias.command('remove').description('remove an alias immediately').argument('<id>');
  reporting(remove, terminal, REMOVED, async (out, id: string) => {
    await withAliases(async (aliases) => await aliases.remove(id));
    out.print(`Alias ${id} is removed.`);
    return { data: { id } };
  });
  return alias;
}

function parseDays(text: string): number {
  const days = Number(text);
  if (/^\d+$/.test(text) && days >= 1 && days <= MAX_ALIAS_DAYS) return days;
  throw new InvalidArgumentError(`expected a number from 1 to ${MAX_ALIAS_DAYS}.`);
}

/** `svc keys reset`: creates a new keyring after the secret that sealed the old one is lost. */
function resetCommand(terminal: Terminal, environment: () => Environment): Command {
  const command = new Command('reset')
    .description(
      'create a new keyring after the secret of the old one is lost: ' +
        'signs out all users and makes second factors unusable',
    )
    .option('--yes', 'confirm the reset');
  return reporting(command, terminal, RESET, async (out, options: { yes?: boolean }) => {
    if (!options.yes) {
      throw failure(
        EXIT.misuse,
        'this signs out all users and makes all second factors unusable',
        'Add --yes to continue. If you still have the previous secret, set SVC_SECRET_KEY_PREVIOUS instead.',
      );
    }
    const env = environment();
    await withDatabase(env, async (db) => {
      await Keyring.open(db, keyringSecrets(env), 'replace');
    });
    out.print(
      'Created a new keyring. Users must sign in again. ' +
        'An admin must remove second factors before users enroll them again.',
    );
    return { data: { reset: true } };
  });
}

async function withKeys<T>(env: Environment, work: (keys: SigningKeys) => Promise<T>): Promise<T> {
  return await withDatabase(env, async (db) => {
    const keyring = await Keyring.open(db, keyringSecrets(env));
    const keys = new SigningKeys(db, keyring.box('signing keys'));
    await keys.load();
    return await work(keys);
  });
}

async function withDatabase<T>(env: Environment, work: (db: OwnerDatabase) => Promise<T>): Promise<T> {
  return await withOwner(env, process.cwd(), { applicationName: 'svc-keys', max: 2 }, work);
}

function keyringSecrets(env: Environment): KeyringSecrets {
  return environmentSecrets(requireKeys(env).secret, env);
}

function parseRoles(text: string): DatabaseRole[] {
  return text.split(',').map((part) => {
    const role = part.trim();
    if (isDatabaseRole(role)) return role;
    const hint = 'Use one or more of authenticated, anon and service_role, separated by commas.';
    throw failure(EXIT.misuse, `--roles: ${JSON.stringify(role)} is not a role`, hint);
  });
}

function parseJwk(text: string, file: string): Record<string, string> {
  try {
    return JSON.parse(text) as Record<string, string>;
  } catch {
    const hint = 'A public key in JWK form looks like {"kty":"EC", …}.';
    throw failure(EXIT.problem, `${file} is not valid JSON`, hint);
  }
}
