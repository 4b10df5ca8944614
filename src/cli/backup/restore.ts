// `svc restore`: a backup into an empty database and an empty store.
import { basename } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { readWholeManifest } from '../../backup/manifest.ts';
import { assertKey, chooseBackup, openerOf, verifyBackup } from '../../backup/restore.ts';
import { assertEmpty } from '../../backup/restoring.ts';
import { environmentSecrets } from '../../identity/keyring.ts';
import { parseDuration } from '../../lib/duration.ts';
import { asAdministrator } from '../../provision/provision.ts';
import { createBackend } from '../../storage/storage.ts';
import { requireKeys } from '../environment.ts';
import { openDatabase } from '../migrate/database.ts';
import { loadServed } from '../served-project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { targetOf } from './place.ts';
import { restoreInto } from './restore-into.ts';
import { describe, SUMMARY, summaryOf } from './summary.ts';

const RESTORED = z.strictObject({
  target: z.string(),
  backup: SUMMARY,
  restored: z
    .strictObject({
      files: z.int(),
      mails: z.int().describe('that were waiting then, and were dropped'),
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
  if (ms === undefined) throw new InvalidArgumentError('expected a duration, such as 7d; 0s is at once.');
  return ms;
}

export function restoreCommand(terminal: Terminal): Command {
  const command = new Command('restore')
    .description('put a backup into an empty database and an empty store')
    .argument('[backup]', 'where the backups are, or <place>#<id>; SVC_BACKUP_TARGET')
    .option('-c, --config <file>', 'the configuration file')
    .option(
      '--identity <file>',
      'private keys of age, for a backup that is encrypted; SVC_BACKUP_IDENTITY_FILE',
    )
    .option('--dry-run', 'check the backup, the key and the database, and write nothing')
    .option(
      '--sweep-after <duration>',
      'how long files that no row names stay: they may be newer than the backup',
      parseSweepAfter,
      parseSweepAfter('7d'),
    )
    .option('--keep-mail', 'send mails that were waiting then; they may have been sent since')
    .addHelpText(
      'after',
      '\nExample:\n  SVC_DATABASE_URL=postgres://…/new_app svc restore /var/backups/svc\n\nNothing is ever overwritten: a database that has tables is refused.',
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
  const target = await targetOf(place === undefined ? {} : { to: place }, env);
  const { current, previous } = environmentSecrets(requireKeys(env).secret, env);

  const folder = await chooseBackup(target, id);
  await verifyBackup(target, folder);
  const open = await openerOf(target, folder, options.identity ?? env['SVC_BACKUP_IDENTITY_FILE']);
  const manifest = await readWholeManifest(target, folder, open);
  assertKey(manifest, [current, ...previous]);
  const backend = createBackend(config);
  const database = await openDatabase(env, directory, { orNew: true });
  const { addresses } = database;
  const about = { target: target.name, backup: summaryOf(basename(folder), manifest) };
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
    terminal.print(`What happened after ${manifest.takenAt} is missing.`);
    for (const one of manifest.beside) terminal.print(`not saved, so not here: ${one}`);
    if (mails > 0)
      terminal.print(`${mails} mails were waiting then and may have been sent since: they were dropped.`);
    return { data: { ...about, restored } };
  } finally {
    backend.close();
    target.close();
    await database.close();
  }
}
