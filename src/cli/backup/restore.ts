// `svc restore`: a backup into an empty database and an empty store.
import { Command } from 'commander';
import {
  assertEmpty,
  assertKey,
  chooseBackup,
  restoreBlobs,
  restoreDatabase,
  settle,
  verifyBackup,
} from '../../backup/restore.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { asAdministrator, provisionRolesAlone } from '../../provision/provision.ts';
import { createBackend } from '../../storage/storage.ts';
import { requireDatabase, requireKeys } from '../environment.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project.ts';
import type { Terminal } from '../terminal.ts';
import { describe, targetOf } from './backup.ts';

type Options = { config?: string; dryRun?: boolean; keepMail?: boolean; json?: boolean };

export function restoreCommand(terminal: Terminal): Command {
  return new Command('restore')
    .description('put a backup into an empty database and an empty store')
    .argument('[backup]', 'the folder of the backups, or <folder>#<id>; SVC_BACKUP_TARGET')
    .option('-c, --config <file>', 'the configuration file')
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
  const { config, env, directory } = await loadProject({ ...options, mode: 'production' }, terminal);
  const [, place = named, id] = /^(.*)#([^#/]+)$/.exec(named ?? '') ?? [];
  const target = targetOf(place === undefined ? {} : { to: place }, env);
  const addresses = requireDatabase(env);
  const { current, previous } = environmentSecrets(requireKeys(env).secret, env);

  const folder = await chooseBackup(target, id);
  const manifest = await verifyBackup(target, folder);
  assertKey(manifest, [current, ...previous]);
  await asAdministrator(addresses, assertEmpty);
  if (options.dryRun === true) {
    terminal.print(`${folder} can be restored: ${describe(manifest)}`);
    return;
  }
  await provisionRolesAlone(addresses);
  const backend = createBackend(config);
  try {
    const { files } = await restoreBlobs(target, folder, backend);
    await restoreDatabase(folder, manifest, addresses.direct, env);
    const { mails } = await withOwner(env, directory, { applicationName: 'svc-restore', max: 2 }, (owner) =>
      settle(owner, manifest, options.keepMail === true),
    );
    if (options.json) {
      terminal.print(JSON.stringify({ folder, files, mails, takenAt: manifest.takenAt }, null, 2));
      return;
    }
    terminal.print(`restored ${describe(manifest)}`);
    terminal.print(`What happened after ${manifest.takenAt} is missing.`);
    if (mails > 0)
      terminal.print(`${mails} mails were waiting then and may have been sent since: they were dropped.`);
  } finally {
    backend.close();
  }
}
