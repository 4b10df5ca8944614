// `svc restore`: restores a backup into an empty database and an empty store.
import { basename } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { readWholeManifest } from '../../backup/manifest.ts';
import { assertKey, chooseBackup, createOpener, verifyBackup } from '../../backup/restore.ts';
import { assertEmpty } from '../../backup/restoring.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { parseDuration } from '../../lib/duration.ts';
import { asAdministrator } from '../../provision/provision.ts';
import { createBackend } from '../../storage/storage.ts';
import { requireKeys } from '../environment.ts';
import { openDatabase } from '../migrate/database.ts';
import { loadServed } from '../project/served-project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { openBackupTarget } from './choose-target.ts';
import { restoreInto } from './restore-into.ts';
import { describe, SUMMARY, summarize } from './summary.ts';

const RESTORED = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  restored: z
    .strictObject({
      files: z.int(),
      mails: z.int().describe('queued mails that were dropped'),
    })
    .nullable()
    .describe('null with --dry-run'),
});

type Options = {
  config?: string;
  identity?: string;
  dryRun?: boolean;
  keepMail?: boolean;
  sweepAfter: number;
};

function parseSweepAfter(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined)
    throw new InvalidArgumentError('expected a duration, such as 7d; 0s means immediately.');
  return ms;
}

export function restoreCommand(terminal: Terminal): Command {
  const command = new Command('restore')
    .description('restore a backup into an empty database and an empty store')
    .argument('[backup]', 'target for backups, or <target>#<id> (default: SVC_BACKUP_TARGET)')
    .option('-c, --config <file>', 'the configuration file')
    .option(
      '--identity <file>',
      'file with private keys of age, for an encrypted backup (default: SVC_BACKUP_IDENTITY_FILE)',
    )
    .option('--dry-run', 'check the backup, the key and the database without writing')
    .option(
      '--sweep-after <duration>',
      'time to keep files without a row, which may be newer than the backup',
      parseSweepAfter,
      parseSweepAfter('7d'),
    )
    .option('--keep-mail', 'send mails that were queued; they may have been sent since the backup')
    .addHelpText(
      'after',
      '\nExample:\n  SVC_DATABASE_URL=postgres://…/new_app svc restore /var/backups/svc\n\n' +
        'svc restore never overwrites data: it rejects a database with tables.',
    );
  return reporting(
    command,
    terminal,
    RESTORED,
    async (out, named: string | undefined, options: Options) => await restore(named, options, out),
  );
}

async function restore(
  named: string | undefined,
  options: Options,
  terminal: Terminal,
): Promise<Findings<z.input<typeof RESTORED>>> {
  const { config, env, directory } = await loadServed(options, terminal);
  const [, place = named, id] = /^(.*)#([^#/]+)$/.exec(named ?? '') ?? [];
  const target = await openBackupTarget(place === undefined ? {} : { to: place }, env);
  const { current, previous } = environmentSecrets(requireKeys(env).secret, env);

  const folder = await chooseBackup(target, id);
  await verifyBackup(target, folder);
  const open = await createOpener(target, folder, options.identity ?? env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(target, folder, open);
  assertKey(manifest, [current, ...previous]);
  const backend = createBackend(config);
  const database = await openDatabase(env, directory, { orNew: true });
  const { addresses } = database;
  const about = { target: target.name, backup: summarize(basename(folder), manifest) };
  try {
    await asAdministrator(addresses, (admin) => assertEmpty(admin, basename(folder)));
    if (options.dryRun === true) {
      terminal.print(`${target.name}/${folder} can be restored: ${describe(manifest)}`);
      return { data: { ...about, restored: null } };
    }
    const files = { target, backend };
    const settling = { keepMail: options.keepMail === true, sweepAfterMs: options.sweepAfter };
    const restored = await restoreInto({ folder, manifest, open, addresses, env, config, files, settling });
    const { mails } = restored;
    terminal.print(`restored ${describe(manifest)}`);
    terminal.print(`Changes after ${manifest.takenAt} are missing.`);
    for (const object of manifest.beside) terminal.print(`not in the backup: ${object}`);
    if (mails > 0)
      terminal.print(`${mails} queued mails were dropped, because they may have been sent since the backup.`);
    return { data: { ...about, restored } };
  } finally {
    backend.close();
    target.close();
    await database.close();
  }
}
