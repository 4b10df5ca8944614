// `svc backup`: the database and the stored files at one moment, into a folder.
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { makeBackup } from '../../backup/backup.ts';
import { listBackups, type Manifest, readManifest } from '../../backup/manifest.ts';
import { chooseBackup, verifyBackup } from '../../backup/restore.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { approximateBytes } from '../../lib/bytes.ts';
import { raw } from '../../postgres/sql.ts';
import { createBackend } from '../../storage/storage.ts';
import { verifyLocation } from '../../storage/backend/location.ts';
import { requireKeys } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';

type Options = {
  config?: string;
  to?: string;
  engine: Engine;
  skipMissing?: boolean;
  allowMissing?: boolean;
  json?: boolean;
};

type Engine = 'auto' | 'pg_dump' | 'copy';

export function backupCommand(terminal: Terminal): Command {
  const command = new Command('backup')
    .description('save the database and the stored files of one moment; everything goes on meanwhile')
    .option('-c, --config <file>', 'the configuration file')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .addOption(
      new Option('--engine <name>', 'who saves the database: pg_dump, or svc itself where there is none')
        .choices(['auto', 'pg_dump', 'copy'])
        .default('auto'),
    )
    .option('--allow-missing', 'go on without things that only pg_dump saves, and name them')
    .option('--skip-missing', 'go on without files whose bytes are gone, and name them')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  svc backup --to /var/backups/svc\n\nIt runs pg_dump where that is of the version of the server or newer; without it svc saves what svc.yaml declares. Secrets of the environment are not in it: keep SVC_SECRET_KEY elsewhere.',
    )
    .action(async (options: Options) => await backup(options, terminal));
  command
    .command('list')
    .description('name the backups of a folder, oldest first')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .option('--json', 'print them as JSON')
    .action(async (own: Options, { parent }: Command) => {
      const options = { ...parent?.opts<Options>(), ...own };
      const target = targetOf(options, process.env);
      const found: Array<{ readonly id: string; readonly manifest: Manifest }> = [];
      for (const id of await listBackups(target))
        found.push({ id, manifest: await readManifest(join(target, 'backups', id)) });
      if (options.json)
        terminal.print(
          JSON.stringify(
            found.map(({ id, manifest }) => ({ id, ...manifest, rows: undefined })),
            null,
            2,
          ),
        );
      else if (found.length === 0) terminal.print(`no whole backup in ${target}`);
      else terminal.print(found.map(({ id, manifest }) => `${id}  ${describe(manifest)}`).join('\n'));
    });
  command
    .command('verify')
    .description('read every byte of a backup and compare it with what was written')
    .argument('[id]', 'which one; the newest when absent')
    .option('--to <folder>', 'where backups are kept; SVC_BACKUP_TARGET')
    .action(async (id: string | undefined, own: Options, { parent }: Command) => {
      const target = targetOf({ ...parent?.opts<Options>(), ...own }, process.env);
      const folder = await chooseBackup(target, id);
      terminal.print(`${folder} is whole: ${describe(await verifyBackup(target, folder))}`);
    });
  return command;
}

async function backup(options: Options, terminal: Terminal): Promise<void> {
  const { config, env, directory } = await loadServed(options, terminal);
  const target = targetOf(options, env);
  const { current: secret } = environmentSecrets(requireKeys(env).secret, env);
  const backend = createBackend(config);
  const result = await withOwner(
    env,
    directory,
    { applicationName: 'svc-backup', max: 3 },
    async (owner, admin, roles) => {
      const own = roles.owner.direct;
      await verifyLocation(owner, backend);
      // A superuser reads everything; any other administrator less than the owner.
      const [row] = await owner.query<{ superuser: boolean }>(
        raw(
          `select rolsuper as superuser from pg_roles where rolname = '${admin.user.replaceAll("'", "''")}'`,
        ),
      );
      return await makeBackup({
        target,
        owner,
        address: row?.superuser ? admin : own,
        ownAddress: own,
        engine: options.engine,
        backend,
        config,
        secret,
        env,
        skipMissing: options.skipMissing === true,
        allowMissing: options.allowMissing === true,
      });
    },
  ).finally(() => backend.close());
  const { id, folder, manifest, copied } = result;
  if (options.json) {
    terminal.print(JSON.stringify({ id, folder, copied, ...manifest, rows: undefined }, null, 2));
    return;
  }
  terminal.print(`${id}  ${describe(manifest)}, ${copied} of the files new here`);
  for (const one of manifest.beside) terminal.printError(`not saved without pg_dump: ${one}\n`);
  for (const path of manifest.blobs.missing) terminal.printError(`without its bytes: ${path}\n`);
}

export function targetOf(
  { to }: { readonly to?: string },
  env: Readonly<Record<string, string | undefined>>,
): string {
  const named = to ?? env['SVC_BACKUP_TARGET'];
  if (named === undefined || named === '')
    throw failure(
      EXIT.misuse,
      'no folder for backups is named',
      'Say --to <folder>, or set SVC_BACKUP_TARGET.',
    );
  if (/^\w+:\/\//.test(named))
    throw failure(
      EXIT.misuse,
      `${named} is no folder`,
      'Back up into a folder, and copy that where you like.',
    );
  return resolve(named);
}

export function describe({ takenAt, postgres, rows, blobs, parts }: Manifest): string {
  const total = Object.values(rows).reduce((sum, one) => sum + one, 0);
  const bytes = Object.values(parts).reduce((sum, one) => sum + one.bytes, 0);
  return `${takenAt}, PostgreSQL ${Math.floor(postgres / 10_000)}, ${total} rows (${approximateBytes(bytes)}), ${blobs.count} files (${approximateBytes(blobs.bytes)})`;
}
