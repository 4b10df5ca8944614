// `svc restore`: a backup into an empty database and an empty store.
import { basename } from 'node:path';
import { Command } from 'commander';
import { readWholeManifest, type Manifest } from '../../backup/manifest.ts';
import type { OpenFile } from '../../backup/seal.ts';
import {
  assertKey,
  chooseBackup,
  openerOf,
  restoreBlobs,
  restoreDump,
  settle,
  verifyBackup,
} from '../../backup/restore.ts';
import { assertEmpty, markRestored, markRestoring } from '../../backup/restoring.ts';
import { loadRows } from '../../backup/rows/load-rows.ts';
import type { Config } from '../../config/config.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { asAdministrator, provisionRolesAlone } from '../../provision/provision.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import type { Backend } from '../../storage/backend/backend.ts';
import { createBackend } from '../../storage/storage.ts';
import { type Environment, requireKeys } from '../environment.ts';
import { asOwner, openDatabase } from '../migrate/database.ts';
import { loadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';
import { describe, targetOf } from './backup.ts';

type Options = { config?: string; identity?: string; dryRun?: boolean; keepMail?: boolean; json?: boolean };

export function restoreCommand(terminal: Terminal): Command {
  return new Command('restore')
    .description('put a backup into an empty database and an empty store')
    .argument('[backup]', 'the folder of the backups, or <folder>#<id>; SVC_BACKUP_TARGET')
    .option('-c, --config <file>', 'the configuration file')
    .option(
      '--identity <file>',
      'private keys of age, for a backup that is encrypted; SVC_BACKUP_IDENTITY_FILE',
    )
    .option('--dry-run', 'check the backup, the key and the database, and write nothing')
    .option('--keep-mail', 'send mails that were waiting then; they may have been sent since')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  SVC_DATABASE_URL=postgres://…/new_app svc restore /var/backups/svc\n\nNothing is ever overwritten: a database that has tables is refused.',
    )
    .action(async (named: string | undefined, options: Options) => await restore(named, options, terminal));
}

async function restore(named: string | undefined, options: Options, terminal: Terminal): Promise<void> {
  const { config, env, directory } = await loadServed(options, terminal);
  const [, place = named, id] = /^(.*)#([^#/]+)$/.exec(named ?? '') ?? [];
  const target = targetOf(place === undefined ? {} : { to: place }, env);
  const { current, previous } = environmentSecrets(requireKeys(env).secret, env);

  const folder = await chooseBackup(target, id);
  await verifyBackup(target, folder);
  const open = await openerOf(folder, options.identity ?? env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(folder, open);
  assertKey(manifest, [current, ...previous]);
  const backend = createBackend(config);
  const database = await openDatabase(env, directory, { orNew: true });
  const { addresses } = database;
  try {
    await asAdministrator(addresses, (admin) => assertEmpty(admin, basename(folder)));
    if (options.dryRun === true) {
      terminal.print(`${folder} can be restored: ${describe(manifest)}`);
      return;
    }
    const files = { target, backend };
    const keepMail = options.keepMail === true;
    const restored = await restoreInto({ folder, manifest, open, addresses, env, config, files, keepMail });
    const { mails } = restored;
    if (options.json) {
      terminal.print(
        JSON.stringify({ folder, files: restored.files, mails, takenAt: manifest.takenAt }, null, 2),
      );
      return;
    }
    terminal.print(`restored ${describe(manifest)}`);
    terminal.print(`What happened after ${manifest.takenAt} is missing.`);
    for (const one of manifest.beside) terminal.print(`not saved, so not here: ${one}`);
    if (mails > 0)
      terminal.print(`${mails} mails were waiting then and may have been sent since: they were dropped.`);
  } finally {
    backend.close();
    await database.close();
  }
}

type Restoring = {
  readonly folder: string;
  readonly manifest: Manifest;
  /** How its files are read; as they are when absent. */
  readonly open?: OpenFile;
  /** Of a database that is empty, or half restored. */
  readonly addresses: DatabaseAddresses;
  readonly env: Environment;
  readonly config: Config;
  /** Without them the backup has none, or they are there. */
  readonly files?: { readonly target: string; readonly backend: Backend };
  readonly keepMail: boolean;
};

type Restored = {
  readonly files: number;
  /** That waited then, and were dropped. */
  readonly mails: number;
};

export async function restoreInto(options: Restoring): Promise<Restored> {
  const { manifest, addresses, env, keepMail } = options;
  const files = await bring(options);
  const { mails } = await asOwner(addresses, env, { applicationName: 'svc-restore', max: 2 }, (owner) =>
    settle(owner, manifest, keepMail),
  );
  await asAdministrator(addresses, markRestored);
  return { files, mails };
}

/** Files first: rows name them. Answers how many. */
async function bring({ folder, manifest, open, addresses, env, config, files }: Restoring): Promise<number> {
  const bringFiles = async (): Promise<number> =>
    files === undefined ? 0 : (await restoreBlobs(files.target, folder, files.backend, open)).files;
  if (manifest.engine === 'pg_dump') {
    await provisionRolesAlone(addresses);
    const brought = await bringFiles();
    await restoreDump(folder, manifest, addresses.direct, env, open);
    return brought;
  }
  await asAdministrator(addresses, (admin) => markRestoring(admin, basename(folder)));
  return await asOwner(
    addresses,
    env,
    { applicationName: 'svc-restore', max: 3 },
    async (owner, _, roles) => {
      const brought = await bringFiles();
      await loadRows(folder, owner, roles.owner.direct, config, open);
      return brought;
    },
  );
}
